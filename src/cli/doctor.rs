//! `doctor`: can it admit effects now; if not, why, what to compare and what to type next.
//!
//! What always holds: the exit code is 0 only where it admits and nothing of the register is other than it
//! was; what is printed as JSON is what the instance said.
//!
//! What it does not do: change anything, or look at upstreams.

use std::fmt::Write;

use super::arguments::Doctor;
use super::failure::Failure;
use super::table::{Facts, age, clean};
use crate::admin::client::path;
use crate::admin::views::{CountedView, RegisterView, StandingView, StatusView};

/// Does it; answers what to print.
pub(super) async fn run(doctor: &Doctor, json: bool) -> Result<String, Failure> {
    let told = doctor.instance.read(&path(&["status"], &[])).await?;
    let status: StatusView = told.understood()?;
    let text = told.printed(json, shown)?;
    if is_well(&status) {
        Ok(text)
    } else {
        Err(Failure::Wrong(text))
    }
}

fn is_well(status: &StatusView) -> bool {
    let differs = |it: &RegisterView| !it.differences.is_empty();
    status.ready && status.counted.is_some() && !status.register.as_ref().is_none_or(differs)
}

fn shown(status: &StatusView) -> String {
    let mut facts = Facts::default();
    let runs = !status.config_digest.is_empty();
    facts
        .fact("version", Some(&status.version))
        .fact("instance", runs.then_some(&status.instance))
        .fact("config", runs.then_some(&status.config_digest))
        .fact("tenant", Some(&status.tenant))
        .fact("admits", Some(if status.ready { "yes" } else { "no" }));
    for reason in &status.reasons {
        facts.fact("", Some(reason));
    }
    if let Some(register) = &status.register {
        let format = register.format.map(|it| format!(", format {it}"));
        let kind = format!("{}{}", register.kind, format.unwrap_or_default());
        facts.fact("register", Some(kind));
        for (name, fact) in &register.facts {
            facts.fact("", Some(format!("{name} {fact}")));
        }
    }
    if let Some(counted) = &status.counted {
        count(&mut facts, counted);
    }
    let mut text = facts.text();
    attention(&mut text, status);
    settling(&mut text, &status.settling);
    if let Some(register) = &status.register {
        differences(&mut text, register, status.counted.as_ref());
        history(&mut text, register);
    }
    text
}

fn count(facts: &mut Facts, counted: &CountedView) {
    facts.fact("epoch", Some(counted.epoch));
    let states = counted.operations.iter();
    let states: Vec<_> = states
        .map(|(state, count)| format!("{count} {state}"))
        .collect();
    let states = if states.is_empty() {
        "none".to_owned()
    } else {
        states.join(", ")
    };
    let oldest = counted.oldest_unsettled_ms;
    facts
        .fact("operations", Some(states))
        .fact("newest", counted.newest.as_ref())
        .fact("oldest unsettled", oldest.map(age))
        .fact("keys last", counted.key_lifetime_left_ms.map(key_left));
}

fn key_left(left_ms: u64) -> String {
    if left_ms == 0 {
        "an upstream may have forgotten the key of an unsettled operation: it is not sent again"
            .to_owned()
    } else {
        format!(
            "{} at least, among the oldest unsettled operations",
            age(left_ms)
        )
    }
}

/// What waits for a person, and how he finds it.
fn attention(text: &mut String, status: &StatusView) {
    let counted = status.counted.as_ref();
    let waiting = counted.and_then(|it| it.operations.get("NEEDS_ATTENTION"));
    if let Some(count) = waiting.filter(|count| **count > 0) {
        let _ = write!(
            text,
            "\n{count} waiting for a person\n  fencepost operations list --state needs-attention\n"
        );
    }
    if let Some(count) = status.contradictions.filter(|count| *count > 0) {
        let _ = write!(
            text,
            "\n{count} contradictions since this instance began: evidence against a recorded outcome, or of a \
             second effect. Its log names each (`contradiction`), and `fencepost operations why` tells the story\n"
        );
    }
}

/// How settling goes. Nothing is said of upstreams that are gone while nothing of them is unsettled.
fn settling(text: &mut String, standings: &[StandingView]) {
    let is_told =
        |it: &&StandingView| it.upstream.is_some() || it.in_doubt > 0 || it.fault.is_some();
    let told: Vec<_> = standings.iter().filter(is_told).collect();
    if told.is_empty() {
        return;
    }
    text.push_str("\nsettling, by upstream\n");
    for standing in told {
        let upstream = standing
            .upstream
            .as_deref()
            .unwrap_or("(no longer in the config)");
        let _ = writeln!(text, "  {}: {}", clean(upstream), pass(standing));
        if standing.failures > 0 {
            let _ = writeln!(text, "    {}", away(standing));
        }
        if let Some(fault) = &standing.fault {
            let _ = writeln!(text, "    the pass ended early: {}", clean(fault));
        }
    }
}

fn pass(standing: &StandingView) -> String {
    let Some(ago_ms) = standing.began_ms_ago else {
        return "no pass yet".to_owned();
    };
    let took = standing.took_ms.map_or_else(
        || "is under way".to_owned(),
        |took_ms| format!("took {took_ms} ms"),
    );
    let StandingView {
        in_doubt,
        due,
        later,
        held_back,
        ..
    } = standing;
    format!(
        "the last pass, {} ago, {took}: {in_doubt} in doubt ({due} with a step to take, {later} later, \
         {held_back} left for the next pass)",
        age(ago_ms)
    )
}

fn away(standing: &StandingView) -> String {
    let failures = standing.failures;
    let alone = match standing.left_alone_ms {
        0 => "it is tried again".to_owned(),
        left_ms => format!(
            "it is left alone for {} s more; that uses nothing up",
            left_ms.div_ceil(1_000)
        ),
    };
    format!("exchanges that failed in a row: {failures}; {alone}")
}

/// What a person compares before he goes on, and how he goes on.
fn differences(text: &mut String, register: &RegisterView, counted: Option<&CountedView>) {
    if register.differences.is_empty() {
        return;
    }
    text.push_str("\nnot as it was when the register was last known whole\n");
    for difference in &register.differences {
        let _ = writeln!(text, "  - {}", clean(difference));
    }
    if let Some(left) = register.quiet_ms {
        waits(text, left);
        return;
    }
    let newest = counted.and_then(|it| it.newest.as_deref());
    let since = newest.unwrap_or("the beginning");
    if register.kind == "embedded" {
        let _ = write!(
            text,
            "\nbefore you go on\n\
             1. No other copy of this register may be in use.\n\
             2. What was sent after the newest operation here, {since}, is unknown to it. Compare from then on\n   \
             with the providers' own books.\n\
             3. fencepost serve --config FILE --accept-restored, once. It begins an epoch: every token of before is\n   \
             stale, and whoever held a lease acquires again.\n"
        );
        return;
    }
    let _ = write!(
        text,
        "\nbefore you go on\n\
         1. No other copy of this register may be in use.\n\
         2. What was sent after the newest operation here, {since}, is unknown to it. Compare from then on\n   \
         with the providers' own books, and with what each sidecar's log and /readyz say it misses.\n\
         3. fencepost store accept-restored. It begins an epoch: every token of before is stale. What was\n   \
         exported is not accepted: fencepost store take-back, and only if its copy is used nowhere.\n"
    );
}

/// Somebody has gone on already.
fn waits(text: &mut String, left_ms: u64) {
    let left = if left_ms == 0 {
        "It has waited long enough by the database's clock".to_owned()
    } else {
        format!(
            "It waits for {} more at least, as the database counts",
            age(left_ms)
        )
    };
    let _ = write!(
        text,
        "\naccepted as it is, and waiting for what was under way to end\n\
         {left}. Each sidecar\ncounts as long on its own clock, from when it hears of it; then all of them \
         admit. One has to run for\nthat, and nothing has to be typed: what is listed above goes with it.\n"
    );
}

fn history(text: &mut String, register: &RegisterView) {
    if register.history.is_empty() {
        return;
    }
    text.push_str("\nhistory, newest first\n");
    for deed in &register.history {
        let _ = writeln!(text, "  {}  {}", clean(&deed.at), clean(&deed.text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole() -> StatusView {
        serde_json::from_value(serde_json::json!({
            "version": "1", "instance": "0a", "config_digest": "d1", "tenant": "payments",
            "draining": false, "ready": true, "reasons": [],
            "register": {
                "kind": "postgres", "format": 1,
                "facts": { "database": "db:5432/x", "timeline": "1" },
                "differences": [], "history": [{ "at": "2026-01-01T00:00:00Z", "text": "made" }],
            },
            "counted": {
                "epoch": 2, "operations": { "COMPLETED": 3, "INTENDED": 1 },
                "oldest_unsettled": "2026-01-01T00:00:00Z", "oldest_unsettled_ms": 61_000,
                "newest": "2026-01-02T00:00:00Z",
            },
        }))
        .unwrap()
    }

    #[test]
    fn what_is_well_is_told_in_few_words() {
        assert!(is_well(&whole()));
        assert_eq!(
            shown(&whole()),
            "version           1\n\
             instance          0a\n\
             config            d1\n\
             tenant            payments\n\
             admits            yes\n\
             register          postgres, format 1\n                  \
             database db:5432/x\n                  \
             timeline 1\n\
             epoch             2\n\
             operations        3 COMPLETED, 1 INTENDED\n\
             newest            2026-01-02T00:00:00Z\n\
             oldest unsettled  1m\n\n\
             history, newest first\n  \
             2026-01-01T00:00:00Z  made\n"
        );
    }

    #[test]
    fn whoever_must_compare_is_told_since_when_and_how_to_go_on() {
        let mut status = whole();
        if let Some(register) = &mut status.register {
            register.differences = vec!["it was copied".to_owned()];
        }
        // Whether or not anything is admitted yet.
        assert!(!is_well(&status));
        let text = shown(&status);
        for words in [
            "- it was copied",
            "newest operation here, 2026-01-02T00:00:00Z",
            "accept-restored",
        ] {
            assert!(text.contains(words), "{text}");
        }
    }

    /// To accept it again would begin another epoch, and the waiting anew.
    #[test]
    fn what_waits_after_it_was_accepted_is_not_to_be_accepted() {
        let mut status = whole();
        status.ready = false;
        if let Some(register) = &mut status.register {
            register.differences = vec!["it was copied".to_owned()];
            register.quiet_ms = Some(61_000);
        }
        assert!(!is_well(&status));
        let text = shown(&status);
        assert!(text.contains("waits for 1m more at least"), "{text}");
        assert!(!text.contains("accept-restored"), "{text}");
        if let Some(register) = &mut status.register {
            register.quiet_ms = Some(0);
        }
        let text = shown(&status);
        assert!(text.contains("has waited long enough"), "{text}");
        assert!(!text.contains("accept-restored"), "{text}");
    }

    #[test]
    fn what_waits_for_a_person_and_what_contradicts_is_told_with_what_to_type() {
        let mut status = whole();
        let counted = status.counted.as_mut().unwrap();
        counted.operations.insert("NEEDS_ATTENTION".to_owned(), 2);
        counted.key_lifetime_left_ms = Some(7_200_000);
        status.contradictions = Some(1);
        let text = shown(&status);
        for words in [
            "2 waiting for a person\n  fencepost operations list --state needs-attention",
            "1 contradictions since this instance began",
            "keys last         2h at least",
        ] {
            assert!(text.contains(words), "{text}");
        }
        // It admits all the same.
        assert!(is_well(&status));
    }

    #[test]
    fn how_settling_goes_is_told_for_each_upstream() {
        let mut status = whole();
        let standing = |upstream: Option<&str>| StandingView {
            upstream: upstream.map(str::to_owned),
            began: Some("2026-01-01T00:00:00Z".to_owned()),
            began_ms_ago: Some(3_000),
            took_ms: Some(4),
            in_doubt: 0,
            due: 0,
            later: 0,
            held_back: 0,
            fault: None,
            failures: 0,
            left_alone_ms: 0,
        };
        let busy = StandingView {
            in_doubt: 12,
            due: 8,
            later: 1,
            held_back: 3,
            failures: 6,
            left_alone_ms: 1_001,
            ..standing(Some("mail\u{1b}"))
        };
        let begun = StandingView {
            took_ms: None,
            fault: Some("no disk".to_owned()),
            ..standing(Some("payments"))
        };
        status.settling = vec![standing(None), busy, begun];
        let text = shown(&status);
        let expected = "\nsettling, by upstream\n  \
             mail\\u{1b}: the last pass, 3s ago, took 4 ms: 12 in doubt (8 with a step to take, 1 later, \
             3 left for the next pass)\n    \
             exchanges that failed in a row: 6; it is left alone for 2 s more; that uses nothing up\n  \
             payments: the last pass, 3s ago, is under way: 0 in doubt (0 with a step to take, 0 later, \
             0 left for the next pass)\n    \
             the pass ended early: no disk\n";
        assert!(text.contains(expected), "{text}");
        assert!(!text.contains("no longer"), "{text}");
        let gone = StandingView {
            in_doubt: 1,
            ..standing(None)
        };
        status.settling = vec![gone];
        let text = shown(&status);
        assert!(
            text.contains("(no longer in the config): the last pass"),
            "{text}"
        );
    }

    #[test]
    fn what_does_not_answer_is_not_well() {
        let mut status = whole();
        status.register = None;
        assert!(!is_well(&status));
        let mut status = whole();
        status.counted = None;
        assert!(!is_well(&status));
        let mut status = whole();
        status.ready = false;
        status.reasons = vec!["the register is unavailable".to_owned()];
        assert!(!is_well(&status));
        assert!(
            shown(&status).contains("admits            no\n"),
            "{}",
            shown(&status)
        );
    }
}
