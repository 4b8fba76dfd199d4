//! Requests without keys, and the blind retries of old middleware.

use super::super::scenario::{Budget, Call, Scenario, opaque};

/// Ticks within which an equal request is a repeat.
const WINDOW: u64 = 1;

/// What the requests are equal in.
const FORM: u8 = 7;

pub(super) fn all() -> Vec<Scenario> {
    vec![
        repeated("keyless, unfenced", Call::unfenced)
            .horizon(2)
            .with(|it| it.budget.verdicts = 0),
        repeated("keyless, fenced", |call| call).horizon(2),
        resources(),
    ]
}

/// Nobody repeats an effect whose first attempt may still have it: an opaque upstream gives most of
/// them to a person.
fn repeated(name: &'static str, how: impl Fn(Call) -> Call) -> Scenario {
    let call = |who, id| how(Call::new(who, id, 1).keyless(FORM, WINDOW)).settle(opaque());
    let calls = vec![
        call("Alice", 'a'),
        call("her middleware", 'b'),
        call("Alice, much later", 'c'),
    ];
    let about = "equal requests without a key, one after the other";
    Scenario::new(name, about, calls).budget(Budget {
        losses: 1,
        verdicts: 1,
        ..Budget::default()
    })
}

/// The same content for another resource is another request.
fn resources() -> Scenario {
    let call = |who, id| Call::new(who, id, 1).keyless(FORM, WINDOW).settle(opaque());
    let calls = vec![
        call("Alice", 'a'),
        call("Alice, for another", 'b').of(1),
        call("Alice, for none", 'c').unfenced(),
    ];
    let about = "equal requests without a key for two resources, and for none";
    Scenario::new("keyless, two resources", about, calls).horizon(1)
}
