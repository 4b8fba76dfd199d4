//! The SDK for Python, charging a card.
//!
//! What always holds: the same loss is played without Fencepost, to show that it does harm.

use std::net::SocketAddr;

use serde_json::Value;

use super::Provider;
use crate::support::gate::until;
use crate::support::link::Link;
use crate::support::proxy::Proxy;
use crate::support::python::python;
use crate::support::setup::Setup;

/// What the SDK made of it; panics with its own words where it gave up.
pub(super) fn sdk(command: &str, target: SocketAddr, arguments: &[&str]) -> Value {
    let base_url = format!("http://{target}");
    let output = python("python/charge.py")
        .args([command, &base_url])
        .args(arguments)
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the SDK gave up: {words}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// One charge whose first answer is lost on the way back to the SDK, which then retries by itself.
fn charge_with_lost_answer(target: SocketAddr, customer: &str, order: &str) -> Value {
    let link = Link::to(target);
    link.lose_next_answer();
    let charge = sdk("charge", link.address(), &[customer, order]);
    assert_eq!(link.answers_lost(), 1);
    assert_eq!(charge["status"], "succeeded");
    charge
}

#[test]
fn without_fencepost_the_retry_of_the_sdk_charges_twice() {
    let provider = Provider::start();
    let customer = provider.customer();
    charge_with_lost_answer(provider.address, &customer, "order-1");
    assert_eq!(provider.charges("order-1").len(), 2);
}

#[test]
fn through_fencepost_the_retry_of_the_sdk_charges_once() {
    let provider = Provider::start();
    let customer = provider.customer();
    let proxy = Proxy::start(Setup::new(provider.address, "profile: stripe-v1"));

    let charge = charge_with_lost_answer(proxy.address(), &customer, "order-1");

    assert_eq!(provider.charges("order-1"), [charge["id"].clone()]);
    assert_eq!(charge["replayed"], "true");
    assert_eq!(charge["source"], "stored");
}

/// A14: the caller gives up first and asks again.
#[test]
fn a_charge_whose_request_is_slow_is_sent_once_though_the_sdk_asks_again() {
    let provider = Provider::start();
    let customer = provider.customer();
    let network = Link::to(provider.address);
    let proxy = Proxy::start(Setup::new(network.address(), "profile: stripe-v1"));
    let caller_side = Link::to(proxy.address());

    network.hold_requests();
    let charge = std::thread::scope(|scope| {
        let charging =
            scope.spawn(|| sdk("charge", caller_side.address(), &[&customer, "order-2"]));
        until("the charge is in the network", || {
            network.request_bytes_held() > 0
        });
        caller_side.cut_callers();
        until("the SDK asks again", || caller_side.connections() == 2);
        network.release_requests();
        charging.join().unwrap()
    });

    assert_eq!(provider.charges("order-2"), [charge["id"].clone()]);
}
