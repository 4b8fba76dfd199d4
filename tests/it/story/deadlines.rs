//! Deadlines: the caller's, which are his own affair, and ours, which are never taken for none.
//!
//! What always holds: the proxy reads no deadline from a caller, so none can be misread; a caller whose
//! patience is shorter than the upstream's answer cuts nothing off and finds the answer later.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::support::gate::Gate;
use crate::support::script::Script;
use crate::support::setup::Setup;
use crate::support::upstream::Keys;

/// B03: what callers say of their deadlines is the upstream's to read, and reaches it as it is.
#[test]
fn a_callers_deadline_shorter_than_ours_ends_nothing_and_repeats_nothing() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::opaque(upstream.address()));
    for (number, deadline) in ["0", "-1", "1", "99999999999999999999", "abc"]
        .iter()
        .enumerate()
    {
        let key = format!("k-{number}");
        let call = pay(&proxy, &key, "{}").field("X-Request-Timeout-Ms", deadline);
        let answer = Gate::closed();
        upstream.next(Script::hold_answer(&answer));
        let impatient = call.start();
        answer.until_reached();
        // His time is over; ours is not.
        impatient.hang_up_and_be_missed();
        let patient = call.start();
        answer.open();
        assert_eq!(patient.answer().status, 201, "{deadline}");
        let heads = upstream.heads();
        assert_eq!(heads.len(), number + 1, "{deadline}: sent once");
        let passed = heads[number].fields.first("x-request-timeout-ms");
        assert_eq!(passed, Some(*deadline));
    }
}

/// B03: no time at all is not taken for all the time in the world.
#[test]
fn a_deadline_of_nothing_is_no_setting() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::opaque(upstream.address()));
    for (good, bad) in [
        ("dispatch: 5s", "dispatch: 0s"),
        ("response: 10s", "response: 0"),
        ("connect: 2s", "connect: -1s"),
    ] {
        proxy.change_config(good, bad);
        let checked = Proxy::command_alone(&["check", proxy.config().to_str().unwrap()]);
        proxy.change_config(bad, good);
        assert_eq!(checked.status.code(), Some(1), "{bad}");
        let said = String::from_utf8([checked.stdout, checked.stderr].concat()).unwrap();
        assert!(said.contains("above zero"), "{bad}: {said}");
    }
}

/// A03: so many connections at most are made for one request, of which none may have carried it.
const CONNECTIONS: usize = 3;

/// A03: connections that die at once do not multiply a request, and what was tried is on record.
#[test]
fn an_upstream_that_closes_every_connection_gets_few_and_the_attempts_are_on_record() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let accepted: Arc<AtomicUsize> = Arc::default();
    let counted = Arc::clone(&accepted);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            counted.fetch_add(1, Ordering::SeqCst);
            drop(stream);
        }
    });
    let proxy = Proxy::start(Setup::opaque(address));
    let requests = 20;
    for number in 0..requests {
        let key = format!("k-{number}");
        let told = pay(&proxy, &key, "{}").send();
        let path = format!("/v1/operations/provider/{key}");
        let known = proxy.admin("GET", &path).send();
        let record = (known.status == 200).then(|| known.json());
        let state = record
            .as_ref()
            .map(|it| it["state"].as_str().unwrap().to_owned());
        let events = record
            .map(|it| it["events"].to_string())
            .unwrap_or_default();
        match (told.verdict().1.as_str(), state.as_deref()) {
            // Closed before it was admitted, or admitted and nothing written.
            ("upstream-unreachable", None) => {}
            ("upstream-unreachable", Some("NOT_APPLIED")) => {
                assert!(events.contains("nothing was sent"), "{events}");
            }
            ("outcome-uncertain", Some(_)) => {
                until_state(&proxy, &key, "NEEDS_ATTENTION");
                assert!(events.contains("interrupted"), "{events}");
            }
            other => panic!("{other:?}: {}", told.text()),
        }
    }
    // Whatever was accepted before this one has been counted with it.
    let mut last = std::net::TcpStream::connect(address).unwrap();
    std::io::Read::read_to_end(&mut last, &mut Vec::new()).unwrap();
    let made = accepted.load(Ordering::SeqCst) - 1;
    assert!(made <= requests * CONNECTIONS, "{made}");
}
