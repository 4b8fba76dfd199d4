//! Contract §5: how what is in doubt is settled: when a resend is allowed, under which key, how often.

use super::*;

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
        attended: None,
        lease: LeaseFacts::unknown(),
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

    let (mut world, key) = uncertain(&|ask| {
        ask.policy.settle.capability.conditional = true;
        ask.conditional = true;
    });
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

/// Contract §5: an upstream that orders by itself gets the same condition again, and no key. Judged per request.
#[test]
fn what_carries_its_condition_is_sent_again_without_a_key() {
    let lost_again = |carries: bool| {
        let ask = Ask::fenced("k", "107").with(|ask| {
            ask.conditional = carries;
            ask.policy.settle = SettlePolicy {
                capability: Capability {
                    conditional: true,
                    ..Capability::default()
                },
                key: None,
                steps: resends(2),
                way: None,
            };
        });
        let mut world = World::new();
        let first = world.granted(&ask);
        world.record(&first, lost());
        (world, ask.key())
    };
    let again = |world: &mut World, key: &OperationKey| match world.resend(key) {
        ResendReply::Granted(grant) => grant,
        other => panic!("{other:?}"),
    };
    let failed = || answer(412, AnswerClass::ConditionFailed);

    let (mut world, key) = lost_again(true);
    world.now_ms += 59 * 60_000;
    let second = again(&mut world, &key);
    // The first may have met it.
    world.record(&second, failed());
    assert_eq!(world.state(&key), "UNCERTAIN");
    let third = again(&mut world, &key);
    world.record(&third, applied());
    assert_eq!(world.state(&key), "COMPLETED");

    let (mut world, key) = lost_again(true);
    for _ in 0..2 {
        let grant = again(&mut world, &key);
        world.record(&grant, failed());
    }
    let used_up = ResendReply::Forbidden(Parked::ResendsUsedUp);
    assert_eq!(world.resend(&key), used_up);

    // What was made then may be gone since, and the condition hold once more: later it is for a person.
    let (mut world, key) = lost_again(true);
    let room = |world: &World| {
        let (lease, now) = (LeaseFacts::unknown(), world.now());
        let fence = world.fences.get(&resource());
        plan::room_for_resend(&world.operations[&key], fence, &lease, &now)
    };
    world.now_ms += 1_000;
    let left = room(&world).unwrap();
    assert!(left < plan::CONDITION_FOR, "the last byte too: {left:?}");
    world.now_ms += plan::CONDITION_FOR.0;
    assert_eq!(room(&world), Err(Parked::NotToldInTime));
    let over = ResendReply::Forbidden(Parked::NotToldInTime);
    assert_eq!(world.resend(&key), over);
    assert!(matches!(world.attend(&key), ResendReply::Granted(_)));

    let (mut world, key) = lost_again(false);
    let no_step = ResendReply::Forbidden(Parked::NoStep);
    assert_eq!(world.resend(&key), no_step);
    // A person does not see more conditions in it either.
    assert_eq!(world.attend(&key), no_step);
}

/// A resend of an earlier admission that turns out to have sent nothing gives nothing back to the
/// count of the present one.
#[test]
fn a_late_unsent_of_an_earlier_admission_uses_up_no_less() {
    let mut world = World::new();
    let ask = Ask::fenced("k", "107").with(|ask| {
        ask.policy.settle.steps = resends(1);
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
