//! A register of the format before, killed while it is written anew with checksums.
//!
//! What always holds: whenever the process dies, the next start has all that was known, in the new format,
//! and leaves nothing of the attempt behind.

use std::path::Path;

use crate::support::call::Call;
use crate::support::gate::until;
use crate::support::proxy::Proxy;
use crate::support::register::{by_a_stranger, by_hand, pad};
use crate::support::setup::Setup;
use crate::support::upstream::{Keys, Upstream};

const PAYMENTS: usize = 5;

/// Enough to be killed in the middle.
const MEBIBYTES: u32 = 64;

fn pay(proxy: &Proxy, number: usize) -> Call {
    let key = format!("k{number}");
    proxy.post("/payments").key(&key).json(r#"{"amount":5}"#)
}

fn stopped_of_format_3(mebibytes: u32) -> (Upstream, Proxy) {
    let upstream = Upstream::start(Keys::Ignored);
    let mut proxy = Proxy::start(Setup::opaque(upstream.address()));
    for number in 0..PAYMENTS {
        assert_eq!(pay(&proxy, number).send().status, 201);
    }
    proxy.stop();
    pad(&proxy.register(), mebibytes);
    to_format_3(&proxy.register());
    (upstream, proxy)
}

/// Its tables are those of format 4; its pages had no checksums, and no room for them.
fn to_format_3(register: &Path) {
    let (path, without) = (register.join("register.db"), register.join("without"));
    let written = format!("VACUUM INTO 'file:{}?reserve=0'", without.display());
    by_hand(register).execute_batch(&written).unwrap();
    std::fs::rename(&without, &path).unwrap();
    let inode = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(&path).unwrap());
    let earlier = by_a_stranger(register);
    earlier.pragma_update(None, "user_version", 3).unwrap();
    let place = "UPDATE register SET inode = ?1";
    earlier.execute(place, [inode.cast_signed()]).unwrap();
}

fn format(register: &Path) -> u32 {
    by_a_stranger(register)
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap()
}

fn assert_knows_all(upstream: &Upstream, proxy: &mut Proxy) {
    proxy.start_again();
    for number in 0..PAYMENTS {
        assert!(pay(proxy, number).send().is_replay(), "{number}");
    }
    assert_eq!(upstream.heads().len(), PAYMENTS);
    assert_eq!(pay(proxy, PAYMENTS).send().status, 201);
    proxy.stop();
    assert_eq!(format(&proxy.register()), 4);
    let mut names: Vec<_> = std::fs::read_dir(proxy.register())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.retain(|name| name.starts_with("register.db."));
    assert!(names.is_empty(), "{names:?}");
}

#[test]
fn killed_at_each_step_of_an_upgrade_it_begins_again_or_is_done() {
    for (point, left_at) in [
        ("rewriting", 3),
        ("before-rewritten", 3),
        ("after-rewritten", 4),
    ] {
        let (upstream, mut proxy) = stopped_of_format_3(1);
        assert!(!proxy.starts_again_dying_at(point), "{point}");
        assert_eq!(format(&proxy.register()), left_at, "{point}");
        assert_knows_all(&upstream, &mut proxy);
    }
}

#[test]
fn killed_while_it_writes_the_new_file_it_begins_again() {
    let (upstream, mut proxy) = stopped_of_format_3(MEBIBYTES);
    let aside = proxy.register().join("register.db.new");
    proxy.begin_again();
    until("some of it is written", || {
        std::fs::metadata(&aside).is_ok_and(|found| found.len() > 1 << 20)
    });
    proxy.kill();
    assert!(aside.exists(), "it was in the middle of it");
    assert_eq!(format(&proxy.register()), 3);
    assert_knows_all(&upstream, &mut proxy);
}
