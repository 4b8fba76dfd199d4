//! The operator at 3 a.m., on the command line: against an instance, and straight in a register.
//!
//! What always holds: exit codes are 0 done, 1 refused, 2 mistyped, 3 nobody there; whatever is changed is in
//! the log with a name and a reason; nothing sends again what may have been sent unless that is said in so
//! many words.

use std::process::Output;

use super::*;
use crate::support::gate::Gate;
use crate::support::script::Script;
use crate::support::setup::Setup;
use crate::support::upstream::Keys;

/// One resend, soon used up; a publication fenced, a payment not.
const ONE_RESEND: &str = r#"
capability: [idempotent]
key: { header: Idempotency-Key, lifetime: 24h, value: derived }
effects:
  - on: POST /payments
    once: { header: Idempotency-Key }
    join: 200ms
    settle: [ { send_again: { attempts: 1, backoff: { from: 1ms, to: 1ms } } } ]
  - on: PUT /statements/{date}
    once: "publish:{path.date}:{token.generation}"
    join: 200ms
    settle: [ { send_again: { attempts: 1, backoff: { from: 1ms, to: 1ms } } } ]
    fence:
      resource: "statement:{path.date}"
      token: { header: Fencing-Token, mode: require }
"#;

/// What was printed; panics unless the code is that one.
fn said(output: &Output, code: i32) -> String {
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{out}\n{complaint}");
    format!("{out}{complaint}")
}

/// F03: what may have been sent is not sent again by any command, but for the one that says so, with a
/// reason; and then once, under the same key.
#[test]
fn only_settle_send_with_a_reason_has_something_sent_again() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::new(upstream.address(), ONE_RESEND));
    upstream.next(Script::lose_answer());
    upstream.next(Script::lose_answer());
    pay(&proxy, "k", "{}").send();
    until_state(&proxy, "k", "NEEDS_ATTENTION");
    assert_eq!(upstream.heads().len(), 2);
    let settle =
        |more: &[&str]| proxy.command(&[&["operations", "settle", "provider", "k"], more].concat());

    let refused = said(&settle(&[]), 1);
    assert!(refused.contains("all resends are used up"), "{refused}");
    assert!(refused.contains("`send` and a `reason`"), "{refused}");
    said(&settle(&["--send"]), 2);
    assert_eq!(upstream.heads().len(), 2);

    let sent = said(&settle(&["--send", "--reason", "the provider is back"]), 0);

    assert!(sent.contains("sent again"), "{sent}");
    until_state(&proxy, "k", "COMPLETED");
    let keys: Vec<_> = upstream
        .heads()
        .iter()
        .map(|head| head.fields.first("idempotency-key").map(str::to_owned))
        .collect();
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    assert_eq!(upstream.effects().len(), 1);
    let why = said(&proxy.command(&["operations", "why", "provider", "k"]), 0);
    assert!(
        why.contains("as carol asked: the provider is back"),
        "{why}"
    );
    said(&settle(&["--send", "--reason", "once more"]), 1);
    assert_eq!(upstream.heads().len(), 3);
}

#[test]
fn a_resource_is_explained_cut_off_cancelled_and_reopened() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::new(upstream.address(), ONE_RESEND));
    for _ in 0..2 {
        upstream.next(Script::lose_answer());
    }
    publish(&proxy, "107", r#"{"by":"Alice"}"#).send();
    until_state(&proxy, "publish:2026-09-13:107", "NEEDS_ATTENTION");
    let resources =
        |verb: &str, more: &[&str]| proxy.command(&[&["resources", verb, RESOURCE], more].concat());

    let explained = said(&resources("explain", &[]), 0);

    assert!(
        explained.contains("fencepost operations resolve provider publish:2026-09-13:107"),
        "{explained}"
    );
    // What it says to type is what lets Bob in.
    assert_refused(
        &publish(&proxy, "108", r#"{"by":"Bob"}"#).send(),
        409,
        "predecessor-unsettled",
        "after-settlement",
    );

    let reason = ["--reason", "Alice's machine is gone"];
    let told = said(&resources("advance", &reason), 0);
    assert!(
        told.contains("advanced") && told.contains("publish:2026-09-13:107"),
        "{told}"
    );
    assert_refused(
        &publish(&proxy, "108", r#"{"by":"Bob"}"#).send(),
        412,
        "stale-fencing-token",
        "never",
    );
    said(&resources("cancel", &reason), 0);
    assert_refused(
        &publish(&proxy, "109", r#"{"by":"Bob"}"#).send(),
        410,
        "resource-cancelled",
        "never",
    );
    let explained = said(&resources("explain", &[]), 0);
    assert!(
        explained.contains("cancelled by carol: Alice's machine is gone"),
        "{explained}"
    );
    said(&resources("reopen", &reason), 0);
    said(&resources("reopen", &reason), 1);
    said(&resources("cancel", &[]), 2);
    // Cut off before, it is sent again only because a person says so.
    let name = ["operations", "settle", "provider", "publish:2026-09-13:107"];
    let refused = said(&proxy.command(&name), 1);
    assert!(refused.contains("cut off"), "{refused}");
    let send = [&name[..], &["--send"], &reason[..]].concat();
    said(&proxy.command(&send), 0);
    until_state(&proxy, "publish:2026-09-13:107", "COMPLETED");
    assert_eq!(upstream.effects().len(), 1);
    assert_eq!(publish(&proxy, "110", r#"{"by":"Bob"}"#).send().status, 201);
}

#[test]
fn many_operations_are_resolved_at_once_after_they_were_seen() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::opaque(upstream.address()));
    for key in ["a", "b", "c"] {
        upstream.next(Script::cut_request_after(60));
        pay(&proxy, key, "{}").send();
        until_state(&proxy, key, "NEEDS_ATTENTION");
    }
    let seen = said(&proxy.command(&NOT_IN_THEIR_BOOKS), 0);

    assert!(seen.contains("nothing is resolved yet"), "{seen}");
    assert_eq!(state(&proxy, "a"), "NEEDS_ATTENTION");
    // Another one turns up before the verdict: it was not seen.
    let first = selection(&seen);
    upstream.next(Script::cut_request_after(60));
    pay(&proxy, "d", "{}").send();
    until_state(&proxy, "d", "NEEDS_ATTENTION");
    let stale = said(
        &proxy.command(&[&NOT_IN_THEIR_BOOKS[..], &["--selection", &first]].concat()),
        1,
    );
    assert!(stale.contains("selection-changed"), "{stale}");
    assert_eq!(state(&proxy, "a"), "NEEDS_ATTENTION");
    let now = selection(&said(&proxy.command(&NOT_IN_THEIR_BOOKS), 0));
    said(
        &proxy.command(&[&NOT_IN_THEIR_BOOKS[..], &["--selection", &now]].concat()),
        0,
    );
    for key in ["a", "b", "c", "d"] {
        assert_eq!(state(&proxy, key), "NOT_APPLIED");
        assert_eq!(pay(&proxy, key, "{}").send().status, 201);
    }
    assert_eq!(upstream.effects().len(), 4);
}

/// The same straight in a register that nobody runs on.
#[test]
fn a_stopped_register_is_explained_steered_and_resolved() {
    let upstream = Upstream::start(Keys::Ignored);
    let mut proxy = Proxy::start(Setup::opaque(upstream.address()));
    upstream.next(Script::lose_answer());
    pay(&proxy, "e", "{}").send();
    until_state(&proxy, "e", "NEEDS_ATTENTION");
    assert!(proxy.stop().success());
    let register = proxy.register();
    let direct = |arguments: &[&str]| {
        let place = ["--register", register.to_str().unwrap()];
        Proxy::command_alone(&[arguments, &place].concat())
    };
    let why = said(&direct(&["operations", "why", "provider", "e"]), 0);
    assert!(why.contains("say how it ended"), "{why}");
    let refused = direct(&["operations", "settle", "provider", "e"]);
    assert!(said(&refused, 1).contains("no-instance"));
    let seen = said(&direct(&NOT_IN_THEIR_BOOKS), 0);
    let now = selection(&seen);
    said(
        &direct(&[&NOT_IN_THEIR_BOOKS[..], &["--selection", &now]].concat()),
        0,
    );
    let cancelled = ["resources", "cancel", "account:7", "--reason", "closed"];
    said(&direct(&cancelled), 0);
    proxy.start_again();
    assert_eq!(state(&proxy, "e"), "NOT_APPLIED");
    let events = operation(&proxy, "e")["events"].to_string();
    assert!(events.contains("not in their books"), "{events}");
    assert_refused(
        &pay_from(&proxy, "7", "1", "late").send(),
        410,
        "resource-cancelled",
        "never",
    );
}

const NOT_IN_THEIR_BOOKS: [&str; 8] = [
    "operations",
    "resolve-all",
    "--upstream",
    "provider",
    "--verdict",
    "not-applied",
    "--reason",
    "not in their books",
];

/// What a preview says to type.
fn selection(seen: &str) -> String {
    let (_, after) = seen.split_once("--selection ").unwrap();
    after.split_whitespace().next().unwrap().to_owned()
}

/// Who reads what customers sent is told by the operation itself.
#[test]
fn stored_bodies_are_read_by_name() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::opaque(upstream.address()));
    assert_eq!(pay(&proxy, "k", r#"{"card":"4242"}"#).send().status, 201);
    let plain = said(&proxy.command(&["operations", "show", "provider", "k"]), 0);
    assert!(!plain.contains("effect-1"), "{plain}");
    let bodies = proxy.command(&["operations", "show", "provider", "k", "--bodies"]);
    assert!(said(&bodies, 0).contains("effect-1"));
    let events = operation(&proxy, "k")["events"].to_string();
    assert!(
        events.contains("stored bodies were read by carol"),
        "{events}"
    );
}

#[test]
fn what_waits_for_a_person_shows_in_readiness_metrics_and_doctor() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::new(upstream.address(), ONE_RESEND));
    let held = Gate::closed();
    upstream.next(Script::lose_answer());
    upstream.next(Script::hold_answer(&held));
    pay(&proxy, "k", "{}").send();
    held.until_reached();
    assert_eq!(
        proxy.health("/readyz").json()["unsettled"]["needs_attention"],
        0
    );
    until("the lifetime of its key is told", || {
        let left = proxy.metric("fencepost_key_lifetime_left_seconds");
        (86_000.0..=86_400.0).contains(&left)
    });
    held.open();
    until_state(&proxy, "k", "COMPLETED");
    upstream.next(Script::lose_answer());
    upstream.next(Script::lose_answer());
    pay(&proxy, "stuck", "{}").send();
    until_state(&proxy, "stuck", "NEEDS_ATTENTION");
    until("it is counted", || {
        proxy.health("/readyz").json()["unsettled"]["needs_attention"] == 1
    });
    assert_eq!(proxy.health("/readyz").status, 200);
    let doctor = said(&proxy.command(&["doctor"]), 0);
    assert!(doctor.contains("1 waiting for a person"), "{doctor}");
    assert!(doctor.contains("keys last"), "{doctor}");
    said(
        &Proxy::command_alone(&["doctor", "--admin", "http://127.0.0.1:9"]),
        3,
    );
}

/// An API that is asked often, and answers nobody.
const ASKED: &str = r#"
capability: [query]
effects:
  - on: POST /payments
    once: { header: Idempotency-Key }
    join: 200ms
    settle:
      - look_up:
          get: /payments
          applied: "response.body.paid"
          not_applied: "!response.body.paid"
          lag: 1s
          every: { from: 50ms, to: 50ms }
"#;

#[test]
fn how_settling_goes_shows_in_status_and_doctor() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::new(upstream.address(), ASKED));
    let standing = || {
        let settling = proxy.read("/v1/status")["settling"].clone();
        let mut all = settling.as_array().unwrap().iter();
        let own = all.find(|it| it["upstream"] == "provider");
        own.cloned().unwrap_or_default()
    };
    until("a pass has ended", || standing()["took_ms"].is_u64());
    assert_eq!(standing()["in_doubt"], 0);
    for _ in 0..20 {
        upstream.next(Script::lose_answer());
    }
    pay(&proxy, "k", "{}").send();
    until("the upstream is left alone", || {
        standing()["left_alone_ms"].as_u64() > Some(0)
    });
    assert!(standing()["failures"].as_u64() >= Some(5));
    let doctor = said(&proxy.command(&["doctor"]), 0);
    for words in [
        "settling, by upstream\n",
        "  provider: the last pass, ",
        "exchanges that failed in a row: ",
    ] {
        assert!(doctor.contains(words), "{doctor}");
    }
    until("a pass has found it", || standing()["in_doubt"] == 1);
    let pass = standing();
    let sum = ["due", "later", "held_back"].map(|name| pass[name].as_u64().unwrap());
    assert_eq!(sum.iter().sum::<u64>(), 1, "{pass}");
    assert!(
        pass["began_ms_ago"].is_u64() && pass["fault"].is_null(),
        "{pass}"
    );
    // A register that nobody runs on has nobody who settles.
    let register = proxy.register();
    let mut stopped = proxy;
    stopped.stop();
    let place = register.to_str().unwrap();
    let status = Proxy::command_alone(&["doctor", "--register", place, "--json"]);
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["settling"], serde_json::json!([]));
}

/// F14: the story names the layer that asked again, by the gap between the two and by what had become of the
/// one before.
#[test]
fn why_tells_which_layer_asked_again() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    let told = |key: &str, words: &str| {
        let told = || said(&proxy.command(&["operations", "why", "provider", key]), 0);
        until(&format!("{key}: {words}"), || told().contains(words));
    };
    let answer = Gate::closed();

    // A caller's deadline: it gives up, and asks again.
    upstream.next(Script::hold_answer(&answer));
    let call = pay(&proxy, "deadline", "{}");
    let first = call.start();
    answer.until_reached();
    first.hang_up_and_be_missed();
    let again = call.start();
    told("deadline", "its own retry at its deadline");
    answer.open();
    assert_eq!(again.answer().status, 201);

    // Two at once.
    let answer = Gate::closed();
    upstream.next(Script::hold_answer(&answer));
    let call = pay(&proxy, "race", "{}");
    let both = [call.start(), call.start()];
    told("race", "the one before still waits");
    answer.open();
    for one in both {
        assert_eq!(one.answer().status, 201);
    }
    assert_eq!(upstream.effects().len(), 2);
}
