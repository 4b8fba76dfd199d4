//! Authorities, certificates, and callers that speak TLS.
//!
//! What always holds: every authority is a test's own and every certificate real; a caller makes a new
//! connection for each call, and never repeats one.
//!
//! What it does not do: hide how a handshake ended. Where it failed, the alert is what a test gets.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair,
    SanType, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    AlertDescription, ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned,
    SupportedProtocolVersion,
};

use super::call::{Answer, Call, read_answer};
use super::gate::PATIENCE;

/// Somebody who issues certificates.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key.
pub struct Identity {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

/// Whom a proxy's certificate is for.
const HOST: &str = "localhost";

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = for_owner(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A new certificate with a new key for a caller of that name.
    pub fn caller(&self, name: &str) -> Identity {
        self.issue(&for_owner(name))
    }

    /// The same for a caller with these URIs.
    pub fn caller_at(&self, uris: &[&str]) -> Identity {
        let mut params = for_owner("workload");
        let uri = |text: &&str| SanType::URI((*text).try_into().unwrap());
        params.subject_alt_names = uris.iter().map(uri).collect();
        self.issue(&params)
    }

    /// The same, but its time is over.
    pub fn expired(&self, name: &str) -> Identity {
        let mut params = for_owner(name);
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
        self.issue(&params)
    }

    /// For a proxy that listens on this machine.
    pub fn server(&self) -> Identity {
        let mut params = for_owner("proxy");
        params.subject_alt_names = vec![SanType::DnsName(HOST.try_into().unwrap())];
        self.issue(&params)
    }

    fn issue(&self, params: &CertificateParams) -> Identity {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Identity { certificate, key }
    }

    /// As a file of roots.
    pub fn write(&self, file: &Path) {
        std::fs::write(file, self.0.pem()).unwrap();
    }
}

fn for_owner(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

impl Identity {
    /// As two files.
    pub fn write(&self, certificate: &Path, key: &Path) {
        std::fs::write(certificate, self.certificate.pem()).unwrap();
        std::fs::write(key, self.key.serialize_pem()).unwrap();
    }
}

/// A caller that speaks TLS, and resumes sessions where it is let.
#[derive(Clone)]
pub struct Secure(Arc<ClientConfig>);

/// An open connection of one.
pub type Connection = StreamOwned<ClientConnection, TcpStream>;

impl Secure {
    /// Trusts that authority, and shows that certificate, if any.
    pub fn new(trusts: &Authority, shows: Option<&Identity>) -> Self {
        Self::speaking(trusts, shows, rustls::ALL_VERSIONS)
    }

    /// The same in these versions only.
    pub fn speaking(
        trusts: &Authority,
        shows: Option<&Identity>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(trusts.0.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        let config = match shows {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let chain = vec![CertificateDer::from(identity.certificate.der().to_vec())];
                let key = PrivateKeyDer::try_from(identity.key.serialize_der()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        Self(Arc::new(config))
    }

    /// A connection to a proxy on this machine; no byte has been written to it.
    pub fn connect(&self, to: SocketAddr) -> Connection {
        let tcp = TcpStream::connect(to).unwrap();
        tcp.set_read_timeout(Some(PATIENCE)).unwrap();
        let name = ServerName::try_from(HOST).unwrap();
        let session = ClientConnection::new(Arc::clone(&self.0), name).unwrap();
        StreamOwned::new(session, tcp)
    }

    /// Sends a call on a connection of its own. `Err`: the handshake failed, or there was no answer.
    pub fn attempt(&self, call: &Call) -> io::Result<Answer> {
        let mut connection = self.connect(call.target());
        ask(&mut connection, &call.bytes())
    }

    /// The same; panics without an answer.
    pub fn send(&self, call: &Call) -> Answer {
        self.attempt(call).expect("a complete answer")
    }

    /// The same, and how hands were shaken for it.
    pub fn send_and_tell(&self, call: &Call) -> (Answer, HandshakeKind) {
        let mut connection = self.connect(call.target());
        let answer = ask(&mut connection, &call.bytes()).expect("a complete answer");
        let kind = connection.conn.handshake_kind();
        (answer, kind.unwrap())
    }

    /// The alert that the proxy turns this caller away with; panics if it does not.
    pub fn refusal(&self, call: &Call) -> AlertDescription {
        let error = self.attempt(call).expect_err("no answer");
        let cause = error.get_ref().and_then(|it| it.downcast_ref());
        match cause {
            Some(rustls::Error::AlertReceived(alert)) => *alert,
            Some(_) | None => panic!("no alert: {error}"),
        }
    }
}

/// Sends a request on an open connection and reads its answer.
pub fn ask(connection: &mut Connection, request: &[u8]) -> io::Result<Answer> {
    // Whoever is turned away may be so before everything is written: what counts is what is read.
    let _ = connection.write_all(request);
    let _ = connection.flush();
    read_answer(connection)
}
