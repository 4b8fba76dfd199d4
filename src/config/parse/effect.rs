//! One effect: which requests, and how they are protected.
//!
//! What always holds: an identity says something about the request; it names the generation only
//! under a fence; where the upstream gets the caller's own key, the identity is that key.
//!
//! What it does not do: find the effect of a request (`settings`).

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, Method};

use super::fence::{Fenced, fence};
use super::insertion::{self, Inserted};
use super::settle::{Around, Settled, settle};
use super::{answers, means, value};
use crate::config::answers::AnswerRules;
use crate::config::callers::PrincipalPart;
use crate::config::field::{Field, Fields};
use crate::config::insertion::{Insert, KeyRule, Signed};
use crate::config::problems::Place;
use crate::config::scalar::{self, DURATION, SIZE};
use crate::config::settings::{
    Action, EffectRule, Identity, Limits, Methods, Mode, Protect, UNLISTED,
};
use crate::expression::{Member, PathTemplate, Reference, Root, Template};
use crate::protocol::ids::EffectName;
use crate::protocol::operation::IdentityOrigin;
use crate::protocol::policy::{
    Capability, Destination, FencePolicy, KeyPolicy, Order, Ownership, Policy, SettlePolicy,
    Timeouts, TokenMode, Way,
};
use crate::protocol::steps::Steps;
use crate::protocol::time::Millis;

const DEFAULT_JOIN: Duration = Duration::from_secs(10);
const DEFAULT_BLIND_RETRY: Millis = Millis(5 * 60 * 1_000);
const DEFAULT_LIMIT: usize = 1 << 20;
const DEFAULT_UNCERTAIN: u16 = 504;
const DEFAULT_KEY_HEADER: HeaderName = HeaderName::from_static("idempotency-key");

/// What an effect inherits.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) mode: Mode,
    pub(super) capability: Capability,
    pub(super) inserted: Inserted,
    pub(super) answers: AnswerRules,
    pub(super) timeouts: Timeouts,
    pub(super) limits: Limits,
    /// Does anybody listen for callbacks?
    pub(super) calls_back: bool,
    /// Where the effects go.
    pub(super) destination: Option<Destination>,
    /// What selects an account or a caller.
    pub(super) principal: Vec<PrincipalPart>,
    /// Where the config names the profile, and everything stands that the profile brings.
    pub(super) profile: Option<Place>,
}

/// Reads an item of `effects`.
pub(super) fn effect(field: &Field<'_>, context: &Context) -> Option<EffectRule> {
    let mut fields = field.map()?;
    let on = fields.need("on").and_then(|field| on(&field));
    let pass = fields.take("pass");
    let action = if let Some(pass) = pass {
        if let Some(fields) = pass.map() {
            fields.finish();
        }
        Action::Pass
    } else {
        Action::Protect(Arc::new(protect(&mut fields, on.as_ref(), context)))
    };
    fields.finish();
    let On {
        name,
        methods,
        path,
    } = on?;
    Some(EffectRule {
        name,
        methods,
        path,
        action,
    })
}

/// Which requests are effects of one kind.
pub(super) struct On {
    name: String,
    methods: Methods,
    path: PathTemplate,
}

/// `PUT /accounts/{account}`, `PUT|PATCH /accounts/{account}`, `* /jobs/{rest...}`.
fn on(field: &Field<'_>) -> Option<On> {
    let text = field.text()?;
    let Some((methods, path)) = text.split_once(' ') else {
        field.error(format!(
            "`{text}` is not a method and a path (`PUT /accounts/{{account}}`)"
        ));
        return None;
    };
    let methods = methods_of(field, methods);
    let path = PathTemplate::parse(path).map_err(|error| {
        let start = text.len().saturating_sub(path.len());
        field.error_within(start.saturating_add(error.offset), error.message);
    });
    Some(On {
        name: text.to_owned(),
        methods: methods?,
        path: path.ok()?,
    })
}

fn methods_of(field: &Field<'_>, text: &str) -> Option<Methods> {
    if text == "*" {
        return Some(Methods::Unsafe);
    }
    let method = |word: &str| {
        let plain = !word.is_empty() && word.bytes().all(|b| b.is_ascii_uppercase());
        plain
            .then(|| Method::from_bytes(word.as_bytes()).ok())
            .flatten()
    };
    let methods: Option<Vec<Method>> = text.split('|').map(method).collect();
    if methods.is_none() {
        let expected = "a method in capitals, several joined by `|`, or `*` for every unsafe one";
        field.error(format!("`{text}` is not {expected}"));
    }
    methods.map(Methods::These)
}

/// Reads the rules of an effect; without any field these are the defaults.
pub(super) fn protect(fields: &mut Fields<'_>, on: Option<&On>, context: &Context) -> Protect {
    let (methods, path) = on.map(|on| (&on.methods, &on.path)).unzip();
    let mode = super::mode(fields, context.mode);
    fields.refuse_later(&["principal"]);
    let means = means::means(fields, path);
    let default_order = default_order(methods);
    let fenced = fields.take("fence");
    let has_fence = fenced.is_some();
    let fenced = fenced.and_then(|field| fence(&field, path, context.capability, default_order));
    let insert = context.inserted.with(fields, context.capability).insert;
    let once = once(fields, path, &insert, has_fence, fenced.as_ref());
    insertion::check(fields.own(), &insert, &once);
    let join = fields.or("join", DEFAULT_JOIN, |field| {
        field.read(DURATION, scalar::duration)
    });
    let default = BlindRetry(Some(DEFAULT_BLIND_RETRY));
    let BlindRetry(blind_retry) = fields.or("blind_retry", default, blind_retry);
    let around = Around {
        capability: context.capability,
        path,
        insert: &insert,
        calls_back: context.calls_back,
        principal: &context.principal,
        profile: context.profile,
        lifetime: insert.key.as_ref().and_then(|key| key.policy.lifetime),
    };
    let Settled {
        steps,
        asking,
        keep_request,
    } = settle(fields, around);
    let answers = answers::layer(&context.answers, fields.take("answers").as_ref());
    let (body_limit, answer_limit) = limits(fields, context.limits);
    let uncertain_status = fields.or("uncertain_status", DEFAULT_UNCERTAIN, |field| {
        field.number("a status from 400 to 599", 400..=599)
    });
    let (fence, fence_policy, order) = match fenced {
        Some(fenced) => (Some(fenced.fence), Some(fenced.policy), fenced.order),
        None => (None, None, default_order),
    };
    let policy = Policy {
        fence: fence_policy,
        order,
        settle: settle_policy(on, context, &insert, steps),
        timeouts: context.timeouts,
        keep_request,
    };
    warn_of_lost_owners(fields.own(), &policy, &once);
    Protect {
        mode,
        caller_key_header: key_header(&once, &insert),
        once,
        keyless: keyless(&insert, &policy).map(Arc::new),
        insert: Arc::new(insert),
        means,
        fence,
        answers,
        policy: Arc::new(policy),
        asking,
        join,
        blind_retry,
        body_limit,
        answer_limit,
        uncertain_status,
    }
}

/// Under a lease that is lost nothing is sent again, and a later owner's repeat is another operation here.
fn warn_of_lost_owners(field: &Field<'_>, policy: &Policy, once: &Identity) {
    let current = |fence: &FencePolicy| fence.require == Ownership::Current;
    let needs_owner = policy.fence.as_ref().is_some_and(current);
    let is_asked = policy.settle.steps.first_question().is_some();
    if needs_owner && once.template.uses_generation() && !is_asked {
        field.warn(
            "`require: current`, an id with the generation and no look-up: each lost answer goes to a person once its \
             lease is over",
        );
    }
}

/// What an intent keeps of how it is settled, and of the way that it goes.
fn settle_policy(
    on: Option<&On>,
    context: &Context,
    insert: &Insert,
    steps: Steps,
) -> SettlePolicy {
    SettlePolicy {
        capability: context.capability,
        key: insert.key.as_ref().map(|key| KeyPolicy {
            placing: Some(insert.placing()),
            ..key.policy
        }),
        steps,
        way: context.destination.map(|destination| Way {
            effect: EffectName::new(on.map_or(UNLISTED, |on| on.name.as_str())),
            destination,
            placing: insert.placing(),
        }),
    }
}

/// For how long; `None`: never.
struct BlindRetry(Option<Millis>);

fn blind_retry(field: &Field<'_>) -> Option<BlindRetry> {
    if field.raw_text() == Some("never") {
        return Some(BlindRetry(None));
    }
    let length = field.read("a duration (`5m`), or `never`", scalar::millis);
    length.map(|length| BlindRetry(Some(length)))
}

/// The rules of requests that are signed and left alone, without the key that would be put in: there is
/// nothing that tells a second one apart, so nothing is sent again, or undone. Questions have no effect, and a
/// callback tells by itself.
fn keyless(insert: &Insert, policy: &Policy) -> Option<Policy> {
    let is_within = insert.key.as_ref().is_some_and(|key| key.slot.is_within());
    (insert.signed == Signed::LeftAlone && is_within).then(|| {
        let steps = policy.settle.steps.without_effect();
        Policy {
            keep_request: policy.keep_request && steps.read_request(),
            settle: SettlePolicy {
                capability: Capability {
                    idempotent: false,
                    ..policy.settle.capability
                },
                key: None,
                steps,
                way: policy.settle.way.clone(),
            },
            ..policy.clone()
        }
    })
}

/// The rules of an effect about which the config says nothing.
pub(super) fn defaults(empty: &Field<'_>, context: &Context) -> Option<Protect> {
    Some(protect(&mut empty.map()?, None, context))
}

/// POSTs commute unless somebody says otherwise; whatever replaces or removes does not.
fn default_order(methods: Option<&Methods>) -> Order {
    match methods {
        Some(Methods::These(these)) if these.iter().all(|method| *method == Method::POST) => {
            Order::Free
        }
        Some(Methods::These(_) | Methods::Unsafe) | None => Order::Strict,
    }
}

fn once(
    fields: &mut Fields<'_>,
    path: Option<&PathTemplate>,
    insert: &Insert,
    has_fence: bool,
    fenced: Option<&Fenced>,
) -> Identity {
    let own_place = own_place(insert);
    let by_caller = Identity {
        template: Template::of(
            own_place
                .clone()
                .unwrap_or_else(|| Member::Header(callers_header(insert))),
        ),
        required: true,
        origin: IdentityOrigin::Caller,
    };
    fields.or("once", by_caller, |field| {
        let identity = identity(field, own_place.as_ref())?;
        value::path_names(field, &identity.template, path);
        check_identity(field, &identity.template, has_fence);
        let sends_callers = insert.key.as_ref().is_some_and(KeyRule::is_callers);
        if sends_callers && identity.origin != IdentityOrigin::Caller {
            field.error(
                "the upstream gets the caller's own key (`key: { value: caller }`), so `once` must be \
                 that header or place; or write `key: { value: derived }`",
            );
        }
        let may_lack_token = fenced.is_some_and(|fenced| fenced.policy.token != TokenMode::Require);
        if may_lack_token && identity.template.uses_generation() {
            field.warn("a request without a token has no identity here and is refused");
        }
        Some(identity)
    })
}

/// Where the caller's own key stands, if the upstream gets it in the query or the content.
fn own_place(insert: &Insert) -> Option<Member> {
    let key = insert.key.as_ref()?;
    (key.is_callers() && key.slot.is_within()).then(|| key.slot.member())
}

/// A template in text, or a short form with `required`.
fn identity(field: &Field<'_>, own_place: Option<&Member>) -> Option<Identity> {
    let is_callers_word = |template: &Template| {
        is_header(template) || own_place.is_some_and(|it| template.single_value() == Some(it))
    };
    if !field.is_map() {
        let template = value::text_template(field)?;
        return Some(Identity {
            required: !is_header(&template),
            origin: origin(is_callers_word(&template)),
            template,
        });
    }
    let mut fields = field.map()?;
    let member = value::member(&mut fields);
    let required = fields.take("required");
    fields.finish();
    let template = Template::of(member?);
    let is_callers_word = is_callers_word(&template);
    let required = required.and_then(|field| {
        let required = field.boolean()?;
        if !required && !is_callers_word {
            field.error(
                "only a header may be lacking, or the place of the caller's own key; any other value \
                 refuses the request",
            );
        }
        Some(required)
    });
    Some(Identity {
        required: required.unwrap_or(!is_header(&template)),
        origin: origin(is_callers_word),
        template,
    })
}

fn is_header(template: &Template) -> bool {
    matches!(template.single_value(), Some(Member::Header(_)))
}

/// A header of its own, or the key that he gives the upstream, is the caller's word for the operation;
/// anything else is composed by us out of what the request is about, and a refused request may be corrected
/// under it.
fn origin(is_callers_word: bool) -> IdentityOrigin {
    if is_callers_word {
        IdentityOrigin::Caller
    } else {
        IdentityOrigin::Derived
    }
}

fn check_identity(field: &Field<'_>, template: &Template, has_fence: bool) {
    let own = |member: &Member| !matches!(member, Member::Token | Member::Incarnation);
    let own_root = |reference: &Reference| reference.root != Root::Token;
    if !template.members().any(own) && !template.references().any(own_root) {
        field.error("says nothing about the request: all of them would be one operation");
    }
    for member in template.members() {
        match member {
            Member::OperationId => field.error("the operation's id cannot be made from itself"),
            Member::Token | Member::Incarnation if !has_fence => {
                field.error(format!("the {member} is known under a `fence` only"));
            }
            Member::Token
            | Member::Incarnation
            | Member::Path(_)
            | Member::Query(_)
            | Member::Header(_)
            | Member::Json(_)
            | Member::Form(_)
            | Member::Multipart(_)
            | Member::Xml(_)
            | Member::GraphQl(_) => {}
        }
    }
    for reference in template.references() {
        match reference.root {
            Root::Operation => {
                let message = "the operation's id cannot be made from itself";
                field.error_within(reference.offset, message);
            }
            Root::Token if !has_fence => {
                let message = "the token is known under a `fence` only";
                field.error_within(reference.offset, message);
            }
            Root::Token
            | Root::Request
            | Root::Path
            | Root::Query
            | Root::Headers
            | Root::Body
            | Root::Form
            | Root::Response => {}
        }
    }
}

fn key_header(once: &Identity, insert: &Insert) -> HeaderName {
    match once.template.single_value() {
        Some(Member::Header(header)) => header.clone(),
        Some(_) | None => callers_header(insert),
    }
}

/// Callers of an upstream that honours keys know the header that it takes them in.
fn callers_header(insert: &Insert) -> HeaderName {
    let header = insert.key.as_ref().and_then(|key| key.slot.header());
    header.cloned().unwrap_or(DEFAULT_KEY_HEADER)
}

fn limits(fields: &mut Fields<'_>, whole: Limits) -> (usize, usize) {
    let default = DEFAULT_LIMIT.min(whole.buffered_bodies);
    let Some(mut fields) = fields.take("limits").and_then(|field| field.map()) else {
        return (default, default);
    };
    let mut limit = |name| {
        fields.or(name, default, |field| {
            let limit = field.read(SIZE, scalar::size)?;
            if limit > whole.buffered_bodies {
                field.error(
                    "is more than all buffered bodies together may be (`limits.buffered_bodies`)",
                );
            }
            Some(limit)
        })
    };
    let both = (limit("body"), limit("answer"));
    fields.finish();
    both
}
