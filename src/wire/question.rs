//! Questions about an operation, made of its stored request and its identity.
//!
//! What always holds: a question says who asks as the stored request did, with its credential and its account,
//! unless the config's own credential stands in; nothing of the effect itself travels with it: no key, no
//! condition, no signature, no content. Values in a target are escaped; what would make it a target of
//! something else is refused below (`upstream`).
//!
//! What it does not do: ask, or read an answer (`findings`).

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::principal;
use crate::config::{Content, Credential, PrincipalPart, Query, Value};
use crate::expression::{Missing, OperationFacts, PathParams, RequestFacts};
use crate::protocol::ids::Principal;
use crate::protocol::operation::{AttemptEnd, Operation};
use crate::protocol::outcome::{Fields, StoredRequest};

/// What a question is about. Owned, so that it can be looked into off the async workers.
pub struct Asked {
    request: Option<Stored>,
    id: String,
    key: Option<String>,
    reference: Option<String>,
    answers: String,
    token: Option<crate::protocol::ids::FencingToken>,
}

/// The request that the operation was sent as, taken apart.
struct Stored {
    method: Method,
    path: String,
    query: Option<String>,
    params: PathParams,
    headers: HeaderMap,
    whole: StoredRequest,
}

/// Which credential a question carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bearing {
    /// That of the stored request.
    Stored,
    /// The config's own.
    StandIn,
}

/// Fields that say something of the effect, or of the exchange it was sent in, and nothing of who asks.
const OF_THE_EFFECT: [&str; 14] = [
    "accept-encoding",
    "content-digest",
    "content-md5",
    "digest",
    "expect",
    "idempotency-key",
    "prefer",
    "priority",
    "range",
    "repr-digest",
    "signature",
    "signature-input",
    "traceparent",
    "tracestate",
];

impl Asked {
    /// About an operation, sent as `request`, whose path captured the parameters. `key`: the key that it was
    /// sent under; `None` where there was none. `reference`: the text that it carries for questions; without one,
    /// no question can be made of it.
    pub fn about(
        operation: &Operation,
        request: Option<(StoredRequest, PathParams)>,
        key: Option<String>,
        reference: Option<String>,
    ) -> Self {
        Self {
            request: request.and_then(|(whole, params)| Stored::of(whole, params)),
            id: operation.key.id.as_str().to_owned(),
            key,
            reference,
            answers: answers(operation),
            token: operation.place.as_ref().and_then(|place| place.token),
        }
    }

    /// The request that the operation was sent as, where it is kept.
    pub fn request(&self) -> Option<&StoredRequest> {
        self.request.as_ref().map(|stored| &stored.whole)
    }

    /// By what selects accounts now: is it of that one? Without the request only who has none is known.
    pub fn is_of(&self, account: &Principal, parts: &[PrincipalPart]) -> bool {
        let now = match &self.request {
            Some(stored) => principal::of_stored(parts, &stored.headers),
            None => parts.is_empty().then_some(Principal::None),
        };
        now.as_ref() == Some(account)
    }

    /// Hands what conditions and templates read from to `read`.
    pub fn facts<T>(&self, read: impl FnOnce(&RequestFacts<'_>) -> T) -> T {
        let nothing = (Method::POST, HeaderMap::new(), PathParams::default());
        let operation = OperationFacts {
            id: &self.id,
            key: self.key.as_deref(),
            reference: self.reference.as_deref(),
            answers: Some(&self.answers),
        };
        let facts = match &self.request {
            Some(stored) => RequestFacts {
                method: &stored.method,
                raw_path: &stored.path,
                path: &stored.params,
                query: stored.query.as_deref(),
                headers: &stored.headers,
                body: &stored.whole.body,
                token: self.token,
                operation: Some(operation),
            },
            None => RequestFacts {
                method: &nothing.0,
                raw_path: "/",
                path: &nothing.2,
                query: None,
                headers: &nothing.1,
                body: b"",
                token: self.token,
                operation: Some(operation),
            },
        };
        read(&facts)
    }

    /// The question. `page`: which page of the answer, where it has more than one.
    pub fn question(
        &self,
        query: &Query,
        bearing: Bearing,
        page: Option<(&str, &str)>,
        key_header: Option<&HeaderName>,
    ) -> Result<StoredRequest, Missing> {
        self.facts(|facts| {
            let mut target = query.target.render_for_target(facts)?;
            if let Some((parameter, value)) = page {
                target.push(if target.contains('?') { '&' } else { '?' });
                target.push_str(&pair(parameter, value));
            }
            let (content, content_type) = match &query.content {
                None => (Bytes::new(), None),
                Some(content) => {
                    let (bytes, media) = written(content, facts)?;
                    (bytes, Some(media))
                }
            };
            let method: &[u8] = if query.content.is_some() {
                b"POST"
            } else {
                b"GET"
            };
            let credential = query.credential.as_ref();
            let credential = credential.filter(|_| bearing == Bearing::StandIn);
            let mut fields = self.fields(credential, key_header);
            let own = query.fields.iter();
            let own = own.map(|(name, value)| (name.as_str(), value.as_bytes()));
            for (name, value) in own.chain(content_type.map(|media| ("content-type", media))) {
                put(&mut fields, name, value);
            }
            if let Some(credential) = credential {
                let value = credential.value.expose().as_bytes();
                put(&mut fields, credential.header.as_str(), value);
            }
            Ok(StoredRequest {
                method: Bytes::from_static(method),
                target: Bytes::from(target),
                fields,
                body: content,
            })
        })
    }

    /// A GET of where the request was sent to.
    pub fn same_place(
        &self,
        credential: Option<&Credential>,
        key_header: Option<&HeaderName>,
    ) -> Option<StoredRequest> {
        let stored = self.request.as_ref()?;
        let mut fields = self.fields(credential, key_header);
        if let Some(credential) = credential {
            let value = credential.value.expose().as_bytes();
            put(&mut fields, credential.header.as_str(), value);
        }
        Some(StoredRequest {
            method: Bytes::from_static(b"GET"),
            target: stored.whole.target.clone(),
            fields,
            body: Bytes::new(),
        })
    }

    /// Who asks, as the stored request said it.
    fn fields(&self, instead: Option<&Credential>, key_header: Option<&HeaderName>) -> Fields {
        let Some(stored) = &self.request else {
            return Fields::new();
        };
        let is_asked = |name: &[u8]| {
            let text = String::from_utf8_lossy(name).to_ascii_lowercase();
            let of_content = text.starts_with("content-") || text.starts_with("if-");
            let is_key = key_header.is_some_and(|header| header.as_str() == text);
            let replaced = instead.is_some_and(|own| own.header.as_str() == text);
            !(of_content || is_key || replaced || OF_THE_EFFECT.contains(&text.as_str()))
        };
        let fields = stored.whole.fields.iter();
        fields.filter(|(name, _)| is_asked(name)).cloned().collect()
    }
}

/// The statuses of complete answers that proved nothing, each once.
fn answers(operation: &Operation) -> String {
    let mut statuses: Vec<String> = Vec::new();
    for attempt in &operation.attempts {
        if let AttemptEnd::Ambiguous(status) = attempt.end {
            let status = status.to_string();
            if !statuses.contains(&status) {
                statuses.push(status);
            }
        }
    }
    statuses.join(" ")
}

impl Stored {
    fn of(whole: StoredRequest, params: PathParams) -> Option<Self> {
        let method = Method::from_bytes(&whole.method).ok()?;
        let target = std::str::from_utf8(&whole.target).ok()?;
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (target, None),
        };
        let mut headers = HeaderMap::new();
        for (name, value) in &whole.fields {
            let name = HeaderName::from_bytes(name).ok()?;
            headers.append(name, HeaderValue::from_bytes(value).ok()?);
        }
        Some(Self {
            method,
            path: path.to_owned(),
            query,
            params,
            headers,
            whole,
        })
    }
}

/// Instead of any of its name.
fn put(fields: &mut Fields, name: &str, value: &[u8]) {
    fields.retain(|(known, _)| !known.eq_ignore_ascii_case(name.as_bytes()));
    fields.push((
        Bytes::copy_from_slice(name.as_bytes()),
        Bytes::copy_from_slice(value),
    ));
}

fn written(content: &Content, facts: &RequestFacts<'_>) -> Result<(Bytes, &'static [u8]), Missing> {
    match content {
        Content::Form(fields) => {
            let mut pairs = Vec::new();
            for (name, template) in fields {
                pairs.push(pair(name, &template.render_plainly(facts)?));
            }
            let media = b"application/x-www-form-urlencoded";
            Ok((pairs.join("&").into(), media))
        }
        Content::Json(members) => {
            let text = object(members, facts)?.to_string();
            Ok((text.into(), b"application/json"))
        }
    }
}

fn object(
    members: &[(String, Value)],
    facts: &RequestFacts<'_>,
) -> Result<serde_json::Value, Missing> {
    let mut object = serde_json::Map::new();
    for (name, value) in members {
        let value = match value {
            Value::Text(template) => template.render_plainly(facts)?.into(),
            Value::Object(members) => self::object(members, facts)?,
        };
        object.insert(name.clone(), value);
    }
    Ok(object.into())
}

fn pair(name: &str, value: &str) -> String {
    let escaped = |text| percent_encoding::utf8_percent_encode(text, RESERVED);
    format!("{}={}", escaped(name), escaped(value))
}

/// All but the unreserved characters (RFC 3986, 2.3).
const RESERVED: &percent_encoding::AsciiSet = &percent_encoding::NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');
