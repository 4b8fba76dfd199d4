//! Contract §4, sentence by sentence.

use super::*;

#[test]
fn another_payload_under_a_used_identity_is_refused_in_every_state() {
    let mut world = World::new();
    let ask = Ask::plain("k");
    let grant = world.granted(&ask);
    // B15: the fingerprint is checked before the status; in flight, 422 and not 409.
    assert_eq!(refused(world.admit(&ask.payload(2))), Rejection::KeyReused);
    world.record(&grant, lost());
    assert_eq!(refused(world.admit(&ask.payload(2))), Rejection::KeyReused);
    world.park(&ask.key());
    assert_eq!(refused(world.admit(&ask.payload(2))), Rejection::KeyReused);
    world.resolve(
        &ask.key(),
        Resolution::Applied(Answer {
            status: 200,
            fields: vec![],
            body: None,
        }),
    );
    assert_eq!(refused(world.admit(&ask.payload(2))), Rejection::KeyReused);
}

#[test]
fn not_applied_leaves_the_identity_free_under_the_same_key() {
    let mut world = World::new();
    let ask = Ask::plain("k");
    let grant = world.granted(&ask);
    world.record(&grant, answer(400, AnswerClass::NotProcessed));
    assert_eq!(world.state(&ask.key()), "NOT_APPLIED");
    let corrected = world.granted(&ask.payload(2));
    assert_eq!(corrected.round, Round(0));
    world.record(&corrected, applied());
    assert!(matches!(
        world.admit(&ask.payload(2)),
        Ruling::Replay { .. }
    ));
    assert_eq!(refused(world.admit(&ask)), Rejection::KeyReused);
}

#[test]
fn a_stored_refusal_is_replayed_and_frees_only_derived_identities_with_a_new_key() {
    let decline = || answer(402, AnswerClass::Refused);
    let mut world = World::new();
    let caller = Ask::plain("caller");
    let grant = world.granted(&caller);
    world.record(&grant, decline());
    assert!(matches!(world.admit(&caller), Ruling::Replay { .. }));
    assert_eq!(
        refused(world.admit(&caller.payload(2))),
        Rejection::KeyReused
    );

    let derived = Ask::plain("derived").with(|ask| ask.origin = IdentityOrigin::Derived);
    let grant = world.granted(&derived);
    world.record(&grant, decline());
    assert!(matches!(world.admit(&derived), Ruling::Replay { .. }));
    let corrected = world.granted(&derived.payload(2));
    assert_eq!(corrected.round, Round(1));

    // The caller's own key has no rounds: a stored refusal is final.
    let own_key = Ask::plain("own").with(|ask| {
        ask.origin = IdentityOrigin::Derived;
        if let Some(key) = ask.policy.settle.key.as_mut() {
            key.value = KeyValue::Caller;
        }
    });
    let grant = world.granted(&own_key);
    world.record(&grant, decline());
    assert_eq!(
        refused(world.admit(&own_key.payload(2))),
        Rejection::KeyReused
    );
}

#[test]
fn a_purged_answer_is_expired_not_executed_again() {
    let mut world = World::new();
    let ask = Ask::plain("k");
    let grant = world.granted(&ask);
    world.record(&grant, applied());
    let operation = world.operations.get_mut(&ask.key()).unwrap();
    let State::Completed(completion) = &mut operation.state else {
        panic!()
    };
    completion.answer = None;
    let expired = Expired::of(ask.key(), completion);
    let now = world.now_ms;
    assert_eq!(
        refused(world.admit(&ask)),
        Rejection::AnswerExpired(Box::new(expired.clone()))
    );
    // A wall clock that was set: it would have ended before it began, or ends later than now.
    for impossible in [0, now + 1] {
        let operation = world.operations.get_mut(&ask.key()).unwrap();
        let State::Completed(completion) = &mut operation.state else {
            panic!()
        };
        completion.at.wall_ms = impossible;
        let expected = Expired {
            at: completion.at,
            clocks_disagree: true,
            ..expired.clone()
        };
        assert_eq!(
            refused(world.admit(&ask)),
            Rejection::AnswerExpired(Box::new(expected))
        );
    }
}

#[test]
fn a_newer_generation_waits_for_the_older_request_still_on_the_wire() {
    let mut world = World::new();
    let alice = world.granted(&Ask::fenced("alice", "107"));
    let bob = Ask::fenced("bob", "108");
    let Ruling::Wait {
        predecessor,
        at_most,
    } = world.admit(&bob)
    else {
        panic!("bob overtook")
    };
    assert_eq!((predecessor, at_most), (alice.key.clone(), Millis(10_000)));
    // Uncertain is still in the way.
    world.record(&alice, lost());
    assert!(matches!(world.admit(&bob), Ruling::Wait { .. }));
    // Behind one that needs a person waiting cannot help.
    world.park(&alice.key);
    assert_eq!(
        refused(world.admit(&bob)),
        Rejection::PredecessorUnsettled {
            predecessor: Box::new(alice.key.clone()),
            waiting_may_help: false
        }
    );
    world.resolve(&alice.key, Resolution::NotApplied { new_key: false });
    world.granted(&bob);
}

#[test]
fn a_newcomer_may_be_refused_instead_or_go_ahead_with_its_own_condition() {
    let mut world = World::new();
    let alice = world.granted(&Ask::fenced("alice", "107"));
    let refuse = Ask::fenced("bob", "108")
        .with(|ask| ask.fence_policy().if_older_unsettled = IfOlderUnsettled::Refuse);
    assert_eq!(
        refused(world.admit(&refuse)),
        Rejection::PredecessorUnsettled {
            predecessor: Box::new(alice.key),
            waiting_may_help: true
        }
    );
    let send = Ask::fenced("bob", "108")
        .with(|ask| ask.fence_policy().if_older_unsettled = IfOlderUnsettled::Send(Millis(1)));
    assert!(matches!(world.admit(&send), Ruling::Wait { .. }));
    // Its condition protects Bob's effect, but Alice's carries none and could still come after it.
    let send = send.with(|ask| ask.conditional = true);
    assert!(matches!(world.admit(&send), Ruling::Wait { .. }));

    let orders_itself = |ask: &Ask| ask.with(|a| a.policy.settle.capability.conditional = true);
    // Nor does one to an upstream that would check a condition, if there were one.
    let mut world = World::new();
    let alice = orders_itself(&Ask::fenced("alice", "107"));
    world.granted(&alice);
    assert!(matches!(
        world.admit(&orders_itself(&send)),
        Ruling::Wait { .. }
    ));
    let mut world = World::new();
    world.granted(&alice.with(|ask| ask.conditional = true));
    world.granted(&orders_itself(&send));
}

#[test]
fn within_a_generation_strict_effects_are_ordered_and_free_ones_commute() {
    let mut world = World::new();
    let free = |id, payload| {
        Ask::fenced(id, "107")
            .payload(payload)
            .with(|a| a.policy.order = Order::Free)
    };
    let strict = |id, payload| Ask::fenced(id, "107").payload(payload);
    let one = world.granted(&free("one", 1));
    let two = world.granted(&free("two", 2));
    // Either being strict is enough, both ways round.
    assert!(matches!(
        world.admit(&strict("three", 3)),
        Ruling::Wait { .. }
    ));
    world.record(&one, applied());
    world.record(&two, applied());
    world.granted(&strict("three", 3));
    assert!(matches!(world.admit(&free("four", 4)), Ruling::Wait { .. }));
}

#[test]
fn requests_without_a_token_wait_for_everything_and_are_older_than_everything() {
    let mut world = World::new();
    let prefer = |ask: Ask| {
        ask.with(|ask| {
            ask.policy.order = Order::Free;
            ask.fence_policy().token = TokenMode::Prefer;
        })
    };
    let bare = |id, payload| {
        prefer(
            Ask::fenced(id, "1")
                .payload(payload)
                .with(|a| a.token = TokenField::Absent),
        )
    };
    let with = |id, payload| prefer(Ask::fenced(id, "107").payload(payload));
    let legacy = world.granted(&bare("legacy", 1));
    assert!(matches!(world.admit(&with("new", 2)), Ruling::Wait { .. }));
    assert!(matches!(
        world.admit(&bare("legacy-2", 3)),
        Ruling::Wait { .. }
    ));
    world.record(&legacy, applied());
    world.granted(&with("new", 2));
    assert!(matches!(
        world.admit(&bare("legacy-2", 3)),
        Ruling::Wait { .. }
    ));
}

#[test]
fn one_per_generation_belongs_to_the_first_admitted() {
    let mut world = World::new();
    let one = |id, with| {
        Ask::fenced(id, with).with(|a| a.fence_policy().per_generation = PerGeneration::One)
    };
    let first = world.granted(&one("a", "107"));
    world.record(&first, not_sent());
    assert_eq!(
        refused(world.admit(&one("b", "107"))),
        Rejection::GenerationUsed {
            by: Box::new(key("a"))
        }
    );
    let again = world.granted(&one("a", "107"));
    world.record(&again, applied());
    world.granted(&one("b", "108"));
}

#[test]
fn numbered_effects_never_regress_and_may_repeat_their_own_number() {
    let mut world = World::new();
    let numbered = |id, n: Option<u64>| {
        Ask::fenced(id, "107").with(|ask| {
            ask.fence_policy().per_generation = PerGeneration::Numbered;
            ask.sequence = n;
        })
    };
    let regressed = |ruling| matches!(refused(ruling), Rejection::SequenceRegressed { .. });
    assert!(regressed(world.admit(&numbered("a", None))));
    let five = world.granted(&numbered("five", Some(5)));
    world.record(&five, not_sent());
    assert!(regressed(world.admit(&numbered("four", Some(4)))));
    assert!(regressed(world.admit(&numbered("other-five", Some(5)))));
    let again = world.granted(&numbered("five", Some(5)));
    world.record(&again, not_sent());
    let six = world.granted(&numbered("six", Some(6)));
    world.record(&six, applied());
    // A higher one was admitted: the place is gone.
    assert!(regressed(world.admit(&numbered("five", Some(5)))));
    // A newer generation counts afresh.
    world
        .granted(&numbered("one", Some(1)).with(|ask| ask.token = TokenField::Token(token("108"))));
}

#[test]
fn a_twin_is_refused_for_good_naming_the_first() {
    let mut world = World::new();
    let first = world.granted(&Ask::fenced("key-1", "107"));
    let twin = Ask::fenced("key-2", "107");
    let near = Rejection::NearDuplicate {
        first: Box::new(first.key.clone()),
    };
    assert_eq!(refused(world.admit(&twin)), near);
    world.record(&first, applied());
    // The note is durable: the effect happened, and this id never makes another.
    assert_eq!(refused(world.admit(&twin)), near);
    // So it is for an id that was tried before, and not applied.
    let mut world = World::new();
    let earlier = world.granted(&twin);
    world.record(&earlier, not_sent());
    let first = world.granted(&Ask::fenced("key-1", "107"));
    assert_eq!(refused(world.admit(&twin)), near);
    world.record(&first, applied());
    assert_eq!(refused(world.admit(&twin)), near);
    // Another payload is no twin, and a different generation neither.
    world.granted(&Ask::fenced("key-3", "107").payload(3));
}

#[test]
fn a_twin_may_join_the_first_and_goes_on_as_new_if_that_was_not_applied() {
    let answer_twins =
        |id| Ask::fenced(id, "107").with(|a| a.fence_policy().if_twin = IfTwin::Answer);
    let mut world = World::new();
    let first = world.granted(&answer_twins("key-1"));
    let joined = Ruling::Join {
        key: first.key.clone(),
        attempt: None,
        admitted: 0,
        uncertain: true,
        licenses: false,
    };
    assert_eq!(world.admit(&answer_twins("key-2")), joined);
    world.record(&first, not_sent());
    let second = world.granted(&answer_twins("key-2"));
    world.record(&second, applied());
    assert!(matches!(
        world.admit(&answer_twins("key-2")),
        Ruling::Replay { .. }
    ));

    let mut world = World::new();
    let first = world.granted(&answer_twins("key-1"));
    world.admit(&answer_twins("key-2"));
    world.record(&first, applied());
    assert!(matches!(
        world.admit(&answer_twins("key-2")),
        Ruling::Replay { .. }
    ));
}

#[test]
fn a_twin_never_gets_the_outcome_of_what_the_first_was_corrected_to() {
    let answer_twins =
        |id| Ask::fenced(id, "107").with(|a| a.fence_policy().if_twin = IfTwin::Answer);
    let mut world = World::new();
    let first = world.granted(&answer_twins("key-1"));
    world.admit(&answer_twins("key-2"));
    world.record(&first, not_sent());
    let corrected = world.granted(&answer_twins("key-1").payload(2));
    world.record(&corrected, applied());
    world.granted(&answer_twins("key-2"));
}
