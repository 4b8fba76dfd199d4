//! Contract §3: what was given up is asked after again because a person says so, and only asked.

use super::finding::{LAG, LOOK, PAUSE, lost_in, question, said, subject};
use super::*;

const WITHIN: u64 = 600_000;

fn state(world: &World) -> &State {
    &world.operations[&key("k")].state
}

/// Nobody could tell in time.
fn given_up(ask: &Ask) -> World {
    let mut world = World::new();
    lost_in(&mut world, ask);
    world.looked(Found::NotApplied);
    world.now_ms += WITHIN;
    assert_eq!(world.planned(), Step::Park(Parked::NotToldInTime));
    world.park(&key("k"));
    assert_eq!(world.planned(), Step::Nothing);
    world
}

#[test]
fn what_was_given_up_is_asked_after_again_with_its_time_and_its_samples_anew() {
    let mut world = given_up(&subject());
    let begun = TakenUp::Begun(State::Uncertain);
    assert_eq!(world.take_up(&key("k")), begun);
    let said_so = world.events.last().unwrap();
    let text = "alice had it asked after again, and nothing sent: the bank is back";
    assert_eq!(said_so.text, text);
    // At once, and then as often as ever.
    let ask_after = |after| Step::Ask {
        step: LOOK,
        after: Millis(after),
    };
    assert_eq!(world.planned(), ask_after(0));
    // It has long been quiet.
    let sample = |so_far| Worth::Sample { so_far, of: 3 };
    assert_eq!(world.looked(Found::NotApplied), sample(1));
    assert_eq!(world.planned(), ask_after(2 * PAUSE));
    world.now_ms += 2 * PAUSE;
    assert_eq!(world.looked(Found::NotApplied), sample(2));
    // Nothing more is found out: a person again.
    world.now_ms += WITHIN;
    assert_eq!(world.planned(), Step::Park(Parked::NotToldInTime));
    world.park(&key("k"));
    assert!(matches!(state(&world), State::NeedsAttention(_)));
    // Samples of before do not count, and two questions at once are one.
    assert_eq!(world.take_up(&key("k")), begun);
    assert_eq!(world.looked(Found::NotApplied), sample(1));
    world.now_ms += PAUSE - 1;
    let too_soon = Worth::Nothing(Uncounted::TooSoon);
    assert_eq!(world.looked(Found::NotApplied), too_soon);
    world.now_ms += 1;
    assert_eq!(world.looked(Found::Applied(said(201))), Worth::Settled);
    assert!(matches!(state(&world), State::Completed(_)));
}

/// Also on a machine that has watched it for days, and whose clock counts from another boot.
#[test]
fn another_machine_has_the_time_anew_as_well() {
    const DAYS: u64 = 3 * 86_400_000;
    let mut world = given_up(&subject());
    let elsewhere = |ms: u64| Moment {
        boot: BootId(9),
        boottime: BootInstant(ms),
        wall_ms: ms,
    };
    let operation = world.operations.get_mut(&key("k")).unwrap();
    operation.settling.quiet.see(elsewhere(0));
    world.take_up(&key("k"));
    let plan = |world: &World, ms: u64| {
        let operation = &world.operations[&key("k")];
        let fence = world.fences.get(&resource());
        plan::plan(
            operation,
            fence,
            &world.lease,
            &world.living,
            &elsewhere(ms),
        )
    };
    assert_eq!(plan(&world, DAYS), Step::Start { step: LOOK });
    world.apply(&Command::Start(Start {
        key: key("k"),
        step: LOOK,
        at: elsewhere(DAYS),
    }));
    assert!(matches!(plan(&world, DAYS), Step::Ask { .. }));
    let by = Finder::LookUp {
        step: LOOK,
        asked_at: elsewhere(DAYS),
    };
    let finding = Finding {
        key: key("k"),
        by,
        admitted: world.admitted(),
        found: Found::NotKnown(NotKnown::Unanswered),
        at: elsewhere(DAYS),
    };
    world.apply(&Command::Find(finding));
    assert!(matches!(plan(&world, DAYS + WITHIN - 1), Step::Ask { .. }));
    let over = plan(&world, DAYS + WITHIN);
    assert_eq!(over, Step::Park(Parked::NotToldInTime));
}

/// What could be sent again, or undone, if it were in doubt as before.
#[test]
fn it_is_only_asked_after_until_a_person_has_it_sent() {
    let ask = Ask::fenced("k", "107").with(|ask| {
        let void = VoidPolicy {
            name: StepName::new("undo"),
            lag: Millis(LAG),
            attempts: 3,
            every: question().every,
            within: Millis(86_400_000),
        };
        let steps = vec![
            SettleStep::Void(void),
            SettleStep::SendAgain(resends(5).send_again().unwrap()),
            SettleStep::LookUp(question()),
        ];
        ask.policy.settle.steps = Steps::new(steps).unwrap();
    });
    let mut world = World::new();
    lost_in(&mut world, &ask);
    world.now_ms += 2 * LAG;
    world.give_up(&key("k"));
    world.take_up(&key("k"));
    let asks = Step::Ask {
        step: StepIndex(2),
        after: Millis(PAUSE),
    };
    assert_eq!(world.planned(), asks);
    let forbidden = ResendReply::Forbidden(Parked::NotToldInTime);
    assert_eq!(world.resend(&key("k")), forbidden);
    let begin = BeginVoid {
        key: key("k"),
        step: StepIndex(0),
        attempt: world.attempt(),
        dispatch: Millis(5_000),
        overdue_after: Millis(45_000),
        at: world.now(),
    };
    let reply = world.apply(&Command::BeginVoid(begin));
    assert!(
        matches!(reply, Reply::Void(VoidReply::Forbidden(_))),
        "{reply:?}"
    );
    world.now_ms += WITHIN;
    assert_eq!(world.planned(), Step::Park(Parked::NotToldInTime));
    // Sent because somebody says so, it is settled as ever from then on.
    let ResendReply::Granted(grant) = world.attend(&key("k")) else {
        panic!("not sent");
    };
    world.record(&grant, lost());
    assert!(matches!(
        world.planned(),
        Step::Void { .. } | Step::Resend { .. }
    ));
}

/// Where nobody can be asked nothing changes, and what stands in the way of a resend is told.
#[test]
fn what_nobody_can_be_asked_about_stays_with_the_person() {
    let lost = |change: fn(&mut Ask)| {
        let mut world = World::new();
        lost_in(&mut world, &Ask::fenced("k", "107").with(change));
        world.park(&key("k"));
        world
    };
    let mut opaque = lost(|ask| ask.policy.settle = super::opaque());
    let nothing = |why| TakenUp::NothingToAsk(why);
    assert_eq!(opaque.take_up(&key("k")), nothing(Some(Parked::NoStep)));
    let mut resent = lost(|_| {});
    assert_eq!(resent.take_up(&key("k")), nothing(None));
    resent.steer(Steering::Advance);
    assert_eq!(resent.take_up(&key("k")), nothing(Some(Parked::CutOff)));
    assert!(matches!(state(&resent), State::NeedsAttention(_)));
    // What is in doubt is being settled, and only noted; what is settled stays so.
    let mut world = World::new();
    lost_in(&mut world, &subject());
    let before = world.operations[&key("k")].clone();
    let begun = TakenUp::Begun(State::Uncertain);
    assert_eq!(world.take_up(&key("k")), begun);
    assert_eq!(world.operations[&key("k")], before);
    assert!(
        world
            .events
            .last()
            .unwrap()
            .text
            .starts_with("alice had it")
    );
    world.resolve(&key("k"), Resolution::NotApplied { new_key: false });
    let settled = world.take_up(&key("k"));
    assert!(matches!(
        settled,
        TakenUp::Settled(Some(State::NotApplied(_)))
    ));
    assert_eq!(world.take_up(&key("none")), TakenUp::Settled(None));
}

#[test]
fn a_request_to_take_it_up_that_is_written_twice_does_so_once() {
    let mut world = given_up(&subject());
    let begun = TakenUp::Begun(State::Uncertain);
    assert_eq!(world.take_up(&key("k")), begun);
    let (after, lines) = (world.operations.clone(), world.events.len());
    // The same clock reading is the same request.
    assert_eq!(world.take_up(&key("k")), begun);
    assert_eq!((&world.operations, world.events.len()), (&after, lines));
}
