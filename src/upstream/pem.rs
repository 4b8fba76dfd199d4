//! Certificates and keys from PEM files.
//!
//! What always holds: a problem names its file, and never what stands in it.
//!
//! What it does not do: judge what it reads (TLS does), or look for changes.

use std::path::{Path, PathBuf};

use rustls::pki_types::pem::{Error, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PemError {
    /// It cannot be read, or is not PEM.
    #[error("cannot read {path}", path = path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: Error,
    },
    /// It holds no certificate.
    #[error("{path} holds no certificate", path = .0.display())]
    NoCertificate(PathBuf),
}

/// All certificates of a file, in their order; at least one. Blocks.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, PemError> {
    let found: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|source| unreadable(path, source))?;
    if found.is_empty() {
        return Err(PemError::NoCertificate(path.to_owned()));
    }
    Ok(found)
}

/// The first private key of a file. Blocks.
pub fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, PemError> {
    PrivateKeyDer::from_pem_file(path).map_err(|source| unreadable(path, source))
}

fn unreadable(path: &Path, source: Error) -> PemError {
    PemError::Unreadable {
        path: path.to_owned(),
        source,
    }
}
