//! A key that the register is sealed with.
//!
//! What always holds: it is 32 bytes, as they are or as 64 hex digits, and is never shown. What looks
//! like a password is refused: keys are random, and what a person types is not.
//!
//! One key is known to everybody: it stands here. What it seals is kept from nobody, and it is there so
//! that whoever wants no encryption says so, and can have it later.
//!
//! What it does not do: say where keys are kept well.

use std::fmt;

use super::secret::{self, Source};

/// Bytes of a key.
const LENGTH: usize = 32;

/// 32 random bytes that must not be shown.
#[derive(Clone, PartialEq, Eq)]
pub struct EncryptionKey([u8; LENGTH]);

impl EncryptionKey {
    /// The one that everybody knows: `encryption: none`. It never changes, or what it sealed is lost.
    pub(super) const KNOWN_TO_ALL: Self = Self(*b"fencepost keeps no secrets here.");

    /// For whoever opens a register whose keys he was not told.
    pub fn known_to_all() -> Self {
        Self::KNOWN_TO_ALL
    }

    /// The bytes, for whoever seals with them.
    pub fn expose(&self) -> [u8; LENGTH] {
        self.0
    }

    /// Reads `${env:NAME}`, `${file:/path}`, or the text itself; true: it was the text itself.
    pub(super) fn resolve(text: &str) -> Result<(Self, bool), String> {
        let source = Source::of(text)?;
        let bytes = match source {
            Source::Literal(text) => text.as_bytes().to_vec(),
            Source::Environment(name) => secret::from_environment(name)?.into_bytes(),
            Source::File(path) => {
                std::fs::read(path).map_err(|error| format!("{path} cannot be read: {error}"))?
            }
        };
        let key = Self::parse(&bytes).ok_or(
            "a key is 32 random bytes, as they are or as 64 hex digits: `openssl rand -hex 32` \
             makes one",
        )?;
        Ok((key, matches!(source, Source::Literal(_))))
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        if let Ok(key) = bytes.try_into() {
            // One in 10^13 keys is all printable; every password is.
            let is_typed = bytes.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\n'));
            return (!is_typed).then_some(Self(key));
        }
        let text = std::str::from_utf8(bytes).ok()?.trim_end();
        let digits = text.len() == 2 * LENGTH && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !digits {
            return None;
        }
        let mut key = [0; LENGTH];
        for (slot, pair) in key.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *slot = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(key))
    }
}

impl fmt::Debug for EncryptionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EncryptionKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_bytes_or_hex_digits_and_never_a_password() {
        let hex = "00ff".repeat(16);
        let expected = [0, 255].repeat(16);
        for text in [hex.clone(), hex.to_uppercase(), format!("{hex}\n")] {
            let key = EncryptionKey::parse(text.as_bytes()).unwrap();
            assert_eq!(key.expose().to_vec(), expected);
        }
        assert!(EncryptionKey::parse(&expected).is_some());
        for bad in [
            "correct horse battery staple 123",
            "correct horse battery staple 12\n",
            &hex[..62],
            &format!("{hex}0"),
            &hex.replace('f', "g"),
            "",
        ] {
            assert_eq!(EncryptionKey::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn what_everybody_knows_cannot_be_taken_for_a_key_of_ones_own() {
        assert_eq!(
            EncryptionKey::parse(&EncryptionKey::KNOWN_TO_ALL.expose()),
            None
        );
    }

    #[test]
    fn it_is_never_shown() {
        let (key, literal) = EncryptionKey::resolve(&"ab".repeat(32)).unwrap();
        assert!(literal);
        assert!(!format!("{key:?}").contains("ab"));
        let refused = EncryptionKey::resolve("hunter2").unwrap_err();
        assert!(!refused.contains("hunter2"));
    }

    #[test]
    fn a_file_of_bytes_is_read_as_it_is() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [0xB4; 32]).unwrap();
        let text = format!("${{file:{}}}", file.path().display());
        let (key, literal) = EncryptionKey::resolve(&text).unwrap();
        assert_eq!((key.expose(), literal), ([0xB4; 32], false));
    }
}
