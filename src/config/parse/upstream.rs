//! One upstream: where it is, what it can do, and what is an effect there.
//!
//! What always holds: an upstream that deduplicates says where its key goes; one that can do nothing
//! gets a fresh connection for every effect.
//!
//! What it does not do: read who calls (`callers`), what an effect is (`effect`), or what is put into
//! one (`insertion`).

use std::sync::Arc;

use http::Uri;

use super::effect::{self, Context};
use super::insertion::Inserted;
use super::{
    Inherited, NAME, Taken, answers, callbacks, callers, errors, is_name, observed, tls_files,
};
use crate::config::answers::AnswerRules;
use crate::config::field::{Field, Fields};
use crate::config::insertion::destination;
use crate::config::problems::Place;
use crate::config::profile::{self, Profile};
use crate::config::scalar::{self, DURATION};
use crate::config::settings::{Action, EffectRule, TlsFiles, Unlisted, Upstream};
use crate::config::tree::{Node, Value};
use crate::protocol::ids::UpstreamId;
use crate::protocol::policy::{Capability, Timeouts};
use crate::protocol::time::Millis;

const DEFAULT_TIMEOUTS: Timeouts = Timeouts {
    dispatch: Millis(5_000),
    connect: Millis(5_000),
    response: Millis(30_000),
};

/// Reads an entry of `upstreams`; `None` where something is missing that has no default.
pub(super) fn upstream(
    name: &str,
    field: &Field<'_>,
    inherited: &Inherited<'_>,
    taken: &mut Taken,
) -> Option<Upstream> {
    if !is_name(name) {
        field.error(format!("`{name}` is not {NAME}"));
    }
    let profile = profile_of(field, inherited).map(|it| it.for_upstream(field.node()));
    let mut table = AnswerRules::contract();
    let Some(profile) = profile else {
        return merged(name, field, &table, inherited, taken);
    };
    if let Some(answers) = &profile.answers {
        table = answers::layer(&table, Some(&field.with_node(answers)));
    }
    let node = profile::overlay(field.node(), &profile.upstream);
    merged(name, &field.with_node(&node), &table, inherited, taken)
}

fn profile_of(field: &Field<'_>, inherited: &Inherited<'_>) -> Option<Profile> {
    if !field.is_map() {
        return None;
    }
    let field = field.map()?.take("profile")?;
    let profile = inherited.library.find(&field);
    let notes = profile.iter().flat_map(|profile| &profile.notes);
    notes.for_each(|note| field.warn(note));
    profile
}

fn merged(
    name: &str,
    field: &Field<'_>,
    base: &AnswerRules,
    inherited: &Inherited<'_>,
    taken: &mut Taken,
) -> Option<Upstream> {
    let mut fields = field.map()?;
    let profile = fields.take("profile").map(|field| field.at());
    let mode = super::mode(&mut fields, inherited.mode);
    fields.refuse_later(&["hosts"]);
    let id = id(&mut fields, name, taken);
    let callers = callers::callers(&mut fields, taken);
    let url = fields.need("url").and_then(|field| url(&field));
    let tls = tls(&mut fields, url.as_ref());
    let capability = capability(&mut fields);
    let inserted = Inserted::of_upstream(&mut fields, capability, &callers.principal);
    let limits = inherited.limits;
    let callbacks = fields
        .take("callbacks")
        .and_then(|field| callbacks::callbacks(&field, &callers.principal, profile, limits, taken))
        .map(Arc::new);
    let context = Context {
        mode,
        calls_back: callbacks.is_some(),
        destination: url.as_ref().map(destination),
        principal: callers.principal.clone(),
        profile,
        capability,
        inserted,
        answers: answers::layer(base, fields.take("answers").as_ref()),
        timeouts: timeouts(&mut fields),
        limits: inherited.limits,
    };
    let effects = effects(&mut fields, &context, profile);
    let unlisted = unlisted(&mut fields, &context);
    if let Some(effects) = &effects {
        warn_of_promise(field, effects, &unlisted, &context);
    }
    let accept_close_framed = fields.or("accept_close_framed", false, Field::boolean);
    let fresh_connections = fresh_connections(&mut fields, capability);
    // Whatever goes without a key has nothing that would tell a second one apart.
    let goes_keyless = effects.iter().flatten().any(may_go_keyless);
    let errors = errors::errors(&mut fields);
    fields.finish();
    Some(Upstream {
        name: name.to_owned(),
        id,
        listen: callers.listen?,
        listen_tls: callers.tls,
        principal: callers.principal,
        url: url?,
        tls,
        capability,
        key: context.inserted.insert.key,
        effects: effects?,
        unlisted,
        mode,
        timeouts: context.timeouts,
        accept_close_framed,
        fresh_connections: fresh_connections || goes_keyless,
        callbacks,
        errors,
    })
}

fn id(fields: &mut Fields<'_>, name: &str, taken: &mut Taken) -> UpstreamId {
    let field = fields.take("id");
    let id = field
        .as_ref()
        .and_then(|field| field.read(NAME, |text| is_name(text).then_some(text)));
    let id = id.unwrap_or(name);
    taken.claim_id(id, field.as_ref().unwrap_or(fields.own()));
    UpstreamId::new(id)
}

/// Scheme, host and port.
fn url(field: &Field<'_>) -> Option<Uri> {
    let expected = "a URL of http or https with a host (`https://api.example.com`)";
    let url: Uri = field.read(expected, |text| {
        let url: Uri = text.parse().ok()?;
        let known = matches!(url.scheme_str(), Some("http" | "https"));
        (known && url.host().is_some_and(|host| !host.is_empty())).then_some(url)
    })?;
    if url
        .authority()
        .is_some_and(|authority| authority.as_str().contains('@'))
    {
        field.error("credentials do not belong into a URL; they are the caller's");
    }
    if url.path() != "/" || url.query().is_some() {
        field.error("a path or a query in the URL is not supported by this version");
    }
    Some(url)
}

fn tls(fields: &mut Fields<'_>, url: Option<&Uri>) -> TlsFiles {
    let Some(field) = fields.take("tls") else {
        return TlsFiles::default();
    };
    if url.is_some_and(|url| url.scheme_str() == Some("http")) {
        field.error("there is no TLS towards an `http` URL");
    }
    tls_files(&field).unwrap_or_default()
}

/// `[idempotent]`, `conditional`, `opaque`; none is opaque.
fn capability(fields: &mut Fields<'_>) -> Capability {
    let mut all = Capability::default();
    let Some(field) = fields.take("capability") else {
        return all;
    };
    let items = if field.is_list() || field.is_null() {
        field.list().unwrap_or_default()
    } else {
        vec![field.clone()]
    };
    let alone = items.len() == 1;
    for item in items {
        let known = [
            ("conditional", 'c'),
            ("idempotent", 'i'),
            ("query", 'q'),
            ("callback", 'b'),
            ("opaque", 'o'),
        ];
        match item.choice(&known) {
            Some('c') => all.conditional = true,
            Some('i') => all.idempotent = true,
            Some('q') => all.query = true,
            Some('b') => all.callback = true,
            Some(_) if !alone => item.error("`opaque` means that there is nothing else"),
            Some(_) | None => {}
        }
    }
    all
}

fn timeouts(fields: &mut Fields<'_>) -> Timeouts {
    let Some(mut fields) = fields.take("timeouts").and_then(|field| field.map()) else {
        return DEFAULT_TIMEOUTS;
    };
    let mut read = |name, default| fields.or(name, default, |f| f.read(DURATION, scalar::millis));
    let timeouts = Timeouts {
        dispatch: read("dispatch", DEFAULT_TIMEOUTS.dispatch),
        connect: read("connect", DEFAULT_TIMEOUTS.connect),
        response: read("response", DEFAULT_TIMEOUTS.response),
    };
    fields.finish();
    timeouts
}

/// Reads all effects; `None` if one of them could not be read.
fn effects(
    fields: &mut Fields<'_>,
    context: &Context,
    profile: Option<Place>,
) -> Option<Vec<EffectRule>> {
    let items = fields
        .take("effects")
        .and_then(|field| field.list())
        .unwrap_or_default();
    let mut effects: Vec<EffectRule> = Vec::new();
    let mut all = true;
    for item in items {
        let Some(rule) = effect::effect(&item, context) else {
            all = false;
            continue;
        };
        let same = |earlier: &EffectRule| {
            earlier.methods == rule.methods && earlier.path.as_str() == rule.path.as_str()
        };
        // An effect of the profile may be overruled by one before it.
        if effects.iter().any(same) && Some(item.at()) != profile {
            item.error(format!(
                "`{}` is listed already, and only the first counts",
                rule.name
            ));
        }
        effects.push(rule);
    }
    all.then_some(effects)
}

fn unlisted(fields: &mut Fields<'_>, context: &Context) -> Unlisted {
    #[derive(Clone, Copy)]
    enum Word {
        Observe,
        Protect,
        Deny,
        Pass,
    }
    let word = fields.or("unlisted", Word::Observe, |field| {
        field.choice(&[
            ("observe", Word::Observe),
            ("protect", Word::Protect),
            ("deny", Word::Deny),
            ("pass", Word::Pass),
        ])
    });
    match word {
        Word::Observe => Unlisted::Observe,
        Word::Deny => Unlisted::Deny,
        Word::Pass => Unlisted::Pass,
        Word::Protect => {
            let nothing = Node {
                at: fields.own().at(),
                value: Value::Null,
            };
            let protect = effect::defaults(&fields.own().with_node(&nothing), context);
            protect.map_or(Unlisted::Deny, |protect| {
                Unlisted::Protect(Arc::new(protect))
            })
        }
    }
}

/// What the reader of a config should know about what it can promise.
fn warn_of_promise(
    field: &Field<'_>,
    effects: &[EffectRule],
    unlisted: &Unlisted,
    context: &Context,
) {
    let protects = |effect: &EffectRule| matches!(effect.action, Action::Protect(_));
    if !effects.iter().any(protects) && !matches!(unlisted, Unlisted::Protect(_)) {
        field.warn("no effect is protected here");
    } else if effects
        .iter()
        .filter(|it| protects(it))
        .all(observed::is_observed)
        && observed::is_unlisted_observed(unlisted)
    {
        field.warn(observed::NOTHING_IS_REFUSED);
    } else if context.capability.is_opaque() {
        field.warn(
            "an upstream without capabilities gets at most one attempt of an effect: every lost answer \
             waits for a person",
        );
    }
}

fn may_go_keyless(effect: &EffectRule) -> bool {
    match &effect.action {
        Action::Protect(protect) => protect.keyless.is_some(),
        Action::Pass => false,
    }
}

fn fresh_connections(fields: &mut Fields<'_>, capability: Capability) -> bool {
    let opaque = capability.is_opaque();
    fields.or("connections", opaque, |field| {
        let fresh = field.choice(&[("reuse", false), ("fresh", true)])?;
        if opaque && !fresh {
            field
                .error("an upstream without capabilities gets a fresh connection for every effect");
        }
        Some(fresh)
    })
}
