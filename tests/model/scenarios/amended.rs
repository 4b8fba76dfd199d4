//! What a person amends: a token that he lets in, a resource that he repairs, a new epoch.

use fencepost::protocol::fence::Deed;
use fencepost::protocol::ids::FencingToken;

use super::super::scenario::{Budget, Call, Scenario};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        accepted(),
        accepted_too_low(),
        repaired(),
        repaired_after_a_cut(),
        new_epoch(),
    ]
}

fn of_epoch_0(generation: u64) -> FencingToken {
    FencingToken::new(0, generation).unwrap()
}

fn steps_of_ten(call: Call) -> Call {
    call.fence(|fence| fence.max_step = Some(10))
}

fn amended(name: &'static str, about: &'static str, calls: Vec<Call>, deed: Deed) -> Scenario {
    Scenario::new(name, about, calls)
        .horizon(1)
        .budget(Budget {
            amends: 1,
            ..Budget::default()
        })
        .with(|scenario| scenario.amends = vec![deed])
}

fn accepted() -> Scenario {
    let calls = vec![
        Call::new("Alice", 'a', 1).grants(2),
        steps_of_ten(Call::new("Bob", 'b', 900).at(1)),
    ];
    let about = "Bob's token lies too far above the mark, and a person lets it in";
    let deed = Deed::Accepted(of_epoch_0(900));
    amended("accepted", about, calls, deed).with(|scenario| {
        scenario.known_source = true;
        scenario.far = Some(of_epoch_0(11));
    })
}

fn accepted_too_low() -> Scenario {
    let calls = vec![
        Call::new("Alice", 'a', 1),
        Call::new("Bob", 'b', 2).at(1),
        Call::new("Alice, later", 'c', 1),
    ];
    let about = "a person wants to let in a token that is stale by then";
    amended(
        "accepted too low",
        about,
        calls,
        Deed::Accepted(of_epoch_0(1)),
    )
}

fn repaired() -> Scenario {
    let calls = vec![
        Call::new("a stranger", 'a', 900),
        Call::new("Alice", 'b', 7).at(1),
    ];
    let about = "a wild token came first; the resource begins again at the genuine one";
    amended("repaired", about, calls, Deed::Repaired(of_epoch_0(7))).budget(Budget {
        amends: 1,
        losses: 1,
        verdicts: 1,
        ..Budget::default()
    })
}

/// The stranger only raises the mark.
fn repaired_after_a_cut() -> Scenario {
    let calls = vec![
        Call::new("Alice", 'a', 7),
        Call::new("Alice, later", 'c', 7),
        Call::new("a stranger", 'b', 12).grants(0),
    ];
    let about = "Alice was cut off before the wild token came: the repair is not for her";
    let deed = Deed::Repaired(of_epoch_0(7));
    amended("repaired after a cut", about, calls, deed).budget(Budget {
        advances: 1,
        amends: 1,
        ..Budget::default()
    })
}

fn new_epoch() -> Scenario {
    let calls = vec![
        Call::new("Alice", 'a', 7).grants(2),
        Call::new("Bob", 'b', 1)
            .with(|call| call.token = Some(FencingToken::new(1, 1)))
            .at(1),
    ];
    let about = "a new epoch begins at any step; Bob has acquired in it";
    Scenario::new("new epoch", about, calls)
        .horizon(1)
        .budget(Budget {
            epochs: 1,
            unsent: 1,
            ..Budget::default()
        })
}
