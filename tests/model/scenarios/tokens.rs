//! Who may act: marks, epochs, sources, acquisitions, leases, cancels.

use fencepost::protocol::ids::FencingToken;
use fencepost::protocol::policy::SettlePolicy;

use super::super::scenario::{Budget, Call, Scenario, idempotent, opaque};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        mark(),
        refused_but_risen(),
        epochs(),
        wild(),
        acquisitions(),
        cancel(),
        cancel_and_reopen(),
        advance("advance, opaque", opaque()),
        advance("advance, idempotent", idempotent()),
    ]
}

fn mark() -> Scenario {
    let calls = vec![
        Call::new("Alice", 'a', 1).grants(2),
        Call::new("Bob", 'b', 2).at(1),
        Call::new("Alice, later", 'c', 1),
    ];
    Scenario::new("mark", "a newer token cuts the older one off", calls)
        .horizon(1)
        .budget(Budget {
            unsent: 1,
            ..Budget::default()
        })
}

/// Bob is made to wait, and Alice is stale from then on all the same.
fn refused_but_risen() -> Scenario {
    let calls = vec![
        Call::new("Alice", 'a', 1),
        Call::new("Bob", 'b', 2).at(1).grants(0),
        Call::new("Alice, later", 'c', 1).free(),
    ];
    let about = "a token that was presented counts, whatever became of its request";
    Scenario::new("refused but risen", about, calls).horizon(1)
}

fn epochs() -> Scenario {
    let calls = vec![
        Call::new("Alice", 'a', 7),
        Call::new("Bob", 'b', 1)
            .with(|call| call.token = Some(FencingToken::new(1, 1)))
            .at(1),
        Call::new("tomorrow", 'c', 1).with(|call| {
            call.token = Some(FencingToken::new(2, 1));
            call.wild = true;
        }),
    ];
    Scenario::new("epochs", "tokens of three epochs", calls)
        .horizon(1)
        .with(|scenario| scenario.epoch = 1)
}

fn wild() -> Scenario {
    let stranger = Call::new("a stranger", 'b', 900).with(|call| call.wild = true);
    let calls = vec![
        Call::new("Alice", 'a', 1),
        stranger.fence(|fence| fence.max_step = Some(10)),
        Call::new("Bob", 'c', 2),
    ];
    let about = "a token of another source, far too high, must not brick the resource";
    Scenario::new("wild token", about, calls)
        .horizon(1)
        .with(|scenario| {
            // The first token of a resource is free: it names the source.
            scenario.calls[1].wild = true;
            scenario.known_source = true;
        })
}

fn acquisitions() -> Scenario {
    let held = |call: Call, by| call.with(|call| call.acquisition = Some(by)).free();
    let calls = vec![
        held(Call::new("Alice", 'a', 1), "alice"),
        held(Call::new("Bob", 'b', 1), "bob").at(1),
        Call::new("somebody", 'c', 1).free(),
    ];
    let about = "two holders present one token";
    Scenario::new("acquisitions", about, calls).horizon(1)
}

fn cancel() -> Scenario {
    let calls = vec![Call::new("Alice", 'a', 1), Call::new("Bob", 'b', 2).at(1)];
    let about = "the resource is cancelled at any step";
    Scenario::new("cancel", about, calls)
        .horizon(2)
        .budget(Budget {
            losses: 1,
            cancels: 1,
            ..Budget::default()
        })
        .one_resend()
}

fn cancel_and_reopen() -> Scenario {
    let placed = |call: Call| call.with(|call| call.follows_incarnation = true);
    let calls = vec![
        placed(Call::new("Alice", 'a', 1)),
        placed(Call::new("Bob", 'a', 2).at(1)),
    ];
    let about = "cancelled and reopened; the id carries the incarnation";
    Scenario::new("cancel and reopen", about, calls)
        .horizon(3)
        .budget(Budget {
            losses: 1,
            cancels: 1,
            reopens: 1,
            verdicts: 1,
            ..Budget::default()
        })
        .one_resend()
}

fn advance(name: &'static str, settle: SettlePolicy) -> Scenario {
    let calls = vec![
        Call::new("Alice", 'a', 1).settle(settle.clone()),
        Call::new("Alice, later", 'c', 1).settle(settle.clone()),
        Call::new("Bob", 'b', 2).at(1).settle(settle),
    ];
    let about = "an operator cuts all present holders off";
    Scenario::new(name, about, calls)
        .horizon(1)
        .budget(Budget {
            advances: 1,
            losses: 1,
            ..Budget::default()
        })
        .one_resend()
}
