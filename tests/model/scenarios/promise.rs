//! At most one accepted effect per operation, whatever dies, gets lost, comes late or is said.

use fencepost::protocol::policy::{IfOlderUnsettled, KeyValue};
use fencepost::protocol::time::Millis;

use super::super::scenario::{
    Budget, Call, Handling, Scenario, TICK_MS, conditional, conditional_again, idempotent, opaque,
};

const ODD: &[Handling] = &[
    Handling::Refuse,
    Handling::Throttle,
    Handling::BreakBefore,
    Handling::BreakAfter,
];

pub(super) fn all() -> Vec<Scenario> {
    vec![
        takeover("takeover, idempotent", |call| call).with(|it| it.budget.verdicts = 0),
        takeover("takeover, opaque", |call| call.settle(opaque())).horizon(3),
        duplicates("duplicates, idempotent", |call| call),
        duplicates("duplicates, opaque", |call| call.settle(opaque())),
        two_machines(),
        restart(),
        three_proxies(),
        odd("odd answers, idempotent", |call| call),
        odd("odd answers, opaque", |call| call.settle(opaque())),
        odd("odd answers, remembered", |call| call).remembers_refusals(),
        conditions(),
        condition_of_a_repeat(),
        condition_again(),
        condition_after_a_crash(),
        no_condition_again(),
        lifetime(),
        lost_replies(),
        false_death(),
        wrong_verdict("wrong verdict, idempotent", |call| call),
        wrong_verdict("wrong verdict, opaque", |call| call.settle(opaque())),
        forms(),
        corrected(),
        own_key(),
        unfenced(),
        resend_without_deduplication(),
    ]
}

pub(super) fn beyond() -> Vec<Scenario> {
    vec![
        lifetime().with(|scenario| {
            scenario.name = "frozen beyond the key's lifetime";
            scenario.freeze = 7;
            scenario.horizon = 9;
            scenario.budget.losses = 0;
            scenario.budget.unsent = 0;
            scenario.proxies = 2;
            scenario.nothing_is_excused = true;
        }),
        takeover("a verdict before the late packet", |call| {
            call.settle(opaque())
        })
        .with(|scenario| {
            scenario.delay = 3;
            scenario.budget.verdicts = 0;
            scenario.budget.lies = 1;
            scenario.nothing_is_excused = true;
        }),
    ]
}

fn takeover(name: &'static str, how: impl Fn(Call) -> Call) -> Scenario {
    let calls = vec![
        how(Call::new("Alice", 'a', 1)),
        how(Call::new("Bob", 'b', 2).at(1)),
    ];
    let about = "Alice's request is on the wire, or nobody knows where, when Bob takes over";
    Scenario::new(name, about, calls)
        .horizon(2)
        .budget(Budget {
            crashes: 1,
            losses: 1,
            verdicts: 1,
            ..Budget::default()
        })
        .one_resend()
}

fn duplicates(name: &'static str, how: impl Fn(Call) -> Call) -> Scenario {
    let calls = vec![
        how(Call::new("Alice", 'a', 1).grants(2)),
        how(Call::new("a duplicate", 'a', 1).at(1)),
    ];
    let about = "the same request twice, through two proxies";
    Scenario::new(name, about, calls)
        .horizon(3)
        .budget(Budget {
            losses: 1,
            timeouts: 1,
            unsent: 1,
            verdicts: 1,
            ..Budget::default()
        })
        .one_resend()
}

fn two_machines() -> Scenario {
    let calls = vec![
        Call::new("Alice", 'a', 1).grants(2),
        Call::new("a duplicate", 'a', 1).at(1),
    ];
    let about = "two proxies on two machines, whose clocks say nothing to each other; one dies, or seems to";
    Scenario::new("two machines", about, calls)
        .horizon(3)
        .budget(Budget {
            crashes: 1,
            false_deaths: 1,
            ..Budget::default()
        })
        .with(|scenario| {
            scenario.machines = true;
            scenario.stale_plans = true;
        })
        .one_resend()
}

fn three_proxies() -> Scenario {
    let calls = vec![
        Call::new("Alice", 'a', 1),
        Call::new("a duplicate", 'a', 1).at(1).grants(0),
        Call::new("Bob", 'b', 2).at(2),
    ];
    let about = "three proxies of one register; one of them dies";
    Scenario::new("three proxies", about, calls)
        .horizon(2)
        .budget(Budget {
            crashes: 1,
            ..Budget::default()
        })
        .one_resend()
}

fn restart() -> Scenario {
    let calls = vec![
        Call::new("Alice", 'a', 1).grants(2),
        Call::new("a duplicate", 'a', 1),
    ];
    let about = "one owner of the register dies at any step, and comes back";
    Scenario::new("restart", about, calls)
        .horizon(3)
        .budget(Budget {
            crashes: 1,
            timeouts: 1,
            verdicts: 1,
            ..Budget::default()
        })
        .one_resend()
}

fn odd(name: &'static str, how: impl Fn(Call) -> Call) -> Scenario {
    let calls = vec![how(Call::new("Alice", 'a', 1).grants(2))];
    let about = "the upstream refuses, throttles and breaks, and answers get lost";
    Scenario::new(name, about, calls)
        .horizon(3)
        .budget(Budget {
            losses: 1,
            timeouts: 1,
            odd: 1,
            verdicts: 1,
            ..Budget::default()
        })
        .with(|scenario| scenario.upstream.odd = ODD)
        .one_resend()
}

/// Two writers of one version: whoever comes first wins, whatever the proxy does.
fn conditions() -> Scenario {
    let call = |who, id, generation| {
        Call::new(who, id, generation)
            .settle(conditional())
            .with(|call| call.condition = Some(0))
            .fence(|fence| fence.if_older_unsettled = IfOlderUnsettled::Send(Millis(TICK_MS)))
    };
    let calls = vec![call("Alice", 'a', 1).grants(2), call("Bob", 'b', 2).at(1)];
    let about = "both requests carry their condition, and Bob's goes ahead";
    Scenario::new("conditions", about, calls)
        .horizon(3)
        .budget(Budget {
            crashes: 1,
            losses: 1,
            verdicts: 1,
            ..Budget::default()
        })
}

fn condition_of_a_repeat() -> Scenario {
    let call = Call::new("Alice", 'a', 1)
        .settle(conditional())
        .with(|call| call.condition = Some(0))
        .grants(2);
    let about = "a person is wrong, and the condition of the repeat fails because the first met it";
    Scenario::new("condition of a repeat", about, vec![call])
        .horizon(3)
        .budget(Budget {
            losses: 1,
            lies: 1,
            verdicts: 1,
            ..Budget::default()
        })
}

/// The condition is sent again: it no longer holds where it was met, by the first attempt or by Bob.
fn condition_again() -> Scenario {
    let call = |who, id, generation| {
        Call::new(who, id, generation)
            .settle(conditional_again())
            .with(|call| call.condition = Some(0))
            .fence(|fence| fence.if_older_unsettled = IfOlderUnsettled::Send(Millis(TICK_MS)))
    };
    let calls = vec![call("Alice", 'a', 1), call("Bob", 'b', 2).at(1)];
    let about = "answers of a conditional upstream are lost, and the requests sent again";
    Scenario::new("condition again", about, calls)
        .horizon(2)
        .budget(Budget {
            losses: 1,
            ..Budget::default()
        })
        .one_resend()
}

/// The one who would send it again dies, or is a repeat of it.
fn condition_after_a_crash() -> Scenario {
    let call = Call::new("Alice", 'a', 1)
        .settle(conditional_again())
        .with(|call| call.condition = Some(0))
        .grants(2);
    let about = "a conditional upstream, a repeat of the request, and a proxy that dies";
    Scenario::new("condition after a crash", about, vec![call])
        .horizon(3)
        .budget(Budget {
            crashes: 1,
            losses: 1,
            ..Budget::default()
        })
        .one_resend()
}

/// The upstream would check a condition, if there were one.
fn no_condition_again() -> Scenario {
    let call = Call::new("Alice", 'a', 1)
        .settle(conditional_again())
        .grants(2);
    let about = "a request without its condition is not sent again to a conditional upstream";
    Scenario::new("no condition again", about, vec![call])
        .horizon(3)
        .budget(Budget {
            losses: 1,
            verdicts: 1,
            ..Budget::default()
        })
        .one_resend()
}

/// The margin is a fifth of the lifetime: a tick and a bit, of six.
fn lifetime() -> Scenario {
    let calls = vec![Call::new("Alice", 'a', 1)];
    let about = "the upstream forgets the key; packets are late by less than the margin";
    Scenario::new("lifetime", about, calls)
        .lifetime(6)
        .horizon(8)
        .budget(Budget {
            losses: 1,
            ..Budget::default()
        })
}

fn lost_replies() -> Scenario {
    let calls = vec![Call::new("Alice", 'a', 1).grants(2)];
    let about = "commits whose reply is lost; their writes are repeated, late";
    Scenario::new("lost replies", about, calls)
        .horizon(3)
        .budget(Budget {
            lost_replies: 1,
            losses: 1,
            timeouts: 1,
            verdicts: 1,
            ..Budget::default()
        })
        .one_resend()
}

fn false_death() -> Scenario {
    let calls = vec![Call::new("Alice", 'a', 1), Call::new("Bob", 'b', 2).at(1)];
    let about = "Alice's proxy is declared dead while it is only frozen, and thaws";
    Scenario::new("false death", about, calls)
        .horizon(3)
        .budget(Budget {
            false_deaths: 1,
            ..Budget::default()
        })
        .with(|scenario| scenario.freeze = 2)
        .one_resend()
}

fn wrong_verdict(name: &'static str, how: impl Fn(Call) -> Call) -> Scenario {
    let calls = vec![how(Call::new("Alice", 'a', 1).grants(2))];
    let about = "a person is wrong, or speaks too early";
    Scenario::new(name, about, calls)
        .horizon(4)
        .budget(Budget {
            losses: 1,
            timeouts: 1,
            lies: 1,
            verdicts: 1,
            ..Budget::default()
        })
        .one_resend()
}

fn forms() -> Scenario {
    let calls = vec![
        Call::new("Alice", 'a', 1).settle(opaque()).grants(2),
        Call::new("somebody", 'a', 1).settle(opaque()).form(9),
    ];
    let about = "two different requests under one identity";
    Scenario::new("forms", about, calls)
        .horizon(2)
        .budget(Budget {
            losses: 1,
            unsent: 1,
            odd: 1,
            ..Budget::default()
        })
        .with(|scenario| scenario.upstream.odd = &[Handling::Refuse, Handling::Throttle])
}

fn corrected() -> Scenario {
    let derived = |call: Call| call.with(|call| call.derived = true);
    let calls = vec![
        derived(Call::new("Alice", 'a', 1).grants(2)),
        derived(Call::new("Alice, corrected", 'a', 1).form(9)),
    ];
    let about = "a corrected request after a stored refusal, and late proof of the earlier form";
    Scenario::new("corrected", about, calls)
        .horizon(2)
        .budget(Budget {
            losses: 1,
            odd: 1,
            lies: 1,
            ..Budget::default()
        })
        .with(|scenario| scenario.upstream.odd = &[Handling::Refuse])
        .remembers_refusals()
        .one_resend()
}

/// Under the caller's own key there are no rounds.
fn own_key() -> Scenario {
    let own = |call: Call| {
        call.with(|call| call.derived = true).policy(|policy| {
            if let Some(key) = &mut policy.settle.key {
                key.value = KeyValue::Caller;
            }
        })
    };
    let calls = vec![
        own(Call::new("Alice", 'a', 1)),
        own(Call::new("Alice, corrected", 'a', 1).form(9)),
    ];
    let about = "a corrected request under the caller's own key";
    Scenario::new("own key", about, calls)
        .horizon(1)
        .budget(Budget {
            odd: 1,
            losses: 1,
            ..Budget::default()
        })
        .with(|scenario| scenario.upstream.odd = &[Handling::Refuse])
        .remembers_refusals()
        .one_resend()
}

fn unfenced() -> Scenario {
    let calls = vec![
        Call::new("Alice", 'a', 1).unfenced(),
        Call::new("Bob", 'b', 1).unfenced().free(),
    ];
    let about = "without a fence, only what commutes is sent again";
    Scenario::new("unfenced", about, calls)
        .horizon(2)
        .budget(Budget {
            losses: 1,
            ..Budget::default()
        })
        .one_resend()
}

fn resend_without_deduplication() -> Scenario {
    let mut settle = idempotent();
    settle.capability = opaque().capability;
    let calls = vec![Call::new("Alice", 'a', 1).settle(settle)];
    let about = "resends are configured for an upstream that does not deduplicate";
    Scenario::new("resend without deduplication", about, calls)
        .horizon(2)
        .budget(Budget {
            losses: 1,
            ..Budget::default()
        })
}
