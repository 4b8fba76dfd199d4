//! What operators do about tokens: they cut holders off, let one in, repair after a wild one, start an epoch.
//!
//! What always holds: whatever a refusal says to type is typed here as it says, and does what it says.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Output;

use super::*;
use crate::support::gate::Gate;
use crate::support::ports;
use crate::support::script::Script;
use crate::support::setup::Setup;
use crate::support::upstream::Keys;

const ROUTES: &str = r#"
capability: [idempotent]
key: { header: Idempotency-Key, lifetime: 24h, value: derived }
effects:
  - on: POST /accounts/{account}/payments
    once: { header: Idempotency-Key }
    fence:
      resource: "account:{path.account}"
      token: { header: Fencing-Token, mode: require, source: fencepost }
  - on: PUT /statements/{date}
    once: "publish:{path.date}:{token.generation}"
    fence:
      resource: "statement:{path.date}"
      token: { header: Fencing-Token, mode: require, source: etcd }
      max_step: 1000
"#;

const ACCOUNT: &str = "account:1";

struct World {
    proxy: Proxy,
    upstream: Upstream,
    worker: SocketAddr,
}

impl World {
    fn new() -> Self {
        let upstream = Upstream::start(Keys::Honoured);
        let worker = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free()));
        let setup = Setup::new(upstream.address(), ROUTES);
        let setup = setup.with(&format!("worker: {{ address: {worker} }}"));
        Self {
            proxy: Proxy::start(setup),
            upstream,
            worker,
        }
    }

    fn lease(&self, what: &str, body: &str) -> Call {
        let path = format!("/v1/leases/{}/{what}", in_path(ACCOUNT));
        Call::new(self.worker, "POST", &path).json(body)
    }

    fn acquiring(&self, ttl: &str, wait: &str) -> Call {
        let body = format!(r#"{{"ttl":"{ttl}","wait":"{wait}","holder":"worker"}}"#);
        self.lease("acquire", &body)
    }

    fn acquired(&self) -> (String, String) {
        owned(&self.acquiring("1h", "0s").send())
    }

    fn renew(&self, acquisition: &str) -> Answer {
        let body = format!(r#"{{"acquisition":"{acquisition}"}}"#);
        self.lease("renew", &body).send()
    }

    fn pay(&self, token: &str, key: &str) -> Answer {
        pay_from(&self.proxy, "1", token, key).send()
    }

    fn steer(&self, verb: &str) -> Value {
        let path = format!("/v1/resources/{}/{verb}", in_path(ACCOUNT));
        let told = self.proxy.admin("POST", &path);
        let told = told.json(r#"{"reason":"her machine is gone"}"#).send();
        assert_eq!(told.status, 200, "{}", told.text());
        told.json()
    }

    /// What a text says to type, with what it leaves open.
    fn typed(&self, text: &str, open: &[(&str, &str)]) -> Output {
        let (_, after) = text.split_once("fencepost ").unwrap();
        let (command, _) = after.split_once(" --reason").unwrap();
        let mut words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        for word in &mut words {
            for (name, value) in open {
                if word == name {
                    (*value).clone_into(word);
                }
            }
        }
        words.retain(|word| word != "…");
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let reason = ["--reason", "the source says so"];
        self.proxy.command(&[&words[..], &reason].concat())
    }
}

fn owned(told: &Answer) -> (String, String) {
    assert_eq!(told.status, 200, "{}", told.text());
    let told = told.json();
    let text = |name: &str| told[name].as_str().unwrap().to_owned();
    (text("acquisition"), text("token"))
}

fn said(output: &Output, code: i32) -> String {
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{out}\n{complaint}");
    format!("{out}{complaint}")
}

/// Contract §5 and §7: whoever holds it is cut off, whoever waits for it has it at once, and is newer; and it is told
/// what of before is still under way, and until when.
#[test]
fn an_advance_takes_the_lease_and_serves_whoever_waits() {
    let it = World::new();
    let (alice, first) = it.acquired();
    let gate = Gate::closed();
    it.upstream.next(Script::hold_answer(&gate));
    let alices = pay_from(&it.proxy, "1", &first, "alice's");
    let sending = std::thread::spawn(move || alices.send());
    until("it is under way", || it.upstream.heads().len() == 1);
    let bob = it.acquiring("1h", "30s");
    let waiting = std::thread::spawn(move || owned(&bob.send()));

    let told = it.steer("advance");

    assert_eq!(told["token"], first.as_str());
    assert_eq!(told["closed"], true);
    let under_way = &told["in_flight"][0];
    assert_eq!(under_way["id"], "alice's", "{told}");
    assert!(under_way["may_act_until"].is_string(), "{told}");
    let (_, second) = waiting.join().unwrap();
    assert!(second.parse::<u64>().unwrap() > first.parse().unwrap());
    let lost = it.renew(&alice);
    assert_refused_by_name(&lost, 412, "lease-lost");
    assert_refused(&it.pay(&first, "late"), 412, "stale-fencing-token", "never");
    gate.open();
    assert_eq!(sending.join().unwrap().status, 201);
    assert_eq!(it.pay(&second, "bob's").status, 201);
}

fn assert_refused_by_name(told: &Answer, status: u16, name: &str) {
    assert_eq!(told.status, status, "{}", told.text());
    let kind = format!("urn:fencepost:problem:{name}");
    assert_eq!(told.json()["type"], kind.as_str());
}

/// Contract §7: what was cancelled is nobody's, however long ago its lease ended.
#[test]
fn an_expired_lease_on_a_cancelled_resource_is_no_permission_to_restart() {
    let it = World::new();
    let (alice, first) = owned(&it.acquiring("1s", "0s").send());
    it.steer("cancel");
    // Longer than her lease: it is nobody's by then, and nobody gets it.
    let begun = std::time::Instant::now();
    let asked = |wait: &str| {
        let told = it.acquiring("30s", wait).send();
        assert_refused_by_name(&told, 410, "resource-cancelled");
    };
    while begun.elapsed() < std::time::Duration::from_millis(1_500) {
        asked("100ms");
        assert_eq!(it.renew(&alice).status, 412);
    }
    assert_refused(&it.pay(&first, "late"), 412, "stale-fencing-token", "never");
    assert_refused(
        &it.pay("2", "next"),
        412,
        "fencing-token-unknown",
        "after-settlement",
    );
    assert_eq!(it.upstream.heads().len(), 0);
}

/// C: "delete and recreate" begins no count anew, over restarts too.
#[test]
fn a_resource_that_is_cancelled_and_reopened_goes_on_counting() {
    let mut it = World::new();
    let mut last = 0;
    for round in 0..3 {
        let (alice, token) = it.acquired();
        let token: u64 = token.parse().unwrap();
        assert!(token > last, "{token} after {last}");
        last = token;
        it.steer("cancel");
        if round == 1 {
            it.proxy.kill();
            it.proxy.start_again();
        }
        assert_eq!(it.steer("reopen")["incarnation"], round + 1);
        assert_eq!(it.renew(&alice).status, 412);
        let late = it.pay(&token.to_string(), "late");
        assert_refused(&late, 412, "stale-fencing-token", "never");
    }
}

/// A genuine token that lies too far ahead: its refusal names what lets it in.
#[test]
fn a_token_that_cannot_be_placed_is_let_in_by_what_its_refusal_says() {
    let it = World::new();
    assert_eq!(publish(&it.proxy, "107", "{}").send().status, 201);
    let refused = publish(&it.proxy, "5000", "{}").send();
    assert_refused(&refused, 412, "fencing-token-unknown", "after-settlement");
    let refused = refused.json();
    let detail = refused["detail"].as_str().unwrap();

    let told = said(&it.typed(detail, &[]), 0);

    assert!(
        told.contains("accepted") && told.contains("token 5000"),
        "{told}"
    );
    assert_refused(
        &publish(&it.proxy, "108", "{}").send(),
        412,
        "stale-fencing-token",
        "never",
    );
    assert_eq!(publish(&it.proxy, "5000", "{}").send().status, 201);
    // Nothing is lowered by it.
    let lower = ["resources", "accept", RESOURCE, "200", "--reason", "x"];
    let refused = said(&it.proxy.command(&lower), 1);
    assert!(
        refused.contains("does not lie above the mark, 5000"),
        "{refused}"
    );
    let shown = said(&it.proxy.command(&["resources", "show", RESOURCE]), 0);
    assert!(
        shown.contains("accepted 5000 by carol: the source says so"),
        "{shown}"
    );
    // Of another source: in a new epoch.
    let other = [&lower[..3], &["6000", "--source", "redis", "--reason", "x"]].concat();
    let refused = said(&it.proxy.command(&other), 1);
    assert!(refused.contains("fencepost epoch advance"), "{refused}");
}

/// A wild token came first, and was applied: the resource begins again where its source says.
#[test]
fn a_resource_is_repaired_after_a_wild_token() {
    let it = World::new();
    assert_eq!(publish(&it.proxy, "900107", "{}").send().status, 201);
    assert_refused(
        &publish(&it.proxy, "107", r#"{"by":"Alice"}"#).send(),
        412,
        "stale-fencing-token",
        "never",
    );
    let explained = said(&it.proxy.command(&["resources", "explain", RESOURCE]), 0);
    let (_, repair) = explained.split_once("fencepost resources repair").unwrap();
    let repair = format!("fencepost resources repair{repair}");
    let refused = said(&it.typed(&repair, &[("TOKEN", "107")]), 1);
    let wild = "publish:2026-09-13:900107";
    assert!(refused.contains(wild), "{refused}");

    let told = said(&it.typed(&refused, &[("TOKEN", "107")]), 0);

    assert!(told.contains("incarnation 1, token 107"), "{told}");
    assert_eq!(
        publish(&it.proxy, "107", r#"{"by":"Alice"}"#).send().status,
        201
    );
    let disowned = operation(&it.proxy, wild)["events"].to_string();
    assert!(disowned.contains("disowned by carol"), "{disowned}");
    // The wild one is too far ahead now.
    let again = publish(&it.proxy, "900108", "{}").send();
    assert_refused(&again, 412, "fencing-token-unknown", "after-settlement");
}

/// Every token of before is stale, also on what nobody has seen; a bare number is epoch 0 for ever.
#[test]
fn a_new_epoch_cuts_off_every_token_and_lease_of_before() {
    let mut it = World::new();
    let (alice, first) = it.acquired();
    assert_eq!(it.pay(&first, "a").status, 201);
    assert_eq!(publish(&it.proxy, "107", "{}").send().status, 201);
    let advance = ["epoch", "advance", "--reason", "etcd was restored"];

    let told = said(&it.proxy.command(&advance), 0);

    assert!(told.contains("epoch 1 is in force"), "{told}");
    for refused in [
        it.pay(&first, "late"),
        publish(&it.proxy, "900", "{}").send(),
        pay_from(&it.proxy, "never-seen", "1", "late").send(),
    ] {
        assert_refused(&refused, 412, "stale-fencing-token", "never");
        let detail = refused.json()["detail"].to_string();
        assert!(
            detail.contains("of epoch 0, and epoch 1 is in force"),
            "{detail}"
        );
    }
    assert_refused_by_name(&it.renew(&alice), 412, "lease-lost");
    let (_, second) = it.acquired();
    assert_eq!(second, "1:1");
    assert_eq!(it.pay(&second, "b").status, 201);
    assert_eq!(publish(&it.proxy, "1:1", "{}").send().status, 201);
    let doctor = said(&it.proxy.command(&["doctor"]), 0);
    assert!(
        doctor.contains("epoch 1 begins, as carol says: etcd was restored"),
        "{doctor}"
    );
    // Straight in a register that nobody runs on, and over a restart.
    assert!(it.proxy.stop().success());
    let place = it.proxy.register();
    let place = ["--register", place.to_str().unwrap()];
    said(&Proxy::command_alone(&[&advance[..], &place].concat()), 0);
    it.proxy.start_again();
    assert_eq!(it.proxy.read("/v1/status")["counted"]["epoch"], 2);
    assert_refused(
        &it.pay(&second, "late"),
        412,
        "stale-fencing-token",
        "never",
    );
    assert_eq!(it.acquired().1, "2:1");
}

/// No reason, no name, no change.
#[test]
fn whoever_amends_says_why_and_of_what() {
    let it = World::new();
    let all = [
        (
            "resources/account:9/accept",
            r#"{"token":"5","reason":"x"}"#,
            404,
        ),
        (
            "resources/account:9/repair",
            r#"{"to":"5","reason":"x"}"#,
            404,
        ),
        (
            "resources/account:1/accept",
            r#"{"token":"05:","reason":"x"}"#,
            400,
        ),
        ("resources/account:1/accept", r#"{"token":"5"}"#, 400),
        (
            "resources/account:1/repair",
            r#"{"to":"5","reason":" "}"#,
            400,
        ),
        ("epoch/advance", r#"{"reason":""}"#, 400),
        ("epoch/advance", r#"{"reason":"x","to":7}"#, 400),
        ("epoch/advance", "", 400),
    ];
    for (path, body, status) in all {
        let told = it.proxy.admin("POST", &format!("/v1/{path}"));
        let told = told.json(body).send();
        assert_eq!(told.status, status, "{path} {body}: {}", told.text());
    }
    assert_eq!(it.proxy.read("/v1/status")["counted"]["epoch"], 0);
}
