//! A person has something asked after again, or sent again.
//!
//! What only a person may have sent is sent for him; order, the key's lifetime and the lease bind him too.

use fencepost::protocol::steps::{SettleStep, Steps};
use fencepost::protocol::time::Millis;

use super::super::scenario::{
    Budget, Call, Scenario, TICK_MS, asked, idempotent, opaque, question, undone,
};
use super::leases::owner;

pub(super) fn all() -> Vec<Scenario> {
    vec![
        taken_up(),
        only_asked(),
        not_undone(),
        sent_for(),
        sent_past_a_cut(),
        sent_within_the_lifetime(),
        sent_by_the_owner(),
        opaque_is_sent_for_nobody(),
    ]
}

/// It is given up too early, again and again.
fn taken_up() -> Scenario {
    let mut settle = asked(2, 1);
    let mut look = question(2, 1);
    look.within = Millis(2 * TICK_MS);
    settle.steps = Steps::new(vec![SettleStep::LookUp(look)]).unwrap();
    let calls = vec![Call::new("Alice", 'a', 1).settle(settle)];
    let about = "what was given up is asked after again, and given up again";
    Scenario::new("taken up", about, calls)
        .horizon(5)
        .budget(Budget {
            losses: 1,
            unclear: 1,
            questions: 2,
            take_ups: 2,
            ..Budget::default()
        })
}

fn only_asked() -> Scenario {
    let mut settle = idempotent();
    let resend = settle.steps.send_again().map(SettleStep::SendAgain);
    let mut look = question(2, 1);
    look.within = Millis(2 * TICK_MS);
    let look = SettleStep::LookUp(look);
    settle.steps = Steps::new([look].into_iter().chain(resend).collect()).unwrap();
    let call = Call::new("Alice", 'a', 1).settle(settle).owned(0);
    let about = "what who has no lease gave up is asked after again, and sent only for a person";
    Scenario::new("taken up, not sent", about, vec![call])
        .horizon(3)
        .budget(Budget {
            losses: 1,
            questions: 1,
            take_ups: 1,
            sends: 1,
            releases: 1,
            ..Budget::default()
        })
        .with(|scenario| {
            scenario.proxies = 2;
            scenario.holders = vec![owner("Alice", 0, TICK_MS * 7 / 2)];
            scenario.stale_plans = true;
        })
}

fn not_undone() -> Scenario {
    let mut settle = undone(2, 1);
    let mut steps: Vec<SettleStep> = settle.steps.iter().map(|(_, it)| it.clone()).collect();
    steps.insert(0, SettleStep::LookUp(question(2, 1)));
    settle.steps = Steps::new(steps).unwrap();
    let calls = vec![Call::new("Alice", 'a', 1).settle(settle)];
    let about = "what was given up while it could be undone is asked after, and not undone";
    Scenario::new("taken up, not undone", about, calls)
        .horizon(3)
        .budget(Budget {
            losses: 1,
            questions: 1,
            take_ups: 1,
            ..Budget::default()
        })
        .with(|scenario| {
            scenario.stale_plans = true;
            scenario.stale_undos = true;
        })
}

fn sent_for() -> Scenario {
    let calls = vec![
        Call::new("Alice", 'a', 1).grants(2),
        Call::new("Bob", 'b', 2).at(1),
    ];
    let about = "a person has it sent again at any step; some replies are lost";
    Scenario::new("sent for a person", about, calls)
        .horizon(1)
        .budget(Budget {
            losses: 2,
            lost_replies: 1,
            sends: 2,
            ..Budget::default()
        })
        .one_resend()
}

fn sent_past_a_cut() -> Scenario {
    let calls = vec![Call::new("Alice", 'a', 1), Call::new("Bob", 'b', 2).at(1)];
    let about = "cancelled and reopened at any step, and sent again because a person says so";
    Scenario::new("sent past a cancel", about, calls)
        .horizon(1)
        .budget(Budget {
            losses: 1,
            cancels: 1,
            reopens: 1,
            sends: 1,
            ..Budget::default()
        })
}

fn sent_within_the_lifetime() -> Scenario {
    let calls = vec![Call::new("Alice", 'a', 1)];
    let about = "the upstream forgets the key; a person cannot know better";
    Scenario::new("sent within the lifetime", about, calls)
        .horizon(7)
        .budget(Budget {
            losses: 1,
            sends: 1,
            ..Budget::default()
        })
        .lifetime(4)
        .one_resend()
}

fn sent_by_the_owner() -> Scenario {
    let call = Call::new("Alice", 'a', 1).owned(0);
    let about = "who needs a lease needs it also for a person";
    Scenario::new("sent under a lease", about, vec![call])
        .horizon(3)
        .budget(Budget {
            losses: 2,
            sends: 2,
            releases: 1,
            ..Budget::default()
        })
        .with(|scenario| scenario.holders = vec![owner("Alice", 0, TICK_MS * 3 / 2)])
}

fn opaque_is_sent_for_nobody() -> Scenario {
    let calls = vec![Call::new("Alice", 'a', 1).settle(opaque()).unfenced()];
    let about = "what nobody deduplicates is sent again for nobody";
    Scenario::new("opaque, not sent for a person", about, calls)
        .horizon(2)
        .budget(Budget {
            losses: 1,
            sends: 1,
            ..Budget::default()
        })
}
