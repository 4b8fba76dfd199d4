//! A lease on behalf of a worker that was not changed: a script with `requests` that has never heard of tokens.
//!
//! What always holds: what counts is what reached the provider, and under which token the register has it. The worker
//! is a real process: paused, killed and started again as such.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};

use super::*;
use crate::servers::shared;
use crate::support::gate::PATIENCE;
use crate::support::ports;
use crate::support::python::python;
use crate::support::setup::Setup;
use crate::support::upstream::Keys;
use crate::workers::{Seen, Worker};

/// Everybody's token is asked for, and nobody sends one.
pub(super) const ROUTE: &str = r#"
capability: [idempotent]
key: { header: Idempotency-Key, lifetime: 24h, value: derived }
effects:
  - on: POST /accounts/{account}/payments
    once: { header: Idempotency-Key }
    fence:
      resource: "account:{path.account}"
      token: { header: Fencing-Token, mode: MODE, source: fencepost }
"#;

pub(super) const ACCOUNT: &str = "account:1";

/// A sidecar that holds the lease for its worker.
pub(super) struct Sidecar {
    pub(super) proxy: Proxy,
    worker_api: SocketAddr,
    folder: tempfile::TempDir,
}

pub(super) struct Wanted<'a> {
    pub(super) ttl: &'a str,
    /// `alive`, with `FOLDER` in it.
    pub(super) alive: &'a str,
    pub(super) mode: &'a str,
    pub(super) more: &'a str,
    /// Settings of the top level.
    pub(super) beside: &'a str,
    pub(super) database: Option<&'a str>,
    pub(super) failpoint: Option<&'a str>,
}

impl Default for Wanted<'_> {
    fn default() -> Self {
        Self {
            ttl: "2s",
            alive: "{ process: { pid_file: FOLDER/pid } }",
            mode: "require",
            more: "",
            beside: "",
            database: None,
            failpoint: None,
        }
    }
}

impl Sidecar {
    pub(super) fn start(upstream: &Upstream, wanted: &Wanted<'_>) -> Self {
        let folder = ports::folder();
        let worker_api = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free()));
        let setup = Setup::new(upstream.address(), &ROUTE.replace("MODE", wanted.mode));
        let Wanted {
            ttl,
            alive,
            more,
            beside,
            ..
        } = wanted;
        let here = folder.path().display().to_string();
        let alive = alive.replace("FOLDER", &here);
        let setup = setup.with(&format!(
            "worker: {{ address: {worker_api} }}\nleases:\n  payer: {{ resource: '{ACCOUNT}', ttl: {ttl}, state: \
             {here}/state, alive: {alive} {more} }}\n{beside}"
        ));
        let setup = match wanted.database {
            Some(url) => setup.sharing(url, ""),
            None => setup,
        };
        Self {
            proxy: match wanted.failpoint {
                Some(failpoint) => Proxy::dying_at(setup, failpoint),
                None => Proxy::start(setup),
            },
            worker_api,
            folder,
        }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The secret of the acquisition that is held.
    pub(super) fn acquisition(&self) -> String {
        let mut files = std::fs::read_dir(self.path("state")).unwrap();
        let state = files.find_map(|file| {
            let path = file.unwrap().path();
            path.extension()
                .is_some_and(|it| it == "json")
                .then_some(path)
        });
        let state: Value = serde_json::from_slice(&std::fs::read(state.unwrap()).unwrap()).unwrap();
        state["acquisition"].as_str().unwrap().to_owned()
    }

    /// The unchanged worker.
    fn worker(&self) -> Worker {
        let mut command = python("python/legacy_worker.py");
        command.arg(format!("http://{}", self.proxy.address()));
        command.arg(self.path("pid"));
        Worker::started(command)
    }

    /// As anybody sees the lease.
    pub(super) fn lease(&self) -> Value {
        let path = format!("/v1/leases/{}", in_path(ACCOUNT));
        Call::new(self.worker_api, "GET", &path).send().json()
    }

    pub(super) fn until_held(&self, held: bool) {
        until(&format!("held is {held}"), || self.lease()["held"] == held);
    }

    pub(super) fn until_token(&self, token: &str) {
        until(&format!("the token is {token}"), || {
            self.lease()["token"] == token
        });
    }

    fn acknowledge(&self) -> Answer {
        let path = format!("/v1/leases/{}/acknowledge", in_path(ACCOUNT));
        Call::new(self.worker_api, "POST", &path).send()
    }

    pub(super) fn pay(&self, key: &str) -> Call {
        let body = format!(r#"{{"payment":"{key}"}}"#);
        self.proxy.post("/accounts/1/payments").key(key).json(&body)
    }
}

/// The worker posts payments of that name, numbered, until one is let out. Answers how often it was refused.
fn until_paid(worker: &mut Worker, name: &str) -> usize {
    let mut refused = 0;
    until(&format!("{name} is paid"), || {
        worker.tell(&format!("{name}-{refused}"));
        let Seen { status, body } = worker.seen();
        if status != 201 {
            assert!(body.contains("lease-"), "{status} {body}");
            refused += 1;
        }
        status == 201
    });
    refused
}

pub(super) fn told(worker: &mut Worker, key: &str) -> (u16, String) {
    worker.tell(key);
    answered(worker)
}

fn answered(worker: &mut Worker) -> (u16, String) {
    let Seen { status, body } = worker.seen();
    let body: Value = serde_json::from_str(&body).unwrap();
    let kind = body["type"].as_str().unwrap_or_default();
    let name = kind.rsplit(':').next().unwrap_or_default();
    (status, name.to_owned())
}

pub(super) fn lost() -> (u16, String) {
    (412, "lease-lost".to_owned())
}

pub(super) fn write(path: &Path, text: &str) {
    let aside = path.with_extension("new");
    std::fs::write(&aside, text).unwrap();
    std::fs::rename(aside, path).unwrap();
}

/// Scenario 10: a gift to zombies; C02. The worker freezes for longer than its lease, nobody else wants it, its probe
/// recovers: its old request is refused all the same, and all that follow, until the process was replaced.
#[test]
fn a_worker_that_froze_is_refused_until_it_was_replaced() {
    let upstream = Upstream::start(Keys::Honoured);
    let sidecar = Sidecar::start(&upstream, &Wanted::default());
    let mut worker = sidecar.worker();
    until_paid(&mut worker, "first");
    assert_eq!(mark(&sidecar.proxy, ACCOUNT).as_deref(), Some("1"));
    let sent = &upstream.effects()[0];
    assert!(sent.head.fields.first("fencing-token").is_none());
    let acquisition = sidecar.acquisition();
    worker.pause();
    worker.tell("late");
    sidecar.until_held(false);
    worker.wake();
    assert_eq!(answered(&mut worker), lost());
    until("its probe recovers", || {
        sidecar.proxy.log().contains("the worker is alive again")
    });
    for number in 0..20 {
        assert_eq!(told(&mut worker, &format!("zombie-{number}")), lost());
    }
    assert_eq!(upstream.effects().len(), 1);
    assert_eq!(mark(&sidecar.proxy, ACCOUNT).as_deref(), Some("1"));
    worker.kill();
    let mut replacement = sidecar.worker();
    until_paid(&mut replacement, "second");
    assert_eq!(mark(&sidecar.proxy, ACCOUNT).as_deref(), Some("2"));
    assert_eq!(upstream.effects().len(), 2);
    let log = sidecar.proxy.log();
    assert!(
        log.contains("a lease is lost: the worker is refused"),
        "{log}"
    );
    assert!(!log.contains(&acquisition), "it is a secret: {log}");
}

#[test]
fn a_worker_that_was_killed_and_started_again_gets_a_token_of_its_own() {
    let upstream = Upstream::start(Keys::Honoured);
    let wanted = Wanted {
        ttl: "30s",
        ..Wanted::default()
    };
    let sidecar = Sidecar::start(&upstream, &wanted);
    let mut worker = sidecar.worker();
    until_paid(&mut worker, "first");
    worker.kill();
    let mut replacement = sidecar.worker();
    sidecar.until_token("2");
    until_paid(&mut replacement, "second");
    assert_eq!(mark(&sidecar.proxy, ACCOUNT).as_deref(), Some("2"));
}

#[test]
fn a_sidecar_that_was_killed_goes_on_under_the_same_token() {
    let upstream = Upstream::start(Keys::Honoured);
    let wanted = Wanted {
        ttl: "60s",
        ..Wanted::default()
    };
    let mut sidecar = Sidecar::start(&upstream, &wanted);
    let mut worker = sidecar.worker();
    until_paid(&mut worker, "first");
    sidecar.proxy.kill();
    sidecar.proxy.start_again();
    until_paid(&mut worker, "second");
    assert_eq!(mark(&sidecar.proxy, ACCOUNT).as_deref(), Some("1"));
    // Stopped in order it gives the lease back; the same process of the worker gets no other.
    sidecar.proxy.stop();
    sidecar.proxy.start_again();
    sidecar.until_held(false);
    until("the worker was seen", || {
        told(&mut worker, "third") == lost()
    });
    let log = sidecar.proxy.log();
    assert_eq!(
        log.matches("owned the lease before: it is refused").count(),
        1,
        "{log}"
    );
    assert_eq!(upstream.effects().len(), 2);
    // It says itself that it begins anew.
    let acknowledged = sidecar.acknowledge();
    assert_eq!(acknowledged.status, 200, "{}", acknowledged.text());
    until_paid(&mut worker, "fourth");
    assert_eq!(mark(&sidecar.proxy, ACCOUNT).as_deref(), Some("2"));
}

/// C05, C10: whoever is to end with his lease ends, with a code of its own.
#[test]
fn a_sidecar_ends_with_its_lease_where_the_config_says_so() {
    let upstream = Upstream::start(Keys::Honoured);
    let wanted = Wanted {
        more: ", on_loss: exit",
        ..Wanted::default()
    };
    let mut sidecar = Sidecar::start(&upstream, &wanted);
    let mut worker = sidecar.worker();
    until_paid(&mut worker, "first");
    worker.pause();
    assert_eq!(
        sidecar.proxy.ended().code(),
        Some(4),
        "{}",
        sidecar.proxy.log()
    );
    worker.wake();
    sidecar.proxy.start_again();
    until("the worker was seen", || {
        told(&mut worker, "late") == lost()
    });
    assert_eq!(upstream.effects().len(), 1);
}

/// Not owned is not tokenless, whatever the mode; a token of the caller's own is judged as it is.
#[test]
fn what_is_not_owned_is_refused_where_tokens_are_only_preferred() {
    let upstream = Upstream::start(Keys::Honoured);
    let wanted = Wanted {
        alive: "{ file: FOLDER/start }",
        mode: "prefer",
        ..Wanted::default()
    };
    let sidecar = Sidecar::start(&upstream, &wanted);
    let refused = sidecar.pay("a").send();
    assert_refused(&refused, 409, "lease-held", "same-operation");
    assert!(refused.field("retry-after").is_some());
    write(&sidecar.path("start"), "one");
    sidecar.until_token("1");
    until("it is paid", || sidecar.pay("a").send().status == 201);
    let own = sidecar.pay("b").token("9").send();
    assert_refused(&own, 412, "fencing-token-unknown", "after-settlement");
    let another = sidecar.pay("c").field("Fencing-Acquisition", "another's");
    assert_refused(&another.send(), 412, "lease-lost", "never");
    // Others are nobody's here.
    let other = sidecar.proxy.post("/accounts/2/payments").key("d");
    assert_eq!(other.json("{}").send().status, 201);
    std::fs::remove_file(sidecar.path("start")).unwrap();
    sidecar.until_held(false);
    assert_refused(&sidecar.pay("e").send(), 412, "lease-lost", "never");
    assert_eq!(upstream.effects().len(), 2);
}

/// A connection that was opened before an acquisition carries nothing of it.
#[test]
fn a_connection_never_carries_a_later_token() {
    let upstream = Upstream::start(Keys::Honoured);
    let wanted = Wanted {
        ttl: "30s",
        alive: "{ file: FOLDER/start, every: 100ms }",
        ..Wanted::default()
    };
    let sidecar = Sidecar::start(&upstream, &wanted);
    // It has begun to ask: nobody closes it before it has.
    let open = || {
        let mut stream = TcpStream::connect(sidecar.proxy.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let begin = b"POST /accounts/1/payments HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n";
        stream.write_all(begin).unwrap();
        stream
    };
    let ask = |stream: &mut TcpStream, key: &str| {
        let rest = format!("Idempotency-Key: {key}\r\n\r\n{{}}");
        stream.write_all(rest.as_bytes()).unwrap();
    };
    let before_all = open();
    write(&sidecar.path("start"), "one");
    sidecar.until_token("1");
    until("it is paid", || sidecar.pay("a").send().status == 201);
    let of_the_first = open();
    // It is accepted once another that came after it is answered.
    assert_eq!(sidecar.pay("b").send().status, 201);
    write(&sidecar.path("start"), "two");
    sidecar.until_token("2");
    until("it is paid", || sidecar.pay("c").send().status == 201);
    for (mut stream, key) in [(before_all, "d"), (of_the_first, "e")] {
        ask(&mut stream, key);
        // Closed by the one who answers.
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 412 "), "{key}: {answer}");
        assert!(answer.contains("lease-lost"), "{key}: {answer}");
    }
    assert_eq!(upstream.effects().len(), 3);
    // One that was used and is idle is closed, so that whoever keeps it for later opens another.
    let mut idle = open();
    ask(&mut idle, "f");
    let mut some = [0; 12];
    idle.read_exact(&mut some).unwrap();
    assert_eq!(&some, b"HTTP/1.1 201");
    write(&sidecar.path("start"), "three");
    let mut rest = String::new();
    idle.read_to_string(&mut rest).unwrap();
}

/// C23, and two replicas that fight: each with a sidecar and a worker of its own, one register.
#[test]
fn of_two_replicas_one_owns_and_the_other_takes_over() {
    let upstream = Upstream::start(Keys::Honoured);
    let database = shared().database();
    let url = database.url();
    let wanted = || Wanted {
        database: Some(&url),
        more: ", holder: everybody-is-called-so",
        ..Wanted::default()
    };
    let (one, other) = (
        Sidecar::start(&upstream, &wanted()),
        Sidecar::start(&upstream, &wanted()),
    );
    let mut alice = one.worker();
    until_paid(&mut alice, "alice");
    let mut bob = other.worker();
    let held = (409, "lease-held".to_owned());
    for number in 0..3 {
        assert_eq!(told(&mut bob, &format!("bob-early-{number}")), held);
        assert_eq!(told(&mut alice, &format!("alice-{number}-more")).0, 201);
    }
    alice.pause();
    alice.tell("alice-late");
    until_paid(&mut bob, "bob");
    alice.wake();
    assert_eq!(answered(&mut alice), lost());
    assert_eq!(mark(&one.proxy, ACCOUNT).as_deref(), Some("2"));
    alice.kill();
    let mut alice = one.worker();
    until("the new one waits", || {
        told(&mut alice, "alice-waits") == held
    });
    bob.kill();
    until_paid(&mut alice, "alice-again");
    assert_eq!(mark(&other.proxy, ACCOUNT).as_deref(), Some("3"));
    // Whose effects they are, in their order: nobody's come between another's.
    let mut owners: Vec<&str> = Vec::new();
    let bodies = bodies(&upstream);
    for body in &bodies {
        let owner = if body.contains("again") {
            "alice again"
        } else if body.contains("bob") {
            "bob"
        } else {
            "alice"
        };
        owners.push(owner);
    }
    owners.dedup();
    assert_eq!(owners, ["alice", "bob", "alice again"], "{bodies:?}");
}
