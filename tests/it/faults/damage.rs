//! A register that was damaged while it was stopped: torn pages, a torn log, another file, another
//! version; and a second owner.
//!
//! What always holds: what a damaged register has forgotten is not sent again.

use super::at_rest::{AtRest, PAGE, change, stopped_after};
use super::*;
use crate::support::register::by_hand;

/// Enough for tables of more than one page.
const PAYMENTS: usize = 60;

type Spoil = fn(&mut Vec<u8>);

/// SQLite itself would answer "not there" from some of these pages, and the payment would be made again.
#[test]
fn whichever_page_is_torn_nothing_is_sent_again() {
    let (upstream, mut proxy) = stopped_after(PAYMENTS);
    let whole = AtRest::of(&proxy);
    let mut refused = 0;
    for page in 0..whole.pages() {
        for half in [0..PAGE / 2, PAGE / 2..PAGE] {
            whole.put_back();
            whole.tear(page, half.clone());
            let before = proxy.log().len();
            if let Err(ended) = proxy.starts_again_with(&[]) {
                assert_eq!(ended.code(), Some(1));
                let log = proxy.log();
                assert!(log[before..].contains("register.db"), "{}", &log[before..]);
                refused += 1;
                continue;
            }
            // What was torn held nothing.
            for number in [0, PAYMENTS / 2, PAYMENTS - 1] {
                let told = pay(&proxy, &format!("k{number}")).send();
                assert!(told.is_replay(), "page {page}, {half:?}: {}", told.text());
            }
            assert_eq!(upstream.heads().len(), PAYMENTS, "page {page}, {half:?}");
            proxy.kill();
        }
    }
    assert!(
        refused > whole.pages(),
        "{refused} of {} halves",
        2 * whole.pages()
    );
    whole.put_back();
    proxy.start_again();
    assert!(pay(&proxy, "k0").send().is_replay());
    assert_eq!(pay(&proxy, "new").send().status, 201);
    assert_eq!(upstream.heads().len(), PAYMENTS + 1);
}

/// A damaged register is refused in words that say what to do, and can be looked into.
#[test]
fn a_register_with_a_torn_index_is_refused_copied_never_and_may_be_looked_at() {
    let (upstream, mut proxy) = stopped_after(3);
    let whole = AtRest::of(&proxy);
    let identities: usize = {
        let register = by_hand(&proxy.register());
        let named = "SELECT rootpage FROM sqlite_schema WHERE name = 'locators'";
        let page: u32 = register.query_row(named, [], |row| row.get(0)).unwrap();
        usize::try_from(page).unwrap() - 1
    };
    whole.put_back();
    whole.tear(identities, PAGE / 2..PAGE);

    assert_does_not_start(&mut proxy, "Put a backup in its place");

    assert!(proxy.log().contains("register.db is damaged ("));
    let register = proxy.register();
    let list = [
        "operations",
        "list",
        "--register",
        register.to_str().unwrap(),
    ];
    let listed = Proxy::command_alone(&list);
    assert!(
        String::from_utf8_lossy(&listed.stdout).contains("COMPLETED"),
        "{listed:?}"
    );
    let copy = register.join("copy");
    let copied = proxy.command(&["store", "backup", "--to", copy.to_str().unwrap()]);
    assert_eq!(copied.status.code(), Some(1), "{copied:?}");
    assert!(!copy.exists());
    whole.put_back();
    proxy.start_again();
    assert!(pay(&proxy, "k0").send().is_replay());
    assert_eq!(upstream.heads().len(), 3);
}

/// What SQLite finds in order and the register cannot read.
#[test]
fn a_record_that_decayed_stops_its_own_operation_and_no_other() {
    let (upstream, mut proxy) = stopped_after(2);
    let whole = AtRest::of(&proxy);
    let decay = "UPDATE operations SET record = x'00' WHERE id = 'k0'";
    assert_eq!(by_hand(&proxy.register()).execute(decay, []).unwrap(), 1);
    proxy.start_again();
    let before = proxy.log().len();
    for _ in 0..2 {
        assert_unavailable(&pay(&proxy, "k0").send());
    }
    let log = proxy.log();
    assert!(
        log[before..].contains("cannot be read") && log[before..].contains("k0"),
        "{log}"
    );
    let said = r#"{"verdict":"applied","reason":"it is in the books"}"#;
    let path = "/v1/operations/provider/k0/resolve";
    let resolved = proxy.admin("POST", path).json(said).send();
    let unreadable = (500, "register-unreadable".to_owned());
    assert_eq!(resolved.verdict(), unreadable, "nobody knows what it is");
    assert!(pay(&proxy, "k1").send().is_replay());
    assert_eq!(pay(&proxy, "new").send().status, 201);
    until_ready(&proxy);
    assert_eq!(upstream.heads().len(), 3);
    proxy.stop();
    whole.put_back();
    proxy.start_again();
    assert!(pay(&proxy, "k0").send().is_replay());
}

#[test]
fn a_register_without_its_key_is_refused_until_the_key_is_back() {
    let (upstream, mut proxy) = stopped_after(1);
    let key = proxy.register().join("key");
    let away = proxy.register().join("key.away");
    std::fs::rename(&key, &away).unwrap();
    let missing = format!("{} is missing", key.display());
    assert_does_not_start(&mut proxy, &missing);
    assert!(!key.exists(), "none is made in its place");
    std::fs::rename(&away, &key).unwrap();
    proxy.start_again();
    assert!(pay(&proxy, "k0").send().is_replay());
    assert_eq!(upstream.heads().len(), 1);
}

/// The log ends for SQLite where a frame is torn, whatever was committed behind it.
#[test]
fn a_torn_log_that_lost_what_the_witness_saw_is_refused() {
    let upstream = Upstream::start(Keys::Ignored);
    let mut proxy = Proxy::start(Setup::opaque(upstream.address()));
    let witness = proxy.register().join("witness");
    let seen_before = std::fs::read(&witness).unwrap();
    assert_effect_1(&pay(&proxy, "k").send());
    until("the witness has seen it", || {
        std::fs::read(&witness).unwrap() != seen_before
    });
    proxy.kill();
    let log = proxy.register().join("register.db-wal");
    let whole = std::fs::read(&log).unwrap();
    assert!(whole.len() > 4 * PAGE, "what was committed is in the log");
    // The salt of the first frames is whole, a byte of a page is not.
    change(&log, |content| content[2 * PAGE] ^= 1);

    assert_does_not_start(&mut proxy, "its witness saw it at");

    std::fs::write(&log, whole).unwrap();
    proxy.start_again();
    assert!(pay(&proxy, "k").send().is_replay());
    assert_eq!(upstream.heads().len(), 1);
}

#[test]
fn a_file_without_a_header_is_no_register() {
    let (upstream, mut proxy) = stopped_after(1);
    let whole = AtRest::of(&proxy);
    let foreign = "is not a register of Fencepost";
    let nonsense: [(&str, Spoil); 4] = [
        (foreign, |content| content[..100].fill(0)),
        (foreign, |content| {
            *content = b"dear diary".repeat(1_000);
        }),
        ("is damaged (", |content| content.truncate(50)),
        ("is damaged (", |content| content.truncate(5 * PAGE)),
    ];
    for (because, spoil) in nonsense {
        whole.put_back();
        change(&whole.database, spoil);
        let spoilt = std::fs::read(&whole.database).unwrap();
        assert_does_not_start(&mut proxy, because);
        assert_eq!(
            std::fs::read(&whole.database).unwrap(),
            spoilt,
            "left alone"
        );
    }
    // Emptied, it would pass for a new one, were it not for its witness.
    whole.put_back();
    change(&whole.database, Vec::clear);
    assert_does_not_start(&mut proxy, "may have been restored or copied");
    whole.put_back();
    proxy.start_again();
    assert_effect_1(&pay(&proxy, "k0").send());
    assert_eq!(upstream.heads().len(), 1);
}

#[test]
fn a_register_of_a_newer_version_is_refused_and_left_alone() {
    let (upstream, mut proxy) = stopped_after(1);
    let whole = AtRest::of(&proxy);
    let newer = by_hand(&proxy.register());
    newer.pragma_update(None, "user_version", 99).unwrap();
    drop(newer);
    let before = std::fs::read(&whole.database).unwrap();
    assert_does_not_start(&mut proxy, "has format 99, this version reads up to");
    assert_eq!(std::fs::read(&whole.database).unwrap(), before);
    whole.put_back();
    proxy.start_again();
    assert!(pay(&proxy, "k0").send().is_replay());
    assert_eq!(upstream.heads().len(), 1);
}

/// C23: one directory, one owner, also while that one stands still or admits nothing any more.
#[test]
fn a_second_owner_is_refused_and_the_first_works_on() {
    let (upstream, proxy) = on_a_disk_that_fails(Keys::Ignored);
    let start_second = || {
        let ended = proxy.command(&["serve"]);
        assert_eq!(ended.status.code(), Some(1));
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(said.contains("in use by another process"), "{said}");
    };
    start_second();
    assert_effect_1(&pay(&proxy, "k").send());
    proxy.freeze();
    proxy.until_frozen();
    start_second();
    proxy.thaw();
    assert!(pay(&proxy, "k").send().is_replay());
    proxy.disk().fails(&["sync register.db-wal EIO"]);
    until_not_ready(&proxy, "poisoned");
    start_second();
    assert_eq!(upstream.heads().len(), 1);
}
