//! Callers of a shared gateway, told apart by the certificates that they show.
//!
//! What always holds: a real handshake with a real authority; the provider's ledger says whether two
//! callers shared an operation, and whether somebody got in who should not have.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;

use rustls::version::{TLS12, TLS13};
use rustls::{AlertDescription, HandshakeKind};
use tempfile::TempDir;

use super::*;
use crate::support::gate::{Gate, PATIENCE};
use crate::support::ports;
use crate::support::script::Script;
use crate::support::setup::Setup;
use crate::support::tls::{Authority, Identity, Secure, ask};
use crate::support::upstream::Keys;

/// A gateway in front of a provider, and the authorities of both sides.
struct Gateway {
    upstream: Upstream,
    proxy: Proxy,
    files: TempDir,
    servers: Authority,
    callers: Authority,
}

impl Gateway {
    /// `principal` and `client`: as in the config.
    fn start(principal: &str, client: &str) -> Self {
        let files = ports::folder();
        let (servers, callers) = (Authority::new("servers"), Authority::new("callers"));
        let file = |name| files.path().join(name);
        servers.server().write(&file("cert.pem"), &file("key.pem"));
        callers.write(&file("ca.pem"));
        let upstream = Upstream::start(Keys::Honoured);
        let folder = files.path().display();
        let route = format!(
            "capability: [idempotent]\n\
             key: {{ header: Idempotency-Key, lifetime: 24h, value: derived }}\n\
             listen_tls: {{ cert: {folder}/cert.pem, key: {folder}/key.pem, \
             client_ca: {folder}/ca.pem, client: {client} }}\n\
             principal: [ {principal} ]\n\
             effects: [ {{ on: POST /payments }} ]\n"
        );
        let proxy = Proxy::start(Setup::new(upstream.address(), &route));
        Self {
            upstream,
            proxy,
            files,
            servers,
            callers,
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    /// Somebody who shows this certificate.
    fn caller(&self, identity: &Identity) -> Secure {
        Secure::new(&self.servers, Some(identity))
    }

    fn nobody(&self) -> Secure {
        Secure::new(&self.servers, None)
    }

    fn pay(&self, key: &str) -> Call {
        pay(&self.proxy, key, r#"{"amount":5}"#)
    }

    /// The bytes of such a payment on a connection that may be used again.
    fn kept_open(&self, key: &str) -> Vec<u8> {
        let request = String::from_utf8(self.pay(key).bytes()).unwrap();
        request.replace("Connection: close\r\n", "").into_bytes()
    }

    /// Has the config read again, and waits until it is in force.
    fn reload(&self) {
        let last = || self.proxy.read("/v1/config")["last_reload"].clone();
        let before = last();
        self.proxy.hang_up();
        until("the config is in force", || {
            let now = last();
            now != before && now["result"] == "applied"
        });
    }
}

const BY_SUBJECT: &str = "{ client_certificate: subject }";
const BY_URI: &str = "{ client_certificate: uri }";

/// B09: what the connection proves is the scope of a key; nobody can say in a header that he is somebody
/// else, and a renewed certificate is the same caller.
#[test]
fn two_callers_under_one_key_never_share_an_answer() {
    let gateway = Gateway::start(BY_SUBJECT, "require");
    let [alice, bob, renewed] =
        ["alice", "bob", "alice"].map(|name| gateway.caller(&gateway.callers.caller(name)));
    let (a, b) = (alice.send(&gateway.pay("k")), bob.send(&gateway.pay("k")));
    assert_eq!((a.status, b.status), (201, 201));
    assert_ne!(a.body, b.body);
    let keys: Vec<_> = gateway
        .upstream
        .effects()
        .into_iter()
        .map(|it| it.key)
        .collect();
    assert_eq!(keys.len(), 2);
    assert_ne!(keys[0], keys[1], "nor do they share a key at the upstream");

    assert_replayed(&renewed.send(&gateway.pay("k")), &a);
    for header in [
        "X-Forwarded-Client-Cert",
        "Client-Cert",
        "X-SSL-Client-S-DN",
        "X-Account",
    ] {
        let pretending = gateway.pay("k").field(header, "CN=alice");
        assert_replayed(&bob.send(&pretending), &b);
    }
    assert_eq!(gateway.upstream.heads().len(), 2);
    let log = gateway.proxy.log();
    assert!(!log.contains("alice") && !log.contains("PRIVATE KEY"));
}

/// B09: no certificate, no caller; and it is the authority that says who is one.
#[test]
fn nobody_is_let_in_without_a_certificate_that_holds() {
    let gateway = Gateway::start(BY_SUBJECT, "require");
    let strangers = Authority::new("callers");
    let call = gateway.pay("k");
    let none = gateway.nobody().refusal(&call);
    assert_eq!(none, AlertDescription::CertificateRequired);
    let stranger = gateway.caller(&strangers.caller("alice")).refusal(&call);
    assert!(
        matches!(
            stranger,
            AlertDescription::UnknownCA | AlertDescription::DecryptError
        ),
        "{stranger:?}"
    );
    let late = gateway.caller(&gateway.callers.expired("alice"));
    assert_eq!(late.refusal(&call), AlertDescription::CertificateExpired);
    assert_eq!(gateway.upstream.heads().len(), 0);
    assert_eq!(recorded(&gateway.proxy), 0);
    assert!(
        gateway
            .proxy
            .log()
            .contains("a caller's connection was not opened")
    );
    let good = gateway.caller(&gateway.callers.caller("alice"));
    assert_eq!(good.send(&call).status, 201);
}

/// B09: where some callers have none, an effect of theirs is nobody's and refused; reading is free.
#[test]
fn whoever_shows_no_certificate_is_nobody_and_not_the_default_account() {
    let gateway = Gateway::start(BY_URI, "optional");
    let nobody = gateway.nobody();
    let told = nobody.send(&gateway.pay("k").field("X-Account", "a"));
    assert_refused(&told, 400, "identity-missing", "never");
    assert!(
        told.text().contains("client certificate uri"),
        "{}",
        told.text()
    );
    let read = gateway.proxy.call("GET", "/payments");
    assert_eq!(nobody.send(&read).status, 200);
    let uris = ["spiffe://example.org/a", "spiffe://example.org/b"];
    let both = gateway.caller(&gateway.callers.caller_at(&uris));
    let told = both.send(&gateway.pay("k"));
    assert_refused(&told, 400, "identity-missing", "never");
    assert!(told.text().contains("more than once"), "{}", told.text());
    assert_eq!(gateway.upstream.effects().len(), 0);
    for uri in uris {
        let caller = gateway.caller(&gateway.callers.caller_at(&[uri]));
        let first = caller.send(&gateway.pay("k"));
        assert_eq!(first.status, 201);
        assert_replayed(&caller.send(&gateway.pay("k")), &first);
    }
    assert_eq!(gateway.upstream.effects().len(), 2);
}

/// A session that is resumed would outlive the certificate: each connection proves anew whose it is, and
/// both versions say the same.
#[test]
fn every_connection_proves_whose_it_is() {
    let gateway = Gateway::start(BY_SUBJECT, "require");
    let alice = gateway.callers.caller("alice");
    let first = gateway.caller(&alice).send(&gateway.pay("k"));
    for version in [&TLS12, &TLS13] {
        let caller = Secure::speaking(&gateway.servers, Some(&alice), &[version]);
        for _ in 0..3 {
            let (answer, kind) = caller.send_and_tell(&gateway.pay("k"));
            assert_replayed(&answer, &first);
            assert_ne!(kind, HandshakeKind::Resumed);
        }
    }
    assert_eq!(gateway.upstream.effects().len(), 1);
}

#[test]
fn a_caller_in_the_clear_is_told_to_speak_tls() {
    let gateway = Gateway::start(BY_SUBJECT, "require");
    let told = gateway.pay("k").send();
    assert_refused(&told, 421, "no-route", "never");
    assert!(told.text().contains("speaks TLS"), "{}", told.text());
    assert_eq!(gateway.upstream.heads().len(), 0);
    assert_eq!(recorded(&gateway.proxy), 0);
}

/// Callers who open connections and say nothing, or half of it, are neither waited for nor kept.
#[test]
fn slow_handshakes_keep_nobody_waiting_and_end() {
    let mut gateway = Gateway::start(BY_SUBJECT, "require");
    let open = |bytes: &[u8]| {
        let mut slow = TcpStream::connect(gateway.proxy.address()).unwrap();
        slow.set_read_timeout(Some(PATIENCE)).unwrap();
        slow.write_all(bytes).unwrap();
        slow
    };
    // The head of a record that never comes.
    let hello = [22, 3, 1, 0, 200, 1, 0];
    let slow: Vec<_> = (0..50).flat_map(|_| [open(&[]), open(&hello)]).collect();
    let alice = gateway.caller(&gateway.callers.caller("alice"));
    assert_eq!(alice.send(&gateway.pay("k")).status, 201);
    for mut slow in slow {
        let ended = slow.read(&mut [0; 64]);
        assert!(ended.is_ok_and(|read| read <= 7), "an alert, or the end");
    }
    let _open = open(&hello);
    assert_eq!(gateway.proxy.stop().code(), Some(0));
}

/// Certificates are renewed while the gateway runs: the files change, and nothing else.
#[test]
fn renewed_certificates_are_taken_up_without_a_dropped_connection() {
    let gateway = Gateway::start(BY_SUBJECT, "require");
    let alice = gateway.callers.caller("alice");
    let old = gateway.caller(&alice);
    let mut kept = old.connect(gateway.proxy.address());
    let request = gateway.kept_open("k");
    let first = ask(&mut kept, &request).unwrap();
    assert_eq!(first.status, 201);

    // Half of a new pair is no pair: the old one stays.
    let servers = Authority::new("new servers");
    let server = servers.server();
    let unused = gateway.file("unused.pem");
    server.write(&gateway.file("cert.pem"), &unused);
    let last = || gateway.proxy.read("/v1/config")["last_reload"]["result"].clone();
    gateway.proxy.hang_up();
    until("the half is refused", || last() == "refused");
    assert_replayed(&old.send(&gateway.pay("k")), &first);

    server.write(&gateway.file("cert.pem"), &gateway.file("key.pem"));
    gateway.reload();
    let renewed = Secure::new(&servers, Some(&alice));
    assert_replayed(&renewed.send(&gateway.pay("k")), &first);
    assert!(
        old.attempt(&gateway.pay("k")).is_err(),
        "it is shown the new one"
    );
    let again = ask(&mut kept, &request).unwrap();
    assert_replayed(&again, &first);
    assert_eq!(gateway.upstream.effects().len(), 1);
}

/// B09: a name holds for as long as the trust that gave it, and for the upstream that it was given for.
/// What was asked before is answered.
#[test]
fn connections_end_with_the_trust_that_named_their_callers() {
    let gateway = Gateway::start(BY_SUBJECT, "require");
    let alice = gateway.caller(&gateway.callers.caller("alice"));
    let first = alice.send(&gateway.pay("k"));
    assert_eq!(first.status, 201);
    let callers = Authority::new("new callers");
    let new_alice = gateway.caller(&callers.caller("alice"));
    let other_roots = || callers.write(&gateway.file("ca.pem"));
    let not_required = || {
        let proxy = &gateway.proxy;
        proxy.change_config("client: require", "client: optional");
    };
    let changes: [(&str, &Secure, &dyn Fn()); 2] = [
        ("other-roots", &alice, &other_roots),
        ("not-required", &new_alice, &not_required),
    ];
    for (what, caller, change) in changes {
        let [mut idle, mut busy] = [(); 2].map(|()| caller.connect(gateway.proxy.address()));
        let request = gateway.kept_open("k");
        assert_replayed(&ask(&mut idle, &request).unwrap(), &first);
        let answer = Gate::closed();
        gateway.upstream.next(Script::hold_answer(&answer));
        let under_way = gateway.kept_open(what);
        let told = std::thread::scope(|scope| {
            let asking = scope.spawn(|| ask(&mut busy, &under_way));
            answer.until_reached();
            change();
            gateway.reload();
            let sent = gateway.upstream.heads().len();
            assert_not_served(ask(&mut idle, &gateway.kept_open("new")), what);
            assert_eq!(gateway.upstream.heads().len(), sent, "{what}");
            answer.open();
            asking.join().unwrap()
        });
        assert_eq!(told.expect(what).status, 201, "{what}");
        assert_not_served(ask(&mut busy, &gateway.kept_open("new")), what);
    }
    let mut idle = new_alice.connect(gateway.proxy.address());
    let again = ask(&mut idle, &gateway.kept_open("k")).unwrap();
    assert_replayed(&again, &first);
    let proxy = &gateway.proxy;
    proxy.change_config("principal:", "id: other\n    principal:");
    gateway.reload();
    assert_not_served(
        ask(&mut idle, &gateway.kept_open("new")),
        "another upstream",
    );
    assert_eq!(gateway.upstream.effects().len(), 3);
    assert_eq!(new_alice.send(&gateway.pay("new")).status, 201);
}

/// It is closed, or was told so on its way.
fn assert_not_served(answer: io::Result<Answer>, what: &str) {
    if let Ok(told) = answer {
        assert_refused(&told, 503, "draining", "same-operation");
        assert_eq!(told.field("connection"), Some("close"), "{what}");
    }
}

/// Scenario 6: what is only observed is judged for the same callers.
#[test]
fn observed_callers_are_told_apart_too() {
    let gateway = Gateway::start(BY_SUBJECT, "optional");
    gateway
        .proxy
        .change_config("version: 1\n", "version: 1\nmode: observe\n");
    gateway.proxy.hang_up();
    until("it observes", || {
        gateway.proxy.read("/v1/config")["last_reload"]["result"] == "applied"
    });
    let [alice, bob] = ["alice", "bob"].map(|name| gateway.caller(&gateway.callers.caller(name)));
    for caller in [&alice, &bob, &alice, &gateway.nobody()] {
        assert!(caller.send(&gateway.pay("k")).status < 300);
    }
    assert_eq!(gateway.upstream.heads().len(), 4, "nothing is held back");
    until("all were judged", || {
        let report = gateway.proxy.read("/v1/report").to_string();
        report.contains("identity-missing") && report.contains("replay")
    });
}
