//! Contract §5: what a person may have sent again, and on what a verdict is.

use super::*;
use crate::protocol::steps::{ResendPolicy, Steps};

fn lost_world(change: impl Fn(&mut Ask)) -> (World, OperationKey) {
    let mut world = World::new();
    let ask = Ask::fenced("k", "107").with(change);
    let grant = world.granted(&ask);
    world.record(&grant, lost());
    (world, grant.key)
}

fn granted(reply: ResendReply) -> Grant {
    match reply {
        ResendReply::Granted(grant) => grant,
        other => panic!("{other:?}"),
    }
}

/// What was cut off is never sent again, "unless `settle --send` says so".
#[test]
fn a_person_has_sent_again_what_a_cancel_or_an_advance_cut_off() {
    for how in [Steering::Cancel, Steering::Advance] {
        let (mut world, key) = lost_world(|_| {});
        let before = world.operations[&key].key_use;
        world.steer(how.clone());
        world.park(&key);
        let cut_off = ResendReply::Forbidden(Parked::CutOff);
        let nothing = TakenUp::NothingToAsk(Some(Parked::CutOff));
        assert_eq!(world.take_up(&key), nothing, "{how:?}");
        let grant = granted(world.attend(&key));
        // The same key and the same bytes, and in the log who said so.
        assert_eq!(grant.round, before.round);
        assert_eq!(world.operations[&key].key_use, before);
        assert!(grant.request.is_some());
        assert_eq!(world.state(&key), "UNCERTAIN");
        let said = world.events.last().unwrap();
        assert!(
            said.text.contains("as alice asked: the bank has no trace"),
            "{said:?}"
        );
        // It is one attempt, and licenses no other.
        assert_eq!(world.attend(&key), ResendReply::NotNow);
        world.record(&grant, lost());
        assert_eq!(world.resend(&key), cut_off);
        let last = granted(world.attend(&key));
        world.record(&last, applied());
        assert_eq!(world.state(&key), "COMPLETED");
    }
}

#[test]
fn a_person_may_send_beyond_the_count_and_without_a_fence() {
    let (mut world, key) = lost_world(|ask| ask.policy.settle.steps = Steps::none());
    assert_eq!(world.resend(&key), ResendReply::Forbidden(Parked::NoStep));
    granted(world.attend(&key));

    let (mut world, key) = lost_world(|ask| {
        let resends = ask.policy.settle.steps.send_again().unwrap();
        ask.policy.settle.steps = Steps::resends(Some(ResendPolicy {
            attempts: 0,
            ..resends
        }));
    });
    let used_up = ResendReply::Forbidden(Parked::ResendsUsedUp);
    assert_eq!(world.resend(&key), used_up);
    granted(world.attend(&key));

    let (mut world, key) = lost_world(|ask| ask.fenced = false);
    let not_ordered = ResendReply::Forbidden(Parked::NotOrdered);
    assert_eq!(world.resend(&key), not_ordered);
    granted(world.attend(&key));
}

/// No person can know better than the record that the upstream forgot the key, that something newer was
/// let out, or that the bytes are gone.
#[test]
fn no_person_has_sent_again_what_would_be_another_effect_or_an_older_one() {
    let forbidden = |world: &mut World, key: &OperationKey, why| {
        assert_eq!(world.resend(key), ResendReply::Forbidden(why));
        assert_eq!(world.attend(key), ResendReply::Forbidden(why));
    };
    let (mut world, key) = lost_world(|ask| ask.policy.settle = opaque());
    forbidden(&mut world, &key, Parked::NoStep);

    let (mut world, key) = lost_world(|ask| ask.policy.keep_request = false);
    forbidden(&mut world, &key, Parked::RequestNotKept);

    let (mut world, key) = lost_world(|_| {});
    world.now_ms += 86_400_000 / 100 * 80;
    forbidden(&mut world, &key, Parked::KeyTooOld);

    let (mut world, key) =
        lost_world(|ask| ask.policy.settle.key.as_mut().unwrap().lifetime = None);
    forbidden(&mut world, &key, Parked::KeyTooOld);

    let (mut world, key) = lost_world(|ask| {
        ask.policy.settle.capability.conditional = true;
        ask.conditional = true;
    });
    let ahead = Ask::fenced("bob", "108").with(|ask| {
        ask.conditional = true;
        ask.fence_policy().if_older_unsettled = IfOlderUnsettled::Send(Millis(1));
    });
    world.granted(&ahead);
    forbidden(&mut world, &key, Parked::Overtaken);

    // The register went back: its fence is gone.
    let (mut world, key) = lost_world(|_| {});
    world.fences.clear();
    forbidden(&mut world, &key, Parked::CutOff);
}

#[test]
fn what_waits_for_a_person_is_sent_again_only_for_one() {
    let (mut world, key) = lost_world(|_| {});
    world.park(&key);
    assert!(matches!(
        world.resend(&key),
        ResendReply::Settled(Some(State::NeedsAttention(_)))
    ));
    granted(world.attend(&key));
    assert_eq!(world.state(&key), "UNCERTAIN");
}

#[test]
fn what_is_settled_is_sent_again_for_nobody() {
    let (mut world, key) = lost_world(|_| {});
    world.resolve(&key, Resolution::NotApplied { new_key: false });
    assert!(matches!(world.attend(&key), ResendReply::Settled(_)));
    assert_eq!(world.attend(&super::key("x")), ResendReply::Settled(None));
}

/// Whoever looked at a list decides about what he saw, not about what came of it meanwhile.
#[test]
fn a_verdict_on_what_was_seen_does_not_fall_on_what_came_after() {
    let not_applied = || Resolution::NotApplied { new_key: false };
    let (mut world, key) = lost_world(|_| {});
    let seen = world.operations[&key].admitted;
    let done = world.resolve_as_seen(&key, not_applied(), Some(seen));
    assert!(matches!(done, Resolved::Done(_)), "{done:?}");
    // Settled since: also the verdict that a late proof would allow is not about what was seen.
    let applied_then = Resolution::Applied(Answer {
        status: 200,
        fields: Vec::new(),
        body: None,
    });
    let late = world.resolve_as_seen(&key, applied_then, Some(seen));
    assert!(matches!(late, Resolved::MovedOn(State::NotApplied(_))));
    assert_eq!(world.state(&key), "NOT_APPLIED");
    // Admitted again since: nobody looked whether that attempt acted.
    let again = world.granted(&Ask::fenced("k", "107"));
    world.record(&again, lost());
    let late = world.resolve_as_seen(&key, not_applied(), Some(seen));
    assert_eq!(late, Resolved::MovedOn(State::Uncertain));
    assert_eq!(world.state(&key), "UNCERTAIN");
    let whatever = world.resolve_as_seen(&key, not_applied(), None);
    assert!(matches!(whatever, Resolved::Done(_)));
}

#[test]
fn what_is_left_of_a_keys_lifetime_runs_out_and_is_over_where_no_clock_can_say() {
    use super::super::remaining::lifetime_of_key;
    const DAY: u64 = 86_400_000;
    let (mut world, key) = lost_world(|_| {});
    let operation = world.operations[&key].clone();
    let left = |now: &Moment| lifetime_of_key(&operation, now).map(|it| it.0);
    assert_eq!(left(&world.now()), Some(DAY));
    world.now_ms += DAY / 4;
    assert_eq!(left(&world.now()), Some(DAY / 4 * 3));
    // The largest that any clock shows.
    let wall_ahead = Moment {
        wall_ms: world.now_ms + DAY / 4,
        ..world.now()
    };
    assert_eq!(left(&wall_ahead), Some(DAY / 2));
    let stepped_back = Moment {
        boot: BootId(2),
        wall_ms: 0,
        ..world.now()
    };
    assert_eq!(left(&stepped_back), Some(0));
    world.now_ms += DAY;
    assert_eq!(left(&world.now()), Some(0));

    let (world, key) = lost_world(|ask| ask.policy.settle.key.as_mut().unwrap().lifetime = None);
    assert_eq!(lifetime_of_key(&world.operations[&key], &world.now()), None);
    // Nothing was sent under it: it has not begun.
    let mut world = World::new();
    let unsent = world.granted(&Ask::fenced("k", "107"));
    world.record(&unsent, not_sent());
    let operation = &world.operations[&unsent.key];
    assert_eq!(lifetime_of_key(operation, &world.now()), None);
}
