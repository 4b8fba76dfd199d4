//! A program that knows nothing of checksums opens the file: `sqlite3`, as an operator has it at hand.
//!
//! What always holds: who only reads does no harm to a register that is at work, or was stopped in order; what
//! a stranger wrote is refused, and can be mended where nothing else is damaged.

use rusqlite::{Connection, OpenFlags};

use super::at_rest::{AtRest, PAGE, stopped_after};
use super::*;
use crate::support::register::{by_a_stranger, by_hand};

const COUNT: &str = "SELECT count(*) FROM operations";

fn count(stranger: &Connection) -> i64 {
    stranger.query_row(COUNT, [], |row| row.get(0)).unwrap()
}

fn mend(proxy: &Proxy) -> std::process::Output {
    let register = proxy.register();
    Proxy::command_alone(&["store", "mend", "--register", register.to_str().unwrap()])
}

/// `sqlite3` may look into a register that was stopped in order, and into one that is at work.
#[test]
fn a_stranger_who_only_reads_leaves_the_checksums_whole() {
    let (upstream, mut proxy) = stopped_after(3);
    let count = |proxy: &Proxy| count(&by_a_stranger(&proxy.register()));
    assert_eq!(count(&proxy), 3);
    proxy.start_again();
    assert_eq!(pay(&proxy, "k3").send().status, 201);
    assert_eq!(count(&proxy), 4);
    assert_eq!(pay(&proxy, "k4").send().status, 201);
    proxy.stop();
    assert_eq!(count(&proxy), 5);
    proxy.start_again();
    for number in 0..5 {
        assert!(pay(&proxy, &format!("k{number}")).send().is_replay());
    }
    assert_eq!(upstream.heads().len(), 5);
}

/// After a crash the log holds what the file does not yet: whoever may write moves it when he goes.
#[test]
fn what_a_stranger_wrote_after_a_crash_is_refused_until_it_is_mended() {
    let (upstream, mut proxy) = stopped_after(3);
    proxy.start_again();
    for number in 3..6 {
        assert_eq!(pay(&proxy, &format!("k{number}")).send().status, 201);
    }
    let told = mend(&proxy);
    assert_eq!(told.status.code(), Some(1), "an instance owns it: {told:?}");
    proxy.kill();
    let log = proxy.register().join("register.db-wal");
    let path = proxy.register().join("register.db");
    let reader =
        Connection::open_with_flags_and_vfs(path, OpenFlags::SQLITE_OPEN_READ_ONLY, c"unix");
    assert_eq!(count(&reader.unwrap()), 6);
    assert!(log.exists(), "who may only read leaves the log");
    assert_eq!(count(&by_a_stranger(&proxy.register())), 6);
    assert!(!log.exists(), "the stranger moved it into the file");

    assert_does_not_start(&mut proxy, "its checksum does not match");

    let told = mend(&proxy);
    assert!(told.status.success(), "{told:?}");
    proxy.start_again();
    for number in 0..6 {
        assert!(pay(&proxy, &format!("k{number}")).send().is_replay());
    }
    assert_eq!(upstream.heads().len(), 6);
    let noted = "SELECT count(*) FROM history WHERE text LIKE 'given checksums anew%'";
    let noted: i64 = by_hand(&proxy.register())
        .query_row(noted, [], |row| row.get(0))
        .unwrap();
    assert_eq!(noted, 1);
}

/// Checksums are no cure for what is damaged; nor does mending hide that a register was put back.
#[test]
fn what_is_torn_or_was_put_back_is_not_mended() {
    let (upstream, mut proxy) = stopped_after(3);
    let whole = AtRest::of(&proxy);
    let root = "SELECT rootpage FROM sqlite_schema WHERE name = 'locators'";
    let identities: u32 = by_hand(&proxy.register())
        .query_row(root, [], |row| row.get(0))
        .unwrap();
    whole.put_back();
    whole.tear(usize::try_from(identities).unwrap() - 1, PAGE / 2..PAGE);
    let torn = std::fs::read(&whole.database).unwrap();
    let told = mend(&proxy);
    assert_eq!(told.status.code(), Some(1), "{told:?}");
    let said = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(said.contains("is damaged ("), "{said}");
    let left = std::fs::read(&whole.database).unwrap();
    assert_eq!(left.len(), torn.len());
    let page = usize::try_from(identities).unwrap() * PAGE;
    assert!(left[page - PAGE..page] == torn[page - PAGE..page]);
    assert_does_not_start(&mut proxy, "is damaged (");

    whole.put_back();
    let copy = proxy.register().join("copy");
    std::fs::copy(&whole.database, &copy).unwrap();
    std::fs::rename(&copy, &whole.database).unwrap();
    assert!(mend(&proxy).status.success());
    assert_does_not_start(&mut proxy, "may have been restored or copied");
    assert_eq!(upstream.heads().len(), 3);
}
