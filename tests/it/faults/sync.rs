//! An fsync that fails: what it leaves on the disk nobody knows, so this process writes nothing more.
//!
//! What always holds: a disk that works again changes nothing for a process that saw it fail.

use super::*;
use crate::support::gate::Gate;
use crate::support::script::Script;

const COMMITS_FAIL: &str = "sync register.db-wal EIO";

/// Work is refused now and, on a good disk again, until the restart; what is known can be read.
fn assert_poisoned(proxy: &Proxy, known: &str) {
    until_not_ready(proxy, "poisoned");
    assert_unavailable(&pay(proxy, "another").send());
    proxy.disk().heals();
    assert_unavailable(&pay(proxy, "another").send());
    assert_eq!(operation(proxy, known)["state"], "COMPLETED");
    let shown = proxy.command(&["operations", "show", "provider", known]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("COMPLETED"));
    assert!(proxy.log().contains("poisoned by a failed transaction"));
}

/// Nothing is written between the start and the next operation, so that it meets the fault itself.
fn start_afresh(proxy: &mut Proxy) {
    proxy.stop();
    proxy.start_again();
}

#[test]
fn an_intent_that_cannot_be_synced_is_not_sent_and_settled_after_the_restart() {
    let (upstream, mut proxy) = on_a_disk_that_fails(Keys::Honoured);
    assert_effect_1(&pay(&proxy, "before").send());
    start_afresh(&mut proxy);
    proxy.disk().fails(&[COMMITS_FAIL]);

    assert_uncertain(&pay(&proxy, "k").send());

    assert_eq!(proxy.disk().failed(), [COMMITS_FAIL], "nothing after it");
    assert_poisoned(&proxy, "before");
    assert_eq!(upstream.heads().len(), 1, "nothing was sent");
    proxy.stop();
    proxy.start_again();
    // Its bytes had reached the file, so that it was found as INTENDED.
    until_state(&proxy, "k", "COMPLETED");
    let told = pay(&proxy, "k").send();
    assert_eq!((told.status, &*told.text()), (201, r#"{"id":"effect-2"}"#));
    assert_eq!(pay(&proxy, "another").send().status, 201);
    assert!(pay(&proxy, "before").send().is_replay());
    assert_eq!(upstream.effects().len(), 3);
}

#[test]
fn an_intent_that_cannot_be_synced_waits_for_a_person_where_nobody_can_deduplicate() {
    let (upstream, mut proxy) = on_a_disk_that_fails(Keys::Ignored);
    proxy.disk().fails(&[COMMITS_FAIL]);
    assert_uncertain(&pay(&proxy, "k").send());
    proxy.disk().heals();
    proxy.stop();
    proxy.start_again();

    until_state(&proxy, "k", "NEEDS_ATTENTION");

    let told = pay(&proxy, "k").send();
    assert_eq!(told.verdict(), (409, "needs-attention".to_owned()));
    assert_eq!(upstream.text(), "", "not a byte");
    let resolve = ["operations", "resolve", "provider", "k", "--verdict"];
    let said = [
        "not-applied",
        "--admitted",
        "1",
        "--reason",
        "it is not in the books",
    ];
    let resolved = proxy.command(&[&resolve[..], &said[..]].concat());
    assert!(resolved.status.success(), "{resolved:?}");
    assert_effect_1(&pay(&proxy, "k").send());
    assert_eq!(upstream.heads().len(), 1);
}

/// The answer is there and cannot be recorded: its caller gets it, marked.
#[test]
fn an_outcome_that_cannot_be_synced_is_told_as_uncertain_and_never_sent_twice() {
    for keys in [Keys::Honoured, Keys::Ignored] {
        let (upstream, mut proxy) = on_a_disk_that_fails(keys);
        assert_effect_1(&pay(&proxy, "before").send());
        let answer = Gate::closed();
        upstream.next(Script::hold_answer(&answer));
        let first = pay(&proxy, "k").start();
        answer.until_reached();
        proxy.disk().fails(&[COMMITS_FAIL]);
        answer.open();

        let told = first.answer();

        assert_eq!((told.status, &*told.text()), (201, r#"{"id":"effect-2"}"#));
        assert_eq!(told.field("fencepost-state"), Some("uncertain"));
        assert!(told.field("location").is_some());
        let repeat = pay(&proxy, "k").send();
        assert_unavailable(&repeat);
        assert!(
            repeat.text().contains("under the same identity"),
            "it was sent once"
        );
        assert_poisoned(&proxy, "before");
        proxy.stop();
        proxy.start_again();
        // What could not be synced may be in the file all the same.
        until("it is settled, or said to need a person", || {
            let state = &operation(&proxy, "k")["state"];
            state == "COMPLETED" || (keys == Keys::Ignored && state == "NEEDS_ATTENTION")
        });
        let again = pay(&proxy, "k").send();
        if keys == Keys::Honoured {
            assert_eq!((again.status, &again.body), (201, &told.body));
        } else {
            assert!(matches!(again.status, 201 | 409), "{}", again.text());
            assert_eq!(upstream.heads().len(), 2, "never a second attempt");
        }
        assert_eq!(upstream.effects().len(), 2);
    }
}

/// After a checkpoint that failed nothing may be built on its pages, though all is in the log.
#[test]
fn a_checkpoint_that_cannot_be_synced_stops_the_work_and_loses_nothing() {
    let (upstream, mut proxy) = on_a_disk_that_fails(Keys::Ignored);
    proxy.disk().fails(&["sync register.db EIO"]);
    let mut paid = Vec::new();
    let last = loop {
        assert!(paid.len() < 2_000, "a checkpoint was due long ago");
        let told = pay(&proxy, &format!("k{}", paid.len())).send();
        if told.status == 201 && told.field("fencepost-state").is_none() {
            paid.push(told.text());
        } else {
            break told;
        }
    };
    assert!(!proxy.disk().failed().is_empty(), "{}", last.text());
    // It failed after an outcome, or after an intent whose outcome could not be recorded any more.
    let in_doubt = usize::from(last.status == 201);
    if in_doubt == 0 {
        assert_unavailable(&last);
    }
    assert_poisoned(&proxy, "k0");
    assert_eq!(upstream.heads().len(), paid.len() + in_doubt);
    proxy.stop();
    proxy.start_again();
    for number in [0, paid.len() / 2, paid.len() - 1] {
        let again = pay(&proxy, &format!("k{number}")).send();
        assert_eq!((again.status, again.text()), (201, paid[number].clone()));
        assert!(again.is_replay());
    }
    if in_doubt == 1 {
        until_state(&proxy, &format!("k{}", paid.len()), "NEEDS_ATTENTION");
    }
    assert_eq!(pay(&proxy, "another").send().status, 201);
    assert_eq!(upstream.heads().len(), paid.len() + in_doubt + 1);
}

#[test]
fn a_disk_that_cannot_sync_or_be_read_is_refused_at_the_start() {
    let (upstream, mut proxy) = on_a_disk_that_fails(Keys::Ignored);
    assert_effect_1(&pay(&proxy, "k").send());
    proxy.stop();
    for (order, step) in [
        ("sync proof.new EIO", "fsync of a file fails"),
        ("names proof.new EIO", "renaming a file fails"),
        ("write proof.new EIO", "writing fails"),
        ("read register.db EIO", "disk I/O error"),
        ("sync register.db-wal EIO", "disk I/O error"),
    ] {
        proxy.disk().fails(&[order]);
        assert_does_not_start(&mut proxy, step);
    }
    proxy.disk().heals();
    proxy.start_again();
    assert!(pay(&proxy, "k").send().is_replay());
    assert_eq!(upstream.heads().len(), 1);
}

/// It only notices what is put back: that is worth a warning, and no refusal.
#[test]
fn a_witness_that_cannot_be_written_stops_nothing() {
    let (upstream, mut proxy) = on_a_disk_that_fails(Keys::Ignored);
    proxy
        .disk()
        .fails(&["open,write,sync,names witness.new EIO"]);
    assert_effect_1(&pay(&proxy, "k").send());
    until("it is said", || {
        proxy
            .log()
            .contains("the register's witness cannot be written")
    });
    assert!(!proxy.disk().failed().is_empty());
    assert_eq!(proxy.health("/readyz").status, 200);
    proxy.kill();
    proxy.disk().heals();
    proxy.start_again();
    assert!(pay(&proxy, "k").send().is_replay());
    assert_eq!(upstream.heads().len(), 1);
}
