//! What a caller could be hurt by, told as short stories through the door.

use std::collections::HashSet;

use super::Subject;
use super::commands::{
    self as c, admit, again, applied, at, fenced, interrupted, key, meaning, numbered, under,
    unsent,
};
use crate::protocol::command::{Admit, Resolution, Resolved, Ruling};
use crate::protocol::ids::{
    FencingToken, Incarnation, InstanceId, OperationId, Principal, Tenant, UpstreamId,
};
use crate::protocol::operation::{Effect, Parked, State};
use crate::protocol::outcome::{AnswerClass, Evidence, Provenance, Verdict};
use crate::protocol::policy::{IfTwin, PerGeneration};
use crate::protocol::rejection::Rejection;
use crate::store::Resent;
use crate::store::permit::Permit;

pub(super) async fn an_operation_is_admitted_recorded_and_replayed(subject: Subject) {
    let first = admit("a", own(&subject));
    let permit = granted(&subject, &first).await;
    assert_eq!(permit.grant().attempt, first.attempt);
    let repeat = rule(&subject, again(&first)).await;
    assert!(matches!(
        repeat,
        Ruling::Join {
            uncertain: false,
            ..
        }
    ));
    assert_eq!(record(&subject, permit, applied()).await, "COMPLETED");
    let Ruling::Replay { completion, stale } = rule(&subject, again(&first)).await else {
        panic!("no replay");
    };
    assert!(!stale);
    assert_eq!(completion.provenance, Provenance::Answer);
    assert!(completion.answer == Some(c::answer(200)));
    let changed = Admit {
        meaning: meaning(2),
        ..again(&first)
    };
    assert_eq!(refusal(&subject, changed).await, Rejection::KeyReused);
}

/// B16, B18: however many copies of one request arrive together.
pub(super) async fn of_many_identical_admissions_one_gets_the_permit(subject: Subject) {
    for round in 0..4 {
        let first = admit(&format!("op-{round}"), own(&subject));
        let copies: Vec<_> = (0..64)
            .map(|_| {
                let (register, admit) = (subject.register().clone(), again(&first));
                task(async move { register.admit(admit).await.unwrap() })
            })
            .collect();
        let mut permits = Vec::new();
        for copy in copies {
            let admitted = copy.await.unwrap();
            match admitted.admission.ruling {
                Ruling::Granted(_) => permits.push(admitted.permit.unwrap()),
                Ruling::Join { uncertain, .. } => assert!(!uncertain),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(permits.len(), 1);
        let permit = permits.pop().unwrap();
        assert_eq!(record(&subject, permit, applied()).await, "COMPLETED");
    }
}

pub(super) async fn a_refused_request_raises_the_fence_all_the_same(subject: Subject) {
    let instance = own(&subject);
    let old = fenced("a", "r", "5", instance);
    let permit = granted(&subject, &old).await;
    record(&subject, permit, applied()).await;
    let reused = Admit {
        meaning: meaning(2),
        ..fenced("a", "r", "9", instance)
    };
    assert_eq!(refusal(&subject, reused).await, Rejection::KeyReused);
    let late = fenced("b", "r", "8", instance);
    assert_eq!(
        refusal(&subject, late).await,
        Rejection::StaleToken {
            presented: token("8"),
            current: Some(token("9")),
            epoch: None,
        }
    );
    // The first owner's outcome still goes to whoever repeats it, marked as stale.
    let repeat = rule(&subject, again(&old)).await;
    assert!(matches!(repeat, Ruling::Replay { stale: true, .. }));
}

pub(super) async fn a_newer_generation_waits_for_the_older_one(subject: Subject) {
    let instance = own(&subject);
    let alice = fenced("alice", "r", "107", instance);
    let permit = granted(&subject, &alice).await;
    let bob = Admit {
        meaning: meaning(2),
        ..fenced("bob", "r", "108", instance)
    };
    let Ruling::Wait { predecessor, .. } = rule(&subject, again(&bob)).await else {
        panic!("Bob must wait for Alice's request on the wire");
    };
    assert_eq!(predecessor, alice.key);
    let elsewhere = fenced("carol", "another", "1", instance);
    drop(granted(&subject, &elsewhere).await);
    record(&subject, permit, applied()).await;
    drop(granted(&subject, &bob).await);
    let woken = fenced("alice-2", "r", "107", instance);
    assert!(matches!(
        refusal(&subject, woken).await,
        Rejection::StaleToken { .. }
    ));
}

pub(super) async fn a_twin_is_noted_for_good(subject: Subject) {
    let instance = own(&subject);
    let first = fenced("first", "r", "1", instance);
    let permit = granted(&subject, &first).await;
    let twin = fenced("twin", "r", "1", instance);
    let near_duplicate = Rejection::NearDuplicate {
        first: Box::new(first.key.clone()),
    };
    assert_eq!(refusal(&subject, again(&twin)).await, near_duplicate);
    record(&subject, permit, applied()).await;
    // Nothing is unsettled any more, and the twin is still one.
    assert_eq!(refusal(&subject, again(&twin)).await, near_duplicate);
    let changed = Admit {
        meaning: meaning(2),
        ..again(&twin)
    };
    assert_eq!(refusal(&subject, changed).await, Rejection::KeyReused);
    let answering = under(again(&twin), |policy| policy.if_twin = IfTwin::Answer);
    assert!(matches!(
        rule(&subject, answering).await,
        Ruling::Replay { .. }
    ));
}

pub(super) async fn the_note_of_a_twin_is_void_when_the_first_was_not_applied(subject: Subject) {
    let instance = own(&subject);
    let first = fenced("first", "r", "1", instance);
    let permit = granted(&subject, &first).await;
    let twin = under(fenced("twin", "r", "1", instance), |policy| {
        policy.if_twin = IfTwin::Answer;
    });
    let Ruling::Join { key, .. } = rule(&subject, again(&twin)).await else {
        panic!("the twin must join");
    };
    assert_eq!(key, first.key);
    assert_eq!(record(&subject, permit, unsent()).await, "NOT_APPLIED");
    let permit = granted(&subject, &twin).await;
    assert_eq!(record(&subject, permit, applied()).await, "COMPLETED");
    // The operation has taken the place of the note.
    assert!(matches!(
        rule(&subject, again(&twin)).await,
        Ruling::Replay { .. }
    ));
}

pub(super) async fn a_resend_gets_the_stored_bytes(subject: Subject) {
    let first = admit_free("a", own(&subject));
    let permit = granted(&subject, &first).await;
    let round = permit.grant().round;
    let resend = c::resend(&first.key, own(&subject));
    let early = subject.register().resend(resend.clone()).await.unwrap();
    assert!(matches!(early, Resent::NotNow));
    assert_eq!(record(&subject, permit, interrupted()).await, "UNCERTAIN");
    let resent = subject.register().resend(resend).await.unwrap();
    let Resent::Granted(permit) = resent else {
        panic!("{resent:?}");
    };
    assert_eq!(permit.grant().round, round);
    let bytes = permit.grant().request.clone().unwrap();
    assert!(*bytes == c::request("a"));
    assert_eq!(record(&subject, permit, applied()).await, "COMPLETED");
    let late = c::resend(&first.key, own(&subject));
    let resent = subject.register().resend(late).await.unwrap();
    assert!(matches!(resent, Resent::Settled(Some(State::Completed(_)))));
    let unknown = c::resend(&key("unknown"), own(&subject));
    let resent = subject.register().resend(unknown).await.unwrap();
    assert!(matches!(resent, Resent::Settled(None)));
}

pub(super) async fn a_resend_is_forbidden_once_overtaken(subject: Subject) {
    let instance = own(&subject);
    let first = fenced("a", "r", "1", instance);
    let permit = granted(&subject, &first).await;
    record(&subject, permit, interrupted()).await;
    let observing = under(
        Admit {
            meaning: meaning(2),
            ..fenced("b", "r", "2", instance)
        },
        |policy| policy.token = crate::protocol::policy::TokenMode::Observe,
    );
    drop(granted(&subject, &observing).await);
    let resend = c::resend(&first.key, instance);
    let resent = subject.register().resend(resend).await.unwrap();
    assert!(matches!(resent, Resent::Forbidden(Parked::Overtaken)));
}

pub(super) async fn an_operation_is_parked_and_resolved(subject: Subject) {
    let register = subject.register();
    let first = admit("a", own(&subject));
    let permit = granted(&subject, &first).await;
    let in_flight = register.park(c::park(&first.key)).await.unwrap();
    assert_eq!(in_flight, Some(State::Intended));
    record(&subject, permit, interrupted()).await;
    let parked = register.park(c::park(&first.key)).await.unwrap();
    assert_eq!(parked, Some(State::NeedsAttention(Parked::RequestNotKept)));
    assert_eq!(register.park(c::park(&key("none"))).await.unwrap(), None);
    assert!(matches!(
        refusal(&subject, again(&first)).await,
        Rejection::NeedsAttention(_)
    ));
    let verdict = c::resolve(&first.key, Resolution::Applied(c::answer(201)));
    let resolved = register.resolve(verdict).await.unwrap();
    assert!(matches!(resolved, Resolved::Done(State::Completed(_))));
    let Ruling::Replay { completion, .. } = rule(&subject, again(&first)).await else {
        panic!("no replay");
    };
    assert_eq!(completion.provenance, Provenance::Operator);
    let verdict = c::resolve(&first.key, Resolution::NotApplied { new_key: false });
    assert_eq!(
        register.resolve(verdict).await.unwrap(),
        Resolved::AlreadyCompleted {
            verdict: Verdict::Applied,
            provenance: Provenance::Operator,
        }
    );
    let verdict = c::resolve(&key("none"), Resolution::NotApplied { new_key: false });
    assert_eq!(register.resolve(verdict).await.unwrap(), Resolved::Unknown);
}

pub(super) async fn a_sequence_never_goes_back(subject: Subject) {
    let instance = own(&subject);
    for (id, sequence) in [("a", 3), ("b", 7)] {
        let admit = numbered(fenced(id, "r", "1", instance), sequence);
        let permit = granted(&subject, &admit).await;
        record(&subject, permit, applied()).await;
    }
    for sequence in [3, 7] {
        let late = numbered(fenced("c", "r", "1", instance), sequence);
        assert!(matches!(
            refusal(&subject, late).await,
            Rejection::SequenceRegressed { .. }
        ));
    }
    let other = under(fenced("d", "r", "1", instance), |policy| {
        policy.per_generation = PerGeneration::One;
    });
    assert_eq!(
        refusal(&subject, other).await,
        Rejection::GenerationUsed {
            by: Box::new(key("a")),
        }
    );
    // A newer generation counts from the start.
    let newer = numbered(fenced("c", "r", "2", instance), 1);
    drop(granted(&subject, &newer).await);
}

pub(super) async fn a_not_applied_operation_is_admitted_again(subject: Subject) {
    let first = fenced("a", "r", "1", own(&subject));
    for _ in 0..3 {
        let attempt = again(&first);
        let permit = granted(&subject, &attempt).await;
        assert_eq!(permit.grant().round.0, 0);
        assert_eq!(record(&subject, permit, unsent()).await, "NOT_APPLIED");
    }
    let corrected = Admit {
        meaning: meaning(2),
        ..again(&first)
    };
    let permit = granted(&subject, &corrected).await;
    record(&subject, permit, applied()).await;
    assert_eq!(refusal(&subject, first).await, Rejection::KeyReused);
}

/// INTENDED of a dead instance is UNCERTAIN to whoever looks, and is never sent as if new.
pub(super) async fn after_a_restart_an_intent_is_uncertain(mut subject: Subject) {
    let first = admit_free("a", own(&subject));
    let permit = granted(&subject, &first).await;
    // The process dies between intent and outcome.
    drop(permit);
    subject.restart().await;
    let repeat = Admit {
        attempt: c::attempt(own(&subject)),
        ..first.clone()
    };
    let Ruling::Join { key, uncertain, .. } = rule(&subject, repeat).await else {
        panic!("must join");
    };
    assert_eq!(key, first.key);
    assert!(uncertain);
    let resend = c::resend(&first.key, own(&subject));
    let resent = subject.register().resend(resend).await.unwrap();
    let Resent::Granted(permit) = resent else {
        panic!("{resent:?}");
    };
    let bytes = permit.grant().request.clone().unwrap();
    assert!(*bytes == c::request("a"));
    assert_eq!(record(&subject, permit, applied()).await, "COMPLETED");
}

/// C19.
pub(super) async fn a_fence_survives_a_restart(mut subject: Subject) {
    let newer = fenced("bob", "r", "108", own(&subject));
    let permit = granted(&subject, &newer).await;
    record(&subject, permit, applied()).await;
    // A mark that was raised by a mere refusal counts as much.
    let wild = Admit {
        meaning: meaning(2),
        ..fenced("bob", "r", "200", own(&subject))
    };
    assert_eq!(refusal(&subject, wild).await, Rejection::KeyReused);
    for _ in 0..2 {
        subject.restart().await;
        for stale in ["107", "108", "199"] {
            let late = fenced("alice", "r", stale, own(&subject));
            assert_eq!(
                refusal(&subject, late).await,
                Rejection::StaleToken {
                    presented: token(stale),
                    current: Some(token("200")),
                    epoch: None,
                }
            );
        }
    }
}

pub(super) async fn an_answer_survives_a_restart_byte_for_byte(mut subject: Subject) {
    let first = admit("a", own(&subject));
    let permit = granted(&subject, &first).await;
    let refused = c::answered(402, AnswerClass::Refused);
    assert_eq!(record(&subject, permit, refused).await, "COMPLETED");
    subject.restart().await;
    let Ruling::Replay { completion, .. } = rule(&subject, again(&first)).await else {
        panic!("no replay");
    };
    assert_eq!(completion.verdict, Verdict::Refused);
    assert!(completion.answer == Some(c::answer(402)));
}

pub(super) async fn evidence_twice_changes_nothing(subject: Subject) {
    let first = admit("a", own(&subject));
    let receipt = granted(&subject, &first).await.finish(applied());
    let register = subject.register();
    let once = register.record(&receipt, at(10)).await.unwrap();
    assert_eq!(once.effect, Effect::Changed);
    let before = stored(&subject, "a").await;
    let twice = register.record(&receipt, at(20)).await.unwrap();
    assert_eq!(twice.effect, Effect::Nothing);
    assert_eq!(twice.state, once.state);
    assert_eq!(stored(&subject, "a").await, before);
}

/// An attempt was made under an intent that the register does not know: it went back.
pub(super) async fn evidence_without_an_intent_is_a_contradiction(subject: Subject) {
    let other = Subject::memory();
    let receipt = granted(&other, &admit("a", own(&other)))
        .await
        .finish(applied());
    let recorded = subject.register().record(&receipt, at(10)).await.unwrap();
    assert_eq!(recorded.state, None);
    assert_eq!(recorded.effect, Effect::Contradiction);
    let found = subject.read().operation(&key("a"), false).await.unwrap();
    assert_eq!(found, None);
}

pub(super) async fn identities_are_compared_by_their_exact_bytes(subject: Subject) {
    let instance = own(&subject);
    let ids = [
        "a", "A", "a ", " a", "a\0", "a\0b", "\u{e9}", "e\u{301}", "", "0", "00", "1", "1.0",
    ];
    let mut keys: Vec<_> = ids.iter().map(|id| key(id)).collect();
    let base = key("a");
    let mut elsewhere = vec![base.clone(); 5];
    elsewhere[0].tenant = Tenant::new("Payments");
    elsewhere[1].upstream = UpstreamId::new("stripe\0");
    elsewhere[2].principal = Principal::Hashed([0; 16]);
    elsewhere[3].principal = Principal::Hashed([1; 16]);
    elsewhere[4].incarnation = Incarnation(u64::MAX);
    keys.extend(elsewhere);
    for (index, key) in keys.iter().enumerate() {
        let digest = u8::try_from(index).unwrap();
        let admit = Admit {
            key: key.clone(),
            meaning: meaning(digest),
            ..admit("any", instance)
        };
        drop(granted(&subject, &admit).await);
    }
    let distinct: HashSet<_> = keys.iter().collect();
    assert_eq!(distinct.len(), keys.len());
    for (index, key) in keys.iter().enumerate() {
        let found = subject.read().operation(key, false).await.unwrap().unwrap();
        assert_eq!(found.operation.key, *key);
        assert_eq!(usize::from(found.operation.fingerprint.digest[0]), index);
    }
    let absent = crate::protocol::ids::OperationKey {
        id: OperationId::new("b"),
        ..base
    };
    let found = subject.read().operation(&absent, false).await.unwrap();
    assert_eq!(found, None);
}

pub(super) async fn nothing_is_granted_without_a_connection(subject: Subject) {
    let early = Admit {
        reserved: false,
        ..fenced("a", "r", "4", own(&subject))
    };
    assert_eq!(rule(&subject, early).await, Ruling::ReserveFirst);
    let found = subject.read().operation(&key("a"), false).await.unwrap();
    assert_eq!(found, None);
    // The fence rose all the same.
    let stale = fenced("b", "r", "3", own(&subject));
    assert!(matches!(
        refusal(&subject, stale).await,
        Rejection::StaleToken { .. }
    ));
}

/// Without a fence, an effect that commutes: may be resent unattended.
pub(super) fn admit_free(id: &str, instance: InstanceId) -> Admit {
    let mut admit = admit(id, instance);
    std::sync::Arc::make_mut(&mut admit.policy).order = crate::protocol::policy::Order::Free;
    admit
}

pub(super) fn own(subject: &Subject) -> InstanceId {
    subject.register().instance()
}

pub(super) async fn granted(subject: &Subject, admit: &Admit) -> Permit {
    let admitted = subject.register().admit(admit.clone()).await.unwrap();
    let ruling = admitted.admission.ruling;
    admitted
        .permit
        .unwrap_or_else(|| panic!("not granted: {ruling:?}"))
}

/// Records the end of an attempt; the state's word.
pub(super) async fn record(subject: &Subject, permit: Permit, evidence: Evidence) -> &'static str {
    let receipt = permit.finish(evidence);
    let recorded = subject.register().record(&receipt, at(500)).await.unwrap();
    recorded.state.unwrap().word()
}

pub(super) async fn rule(subject: &Subject, admit: Admit) -> Ruling {
    let admitted = subject.register().admit(admit).await.unwrap();
    assert_eq!(
        admitted.permit.is_some(),
        matches!(admitted.admission.ruling, Ruling::Granted(_))
    );
    admitted.admission.ruling
}

pub(super) async fn refusal(subject: &Subject, admit: Admit) -> Rejection {
    match rule(subject, admit).await {
        Ruling::Refused(rejection) => rejection,
        other => panic!("not refused: {other:?}"),
    }
}

async fn stored(subject: &Subject, id: &str) -> crate::store::Stored {
    let found = subject.read().operation(&key(id), true).await.unwrap();
    found.unwrap()
}

fn token(text: &str) -> FencingToken {
    FencingToken::parse(text).unwrap()
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test awaits its own tasks; there is no supervisor here"
)]
fn task<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> tokio::task::JoinHandle<T> {
    tokio::spawn(work)
}
