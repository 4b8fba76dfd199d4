//! Contract §4: which token is valid, and what it does to the fence.

use super::*;

#[test]
fn a_token_below_the_mark_is_stale_and_one_above_raises_it() {
    let mut world = World::new();
    let alice = world.granted(&Ask::fenced("a", "107"));
    world.record(&alice, applied());
    let bob = world.granted(&Ask::fenced("b", "108"));
    world.record(&bob, applied());
    assert!(is_stale(&world.admit(&Ask::fenced("c", "107"))));
    assert_eq!(world.fence().mark, Some(token("108")));
    // Equal is not stale: the owner goes on.
    world.granted(&Ask::fenced("d", "108"));
}

#[test]
fn the_fence_rises_whatever_follows() {
    // Replayed.
    let mut world = World::new();
    let first = Ask::fenced("once", "107");
    let grant = world.granted(&first);
    world.record(&grant, applied());
    let newer = Ask::fenced("once", "108");
    assert!(matches!(
        world.admit(&newer),
        Ruling::Replay { stale: false, .. }
    ));
    assert_eq!(world.fence().mark, Some(token("108")));
    assert!(is_stale(&world.admit(&Ask::fenced("other", "107"))));

    // Refused for another reason.
    let reused = Ask::fenced("once", "109").payload(9);
    assert_eq!(refused(world.admit(&reused)), Rejection::KeyReused);
    assert_eq!(world.fence().mark, Some(token("109")));

    // Made to wait.
    let held = world.granted(&Ask::fenced("held", "109"));
    assert!(matches!(
        world.admit(&Ask::fenced("next", "110")),
        Ruling::Wait { .. }
    ));
    assert_eq!(world.fence().mark, Some(token("110")));
    world.record(&held, applied());

    // Joined.
    let flying = world.granted(&Ask::fenced("flying", "110"));
    assert!(matches!(
        world.admit(&Ask::fenced("flying", "111")),
        Ruling::Join { .. }
    ));
    assert_eq!(world.fence().mark, Some(token("111")));
    world.record(&flying, applied());

    // Even without a connection to send on.
    let unreserved = Ask::fenced("late", "112").with(|ask| ask.reserved = false);
    assert_eq!(world.admit(&unreserved), Ruling::ReserveFirst);
    assert_eq!(world.fence().mark, Some(token("112")));
    assert_eq!(world.state(&unreserved.key()), "(none)");
}

#[test]
fn a_stale_caller_gets_the_stored_outcome_but_never_an_attempt() {
    let mut world = World::new();
    let grant = world.granted(&Ask::fenced("once", "107"));
    world.record(&grant, applied());
    let next = world.granted(&Ask::fenced("next", "108"));
    world.record(&next, applied());
    assert!(matches!(
        world.admit(&Ask::fenced("once", "107")),
        Ruling::Replay { stale: true, .. }
    ));
    // With another payload it learns that it is stale, not that the key was reused.
    assert!(is_stale(
        &world.admit(&Ask::fenced("once", "107").payload(9))
    ));
}

#[test]
fn tokens_that_cannot_be_placed_are_unknown_and_change_nothing() {
    let mut world = World::new();
    let grant = world.granted(&Ask::fenced("a", "107"));
    world.record(&grant, applied());
    let unknown = |world: &mut World, ask: &Ask| match refused(world.admit(ask)) {
        Rejection::TokenUnknown { why, .. } => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        unknown(&mut world, &Ask::fenced("b", "1:1")),
        UnknownToken::LaterEpoch
    );
    let leap = Ask::fenced("b", "1108").with(|ask| ask.fence_policy().max_step = Some(1_000));
    assert_eq!(unknown(&mut world, &leap), UnknownToken::TooFarAhead);
    let other = Ask::fenced("b", "108").with(|ask| ask.source = "etcd");
    assert_eq!(unknown(&mut world, &other), UnknownToken::OtherSource);
    assert_eq!(world.fence().mark, Some(token("107")));
}

#[test]
fn the_first_token_of_a_resource_is_free_of_the_step_limit() {
    let mut world = World::new();
    let first = Ask::fenced("a", "5000000").with(|ask| ask.fence_policy().max_step = Some(10));
    world.granted(&first);
}

#[test]
fn a_lower_epoch_is_stale_on_every_resource_and_a_new_one_may_change_the_source() {
    let mut world = World::new();
    let grant = world.granted(&Ask::fenced("a", "107"));
    world.record(&grant, applied());
    world.epoch = 3;
    assert!(is_stale(&world.admit(&Ask::fenced("b", "999"))));
    let other_source = Ask::fenced("b", "3:1").with(|ask| ask.source = "etcd");
    world.granted(&other_source);
    assert_eq!(world.fence().source, Some(TokenSource::new("etcd")));
    // A resource that was never seen is no exception.
    world.fences.clear();
    assert!(is_stale(&world.admit(&Ask::fenced("c", "2:9"))));
}

#[test]
fn the_mark_belongs_to_the_acquisition_that_was_named_first() {
    let mut world = World::new();
    let ask = Ask::fenced("a", "107");
    let grant = world.granted(&ask);
    world.record(&grant, applied());
    let named = Ask::fenced("b", "107").with(|ask| ask.acquisition = Some("acq-1"));
    let grant = world.granted(&named);
    world.record(&grant, applied());
    let held = |ruling| matches!(refused(ruling), Rejection::TokenHeldByAnother { .. });
    let other = Ask::fenced("c", "107").with(|ask| ask.acquisition = Some("acq-2"));
    assert!(held(world.admit(&other)));
    assert!(held(world.admit(&Ask::fenced("d", "107"))));
    // A newer generation starts afresh.
    world.granted(&Ask::fenced("e", "108"));
}

#[test]
fn a_closed_mark_is_stale_itself() {
    let mut world = World::new();
    let grant = world.granted(&Ask::fenced("a", "107"));
    world.record(&grant, applied());
    world.fences.get_mut(&resource()).unwrap().closed = true;
    assert!(is_stale(&world.admit(&Ask::fenced("b", "107"))));
    world.granted(&Ask::fenced("b", "108"));
    assert!(!world.fence().closed);
}

#[test]
fn a_missing_token_is_refused_checked_when_present_or_reported() {
    let mut world = World::new();
    let none = |mode| {
        Ask::fenced("a", "1").with(|ask| {
            ask.token = TokenField::Absent;
            ask.fence_policy().token = mode;
        })
    };
    assert_eq!(
        refused(world.admit(&none(TokenMode::Require))),
        Rejection::TokenRequired
    );
    let observed = world.admission(&none(TokenMode::Observe));
    assert_eq!(observed.would_refuse, Some(Rejection::TokenRequired));
    let Ruling::Granted(grant) = observed.ruling else {
        panic!("observe refused")
    };
    world.record(&grant, applied());
    let preferred = none(TokenMode::Prefer).with(|ask| ask.id = "b");
    let grant = world.granted(&preferred);
    world.record(&grant, applied());
    let malformed = Ask::fenced("c", "1").with(|ask| {
        ask.token = TokenField::Malformed;
        ask.fence_policy().token = TokenMode::Prefer;
    });
    assert_eq!(refused(world.admit(&malformed)), Rejection::TokenMalformed);
}

#[test]
fn observe_judges_raises_reports_and_refuses_nothing() {
    let mut world = World::new();
    let observe =
        |id, with| Ask::fenced(id, with).with(|a| a.fence_policy().token = TokenMode::Observe);
    let grant = world.granted(&observe("a", "108"));
    assert_eq!(world.fence().mark, Some(token("108")));
    // Stale, and an unsettled predecessor besides: the first reason is reported.
    let stale = world.admission(&observe("b", "107"));
    assert!(matches!(
        stale.would_refuse,
        Some(Rejection::StaleToken { .. })
    ));
    let Ruling::Granted(other) = stale.ruling else {
        panic!("observe refused")
    };
    assert_eq!(world.fence().mark, Some(token("108")));
    world.record(&grant, applied());
    world.record(&other, applied());
}

#[test]
fn an_observed_stale_token_stands_where_it_says_and_not_where_none_stands() {
    let mut world = World::new();
    let observe =
        |id, with| Ask::fenced(id, with).with(|a| a.fence_policy().token = TokenMode::Observe);
    let newest = world.granted(&Ask::fenced("a", "108"));
    let stale = observe("b", "107").payload(2);
    let granted = world.admission(&stale);
    assert!(matches!(granted.ruling, Ruling::Granted(_)));
    let place = world.operations[&stale.key()].place.clone().unwrap();
    assert_eq!(place.token, Some(token("107")));
    // Taken for tokenless it would stand in the way of every earlier operation.
    assert_eq!(world.fence().latest.tokenless, AdmissionNumber(0));
    assert_eq!(world.fence().first, Some(newest.key));
    // Its identity is its own, and held to: not for its token is it refused.
    let other = stale.payload(3);
    assert_eq!(refused(world.admit(&other)), Rejection::KeyReused);
    let required = Ask::fenced("b", "107").payload(3);
    assert!(matches!(
        refused(world.admit(&required)),
        Rejection::StaleToken { .. }
    ));
}
