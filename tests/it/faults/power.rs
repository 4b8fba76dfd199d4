//! The power is cut: what was written and not synced is gone, of every file.
//!
//! What always holds: what the upstream has a byte of is on the disk, with the token that it was sent
//! under.
//!
//! What it does not do: cut within a write. A log that ends in half a frame has tests of its own.

use std::os::unix::process::ExitStatusExt;

use super::*;
use crate::support::disk::Disk;

/// The power goes as the process does.
fn lose_power(proxy: &mut Proxy) {
    let ended = proxy.ended();
    assert_eq!(ended.signal(), Some(9), "{ended}");
    proxy.disk().loses_what_was_not_synced();
}

fn on_a_disk_that_remembers(keys: Keys) -> (Upstream, Proxy) {
    let upstream = Upstream::start(keys);
    let setup = match keys {
        Keys::Honoured => Setup::payments(upstream.address()),
        Keys::Ignored => Setup::opaque(upstream.address()),
    };
    let setup = setup.on_a_disk_that_fails();
    setup.disk().unwrap().remembers_what_is_synced();
    (upstream, Proxy::start(setup))
}

/// E11.
#[test]
fn what_was_sent_is_on_the_disk_when_the_power_fails() {
    let (upstream, mut proxy) = on_a_disk_that_remembers(Keys::Ignored);
    proxy.kill();
    proxy.disk().loses_what_was_not_synced();
    for round in 1..=8 {
        let key = format!("k{round}");
        for (number, point) in ["after-first-byte", "after-last-byte", "after-answer"]
            .iter()
            .enumerate()
        {
            let key = format!("{key}-{number}");
            assert!(proxy.starts_again_dying_at(point));
            assert!(pay(&proxy, &key).attempt().is_err());
            lose_power(&mut proxy);
        }
        proxy.start_again();
        for number in 0..3 {
            let key = format!("{key}-{number}");
            until_state(&proxy, &key, "NEEDS_ATTENTION");
        }
        let before = upstream.heads().len();
        for number in 0..3 {
            let told = pay(&proxy, &format!("{key}-{number}")).send();
            assert_eq!(told.verdict(), (409, "needs-attention".to_owned()));
        }
        assert_eq!(upstream.heads().len(), before, "a second attempt");
        proxy.kill();
        proxy.disk().loses_what_was_not_synced();
    }
}

/// E11: an answer that a caller has is on the disk.
#[test]
fn what_a_caller_was_told_is_on_the_disk_when_the_power_fails() {
    let (upstream, mut proxy) = on_a_disk_that_remembers(Keys::Ignored);
    for round in 1..=10 {
        let key = format!("k{round}");
        let told = pay(&proxy, &key).send();
        assert_eq!(told.status, 201);
        proxy.kill();
        proxy.disk().loses_what_was_not_synced();
        proxy.start_again();
        let again = pay(&proxy, &key).send();
        assert_eq!((again.status, &again.body), (201, &told.body));
        assert!(again.is_replay());
        assert_eq!(upstream.heads().len(), round);
    }
}

/// C19: with the token that it was sent under.
#[test]
fn a_token_is_on_the_disk_before_a_byte_is_sent_under_it() {
    let publish = |proxy: &Proxy, token: &str| {
        let body = format!(r#"{{"under":{token}}}"#);
        proxy.put("/statements/2026-09-13").token(token).json(&body)
    };
    for point in [
        "after-intent",
        "after-first-byte",
        "after-last-byte",
        "after-answer",
        "after-outcome-commit",
    ] {
        let (upstream, mut proxy) = on_a_disk_that_remembers(Keys::Honoured);
        proxy.kill();
        assert!(proxy.starts_again_dying_at(point));
        assert!(publish(&proxy, "9").attempt().is_err());
        lose_power(&mut proxy);
        proxy.start_again();
        let stale = publish(&proxy, "8").send();
        let expected = (412, "stale-fencing-token".to_owned());
        assert_eq!(stale.verdict(), expected, "{point}");
        assert_eq!(publish(&proxy, "9").send().status, 201, "{point}");
        let effects = upstream.effects();
        let bodies: Vec<_> = effects.iter().map(|it| it.body.as_str()).collect();
        assert_eq!(bodies, [r#"{"under":9}"#], "{point}");
    }
}

/// What is written without being read, as the report of observe mode is every few seconds: the disk of these
/// tests remembers it like everything else.
#[test]
fn what_is_only_written_is_on_the_disk_too() {
    let folder = tempfile::tempdir().unwrap();
    let register = folder.path().join("register");
    std::fs::create_dir(&register).unwrap();
    let disk = Disk::below(folder.path(), &register);
    disk.remembers_what_is_synced();
    let report = register.join("report.json");
    for (text, synced) in [("synced", true), ("not synced", false)] {
        let mut write = std::process::Command::new("dd");
        write.arg(format!("of={}", report.display()));
        write.args(if synced { &["conv=fsync"][..] } else { &[] });
        disk.stand_under(&mut write);
        let mut child = write
            .stdin(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        std::io::Write::write_all(&mut input, text.as_bytes()).unwrap();
        drop(input);
        assert!(child.wait().unwrap().success(), "{text}");
    }
    assert_eq!(std::fs::read_to_string(&report).unwrap(), "not synced");
    disk.loses_what_was_not_synced();
    assert_eq!(std::fs::read_to_string(&report).unwrap(), "synced");
}
