//! What Fencepost would make of one request, step by step.
//!
//! What always holds: every step is taken by the very code that takes it in a running instance: route,
//! identify, key. Nothing is sent, and no register is opened; what only the register knows (is the token
//! stale, is it a repeat) is not guessed. Values of credentials are hidden.
//!
//! What it does not do: print (`text`), or compare two requests (`sameness`).

use bytes::Bytes;
use http::Request;
use http::request::Parts;
use serde_json::Value;

use super::caller;
use super::masked::{self, HIDDEN};
use super::policy;
use super::stamped;
use super::views::{
    Composed, Considered, Explanation, Fingerprint, Named, Operation, Outcome, Token, UpstreamKey,
};
use crate::config::{CertificateName, Config, Fence, Means, PrincipalPart, Protect, Upstream};
use crate::expression::{Member, Missing, PathParams, RequestFacts, RequestPath, Template};
use crate::protocol::command::TokenField;
use crate::protocol::ids::{AttemptId, FencingToken, InstanceId, Principal, Round};
use crate::protocol::operation::IdentityOrigin;
use crate::protocol::policy::TokenMode;
use crate::protocol::rejection::Rejection;
use crate::wire::caller::Caller;
use crate::wire::canonical::FORM;
use crate::wire::fingerprint::FingerprintKey;
use crate::wire::identify::{Effect, Identified, Original, Scope, identify};
use crate::wire::problem::{self, About, Fault};
use crate::wire::reply::Reply;
use crate::wire::route::{Routed, Router};
use crate::wire::{insertion, keys};

/// An attempt that is none: nothing is sent.
const NOBODY: AttemptId = AttemptId {
    instance: InstanceId(0),
    number: 0,
};

/// The register's own is not read here: two requests are compared with one another only.
pub(super) fn any_key() -> FingerprintKey {
    FingerprintKey::new(&[0; 32])
}

impl Explanation {
    /// Explains a request of this caller to an upstream.
    pub(super) fn of(
        config: &Config,
        router: &Router,
        request: Request<Bytes>,
        caller: &Caller,
    ) -> Self {
        let (head, body) = request.into_parts();
        let mut told = Self::begun(router, &head, &body);
        match router.route(&head.method, head.uri.path()) {
            Err(fault) => told.outcome = refused(&problem::fault(&fault, About::default())),
            Ok(Routed::Pass) => told.outcome = Outcome::Forwarded { counted: false },
            Ok(Routed::Observe) => told.outcome = Outcome::Forwarded { counted: true },
            Ok(Routed::Spared(fault)) => {
                told.outcome = refused(&problem::fault(&fault, About::default()));
                told.observed = true;
            }
            Ok(Routed::Protect {
                name,
                protect,
                params,
            }) => {
                told.effect = Some(name.to_owned());
                told.observed = protect.is_observed();
                let upstream = router.upstream();
                told.protected((config, upstream), protect, &params, (&head, &body), caller);
            }
        }
        told
    }

    fn begun(router: &Router, head: &Parts, body: &Bytes) -> Self {
        let upstream = router.upstream();
        let target = head.uri.path_and_query().map_or("/", |it| it.as_str());
        Self {
            request: format!("{} {}", head.method, masked::target(target)),
            content_bytes: body.len(),
            listener: upstream.listen.to_string(),
            upstream: upstream.id.to_string(),
            upstream_url: upstream.url.to_string(),
            considered: considered(upstream, head),
            effect: None,
            path: Vec::new(),
            once: None,
            operation: None,
            principal: None,
            resource: None,
            token: None,
            fingerprint: None,
            upstream_key: None,
            references: Vec::new(),
            policy: Vec::new(),
            outcome: Outcome::PutToRegister,
            observed: false,
            identified: None,
            original: None,
        }
    }

    fn protected(
        &mut self,
        (config, upstream): (&Config, &Upstream),
        protect: &Protect,
        params: &PathParams,
        (head, body): (&Parts, &Bytes),
        caller: &Caller,
    ) {
        let facts = RequestFacts {
            method: &head.method,
            raw_path: head.uri.path(),
            path: params,
            query: head.uri.query(),
            headers: &head.headers,
            body,
            token: None,
            operation: None,
        };
        let token = protect.fence.as_ref().map(|fence| fence.token.read(&facts));
        let readable = token.as_ref().and_then(|it| it.as_ref().ok());
        let stamped = stamped::lease(config, protect, token.as_ref(), &facts);
        let own = readable.and_then(|text| FencingToken::parse(text));
        let facts = RequestFacts {
            token: stamped.map_or(own, |_| stamped::stand_in()),
            ..facts
        };
        self.path = captured(upstream, self.effect.as_deref(), params);
        self.once = Some(composed(&protect.once.template, &facts));
        self.principal = principal(upstream, &facts, caller);
        self.token = protect.fence.as_ref().map(|fence| Token {
            from: fence.token.to_string(),
            value: readable.map(|text| text.clone().into_owned()),
            stamped: stamped.map(|lease| lease.name.clone()),
            readable: facts.token.is_some(),
            mode: protect
                .policy
                .fence
                .map_or("", |it| policy::token_mode(it.token)),
            source: fence.source.to_string(),
        });
        self.resource = protect
            .fence
            .as_ref()
            .map(|it| composed(&it.resource, &facts));
        self.policy = policy::named(protect, upstream);
        if body.len() > protect.body_limit {
            let limit = protect.body_limit;
            let fault = Fault::BodyTooLarge { limit };
            self.outcome = refused(&problem::fault(&fault, About::default()));
            return;
        }
        let fingerprints = any_key();
        let scope = Scope {
            tenant: &config.tenant,
            upstream,
            fingerprints: &fingerprints,
        };
        let effect = Effect {
            protect,
            params,
            head,
            body: body.clone(),
            caller,
            first_attempt: NOBODY,
            stamps: &stamped::stamps(config),
        };
        match identify(scope, effect) {
            Err(why) => self.outcome = refused(&why.reply(protect.fence.as_ref())),
            Ok(identified) => {
                let original = Original {
                    params: params.clone(),
                    head: head.clone(),
                    body: body.clone(),
                };
                self.original = Some((original, protect.means.clone()));
                self.identified(identified, protect);
            }
        }
    }

    fn identified(&mut self, identified: Identified, protect: &Protect) {
        let key = &identified.key;
        let has_secret = masked::reads_secret(&protect.once.template);
        let is_fresh = identified.origin == IdentityOrigin::Fresh;
        let id = match () {
            () if is_fresh => "(made anew for every request)".to_owned(),
            () if has_secret => HIDDEN.to_owned(),
            () => key.id.to_string(),
        };
        self.operation = Some(Operation {
            tenant: key.tenant.to_string(),
            upstream: key.upstream.to_string(),
            principal: match key.principal {
                Principal::None => None,
                Principal::Hashed(digest) => Some(hex(&digest)),
            },
            id: id.clone(),
            origin: origin(identified.origin),
            once: if protect.once.template.uses_generation() {
                "per generation"
            } else {
                "ever"
            },
        });
        if let Some(once) = &mut self.once {
            once.value = Some(id);
        }
        self.fingerprint = Some(Fingerprint {
            form: FORM,
            key: "the register's own, which is not read here",
            covers: covers(&protect.means),
            compare: hex(identified
                .meaning
                .fingerprint
                .digest
                .get(..8)
                .unwrap_or_default()),
        });
        (self.upstream_key, self.references) =
            inserted(protect, &identified, is_fresh || has_secret);
        if let Some(rejection) = refused_for_token(protect.fence.as_ref(), protect, &identified) {
            let about = About {
                token: protect.fence.as_ref().map(|fence| &fence.token),
                ..identified.about()
            };
            self.outcome = refused(&problem::refused(&rejection, about));
        }
        self.identified = Some(identified);
    }
}

fn covers(means: &Means) -> String {
    match means {
        Means::Whole => "method, path, query and content: JSON by value, forms by their fields, \
                         uploads by their parts, anything else byte by byte; never a header"
            .to_owned(),
        Means::Raw => "method, path, query and content, byte by byte; never a header".to_owned(),
        Means::Listed(members) => {
            let names = members.iter().map(|it| it.member.to_string());
            let names: Vec<String> = names.collect();
            format!("method, path and nothing but: {}", names.join(", "))
        }
    }
}

fn considered(upstream: &Upstream, head: &Parts) -> Vec<Considered> {
    let Ok(path) = RequestPath::parse(head.uri.path()) else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for effect in &upstream.effects {
        let has_method = effect.methods.contain(&head.method);
        let has_path = effect.path.captures(&path).is_some();
        let why = match (has_method, has_path) {
            (true, true) => "the first that matches",
            (false, true) => "the path matches, the method does not",
            (true, false) => "the method matches, the path does not",
            (false, false) => "neither method nor path match",
        };
        let matches = has_method && has_path;
        all.push(Considered {
            rule: effect.name.clone(),
            matches,
            why: why.to_owned(),
        });
        if matches {
            break;
        }
    }
    all
}

/// The values of the path, by the names that its rule gives them.
fn captured(upstream: &Upstream, rule: Option<&str>, params: &PathParams) -> Vec<Named> {
    let rule = upstream
        .effects
        .iter()
        .find(|it| Some(it.name.as_str()) == rule);
    let names = rule.iter().flat_map(|rule| rule.path.names());
    names
        .filter_map(|name| Some(Named::of(name, params.value(name)?)))
        .collect()
}

impl Named {
    pub(super) fn of(name: &str, value: &str) -> Self {
        Self {
            name: name.to_owned(),
            value: Some(value.to_owned()),
            missing: None,
            plain: Some(value.to_owned()),
        }
    }

    fn computed((source, value): (String, Result<String, Missing>), is_hidden: bool) -> Self {
        let shown = |text: &String| {
            if is_hidden {
                HIDDEN.to_owned()
            } else {
                text.clone()
            }
        };
        Self {
            name: format!("`{source}`"),
            value: value.as_ref().ok().map(shown),
            missing: value.as_ref().err().map(|missing| missing.why.to_string()),
            plain: value.ok(),
        }
    }

    fn part(member: &Member, facts: &RequestFacts<'_>) -> Self {
        let name = member.to_string();
        if *member == Member::Incarnation {
            return Self::of(&name, "(the register's)");
        }
        match member.read(facts) {
            Ok(text) => Self {
                name,
                value: Some(masked::value(member, &text)),
                missing: None,
                plain: Some(text.into_owned()),
            },
            Err(missing) => Self {
                name,
                value: None,
                missing: Some(missing.why.to_string()),
                plain: None,
            },
        }
    }
}

fn composed(template: &Template, facts: &RequestFacts<'_>) -> Composed {
    let value = template.render(facts).ok();
    let is_hidden = masked::reads_secret(template);
    let computed = template.computed(facts);
    Composed {
        template: template.written(),
        parts: template
            .members()
            .map(|it| Named::part(it, facts))
            .chain(
                computed
                    .into_iter()
                    .map(|it| Named::computed(it, is_hidden)),
            )
            .collect(),
        value: value.map(|it| if is_hidden { HIDDEN.to_owned() } else { it }),
    }
}

fn principal(upstream: &Upstream, facts: &RequestFacts<'_>, caller: &Caller) -> Option<Vec<Named>> {
    let parts = upstream.principal.iter().map(|part| match part {
        PrincipalPart::Header(name) => account(&Member::Header(name.clone()), facts),
        PrincipalPart::Certificate(kind) => owner(*kind, caller),
    });
    let all: Vec<Named> = parts.collect();
    (!all.is_empty()).then_some(all)
}

fn account(header: &Member, facts: &RequestFacts<'_>) -> Named {
    let mut account = Named::part(header, facts);
    if let Some(absent) = &mut account.missing {
        absent.push_str(": the default account, which is one of its own");
    }
    account
}

fn owner(kind: CertificateName, caller: &Caller) -> Named {
    match caller.name(kind) {
        Ok(name) => Named {
            plain: Some(hex(&name)),
            ..Named::of(&kind.to_string(), &caller::shown(kind, &name))
        },
        Err(why) => Named {
            name: kind.to_string(),
            value: None,
            missing: Some(why.to_string()),
            plain: None,
        },
    }
}

/// What is put into it.
fn inserted(
    protect: &Protect,
    identified: &Identified,
    is_hidden: bool,
) -> (Option<UpstreamKey>, Vec<Named>) {
    let named = insertion::Named {
        key: &identified.key,
        origin: identified.origin,
        round: Round::default(),
    };
    let key = protect.insert.key.as_ref();
    // What is identified was filled for a trial.
    let policy_has_key = identified.policy.settle.key.is_some() || protect.keyless.is_none();
    let key = key.filter(|_| policy_has_key).map(|rule| {
        let is_own = rule.is_callers() && identified.origin == IdentityOrigin::Caller;
        let value = keys::by_rule(rule, named.origin, named.key, named.round);
        UpstreamKey {
            place: match rule.slot.header() {
                Some(header) => header.to_string(),
                None => rule.slot.to_string(),
            },
            value: if is_hidden { HIDDEN.to_owned() } else { value },
            how: match (is_own, identified.follows_incarnation) {
                _ if identified.origin == IdentityOrigin::Fresh => "made anew, as the operation is",
                (true, _) => "the caller's own",
                (false, false) => {
                    "made of tenant, upstream, principal and operation; the same for every repeat"
                }
                (false, true) => {
                    "made of tenant, upstream, principal and operation; in the first incarnation of the resource"
                }
            },
        }
    });
    let references = insertion::references(&protect.insert, &identified.request, named);
    let references = references.into_iter().map(|(slot, text)| Named {
        name: slot.to_string(),
        missing: text
            .is_none()
            .then(|| "is not put in: its request has its own, or is signed".to_owned()),
        value: text.as_ref().map(|text| {
            if is_hidden {
                HIDDEN.to_owned()
            } else {
                text.clone()
            }
        }),
        plain: text,
    });
    (key, references.collect())
}

/// What the register would say whatever it holds.
fn refused_for_token(
    fence: Option<&Fence>,
    protect: &Protect,
    identified: &Identified,
) -> Option<Rejection> {
    fence?;
    let presented = identified.presented.as_ref()?;
    match (presented.token, protect.policy.fence?.token) {
        (TokenField::Absent, TokenMode::Require) => Some(Rejection::TokenRequired),
        (TokenField::Malformed, TokenMode::Require | TokenMode::Prefer) => {
            Some(Rejection::TokenMalformed)
        }
        (TokenField::Absent, TokenMode::Prefer | TokenMode::Observe)
        | (TokenField::Malformed, TokenMode::Observe)
        | (TokenField::Token(_), _) => None,
    }
}

fn refused(reply: &Reply) -> Outcome {
    let problem: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let text = |name: &str| {
        let text = problem.get(name).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let kind = text("type");
    Outcome::Refused {
        status: reply.status.as_u16(),
        problem: kind.rsplit(':').next().unwrap_or_default().to_owned(),
        detail: text("detail"),
        retry: text("retry"),
    }
}

fn origin(origin: IdentityOrigin) -> &'static str {
    match origin {
        IdentityOrigin::Caller => "caller",
        IdentityOrigin::Derived => "derived",
        IdentityOrigin::Fresh => "fresh",
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    digits.collect()
}
