//! Callbacks about what belongs to a generation: a reopened resource has the same ids once more.
//!
//! What always holds: a callback settles the operation that it is about and no other of its id; where nobody can
//! tell which it is about, it settles none, and the event logs say so.

use super::*;
use crate::support::ports;
use crate::support::script::Script;
use crate::support::setup::Setup;
use crate::support::upstream::Keys;
use std::net::{Ipv4Addr, SocketAddr};

/// A publication that is once per incarnation of its resource, and a draft of the same resource.
fn route(hooks: SocketAddr) -> String {
    format!(
        r#"
capability: [callback]
timeouts: {{ connect: 2s, response: 300ms, dispatch: 5s }}
callbacks:
  listen: {hooks}
  signature: {{ scheme: github, secrets: [hooks-secret] }}
  operation: "publish:{{body.date}}:*"
  reference: "{{body.reference}}"
  applied: "body.published"
  not_applied: "!body.published"
  definitive: true
effects:
  - on: PUT /statements/{{date}}
    once: "publish:{{path.date}}:{{resource.incarnation}}"
    reference: [ {{ json: /reference }} ]
    settle: [ callback: {{ within: 1h }} ]
    fence:
      resource: "statement:{{path.date}}"
      token: {{ header: Fencing-Token, mode: require }}
  - on: PUT /drafts/{{date}}
    fence:
      resource: "statement:{{path.date}}"
      token: {{ header: Fencing-Token, mode: require }}
"#
    )
}

struct Scene {
    upstream: Upstream,
    proxy: Proxy,
    hooks: SocketAddr,
}

impl Scene {
    /// A resource that was reopened once.
    fn reopened_after(first: &str) -> Self {
        let upstream = Upstream::start(Keys::Ignored);
        let hooks = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free()));
        let proxy = Proxy::start(Setup::new(upstream.address(), &route(hooks)));
        let before = proxy.put(first).token("107").key("k").json("{}").send();
        assert_eq!(before.status, 201, "{}", before.text());
        for verb in ["cancel", "reopen"] {
            let told = proxy.command(&["resources", verb, RESOURCE, "--reason", "a mistake"]);
            assert!(told.status.success(), "{told:?}");
        }
        upstream.next(Script::lose_answer());
        let told = publish(&proxy, "108", "{}").send();
        assert_eq!(told.status, 504, "{}", told.text());
        Self {
            upstream,
            proxy,
            hooks,
        }
    }

    fn publication(&self, incarnation: u64) -> Value {
        let id = in_path("publish:2026-09-13:*");
        let path = format!("/v1/operations/provider/{id}?incarnation={incarnation}");
        self.proxy.read(&path)
    }

    /// What the upstream got of a publication, to be found by.
    fn reference(&self, nth: usize) -> String {
        let body: Value = serde_json::from_str(&self.upstream.effect(nth).body).unwrap();
        body["reference"].as_str().unwrap().to_owned()
    }

    fn call_back(&self, reference: &str, published: bool) {
        let body =
            format!(r#"{{"date":"2026-09-13","reference":{reference},"published":{published}}}"#);
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"hooks-secret");
        let tag = ring::hmac::sign(&key, body.as_bytes());
        let digits = tag.as_ref().iter().map(|byte| format!("{byte:02x}"));
        let signature = format!("sha256={}", digits.collect::<String>());
        let call = Call::new(self.hooks, "POST", "/hooks").json(&body);
        let told = call.field("x-hub-signature-256", &signature).send();
        assert_eq!(told.status, 204, "{}", told.text());
    }
}

#[test]
fn the_only_operation_of_an_id_is_found_in_whatever_incarnation_it_is() {
    let scene = Scene::reopened_after("/drafts/2026-09-13");
    scene.call_back("null", true);
    assert_eq!(scene.publication(1)["state"], "COMPLETED");
}

#[test]
fn of_several_incarnations_the_one_is_meant_that_is_named_and_else_none() {
    let scene = Scene::reopened_after(STATEMENT);
    let (first, second) = (scene.reference(1), scene.reference(2));
    assert_ne!(first, second);
    for _ in 0..2 {
        scene.call_back("null", true);
        scene.call_back("null", false);
    }
    assert_eq!(scene.publication(1)["state"], "UNCERTAIN");
    let events = scene.publication(1)["events"].to_string();
    assert_eq!(
        events.matches("several incarnations").count(),
        1,
        "{events}"
    );
    // The first one's, once more; and nobody's.
    for other in [&first, "fp-0"] {
        scene.call_back(&format!("\"{other}\""), true);
        assert_eq!(scene.publication(1)["state"], "UNCERTAIN");
    }

    scene.call_back(&format!("\"{second}\""), true);

    assert_eq!(scene.publication(1)["state"], "COMPLETED");
    assert_eq!(scene.publication(0)["state"], "COMPLETED");
    assert!(scene.proxy.metric("fencepost_contradictions_total") < 1.0);
}
