//! TLS in front of an upstream: what ends it there, passed on in the clear.
//!
//! What always holds: a real TLS session per connection, with a certificate of our own authority. Bytes
//! are passed on as they come; where the upstream resets, the session breaks off without a farewell.
//!
//! What it does not do: understand HTTP.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

/// The TLS end of an upstream; closed when dropped.
pub struct Secured {
    port: u16,
    authority: String,
    sessions: Arc<AtomicUsize>,
    _runtime: Runtime,
}

impl Secured {
    pub fn before(upstream: SocketAddr) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(server(&issuer)));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let listener = runtime.block_on(bound).unwrap();
        let port = listener.local_addr().unwrap().port();
        let handle = runtime.handle().clone();
        let sessions = Arc::new(AtomicUsize::new(0));
        let begun = Arc::clone(&sessions);
        runtime.spawn(async move {
            while let Ok((caller, _)) = listener.accept().await {
                handle.spawn(pass_on(
                    acceptor.clone(),
                    caller,
                    upstream,
                    Arc::clone(&begun),
                ));
            }
        });
        Self {
            port,
            authority: issuer.pem(),
            sessions,
            _runtime: runtime,
        }
    }

    /// Its address, by the name in its certificate.
    pub fn url(&self) -> String {
        format!("https://localhost:{}", self.port)
    }

    /// How many TLS sessions were opened to the upstream.
    pub fn sessions(&self) -> usize {
        self.sessions.load(Ordering::SeqCst)
    }

    /// Writes down whom to trust.
    pub fn write_authority(&self, file: &Path) {
        std::fs::write(file, &self.authority).unwrap();
    }
}

async fn pass_on(
    acceptor: TlsAcceptor,
    caller: TcpStream,
    upstream: SocketAddr,
    begun: Arc<AtomicUsize>,
) {
    let (Ok(mut caller), Ok(mut server)) = (
        acceptor.accept(caller).await,
        TcpStream::connect(upstream).await,
    ) else {
        return;
    };
    begun.fetch_add(1, Ordering::SeqCst);
    // However it ends, both are closed.
    let _ = copy_bidirectional(&mut caller, &mut server).await;
}

fn server(issuer: &CertifiedIssuer<'_, KeyPair>) -> ServerConfig {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, issuer).unwrap();
    let chain = vec![CertificateDer::from(certificate.der().to_vec())];
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap()
}
