//! The rules under which an effect would be admitted, sent and settled, in words.
//!
//! What always holds: what is said is what the config came to, defaults and profile included.
//!
//! What it does not do: say what the register would decide.

use std::time::Duration;

use super::settling;
use super::views::Named;
use crate::config::{Protect, Upstream};
use crate::protocol::policy::{
    FencePolicy, IfOlderUnsettled, IfTwin, Order, PerGeneration, TokenMode,
};
use crate::protocol::time::Millis;

/// All of them, by the names that the config gives them.
pub(super) fn named(protect: &Protect, upstream: &Upstream) -> Vec<Named> {
    let policy = &protect.policy;
    let mut all = Vec::new();
    let mut say = |name: &str, value: String| all.push(Named::of(name, &value));
    if let Some(fence) = &policy.fence {
        fenced(fence, policy.order, &mut say);
    }
    say(
        "join",
        format!("a repeat waits {} for it", length(protect.join)),
    );
    for step in settling::steps(protect) {
        say("settle", step);
    }
    let timeouts = &upstream.timeouts;
    say(
        "timeouts",
        format!(
            "connect {}, dispatch {}, response {}",
            millis(timeouts.connect),
            millis(timeouts.dispatch),
            millis(timeouts.response)
        ),
    );
    all
}

fn fenced(fence: &FencePolicy, order: Order, say: &mut impl FnMut(&str, String)) {
    let order = match order {
        Order::Strict => "strict: one after the other within a generation too",
        Order::Free => "free: effects of one generation commute",
    };
    say("order", order.to_owned());
    let older = match fence.if_older_unsettled {
        IfOlderUnsettled::Wait(at_most) => format!("wait for it, at most {}", millis(at_most)),
        IfOlderUnsettled::Refuse => "refuse".to_owned(),
        IfOlderUnsettled::Send(_) => "send all the same, if its condition orders it".to_owned(),
    };
    say("if_older_unsettled", older);
    let generation = match fence.per_generation {
        PerGeneration::Many => None,
        PerGeneration::One => Some("one operation for each token"),
        PerGeneration::Numbered => Some("numbered by its sequence"),
    };
    if let Some(text) = generation {
        say("per_generation", text.to_owned());
    }
    let twin = match fence.if_twin {
        IfTwin::Refuse => None,
        IfTwin::Answer => Some("answer"),
        IfTwin::Send => Some("send"),
    };
    if let Some(text) = twin {
        say("if_twin", text.to_owned());
    }
}

/// As in the config.
pub(super) fn token_mode(mode: TokenMode) -> &'static str {
    match mode {
        TokenMode::Require => "require",
        TokenMode::Prefer => "prefer",
        TokenMode::Observe => "observe",
    }
}

pub(super) fn millis(length: Millis) -> String {
    self::length(Duration::from_millis(length.0))
}

fn length(length: Duration) -> String {
    humantime::format_duration(length).to_string()
}
