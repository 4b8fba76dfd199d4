//! `operations resolve-all`: a verdict on many operations, seen first.
//!
//! What always holds: nothing is resolved without the selection that a preview printed, so that the verdict
//! falls on what was seen and on nothing else. The exit code says whether all of it was done.
//!
//! What it does not do: judge.

use std::fmt::Write;

use crate::admin::client::path;
use crate::admin::views::{ManyResolvedView, shell_word};
use crate::cli::arguments::OperationsResolve;
use crate::cli::failure::Failure;
use crate::cli::instance::Touch;
use crate::cli::table::{Table, age, clean, or_dash};

pub(super) async fn run(resolve: &OperationsResolve, json: bool) -> Result<String, Failure> {
    let body = serde_json::json!({
        "filter": {
            "state": resolve.state.word(),
            "upstream": resolve.upstream,
            "resource": resolve.resource,
            "older_than": resolve.older_than,
        },
        "verdict": resolve.verdict.word(),
        "reason": resolve.reason,
        "status": resolve.status,
        "dry_run": resolve.selection.is_none(),
        "selection": resolve.selection,
    });
    let touch = match resolve.selection {
        None => Touch::Nothing,
        Some(_) => Touch::Records,
    };
    let path = path(&["operations", "resolve"], &[]);
    let told = resolve
        .instance
        .change(&path, body.to_string(), touch)
        .await?;
    let view: ManyResolvedView = told.understood()?;
    let text = told.printed(json, |view| shown(view, resolve))?;
    if view.dry_run || (view.refused == 0 && view.stopped.is_none()) {
        Ok(text)
    } else {
        Err(Failure::Wrong(text))
    }
}

fn shown(view: &ManyResolvedView, resolve: &OperationsResolve) -> String {
    if view.operations.is_empty() {
        return "no operation matches".to_owned();
    }
    let becomes = if view.dry_run { "WOULD BE" } else { "IS NOW" };
    let mut table = Table::new(["STATE", "AGE", "UPSTREAM", "OPERATION", "RESOURCE", becomes]);
    for one in &view.operations {
        let refused = one.refused.as_ref().map(|why| format!("refused: {why}"));
        table.row([
            one.state.clone(),
            age(one.age_ms),
            one.operation.upstream.clone(),
            one.operation.id.clone(),
            or_dash(one.resource.as_ref()),
            or_dash(one.becomes.as_ref().or(refused.as_ref())),
        ]);
    }
    let mut text = table.text();
    if let Some(why) = &view.stopped {
        let _ = writeln!(text, "stopped before the last one: {}", clean(why));
    }
    if view.more {
        text.push_str("more match: say it again after these\n");
    }
    if view.dry_run {
        let _ = writeln!(
            text,
            "nothing is resolved yet. To resolve these {}, type:\n  {}",
            view.resolved,
            clean(&typed(view, resolve))
        );
    }
    text
}

/// The same command with the selection, but for how the instance was found.
fn typed(view: &ManyResolvedView, resolve: &OperationsResolve) -> String {
    let mut text = "fencepost operations resolve-all".to_owned();
    let mut option = |name: &str, value: Option<&str>| {
        if let Some(value) = value {
            let _ = write!(text, " --{name} {}", shell_word(value));
        }
    };
    let status = resolve.status.map(|status| status.to_string());
    option("upstream", resolve.upstream.as_deref());
    option("resource", resolve.resource.as_deref());
    option("state", Some(resolve.state.typed()));
    option("older-than", resolve.older_than.as_deref());
    option("verdict", Some(resolve.verdict.typed()));
    option("status", status.as_deref());
    option("reason", Some(&resolve.reason));
    option("selection", Some(&view.selection));
    text
}
