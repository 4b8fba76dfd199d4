//! Does a request bear a signature, or a digest, over its query or its content?
//!
//! What always holds: only fields that say so count; a field of the config's counts by its name alone.
//!
//! What it does not do: verify anything, or notice a signature that shows itself by no field known here.

use crate::config::{Insert, Signed};
use crate::protocol::outcome::StoredRequest;

/// RFC 9421, RFC 9530 and its forerunner RFC 3230, RFC 1864, and AWS's digest of the content.
const FIELDS: [&str; 7] = [
    "signature",
    "signature-input",
    "digest",
    "content-digest",
    "repr-digest",
    "content-md5",
    "x-amz-content-sha256",
];

/// Schemes of `Authorization` that sign what they authorize. They go on with `-` and an algorithm, or
/// end there.
const SCHEMES: [&str; 7] = ["aws", "aws4", "goog4", "tc3", "hawk", "signature", "eg1"];

/// Parameters of a query that is signed.
const PARAMETERS: [&str; 3] = ["x-amz-signature", "x-goog-signature", "oauth_signature"];

/// What shows that it is signed, for its author.
pub(super) fn of(request: &StoredRequest, insert: &Insert) -> Option<String> {
    for (name, value) in &request.fields {
        let Ok(name) = std::str::from_utf8(name) else {
            continue;
        };
        let name = name.to_ascii_lowercase();
        let is_configured = insert.signatures.iter().any(|it| *it == name.as_str());
        if is_configured || FIELDS.contains(&name.as_str()) {
            return Some(format!("header {name}"));
        }
        if name == "authorization"
            && let Some(scheme) = signing_scheme(value)
        {
            return Some(format!("header authorization, scheme {scheme}"));
        }
    }
    let target = String::from_utf8_lossy(&request.target).to_ascii_lowercase();
    let query = target.split_once('?').map_or("", |(_, query)| query);
    let is_signature = |pair: &str| {
        PARAMETERS
            .iter()
            .any(|name| pair.split('=').next() == Some(*name))
    };
    if let Some(pair) = query.split('&').find(|pair| is_signature(pair)) {
        let name = pair.split('=').next().unwrap_or_default();
        return Some(format!("query {name}"));
    }
    (insert.signed == Signed::Always).then(|| "`signed: true`".to_owned())
}

fn signing_scheme(value: &[u8]) -> Option<String> {
    let value = String::from_utf8_lossy(value).to_ascii_lowercase();
    let (scheme, rest) = value.trim().split_once(' ').unwrap_or((value.trim(), ""));
    let family = scheme.split('-').next().unwrap_or_default();
    let signs =
        SCHEMES.contains(&family) || (scheme == "oauth" && rest.contains("oauth_signature"));
    signs.then(|| scheme.to_owned())
}
