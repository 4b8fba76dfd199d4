//! Leases on behalf of a worker while their sidecar ends, and what it says of them.
//!
//! What always holds: real processes; what counts is whether the sidecar had its time, and what another can have.

use std::time::{Duration, Instant};

use super::on_behalf::{ACCOUNT, ROUTE, Sidecar, Wanted, write};
use super::*;
use crate::support::gate::{Gate, until_after};
use crate::support::script::Script;
use crate::support::setup::Setup;
use crate::support::upstream::Keys;

/// A worker that is alive while this is there, and another one with each content.
const FILE: &str = "{ file: FOLDER/start, every: 100ms }";

/// So long after the end of its lease a sidecar that is to end with it is ended, and a while more.
const ENDED: Duration = Duration::from_secs(4);

fn times(text: &str, part: &str) -> usize {
    text.matches(part).count()
}

/// C05: whoever ends in order has the time for it, though the lease that he is to end with ends meanwhile.
#[test]
fn an_orderly_end_is_not_cut_short_by_the_end_of_a_lease() {
    let upstream = Upstream::start(Keys::Honoured);
    let wanted = Wanted {
        alive: FILE,
        more: ", on_loss: exit",
        ..Wanted::default()
    };
    let mut sidecar = Sidecar::start(&upstream, &wanted);
    write(&sidecar.path("start"), "one");
    sidecar.until_token("1");
    until("it is paid", || sidecar.pay("a").send().status == 201);
    let answer = Gate::closed();
    upstream.next(Script::hold_answer(&answer));
    let in_flight = sidecar.pay("b").start();
    answer.until_reached();
    sidecar.proxy.begin_to_stop();
    until("it drains", || {
        sidecar.proxy.health("/readyz").status == 503
    });
    std::fs::remove_file(sidecar.path("start")).unwrap();
    sidecar.until_held(false);
    let lost = Instant::now();
    until_after(ENDED, "it would be ended by now", || lost.elapsed() > ENDED);
    answer.open();
    assert_eq!(in_flight.answer().status, 201);
    assert_eq!(sidecar.proxy.ended().code(), Some(0));
    assert_eq!(upstream.effects().len(), 2);
}

/// What a sidecar would take now, another replica can have.
#[test]
fn a_sidecar_that_ends_takes_no_lease() {
    let upstream = Upstream::start(Keys::Honoured);
    let wanted = Wanted {
        alive: FILE,
        mode: "prefer",
        ..Wanted::default()
    };
    let mut sidecar = Sidecar::start(&upstream, &wanted);
    let answer = Gate::closed();
    upstream.next(Script::hold_answer(&answer));
    let other = sidecar.proxy.post("/accounts/2/payments").key("a");
    let in_flight = other.json("{}").start();
    answer.until_reached();
    sidecar.proxy.begin_to_stop();
    until("it drains", || {
        sidecar.proxy.health("/readyz").status == 503
    });
    write(&sidecar.path("start"), "one");
    until("it has seen the worker", || {
        sidecar.proxy.log().contains("the worker is alive again")
    });
    // One look follows another: what was to be done after the one is done by then.
    std::fs::remove_file(sidecar.path("start")).unwrap();
    until("it has looked again", || {
        times(&sidecar.proxy.log(), "the worker is not seen to be alive") == 2
    });
    answer.open();
    assert_eq!(in_flight.answer().status, 201);
    assert_eq!(sidecar.proxy.ended().code(), Some(0));
    let log = sidecar.proxy.log();
    assert_eq!(times(&log, "a lease was granted"), 0, "{log}");
}

/// Nor is it in the log where it cannot be given back.
#[test]
fn an_acquisition_that_is_given_back_too_late_is_in_no_log() {
    let upstream = Upstream::start(Keys::Honoured);
    let wanted = Wanted {
        ttl: "60s",
        alive: FILE,
        ..Wanted::default()
    };
    let sidecar = Sidecar::start(&upstream, &wanted);
    write(&sidecar.path("start"), "one");
    sidecar.until_token("1");
    until("it is paid", || sidecar.pay("a").send().status == 201);
    let acquisition = sidecar.acquisition();
    let advance = format!("/v1/resources/{}/advance", in_path(ACCOUNT));
    let told = sidecar.proxy.admin("POST", &advance);
    let told = told.json(r#"{"reason":"it is stuck"}"#).send();
    assert_eq!(told.status, 200, "{}", told.text());
    write(&sidecar.path("start"), "two");
    until("it cannot be given back", || {
        sidecar.proxy.log().contains("a lease was not released")
    });
    assert!(!sidecar.proxy.log().contains(&acquisition));
}

/// What is gone with its container would be taken for a lease that nobody ever owned.
#[test]
fn a_sidecar_whose_state_would_be_gone_with_its_container_does_not_start() {
    let upstream = Upstream::start(Keys::Honoured);
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let leases = format!(
        "leases:\n  payer: {{ resource: '{ACCOUNT}', state: {}, alive: {{ file: /nowhere/start }} }}",
        memory.path().display()
    );
    let setup = Setup::new(upstream.address(), &ROUTE.replace("MODE", "require")).with(&leases);
    let lasting = std::fs::read_to_string(setup.config()).unwrap();
    let lasting = lasting.replace(", ephemeral: true", "");
    std::fs::write(setup.config(), lasting).unwrap();
    let proxy = Proxy::refused(setup);
    let log = proxy.log();
    assert!(log.contains(&memory.path().display().to_string()), "{log}");
    assert!(log.contains("tmpfs"), "{log}");
}
