//! Which account or caller an operation belongs to.
//!
//! What always holds: it is a hash without a key of ours: the upstream's key depends on it, and must be
//! the same should the register be lost. Whatever is hashed has a mark of its kind and its length before
//! it, so that no two lists of values run together.
//!
//! What it does not do: ask whether the caller may use that account; the upstream does.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};
use ring::digest;

use super::caller::Caller;
use super::canonical::length;
use super::problem::Fault;
use crate::config::{CertificateName, PrincipalPart, Upstream};
use crate::protocol::ids::Principal;

/// Set in front of everything.
const VERSION: &[u8] = b"fencepost principal v1";

/// A header that is not there.
const ABSENT_HEADER: u8 = 0;

/// The value of a header.
const HEADER: u8 = 1;

/// A name in a certificate: of each kind a mark of its own.
const fn certificate(name: CertificateName) -> u8 {
    match name {
        CertificateName::Subject => 2,
        CertificateName::Uri => 3,
        CertificateName::Dns => 4,
        CertificateName::Fingerprint => 5,
    }
}

/// Of a request to this upstream. A header that is absent selects the default account, which is one of
/// its own; one that is doubled selects nothing that can be known. A name that a certificate is to give
/// has no default: a caller without it is nobody.
pub(super) fn principal(
    upstream: &Upstream,
    headers: &HeaderMap,
    caller: &Caller,
) -> Result<Principal, Fault> {
    if upstream.principal.is_empty() {
        return Ok(Principal::None);
    }
    let mut context = begun();
    for part in &upstream.principal {
        match part {
            PrincipalPart::Header(name) => match one(headers, name)? {
                None => absent_header(&mut context),
                Some(value) => update(&mut context, HEADER, value),
            },
            PrincipalPart::Certificate(name) => {
                let value = caller.name(*name).map_err(|why| missing(name, &why))?;
                update(&mut context, certificate(*name), &value);
            }
        }
    }
    Ok(hashed(context))
}

/// Of a stored request, by parts that may be others now; `None`: it does not say.
pub(super) fn of_stored(parts: &[PrincipalPart], headers: &HeaderMap) -> Option<Principal> {
    if parts.is_empty() {
        return Some(Principal::None);
    }
    let mut context = begun();
    for part in parts {
        match part {
            PrincipalPart::Header(name) => match one(headers, name).ok()? {
                None => absent_header(&mut context),
                Some(value) => update(&mut context, HEADER, value),
            },
            PrincipalPart::Certificate(_) => return None,
        }
    }
    Some(hashed(context))
}

/// Of a request whose headers, all that count, had these values.
pub fn of_headers<'v>(values: impl ExactSizeIterator<Item = Option<&'v str>>) -> Principal {
    if values.len() == 0 {
        return Principal::None;
    }
    let mut context = begun();
    for value in values {
        match value {
            None => absent_header(&mut context),
            Some(value) => update(&mut context, HEADER, value.as_bytes()),
        }
    }
    hashed(context)
}

fn begun() -> digest::Context {
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(VERSION);
    context
}

fn hashed(context: digest::Context) -> Principal {
    let digest = context.finish();
    let hash = digest.as_ref().first_chunk().copied().unwrap_or_default();
    Principal::Hashed(hash)
}

fn absent_header(context: &mut digest::Context) {
    context.update(&[ABSENT_HEADER]);
}

fn one<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h [u8]>, Fault> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (value, None) => Ok(value.map(HeaderValue::as_bytes)),
        (_, Some(_)) => Err(missing(
            &format_args!("header {name}"),
            &"is there more than once",
        )),
    }
}

fn missing(name: &dyn fmt::Display, why: &dyn fmt::Display) -> Fault {
    Fault::IdentityMissing {
        field: format!("{name} {why}"),
    }
}

fn update(context: &mut digest::Context, kind: u8, value: &[u8]) {
    context.update(&[kind]);
    context.update(&length(value));
    context.update(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCOUNT: PrincipalPart = PrincipalPart::Header(HeaderName::from_static("x-account"));
    const OTHER: PrincipalPart = PrincipalPart::Header(HeaderName::from_static("x-other"));

    /// What a stored request says of its account is what was recorded when it came, by the same parts only.
    #[test]
    fn a_stored_request_is_of_the_account_that_it_was_of() {
        let sent = |accounts: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for account in accounts {
                headers.append("x-account", HeaderValue::from_static(account));
            }
            headers
        };
        let recorded = Some(of_headers([Some("B")].into_iter()));
        assert_eq!(of_stored(&[ACCOUNT], &sent(&["B"])), recorded);
        let another = of_stored(&[ACCOUNT], &sent(&["A"]));
        assert!(another.is_some() && another != recorded);
        assert_ne!(of_stored(&[ACCOUNT], &sent(&[])), recorded);
        assert_eq!(of_stored(&[ACCOUNT], &sent(&["B", "B"])), None);
        // What selects accounts has changed since.
        for parts in [&[][..], &[OTHER], &[ACCOUNT, OTHER]] {
            assert_ne!(of_stored(parts, &sent(&["B"])), recorded);
        }
        let none = Some(Principal::None);
        assert_eq!(of_stored(&[], &sent(&["B"])), none);
        let by_name = PrincipalPart::Certificate(CertificateName::Uri);
        assert_eq!(of_stored(&[by_name], &sent(&["B"])), None);
    }
}
