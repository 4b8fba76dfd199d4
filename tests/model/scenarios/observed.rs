//! Tokens that are judged and recorded, and refuse nothing: a fence on its way in.

use super::super::scenario::{Budget, Call, Scenario, opaque};

pub(super) fn all() -> Vec<Scenario> {
    vec![half_way(), unplaced()]
}

/// Some callers are enforced already; the others must not weaken what holds for those.
fn half_way() -> Scenario {
    let watched = |call: Call| call.free().observed().settle(opaque());
    let calls = vec![
        Call::new("Alice", 'a', 1).free(),
        watched(Call::new("Bob", 'b', 2)),
        watched(Call::new("Alice, elsewhere", 'c', 1)),
    ];
    let about = "a fence that is enforced on one route and observed on another";
    Scenario::new("observed half-way", about, calls)
        .horizon(1)
        .budget(Budget {
            losses: 1,
            ..Budget::default()
        })
        .one_resend()
}

/// Without a token, and with one that nobody can place.
fn unplaced() -> Scenario {
    let stranger = Call::new("a stranger", 'c', 900).with(|call| call.wild = true);
    let nobody = Call::new("nobody", 'b', 1).with(|call| call.token = Some(None));
    let calls = vec![
        Call::new("Alice", 'a', 1),
        nobody.observed(),
        stranger.observed(),
    ];
    let about = "observed requests without a token, and with one of another source";
    Scenario::new("observed, unplaced", about, calls)
        .horizon(1)
        .with(|scenario| scenario.known_source = true)
        .one_resend()
}
