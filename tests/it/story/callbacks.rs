//! The upstream calls back: what it says is believed under its signature, recorded, and passed on.
//!
//! What always holds: a forged callback reaches nobody and changes nothing; whichever comes first, the answer or
//! the callback, there is one outcome; the application gets every callback that was believed, unchanged.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use ring::hmac;

use super::*;
use crate::support::call::read_answer;
use crate::support::gate::Gate;
use crate::support::ports;
use crate::support::script::Script;
use crate::support::setup::Setup;
use crate::support::upstream::Keys;

const PAID: &str = r#"{"type":"paid","object":{"id": "effect-1", "reference":"k"}}"#;

/// A proxy, its upstream, and the application behind the callbacks.
struct Scene {
    upstream: Upstream,
    application: Upstream,
    proxy: Proxy,
    hooks: SocketAddr,
}

impl Scene {
    fn new(waiting: &str) -> Self {
        Self::under(waiting, "")
    }

    /// With these settings too, of the top level.
    fn under(waiting: &str, settings: &str) -> Self {
        let upstream = Upstream::start(Keys::Ignored);
        let application = Upstream::start(Keys::Ignored);
        let hooks = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free()));
        let route = format!(
            r#"
capability: [callback]
timeouts: {{ connect: 2s, response: 300ms, dispatch: 5s }}
callbacks:
  listen: {hooks}
  forward: http://{}
  response: 2s
  on: POST /hooks/{{name}}
  signature: {{ scheme: hmac, header: X-Signature, prefix: "sha256=", secrets: [hooks-secret] }}
  operation: "{{body.object.reference}}"
  applied: "body.type == 'paid'"
  not_applied: "body.type == 'failed'"
  definitive: true
  outcome: {{ status: 201, body: body.object }}
effects:
  - on: POST /payments
    once: {{ header: Idempotency-Key }}
    settle: [ callback: {{ within: {waiting} }} ]
"#,
            application.address()
        );
        let proxy = Proxy::start(Setup::new(upstream.address(), &route).with(settings));
        Self {
            upstream,
            application,
            proxy,
            hooks,
        }
    }

    fn callback(&self, body: &str) -> Call {
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"hooks-secret");
        let tag = hmac::sign(&key, body.as_bytes());
        let digits = tag.as_ref().iter();
        let digits = digits.fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
        Call::new(self.hooks, "POST", "/hooks/payments?x=1")
            .field("x-signature", &format!("sha256={digits}"))
            .json(body)
    }

    /// A payment that was made, and whose answer nobody got.
    fn lost(&self) {
        self.upstream.next(Script::lose_answer());
        let told = pay(&self.proxy, "k", "{}").send();
        assert!(matches!(told.status, 504 | 409), "{}", told.text());
    }
}

#[test]
fn a_callback_settles_what_nobody_knew_and_reaches_the_application_unchanged() {
    let scene = Scene::new("1h");
    scene.lost();
    assert_eq!(state(&scene.proxy, "k"), "UNCERTAIN");
    let joined = pay(&scene.proxy, "k", "{}").start();

    let told = scene.callback(PAID).send();
    assert_eq!(
        told.status,
        201,
        "the application's own answer: {}",
        told.text()
    );
    let paid = joined.answer();
    assert_eq!(
        (paid.status, paid.text().as_str()),
        (201, r#"{"id": "effect-1", "reference":"k"}"#)
    );
    assert_eq!(paid.field("fencepost-provenance"), Some("callback"));
    let delivered = scene.application.effect(1);
    assert_eq!(delivered.path, "/hooks/payments?x=1");
    assert_eq!(delivered.body, PAID);
    assert!(delivered.head.fields.first("x-signature").is_some());

    // Twice: the application gets it twice, the record once.
    assert_eq!(scene.callback(PAID).send().status, 201);
    assert_eq!(scene.application.effects().len(), 2);
    assert_eq!(scene.upstream.effects().len(), 1);
    assert_eq!(state(&scene.proxy, "k"), "COMPLETED");
}

#[test]
fn a_forged_callback_reaches_nobody() {
    let scene = Scene::new("1h");
    scene.lost();
    let forged = PAID.replace("paid", "PAID");
    let signature = scene.callback(PAID);
    for call in [
        Call::new(scene.hooks, "POST", "/hooks/payments").json(PAID),
        Call::new(scene.hooks, "POST", "/hooks/payments")
            .field("x-signature", "sha256=00")
            .json(PAID),
        Call::new(scene.hooks, "POST", "/hooks/payments")
            .field("x-signature", &field_of(&signature, "x-signature"))
            .json(&forged),
    ] {
        let told = call.send();
        assert_eq!((told.status, told.text().as_str()), (401, ""));
    }
    for other in [
        Call::new(scene.hooks, "GET", "/hooks/payments"),
        Call::new(scene.hooks, "POST", "/elsewhere").json(PAID),
    ] {
        assert_eq!(other.send().status, 421);
    }
    assert_eq!(state(&scene.proxy, "k"), "UNCERTAIN");
    assert_eq!(scene.application.effects().len(), 0);
    assert!(scene.proxy.log().contains("not believed"));
}

/// The value of a field as it is sent.
fn field_of(call: &Call, name: &str) -> String {
    let text = String::from_utf8(call.bytes()).unwrap();
    let line = text
        .lines()
        .find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}:")))
        .unwrap();
    line.split_once(':').unwrap().1.trim().to_owned()
}

/// F10: the callback comes before the answer; the answer is what counts, as it would have without it.
#[test]
fn a_callback_that_overtakes_the_answer_changes_nothing() {
    let scene = Scene::new("1h");
    let answer = Gate::closed();
    scene.upstream.next(Script::hold_answer(&answer));
    let paying = pay(&scene.proxy, "k", "{}").start();
    answer.until_reached();
    let calling = scene.callback(PAID).start();
    answer.open();
    let paid = paying.answer();
    assert_eq!(
        (paid.status, paid.text().as_str()),
        (201, r#"{"id":"effect-1"}"#)
    );
    assert_eq!(paid.field("fencepost-source"), Some("upstream"));
    assert_eq!(calling.answer().status, 201);
    assert_replayed(&pay(&scene.proxy, "k", "{}").send(), &paid);
    assert!(scene.proxy.metric("fencepost_contradictions_total") < 1.0);
}

/// What is about something else, or somebody else's, is the application's alone.
#[test]
fn other_callbacks_are_passed_on_and_prove_nothing() {
    let scene = Scene::new("1h");
    scene.lost();
    for (index, other) in [
        r#"{"type":"refunded","object":{"reference":"k"}}"#,
        r#"{"type":"paid","object":{}}"#,
        r#"{"type":"paid","object":{"reference":"somebody's"}}"#,
        r#"{"type":7,"object":{"reference":"k"}}"#,
        "no JSON",
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(scene.callback(other).send().status, 201);
        assert_eq!(scene.application.effects().len(), index + 1);
    }
    assert_eq!(state(&scene.proxy, "k"), "UNCERTAIN");
}

/// It says for good that nothing happened: the identity is free, and goes out under the same key.
#[test]
fn a_callback_can_say_for_good_that_it_was_not_applied() {
    let scene = Scene::new("1h");
    scene.upstream.next(Script::cut_request_after(60));
    assert_eq!(pay(&scene.proxy, "k", "{}").send().status, 504);
    let failed = PAID.replace("paid", "failed");
    assert_eq!(scene.callback(&failed).send().status, 201);
    until_state(&scene.proxy, "k", "NOT_APPLIED");
    assert_eq!(pay(&scene.proxy, "k", "{}").send().status, 201);
    assert_eq!(scene.upstream.effects().len(), 1);
}

/// "It failed", while its attempt is still under way: it does not count yet, and may never come again of itself.
#[test]
fn a_failure_that_is_told_too_early_is_to_come_again() {
    let scene = Scene::new("1h");
    let answer = Gate::closed();
    scene.upstream.next(Script::hold_answer(&answer));
    let paying = pay(&scene.proxy, "k", "{}").start();
    answer.until_reached();
    let failed = PAID.replace("paid", "failed");

    let told = scene.callback(&failed).send();

    assert_eq!(told.status, 503, "{}", told.text());
    assert!(told.field("retry-after").is_some());
    assert!(scene.application.effects().is_empty(), "once it counts");
    // It does so as soon as nothing more can come of the attempt.
    until("it is taken", || {
        scene.callback(&failed).send().status == 201
    });
    until_state(&scene.proxy, "k", "NOT_APPLIED");
    assert_eq!(scene.application.effects().len(), 1);
    answer.open();
    assert_ne!(paying.answer().status, 200);
}

/// A callback that never comes: a person; and one that comes after all still counts.
#[test]
fn a_callback_that_comes_too_late_still_counts() {
    let scene = Scene::new("1s");
    scene.lost();
    until_state(&scene.proxy, "k", "NEEDS_ATTENTION");
    assert_eq!(scene.callback(PAID).send().status, 201);
    assert_eq!(state(&scene.proxy, "k"), "COMPLETED");
}

/// 50 MB are not read, and the application that is away has it sent again.
#[test]
fn a_callback_that_cannot_be_taken_is_to_come_again() {
    let scene = Scene::new("1h");
    let head = "POST /hooks/payments HTTP/1.1\r\nHost: x\r\nX-Signature: sha256=00\r\n\
                Content-Length: 52428800\r\n\r\n";
    let mut large = TcpStream::connect(scene.hooks).unwrap();
    large.write_all(head.as_bytes()).unwrap();
    let told = read_answer(&large).unwrap();
    assert_eq!(told.status, 413, "{}", told.text());

    scene.lost();
    let Scene {
        upstream,
        application,
        proxy,
        hooks,
    } = scene;
    let address = application.address();
    drop(application);
    until("the application is away", || {
        TcpStream::connect(address).is_err()
    });
    let scene = Scene {
        upstream,
        application: Upstream::start(Keys::Ignored),
        proxy,
        hooks,
    };
    let told = scene.callback(PAID).send();
    assert_eq!(told.status, 502, "{}", told.text());
    assert!(told.field("retry-after").is_some());
    // What it proved is recorded all the same.
    assert_eq!(state(&scene.proxy, "k"), "COMPLETED");
}

/// Anybody reaches the listener: who proves nothing costs no effect its room, and waits for nothing.
#[test]
fn strangers_at_the_listener_keep_no_effect_from_going_out() {
    let scene = Scene::under("1h", "limits: { buffered_bodies: 1MiB }\n");
    let stranger = |signature: &str| {
        let mut stranger = TcpStream::connect(scene.hooks).unwrap();
        let head = format!(
            "POST /hooks/payments HTTP/1.1\r\nHost: x\r\n{signature}Content-Length: 1048576\r\n\r\n"
        );
        stranger.write_all(head.as_bytes()).unwrap();
        stranger
    };
    // Without so much as a signature nothing of it is read.
    let told = read_answer(&stranger("")).unwrap();
    assert_eq!(told.status, 401, "{}", told.text());

    let strangers: Vec<TcpStream> = (0..40)
        .map(|_| stranger("X-Signature: sha256=00\r\n"))
        .collect();
    let paid = pay(&scene.proxy, "k", "{}").send();
    assert_eq!(paid.status, 201, "{}", paid.text());
    // And they are sent away in the end: what they announced does not come.
    for stranger in &strangers {
        assert_eq!(read_answer(stranger).unwrap().status, 408);
    }
}
