//! Putting the upstream's key, and references, into a request.
//!
//! What always holds: the same request and the same operation make the same bytes, now and in every
//! resend; nothing but the text that is put in differs from what the caller sent. A text that stands
//! there already is never written over: the caller's own key may stand where it goes, anything else
//! refuses the request. Whatever is put in at dispatch was put in once, as a trial, when the request was
//! identified: so that what cannot be done is found out before an intent exists.
//!
//! What it does not do: derive keys (`keys`), or choose places (`config`).

mod form;
mod graphql;
mod json;
mod signature;

use std::borrow::Cow;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::keys;
use crate::config::{IfPresent, Insert, KeyRule, ReferencePart, ReferenceRule, Signed, Slot};
use crate::expression::{PathParams, RequestFacts, WhyMissing};
use crate::protocol::ids::{OperationKey, Round};
use crate::protocol::operation::IdentityOrigin;
use crate::protocol::outcome::StoredRequest;

/// Whose request it is.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    /// The operation, within its incarnation.
    pub key: &'a OperationKey,
    /// Where its id came from.
    pub origin: IdentityOrigin,
    /// The round of its key.
    pub round: Round,
}

/// A request with everything in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filled {
    /// As it goes out, but for a key in a header.
    pub request: StoredRequest,
    /// The key in a header.
    pub field: Option<(HeaderName, String)>,
    /// Does it go without the key that its upstream honours, because it is signed?
    pub keyless: bool,
}

/// Something cannot be put into a request. To be answered before anything is admitted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} goes into {slot}, and {why}")]
pub struct NotInsertable {
    what: &'static str,
    slot: String,
    why: Why,
}

/// Why not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Why {
    #[error("something stands there already")]
    Present,
    #[error("what stands there {0}")]
    Unfit(WhyMissing),
    #[error("the content cannot be read as what that needs")]
    Content,
    #[error("the content is encoded (Content-Encoding), or says what it is twice")]
    Coded,
    #[error("the content is not a JSON object")]
    NotObject,
    #[error("what would hold it is there and is no JSON object")]
    NoRoom,
    #[error("the JSON array that would hold it has no such element")]
    NoElement,
    #[error("the document is not one operation that declares and uses the variable")]
    NotDeclared,
    #[error("the multipart content does not begin with its first part")]
    Preamble,
    #[error("it would be longer than the {0} bytes that are taken there")]
    TooLong(usize),
    #[error("the request is signed ({0}): that would break the signature")]
    Signed(String),
    #[error("it is no text for a header field")]
    Field,
}

/// The request with key and references in it.
pub fn filled(
    insert: &Insert,
    request: &StoredRequest,
    named: Named<'_>,
) -> Result<Filled, NotInsertable> {
    let signed = signature::of(request, insert);
    let mut filled = Filled {
        request: request.clone(),
        field: None,
        keyless: false,
    };
    if signed.is_some() && insert.signed == Signed::LeftAlone {
        leave_alone(insert, named, &mut filled)?;
        return Ok(filled);
    }
    for rule in &insert.references {
        let text = reference(rule, named)?;
        if let Some(within) = with_reference(rule, &filled.request, &text)? {
            filled.request = unsigned(within, "the reference", &rule.slot, signed.as_deref())?;
        }
    }
    if let Some(rule) = &insert.key {
        let text = keys::by_rule(rule, named.origin, named.key, named.round);
        match rule.slot.header() {
            Some(header) => filled.field = Some((header.clone(), text)),
            None => {
                if let Some(within) = with_key(rule, &filled.request, &text, named.origin)? {
                    filled.request = unsigned(within, KEY, &rule.slot, signed.as_deref())?;
                }
            }
        }
    }
    Ok(filled)
}

/// The texts of the references, by place; `None`: that one is not put in. Of a request that
/// [`filled`] takes.
pub fn references<'i>(
    insert: &'i Insert,
    request: &StoredRequest,
    named: Named<'_>,
) -> Vec<(&'i Slot, Option<String>)> {
    let is_left_alone =
        insert.signed == Signed::LeftAlone && signature::of(request, insert).is_some();
    let rules = insert.references.iter().map(|rule| {
        let is_free = present(&rule.slot, request) == Err(WhyMissing::Absent);
        let text = reference(rule, named).ok();
        (&rule.slot, text.filter(|_| is_free && !is_left_alone))
    });
    rules.collect()
}

/// Does a request carry the operation's reference, as [`filled`] sends it? `None`: the request is not kept, and
/// only what is in all of the effect's requests is known to be in it.
pub fn carried_reference(
    insert: &Insert,
    request: Option<&StoredRequest>,
    named: Named<'_>,
) -> Option<String> {
    let digest = keys::reference(named.key);
    let is_carried = if let Some(request) = request {
        let texts = references(insert, request, named);
        let mut texts = texts.into_iter().filter_map(|(_, text)| text);
        texts.any(|text| text.contains(&digest))
    } else {
        let always = insert.signed != Signed::LeftAlone;
        always && insert.references.iter().any(is_always_the_digest)
    };
    is_carried.then_some(digest)
}

fn is_always_the_digest(rule: &ReferenceRule) -> bool {
    let digest = |part: &ReferencePart| matches!(part, ReferencePart::Digest);
    rule.if_present == IfPresent::Refuse && rule.value.iter().any(digest)
}

const KEY: &str = "the upstream's key";

/// Nothing is put into query or content; a key in a header goes on, since it covers nothing.
fn leave_alone(
    insert: &Insert,
    named: Named<'_>,
    filled: &mut Filled,
) -> Result<(), NotInsertable> {
    let Some(rule) = &insert.key else {
        return Ok(());
    };
    let text = keys::by_rule(rule, named.origin, named.key, named.round);
    if let Some(header) = rule.slot.header() {
        filled.field = Some((header.clone(), text));
        return Ok(());
    }
    // It brings its own, or it has none.
    let own = present(&rule.slot, &filled.request);
    let is_own = own.as_deref() == Ok(text.as_str())
        && rule.is_callers()
        && named.origin == IdentityOrigin::Caller;
    match own {
        Ok(_) if is_own => {}
        Ok(_) => return Err(refusal(KEY, &rule.slot, Why::Present)),
        Err(_) => filled.keyless = true,
    }
    Ok(())
}

/// With the key in query or content; `None`: it is there, the caller brought it.
fn with_key(
    rule: &KeyRule,
    request: &StoredRequest,
    text: &str,
    origin: IdentityOrigin,
) -> Result<Option<StoredRequest>, NotInsertable> {
    let is_callers = rule.is_callers() && origin == IdentityOrigin::Caller;
    match present(&rule.slot, request) {
        Ok(own) if is_callers && own == text => Ok(None),
        Ok(_) => Err(refusal(KEY, &rule.slot, Why::Present)),
        Err(WhyMissing::Absent) => inserted(&rule.slot, request, text)
            .map(Some)
            .map_err(|why| refusal(KEY, &rule.slot, why)),
        Err(why) => Err(refusal(KEY, &rule.slot, unfit(why))),
    }
}

/// With the reference; `None`: the request keeps its own.
fn with_reference(
    rule: &ReferenceRule,
    request: &StoredRequest,
    text: &str,
) -> Result<Option<StoredRequest>, NotInsertable> {
    let refused = |why| refusal("the reference", &rule.slot, why);
    match present(&rule.slot, request) {
        Err(WhyMissing::Absent) => inserted(&rule.slot, request, text)
            .map(Some)
            .map_err(refused),
        Err(WhyMissing::Unreadable) => Err(refused(Why::Content)),
        Ok(_) | Err(_) if rule.if_present == IfPresent::Keep => Ok(None),
        Ok(_) => Err(refused(Why::Present)),
        Err(why) => Err(refused(unfit(why))),
    }
}

fn reference(rule: &ReferenceRule, named: Named<'_>) -> Result<String, NotInsertable> {
    let parts = rule.value.iter().map(|part| match part {
        ReferencePart::Text(text) => Cow::Borrowed(text.as_str()),
        ReferencePart::Id => Cow::Borrowed(named.key.id.as_str()),
        ReferencePart::Digest => Cow::Owned(keys::reference(named.key)),
    });
    let text: String = parts.collect();
    match rule.longest.filter(|longest| text.len() > *longest) {
        None => Ok(text),
        Some(longest) => Err(refusal("the reference", &rule.slot, Why::TooLong(longest))),
    }
}

/// A request that was changed must not be signed.
fn unsigned(
    request: StoredRequest,
    what: &'static str,
    slot: &Slot,
    signed: Option<&str>,
) -> Result<StoredRequest, NotInsertable> {
    match signed.filter(|_| slot.is_within()) {
        None => Ok(request),
        Some(by) => Err(refusal(what, slot, Why::Signed(by.to_owned()))),
    }
}

fn refusal(what: &'static str, slot: &Slot, why: Why) -> NotInsertable {
    NotInsertable {
        what,
        slot: slot.to_string(),
        why,
    }
}

fn unfit(why: WhyMissing) -> Why {
    match why {
        WhyMissing::Unreadable => Why::Content,
        WhyMissing::Absent
        | WhyMissing::Empty
        | WhyMissing::Repeated
        | WhyMissing::TooLong
        | WhyMissing::NotText
        | WhyMissing::NotScalar
        | WhyMissing::Inexact
        | WhyMissing::TooMuch
        | WhyMissing::Failed => Why::Unfit(why),
    }
}

/// The one text that stands at a place.
fn present(slot: &Slot, request: &StoredRequest) -> Result<String, WhyMissing> {
    let headers = headers(request).ok_or(WhyMissing::Unreadable)?;
    let target = std::str::from_utf8(&request.target).map_err(|_| WhyMissing::Unreadable)?;
    let facts = RequestFacts {
        method: &Method::POST,
        raw_path: "/",
        path: &PathParams::default(),
        query: target.split_once('?').map(|(_, query)| query),
        headers: &headers,
        body: &request.body,
        token: None,
        operation: None,
    };
    let read = slot.member().read(&facts);
    read.map(Cow::into_owned).map_err(|missing| missing.why)
}

fn headers(request: &StoredRequest) -> Option<HeaderMap> {
    let mut headers = HeaderMap::with_capacity(request.fields.len());
    for (name, value) in &request.fields {
        let name = HeaderName::from_bytes(name).ok()?;
        headers.append(name, HeaderValue::from_bytes(value).ok()?);
    }
    Some(headers)
}

/// With the text at a place where nothing stands.
fn inserted(slot: &Slot, request: &StoredRequest, text: &str) -> Result<StoredRequest, Why> {
    let mut changed = request.clone();
    match slot {
        Slot::Header(name) => {
            HeaderValue::from_str(text).map_err(|_| Why::Field)?;
            let name = Bytes::copy_from_slice(name.as_str().as_bytes());
            changed
                .fields
                .push((name, Bytes::copy_from_slice(text.as_bytes())));
        }
        Slot::Query(name) => {
            let target = std::str::from_utf8(&request.target).map_err(|_| Why::Content)?;
            changed.target = Bytes::from(form::in_target(target, name, text));
        }
        Slot::Form(name) => {
            let declared = content_type(request)?;
            changed.body = Bytes::from(form::in_content(declared, &request.body, name, text)?);
        }
        Slot::Json(pointer) => {
            is_json(content_type(request)?)?;
            changed.body = Bytes::from(json::with(&request.body, pointer.tokens(), text)?);
        }
        Slot::GraphQl(name) => {
            is_json(content_type(request)?)?;
            graphql::uses(&request.body, name)?;
            changed.body = Bytes::from(json::with_variable(&request.body, name, text)?);
        }
    }
    Ok(changed)
}

/// `application/json`, `…+json`, or nothing said.
fn is_json(declared: &str) -> Result<(), Why> {
    let essence = declared.split(';').next().unwrap_or_default().trim();
    let essence = essence.to_ascii_lowercase();
    let is_json = essence.is_empty() || essence == "application/json" || essence.ends_with("+json");
    is_json.then_some(()).ok_or(Why::Content)
}

/// What the content says it is, once and in plain.
fn content_type(request: &StoredRequest) -> Result<&str, Why> {
    let of = |wanted: &'static [u8]| {
        let fields = request.fields.iter();
        fields.filter(move |(name, _)| name.eq_ignore_ascii_case(wanted))
    };
    let mut types = of(CONTENT_TYPE.as_str().as_bytes());
    let declared = types.next().map_or(Ok(""), |(_, value)| {
        std::str::from_utf8(value).map_err(|_| Why::Coded)
    })?;
    if types.next().is_some() || of(b"content-encoding").next().is_some() {
        return Err(Why::Coded);
    }
    Ok(declared)
}

#[cfg(test)]
mod tests;
