//! TLS towards callers.
//!
//! What always holds: TLS 1.2 or 1.3, HTTP/1.1 within, and no early data, which could be replayed. A
//! certificate that a caller shows was verified in this very handshake: no session is resumed, since
//! that would carry a caller past the end of his certificate, or of the trust in whoever issued it; nor
//! does a connection outlast that trust (`doors`), though it may outlast the certificate. A handshake ends
//! within its limit. Whoever speaks in the clear is found out before TLS sees a byte, and can be told.
//!
//! What it does not do: know revocation lists, look at requests (`front`), or notice that files have
//! changed (`app::reload` reads them again).

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::config::{ClientCertificates, ListenTls};
use crate::upstream::pem::{PemError, certificates, private_key};
use crate::wire::caller::{Caller, NoCertificate};

/// Longest time from an accepted connection to the end of its handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The first byte of a TLS connection: a record of the handshake (RFC 8446, 5.1).
const HANDSHAKE_RECORD: u8 = 22;

/// How a listener speaks TLS. Cheap to clone.
#[derive(Clone)]
pub struct InboundTls {
    acceptor: TlsAcceptor,
    trust: Option<Trust>,
}

/// What makes a certificate a caller's. Equal where the same certificates are accepted.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Trust {
    /// In the order of the file; what is between them is nothing.
    roots: Vec<CertificateDer<'static>>,
    required: bool,
}

/// Why it cannot.
#[derive(Debug, thiserror::Error)]
pub enum InboundTlsError {
    /// A PEM file cannot be used.
    #[error(transparent)]
    Pem(#[from] PemError),
    /// TLS refuses our certificate, its key, or a root.
    #[error("TLS cannot use these certificates")]
    Tls(#[source] rustls::Error),
    /// The roots of callers' certificates cannot be used.
    #[error("no caller's certificate could be verified")]
    Verifier(#[source] VerifierBuilderError),
}

/// A connection whose caller has begun to speak.
pub(super) enum Opened {
    /// And by whom. Boxed: a TLS session is a kilobyte.
    Secure(Box<TlsStream<TcpStream>>, Caller),
    /// Not in TLS; nothing was read.
    InTheClear(TcpStream),
}

/// Why a connection came to nothing. Nothing of any request was read.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unopened {
    #[error("the caller hung up before the handshake")]
    Silent,
    #[error("the handshake failed")]
    Handshake(#[source] io::Error),
    #[error("the handshake took more than {} s", HANDSHAKE.as_secs())]
    TimedOut,
    #[error("the caller's certificate cannot be read")]
    Certificate(#[from] NoCertificate),
}

impl InboundTls {
    /// Reads the files. Blocks.
    pub fn load(files: &ListenTls) -> Result<Self, InboundTlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(InboundTlsError::Tls)?;
        let trust = files.client.as_ref().map(Trust::load).transpose()?;
        let builder = match &trust {
            None => builder.with_no_client_auth(),
            Some(trust) => builder.with_client_cert_verifier(trust.verifier(provider)?),
        };
        warn_of_readers(&files.key);
        let mut config = builder
            .with_single_cert(certificates(&files.cert)?, private_key(&files.key)?)
            .map_err(InboundTlsError::Tls)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Ok(Self { acceptor, trust })
    }

    /// Whose certificates it accepts; `None`: it asks for none.
    pub(super) fn trust(&self) -> Option<&Trust> {
        self.trust.as_ref()
    }

    /// Shakes hands with whoever opened this connection.
    pub(super) async fn open(&self, tcp: TcpStream) -> Result<Opened, Unopened> {
        let opening = async {
            let mut first = [0];
            match tcp.peek(&mut first).await {
                Ok(0) => return Err(Unopened::Silent),
                Ok(_) if first != [HANDSHAKE_RECORD] => return Ok(Opened::InTheClear(tcp)),
                Ok(_) => {}
                Err(error) => return Err(Unopened::Handshake(error)),
            }
            let stream = self
                .acceptor
                .accept(tcp)
                .await
                .map_err(Unopened::Handshake)?;
            let (_, session) = stream.get_ref();
            let shown = session.peer_certificates().and_then(<[_]>::first);
            let caller = shown.map(Caller::shown).transpose()?.unwrap_or_default();
            Ok(Opened::Secure(Box::new(stream), caller))
        };
        timeout(HANDSHAKE, opening)
            .await
            .unwrap_or(Err(Unopened::TimedOut))
    }
}

impl Trust {
    fn load(client: &ClientCertificates) -> Result<Self, InboundTlsError> {
        Ok(Self {
            roots: certificates(&client.ca)?,
            required: client.required,
        })
    }

    fn verifier(
        &self,
        provider: Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ClientCertVerifier>, InboundTlsError> {
        let mut roots = RootCertStore::empty();
        for root in &self.roots {
            roots.add(root.clone()).map_err(InboundTlsError::Tls)?;
        }
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let builder = if self.required {
            builder
        } else {
            builder.allow_unauthenticated()
        };
        builder.build().map_err(InboundTlsError::Verifier)
    }
}

/// Some platforms widen modes of whole volumes; refusing would only take the service down.
fn warn_of_readers(key: &Path) {
    let is_open = |metadata: std::fs::Metadata| metadata.mode() & 0o004 != 0;
    if std::fs::metadata(key).is_ok_and(is_open) {
        tracing::warn!(path = %key.display(), "the listener's private key is readable by everybody");
    }
}
