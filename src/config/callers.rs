//! Who may call, and what tells callers apart.
//!
//! What always holds: whatever names a caller by his certificate stands only where a listener asks for
//! certificates.
//!
//! What it does not do: read files or certificates.

use std::fmt;
use std::path::PathBuf;

use http::HeaderName;

/// Files for TLS towards callers, PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenTls {
    /// The certificate that callers are shown, and those between it and a root.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The certificates that callers are asked for; `None`: for none.
    pub client: Option<ClientCertificates>,
}

/// Which certificates callers may show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificates {
    /// Roots that they come from, PEM.
    pub ca: PathBuf,
    /// Is a caller without one turned away in the handshake? Else it is let in as nobody.
    pub required: bool,
}

/// Something that selects an account or a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrincipalPart {
    /// The value of a header; its absence selects the default account.
    Header(HeaderName),
    /// A name in the certificate that the caller showed. Its absence selects nothing.
    Certificate(CertificateName),
}

/// What in a client certificate names its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateName {
    /// Its subject, byte by byte.
    Subject,
    /// The one readable URI among its alternative names; a SPIFFE id, for example.
    Uri,
    /// The one readable DNS name among them.
    Dns,
    /// SHA-256 of all of it: another with every new certificate.
    Fingerprint,
}

impl CertificateName {
    /// All of them, by their words in the file.
    pub(crate) const WORDS: [(&'static str, Self); 4] = [
        ("subject", Self::Subject),
        ("uri", Self::Uri),
        ("dns", Self::Dns),
        ("fingerprint", Self::Fingerprint),
    ];
}

impl fmt::Display for CertificateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Subject => "client certificate subject",
            Self::Uri => "client certificate uri",
            Self::Dns => "client certificate dns",
            Self::Fingerprint => "client certificate fingerprint",
        })
    }
}
