//! What becomes of an operation when it is undone by key (contract §5).
//!
//! What always holds: the undo is recorded before its first byte; it begins when everything has been quiet for
//! its lag, never while an attempt acts or listens, and only while the upstream still knows the key. Its
//! definitive answer ends the operation; that it was applied all the same is then a contradiction.
//!
//! What it does not do: choose the step (`plan`).

use super::broken::{Rule, broken};
use super::command::{Changes, Decision, Recorded, Reply, RequestChange};
use super::decide::{close_dead_attempts, line, operation_of, unchanged};
use super::finding::NotKnown;
use super::operation::{Attempt, AttemptEnd, Completion, Effect, Operation, Parked, State};
use super::outcome::{Answer, Interruption, Phase, Provenance, Verdict};
use super::plan;
use super::settling::{Quiet, Said, Void};
use super::steps::{SettleStep, StepIndex};
use super::time::{Millis, Moment};
use super::view::View;
use super::void::{BeginVoid, VoidEnd, VoidGrant, VoidReply, Voided};

/// A request that undoes is about to be sent.
pub(super) fn begin(view: &View, begin: &BeginVoid) -> Decision {
    let say = |reply| unchanged(Reply::Void(reply));
    let Some(before) = operation_of(view) else {
        return say(VoidReply::Settled(None));
    };
    match before.state {
        State::Intended | State::Uncertain => {}
        State::NeedsAttention(_) | State::NotApplied(_) | State::Completed(_) => {
            return say(VoidReply::Settled(Some(before.state.clone())));
        }
    }
    let live = before.has_live_attempt(&view.living, &begin.at);
    if live || before.lists(begin.attempt) {
        return say(VoidReply::NotNow);
    }
    let room = match plan::room_for_void(before, begin.step, &begin.at) {
        Ok(room) => room,
        Err(obstacle) => return say(VoidReply::Forbidden(obstacle)),
    };
    let mut operation = before.clone();
    close_dead_attempts(&mut operation, view, &begin.at);
    operation.state = State::Uncertain;
    operation.see_quiet(&view.living, &begin.at);
    if let Some(missing) = missing(&operation, begin.step, &begin.at)
        && !broken(Rule::UndoNeedsQuiet)
    {
        return kept(before, operation, VoidReply::TooEarly(missing));
    }
    let grant = VoidGrant {
        key: operation.key.clone(),
        step: begin.step,
        attempt: begin.attempt,
        round: operation.key_use.round,
        origin: operation.origin,
        dispatch_by: begin.at.boottime.after(begin.dispatch.min(room)),
        request: view.request.clone().map(std::sync::Arc::new),
    };
    let tries = list(&mut operation, begin);
    let text =
        format!("undoing it by its key (try {tries}): nothing else is sent under it any more");
    let event = line(&operation, begin.at, Some(begin.attempt), text);
    let changes = Changes {
        operation: Some(Box::new(operation)),
        events: vec![event],
        ..Changes::default()
    };
    Decision {
        changes,
        reply: Reply::Void(VoidReply::Granted(grant)),
    }
}

/// Only what was seen on the way is kept.
fn kept(before: &Operation, operation: Operation, reply: VoidReply) -> Decision {
    let changed = operation != *before;
    let changes = Changes {
        operation: changed.then(|| Box::new(operation)),
        ..Changes::default()
    };
    Decision {
        changes,
        reply: Reply::Void(reply),
    }
}

/// How much later the first one may begin; `None`: now. Once it has begun nothing else has been sent.
fn missing(operation: &Operation, step: StepIndex, now: &Moment) -> Option<Millis> {
    if operation.settling.void.is_some() {
        return None;
    }
    let lag = operation
        .settle
        .steps
        .at(step)
        .and_then(SettleStep::void)
        .map(|policy| policy.lag)?;
    let lasted = operation.settling.quiet.lasted(now);
    let missing = Millis(lag.0.saturating_sub(lasted.unwrap_or_default().0));
    (lasted.is_none() || missing > Millis::default()).then_some(missing)
}

/// Answers which try it is.
fn list(operation: &mut Operation, begin: &BeginVoid) -> u32 {
    let last = Attempt {
        id: begin.attempt,
        round: operation.key_use.round,
        fingerprint: operation.fingerprint,
        at: begin.at,
        overdue_after: begin.overdue_after,
        resend: false,
        end: AttemptEnd::Silent,
    };
    let before = operation.settling.void.as_ref().map_or(0, |it| it.begun);
    let begun = before.saturating_add(1);
    operation.settling.void = Some(Void {
        step: begin.step,
        begun,
        last,
        quiet: Quiet::default(),
    });
    operation.changed = begin.at;
    begun
}

/// What a request that undoes showed.
pub(super) fn ended(view: &View, voided: &Voided) -> Decision {
    let Some(before) = operation_of(view) else {
        return unchanged(Reply::Voided(Recorded {
            state: None,
            turn: None,
            effect: Effect::Nothing,
        }));
    };
    let mut operation = before.clone();
    let (effect, told) = match (&before.state, &voided.end) {
        (State::Completed(completion), end) => against(completion.verdict, end),
        (State::NotApplied(_), _) => (Effect::Nothing, None),
        (
            State::Intended | State::Uncertain | State::NeedsAttention(_),
            VoidEnd::Undone(answer),
        ) => undone(&mut operation, voided, answer.clone()),
        (State::Intended | State::Uncertain | State::NeedsAttention(_), VoidEnd::Unclear(why)) => {
            unclear(&mut operation, view, voided, *why)
        }
        (State::Intended | State::Uncertain | State::NeedsAttention(_), VoidEnd::NotSent(_)) => {
            not_sent(&mut operation, view, voided)
        }
    };
    let mut changes = Changes::default();
    if let Some(text) = told {
        let event = line(&operation, voided.at, Some(voided.attempt), text);
        changes.events.push(event);
    }
    if operation.state != before.state && !operation.state.is_unsettled() {
        changes.request = RequestChange::Drop;
    }
    let reply = Reply::Voided(Recorded {
        state: Some(operation.state.clone()),
        turn: Some(operation.turn()),
        effect,
    });
    if operation != *before {
        changes.operation = Some(Box::new(operation));
    }
    Decision { changes, reply }
}

fn against(verdict: Verdict, end: &VoidEnd) -> (Effect, Option<String>) {
    match (verdict, end) {
        (Verdict::Applied, VoidEnd::Undone(_)) => (
            Effect::Contradiction,
            Some(
                "CONTRADICTION: it was undone, but the operation is COMPLETED as applied"
                    .to_owned(),
            ),
        ),
        (Verdict::Applied, VoidEnd::Unclear(_) | VoidEnd::NotSent(_))
        | (Verdict::Refused, VoidEnd::Undone(_) | VoidEnd::Unclear(_) | VoidEnd::NotSent(_)) => {
            (Effect::Nothing, None)
        }
    }
}

fn undone(operation: &mut Operation, voided: &Voided, answer: Answer) -> (Effect, Option<String>) {
    if operation.settling.void.is_none() {
        // A person has let it be tried again meanwhile, and this may have undone that.
        let text = "CONTRADICTION: an undo of an earlier turn took effect".to_owned();
        return (Effect::Contradiction, Some(text));
    }
    let completion = Completion {
        verdict: Verdict::Refused,
        provenance: Provenance::Void,
        attempt: Some(voided.attempt),
        answer: Some(answer),
        at: voided.at,
    };
    operation.complete(completion, voided.at);
    let text = "undone: COMPLETED, and not in force".to_owned();
    (Effect::Changed, Some(text))
}

fn unclear(
    operation: &mut Operation,
    view: &View,
    voided: &Voided,
    why: NotKnown,
) -> (Effect, Option<String>) {
    let Some(void) = is_its_last(operation, voided) else {
        return (Effect::Nothing, None);
    };
    void.last.end = AttemptEnd::Closed(Phase::Waiting, Interruption::BadAnswer);
    let step = void.step;
    operation.changed = voided.at;
    operation.see_quiet(&view.living, &voided.at);
    let said = Said::NotKnown(why);
    let progress = operation.settling.of_mut(step);
    let new = progress.is_some_and(|known| known.said.replace(said) != Some(said));
    let text = new.then(|| format!("whether it is undone is not known: {}", why.reason()));
    (Effect::Changed, text)
}

/// As if it had never been; if it was the only one, none has begun.
fn not_sent(operation: &mut Operation, view: &View, voided: &Voided) -> (Effect, Option<String>) {
    let Some(void) = is_its_last(operation, voided) else {
        return (Effect::Nothing, None);
    };
    void.begun = void.begun.saturating_sub(1);
    if void.begun == 0 {
        operation.settling.void = None;
    } else {
        void.last.end = AttemptEnd::Disproved(Provenance::Answer);
    }
    operation.changed = voided.at;
    operation.see_quiet(&view.living, &voided.at);
    let text = "the request that undoes it was not sent".to_owned();
    (Effect::Changed, Some(text))
}

/// The undo, if its newest request is this one and has not ended.
fn is_its_last<'a>(operation: &'a mut Operation, voided: &Voided) -> Option<&'a mut Void> {
    let void = operation.settling.void.as_mut()?;
    let acts = void.last.id == voided.attempt && void.last.end == AttemptEnd::Silent;
    acts.then_some(void)
}

impl Parked {
    /// Why an undo that cannot go on needs a person.
    pub(super) fn of_undo(operation: &Operation) -> Self {
        match operation.settling.void {
            Some(_) => Self::UndoUnclear,
            None => Self::KeyTooOld,
        }
    }
}
