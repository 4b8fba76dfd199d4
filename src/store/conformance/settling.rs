//! Look-ups, callbacks and undoing, through the door of every backend.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::Subject;
use super::commands::{self as c, admit, again, at, interrupted};
use super::scenarios::{granted, record, rule};
use crate::protocol::command::{Admit, Park, Ruling};
use crate::protocol::finding::{Finder, Finding, Found, NotKnown, Uncounted, Worth};
use crate::protocol::ids::{InstanceId, OperationKey, StepName};
use crate::protocol::operation::{Effect, Parked, State};
use crate::protocol::outcome::{Provenance, Unsent, Verdict};
use crate::protocol::start::Start;
use crate::protocol::steps::{
    Backoff, LookUpPolicy, ResendPolicy, SettleStep, StepIndex, Steps, VoidPolicy,
};
use crate::protocol::take_up::{TakeUp, TakenUp};
use crate::protocol::time::{Millis, Moment};
use crate::protocol::void::{BeginVoid, VoidEnd};
use crate::store::{Resent, Voiding};

pub(super) const LOOK: StepIndex = StepIndex(0);
pub(super) const UNDO: StepIndex = StepIndex(1);

/// A second of quiet, two samples; then an undo; then resends.
pub(super) fn steps() -> Steps {
    let every = Backoff {
        from: Millis(100),
        to: Millis(400),
    };
    let steps = vec![
        SettleStep::LookUp(LookUpPolicy {
            name: StepName::new("by reference"),
            lag: Millis(1_000),
            samples: NonZeroU32::new(2).unwrap(),
            every,
            within: Millis(600_000),
            tells_forms: false,
        }),
        SettleStep::Void(VoidPolicy {
            name: StepName::new("cancel by key"),
            lag: Millis(1_000),
            attempts: 2,
            every,
            within: Millis(600_000),
        }),
        SettleStep::SendAgain(ResendPolicy {
            attempts: 3,
            backoff_from: Millis(200),
            backoff_to: Millis(30_000),
        }),
    ];
    Steps::new(steps).unwrap()
}

/// A request that is settled by them.
pub(crate) fn settled_so(id: &str, instance: InstanceId) -> Admit {
    let mut admit = admit(id, instance);
    Arc::make_mut(&mut admit.policy).settle.steps = steps();
    admit
}

pub(super) fn found(key: &OperationKey, found: Found, admitted: u32, asked_at: Moment) -> Finding {
    Finding {
        key: key.clone(),
        by: Finder::LookUp {
            step: LOOK,
            asked_at,
        },
        admitted,
        found,
        at: asked_at,
    }
}

pub(crate) fn begin_void(key: &OperationKey, instance: InstanceId, at: Moment) -> BeginVoid {
    BeginVoid {
        key: key.clone(),
        step: UNDO,
        attempt: c::attempt(instance),
        dispatch: Millis(5_000),
        overdue_after: Millis(45_000),
        at,
    }
}

async fn worth(subject: &Subject, finding: Finding) -> Worth {
    subject.register().find(finding).await.unwrap().worth
}

/// Lost at 500.
async fn lost(subject: &Subject) -> OperationKey {
    let first = settled_so("a", subject.read().instance());
    let permit = granted(subject, &first).await;
    assert_eq!(record(subject, permit, interrupted()).await, "UNCERTAIN");
    first.key
}

pub(super) async fn what_is_not_found_often_enough_was_not_applied(mut subject: Subject) {
    let key = lost(&subject).await;
    let not_found = |ms| found(&key, Found::NotApplied, 1, at(ms));
    let early = Worth::Nothing(Uncounted::TooEarly(Millis(1)));
    assert_eq!(worth(&subject, not_found(1_499)).await, early);
    let sample = Worth::Sample { so_far: 1, of: 2 };
    assert_eq!(worth(&subject, not_found(1_500)).await, sample);
    // Written twice, it is one sample.
    let again = worth(&subject, not_found(1_500)).await;
    assert_eq!(again, Worth::NothingNew);
    // What is counted outlives the process.
    subject.restart().await;
    assert_eq!(worth(&subject, not_found(1_600)).await, Worth::Settled);
    let stored = subject.read().operation(&key, true).await.unwrap().unwrap();
    assert_eq!(stored.operation.state.word(), "NOT_APPLIED");
    assert!(stored.request.is_none());
    assert_eq!(stored.events.len(), 3);
    let anew = settled_so("a", subject.read().instance());
    drop(granted(&subject, &anew).await);
}

pub(super) async fn what_is_found_completes_with_its_answer(mut subject: Subject) {
    let key = lost(&subject).await;
    let applied = || found(&key, Found::Applied(c::answer(201)), 1, at(600));
    assert_eq!(worth(&subject, applied()).await, Worth::Settled);
    assert_eq!(worth(&subject, applied()).await, Worth::NothingNew);
    subject.restart().await;
    let repeat = settled_so("a", subject.read().instance());
    let Ruling::Replay { completion, .. } = rule(&subject, repeat).await else {
        panic!("no replay");
    };
    assert_eq!(completion.provenance, Provenance::LookUp);
    assert!(completion.answer == Some(c::answer(201)));
    let unknown = found(&c::key("unknown"), Found::NotApplied, 1, at(600));
    let weighed = subject.register().find(unknown).await.unwrap();
    assert_eq!(weighed.state, None);
}

pub(super) async fn an_undo_is_durable_before_it_is_sent(mut subject: Subject) {
    let key = lost(&subject).await;
    let begin = |ms| begin_void(&key, subject.read().instance(), at(ms));
    let early = subject.register().begin_void(begin(1_000)).await.unwrap();
    assert!(matches!(early, Voiding::TooEarly(Millis(500))));
    let voiding = subject.register().begin_void(begin(1_500)).await.unwrap();
    let Voiding::Granted(permit) = voiding else {
        panic!("{voiding:?}");
    };
    let bytes = permit.grant().request.clone().unwrap();
    assert!(*bytes == c::request("a"));
    let live = subject.register().begin_void(begin(1_600)).await.unwrap();
    assert!(matches!(live, Voiding::NotNow));
    // The process dies in the middle; nothing is sent under the key after it but another undo.
    drop(permit);
    subject.restart().await;
    let instance = subject.read().instance();
    let mut resend = c::resend(&key, instance);
    resend.at = at(100_000);
    let resent = subject.register().resend(resend).await.unwrap();
    assert!(matches!(resent, Resent::Forbidden(Parked::UndoUnclear)));
    let begin = begin_void(&key, instance, at(100_000));
    let voiding = subject.register().begin_void(begin).await.unwrap();
    let Voiding::Granted(permit) = voiding else {
        panic!("{voiding:?}");
    };
    let receipt = permit.finish(VoidEnd::Undone(c::answer(409)));
    for effect in [Effect::Changed, Effect::Nothing] {
        let recorded = subject.register().voided(&receipt, at(100_100)).await;
        let recorded = recorded.unwrap();
        assert_eq!(recorded.effect, effect);
        assert_eq!(recorded.state.unwrap().word(), "COMPLETED");
    }
    subject.restart().await;
    let repeat = settled_so("a", subject.read().instance());
    let Ruling::Replay { completion, .. } = rule(&subject, again(&repeat)).await else {
        panic!("no replay");
    };
    assert_eq!(completion.provenance, Provenance::Void);
    assert_eq!(completion.verdict, Verdict::Refused);
    assert!(completion.answer == Some(c::answer(409)));
}

pub(super) async fn an_undo_that_was_not_sent_leaves_nothing(subject: Subject) {
    let key = lost(&subject).await;
    let begin = begin_void(&key, subject.read().instance(), at(1_500));
    let voiding = subject.register().begin_void(begin).await.unwrap();
    let Voiding::Granted(permit) = voiding else {
        panic!("{voiding:?}");
    };
    let receipt = permit.finish(VoidEnd::NotSent(Unsent::ConnectionLost));
    subject
        .register()
        .voided(&receipt, at(1_600))
        .await
        .unwrap();
    let not_known = found(&key, Found::NotKnown(NotKnown::Unreadable), 1, at(1_700));
    let unreadable = Worth::Nothing(Uncounted::NotKnown(NotKnown::Unreadable));
    assert_eq!(worth(&subject, not_known).await, unreadable);
    let stored = subject.read().operation(&key, false).await.unwrap();
    let operation = stored.unwrap().operation;
    assert!(operation.settling.void.is_none());
    assert_eq!(operation.state, State::Uncertain);
    // And it may be completed like any other.
    let receipt = found(&key, Found::Applied(c::answer(200)), 1, at(1_800));
    assert_eq!(worth(&subject, receipt).await, Worth::Settled);
    let unknown = begin_void(&c::key("unknown"), subject.read().instance(), at(1_500));
    let voiding = subject.register().begin_void(unknown).await.unwrap();
    assert!(matches!(voiding, Voiding::Settled(None)));
}

pub(super) fn take_up(key: &OperationKey, at: Moment) -> TakeUp {
    TakeUp {
        key: key.clone(),
        operator: "alice".to_owned(),
        reason: "they answer again".to_owned(),
        at,
    }
}

pub(super) async fn what_was_given_up_is_asked_after_again(mut subject: Subject) {
    let key = lost(&subject).await;
    let not_found = |ms| found(&key, Found::NotApplied, 1, at(ms));
    let start = |ms| Start {
        key: key.clone(),
        step: StepIndex(0),
        at: at(ms),
    };
    subject.register().start(start(1_000)).await.unwrap();
    let sample = Worth::Sample { so_far: 1, of: 2 };
    assert_eq!(worth(&subject, not_found(1_500)).await, sample);
    // Not while its question has time.
    let park = |ms| Park {
        at: at(ms),
        ..c::park(&key)
    };
    let early = subject.register().park(park(600_000)).await.unwrap();
    assert_eq!(early, Some(State::Uncertain));
    let parked = subject.register().park(park(602_000)).await.unwrap();
    assert!(matches!(parked, Some(State::NeedsAttention(_))));
    // Written twice it happens once, and it outlives the process.
    for _ in 0..2 {
        let taken = subject.register().take_up(take_up(&key, at(603_000))).await;
        assert_eq!(taken.unwrap(), TakenUp::Begun(State::Uncertain));
    }
    subject.restart().await;
    let stored = subject.read().operation(&key, true).await.unwrap().unwrap();
    assert_eq!(stored.operation.state, State::Uncertain);
    assert!(stored.request.is_some());
    let said = "alice had it asked after again, and nothing sent: they answer again";
    let told = stored.events.iter().filter(|it| it.text == said).count();
    assert_eq!(told, 1, "{:?}", stored.events);
    let in_doubt = subject.read().in_doubt(0, 9).await.unwrap();
    assert_eq!(in_doubt.len(), 1);
    // Nothing is sent by itself, and the samples of before are gone.
    let mut resend = c::resend(&key, subject.read().instance());
    resend.at = at(603_100);
    let resent = subject.register().resend(resend).await.unwrap();
    assert!(matches!(resent, Resent::Forbidden(Parked::NotToldInTime)));
    assert_eq!(worth(&subject, not_found(603_200)).await, sample);
    assert_eq!(worth(&subject, not_found(603_300)).await, Worth::Settled);
    let taken = subject.register().take_up(take_up(&key, at(603_400))).await;
    assert!(matches!(
        taken.unwrap(),
        TakenUp::Settled(Some(State::NotApplied(_)))
    ));
    let unknown = take_up(&c::key("unknown"), at(603_500));
    let taken = subject.register().take_up(unknown).await.unwrap();
    assert_eq!(taken, TakenUp::Settled(None));
}
