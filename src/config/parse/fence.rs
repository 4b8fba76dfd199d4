//! An effect's fence: its resource, its token, and the rules under it.
//!
//! What always holds: the name of a resource does not depend on the token or on the operation, else
//! nothing would be ordered by it.
//!
//! What it does not do: hold leases (`lease`).

use http::HeaderName;

use super::value;
use crate::config::field::{Field, Fields};
use crate::config::scalar::{self, DURATION};
use crate::config::settings::Fence;
use crate::expression::{Member, PathTemplate, Root, Template};
use crate::protocol::ids::TokenSource;
use crate::protocol::lease::OWN_SOURCE;
use crate::protocol::policy::{
    Capability, FencePolicy, IfOlderUnsettled, IfTwin, Order, Ownership, PerGeneration, TokenMode,
};
use crate::protocol::time::Millis;

const DEFAULT_WAIT: Millis = Millis(10_000);
const DEFAULT_SOURCE: &str = "caller";

/// What `fence` says.
pub(super) struct Fenced {
    pub(super) fence: Fence,
    pub(super) policy: FencePolicy,
    pub(super) order: Order,
}

/// Reads `fence`.
pub(super) fn fence(
    field: &Field<'_>,
    path: Option<&PathTemplate>,
    capability: Capability,
    default_order: Order,
) -> Option<Fenced> {
    let mut fields = field.map()?;
    let resource = fields
        .need("resource")
        .and_then(|field| resource(&field, path));
    let token = token(&mut fields, path);
    let acquisition = header_or(&mut fields, "acquisition", "fencing-acquisition");
    let sequence = header_or(&mut fields, "sequence", "fencing-sequence");
    let per_generation = fields.or("per_generation", PerGeneration::Many, |field| {
        field.choice(&[
            ("many", PerGeneration::Many),
            ("one", PerGeneration::One),
            ("numbered", PerGeneration::Numbered),
        ])
    });
    let require = fields.or("require", Ownership::NotOlder, |field| {
        let require = field.choice(&[
            ("not-older", Ownership::NotOlder),
            ("current", Ownership::Current),
        ])?;
        if require == Ownership::Current && token.source.as_str() != OWN_SOURCE {
            field.error(format!(
                "a lease is known to be live only where Fencepost issues it: `token: {{ source: {OWN_SOURCE} }}`"
            ));
        }
        Some(require)
    });
    let wait = IfOlderUnsettled::Wait(DEFAULT_WAIT);
    let if_older_unsettled = fields.or("if_older_unsettled", wait, |field| {
        if_older_unsettled(field, capability)
    });
    let order = order(&mut fields, per_generation, default_order);
    let if_twin = fields.or("if_twin", IfTwin::Refuse, |field| {
        field.choice(&[
            ("refuse", IfTwin::Refuse),
            ("answer", IfTwin::Answer),
            ("send", IfTwin::Send),
        ])
    });
    let max_step = fields
        .take("max_step")
        .and_then(|field| field.number("a number above zero", 1..=u64::MAX));
    fields.finish();
    Some(Fenced {
        fence: Fence {
            resource: resource?,
            token: token.member,
            source: token.source,
            acquisition,
            sequence,
        },
        policy: FencePolicy {
            token: token.mode,
            per_generation,
            require,
            if_older_unsettled,
            if_twin,
            max_step,
        },
        order,
    })
}

fn resource(field: &Field<'_>, path: Option<&PathTemplate>) -> Option<Template> {
    let resource = value::template(field, path)?;
    for member in resource.members() {
        match member {
            Member::Token | Member::OperationId | Member::Incarnation => {
                field.error(format!(
                    "the name of a resource cannot depend on the {member}"
                ));
            }
            Member::Path(_)
            | Member::Query(_)
            | Member::Header(_)
            | Member::Json(_)
            | Member::Form(_)
            | Member::Multipart(_)
            | Member::Xml(_)
            | Member::GraphQl(_) => {}
        }
    }
    for reference in resource.references() {
        if matches!(reference.root, Root::Token | Root::Operation) {
            let root = reference.root.name();
            let message = format!("the name of a resource cannot depend on the {root}");
            field.error_within(reference.offset, message);
        }
    }
    Some(resource)
}

struct Token {
    member: Member,
    mode: TokenMode,
    source: TokenSource,
}

/// Where the token is; under a fence it is required unless a mode is written.
fn token(fields: &mut Fields<'_>, path: Option<&PathTemplate>) -> Token {
    let mut token = Token {
        member: Member::Header(HeaderName::from_static("fencing-token")),
        mode: TokenMode::Require,
        source: TokenSource::new(DEFAULT_SOURCE),
    };
    let Some(field) = fields.take("token") else {
        return token;
    };
    let Some(mut fields) = field.map() else {
        return token;
    };
    token.mode = fields.or("mode", token.mode, |field| {
        field.choice(&[
            ("require", TokenMode::Require),
            ("prefer", TokenMode::Prefer),
            ("observe", TokenMode::Observe),
        ])
    });
    token.source = fields.or("source", token.source, |field| {
        field.read(super::NAME, |text| {
            super::is_name(text).then(|| TokenSource::new(text))
        })
    });
    if let Some(member) = value::member(&mut fields) {
        value::path_names(&field, &Template::of(member.clone()), path);
        token.member = member;
    }
    fields.finish();
    token
}

fn header_or(fields: &mut Fields<'_>, name: &'static str, default: &'static str) -> HeaderName {
    fields.or(name, HeaderName::from_static(default), value::header_form)
}

/// `wait`, `{ wait: 10s }`, `refuse`, `send`.
fn if_older_unsettled(field: &Field<'_>, capability: Capability) -> Option<IfOlderUnsettled> {
    if field.is_map() {
        let mut fields = field.map()?;
        let wait = fields
            .need("wait")
            .and_then(|field| field.read(DURATION, scalar::millis));
        fields.finish();
        return wait.map(IfOlderUnsettled::Wait);
    }
    let choice = field.choice(&[
        ("wait", IfOlderUnsettled::Wait(DEFAULT_WAIT)),
        ("refuse", IfOlderUnsettled::Refuse),
        ("send", IfOlderUnsettled::Send(DEFAULT_WAIT)),
    ])?;
    if matches!(choice, IfOlderUnsettled::Send(_)) && !capability.conditional {
        field.error("only an upstream with capability `conditional` orders effects by itself");
    }
    Some(choice)
}

fn order(fields: &mut Fields<'_>, per_generation: PerGeneration, default: Order) -> Order {
    let numbered = per_generation == PerGeneration::Numbered;
    let default = if numbered { Order::Strict } else { default };
    fields.or("order", default, |field| {
        let order = field.choice(&[("strict", Order::Strict), ("free", Order::Free)])?;
        if numbered && order == Order::Free {
            field.error("`per_generation: numbered` is an order; it cannot be `free`");
        }
        Some(order)
    })
}
