//! Contract §5: what look-ups and callbacks are worth where a corrected request came after a refused or disproved one.

use super::finding::{LOOK, PAUSE, asked, lost_in, question, said, subject};
use super::*;

/// The first form was wrongly said to be not applied; then a corrected one was lost too.
fn two_forms(question: LookUpPolicy) -> World {
    let ask = subject().with(|ask| ask.policy.settle = asked(question));
    let mut world = World::new();
    let grant = lost_in(&mut world, &ask);
    world.resolve(&grant.key, Resolution::NotApplied { new_key: false });
    lost_in(&mut world, &ask.payload(2));
    world
}

fn telling() -> LookUpPolicy {
    LookUpPolicy {
        tells_forms: true,
        ..question()
    }
}

#[test]
fn once_there_are_two_forms_only_what_tells_them_apart_is_known() {
    let form = |world: &World| world.operations[&key("k")].fingerprint.digest[0];
    let mut world = two_forms(question());
    let two = Worth::Nothing(Uncounted::NotKnown(NotKnown::TwoForms));
    assert_eq!(world.looked(Found::Applied(said(200))), two);
    assert_eq!(world.state(&key("k")), "UNCERTAIN");

    let mut world = two_forms(telling());
    // Compared with the form of an earlier turn.
    let by = Finder::LookUp {
        step: LOOK,
        asked_at: world.now(),
    };
    let weighed = world.found_by(by, 1, Found::Applied(said(200)));
    assert_eq!(weighed.worth, two);
    world.now_ms += PAUSE;
    assert_eq!(world.looked(Found::Applied(said(200))), Worth::Settled);
    assert_eq!(form(&world), 2);

    // A form that was proved to have done nothing is none.
    for evidence in [not_sent(), answer(400, AnswerClass::NotProcessed)] {
        let mut world = World::new();
        let grant = world.granted(&subject());
        world.record(&grant, evidence);
        lost_in(&mut world, &subject().payload(2));
        assert_eq!(world.looked(Found::Applied(said(200))), Worth::Settled);
        assert_eq!(form(&world), 2);
    }
    // The only form that can have done it is not the one in force: completed as that one.
    let mut world = World::new();
    let grant = lost_in(&mut world, &subject());
    world.resolve(&grant.key, Resolution::NotApplied { new_key: false });
    let second = world.granted(&subject().payload(2));
    world.record(&second, not_sent());
    let weighed = world.called_back(false, Found::Applied(said(200)));
    assert_eq!(weighed.worth, Worth::Settled);
    assert_eq!(form(&world), 1);
}

#[test]
fn a_callback_proves_absence_only_for_good_and_only_of_everything() {
    let mut world = World::new();
    let grant = world.granted(&subject());
    let weighed = world.called_back(true, Found::NotApplied);
    assert_eq!(weighed.worth, Worth::Nothing(Uncounted::AttemptLive));
    world.record(&grant, lost());
    let weighed = world.called_back(false, Found::NotApplied);
    assert_eq!(weighed.worth, Worth::Nothing(Uncounted::NotDefinitive));
    assert_eq!(world.state(&key("k")), "UNCERTAIN");
    // No lag: it speaks of the operation.
    let weighed = world.called_back(true, Found::NotApplied);
    assert_eq!(weighed.worth, Worth::Settled);
    assert_eq!(world.state(&key("k")), "NOT_APPLIED");

    // It may be the late word on the attempt before.
    lost_in(&mut world, &subject());
    let weighed = world.called_back(true, Found::NotApplied);
    assert_eq!(weighed.worth, Worth::Nothing(Uncounted::NotDefinitive));
    assert_eq!(world.state(&key("k")), "UNCERTAIN");

    // Also where its own answer denied it, and under one key: the earlier one may have failed, and the
    // later one not.
    let mut world = World::new();
    let grant = world.granted(&subject());
    world.record(&grant, answer(429, AnswerClass::NotProcessed));
    lost_in(&mut world, &subject());
    let weighed = world.called_back(true, Found::NotApplied);
    assert_eq!(weighed.worth, Worth::Nothing(Uncounted::NotDefinitive));
    let mut world = World::new();
    lost_in(&mut world, &Ask::fenced("k", "107"));
    let ResendReply::Granted(again) = world.resend(&key("k")) else {
        panic!()
    };
    world.record(&again, lost());
    let weighed = world.called_back(true, Found::NotApplied);
    assert_eq!(weighed.worth, Worth::Nothing(Uncounted::NotDefinitive));
    // One that sent nothing is none.
    let mut world = World::new();
    let grant = world.granted(&subject());
    world.record(&grant, not_sent());
    lost_in(&mut world, &subject());
    let weighed = world.called_back(true, Found::NotApplied);
    assert_eq!(weighed.worth, Worth::Settled);
}

/// A1 was refused and corrected; the late word on A1 says nothing of A2. Nor does it speak against an outcome.
#[test]
fn a_callback_about_a_refused_form_disproves_no_corrected_one() {
    let derived = subject().with(|ask| ask.origin = IdentityOrigin::Derived);
    let refusal = answer(402, AnswerClass::Refused);
    let mut world = World::new();
    let first = world.granted(&derived);
    world.record(&first, refusal.clone());
    // Of that alone it is no news.
    assert_eq!(
        world.called_back(true, Found::NotApplied).effect,
        Effect::Nothing
    );
    let second = lost_in(&mut world, &derived.payload(2));
    let weighed = world.called_back(true, Found::NotApplied);
    assert_eq!(weighed.worth, Worth::Nothing(Uncounted::NotDefinitive));
    assert_eq!(world.state(&key("k")), "UNCERTAIN");
    // The refusal, written twice, changes nothing.
    assert_eq!(world.record(&first, refusal).effect, Effect::Nothing);
    let weighed = world.called_back(true, Found::NotApplied);
    assert_eq!(weighed.worth, Worth::Nothing(Uncounted::NotDefinitive));
    // Once the second is known, the late word on the first is no contradiction.
    world.record(&second, applied());
    let weighed = world.called_back(true, Found::NotApplied);
    assert_eq!(weighed.effect, Effect::Nothing);

    // Where the only attempt was applied it is one.
    let mut world = World::new();
    let only = world.granted(&subject());
    world.record(&only, applied());
    let weighed = world.called_back(true, Found::NotApplied);
    assert_eq!(weighed.effect, Effect::Contradiction);
}

/// Corrected again and again, its record does not grow without end.
#[test]
fn the_refused_attempts_of_an_operation_are_bounded() {
    let derived = subject().with(|ask| ask.origin = IdentityOrigin::Derived);
    let mut world = World::new();
    for payload in 0..40 {
        let grant = world.granted(&derived.payload(payload));
        world.record(&grant, answer(402, AnswerClass::Refused));
    }
    let kept = world.operations[&key("k")].attempts.len();
    assert_eq!(kept, 16);
}

/// It may have been written about the first form, and comes when a corrected one is in force.
#[test]
fn a_callback_never_tells_two_forms_apart() {
    for asked in [question(), telling()] {
        let mut world = two_forms(asked);
        let weighed = world.called_back(false, Found::Applied(said(200)));
        let two = Worth::Nothing(Uncounted::NotKnown(NotKnown::TwoForms));
        assert_eq!(weighed.worth, two);
        assert_eq!(world.state(&key("k")), "UNCERTAIN");
    }
}
