//! `report`: what the rules found, or would have done.
//!
//! What always holds: what is printed as JSON is what the instance said.
//!
//! What it does not do: count, or say what is to be done about it.

use std::fmt::Write;

use super::arguments::Report;
use super::failure::Failure;
use super::table::{Table, or_dash};
use crate::admin::client::path;
use crate::admin::report::{EffectView, FoundView, ReportView};
use crate::observe::counts::{Finding, Treatment};

/// Does it; answers what to print.
pub(super) async fn run(report: &Report, json: bool) -> Result<String, Failure> {
    let told = report.instance.read(&path(&["report"], &[])).await?;
    told.printed(json, shown)
}

fn shown(report: &ReportView) -> String {
    let Some(since) = &report.since else {
        return "nothing was counted yet".to_owned();
    };
    let mut table = Table::new([
        "UPSTREAM",
        "EFFECT",
        "MODE",
        "FOUND",
        "COUNT",
        "OF",
        "LAST",
        "OPERATION",
    ]);
    for effect in &report.effects {
        table.row(requests(effect));
        for found in &effect.found {
            table.row(row(effect, found));
        }
    }
    let mut text = format!("since {since}\n{}", table.text());
    if report.beyond > 0 {
        let _ = writeln!(
            text,
            "{} requests of effects that were too many to be kept apart",
            report.beyond
        );
    }
    text
}

fn requests(effect: &EffectView) -> [String; 8] {
    let dash = || "-".to_owned();
    [
        effect.upstream.clone(),
        effect.effect.clone(),
        mode(effect.treatment).to_owned(),
        "requests".to_owned(),
        effect.requests.to_string(),
        dash(),
        dash(),
        dash(),
    ]
}

fn row(effect: &EffectView, found: &FoundView) -> [String; 8] {
    let operation = found.example.as_ref().and_then(|it| it.operation.as_ref());
    [
        effect.upstream.clone(),
        effect.effect.clone(),
        mode(effect.treatment).to_owned(),
        words(&found.finding, effect.treatment),
        found.count.to_string(),
        effect.requests.to_string(),
        found.last.clone(),
        or_dash(operation),
    ]
}

fn mode(treatment: Treatment) -> &'static str {
    match treatment {
        Treatment::Enforced => "enforce",
        Treatment::Observed => "observe",
        Treatment::Unlisted => "-",
    }
}

fn words(finding: &Finding, treatment: Treatment) -> String {
    let would = treatment == Treatment::Observed;
    let done = |is: &str, would_be: &str| if would { would_be } else { is }.to_owned();
    match finding {
        Finding::Replayed => done("replayed", "would be replayed"),
        Finding::Joined => done("joined", "would be joined"),
        Finding::Waited => done("waited for an older one", "would wait for an older one"),
        Finding::Refused(why) => format!("{}: {why}", done("refused", "would be refused")),
        Finding::LetPass(why) => format!("let pass, would be refused: {why}"),
        Finding::WithoutToken => "no token, let in".to_owned(),
        Finding::Lacking(member) => format!("lacks {member}"),
        Finding::WithoutIdentity => "names no operation".to_owned(),
        Finding::InDoubt => "in doubt".to_owned(),
        Finding::NotJudged(why) => format!("not judged: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::counts::Example;

    #[test]
    fn what_was_found_is_told_beside_how_many_there_were() {
        let found = |finding, count| FoundView {
            finding,
            count,
            first: "2026-01-01T00:00:00Z".to_owned(),
            last: "2026-01-02T00:00:00Z".to_owned(),
            example: Some(Example {
                method: "POST".to_owned(),
                operation: Some("00ff".to_owned()),
            }),
        };
        let report = ReportView {
            since: Some("2026-01-01T00:00:00Z".to_owned()),
            effects: vec![EffectView {
                upstream: "bank".to_owned(),
                effect: "POST /x".to_owned(),
                treatment: Treatment::Observed,
                requests: 9,
                found: vec![
                    found(Finding::Replayed, 2),
                    found(Finding::Refused("stale-fencing-token".into()), 1),
                ],
            }],
            beyond: 0,
        };
        assert_eq!(
            shown(&report),
            "since 2026-01-01T00:00:00Z\n\
             UPSTREAM  EFFECT   MODE     FOUND                                  COUNT  OF  LAST                  OPERATION\n\
             bank      POST /x  observe  requests                               9      -   -                     -\n\
             bank      POST /x  observe  would be replayed                      2      9   2026-01-02T00:00:00Z  00ff\n\
             bank      POST /x  observe  would be refused: stale-fencing-token  1      9   2026-01-02T00:00:00Z  00ff\n"
        );
    }
}
