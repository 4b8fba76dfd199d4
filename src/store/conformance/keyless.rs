//! Requests without a key: which operation an equal one finds, the same in every backend.

use super::Subject;
use super::commands::{admit, applied, key, meaning};
use super::scenarios::{granted, own, record, rule};
use crate::protocol::command::{Admit, Ruling};
use crate::protocol::ids::{InstanceId, Principal, Tenant, UpstreamId};
use crate::protocol::operation::IdentityOrigin;
use crate::protocol::time::Millis;

fn keyless(id: &str, instance: InstanceId) -> Admit {
    Admit {
        origin: IdentityOrigin::Fresh,
        blind_retry: Some(Millis(300_000)),
        ..admit(id, instance)
    }
}

pub(super) async fn an_equal_request_without_a_key_finds_the_one_in_doubt(subject: Subject) {
    let instance = own(&subject);
    let _in_flight = granted(&subject, &admit("named", instance)).await;
    let other = Admit {
        meaning: meaning(2),
        ..keyless("other", instance)
    };
    let _in_flight = granted(&subject, &other).await;
    let mut elsewhere = keyless("elsewhere", instance);
    elsewhere.key.upstream = UpstreamId::new("another");
    let _in_flight = granted(&subject, &elsewhere).await;
    let mut somebody = keyless("somebody", instance);
    somebody.key.principal = Principal::Hashed([5; 16]);
    let _in_flight = granted(&subject, &somebody).await;
    let mut tenant = keyless("tenant", instance);
    tenant.key.tenant = Tenant::new("another");
    let _in_flight = granted(&subject, &tenant).await;

    // None of them: one has a key, one another payload, one another upstream, one another account, one
    // another tenant.
    let first = granted(&subject, &keyless("first", instance)).await;
    let joined = rule(&subject, keyless("second", instance)).await;
    assert!(
        matches!(&joined, Ruling::Join { key: found, .. } if *found == key("first")),
        "{joined:?}"
    );
    record(&subject, first, applied()).await;
    let _in_flight = granted(&subject, &keyless("third", instance)).await;
}
