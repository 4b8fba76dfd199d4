//! A secret from the config.
//!
//! What always holds: neither `Debug` nor `Display` shows it (there is no `Display`); it is compared
//! in a time that does not depend on where two texts differ.
//!
//! What it does not do: wipe memory; whoever can read this process's memory has more than this.

use std::fmt;

/// A text that must not be shown.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Wraps it.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for whoever must send it or derive a key from it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Is it the same text? The digests are compared rather than the texts, under a key made for this
    /// comparison alone: what can be timed says nothing of the secret.
    pub fn matches(&self, presented: &[u8]) -> bool {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, self.0.as_bytes());
        let tag = ring::hmac::sign(&key, self.0.as_bytes());
        ring::hmac::verify(&key, presented, tag.as_ref()).is_ok()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_matches_only_itself() {
        let secret = Secret::new("correct horse");
        assert!(secret.matches(b"correct horse"));
        for other in [
            &b""[..],
            b"correct hors",
            b"correct horse ",
            b"Correct horse",
        ] {
            assert!(!secret.matches(other));
        }
    }

    #[test]
    fn it_is_never_shown() {
        assert!(!format!("{:?}", Secret::new("hunter2")).contains("hunter2"));
    }
}
