//! What nobody knows is found out: by questions, by callbacks, or undone.
//!
//! A lag holds where it is longer than a sent request can still arrive and than the upstream needs to show
//! it: here a tick on the wire, and a tick until it shows.

use fencepost::protocol::steps::{SettleStep, Steps};
use fencepost::protocol::time::Millis;

use super::super::scenario::{
    Budget, Call, Handling, Scenario, TICK_MS, asked, calls_back, idempotent, question, undone,
};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        blind(),
        unclear(),
        machines(),
        sent_too(),
        two_forms("two forms", false),
        two_forms("two forms, told apart", true),
        callbacks(),
        callback_and_correct(),
        undo(),
        forgotten(),
        undo_and_ask(),
        undo_and_correct(),
        undo_elsewhere(),
        in_vain(),
        called_back_then_asked(),
        found_earlier(),
        found_of_two(),
        replies_lost(),
        undo_and_replies_lost(),
    ]
}

/// Later than the lag: the promise must break.
pub(super) fn beyond() -> Vec<Scenario> {
    let late = |name, about| {
        let calls = vec![Call::new("Alice", 'a', 1).settle(asked(2, 1)).grants(2)];
        Scenario::new(name, about, calls).horizon(8).budget(Budget {
            losses: 1,
            questions: 3,
            ..Budget::default()
        })
    };
    vec![
        late("shown too late", "an effect shows later than the lag")
            .with(|scenario| scenario.upstream.search_lag = 5),
        late(
            "frozen beyond the lag",
            "a sender freezes for longer than the lag",
        )
        .with(|scenario| scenario.freeze = 7),
    ]
}

fn blind() -> Scenario {
    let calls = vec![Call::new("Alice", 'a', 1).settle(asked(2, 2))];
    let about = "the upstream does not always show what it has";
    Scenario::new("asked", about, calls)
        .horizon(5)
        .budget(Budget {
            losses: 1,
            blind: 1,
            questions: 3,
            ..Budget::default()
        })
        .with(|scenario| scenario.upstream.search_lag = 1)
}

fn unclear() -> Scenario {
    let calls = vec![Call::new("Alice", 'a', 1).settle(asked(2, 1)).grants(2)];
    let about = "some answers cannot be understood, and a person speaks too";
    Scenario::new("asked, unclear", about, calls)
        .horizon(4)
        .budget(Budget {
            losses: 1,
            unclear: 1,
            verdicts: 1,
            questions: 2,
            ..Budget::default()
        })
}

/// The wall clock of the second machine runs an hour ahead.
fn machines() -> Scenario {
    let call = |who, proxy| Call::new(who, 'a', 1).settle(asked(2, 1)).at(proxy);
    let calls = vec![call("Alice", 0), call("Alice, elsewhere", 1).grants(0)];
    let about = "the lag is counted on a machine whose wall clock is wrong";
    Scenario::new("asked elsewhere", about, calls)
        .horizon(4)
        .budget(Budget {
            losses: 1,
            crashes: 1,
            questions: 1,
            ..Budget::default()
        })
        .with(|scenario| {
            scenario.machines = true;
            scenario.skewed = true;
        })
}

/// It deduplicates and can be asked, and both are done.
fn sent_too() -> Scenario {
    let mut settle = idempotent();
    let resend = settle.steps.send_again().map(SettleStep::SendAgain);
    let mut look = question(2, 1);
    look.within = Millis(3 * TICK_MS);
    let steps = [SettleStep::LookUp(look)].into_iter().chain(resend);
    settle.steps = Steps::new(steps.collect()).unwrap();
    let calls = vec![Call::new("Alice", 'a', 1).settle(settle)];
    let about = "asked first, sent again, and asked once more";
    Scenario::new("asked and sent again", about, calls)
        .horizon(4)
        .budget(Budget {
            losses: 2,
            questions: 2,
            ..Budget::default()
        })
}

fn two_forms(name: &'static str, told: bool) -> Scenario {
    let mut settle = asked(2, 1);
    let mut look = question(2, 1);
    look.tells_forms = told;
    settle.steps = Steps::new(vec![SettleStep::LookUp(look)]).unwrap();
    let calls = vec![
        Call::new("Alice", 'a', 1).settle(settle.clone()),
        Call::new("Alice, corrected", 'a', 1).settle(settle).form(9),
    ];
    let about = "a person speaks too early, and a corrected request is lost too";
    Scenario::new(name, about, calls).horizon(3).budget(Budget {
        losses: 2,
        lies: 1,
        questions: 2,
        ..Budget::default()
    })
}

fn callbacks() -> Scenario {
    let calls = vec![Call::new("Alice", 'a', 1).settle(calls_back()).grants(2)];
    let about = "callbacks before the answer, after it, twice, late, and about trouble on the way";
    Scenario::new("callbacks", about, calls)
        .horizon(3)
        .budget(Budget {
            losses: 2,
            odd: 1,
            letters: 2,
            verdicts: 1,
            ..Budget::default()
        })
        .with(|scenario| scenario.upstream.odd = &[Handling::Throttle, Handling::BreakBefore])
}

fn callback_and_correct() -> Scenario {
    let derived = |call: Call| call.with(|call| call.derived = true).settle(calls_back());
    let calls = vec![
        derived(Call::new("Alice", 'a', 1)),
        derived(Call::new("Alice, corrected", 'a', 1).form(9)),
    ];
    let about =
        "a late callback about a request that was refused, and a corrected one that is lost";
    Scenario::new("callbacks and correction", about, calls)
        .horizon(3)
        .budget(Budget {
            losses: 1,
            odd: 1,
            letters: 2,
            ..Budget::default()
        })
        .with(|scenario| scenario.upstream.odd = &[Handling::Refuse])
}

fn undo() -> Scenario {
    let calls = vec![Call::new("Alice", 'a', 1).settle(undone(2, 1)).grants(2)];
    let about = "what is uncertain is undone";
    Scenario::new("undone", about, calls)
        .horizon(4)
        .budget(Budget {
            losses: 2,
            ..Budget::default()
        })
}

fn forgotten() -> Scenario {
    let calls = vec![Call::new("Alice", 'a', 1).settle(undone(2, 2))];
    let about = "the upstream forgets the key that is to be undone";
    Scenario::new("undone too late", about, calls)
        .horizon(7)
        .budget(Budget {
            losses: 1,
            ..Budget::default()
        })
        .lifetime(4)
}

fn undo_and_ask() -> Scenario {
    let mut settle = undone(2, 1);
    let mut steps: Vec<SettleStep> = settle.steps.iter().map(|(_, it)| it.clone()).collect();
    steps.insert(0, SettleStep::LookUp(question(2, 1)));
    settle.steps = Steps::new(steps).unwrap();
    let calls = vec![Call::new("Alice", 'a', 1).settle(settle).grants(2)];
    let about = "asked while it is being undone, and after";
    Scenario::new("undone and asked", about, calls)
        .horizon(4)
        .budget(Budget {
            losses: 1,
            questions: 1,
            ..Budget::default()
        })
        .with(|scenario| scenario.stale_undos = true)
}

fn undo_and_correct() -> Scenario {
    let derived = |call: Call| call.with(|call| call.derived = true).settle(undone(2, 1));
    let calls = vec![
        derived(Call::new("Alice", 'a', 1)),
        derived(Call::new("Alice, corrected", 'a', 1).form(9)),
    ];
    let about =
        "a corrected request after the first was undone, or refused while it was being undone";
    Scenario::new("undone and corrected", about, calls)
        .horizon(4)
        .budget(Budget {
            losses: 1,
            odd: 1,
            ..Budget::default()
        })
        .with(|scenario| scenario.upstream.odd = &[Handling::Refuse])
}

/// Its sender stands still with the answer in its buffer. It may leave for a tick after its death was declared,
/// and the lag is longer than that too.
fn undo_elsewhere() -> Scenario {
    let calls = vec![Call::new("Alice", 'a', 1).settle(undone(3, 1))];
    let about = "a proxy is taken for dead and goes on, while another undoes what it sent";
    Scenario::new("undone elsewhere", about, calls)
        .horizon(5)
        .budget(Budget {
            losses: 1,
            false_deaths: 1,
            ..Budget::default()
        })
        .with(|scenario| scenario.proxies = 2)
}

/// Of another boot, so that no clock shows how old the attempt is.
fn in_vain() -> Scenario {
    let calls = vec![Call::new("Alice", 'a', 1).settle(asked(2, 1))];
    let about = "the machine is started anew, and the upstream is away for good";
    Scenario::new("asked in vain", about, calls)
        .horizon(2)
        .budget(Budget {
            losses: 1,
            questions: 1,
            ..Budget::default()
        })
        .with(|scenario| {
            scenario.reboot_at = Some(1);
            scenario.away = true;
        })
}

/// The question has no more time than the callback, and has it after that.
fn called_back_then_asked() -> Scenario {
    let mut settle = calls_back();
    let mut look = question(2, 1);
    look.within = Millis(3 * TICK_MS);
    let mut steps: Vec<SettleStep> = settle.steps.iter().map(|(_, it)| it.clone()).collect();
    steps.push(SettleStep::LookUp(look));
    settle.steps = Steps::new(steps).unwrap();
    settle.capability.query = true;
    let calls = vec![Call::new("Alice", 'a', 1).settle(settle)];
    let about = "a callback is waited for in vain, then the upstream is asked";
    Scenario::new("called back, then asked", about, calls)
        .horizon(4)
        .budget(Budget {
            losses: 1,
            questions: 1,
            letters: 1,
            ..Budget::default()
        })
}

/// It does not deduplicate, and a person was wrong: two effects are possible, and have to be told.
fn found_earlier() -> Scenario {
    let calls = vec![Call::new("Alice", 'a', 1).settle(asked(2, 1)).grants(2)];
    let about = "a question about the first attempt is answered while a second is under way";
    Scenario::new("found earlier", about, calls)
        .horizon(2)
        .budget(Budget {
            losses: 1,
            lies: 1,
            questions: 1,
            ..Budget::default()
        })
}

fn found_of_two() -> Scenario {
    let calls = vec![Call::new("Alice", 'a', 1).settle(calls_back()).grants(2)];
    let about = "a callback comes before the answers of two attempts";
    Scenario::new("found of two", about, calls)
        .horizon(2)
        .budget(Budget {
            timeouts: 1,
            lies: 1,
            letters: 1,
            ..Budget::default()
        })
}

fn replies_lost() -> Scenario {
    let calls = vec![Call::new("Alice", 'a', 1).settle(asked(1, 2))];
    let about = "the replies to what was found are lost, and it is brought in again, whenever";
    Scenario::new("asked, replies lost", about, calls)
        .horizon(5)
        .budget(Budget {
            losses: 1,
            lost_replies: 1,
            questions: 3,
            ..Budget::default()
        })
}

fn undo_and_replies_lost() -> Scenario {
    let calls = vec![Call::new("Alice", 'a', 1).settle(undone(2, 2))];
    let about = "nobody hears that an undo has begun, and it is asked for again, whenever";
    Scenario::new("undone, replies lost", about, calls)
        .horizon(6)
        .budget(Budget {
            losses: 1,
            crashes: 1,
            lost_replies: 1,
            ..Budget::default()
        })
}
