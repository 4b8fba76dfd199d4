//! Customer content: stored requests and answers, in the form that is sealed.
//!
//! What always holds: header fields keep their order, their duplicates and their bytes; decoding
//! copies nothing, every piece is a slice of the bytes that were opened.
//!
//! What it does not do: guard against changed bytes; the seal around it does.

use bytes::Bytes;

use super::primitives::{Reader, Writer};
use super::{Field, Malformed, VERSION, versioned};
use crate::protocol::outcome::{Answer, Fields, StoredRequest};

pub(in crate::store) fn encode_request(request: &StoredRequest) -> Vec<u8> {
    let StoredRequest {
        method,
        target,
        fields,
        body,
    } = request;
    let mut writer = Writer::default();
    writer.byte(VERSION);
    writer.bytes(method);
    writer.bytes(target);
    put_fields(fields, &mut writer);
    writer.bytes(body);
    writer.into_bytes()
}

pub(in crate::store) fn decode_request(bytes: Vec<u8>) -> Result<StoredRequest, Malformed> {
    let whole = Bytes::from(bytes);
    let mut reader = versioned(&whole)?;
    Ok(StoredRequest {
        method: slice(&whole, &mut reader)?,
        target: slice(&whole, &mut reader)?,
        fields: take_fields(&whole, &mut reader)?,
        body: slice(&whole, &mut reader)?,
    })
}

pub(in crate::store) fn encode_answer(answer: &Answer) -> Vec<u8> {
    let Answer {
        status,
        fields,
        body,
    } = answer;
    let mut writer = Writer::default();
    writer.byte(VERSION);
    status.put(&mut writer);
    put_fields(fields, &mut writer);
    body.is_some().put(&mut writer);
    if let Some(body) = body {
        writer.bytes(body);
    }
    writer.into_bytes()
}

pub(in crate::store) fn decode_answer(bytes: Vec<u8>) -> Result<Answer, Malformed> {
    let whole = Bytes::from(bytes);
    let mut reader = versioned(&whole)?;
    Ok(Answer {
        status: Field::take(&mut reader)?,
        fields: take_fields(&whole, &mut reader)?,
        body: if bool::take(&mut reader)? {
            Some(slice(&whole, &mut reader)?)
        } else {
            None
        },
    })
}

fn put_fields(fields: &Fields, writer: &mut Writer) {
    writer.number(u64::try_from(fields.len()).unwrap_or(u64::MAX));
    for (name, value) in fields {
        writer.bytes(name);
        writer.bytes(value);
    }
}

fn take_fields(whole: &Bytes, reader: &mut Reader<'_>) -> Result<Fields, Malformed> {
    let count = usize::try_from(reader.number()?).map_err(|_| Malformed::Truncated)?;
    if count > reader.room() {
        return Err(Malformed::Truncated);
    }
    (0..count)
        .map(|_| Ok((slice(whole, reader)?, slice(whole, reader)?)))
        .collect()
}

fn slice(whole: &Bytes, reader: &mut Reader<'_>) -> Result<Bytes, Malformed> {
    Ok(whole.slice_ref(reader.bytes()?))
}
