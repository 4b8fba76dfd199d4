//! Contract §3 and §5: what evidence proves, and when a resend is allowed.

use super::*;

#[test]
fn not_applied_needs_proof_for_every_attempt() {
    let mut world = World::new();
    let ask = Ask::plain("k").with(|ask| ask.policy.order = Order::Free);
    let first = world.granted(&ask);
    world.record(&first, lost());
    let ResendReply::Granted(second) = world.resend(&ask.key()) else {
        panic!()
    };
    // Nothing of the repeat was sent; of the first attempt that says nothing.
    world.record(&second, not_sent());
    assert_eq!(world.state(&ask.key()), "UNCERTAIN");
    let ResendReply::Granted(third) = world.resend(&ask.key()) else {
        panic!()
    };
    world.record(&third, answer(429, AnswerClass::NotProcessed));
    assert_eq!(world.state(&ask.key()), "UNCERTAIN");
    // The late answer of the first one says it.
    world.record(&first, answer(400, AnswerClass::NotProcessed));
    assert_eq!(world.state(&ask.key()), "NOT_APPLIED");
}

#[test]
fn a_refusal_of_a_repeat_is_definitive_only_where_refusals_are_remembered() {
    for remembers in [false, true] {
        let mut world = World::new();
        let ask = Ask::plain("k").with(|ask| {
            ask.policy.order = Order::Free;
            ask.policy.settle.key.as_mut().unwrap().remembers_refusals = remembers;
        });
        let first = world.granted(&ask);
        world.record(&first, lost());
        let ResendReply::Granted(second) = world.resend(&ask.key()) else {
            panic!()
        };
        world.record(&second, answer(402, AnswerClass::Refused));
        let expected = if remembers { "COMPLETED" } else { "UNCERTAIN" };
        assert_eq!(world.state(&ask.key()), expected);
    }
}

#[test]
fn a_failed_condition_is_a_refusal_of_the_sole_attempt_only() {
    let failed = || answer(412, AnswerClass::ConditionFailed);
    let mut world = World::new();
    let sole = world.granted(&Ask::plain("sole"));
    world.record(&sole, failed());
    assert_eq!(world.state(&sole.key), "COMPLETED");
    let ask = Ask::plain("k").with(|ask| ask.policy.order = Order::Free);
    let first = world.granted(&ask);
    world.record(&first, lost());
    let ResendReply::Granted(second) = world.resend(&ask.key()) else {
        panic!()
    };
    world.record(&second, failed());
    assert_eq!(world.state(&ask.key()), "UNCERTAIN");
}

#[test]
fn a_late_refusal_of_an_earlier_attempt_says_nothing_of_the_one_under_way() {
    let mut world = World::new();
    let ask = Ask::fenced("k", "107").with(|ask| ask.policy.settle = opaque());
    let first = world.granted(&ask);
    world.record_open(&first, timed_out(), true);
    world.resolve(&first.key, Resolution::NotApplied { new_key: false });
    let second = world.granted(&ask);
    world.record(&first, answer(402, AnswerClass::Refused));
    assert_eq!(world.state(&first.key), "INTENDED");
    world.record(&second, applied());
    assert_eq!(world.state(&first.key), "COMPLETED");
}

#[test]
fn a_remembered_refusal_speaks_of_its_own_key_only() {
    let mut world = World::new();
    let ask = Ask::fenced("k", "107").with(|ask| {
        ask.policy.settle.key.as_mut().unwrap().remembers_refusals = true;
    });
    let first = world.granted(&ask);
    world.record_open(&first, timed_out(), true);
    world.resolve(&first.key, Resolution::NotApplied { new_key: true });
    let second = world.granted(&ask);
    world.record(&first, answer(402, AnswerClass::Refused));
    assert_eq!(world.state(&second.key), "INTENDED");
}

#[test]
fn a_corrected_request_is_not_held_up_by_attempts_under_the_refused_key() {
    let mut world = World::new();
    let ask = Ask::fenced("k", "107").with(|ask| {
        ask.origin = IdentityOrigin::Derived;
        ask.policy.settle.key.as_mut().unwrap().remembers_refusals = true;
    });
    let first = world.granted(&ask);
    world.record(&first, lost());
    let ResendReply::Granted(again) = world.resend(&first.key) else {
        panic!()
    };
    let refusal = || answer(402, AnswerClass::Refused);
    world.record(&first, refusal());
    let corrected = world.granted(&ask.payload(2));
    assert_eq!(corrected.round, first.round.next());
    world.record(&again, refusal());
    assert_eq!(world.state(&first.key), "INTENDED");
    world.record(&corrected, refusal());
    assert_eq!(world.state(&first.key), "COMPLETED");
}

#[test]
fn a_refusal_under_an_earlier_key_does_not_raise_the_round_again() {
    let mut world = World::new();
    let ask = Ask::fenced("k", "107").with(|ask| {
        ask.origin = IdentityOrigin::Derived;
        ask.policy.settle.key.as_mut().unwrap().remembers_refusals = true;
    });
    let first = world.granted(&ask);
    world.record(&first, lost());
    let ResendReply::Granted(again) = world.resend(&first.key) else {
        panic!()
    };
    world.record(&first, answer(402, AnswerClass::Refused));
    let corrected = world.granted(&ask.payload(2));
    world.record(&corrected, lost());
    // A wrong verdict is caught by the key, as long as it is the same one.
    world.resolve(&first.key, Resolution::NotApplied { new_key: false });
    world.record(&again, answer(402, AnswerClass::Refused));
    let repeated = world.granted(&ask.payload(2));
    assert_eq!(repeated.round, corrected.round);
}

#[test]
fn a_failed_condition_after_a_persons_verdict_may_show_that_it_was_wrong() {
    let mut world = World::new();
    let ask = Ask::fenced("k", "107").with(|ask| ask.conditional = true);
    let first = world.granted(&ask);
    world.record(&first, lost());
    world.resolve(&first.key, Resolution::NotApplied { new_key: false });
    let second = world.granted(&ask);
    world.record(&second, answer(412, AnswerClass::ConditionFailed));
    assert_eq!(world.state(&first.key), "UNCERTAIN");
}

#[test]
fn late_evidence_settles_whatever_is_not_completed() {
    // UNCERTAIN and NEEDS_ATTENTION.
    for park in [false, true] {
        let mut world = World::new();
        let grant = world.granted(&Ask::plain("k"));
        world.record_open(&grant, timed_out(), true);
        if park {
            world.restart();
            world.park(&grant.key);
            assert_eq!(world.state(&grant.key), "NEEDS_ATTENTION");
        }
        let recorded = world.record(&grant, answer(201, AnswerClass::Applied));
        assert_eq!(recorded.effect, Effect::Changed);
        assert_eq!(world.state(&grant.key), "COMPLETED");
    }
    // Even NOT_APPLIED, where somebody was wrong.
    let mut world = World::new();
    let grant = world.granted(&Ask::plain("k"));
    world.record_open(&grant, timed_out(), true);
    world.resolve(&grant.key, Resolution::NotApplied { new_key: false });
    world.record(&grant, applied());
    assert_eq!(world.state(&grant.key), "COMPLETED");
}

#[test]
fn an_attempt_after_a_wrong_verdict_looks_again_and_a_second_effect_is_a_contradiction() {
    for (settle, expected) in [
        (idempotent(), Effect::Nothing),
        (opaque(), Effect::Contradiction),
    ] {
        let mut world = World::new();
        let ask = Ask::plain("k").with(|ask| ask.policy.settle = settle);
        let first = world.granted(&ask);
        assert!(!first.look_again);
        world.record_open(&first, timed_out(), true);
        world.resolve(&first.key, Resolution::NotApplied { new_key: false });
        let second = world.granted(&ask);
        assert!(second.look_again);
        assert_eq!(
            second.round, first.round,
            "a wrong verdict is still caught by the key"
        );
        world.record(&first, applied());
        assert_eq!(world.state(&ask.key()), "COMPLETED");
        assert_eq!(world.record(&second, applied()).effect, expected);
    }
}

#[test]
fn completed_never_changes_and_evidence_against_it_is_a_contradiction() {
    let mut world = World::new();
    let grant = world.granted(&Ask::plain("k"));
    world.record(&grant, answer(402, AnswerClass::Refused));
    let before = world.operations[&grant.key].state.clone();
    assert_eq!(
        world.record(&grant, applied()).effect,
        Effect::Nothing,
        "a repeated write is harmless"
    );
    assert_eq!(world.operations[&grant.key].state, before);
    assert!(matches!(
        world.resolve(&grant.key, Resolution::NotApplied { new_key: true }),
        Resolved::AlreadyCompleted {
            verdict: Verdict::Refused,
            ..
        }
    ));

    // A person said "applied"; the only attempt then proves that nothing was sent.
    let mut world = World::new();
    let grant = world.granted(&Ask::plain("k"));
    world.record_open(&grant, timed_out(), true);
    let said = Answer {
        status: 200,
        fields: vec![],
        body: None,
    };
    world.resolve(&grant.key, Resolution::Applied(said));
    let recorded = world.record(&grant, answer(400, AnswerClass::NotProcessed));
    assert_eq!(recorded.effect, Effect::Contradiction);
    assert_eq!(world.state(&grant.key), "COMPLETED");
    assert!(
        world
            .events
            .iter()
            .any(|event| event.text.starts_with("CONTRADICTION"))
    );
}

#[test]
fn late_proof_of_an_earlier_form_completes_it_as_that_form() {
    let mut world = World::new();
    let ask = Ask::plain("k");
    let first = world.granted(&ask);
    world.record_open(&first, timed_out(), true);
    world.resolve(&first.key, Resolution::NotApplied { new_key: false });
    let corrected = world.granted(&ask.payload(2));
    world.record(&corrected, lost());
    world.record(&first, applied());
    assert_eq!(refused(world.admit(&ask.payload(2))), Rejection::KeyReused);
    assert!(matches!(world.admit(&ask), Ruling::Replay { .. }));
}

#[test]
fn a_dead_or_overdue_intended_is_uncertain_to_whoever_looks() {
    let ask = Ask::plain("k");
    let joins = |world: &mut World| match world.admit(&ask) {
        Ruling::Join { uncertain, .. } => uncertain,
        other => panic!("{other:?}"),
    };
    let mut world = World::new();
    world.granted(&ask);
    assert!(!joins(&mut world));
    world.restart();
    assert!(joins(&mut world));

    let mut world = World::new();
    let grant = world.granted(&ask);
    world.now_ms += 5_000 + 5_000 + 30_000 + GRACE.0;
    assert!(!joins(&mut world));
    assert_eq!(
        world.resolve(&grant.key, Resolution::NotApplied { new_key: false }),
        Resolved::StillInFlight
    );
    world.now_ms += 1;
    assert!(joins(&mut world));
    assert!(matches!(
        world.resolve(&grant.key, Resolution::NotApplied { new_key: false }),
        Resolved::Done(_)
    ));
}

#[test]
fn never_two_attempts_at_once() {
    let mut world = World::new();
    let ask = Ask::plain("k").with(|ask| ask.policy.order = Order::Free);
    let first = world.granted(&ask);
    assert_eq!(world.resend(&ask.key()), ResendReply::NotNow);
    world.record_open(&first, timed_out(), true);
    assert_eq!(
        world.resend(&ask.key()),
        ResendReply::NotNow,
        "it still listens"
    );
    world.record(
        &first,
        Evidence::Interrupted {
            phase: Phase::Waiting,
            why: Interruption::ClosedToSettle,
        },
    );
    assert!(matches!(world.resend(&ask.key()), ResendReply::Granted(_)));
    assert_eq!(world.resend(&ask.key()), ResendReply::NotNow);
}

#[test]
fn a_write_that_is_repeated_is_granted_once() {
    let mut world = World::new();
    let ask = Ask::fenced("k", "107");
    let first = world.granted(&ask);
    world.record(&first, lost());
    world.resolve(&first.key, Resolution::NotApplied { new_key: false });
    // The reply to the admission was lost; whoever made it writes it again.
    let again = ask.command(first.attempt, world.now());
    let Reply::Admission(admission) = world.apply(&Command::Admit(Box::new(again))) else {
        panic!()
    };
    assert!(matches!(admission.ruling, Ruling::Join { .. }));
    assert_eq!(world.state(&first.key), "NOT_APPLIED");

    let ask = Ask::fenced("other", "107");
    let first = world.granted(&ask);
    world.record(&first, lost());
    let resend = Resend {
        key: ask.key(),
        attempt: first.attempt,
        dispatch: Millis(5_000),
        overdue_after: Millis(45_000),
        at: world.now(),
    };
    assert_eq!(
        world.apply(&Command::Resend(resend)),
        Reply::Resend(ResendReply::NotNow)
    );
}

#[test]
fn a_resend_keeps_key_bytes_token_and_place() {
    let mut world = World::new();
    let alice = world.granted(&Ask::fenced("a", "107"));
    world.record(&alice, lost());
    // Bob is announced: the mark is above Alice's token. Her resend is not judged stale.
    assert!(matches!(
        world.admit(&Ask::fenced("b", "108")),
        Ruling::Wait { .. }
    ));
    let before = world.operations[&alice.key].place.clone();
    let ResendReply::Granted(again) = world.resend(&alice.key) else {
        panic!("judged stale")
    };
    assert_eq!(again.round, alice.round);
    assert_eq!(
        again.request.as_deref().map(|r| r.body.clone()),
        Some(Bytes::from(vec![1]))
    );
    assert_eq!(world.operations[&alice.key].place, before);
    world.record(&again, applied());
    world.granted(&Ask::fenced("b", "108"));
}

#[test]
fn resends_end_with_the_key_the_bytes_the_count_or_the_order() {
    let forbidden = |world: &mut World, key: &OperationKey| match world.resend(key) {
        ResendReply::Forbidden(why) => why,
        other => panic!("{other:?}"),
    };
    let uncertain = |change: &dyn Fn(&mut Ask)| {
        let mut world = World::new();
        let ask = Ask::fenced("k", "107").with(|ask| change(ask));
        let grant = world.granted(&ask);
        world.record(&grant, lost());
        (world, grant.key)
    };

    let (mut world, key) = uncertain(&|ask| ask.policy.settle = opaque());
    assert_eq!(forbidden(&mut world, &key), Parked::NoStep);

    let (mut world, key) = uncertain(&|ask| ask.policy.keep_request = false);
    assert_eq!(forbidden(&mut world, &key), Parked::RequestNotKept);

    let (mut world, key) =
        uncertain(&|ask| ask.policy.settle.key.as_mut().unwrap().lifetime = None);
    assert_eq!(forbidden(&mut world, &key), Parked::KeyTooOld);

    // 80 % of 24 hours, and the first byte of the last resend leaves before that.
    let limit = 86_400_000 / 100 * 80;
    let (mut world, key) = uncertain(&|_| {});
    world.now_ms = 1_000 + limit - 100;
    let ResendReply::Granted(last) = world.resend(&key) else {
        panic!()
    };
    assert_eq!(last.dispatch_by, BootInstant(1_000 + limit));
    world.record(&last, lost());
    world.now_ms = 1_000 + limit;
    assert_eq!(forbidden(&mut world, &key), Parked::KeyTooOld);

    let (mut world, key) = uncertain(&|_| {});
    for _ in 0..3 {
        let ResendReply::Granted(grant) = world.resend(&key) else {
            panic!()
        };
        world.record(&grant, lost());
        // An attempt that sent nothing uses none up.
        if let ResendReply::Granted(unsent) = world.resend(&key) {
            world.record(&unsent, not_sent());
        }
    }
    assert_eq!(forbidden(&mut world, &key), Parked::ResendsUsedUp);

    let (mut world, key) = uncertain(&|ask| ask.fenced = false);
    assert_eq!(forbidden(&mut world, &key), Parked::NotOrdered);

    let (mut world, key) = uncertain(&|ask| ask.policy.settle.capability.conditional = true);
    let ahead = Ask::fenced("bob", "108").with(|ask| {
        ask.conditional = true;
        ask.fence_policy().if_older_unsettled = IfOlderUnsettled::Send(Millis(1));
    });
    world.granted(&ahead);
    assert_eq!(forbidden(&mut world, &key), Parked::Overtaken);

    let (mut world, key) = uncertain(&|_| {});
    world.fences.get_mut(&resource()).unwrap().cut_off = AdmissionNumber(1);
    assert_eq!(forbidden(&mut world, &key), Parked::CutOff);

    let (mut world, key) = uncertain(&|_| {});
    world.fences.get_mut(&resource()).unwrap().incarnation = Incarnation(1);
    assert_eq!(forbidden(&mut world, &key), Parked::CutOff);
}

/// A resend of an earlier admission that turns out to have sent nothing gives nothing back to the
/// count of the present one.
#[test]
fn a_late_unsent_of_an_earlier_admission_uses_up_no_less() {
    let mut world = World::new();
    let ask = Ask::fenced("k", "107").with(|ask| {
        ask.policy.settle.resend.as_mut().unwrap().attempts = 1;
    });
    let first = world.granted(&ask);
    world.record(&first, lost());
    let ResendReply::Granted(asleep) = world.resend(&ask.key()) else {
        panic!()
    };
    world.now_ms += 60_000;
    world.resolve(&ask.key(), Resolution::NotApplied { new_key: false });
    let second = world.granted(&ask);
    world.record(&second, lost());
    let ResendReply::Granted(only) = world.resend(&ask.key()) else {
        panic!()
    };
    world.record(&only, lost());
    world.record(&asleep, not_sent());
    assert_eq!(
        world.resend(&ask.key()),
        ResendReply::Forbidden(Parked::ResendsUsedUp)
    );
}

#[test]
fn a_free_effect_is_not_overtaken_by_free_ones_of_its_generation() {
    let mut world = World::new();
    let free = |id, n| {
        Ask::fenced(id, "107")
            .payload(n)
            .with(|a| a.policy.order = Order::Free)
    };
    let one = world.granted(&free("one", 1));
    world.record(&one, lost());
    world.granted(&free("two", 2));
    assert!(matches!(world.resend(&one.key), ResendReply::Granted(_)));
}

#[test]
fn the_lifetime_of_a_key_begins_with_the_first_attempt_that_may_have_sent() {
    let mut world = World::new();
    let ask = Ask::fenced("k", "107");
    let unsent = world.granted(&ask);
    world.record(&unsent, not_sent());
    assert_eq!(world.operations[&ask.key()].key_use.first, None);
    world.now_ms += 80_000_000;
    let sent = world.granted(&ask);
    world.record(&sent, lost());
    assert!(matches!(world.resend(&ask.key()), ResendReply::Granted(_)));
}

#[test]
fn clocks_that_stepped_back_or_another_boot_expire_the_key_rather_than_extend_it() {
    let since = Moment {
        boot: BootId(1),
        boottime: BootInstant(5_000),
        wall_ms: 1_000_000,
    };
    let same_boot = Moment {
        boottime: BootInstant(9_000),
        wall_ms: 1,
        ..since
    };
    assert_eq!(same_boot.age_at_most(&since), Some(Millis(4_000)));
    let wall_ahead = Moment {
        wall_ms: 4_600_000,
        ..same_boot
    };
    assert_eq!(wall_ahead.age_at_most(&since), Some(Millis(3_600_000)));
    let rebooted = Moment {
        boot: BootId(2),
        boottime: BootInstant(10),
        wall_ms: 1_000_500,
    };
    assert_eq!(rebooted.age_at_most(&since), Some(Millis(500)));
    let stepped_back = Moment {
        wall_ms: 999_999,
        ..rebooted
    };
    assert_eq!(stepped_back.age_at_most(&since), None);
    assert!(
        rebooted.is_past(&since, Millis(u64::MAX)),
        "another boot counts as past"
    );
}

#[test]
fn an_operators_new_key_raises_the_round() {
    let mut world = World::new();
    let ask = Ask::plain("k");
    let grant = world.granted(&ask);
    world.record(&grant, lost());
    world.resolve(&ask.key(), Resolution::NotApplied { new_key: true });
    let again = world.granted(&ask);
    assert_eq!(again.round, Round(1));
}

#[test]
fn stored_requests_go_as_soon_as_the_operation_is_settled() {
    for evidence in [applied(), not_sent(), answer(402, AnswerClass::Refused)] {
        let mut world = World::new();
        let grant = world.granted(&Ask::plain("k"));
        assert!(world.requests.contains_key(&grant.key));
        world.record(&grant, evidence);
        assert!(!world.requests.contains_key(&grant.key));
    }
    let mut world = World::new();
    let grant = world.granted(&Ask::plain("k").with(|ask| ask.policy.keep_request = false));
    assert!(!world.requests.contains_key(&grant.key));
}

#[test]
fn the_plan_awaits_closes_sends_again_or_parks() {
    let step = |world: &World, key: &OperationKey| {
        let fence = world.fences.get(&resource());
        plan::plan(
            &world.operations[key],
            fence,
            &world.lease,
            &world.living,
            &world.now(),
        )
    };
    let mut world = World::new();
    let ask = Ask::fenced("k", "107");
    let grant = world.granted(&ask);
    assert_eq!(step(&world, &grant.key), Step::Await);
    world.record_open(&grant, timed_out(), true);
    assert_eq!(
        step(&world, &grant.key),
        Step::CloseThenPlan { after: Millis(200) }
    );
    world.record(&grant, lost());
    assert_eq!(
        step(&world, &grant.key),
        Step::Resend { after: Millis(200) }
    );
    for pause in [400, 800] {
        let ResendReply::Granted(again) = world.resend(&grant.key) else {
            panic!()
        };
        world.record(&again, lost());
        assert_eq!(
            step(&world, &grant.key),
            Step::Resend {
                after: Millis(pause)
            }
        );
    }
    let ResendReply::Granted(last) = world.resend(&grant.key) else {
        panic!()
    };
    world.record(&last, lost());
    assert_eq!(step(&world, &grant.key), Step::Park(Parked::ResendsUsedUp));
    world.park(&grant.key);
    assert_eq!(step(&world, &grant.key), Step::Nothing);

    // Nothing to do for an opaque upstream but to listen; then a person.
    let mut world = World::new();
    let ask = Ask::fenced("k", "107").with(|ask| ask.policy.settle = opaque());
    let grant = world.granted(&ask);
    world.record_open(&grant, timed_out(), true);
    assert_eq!(step(&world, &grant.key), Step::Await);
    world.restart();
    assert_eq!(step(&world, &grant.key), Step::Park(Parked::NoStep));
}

/// An attempt that a person disproved answers late, while the one admitted after it may be acting:
/// what is refused is not known of the other.
#[test]
fn a_late_refusal_says_nothing_of_the_attempt_admitted_after_it() {
    for class in [AnswerClass::Refused, AnswerClass::ConditionFailed] {
        let mut world = World::new();
        let ask = Ask::plain("k").with(|ask| ask.policy.settle = opaque());
        let first = world.granted(&ask);
        world.record_open(&first, timed_out(), true);
        world.resolve(&first.key, Resolution::NotApplied { new_key: false });
        let second = world.granted(&ask);
        world.record(&first, answer(402, class));
        assert_eq!(world.state(&ask.key()), "INTENDED");
        world.record(&second, applied());
        assert_eq!(world.state(&ask.key()), "COMPLETED");
    }
}

/// A refusal that covers every attempt under its key lets a corrected request in: those attempts are
/// proven, and their silence keeps nothing uncertain.
#[test]
fn a_corrected_request_is_not_made_uncertain_by_what_its_refusal_covered() {
    let (mut world, ask, _late, corrected) = corrected_after_a_remembered_refusal();
    world.record(&corrected, answer(400, AnswerClass::NotProcessed));
    assert_eq!(world.state(&ask.key()), "NOT_APPLIED");
}

/// Two keys, two accepted effects: no deduplication ties them together.
#[test]
fn a_second_effect_under_another_key_is_a_contradiction_even_where_keys_are_honoured() {
    let (mut world, ask, late, corrected) = corrected_after_a_remembered_refusal();
    assert!(corrected.look_again, "the first one still listens");
    world.record(&late, applied());
    assert_eq!(world.state(&ask.key()), "COMPLETED");
    let seen = world.record(&corrected, applied());
    assert_eq!(seen.effect, Effect::Contradiction);
}

/// The first attempt still listens, a resend under its key was refused for good, and a corrected
/// request was admitted under the next key.
fn corrected_after_a_remembered_refusal() -> (World, Ask, Grant, Grant) {
    let mut world = World::new();
    let ask = Ask::plain("k").with(|ask| {
        ask.origin = IdentityOrigin::Derived;
        ask.policy.order = Order::Free;
        ask.policy.settle.key.as_mut().unwrap().remembers_refusals = true;
    });
    let first = world.granted(&ask);
    world.record(&first, lost());
    let ResendReply::Granted(second) = world.resend(&ask.key()) else {
        panic!()
    };
    world.record(&second, answer(402, AnswerClass::Refused));
    assert_eq!(world.state(&ask.key()), "COMPLETED");
    let corrected = world.granted(&ask.payload(2));
    assert_eq!(corrected.round, Round(1));
    (world, ask, first, corrected)
}

/// A listener that died without a word does not hold its operation for ever.
#[test]
fn a_listener_that_is_long_overdue_counts_as_closed() {
    let mut world = World::new();
    let ask = Ask::plain("k").with(|ask| ask.policy.order = Order::Free);
    let grant = world.granted(&ask);
    world.record_open(&grant, timed_out(), true);
    assert!(matches!(world.resend(&ask.key()), ResendReply::NotNow));
    let overdue = world.operations[&ask.key()].attempts[0].overdue_after;
    world.now_ms += overdue.plus(LISTEN).0 + 1;
    assert!(matches!(world.resend(&ask.key()), ResendReply::Granted(_)));
}
