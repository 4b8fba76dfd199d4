//! The config changes under a running instance: its file, by an edit, a rename or a ConfigMap's links;
//! or SIGHUP says to read it again.
//!
//! What always holds: it is the provider's ledger that says whether a change lost or doubled an effect.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::support::call::Call;
use crate::support::gate::{Gate, until};
use crate::support::ports;
use crate::support::proxy::Proxy;
use crate::support::script::Script;
use crate::support::setup::Setup;
use crate::support::upstream::{Keys, Upstream};

/// What became of the last config that was read again.
pub(super) fn last_reload(proxy: &Proxy) -> Value {
    proxy.read("/v1/config")["last_reload"].clone()
}

pub(super) fn digest(proxy: &Proxy) -> String {
    let digest = proxy.read("/v1/config")["digest"].clone();
    digest.as_str().unwrap().to_owned()
}

pub(super) fn text(proxy: &Proxy) -> String {
    fs::read_to_string(proxy.config()).unwrap()
}

/// Writes another config beside the old one and puts it in its place, as careful programs do.
pub(super) fn replace(proxy: &Proxy, text: &str) {
    let beside = proxy.config().with_extension("new");
    fs::write(&beside, text).unwrap();
    fs::rename(beside, proxy.config()).unwrap();
}

/// Changes one thing, waits until it was read, and answers what became of it.
pub(super) fn changed(proxy: &Proxy, from: &str, to: &str) -> Value {
    let text = text(proxy);
    assert!(text.contains(from), "{from}\n{text}");
    let before = last_reload(proxy);
    replace(proxy, &text.replace(from, to));
    until("it was read again", || last_reload(proxy) != before);
    last_reload(proxy)
}

pub(super) fn reasons(reload: &Value) -> String {
    let reasons = reload["reasons"].as_array().unwrap().iter();
    let reasons: Vec<&str> = reasons.map(|it| it.as_str().unwrap()).collect();
    reasons.join("\n")
}

fn pay(proxy: &Proxy, key: &str) -> Call {
    proxy.post("/payments").key(key).json(r#"{"amount":5}"#)
}

#[test]
fn a_changed_file_is_put_in_force_while_a_slow_effect_is_in_flight_and_keeps_its_own() {
    let upstream = Upstream::start(Keys::Honoured);
    let mut proxy = Proxy::start(Setup::payments(upstream.address()));
    let answer = Gate::closed();
    upstream.next(Script::hold_answer(&answer));
    let slow = pay(&proxy, "k").start();
    answer.until_reached();
    let before = digest(&proxy);
    let refused = proxy.post("/refunds").json("{}").send();
    assert_eq!(refused.status, 201, "it was no effect: it passed");

    // Another effect is another set of names; what is in flight keeps its own.
    let reload = changed(
        &proxy,
        "effects:\n",
        "effects:\n      - on: POST /refunds\n        once: { header: Idempotency-Key, required: true }\n",
    );
    assert_eq!(reload["result"], "applied", "{reload}");
    assert_ne!(digest(&proxy), before);
    assert_eq!(proxy.read("/v1/status")["config_digest"], digest(&proxy));
    let unnamed = proxy.post("/refunds").json("{}").send();
    assert_eq!(unnamed.verdict().1, "idempotency-key-required");
    let joined = pay(&proxy, "k").start();
    answer.open();
    let (first, second) = (slow.answer(), joined.answer());
    assert_eq!((first.status, second.status), (201, 201));
    assert_eq!(first.body, second.body);
    assert_eq!(upstream.effects().len(), 2, "a refund and one payment");
    assert!(proxy.log().contains("another config is in force"));
    assert!(proxy.metric("fencepost_config_reloads_total") >= 1.0);
    assert_eq!(proxy.stop().code(), Some(0));
}

#[test]
fn a_broken_file_is_reported_with_its_places_and_the_old_one_stays() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    let before = digest(&proxy);
    let reload = changed(&proxy, "timeouts:", "timeout:");
    assert_eq!(reload["result"], "invalid");
    let reasons = reasons(&reload);
    assert!(reasons.contains("did you mean `timeouts`?"), "{reasons}");
    assert!(reasons.contains("fencepost.yaml:"), "{reasons}");
    assert!(proxy.log().contains("did you mean `timeouts`?"));
    assert_eq!(digest(&proxy), before);
    assert_eq!(pay(&proxy, "k").send().status, 201);
    assert_eq!(proxy.health("/readyz").status, 200);
    let mended = changed(&proxy, "timeout:", "timeouts:");
    assert_eq!(mended["result"], "applied");
}

/// A13: nothing here races two copies of a request, and a config that asks for it is refused.
#[test]
fn hedging_and_mirroring_are_no_settings() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    let before = digest(&proxy);
    let good = text(&proxy);
    for asked in ["hedge: { after: 100ms }", "mirror: http://127.0.0.1:9"] {
        let after = last_reload(&proxy);
        let once = "- on: POST /payments\n";
        replace(
            &proxy,
            &good.replacen(once, &format!("{once}        {asked}\n"), 1),
        );
        proxy.hang_up();
        until("it was read again", || last_reload(&proxy) != after);
        let reload = last_reload(&proxy);
        let (name, _) = asked.split_once(':').unwrap();
        assert_eq!(reload["result"], "invalid", "{asked}");
        let said = format!("effects[0].{name}: is not a known field");
        assert!(reasons(&reload).contains(&said), "{reload}");
        let checked = Proxy::command_alone(&["check", proxy.config().to_str().unwrap()]);
        assert_eq!(checked.status.code(), Some(1), "{asked}");
    }
    assert_eq!(digest(&proxy), before);
    assert_eq!(pay(&proxy, "k").send().status, 201);
    assert_eq!(upstream.heads().len(), 1);
}

#[test]
fn identities_of_unsettled_operations_do_not_change_and_those_of_none_do() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::opaque(upstream.address()));
    upstream.next(Script::lose_answer());
    let order = proxy.post("/orders").json(r#"{"order":"o-1","nr":7}"#);
    assert_ne!(order.send().status, 201);
    let before = digest(&proxy);

    let reload = changed(&proxy, "order:{body.order}", "bestellung:{body.order}");
    assert_eq!(reload["result"], "refused", "{reload}");
    let said = reasons(&reload);
    assert!(
        said.contains("1 of 1 unsettled operations would change") && said.contains("order:o-1"),
        "{said}"
    );
    assert_eq!(digest(&proxy), before);
    // A repeat is the same operation still, and not sent again.
    assert_eq!(order.send().verdict().1, "needs-attention");
    assert_eq!(upstream.effects().len(), 1);

    // The same list from the command line, in whose eyes the file is fine but for that.
    let checked = Proxy::command_alone(&[
        "check",
        proxy.config().to_str().unwrap(),
        "--admin",
        &format!("http://{}", proxy.admin_address()),
        "--token",
        crate::support::setup::OPERATOR.1,
    ]);
    assert_eq!(checked.status.code(), Some(1));
    let said = String::from_utf8(checked.stdout).unwrap();
    assert!(
        said.contains("provider order:o-1 (NEEDS_ATTENTION)"),
        "{said}"
    );
    assert!(said.contains("a repeat would be a new operation"), "{said}");

    let resolved = proxy.command(&[
        "operations",
        "resolve",
        "provider",
        "order:o-1",
        "--verdict",
        "applied",
        "--reason",
        "seen",
    ]);
    assert!(resolved.status.success(), "{resolved:?}");
    proxy.hang_up();
    until("it is put in force", || digest(&proxy) != before);
    let repeat = order.send();
    assert_eq!(
        (repeat.status, repeat.is_replay()),
        (201, false),
        "another operation now"
    );
}

#[test]
fn what_cannot_change_while_running_is_refused_by_name() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    let other = format!("{}", SocketAddr::from(([127, 0, 0, 1], ports::free())));
    let health = proxy.health_address().to_string();
    let reload = changed(
        &proxy,
        &format!("health: {{ address: {health} }}"),
        &format!("tenant: other\nhealth: {{ address: {other} }}"),
    );
    assert_eq!(reload["result"], "refused");
    let reasons = reasons(&reload);
    for name in ["tenant", "health.address"] {
        let said = format!("{name} cannot change while running");
        assert!(reasons.contains(&said), "{reasons}");
    }
}

#[test]
fn listeners_come_go_and_stay_without_a_dropped_connection() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    let second = SocketAddr::from(([127, 0, 0, 1], ports::free()));
    let added = format!(
        "upstreams:\n  second:\n    listen: {second}\n    url: http://{}\n",
        upstream.address()
    );
    let answer = Gate::closed();
    upstream.next(Script::hold_answer(&answer));
    let slow = pay(&proxy, "k").start();
    answer.until_reached();

    assert_eq!(changed(&proxy, "upstreams:\n", &added)["result"], "applied");
    let passed = Call::new(second, "POST", "/anything").json("{}").send();
    assert_eq!(passed.status, 201);
    // Its last request goes on while nobody new is let in.
    let last = Gate::closed();
    upstream.next(Script::hold_answer(&last));
    let under_way = Call::new(second, "POST", "/anything").json("{}").start();
    last.until_reached();
    assert_eq!(changed(&proxy, &added, "upstreams:\n")["result"], "applied");
    until("it is closed", || TcpStream::connect(second).is_err());
    last.open();
    assert_eq!(under_way.answer().status, 201);

    answer.open();
    assert_eq!(slow.answer().status, 201);
    assert_eq!(pay(&proxy, "l").send().status, 201);
}

#[test]
fn sighup_reads_secrets_again_though_the_file_is_the_same() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    let ask = |token: &str| {
        Call::new(proxy.admin_address(), "GET", "/v1/config")
            .field("Authorization", &format!("Bearer {token}"))
            .send()
            .status
    };
    let old = crate::support::setup::OPERATOR.1;
    assert_eq!((ask(old), ask("another-token")), (200, 401));
    fs::write(proxy.config().with_file_name("operator"), "another-token").unwrap();
    proxy.hang_up();
    until("the new token is good", || ask("another-token") == 200);
    assert_eq!(ask(old), 401);
}

/// A ConfigMap is a folder of links to `..data`, which is a link to a folder of the day; an update makes
/// another folder and renames a link. The file itself never changes.
#[test]
fn the_links_of_a_configmap_are_followed() {
    let upstream = Upstream::start(Keys::Honoured);
    let setup = Setup::payments(upstream.address());
    let config = setup.config();
    let folder = config.parent().unwrap().to_owned();
    let text = fs::read_to_string(&config).unwrap();
    let publish = |day: &str, text: &str| {
        fs::create_dir(folder.join(day)).unwrap();
        fs::write(folder.join(day).join("fencepost.yaml"), text).unwrap();
        let link = folder.join("..data_tmp");
        symlink(day, &link).unwrap();
        fs::rename(link, folder.join("..data")).unwrap();
    };
    publish("..one", &text);
    fs::remove_file(&config).unwrap();
    symlink("..data/fencepost.yaml", &config).unwrap();
    let proxy = Proxy::start(setup);
    let before = digest(&proxy);
    publish("..two", &text.replace("response: 10s", "response: 9s"));
    until("it is put in force", || digest(&proxy) != before);
    assert_eq!(last_reload(&proxy)["result"], "applied");
    assert_eq!(pay(&proxy, "k").send().status, 201);
}

#[test]
fn a_stopped_register_is_compared_too() {
    let upstream = Upstream::start(Keys::Ignored);
    let mut proxy = Proxy::start(Setup::opaque(upstream.address()));
    assert_eq!(pay(&proxy, "k").send().status, 201);
    upstream.next(Script::lose_answer());
    pay(&proxy, "lost").send();
    proxy.stop();
    let register = proxy.register();
    let check = |config: &str| {
        let output = Proxy::command_alone(&[
            "check",
            config,
            "--against-register",
            register.to_str().unwrap(),
            "--json",
        ]);
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        let comparison = &told["files"][0]["comparison"];
        let count = |of: &str| {
            let count = &comparison[of];
            format!("{} of {}", count["would_change"], count["looked_at"])
        };
        (output.status.code(), count("unsettled"), count("recent"))
    };
    let config = proxy.config();
    let fine = check(config.to_str().unwrap());
    assert_eq!(fine, (Some(0), "0 of 1".to_owned(), "0 of 1".to_owned()));
    let renamed = text(&proxy).replace("  provider:", "  renamed:");
    let other = config.with_file_name("other.yaml");
    fs::write(&other, renamed).unwrap();
    let refused = check(other.to_str().unwrap());
    assert_eq!(refused, (Some(1), "1 of 1".to_owned(), "1 of 1".to_owned()));

    // Whoever starts with it all the same finds in the log what is left behind.
    fs::rename(other, &config).unwrap();
    proxy.start_again();
    until("it says what it leaves behind", || {
        let log = proxy.log();
        log.contains("does not know what the register holds")
            && log.contains("no upstream has this id")
    });
}

/// Ends the work of others, also when the test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// E14.
#[test]
fn a_hundred_reloads_under_load_refuse_no_connection_and_neither_lose_nor_double_an_effect() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    let is_over = AtomicBool::new(false);
    let pay_on = &|worker: usize| {
        let mut paid = 0;
        while !is_over.load(Ordering::Relaxed) {
            let call = pay(&proxy, &format!("{worker}-{paid}"));
            // Read under names of before: nothing was sent, and it is to be sent again.
            let answer = loop {
                let answer = call.attempt().expect("no connection is refused or cut");
                if answer.status != 503 {
                    break answer;
                }
                assert_eq!(answer.verdict().1, "draining");
            };
            assert_eq!(answer.status, 201, "{}", answer.text());
            paid += 1;
        }
        paid
    };
    let paid: usize = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|worker| scope.spawn(move || pay_on(worker)))
            .collect();
        let ends = Ends(&is_over);
        reload_in_every_way(&proxy, 100);
        drop(ends);
        workers.into_iter().map(|it| it.join().unwrap()).sum()
    });
    assert!(paid >= 100, "{paid}");
    assert_eq!(upstream.effects().len(), paid);
    assert!(proxy.metric("fencepost_config_reloads_total") >= 100.0);
}

fn reload_in_every_way(proxy: &Proxy, times: usize) {
    let good = text(proxy);
    let other = good.replace(
        "effects:\n",
        "effects:\n      - on: POST /refunds\n        once: { header: Idempotency-Key }\n",
    );
    let linked = proxy.config().with_file_name("linked.yaml");
    fs::write(&linked, good.replace("response: 10s", "response: 9s")).unwrap();
    for round in 0..times {
        let before = last_reload(proxy);
        let expected = match round % 5 {
            0 => {
                replace(proxy, &other);
                "applied"
            }
            1 => {
                replace(proxy, "version: [");
                "invalid"
            }
            2 => {
                fs::remove_file(proxy.config()).unwrap();
                "invalid"
            }
            3 => {
                symlink(&linked, proxy.config()).unwrap();
                "applied"
            }
            _ => {
                replace(proxy, &good);
                "applied"
            }
        };
        proxy.hang_up();
        until("it was read again", || {
            let last = last_reload(proxy);
            last != before && last["result"] == expected
        });
    }
}
