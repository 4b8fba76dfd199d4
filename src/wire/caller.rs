//! Who is at the other end of a caller's connection, by the certificate that he showed.
//!
//! What always holds: names are read by the library that verified the certificate (`webpki`), so that
//! two readers cannot differ on it. A name that is not there, or not the only readable one of its kind, is
//! none; nothing weaker takes its place. What that library cannot read as a name of its kind it passes
//! over, and it is not counted here. A name outlives the certificate: serial number, issuer and validity
//! are none, since they change whenever it is renewed; its fingerprint does too, and is for whoever asks
//! for it by name.
//!
//! What it does not do: verify (the handshake did, before anything was read), or look at headers that
//! tell of certificates: anybody can write them.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use ring::digest;
use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

use crate::config::CertificateName;

/// Who is at the other end: whoever a certificate says, or nobody that could be known. Cheap to clone.
#[derive(Clone, Default)]
pub struct Caller(Option<Arc<Names>>);

/// What a certificate says of its owner, as far as `webpki` can read it.
struct Names {
    subject: Vec<u8>,
    uris: Vec<String>,
    dns: Vec<String>,
    fingerprint: [u8; digest::SHA256_OUTPUT_LEN],
}

/// It is no certificate.
#[derive(Debug, thiserror::Error)]
#[error("it cannot be read as a certificate (X.509, version 3)")]
pub struct NoCertificate(#[source] webpki::Error);

/// Why there is no such name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Nameless {
    /// No certificate was shown.
    #[error("is not there: the caller's connection showed no certificate")]
    NoCertificate,
    /// It has none of this kind that can be read.
    #[error("is not in the certificate")]
    Absent,
    /// It has several of this kind that can be read.
    #[error("is in the certificate more than once")]
    Several,
    /// The name is one that several hosts share.
    #[error("is a wildcard, which names no one host")]
    Wildcard,
    /// Not visible ASCII.
    #[error("is no name that can be read")]
    Unreadable,
}

impl Caller {
    /// The owner of this certificate, which somebody else has verified.
    pub fn shown(certificate: &CertificateDer<'_>) -> Result<Self, NoCertificate> {
        let read = EndEntityCert::try_from(certificate).map_err(NoCertificate)?;
        let fingerprint = digest::digest(&digest::SHA256, certificate);
        Ok(Self(Some(Arc::new(Names {
            subject: read.subject().to_vec(),
            uris: read.valid_uri_names().map(str::to_owned).collect(),
            dns: read.valid_dns_names().map(str::to_owned).collect(),
            fingerprint: fingerprint
                .as_ref()
                .first_chunk()
                .copied()
                .unwrap_or_default(),
        }))))
    }

    /// His name of this kind: the DER of the subject, without the outermost tag and length; a URI as it is
    /// written; a DNS name in small letters; 32 bytes of SHA-256.
    pub fn name(&self, kind: CertificateName) -> Result<Cow<'_, [u8]>, Nameless> {
        let names = self.0.as_deref().ok_or(Nameless::NoCertificate)?;
        let name = match kind {
            CertificateName::Subject if names.subject.is_empty() => return Err(Nameless::Absent),
            CertificateName::Subject => Cow::Borrowed(&names.subject[..]),
            CertificateName::Uri => Cow::Borrowed(only(&names.uris)?.as_bytes()),
            CertificateName::Dns => Cow::Owned(host(only(&names.dns)?)?.into_bytes()),
            CertificateName::Fingerprint => Cow::Borrowed(&names.fingerprint[..]),
        };
        Ok(name)
    }
}

fn only(names: &[String]) -> Result<&str, Nameless> {
    match names {
        [] => Err(Nameless::Absent),
        [only] if only.is_empty() || !only.bytes().all(|it| it.is_ascii_graphic()) => {
            Err(Nameless::Unreadable)
        }
        [only] => Ok(only),
        [_, _, ..] => Err(Nameless::Several),
    }
}

/// Capitals do not count in names of hosts (RFC 4343).
fn host(name: &str) -> Result<String, Nameless> {
    if name.starts_with('*') {
        return Err(Nameless::Wildcard);
    }
    Ok(name.to_ascii_lowercase())
}

// Who calls whom is nobody's business in a log.
impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Some(_) => "Caller(certificate)",
            None => "Caller(unknown)",
        })
    }
}

#[cfg(test)]
mod tests;
