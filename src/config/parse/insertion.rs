//! What is put into requests: the upstream's key, references, and what becomes of signed requests.
//!
//! What always holds: a key is sent only where it is honoured; a text goes to one place, and two texts
//! to two; a request that is declared to be signed has nothing put in; a key of the caller's own goes
//! on only where whatever scopes it here goes on too.
//!
//! What it does not do: put anything in (`wire::insertion`).

use http::HeaderName;

use super::value;
use crate::config::callers::PrincipalPart;
use crate::config::field::{Field, Fields};
use crate::config::insertion::{
    IfPresent, Insert, KeyFormat, KeyRule, ReferencePart, ReferenceRule, Signed, Slot,
};
use crate::config::scalar::{self, DURATION};
use crate::config::settings::Identity;
use crate::expression::{GraphQl, JsonPointer};
use crate::protocol::policy::{Capability, KeyPolicy, KeyValue};

/// Length of a derived key.
const DERIVED_KEY: usize = 36;

/// Length of a reference's digest.
const DIGEST: usize = 35;

/// The words for places, of which a text goes to one.
pub(in crate::config) const PLACES: [&str; 5] = ["header", "json", "form", "query", "graphql"];

/// What an effect inherits of it.
#[derive(Clone, Debug)]
pub(super) struct Inserted {
    pub(super) insert: Insert,
    /// Does a client certificate scope the caller's key here, and nothing upstream?
    pub(super) by_certificate: bool,
}

impl Inserted {
    /// Reads what an upstream says.
    pub(super) fn of_upstream(
        fields: &mut Fields<'_>,
        capability: Capability,
        principal: &[PrincipalPart],
    ) -> Self {
        let is_certificate = |part: &PrincipalPart| matches!(part, PrincipalPart::Certificate(_));
        let base = Self {
            insert: Insert::of_key(None),
            by_certificate: principal.iter().any(is_certificate),
        };
        let inserted = base.with(fields, capability);
        if capability.idempotent && inserted.insert.key.is_none() {
            fields
                .own()
                .error("capability `idempotent` needs a `key`: where does it go?");
        }
        inserted
    }

    /// With what stands here in place of what is inherited.
    pub(super) fn with(&self, fields: &mut Fields<'_>, capability: Capability) -> Self {
        let inherited = &self.insert;
        let key = match fields.take("key") {
            Some(field) => self.key(&field, capability),
            None => inherited.key.clone(),
        };
        let references = match fields.take("reference") {
            Some(field) => references(&field),
            None => inherited.references.clone(),
        };
        let signed = fields.or("signed", inherited.signed, |field| {
            field.choice(&[
                ("false", Signed::Unexpected),
                ("true", Signed::Always),
                ("leave-alone", Signed::LeftAlone),
            ])
        });
        let signatures = match fields.take("signatures") {
            Some(field) => field
                .list()
                .unwrap_or_default()
                .iter()
                .filter_map(value::header)
                .collect(),
            None => inherited.signatures.clone(),
        };
        let insert = Insert {
            key,
            references,
            signed,
            signatures,
        };
        Self {
            insert,
            by_certificate: self.by_certificate,
        }
    }

    fn key(&self, field: &Field<'_>, capability: Capability) -> Option<KeyRule> {
        if !capability.idempotent {
            field.error(
                "a key is sent only where it is honoured (capability `idempotent`): elsewhere it \
                 invites other software to repeat requests",
            );
        }
        let base = self.insert.key.as_ref();
        let mut fields = field.map()?;
        let slot = slot(&mut fields, base.map(|base| &base.slot));
        let value = base.map_or(KeyValue::Derived, |base| base.policy.value);
        let value = fields.or("value", value, |field| self.key_value(field));
        let lifetime = fields.take("lifetime");
        let inherited = base.and_then(|base| base.policy.lifetime);
        if lifetime.is_none() && inherited.is_none() && capability.idempotent {
            field.warn("without a `lifetime` a lost answer is never settled by sending again");
        }
        let lifetime = lifetime.and_then(|field| field.read(DURATION, scalar::millis));
        let longest = fields
            .take("longest")
            .and_then(|field| longest(&field, value, DERIVED_KEY, "a derived key"));
        let any = base.map_or(KeyFormat::Any, |base| base.format);
        let format = fields.or("format", any, |field| {
            field.choice(&[("any", KeyFormat::Any), ("uuid", KeyFormat::Uuid)])
        });
        let remembers = base.is_some_and(|base| base.policy.remembers_refusals);
        let remembers_refusals = fields.or("remembers_refusals", remembers, Field::boolean);
        fields.finish();
        Some(KeyRule {
            slot: slot?,
            longest: longest.or(base.and_then(|base| base.longest)),
            format,
            policy: KeyPolicy {
                value,
                lifetime: lifetime.or(inherited),
                remembers_refusals,
                placing: None,
            },
        })
    }

    /// A header that selects an account goes upstream too, where it scopes the key. A certificate stays
    /// here.
    fn key_value(&self, field: &Field<'_>) -> Option<KeyValue> {
        let value =
            field.choice(&[("derived", KeyValue::Derived), ("caller", KeyValue::Caller)])?;
        if value == KeyValue::Caller && self.by_certificate {
            field.error(
                "a client certificate does not reach the upstream: two callers with the same key would \
                 share one operation there; say `value: derived`",
            );
        }
        Some(value)
    }
}

/// Does everything that is put in have a place of its own, in requests that can take it?
pub(super) fn check(field: &Field<'_>, insert: &Insert, once: &Identity) {
    let slots: Vec<&Slot> = slots(insert).collect();
    for (index, slot) in slots.iter().enumerate() {
        for other in slots.iter().take(index) {
            if let Some(why) = collide(slot, other) {
                field.error(format!("{slot} and {other}: {why}"));
            }
        }
    }
    let reads_slot = |key: &KeyRule| once.template.single_value() == Some(&key.slot.member());
    if let Some(key) = &insert.key
        && key.slot.is_within()
        && !key.is_callers()
        && reads_slot(key)
    {
        field.error(format!(
            "`once` is read from {}, where a derived key goes: every request would be refused; say \
             `key: {{ value: caller }}`, or name operations by something else",
            key.slot
        ));
    }
    if let Some(key) = &insert.key
        && let Some(longest) = key.longest.filter(|longest| *longest < DERIVED_KEY)
        && (!key.is_callers() || !once.required)
    {
        field.error(format!(
            "a derived key has {DERIVED_KEY} characters, and the upstream takes {longest}: let callers bring \
             theirs, always (`key: {{ value: caller }}`, and `once` with `required: true`)"
        ));
    }
    if once.template.follows_incarnation()
        && insert.references.iter().any(|reference| {
            reference.value.contains(&ReferencePart::Id)
                && !reference.value.contains(&ReferencePart::Digest)
        })
    {
        field.error(
            "`{operation.id}` is the same in every incarnation of the resource: a question would find \
             an operation of an earlier one; use `{operation.reference}`",
        );
    }
    if insert.signed == Signed::Always {
        signed(field, insert, once);
    }
}

fn signed(field: &Field<'_>, insert: &Insert, once: &Identity) {
    if !insert.references.is_empty() {
        field.error(
            "`signed: true` and a `reference`: what is put into a signed request breaks its signature",
        );
    }
    let brings_its_own = |key: &KeyRule| {
        key.is_callers()
            && once.required
            && once.template.single_value() == Some(&key.slot.member())
    };
    if let Some(key) = &insert.key
        && key.slot.is_within()
        && !brings_its_own(key)
    {
        field.error(format!(
            "`signed: true`, and a key would be put into {}: that breaks the signature. Let callers \
             bring theirs (`key: {{ value: caller }}` and `once` at that place, required), or say \
             `signed: leave-alone`",
            key.slot
        ));
    }
}

fn slots(insert: &Insert) -> impl Iterator<Item = &Slot> {
    let references = insert.references.iter().map(|reference| &reference.slot);
    insert.key.iter().map(|key| &key.slot).chain(references)
}

/// Why two texts cannot go there both.
fn collide(one: &Slot, other: &Slot) -> Option<&'static str> {
    let is_json = |slot: &Slot| matches!(slot, Slot::Json(_) | Slot::GraphQl(_));
    let is_form = |slot: &Slot| matches!(slot, Slot::Form(_));
    if (is_json(one) && is_form(other)) || (is_form(one) && is_json(other)) {
        return Some("no content is both JSON and a form");
    }
    let overlap = match (one, other) {
        (Slot::Json(one), Slot::Json(other)) => {
            let (one, other) = (one.tokens(), other.tokens());
            one.starts_with(other) || other.starts_with(one)
        }
        _ => one == other,
    };
    overlap.then_some("two texts cannot go to one place")
}

fn slot(fields: &mut Fields<'_>, inherited: Option<&Slot>) -> Option<Slot> {
    let named = PLACES.map(|place| (place, fields.take(place)));
    let mut named = named
        .into_iter()
        .filter_map(|(place, field)| Some((place, field?)));
    let Some((place, field)) = named.next() else {
        if inherited.is_none() {
            fields.own().error(format!(
                "one of {} is missing: where does it go?",
                PLACES.join(", ")
            ));
        }
        return inherited.cloned();
    };
    if let Some((_, second)) = named.next() {
        second.error("a text goes to one place");
    }
    match place {
        "header" => header(&field).map(Slot::Header),
        "json" => pointer(&field).map(Slot::Json),
        "form" => name(&field).map(Slot::Form),
        "query" => name(&field).map(Slot::Query),
        _ => variable(&field).map(Slot::GraphQl),
    }
}

/// Not one that says what the content is.
fn header(field: &Field<'_>) -> Option<HeaderName> {
    let header = value::header(field)?;
    let text = header.as_str();
    if text.starts_with("content-")
        || text.starts_with("fencing-")
        || text.starts_with("fencepost-")
    {
        field.error(format!(
            "`{text}` has a meaning of its own and cannot carry this"
        ));
    }
    Some(header)
}

fn pointer(field: &Field<'_>) -> Option<JsonPointer> {
    let expected = "a JSON pointer to a member (`/order/key`)";
    let usable = |pointer: &JsonPointer| !pointer.tokens().is_empty();
    field.read(expected, |text| JsonPointer::parse(text).filter(usable))
}

/// It stands between quotes in a multipart form, and as it is in whatever reads it.
fn name(field: &Field<'_>) -> Option<String> {
    let expected = "a name of visible ASCII without `\"` and `\\`";
    field.read(expected, |text| {
        let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
        (!text.is_empty() && text.bytes().all(plain)).then(|| text.to_owned())
    })
}

fn variable(field: &Field<'_>) -> Option<String> {
    field.read(
        "the name of a variable (`idempotencyKey`)",
        |text| match GraphQl::parse(text)? {
            GraphQl::Variable(names) => <[String; 1]>::try_from(names).ok().map(|[name]| name),
            GraphQl::OperationName => None,
        },
    )
}

fn longest(field: &Field<'_>, value: KeyValue, own: usize, what: &str) -> Option<usize> {
    let longest: usize = field.number("a number of bytes above zero", 1..=u64::MAX)?;
    if value == KeyValue::Derived && longest < own {
        field.error(format!("{what} has {own} characters"));
        return None;
    }
    Some(longest)
}

fn references(field: &Field<'_>) -> Vec<ReferenceRule> {
    let items = field.list().unwrap_or_default();
    items.iter().filter_map(reference).collect()
}

/// `{ form: "metadata[operation]", value: "{operation.reference}" }`.
fn reference(field: &Field<'_>) -> Option<ReferenceRule> {
    let mut fields = field.map()?;
    let slot = slot(&mut fields, None);
    let value = fields.or("value", vec![ReferencePart::Digest], |field| parts(field));
    let fixed: usize = value
        .iter()
        .map(|part| match part {
            ReferencePart::Text(text) => text.len(),
            ReferencePart::Id => 1,
            ReferencePart::Digest => DIGEST,
        })
        .sum();
    let longest = fields
        .take("longest")
        .and_then(|field| longest(&field, KeyValue::Derived, fixed, "the shortest such value"));
    let if_present = fields.or("if_present", IfPresent::Refuse, |field| {
        field.choice(&[("refuse", IfPresent::Refuse), ("keep", IfPresent::Keep)])
    });
    fields.finish();
    Some(ReferenceRule {
        slot: slot?,
        value,
        longest,
        if_present,
    })
}

/// Text with `{operation.id}` and `{operation.reference}` in it, one of them at least.
fn parts(field: &Field<'_>) -> Option<Vec<ReferencePart>> {
    let expected = "text of visible ASCII with `{operation.reference}` or `{operation.id}` in it";
    field.read(expected, |text| {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (expression, after) = after.split_once('}')?;
            parts.extend(plain(before)?);
            parts.push(match expression.trim() {
                "operation.id" => ReferencePart::Id,
                "operation.reference" => ReferencePart::Digest,
                _ => return None,
            });
            rest = after;
        }
        let computed = !parts.is_empty();
        parts.extend(plain(rest)?);
        computed.then_some(parts)
    })
}

/// `Some(None)`: there is no text.
#[expect(
    clippy::option_option,
    reason = "no text and no good text are two things"
)]
fn plain(text: &str) -> Option<Option<ReferencePart>> {
    let good = text
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'}');
    good.then(|| (!text.is_empty()).then(|| ReferencePart::Text(text.to_owned())))
}
