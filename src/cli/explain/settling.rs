//! How a lost answer is settled, in words: each step in its order, and a person.
//!
//! What always holds: every step that the effect has is told, with what bounds it; what is asked is told as the
//! config has it, never with a value of the request in it.
//!
//! What it does not do: say which step is next for an operation (`operations why`).

use super::policy::millis;
use crate::config::{Asking, Content, Protect, Query};
use crate::protocol::policy::KeyPolicy;
use crate::protocol::steps::{
    Backoff, CallbackPolicy, LookUpPolicy, ResendPolicy, SettleStep, VoidPolicy,
};

/// A line for each step, numbered; the last is a person.
pub(super) fn steps(protect: &Protect) -> Vec<String> {
    let settle = &protect.policy.settle;
    let steps = settle.steps.iter().map(|(_, step)| match step {
        SettleStep::SendAgain(resend) => send_again(*resend, settle.key),
        SettleStep::LookUp(policy) => look_up(policy, &protect.asking),
        SettleStep::Compare(policy) => compare(policy, &protect.asking),
        SettleStep::Void(policy) => void(policy, settle.key, &protect.asking),
        SettleStep::Callback(policy) => callback(*policy),
    });
    let person = if settle.steps.is_empty() {
        "a lost answer waits for a person"
    } else {
        "a person"
    };
    let all = steps.chain([person.to_owned()]);
    (1..)
        .zip(all)
        .map(|(number, step)| format!("{number}. {step}"))
        .collect()
}

fn send_again(resend: ResendPolicy, key: Option<KeyPolicy>) -> String {
    let within = key.and_then(|key| key.lifetime).map_or_else(
        || ", never: the lifetime of the key is not known".to_owned(),
        |it| format!(", within four fifths of {}", millis(it)),
    );
    let attempts = times(resend.attempts);
    format!("send again: the stored bytes under the same key, at most {attempts}{within}")
}

fn look_up(policy: &LookUpPolicy, asking: &Asking) -> String {
    let name = policy.name.as_str();
    let asked = asking
        .look_up(name)
        .map_or_else(String::new, |it| target(&it.query));
    let pages = asking
        .look_up(name)
        .and_then(|it| it.pages.as_ref())
        .map_or_else(String::new, |it| format!(", {} pages at most", it.most));
    let says_not = asking
        .look_up(name)
        .is_some_and(|it| it.not_applied.is_some());
    format!(
        "look up `{name}`: {asked}{pages}; {}",
        question(policy, says_not)
    )
}

fn compare(policy: &LookUpPolicy, asking: &Asking) -> String {
    let name = policy.name.as_str();
    let asked = asking
        .compare(name)
        .and_then(|it| it.query.as_ref())
        .map_or_else(|| "GET of the request's own target".to_owned(), target);
    let says_not = asking.compare(name).is_some_and(|it| it.never_reverts);
    format!(
        "compare `{name}`: {asked}, with what was sent; {}",
        question(policy, says_not)
    )
}

/// When "not applied" counts, if it ever says so, and how long it is asked.
fn question(policy: &LookUpPolicy, says_not: bool) -> String {
    let counts = if says_not {
        format!(
            "`not applied` counts {} after everything was quiet, {} in a row",
            millis(policy.lag),
            times(policy.samples.get())
        )
    } else {
        "it never says `not applied`".to_owned()
    };
    format!(
        "{counts}; asked {}, for {} after the newest attempt",
        pauses(policy.every),
        millis(policy.within),
    )
}

fn void(policy: &VoidPolicy, key: Option<KeyPolicy>, asking: &Asking) -> String {
    let name = policy.name.as_str();
    let asked = asking
        .undo(name)
        .map_or_else(String::new, |it| target(&it.query));
    let lifetime = key
        .and_then(|key| key.lifetime)
        .map_or_else(String::new, |it| {
            format!(" and within four fifths of {}", millis(it))
        });
    format!(
        "undo `{name}`: {asked}; {} after everything was quiet, at most {}, for {} after the newest \
         attempt{lifetime}. Nothing is sent under the key from then on",
        millis(policy.lag),
        times(policy.attempts),
        millis(policy.within),
    )
}

fn callback(policy: CallbackPolicy) -> String {
    format!(
        "callback: a signed one is waited for, for {} after the newest attempt; a later one counts all the same",
        millis(policy.within)
    )
}

fn target(query: &Query) -> String {
    let method = match &query.content {
        None => "GET",
        Some(Content::Form(_) | Content::Json(_)) => "POST",
    };
    format!("{method} {}", query.target.written())
}

fn pauses(every: Backoff) -> String {
    if every.from == every.to {
        format!("every {}", millis(every.from))
    } else {
        format!("every {} to {}", millis(every.from), millis(every.to))
    }
}

fn times(count: u32) -> String {
    if count == 1 {
        "once".to_owned()
    } else {
        format!("{count} times")
    }
}
