//! How the operations of a world are settled.
//!
//! What always holds: pauses are none, or counted in ticks.

use fencepost::protocol::ids::StepName;
use fencepost::protocol::policy::{Capability, KeyPolicy, KeyValue, SettlePolicy};
use fencepost::protocol::steps::{
    Backoff, CallbackPolicy, LookUpPolicy, ResendPolicy, SettleStep, Steps, VoidPolicy,
};
use fencepost::protocol::time::Millis;

use super::scenario::TICK_MS;

/// Deduplicates by key; two resends.
pub fn idempotent() -> SettlePolicy {
    SettlePolicy {
        capability: Capability {
            idempotent: true,
            ..Capability::default()
        },
        key: Some(KeyPolicy {
            value: KeyValue::Derived,
            lifetime: Some(Millis(60 * TICK_MS)),
            remembers_refusals: false,
            placing: None,
        }),
        steps: Steps::resends(Some(ResendPolicy {
            attempts: 2,
            backoff_from: Millis(0),
            backoff_to: Millis(0),
        })),
        way: None,
    }
}

/// Can be asked: "not found" counts after so many ticks of quiet, from so many samples two ticks apart.
pub fn asked(lag: u64, samples: u32) -> SettlePolicy {
    SettlePolicy {
        capability: Capability {
            query: true,
            ..Capability::default()
        },
        key: None,
        steps: Steps::new(vec![SettleStep::LookUp(question(lag, samples))]).unwrap(),
        way: None,
    }
}

pub fn question(lag: u64, samples: u32) -> LookUpPolicy {
    LookUpPolicy {
        name: StepName::new("look"),
        lag: Millis(lag * TICK_MS),
        samples: samples.try_into().unwrap(),
        every: Backoff {
            from: Millis(2 * TICK_MS),
            to: Millis(2 * TICK_MS),
        },
        within: Millis(8 * TICK_MS),
        tells_forms: false,
    }
}

/// Deduplicates, and undoes by key after so many ticks of quiet, one request after the other.
pub fn undone(lag: u64, attempts: u32) -> SettlePolicy {
    let mut settle = idempotent();
    let resend = settle.steps.send_again().map(SettleStep::SendAgain);
    let void = SettleStep::Void(VoidPolicy {
        name: StepName::new("undo"),
        lag: Millis(lag * TICK_MS),
        attempts,
        every: Backoff {
            from: Millis(0),
            to: Millis(0),
        },
        within: Millis(20 * TICK_MS),
    });
    settle.steps = Steps::new([void].into_iter().chain(resend).collect()).unwrap();
    settle
}

/// Calls back.
pub fn calls_back() -> SettlePolicy {
    SettlePolicy {
        capability: Capability {
            callback: true,
            ..Capability::default()
        },
        key: None,
        steps: Steps::new(vec![SettleStep::Callback(CallbackPolicy {
            within: Millis(2 * TICK_MS),
        })])
        .unwrap(),
        way: None,
    }
}

/// Can do nothing about duplicates.
pub fn opaque() -> SettlePolicy {
    SettlePolicy {
        capability: Capability::default(),
        key: None,
        steps: Steps::none(),
        way: None,
    }
}

/// Orders by itself where the request carries its condition.
pub fn conditional() -> SettlePolicy {
    SettlePolicy {
        capability: Capability {
            conditional: true,
            ..Capability::default()
        },
        ..opaque()
    }
}

/// The same, and the condition is sent again.
pub fn conditional_again() -> SettlePolicy {
    SettlePolicy {
        steps: idempotent().steps,
        ..conditional()
    }
}
