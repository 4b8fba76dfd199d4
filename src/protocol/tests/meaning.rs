//! Repeats that cannot be compared, lack the credential, or have no key.

use super::*;

fn with_key(ask: &Ask, fingerprint_key: u32) -> Ask {
    ask.with(|ask| ask.fingerprint_key = fingerprint_key)
}

fn not_comparable(ruling: Ruling) -> bool {
    matches!(refused(ruling), Rejection::NotComparable(_))
}

/// A fingerprint of another key is neither a repeat nor a reuse: not replayed, not sent, not 422.
#[test]
fn what_cannot_be_compared_is_refused_as_such_in_every_state() {
    let mut world = World::new();
    let ask = Ask::plain("k");
    let later = with_key(&ask, 2);
    let grant = world.granted(&ask);
    assert!(not_comparable(world.admit(&later)));
    world.record(&grant, lost());
    assert!(not_comparable(world.admit(&later)));
    world.park(&ask.key());
    assert!(not_comparable(world.admit(&later)));
    let answer = Answer {
        status: 200,
        fields: vec![],
        body: None,
    };
    world.resolve(&ask.key(), Resolution::Applied(answer));
    assert!(not_comparable(world.admit(&later)));
    assert!(matches!(world.admit(&ask), Ruling::Replay { .. }));
}

#[test]
fn where_nothing_happened_nothing_needs_comparing() {
    let mut world = World::new();
    let ask = Ask::plain("k");
    let grant = world.granted(&ask);
    world.record(&grant, answer(400, AnswerClass::NotProcessed));
    let again = world.granted(&with_key(&ask, 2));
    assert_eq!(
        again.round,
        Round(0),
        "the key stays, should the verdict be wrong"
    );
}

/// A stored refusal leaves a derived identity free for a corrected request, not for what may be the
/// very request that was refused.
#[test]
fn a_refusal_is_not_sent_past_by_what_may_be_the_same_request() {
    let mut world = World::new();
    let ask = Ask::plain("k").with(|ask| ask.origin = IdentityOrigin::Derived);
    let grant = world.granted(&ask);
    world.record(&grant, answer(402, AnswerClass::Refused));
    assert!(not_comparable(world.admit(&with_key(&ask, 2))));
    assert_eq!(world.granted(&ask.payload(2)).round, Round(1));
}

/// Scenario 7, B09: a replay needs a credential where the original had one; which one is not asked.
#[test]
fn no_answer_without_a_credential_to_what_was_asked_with_one() {
    let mut world = World::new();
    let ask = Ask::plain("k").with(|ask| ask.credentialed = true);
    let bare = ask.with(|ask| ask.credentialed = false);
    let needs_one = |ruling| matches!(refused(ruling), Rejection::CredentialRequired(_));
    let grant = world.granted(&ask);
    assert!(needs_one(world.admit(&bare)), "not even a join");
    world.record(&grant, lost());
    assert!(needs_one(world.admit(&bare)));
    world.record(&grant, applied());
    assert!(needs_one(world.admit(&bare)));
    assert!(matches!(world.admit(&ask), Ruling::Replay { .. }));
    // Another request is told so; it learns nothing of the answer.
    assert_eq!(refused(world.admit(&bare.payload(2))), Rejection::KeyReused);

    let bare = Ask::plain("bare");
    let grant = world.granted(&bare);
    world.record(&grant, applied());
    let now_with_one = bare.with(|ask| ask.credentialed = true);
    assert!(matches!(world.admit(&now_with_one), Ruling::Replay { .. }));
}

#[test]
fn where_nothing_happened_the_upstream_judges_the_credential() {
    let mut world = World::new();
    let ask = Ask::plain("k").with(|ask| ask.credentialed = true);
    let grant = world.granted(&ask);
    world.record(&grant, answer(401, AnswerClass::NotProcessed));
    world.granted(&ask.with(|ask| ask.credentialed = false));
}

fn keyless(id: &'static str) -> Ask {
    Ask::plain(id).with(|ask| {
        ask.origin = IdentityOrigin::Fresh;
        ask.blind_retry = Some(Millis(300_000));
    })
}

fn joins(ruling: &Ruling, first: &Grant) -> bool {
    matches!(ruling, Ruling::Join { key, attempt, .. }
        if *key == first.key && *attempt == Some(first.attempt))
}

#[test]
fn a_request_without_a_key_joins_its_equal_while_that_is_in_doubt() {
    let mut world = World::new();
    let first = world.granted(&keyless("a"));
    assert!(joins(&world.admit(&keyless("b")), &first), "in flight");
    world.record(&first, lost());
    assert!(joins(&world.admit(&keyless("c")), &first), "uncertain");
    assert_eq!(world.state(&keyless("b").key()), "(none)");
    // Another payload, a key of its own, or a rule that says never: an operation of its own.
    world.granted(&keyless("d").payload(2));
    world.granted(&Ask::plain("e"));
    world.granted(&keyless("f").with(|ask| ask.blind_retry = None));
}

/// Where a person has to say how it ended, nobody knows that it had no effect.
#[test]
fn the_blind_retry_of_what_needs_a_person_is_refused() {
    let mut world = World::new();
    let first = world.granted(&keyless("a"));
    world.record(&first, lost());
    world.park(&first.key);
    let why = refused(world.admit(&keyless("b")));
    assert!(matches!(why, Rejection::NeedsAttention(key) if *key == first.key));
}

/// The resource need not stand in what is compared: a header may name it.
#[test]
fn equal_requests_for_two_resources_are_two() {
    let mut world = World::new();
    world.granted(&keyless("a"));
    world.granted(&keyless("b").with(|ask| ask.fenced = true));
}

#[test]
fn settled_operations_are_not_joined_blindly() {
    let mut world = World::new();
    let first = world.granted(&keyless("a"));
    world.record(&first, applied());
    let second = world.granted(&keyless("b"));
    world.record(&second, answer(400, AnswerClass::NotProcessed));
    world.granted(&keyless("c"));
}

#[test]
fn a_blind_retry_comes_soon_and_with_the_credential() {
    let mut world = World::new();
    let first = world.granted(&keyless("a").with(|ask| ask.credentialed = true));
    let bare = refused(world.admit(&keyless("b")));
    assert!(matches!(bare, Rejection::CredentialRequired(_)));
    let late = keyless("c").with(|ask| {
        ask.credentialed = true;
        ask.blind_retry = Some(Millis(1_000));
    });
    assert!(joins(&world.admit(&late), &first));
    world.now_ms += 1_001;
    world.granted(&late);
}

/// Twins are of one caller: whoever shares only the resource waits its turn.
#[test]
fn another_account_is_no_twin() {
    let strict = |id| {
        Ask::fenced(id, "108").with(|ask| {
            ask.policy.order = Order::Strict;
            ask.fence_policy().if_twin = IfTwin::Answer;
        })
    };
    let mut world = World::new();
    let first = world.granted(&strict("a"));
    let attempt = world.attempt();
    let mut elsewhere = strict("b").command(attempt, world.now());
    elsewhere.key.principal = Principal::Hashed([9; 16]);
    let Reply::Admission(admission) = world.apply(&Command::Admit(Box::new(elsewhere))) else {
        panic!("not an admission")
    };
    assert!(
        matches!(admission.ruling, Ruling::Wait { .. }),
        "{admission:?}"
    );
    let twin = world.admit(&strict("c"));
    assert!(matches!(twin, Ruling::Join { key, .. } if key == first.key));
}
