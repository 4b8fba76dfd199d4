//! What a person amends, through the door of every backend: repairs, and new epochs.

use super::Subject;
use super::commands::{self as c, applied, at, fenced, key, resource_key};
use super::scenarios::{granted, own, record, refusal};
use crate::protocol::command::{Applied, NotRepaired, Steer, Steered, Steering};
use crate::protocol::ids::{
    AcquisitionId, FencingToken, Incarnation, InstanceId, OperationId, TokenSource,
};
use crate::protocol::lease::{LeaseReply, Leasing, OWN_SOURCE, Wish};
use crate::protocol::rejection::Rejection;
use crate::protocol::time::Millis;
use crate::store::NewEpoch;

fn token(text: &str) -> FencingToken {
    FencingToken::parse(text).unwrap()
}

async fn steer(subject: &Subject, how: Steering) -> Steered {
    let steer = Steer {
        resource: resource_key("r"),
        how,
        operator: "alice".to_owned(),
        reason: "a wild token".to_owned(),
        at: at(2_000),
    };
    subject.register().steer(steer).await.unwrap()
}

fn repair(to: &str, disown: &[&str]) -> Steering {
    Steering::Repair {
        to: Some(token(to)),
        disown: disown.iter().map(OperationId::new).collect(),
    }
}

async fn carry_out(subject: &Subject, id: &str, with: &str, instance: InstanceId) {
    let permit = granted(subject, &fenced(id, "r", with, instance)).await;
    record(subject, permit, applied()).await;
}

fn done(steered: &Steered) -> (Incarnation, Option<FencingToken>, bool) {
    match steered {
        Steered::Done {
            incarnation,
            mark,
            closed,
            ..
        } => (*incarnation, *mark, *closed),
        other => panic!("{other:?}"),
    }
}

/// What was applied of this resource, in this incarnation, above that token: nothing else counts.
pub(super) async fn a_repair_sees_what_was_applied_and_where(mut subject: Subject) {
    let instance = own(&subject);
    carry_out(&subject, "first", "7", instance).await;
    for how in [Steering::Cancel, Steering::Reopen] {
        done(&steer(&subject, how).await);
    }
    carry_out(&subject, "genuine", "9", instance).await;
    carry_out(&subject, "wild", "900", instance).await;
    carry_out(&subject, "wilder", "10000", instance).await;
    drop(granted(&subject, &fenced("elsewhere", "other", "950", instance)).await);
    let refused = steer(&subject, repair("9", &["genuine"])).await;
    let named = |id: &str, with: &str| Applied {
        key: key(id),
        token: token(with),
    };
    let operations = vec![named("wilder", "10000"), named("wild", "900")];
    let refusal_of = |operations| {
        Steered::NotRepaired(NotRepaired::Applied {
            operations,
            more: false,
        })
    };
    assert_eq!(refused, refusal_of(operations));
    let refused = steer(&subject, repair("9", &["wilder"])).await;
    assert_eq!(refused, refusal_of(vec![named("wild", "900")]));
    let all = repair("9", &["wild", "wilder"]);
    let told = done(&steer(&subject, all.clone()).await);
    assert_eq!(told, (Incarnation(2), Some(token("9")), false));
    subject.restart().await;
    // Once is enough, and what was applied before counts no more.
    assert_eq!(done(&steer(&subject, all).await), told);
    let instance = own(&subject);
    carry_out(&subject, "on", "9", instance).await;
    let told = done(&steer(&subject, repair("8", &["on"])).await);
    assert_eq!(told, (Incarnation(3), Some(token("8")), false));
    let events = subject.read().operation(&key("wild"), false).await;
    let events = events.unwrap().unwrap().events;
    assert!(
        events
            .iter()
            .any(|it| it.text.contains("disowned by alice")),
        "{events:?}"
    );
}

pub(super) async fn so_many_are_no_accident_of_one_wild_token(subject: Subject) {
    let instance = own(&subject);
    let ids: Vec<String> = (0..260).map(|number| format!("wild-{number}")).collect();
    for id in &ids {
        carry_out(&subject, id, "900", instance).await;
    }
    let disown = ids.iter().map(OperationId::new).collect();
    let to = Some(token("9"));
    let refused = steer(&subject, Steering::Repair { to, disown }).await;
    let Steered::NotRepaired(NotRepaired::Applied { more, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert!(more);
}

async fn begin(subject: &Subject) -> u64 {
    let new = NewEpoch {
        operator: "alice".to_owned(),
        reason: "the token server was restored".to_owned(),
        at: at(3_000),
    };
    subject.read().begin_epoch(&new).await.unwrap()
}

pub(super) async fn in_a_new_epoch_every_token_of_before_is_stale(mut subject: Subject) {
    let instance = own(&subject);
    carry_out(&subject, "a", "107", instance).await;
    assert_eq!(begin(&subject).await, 1);
    for (resource, mark) in [("r", Some(token("107"))), ("never-seen", None)] {
        let late = fenced("late", resource, "900", instance);
        let stale = Rejection::StaleToken {
            presented: token("900"),
            current: mark,
            epoch: Some(1),
        };
        assert_eq!(refusal(&subject, late).await, stale);
    }
    // What was done before is told all the same.
    subject.restart().await;
    let instance = own(&subject);
    assert_eq!(subject.read().epoch().await.unwrap(), 1);
    let late = refusal(&subject, fenced("late", "r", "900", instance)).await;
    assert!(matches!(late, Rejection::StaleToken { .. }), "{late:?}");
    carry_out(&subject, "b", "1:1", instance).await;
    assert_eq!(begin(&subject).await, 2);
    let late = refusal(&subject, fenced("late", "r", "1:2", instance)).await;
    assert!(matches!(late, Rejection::StaleToken { .. }), "{late:?}");
}

async fn lease(subject: &Subject, resource: &str, wish: Wish) -> LeaseReply {
    let leasing = Leasing {
        resource: resource_key(resource),
        wish,
        seen: None,
        at: at(1_000),
    };
    subject.register().lease(leasing).await.unwrap()
}

fn acquire(acquisition: &str) -> Wish {
    Wish::Acquire {
        acquisition: AcquisitionId::new(acquisition),
        holder: "worker-1".to_owned(),
        ttl: Millis(30_000),
    }
}

fn owned(reply: LeaseReply) -> FencingToken {
    match reply {
        LeaseReply::Granted(lease) => lease.token,
        other => panic!("{other:?}"),
    }
}

/// Contract §7: holders reacquire. Also where another source counted in the epoch of before.
pub(super) async fn in_a_new_epoch_leases_of_before_are_lost(subject: Subject) {
    let instance = own(&subject);
    assert_eq!(owned(lease(&subject, "r", acquire("a")).await), token("1"));
    let permit = granted(&subject, &fenced("x", "counted-elsewhere", "7", instance)).await;
    record(&subject, permit, applied()).await;
    let other = lease(&subject, "counted-elsewhere", acquire("c")).await;
    assert!(matches!(other, LeaseReply::OtherSource(_)), "{other:?}");
    assert_eq!(begin(&subject).await, 1);
    let acquisition = AcquisitionId::new("a");
    let renewed = lease(&subject, "r", Wish::Renew { acquisition }).await;
    assert_eq!(renewed, LeaseReply::Lost);
    // Nobody waits for its end.
    assert_eq!(
        owned(lease(&subject, "r", acquire("b")).await),
        token("1:1")
    );
    let counted_anew = lease(&subject, "counted-elsewhere", acquire("c")).await;
    assert_eq!(owned(counted_anew), token("1:1"));
    let mut late = fenced("late", "r", "1", instance);
    if let Some(shown) = &mut late.presented {
        shown.source = TokenSource::new(OWN_SOURCE);
        shown.acquisition = Some(AcquisitionId::new("a"));
    }
    let refused = refusal(&subject, c::again(&late)).await;
    let stale = Rejection::StaleToken {
        presented: token("1"),
        current: Some(token("1:1")),
        epoch: Some(1),
    };
    assert_eq!(refused, stale);
}
