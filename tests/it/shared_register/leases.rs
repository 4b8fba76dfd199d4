//! Leases of a register that several sidecars share, also through a pooler.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::servers::{Bouncer, Database, Pool, shared};
use crate::support::call::{Answer, Call};
use crate::support::gate::until;
use crate::support::ports;
use crate::support::proxy::Proxy;
use crate::support::setup::Setup;
use crate::support::upstream::{Keys, Upstream};

const ROUTE: &str = r#"
capability: [idempotent]
key: { header: Idempotency-Key, lifetime: 24h, value: derived }
effects:
  - on: POST /accounts/{account}/payments
    once: { header: Idempotency-Key }
    fence:
      resource: "account:{path.account}"
      token: { header: Fencing-Token, mode: require, source: fencepost }
"#;

struct Sidecar {
    proxy: Proxy,
    worker: SocketAddr,
}

fn sidecar(upstream: &Upstream, url: &str) -> Sidecar {
    let worker = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free()));
    let setup = Setup::new(upstream.address(), ROUTE).sharing(url, "");
    let setup = setup.with(&format!("worker: {{ address: {worker} }}"));
    Sidecar {
        proxy: Proxy::start(setup),
        worker,
    }
}

impl Sidecar {
    fn call(&self, what: &str, body: &str) -> Call {
        let path = format!("/v1/leases/account%3A1/{what}");
        Call::new(self.worker, "POST", &path).json(body)
    }

    fn acquire(&self, ttl: &str, wait: &str) -> Call {
        self.call("acquire", &format!(r#"{{"ttl":"{ttl}","wait":"{wait}"}}"#))
    }

    fn his(&self, what: &str, acquisition: &str) -> Answer {
        let body = format!(r#"{{"acquisition":"{acquisition}"}}"#);
        self.call(what, &body).send()
    }

    fn pay(&self, token: &str, key: &str) -> u16 {
        let call = self
            .proxy
            .post("/accounts/1/payments")
            .key(key)
            .token(token);
        call.json("{}").send().status
    }
}

fn granted(told: &Answer) -> (String, String) {
    assert_eq!(told.status, 200, "{}", told.text());
    let told = told.json();
    let text = |name: &str| told[name].as_str().unwrap().to_owned();
    (text("acquisition"), text("token"))
}

#[test]
fn who_waits_at_another_sidecar_is_served_within_its_poll() {
    let upstream = Upstream::start(Keys::Honoured);
    let database = shared().database();
    let (one, other) = (
        sidecar(&upstream, &database.url()),
        sidecar(&upstream, &database.url()),
    );
    let (alice, first) = granted(&one.acquire("1h", "0s").send());
    // Whoever does not wait asks, and is told so at once.
    assert_eq!(other.acquire("1h", "0s").send().status, 409);
    let waiting = other.acquire("1h", "30s").start();
    until("he waits", || {
        other.proxy.counted("fencepost_lease_waiting") == 1
    });
    let listed = other.proxy.read("/v1/leases");
    assert_eq!(listed["leases"][0]["token"], first.as_str(), "{listed}");
    assert_eq!(one.his("release", &alice).status, 204);
    let released = Instant::now();
    let (bob, second) = granted(&waiting.answer());
    let waited = released.elapsed();
    assert!(waited < Duration::from_secs(3), "{waited:?}");
    assert!(second.parse::<u64>().unwrap() > first.parse().unwrap());
    assert_eq!(one.pay(&first, "late"), 412);
    assert_eq!(one.pay(&second, "in-time"), 201);
    // Renewed through whichever sidecar; and whoever comes the moment it is given back gets it.
    assert_eq!(one.his("renew", &bob).status, 200);
    assert_eq!(other.his("release", &bob).status, 204);
    let (_, third) = granted(&one.acquire("1h", "0s").send());
    assert_eq!(third, "3");
}

/// C16, with what C01 and C12 ask: a lease is a row, and no session holds it.
#[test]
fn leases_pass_through_a_pooler_that_shares_its_connections_by_the_transaction() {
    let upstream = Upstream::start(Keys::Honoured);
    let database = shared().database();
    let pool = Pool {
        connections: 3,
        ..Pool::default()
    };
    let mut bouncer = Bouncer::start(shared().address(), pool);
    let url = database.url_at(bouncer.address());
    let (one, other) = (sidecar(&upstream, &url), sidecar(&upstream, &url));
    let (alice, first) = granted(&one.acquire("2s", "0s").send());
    assert_eq!(one.pay(&first, "a"), 201);
    // Every connection is another one from now on.
    bouncer.kill();
    bouncer.start_again();
    let (bob, second) = granted(&until_told(&other, "1h"));
    assert_ne!(first, second);
    assert_eq!(one.his("renew", &alice).status, 412);
    assert_eq!(one.his("release", &alice).status, 412);
    assert_eq!(one.pay(&first, "late"), 412);
    assert_eq!(lease(&database), "t", "it is Bob's still");
    assert_eq!(other.his("renew", &bob).status, 200);
    assert_eq!(other.his("release", &bob).status, 204);
    assert_eq!(lease(&database), "f");
}

/// The register may be away for a moment.
fn until_told(sidecar: &Sidecar, ttl: &str) -> Answer {
    let mut told = None;
    until("the lease is granted", || {
        let answer = sidecar.acquire(ttl, "10s").send();
        let is_granted = answer.status == 200;
        assert!(
            matches!(answer.status, 200 | 409 | 503 | 504),
            "{}",
            answer.text()
        );
        told = Some(answer);
        is_granted
    });
    told.unwrap()
}

fn lease(database: &Database) -> String {
    database.query("SELECT leased FROM fencepost.fences")
}

/// A sidecar that is killed takes nobody's lease along, and another cannot know until when it is live.
#[test]
fn a_dead_sidecar_s_leases_end_by_themselves() {
    let upstream = Upstream::start(Keys::Honoured);
    let database = shared().database();
    let (mut one, other) = (
        sidecar(&upstream, &database.url()),
        sidecar(&upstream, &database.url()),
    );
    let (alice, first) = granted(&one.acquire("3s", "0s").send());
    one.proxy.kill();
    let renewed = other.his("renew", &alice);
    assert_eq!(renewed.status, 200, "{}", renewed.text());
    let begun = Instant::now();
    let (_, second) = granted(&other.acquire("30s", "20s").send());
    let waited = begun.elapsed();
    assert!(waited >= Duration::from_millis(2_500), "{waited:?}");
    assert!(waited < Duration::from_secs(6), "{waited:?}");
    assert!(second.parse::<u64>().unwrap() > first.parse().unwrap());
    let shown = other.proxy.read("/v1/leases/account%3A1");
    assert_eq!(shown["held"], Value::Bool(true), "{shown}");
}
