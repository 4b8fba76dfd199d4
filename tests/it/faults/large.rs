//! A register that is too large to be read whole at the start, damaged while it was stopped: what is damaged
//! is found when it is read.
//!
//! What always holds: a page that is not as it was written answers nothing; whoever meets it is refused, the
//! register admits nothing more, and it is said.

use super::at_rest::{AtRest, PAGE, stopped_after};
use super::*;
use crate::support::register::{by_hand, pad};

const PAYMENTS: usize = 60;

/// More than 32 MiB.
const MEBIBYTES: u32 = 40;

/// A stopped one, and the pages of each of its tables and indexes that are not padding, counted from zero.
fn stopped_and_large() -> (Upstream, Proxy, AtRest, Vec<(String, usize)>) {
    let (upstream, proxy) = stopped_after(PAYMENTS);
    pad(&proxy.register(), MEBIBYTES);
    let whole = AtRest::of(&proxy);
    assert!(whole.pages() * PAGE > 32 << 20);
    let register = by_hand(&proxy.register());
    let mut pages = register
        .prepare("SELECT name, pageno - 1 FROM dbstat WHERE name <> 'history' AND ncell > 0")
        .unwrap();
    let pages: Vec<(String, usize)> = pages
        .query_map([], |row| {
            let page: u32 = row.get(1)?;
            Ok((row.get(0)?, usize::try_from(page).unwrap()))
        })
        .unwrap()
        .map(Result::unwrap)
        .collect();
    (upstream, proxy, whole, pages)
}

/// The table by which identities are found: SQLite alone would answer "not there" from half of a page, and the
/// payment would be made again.
#[test]
fn a_torn_page_of_identities_is_met_told_and_nothing_is_sent() {
    let (upstream, mut proxy, whole, pages) = stopped_and_large();
    let identities: Vec<usize> = pages
        .iter()
        .filter(|(name, _)| name == "locators")
        .map(|(_, page)| *page)
        .collect();
    assert!(!identities.is_empty());
    for page in identities {
        for half in [0..PAGE / 2, PAGE / 2..PAGE] {
            whole.put_back();
            whole.tear(page, half);
            let before = proxy.log().len();
            proxy.start_again();
            for number in [0, PAYMENTS / 2, PAYMENTS - 1] {
                assert_unavailable(&pay(&proxy, &format!("k{number}")).send());
            }
            assert_unavailable(&pay(&proxy, "new").send());
            until_not_ready(&proxy, "its checksum does not match");
            let log = proxy.log();
            let said = "the register is damaged, and poisoned by it";
            assert_eq!(log[before..].matches(said).count(), 1, "{log}");
            assert_eq!(upstream.heads().len(), PAYMENTS);
            proxy.kill();
        }
    }
    whole.put_back();
    proxy.start_again();
    assert!(pay(&proxy, "k0").send().is_replay());
    assert_eq!(pay(&proxy, "new").send().status, 201);
    assert_eq!(upstream.heads().len(), PAYMENTS + 1);
}

/// Of all others nobody knows who reads them, and when.
#[test]
fn whichever_page_of_a_large_register_is_torn_nothing_is_sent_again() {
    let (upstream, mut proxy, whole, pages) = stopped_and_large();
    for (name, page) in pages {
        whole.put_back();
        whole.tear(page, PAGE / 2..PAGE);
        let before = proxy.log().len();
        // It may be found before it is ready.
        proxy.begin_again();
        until("it serves, or has ended", || {
            proxy.has_ended().is_some() || proxy.log()[before..].contains("\"serving\"")
        });
        if let Some(ended) = proxy.has_ended() {
            assert_eq!(ended.code(), Some(1));
            let log = proxy.log();
            assert!(log[before..].contains("register.db is damaged ("), "{log}");
            continue;
        }
        for number in [0, PAYMENTS / 2, PAYMENTS - 1] {
            let told = pay(&proxy, &format!("k{number}")).send();
            assert!(
                told.is_replay() || told.status == 503,
                "{name}, page {page}: {}",
                told.text()
            );
        }
        assert_eq!(upstream.heads().len(), PAYMENTS, "{name}, page {page}");
        proxy.kill();
    }
    whole.put_back();
    proxy.start_again();
    assert!(pay(&proxy, "k0").send().is_replay());
}
