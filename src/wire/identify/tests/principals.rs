//! Whose a request is: accounts and callers behind one key.

use super::*;
use crate::config::{CertificateName, PrincipalPart};
use crate::protocol::ids::Principal;

const ACCOUNT: PrincipalPart = PrincipalPart::Header(HeaderName::from_static("x-account"));

/// B09: two accounts behind one key are two operations, and the upstream gets two keys.
#[test]
fn a_principal_keeps_accounts_apart() {
    let of = |accounts: &[&'static str]| {
        let mut sent = Sent::to(keyed(true));
        sent.rules.principal = vec![ACCOUNT];
        sent.fields.push(("idempotency-key", "k"));
        for account in accounts {
            sent.fields.push(("x-account", account));
        }
        sent.identify().map(|identified| identified.key)
    };
    let (a, b, none) = (of(&["A"]).unwrap(), of(&["B"]).unwrap(), of(&[]).unwrap());
    assert_eq!(of(&["A"]).unwrap(), a);
    assert!(a != b && a != none && b != none);
    assert_eq!(a.id, b.id);
    let key = |operation| keys::derived_key(operation, crate::protocol::ids::Round(0));
    assert_ne!(key(&a), key(&b));
    // Which of two the upstream takes is its own affair.
    assert!(of(&["A", "B"]).is_err());
    // An empty value is not the absence of one.
    assert_ne!(of(&[""]).unwrap(), none);
}

/// Sends from an account, or from none, for a caller of that name.
fn from_caller(name: Option<&str>, account: &str, parts: &[PrincipalPart]) -> Sent<'static> {
    let mut sent = Sent::to(keyed(true));
    sent.rules.principal = parts.to_vec();
    sent.fields.push(("idempotency-key", "k"));
    if !account.is_empty() {
        let account = account.to_owned().leak();
        sent.fields.push(("x-account", account));
    }
    if let Some(name) = name {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        let kind = rcgen::DnType::CommonName;
        params.distinguished_name.push(kind, name);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        sent.caller = Caller::shown(certificate.der()).unwrap();
    }
    sent
}

/// What has been recorded by header goes on being found: these are SHA-256 over the version, and mark,
/// length and value of each part, made by another program.
#[test]
fn principals_of_headers_keep_their_hashes() {
    let hash = |account: &str| {
        let sent = from_caller(Some("worker"), account, &[ACCOUNT]);
        match sent.identify().unwrap().key.principal {
            Principal::Hashed(hash) => u128::from_be_bytes(hash),
            Principal::None => panic!("nobody"),
        }
    };
    assert_eq!(hash("A"), 0xd9c7_9f8e_4901_c6fa_3a3d_8a01_6812_e318);
    assert_eq!(hash(""), 0x4eec_7c74_ae8b_30d4_b85f_0032_48ec_8e7c);
}

/// B09: what the connection proves cannot be chosen in a header, and nobody is no account.
#[test]
fn a_certificate_keeps_callers_apart_and_its_absence_is_no_caller() {
    let subject = PrincipalPart::Certificate(CertificateName::Subject);
    let only = std::slice::from_ref(&subject);
    let key = |sent: Sent<'_>| sent.identify().unwrap().key;
    let (alice, bob) = (
        key(from_caller(Some("alice"), "", only)),
        key(from_caller(Some("bob"), "", only)),
    );
    assert_ne!(alice, bob);
    assert_eq!(key(from_caller(Some("alice"), "bob", only)), alice);
    let nobody = from_caller(None, "alice", only).identify().unwrap_err();
    let Unidentified::Fault(Fault::IdentityMissing { field }) = nobody else {
        panic!("{nobody:?}")
    };
    let said =
        "client certificate subject is not there: the caller's connection showed no certificate";
    assert_eq!(field, said);
    // Both together; in the order of the rule.
    let both = [subject.clone(), ACCOUNT];
    let of = |name, account| key(from_caller(Some(name), account, &both));
    let all = [
        of("alice", "A"),
        of("alice", "B"),
        of("bob", "A"),
        of("alice", ""),
        alice,
        key(from_caller(Some("alice"), "A", &[ACCOUNT, subject])),
    ];
    let apart: std::collections::HashSet<_> = all.iter().collect();
    assert_eq!(apart.len(), all.len());
}

/// A header cannot be written so that it is taken for a certificate.
#[test]
fn a_header_is_never_taken_for_a_certificate() {
    let name = "spiffe://example.org/worker";
    let mut params = rcgen::CertificateParams::default();
    let uri = rcgen::SanType::URI(name.try_into().unwrap());
    params.subject_alt_names = vec![uri];
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let parts = [PrincipalPart::Certificate(CertificateName::Uri)];
    let mut proven = from_caller(None, "", &parts);
    proven.caller = Caller::shown(certificate.der()).unwrap();
    let said = from_caller(None, name, &[ACCOUNT]);
    let (proven, said) = (proven.identify().unwrap(), said.identify().unwrap());
    assert_ne!(proven.key.principal, said.key.principal);
}
