//! The one decision function: what a command does to a view of the register.
//!
//! What always holds: no I/O, no clock, no randomness; the same view and command give the same
//! decision, so a transaction that lost a race is simply decided again. Nothing of the reply is true
//! before the changes are committed.
//!
//! What it does not do: load, persist, send.

use super::admission;
use super::broken::{Rule, broken};
use super::command::{
    Attended, Changes, Command, Decision, Event, Grant, Note, Park, Record as RecordCommand,
    Recorded, Reply, RequestChange, Resend, ResendReply, Resolution, Resolve, Resolved,
};
use super::fence::Fence;
use super::ids::{AttemptId, Round};
use super::lease;
use super::operation::{
    Attempt, AttemptEnd, Completion, Effect, KeyUse, Operation, Parked, State, WhyNot,
};
use super::outcome::{AnswerClass, Evidence, Provenance, Verdict};
use super::plan::{self, Licence, Step};
use super::start;
use super::steer;
use super::take_up;
use super::time::Moment;
use super::undo;
use super::view::{Record, View};
use super::weigh;

/// Decides one command.
pub fn decide(view: &View, command: &Command) -> Decision {
    match command {
        Command::Admit(admit) => admission::admit(view, admit),
        Command::Record(record) => observe(view, record),
        Command::Resend(resend) => send_again(view, resend),
        Command::Park(park) => self::park(view, park),
        Command::Start(start) => start::start(view, start),
        Command::Find(finding) => weigh::find(view, finding),
        Command::BeginVoid(begin) => undo::begin(view, begin),
        Command::Voided(voided) => undo::ended(view, voided),
        Command::TakeUp(taking) => take_up::take_up(view, taking),
        Command::Resolve(resolve) => self::resolve(view, resolve),
        Command::Lease(leasing) => lease::lease(view, leasing),
        Command::Steer(steer) => steer::steer(view, steer),
        Command::Note(note) => self::note(view, note),
    }
}

pub(super) fn operation_of(view: &View) -> Option<&Operation> {
    match view.record.as_ref()? {
        Record::Operation(operation) => Some(operation),
        Record::Twin(_) => None,
    }
}

pub(super) fn unchanged(reply: Reply) -> Decision {
    Decision {
        changes: Changes::default(),
        reply,
    }
}

/// An attempt's evidence (contract §3).
fn observe(view: &View, record: &RecordCommand) -> Decision {
    let Some(before) = operation_of(view) else {
        // An intent that is not there, though an attempt was made under it: the register went back.
        let effect = match record.evidence {
            Evidence::NotSent(_) => Effect::Nothing,
            Evidence::Interrupted { .. } | Evidence::Answered { .. } => Effect::Contradiction,
        };
        return unchanged(Reply::Recorded(Recorded {
            state: None,
            turn: None,
            effect,
        }));
    };
    let mut operation = before.clone();
    let effect = operation.observe(record.attempt, &record.evidence, record.open, record.at);
    operation.see_quiet(&view.living, &record.at);
    let mut changes = Changes::default();
    let happy = before.state == State::Intended && is_plain_success(&record.evidence);
    if effect == Effect::Contradiction || (effect == Effect::Changed && !happy) {
        changes.events.push(Event {
            key: operation.key.clone(),
            at: record.at,
            attempt: Some(record.attempt),
            text: told(&record.evidence, effect, &operation),
        });
    }
    if operation.state != before.state && !operation.state.is_unsettled() {
        operation.request_kept = false;
        changes.request = RequestChange::Drop;
    }
    let reply = Reply::Recorded(Recorded {
        state: Some(operation.state.clone()),
        turn: Some(operation.turn()),
        effect,
    });
    if operation != *before {
        changes.operation = Some(Box::new(operation));
    }
    Decision { changes, reply }
}

fn is_plain_success(evidence: &Evidence) -> bool {
    match evidence {
        Evidence::Answered { class, .. } => *class == AnswerClass::Applied,
        Evidence::NotSent(_) | Evidence::Interrupted { .. } => false,
    }
}

fn told(evidence: &Evidence, effect: Effect, operation: &Operation) -> String {
    let state = &operation.state;
    let what = match evidence {
        Evidence::NotSent(why) => format!("nothing was sent ({why:?})"),
        Evidence::Interrupted { phase, why } => {
            format!("interrupted while {} ({why:?})", phase.word())
        }
        Evidence::Answered { answer, class } => {
            format!("answered {}, which means {}", answer.status, class.word())
        }
    };
    match effect {
        Effect::Contradiction => format!(
            "CONTRADICTION: {what}, but the operation is {}",
            state.word()
        ),
        Effect::Changed | Effect::Nothing => {
            let undone = is_plain_success(evidence) && state.is_unsettled();
            let why = if undone {
                ", for it may be undone by now"
            } else {
                ""
            };
            format!("{what}: {}{why}", state.word())
        }
    }
}

/// Another attempt under the same key (contract §5). It is not judged stale and waits for nobody:
/// its operation keeps the token, number and place that it was admitted with.
fn send_again(view: &View, resend: &Resend) -> Decision {
    let Some(before) = operation_of(view) else {
        return unchanged(Reply::Resend(ResendReply::Settled(None)));
    };
    if !may_need(resend, &before.state) {
        return unchanged(Reply::Resend(ResendReply::Settled(Some(
            before.state.clone(),
        ))));
    }
    let live = before.has_live_attempt(&view.living, &resend.at);
    // A request for an attempt that is written twice gets one attempt.
    let repeated = before.lists(resend.attempt) && !broken(Rule::RepeatedWriteGrantsOnce);
    if repeated || (live && !broken(Rule::OneAttemptAtATime)) {
        return unchanged(Reply::Resend(ResendReply::NotNow));
    }
    let fence = view.fence.as_ref();
    let lease = resend.lease.borne_out(fence, view.epoch);
    let room = match plan::room_for(before, fence, &lease, &resend.at, licence(resend)) {
        Ok(room) => room,
        Err(obstacle) => return unchanged(Reply::Resend(ResendReply::Forbidden(obstacle))),
    };
    let Some(request) = view.request.clone() else {
        return unchanged(Reply::Resend(ResendReply::Forbidden(
            Parked::RequestNotKept,
        )));
    };
    let mut operation = before.clone();
    close_dead_attempts(&mut operation, view, &resend.at);
    if broken(Rule::ResendKeepsKey) {
        operation.next_round();
    }
    let round = operation.key_use.round;
    operation.attempts.push(Attempt {
        id: resend.attempt,
        round,
        fingerprint: operation.fingerprint,
        at: resend.at,
        overdue_after: resend.overdue_after,
        resend: true,
        end: AttemptEnd::Silent,
    });
    operation.key_use.began(resend.attempt, resend.at);
    operation.settling.attempt_begins();
    operation.admitted = operation.admitted.saturating_add(1);
    operation.resends = operation.resends.saturating_add(1);
    operation.state = State::Uncertain;
    operation.changed = resend.at;
    let grant = Grant {
        key: operation.key.clone(),
        attempt: resend.attempt,
        round,
        origin: operation.origin,
        dispatch_by: resend.at.boottime.after(resend.dispatch.min(room)),
        look_again: false,
        request: Some(std::sync::Arc::new(request)),
    };
    let text = sending_again(resend, operation.resends);
    let event = line(&operation, resend.at, Some(resend.attempt), text);
    let changes = Changes {
        operation: Some(Box::new(operation)),
        events: vec![event],
        ..Changes::default()
    };
    Decision {
        changes,
        reply: Reply::Resend(ResendReply::Granted(grant)),
    }
}

/// Can an operation in this state be one to send again?
fn may_need(resend: &Resend, state: &State) -> bool {
    match state {
        State::Intended | State::Uncertain => true,
        // It waits for a person, and here is one; or for an owner.
        State::NeedsAttention(Parked::NotCurrent) if resend.lease.licensed => true,
        State::NeedsAttention(_) => resend.attended.is_some(),
        State::NotApplied(_) | State::Completed(_) => false,
    }
}

fn licence(resend: &Resend) -> Licence {
    match &resend.attended {
        Some(_) => Licence::Person,
        None => Licence::None,
    }
}

fn sending_again(resend: &Resend, resends: u32) -> String {
    let asked = match &resend.attended {
        Some(Attended { operator, reason }) => format!(", as {operator} asked: {reason}"),
        None => String::new(),
    };
    format!("sending the stored bytes again under the same key (resend {resends}){asked}")
}

/// What a dead instance left silent or open will bring nothing any more.
pub(super) fn close_dead_attempts(operation: &mut Operation, view: &View, now: &Moment) {
    use super::outcome::{Interruption, Phase};
    let undo = operation.settling.void.as_mut().map(|void| &mut void.last);
    for attempt in operation.attempts.iter_mut().chain(undo) {
        if !attempt.is_live(&view.living, now) {
            attempt.end = match attempt.end {
                AttemptEnd::Silent => AttemptEnd::Closed(Phase::Sending, Interruption::ProcessGone),
                AttemptEnd::Open(phase, why) => AttemptEnd::Closed(phase, why),
                AttemptEnd::Closed(..) | AttemptEnd::Ambiguous(_) | AttemptEnd::Disproved(_) => {
                    attempt.end
                }
            };
        }
    }
}

/// No step can help any more, as it stands now: a reconciler's plan may be older than what a person, or another
/// sidecar, did since.
fn park(view: &View, park: &Park) -> Decision {
    let Some(before) = operation_of(view) else {
        return unchanged(Reply::Parked(None));
    };
    let mut planned = before.clone();
    planned.request_kept &= park.fit;
    let fence = view.fence.as_ref();
    let lease = park.lease.borne_out(fence, view.epoch);
    let planned = plan::plan(&planned, fence, &lease, &view.living, &park.at);
    let planned = match planned {
        Step::Park(why) => Some(why),
        Step::Nothing
        | Step::Await
        | Step::CloseThenPlan { .. }
        | Step::Resend { .. }
        | Step::Start { .. }
        | Step::Ask { .. }
        | Step::Void { .. }
        | Step::Listen { .. } => {
            let anyway = broken(Rule::ParkIsPlanned) && before.state.is_in_doubt();
            anyway.then_some(Parked::NoStep)
        }
    };
    let Some(why) = planned else {
        return unchanged(Reply::Parked(Some(before.state.clone())));
    };
    let mut operation = before.clone();
    close_dead_attempts(&mut operation, view, &park.at);
    operation.state = State::NeedsAttention(why);
    operation.settling.taken_up = None;
    operation.changed = park.at;
    let text = format!("needs a person: {}", why.reason());
    let event = line(&operation, park.at, None, text);
    let reply = Reply::Parked(Some(operation.state.clone()));
    let changes = Changes {
        operation: Some(Box::new(operation)),
        events: vec![event],
        ..Changes::default()
    };
    Decision { changes, reply }
}

/// Nothing but a line in the log.
fn note(view: &View, note: &Note) -> Decision {
    let Some(operation) = operation_of(view) else {
        return unchanged(Reply::Noted(false));
    };
    let event = line(operation, note.at, None, note.text.clone());
    let changes = Changes {
        events: vec![event],
        ..Changes::default()
    };
    Decision {
        changes,
        reply: Reply::Noted(true),
    }
}

/// A person's verdict.
fn resolve(view: &View, resolve: &Resolve) -> Decision {
    let refuse = |resolved| unchanged(Reply::Resolved(resolved));
    let Some(before) = operation_of(view) else {
        return refuse(Resolved::Unknown);
    };
    let has_moved_on = |seen| before.admitted != seen || !before.state.is_unsettled();
    if resolve.seen.is_some_and(has_moved_on) {
        return refuse(Resolved::MovedOn(before.state.clone()));
    }
    match (&before.state, &resolve.verdict) {
        (State::Completed(completion), _) if !broken(Rule::VerdictLeavesCompleted) => {
            let Completion {
                verdict,
                provenance,
                ..
            } = completion;
            return refuse(Resolved::AlreadyCompleted {
                verdict: *verdict,
                provenance: *provenance,
            });
        }
        (State::NotApplied(_), Resolution::NotApplied { .. }) => {
            return refuse(Resolved::AlreadyNotApplied);
        }
        (State::NotApplied(_), Resolution::Applied(_))
        | (
            State::Completed(_) | State::Intended | State::Uncertain | State::NeedsAttention(_),
            _,
        ) => {}
    }
    let acting = |attempt: &Attempt| {
        attempt.end == AttemptEnd::Silent && attempt.is_live(&view.living, &resolve.at)
    };
    if before.everything_sent().any(acting) && !broken(Rule::VerdictWaitsForAttempt) {
        return refuse(Resolved::StillInFlight);
    }
    let mut operation = before.clone();
    close_dead_attempts(&mut operation, view, &resolve.at);
    let verdict = settle_as_said(&mut operation, resolve);
    let text = format!(
        "resolved as {verdict} by {}: {}",
        resolve.operator, resolve.reason
    );
    let event = line(&operation, resolve.at, None, text);
    let reply = Reply::Resolved(Resolved::Done(operation.state.clone()));
    let changes = Changes {
        operation: Some(Box::new(operation)),
        request: RequestChange::Drop,
        events: vec![event],
        ..Changes::default()
    };
    Decision { changes, reply }
}

fn settle_as_said(operation: &mut Operation, resolve: &Resolve) -> &'static str {
    match &resolve.verdict {
        Resolution::Applied(answer) => {
            let completion = Completion {
                verdict: Verdict::Applied,
                provenance: Provenance::Operator,
                attempt: None,
                answer: Some(answer.clone()),
                at: resolve.at,
            };
            operation.complete(completion, resolve.at);
            "applied"
        }
        Resolution::NotApplied { new_key } => {
            operation.disprove_all(Provenance::Operator);
            operation.state = State::NotApplied(WhyNot::Said(Provenance::Operator));
            operation.request_kept = false;
            operation.changed = resolve.at;
            if *new_key {
                operation.next_round();
                return "not applied, next attempt under a new key";
            }
            "not applied"
        }
    }
}

pub(super) fn line(
    operation: &Operation,
    at: Moment,
    attempt: Option<AttemptId>,
    text: String,
) -> Event {
    Event {
        key: operation.key.clone(),
        at,
        attempt,
        text,
    }
}

impl Operation {
    /// A new key towards the upstream; its lifetime has not begun. Two cases only: a corrected
    /// request after a stored refusal, and an operator who says so.
    pub(super) fn next_round(&mut self) -> Round {
        self.key_use.round = self.key_use.round.next();
        self.key_use.first = None;
        self.key_use.round
    }
}

impl KeyUse {
    /// An attempt may send under the key. Its lifetime runs from the first one.
    pub(super) fn began(&mut self, attempt: AttemptId, at: Moment) {
        if broken(Rule::LifetimeFromFirstAttempt) {
            self.first = None;
        }
        self.first.get_or_insert((attempt, at));
    }
}

/// The fence of a view, or a new one for its resource.
pub(super) fn fence_or_unseen(view: &View, resource: &super::ids::ResourceKey) -> Fence {
    view.fence
        .clone()
        .unwrap_or_else(|| Fence::unseen(resource.clone()))
}
