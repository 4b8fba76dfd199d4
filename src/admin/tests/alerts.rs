//! The alert rules that are shipped: whatever they name exists.

use std::collections::BTreeSet;

use crate::telemetry::metrics::{Answered, Metrics, RouteLabels};

const RULES: &str = include_str!("../../../config/prometheus/alerts.yaml");

/// Everything that looks like the name of a metric of ours.
fn named(text: &str) -> BTreeSet<&str> {
    let is_part = |c: char| c.is_ascii_lowercase() || c == '_';
    text.split(|c| !is_part(c))
        .filter(|word| word.starts_with("fencepost_"))
        .collect()
}

#[test]
fn every_metric_that_an_alert_names_exists() {
    let metrics = Metrics::new();
    // Families without labels have no line before something is counted.
    metrics.unsettled(&[], None);
    metrics.key_lifetime_left(Some(crate::protocol::time::Millis(1)));
    metrics.operation_ended(&RouteLabels::new("r", "u"), Answered::Applied);
    let text = metrics.text().unwrap();
    let shown: BTreeSet<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['{', ' ']).next())
        .collect();
    let expressions: Vec<&str> = RULES
        .lines()
        .filter_map(|line| line.trim().strip_prefix("expr: "))
        .collect();
    assert_eq!(expressions.len(), RULES.matches("- alert: ").count());
    for expression in expressions {
        let names = named(expression);
        assert!(!names.is_empty(), "{expression}");
        for name in names {
            assert!(shown.contains(name), "{name} in {expression}: {shown:#?}");
        }
    }
    for what in ["contradictions", "key_lifetime_left", "NEEDS_ATTENTION"] {
        assert!(RULES.contains(what), "nothing alerts of {what}");
    }
}
