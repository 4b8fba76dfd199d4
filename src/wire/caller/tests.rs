//! Names in certificates, as authorities write them and as they should not.

use rcgen::{
    CertificateParams, DistinguishedName, DnType, DnValue, KeyPair, SanType, SerialNumber,
};
use rustls::pki_types::CertificateDer;

use super::*;

fn certificate(params: &CertificateParams) -> CertificateDer<'static> {
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    CertificateDer::from(certificate.der().to_vec())
}

fn caller(params: &CertificateParams) -> Caller {
    Caller::shown(&certificate(params)).unwrap()
}

fn named(names: &[SanType]) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.subject_alt_names = names.to_vec();
    params
}

fn subject(value: impl Into<DnValue>) -> CertificateParams {
    let mut params = named(&[]);
    params.distinguished_name.push(DnType::CommonName, value);
    params
}

fn uri(text: &str) -> SanType {
    SanType::URI(text.try_into().unwrap())
}

fn dns(text: &str) -> SanType {
    SanType::DnsName(text.try_into().unwrap())
}

fn name(caller: &Caller, kind: CertificateName) -> Result<Vec<u8>, Nameless> {
    caller.name(kind).map(Cow::into_owned)
}

const SPIFFE: &str = "spiffe://example.org/ns/pay/sa/worker";

/// The caller stays who he is when his certificate is renewed; only the fingerprint goes with it.
#[test]
fn a_name_outlives_the_certificate() {
    let mut params = named(&[uri(SPIFFE), dns("worker.example.org")]);
    params.distinguished_name.push(DnType::CommonName, "worker");
    params.serial_number = Some(SerialNumber::from(1));
    let old = caller(&params);
    params.serial_number = Some(SerialNumber::from(2));
    params.not_after = rcgen::date_time_ymd(2039, 1, 1);
    let new = caller(&params);
    for kind in [
        CertificateName::Subject,
        CertificateName::Uri,
        CertificateName::Dns,
    ] {
        assert_eq!(name(&old, kind).unwrap(), name(&new, kind).unwrap());
    }
    let fingerprint = |caller| name(caller, CertificateName::Fingerprint).unwrap();
    assert_ne!(fingerprint(&old), fingerprint(&new));
    assert_eq!(fingerprint(&old).len(), 32);
}

/// RFC 5280 with `CN=worker` as a UTF8String, by hand: another reader must find the same bytes.
#[test]
fn a_subject_is_its_bytes() {
    let of = |params| name(&caller(&params), CertificateName::Subject);
    let worker = of(subject("worker")).unwrap();
    let written = b"\x31\x0f\x30\x0d\x06\x03\x55\x04\x03\x0c\x06worker";
    assert_eq!(worker, written);
    assert_ne!(of(subject("Worker")).unwrap(), worker);
    let printable = DnValue::PrintableString("worker".try_into().unwrap());
    assert_ne!(
        of(subject(printable)).unwrap(),
        worker,
        "no form is guessed"
    );
    // All certificates with nothing but alternative names would be one caller.
    assert_eq!(of(named(&[uri(SPIFFE)])), Err(Nameless::Absent));
}

#[test]
fn an_alternative_name_is_the_only_readable_one_of_its_kind_or_none() {
    let of = |names: &[SanType], kind| name(&caller(&named(names)), kind);
    let (a, b) = (uri(SPIFFE), uri("spiffe://example.org/other"));
    let host = dns("Worker.Example.org");
    let kind = CertificateName::Uri;
    assert_eq!(
        of(&[a.clone(), host.clone()], kind).unwrap(),
        SPIFFE.as_bytes()
    );
    assert_eq!(of(&[a.clone(), b], kind), Err(Nameless::Several));
    assert_eq!(of(std::slice::from_ref(&host), kind), Err(Nameless::Absent));
    assert_eq!(of(&[uri("a b")], kind), Err(Nameless::Unreadable));
    let kind = CertificateName::Dns;
    let found = of(&[host.clone(), a.clone()], kind).unwrap();
    assert_eq!(found, b"worker.example.org");
    // What cannot be read as a name is none: that it is there as well is not known.
    let beside = of(&[host.clone(), dns("not a name")], kind).unwrap();
    assert_eq!(beside, b"worker.example.org");
    assert_eq!(of(&[host, dns("x.org")], kind), Err(Nameless::Several));
    assert_eq!(of(&[a], kind), Err(Nameless::Absent));
    assert_eq!(of(&[dns("*.example.org")], kind), Err(Nameless::Wildcard));
}

#[test]
fn whoever_shows_nothing_is_nobody() {
    for (_, kind) in CertificateName::WORDS {
        let name = name(&Caller::default(), kind);
        assert_eq!(name, Err(Nameless::NoCertificate));
    }
    assert!(Caller::shown(&CertificateDer::from(vec![1, 2, 3])).is_err());
}

#[test]
fn a_caller_is_not_named_in_logs() {
    let shown = format!("{:?}", caller(&subject("worker")));
    assert_eq!(shown, "Caller(certificate)");
}
