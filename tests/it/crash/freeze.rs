//! The whole proxy stands still, as a suspended machine would make it, and goes on where it was.
//!
//! What always holds: a permit ends at `dispatch-by`, whatever the process believes; a thawed proxy
//! sends nothing that it should have sent earlier.

use std::time::{Duration, Instant};

use crate::support::gate::{Gate, until};
use crate::support::proxy::Proxy;
use crate::support::script::Script;
use crate::support::setup::Setup;
use crate::support::upstream::{Keys, Upstream};

const LIMIT: Duration = Duration::from_millis(400);

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
    let setup = Setup::new(
        upstream.address(),
        &format!("capability: [opaque]\n{QUICK}"),
    );
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

#[test]
fn an_answer_that_came_during_a_freeze_is_not_lost() {
    for capability in [
        "capability: [opaque]\n",
        "capability: [idempotent]\nkey: { header: Idempotency-Key, lifetime: 24h, value: derived }\n",
    ] {
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
