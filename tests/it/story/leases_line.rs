//! Many who want one lease.
//!
//! What always holds: first come, first served; nobody is served twice; who waits costs the register nothing.

use std::time::{Duration, Instant};

use super::leases::{ACCOUNT, Leased, leased};
use super::*;
use crate::support::call::InFlight;

const WAITERS: usize = 1_000;

/// Whoever waits for that long waits to the end of the test.
const LONG: &str = "60s";

fn commits(it: &Leased) -> u64 {
    it.proxy.counted("fencepost_store_commit_seconds_count")
}

/// The token of a waiter, who gives it back at once.
fn served(it: &Leased, waiter: InFlight) -> u64 {
    let told = waiter.answer();
    assert_eq!(told.status, 200, "{}", told.text());
    let told = told.json();
    let acquisition = told["acquisition"].as_str().unwrap();
    assert_eq!(it.his("release", acquisition).status, 204);
    told["token"].as_str().unwrap().parse().unwrap()
}

#[test]
fn a_thousand_who_wait_are_served_in_the_order_of_coming_for_two_commits_each() {
    let it = leased();
    let (first, token) = it.acquired("1h", "0s");
    let memory = it.proxy.resident_kib();
    let waiting: Vec<_> = (0..WAITERS).map(|_| it.wait_in_line(LONG)).collect();
    let grown = it.proxy.resident_kib().saturating_sub(memory);
    assert!(grown < 64 << 10, "{grown} KiB for {WAITERS} waiters");
    let before = commits(&it);
    assert_eq!(it.his("release", &first).status, 204);
    let mut last: u64 = token.parse().unwrap();
    for waiter in waiting {
        let token = served(&it, waiter);
        assert_eq!(token, last + 1, "each in his turn, and each once");
        last = token;
    }
    let spent = commits(&it) - before;
    let transfers = u64::try_from(WAITERS).unwrap();
    // One for the release of the first.
    assert!(spent <= 2 * transfers + 1, "{spent} commits");
    assert_eq!(it.proxy.counted("fencepost_lease_waiting"), 0);
    assert_eq!(
        it.proxy.counted("fencepost_ownership_transfers_total"),
        transfers
    );
    let acquired = it.proxy.counted("fencepost_lease_acquire_seconds_count");
    assert_eq!(acquired, transfers + 1);
    assert!(it.proxy.counted("fencepost_wait_seconds_count") >= transfers);
}

/// Wherever he stands: in front, where he asks, or in the line.
#[test]
fn who_hangs_up_costs_nobody_his_place() {
    let it = leased();
    let (first, _) = it.acquired("1h", "0s");
    let mut waiting: Vec<_> = (0..6).map(|_| it.wait_in_line(LONG)).collect();
    for place in [3, 0] {
        let left = it.proxy.counted("fencepost_lease_waiting") - 1;
        waiting.remove(place).hang_up();
        until("he is missed", || {
            it.proxy.counted("fencepost_lease_waiting") == left
        });
    }
    assert_eq!(it.his("release", &first).status, 204);
    let tokens: Vec<_> = waiting.into_iter().map(|it_| served(&it, it_)).collect();
    assert_eq!(tokens, [2, 3, 4, 5]);
}

#[test]
fn a_wait_ends_when_it_was_to_end() {
    let it = leased();
    it.acquired("1h", "0s");
    let _in_front = it.wait_in_line(LONG);
    // In the line, and alone on another resource that is held.
    let begun = Instant::now();
    let told = it.acquire("30s", "400ms");
    assert_eq!(told.verdict(), (409, "lease-held".to_owned()));
    let waited = begun.elapsed();
    assert!(waited >= Duration::from_millis(400), "{waited:?}");
    assert!(waited < Duration::from_secs(5), "{waited:?}");
    let seconds: u64 = told.field("retry-after").unwrap().parse().unwrap();
    assert!((1..=10).contains(&seconds), "{seconds}");
    let told = told.json();
    let advised = told["retry_after_ms"].as_u64().unwrap();
    assert!((1_000..=10_000).contains(&advised), "{told}");
}

/// C10: whoever hangs up at whatever moment leaves nothing that is kept for him.
#[test]
fn nothing_is_kept_for_those_who_hung_up() {
    let it = leased();
    for number in 0..200_u64 {
        let body = r#"{"ttl":"2s","wait":"10s","holder":"gone"}"#;
        let gone = it.call("acquire", body).start();
        // At another moment each time.
        let until = Instant::now() + Duration::from_micros(number * 20);
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        gone.hang_up();
    }
    until("nobody waits", || {
        it.proxy.counted("fencepost_lease_waiting") == 0
    });
    let (_, token) = it.acquired("1h", "30s");
    let listed = it.proxy.read("/v1/leases");
    let held = listed["leases"].as_array().unwrap();
    assert_eq!(held.len(), 1, "{listed}");
    assert_eq!(held[0]["token"], token.as_str());
    assert_eq!(held[0]["resource"], ACCOUNT);
}
