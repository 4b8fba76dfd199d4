//! C05: a sidecar that ends, and does not get any further with it: what that means for the lease on behalf of its worker.
//!
//! What always holds: what counts is what reached the provider, and when the process is gone. Nothing waits for as long
//! as it is blocked, which is for ever.

use std::time::{Duration, Instant};

use super::on_behalf::{Sidecar, Wanted, write};
use super::*;
use crate::support::gate::Gate;
use crate::support::script::Script;
use crate::support::upstream::Keys;

/// A worker that is there as long as a file is; and a lease with which the process ends.
fn wanted(failpoint: Option<&str>) -> Wanted<'_> {
    Wanted {
        alive: "{ file: FOLDER/start, every: 200ms }",
        more: ", on_loss: exit",
        failpoint,
        ..Wanted::default()
    }
}

fn owning(upstream: &Upstream, failpoint: Option<&str>) -> Sidecar {
    let sidecar = Sidecar::start(upstream, &wanted(failpoint));
    write(&sidecar.path("start"), "one");
    sidecar.until_token("1");
    sidecar
}

/// The lease is lost, and the shutdown blocks: before anything was told to stop, or once it has drained. Until the
/// process is gone everything is refused, and gone it is: soon after the end of the lease; or once the time is over that
/// whoever ends in order has for it.
#[test]
fn a_shutdown_that_blocks_does_not_outlive_the_lease_by_more_than_its_grace() {
    for (place, refusal, at_most) in [
        ("before-drain", (412, "lease-lost"), 5),
        ("after-drain", (503, "draining"), 16),
    ] {
        let upstream = Upstream::start(Keys::Honoured);
        let failpoint = format!("{place}:1:block");
        let mut sidecar = owning(&upstream, Some(&failpoint));
        until("it is paid", || sidecar.pay("first").send().status == 201);
        std::fs::remove_file(sidecar.path("start")).unwrap();
        sidecar.until_held(false);
        let lost = Instant::now();
        let mut refused = 0;
        // Nobody is left who answers, at the end.
        while let Ok(told) = sidecar.pay(&format!("late-{refused}")).attempt() {
            let (status, name) = refusal;
            assert_eq!(told.verdict(), (status, name.to_owned()), "{place}");
            refused += 1;
            let lasted = lost.elapsed();
            assert!(
                lasted < Duration::from_secs(at_most),
                "{place}: it is there still"
            );
        }
        let ended = sidecar.proxy.ended();
        let lasted = lost.elapsed();
        assert_eq!(ended.code(), Some(4), "{place}: {}", sidecar.proxy.log());
        assert!(refused > 0, "{place}: nobody was told anything");
        assert!(lasted < Duration::from_secs(at_most), "{place}: {lasted:?}");
        assert!(sidecar.proxy.log().contains("it is ended"), "{place}");
        assert_eq!(upstream.heads().len(), 1, "{place}");
    }
}

/// An effect under way holds up an orderly shutdown for longer than the lease: it is kept until the effect is recorded,
/// and given back then.
#[test]
fn a_lease_is_kept_for_as_long_as_an_effect_holds_up_the_shutdown() {
    let upstream = Upstream::start(Keys::Honoured);
    let mut sidecar = owning(&upstream, None);
    until("it is paid", || sidecar.pay("first").send().status == 201);
    let answer = Gate::closed();
    upstream.next(Script::hold_answer(&answer));
    let slow = sidecar.pay("slow").start();
    answer.until_reached();
    sidecar.proxy.begin_to_stop();
    until("it drains", || {
        sidecar.proxy.health("/readyz").status == 503
    });
    let renewals = || sidecar.lease()["renewals"].as_u64().unwrap();
    // Each a third of its time after the one before: more than all of it.
    let before = renewals();
    until("it is kept", || renewals() >= before + 5);
    assert_eq!(sidecar.lease()["token"], "1");
    let late = sidecar.pay("late").send();
    assert_refused(&late, 503, "draining", "same-operation");
    answer.open();
    assert_eq!(slow.answer().status, 201);
    assert_eq!(sidecar.proxy.ended().code(), Some(0));
    assert_eq!(upstream.effects().len(), 2);
    std::fs::remove_file(sidecar.path("start")).unwrap();
    sidecar.proxy.start_again();
    assert_eq!(sidecar.lease()["held"], false);
}
