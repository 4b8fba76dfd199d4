//! The keyed digest of what a request means.
//!
//! What always holds: HMAC-SHA-256 over the canonical form, under a key that all sidecars of one
//! register share. Who reads a register without the key cannot tell by trying what a request said.
//! The record names the key (the first four bytes of its SHA-256) and the form, so that a change of
//! either is seen as such and not taken for another payload. A request whose canonical bytes a new
//! form leaves alone keeps its digest.
//!
//! What it does not do: make or keep the key (`store`), or compare fingerprints (`protocol`).

use ring::{digest, hmac};

use super::canonical::{Canonical, FORM, length};
use crate::protocol::ids::Fingerprint;

/// A key to make fingerprints with.
#[derive(Clone)]
pub struct FingerprintKey {
    hmac: hmac::Key,
    id: u32,
}

impl FingerprintKey {
    /// `secret`: 32 random bytes.
    pub fn new(secret: &[u8; 32]) -> Self {
        let digest = digest::digest(&digest::SHA256, secret);
        let id = digest.as_ref().first_chunk().copied().unwrap_or_default();
        Self {
            hmac: hmac::Key::new(hmac::HMAC_SHA256, secret),
            id: u32::from_be_bytes(id),
        }
    }

    /// The key of one rule about what counts. Rules whose parts differ have keys of different names.
    pub(super) fn of_rule(&self, parts: impl Iterator<Item = String>) -> Self {
        let mut context = self.context(Use::Rule);
        for part in parts {
            context.update(&length(part.as_bytes()));
            context.update(part.as_bytes());
        }
        let secret = context.sign();
        Self::new(&secret.as_ref().try_into().unwrap_or_default())
    }

    /// A small digest of one member of a request; the parts are set apart.
    pub(super) fn member(&self, parts: [&[u8]; 3]) -> u32 {
        let mut context = self.context(Use::Member);
        for part in parts {
            context.update(&length(part));
            context.update(part);
        }
        let tag = context.sign();
        u32::from_be_bytes(tag.as_ref().first_chunk().copied().unwrap_or_default())
    }

    /// What is signed for one use never reads as what is signed for another.
    fn context(&self, for_use: Use) -> hmac::Context {
        let mut context = hmac::Context::with_key(&self.hmac);
        context.update(&[match for_use {
            Use::Fingerprint { since } => since,
            Use::Rule => 0xFE,
            Use::Member => 0xFF,
        }]);
        context
    }

    /// The fingerprint of a request.
    pub fn fingerprint(&self, canonical: &Canonical<'_>) -> Fingerprint {
        let since = canonical.since();
        let mut context = self.context(Use::Fingerprint { since });
        canonical.feed(|piece| context.update(piece));
        let tag = context.sign();
        Fingerprint {
            key: self.id,
            form: FORM,
            digest: tag.as_ref().first_chunk().copied().unwrap_or_default(),
        }
    }
}

/// What the key is used for.
#[derive(Clone, Copy)]
enum Use {
    /// Of a request whose bytes are what they are since that form.
    Fingerprint {
        since: u8,
    },
    Rule,
    Member,
}

impl std::fmt::Debug for FingerprintKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FingerprintKey({:08x})", self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderMap;

    fn fingerprint(secret: u8, target: &str) -> Fingerprint {
        let headers = HeaderMap::new();
        let canonical = Canonical::of("POST", target, &headers, b"x").unwrap();
        FingerprintKey::new(&[secret; 32]).fingerprint(&canonical)
    }

    #[test]
    fn a_fingerprint_names_its_key_and_depends_on_it() {
        let one = fingerprint(1, "/");
        let other = fingerprint(2, "/");
        assert_ne!(one.key, other.key);
        assert_ne!(one.digest, other.digest);
        assert_eq!(one, fingerprint(1, "/"));
        assert_ne!(one.digest, fingerprint(1, "/a").digest);
    }

    /// Stored fingerprints must mean the same to the next version: if this fails, raise `FORM`.
    #[test]
    fn the_form_is_frozen() {
        let headers = HeaderMap::from_iter([(
            http::header::CONTENT_TYPE,
            http::HeaderValue::from_static("application/json"),
        )]);
        let content = br#"{"b":["\u00e9",1.0],"a":null}"#;
        let canonical = Canonical::of("PUT", "/x?y=1", &headers, content).unwrap();
        let made = FingerprintKey::new(&[7; 32]).fingerprint(&canonical);
        let expected = hmac::sign(
            &hmac::Key::new(hmac::HMAC_SHA256, &[7; 32]),
            b"\x01\
              \0\0\0\0\0\0\0\x03PUT\
              \0\0\0\0\0\0\0\x02/x\
              \0\0\0\0\0\0\0\x04?y=1\
              \0\0\0\0\0\0\0\x04json\
              \0\0\0\0\0\0\0\x19{\"a\":null,\"b\":[\"\xC3\xA9\",1.0]}",
        );
        assert_eq!(made.digest, expected.as_ref());
        assert_eq!(made.form, 2);
    }

    #[test]
    fn debug_shows_no_key() {
        let key = FingerprintKey::new(&[0xAB; 32]);
        let shown = format!("{key:?}");
        assert!(
            !shown.contains("ab, ab") && !shown.contains("171"),
            "{shown}"
        );
        assert_eq!(shown, format!("FingerprintKey({:08x})", key.id));
    }
}
