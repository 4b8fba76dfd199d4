//! Which account or caller an operation belongs to.
//!
//! What always holds: it is a hash without a key of ours: the upstream's key depends on it, and must be
//! the same should the register be lost. Whatever is hashed has a mark of its kind and its length before
//! it, so that no two lists of values run together.
//!
//! What it does not do: ask whether the caller may use that account; the upstream does.

use http::HeaderMap;
use ring::digest;

use super::canonical::length;
use super::problem::Fault;
use crate::config::Upstream;
use crate::protocol::ids::Principal;

/// Set in front of everything.
const VERSION: &[u8] = b"fencepost principal v1";

/// A header that is not there.
const ABSENT_HEADER: u8 = 0;

/// The value of a header.
const HEADER: u8 = 1;

/// Of a request to this upstream. A header that is absent selects the default account, which is one of
/// its own; one that is doubled selects nothing that can be known.
pub(super) fn principal(upstream: &Upstream, headers: &HeaderMap) -> Result<Principal, Fault> {
    if upstream.principal.is_empty() {
        return Ok(Principal::None);
    }
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(VERSION);
    for name in &upstream.principal {
        let mut values = headers.get_all(name).iter();
        match (values.next(), values.next()) {
            (None, _) => context.update(&[ABSENT_HEADER]),
            (Some(value), None) => update(&mut context, HEADER, value.as_bytes()),
            (Some(_), Some(_)) => {
                let field = format!("header {name} is there more than once");
                return Err(Fault::IdentityMissing { field });
            }
        }
    }
    let digest = context.finish();
    let hash = digest.as_ref().first_chunk().copied().unwrap_or_default();
    Ok(Principal::Hashed(hash))
}

fn update(context: &mut digest::Context, kind: u8, value: &[u8]) {
    context.update(&[kind]);
    context.update(&length(value));
    context.update(value);
}
