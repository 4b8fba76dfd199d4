//! In which order: within a generation, across generations, without tokens, and twins.

use fencepost::protocol::policy::{IfOlderUnsettled, IfTwin, PerGeneration};
use fencepost::protocol::time::Millis;

use super::super::scenario::{Budget, Call, Scenario, TICK_MS, opaque};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        strict(),
        overtaking(),
        tokenless(),
        goes_ahead(),
        one(),
        numbered(),
        twins("twins refused", IfTwin::Refuse),
        twins("twins answered", IfTwin::Answer),
        stale_plans(),
    ]
}

fn losing() -> Budget {
    Budget {
        losses: 1,
        verdicts: 1,
        ..Budget::default()
    }
}

fn strict() -> Scenario {
    let calls = vec![
        Call::new("Alice", 'a', 1),
        Call::new("Alice, next", 'b', 1),
        Call::new("Alice, aside", 'c', 1).free(),
    ];
    let about = "operations of one generation, two of them strict";
    Scenario::new("strict", about, calls)
        .horizon(1)
        .budget(losing())
        .one_resend()
}

/// The upstream orders and deduplicates.
fn overtaking() -> Scenario {
    let both = |call: Call| {
        call.policy(|policy| policy.settle.capability.conditional = true)
            .with(|call| call.condition = Some(0))
            .fence(|fence| fence.if_older_unsettled = IfOlderUnsettled::Send(Millis(TICK_MS)))
    };
    let calls = vec![
        both(Call::new("Alice", 'a', 1)),
        both(Call::new("Bob", 'b', 2).at(1)),
    ];
    let about = "a later operation went ahead; the older one is never resent";
    Scenario::new("overtaking", about, calls)
        .horizon(2)
        .budget(losing())
        .one_resend()
}

fn tokenless() -> Scenario {
    let calls = vec![
        Call::new("Alice", 'a', 1).settle(opaque()),
        Call::new("nobody", 'b', 1).tokenless().settle(opaque()),
        Call::new("Bob", 'c', 2).settle(opaque()).at(1),
    ];
    let about = "a request without a token between two with one";
    Scenario::new("tokenless", about, calls)
        .horizon(2)
        .budget(losing())
}

fn goes_ahead() -> Scenario {
    let ahead = |call: Call| {
        call.settle(opaque())
            .fence(|fence| fence.if_older_unsettled = IfOlderUnsettled::Send(Millis(TICK_MS)))
    };
    let calls = vec![
        ahead(Call::new("Alice", 'a', 1)),
        ahead(Call::new("Bob", 'b', 2).at(1)),
    ];
    let about = "`send` without a condition waits all the same";
    Scenario::new("goes ahead", about, calls)
        .horizon(2)
        .budget(losing())
}

fn one() -> Scenario {
    let one = |call: Call| call.fence(|fence| fence.per_generation = PerGeneration::One);
    let calls = vec![
        one(Call::new("Alice", 'a', 1).grants(2)),
        one(Call::new("Alice, next", 'b', 1)),
        one(Call::new("Bob", 'c', 2).at(1)),
    ];
    let about = "one operation per generation, also when it was not applied";
    Scenario::new("one per generation", about, calls)
        .horizon(1)
        .budget(Budget {
            unsent: 1,
            losses: 1,
            ..Budget::default()
        })
        .one_resend()
}

fn numbered() -> Scenario {
    let numbered = |call: Call, number| {
        call.fence(|fence| fence.per_generation = PerGeneration::Numbered)
            .with(|call| call.sequence = number)
    };
    let calls = vec![
        numbered(Call::new("Alice", 'a', 1).grants(2), Some(1)),
        numbered(Call::new("Alice, next", 'b', 1), Some(2)),
        numbered(Call::new("Alice, again", 'c', 1), Some(1)),
        numbered(Call::new("Alice, unnumbered", 'd', 1), None),
    ];
    let about = "numbers rise, and what was not applied may repeat its own";
    Scenario::new("numbered", about, calls)
        .horizon(1)
        .budget(Budget {
            unsent: 1,
            ..Budget::default()
        })
}

fn twins(name: &'static str, if_twin: IfTwin) -> Scenario {
    let twin = |call: Call| call.form(7).fence(|fence| fence.if_twin = if_twin);
    let calls = vec![
        twin(Call::new("Alice", 'a', 1).grants(2)),
        twin(Call::new("Alice, with a new key", 'b', 1)),
    ];
    let about = "a library makes a new key for every retry";
    Scenario::new(name, about, calls)
        .horizon(2)
        .budget(Budget {
            unsent: 1,
            losses: 1,
            verdicts: 1,
            ..Budget::default()
        })
        .one_resend()
}

fn stale_plans() -> Scenario {
    let calls = vec![Call::new("Alice", 'a', 1), Call::new("Bob", 'b', 2).at(1)];
    let about = "reconcilers that act on plans of yesterday, and admissions decided late";
    Scenario::new("stale plans", about, calls)
        .horizon(2)
        .budget(Budget {
            losses: 1,
            timeouts: 1,
            ..Budget::default()
        })
        .with(|scenario| {
            scenario.stale_plans = true;
            scenario.queued = true;
        })
        .one_resend()
}
