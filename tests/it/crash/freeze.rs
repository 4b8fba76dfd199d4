//! The whole proxy stands still, as a suspended machine would make it, and goes on where it was.
//!
//! What always holds: a permit ends at `dispatch-by`, whatever the process believes; a thawed proxy
//! sends nothing that it should have sent earlier.

use std::time::{Duration, Instant};

use crate::support::call::{Answer, Call};
use crate::support::gate::{Gate, until};
use crate::support::proxy::Proxy;
use crate::support::script::Script;
use crate::support::setup::Setup;
use crate::support::upstream::{Keys, Upstream};

const LIMIT: Duration = Duration::from_millis(400);

const OPAQUE: &str = "capability: [opaque]\n";

const IDEMPOTENT: &str =
    "capability: [idempotent]\nkey: { header: Idempotency-Key, lifetime: 24h, value: derived }\n";

const QUICK: &str = r#"
timeouts: { connect: 2s, response: 400ms, dispatch: 400ms }
effects:
  - on: POST /payments
    once: { header: Idempotency-Key }
  - on: PUT /statements/{date}
    once: "publish:{path.date}:{token.generation}"
    fence:
      resource: "statement:{path.date}"
      token: { header: Fencing-Token, mode: require }
"#;

fn until_past(begun: Instant) {
    until("the limit is past", || begun.elapsed() > LIMIT * 2);
}

#[test]
fn what_was_admitted_before_a_freeze_is_not_sent_after_it() {
    let upstream = Upstream::start(Keys::Ignored);
    let setup = Setup::new(upstream.address(), &format!("{OPAQUE}{QUICK}"));
    let proxy = Proxy::dying_at(setup, "after-intent:1:freeze");
    let call = proxy
        .put("/statements/2026-09-13")
        .token("107")
        .json(r#"{"by":"alice"}"#);
    let alice = call.start();
    proxy.until_frozen();
    until_past(Instant::now());
    assert!(!alice.is_answered());

    proxy.thaw();

    let told = alice.answer();
    assert_eq!(told.verdict(), (503, "dispatch-expired".to_owned()));
    assert!(told.field("retry-after").is_some());
    assert_eq!(upstream.text(), "", "not a byte");
    let operation = proxy.read("/v1/operations/provider/publish%3A2026-09-13%3A107");
    assert_eq!(operation["state"], "NOT_APPLIED");
    assert_eq!(call.send().status, 201);
    assert_eq!(upstream.effects().len(), 1);
}

/// Where it stood still; had a byte left by then?
const PLACES: [(&str, bool); 7] = [
    ("before-intent", false),
    ("after-intent", false),
    ("after-first-byte", true),
    ("after-last-byte", true),
    ("after-answer", true),
    ("before-outcome-commit", true),
    ("after-outcome-commit", true),
];

/// Frozen at a place until every limit of the attempt is past; what its caller is told after the thaw.
fn thawed_at(place: &str, upstream: &Upstream, capability: &str) -> (Proxy, Answer) {
    let setup = Setup::new(upstream.address(), &format!("{capability}{QUICK}"));
    let proxy = Proxy::dying_at(setup, &format!("{place}:1:freeze"));
    let first = pay(&proxy).start();
    proxy.until_frozen();
    until_past(Instant::now());
    proxy.thaw();
    let told = first.answer();
    (proxy, told)
}

fn pay(proxy: &Proxy) -> Call {
    proxy.post("/payments").key("k").json("{}")
}

fn until_at_rest(proxy: &Proxy, place: &str, ends: &[&str]) {
    until(&format!("{place}: {ends:?}"), || {
        let state = &proxy.read("/v1/operations/provider/k")["state"];
        ends.iter().any(|end| state == end)
    });
}

/// C17: the check is made after the wake-up, just before the write; and nothing is sent twice by a
/// process that believes to be early.
#[test]
fn wherever_it_stood_still_an_opaque_upstream_gets_one_attempt() {
    for (place, sent) in PLACES {
        let upstream = Upstream::start(Keys::Ignored);
        let (proxy, told) = thawed_at(place, &upstream, OPAQUE);
        if !sent {
            assert_eq!(
                told.verdict(),
                (503, "dispatch-expired".to_owned()),
                "{place}"
            );
            assert_eq!(upstream.text(), "", "{place}: not a byte");
            assert_eq!(pay(&proxy).send().status, 201, "{place}");
            assert_eq!(upstream.heads().len(), 1, "{place}");
            continue;
        }
        until_at_rest(&proxy, place, &["COMPLETED", "NEEDS_ATTENTION"]);
        let again = pay(&proxy).send();
        if told.status == 201 && told.field("fencepost-state").is_none() {
            assert_eq!((again.status, &again.body), (201, &told.body), "{place}");
        } else {
            assert!(matches!(told.status, 201 | 504), "{place}: {}", told.text());
            assert!(
                matches!(again.status, 201 | 409),
                "{place}: {}",
                again.text()
            );
        }
        assert!(upstream.heads().len() <= 1, "{place}: a second attempt");
    }
}

#[test]
fn wherever_it_stood_still_an_upstream_that_honours_keys_has_one_effect() {
    for (place, sent) in PLACES {
        let upstream = Upstream::start(Keys::Honoured);
        let (proxy, told) = thawed_at(place, &upstream, IDEMPOTENT);
        if sent {
            until_at_rest(&proxy, place, &["COMPLETED"]);
            assert!(matches!(told.status, 201 | 504), "{place}: {}", told.text());
        } else {
            assert_eq!(
                told.verdict(),
                (503, "dispatch-expired".to_owned()),
                "{place}"
            );
        }
        let again = pay(&proxy).send();
        let seen = (again.status, again.text());
        assert_eq!(seen, (201, r#"{"id":"effect-1"}"#.to_owned()), "{place}");
        assert_eq!(upstream.effects().len(), 1, "{place}");
    }
}

/// A resend has its own `dispatch-by`: past it, it is not sent, and another one is.
#[test]
fn a_resend_that_was_admitted_before_a_freeze_is_not_sent_after_it() {
    let upstream = Upstream::start(Keys::Honoured);
    let setup = Setup::new(upstream.address(), &format!("{IDEMPOTENT}{QUICK}"));
    let proxy = Proxy::dying_at(setup, "after-resend:1:freeze");
    upstream.next(Script::lose_answer());
    let first = pay(&proxy).start();
    proxy.until_frozen();
    until_past(Instant::now());
    assert_eq!(upstream.heads().len(), 1);
    proxy.thaw();
    let told = first.answer();
    assert!(matches!(told.status, 201 | 504), "{}", told.text());
    until_at_rest(&proxy, "after-resend", &["COMPLETED"]);
    assert_eq!(pay(&proxy).send().status, 201);
    let seen = (upstream.heads().len(), upstream.effects().len());
    assert_eq!(seen, (2, 1), "the frozen resend did not leave");
    let events = proxy.read("/v1/operations/provider/k")["events"].to_string();
    assert!(
        events.contains("nothing was sent (DispatchExpired)"),
        "{events}"
    );
}

/// The key's lifetime goes on while the machine stands still, before a resend is admitted and after.
#[test]
fn a_key_that_grew_old_in_a_freeze_is_never_sent_again() {
    for place in ["after-resend:1:freeze", "never"] {
        let upstream = Upstream::start(Keys::Honoured);
        let short = IDEMPOTENT.replace("24h", "2s");
        let late = if place == "never" { "800ms" } else { "10ms" };
        let routes = QUICK.replacen(
            "once: { header: Idempotency-Key }",
            &format!(
                "once: {{ header: Idempotency-Key }}\n    join: 100ms\n    settle: [ {{ send_again: {{ attempts: 100, backoff: {{ from: {late}, to: {late} }} }} }} ]"
            ),
            1,
        );
        let setup = Setup::new(upstream.address(), &format!("{short}{routes}"));
        let proxy = Proxy::dying_at(setup, place);
        upstream.next(Script::lose_answer());
        let begun = Instant::now();
        let first = pay(&proxy).start();
        if place == "never" {
            until("it was sent", || upstream.effects().len() == 1);
            proxy.freeze();
        }
        proxy.until_frozen();
        until("the key is too old", || {
            begun.elapsed() > Duration::from_secs(2)
        });
        proxy.thaw();
        drop(first);
        until_at_rest(&proxy, place, &["NEEDS_ATTENTION"]);
        assert_eq!(upstream.heads().len(), 1, "{place}: sent again");
    }
}

/// Longer than the operation takes to be overdue: its own reconciler finds it in doubt while its sender
/// wakes up.
#[test]
fn a_sender_that_wakes_up_overdue_sends_nothing() {
    let overdue = Duration::from_millis(6_500);
    let frozen = |keys, capability: &str| {
        let upstream = Upstream::start(keys);
        let routes = QUICK.replace("connect: 2s", "connect: 200ms");
        let setup = Setup::new(upstream.address(), &format!("{capability}{routes}"));
        let proxy = Proxy::dying_at(setup, "after-intent:1:freeze");
        let first = pay(&proxy).start();
        proxy.until_frozen();
        (upstream, proxy, first)
    };
    let opaque = frozen(Keys::Ignored, OPAQUE);
    let honoured = frozen(Keys::Honoured, IDEMPOTENT);
    let begun = Instant::now();
    until("both are overdue", || begun.elapsed() > overdue);
    for (upstream, proxy, first) in [opaque, honoured] {
        proxy.thaw();
        let told = first.answer();
        assert!(matches!(told.status, 201 | 503 | 504), "{}", told.text());
        until_at_rest(&proxy, "overdue", &["NOT_APPLIED", "COMPLETED"]);
        let again = pay(&proxy).send();
        assert_eq!(again.status, 201, "{}", again.text());
        assert_eq!(upstream.effects().len(), 1);
        assert_eq!(upstream.heads().len(), 1);
    }
}

#[test]
fn an_answer_that_came_during_a_freeze_is_not_lost() {
    for capability in [OPAQUE, IDEMPOTENT] {
        let upstream = Upstream::start(Keys::Honoured);
        let setup = Setup::new(upstream.address(), &format!("{capability}{QUICK}"));
        let proxy = Proxy::start(setup);
        let answer = Gate::closed();
        upstream.next(Script::hold_answer(&answer));
        let call = proxy.post("/payments").key("k").json("{}");
        let first = call.start();
        answer.until_reached();
        proxy.freeze();
        proxy.until_frozen();
        answer.open();
        until_past(Instant::now());
        proxy.thaw();

        // In time or too late, nobody is told anything else.
        let told = first.answer();
        assert!(told.status == 201 || told.status == 504, "{}", told.text());
        until("it is settled", || {
            proxy.read("/v1/operations/provider/k")["state"] == "COMPLETED"
        });
        let again = call.send();
        assert_eq!(
            (again.status, again.text().as_str()),
            (201, r#"{"id":"effect-1"}"#)
        );
        assert_eq!(upstream.effects().len(), 1);
    }
}
