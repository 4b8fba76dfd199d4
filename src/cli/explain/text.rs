//! Explanations for people: one step a line, in the order in which they are taken.
//!
//! What always holds: text that came with a request cannot steer a terminal.
//!
//! What it does not do: find anything out (`explanation`).

use std::fmt::Write;

use super::sameness::Sameness;
use super::views::{Composed, Explanation, Named, Outcome};
use crate::cli::table::clean;

const WIDTH: usize = 14;

/// Lines under a heading each.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn line(&mut self, heading: &str, text: &str) {
        // Writing to a String cannot fail.
        let line = format!("{heading:<WIDTH$}{}", clean(text));
        let _ = writeln!(self.0, "{}", line.trim_end());
    }

    fn parts(&mut self, parts: &[Named]) {
        for part in parts {
            let text = match (&part.value, &part.missing) {
                (Some(value), _) => format!("  {} = {value}", part.name),
                (None, why) => format!(
                    "  {} {}",
                    part.name,
                    why.as_deref().unwrap_or("is not there")
                ),
            };
            self.line("", &text);
        }
    }

    fn composed(&mut self, heading: &str, composed: &Composed) {
        self.line(heading, &composed.template);
        self.parts(&composed.parts);
    }
}

/// One request.
pub(super) fn explanation(told: &Explanation) -> String {
    let mut lines = Lines::default();
    let bytes = told.content_bytes;
    lines.line(
        "request",
        &format!("{}, {bytes} bytes of content", told.request),
    );
    lines.line(
        "listener",
        &format!(
            "{}, for upstream `{}` at {}",
            told.listener, told.upstream, told.upstream_url
        ),
    );
    rule(told, &mut lines);
    if let Some(once) = &told.once {
        lines.composed("once", once);
    }
    operation(told, &mut lines);
    fence(told, &mut lines);
    if let Some(meaning) = &told.fingerprint {
        lines.line("fingerprint", &format!("over {}", meaning.covers));
        lines.line(
            "",
            &format!("  form {}; key: {}", meaning.form, meaning.key),
        );
        let compare = &meaning.compare;
        lines.line(
            "",
            &format!("  the same as another's only if both mean the same: {compare}"),
        );
    }
    if let Some(key) = &told.upstream_key {
        lines.line("upstream key", &format!("{}: {}", key.place, key.value));
        lines.line("", &format!("  {}", key.how));
    }
    if !told.references.is_empty() {
        lines.line("reference", "put in for later questions");
        lines.parts(&told.references);
    }
    for (index, rule) in told.policy.iter().enumerate() {
        let heading = if index == 0 { "policy" } else { "" };
        let value = rule.value.as_deref().unwrap_or_default();
        lines.line(heading, &format!("{}: {value}", rule.name));
    }
    outcome(told, &mut lines);
    observed(told, &mut lines);
    lines.0
}

fn rule(told: &Explanation, lines: &mut Lines) {
    let effect = match (&told.effect, &told.outcome) {
        (Some(effect), _) if effect == "unlisted" => "none is listed; `unlisted: protect` applies",
        (Some(effect), _) => effect,
        (None, Outcome::Forwarded { counted: true }) => "none: `unlisted: observe` applies",
        (None, Outcome::Forwarded { counted: false }) => "none: it passes",
        (None, Outcome::Refused { .. } | Outcome::PutToRegister) => "none",
    };
    lines.line("effect", effect);
    for other in told.considered.iter().filter(|it| !it.matches) {
        lines.line("", &format!("  not {}: {}", other.rule, other.why));
    }
    if !told.path.is_empty() {
        lines.line("path", "");
        lines.parts(&told.path);
    }
}

fn operation(told: &Explanation, lines: &mut Lines) {
    if let Some(operation) = &told.operation {
        let once = operation.once;
        let by = match operation.origin {
            "caller" => format!("named by the caller; once {once}"),
            "derived" => format!("composed from the request; once {once}"),
            _ => "not named by the caller: whoever sends it again makes another one".to_owned(),
        };
        lines.line("operation", &operation.id);
        lines.line("", &format!("  {by}"));
        lines.line(
            "",
            &format!(
                "  of tenant `{}`, upstream `{}`",
                operation.tenant, operation.upstream
            ),
        );
    }
    match (&told.principal, &told.operation) {
        (Some(parts), operation) => {
            let digest = operation.as_ref().and_then(|it| it.principal.as_deref());
            lines.line("principal", digest.unwrap_or("unknown"));
            lines.parts(parts);
        }
        (None, Some(_)) => lines.line(
            "principal",
            "none: all callers share one space of operations",
        ),
        (None, None) => {}
    }
}

fn fence(told: &Explanation, lines: &mut Lines) {
    if let Some(resource) = &told.resource {
        lines.line("resource", resource.value.as_deref().unwrap_or("unknown"));
        lines.line("", &format!("  from {}", resource.template));
        lines.parts(&resource.parts);
    }
    if let Some(token) = &told.token {
        let value = match (&token.value, token.readable) {
            (Some(value), true) => value.clone(),
            (Some(_), false) => "unreadable".to_owned(),
            (None, _) => "none".to_owned(),
        };
        lines.line("token", &value);
        if let Some(lease) = &token.stamped {
            let text =
                "  stamped with that of the lease `{}`, while it is owned; here 1 stands in for it";
            lines.line("", &text.replace("{}", lease));
        }
        let (from, mode, source) = (&token.from, token.mode, &token.source);
        lines.line("", &format!("  {from}; mode {mode}; issued by `{source}`"));
    }
}

fn outcome(told: &Explanation, lines: &mut Lines) {
    match &told.outcome {
        Outcome::Forwarded { counted: false } => {
            lines.line("outcome", "forwarded as it is; nothing is recorded");
        }
        Outcome::Forwarded { counted: true } => {
            lines.line("outcome", "forwarded unprotected, and counted");
        }
        Outcome::Refused {
            status,
            problem,
            detail,
            retry,
        } => {
            lines.line(
                "outcome",
                &format!("refused: {status} {problem} (retry: {retry})"),
            );
            lines.line("", &format!("  {detail}"));
        }
        Outcome::PutToRegister => {
            lines.line(
                "outcome",
                "put to the register, which knows whether the token is stale and whether it is a repeat;",
            );
            lines.line(
                "",
                "  if neither: recorded, then sent. Nothing was sent now.",
            );
        }
    }
}

/// The rule is only observed: what was said is what enforcing it would do.
fn observed(told: &Explanation, lines: &mut Lines) {
    if told.observed {
        lines.line(
            "mode",
            "observe: that is judged and reported, and the request is forwarded as it came",
        );
    }
}

/// Two requests.
pub(super) fn sameness(sameness: &Sameness) -> String {
    let mut text = format!("{}\n", sameness.verdict);
    for difference in &sameness.differences {
        let _ = writeln!(text, "  {}", clean(difference));
    }
    text
}
