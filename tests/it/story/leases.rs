//! Leases of the register, as workers and scripts take them.
//!
//! What always holds: whoever lost his lease is refused by the fence, though nobody told him; tokens only rise.

use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::*;
use crate::support::call::InFlight;
use crate::support::ports;
use crate::support::setup::Setup;
use crate::support::upstream::Keys;

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

/// The account that everybody wants.
pub(super) const ACCOUNT: &str = "account:1";

pub(super) struct Leased {
    pub(super) proxy: Proxy,
    pub(super) upstream: Upstream,
    pub(super) worker: SocketAddr,
}

pub(super) fn leased() -> Leased {
    leased_by(ROUTE)
}

pub(super) fn leased_by(route: &str) -> Leased {
    let upstream = Upstream::start(Keys::Honoured);
    let worker = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free()));
    let setup = Setup::new(upstream.address(), route);
    let setup = setup.with(&format!("worker: {{ address: {worker} }}"));
    Leased {
        proxy: Proxy::start(setup),
        upstream,
        worker,
    }
}

impl Leased {
    pub(super) fn ask(&self, what: &str, body: &str) -> Answer {
        self.call(what, body).send()
    }

    pub(super) fn call(&self, what: &str, body: &str) -> Call {
        let path = format!("/v1/leases/{}/{what}", in_path(ACCOUNT));
        Call::new(self.worker, "POST", &path).json(body)
    }

    /// Comes to wait, and stands in line behind all who came before.
    pub(super) fn wait_in_line(&self, wait: &str) -> InFlight {
        let before = self.proxy.counted("fencepost_lease_waiting");
        let body = format!(r#"{{"ttl":"1h","wait":"{wait}","holder":"waiter"}}"#);
        let waiting = self.call("acquire", &body).start();
        until("it stands in line", || {
            self.proxy.counted("fencepost_lease_waiting") > before
        });
        waiting
    }

    pub(super) fn acquire(&self, ttl: &str, wait: &str) -> Answer {
        let body = format!(r#"{{"ttl":"{ttl}","wait":"{wait}","holder":"worker"}}"#);
        self.ask("acquire", &body)
    }

    pub(super) fn acquired(&self, ttl: &str, wait: &str) -> (String, String) {
        let told = self.acquire(ttl, wait);
        assert_eq!(told.status, 200, "{}", told.text());
        let told = told.json();
        let text = |name: &str| told[name].as_str().unwrap().to_owned();
        (text("acquisition"), text("token"))
    }

    pub(super) fn his(&self, what: &str, acquisition: &str) -> Answer {
        self.ask(what, &format!(r#"{{"acquisition":"{acquisition}"}}"#))
    }

    pub(super) fn pay(&self, token: &str, key: &str) -> Answer {
        pay_from(&self.proxy, "1", token, key).send()
    }

    /// `lease run`, with a command of a shell.
    pub(super) fn run(&self, ttl: &str, more: &[&str], script: &str) -> Child {
        self.run_command(ttl, more, &["sh", "-c", script])
    }

    /// `lease run`, with that command.
    pub(super) fn run_command(&self, ttl: &str, more: &[&str], command: &[&str]) -> Child {
        let worker = format!("http://{}", self.worker);
        let own = ["lease", "run", "--resource", ACCOUNT, "--ttl", ttl];
        Command::new(env!("CARGO_BIN_EXE_fencepost"))
            .args(own)
            .args(["--worker", &worker])
            .args(more)
            .arg("--")
            .args(command)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }
}

pub(super) fn read_all(child: &mut Child) -> String {
    let mut text = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    text
}

#[test]
fn whoever_lost_his_lease_is_refused_though_nobody_told_him() {
    let it = leased();
    let (alice, first) = it.acquired("1s", "0s");
    assert_eq!(it.pay(&first, "a").status, 201);
    // Alice stands still, and her time ends.
    let (_, second) = it.acquired("30s", "10s");
    assert_refused(&it.pay(&first, "late"), 412, "stale-fencing-token", "never");
    let renewed = it.his("renew", &alice);
    assert_eq!(renewed.status, 412, "{}", renewed.text());
    assert_eq!(it.his("release", &alice).status, 412);
    assert_eq!(it.pay(&second, "b").status, 201);
    // Nobody can have issued this one.
    let unknown = it.pay("9", "c");
    assert_refused(&unknown, 412, "fencing-token-unknown", "after-settlement");
    assert_eq!(it.upstream.effects().len(), 2);
}

#[test]
fn a_lease_is_kept_by_renewing_and_given_back() {
    let it = leased();
    let (alice, first) = it.acquired("30s", "0s");
    let told = it.acquire("30s", "0s");
    assert_eq!(told.status, 409, "{}", told.text());
    let seconds: u64 = told.field("retry-after").unwrap().parse().unwrap();
    assert!((1..=30).contains(&seconds), "{seconds}");
    let renewed = it.his("renew", &alice);
    assert_eq!(renewed.status, 200, "{}", renewed.text());
    assert_eq!(renewed.json()["token"], first.as_str());
    let path = format!("/v1/leases/{}", in_path(ACCOUNT));
    let shown = Call::new(it.worker, "GET", &path).send().json();
    assert_eq!(shown["holder"], "worker");
    assert_eq!(shown["acquisition"], Value::Null, "its holder's secret");
    assert_eq!(it.his("release", &alice).status, 204);
    let shown = Call::new(it.worker, "GET", &path).send().json();
    assert_eq!(shown["held"], false);
    assert_refused(&it.pay(&first, "late"), 412, "stale-fencing-token", "never");
    let (_, second) = it.acquired("30s", "0s");
    assert_ne!(first, second);
}

/// C19: a register that was away gives every lease its full time again, and forgets no token.
#[test]
fn a_restart_forgets_no_lease() {
    let mut it = leased();
    let (alice, first) = it.acquired("30s", "0s");
    it.proxy.kill();
    it.proxy.start_again();
    assert_eq!(it.acquire("30s", "0s").status, 409);
    let renewed = it.his("renew", &alice);
    assert_eq!(renewed.status, 200, "{}", renewed.text());
    assert_eq!(it.pay(&first, "a").status, 201);
    assert_eq!(it.his("release", &alice).status, 204);
    it.proxy.kill();
    it.proxy.start_again();
    let (_, second) = it.acquired("30s", "0s");
    assert!(second.parse::<u64>().unwrap() > first.parse().unwrap());
}

/// Contract §7: a cancelled resource is owned by nobody; reopened it goes on above its mark.
#[test]
fn a_cancelled_resource_is_leased_to_nobody() {
    let it = leased();
    let (alice, first) = it.acquired("30s", "0s");
    let resource = format!("/v1/resources/{}", in_path(ACCOUNT));
    let steer = |how: &str| {
        let call = it.proxy.admin("POST", &format!("{resource}/{how}"));
        let told = call.json(r#"{"reason":"wrong amount"}"#).send();
        assert_eq!(told.status, 200, "{}", told.text());
    };
    steer("cancel");
    assert_eq!(it.his("renew", &alice).status, 412);
    let told = it.acquire("30s", "0s");
    assert_eq!(told.status, 410, "{}", told.text());
    steer("reopen");
    assert_eq!(it.his("renew", &alice).status, 412);
    let (_, second) = it.acquired("30s", "0s");
    assert!(second.parse::<u64>().unwrap() > first.parse().unwrap());
}

#[test]
fn what_cannot_be_a_lease_is_told_so() {
    let it = leased();
    for (body, part) in [
        (r#"{"ttl":"1ms"}"#, "`ttl`"),
        (r#"{"ttl":"30s","wait":"2h"}"#, "`wait`"),
        (r#"{"ttl":"30s","forever":true}"#, "unknown field"),
        ("{}", "ttl"),
        ("[", "EOF"),
    ] {
        let told = it.ask("acquire", body);
        assert_eq!(told.status, 400, "{body}: {}", told.text());
        assert!(told.text().contains(part), "{body}: {}", told.text());
    }
    // What is too long is nobody's: not a lease, and not an effect.
    let long = "a".repeat(1_100);
    let told = Call::new(it.worker, "POST", &format!("/v1/leases/{long}/acquire"));
    assert_eq!(told.json(r#"{"ttl":"30s"}"#).send().status, 400);
    let told = pay_from(&it.proxy, &long, "1", "k").send();
    assert_refused(&told, 400, "identity-missing", "never");
    let all = r#"{"resources":[],"ttl":"30s"}"#;
    let told = Call::new(it.worker, "POST", "/v1/leases/acquire");
    assert_eq!(told.clone().json(all).send().status, 400);
    let all = r#"{"resources":["b","a","b"],"ttl":"30s"}"#;
    let all = told.json(all).send().json();
    let named = all["leases"].as_array().unwrap().iter();
    let named: Vec<_> = named.map(|it| it["resource"].as_str().unwrap()).collect();
    assert_eq!(named, ["a", "b"]);
}

#[test]
fn a_command_runs_under_a_lease_and_its_status_is_told() {
    let it = leased();
    let script = "echo $FENCEPOST_RESOURCE $FENCEPOST_FENCING_TOKEN; exit 7";
    let mut ran = it.run("30s", &[], script);
    assert_eq!(read_all(&mut ran), format!("{ACCOUNT} 1\n"));
    assert_eq!(ran.wait().unwrap().code(), Some(7));
    // It gave it back.
    let (_, second) = it.acquired("30s", "0s");
    assert_eq!(second, "2");
    let mut refused = it.run("30s", &[], "echo ran");
    assert_eq!(read_all(&mut refused), "");
    assert_eq!(refused.wait().unwrap().code(), Some(1));
}

/// C15: it is stopped before anybody else can own what it works on, also what it started.
#[test]
fn a_command_whose_lease_is_lost_is_stopped_with_all_that_it_started() {
    let mut it = leased();
    let script = "trap '' TERM; sleep 600 & echo $!; wait; sleep 600";
    let mut ran = it.run("4s", &["--grace", "1s"], script);
    let out = ran.stdout.as_mut().unwrap();
    let mut first = String::new();
    while !first.ends_with('\n') {
        let mut byte = [0];
        out.read_exact(&mut byte).unwrap();
        first.push(char::from(byte[0]));
    }
    let child = Pid::from_raw(first.trim().parse().unwrap()).unwrap();
    it.proxy.kill();
    let status = ran.wait().unwrap();
    assert_eq!(status.code(), Some(128 + 9), "it did not listen to SIGTERM");
    until("what it started is gone", || {
        let stat = format!("/proc/{}/stat", child.as_raw_nonzero());
        std::fs::read_to_string(stat).is_ok_and(|it| it.contains(") Z "))
            || rustix::process::test_kill_process(child).is_err()
    });
    it.proxy.start_again();
    let (_, second) = it.acquired("30s", "10s");
    assert_eq!(second, "2");
}

/// What the process is told, the command is told, and it may end in order.
#[test]
fn a_command_is_told_what_its_keeper_is_told() {
    let it = leased();
    let script = "trap 'echo told; exit 3' TERM; echo up; while :; do sleep 0.05; done";
    let mut ran = it.run("30s", &[], script);
    let out = ran.stdout.as_mut().unwrap();
    let mut up = [0; 3];
    out.read_exact(&mut up).unwrap();
    let id = i32::try_from(ran.id()).unwrap();
    kill_process(Pid::from_raw(id).unwrap(), Signal::TERM).unwrap();
    assert_eq!(read_all(&mut ran), "told\n");
    assert_eq!(ran.wait().unwrap().code(), Some(3));
    it.acquired("30s", "0s");
}
