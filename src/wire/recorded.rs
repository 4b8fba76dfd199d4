//! What a config would make of operations that are recorded already: of their identity, and of what
//! can still be done for them.
//!
//! What always holds: where the stored request is at hand, it is identified again, by the same code as
//! any request. Fields that are not stored are put back from the record: the caller's key, the
//! token. Where it is not, the rules are compared with those of before, or, if they are not known
//! either, the recorded names with what the rules could make. In doubt an unsettled operation counts as
//! changed, and a settled one does not.
//!
//! What it does not do: read the register (`admin::comparison`), or compare fingerprints: a changed
//! form is told apart from another payload where a repeat is admitted.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request};

use super::caller::Caller;
use super::fingerprint::FingerprintKey;
use super::identify::{Effect, Scope, identify};
use super::route::{Routed, Router};
use super::stamp::Stamps;
use crate::config::{
    Action, Config, EffectRule, Fence, PrincipalPart, Protect, Unlisted, Upstream,
};
use crate::expression::Member;
use crate::protocol::ids::{AttemptId, InstanceId, Principal, UpstreamId};
use crate::protocol::operation::{IdentityOrigin, Operation};
use crate::protocol::outcome::StoredRequest;

/// An attempt that is none.
const NOBODY: AttemptId = AttemptId {
    instance: InstanceId(0),
    number: 0,
};

/// A config that recorded operations are judged by. Made once for many.
pub struct Judge<'a> {
    after: &'a Config,
    before: Option<&'a Config>,
    routers: Vec<Router>,
    fingerprints: FingerprintKey,
}

/// What would be different for one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Its namespace is another.
    Tenant,
    /// Nobody knows its upstream any more.
    UpstreamGone,
    /// Its requests are no effect any more.
    Unprotected,
    /// A repeat would belong to another account or caller.
    Principal,
    /// A repeat would be another operation; the id it would have, where it can be said.
    Id(Option<String>),
    /// It would be ordered with other effects; the resource, where it can be said.
    Resource(Option<String>),
    /// It would be sent again without its key.
    KeyGone,
    /// It would be sent again under another key.
    KeyOther,
    /// It would be sent again with other things put into it, or elsewhere.
    Otherwise,
    /// It would be sent again to another place.
    Elsewhere,
}

impl Change {
    /// Would what is unsettled be sent again otherwise than it was? That is another effect, and nobody's
    /// repeat: no person's word makes it right.
    pub fn sends_otherwise(&self) -> bool {
        match self {
            Self::KeyGone | Self::KeyOther | Self::Otherwise | Self::Elsewhere => true,
            Self::Tenant
            | Self::UpstreamGone
            | Self::Unprotected
            | Self::Principal
            | Self::Id(_)
            | Self::Resource(_) => false,
        }
    }
}

impl<'a> Judge<'a> {
    /// `before`: the config in force, where there is one.
    pub fn new(after: &'a Config, before: Option<&'a Config>) -> Self {
        let upstreams = after.upstreams.iter();
        Self {
            after,
            before,
            routers: upstreams.map(|it| Router::new(Arc::clone(it))).collect(),
            // What is compared is not the fingerprint.
            fingerprints: FingerprintKey::new(&[0; 32]),
        }
    }

    /// Everything that would be different. `request`: as stored, if it is.
    pub fn changes(&self, operation: &Operation, request: Option<&StoredRequest>) -> Vec<Change> {
        if operation.key.tenant != self.after.tenant {
            return vec![Change::Tenant];
        }
        let Some(router) = self.router(&operation.key.upstream) else {
            return vec![Change::UpstreamGone];
        };
        let before = self
            .before
            .and_then(|it| upstream(it, &operation.key.upstream));
        let mut changes = Vec::new();
        if operation.state.is_unsettled() && operation.settle.steps.read_request() {
            changes.extend(sent_otherwise(router.upstream(), before, operation));
        }
        match request.and_then(|request| self.identified_again(router, before, operation, request))
        {
            Some(of_request) => changes.extend(of_request),
            None => changes.extend(by_rules(router.upstream(), before, operation)),
        }
        changes
    }

    fn router(&self, id: &UpstreamId) -> Option<&Router> {
        self.routers.iter().find(|it| it.upstream().id == *id)
    }

    /// `None`: what is stored does not suffice to say.
    fn identified_again(
        &self,
        router: &Router,
        before: Option<&Upstream>,
        operation: &Operation,
        request: &StoredRequest,
    ) -> Option<Vec<Change>> {
        let mut request = readable(request)?;
        let path = request.uri().path().to_owned();
        let method = request.method().clone();
        let (protect, params) = match router.route(&method, &path) {
            Ok(Routed::Protect {
                protect, params, ..
            }) if !protect.is_observed() => (protect, params),
            Ok(Routed::Protect { .. } | Routed::Pass | Routed::Observe | Routed::Spared(_))
            | Err(_) => return Some(vec![Change::Unprotected]),
        };
        // The caller sends what he sent before, whatever the new rule looks for.
        let routed_before = before.map(|it| Router::new(Arc::new(it.clone())));
        let routed_before = routed_before.as_ref().map(|it| it.route(&method, &path));
        let sent_by = match &routed_before {
            Some(Ok(Routed::Protect { protect, .. })) => protect,
            Some(Ok(Routed::Pass | Routed::Observe | Routed::Spared(_)) | Err(_)) | None => protect,
        };
        put_back(&mut request, sent_by, operation);
        let upstream = without_certificates(router.upstream());
        let (head, body) = request.into_parts();
        let scope = Scope {
            tenant: &self.after.tenant,
            upstream: upstream.as_ref().unwrap_or(router.upstream()),
            fingerprints: &self.fingerprints,
        };
        let effect = Effect {
            protect,
            params: &params,
            head: &head,
            body,
            caller: &Caller::default(),
            // A fresh id is not compared.
            first_attempt: NOBODY,
            // What it was stamped with is among its fields.
            stamps: &Stamps::default(),
        };
        let identified = identify(scope, effect).ok()?;
        let mut changes = Vec::new();
        let is_anothers = match &upstream {
            Some(_) => is_anothers_by_rules(router.upstream(), before, operation),
            None => identified.key.principal != operation.key.principal,
        };
        if is_anothers {
            changes.push(Change::Principal);
        }
        // A fresh id is never repeated: whatever a repeat is called, it was another operation before.
        if operation.origin != IdentityOrigin::Fresh && identified.key.id != operation.key.id {
            let has_a_name = identified.origin != IdentityOrigin::Fresh;
            changes.push(Change::Id(
                has_a_name.then(|| identified.key.id.to_string()),
            ));
        }
        let resource = identified.resource().map(|it| &it.name);
        if resource != operation.place.as_ref().map(|place| &place.resource) {
            changes.push(Change::Resource(resource.map(ToString::to_string)));
        }
        Some(changes)
    }
}

/// Do both configs name all operations alike, and send them the same way? Then no operation changes,
/// recorded or not.
pub fn is_same_for_all(before: &Config, after: &Config) -> bool {
    let upstreams = before.upstreams.iter();
    before.tenant == after.tenant
        && before.upstreams.len() == after.upstreams.len()
        && upstreams.into_iter().all(|before| {
            upstream(after, &before.id).is_some_and(|after| is_same_for_upstream(before, after))
        })
}

fn is_same_for_upstream(before: &Upstream, after: &Upstream) -> bool {
    let rule = |effect: &EffectRule| {
        let treated = match &effect.action {
            Action::Protect(protect) => Some(protect.mode),
            Action::Pass => None,
        };
        (effect.methods.clone(), effect.path.clone(), treated)
    };
    let same_rules = before
        .effects
        .iter()
        .map(rule)
        .eq(after.effects.iter().map(rule))
        && rules(before).count() == rules(after).count()
        && rules(before)
            .zip(rules(after))
            .all(|((_, before), (_, after))| {
                names_alike(before, after) && puts_in_alike(before, after)
            });
    let key = |upstream: &Upstream| {
        let key = upstream.key.as_ref();
        key.map(|key| (key.slot.clone(), key.format, key.policy.value))
    };
    let unlisted = |upstream: &Upstream| std::mem::discriminant(&upstream.unlisted);
    same_rules
        && unlisted(before) == unlisted(after)
        && before.principal == after.principal
        && key(before) == key(after)
        && before.url == after.url
}

fn upstream<'c>(config: &'c Config, id: &UpstreamId) -> Option<&'c Upstream> {
    let mut upstreams = config.upstreams.iter();
    upstreams.find(|it| it.id == *id).map(|it| &**it)
}

/// Whatever would be sent again, asked about or undone is so at the same place under the same key, or not at all.
fn sent_otherwise(
    after: &Upstream,
    before: Option<&Upstream>,
    operation: &Operation,
) -> Vec<Change> {
    let mut changes = Vec::new();
    // Where the record says by which effect's rules it went out, those count.
    let way = operation.settle.way.as_ref();
    let rules_in = |config: &Upstream| {
        let named = way.and_then(|way| config.protect_named(&way.effect));
        named.map(|named| Arc::clone(&named.insert))
    };
    let key_in = |config: &Upstream| match rules_in(config) {
        Some(own) => own.key.clone(),
        None => config.key.clone(),
    };
    let is_put_in = |placing| match rules_in(after) {
        Some(own) => own.placing() == placing,
        None => after.placings().any(|it| it == placing),
    };
    match (operation.settle.key, &key_in(after)) {
        (None, _) => {}
        (Some(_), None) => changes.push(Change::KeyGone),
        (Some(own), Some(rule)) => {
            let from_caller = operation.origin == IdentityOrigin::Caller;
            let other_value = from_caller && own.value != rule.policy.value;
            let before = before.and_then(key_in);
            if other_value || before.is_some_and(|it| it.slot != rule.slot) {
                changes.push(Change::KeyOther);
            } else if let Some(placing) = own.placing
                && !is_put_in(placing)
            {
                changes.push(Change::Otherwise);
            }
        }
    }
    // Texts are put in beside a key, and where there is none.
    if let Some(way) = way
        && changes.is_empty()
        && !is_put_in(way.placing)
    {
        changes.push(Change::Otherwise);
    }
    let of_record = way.map(|way| way.destination);
    let from = of_record.or_else(|| before.map(Upstream::destination));
    if from.is_some_and(|from| from != after.destination()) {
        changes.push(Change::Elsewhere);
    }
    changes
}

/// Without its request: the rules that it may have come from.
fn by_rules(after: &Upstream, before: Option<&Upstream>, operation: &Operation) -> Vec<Change> {
    let mut changes = Vec::new();
    if is_anothers_by_rules(after, before, operation) {
        changes.push(Change::Principal);
    }
    if operation.origin == IdentityOrigin::Fresh {
        return changes;
    }
    let Some(before) = before else {
        if !rules(after).any(|(_, rule)| may_be_of(rule, operation)) {
            changes.push(Change::Id(None));
        }
        return changes;
    };
    let stays = |(on, rule): (&str, &Protect)| {
        let same = rules(after).find(|(name, _)| *name == on);
        same.is_some_and(|(_, now)| names_alike(rule, now))
    };
    let candidates = || rules(before).filter(|(_, rule)| may_be_of(rule, operation));
    // Which of them named it is not recorded. Unsettled, it must not change whichever it was; settled, it
    // counts where it changes for certain.
    let others = candidates().filter(|rule| !stays(*rule)).count();
    let changed = if operation.state.is_unsettled() {
        others > 0
    } else {
        others > 0 && others == candidates().count()
    };
    if changed {
        changes.push(Change::Id(None));
    }
    changes
}

/// Would a repeat belong to another account or caller?
fn is_anothers_by_rules(
    after: &Upstream,
    before: Option<&Upstream>,
    operation: &Operation,
) -> bool {
    let had_principal = operation.key.principal != Principal::None;
    let others = match before {
        Some(before) => before.principal != after.principal,
        // Certificates are not stored: by which rule it was told apart from others' cannot be seen.
        None => operation.state.is_unsettled() && shows_certificate(after),
    };
    had_principal == after.principal.is_empty() || others
}

/// Certificates are not stored. Where callers are told apart by them, whose an operation is only the
/// rules can say, and everything else of it is found out for nobody.
fn without_certificates(upstream: &Upstream) -> Option<Upstream> {
    shows_certificate(upstream).then(|| Upstream {
        principal: Vec::new(),
        ..upstream.clone()
    })
}

fn shows_certificate(upstream: &Upstream) -> bool {
    let mut parts = upstream.principal.iter();
    parts.any(|part| matches!(part, PrincipalPart::Certificate(_)))
}

/// All rules of protection, by the requests that they are for.
fn rules(upstream: &Upstream) -> impl Iterator<Item = (&str, &Protect)> {
    let listed = upstream
        .effects
        .iter()
        .filter_map(|effect| match &effect.action {
            Action::Protect(protect) => Some((effect.name.as_str(), &**protect)),
            Action::Pass => None,
        });
    let unlisted = match &upstream.unlisted {
        Unlisted::Protect(protect) => Some(("unlisted", &**protect)),
        Unlisted::Observe | Unlisted::Pass | Unlisted::Deny => None,
    };
    // What is only observed is forwarded, whoever repeats it.
    listed
        .chain(unlisted)
        .filter(|(_, protect)| !protect.is_observed())
}

fn may_be_of(rule: &Protect, operation: &Operation) -> bool {
    let place = match (&rule.fence, &operation.place) {
        (None, None) => true,
        (Some(fence), Some(place)) => fence.resource.could_make(place.resource.as_str()),
        (None, Some(_)) | (Some(_), None) => false,
    };
    place
        && rule.once.origin == operation.origin
        && rule.once.template.could_make(operation.key.id.as_str())
}

fn puts_in_alike(before: &Protect, after: &Protect) -> bool {
    before.insert.placing() == after.insert.placing()
        && before.sends_callers_key() == after.sends_callers_key()
}

fn names_alike(before: &Protect, after: &Protect) -> bool {
    let places = |fence: &Fence| (fence.resource.clone(), fence.token.clone());
    before.once.template == after.once.template
        && before.once.origin == after.once.origin
        && before.once.required == after.once.required
        && before.caller_key_header == after.caller_key_header
        && before.fence.as_ref().map(places) == after.fence.as_ref().map(places)
}

fn readable(stored: &StoredRequest) -> Option<Request<Bytes>> {
    let mut request = Request::builder()
        .method(&stored.method[..])
        .uri(&stored.target[..]);
    for (name, value) in &stored.fields {
        request = request.header(&name[..], &value[..]);
    }
    request.body(stored.body.clone()).ok()
}

/// What the caller sent, and hygiene kept back.
fn put_back(request: &mut Request<Bytes>, rule: &Protect, operation: &Operation) {
    let mut put = |name: &HeaderName, text: &str| {
        if let Ok(value) = HeaderValue::try_from(text) {
            request.headers_mut().insert(name.clone(), value);
        }
    };
    if operation.origin == IdentityOrigin::Caller {
        put(&rule.caller_key_header, operation.key.id.as_str());
    }
    let token = operation.place.as_ref().and_then(|place| place.token);
    if let (Some(fence), Some(token)) = (&rule.fence, token)
        && let Member::Header(name) = &fence.token
    {
        put(name, &token.to_string());
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tenant => f.write_str("its tenant is another: a repeat would be a new operation"),
            Self::UpstreamGone => f.write_str(
                "no upstream has this id: nothing would settle it, and a repeat would not be known",
            ),
            Self::Unprotected => {
                f.write_str("no effect matches its request: a repeat would go out unprotected")
            }
            Self::Principal => f.write_str(
                "it would belong to another account or caller: a repeat would be a new operation",
            ),
            Self::Id(Some(id)) => {
                write!(
                    f,
                    "its id would be `{id}`: a repeat would be a new operation"
                )
            }
            Self::Id(None) => f.write_str(
                "the rule that named it is gone or changed: a repeat would be a new operation",
            ),
            Self::Resource(Some(name)) => {
                write!(
                    f,
                    "its resource would be `{name}`: it would be ordered with others"
                )
            }
            Self::Resource(None) => {
                f.write_str("it would have no resource: nothing would be ordered with it")
            }
            Self::KeyGone => f.write_str("it would be sent again, or asked for, without its key"),
            Self::KeyOther => f.write_str("it would be sent again, or asked for, under another key"),
            Self::Otherwise => f.write_str(
                "it would be sent again with other things put into it, or asked for by them (`key`, `reference`)",
            ),
            Self::Elsewhere => {
                f.write_str("it would be sent again to another place, or asked for there")
            }
        }
    }
}

#[cfg(test)]
mod tests;
