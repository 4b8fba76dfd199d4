//! Contract §4: what an operator does to a resource, and what follows for those who use it.

use super::*;

#[test]
fn a_cancelled_resource_lets_nothing_out_but_stored_outcomes() {
    let mut world = World::new();
    let ask = Ask::fenced("a", "107");
    let grant = world.granted(&ask);
    world.record(&grant, applied());
    world.fences.get_mut(&resource()).unwrap().cancelled = true;
    assert!(matches!(world.admit(&ask), Ruling::Replay { .. }));
    assert_eq!(
        refused(world.admit(&Ask::fenced("b", "108"))),
        Rejection::ResourceCancelled
    );
}

/// Contract §4: the token is judged first, and a cancel closes the mark.
#[test]
fn whoever_held_a_resource_that_is_cancelled_is_told_that_he_is_stale() {
    let mut world = World::new();
    let grant = world.granted(&Ask::fenced("a", "107"));
    world.record(&grant, applied());
    world.steer(Steering::Cancel);
    assert!(is_stale(&world.admit(&Ask::fenced("b", "107"))));
    assert_eq!(
        refused(world.admit(&Ask::fenced("c", "108"))),
        Rejection::ResourceCancelled
    );
}

/// Observing is about tokens. A cancel is a person's word.
#[test]
fn a_cancelled_resource_lets_nothing_out_where_tokens_are_observed_either() {
    let mut world = World::new();
    let observe =
        |id, with| Ask::fenced(id, with).with(|a| a.fence_policy().token = TokenMode::Observe);
    let before = world.granted(&observe("a", "107"));
    world.record(&before, applied());
    assert!(matches!(
        world.steer(Steering::Cancel),
        Steered::Done { .. }
    ));
    for ask in [observe("b", "107"), observe("c", "108")] {
        assert_eq!(refused(world.admit(&ask)), Rejection::ResourceCancelled);
    }
    assert!(matches!(
        world.admit(&observe("a", "107")),
        Ruling::Replay { .. }
    ));
}

#[test]
fn a_cancel_is_durable_and_cuts_off_what_was_admitted_before_also_after_a_reopening() {
    let mut world = World::new();
    let alice = world.granted(&Ask::fenced("a", "107"));
    world.record(&alice, lost());
    let Steered::Done {
        mark, in_flight, ..
    } = world.steer(Steering::Cancel)
    else {
        panic!()
    };
    assert_eq!(mark, Some(token("107")));
    assert_eq!(in_flight.len(), 1);
    assert_eq!(in_flight[0].key, alice.key);
    let cut_off = ResendReply::Forbidden(Parked::CutOff);
    assert_eq!(world.resend(&alice.key), cut_off);
    // A newer token raises the mark of a cancelled resource, and is refused all the same.
    assert_eq!(
        refused(world.admit(&Ask::fenced("b", "108"))),
        Rejection::ResourceCancelled
    );
    let said_twice = world.fence().clone();
    assert!(matches!(
        world.steer(Steering::Cancel),
        Steered::Done { .. }
    ));
    assert!(world.fence().mark >= said_twice.mark && world.fence().cancelled);
    let Steered::Done { incarnation, .. } = world.steer(Steering::Reopen) else {
        panic!()
    };
    assert_eq!(incarnation, Incarnation(1));
    assert_eq!(world.steer(Steering::Reopen), Steered::NotCancelled);
    // The mark is kept, closed; what was admitted before is in the way and never sent again.
    assert!(is_stale(&world.admit(&Ask::fenced("b", "108"))));
    assert!(matches!(
        world.admit(&Ask::fenced("b", "109")),
        Ruling::Wait { .. }
    ));
    assert_eq!(world.resend(&alice.key), cut_off);
    assert!(
        world
            .events
            .iter()
            .any(|event| event.text.contains("cancelled by"))
    );
}

#[test]
fn an_advance_cuts_off_the_present_holder_and_lets_the_next_one_in() {
    let mut world = World::new();
    let alice = world.granted(&Ask::fenced("a", "107"));
    world.record(&alice, lost());
    assert!(matches!(
        world.steer(Steering::Advance),
        Steered::Done { .. }
    ));
    assert!(is_stale(&world.admit(&Ask::fenced("b", "107"))));
    assert_eq!(
        world.resend(&alice.key),
        ResendReply::Forbidden(Parked::CutOff)
    );
    world.resolve(&alice.key, Resolution::NotApplied { new_key: false });
    world.granted(&Ask::fenced("b", "108"));
}

/// Also where nothing was under way whose log could tell: who cut off whom, and why.
#[test]
fn what_a_person_did_stands_with_the_fence_and_saying_it_twice_adds_nothing() {
    let mut world = World::new();
    let alice = world.granted(&Ask::fenced("a", "107"));
    world.record(&alice, applied());
    world.steer(Steering::Advance);
    let first = world.fence().clone();
    assert_eq!(first.interventions.len(), 1);
    let said = &first.interventions[0];
    assert_eq!(
        (said.how, said.operator.as_str(), said.reason.as_str()),
        (Deed::Advanced, "alice", "wrong amount")
    );
    world.steer(Steering::Advance);
    assert_eq!(world.fence(), &first);
    for _ in 0..3 {
        world.steer(Steering::Cancel);
        world.steer(Steering::Reopen);
    }
    let kept: Vec<_> = world
        .fence()
        .interventions
        .iter()
        .map(|it| it.how)
        .collect();
    let (cancel, reopen) = (Deed::Cancelled, Deed::Reopened);
    assert_eq!(kept, [cancel, reopen, cancel, reopen]);
}

#[test]
fn a_resource_that_nobody_has_seen_can_be_cancelled() {
    let mut world = World::new();
    world.steer(Steering::Cancel);
    assert_eq!(
        refused(world.admit(&Ask::fenced("a", "107"))),
        Rejection::ResourceCancelled
    );
}

#[test]
fn an_id_with_the_generation_lives_within_its_incarnation() {
    let mut world = World::new();
    let publish = Ask::fenced("publish:107", "107").with(|ask| ask.follows_incarnation = true);
    let first = world.granted(&publish);
    world.record(&first, applied());
    world.fences.get_mut(&resource()).unwrap().incarnation = Incarnation(1);
    let again = world.granted(&publish);
    assert_eq!(again.key, key("publish:107").within(Incarnation(1)));
}
