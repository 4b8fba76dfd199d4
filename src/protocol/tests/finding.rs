//! Contract §3, §5, §9.6: what look-ups and callbacks are worth.

use std::num::NonZeroU32;

use super::*;

pub(super) const LAG: u64 = 60_000;
pub(super) const PAUSE: u64 = 1_000;
pub(super) const LOOK: StepIndex = StepIndex(0);

pub(super) fn question() -> LookUpPolicy {
    LookUpPolicy {
        name: StepName::new("by reference"),
        lag: Millis(LAG),
        samples: NonZeroU32::new(3).unwrap(),
        every: Backoff {
            from: Millis(PAUSE),
            to: Millis(8 * PAUSE),
        },
        within: Millis(600_000),
        tells_forms: false,
    }
}

/// Can be asked and nothing else.
pub(super) fn asked(question: LookUpPolicy) -> SettlePolicy {
    SettlePolicy {
        capability: Capability {
            query: true,
            ..Capability::default()
        },
        key: None,
        steps: Steps::new(vec![SettleStep::LookUp(question)]).unwrap(),
        way: None,
    }
}

pub(super) fn subject() -> Ask {
    Ask::fenced("k", "107").with(|ask| ask.policy.settle = asked(question()))
}

pub(super) fn said(status: u16) -> Answer {
    Answer {
        status,
        fields: Vec::new(),
        body: None,
    }
}

impl World {
    pub(super) fn found_by(&mut self, by: Finder, admitted: u32, found: Found) -> Weighed {
        let finding = Finding {
            key: key("k"),
            by,
            admitted,
            found,
            at: self.now(),
        };
        match self.apply(&Command::Find(finding)) {
            Reply::Found(weighed) => weighed,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn admitted(&self) -> u32 {
        self.operations.get(&key("k")).map_or(0, |op| op.admitted)
    }

    /// Asked and answered now.
    pub(super) fn looked(&mut self, found: Found) -> Worth {
        let by = Finder::LookUp {
            step: LOOK,
            asked_at: self.now(),
        };
        self.found_by(by, self.admitted(), found).worth
    }

    pub(super) fn called_back(&mut self, definitive: bool, found: Found) -> Weighed {
        let by = Finder::Callback { definitive };
        self.found_by(by, self.admitted(), found)
    }

    pub(super) fn planned(&self) -> Step {
        let fence = self.fences.get(&resource());
        let operation = &self.operations[&key("k")];
        plan::plan(operation, fence, &self.lease, &self.living, &self.now())
    }
}

/// Its answer is lost, and everything is quiet from now on.
pub(super) fn lost_in(world: &mut World, ask: &Ask) -> Grant {
    let grant = world.granted(ask);
    world.record(&grant, lost());
    grant
}

fn early(left: u64) -> Worth {
    Worth::Nothing(Uncounted::TooEarly(Millis(left)))
}

fn sample(so_far: u32) -> Worth {
    Worth::Sample { so_far, of: 3 }
}

#[test]
fn not_found_counts_only_after_the_lag_from_several_samples_a_pause_apart() {
    let mut world = World::new();
    lost_in(&mut world, &subject());
    assert_eq!(world.looked(Found::NotApplied), early(LAG));
    world.now_ms += LAG - 1;
    assert_eq!(world.looked(Found::NotApplied), early(1));
    world.now_ms += 1;
    assert_eq!(world.looked(Found::NotApplied), sample(1));
    world.now_ms += PAUSE - 1;
    let too_soon = Worth::Nothing(Uncounted::TooSoon);
    assert_eq!(world.looked(Found::NotApplied), too_soon);
    world.now_ms += 1;
    assert_eq!(world.looked(Found::NotApplied), sample(2));
    assert_eq!(world.state(&key("k")), "UNCERTAIN");
    assert!(world.requests.contains_key(&key("k")));
    world.now_ms += PAUSE;
    assert_eq!(world.looked(Found::NotApplied), Worth::Settled);
    let state = &world.operations[&key("k")].state;
    let by = WhyNot::Said(Provenance::LookUp);
    assert_eq!(*state, State::NotApplied(by));
    assert!(!world.requests.contains_key(&key("k")));
    // The log says the first and the last, not every one.
    let told: Vec<_> = world.events.iter().map(|event| &*event.text).collect();
    assert_eq!(
        told[1..],
        [
            "the look-up `by reference` does not find it, which proves nothing yet",
            "the look-up `by reference` says that it was not applied: NOT_APPLIED",
        ]
    );
    // And it is free again, under the same key.
    assert!(world.granted(&subject()).look_again);
}

/// It is the question that has to be asked late, not its answer that has to come late.
#[test]
fn a_question_that_left_before_the_lag_was_over_does_not_count() {
    let mut world = World::new();
    lost_in(&mut world, &subject());
    world.now_ms += LAG - 1;
    let by = Finder::LookUp {
        step: LOOK,
        asked_at: world.now(),
    };
    world.now_ms += 50_000;
    let weighed = world.found_by(by, 1, Found::NotApplied);
    assert_eq!(weighed.worth, early(1));
}

/// Two questions that were on their way together may have met the same blind spot.
#[test]
fn a_sample_is_asked_a_pause_after_the_answer_of_the_one_before() {
    let mut world = World::new();
    lost_in(&mut world, &subject());
    world.now_ms += LAG;
    let asked = |world: &World| Finder::LookUp {
        step: LOOK,
        asked_at: world.now(),
    };
    let first = asked(&world);
    world.now_ms += 2 * PAUSE;
    let second = asked(&world);
    world.now_ms += PAUSE;
    let too_soon = Worth::Nothing(Uncounted::TooSoon);
    for (question, worth) in [(second, sample(1)), (first, too_soon)] {
        let weighed = world.found_by(question, 1, Found::NotApplied);
        assert_eq!(weighed.worth, worth);
    }
    world.now_ms += PAUSE;
    assert_eq!(world.looked(Found::NotApplied), sample(2));
}

#[test]
fn what_is_not_known_begins_the_row_again() {
    let mut world = World::new();
    lost_in(&mut world, &subject());
    world.now_ms += LAG;
    assert_eq!(world.looked(Found::NotApplied), sample(1));
    for round in 0..3 {
        for why in [NotKnown::Unreadable, NotKnown::Undecided(500)] {
            world.now_ms += PAUSE;
            let not_known = Worth::Nothing(Uncounted::NotKnown(why));
            assert_eq!(world.looked(Found::NotKnown(why)), not_known);
            assert_eq!(world.looked(Found::NotKnown(why)), Worth::NothingNew);
            world.now_ms += PAUSE;
            world.looked(Found::NotKnown(why));
        }
        world.now_ms += PAUSE;
        assert_eq!(world.looked(Found::NotApplied), sample(1), "{round}");
    }
    assert_eq!(world.state(&key("k")), "UNCERTAIN");
    // Each reason once in a row.
    let unreadable =
        "the look-up `by reference` does not know: the answer is not what the conditions read";
    let told = world.events.iter().filter(|it| it.text == unreadable);
    assert_eq!(told.count(), 3);
    let status = "the look-up `by reference` does not know: no condition is about the answer (500)";
    assert!(world.events.iter().any(|it| it.text == status));
}

#[test]
fn a_new_attempt_ends_the_quiet_and_the_row() {
    let both = |ask: &mut Ask| {
        let mut settle = idempotent();
        let steps = vec![
            SettleStep::LookUp(question()),
            SettleStep::SendAgain(resends(3).send_again().unwrap()),
        ];
        settle.steps = Steps::new(steps).unwrap();
        ask.policy.settle = settle;
    };
    let mut world = World::new();
    lost_in(&mut world, &subject().with(both));
    world.now_ms += LAG;
    assert_eq!(world.looked(Found::NotApplied), sample(1));
    world.now_ms += PAUSE;
    let before = Finder::LookUp {
        step: LOOK,
        asked_at: world.now(),
    };
    let ResendReply::Granted(again) = world.resend(&key("k")) else {
        panic!()
    };
    // It acts: nothing can be proved.
    world.now_ms += PAUSE;
    let live = Worth::Nothing(Uncounted::AttemptLive);
    assert_eq!(world.looked(Found::NotApplied), live);
    world.record_open(&again, timed_out(), true);
    world.now_ms += LAG;
    assert_eq!(world.looked(Found::NotApplied), live);
    world.record(&again, lost());
    world.now_ms += PAUSE;
    assert_eq!(world.looked(Found::NotApplied), early(LAG - PAUSE));
    // What was asked before it says nothing of it, however late it is brought in.
    world.now_ms += LAG;
    let weighed = world.found_by(before, 1, Found::NotApplied);
    let other_turn = Worth::Nothing(Uncounted::OtherTurn);
    assert_eq!(weighed.worth, other_turn);
    assert_eq!(world.looked(Found::NotApplied), sample(1));
}

#[test]
fn what_dies_without_a_word_is_quiet_from_its_first_sight() {
    let mut world = World::new();
    world.granted(&subject());
    world.restart();
    world.now_ms += 10 * LAG;
    let settle = &mut world.operations.get_mut(&key("k")).unwrap().settle;
    settle.steps = asked(LookUpPolicy {
        within: Millis(100 * LAG),
        ..question()
    })
    .steps;
    assert_eq!(world.looked(Found::NotApplied), early(LAG));
    assert_eq!(world.state(&key("k")), "UNCERTAIN");
    world.now_ms += LAG;
    assert_eq!(world.looked(Found::NotApplied), sample(1));
}

/// Its wall clock may be an hour ahead: it shows nothing of how long it has been quiet.
#[test]
fn another_machine_counts_the_lag_on_its_own_clock() {
    let mut world = World::new();
    lost_in(&mut world, &subject());
    let elsewhere = |ms: u64| Moment {
        boot: BootId(2),
        boottime: BootInstant(ms),
        wall_ms: 3_600_000 + ms,
    };
    let find = |world: &mut World, at: Moment| {
        let finding = Finding {
            key: key("k"),
            by: Finder::LookUp {
                step: LOOK,
                asked_at: at,
            },
            admitted: 1,
            found: Found::NotApplied,
            at,
        };
        match world.apply(&Command::Find(finding)) {
            Reply::Found(weighed) => weighed.worth,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(find(&mut world, elsewhere(500)), early(LAG));
    assert_eq!(find(&mut world, elsewhere(LAG + 499)), early(1));
    assert_eq!(find(&mut world, elsewhere(LAG + 500)), sample(1));
    // The first machine goes on counting on its own: no clock of its tells how long ago the other asked.
    world.now_ms += LAG;
    assert_eq!(
        world.planned(),
        Step::Ask {
            step: LOOK,
            after: Millis(0)
        }
    );
}

#[test]
fn proof_that_it_was_applied_settles_whatever_is_not_completed() {
    type Prepare = fn(&mut World);
    let prepare: [(&str, Prepare); 5] = [
        ("INTENDED", |world| {
            world.granted(&subject());
        }),
        ("UNCERTAIN", |world| {
            lost_in(world, &subject());
        }),
        ("UNCERTAIN", |world| {
            let grant = world.granted(&subject());
            world.record_open(&grant, timed_out(), true);
        }),
        ("NEEDS_ATTENTION", |world| {
            let grant = lost_in(world, &subject());
            world.give_up(&grant.key);
        }),
        ("NOT_APPLIED", |world| {
            let grant = lost_in(world, &subject());
            world.resolve(&grant.key, Resolution::NotApplied { new_key: false });
        }),
    ];
    for (before, prepare) in prepare {
        for callback in [true, false] {
            let mut world = World::new();
            prepare(&mut world);
            assert_eq!(world.state(&key("k")), before);
            let worth = if callback {
                world.called_back(false, Found::Applied(said(201))).worth
            } else {
                world.looked(Found::Applied(said(201)))
            };
            assert_eq!(worth, Worth::Settled, "{before}");
            let State::Completed(completion) = &world.operations[&key("k")].state else {
                panic!("{before}")
            };
            assert_eq!(completion.answer, Some(said(201)));
            assert_eq!(completion.verdict, Verdict::Applied);
            assert!(!world.requests.contains_key(&key("k")));
            // Brought in twice it is nothing new, and "not found" after it changes nothing.
            assert_eq!(world.looked(Found::Applied(said(200))), Worth::NothingNew);
            assert_eq!(world.looked(Found::NotApplied), Worth::NothingNew);
        }
    }
}

/// The callback came first, then the API's own answer.
#[test]
fn the_answer_after_a_callback_is_no_contradiction() {
    let mut world = World::new();
    let grant = world.granted(&subject());
    world.called_back(false, Found::Applied(said(201)));
    assert_eq!(world.record(&grant, applied()).effect, Effect::Nothing);
    // A refusal would be one.
    let mut world = World::new();
    let grant = world.granted(&subject());
    world.called_back(false, Found::Applied(said(201)));
    let refused = answer(402, AnswerClass::Refused);
    assert_eq!(world.record(&grant, refused).effect, Effect::Contradiction);
}

#[test]
fn evidence_against_a_completed_outcome_is_a_contradiction() {
    let mut world = World::new();
    let grant = world.granted(&subject());
    world.record(&grant, answer(402, AnswerClass::Refused));
    let before = world.operations[&key("k")].clone();
    let weighed = world.called_back(false, Found::Applied(said(200)));
    assert_eq!(weighed.effect, Effect::Contradiction);
    assert_eq!(world.operations[&key("k")], before);

    let mut world = World::new();
    let grant = lost_in(&mut world, &subject());
    world.resolve(&grant.key, Resolution::Applied(said(200)));
    let before = world.operations[&key("k")].clone();
    // Too early to say anything; then a lag that is shorter than the upstream's own.
    let looked = |world: &mut World| {
        let by = Finder::LookUp {
            step: LOOK,
            asked_at: world.now(),
        };
        world.found_by(by, 1, Found::NotApplied).effect
    };
    assert_eq!(looked(&mut world), Effect::Nothing);
    world.now_ms += LAG;
    assert_eq!(looked(&mut world), Effect::Contradiction);
    let weighed = world.called_back(true, Found::NotApplied);
    assert_eq!(weighed.effect, Effect::Contradiction);
    let weighed = world.called_back(false, Found::NotApplied);
    assert_eq!(weighed.effect, Effect::Nothing);
    assert_eq!(world.operations[&key("k")], before);
}
