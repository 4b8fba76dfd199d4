//! Contract §5: undoing by key what may have been done.

use super::finding::{lost_in, question};
use super::*;

const LAG: u64 = 30_000;
const UNDO: StepIndex = StepIndex(1);

fn policy() -> VoidPolicy {
    VoidPolicy {
        name: StepName::new("cancel by key"),
        lag: Millis(LAG),
        attempts: 2,
        every: Backoff {
            from: Millis(1_000),
            to: Millis(8_000),
        },
        within: Millis(600_000),
    }
}

fn subject() -> Ask {
    Ask::fenced("k", "107").with(|ask| {
        let steps = vec![
            SettleStep::LookUp(LookUpPolicy {
                within: Millis(0),
                ..question()
            }),
            SettleStep::Void(policy()),
            SettleStep::SendAgain(resends(3).send_again().unwrap()),
        ];
        ask.policy.settle.steps = Steps::new(steps).unwrap();
    })
}

fn problem() -> Answer {
    Answer {
        status: 409,
        fields: Vec::new(),
        body: None,
    }
}

impl World {
    fn begin_void(&mut self) -> VoidReply {
        let begin = BeginVoid {
            key: key("k"),
            step: UNDO,
            attempt: self.attempt(),
            dispatch: Millis(5_000),
            overdue_after: Millis(45_000),
            at: self.now(),
        };
        match self.apply(&Command::BeginVoid(begin)) {
            Reply::Void(reply) => reply,
            other => panic!("{other:?}"),
        }
    }

    fn void(&mut self) -> VoidGrant {
        match self.begin_void() {
            VoidReply::Granted(grant) => grant,
            other => panic!("{other:?}"),
        }
    }

    fn voided(&mut self, grant: &VoidGrant, end: VoidEnd) -> Effect {
        let voided = Voided {
            key: key("k"),
            attempt: grant.attempt,
            end,
            at: self.now(),
        };
        match self.apply(&Command::Voided(voided)) {
            Reply::Voided(recorded) => recorded.effect,
            other => panic!("{other:?}"),
        }
    }
}

fn undone() -> VoidEnd {
    VoidEnd::Undone(problem())
}

fn unclear() -> VoidEnd {
    VoidEnd::Unclear(NotKnown::Unanswered)
}

/// Lost, and quiet for long enough.
fn quiet() -> (World, Grant) {
    let mut world = World::new();
    let grant = lost_in(&mut world, &subject());
    world.now_ms += LAG;
    (world, grant)
}

#[test]
fn an_undo_begins_only_when_everything_has_been_quiet_for_its_lag() {
    let mut world = World::new();
    let grant = world.granted(&subject());
    assert_eq!(world.begin_void(), VoidReply::NotNow);
    world.record_open(&grant, timed_out(), true);
    world.now_ms += 2 * LAG;
    assert_eq!(world.begin_void(), VoidReply::NotNow);
    world.record(&grant, lost());
    let after = Millis(LAG);
    assert_eq!(world.planned(), Step::Void { step: UNDO, after });
    world.now_ms += LAG - 1;
    assert_eq!(world.begin_void(), VoidReply::TooEarly(Millis(1)));
    assert!(world.operations[&key("k")].settling.void.is_none());
    world.now_ms += 1;
    let void = world.void();
    assert_eq!(void.round, grant.round);
    assert!(void.request.is_some());
    assert!(world.operations[&key("k")].settling.void.is_some());

    // What died without a word is quiet from its first sight.
    let mut world = World::new();
    world.granted(&subject());
    world.restart();
    assert_eq!(world.begin_void(), VoidReply::TooEarly(Millis(LAG)));
    world.now_ms += LAG;
    world.void();
}

#[test]
fn once_an_undo_has_begun_nothing_else_is_sent() {
    let (mut world, grant) = quiet();
    let void = world.void();
    // Under way: nobody else acts, and a repeat joins.
    assert_eq!(world.planned(), Step::Await);
    assert_eq!(world.begin_void(), VoidReply::NotNow);
    assert_eq!(world.resend(&key("k")), ResendReply::NotNow);
    assert!(matches!(world.admit(&subject()), Ruling::Join { .. }));
    let said = world.resolve(&key("k"), Resolution::NotApplied { new_key: false });
    assert_eq!(said, Resolved::StillInFlight);
    world.park(&key("k"));
    assert_eq!(world.state(&key("k")), "UNCERTAIN");
    // Proof that the attempt sent nothing comes too late to let it be tried again.
    world.record(&grant, not_sent());
    assert_eq!(world.state(&key("k")), "UNCERTAIN");
    world.voided(&void, unclear());
    let forbidden = ResendReply::Forbidden(Parked::UndoUnclear);
    assert_eq!(world.resend(&key("k")), forbidden);
    assert!(matches!(world.admit(&subject()), Ruling::Join { .. }));
}

#[test]
fn a_definitive_answer_ends_it_and_late_proof_is_a_contradiction() {
    let (mut world, grant) = quiet();
    let void = world.void();
    assert_eq!(world.voided(&void, undone()), Effect::Changed);
    let State::Completed(completion) = &world.operations[&key("k")].state else {
        panic!()
    };
    assert_eq!(completion.verdict, Verdict::Refused);
    assert_eq!(completion.provenance, Provenance::Void);
    assert_eq!(completion.answer, Some(problem()));
    assert!(!world.requests.contains_key(&key("k")));
    assert!(matches!(world.admit(&subject()), Ruling::Replay { .. }));
    // Written twice it is nothing new.
    assert_eq!(world.voided(&void, undone()), Effect::Nothing);
    assert_eq!(
        world.record(&grant, applied()).effect,
        Effect::Contradiction
    );
    let weighed = world.called_back(false, Found::Applied(problem()));
    assert_eq!(weighed.effect, Effect::Contradiction);

    // And the other way round: a look-up long after an undo says that it is in force, and then it is undone.
    let (mut world, _) = quiet();
    let void = world.void();
    world.voided(&void, unclear());
    world.now_ms += 1;
    world.looked(Found::NotKnown(NotKnown::Unreadable));
    world.now_ms += question().lag.0;
    world.looked(Found::Applied(problem()));
    assert_eq!(world.state(&key("k")), "COMPLETED");
    assert_eq!(world.voided(&void, undone()), Effect::Contradiction);
}

/// Its sender was declared dead and stood still with the answer in its buffer: that is older than the undo.
#[test]
fn an_answer_that_is_older_than_the_undo_does_not_say_that_it_is_in_force() {
    let late = |before_its_end: bool| {
        let (mut world, grant) = quiet();
        let void = world.void();
        if !before_its_end {
            world.voided(&void, unclear());
        }
        for effect in [Effect::Changed, Effect::Nothing] {
            let recorded = world.record(&grant, applied());
            assert_eq!(recorded.effect, effect);
            assert_eq!(recorded.state, Some(State::Uncertain));
        }
        (world, grant, void)
    };
    let told = |world: &World| world.events.last().unwrap().text.clone();
    // The undo's end says how it is.
    let (mut world, grant, void) = late(true);
    assert_eq!(
        told(&world),
        "answered 200, which means applied: UNCERTAIN, for it may be undone by now"
    );
    assert_eq!(world.voided(&void, undone()), Effect::Changed);
    assert_eq!(world.state(&key("k")), "COMPLETED");
    assert_eq!(world.record(&grant, applied()).effect, Effect::Nothing);
    // Or a look-up, after its lag; or a person.
    let (mut world, ..) = late(false);
    world.looked(Found::Applied(problem()));
    assert_eq!(world.state(&key("k")), "UNCERTAIN");
    world.now_ms += question().lag.0;
    world.looked(Found::Applied(problem()));
    assert_eq!(world.state(&key("k")), "COMPLETED");
    // Nothing of it was sent: the answer is not lost, and what comes next is allowed again.
    let (mut world, _, void) = late(true);
    world.voided(&void, VoidEnd::NotSent(Unsent::ConnectionLost));
    assert!(matches!(world.resend(&key("k")), ResendReply::Granted(_)));
    // Where a person who knew of the undo said that it was not applied, it is a contradiction.
    let (mut world, grant) = quiet();
    let void = world.void();
    world.voided(&void, unclear());
    world.resolve(&key("k"), Resolution::NotApplied { new_key: false });
    // Written twice it is one.
    for effect in [Effect::Contradiction, Effect::Nothing] {
        assert_eq!(world.record(&grant, applied()).effect, effect);
        assert_eq!(world.state(&key("k")), "NOT_APPLIED");
    }
}

/// The request that undoes may be on its way still, and may not tell one form from another.
#[test]
fn what_an_undo_has_begun_of_is_not_corrected_after_a_refusal() {
    let derived = subject().with(|ask| ask.origin = IdentityOrigin::Derived);
    let mut world = World::new();
    let grant = lost_in(&mut world, &derived);
    world.now_ms += LAG;
    let void = world.void();
    world.voided(&void, unclear());
    world.record(&grant, answer(402, AnswerClass::Refused));
    assert_eq!(world.state(&key("k")), "COMPLETED");
    let corrected = world.admit(&derived.payload(2));
    assert_eq!(refused(corrected), Rejection::KeyReused);
    assert!(matches!(world.admit(&derived), Ruling::Replay { .. }));
}

/// A person got tired of waiting, and then it was undone after all.
#[test]
fn an_undo_settles_what_was_given_to_a_person() {
    let (mut world, _) = quiet();
    let void = world.void();
    world.now_ms += 60_000;
    world.give_up(&key("k"));
    assert_eq!(world.state(&key("k")), "NEEDS_ATTENTION");
    world.voided(&void, undone());
    assert_eq!(world.state(&key("k")), "COMPLETED");
}

/// An undo is not the upstream's refusal of the request, which a corrected one would get past.
#[test]
fn an_undone_operation_is_final_for_a_corrected_request_too() {
    let mut world = World::new();
    let derived = |ask: &mut Ask| ask.origin = IdentityOrigin::Derived;
    lost_in(&mut world, &subject().with(derived));
    world.now_ms += LAG;
    let void = world.void();
    world.voided(&void, undone());
    let corrected = subject().with(derived).payload(2);
    assert_eq!(refused(world.admit(&corrected)), Rejection::KeyReused);
}

#[test]
fn what_is_unclear_is_tried_again_and_then_needs_a_person() {
    let (mut world, _) = quiet();
    let void = world.void();
    world.voided(&void, unclear());
    let after = Millis(2_000);
    assert_eq!(world.planned(), Step::Void { step: UNDO, after });
    // It has begun, and needs no lag of its own.
    let again = world.void();
    world.voided(&again, unclear());
    assert_eq!(world.planned(), Step::Park(Parked::UndoUnclear));
    let forbidden = VoidReply::Forbidden(Parked::UndoUnclear);
    assert_eq!(world.begin_void(), forbidden);
    // The same reason is told once in a row.
    let told = |text: &str| {
        world
            .events
            .iter()
            .filter(|it| it.text.contains(text))
            .count()
    };
    assert_eq!(told("whether it is undone is not known"), 1);
    assert_eq!(told("undoing it by its key"), 2);
}

#[test]
fn an_undo_that_was_not_sent_uses_none_up() {
    let (mut world, _) = quiet();
    let void = world.void();
    world.voided(&void, VoidEnd::NotSent(Unsent::ConnectionLost));
    // As if it had never been: it is quiet, and bytes may be sent again.
    assert!(world.operations[&key("k")].settling.void.is_none());
    assert!(matches!(world.resend(&key("k")), ResendReply::Granted(_)));

    let (mut world, _) = quiet();
    let first = world.void();
    world.voided(&first, unclear());
    let second = world.void();
    world.voided(&second, VoidEnd::NotSent(Unsent::DispatchExpired));
    assert_eq!(
        world.operations[&key("k")]
            .settling
            .void
            .as_ref()
            .unwrap()
            .begun,
        1
    );
    // What is repeated late changes nothing.
    assert_eq!(world.voided(&second, unclear()), Effect::Nothing);
    assert_eq!(world.voided(&first, unclear()), Effect::Nothing);
    world.void();
}

/// What is there while an undo is on its way may be gone a moment later.
#[test]
fn what_is_seen_before_the_undo_has_ended_proves_nothing() {
    let (mut world, _) = quiet();
    let voiding = Worth::Nothing(Uncounted::NotKnown(NotKnown::Voiding));
    let void = world.void();
    assert_eq!(world.looked(Found::Applied(problem())), voiding);
    let weighed = world.called_back(true, Found::NotApplied);
    assert_eq!(weighed.worth, voiding);
    let weighed = world.called_back(false, Found::Applied(problem()));
    assert_eq!(weighed.worth, voiding);
    world.now_ms += 1;
    world.voided(&void, unclear());
    assert_eq!(world.looked(Found::Applied(problem())), voiding);
    world.now_ms += question().lag.0;
    // Not found may be its doing: it is not free to be tried again.
    assert_eq!(world.looked(Found::NotApplied), voiding);
    world.now_ms += 1;
    assert_eq!(world.looked(Found::Applied(problem())), Worth::Settled);
    assert_eq!(world.state(&key("k")), "COMPLETED");
}

/// A key that the upstream has forgotten undoes nothing.
#[test]
fn an_undo_begins_within_the_keys_lifetime_and_its_own_window() {
    let (mut world, _) = quiet();
    world.now_ms += 600_000;
    let forbidden = VoidReply::Forbidden(Parked::KeyTooOld);
    assert_eq!(world.begin_void(), forbidden);

    let mut world = World::new();
    let short = subject().with(|ask| {
        ask.policy.settle.key.as_mut().unwrap().lifetime = Some(Millis(50_000));
    });
    lost_in(&mut world, &short);
    world.now_ms += 39_000;
    let grant = world.void();
    assert_eq!(grant.dispatch_by, BootInstant(world.now_ms + 1_000));
    world.voided(&grant, unclear());
    world.now_ms += 1_000;
    assert_eq!(world.begin_void(), forbidden);
}

/// Its process dies in the middle: the next one tries again once it is past.
#[test]
fn an_undo_whose_process_is_gone_is_tried_again() {
    let (mut world, _) = quiet();
    world.void();
    world.restart();
    assert!(matches!(world.planned(), Step::Void { .. }));
    let again = world.void();
    assert_eq!(
        world.operations[&key("k")]
            .settling
            .void
            .as_ref()
            .unwrap()
            .begun,
        2
    );
    world.voided(&again, undone());
    assert_eq!(world.state(&key("k")), "COMPLETED");
}

/// A person let it be tried again, and an undo of before comes through.
#[test]
fn an_undo_of_an_earlier_turn_is_a_contradiction() {
    let (mut world, _) = quiet();
    let void = world.void();
    world.voided(&void, unclear());
    world.resolve(&key("k"), Resolution::NotApplied { new_key: false });
    assert_eq!(world.voided(&void, undone()), Effect::Nothing);
    world.granted(&subject());
    assert_eq!(world.voided(&void, undone()), Effect::Contradiction);
    assert_eq!(world.state(&key("k")), "INTENDED");
}
