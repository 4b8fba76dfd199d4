//! Contract §5: which step is next, and when.

use super::finding::{LAG, LOOK, PAUSE, lost_in, question, said, subject};
use super::*;

#[test]
fn the_plan_takes_the_first_step_that_can_still_succeed() {
    let steps = |within: u64| {
        let lookup = LookUpPolicy {
            within: Millis(within),
            ..question()
        };
        let callback = CallbackPolicy {
            within: Millis(2 * within),
        };
        vec![
            SettleStep::LookUp(lookup),
            SettleStep::Callback(callback),
            SettleStep::SendAgain(resends(1).send_again().unwrap()),
        ]
    };
    let ask = Ask::fenced("k", "107").with(|ask| {
        ask.policy.settle.steps = Steps::new(steps(100_000)).unwrap();
    });
    let mut world = World::new();
    let grant = world.granted(&ask);
    assert_eq!(world.planned(), Step::Await);
    world.record_open(&grant, timed_out(), true);
    let pause = Millis(PAUSE);
    assert_eq!(world.planned(), Step::CloseThenPlan { after: pause });
    world.record(&grant, lost());
    let ask_after = |after| Step::Ask {
        step: LOOK,
        after: Millis(after),
    };
    assert_eq!(world.planned(), ask_after(PAUSE));
    // The pauses double, but a question is due when "not found" begins to count.
    world.looked(Found::NotApplied);
    assert_eq!(world.planned(), ask_after(2 * PAUSE));
    world.now_ms += 500;
    assert_eq!(world.planned(), ask_after(2 * PAUSE - 500));
    world.now_ms += LAG - 1_500;
    world.looked(Found::NotApplied);
    assert_eq!(world.planned(), ask_after(1_000));
    // Samples follow each other quickly again.
    world.now_ms += 1_000;
    world.looked(Found::NotApplied);
    assert_eq!(world.planned(), ask_after(2 * PAUSE));
    world.now_ms += 38_000;
    assert_eq!(world.planned(), ask_after(0));
    world.now_ms += 2_000;
    // The callback's turn begins now.
    assert_eq!(world.planned(), Step::Start { step: StepIndex(1) });
    world.start(StepIndex(1));
    let left = Millis(200_000);
    assert_eq!(world.planned(), Step::Listen { left });
    world.now_ms += 199_999;
    assert_eq!(world.planned(), Step::Listen { left: Millis(1) });
    world.now_ms += 1;
    // Its pause has long passed.
    let after = Millis(0);
    assert_eq!(world.planned(), Step::Resend { after });
    world.operations.get_mut(&key("k")).unwrap().request_kept = false;
    assert_eq!(world.planned(), Step::Park(Parked::RequestNotKept));

    // Each reason where it is the last word.
    for (steps, why) in [
        (steps(1)[..1].to_vec(), Parked::NotToldInTime),
        (steps(1)[1..2].to_vec(), Parked::NotCalledBack),
    ] {
        let operation = world.operations.get_mut(&key("k")).unwrap();
        operation.settle.steps = Steps::new(steps).unwrap();
        assert_eq!(world.planned(), Step::Park(why));
    }
}

/// A wall clock that is an hour ahead makes nobody give up before he has asked.
#[test]
fn another_machine_asks_for_as_long_on_its_own_clock() {
    let mut world = World::new();
    lost_in(&mut world, &subject());
    let plan = |world: &World, ms: u64| {
        let now = Moment {
            boot: BootId(2),
            boottime: BootInstant(ms),
            wall_ms: 3_600_000 + ms,
        };
        let operation = &world.operations[&key("k")];
        plan::plan(
            operation,
            world.fences.get(&resource()),
            &world.lease,
            &world.living,
            &now,
        )
    };
    assert_eq!(plan(&world, 900_000), Step::Start { step: LOOK });
    let start = Start {
        key: key("k"),
        step: LOOK,
        at: Moment {
            boot: BootId(2),
            boottime: BootInstant(900_000),
            wall_ms: 0,
        },
    };
    world.apply(&Command::Start(start));
    assert!(matches!(plan(&world, 1_499_999), Step::Ask { .. }));
    let over = Step::Park(Parked::NotToldInTime);
    assert_eq!(plan(&world, 1_500_000), over);
}

/// Many machines watch it, each in turn and again: those who came first have the time all the same.
#[test]
fn however_many_machines_watch_it_its_time_comes_to_an_end() {
    let mut world = World::new();
    lost_in(&mut world, &subject());
    let on = |machine: u128, ms: u64| Moment {
        boot: BootId(100 + machine),
        boottime: BootInstant(ms),
        wall_ms: 0,
    };
    for ms in (0..600_000).step_by(20_000) {
        for machine in 0..40 {
            let start = Start {
                key: key("k"),
                step: LOOK,
                at: on(machine, ms),
            };
            world.apply(&Command::Start(start));
        }
    }
    let operation = &world.operations[&key("k")];
    let fence = world.fences.get(&resource());
    let over = (0..40).filter(|machine| {
        let now = on(*machine, 600_000);
        let planned = plan::plan(operation, fence, &world.lease, &world.living, &now);
        planned == Step::Park(Parked::NotToldInTime)
    });
    assert!(over.count() > 8);
}

/// A reconciler's plan is older than a person's word, by which it is asked after anew.
#[test]
fn a_step_does_not_begin_while_one_before_it_has_time() {
    let within = Millis(100_000);
    let ask = subject().with(|ask| {
        let look = LookUpPolicy {
            within,
            ..question()
        };
        let callback = SettleStep::Callback(CallbackPolicy { within });
        ask.policy.settle.steps = Steps::new(vec![SettleStep::LookUp(look), callback]).unwrap();
    });
    let mut world = World::new();
    lost_in(&mut world, &ask);
    world.now_ms += 99_999;
    let before = world.operations[&key("k")].clone();
    world.start(StepIndex(1));
    assert_eq!(world.operations[&key("k")], before);
    world.now_ms += 1;
    world.start(StepIndex(1));
    assert_eq!(world.planned(), Step::Listen { left: within });
}

/// A callback is waited for on the own clock: another machine's may be an hour ahead.
#[test]
fn another_machine_waits_for_a_callback_on_its_own_clock() {
    let within = Millis(600_000);
    let ask = subject().with(|ask| {
        let callback = SettleStep::Callback(CallbackPolicy { within });
        ask.policy.settle.steps = Steps::new(vec![callback]).unwrap();
    });
    for wall_ms in [0, u64::MAX / 2] {
        let mut world = World::new();
        lost_in(&mut world, &ask);
        world.boot = BootId(2);
        let now = |ms: u64| Moment {
            boot: BootId(2),
            boottime: BootInstant(ms),
            wall_ms,
        };
        let planned = |world: &World, ms: u64| {
            let operation = &world.operations[&key("k")];
            let fence = world.fences.get(&resource());
            plan::plan(operation, fence, &world.lease, &world.living, &now(ms))
        };
        assert_eq!(planned(&world, 7), Step::Start { step: LOOK });
        let start = Start {
            key: key("k"),
            step: LOOK,
            at: now(7),
        };
        world.apply(&Command::Start(start));
        assert_eq!(planned(&world, 7), Step::Listen { left: within });
        assert_eq!(
            planned(&world, 7 + within.0),
            Step::Park(Parked::NotCalledBack)
        );
    }
}

/// Its machine was started anew while it was in doubt, and the upstream is away: nothing is found, and yet it
/// comes to an end.
#[test]
fn after_another_boot_a_step_that_cannot_be_taken_comes_to_an_end() {
    let mut world = World::new();
    world.granted(&subject());
    world.restart();
    world.boot = BootId(2);
    assert_eq!(world.planned(), Step::Start { step: LOOK });
    assert_eq!(world.start(LOOK), "UNCERTAIN");
    // The lag runs too, whether or not anybody can be asked.
    let operation = &world.operations[&key("k")];
    assert_eq!(operation.quiet().sights(), [world.now()]);
    assert_eq!(
        world.events.last().unwrap().text,
        "nothing more is heard of its attempt: UNCERTAIN"
    );
    world.now_ms += 599_999;
    assert!(matches!(world.planned(), Step::Ask { .. }));
    world.now_ms += 1;
    let over = Step::Park(Parked::NotToldInTime);
    assert_eq!(world.planned(), over);
    // Yet another boot begins it again, once.
    world.boot = BootId(3);
    assert_eq!(world.planned(), Step::Start { step: LOOK });
    world.start(LOOK);
    world.now_ms += 600_000;
    assert_eq!(world.planned(), over);
}

#[test]
fn a_step_has_its_own_time_after_those_before_it() {
    let within = Millis(100_000);
    let callback = || SettleStep::Callback(CallbackPolicy { within });
    let look = || {
        SettleStep::LookUp(LookUpPolicy {
            within,
            ..question()
        })
    };
    for steps in [
        [callback(), look()],
        [look(), callback()],
        [look(), look()],
        [callback(), callback()],
    ] {
        let ask = subject().with(|ask| {
            ask.policy.settle.steps = Steps::new(steps.to_vec()).unwrap();
        });
        let mut world = World::new();
        let grant = world.granted(&ask);
        // What listens is not quiet: the first step has its turn when that is over.
        world.record_open(&grant, timed_out(), true);
        world.now_ms += 40_000;
        assert!(matches!(
            world.planned(),
            Step::Await | Step::CloseThenPlan { .. }
        ));
        world.record(&grant, lost());
        let takes = |world: &World, step: u8| match world.planned() {
            Step::Ask { step: asked, .. } => asked == StepIndex(step),
            Step::Listen { left } => left > Millis(0),
            _ => false,
        };
        world.now_ms += 99_999;
        assert!(takes(&world, 0), "{steps:?}");
        world.now_ms += 1;
        assert_eq!(world.planned(), Step::Start { step: StepIndex(1) });
        // Nobody came to it for a while, and it loses nothing.
        world.now_ms += 500_000;
        assert_eq!(world.planned(), Step::Start { step: StepIndex(1) });
        world.start(StepIndex(1));
        // Written twice, it is the first that counts.
        world.now_ms += 99_999;
        world.start(StepIndex(1));
        assert!(takes(&world, 1), "{steps:?}");
        world.now_ms += 1;
        assert!(matches!(world.planned(), Step::Park(_)), "{steps:?}");
    }
}

/// A new attempt begins everything again.
#[test]
fn a_resend_gives_each_step_its_time_anew() {
    let within = Millis(100_000);
    let steps = vec![
        SettleStep::LookUp(LookUpPolicy {
            within,
            ..question()
        }),
        SettleStep::SendAgain(resends(3).send_again().unwrap()),
    ];
    let mut world = World::new();
    let ask = Ask::fenced("k", "107").with(|ask| {
        ask.policy.settle.steps = Steps::new(steps).unwrap();
    });
    lost_in(&mut world, &ask);
    world.now_ms += 100_000;
    assert!(matches!(world.planned(), Step::Resend { .. }));
    let ResendReply::Granted(again) = world.resend(&key("k")) else {
        panic!()
    };
    world.record(&again, lost());
    assert!(matches!(world.planned(), Step::Ask { .. }));
    world.now_ms += 100_000;
    assert!(matches!(world.planned(), Step::Resend { .. }));
}

/// While something is on its way, or when it is settled, no step has its turn.
#[test]
fn no_step_has_its_turn_while_an_attempt_acts_or_once_it_is_settled() {
    let mut world = World::new();
    let grant = world.granted(&subject());
    assert_eq!(world.start(LOOK), "INTENDED");
    world.record_open(&grant, timed_out(), true);
    assert_eq!(world.start(LOOK), "UNCERTAIN");
    let operation = world.operations[&key("k")].clone();
    assert!(operation.settling.steps.is_empty() && operation.quiet().sights().is_empty());
    world.record(&grant, applied());
    let before = world.operations[&key("k")].clone();
    assert_eq!(world.start(LOOK), "COMPLETED");
    assert_eq!(world.operations[&key("k")], before);
    world.operations.clear();
    assert_eq!(world.start(LOOK), "(none)");
}

/// Where only a callback can help, a late answer is as good: nobody closes the listener.
#[test]
fn waiting_for_a_callback_closes_nothing() {
    let ask = subject().with(|ask| {
        let callback = CallbackPolicy {
            within: Millis(50_000),
        };
        ask.policy.settle.steps = Steps::new(vec![SettleStep::Callback(callback)]).unwrap();
    });
    let mut world = World::new();
    let grant = world.granted(&ask);
    world.record_open(&grant, timed_out(), true);
    assert_eq!(world.planned(), Step::Await);
}

#[test]
fn too_many_steps_or_two_that_send_are_none() {
    let sends = || SettleStep::SendAgain(resends(1).send_again().unwrap());
    assert!(Steps::new(vec![sends(), sends()]).is_none());
    let asks = |count| vec![SettleStep::LookUp(question()); count];
    assert!(Steps::new(asks(MOST_STEPS)).is_some());
    assert!(Steps::new(asks(MOST_STEPS + 1)).is_none());
}

#[test]
fn a_callback_about_nothing_of_ours_changes_nothing() {
    let mut world = World::new();
    let weighed = world.called_back(true, Found::Applied(said(200)));
    assert_eq!(weighed.state, None);
    assert!(world.operations.is_empty() && world.events.is_empty());
}
