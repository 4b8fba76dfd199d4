//! From a request to the question that is put to the register.
//!
//! What always holds: identity, resource, token and fingerprint come from the request and the rule
//! alone. A value that cannot be had refuses the request and names the field; nothing weaker takes
//! its place. A token, sequence or acquisition is the exact text of one field: doubled, empty or
//! unreadable ones are malformed, never absent. The bytes kept are the caller's but for what hygiene
//! holds back, and what the canonical form sees are the caller's own.
//!
//! What it does not do: decide (`protocol`), or make ids at
//! random: where a caller names no operation and need not, its first attempt's id stands in, which is
//! unique for ever.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{IF_MATCH, IF_NONE_MATCH};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::caller::Caller;
use super::fingerprint::FingerprintKey;
use super::hygiene::{self, stored_request};
use super::insertion::{self, Named};
use super::keys::{self, LONGEST_KEY};
use super::meaning;
use super::principal::principal;
use super::problem::{About, Fault};
use super::route::fence_fields;
use super::stamp::{Stamps, Standing, Token};
pub use super::unidentified::Unidentified;
use crate::config::{Fence, KeyFormat, KeyRule, Means, Protect, Upstream};
use crate::expression::{
    Member, Missing, OperationFacts, PathParams, RequestFacts, Template, WhyMissing,
};
use crate::protocol::command::{Admit, Presented, TokenField};
use crate::protocol::ids::{
    AcquisitionId, AttemptId, FencingToken, Incarnation, OperationId, OperationKey, ResourceKey,
    ResourceName, Round, Sequence, Tenant,
};
use crate::protocol::lease::LeaseFacts;
use crate::protocol::meaning::{Meaning, Members};
use crate::protocol::operation::IdentityOrigin;
use crate::protocol::outcome::StoredRequest;
use crate::protocol::policy::Policy;
use crate::protocol::rejection::Rejection;
use crate::protocol::time::{Millis, Moment};

/// What is the same for all requests to one upstream.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// Namespace in the register.
    pub tenant: &'a Tenant,
    /// Where the effect goes.
    pub upstream: &'a Upstream,
    /// Shared by all sidecars of the register.
    pub fingerprints: &'a FingerprintKey,
}

/// A request that is known to be an effect, read whole.
#[derive(Clone, Debug)]
pub struct Effect<'a> {
    /// Its rule.
    pub protect: &'a Protect,
    /// What its path captured.
    pub params: &'a PathParams,
    /// Its head, as received.
    pub head: &'a Parts,
    /// Its content.
    pub body: Bytes,
    /// Who sent it.
    pub caller: &'a Caller,
    /// The attempt that it would start first: names the operation where nothing else does.
    pub first_attempt: AttemptId,
    /// What is held on its sender's behalf.
    pub stamps: &'a Stamps,
}

/// A request as it came, kept to say in what it differs from the first of its identity.
#[derive(Clone, Debug)]
pub struct Original {
    /// What its path captured.
    pub params: PathParams,
    /// Its head.
    pub head: Parts,
    /// Its content.
    pub body: Bytes,
}

/// Everything that an admission needs, but for the moment it is asked at.
#[derive(Clone, Debug)]
pub struct Identified {
    /// Identity, within incarnation 0.
    pub key: OperationKey,
    /// Is the incarnation of the fence part of it?
    pub follows_incarnation: bool,
    /// Where it came from.
    pub origin: IdentityOrigin,
    /// What the request means.
    pub meaning: Meaning,
    /// Does it carry a credential?
    pub credentialed: bool,
    /// If it has no key: how long after the first one it may be a repeat.
    pub blind_retry: Option<Millis>,
    /// The resource and what was presented for it.
    pub presented: Option<Presented>,
    /// Of which ownership what was presented is, where that is held on its sender's behalf.
    pub stamped: Option<Standing>,
    /// Does it carry its condition to an upstream that checks it?
    pub conditional: bool,
    /// The rules.
    pub policy: Arc<Policy>,
    /// The bytes.
    pub request: Arc<StoredRequest>,
}

impl Original {
    /// Names of the members in which it differs from the request that `first` are of, never their
    /// values; empty where that cannot be told.
    pub fn differences(&self, key: &FingerprintKey, rule: &Means, first: &Members) -> Vec<String> {
        let facts = RequestFacts {
            method: &self.head.method,
            raw_path: self.head.uri.path(),
            path: &self.params,
            query: self.head.uri.query(),
            headers: &self.head.headers,
            body: &self.body,
            token: None,
            operation: None,
        };
        meaning::differences(key, rule, &self.head, &facts, first)
    }
}

impl Identified {
    /// The question, asked now. `reserved`: is a connection at hand?
    pub fn admit(&self, attempt: AttemptId, at: Moment, reserved: bool) -> Admit {
        Admit {
            key: self.key.clone(),
            follows_incarnation: self.follows_incarnation,
            origin: self.origin,
            meaning: self.meaning.clone(),
            credentialed: self.credentialed,
            blind_retry: self.blind_retry,
            presented: self.presented.clone(),
            policy: Arc::clone(&self.policy),
            request: Arc::clone(&self.request),
            conditional: self.conditional,
            attempt,
            at,
            reserved,
            lease: LeaseFacts::unknown(),
        }
    }

    /// The resource, where the effect is fenced.
    pub fn resource(&self) -> Option<&ResourceKey> {
        self.presented.as_ref().map(|presented| &presented.resource)
    }

    /// What problems of this request are about.
    pub fn about(&self) -> About<'_> {
        About {
            operation: Some(&self.key),
            resource: self.resource(),
            stamped: self.stamped,
            ..About::default()
        }
    }
}

/// Finds out what a request is.
pub fn identify(scope: Scope<'_>, effect: Effect<'_>) -> Result<Identified, Unidentified> {
    let Effect { protect, head, .. } = effect;
    let headers = with_plain_key(&head.headers, protect)?;
    let facts = RequestFacts {
        method: &head.method,
        raw_path: head.uri.path(),
        path: effect.params,
        query: head.uri.query(),
        headers: &headers,
        body: &effect.body,
        token: None,
        operation: None,
    };
    let token = protect
        .fence
        .as_ref()
        .map_or(TokenField::Absent, |fence| token(fence, &facts));
    let (stamp, stamped) = effect.stamps.stamp(protect, token, &facts)?.unzip();
    let token = stamp.map_or(token, |stamp| TokenField::Token(stamp.token));
    let facts = RequestFacts {
        token: readable(token),
        ..facts
    };
    let (id, origin) = operation_id(&effect, &facts, token)?;
    let facts = RequestFacts {
        operation: Some(OperationFacts::of_id(&id)),
        ..facts
    };
    let presented = protect
        .fence
        .as_ref()
        .map(|fence| presented(scope.tenant, fence, (token, stamp), &facts))
        .transpose()?;
    let principal = principal(scope.upstream, &head.headers, effect.caller)?;
    let meaning = meaning::meaning(scope.fingerprints, &protect.means, head, &facts)?;
    let request = stored_request(head, effect.body, &withheld(protect));
    let key = OperationKey {
        tenant: scope.tenant.clone(),
        upstream: scope.upstream.id.clone(),
        principal,
        id: OperationId::new(id),
        incarnation: Incarnation::default(),
    };
    let policy = policy_of(protect, &request, &key, origin)?;
    Ok(Identified {
        follows_incarnation: presented.is_some() && protect.once.template.follows_incarnation(),
        key,
        origin,
        meaning,
        blind_retry: protect
            .blind_retry
            .filter(|_| origin == IdentityOrigin::Fresh),
        credentialed: hygiene::carries_credential(&head.headers),
        presented,
        stamped,
        conditional: scope.upstream.capability.conditional && conditional(&head.headers),
        policy: Arc::clone(policy),
        request: Arc::new(request),
    })
}

/// The caller's headers, with its key bare: `"abc"` and `abc` are one, wherever a rule names it.
fn with_plain_key<'a>(
    headers: &'a HeaderMap,
    protect: &Protect,
) -> Result<Cow<'a, HeaderMap>, Fault> {
    let name = &protect.caller_key_header;
    let fence = protect.fence.as_ref();
    let named = |template: &Template| template.reads_header(name);
    if !named(&protect.once.template) && !fence.is_some_and(|fence| named(&fence.resource)) {
        return Ok(Cow::Borrowed(headers));
    }
    let malformed = || Fault::KeyMalformed {
        header: name.clone(),
    };
    match keys::caller_key(headers, name).map_err(|_| malformed())? {
        Some(key) if headers.get(name).is_some_and(|sent| *sent != key) => {
            let mut plain = headers.clone();
            let key = HeaderValue::try_from(key).map_err(|_| malformed())?;
            plain.insert(name.clone(), key);
            Ok(Cow::Owned(plain))
        }
        Some(_) | None => Ok(Cow::Borrowed(headers)),
    }
}

fn operation_id(
    effect: &Effect<'_>,
    facts: &RequestFacts<'_>,
    token: TokenField,
) -> Result<(String, IdentityOrigin), Unidentified> {
    let once = &effect.protect.once;
    needs_token(&once.template, token)?;
    let id = match once.read(facts) {
        Ok(Some(id)) => id,
        Ok(None) => {
            let id = format!("fresh:{}", effect.first_attempt);
            return Ok((id, IdentityOrigin::Fresh));
        }
        Err(missing) => return Err(lacking(effect.protect, missing)),
    };
    if let Some(rule) = &effect.protect.insert.key
        && rule.is_callers()
        && once.origin == IdentityOrigin::Caller
    {
        fits_upstream(rule, &id)?;
    }
    Ok((id, once.origin))
}

/// A caller that left out its key is told so in those words.
fn lacking(protect: &Protect, missing: Missing) -> Unidentified {
    let header = &protect.caller_key_header;
    let is_key = matches!(
        protect.once.template.single_value(),
        Some(Member::Header(name)) if name == header
    );
    if is_key && missing.why == WhyMissing::Absent {
        let header = header.clone();
        return Fault::KeyRequired { header }.into();
    }
    missing.into()
}

/// An id that is to be the upstream's key has to be one it takes.
fn fits_upstream(rule: &KeyRule, id: &str) -> Result<(), Fault> {
    let longest = rule.longest.unwrap_or(LONGEST_KEY);
    let is_visible = id.len() <= longest && id.bytes().all(|byte| byte.is_ascii_graphic());
    let takes = match rule.format {
        KeyFormat::Uuid if !keys::is_uuid(id) => "a UUID that is not all zeros".to_owned(),
        KeyFormat::Any | KeyFormat::Uuid if is_visible => return Ok(()),
        KeyFormat::Any | KeyFormat::Uuid => {
            format!("at most {longest} visible ASCII characters")
        }
    };
    let field = format!("the caller's key is passed on, and this upstream takes {takes}");
    Err(Fault::IdentityMissing { field })
}

/// The rules of this request. What will be put into it is put in here once, for a trial: only the
/// incarnation and the round may be others at dispatch, and they change no length.
fn policy_of<'p>(
    protect: &'p Protect,
    request: &StoredRequest,
    key: &OperationKey,
    origin: IdentityOrigin,
) -> Result<&'p Arc<Policy>, Fault> {
    if !protect.insert.is_more_than_a_field() {
        return Ok(&protect.policy);
    }
    let named = Named {
        key,
        origin,
        round: Round::default(),
    };
    let filled =
        insertion::filled(&protect.insert, request, named).map_err(|why| Fault::NotInsertable {
            what: why.to_string(),
        })?;
    if filled.request.body.len() > protect.body_limit {
        let limit = protect.body_limit;
        return Err(Fault::BodyTooLarge { limit });
    }
    let keyless = protect.keyless.as_ref().filter(|_| filled.keyless);
    Ok(keyless.unwrap_or(&protect.policy))
}

/// Without a token there is no identity that contains its generation; the token is what is wrong.
fn needs_token(template: &Template, token: TokenField) -> Result<(), Unidentified> {
    match token {
        TokenField::Token(_) => Ok(()),
        _ if !template.uses_generation() => Ok(()),
        TokenField::Absent => Err(Unidentified::Token(Rejection::TokenRequired)),
        TokenField::Malformed => Err(Unidentified::Token(Rejection::TokenMalformed)),
    }
}

fn presented(
    tenant: &Tenant,
    fence: &Fence,
    (token, stamp): (TokenField, Option<&Token>),
    facts: &RequestFacts<'_>,
) -> Result<Presented, Unidentified> {
    needs_token(&fence.resource, token)?;
    let name = ResourceName::taken(fence.resource.render(facts)?).ok_or_else(|| {
        let longest = ResourceName::LONGEST;
        Fault::IdentityMissing {
            field: format!("the name of the resource (`fence.resource`), 1 to {longest} bytes"),
        }
    })?;
    let acquisition = one_field(&fence.acquisition, facts, |text| {
        Some(AcquisitionId::new(text))
    });
    let sequence = one_field(&fence.sequence, facts, Sequence::parse);
    let token = if acquisition.is_err() || sequence.is_err() {
        TokenField::Malformed
    } else {
        token
    };
    Ok(Presented {
        resource: ResourceKey {
            tenant: tenant.clone(),
            name,
        },
        token,
        source: stamp.map_or(&fence.source, |stamp| &stamp.source).clone(),
        acquisition: match stamp {
            Some(stamp) => Some(stamp.acquisition.clone()),
            None => acquisition.unwrap_or_default(),
        },
        sequence: sequence.unwrap_or_default(),
    })
}

fn token(fence: &Fence, facts: &RequestFacts<'_>) -> TokenField {
    match read_one(&fence.token, facts, FencingToken::parse) {
        Ok(None) => TokenField::Absent,
        Ok(Some(token)) => TokenField::Token(token),
        Err(Unreadable) => TokenField::Malformed,
    }
}

fn readable(token: TokenField) -> Option<FencingToken> {
    match token {
        TokenField::Token(token) => Some(token),
        TokenField::Absent | TokenField::Malformed => None,
    }
}

/// It is there, and cannot be understood.
struct Unreadable;

fn one_field<T>(
    name: &HeaderName,
    facts: &RequestFacts<'_>,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, Unreadable> {
    read_one(&Member::Header(name.clone()), facts, parse)
}

fn read_one<T>(
    member: &Member,
    facts: &RequestFacts<'_>,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, Unreadable> {
    match member.read(facts) {
        Ok(text) => parse(&text).map(Some).ok_or(Unreadable),
        Err(missing) if missing.why == WhyMissing::Absent => Ok(None),
        Err(_) => Err(Unreadable),
    }
}

fn withheld(protect: &Protect) -> Vec<HeaderName> {
    let mut names = vec![protect.caller_key_header.clone()];
    let key = protect.insert.key.as_ref();
    names.extend(key.and_then(|key| key.slot.header()).cloned());
    names.extend(protect.fence.iter().flat_map(fence_fields));
    names
}

fn conditional(headers: &HeaderMap) -> bool {
    carries_condition(
        headers
            .iter()
            .map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes())),
    )
}

/// Is a condition among the fields that no longer holds once it was met? `If-Match: *` orders nothing: it holds after
/// any write; and so does `If-None-Match` with a version: it holds for all versions but that one.
pub fn carries_condition<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> bool {
    let mut conditions = fields.filter(|(name, value)| {
        let is_any = *value == b"*";
        (name.eq_ignore_ascii_case(IF_NONE_MATCH.as_str().as_bytes()) && is_any)
            || (name.eq_ignore_ascii_case(IF_MATCH.as_str().as_bytes()) && !is_any)
    });
    conditions.next().is_some()
}

#[cfg(test)]
mod tests;
