//! The register: where it is, how long it remembers, what it is sealed with.

use std::path::PathBuf;
use std::time::Duration;

use super::{effect, good, refused, refused_at, upstream, warnings};
use crate::config::{EncryptionKey, RegisterPlace, Remember, SharedRegister};

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
    let RegisterPlace::Embedded(embedded) = config.register.place else {
        panic!("shared");
    };
    assert_eq!(embedded.witness, Some(PathBuf::from("/other/w")));
    refused_at(
        &with("ephemeral: true, witness: /other/w"),
        7,
        50,
        "may be lost without a fault",
    );
}

/// The fields of `postgres` start at line 8; what stands beside it comes after.
fn in_postgres(fields: &str, beside: &str) -> String {
    let text = upstream("");
    format!("{text}register:\n  postgres:\n    {fields}\n{beside}")
}

const NONE: &str = "  encryption: none\n";

fn shared(text: &str) -> SharedRegister {
    match good(text).register.place {
        RegisterPlace::Shared(shared) => shared,
        RegisterPlace::Embedded(embedded) => panic!("{embedded:?}"),
    }
}

#[test]
fn a_shared_register_is_a_url_and_says_how_it_is_sealed() {
    let text = in_postgres("url: postgres://me@127.0.0.1/x", NONE);
    let register = shared(&text);
    assert_eq!(register.url.place(), "127.0.0.1:5432/x");
    assert_eq!(
        (register.migrate, register.name, register.state),
        (true, None, None)
    );
    assert_eq!(good(&text).register.keys.len(), 1);
    let warned = warnings(&text);
    assert!(warned.contains("whoever reads the database"), "{warned}");
    assert!(!warned.contains("fences only the callers"), "{warned}");

    let silent = in_postgres("url: postgres://me@127.0.0.1/x", "");
    refused_at(&silent, 8, 5, "encryption: none");
    let keys = format!("  encryption: {{ keys: [ {}, none ] }}\n", "a1".repeat(32));
    let config = good(&in_postgres("url: postgres://me@127.0.0.1/x", &keys));
    assert_eq!(config.register.keys.len(), 2);
    refused_at(
        &in_postgres(
            "url: postgres://me@127.0.0.1/x",
            "  encryption: { keys: [ none ] }\n",
        ),
        9,
        25,
        "32 random bytes",
    );
    // An embedded one has a key file.
    let embedded = format!("{}register:\n  encryption: none\n", upstream(""));
    refused_at(&embedded, 7, 15, "leave it out for a key file");
}

#[test]
fn a_register_is_in_one_place_reached_over_two_connections() {
    let both = "  embedded: { path: r }\n  encryption: none\n";
    refused_at(
        &in_postgres("url: postgres://me@127.0.0.1/x", both),
        8,
        5,
        "in one place",
    );
    refused_at(
        &in_postgres("migrate: false", NONE),
        8,
        5,
        "`url` is missing",
    );
    let more = in_postgres("url: postgres://me@127.0.0.1/x\n    connections: 3", NONE);
    refused_at(&more, 9, 18, "one connection writes and one reads");
    let two = in_postgres("url: postgres://me@127.0.0.1/x\n    connections: 2", NONE);
    assert_eq!(
        shared(&two),
        shared(&in_postgres("url: postgres://me@127.0.0.1/x", NONE))
    );
}

#[test]
fn a_sidecar_is_not_taken_for_dead_while_it_may_only_be_waiting() {
    let with = |limit: &str| {
        let fields = format!("url: postgres://me@127.0.0.1/x\n    dead_after: {limit}");
        in_postgres(&fields, NONE)
    };
    let usual = shared(&in_postgres("url: postgres://me@127.0.0.1/x", NONE));
    assert_eq!(usual.dead_after, Duration::from_secs(20));
    for (limit, seconds) in [("12s", 12), ("2m", 120), ("1h", 3600)] {
        assert_eq!(
            shared(&with(limit)).dead_after,
            Duration::from_secs(seconds)
        );
    }
    refused_at(&with("11999ms"), 9, 17, "8s to answer");
    refused_at(&with("61m"), 9, 17, "really died");
    refused_at(&with("0s"), 9, 17, "a duration");
}

#[test]
fn a_database_that_may_be_lost_is_said_to_be() {
    let url = "url: postgres://me@127.0.0.1/x";
    let usual = in_postgres(url, NONE);
    assert!(!shared(&usual).ephemeral && !warnings(&usual).contains("sent again"));
    let with = in_postgres(&format!("{url}\n    ephemeral: true"), NONE);
    assert!(shared(&with).ephemeral && warnings(&with).contains("sent again"));
}

#[test]
fn a_password_in_the_file_and_a_bare_wire_are_warned_of() {
    let warned = |url: &str| warnings(&in_postgres(&format!("url: {url}"), NONE));
    assert!(warned("postgres://me:hunter2@127.0.0.1/x").contains("a secret stands in the file"));
    assert!(!warned("postgres://me@127.0.0.1/x").contains("a secret"));
    for bare in [
        "postgres://me@db.internal/x",
        "postgres://me@db/x?sslmode=disable",
    ] {
        assert!(warned(bare).contains("sslmode=require"), "{bare}");
    }
    assert!(!warned("postgres://me@db/x?sslmode=verify-full").contains("sslmode"));
    let bad = in_postgres("url: postgres://me:hunter2@db/x?sslmode=maybe", NONE);
    let problems = refused(&bad).to_string();
    assert!(
        problems.contains("sslmode") && !problems.contains("hunter2"),
        "{problems}"
    );
    assert!(
        !format!(
            "{:?}",
            good(&in_postgres("url: postgres://me:hunter2@127.0.0.1/x", NONE))
        )
        .contains("hunter2")
    );
}

#[test]
fn roots_are_named_in_one_place() {
    let rooted = |tls: &str, query: &str| {
        in_postgres(&format!("url: postgres://me@h/x?{query}\n    {tls}"), NONE)
    };
    let by_url = shared(&rooted(
        "migrate: true",
        "sslmode=verify-full&sslrootcert=/etc/ca.pem",
    ));
    let by_field = shared(&rooted("tls: { ca: /etc/ca.pem }", "sslmode=require"));
    assert_eq!(by_url.tls, by_field.tls);
    refused_at(
        &rooted("tls: { ca: /a }", "sslrootcert=/b"),
        9,
        10,
        "which roots already",
    );
    refused_at(
        &rooted("tls: { ca: /a }", "sslmode=disable"),
        9,
        10,
        "no TLS",
    );
    refused_at(
        &rooted("tls: { client_cert: /a }", "sslmode=require"),
        9,
        10,
        "together",
    );
}

#[test]
fn a_report_that_is_not_kept_is_warned_of() {
    let warned = |fields: &str| {
        let text = effect("        mode: observe\n");
        let register =
            format!("register:\n  postgres: {{ url: postgres://me@127.0.0.1/x{fields} }}\n");
        warnings(&format!("{text}{register}{NONE}"))
    };
    assert!(warned("").contains("begins anew"));
    assert!(!warned(", state: /var/lib/x").contains("begins anew"));
}
