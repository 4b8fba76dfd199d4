//! The register: where it is, how long it remembers, what it is sealed with.

use std::path::PathBuf;
use std::time::Duration;

use super::{good, refused_at, upstream, warnings};
use crate::config::{EncryptionKey, Remember};

const DAY: u64 = 86_400;

fn days(answers: u64, identities: u64) -> Remember {
    Remember {
        answers: Duration::from_secs(answers * DAY),
        identities: Duration::from_secs(identities * DAY),
    }
}

fn keyed(lifetime: &str, register: &str) -> String {
    let key =
        format!("    capability: [idempotent]\n    key: {{ header: K, lifetime: {lifetime} }}\n");
    format!("{}register:\n{register}", upstream(&key))
}

#[test]
fn it_remembers_for_a_week_and_a_year_unless_told_otherwise() {
    let remember = |text: &str| good(text).register.remember;
    assert_eq!(remember(&upstream("")), days(7, 400));
    // A longer key makes the default longer.
    assert_eq!(remember(&keyed("30d", "  {}\n")), days(30, 400));
    assert_eq!(remember(&keyed("500d", "  {}\n")), days(500, 500));
    let told = keyed("24h", "  remember: { answers: 1d, identities: 2d }\n");
    assert_eq!(remember(&told), days(1, 2));
    let longer = keyed("24h", "  remember: { answers: 500d }\n");
    assert_eq!(remember(&longer), days(500, 500));
}

#[test]
fn an_answer_is_not_forgotten_before_its_key_nor_an_identity_before_its_answer() {
    let short = keyed("8d", "  remember: { answers: 7d }\n");
    refused_at(&short, 9, 24, "a key lives for 8days");
    let crossed = keyed("1d", "  remember: { answers: 7d, identities: 6d }\n");
    refused_at(&crossed, 9, 40, "shorter than `answers`, 7days");
}

#[test]
fn keys_come_from_elsewhere_and_are_keys() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        format!("\"${{file:{}}}\"", path.display())
    };
    let (one, two) = (
        file("one", &[0xF1; 32]),
        file("two", "0f".repeat(32).as_bytes()),
    );
    let with = |keys: &str| {
        let text = upstream("");
        format!("{text}register:\n  encryption:\n    keys: [ {keys} ]\n")
    };
    let config = good(&with(&format!("{one}, {two}")));
    let keys: Vec<_> = config
        .register
        .keys
        .iter()
        .map(EncryptionKey::expose)
        .collect();
    assert_eq!(keys, [[0xF1; 32], [0x0F; 32]]);
    assert!(!warnings(&with(&one)).contains("secret"));
    assert!(warnings(&with(&"a1".repeat(32))).contains("a secret stands in the file"));
    refused_at(&with("hunter2"), 8, 13, "32 random bytes");
    refused_at(&with("\"${file:/no/such}\""), 8, 13, "cannot be read");
    refused_at(&with(""), 8, 11, "names no key");
    let twice = "a1".repeat(32);
    refused_at(&with(&format!("{twice}, {twice}")), 8, 79, "there already");
    let text = format!("{}register:\n  encryption: {{}}\n", upstream(""));
    refused_at(&text, 7, 15, "`keys` is missing");
}

#[test]
fn a_witness_is_for_registers_that_last() {
    let with = |fields: &str| {
        let text = upstream("");
        format!("{text}register:\n  embedded: {{ path: r, {fields} }}\n")
    };
    let config = good(&with("witness: /other/w"));
    assert_eq!(config.register.witness, Some(PathBuf::from("/other/w")));
    refused_at(
        &with("ephemeral: true, witness: /other/w"),
        7,
        50,
        "may be lost without a fault",
    );
}
