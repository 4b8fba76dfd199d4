//! Keys in both directions: the caller's, read; the upstream's, derived.
//!
//! What always holds: the derived key is a pure function of identity and round, of no stored secret:
//! should the register be lost, the upstream's own memory of it still protects. Two identities never
//! run together into one key. A caller's key is 1 to 255 visible ASCII characters, and `abc` and
//! `"abc"` are one key.
//!
//! What it does not do: decide the round (`protocol`), or which header carries a key (`config`).

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};
use ring::digest;

use super::canonical::length;
use crate::config::{KeyFormat, KeyRule};
use crate::protocol::ids::{OperationKey, Principal, Round};
use crate::protocol::operation::IdentityOrigin;
use crate::protocol::policy::KeyValue;

/// The longest key of a caller, in characters.
pub const LONGEST_KEY: usize = 255;

/// The key to send upstream. With `value: caller` it is the caller's own, for as long as he named
/// one; else it is derived.
pub fn upstream_key(
    value: KeyValue,
    origin: IdentityOrigin,
    key: &OperationKey,
    round: Round,
) -> String {
    match (value, origin) {
        (KeyValue::Caller, IdentityOrigin::Caller) => key.id.as_str().to_owned(),
        (KeyValue::Caller, IdentityOrigin::Derived | IdentityOrigin::Fresh)
        | (KeyValue::Derived, _) => derived_key(key, round),
    }
}

/// The key to send upstream under a rule.
pub fn by_rule(rule: &KeyRule, origin: IdentityOrigin, key: &OperationKey, round: Round) -> String {
    let is_own = rule.is_callers() && origin == IdentityOrigin::Caller;
    match rule.format {
        // Upstreams that ask for a UUID may know those of RFC 4122 only, and Google's ask for version 4
        // (AIP-155).
        KeyFormat::Uuid if !is_own => {
            let bytes = digest_of(b"fencepost upstream key v1", key, Some(round));
            Uuid { bytes, version: 4 }.to_string()
        }
        KeyFormat::Uuid | KeyFormat::Any => upstream_key(rule.policy.value, origin, key, round),
    }
}

/// 36 characters in the form of a UUID (version 8, RFC 9562: vendor-specific), which fits every
/// upstream known to us that does not insist on a version.
pub fn derived_key(key: &OperationKey, round: Round) -> String {
    let bytes = digest_of(b"fencepost upstream key v1", key, Some(round));
    Uuid { bytes, version: 8 }.to_string()
}

/// 35 characters that stand for the operation in fields of an upstream's objects, whatever became of
/// its first requests: the same in every round. It is not its key.
pub fn reference(key: &OperationKey) -> String {
    let digest = digest_of(b"fencepost reference v1", key, None);
    let digits = digest.iter().map(|byte| format!("{byte:02x}"));
    std::iter::once("fp-".to_owned()).chain(digits).collect()
}

/// Is it a UUID as RFC 4122 writes one, and not the one of zeros?
pub fn is_uuid(text: &str) -> bool {
    let is_hyphen = |index| matches!(index, 8 | 13 | 18 | 23);
    let mut bytes = text.bytes().enumerate();
    text.len() == 36
        && bytes.all(|(index, byte)| {
            if is_hyphen(index) {
                byte == b'-'
            } else {
                byte.is_ascii_hexdigit()
            }
        })
        && text.bytes().any(|byte| !matches!(byte, b'-' | b'0'))
}

fn digest_of(purpose: &[u8], key: &OperationKey, round: Option<Round>) -> [u8; 16] {
    let mut context = digest::Context::new(&digest::SHA256);
    let mut part = |bytes: &[u8]| {
        context.update(&length(bytes));
        context.update(bytes);
    };
    part(purpose);
    part(key.tenant.as_str().as_bytes());
    part(key.upstream.as_str().as_bytes());
    match &key.principal {
        Principal::None => part(b""),
        Principal::Hashed(hash) => part(hash),
    }
    part(key.id.as_str().as_bytes());
    part(&key.incarnation.0.to_be_bytes());
    if let Some(round) = round {
        part(&round.0.to_be_bytes());
    }
    let digest = context.finish();
    digest.as_ref().first_chunk().copied().unwrap_or_default()
}

struct Uuid {
    bytes: [u8; 16],
    version: u8,
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.bytes.iter().enumerate() {
            match index {
                4 | 6 | 8 | 10 => f.write_str("-")?,
                _ => {}
            }
            let byte = match index {
                6 => (self.version << 4) | (byte & 0x0F),
                8 => 0x80 | (byte & 0x3F),
                _ => *byte,
            };
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// A caller's key cannot be read: too long, empty, doubled, bytes outside visible ASCII, or a quoted
/// string that does not end. Which of them is not said: the key itself must not reach a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the idempotency key is not 1 to 255 visible ASCII characters, once")]
pub struct MalformedKey;

/// The caller's key; `None` if there is none.
pub fn caller_key(headers: &HeaderMap, name: &HeaderName) -> Result<Option<String>, MalformedKey> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => read_key(value).map(Some),
        (Some(_), Some(_)) => Err(MalformedKey),
    }
}

fn read_key(value: &HeaderValue) -> Result<String, MalformedKey> {
    let bytes = value.as_bytes();
    // Length before content: nobody scans a megabyte to refuse it. Quoted, each character may be
    // escaped.
    if bytes.len() > 2 * LONGEST_KEY + 2 {
        return Err(MalformedKey);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| MalformedKey)?;
    let key = match text.strip_prefix('"') {
        Some(quoted) => unquoted(quoted).ok_or(MalformedKey)?,
        None => text.to_owned(),
    };
    let readable =
        (1..=LONGEST_KEY).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic());
    readable.then_some(key).ok_or(MalformedKey)
}

/// The rest of an sf-string (RFC 9651, 3.3.3) after its opening quote; without parameters.
fn unquoted(rest: &str) -> Option<String> {
    let mut key = String::with_capacity(rest.len());
    let mut characters = rest.chars();
    loop {
        match characters.next()? {
            '"' => break,
            '\\' => match characters.next()? {
                escaped @ ('"' | '\\') => key.push(escaped),
                _ => return None,
            },
            plain => key.push(plain),
        }
    }
    characters.next().is_none().then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::ids::{Incarnation, OperationId, Tenant, UpstreamId};
    use proptest::prelude::*;
    use std::collections::HashSet;

    const NAME: HeaderName = HeaderName::from_static("idempotency-key");

    fn read(bytes: &[u8]) -> Result<Option<String>, MalformedKey> {
        let mut headers = HeaderMap::new();
        let Ok(value) = HeaderValue::from_bytes(bytes) else {
            // The HTTP reader in front of us refuses such a field altogether.
            return Err(MalformedKey);
        };
        headers.append(NAME, value);
        caller_key(&headers, &NAME)
    }

    fn key(tenant: &str, upstream: &str, id: &str) -> OperationKey {
        OperationKey {
            tenant: Tenant::new(tenant),
            upstream: UpstreamId::new(upstream),
            principal: Principal::None,
            id: OperationId::new(id),
            incarnation: Incarnation(0),
        }
    }

    /// B22.
    #[test]
    fn lengths_and_bytes_of_a_callers_key() {
        for length in [1, 2, 254, 255] {
            let text = "k".repeat(length);
            assert_eq!(read(text.as_bytes()), Ok(Some(text.clone())));
            assert_eq!(read(format!("\"{text}\"").as_bytes()), Ok(Some(text)));
        }
        for length in [0, 256, 257, 512, 65_536] {
            let text = "k".repeat(length);
            assert_eq!(read(text.as_bytes()), Err(MalformedKey), "{length}");
            assert_eq!(read(format!("\"{text}\"").as_bytes()), Err(MalformedKey));
        }
        for bytes in [
            &b"a\x00b"[..],
            b"a\x0Ab",
            b"a\x7Fb",
            b"a\xFFb",
            b"a\x1B[31mb",
            b"a b",
            b"a\tb",
            "schlüssel".as_bytes(),
        ] {
            assert_eq!(read(bytes), Err(MalformedKey), "{bytes:?}");
        }
        // Path-like, but harmless: it is never used as a path unescaped.
        assert_eq!(read(b"../../x"), Ok(Some("../../x".to_owned())));
    }

    #[test]
    fn quoted_and_bare_are_one_key() {
        assert_eq!(read(b"\"abc\""), read(b"abc"));
        assert_eq!(read(br#""a\"b\\c""#), Ok(Some(r#"a"b\c"#.to_owned())));
        assert_eq!(read(br#"a"b\c"#), read(br#""a\"b\\c""#));
        for bytes in [
            &b"\"abc"[..],
            b"\"",
            b"\"\"",
            br#""abc\""#,
            br#""a\bc""#,
            b"\"abc\";p=1",
            b"\"abc\" ",
            b"\"a\" \"b\"",
            b"\"a b\"",
        ] {
            assert_eq!(read(bytes), Err(MalformedKey), "{bytes:?}");
        }
    }

    /// A comma is a character like any other in a bare key: its bytes are what counts. What could be
    /// two fields that somebody joined is no key where it can be told.
    #[test]
    fn lists_are_no_keys() {
        assert_eq!(read(b"a,b"), Ok(Some("a,b".to_owned())));
        for bytes in [
            &b"a, a"[..],
            b"a ,a",
            b"\"a\",\"a\"",
            b"\"a\", \"a\"",
            b"\"a\" ,",
        ] {
            assert_eq!(read(bytes), Err(MalformedKey), "{bytes:?}");
        }
    }

    #[test]
    fn two_field_lines_are_no_key_even_if_equal() {
        let mut headers = HeaderMap::new();
        assert_eq!(caller_key(&headers, &NAME), Ok(None));
        headers.append(NAME, HeaderValue::from_static("abc"));
        headers.append(NAME, HeaderValue::from_static("abc"));
        assert_eq!(caller_key(&headers, &NAME), Err(MalformedKey));
    }

    #[test]
    fn a_derived_key_is_a_uuid_and_never_changes_between_versions() {
        // Upstreams remember this one. If the test fails, the derivation is broken, not the test.
        let text = derived_key(&key("payments", "stripe", "order-1"), Round(0));
        assert_eq!(text, "9f0f522f-5a9c-8825-a069-098853a88d80");
        let bytes = text.as_bytes();
        assert_eq!(bytes.len(), 36);
        assert_eq!(bytes[14], b'8', "version");
        assert!(matches!(bytes[19], b'8' | b'9' | b'a' | b'b'), "variant");
        for (index, byte) in bytes.iter().enumerate() {
            let expected = matches!(index, 8 | 13 | 18 | 23);
            assert_eq!(*byte == b'-', expected, "{text}");
        }
    }

    /// As for keys: what was written into an upstream's objects is looked for later.
    #[test]
    fn a_reference_never_changes_and_says_nothing_of_the_round() {
        let base = key("payments", "stripe", "order-1");
        assert_eq!(reference(&base), "fp-753c91362ff1f816f90db52b357532d0");
        assert_ne!(reference(&base), reference(&base.within(Incarnation(1))));
        assert_ne!(reference(&base), reference(&key("payments", "stripe", "2")));
    }

    #[test]
    fn a_key_of_the_form_of_a_uuid_is_one_of_version_4() {
        let base = key("payments", "stripe", "order-1");
        let rule = |format, value| KeyRule {
            format,
            ..crate::wire::fixtures::key_rule(value, None)
        };
        let of = |format, value, origin| by_rule(&rule(format, value), origin, &base, Round(0));
        let derived = of(KeyFormat::Uuid, KeyValue::Derived, IdentityOrigin::Caller);
        assert_eq!(derived, "9f0f522f-5a9c-4825-a069-098853a88d80");
        assert!(is_uuid(&derived));
        let fresh = of(KeyFormat::Uuid, KeyValue::Caller, IdentityOrigin::Fresh);
        assert_eq!(fresh, derived);
        let own = of(KeyFormat::Uuid, KeyValue::Caller, IdentityOrigin::Caller);
        assert_eq!(own, "order-1");
        let any = of(KeyFormat::Any, KeyValue::Derived, IdentityOrigin::Caller);
        assert_eq!(any, derived_key(&base, Round(0)));
        for bad in [
            "",
            "order-1",
            "00000000-0000-0000-0000-000000000000",
            "9f0f522f5a9c4825a069098853a88d80",
            "9f0f522f-5a9c-4825-a069-098853a88d8g",
            "9f0f522f-5a9c-4825-a0690-98853a88d80",
            "9f0f522f-5a9c-4825-a069-098853a88d800",
        ] {
            assert!(!is_uuid(bad), "{bad}");
        }
    }

    #[test]
    fn every_part_of_the_identity_and_the_round_make_another_key() {
        let base = key("t", "u", "i");
        let keys: Vec<String> = vec![
            derived_key(&base, Round(0)),
            derived_key(&base, Round(1)),
            derived_key(&base.within(Incarnation(1)), Round(0)),
            derived_key(&key("x", "u", "i"), Round(0)),
            derived_key(&key("t", "x", "i"), Round(0)),
            derived_key(&key("t", "u", "x"), Round(0)),
            derived_key(&key("tu", "", "i"), Round(0)),
            derived_key(&key("t", "ui", ""), Round(0)),
            derived_key(
                &OperationKey {
                    principal: Principal::Hashed([0; 16]),
                    ..base.clone()
                },
                Round(0),
            ),
        ];
        let distinct: HashSet<&String> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len());
    }

    #[test]
    fn the_callers_own_key_goes_upstream_only_where_he_named_one() {
        let named = key("t", "u", "abc");
        let sent = |value, origin| upstream_key(value, origin, &named, Round(0));
        let derived = derived_key(&named, Round(0));
        assert_eq!(sent(KeyValue::Caller, IdentityOrigin::Caller), "abc");
        assert_eq!(sent(KeyValue::Caller, IdentityOrigin::Fresh), derived);
        assert_eq!(sent(KeyValue::Derived, IdentityOrigin::Caller), derived);
    }

    proptest! {
        #[test]
        fn every_visible_key_reads_back_quoted_and_bare(key in "[!-~]{1,255}") {
            let quoted = format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""));
            prop_assert_eq!(read(quoted.as_bytes()), Ok(Some(key.clone())));
            if !key.starts_with('"') {
                prop_assert_eq!(read(key.as_bytes()), Ok(Some(key)));
            }
        }

        #[test]
        fn what_is_read_is_always_visible_and_bounded(
            bytes in prop::collection::vec(any::<u8>(), 0..600)
        ) {
            if let Ok(Some(key)) = read(&bytes) {
                prop_assert!((1..=LONGEST_KEY).contains(&key.len()));
                prop_assert!(key.bytes().all(|byte| byte.is_ascii_graphic()));
            }
        }

        #[test]
        fn different_identities_have_different_keys(
            one in ("[ab]{0,3}", "[ab]{0,3}", "[ab]{0,3}", 0_u32..2),
            other in ("[ab]{0,3}", "[ab]{0,3}", "[ab]{0,3}", 0_u32..2),
        ) {
            let derive = |(t, u, i, r): &(String, String, String, u32)| derived_key(&key(t, u, i), Round(*r));
            prop_assert_eq!(derive(&one) == derive(&other), one == other);
        }
    }
}
