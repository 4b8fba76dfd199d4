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
    let left = Millis(100_000);
    assert_eq!(world.planned(), Step::Listen { left });
    world.now_ms += 100_000;
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
    assert!(matches!(plan(&world, 900_000), Step::Ask { .. }));
    let operation = world.operations.get_mut(&key("k")).unwrap();
    operation.settling.quiet.see(Moment {
        boot: BootId(2),
        boottime: BootInstant(900_000),
        wall_ms: 0,
    });
    assert!(matches!(plan(&world, 1_499_999), Step::Ask { .. }));
    let over = Step::Park(Parked::NotToldInTime);
    assert_eq!(plan(&world, 1_500_000), over);
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
