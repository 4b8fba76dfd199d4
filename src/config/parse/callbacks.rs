//! Where an upstream's callbacks arrive, who may send them, and what they mean.
//!
//! What always holds: a callback is believed under a signature alone, whose secret comes from elsewhere; each
//! rule says which operation it is about, and when the effect was applied or was not; a rule says where each
//! part of the principal stands, where operations have one.
//!
//! What it does not do: verify a signature (`wire::signed`).

use std::time::Duration;

use http::{HeaderName, Uri};

use super::asking::{in_place, outcome};
use super::callers::{claimed, listen_tls};
use super::{Taken, value};
use crate::config::callbacks::{
    CallbackRule, Callbacks, HmacDigest, HmacEncoding, HmacHeader, Scheme, Signature, Subject,
};
use crate::config::callers::PrincipalPart;
use crate::config::field::{Field, Fields};
use crate::config::problems::Place;
use crate::config::scalar::{self, DURATION, SIZE};
use crate::config::settings::Limits;
use crate::expression::{Member, PathTemplate, Pick, RequestCondition, Template};

const DEFAULT_BODY: usize = 1 << 20;
const DEFAULT_RESPONSE: Duration = Duration::from_secs(10);
/// As the vendors' own libraries.
const DEFAULT_TOLERANCE: Duration = Duration::from_secs(300);
const LONGEST_TOLERANCE: Duration = Duration::from_secs(24 * 3_600);

/// Reads `callbacks` of an upstream whose operations have this principal.
/// `profile`: where everything stands that a profile brings.
pub(super) fn callbacks(
    field: &Field<'_>,
    principal: &[PrincipalPart],
    profile: Option<Place>,
    limits: Limits,
    taken: &mut Taken,
) -> Option<Callbacks> {
    let mut fields = field.map()?;
    let listen = fields
        .need("listen")
        .and_then(|field| claimed(&field, taken));
    let listen_tls = fields
        .take("listen_tls")
        .and_then(|field| listen_tls(&field));
    let forward = fields.take("forward").and_then(|field| forward(&field));
    let body_limit = fields.or("body", DEFAULT_BODY.min(limits.buffered_bodies), |field| {
        let limit = field.read(SIZE, scalar::size)?;
        if limit > limits.buffered_bodies {
            field.error(
                "is more than all buffered bodies together may be (`limits.buffered_bodies`)",
            );
        }
        Some(limit)
    });
    let response = fields.or("response", DEFAULT_RESPONSE, |field| {
        field.read(DURATION, scalar::duration)
    });
    let rules = match fields.take("rules") {
        Some(list) => {
            let items = list.list()?;
            if items.is_empty() {
                list.error("there is no rule: which callbacks does it send?");
            }
            let read = |item: &Field<'_>| {
                let mut fields = item.map()?;
                let rule = rule(&mut fields, principal, profile);
                fields.finish();
                rule
            };
            items.iter().filter_map(read).collect()
        }
        None => rule(&mut fields, principal, profile).into_iter().collect(),
    };
    fields.finish();
    Some(Callbacks {
        listen: listen?,
        listen_tls,
        forward,
        body_limit,
        response,
        rules,
    })
}

fn forward(field: &Field<'_>) -> Option<Uri> {
    let url: Uri = field.read(
        "the URL of the application (`http://127.0.0.1:8080`)",
        |text| {
            let url: Uri = text.parse().ok()?;
            let known = matches!(url.scheme_str(), Some("http" | "https"));
            (known && url.host().is_some_and(|host| !host.is_empty())).then_some(url)
        },
    )?;
    if url.path() != "/" || url.query().is_some() {
        field.error("path and query of a callback go on as they are: the URL has none of its own");
    }
    Some(url)
}

fn rule(
    fields: &mut Fields<'_>,
    principal: &[PrincipalPart],
    profile: Option<Place>,
) -> Option<CallbackRule> {
    let on = fields.take("on");
    let (name, path) = match &on {
        None => (
            "POST /{path...}".to_owned(),
            PathTemplate::parse("/{path...}").ok(),
        ),
        Some(field) => (field.text()?.to_owned(), post_path(field)),
    };
    let signature = fields.need("signature").and_then(|field| signature(&field));
    let subject = subject(fields, principal, profile, path.as_ref());
    let mut condition = |name| {
        let field = fields.take(name)?;
        in_place(&field, RequestCondition::parse(field.text()?))
    };
    let (applied, not_applied) = (condition("applied"), condition("not_applied"));
    if applied.is_none() && not_applied.is_none() {
        fields
            .own()
            .error("says nothing: when was it `applied`, and when `not_applied`?");
    }
    let definitive = fields.or("definitive", false, Field::boolean);
    let outcome = outcome(fields, "body", Pick::of_request);
    Some(CallbackRule {
        name,
        path: path?,
        signature: signature?,
        subject: subject?,
        applied,
        not_applied,
        definitive,
        outcome: outcome?,
    })
}

/// `POST /webhooks/stripe`.
fn post_path(field: &Field<'_>) -> Option<PathTemplate> {
    let text = field.text()?;
    let Some(path) = text.strip_prefix("POST ") else {
        field.error("a callback is a POST (`POST /webhooks/stripe`)");
        return None;
    };
    let start = text.len().saturating_sub(path.len());
    PathTemplate::parse(path)
        .map_err(|error| field.error_within(start.saturating_add(error.offset), error.message))
        .ok()
}

/// `operation: TEMPLATE`, `reference: TEMPLATE`, and `principal: { HEADER: TEMPLATE }` where operations have one.
fn subject(
    fields: &mut Fields<'_>,
    principal: &[PrincipalPart],
    profile: Option<Place>,
    path: Option<&PathTemplate>,
) -> Option<Subject> {
    let operation = fields
        .need("operation")
        .and_then(|field| template(&field, path));
    let reference = fields
        .take("reference")
        .and_then(|field| template(&field, path));
    let stated = fields.take("principal");
    let is_profiles = |field: &Field<'_>| profile == Some(field.at());
    let own = stated.as_ref().filter(|field| !is_profiles(field));
    let own = own.unwrap_or(fields.own()).clone();
    let named = stated.as_ref().map(Field::named).unwrap_or_default();
    let mut given: Vec<(HeaderName, Field<'_>)> = Vec::new();
    for (name, field) in named {
        match HeaderName::try_from(name) {
            Ok(name) => given.push((name, field)),
            Err(_) => field.error(format!("`{name}` is not the name of a header")),
        }
    }
    let mut parts = Vec::new();
    for part in principal {
        let PrincipalPart::Header(header) = part else {
            own.error(
                "operations of this upstream belong to a client certificate, which no callback knows",
            );
            return None;
        };
        let found = given.iter().position(|(name, _)| name == header);
        let Some(found) = found else {
            own.error(format!(
                "operations of this upstream belong to the `{header}` of their caller: where does a \
                 callback say it? `principal: {{ {header}: \"{{body.account}}\" }}`"
            ));
            return None;
        };
        let (_, field) = given.swap_remove(found);
        parts.push(template(&field, path)?);
    }
    // A profile says where it stands, for whoever's operations have it.
    for (name, field) in given.iter().filter(|(_, field)| !is_profiles(field)) {
        field.error(format!("`{name}` is no part of the upstream's `principal`"));
    }
    Some(Subject {
        operation: operation?,
        reference,
        principal: parts,
    })
}

/// A callback has neither a token nor an operation of its own.
fn template(field: &Field<'_>, path: Option<&PathTemplate>) -> Option<Template> {
    let template = value::template(field, path)?;
    let unknown = |member: &Member| {
        matches!(
            member,
            Member::Token | Member::Incarnation | Member::OperationId
        )
    };
    let roots = crate::expression::Root::OF_CALLBACK;
    let is_known = |root| roots.contains(&root);
    if template.members().any(unknown)
        || !template
            .references()
            .all(|reference| is_known(reference.root))
    {
        field.error("a callback has neither a token nor an operation of its own to read from");
        return None;
    }
    Some(template)
}

fn signature(field: &Field<'_>) -> Option<Signature> {
    const SCHEMES: [(&str, &str); 5] = [
        ("stripe", "stripe"),
        ("standard-webhooks", "standard"),
        ("github", "github"),
        ("adyen", "adyen"),
        ("hmac", "hmac"),
    ];
    let mut fields = field.map()?;
    let kind = fields
        .need("scheme")
        .and_then(|field| field.choice(&SCHEMES));
    let header = hmac_header(&mut fields, kind == Some("hmac"));
    let secrets = fields
        .need("secrets")
        .and_then(|field| field.list().map(|list| (field, list)));
    let tolerance = fields.or("tolerance", DEFAULT_TOLERANCE, |field| {
        let tolerance = field.read(DURATION, scalar::duration)?;
        if tolerance > LONGEST_TOLERANCE {
            field.error("a callback of more than a day ago is not believed for its signature");
        }
        Some(tolerance)
    });
    fields.finish();
    let (list, items) = secrets?;
    if items.is_empty() {
        list.error("without a secret anybody can tell anything");
    }
    let scheme = match kind? {
        "stripe" => Scheme::Stripe,
        "standard" => Scheme::Standard,
        "github" => Scheme::GitHub,
        "adyen" => Scheme::Adyen,
        _ => Scheme::Hmac(header?),
    };
    let secrets = items.iter().filter_map(|item| {
        let secret = item.secret()?;
        let unfit = match scheme {
            Scheme::Standard if secret.webhook_key().is_none() => {
                Some("is not Base64, with or without `whsec_` before it")
            }
            Scheme::Adyen if secret.hex_key().is_none() => Some("is not hexadecimal"),
            Scheme::Standard
            | Scheme::Adyen
            | Scheme::Stripe
            | Scheme::GitHub
            | Scheme::Hmac(_) => None,
        };
        if let Some(unfit) = unfit.filter(|_| !item.leaves_secrets()) {
            item.error(unfit);
        }
        Some(secret)
    });
    let secrets = secrets.collect();
    Some(Signature {
        scheme,
        secrets,
        tolerance,
    })
}

/// What a signature of the scheme `hmac` is like; refused beside any other.
fn hmac_header(fields: &mut Fields<'_>, wanted: bool) -> Option<HmacHeader> {
    let names = ["header", "digest", "encoding", "prefix", "timestamp"];
    let [header, digest, encoding, prefix, timestamp] = names.map(|name| fields.take(name));
    if !wanted {
        let all = [header, digest, encoding, prefix, timestamp];
        for field in all.into_iter().flatten() {
            field.error("only the scheme `hmac` leaves this open");
        }
        return None;
    }
    let named = |field: Field<'_>| -> Option<HeaderName> { value::header(&field) };
    if header.is_none() {
        fields
            .own()
            .error("header is missing: where does the signature stand?");
    }
    let digest = digest.map_or(Some(HmacDigest::Sha256), |field| {
        field.choice(&[
            ("sha256", HmacDigest::Sha256),
            ("sha512", HmacDigest::Sha512),
            ("sha1", HmacDigest::Sha1),
        ])
    });
    let encoding = encoding.map_or(Some(HmacEncoding::Hex), |field| {
        field.choice(&[("hex", HmacEncoding::Hex), ("base64", HmacEncoding::Base64)])
    });
    let prefix = prefix.map_or(Some(String::new()), |field| field.text().map(str::to_owned));
    let timestamp = timestamp.map(named);
    Some(HmacHeader {
        header: header.and_then(named)?,
        digest: digest?,
        encoding: encoding?,
        prefix: prefix?,
        timestamp: match timestamp {
            None => None,
            Some(named) => Some(named?),
        },
    })
}
