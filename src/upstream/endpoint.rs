//! Where an upstream is: a URL from the config, parsed once.
//!
//! What always holds: scheme `http` or `https`, a host, a port; no user, query or fragment. A base
//! path (`https://host/api`) is put before every target, its trailing slash dropped: `/charges`
//! becomes `/api/charges`. A given CA file replaces the platform's roots, it does not add to them.
//!
//! What it does not do: resolve names or connect (`connect`).

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Uri};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};

use super::pem::{PemError, certificates, private_key};

/// An upstream's address. Cheap to clone.
#[derive(Clone)]
pub struct Endpoint(Arc<Parsed>);

struct Parsed {
    scheme: Scheme,
    authority: Authority,
    host: String,
    port: u16,
    host_field: HeaderValue,
    base: String,
    tls: Option<Tls>,
    fresh_connections: bool,
}

/// How to speak TLS to it.
#[derive(Clone)]
pub(super) struct Tls {
    pub(super) config: Arc<ClientConfig>,
    pub(super) name: ServerName<'static>,
}

/// PEM files for TLS. Without a CA the platform's roots are trusted.
#[derive(Clone, Debug, Default)]
pub struct TlsMaterial {
    /// Trusted instead of the platform's roots.
    pub ca: Option<PathBuf>,
    /// Our certificate chain; needs the key.
    pub client_cert: Option<PathBuf>,
    /// Its private key; needs the certificate.
    pub client_key: Option<PathBuf>,
}

/// Why an endpoint cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// Not of the form `scheme://host[:port][/base-path]`.
    #[error("not a URL of the form http(s)://host[:port][/base-path]: {0}")]
    Url(&'static str),
    /// Host cannot be verified in a certificate.
    #[error("the host cannot be named in a certificate")]
    ServerName,
    /// A PEM file cannot be used.
    #[error(transparent)]
    Pem(#[from] PemError),
    /// The platform trusts nobody.
    #[error("no root certificates were found on this platform; name a CA file")]
    NoRoots,
    /// A client certificate without a key, or a key without a certificate.
    #[error("a client certificate and its key go together")]
    HalfIdentity,
    /// TLS refuses the certificates.
    #[error("TLS cannot use these certificates")]
    Tls(#[source] rustls::Error),
}

impl Endpoint {
    /// Parses `url` and loads the TLS files. `fresh_connections`: a connection that carried an effect
    /// never carries another one.
    pub fn new(
        url: &str,
        tls: &TlsMaterial,
        fresh_connections: bool,
    ) -> Result<Self, EndpointError> {
        if url.contains('#') {
            return Err(EndpointError::Url("it has a fragment"));
        }
        let uri: Uri = url
            .parse()
            .map_err(|_| EndpointError::Url("it cannot be parsed"))?;
        let parts = uri.into_parts();
        let authority = parts
            .authority
            .ok_or(EndpointError::Url("it has no host"))?;
        let scheme = parts
            .scheme
            .filter(|scheme| *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS)
            .ok_or(EndpointError::Url("its scheme is neither http nor https"))?;
        if authority.as_str().contains('@') {
            return Err(EndpointError::Url("it names a user"));
        }
        let encrypted = scheme == Scheme::HTTPS;
        let default_port = if encrypted { 443 } else { 80 };
        let port = port_of(&authority, default_port)?;
        let host = bare_host(authority.host()).to_owned();
        if host.is_empty() {
            return Err(EndpointError::Url("it has no host"));
        }
        let tls = encrypted.then(|| Tls::load(&host, tls)).transpose()?;
        Ok(Self(Arc::new(Parsed {
            host_field: host_field(&authority, port, default_port)?,
            base: base_path(parts.path_and_query)?,
            scheme,
            authority,
            host,
            port,
            tls,
            fresh_connections,
        })))
    }

    /// Value of the Host field: the port only where it is not the scheme's own.
    pub fn host_header(&self) -> &HeaderValue {
        &self.0.host_field
    }

    /// Must a connection that carried an effect never carry another one?
    pub fn fresh_connections(&self) -> bool {
        self.0.fresh_connections
    }

    /// The target that a request for `target` (origin form) has at this upstream. `None` if together
    /// they are no target, or one that is read differently from how it is written.
    pub(super) fn target(&self, target: &[u8]) -> Option<PathAndQuery> {
        if !target.starts_with(b"/") {
            return None;
        }
        let joined = [self.0.base.as_bytes(), target].concat();
        let parsed = PathAndQuery::try_from(joined.as_slice()).ok()?;
        // A fragment is dropped in parsing: then the bytes differ.
        (parsed.as_str().as_bytes() == joined).then_some(parsed)
    }

    /// Host without brackets, and port.
    pub(super) fn address(&self) -> (&str, u16) {
        (&self.0.host, self.0.port)
    }

    pub(super) fn scheme(&self) -> &Scheme {
        &self.0.scheme
    }

    pub(super) fn authority(&self) -> &Authority {
        &self.0.authority
    }

    pub(super) fn tls(&self) -> Option<&Tls> {
        self.0.tls.as_ref()
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parsed {
            scheme,
            authority,
            base,
            ..
        } = &*self.0;
        write!(f, "{scheme}://{authority}{base}")
    }
}

impl Tls {
    fn load(host: &str, material: &TlsMaterial) -> Result<Self, EndpointError> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| EndpointError::ServerName)?;
        let mut config = material.load()?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            config: Arc::new(config),
            name,
        })
    }
}

impl TlsMaterial {
    /// Whom to trust and how to be known, for a client of whatever protocol.
    pub fn load(&self) -> Result<ClientConfig, EndpointError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(EndpointError::Tls)?
            .with_root_certificates(roots(self.ca.as_deref())?);
        match (&self.client_cert, &self.client_key) {
            (None, None) => Ok(builder.with_no_client_auth()),
            (Some(chain), Some(key)) => builder
                .with_client_auth_cert(certificates(chain)?, private_key(key)?)
                .map_err(EndpointError::Tls),
            (Some(_), None) | (None, Some(_)) => Err(EndpointError::HalfIdentity),
        }
    }
}

fn roots(ca: Option<&Path>) -> Result<RootCertStore, EndpointError> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = ca {
        for certificate in certificates(path)? {
            roots.add(certificate).map_err(EndpointError::Tls)?;
        }
    } else {
        // Platforms ship roots that webpki cannot read; the readable ones are what counts.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    if roots.is_empty() {
        return Err(EndpointError::NoRoots);
    }
    Ok(roots)
}

fn bare_host(host: &str) -> &str {
    host.strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host)
}

/// A port that is written but cannot be read is an error, not the default.
fn port_of(authority: &Authority, default_port: u16) -> Result<u16, EndpointError> {
    let after_host = authority.as_str().strip_prefix(authority.host());
    match (authority.port_u16(), after_host) {
        (Some(0), _) => Err(EndpointError::Url("its port is 0")),
        (Some(port), _) => Ok(port),
        (None, Some("")) => Ok(default_port),
        (None, _) => Err(EndpointError::Url("its port cannot be read")),
    }
}

fn host_field(
    authority: &Authority,
    port: u16,
    default_port: u16,
) -> Result<HeaderValue, EndpointError> {
    let host = authority.host();
    let text = if port == default_port {
        host.to_owned()
    } else {
        format!("{host}:{port}")
    };
    HeaderValue::try_from(text).map_err(|_| EndpointError::Url("its host cannot be sent"))
}

fn base_path(path: Option<PathAndQuery>) -> Result<String, EndpointError> {
    let Some(path) = path else {
        return Ok(String::new());
    };
    if path.query().is_some() {
        return Err(EndpointError::Url("it has a query"));
    }
    Ok(path.path().trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(url: &str) -> Result<Endpoint, EndpointError> {
        Endpoint::new(url, &TlsMaterial::default(), false)
    }

    #[test]
    fn a_url_gives_address_host_field_and_base_path() {
        for (url, address, host, target) in [
            ("http://a.test", ("a.test", 80), "a.test", "/x?y"),
            ("http://a.test:80/", ("a.test", 80), "a.test", "/x?y"),
            (
                "http://a.test:8080",
                ("a.test", 8080),
                "a.test:8080",
                "/x?y",
            ),
            ("http://[::1]:9/v1/", ("::1", 9), "[::1]:9", "/v1/x?y"),
            ("http://[::1]", ("::1", 80), "[::1]", "/x?y"),
            (
                "http://10.0.0.1/a/b",
                ("10.0.0.1", 80),
                "10.0.0.1",
                "/a/b/x?y",
            ),
        ] {
            let endpoint = endpoint(url).unwrap();
            assert_eq!(endpoint.address(), address, "{url}");
            assert_eq!(endpoint.host_header(), host, "{url}");
            assert_eq!(endpoint.target(b"/x?y").unwrap(), target, "{url}");
        }
    }

    #[test]
    fn a_url_that_means_more_than_a_place_is_refused() {
        for url in [
            "",
            "a.test",
            "/path",
            "ftp://a.test",
            "http://",
            "http://user:pass@a.test",
            "http://a.test?x=1",
            "http://a.test/#f",
            "http://a.test:0",
            "http://a.test:99999",
            "http://a.test:",
            "http://a.test:x",
        ] {
            assert!(
                matches!(endpoint(url), Err(EndpointError::Url(_))),
                "{url:?} was let in"
            );
        }
    }

    #[test]
    fn a_target_keeps_its_bytes_or_is_refused() {
        let endpoint = endpoint("http://a.test/base").unwrap();
        for target in ["/", "//x", "/a?", "/a?b=%2F&c", "/%2e%2e/x", "/a;b=c"] {
            let joined = endpoint.target(target.as_bytes()).unwrap();
            assert_eq!(joined, *format!("/base{target}"));
        }
        for target in [
            "",
            "*",
            "x",
            "/a#b",
            "/a b",
            "http://other.test/",
            "/a\r\nb",
        ] {
            assert_eq!(endpoint.target(target.as_bytes()), None, "{target:?}");
        }
    }

    #[test]
    fn half_an_identity_is_refused() {
        let tls = TlsMaterial {
            client_cert: Some(PathBuf::from("/c.pem")),
            ..TlsMaterial::default()
        };
        let refused = Endpoint::new("https://a.test", &tls, false);
        assert!(matches!(
            refused,
            Err(EndpointError::HalfIdentity | EndpointError::NoRoots)
        ));
    }
}
