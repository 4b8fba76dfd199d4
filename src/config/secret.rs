//! A secret from the config.
//!
//! What always holds: `Debug` does not show it, and there is no `Display`; it is compared in a time
//! that does not depend on where two texts differ; a problem with its source names the source only.
//!
//! What it does not do: wipe memory; whoever can read this process's memory has more than this.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::hmac;

/// A text that must not be shown.
#[derive(Clone)]
pub struct Secret(String);

/// Where a secret stood.
#[derive(Debug)]
pub(super) enum Resolved {
    /// In the config file itself.
    Literal(Secret),
    /// In the environment or in a file of its own.
    Elsewhere(Secret),
}

impl Secret {
    /// Wraps it.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for whoever must send it or derive a key from it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Is it the same text? Digests keyed by the secret are compared, not the texts.
    pub fn matches(&self, presented: &[u8]) -> bool {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.0.as_bytes());
        let own = hmac::sign(&key, self.0.as_bytes());
        hmac::verify(&key, presented, own.as_ref()).is_ok()
    }

    /// The bytes that it stands for, if it is Base64, with or without `whsec_` before it (Standard Webhooks).
    pub fn webhook_key(&self) -> Option<Vec<u8>> {
        let text = self.0.strip_prefix("whsec_").unwrap_or(&self.0);
        BASE64.decode(text).ok().filter(|key| !key.is_empty())
    }

    /// The bytes that it stands for, if it is hexadecimal.
    pub fn hex_key(&self) -> Option<Vec<u8>> {
        let (pairs, rest) = self.0.as_bytes().as_chunks::<2>();
        let digit = |byte: u8| u8::try_from(char::from(byte).to_digit(16)?).ok();
        let byte = |&[high, low]: &[u8; 2]| Some(digit(high)? << 4 | digit(low)?);
        let key: Option<Vec<u8>> = pairs.iter().map(byte).collect();
        key.filter(|key| !key.is_empty() && rest.is_empty())
    }

    /// Reads `${env:NAME}`, `${file:/path}` (one line end at the end is dropped), or the text itself.
    pub(super) fn resolve(text: &str) -> Result<Resolved, String> {
        let secret = match Source::of(text)? {
            Source::Literal(text) => return Ok(Resolved::Literal(Self::new(text))),
            Source::Environment(name) => from_environment(name)?,
            Source::File(path) => from_file(path)?,
        };
        Ok(Resolved::Elsewhere(Self(secret)))
    }
}

/// Where a secret is to be had.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source<'t> {
    /// Here.
    Literal(&'t str),
    /// `${env:NAME}`.
    Environment(&'t str),
    /// `${file:/path}`.
    File(&'t str),
}

impl<'t> Source<'t> {
    pub(super) fn of(text: &'t str) -> Result<Self, String> {
        let Some(inner) = text.strip_prefix("${") else {
            return if text.contains("${") {
                Err("`${…}` stands alone or not at all".to_owned())
            } else {
                Ok(Self::Literal(text))
            };
        };
        let source = inner
            .strip_suffix('}')
            .and_then(|inner| inner.split_once(':'));
        match source {
            Some(("env", name)) => Ok(Self::Environment(name)),
            Some(("file", path)) => Ok(Self::File(path)),
            Some(_) | None => Err("a secret is `${env:NAME}` or `${file:/path}`".to_owned()),
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "config is the room that reads the environment"
)]
pub(super) fn from_environment(name: &str) -> Result<String, String> {
    std::env::var(name).map_err(|error| {
        // The error of a variable that is not Unicode would show its value.
        match error {
            std::env::VarError::NotPresent => format!("environment variable {name} is not set"),
            std::env::VarError::NotUnicode(_) => format!("environment variable {name} is not text"),
        }
    })
}

fn from_file(path: &str) -> Result<String, String> {
    let mut text =
        std::fs::read_to_string(path).map_err(|error| format!("{path} cannot be read: {error}"))?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn elsewhere(text: &str) -> Secret {
        match Secret::resolve(text) {
            Ok(Resolved::Elsewhere(secret)) => secret,
            other => panic!("{other:?}"),
        }
    }

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
        let resolved = Secret::resolve("hunter2").unwrap();
        assert!(!format!("{resolved:?}").contains("hunter2"));
    }

    #[test]
    fn it_is_read_from_where_it_says() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "from a file").unwrap();
        let secret = elsewhere(&format!("${{file:{}}}", file.path().display()));
        assert!(secret.matches(b"from a file"));
        // Cargo sets it for every test.
        let secret = elsewhere("${env:CARGO_PKG_NAME}");
        assert!(secret.matches(b"fencepost"));
    }

    #[test]
    fn a_source_that_fails_is_named() {
        for (text, part) in [
            (
                "${env:NO_SUCH_VARIABLE_HERE}",
                "NO_SUCH_VARIABLE_HERE is not set",
            ),
            ("${file:/no/such/file}", "/no/such/file cannot be read"),
            ("${vault:x}", "`${env:NAME}` or"),
            ("${env:X", "`${env:NAME}` or"),
            ("Bearer ${env:X}", "stands alone"),
        ] {
            let problem = Secret::resolve(text).unwrap_err();
            assert!(problem.contains(part), "{text}: {problem}");
        }
    }
}
