//! The same through TLS.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tempfile::TempDir;

use super::scripted::*;
use crate::protocol::outcome::{Interruption, Phase};
use crate::upstream::{EffectPool, Endpoint, Limits, TlsMaterial, Unreachable};

type Secure = StreamOwned<ServerConnection, std::net::TcpStream>;

/// A CA of our own, and a server certificate for localhost signed by it.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    directory: TempDir,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self {
            issuer: CertifiedIssuer::self_signed(params, key).unwrap(),
            directory: tempfile::tempdir().unwrap(),
        }
    }

    fn file(&self) -> PathBuf {
        let path = self.directory.path().join("ca.pem");
        std::fs::write(&path, self.issuer.pem()).unwrap();
        path
    }

    fn server(&self) -> Arc<ServerConfig> {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let chain = vec![CertificateDer::from(certificate.der().to_vec())];
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        Arc::new(config)
    }
}

fn serve(config: Arc<ServerConfig>, script: impl Fn(Secure) + Send + Sync + 'static) -> Scripted {
    Scripted::run(move |_, peer| {
        let session = ServerConnection::new(config.clone()).unwrap();
        script(StreamOwned::new(session, peer.tcp));
    })
}

fn pool(upstream: &Scripted, ca: PathBuf) -> EffectPool {
    let url = format!("https://localhost:{}", upstream.port);
    let tls = TlsMaterial {
        ca: Some(ca),
        ..TlsMaterial::default()
    };
    EffectPool::new(
        Endpoint::new(&url, &tls, false).unwrap(),
        Limits::default(),
        system_clock(),
    )
}

#[tokio::test]
async fn a_given_ca_is_trusted_and_the_connection_reused() {
    let authority = Authority::new();
    // Session tickets follow the handshake: they are no stray bytes.
    let upstream = serve(authority.server(), |mut secure| {
        while read_request(&mut secure).is_some() {
            secure.write_all(OK.as_bytes()).unwrap();
        }
    });
    let pool = pool(&upstream, authority.file());
    for _ in 0..10 {
        let answer = answered(send(&pool, post(&pool, 100_000)).await);
        assert_eq!(answer.body.unwrap(), "ok");
    }
    assert_eq!(upstream.accepted(), 1);
}

#[tokio::test]
async fn another_ca_is_not_trusted_and_nothing_is_sent() {
    let (authority, other) = (Authority::new(), Authority::new());
    let done = signal();
    let told = done.clone();
    let upstream = serve(authority.server(), move |mut secure| {
        assert_eq!(read_request(&mut secure), None);
        told.give();
    });
    let pool = pool(&upstream, other.file());
    assert!(matches!(pool.reserve().await, Err(Unreachable::Tls(_))));
    done.wait();
}

#[tokio::test]
async fn a_stray_answer_within_tls_is_never_taken_for_ours() {
    let authority = Authority::new();
    let ca = authority.file();
    let config = authority.server();
    for _ in 0..20 {
        let (go, there) = (signal(), signal());
        let (taken, told) = (go.clone(), there.clone());
        let upstream = serve(config.clone(), move |mut secure| {
            read_request(&mut secure);
            secure.write_all(OK.as_bytes()).unwrap();
            taken.wait();
            secure.write_all(OK.as_bytes()).unwrap();
            told.give();
            assert_eq!(read_request(&mut secure), None);
        });
        let pool = pool(&upstream, ca.clone());
        answered(send(&pool, post(&pool, 10)).await);
        let held = pool.idle().unwrap();
        go.give();
        there.wait();
        assert_eq!(send_on(held, post(&pool, 10)).await, LOST);
    }
}

#[tokio::test]
async fn a_connection_closed_after_the_request_is_uncertain() {
    let authority = Authority::new();
    let upstream = serve(authority.server(), |mut secure| {
        read_request(&mut secure);
    });
    let pool = pool(&upstream, authority.file());
    let evidence = send(&pool, post(&pool, 10)).await;
    assert_eq!(evidence, interrupted(Phase::Waiting, Interruption::Closed));
}
