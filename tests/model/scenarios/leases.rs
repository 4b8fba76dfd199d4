//! Worlds of leases: who owns the resource, and what it costs to believe it for too long.
//!
//! What is left out, for time: only in one world (`released`) a lease is given back as often as it can be; in the others
//! once, so not by both owners.

use super::super::scenario::{Budget, Call, Holder, Scenario, TICK_MS};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        leases(),
        transfer(),
        both_act(),
        lost_replies(),
        proxy_dies(),
        cancelled(),
        released(),
        licensed(),
    ]
}

/// One who owns it when the world begins.
pub(super) fn owner(who: &'static str, proxy: u8, ttl_ms: u64) -> Holder {
    Holder {
        who,
        proxy,
        ttl_ms,
        owns: true,
    }
}

fn waiter(who: &'static str, proxy: u8, ttl_ms: u64) -> Holder {
    Holder {
        owns: false,
        ..owner(who, proxy, ttl_ms)
    }
}

fn leases() -> Scenario {
    let calls = vec![
        Call::new("Alice", 'a', 1).owned(0).grants(2),
        Call::new("Alice, elsewhere", 'b', 1).owned(0).at(1),
    ];
    let about = "Alice's proxy knows her lease for a tick and a half; another knows none";
    Scenario::new("leases", about, calls)
        .horizon(4)
        .budget(Budget {
            losses: 1,
            verdicts: 1,
            releases: 1,
            ..Budget::default()
        })
        .with(|scenario| scenario.holders = vec![owner("Alice", 0, TICK_MS * 3 / 2)])
}

fn transfer() -> Scenario {
    let calls = vec![Call::new("Alice", 'a', 1).held(0)];
    let about = "Bob waits at another machine, whose wall clock is an hour ahead, until Alice's time is over";
    Scenario::new("a lease changes hands", about, calls)
        .horizon(2)
        .budget(Budget {
            acquisitions: 1,
            renewals: 1,
            releases: 1,
            ..Budget::default()
        })
        .with(|scenario| {
            scenario.proxies = 2;
            scenario.holders = vec![owner("Alice", 0, TICK_MS), waiter("Bob", 1, TICK_MS)];
            (scenario.machines, scenario.skewed) = (true, true);
            scenario.queued = true;
        })
}

fn both_act() -> Scenario {
    let calls = vec![
        Call::new("Alice", 'a', 1).owned(0),
        Call::new("Bob", 'b', 1).owned(1).at(1),
    ];
    let about = "Alice and Bob act, each only while it is theirs";
    Scenario::new("both owners act", about, calls)
        .horizon(2)
        .budget(Budget {
            acquisitions: 2,
            releases: 1,
            ..Budget::default()
        })
        .with(|scenario| {
            scenario.holders = vec![owner("Alice", 0, TICK_MS), waiter("Bob", 1, TICK_MS)];
        })
}

fn lost_replies() -> Scenario {
    let about = "nobody knows whether a lease was granted or renewed";
    Scenario::new("a lease whose reply is lost", about, Vec::new())
        .horizon(4)
        .budget(Budget {
            acquisitions: 2,
            renewals: 1,
            lost_replies: 2,
            releases: 1,
            ..Budget::default()
        })
        .with(|scenario| {
            scenario.proxies = 2;
            scenario.holders = vec![
                waiter("Alice", 0, TICK_MS * 3 / 2),
                waiter("Bob", 1, TICK_MS * 3 / 2),
            ];
            (scenario.machines, scenario.skewed) = (true, true);
        })
}

fn proxy_dies() -> Scenario {
    let calls = vec![Call::new("Alice", 'a', 1).owned(0)];
    let about = "the proxy dies that a lease was acquired through, and the other one";
    Scenario::new("a lease whose proxy dies", about, calls)
        .horizon(2)
        .budget(Budget {
            acquisitions: 1,
            crashes: 1,
            releases: 1,
            ..Budget::default()
        })
        .with(|scenario| {
            scenario.proxies = 2;
            scenario.holders = vec![owner("Alice", 0, TICK_MS), waiter("Bob", 1, TICK_MS)];
        })
}

fn cancelled() -> Scenario {
    let calls = vec![Call::new("Alice", 'a', 1).owned(0)];
    let about = "a leased resource is cancelled, advanced and reopened at any step";
    Scenario::new("a cancelled lease", about, calls)
        .horizon(1)
        .budget(Budget {
            acquisitions: 1,
            renewals: 1,
            cancels: 1,
            advances: 1,
            reopens: 1,
            releases: 1,
            ..Budget::default()
        })
        .with(|scenario| {
            scenario.proxies = 2;
            scenario.holders = vec![
                owner("Alice", 0, TICK_MS * 2),
                waiter("Bob", 1, TICK_MS * 2),
            ];
        })
}

fn released() -> Scenario {
    let calls = vec![
        Call::new("Alice", 'a', 1).owned(0),
        Call::new("Alice, late", 'b', 1).held(0).free(),
    ];
    let about =
        "Alice releases at some proxy, before or after she lost it, and goes on all the same";
    Scenario::new("a released lease", about, calls)
        .horizon(1)
        .budget(Budget {
            acquisitions: 1,
            losses: 1,
            releases: 2,
            ..Budget::default()
        })
        .one_resend()
        .with(|scenario| {
            scenario.proxies = 2;
            scenario.holders = vec![owner("Alice", 0, TICK_MS), waiter("Bob", 1, TICK_MS)];
        })
}

fn licensed() -> Scenario {
    let calls = vec![
        Call::new("Alice", 'a', 1).owned(0),
        Call::new("Bob", 'a', 1).owned(1),
    ];
    let about = "Alice is gone, and the next owner may or may not repeat what she left in doubt";
    Scenario::new("a repeat by the next owner", about, calls)
        .horizon(3)
        .budget(Budget {
            losses: 1,
            acquisitions: 1,
            verdicts: 1,
            releases: 1,
            ..Budget::default()
        })
        .one_resend()
        .with(|scenario| {
            scenario.holders = vec![owner("Alice", 0, TICK_MS), waiter("Bob", 0, TICK_MS * 2)];
        })
}
