//! A certificate for one server, by an authority that is made for it and forgotten.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};

use super::folder::Folder;

/// Makes it, for `localhost` and 127.0.0.1.
pub(super) fn write(folder: &Folder) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    // Named otherwise than its authority, or it looks as if it had signed itself.
    params
        .distinguished_name
        .push(DnType::CommonName, "localhost");
    let address = SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST));
    params.subject_alt_names.push(address);
    let certificate = params.signed_by(&key, &issuer).unwrap();
    folder.write("authority.pem", &issuer.pem());
    folder.write("server.pem", &certificate.pem());
    folder.write("server.key", &key.serialize_pem());
}

/// The authority's own certificate.
pub(super) fn authority(folder: &Folder) -> PathBuf {
    folder.join("authority.pem")
}

/// What the server is told about it.
pub(super) fn lines(folder: &Folder) -> [(&'static str, String); 3] {
    let path = |name: &str| folder.join(name).display().to_string();
    [
        ("ssl", "on".to_owned()),
        ("ssl_cert_file", path("server.pem")),
        ("ssl_key_file", path("server.key")),
    ]
}
