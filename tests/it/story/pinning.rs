//! Work that is pinned to the moment at which it came in: what a worker sends for it goes out under the token of then,
//! or not at all.
//!
//! What always holds: what counts is what reached the provider, and under which token the register has it. Every
//! request goes over a connection of its own, so that no connection says when its work was begun.

use std::net::{Ipv4Addr, SocketAddr};

use super::on_behalf::{ACCOUNT, Sidecar, Wanted, lost, told, write};
use super::*;
use crate::support::gate::Gate;
use crate::support::ports;
use crate::support::python::python;
use crate::support::script::Script;
use crate::support::upstream::Keys;
use crate::workers::Worker;

const OLD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const OLD_AGAIN: &str = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
const NEW: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// A sidecar with a way in to its worker.
struct Ground {
    sidecar: Sidecar,
    inbound: SocketAddr,
}

impl Ground {
    fn start(upstream: &Upstream, worker: SocketAddr, pin: &str) -> Self {
        let inbound = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free()));
        let beside = format!(
            "inbound:\n  jobs: {{ listen: {inbound}, url: \"http://{worker}\", pin: {pin} }}"
        );
        let wanted = Wanted {
            alive: "{ file: FOLDER/start, every: 100ms }",
            beside: &beside,
            ..Wanted::default()
        };
        let sidecar = Sidecar::start(upstream, &wanted);
        Self { sidecar, inbound }
    }

    /// The lease is the worker's, in this start of it.
    fn own(&self, start: &str, token: &str) {
        write(&self.sidecar.path("start"), start);
        self.sidecar.until_token(token);
        until("a connection may say so", || {
            let probe = self.sidecar.proxy.post("/accounts/1/payments");
            let probe = probe.field("Fencing-Acquisition", "nobody's").json("{}");
            // Whoever is too early is told so; who is not names an acquisition that is nobody's.
            probe.send().text().contains("names an acquisition")
        });
    }

    fn lose(&self) {
        std::fs::remove_file(self.sidecar.path("start")).unwrap();
        self.sidecar.until_held(false);
    }

    fn ask(&self, name: &str, id: &str, key: &str) -> Answer {
        let body = format!(r#"{{"payment":"{key}"}}"#);
        let call = Call::new(self.inbound, "POST", "/work").field(name, id);
        call.json(&body).send()
    }

    fn asked(&self, trace: &str) {
        assert_eq!(self.ask("traceparent", trace, "x").status, 201);
    }

    fn pay(&self, key: &str, trace: &str) -> Answer {
        self.sidecar.pay(key).field("traceparent", trace).send()
    }

    fn mark(&self) -> Option<String> {
        mark(&self.sidecar.proxy, ACCOUNT)
    }
}

/// The worker takes work under token 1 and is slow. The lease is lost, and is the next process's under token 2. What
/// the slow one sends then, over a fresh connection, is still of token 1.
#[test]
fn work_that_came_in_before_the_lease_was_lost_is_stale_after_it() {
    let upstream = Upstream::start(Keys::Honoured);
    let worker = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free()));
    let ground = Ground::start(&upstream, worker, "{ by: traceparent }");
    let mut command = python("python/traced_worker.py");
    command.arg(worker.port().to_string());
    command.arg(format!("http://{}", ground.sidecar.proxy.address()));
    let mut worker = Worker::started(command);
    ground.own("one", "1");
    assert_eq!(ground.ask("traceparent", OLD, "prompt").status, 202);
    assert_eq!(ground.ask("traceparent", OLD, "slow").status, 202);
    assert_eq!(told(&mut worker, "prompt").0, 201);
    ground.lose();
    assert_eq!(told(&mut worker, "slow"), lost());
    ground.own("two", "2");
    let stale = (412, "stale-fencing-token".to_owned());
    assert_eq!(told(&mut worker, "slow"), stale);
    assert_eq!(ground.ask("traceparent", NEW, "new").status, 202);
    assert_eq!(told(&mut worker, "new").0, 201);
    // Whoever asked for the old work asks again: it is the same work, and has been begun.
    assert_eq!(ground.ask("traceparent", OLD_AGAIN, "slow").status, 202);
    assert_eq!(told(&mut worker, "slow"), stale);
    // What was done is told to it all the same.
    assert_eq!(told(&mut worker, "prompt").0, 201);
    assert_eq!(ground.mark().as_deref(), Some("2"));
    let bodies = bodies(&upstream);
    assert_eq!(bodies.len(), 2, "{bodies:?}");
    // Outside of any trace it is as it was without.
    assert_eq!(told(&mut worker, "untraced").0, 201);
}

/// Work that came in while nothing was owned is not the owner's of later; nor does it wait for it.
#[test]
fn work_that_came_in_before_the_lease_was_owned_is_lost() {
    let (upstream, worker) = (
        Upstream::start(Keys::Honoured),
        Upstream::start(Keys::Ignored),
    );
    let ground = Ground::start(&upstream, worker.address(), "{ by: traceparent }");
    ground.asked(OLD);
    let early = ground.pay("a", OLD_AGAIN);
    assert_refused(&early, 412, "lease-lost", "never");
    assert_refused(&ground.pay("b", NEW), 409, "lease-held", "same-operation");
    ground.own("one", "1");
    let late = ground.pay("a", OLD_AGAIN);
    assert_refused(&late, 412, "lease-lost", "never");
    assert!(late.text().contains("came in"), "{}", late.text());
    assert!(late.text().contains("under a new id"), "{}", late.text());
    assert!(late.text().contains(r#""resource":""#), "{}", late.text());
    ground.asked(NEW);
    assert_eq!(ground.pay("b", NEW).status, 201);
    assert_eq!(upstream.effects().len(), 1);
}

#[test]
fn where_it_is_strict_only_what_came_in_goes_out() {
    let (upstream, worker) = (
        Upstream::start(Keys::Honoured),
        Upstream::start(Keys::Ignored),
    );
    let pin = "{ by: { header: X-Work }, strict: true, required: true }";
    let ground = Ground::start(&upstream, worker.address(), pin);
    write(&ground.sidecar.path("start"), "one");
    ground.sidecar.until_token("1");
    // What came in a moment too early stays what it is.
    let mut number = 0;
    until("work that came in is paid", || {
        number += 1;
        let id = format!("w-{number}");
        assert_eq!(ground.ask("X-Work", &id, "x").status, 201);
        let paid = ground.sidecar.pay("a").field("X-Work", &id).send();
        paid.status == 201
    });
    let unknown = ground.sidecar.pay("b").field("X-Work", "never").send();
    assert_refused(&unknown, 412, "lease-lost", "never");
    assert!(unknown.text().contains("pin.strict"), "{}", unknown.text());
    assert_refused(&ground.sidecar.pay("b").send(), 412, "lease-lost", "never");
    let before = worker.heads().len();
    let refused = Call::new(ground.inbound, "POST", "/work").json("{}").send();
    assert_refused(&refused, 400, "identity-missing", "never");
    let two = Call::new(ground.inbound, "POST", "/work").json("{}");
    let two = two.field("X-Work", "one").field("X-Work", "other").send();
    assert_refused(&two, 400, "identity-missing", "never");
    assert_eq!(worker.heads().len(), before);
    assert_eq!(upstream.effects().len(), 1);
}

/// Whoever asks the worker, and the worker, see each other and not the sidecar.
#[test]
fn what_comes_in_reaches_the_worker_as_it_came() {
    let (upstream, worker) = (
        Upstream::start(Keys::Honoured),
        Upstream::start(Keys::Ignored),
    );
    let ground = Ground::start(&upstream, worker.address(), "{ by: traceparent }");
    let call = Call::new(ground.inbound, "PUT", "/a%2Fb//c?d=%20&e")
        .field("X-Request-Id", "7")
        .field("X-Forwarded-For", "10.0.0.1")
        .field("Fencing-Token", "108")
        .field("Idempotency-Key", "k")
        .field("X-Twice", "1")
        .field("X-Twice", "2");
    let answer = call.json(r#"{"a":1}"#).send();
    assert_eq!(answer.status, 201);
    assert_eq!(answer.field("fencepost-source"), None);
    let effect = worker.effect(1);
    assert_eq!(
        (effect.method.as_str(), effect.path.as_str()),
        ("PUT", "/a%2Fb//c?d=%20&e")
    );
    assert_eq!(effect.body, r#"{"a":1}"#);
    let fields = &effect.head.fields;
    let host = ground.inbound.to_string();
    for (name, value) in [
        ("host", host.as_str()),
        ("x-request-id", "7"),
        ("x-forwarded-for", "10.0.0.1"),
        ("fencing-token", "108"),
        ("idempotency-key", "k"),
        ("x-twice", "1"),
        ("content-length", "7"),
    ] {
        assert_eq!(fields.first(name), Some(value), "{name}");
    }
    assert!(upstream.effects().is_empty());
    drop(worker);
    // Connections that were kept break first.
    until("nobody is there any more", || {
        let answer = ground.ask("traceparent", OLD, "x");
        assert_eq!(answer.status, 502);
        let text = answer.text();
        text.contains("upstream-unreachable") && text.contains("No connection to the worker")
    });
}

/// Another config is put in force, and what came in before is of the same moment.
#[test]
fn a_reload_forgets_nothing_and_another_way_in_takes_a_restart() {
    let (upstream, worker) = (
        Upstream::start(Keys::Honoured),
        Upstream::start(Keys::Ignored),
    );
    let ground = Ground::start(&upstream, worker.address(), "{ by: traceparent }");
    ground.own("one", "1");
    ground.asked(OLD);
    let reloaded = |from: &str, to: &str| {
        let last = || ground.sidecar.proxy.read("/v1/config")["last_reload"].clone();
        let before = last();
        ground.sidecar.proxy.change_config(from, to);
        until("it was read again", || last() != before);
        last()
    };
    let applied = reloaded("mode: require", "mode: prefer");
    assert_eq!(applied["result"], "applied", "{applied}");
    let refused = reloaded("by: traceparent", "by: { header: X-Work }");
    assert_eq!(refused["result"], "refused", "{refused}");
    assert!(
        refused.to_string().contains("inbound cannot change"),
        "{refused}"
    );
    ground.lose();
    ground.own("two", "2");
    let stale = ground.pay("a", OLD_AGAIN);
    assert_refused(&stale, 412, "stale-fencing-token", "never");
    ground.asked(NEW);
    assert_eq!(ground.pay("b", NEW).status, 201);
}

/// Who was let in gets the worker's answer, and nobody else is.
#[test]
fn a_stop_waits_for_the_worker_and_lets_nothing_more_in() {
    let (upstream, worker) = (
        Upstream::start(Keys::Honoured),
        Upstream::start(Keys::Ignored),
    );
    let mut ground = Ground::start(&upstream, worker.address(), "{ by: traceparent }");
    let answer = Gate::closed();
    worker.next(Script::hold_answer(&answer));
    let let_in = Call::new(ground.inbound, "POST", "/work")
        .json("{}")
        .start();
    answer.until_reached();
    ground.sidecar.proxy.begin_to_stop();
    until("it drains", || {
        ground.sidecar.proxy.health("/readyz").status == 503
    });
    let late = ground.ask("traceparent", OLD, "x");
    assert_refused(&late, 503, "draining", "same-operation");
    answer.open();
    assert_eq!(let_in.answer().status, 201);
    assert_eq!(ground.sidecar.proxy.ended().code(), Some(0));
    assert_eq!(worker.heads().len(), 1);
}
