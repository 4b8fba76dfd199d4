//! The bytes of version 1, as they lie in registers out there.
//!
//! What always holds: these texts never change. A reader of any later version must give the values
//! beside them; a writer of version 1 must give the bytes. Whoever has to change one of them is
//! making version 2.

mod settling;

use bytes::Bytes;

use super::*;
use crate::protocol::fence::{Deed, Intervention, Latest};
use crate::protocol::ids::{
    AcquisitionId, AdmissionNumber, AttemptId, FencingToken, Fingerprint, Incarnation, InstanceId,
    OperationId, Principal, ResourceName, Round, Sequence, Tenant, TokenSource, UpstreamId,
};
use crate::protocol::lease::Lease;
use crate::protocol::meaning::{Grain, Members};
use crate::protocol::operation::{
    Attempt, AttemptEnd, Completion, IdentityOrigin, KeyUse, Place, State,
};
use crate::protocol::outcome::{Interruption, Phase, Provenance, StoredRequest, Verdict};
use crate::protocol::policy::{Capability, KeyPolicy, KeyValue, Order, Ownership, SettlePolicy};
use crate::protocol::settling::Settling;
use crate::protocol::steps::{ResendPolicy, Steps};
use crate::protocol::time::{BootId, BootInstant, Millis, Moment};

const OPERATION: &str = "\
    010101150c73746174656d656e743a34320101036c0109ac02010403020101bbbbbbbbbbbbbbbbbbbbbbbbbb\
    bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb2b0101cc00000000000000000000000000000001dd00000000\
    0000000000000000000000e90781d8c1a28c341604000101000107010180b8992901010605c801b0ea01042c\
    000101cc00000000000000000000000000000001dd000000000000000000000000000000ec0784d8c1a28c34\
    0156cc00000000000000000000000000000002010403020101bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\
    bbbbbbbbbbbbbbbbbbbbbbbbbbdd000000000000000000000000000000eb0783d8c1a28c34c8df0201010100\
    02010100dd000000000000000000000000000000e90781d8c1a28c34dd000000000000000000000000000000\
    ec0784d8c1a28c3489faadb9";
const FENCE: &str = "\
    010101036c010104657463640103612d310109012b087061796d656e74730673747269706501aaaaaaaaaaaa\
    aaaaaaaaaaaaaaaaaaaa086368617267653a310101ac02ab02070100036baa0200df0e9170";
const NOTE: &str = "\
    012b087061796d656e74730673747269706501aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa086368617267653a31\
    070403020101bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbcb58eebc";
const EVENT: &str = "\
    01dd000000000000000000000000000000ea0782d8c1a28c3401cc0000000000000000000000000000000112\
    6e65656473206120706572736f6e3a20c3a99b1dfc35";
const REQUEST: &str = "0104504f53540b2f76312f6368617267657301016101ff027b7d";
const ANSWER: &str = "01c9010101620001025b5d";

#[test]
fn what_an_operation_is_made_of_stands_behind_everything_else() {
    let operation = Operation {
        members: Members {
            grain: Grain::Outermost,
            digests: [0x0102_0304, 0xa0b0_c0d0].into(),
        },
        credentialed: true,
        ..operation()
    };
    let (older, _) = OPERATION.split_at(OPERATION.len() - 8);
    let text = to_hex(&encode_operation(&operation));
    assert_eq!(
        text,
        format!("{older}090104030201d0c0b0a001{}", &text[text.len() - 8..])
    );
    let answer = Some(answer());
    assert_eq!(
        decode_operation(&from_hex(&text), key(), answer),
        Ok(operation)
    );
}

#[test]
fn an_operation_of_version_1() {
    let bytes = from_hex(OPERATION);
    let answer = Some(answer());
    assert_eq!(decode_operation(&bytes, key(), answer), Ok(operation()));
    assert_eq!(to_hex(&encode_operation(&operation())), OPERATION);
}

#[test]
fn a_fence_of_version_1() {
    let bytes = from_hex(FENCE);
    assert_eq!(decode_fence(&bytes, fence().resource), Ok(fence()));
    assert_eq!(to_hex(&encode_fence(&fence())), FENCE);
}

/// A lease stands behind what persons did, and is left alone by whoever does not know of it.
#[test]
fn a_fence_with_a_lease() {
    let lease = Lease {
        acquisition: AcquisitionId::new("7c"),
        holder: "worker-1".to_owned(),
        token: FencingToken::new(3, 109).unwrap(),
        ttl: Millis(30_000),
        renewals: 2,
        since: moment(1),
    };
    let leased = Fence {
        issued: Some(lease.token),
        lease: Some(lease),
        ..fence()
    };
    let (older, _) = FENCE.split_at(FENCE.len() - 8);
    let text = to_hex(&encode_fence(&leased));
    assert!(text.starts_with(older), "{text}");
    let read = decode_fence(&from_hex(&text), leased.resource.clone());
    assert_eq!(read, Ok(leased));
}

/// What persons did stands behind everything else; a reader that does not know of it leaves it alone.
#[test]
fn a_fence_that_a_person_touched() {
    let touched = Fence {
        interventions: [Intervention {
            how: Deed::Advanced,
            operator: "al".to_owned(),
            reason: "so".to_owned(),
            at: moment(1),
        }]
        .into(),
        ..fence()
    };
    let (older, _) = FENCE.split_at(FENCE.len() - 8);
    let text = to_hex(&encode_fence(&touched));
    let appended = "011f0102616c02736fdd000000000000000000000000000000e90781d8c1a28c34";
    assert_eq!(
        text,
        format!("{older}{appended}{}", &text[text.len() - 8..])
    );
    let read = decode_fence(&from_hex(&text), touched.resource.clone());
    assert_eq!(read, Ok(touched));
}

#[test]
fn a_note_and_an_event_of_version_1() {
    assert_eq!(decode_note(&from_hex(NOTE), key()), Ok(note()));
    assert_eq!(to_hex(&encode_note(&note())), NOTE);
    assert_eq!(decode_event(&from_hex(EVENT), key()), Ok(event()));
    assert_eq!(to_hex(&encode_event(&event())), EVENT);
}

#[test]
fn content_of_version_1() {
    assert!(decode_request(from_hex(REQUEST)) == Ok(request()));
    assert_eq!(to_hex(&encode_request(&request())), REQUEST);
    assert!(decode_answer(from_hex(ANSWER)) == Ok(answer()));
    assert_eq!(to_hex(&encode_answer(&answer())), ANSWER);
}

fn operation() -> Operation {
    let attempt = Attempt {
        id: attempt_id(2),
        round: Round(1),
        fingerprint: fingerprint(),
        at: moment(3),
        overdue_after: Millis(45_000),
        resend: true,
        end: AttemptEnd::Open(Phase::Waiting, Interruption::Timeout),
    };
    Operation {
        key: key(),
        origin: IdentityOrigin::Derived,
        place: Some(Place {
            resource: ResourceName::new("statement:42"),
            incarnation: Incarnation(1),
            token: FencingToken::new(3, 108),
            sequence: Sequence::from_value(9),
            number: AdmissionNumber(300),
        }),
        order: Order::Free,
        fingerprint: fingerprint(),
        members: Members::default(),
        credentialed: false,
        key_use: KeyUse {
            round: Round(1),
            first: Some((attempt_id(1), moment(1))),
        },
        settle: SettlePolicy {
            capability: Capability {
                conditional: false,
                idempotent: true,
                query: true,
                callback: false,
            },
            key: Some(KeyPolicy {
                value: KeyValue::Caller,
                lifetime: Some(Millis(86_400_000)),
                remembers_refusals: true,
                placing: None,
            }),
            steps: Steps::resends(Some(ResendPolicy {
                attempts: 5,
                backoff_from: Millis(200),
                backoff_to: Millis(30_000),
            })),
            way: None,
        },
        state: State::Completed(Completion {
            verdict: Verdict::Applied,
            provenance: Provenance::LookUp,
            attempt: Some(attempt_id(1)),
            answer: Some(answer()),
            at: moment(4),
        }),
        attempts: vec![attempt],
        admitted: 2,
        resends: 1,
        require: Ownership::Current,
        request_kept: false,
        first_seen: moment(1),
        changed: moment(4),
        settling: Settling::default(),
    }
}

fn fence() -> Fence {
    Fence {
        resource: ResourceKey {
            tenant: Tenant::new("payments"),
            name: ResourceName::new("statement:42"),
        },
        incarnation: Incarnation(1),
        mark: FencingToken::new(3, 108),
        closed: true,
        source: Some(TokenSource::new("etcd")),
        acquisition: Some(AcquisitionId::new("a-1")),
        sequence: Sequence::from_value(9),
        first: Some(key()),
        cancelled: true,
        admissions: AdmissionNumber(300),
        cut_off: AdmissionNumber(299),
        latest: Latest {
            generation: FencingToken::new(3, 107).map(|token| (Incarnation(0), token)),
            strict: AdmissionNumber(298),
            tokenless: AdmissionNumber(0),
        },
        interventions: std::sync::Arc::default(),
        issued: None,
        lease: None,
        shut: None,
    }
}

fn note() -> TwinNote {
    TwinNote {
        key: key(),
        first: key().within(Incarnation(7)),
        fingerprint: fingerprint(),
    }
}

fn event() -> Event {
    Event {
        key: key(),
        at: moment(2),
        attempt: Some(attempt_id(1)),
        text: "needs a person: é".to_owned(),
    }
}

fn request() -> StoredRequest {
    StoredRequest {
        method: Bytes::from_static(b"POST"),
        target: Bytes::from_static(b"/v1/charges"),
        fields: vec![(Bytes::from_static(b"a"), Bytes::from_static(b"\xff"))],
        body: Bytes::from_static(b"{}"),
    }
}

fn answer() -> Answer {
    Answer {
        status: 201,
        fields: vec![(Bytes::from_static(b"b"), Bytes::new())],
        body: Some(Bytes::from_static(b"[]")),
    }
}

fn key() -> OperationKey {
    OperationKey {
        tenant: Tenant::new("payments"),
        upstream: UpstreamId::new("stripe"),
        principal: Principal::Hashed([0xaa; 16]),
        id: OperationId::new("charge:1"),
        incarnation: Incarnation(1),
    }
}

fn fingerprint() -> Fingerprint {
    Fingerprint {
        key: 0x0102_0304,
        form: 1,
        digest: [0xbb; 32],
    }
}

fn attempt_id(number: u64) -> AttemptId {
    AttemptId {
        instance: InstanceId(0xcc),
        number,
    }
}

fn moment(n: u64) -> Moment {
    Moment {
        boot: BootId(0xdd),
        boottime: BootInstant(1_000 + n),
        wall_ms: 1_790_000_000_000 + n,
    }
}

fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    let pair = |byte: &u8| [digit(byte >> 4), digit(byte & 0xf)];
    bytes.iter().flat_map(pair).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    let pair = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(pair).collect()
}
