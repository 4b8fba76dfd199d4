//! What a finding does to an operation: how look-ups and callbacks settle (contract §3, §5).
//!
//! What always holds: proof that it was applied settles whatever is not COMPLETED, as the form that was sent;
//! "not applied" counts only for everything that may have acted: asked after the lag, from several samples, of
//! this turn, while nothing acts or listens, or said for good by a callback about this very operation. What is
//! not known counts for neither. Recording a finding twice is harmless.
//!
//! What it does not do: plan the next question (`plan`).

use super::broken::{Rule, broken};
use super::command::{Changes, Decision, Reply, RequestChange};
use super::decide::{close_dead_attempts, line, operation_of, unchanged};
use super::finding::{Finder, Finding, Found, NotKnown, Uncounted, Weighed, Worth};
use super::ids::{AttemptId, Fingerprint};
use super::meaning::Members;
use super::operation::{Attempt, Completion, Effect, Operation, State, WhyNot};
use super::outcome::{Answer, Provenance, Verdict};
use super::settling::Said;
use super::time::Millis;
use super::view::View;

pub(super) fn find(view: &View, finding: &Finding) -> Decision {
    let Some(before) = operation_of(view) else {
        // A callback about something that is not ours.
        return unchanged(Reply::Found(Weighed {
            state: None,
            turn: None,
            effect: Effect::Nothing,
            worth: Worth::Nothing(Uncounted::OtherTurn),
        }));
    };
    let mut scale = Scale {
        view,
        finding,
        operation: before.clone(),
        told: None,
    };
    let (effect, worth) = scale.weigh();
    let Scale {
        operation, told, ..
    } = scale;
    let mut changes = Changes::default();
    if let Some(text) = told {
        changes
            .events
            .push(line(&operation, finding.at, None, text));
    }
    if operation.state != before.state && !operation.state.is_unsettled() {
        changes.request = RequestChange::Drop;
    }
    let reply = Reply::Found(Weighed {
        state: Some(operation.state.clone()),
        turn: Some(operation.turn()),
        effect,
        worth,
    });
    if operation != *before {
        changes.operation = Some(Box::new(operation));
    }
    Decision { changes, reply }
}

/// Where one finding is weighed.
struct Scale<'a> {
    view: &'a View,
    finding: &'a Finding,
    operation: Operation,
    told: Option<String>,
}

impl Scale<'_> {
    fn weigh(&mut self) -> (Effect, Worth) {
        match self.operation.state {
            State::Completed(Completion { verdict, .. })
                if !broken(Rule::FindingLeavesCompleted) =>
            {
                return self.weigh_against(verdict);
            }
            State::NotApplied(_) => {}
            State::Completed(_) | State::Intended | State::Uncertain | State::NeedsAttention(_) => {
                if self.is_recorded_already() {
                    return (Effect::Nothing, Worth::NothingNew);
                }
                self.look_around();
                self.count_question();
            }
        }
        match &self.finding.found {
            Found::Applied(answer) => self.applied(answer.clone()),
            Found::NotApplied => self.not_applied(),
            Found::NotKnown(why) => self.not_known(*why),
        }
    }

    /// Evidence against a COMPLETED outcome changes nothing, and is told where it would have counted.
    fn weigh_against(&mut self, verdict: Verdict) -> (Effect, Worth) {
        let against = match (verdict, &self.finding.found) {
            (Verdict::Refused, Found::Applied(_)) => Some("it was applied"),
            (Verdict::Applied, Found::NotApplied) if self.would_count() => {
                Some("it was not applied")
            }
            (Verdict::Applied, Found::Applied(_) | Found::NotApplied | Found::NotKnown(_))
            | (Verdict::Refused, Found::NotApplied | Found::NotKnown(_)) => None,
        };
        let Some(against) = against else {
            return (Effect::Nothing, Worth::NothingNew);
        };
        self.told = Some(format!(
            "CONTRADICTION: {} says that {against}, but the operation is COMPLETED",
            self.who()
        ));
        (Effect::Contradiction, Worth::NothingNew)
    }

    /// Would "not applied" be proof, were it not for the outcome?
    fn would_count(&self) -> bool {
        if self.finding.admitted != self.operation.admitted {
            return false;
        }
        match self.finding.by {
            Finder::LookUp { step, .. } => {
                let lag = self.operation.question(step).map(|question| question.lag);
                lag.is_some_and(|lag| self.missing(lag).is_none())
            }
            Finder::Callback { definitive, .. } => definitive && self.speaks_of_all(),
        }
    }

    /// The same question, written a second time.
    fn is_recorded_already(&self) -> bool {
        match self.finding.by {
            Finder::LookUp { step, asked_at } => {
                let progress = self.operation.settling.of(step);
                progress.is_some_and(|known| known.last_asked == Some(asked_at))
            }
            Finder::Callback { .. } => false,
        }
    }

    /// What died without a word is closed, and quiet is seen.
    fn look_around(&mut self) {
        let (living, now) = (&self.view.living, self.finding.at);
        if self.operation.has_live_attempt(living, &now) {
            return;
        }
        close_dead_attempts(&mut self.operation, self.view, &now);
        if self.operation.state == State::Intended {
            self.operation.state = State::Uncertain;
        }
        self.operation.see_quiet(living, &now);
    }

    fn count_question(&mut self) {
        let Finder::LookUp { step, asked_at } = self.finding.by else {
            return;
        };
        if self.operation.question(step).is_none() {
            return;
        }
        self.operation.changed = self.finding.at;
        if let Some(taken_up) = &mut self.operation.settling.taken_up {
            taken_up.see(self.finding.at);
        }
        if let Some(progress) = self.operation.settling.of_mut(step) {
            progress.asked = progress.asked.saturating_add(1);
            progress.first_asked.get_or_insert(asked_at);
            progress.last_asked = Some(asked_at);
        }
    }

    fn applied(&mut self, answer: Answer) -> (Effect, Worth) {
        let undone = self.operation.settling.void.is_some() && !broken(Rule::UndoneMayNotStand);
        if undone && !self.is_asked_long_after_the_undo() {
            return self.not_known(NotKnown::Voiding);
        }
        let Some(form) = self.form_found() else {
            return self.not_known(NotKnown::TwoForms);
        };
        let of_earlier_turn = self.operation.found_of_earlier_turn(self.finding, form);
        let operation = &mut self.operation;
        if operation.fingerprint != form {
            // What that form was made of is not kept.
            operation.members = Members::default();
            operation.fingerprint = form;
        }
        // Under that key, if there is but one: another key's acceptance is another effect.
        let of_form = |it: &&Attempt| {
            it.fingerprint == form && of_earlier_turn.is_none_or(|earlier| it.id == earlier)
        };
        if let Some(newest) = operation.attempts.iter().rfind(of_form) {
            operation.key_use.round = newest.round;
        }
        let completion = Completion {
            verdict: Verdict::Applied,
            provenance: self.provenance(),
            attempt: of_earlier_turn.or_else(|| only_possible(&self.operation, form)),
            answer: Some(answer),
            at: self.finding.at,
        };
        self.operation.complete(completion, self.finding.at);
        self.told = Some(format!(
            "{} says that it was applied: COMPLETED",
            self.who()
        ));
        (Effect::Changed, Worth::Settled)
    }

    /// Once an undo has begun, what was there before it ended says nothing of what will be.
    fn is_asked_long_after_the_undo(&self) -> bool {
        match self.finding.by {
            Finder::LookUp { step, .. } => {
                let lag = self.operation.question(step).map(|question| question.lag);
                lag.is_some_and(|lag| self.missing(lag).is_none())
            }
            Finder::Callback { .. } => false,
        }
    }

    /// As which form it was applied; `None`: it may be one or another.
    fn form_found(&self) -> Option<Fingerprint> {
        let operation = &self.operation;
        let forms = possible_forms(operation);
        if broken(Rule::TwoFormsAreNotKnown) {
            return Some(operation.fingerprint);
        }
        let tells = match self.finding.by {
            Finder::LookUp { step, .. } => operation
                .question(step)
                .is_some_and(|question| question.tells_forms),
            Finder::Callback { .. } => false,
        };
        if tells && self.finding.admitted == operation.admitted {
            // It was compared with the form in force.
            return forms
                .contains(&operation.fingerprint)
                .then_some(operation.fingerprint);
        }
        match forms.as_slice() {
            [only] => Some(*only),
            _ => None,
        }
    }

    fn not_applied(&mut self) -> (Effect, Worth) {
        match self.operation.state {
            State::NotApplied(_) => return (Effect::Nothing, Worth::NothingNew),
            State::Intended | State::Uncertain | State::NeedsAttention(_) | State::Completed(_) => {
            }
        }
        if self.operation.settling.void.is_some() && !broken(Rule::VoidedIsNotFree) {
            return self.not_known(NotKnown::Voiding);
        }
        let other_turn = self.finding.admitted != self.operation.admitted;
        if other_turn {
            return self.not_yet(Uncounted::OtherTurn);
        }
        let live = self
            .operation
            .has_live_attempt(&self.view.living, &self.finding.at);
        if live && !broken(Rule::CallbackWaitsForTheLiving) {
            return self.not_yet(Uncounted::AttemptLive);
        }
        match self.finding.by {
            Finder::Callback { definitive, .. } => {
                let definitive = definitive || broken(Rule::CallbackIsDefinitive);
                if definitive && self.speaks_of_all() {
                    self.disprove()
                } else {
                    self.not_yet(Uncounted::NotDefinitive)
                }
            }
            Finder::LookUp { .. } => self.sample(),
        }
    }

    fn sample(&mut self) -> (Effect, Worth) {
        let Finder::LookUp { step, asked_at } = self.finding.by else {
            return self.not_yet(Uncounted::OtherTurn);
        };
        let Some(question) = self.operation.question(step).cloned() else {
            return self.not_yet(Uncounted::OtherTurn);
        };
        if let Some(missing) = self.missing(question.lag)
            && !broken(Rule::NotFoundNeedsLag)
        {
            return self.not_yet(Uncounted::TooEarly(missing));
        }
        let Some(progress) = self.operation.settling.of_mut(step) else {
            return self.not_yet(Uncounted::OtherTurn);
        };
        let apart = progress.last_sample.is_none_or(|last| {
            let since = asked_at.age_at_least(&last);
            since.is_some_and(|since| since >= question.every.from)
        });
        if !apart && !broken(Rule::SamplesAreApart) {
            return self.not_yet(Uncounted::TooSoon);
        }
        progress.samples = progress.samples.saturating_add(1);
        // Asked a pause after that: two questions that were on their way together may have seen the same.
        progress.last_sample = Some(self.finding.at);
        let (so_far, of) = (progress.samples, question.samples.get());
        if so_far >= of || broken(Rule::NotFoundNeedsSamples) {
            return self.disprove();
        }
        self.say_not_yet();
        (Effect::Changed, Worth::Sample { so_far, of })
    }

    /// How much later it would have to be asked to count; `None`: it was late enough.
    fn missing(&self, lag: Millis) -> Option<Millis> {
        let asked_at = match self.finding.by {
            Finder::LookUp { asked_at, .. } => asked_at,
            Finder::Callback { .. } => self.finding.at,
        };
        let quiet = self.operation.quiet();
        let lasted = if broken(Rule::QuietIsSeenOnTheOwnClock) {
            let first = quiet.sights().first();
            first.and_then(|first| asked_at.age_at_most(first))
        } else {
            quiet.lasted(&asked_at)
        };
        let missing = Millis(lag.0.saturating_sub(lasted.unwrap_or_default().0));
        (lasted.is_none() || missing > Millis::default()).then_some(missing)
    }

    /// Does a callback about the operation speak of every attempt that reached the upstream? Only where there
    /// was but one: of several, the last word on an earlier one may come late, and also under one key the
    /// earlier one may have failed and the later one not.
    fn speaks_of_all(&self) -> bool {
        self.operation.reached() <= 1 || broken(Rule::CallbackSpeaksOfOneAttempt)
    }

    fn disprove(&mut self) -> (Effect, Worth) {
        let by = self.provenance();
        self.operation.disprove_open(by);
        self.operation.state = State::NotApplied(WhyNot::Said(by));
        self.operation.request_kept = false;
        self.operation.changed = self.finding.at;
        self.told = Some(format!(
            "{} says that it was not applied: NOT_APPLIED",
            self.who()
        ));
        (Effect::Changed, Worth::Settled)
    }

    fn not_yet(&mut self, why: Uncounted) -> (Effect, Worth) {
        self.say_not_yet();
        (self.effect_of_asking(), Worth::Nothing(why))
    }

    fn say_not_yet(&mut self) {
        let who = self.who();
        if self.says_something_new(Said::NotYet) {
            let text = match self.finding.by {
                Finder::LookUp { .. } => "does not find it, which proves nothing yet",
                Finder::Callback { .. } => {
                    "says that it was not applied, which proves nothing by itself"
                }
            };
            self.told = Some(format!("{who} {text}"));
        }
    }

    fn not_known(&mut self, why: NotKnown) -> (Effect, Worth) {
        if broken(Rule::NotKnownIsNoSample) && self.finding.found == Found::NotKnown(why) {
            return self.not_applied();
        }
        match self.operation.state {
            State::NotApplied(_) if matches!(self.finding.found, Found::NotKnown(_)) => {
                return (Effect::Nothing, Worth::Nothing(Uncounted::NotKnown(why)));
            }
            State::NotApplied(_)
            | State::Completed(_)
            | State::Intended
            | State::Uncertain
            | State::NeedsAttention(_) => {}
        }
        if let Finder::LookUp { step, .. } = self.finding.by
            && self.operation.question(step).is_some()
            && let Some(progress) = self.operation.settling.of_mut(step)
        {
            progress.samples = 0;
            progress.last_sample = None;
        }
        if self.says_something_new(Said::NotKnown(why)) {
            let found = match self.finding.found {
                Found::Applied(_) => "says that it was applied, but",
                Found::NotApplied => "does not find it, but",
                Found::NotKnown(_) => "does not know:",
            };
            let status = match why {
                NotKnown::Undecided(status) => format!(" ({status})"),
                NotKnown::Unanswered
                | NotKnown::Contradictory
                | NotKnown::CredentialRefused
                | NotKnown::SignatureExpired
                | NotKnown::Redirected
                | NotKnown::Unreadable
                | NotKnown::TooLarge
                | NotKnown::TooManyPages
                | NotKnown::ConditionFailed
                | NotKnown::NotConfigured
                | NotKnown::RequestNotKept
                | NotKnown::TwoForms
                | NotKnown::Voiding
                | NotKnown::SeveralIncarnations => String::new(),
            };
            self.told = Some(format!("{} {found} {}{status}", self.who(), why.reason()));
        }
        (
            self.effect_of_asking(),
            Worth::Nothing(Uncounted::NotKnown(why)),
        )
    }

    /// Only the first of the same in a row is told, so that a log does not grow with every question.
    fn says_something_new(&mut self, said: Said) -> bool {
        match self.finding.by {
            Finder::LookUp { step, .. } => {
                if self.operation.question(step).is_none() {
                    return false;
                }
                let progress = self.operation.settling.of_mut(step);
                progress.is_some_and(|known| known.said.replace(said) != Some(said))
            }
            Finder::Callback { .. } => true,
        }
    }

    fn effect_of_asking(&self) -> Effect {
        match self.finding.by {
            Finder::LookUp { .. } => Effect::Changed,
            Finder::Callback { .. } => Effect::Nothing,
        }
    }

    fn provenance(&self) -> Provenance {
        match self.finding.by {
            Finder::LookUp { .. } => Provenance::LookUp,
            Finder::Callback { .. } => Provenance::Callback,
        }
    }

    fn who(&self) -> String {
        match self.finding.by {
            Finder::LookUp { step, .. } => match self.operation.question(step) {
                Some(question) => format!("the look-up `{}`", question.name),
                None => "a look-up".to_owned(),
            },
            Finder::Callback { .. } => "a callback".to_owned(),
        }
    }
}

/// The forms that the upstream may have accepted: of the attempts whose own answer does not deny it; if it
/// denies all of them, the answers are in doubt themselves.
fn possible_forms(operation: &Operation) -> Vec<Fingerprint> {
    let open = operation
        .attempts
        .iter()
        .filter(|attempt| attempt.may_still_surprise());
    let mut forms = distinct(open);
    if forms.is_empty() {
        forms = distinct(operation.attempts.iter());
    }
    if forms.is_empty() {
        forms.push(operation.fingerprint);
    }
    forms
}

/// The attempt that was applied, where only one of that form can have been: of several nobody says which.
fn only_possible(operation: &Operation, form: Fingerprint) -> Option<AttemptId> {
    let attempts = operation.attempts.iter();
    let mut possible = attempts.filter(|it| it.fingerprint == form && it.may_still_surprise());
    match (possible.next(), possible.next()) {
        (Some(only), None) => Some(only.id),
        (None | Some(_), _) => None,
    }
}

fn distinct<'a>(attempts: impl Iterator<Item = &'a Attempt>) -> Vec<Fingerprint> {
    let mut forms = Vec::new();
    for attempt in attempts {
        if !forms.contains(&attempt.fingerprint) {
            forms.push(attempt.fingerprint);
        }
    }
    forms
}
