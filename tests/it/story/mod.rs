//! The stories of the two articles that this product answers to, told in their words: Alice holds
//! 107, Bob holds 108, and the provider knows nothing of either.
//!
//! What always holds: real processes and real sockets; what counts is the provider's own ledger,
//! the answers that callers saw come second. A story waits for what it needs to have happened.
//!
//! What lives elsewhere: the demo tells some of these to a newcomer (`cli::demo`); what happens when
//! the proxy itself dies is in `crash`.

mod amending;
mod answers;
mod asking;
mod blocked;
mod bytes;
mod callbacks;
mod certificates;
mod current;
mod deadlines;
mod drain;
mod evidence;
mod expressions;
mod hygiene;
mod identity;
mod incarnations;
mod leases;
mod leases_line;
mod leases_lost;
mod leases_run;
mod looking_up;
mod lost_answer;
mod meaning;
mod moving;
mod network;
mod on_behalf;
mod operators;
mod oversized;
mod ownership;
mod person;
mod placed;
mod register;
mod rolling_out;
mod settling;
mod stuck;
mod together;
mod tokens;
mod twins;
mod watching;

use serde_json::Value;

use crate::support::call::{Answer, Call};
use crate::support::gate::until;
use crate::support::proxy::Proxy;
use crate::support::upstream::Upstream;

/// The statement that both of them publish.
const STATEMENT: &str = "/statements/2026-09-13";

/// The fence of that statement.
const RESOURCE: &str = "statement:2026-09-13";

/// A publication under a token.
fn publish(proxy: &Proxy, token: &str, body: &str) -> Call {
    proxy.put(STATEMENT).token(token).json(body)
}

/// A payment under the caller's own key.
fn pay(proxy: &Proxy, key: &str, body: &str) -> Call {
    proxy.post("/payments").key(key).json(body)
}

/// A payment from an account that somebody must own.
fn pay_from(proxy: &Proxy, account: &str, token: &str, key: &str) -> Call {
    let body = format!(r#"{{"payment":"{key}"}}"#);
    proxy
        .post(&format!("/accounts/{account}/payments"))
        .token(token)
        .key(key)
        .json(&body)
}

/// What the operators' API says of an operation of the one upstream.
fn operation(proxy: &Proxy, id: &str) -> Value {
    proxy.read(&format!("/v1/operations/provider/{}", in_path(id)))
}

/// Its state, in the contract's words.
fn state(proxy: &Proxy, id: &str) -> String {
    operation(proxy, id)["state"].as_str().unwrap().to_owned()
}

fn until_state(proxy: &Proxy, id: &str, wanted: &str) {
    until(&format!("{id} is {wanted}"), || state(proxy, id) == wanted);
}

/// How many operations the register knows.
fn recorded(proxy: &Proxy) -> usize {
    let list = proxy.read("/v1/operations");
    list["operations"].as_array().unwrap().len()
}

/// The highest token presented for a resource.
fn mark(proxy: &Proxy, resource: &str) -> Option<String> {
    let path = format!("/v1/resources/{}", in_path(resource));
    let answer = proxy.admin("GET", &path).send();
    (answer.status == 200).then(|| answer.json()["token"].as_str().map(str::to_owned))?
}

/// Resource names and ids hold `:` and `/`.
fn in_path(name: &str) -> String {
    name.replace('%', "%25")
        .replace(':', "%3A")
        .replace('/', "%2F")
}

/// The bodies of the effects, in their order.
fn bodies(upstream: &Upstream) -> Vec<String> {
    let effects = upstream.effects();
    effects.into_iter().map(|effect| effect.body).collect()
}

/// Asserts that this is a stored answer given once more: the same status and bytes, and marked.
fn assert_replayed(again: &Answer, first: &Answer) {
    assert_eq!((again.status, &again.body), (first.status, &first.body));
    assert!(again.is_replay(), "{}", again.head.text);
    assert_eq!(again.field("fencepost-source"), Some("stored"));
}

/// Asserts that this is a refusal of the proxy's own, by the contract's table.
fn assert_refused(answer: &Answer, status: u16, problem: &str, retry: &str) {
    assert_eq!(
        answer.verdict(),
        (status, problem.to_owned()),
        "{}",
        answer.text()
    );
    assert_eq!(answer.json()["retry"], retry);
    assert_eq!(answer.field("fencepost-source"), Some("proxy"));
}
