//! A disk without room, and writes that it takes in part.
//!
//! What always holds: it is no reason to restart. What was sent can be recorded from the reserve.

use super::*;
use crate::support::gate::Gate;
use crate::support::script::Script;

/// The only room left is what the reserve takes up.
const FULL: [&str; 2] = [
    "write register.db-wal ENOSPC while=reserve",
    "open reserve ENOSPC",
];

const NO_ROOM: &str = "write register.db-wal ENOSPC";

/// A payment that the upstream has made and not answered yet.
fn sent_and_unanswered(
    proxy: &Proxy,
    upstream: &Upstream,
) -> (crate::support::call::InFlight, Gate) {
    let answer = Gate::closed();
    upstream.next(Script::hold_answer(&answer));
    let sent = pay(proxy, "sent").start();
    answer.until_reached();
    (sent, answer)
}

/// Room again, without a restart: everything goes on, once.
fn assert_goes_on_by_itself(proxy: &Proxy, upstream: &Upstream) {
    proxy.disk().heals();
    until_ready(proxy);
    assert_eq!(pay(proxy, "new").send().status, 201);
    assert!(pay(proxy, "sent").send().is_replay());
    assert_eq!(upstream.heads().len(), 2);
    assert_eq!(upstream.effects().len(), 2);
}

/// B20: where there is no room, new work is refused; nothing is forgotten to make some.
#[test]
fn on_a_full_disk_what_was_sent_is_recorded_and_nothing_new_is_sent() {
    let (upstream, proxy) = on_a_disk_that_fails(Keys::Ignored);
    let (sent, answer) = sent_and_unanswered(&proxy, &upstream);
    proxy.disk().fails(&FULL);
    answer.open();

    let told = sent.answer();

    assert_effect_1(&told);
    assert_eq!(told.field("fencepost-state"), None, "it is recorded");
    assert!(proxy.disk().failed().contains(&NO_ROOM.to_owned()));
    until_not_ready(&proxy, "the disk is full");
    for _ in 0..2 {
        assert_unavailable(&pay(&proxy, "new").send());
    }
    assert!(!is_known(&proxy, "new"));
    assert!(pay(&proxy, "sent").send().is_replay());
    assert!(proxy.log().contains("the disk of the register is full"));
    assert_goes_on_by_itself(&proxy, &upstream);
}

/// Not even the reserve helps: somebody else took what was given back.
#[test]
fn an_outcome_without_any_room_is_told_as_uncertain_and_recorded_when_there_is_room() {
    let (upstream, proxy) = on_a_disk_that_fails(Keys::Ignored);
    let (sent, answer) = sent_and_unanswered(&proxy, &upstream);
    proxy
        .disk()
        .fails(&["write register.db-wal ENOSPC", "open reserve ENOSPC"]);
    answer.open();

    let told = sent.answer();

    assert_effect_1(&told);
    assert_eq!(told.field("fencepost-state"), Some("uncertain"));
    assert_unavailable(&pay(&proxy, "new").send());
    until_not_ready(&proxy, "full");
    assert_eq!(upstream.heads().len(), 1);
    proxy.disk().heals();
    until_state(&proxy, "sent", "COMPLETED");
    assert_goes_on_by_itself(&proxy, &upstream);
}

/// Half a frame in the log, and then no room for the rest.
#[test]
fn a_write_cut_short_by_a_full_disk_is_made_again_from_the_reserve() {
    let (upstream, proxy) = on_a_disk_that_fails(Keys::Ignored);
    let (sent, answer) = sent_and_unanswered(&proxy, &upstream);
    proxy.disk().fails(&[
        "write register.db-wal ENOSPC short=100 while=reserve",
        "open reserve ENOSPC",
    ]);
    answer.open();
    assert_effect_1(&sent.answer());
    until_not_ready(&proxy, "the disk is full");
    assert!(proxy.disk().failed().contains(&NO_ROOM.to_owned()));
    assert_goes_on_by_itself(&proxy, &upstream);
}

/// Half a frame in the log, and then an error: the next process finds the torn frame.
#[test]
fn a_write_cut_short_by_an_error_sends_nothing_and_is_not_there_after_the_restart() {
    for bytes in ["short=10", "short=1000"] {
        let (upstream, mut proxy) = on_a_disk_that_fails(Keys::Ignored);
        let order = format!("write register.db-wal EIO {bytes}");
        proxy.disk().fails(&[&order]);
        assert_uncertain(&pay(&proxy, "k").send());
        until_not_ready(&proxy, "poisoned");
        assert_unavailable(&pay(&proxy, "k").send());
        assert_eq!(upstream.text(), "", "not a byte");
        proxy.disk().heals();
        proxy.kill();
        proxy.start_again();
        assert!(!is_known(&proxy, "k"));
        assert_effect_1(&pay(&proxy, "k").send());
        assert_eq!(upstream.heads().len(), 1);
    }
}

#[test]
fn without_room_for_its_proof_it_does_not_start() {
    let (upstream, mut proxy) = on_a_disk_that_fails(Keys::Ignored);
    assert_effect_1(&pay(&proxy, "k").send());
    proxy.stop();
    proxy.disk().fails(&["write . ENOSPC"]);
    assert_does_not_start(&mut proxy, "No space left on device");
    proxy.disk().heals();
    proxy.start_again();
    assert!(pay(&proxy, "k").send().is_replay());
    assert_eq!(upstream.heads().len(), 1);
}
