//! Owners who lose what they own, and what is seen of it. Cases of group C by their ids.

use std::io::Read as _;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::leases::{ACCOUNT, leased, read_all};
use super::*;
use crate::support::gate::Gate;
use crate::support::ports;
use crate::support::script::Script;
use crate::support::setup::Setup;
use crate::support::upstream::Keys;

fn signal(process: u32, signal: Signal) {
    let process = Pid::from_raw(i32::try_from(process).unwrap()).unwrap();
    kill_process(process, signal).unwrap();
}

/// C01, C15: the owner and his keeper are paused past the end of his lease. When they go on another owns it: what
/// the owner sends is refused, and his keeper ends him.
#[test]
fn an_owner_who_was_paused_past_his_time_is_refused() {
    let it = leased();
    let script = "echo $$ $FENCEPOST_FENCING_TOKEN $FENCEPOST_ACQUISITION; exec sleep 600";
    let mut keeper = it.run("2s", &["--grace", "500ms"], script);
    let out = keeper.stdout.as_mut().unwrap();
    let mut line = String::new();
    while !line.ends_with('\n') {
        let mut byte = [0];
        out.read_exact(&mut byte).unwrap();
        line.push(char::from(byte[0]));
    }
    let words: Vec<_> = line.split_whitespace().collect();
    let (owner, first, acquisition) = (words[0].parse::<u32>().unwrap(), words[1], words[2]);
    assert_eq!(it.pay(first, "in-time").status, 201);
    signal(keeper.id(), Signal::STOP);
    signal(owner, Signal::STOP);
    let (_, second) = it.acquired("1h", "30s");
    assert_eq!(second, "2");
    signal(owner, Signal::CONT);
    assert_refused(&it.pay(first, "late"), 412, "stale-fencing-token", "never");
    // A delayed renewal neither extends nor recreates it.
    assert_eq!(it.his("renew", acquisition).status, 412);
    signal(keeper.id(), Signal::CONT);
    let status = keeper.wait().unwrap();
    // Told, or, as nothing was left of his time, killed.
    assert!(matches!(status.code(), Some(137 | 143)), "{status}");
    assert_eq!(it.his("release", acquisition).status, 412);
    let shown = it.proxy.read(&format!("/v1/leases/{}", in_path(ACCOUNT)));
    assert_eq!(shown["token"], "2", "{shown}");
    assert_eq!(it.upstream.effects().len(), 1);
    assert!(it.proxy.counted("fencepost_lease_renewal_failures_total") >= 1);
    assert!(it.proxy.counted("fencepost_stale_token_rejections_total") >= 1);
    let passed = it.proxy.health("/metrics").text();
    let passed = passed
        .lines()
        .find(|line| line.starts_with("fencepost_ownership_transfers_total"));
    let expected = r#"fencepost_ownership_transfers_total{after="expiry"} 1"#;
    assert_eq!(passed, Some(expected));
}

/// An answer that comes after the end of the lease is loss, whatever it says: the command does not outlive its time
/// because the register was slow.
#[test]
fn a_renewal_that_is_answered_too_late_is_loss() {
    let it = leased();
    let mut ran = it.run("3s", &["--grace", "1s"], "echo up; exec sleep 600");
    let mut up = [0; 3];
    ran.stdout.as_mut().unwrap().read_exact(&mut up).unwrap();
    it.proxy.freeze();
    let id = ran.id();
    // It ends while nobody answers.
    let status = ran.wait().unwrap();
    it.proxy.thaw();
    assert_eq!(status.code(), Some(128 + 15));
    let group = Pid::from_raw(i32::try_from(id).unwrap()).unwrap();
    assert!(
        kill_process_group(group, Signal::CONT).is_err(),
        "all of it"
    );
    let (_, second) = it.acquired("1h", "30s");
    assert_eq!(second, "2");
}

/// Scenario 8: a cron job's process ends, and its lease with it, before its invoice is answered. Invoices 1.
#[test]
fn an_invoice_outlives_the_job_that_posted_it() {
    let it = leased();
    let gate = Gate::closed();
    it.upstream.next(Script::hold_answer(&gate));
    let (job, first) = it.acquired("30s", "0s");
    let posted = pay_from(&it.proxy, "1", &first, "invoice-7").start();
    gate.until_reached();
    posted.hang_up_and_be_missed();
    assert_eq!(it.his("release", &job).status, 204);
    gate.open();
    until_state(&it.proxy, "invoice-7", "COMPLETED");
    let (_, second) = it.acquired("30s", "0s");
    let again = it.pay(&second, "invoice-7");
    assert_eq!(again.status, 201, "{}", again.text());
    assert!(again.is_replay());
    assert_eq!(it.upstream.effects().len(), 1);
}

/// C24: tokens are text, to the last digit; C20: a fence without a token lets nobody through, and order is what counts;
/// C06: nobody counts on where another counts, the token of a lease would not be above the other's next.
#[test]
fn tokens_keep_their_last_digit() {
    let upstream = Upstream::start(Keys::Honoured);
    let worker = std::net::SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, ports::free()));
    let setup = Setup::payments(upstream.address());
    let proxy = Proxy::start(setup.with(&format!("worker: {{ address: {worker} }}")));
    // Beyond what a double can hold.
    let pay = |token: &str, key: &str| pay_from(&proxy, "1", token, key).send();
    assert_eq!(pay("9007199254740992", "a").status, 201);
    assert_eq!(pay("9007199254740993", "b").status, 201);
    let late = pay("9007199254740992", "c");
    assert_refused(&late, 412, "stale-fencing-token", "never");
    assert_eq!(mark(&proxy, ACCOUNT).as_deref(), Some("9007199254740993"));
    let without = proxy.post("/accounts/1/payments").key("d").json("{}");
    assert_eq!(without.send().status, 428);
    for odd in ["9007199254740993.0", "9.007e15", "\u{665}", "+5", "0x5"] {
        let odd = pay(odd, "e");
        assert_eq!(odd.status, 400, "{}", odd.text());
    }
    let lease = |resource: &str| {
        let path = format!("/v1/leases/{}/acquire", in_path(resource));
        let told = Call::new(worker, "POST", &path).json(r#"{"ttl":"30s"}"#);
        told.send()
    };
    let told = lease(ACCOUNT);
    assert_eq!(told.verdict(), (409, "token-source".to_owned()));
    assert!(told.text().contains("fencepost epoch advance"));
    let told = lease("account:2").text();
    assert!(told.contains(r#""token":"1""#), "{told}");
}

/// Who owns what, for operators: by the API, by the command line, and in the log; the acquisition is nowhere in it.
#[test]
fn operators_see_who_owns_what() {
    let it = leased();
    let (alice, _) = it.acquired("1h", "0s");
    for name in ["b", "a"] {
        let path = format!("/v1/leases/{name}/acquire");
        let told = Call::new(it.worker, "POST", &path).json(r#"{"ttl":"1h","holder":"bob"}"#);
        assert_eq!(told.send().status, 200);
    }
    let page = it.proxy.read("/v1/leases?limit=2");
    let names: Vec<_> = page["leases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|lease| lease["resource"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["a", ACCOUNT]);
    let rest = it
        .proxy
        .read(&format!("/v1/leases?after={}", in_path(ACCOUNT)));
    assert_eq!(rest["leases"][0]["resource"], "b");
    assert_eq!(rest["next"], Value::Null);
    let said = |arguments: &[&str]| {
        let output = it.proxy.command(arguments);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let listed = said(&["leases", "list"]);
    assert!(listed.contains("account:1  1      worker"), "{listed}");
    let shown = said(&["leases", "show", ACCOUNT]);
    assert!(shown.contains("held by worker, for 59m at most"), "{shown}");
    let json = said(&["--json", "leases", "show", ACCOUNT]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["held"], &json["token"]),
        (&Value::Bool(true), &"1".into())
    );
    for command in ["show", "explain"] {
        let text = said(&["resources", command, ACCOUNT]);
        assert!(text.contains("held by worker"), "{command}: {text}");
        assert!(!text.contains(&alice), "{command}: {text}");
    }
    assert_eq!(it.proxy.counted("fencepost_lease_held"), 3);
    assert_eq!(it.his("release", &alice).status, 204);
    assert_eq!(it.proxy.counted("fencepost_lease_held"), 2);
    assert!(said(&["leases", "show", ACCOUNT]).contains("held by nobody"));
    let everything = format!("{}{}", it.proxy.log(), it.proxy.health("/metrics").text());
    assert!(!everything.contains(&alice), "it is its holder's secret");
    let digest = json["acquisition_digest"].as_str().unwrap();
    let of_it: Vec<_> = everything
        .lines()
        .filter(|line| line.contains(digest))
        .collect();
    assert_eq!(of_it.len(), 2, "granted and released: {of_it:#?}");
    for line in of_it {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            (&line["resource"], &line["token"]),
            (&ACCOUNT.into(), &"1".into())
        );
    }
}

/// `lease run` tells the same of what it holds.
#[test]
fn a_command_s_lease_is_seen_too() {
    let it = leased();
    let more = ["--holder", "cron@host-7"];
    let mut ran = it.run("30s", &more, "echo up; read line; echo $line");
    let mut up = [0; 3];
    ran.stdout.as_mut().unwrap().read_exact(&mut up).unwrap();
    assert_eq!(read_all(&mut ran), "\n");
    assert_eq!(ran.wait().unwrap().code(), Some(0));
    let log = it.proxy.log();
    assert!(log.contains("cron@host-7"), "{log}");
}
