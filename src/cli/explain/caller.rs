//! The caller that a request is to be explained for, by a certificate from a file.
//!
//! What always holds: a certificate is only read; nothing is said on whether it is valid, or who issued
//! it. What is shown of a subject is for the eye: what is compared is its bytes.
//!
//! What it does not do: read private keys.

use std::path::Path;

use super::explanation::hex;
use crate::cli::failure::Failure;
use crate::config::CertificateName;
use crate::telemetry::errors::chain;
use crate::upstream::pem;
use crate::wire::caller::Caller;

/// Whoever the first certificate of a PEM file belongs to.
pub(super) fn of(path: &Path) -> Result<Caller, Failure> {
    let usage = |why: String| Failure::Usage(format!("{}: {why}", path.display()));
    let read = pem::certificates(path).map_err(|why| usage(chain(&why).to_string()))?;
    let shown = read.first().map(Caller::shown).transpose();
    shown
        .map(Option::unwrap_or_default)
        .map_err(|why| usage(chain(&why).to_string()))
}

/// A name, for people.
pub(super) fn shown(kind: CertificateName, name: &[u8]) -> String {
    match kind {
        CertificateName::Subject => subject(name).unwrap_or_else(|| hex(name)),
        CertificateName::Uri | CertificateName::Dns => String::from_utf8_lossy(name).into_owned(),
        CertificateName::Fingerprint => hex(name),
    }
}

// Tags of DER.
const OBJECT_IDENTIFIER: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;

/// `O=Example, CN=alice`, in the order of the certificate. `None`: it is not written in the usual way.
fn subject(mut rest: &[u8]) -> Option<String> {
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let (mut set, after) = value(SET, rest)?;
        rest = after;
        while !set.is_empty() {
            let (attribute, after) = value(SEQUENCE, set)?;
            set = after;
            let (identifier, text) = value(OBJECT_IDENTIFIER, attribute)?;
            let (text, nothing) = value(*text.first()?, text)?;
            let text = std::str::from_utf8(text)
                .ok()
                .filter(|_| nothing.is_empty())?;
            parts.push(format!("{}={text}", attribute_name(identifier)));
        }
    }
    Some(parts.join(", "))
}

/// The usual ones (RFC 4519); others by their bytes.
fn attribute_name(identifier: &[u8]) -> String {
    let known = match identifier {
        [0x55, 0x04, 3] => "CN",
        [0x55, 0x04, 5] => "serialNumber",
        [0x55, 0x04, 6] => "C",
        [0x55, 0x04, 7] => "L",
        [0x55, 0x04, 8] => "ST",
        [0x55, 0x04, 10] => "O",
        [0x55, 0x04, 11] => "OU",
        _ => return hex(identifier),
    };
    known.to_owned()
}

/// The value that begins here, if it is of this tag, and what follows it. Names have less than 64 KiB.
fn value(tag: u8, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (first, rest) = bytes.split_first()?;
    let (length, rest) = rest.split_first()?;
    let (length, rest) = match (*length, rest) {
        (short @ 0..=0x7f, rest) => (usize::from(short), rest),
        (0x81, [length, rest @ ..]) => (usize::from(*length), rest),
        (0x82, [high, low, rest @ ..]) => (usize::from(u16::from_be_bytes([*high, *low])), rest),
        (_, _) => return None,
    };
    (*first == tag).then(|| rest.split_at_checked(length))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_shown_as_people_write_it_or_by_its_bytes() {
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        let mut push = |kind, text: &str| params.distinguished_name.push(kind, text);
        push(rcgen::DnType::OrganizationName, "Example");
        push(rcgen::DnType::CommonName, &"a".repeat(200));
        let key = rcgen::KeyPair::generate().unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), params.self_signed(&key).unwrap().pem()).unwrap();
        let caller = of(file.path()).unwrap();
        let name = caller.name(CertificateName::Subject).unwrap();
        let long = format!("O=Example, CN={}", "a".repeat(200));
        assert_eq!(shown(CertificateName::Subject, &name), long);
        assert_eq!(shown(CertificateName::Subject, &name[1..]), hex(&name[1..]));
        assert_eq!(shown(CertificateName::Subject, &[0x31, 0x82]), "3182");
    }
}
