//! The SDK for Node, making a payment intent: scenario 1, the smallest config, and scenario 7, two
//! accounts.
//!
//! What always holds: the shipped `stripe-v1` profile and nothing else; the SDK as it comes, with its
//! own retries and its own keys.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::Provider;
use crate::support::link::Link;
use crate::support::node::node;
use crate::support::proxy::Proxy;
use crate::support::setup::Setup;
use crate::support::upstream::{Keys, Upstream};

/// What the SDK made of it; panics with its own words where it gave up.
fn pay(target: SocketAddr, order: &str, options: &Value) -> Value {
    let output = node("node/payment.cjs")
        .args([&format!("http://{target}"), order, &options.to_string()])
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the SDK gave up: {words}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// One payment whose first answer is lost on the way back to the SDK, which then retries by itself.
fn pay_with_lost_answer(target: SocketAddr, order: &str) -> Value {
    let link = Link::to(target);
    link.lose_next_answer();
    let paid = pay(link.address(), order, &json!({}));
    assert_eq!(link.answers_lost(), 1);
    assert_eq!(paid["amount"], 2000);
    paid
}

#[test]
fn without_fencepost_the_retry_of_the_sdk_pays_twice() {
    let provider = Provider::start();
    pay_with_lost_answer(provider.address(), "order-1");
    assert_eq!(provider.intents("order-1").len(), 2);
}

/// Scenario 1: one complete head at the provider, one payment intent, and the SDK's repeat is answered
/// from the register.
#[test]
fn through_fencepost_the_retry_of_the_sdk_pays_once() {
    let provider = Provider::start();
    let network = Link::to(provider.address());
    let proxy = Proxy::start(Setup::new(network.address(), "profile: stripe-v1"));

    let paid = pay_with_lost_answer(proxy.address(), "order-1");

    assert_eq!(provider.intents("order-1"), [paid["id"].clone()]);
    assert_eq!(paid["source"], "stored");
    assert_eq!(paid["replayed"], "true");
    let heads = network
        .passed_on()
        .matches("POST /v1/payment_intents ")
        .count();
    assert_eq!(heads, 1);
}

/// Scenario 7, as the SDK puts it: `Stripe-Account` under one key and one body. The upstream is a
/// stand-in, since localstripe knows of no accounts.
#[test]
fn two_accounts_under_one_key_are_two_payments_whose_answers_never_cross() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::new(upstream.address(), "profile: stripe-v1"));
    let pay = |account: &str, credential: &str| {
        let options = json!({
            "idempotencyKey": "k",
            "stripeAccount": account,
            "apiKey": credential,
        });
        pay(proxy.address(), "order-1", &options)
    };

    let a = pay("acct_A", "sk_test_one");
    let b = pay("acct_B", "sk_test_one");
    let again = pay("acct_A", "sk_test_rotated");

    assert_eq!(
        (&a["id"], &b["id"]),
        (&json!("effect-1"), &json!("effect-2"))
    );
    assert_eq!(again["id"], a["id"]);
    assert_eq!(again["source"], "stored");
    let accounts: Vec<_> = upstream
        .heads()
        .iter()
        .map(|head| head.fields.first("stripe-account").map(str::to_owned))
        .collect();
    assert_eq!(accounts, ["acct_A", "acct_B"].map(|it| Some(it.to_owned())));
}
