//! `operations`: list, show, why, resolve, settle.
//!
//! What always holds: what is printed as JSON is what the instance said; what is printed for people
//! ends with what can be done next, where something can.
//!
//! What it does not do: judge.

mod many;
mod story;

use std::fmt::Write;

use serde::Serialize;
use serde_json::value::RawValue;

use super::arguments::{
    OperationName, OperationResolve, OperationSettle, OperationShow, Operations, OperationsList,
    VerdictWord,
};
use super::failure::Failure;
use super::instance::Touch;
use super::table::{Facts, Table, age, clean, clean_lines, or_dash};
use crate::admin::client::path;
use crate::admin::views::{
    AttemptView, ContentView, OperationDetail, OperationList, OperationView, OutcomeView,
    ResolutionView, SettlingView,
};

/// Does it; answers what to print.
pub(super) async fn run(command: &Operations, json: bool) -> Result<String, Failure> {
    match command {
        Operations::List(list) => self::list(list, json).await,
        Operations::Show(show) => self::show(show, json).await,
        Operations::Why(why) => story::run(why, json).await,
        Operations::Resolve(resolve) => self::resolve(resolve, json).await,
        Operations::ResolveAll(resolve) => many::run(resolve, json).await,
        Operations::Settle(settle) => self::settle(settle, json).await,
    }
}

async fn list(list: &OperationsList, json: bool) -> Result<String, Failure> {
    let query = [
        ("state", list.state.map(|state| state.word().to_owned())),
        ("resource", list.resource.clone()),
        ("upstream", list.upstream.clone()),
        ("limit", Some(list.page.limit.to_string())),
        ("after", list.page.after.clone()),
    ];
    let told = list.instance.read(&path(&["operations"], &query)).await?;
    told.printed(json, listed)
}

async fn show(show: &OperationShow, json: bool) -> Result<String, Failure> {
    let bodies = show.bodies.then(|| "true".to_owned());
    // Who reads what customers sent is recorded.
    let touch = if show.bodies {
        Touch::Records
    } else {
        Touch::Nothing
    };
    let path = show.name.path(None, bodies);
    let told = show.instance.read_touching(&path, touch).await?;
    told.printed(json, shown)
}

async fn settle(settle: &OperationSettle, json: bool) -> Result<String, Failure> {
    let path = settle.name.path(Some("settle"), None);
    let body = serde_json::json!({ "send": settle.send, "reason": settle.reason });
    let told = settle
        .instance
        .change(&path, body.to_string(), Touch::Records)
        .await?;
    told.printed(json, |done: &SettlingView| {
        let attempt = done.attempt.as_ref();
        let attempt = attempt.map_or_else(String::new, |it| format!(", attempt {it}"));
        let text = format!(
            "{} {}: {}{attempt}; `fencepost operations why` tells what comes of it",
            done.upstream, done.id, done.did
        );
        clean(&text).into_owned()
    })
}

async fn resolve(resolve: &OperationResolve, json: bool) -> Result<String, Failure> {
    let verdict = asked(resolve)?;
    let path = resolve.name.path(Some("resolve"), None);
    let told = resolve
        .instance
        .change(&path, verdict, Touch::Records)
        .await?;
    told.printed(json, |done: &ResolutionView| {
        let text = format!("{} {}: {}", done.upstream, done.id, done.state);
        clean(&text).into_owned()
    })
}

impl OperationName {
    pub(super) fn path(&self, verb: Option<&str>, bodies: Option<String>) -> String {
        let parts = ["operations", &self.upstream, &self.id].into_iter();
        let parts: Vec<&str> = parts.chain(verb).collect();
        let incarnation = self.incarnation.map(|number| number.to_string());
        let query = [
            ("principal", self.principal.clone()),
            ("incarnation", incarnation),
            ("bodies", bodies),
        ];
        path(&parts, &query)
    }
}

/// The JSON of a verdict; content goes into it byte for byte.
fn asked(resolve: &OperationResolve) -> Result<String, Failure> {
    #[derive(Serialize)]
    struct Asked<'a> {
        verdict: &'static str,
        reason: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        admitted: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
        #[serde(skip_serializing_if = "Option::is_none")]
        body: Option<Box<RawValue>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        new_key: Option<bool>,
    }
    match resolve.verdict {
        VerdictWord::Applied if resolve.new_key => {
            return Err(Failure::Usage(
                "--new-key goes with --verdict not-applied".to_owned(),
            ));
        }
        VerdictWord::NotApplied if resolve.status.is_some() || resolve.body.is_some() => {
            return Err(Failure::Usage(
                "--status and --body go with --verdict applied".to_owned(),
            ));
        }
        VerdictWord::Applied | VerdictWord::NotApplied => {}
    }
    let asked = Asked {
        verdict: resolve.verdict.word(),
        reason: &resolve.reason,
        admitted: resolve.admitted,
        status: resolve.status,
        body: resolve.body.as_deref().map(content).transpose()?,
        new_key: resolve.new_key.then_some(true),
    };
    serde_json::to_string(&asked).map_err(|error| Failure::Usage(error.to_string()))
}

fn content(text: &str) -> Result<Box<RawValue>, Failure> {
    let json = match text.strip_prefix('@') {
        None => text.to_owned(),
        Some(file) => std::fs::read_to_string(file)
            .map_err(|error| Failure::Usage(format!("{file} cannot be read: {error}")))?,
    };
    serde_json::from_str(json.trim()).map_err(|error| {
        Failure::Usage(format!(
            "--body is to be JSON ({error}); plain text is written as a JSON string: '\"…\"'"
        ))
    })
}

fn listed(list: &OperationList) -> String {
    if list.operations.is_empty() {
        return "no operations".to_owned();
    }
    let mut text = table(&list.operations);
    if let Some(next) = &list.next {
        let _ = writeln!(text, "more: --after {}", clean(next));
    }
    text
}

/// Operations, one a line.
pub(super) fn table(operations: &[OperationView]) -> String {
    let mut table = Table::new([
        "STATE",
        "AGE",
        "UPSTREAM",
        "OPERATION",
        "RESOURCE",
        "TOKEN",
        "SENT",
        "OUTCOME",
    ]);
    for operation in operations {
        table.row([
            operation.state.clone(),
            age(operation.age_ms),
            operation.upstream.clone(),
            operation.id.clone(),
            or_dash(operation.resource.as_ref()),
            or_dash(operation.token.as_ref()),
            operation.admitted.to_string(),
            or_dash(operation.outcome.as_ref().map(outcome)),
        ]);
    }
    table.text()
}

fn outcome(outcome: &OutcomeView) -> String {
    let by = &outcome.provenance;
    match outcome.status {
        Some(status) => format!("{} {status} (by {by})", outcome.verdict),
        None => format!("{} (by {by}; answer no longer kept)", outcome.verdict),
    }
}

fn shown(detail: &OperationDetail) -> String {
    let mut text = facts(&detail.operation);
    if !detail.operation.attempts.is_empty() {
        let _ = write!(text, "\n{}", attempts(&detail.operation.attempts));
    }
    if !detail.events.is_empty() {
        text.push_str("\nevents\n");
        for event in &detail.events {
            let _ = writeln!(text, "  {}  {}", event.at, clean(&event.text));
        }
    }
    for (name, stored) in [("request", &detail.request), ("answer", &detail.answer)] {
        if let Some(stored) = stored {
            let _ = write!(text, "\n{name}\n{}", stored_content(stored));
        }
    }
    if let Some(advice) = advice(&detail.operation) {
        let _ = write!(text, "\n{advice}");
    }
    text
}

pub(super) fn facts(operation: &OperationView) -> String {
    let mut facts = Facts::default();
    facts
        .fact("operation", Some(&operation.id))
        .fact("upstream", Some(&operation.upstream))
        .fact("principal", operation.principal.as_ref())
        .fact(
            "incarnation",
            Some(operation.incarnation).filter(|number| *number > 0),
        )
        .fact("identity", Some(&operation.origin))
        .fact("state", Some(&operation.state))
        .fact("because", operation.reason.as_ref())
        .fact("outcome", operation.outcome.as_ref().map(outcome))
        .fact(
            "ended",
            operation.outcome.as_ref().map(|outcome| &outcome.at),
        )
        .fact("resource", operation.resource.as_ref())
        .fact("token", operation.token.as_ref())
        .fact("sequence", operation.sequence.as_ref())
        .fact("admission", operation.admission)
        .fact("order", Some(&operation.order))
        .fact("key round", Some(operation.round))
        .fact("key first used", operation.key_first_used.as_ref())
        .fact("key remembered for", operation.key_lifetime_ms.map(age))
        .fact("of that are left", operation.key_lifetime_left_ms.map(age))
        .fact("attempts", Some(operation.admitted))
        .fact("resends", Some(operation.resends))
        .fact("request kept", Some(operation.request_kept))
        .fact(
            "first seen",
            Some(since(&operation.first_seen, operation.age_ms)),
        )
        .fact("changed", Some(&operation.changed));
    facts.text()
}

fn since(time: &str, age_ms: u64) -> String {
    format!("{time} ({} ago)", age(age_ms))
}

fn attempts(attempts: &[AttemptView]) -> String {
    let mut table = Table::new(["ATTEMPT", "ADMITTED", "ROUND", "RESEND", "LIVE", "END"]);
    let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    for attempt in attempts {
        let end = match (&attempt.detail, attempt.status) {
            (Some(detail), _) => format!("{}: {detail}", attempt.end),
            (None, Some(status)) => format!("{}: answered {status}", attempt.end),
            (None, None) => attempt.end.clone(),
        };
        table.row([
            attempt.id.clone(),
            attempt.admitted.clone(),
            attempt.round.to_string(),
            yes(attempt.resend),
            yes(attempt.live),
            end,
        ]);
    }
    table.text()
}

fn stored_content(stored: &ContentView) -> String {
    let mut facts = Facts::default();
    facts
        .fact("  line", stored.line.as_ref())
        .fact("  status", stored.status)
        .fact("  content-type", stored.content_type.as_ref())
        .fact("  length", Some(or_dash(stored.length)))
        .fact("  body (hex)", stored.body_hex.as_ref());
    let mut text = facts.text();
    if let Some(body) = &stored.body {
        let _ = writeln!(text, "  body\n{}", clean_lines(body));
    }
    text
}

/// What can be done next.
fn advice(operation: &OperationView) -> Option<String> {
    let how = match operation.state.as_str() {
        "NEEDS_ATTENTION" => {
            "Nobody but a person can settle this. Look at the upstream whether it was applied, then:"
        }
        "UNCERTAIN" => "It is being settled. If you know how it ended:",
        "NOT_APPLIED" => {
            return Some(
                "It had no effect; the caller may simply repeat the request.\n".to_owned(),
            );
        }
        _ => return None,
    };
    let command = operation.resolving();
    Some(format!("{how}\n  {}\n", clean(&command)))
}

#[cfg(test)]
mod tests;
