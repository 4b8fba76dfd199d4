//! Every record comes back as it was written, and changed bytes are an error.

use proptest::collection::vec;
use proptest::prelude::*;

use super::samples::{answer, event, fence, key, note, operation, request};
use super::*;
use crate::protocol::ids::{
    Fingerprint, Incarnation, OperationId, Principal, ResourceName, Tenant, UpstreamId,
};
use crate::protocol::operation::State;

fn answer_of(operation: &Operation) -> Option<Answer> {
    match &operation.state {
        State::Completed(completion) => completion.answer.clone(),
        State::Intended | State::Uncertain | State::NeedsAttention(_) | State::NotApplied(_) => {
            None
        }
    }
}

proptest! {
    #[test]
    fn an_operation_comes_back(operation in operation()) {
        let bytes = encode_operation(&operation);
        let answer = answer_of(&operation).map(|answer| {
            decode_answer(encode_answer(&answer)).unwrap()
        });
        prop_assert_eq!(
            decode_operation(&bytes, operation.key.clone(), answer),
            Ok(operation)
        );
    }

    #[test]
    fn a_fence_comes_back(fence in fence()) {
        let bytes = encode_fence(&fence);
        prop_assert_eq!(decode_fence(&bytes, fence.resource.clone()), Ok(fence));
    }

    #[test]
    fn a_note_comes_back(note in note()) {
        let bytes = encode_note(&note);
        prop_assert_eq!(decode_note(&bytes, note.key.clone()), Ok(note));
    }

    #[test]
    fn an_event_comes_back(event in event()) {
        let bytes = encode_event(&event);
        prop_assert_eq!(decode_event(&bytes, event.key.clone()), Ok(event));
    }

    #[test]
    fn content_comes_back(request in request(), answer in answer()) {
        // Debug tells sizes only, and so would a failed assertion.
        prop_assert!(decode_request(encode_request(&request)).unwrap() == request);
        prop_assert!(decode_answer(encode_answer(&answer)).unwrap() == answer);
    }

    #[test]
    fn keys_differ_exactly_when_their_bytes_do(one in key(), other in key()) {
        prop_assert_eq!(one == other, encode_key(&one) == encode_key(&other));
    }

    #[test]
    fn a_changed_byte_or_a_cut_is_an_error(
        operation in operation(),
        index in any::<prop::sample::Index>(),
        flip in 1_u8..,
    ) {
        let bytes = encode_operation(&operation);
        let at = index.index(bytes.len());
        let mut changed = bytes.clone();
        changed[at] ^= flip;
        prop_assert!(decode_operation(&changed, operation.key.clone(), None).is_err());
        prop_assert!(decode_operation(&bytes[..at], operation.key, None).is_err());
    }

    /// Behind a right checksum, or an opened seal, still stands whatever somebody wrote.
    #[test]
    fn no_bytes_panic(key in key(), mut bytes in vec(any::<u8>(), 0..400)) {
        let _ = decode_answer(bytes.clone());
        let _ = decode_request(bytes.clone());
        if let Some(first) = bytes.first_mut() {
            *first = VERSION;
        }
        let _ = decode_answer(bytes.clone());
        let _ = decode_request(bytes.clone());
        let sum = checksum(&bytes);
        bytes.extend(sum);
        let resource = ResourceKey {
            tenant: key.tenant.clone(),
            name: ResourceName::new("r"),
        };
        let _ = decode_fence(&bytes, resource);
        let _ = decode_note(&bytes, key.clone());
        let _ = decode_event(&bytes, key.clone());
        let _ = decode_operation(&bytes, key, None);
    }
}

fn some_note() -> TwinNote {
    let key = OperationKey {
        tenant: Tenant::new("t"),
        upstream: UpstreamId::new("u"),
        principal: Principal::None,
        id: OperationId::new("i"),
        incarnation: Incarnation(0),
    };
    TwinNote {
        first: key.within(Incarnation(7)),
        key,
        fingerprint: Fingerprint {
            key: 1,
            form: 1,
            digest: [3; 32],
        },
    }
}

#[test]
fn fields_appended_by_a_later_version_are_left_alone() {
    let note = some_note();
    let bytes = framed(|writer| {
        fence::put_note(&note, writer);
        writer.bytes(b"a field of the future");
    });
    assert_eq!(decode_note(&bytes, note.key.clone()), Ok(note));
}

#[test]
fn a_record_of_a_newer_version_is_refused() {
    let note = some_note();
    let mut bytes = encode_note(&note);
    bytes.truncate(bytes.len() - CHECKSUM);
    bytes[0] = VERSION + 1;
    let sum = checksum(&bytes);
    bytes.extend(sum);
    let refused = decode_note(&bytes, note.key).unwrap_err();
    assert_eq!(refused, Malformed::Version(VERSION + 1));
    assert_eq!(
        refused.of(&"note"),
        StoreError::FormatTooNew { found: 2, known: 1 }
    );
}

#[test]
fn a_count_beyond_the_bytes_allocates_nothing() {
    let mut writer = Writer::default();
    writer.byte(VERSION);
    200_u16.put(&mut writer);
    writer.number(u64::MAX);
    assert_eq!(
        decode_answer(writer.into_bytes()),
        Err(Malformed::Truncated)
    );
}
