//! Names and labels, as they are scraped.

use super::*;

fn lines(metrics: &Metrics) -> Vec<String> {
    let text = metrics.text().unwrap();
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(str::to_owned)
        .collect()
}

fn assert_line(metrics: &Metrics, line: &str) {
    let lines = lines(metrics);
    assert!(lines.iter().any(|l| l == line), "{line}: {lines:#?}");
}

#[test]
fn names_and_labels_are_those_of_the_documentation() {
    let metrics = Metrics::new();
    let route = RouteLabels::new("PUT /accounts/{account}", "statements");
    metrics.operation_ended(&route, Answered::Applied);
    metrics.rejected(&route, "stale-fencing-token");
    metrics.rejected(&route, "near-duplicate");
    metrics.would_refuse(&route, "generation-used");
    metrics.observed("PUT /accounts/{account}", "replayed");
    metrics.without_identity();
    metrics.unprotected_effect();
    metrics.contradiction();
    metrics.store_commit(150, 3);
    metrics.store_forgot(5, 0);
    metrics.upstream_took(Millis(20));
    metrics.waited(WaitedFor::Predecessor, Millis(1_500));
    metrics.settled_after(Millis(61_000));
    metrics.leases_held("fencepost", 3);
    metrics.lease_acquired(2_500_000);
    metrics.lease_renewal_failed();
    metrics.log_lines_lost(7);
    metrics.log_lines_lost(9);
    metrics.ownership_passed("release");
    metrics.ownership_passed("expiry");
    metrics.waited(WaitedFor::Lease, Millis(2_500));
    let _waits = metrics.waits_for_lease();
    metrics.unsettled(&[("UNCERTAIN", 2), ("COMPLETED", 9)], Some(Millis(2_500)));
    metrics.key_lifetime_left(Some(Millis(90_500)));
    for line in [
        "fencepost_key_lifetime_left_seconds 90.5",
        r#"fencepost_operations_total{route="PUT /accounts/{account}",upstream="statements",result="applied"} 1"#,
        r#"fencepost_rejections_total{route="PUT /accounts/{account}",reason="stale-fencing-token"} 1"#,
        "fencepost_stale_token_rejections_total 1",
        r#"fencepost_would_refuse_total{route="PUT /accounts/{account}",reason="generation-used"} 1"#,
        r#"fencepost_observed_total{route="PUT /accounts/{account}",finding="replayed"} 1"#,
        "fencepost_operations_without_identity_total 1",
        "fencepost_unprotected_effects_total 1",
        "fencepost_contradictions_total 1",
        "fencepost_in_flight 0",
        r#"fencepost_unsettled{state="INTENDED"} 0"#,
        r#"fencepost_unsettled{state="UNCERTAIN"} 2"#,
        r#"fencepost_unsettled{state="NEEDS_ATTENTION"} 0"#,
        "fencepost_oldest_unsettled_seconds 2.5",
        "fencepost_settle_duration_seconds_sum 61.0",
        "fencepost_store_commit_seconds_count 1",
        "fencepost_store_batch_size_sum 3.0",
        r#"fencepost_store_forgotten_total{what="answers"} 5"#,
        "fencepost_upstream_duration_seconds_sum 0.02",
        r#"fencepost_wait_seconds_sum{for="predecessor"} 1.5"#,
        r#"fencepost_wait_seconds_sum{for="lease"} 2.5"#,
        r#"fencepost_lease_held{source="fencepost"} 3"#,
        "fencepost_lease_waiting 1",
        "fencepost_log_lines_lost_total 9",
        "fencepost_lease_acquire_seconds_sum 2.5",
        "fencepost_lease_renewal_failures_total 1",
        r#"fencepost_ownership_transfers_total{after="release"} 1"#,
        r#"fencepost_ownership_transfers_total{after="expiry"} 1"#,
    ] {
        assert_line(&metrics, line);
    }
    let build = format!(
        r#"fencepost_build_info{{version="{}"}} 1"#,
        env!("CARGO_PKG_VERSION")
    );
    assert_line(&metrics, &build);
}

#[test]
fn an_effect_is_in_flight_until_its_guard_goes() {
    let metrics = Metrics::new();
    let first = metrics.in_flight();
    let second = metrics.clone().in_flight();
    assert_line(&metrics, "fencepost_in_flight 2");
    drop(first);
    drop(second);
    assert_line(&metrics, "fencepost_in_flight 0");
}

#[test]
fn a_register_that_cannot_be_asked_leaves_no_old_numbers() {
    let metrics = Metrics::new();
    metrics.unsettled(&[("INTENDED", 7)], Some(Millis(1_000)));
    metrics.unsettled_unknown();
    let lines = lines(&metrics);
    assert!(
        lines.iter().all(|line| !line.contains("unsettled")),
        "{lines:#?}"
    );
}

#[test]
fn a_shared_register_stands_in_one_way() {
    let metrics = Metrics::new();
    let stands = |metrics: &Metrics| -> Vec<String> {
        let all = lines(metrics).into_iter();
        all.filter(|line| line.contains("standing") && line.ends_with(" 1"))
            .collect()
    };
    assert!(
        lines(&metrics)
            .iter()
            .all(|line| !line.contains("standing"))
    );
    for (which, epochs) in [("whole", 0), ("in-doubt", 0), ("whole", 2), ("moved", 2)] {
        let ways = ["whole", "in-doubt", "quiet", "moved"].map(|word| (word, word == which));
        metrics.store_stands(&ways, epochs);
        let one = format!(r#"fencepost_store_standing{{standing="{which}"}} 1"#);
        assert_eq!(stands(&metrics), [one]);
        assert_line(
            &metrics,
            &format!("fencepost_store_epochs_begun_total {epochs}"),
        );
    }
}
