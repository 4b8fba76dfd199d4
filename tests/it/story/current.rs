//! Effects that need a lease which is live when they are admitted.
//!
//! What always holds: nothing of them is admitted where nobody can know that the lease is live; what its owner left in
//! doubt is sent again under a live lease only, and under another's only once he asks for it.

use super::leases::{leased, leased_by};
use super::*;
use crate::support::script::Script;

const ROUTE: &str = r#"
capability: [idempotent]
key: { header: Idempotency-Key, lifetime: 24h, value: derived }
effects:
  - on: POST /accounts/{account}/payments
    once: { header: Idempotency-Key }
    fence:
      resource: "account:{path.account}"
      token: { header: Fencing-Token, mode: require, source: fencepost }
      require: current
    settle:
      - send_again: { attempts: 3, backoff: { from: 1500ms, to: 1500ms } }
"#;

#[test]
fn what_needs_a_live_lease_is_refused_where_nobody_can_know() {
    let mut it = leased_by(ROUTE);
    let (alice, token) = it.acquired("30s", "0s");
    assert_eq!(it.pay(&token, "a").status, 201);
    it.proxy.kill();
    it.proxy.start_again();
    // It is hers still, and the token is good; but this process did not see her acquire or renew it.
    let refused = it.pay(&token, "b");
    assert_refused(&refused, 412, "lease-not-current", "never");
    // What is stored is told to whoever asks.
    assert!(it.pay(&token, "a").is_replay());
    assert_eq!(it.his("renew", &alice).status, 200);
    assert_eq!(it.pay(&token, "c").status, 201);
    assert_eq!(it.his("release", &alice).status, 204);
    let late = it.pay(&token, "d");
    assert_refused(&late, 412, "stale-fencing-token", "never");
    assert_eq!(it.upstream.effects().len(), 2);
}

/// The same request, where the route asks for no live lease.
#[test]
fn what_needs_none_goes_by_its_token_alone() {
    let mut it = leased();
    let (_, token) = it.acquired("30s", "0s");
    it.proxy.kill();
    it.proxy.start_again();
    assert_eq!(it.pay(&token, "b").status, 201);
}

/// Contract section 5, *Current*: the owner is gone; a repeat by the next one licenses one resend under his lease.
#[test]
fn what_the_owner_left_in_doubt_is_sent_again_once_the_next_one_asks() {
    let it = leased_by(ROUTE);
    let (_, first) = it.acquired("1s", "0s");
    it.upstream.next(Script::lose_answer());
    let alone = pay_from(&it.proxy, "1", &first, "rent").start();
    let (_, second) = it.acquired("30s", "10s");
    let stuck = || operation(&it.proxy, "rent")["state"] == "NEEDS_ATTENTION";
    until(
        "nobody is left under whose lease it could be sent again",
        stuck,
    );
    assert_refused(&alone.answer(), 409, "needs-attention", "after-settlement");
    // Neither does it go out because somebody owns the resource, nor because somebody asks who does not.
    let late = it.pay(&first, "rent");
    assert_refused(&late, 409, "needs-attention", "after-settlement");
    assert_eq!(it.upstream.heads().len(), 1);
    let told = it.pay(&second, "rent");
    assert_eq!(told.status, 201, "{}", told.text());
    assert_eq!(
        (it.upstream.effects().len(), it.upstream.heads().len()),
        (1, 2)
    );
    assert_eq!(operation(&it.proxy, "rent")["state"], "COMPLETED");
}
