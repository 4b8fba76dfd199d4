//! Values that are shown, and values that are not.
//!
//! What always holds: what a name says is a credential is shown as [`HIDDEN`], wherever it stands:
//! alone, in an id that was composed with it, in a query.
//!
//! What it does not do: look for credentials by their form.

use crate::expression::{Member, Reference, Template};

/// Stands where a credential was.
pub(super) const HIDDEN: &str = "••••";

/// Parts of names that credentials have. `Idempotency-Key` and `Fencing-Token` are none.
const CREDENTIALS: [&str; 9] = [
    "authorization",
    "cookie",
    "password",
    "passwd",
    "secret",
    "api-key",
    "apikey",
    "auth-token",
    "access-token",
];

/// A value of a request, as it may be shown.
pub(super) fn value(member: &Member, text: &str) -> String {
    if is_secret(member) {
        HIDDEN.to_owned()
    } else {
        text.to_owned()
    }
}

/// Does the member hold a credential, by its name?
pub(super) fn is_secret(member: &Member) -> bool {
    match member {
        Member::Path(_) | Member::Token | Member::OperationId | Member::Incarnation => false,
        // A digest of it.
        Member::Multipart(_) => false,
        Member::Header(name) => names_secret(name.as_str()),
        Member::Query(name) | Member::Form(name) => names_secret(name),
        Member::Json(pointer) => names_secret(&pointer.to_string()),
        Member::Xml(path) => names_secret(&path.to_string()),
        Member::GraphQl(value) => names_secret(&value.to_string()),
    }
}

/// Does the template read a credential, by the names of what it reads?
pub(super) fn reads_secret(template: &Template) -> bool {
    let named = |reference: &Reference| {
        let names = [reference.name.as_deref(), reference.field.as_deref()];
        // All of the headers or the content: who knows what of it.
        reference.name.is_none() || names.into_iter().flatten().any(names_secret)
    };
    template.members().any(is_secret) || template.references().any(named)
}

/// A target without the credentials in its query.
pub(super) fn target(target: &str) -> String {
    let Some((path, query)) = target.split_once('?') else {
        return target.to_owned();
    };
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if names_secret(name) => format!("{name}={HIDDEN}"),
        Some(_) | None => pair.to_owned(),
    });
    format!("{path}?{}", pairs.collect::<Vec<_>>().join("&"))
}

fn names_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('_', "-");
    CREDENTIALS.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderName;

    #[test]
    fn credentials_are_known_by_their_names() {
        for (name, hidden) in [
            ("authorization", true),
            ("x-api-key", true),
            ("proxy-authorization", true),
            ("idempotency-key", false),
            ("fencing-token", false),
            ("x-account", false),
        ] {
            let member = Member::Header(HeaderName::from_static(name));
            assert_eq!(value(&member, "v") == HIDDEN, hidden, "{name}");
        }
        assert_eq!(
            target("/a?x=1&api_key=s&y"),
            format!("/a?x=1&api_key={HIDDEN}&y")
        );
        assert_eq!(target("/a"), "/a");
    }
}
