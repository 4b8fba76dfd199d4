//! Contract §3: what evidence proves.

use super::finding::{lost_in, said};
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
        // A condition that was met twice held again after the first effect.
        (conditional(), Effect::Contradiction),
    ] {
        let mut world = World::new();
        let ask = Ask::plain("k").with(|ask| {
            ask.conditional = settle.capability.conditional;
            ask.policy.settle = settle;
        });
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

/// Not at an upstream that deduplicates: there the second is a replay.
fn twice_effective() -> Ask {
    Ask::plain("k").with(|ask| {
        ask.policy.order = Order::Free;
        ask.policy.settle = opaque();
    })
}

/// A person was wrong once, so there are two attempts.
fn two_attempts(world: &mut World, ask: &Ask) -> (Grant, Grant) {
    let first = lost_in(world, ask);
    world.resolve(&ask.key(), Resolution::NotApplied { new_key: false });
    (first, world.granted(ask))
}

fn named(world: &World) -> Option<AttemptId> {
    match &world.operations[&key("k")].state {
        State::Completed(completion) => completion.attempt,
        other => panic!("{other:?}"),
    }
}

/// Somebody else said that it was applied, and did not say which attempt that was: each might be the one, but
/// not both.
#[test]
fn a_second_effect_is_told_also_where_somebody_else_said_first_that_it_was_applied() {
    let ask = twice_effective();
    for callback in [true, false] {
        for reverse in [true, false] {
            let mut world = World::new();
            let (mut one, mut other) = two_attempts(&mut world, &ask);
            if callback {
                world.called_back(false, Found::Applied(said(202)));
            } else {
                world.now_ms += 100_000;
                world.resolve(&ask.key(), Resolution::Applied(said(202)));
            }
            if reverse {
                std::mem::swap(&mut one, &mut other);
            }
            // Written twice each, because a reply was lost.
            for effect in [Effect::Nothing, Effect::Nothing] {
                assert_eq!(world.record(&one, applied()).effect, effect);
                assert_eq!(named(&world), Some(one.attempt));
            }
            for effect in [Effect::Contradiction, Effect::Nothing] {
                assert_eq!(world.record(&other, applied()).effect, effect);
            }
            assert_eq!(named(&world), Some(one.attempt));
            let State::Completed(completion) = &world.operations[&key("k")].state else {
                panic!()
            };
            assert_eq!(completion.answer, Some(said(202)), "as it was told");
        }
    }
}

#[test]
fn what_was_found_before_an_attempt_began_is_not_that_attempt() {
    let asked = super::finding::subject();
    for resent_elsewhere in [true, false] {
        let mut world = World::new();
        let first = lost_in(&mut world, &asked);
        world.now_ms += 1;
        let by = Finder::LookUp {
            step: StepIndex(0),
            asked_at: world.now(),
        };
        world.now_ms += 1;
        world.resolve(&key("k"), Resolution::NotApplied { new_key: false });
        if resent_elsewhere {
            // One in between sent nothing, and is not listed any more.
            let unsent = world.granted(&asked);
            world.record(&unsent, not_sent());
        }
        let second = world.granted(&asked);
        world.found_by(by, 1, Found::Applied(said(200)));
        assert_eq!(named(&world), Some(first.attempt));
        let recorded = world.record(&second, applied());
        assert_eq!(recorded.effect, Effect::Contradiction);
        assert_eq!(world.record(&first, applied()).effect, Effect::Nothing);
    }
}

/// A callback comes before the answer; then the attempt runs into its limit, listens on, and is answered.
#[test]
fn an_attempt_that_listens_on_after_a_callback_contradicts_nothing() {
    let ask = twice_effective();
    let mut world = World::new();
    let grant = world.granted(&ask);
    world.called_back(false, Found::Applied(said(201)));
    for (evidence, open) in [(timed_out(), true), (timed_out(), true), (applied(), false)] {
        let recorded = world.record_open(&grant, evidence, open);
        assert_eq!(recorded.effect, Effect::Nothing);
    }
    assert_eq!(named(&world), Some(grant.attempt));
}

/// Under one key, a replay: also where the write is repeated.
#[test]
fn a_replay_that_is_recorded_twice_contradicts_nothing() {
    let ask = Ask::plain("k").with(|ask| ask.policy.order = Order::Free);
    let mut world = World::new();
    let first = lost_in(&mut world, &ask);
    let ResendReply::Granted(again) = world.resend(&ask.key()) else {
        panic!()
    };
    world.record(&again, applied());
    for _ in 0..2 {
        assert_eq!(world.record(&first, applied()).effect, Effect::Nothing);
    }
    // And the other attempts are counted, also when they have ended.
    let weighed = world.called_back(true, Found::NotApplied);
    assert_eq!(weighed.effect, Effect::Nothing);
}

/// Somebody else said that it was applied: which attempt that was is only said where no other can have been.
#[test]
fn what_was_found_names_the_only_attempt_that_can_have_done_it() {
    let ask = Ask::plain("k").with(|ask| ask.policy.order = Order::Free);
    let found = |world: &mut World| {
        let worth = world.called_back(false, Found::Applied(said(201))).worth;
        assert_eq!(worth, Worth::Settled);
        match &world.operations[&ask.key()].state {
            State::Completed(completion) => completion.attempt,
            other => panic!("{other:?}"),
        }
    };

    let mut world = World::new();
    let only = lost_in(&mut world, &ask);
    assert_eq!(found(&mut world), Some(only.attempt));
    // Its own answer comes after all, and is written twice.
    for _ in 0..2 {
        let recorded = world.record(&only, applied());
        assert_eq!(recorded.effect, Effect::Nothing);
    }

    let mut world = World::new();
    let denied = world.granted(&ask);
    world.record(&denied, answer(429, AnswerClass::NotProcessed));
    let second = lost_in(&mut world, &ask);
    assert_eq!(found(&mut world), Some(second.attempt));

    let mut world = World::new();
    lost_in(&mut world, &ask);
    let ResendReply::Granted(again) = world.resend(&ask.key()) else {
        panic!()
    };
    world.record(&again, lost());
    assert_eq!(found(&mut world), None);
}
