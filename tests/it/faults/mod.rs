//! The real binary on a disk that fails, fills up, becomes read-only, loses power; and on a register that
//! was damaged while it was stopped.
//!
//! What always holds: for each fault it is asserted that it struck, that work is refused, that it is
//! said, that nothing is sent, and that the same operation gets the right answer once the fault is gone,
//! by the upstream's own ledger at most once.
//!
//! What lives elsewhere: a COMMIT that fails beneath the decisions (`store::sqlite`), kills (`crash`).

mod at_rest;
mod damage;
mod full;
mod held;
mod large;
mod observed;
mod power;
mod read_only;
mod stranger;
mod sync;

use serde_json::Value;

use crate::support::call::{Answer, Call};
use crate::support::gate::until;
use crate::support::proxy::Proxy;
use crate::support::setup::Setup;
use crate::support::upstream::{Keys, Upstream};

/// How a payment was made that was made once.
const EFFECT_1: (u16, &str) = (201, r#"{"id":"effect-1"}"#);

/// A proxy on a disk that fails, and its upstream: one that honours keys, or one that is opaque.
fn on_a_disk_that_fails(keys: Keys) -> (Upstream, Proxy) {
    let upstream = Upstream::start(keys);
    let setup = match keys {
        Keys::Honoured => Setup::payments(upstream.address()),
        Keys::Ignored => Setup::opaque(upstream.address()),
    };
    (upstream, Proxy::start(setup.on_a_disk_that_fails()))
}

fn pay(proxy: &Proxy, key: &str) -> Call {
    proxy.post("/payments").key(key).json(r#"{"amount":5}"#)
}

fn operation(proxy: &Proxy, key: &str) -> Value {
    proxy.read(&format!("/v1/operations/provider/{key}"))
}

fn is_known(proxy: &Proxy, key: &str) -> bool {
    let path = format!("/v1/operations/provider/{key}");
    match proxy.admin("GET", &path).send().status {
        200 => true,
        404 => false,
        other => panic!("GET {path}: {other}"),
    }
}

fn until_state(proxy: &Proxy, key: &str, wanted: &str) {
    until(&format!("{key} is {wanted}"), || {
        operation(proxy, key)["state"] == wanted
    });
}

fn assert_unavailable(answer: &Answer) {
    let expected = (503, "store-unavailable".to_owned());
    assert_eq!(answer.verdict(), expected, "{}", answer.text());
    assert!(answer.field("retry-after").is_some());
}

fn assert_uncertain(answer: &Answer) {
    let expected = (504, "outcome-uncertain".to_owned());
    assert_eq!(answer.verdict(), expected, "{}", answer.text());
}

fn assert_effect_1(answer: &Answer) {
    assert_eq!((answer.status, &*answer.text()), EFFECT_1);
}

/// Not ready, for a reason with these words; alive all the same.
fn until_not_ready(proxy: &Proxy, because: &str) {
    until(&format!("it is not ready: {because}"), || {
        let ready = proxy.health("/readyz");
        ready.status == 503 && ready.text().contains(because)
    });
    assert_eq!(proxy.health("/livez").status, 200);
}

fn until_ready(proxy: &Proxy) {
    until("it is ready", || proxy.health("/readyz").status == 200);
}

/// It does not start: exit code 1, and these words on standard error.
fn assert_does_not_start(proxy: &mut Proxy, because: &str) {
    let before = proxy.log().len();
    let ended = proxy.starts_again_with(&[]).unwrap_err();
    assert_eq!(ended.code(), Some(1));
    let log = proxy.log();
    assert!(log[before..].contains(because), "{}", &log[before..]);
}
