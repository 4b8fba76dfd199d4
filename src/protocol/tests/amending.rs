//! Contract §4 and §7: a person lets a token in, or repairs a resource that a wild one raised.

use super::*;

fn accept(text: &str) -> Steering {
    Steering::Accept {
        token: token(text),
        source: None,
    }
}

fn repair(to: Option<&str>, disown: &[&str]) -> Steering {
    Steering::Repair {
        to: to.map(token),
        disown: disown.iter().map(OperationId::new).collect(),
    }
}

fn not_accepted(steered: Steered) -> NotAccepted {
    match steered {
        Steered::NotAccepted(why) => why,
        other => panic!("{other:?}"),
    }
}

fn not_repaired(steered: Steered) -> NotRepaired {
    match steered {
        Steered::NotRepaired(why) => why,
        other => panic!("{other:?}"),
    }
}

fn is_done(steered: &Steered) -> bool {
    matches!(steered, Steered::Done { .. })
}

fn far(id: &'static str, with: &'static str) -> Ask {
    Ask::fenced(id, with).with(|ask| ask.fence_policy().max_step = Some(10))
}

fn unknown(ruling: Ruling) -> UnknownToken {
    match refused(ruling) {
        Rejection::TokenUnknown { why, .. } => why,
        other => panic!("{other:?}"),
    }
}

/// A resource with a genuine holder, 107, and a stranger after him who came with 900 and was applied.
fn raised_by_a_stranger() -> World {
    let mut world = World::new();
    let genuine = world.granted(&Ask::fenced("a", "107"));
    world.record(&genuine, applied());
    let wild = world.granted(&Ask::fenced("wild", "900"));
    world.record(&wild, applied());
    assert!(is_stale(&world.admit(&Ask::fenced("b", "107"))));
    world
}

#[test]
fn a_token_that_is_too_far_ahead_is_let_in_and_holds_from_then_on() {
    let mut world = World::new();
    let alice = world.granted(&far("a", "107"));
    world.record(&alice, applied());
    assert_eq!(
        unknown(world.admit(&far("b", "900"))),
        UnknownToken::TooFarAhead
    );
    assert_eq!(world.fence().mark, Some(token("107")));
    assert!(is_done(&world.steer(accept("900"))));
    assert_eq!(world.fence().mark, Some(token("900")));
    assert!(!world.fence().closed);
    // Saying it again changes nothing.
    let once = world.fence().clone();
    assert!(is_done(&world.steer(accept("900"))));
    assert_eq!(world.fence(), &once);
    assert!(is_stale(&world.admit(&far("a2", "107"))));
    world.granted(&far("b", "900"));
    assert_eq!(
        world.fence().interventions[0].how,
        Deed::Accepted(token("900"))
    );
}

#[test]
fn nothing_is_lowered_by_letting_a_token_in_and_nothing_of_another_epoch_is() {
    let mut world = World::new();
    world.epoch = 1;
    world.granted(&Ask::fenced("a", "1:107"));
    let before = world.fence().clone();
    for (asked, why) in [
        ("1:107", NotAccepted::NotAbove(token("1:107"))),
        ("1:106", NotAccepted::NotAbove(token("1:107"))),
        ("900", NotAccepted::EarlierEpoch(1)),
        ("2:1", NotAccepted::LaterEpoch(1)),
    ] {
        assert_eq!(not_accepted(world.steer(accept(asked))), why, "{asked}");
    }
    assert_eq!(world.fence(), &before);
    world.steer(Steering::Cancel);
    assert_eq!(
        not_accepted(world.steer(accept("1:900"))),
        NotAccepted::Cancelled
    );
}

/// No one could ever own the resource again.
#[test]
fn the_last_token_of_all_is_not_let_in_where_the_next_is_issued_here() {
    let mut world = World::new();
    world.granted(&Ask::fenced("a", "107").with(|ask| ask.source = "etcd"));
    let last = (1_u64 << 63) - 1;
    assert!(!matches!(
        world.steer(accept(&last.to_string())),
        Steered::NotAccepted(_)
    ));

    let mut world = World::new();
    let mut own = accept(&last.to_string());
    if let Steering::Accept { source, .. } = &mut own {
        *source = Some(TokenSource::new(OWN_SOURCE));
    }
    assert_eq!(not_accepted(world.steer(own)), NotAccepted::TheLast);
}

/// Two who count are not comparable, within an epoch.
#[test]
fn a_token_of_another_source_is_let_in_by_a_new_epoch_only() {
    let mut world = World::new();
    world.granted(&Ask::fenced("a", "107").with(|ask| ask.source = "etcd"));
    let from = |source: &str, with: &str| Steering::Accept {
        token: token(with),
        source: Some(TokenSource::new(source)),
    };
    let why = NotAccepted::OtherSource(TokenSource::new("etcd"));
    assert_eq!(not_accepted(world.steer(from("redis", "900"))), why);
    assert!(is_done(&world.steer(from("etcd", "900"))));
    world.epoch = 1;
    assert!(is_done(&world.steer(from("redis", "1:5"))));
    assert_eq!(world.fence().source, Some(TokenSource::new("redis")));
}

#[test]
fn a_wild_token_is_repaired_and_the_genuine_holder_goes_on() {
    let mut world = raised_by_a_stranger();
    let Steered::Done {
        incarnation,
        mark,
        closed,
        ..
    } = world.steer(repair(Some("107"), &["wild"]))
    else {
        panic!()
    };
    assert_eq!(
        (incarnation, mark, closed),
        (Incarnation(1), Some(token("107")), false)
    );
    world.granted(&Ask::fenced("b", "107"));
    assert!(
        world.events.iter().any(|event| {
            event.key == key("wild") && event.text.starts_with("disowned by alice")
        })
    );
    // Said twice, it is done once.
    assert!(is_done(&world.steer(repair(Some("107"), &["wild"]))));
    assert_eq!(world.fence().incarnation, Incarnation(1));
}

#[test]
fn a_repair_goes_below_nothing_that_was_applied_and_that_nobody_answers_for() {
    let mut world = raised_by_a_stranger();
    let before = world.fence().clone();
    let why = not_repaired(world.steer(repair(Some("107"), &[])));
    let named = vec![Applied {
        key: key("wild"),
        token: token("900"),
    }];
    let refusal = NotRepaired::Applied {
        operations: named,
        more: false,
    };
    assert_eq!(why, refusal);
    // Also where he answers for another one.
    assert_eq!(
        not_repaired(world.steer(repair(Some("107"), &["a"]))),
        refusal
    );
    assert_eq!(world.fence(), &before);
}

#[test]
fn a_repair_says_what_it_needs() {
    let mut world = World::new();
    world.steer(Steering::Advance);
    assert_eq!(
        not_repaired(world.steer(repair(Some("1"), &[]))),
        NotRepaired::NoMark
    );
    let mut world = raised_by_a_stranger();
    let all = &["wild"];
    assert_eq!(
        not_repaired(world.steer(repair(None, all))),
        NotRepaired::ToIsMissing
    );
    for to in ["900", "901"] {
        let why = NotRepaired::NotBelow(token("900"));
        assert_eq!(not_repaired(world.steer(repair(Some(to), all))), why);
    }
    world.steer(Steering::Cancel);
    assert_eq!(
        not_repaired(world.steer(repair(Some("107"), all))),
        NotRepaired::Cancelled
    );
}

/// What is unsettled of before is in the way of all that follows, whatever its token.
#[test]
fn operations_of_before_a_repair_are_older_than_all_that_follow() {
    let mut world = World::new();
    let wild = world.granted(&Ask::fenced("wild", "900"));
    world.record(&wild, lost());
    assert!(is_done(&world.steer(repair(Some("107"), &[]))));
    let asked = world.admit(&Ask::fenced("b", "107"));
    assert!(matches!(asked, Ruling::Wait { .. }), "{asked:?}");
    world.resolve(&wild.key, Resolution::NotApplied { new_key: false });
    world.granted(&Ask::fenced("b", "107"));
}

/// A repair takes back what a wild token did, and not what a person did.
#[test]
fn a_repair_opens_no_token_that_was_cut_off_before() {
    let mut world = World::new();
    let alice = world.granted(&Ask::fenced("a", "107"));
    world.record(&alice, applied());
    world.steer(Steering::Advance);
    let wild = world.granted(&Ask::fenced("wild", "900"));
    world.record(&wild, not_sent());
    let Steered::Done { closed, .. } = world.steer(repair(Some("107"), &[])) else {
        panic!()
    };
    assert!(closed);
    assert!(is_stale(&world.admit(&Ask::fenced("b", "107"))));
    world.granted(&Ask::fenced("b", "108"));
}

fn accept_from(text: &str, source: &str) -> Steering {
    Steering::Accept {
        token: token(text),
        source: Some(TokenSource::new(source)),
    }
}

/// A token of the register's own source.
fn own(id: &'static str, with: &'static str) -> Ask {
    Ask::fenced(id, with).with(|ask| ask.source = OWN_SOURCE)
}

/// Let in as nobody's it would be refused as never issued, as before.
#[test]
fn the_first_token_of_an_epoch_is_let_in_with_its_source_where_the_register_counts() {
    let mut world = World::new();
    assert!(is_done(&world.steer(accept_from("100", OWN_SOURCE))));
    let before = world.granted(&own("a", "100"));
    world.record(&before, applied());
    world.epoch = 1;
    let never = UnknownToken::NeverIssued;
    assert_eq!(unknown(world.admit(&own("b", "1:9"))), never);
    let before = world.fence().clone();
    let refused = not_accepted(world.steer(accept("1:9")));
    assert_eq!(refused, NotAccepted::SourceIsMissing);
    assert_eq!(world.fence(), &before);
    assert!(is_done(&world.steer(accept_from("1:9", OWN_SOURCE))));
    let next = unknown(world.admit(&own("c", "1:10")));
    assert_eq!(next, never);
    world.granted(&own("b", "1:9"));
}

/// Whoever left the source out says it when he says the same again; nothing else of it can be changed.
#[test]
fn a_token_that_was_let_in_as_nobodys_gets_its_source_until_somebody_acts_under_it() {
    let mut world = World::new();
    assert!(is_done(&world.steer(accept("5"))));
    let refused = unknown(world.admit(&own("a", "5")));
    assert_eq!(refused, UnknownToken::NeverIssued);
    assert!(is_done(&world.steer(accept_from("5", OWN_SOURCE))));
    assert_eq!(world.fence().source, Some(TokenSource::new(OWN_SOURCE)));
    world.granted(&own("a", "5"));
    let above = NotAccepted::NotAbove(token("5"));
    assert_eq!(not_accepted(world.steer(accept_from("5", "etcd"))), above);

    let mut world = World::new();
    assert!(is_done(&world.steer(accept("5"))));
    world.granted(&Ask::fenced("a", "5").with(|ask| ask.source = "etcd"));
    let refused = not_accepted(world.steer(accept_from("5", OWN_SOURCE)));
    assert_eq!(refused, above);
}

/// What helps is different: a lease, an operator, the config.
#[test]
fn a_token_that_the_register_did_not_issue_is_told_from_one_that_it_issued_for_another_source() {
    let mut world = World::new();
    assert_eq!(
        unknown(world.admit(&own("a", "1"))),
        UnknownToken::NoneIssued
    );
    assert!(is_done(&world.steer(accept_from("1", OWN_SOURCE))));
    assert_eq!(
        unknown(world.admit(&own("a", "2"))),
        UnknownToken::NeverIssued
    );
    let elsewhere = Ask::fenced("a", "1").with(|ask| ask.source = "caller");
    assert_eq!(unknown(world.admit(&elsewhere)), UnknownToken::NotOwn);
}
