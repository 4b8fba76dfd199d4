//! Contract §4, sentence by sentence.

use super::*;

#[test]
fn a_token_below_the_mark_is_stale_and_one_above_raises_it() {
    let mut world = World::new();
    let alice = world.granted(&Ask::fenced("a", "107"));
    world.record(&alice, applied());
    let bob = world.granted(&Ask::fenced("b", "108"));
    world.record(&bob, applied());
    assert!(is_stale(&world.admit(&Ask::fenced("c", "107"))));
    assert_eq!(world.fence().mark, Some(token("108")));
    // Equal is not stale: the owner goes on.
    world.granted(&Ask::fenced("d", "108"));
}

#[test]
fn the_fence_rises_whatever_follows() {
    // Replayed.
    let mut world = World::new();
    let first = Ask::fenced("once", "107");
    let grant = world.granted(&first);
    world.record(&grant, applied());
    let newer = Ask::fenced("once", "108");
    assert!(matches!(
        world.admit(&newer),
        Ruling::Replay { stale: false, .. }
    ));
    assert_eq!(world.fence().mark, Some(token("108")));
    assert!(is_stale(&world.admit(&Ask::fenced("other", "107"))));

    // Refused for another reason.
    let reused = Ask::fenced("once", "109").payload(9);
    assert_eq!(refused(world.admit(&reused)), Rejection::KeyReused);
    assert_eq!(world.fence().mark, Some(token("109")));

    // Made to wait.
    let held = world.granted(&Ask::fenced("held", "109"));
    assert!(matches!(
        world.admit(&Ask::fenced("next", "110")),
        Ruling::Wait { .. }
    ));
    assert_eq!(world.fence().mark, Some(token("110")));
    world.record(&held, applied());

    // Joined.
    let flying = world.granted(&Ask::fenced("flying", "110"));
    assert!(matches!(
        world.admit(&Ask::fenced("flying", "111")),
        Ruling::Join { .. }
    ));
    assert_eq!(world.fence().mark, Some(token("111")));
    world.record(&flying, applied());

    // Even without a connection to send on.
    let unreserved = Ask::fenced("late", "112").with(|ask| ask.reserved = false);
    assert_eq!(world.admit(&unreserved), Ruling::ReserveFirst);
    assert_eq!(world.fence().mark, Some(token("112")));
    assert_eq!(world.state(&unreserved.key()), "(none)");
}

#[test]
fn a_stale_caller_gets_the_stored_outcome_but_never_an_attempt() {
    let mut world = World::new();
    let grant = world.granted(&Ask::fenced("once", "107"));
    world.record(&grant, applied());
    let next = world.granted(&Ask::fenced("next", "108"));
    world.record(&next, applied());
    assert!(matches!(
        world.admit(&Ask::fenced("once", "107")),
        Ruling::Replay { stale: true, .. }
    ));
    // With another payload it learns that it is stale, not that the key was reused.
    assert!(is_stale(
        &world.admit(&Ask::fenced("once", "107").payload(9))
    ));
}

#[test]
fn tokens_that_cannot_be_placed_are_unknown_and_change_nothing() {
    let mut world = World::new();
    let grant = world.granted(&Ask::fenced("a", "107"));
    world.record(&grant, applied());
    let unknown = |world: &mut World, ask: &Ask| match refused(world.admit(ask)) {
        Rejection::TokenUnknown { why, .. } => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        unknown(&mut world, &Ask::fenced("b", "1:1")),
        UnknownToken::LaterEpoch
    );
    let leap = Ask::fenced("b", "1108").with(|ask| ask.fence_policy().max_step = Some(1_000));
    assert_eq!(unknown(&mut world, &leap), UnknownToken::TooFarAhead);
    let other = Ask::fenced("b", "108").with(|ask| ask.source = "etcd");
    assert_eq!(unknown(&mut world, &other), UnknownToken::OtherSource);
    world.lease.issued = Some(107);
    assert_eq!(
        unknown(&mut world, &Ask::fenced("b", "108")),
        UnknownToken::NeverIssued
    );
    assert_eq!(world.fence().mark, Some(token("107")));
}

#[test]
fn the_first_token_of_a_resource_is_free_of_the_step_limit() {
    let mut world = World::new();
    let first = Ask::fenced("a", "5000000").with(|ask| ask.fence_policy().max_step = Some(10));
    world.granted(&first);
}

#[test]
fn a_lower_epoch_is_stale_on_every_resource_and_a_new_one_may_change_the_source() {
    let mut world = World::new();
    let grant = world.granted(&Ask::fenced("a", "107"));
    world.record(&grant, applied());
    world.epoch = 3;
    assert!(is_stale(&world.admit(&Ask::fenced("b", "999"))));
    let other_source = Ask::fenced("b", "3:1").with(|ask| ask.source = "etcd");
    world.granted(&other_source);
    assert_eq!(world.fence().source, Some(TokenSource::new("etcd")));
    // A resource that was never seen is no exception.
    world.fences.clear();
    assert!(is_stale(&world.admit(&Ask::fenced("c", "2:9"))));
}

#[test]
fn the_mark_belongs_to_the_acquisition_that_was_named_first() {
    let mut world = World::new();
    let ask = Ask::fenced("a", "107");
    let grant = world.granted(&ask);
    world.record(&grant, applied());
    let named = Ask::fenced("b", "107").with(|ask| ask.acquisition = Some("acq-1"));
    let grant = world.granted(&named);
    world.record(&grant, applied());
    let held = |ruling| matches!(refused(ruling), Rejection::TokenHeldByAnother { .. });
    let other = Ask::fenced("c", "107").with(|ask| ask.acquisition = Some("acq-2"));
    assert!(held(world.admit(&other)));
    assert!(held(world.admit(&Ask::fenced("d", "107"))));
    // A newer generation starts afresh.
    world.granted(&Ask::fenced("e", "108"));
}

#[test]
fn a_closed_mark_is_stale_itself() {
    let mut world = World::new();
    let grant = world.granted(&Ask::fenced("a", "107"));
    world.record(&grant, applied());
    world.fences.get_mut(&resource()).unwrap().closed = true;
    assert!(is_stale(&world.admit(&Ask::fenced("b", "107"))));
    world.granted(&Ask::fenced("b", "108"));
    assert!(!world.fence().closed);
}

#[test]
fn a_missing_token_is_refused_checked_when_present_or_reported() {
    let mut world = World::new();
    let none = |mode| {
        Ask::fenced("a", "1").with(|ask| {
            ask.token = TokenField::Absent;
            ask.fence_policy().token = mode;
        })
    };
    assert_eq!(
        refused(world.admit(&none(TokenMode::Require))),
        Rejection::TokenRequired
    );
    let observed = world.admission(&none(TokenMode::Observe));
    assert_eq!(observed.would_refuse, Some(Rejection::TokenRequired));
    let Ruling::Granted(grant) = observed.ruling else {
        panic!("observe refused")
    };
    world.record(&grant, applied());
    let preferred = none(TokenMode::Prefer).with(|ask| ask.id = "b");
    let grant = world.granted(&preferred);
    world.record(&grant, applied());
    let malformed = Ask::fenced("c", "1").with(|ask| {
        ask.token = TokenField::Malformed;
        ask.fence_policy().token = TokenMode::Prefer;
    });
    assert_eq!(refused(world.admit(&malformed)), Rejection::TokenMalformed);
}

#[test]
fn observe_judges_raises_reports_and_refuses_nothing() {
    let mut world = World::new();
    let observe =
        |id, with| Ask::fenced(id, with).with(|a| a.fence_policy().token = TokenMode::Observe);
    let grant = world.granted(&observe("a", "108"));
    assert_eq!(world.fence().mark, Some(token("108")));
    // Stale, and an unsettled predecessor besides: the first reason is reported.
    let stale = world.admission(&observe("b", "107"));
    assert!(matches!(
        stale.would_refuse,
        Some(Rejection::StaleToken { .. })
    ));
    let Ruling::Granted(other) = stale.ruling else {
        panic!("observe refused")
    };
    assert_eq!(world.fence().mark, Some(token("108")));
    world.record(&grant, applied());
    world.record(&other, applied());
}

#[test]
fn an_observed_stale_token_stands_where_it_says_and_not_where_none_stands() {
    let mut world = World::new();
    let observe =
        |id, with| Ask::fenced(id, with).with(|a| a.fence_policy().token = TokenMode::Observe);
    let newest = world.granted(&Ask::fenced("a", "108"));
    let stale = observe("b", "107").payload(2);
    let granted = world.admission(&stale);
    assert!(matches!(granted.ruling, Ruling::Granted(_)));
    let place = world.operations[&stale.key()].place.clone().unwrap();
    assert_eq!(place.token, Some(token("107")));
    // Taken for tokenless it would stand in the way of every earlier operation.
    assert_eq!(world.fence().latest.tokenless, AdmissionNumber(0));
    assert_eq!(world.fence().first, Some(newest.key));
    // Its identity is its own, and held to: not for its token is it refused.
    let other = stale.payload(3);
    assert_eq!(refused(world.admit(&other)), Rejection::KeyReused);
    let required = Ask::fenced("b", "107").payload(3);
    assert!(matches!(
        refused(world.admit(&required)),
        Rejection::StaleToken { .. }
    ));
}

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
    assert_eq!(
        refused(world.admit(&ask)),
        Rejection::AnswerExpired(Box::new(ask.key()))
    );
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
    let mut world = World::new();
    world.granted(&orders_itself(&Ask::fenced("alice", "107")));
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
fn an_effect_that_needs_a_live_lease_is_refused_where_nobody_can_know() {
    let mut world = World::new();
    let current = Ask::fenced("a", "107").with(|a| a.fence_policy().require = Ownership::Current);
    assert_eq!(refused(world.admit(&current)), Rejection::LeaseNotCurrent);
    let acquisition = AcquisitionId::new("acq");
    world.lease.live = Some(super::super::lease::LiveLease {
        acquisition,
        until: BootInstant(3_000),
    });
    let grant = world.granted(&current);
    // Never beyond the lease's own deadline.
    assert_eq!(grant.dispatch_by, BootInstant(3_000));
    world.now_ms = 3_000;
    assert_eq!(
        refused(world.admit(&current.with(|a| a.id = "b"))),
        Rejection::LeaseNotCurrent
    );
}

/// The first byte leaves before both: the effect's own limit, and the lease's deadline where the lease
/// must be live.
#[test]
fn dispatch_by_is_the_earlier_of_the_effects_own_limit_and_the_leases_deadline() {
    let by = |ownership, until| {
        let mut world = World::new();
        world.lease.live = Some(super::super::lease::LiveLease {
            acquisition: AcquisitionId::new("acq"),
            until: BootInstant(until),
        });
        let ask = Ask::fenced("a", "107").with(|ask| ask.fence_policy().require = ownership);
        world.granted(&ask).dispatch_by.0
    };
    let own = World::new().now_ms + 5_000;
    for (until, expected) in [(own - 1, own - 1), (own, own), (own + 1, own)] {
        assert_eq!(by(Ownership::Current, until), expected);
        assert_eq!(by(Ownership::NotOlder, until), own);
    }
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
