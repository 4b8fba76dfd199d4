//! Is a callback from whom it says? Signatures of webhooks.
//!
//! What always holds: digests are compared in constant time; a signature counts only over the exact bytes
//! that came; where a time is signed, it must be near ours, in both directions; a header that stands twice
//! says nothing. What is refused says why without quoting anything.
//!
//! What it does not do: remember what came before. A callback that is played again within its tolerance
//! says what was known already.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::HeaderMap;
use ring::hmac;

use crate::config::{HmacDigest, HmacEncoding, HmacHeader, Scheme, Secret, Signature};

/// Signatures that one header may list; senders list one for each secret that is being rotated.
const MOST_LISTED: usize = 16;

/// Why a callback is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Unproven {
    /// There is no signature, or it stands twice.
    #[error("it carries no signature, or more than one where one belongs")]
    Unsigned,
    /// What should be a signature cannot be read.
    #[error("its signature cannot be read")]
    Unreadable,
    /// It is somebody else's, or other bytes were signed.
    #[error("its signature is none of ours")]
    Forged,
    /// It was signed too long ago, or is yet to be.
    #[error("the time that was signed is too far from ours")]
    OutOfTime,
}

/// Does it carry what a signature of this kind stands in, each once? Whoever sends no such thing is refused
/// before his content is read.
pub fn bears(signature: &Signature, headers: &HeaderMap) -> Result<(), Unproven> {
    match &signature.scheme {
        Scheme::Stripe => one(headers, "stripe-signature").map(|_| ()),
        Scheme::Standard => standard_fields(headers).map(|_| ()),
        Scheme::GitHub => one(headers, "x-hub-signature-256").map(|_| ()),
        Scheme::Hmac(header) => {
            one(headers, header.header.as_str())?;
            let timestamp = header.timestamp.iter();
            timestamp
                .map(|name| one(headers, name.as_str()))
                .try_for_each(|time| time.map(|_| ()))
        }
    }
}

/// Was this body signed by somebody who knows a secret? `now`: since 1970.
pub fn verify(
    signature: &Signature,
    headers: &HeaderMap,
    body: &[u8],
    now: Duration,
) -> Result<(), Unproven> {
    match &signature.scheme {
        Scheme::Stripe => stripe(signature, headers, body, now),
        Scheme::Standard => standard(signature, headers, body, now),
        Scheme::GitHub => {
            let sent = one(headers, "x-hub-signature-256")?;
            let sent = sent.strip_prefix("sha256=").ok_or(Unproven::Unreadable)?;
            let keys = text_keys(signature, hmac::HMAC_SHA256);
            any_signed(&keys, &[unhex(sent)?], &[body])
        }
        Scheme::Hmac(header) => in_header(signature, header, headers, body, now),
    }
}

fn stripe(
    signature: &Signature,
    headers: &HeaderMap,
    body: &[u8],
    now: Duration,
) -> Result<(), Unproven> {
    let mut time = None;
    let mut sent = Vec::new();
    for element in one(headers, "stripe-signature")?.split(',') {
        match element.trim().split_once('=') {
            Some(("t", value)) if time.is_none() => time = Some(value),
            Some(("t", _)) => return Err(Unproven::Unreadable),
            Some(("v1", value)) if sent.len() < MOST_LISTED => sent.push(unhex(value)?),
            Some(("v1", _)) => return Err(Unproven::Unreadable),
            // Other versions say nothing: `v0` stands beside test events, to catch who takes any.
            Some(_) | None => {}
        }
    }
    let time = time.ok_or(Unproven::Unreadable)?;
    let keys = text_keys(signature, hmac::HMAC_SHA256);
    any_signed(&keys, &sent, &[time.as_bytes(), b".", body])?;
    in_time(time, signature.tolerance, now)
}

fn standard(
    signature: &Signature,
    headers: &HeaderMap,
    body: &[u8],
    now: Duration,
) -> Result<(), Unproven> {
    let [id, time, signatures] = standard_fields(headers)?;
    let mut sent = Vec::new();
    for element in signatures.split(' ') {
        // `v1a` is signed with a key pair, which no secret of ours verifies.
        if let Some(digest) = element.strip_prefix("v1,") {
            if sent.len() == MOST_LISTED {
                return Err(Unproven::Unreadable);
            }
            sent.push(BASE64.decode(digest).map_err(|_| Unproven::Unreadable)?);
        }
    }
    // One that cannot be read verifies nothing; `check` refuses it.
    let secrets = signature.secrets.iter().filter_map(Secret::webhook_key);
    let keys: Vec<hmac::Key> = secrets
        .map(|secret| hmac::Key::new(hmac::HMAC_SHA256, &secret))
        .collect();
    let signed = [id.as_bytes(), b".", time.as_bytes(), b".", body];
    any_signed(&keys, &sent, &signed)?;
    in_time(time, signature.tolerance, now)
}

/// Id, time and signatures.
fn standard_fields(headers: &HeaderMap) -> Result<[&str; 3], Unproven> {
    let new = headers.contains_key("webhook-signature");
    let prefix = if new { "webhook" } else { "svix" };
    let named = |suffix| one(headers, &format!("{prefix}-{suffix}"));
    Ok([named("id")?, named("timestamp")?, named("signature")?])
}

fn in_header(
    signature: &Signature,
    rule: &HmacHeader,
    headers: &HeaderMap,
    body: &[u8],
    now: Duration,
) -> Result<(), Unproven> {
    let sent = one(headers, rule.header.as_str())?;
    let sent = sent
        .strip_prefix(&rule.prefix)
        .ok_or(Unproven::Unreadable)?;
    let sent = match rule.encoding {
        HmacEncoding::Hex => unhex(sent)?,
        HmacEncoding::Base64 => BASE64.decode(sent).map_err(|_| Unproven::Unreadable)?,
    };
    let digest = match rule.digest {
        HmacDigest::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        HmacDigest::Sha256 => hmac::HMAC_SHA256,
        HmacDigest::Sha512 => hmac::HMAC_SHA512,
    };
    let keys = text_keys(signature, digest);
    let Some(header) = &rule.timestamp else {
        return any_signed(&keys, &[sent], &[body]);
    };
    let time = one(headers, header.as_str())?;
    any_signed(&keys, &[sent], &[time.as_bytes(), b".", body])?;
    in_time(time, signature.tolerance, now)
}

fn text_keys(signature: &Signature, digest: hmac::Algorithm) -> Vec<hmac::Key> {
    let secrets = signature.secrets.iter();
    secrets
        .map(|secret| hmac::Key::new(digest, secret.expose().as_bytes()))
        .collect()
}

/// Every key is tried on every signature: how long it takes says nothing of which one was close.
fn any_signed(keys: &[hmac::Key], sent: &[Vec<u8>], parts: &[&[u8]]) -> Result<(), Unproven> {
    if sent.is_empty() {
        return Err(Unproven::Unsigned);
    }
    let signed = parts.concat();
    let mut proven = false;
    for key in keys {
        for digest in sent {
            proven |= hmac::verify(key, &signed, digest).is_ok();
        }
    }
    proven.then_some(()).ok_or(Unproven::Forged)
}

/// Only asked of a time that was signed.
fn in_time(text: &str, tolerance: Duration, now: Duration) -> Result<(), Unproven> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let time: u64 = text.parse().map_err(|_| Unproven::Unreadable)?;
    if !digits {
        return Err(Unproven::Unreadable);
    }
    let distance = now.abs_diff(Duration::from_secs(time));
    (distance <= tolerance)
        .then_some(())
        .ok_or(Unproven::OutOfTime)
}

fn one<'h>(headers: &'h HeaderMap, name: &str) -> Result<&'h str, Unproven> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().map_err(|_| Unproven::Unreadable),
        (None | Some(_), _) => Err(Unproven::Unsigned),
    }
}

fn unhex(text: &str) -> Result<Vec<u8>, Unproven> {
    let digit = |byte: u8| {
        let digit = char::from(byte).to_digit(16).ok_or(Unproven::Unreadable)?;
        u8::try_from(digit).map_err(|_| Unproven::Unreadable)
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return Err(Unproven::Unreadable);
    }
    let byte = |&[high, low]: &[u8; 2]| Ok(digit(high)? << 4 | digit(low)?);
    pairs.iter().map(byte).collect()
}

#[cfg(test)]
mod tests;
