//! Bytes leave, arrive, are answered, are lost; what was seen is recorded.

use fencepost::protocol::command::{Command, Record, Reply};
use fencepost::protocol::operation::State;
use fencepost::protocol::outcome::{AnswerClass, Evidence, Interruption, Phase, Unsent, Verdict};

use super::super::never::{self, Violation};
use super::super::register::{answer, apply, attempt_id, moment};
use super::super::scenario::{Handling, TICK_MS};
use super::super::wire::{Packet, Proof, Repeat, Shown, Task, Try};
use super::super::world::{CallerState, Memory};
use super::{Happened, Step};

impl Step<'_> {
    fn attempt(&mut self, index: u8) -> &mut Try {
        &mut self.world.tries[usize::from(index)]
    }

    fn is_late(&self, index: u8) -> bool {
        let by = self.before.tries[usize::from(index)].dispatch_by;
        u64::from(self.before.now) * TICK_MS > u64::from(by)
    }

    /// The last look, where one is needed: has it been settled meanwhile?
    fn is_settled_already(&self, index: u8) -> bool {
        let attempt = &self.before.tries[usize::from(index)];
        let record = self.before.record(attempt.name);
        attempt.look_again
            && record.is_some_and(|it| matches!(it.operation.state, State::Completed(_)))
    }

    pub(super) fn send(&mut self, index: u8) -> Happened {
        if self.is_late(index) {
            return Ok(false);
        }
        if self.is_settled_already(index) {
            self.say(|| format!("attempt {index} looks once more and does not send"));
            return self.record(index, Shown::AlreadySettled, false, false);
        }
        self.say(|| format!("attempt {index} leaves"));
        self.leave(index)?;
        let judged = never::leaving(self.before, usize::from(index));
        self.judge(judged)
    }

    fn leave(&mut self, index: u8) -> Happened {
        let (now, delay) = (self.world.now, self.scenario().delay);
        let attempt = self.attempt(index);
        attempt.task = Task::Waiting(now);
        attempt.packet = Packet::Flying(now + delay);
        Ok(true)
    }

    pub(super) fn freeze(&mut self, index: u8) -> Happened {
        if self.is_late(index) || self.is_settled_already(index) {
            return Ok(false);
        }
        let until = self.world.now + self.scenario().freeze;
        self.attempt(index).task = Task::Frozen(until);
        self.say(|| format!("attempt {index} freezes before its first byte"));
        let judged = never::leaving(self.before, usize::from(index));
        self.judge(judged)
    }

    pub(super) fn thaw(&mut self, index: u8) -> Happened {
        self.say(|| format!("attempt {index} thaws and leaves"));
        self.leave(index)
    }

    pub(super) fn give_up(&mut self, index: u8) -> Happened {
        if self.is_late(index) {
            self.say(|| format!("attempt {index} is too late and sends nothing"));
            return self.record(index, Shown::Expired, false, false);
        }
        if self.world.left.unsent == 0 {
            return Ok(false);
        }
        self.world.left.unsent -= 1;
        self.say(|| format!("attempt {index} finds its connection dead"));
        self.record(index, Shown::ConnectionLost, false, false)
    }

    /// The packet arrives, and the upstream does something with it.
    pub(super) fn deliver(&mut self, index: u8, how: Handling) -> Happened {
        if how != Handling::Proper {
            self.world.left.odd -= 1;
        }
        let before = self.world.effects.len();
        let status = self.upstream(index, how);
        let attempt = self.attempt(index);
        attempt.packet = match attempt.task {
            Task::Waiting(_) | Task::Listening => Packet::Answered(status),
            Task::Permitted | Task::Frozen(_) | Task::Gone => Packet::Over,
        };
        let accepted = self.world.effects.len() > before;
        self.say(|| {
            let effect = if accepted {
                "accepts the effect"
            } else {
                "does nothing"
            };
            format!("attempt {index} arrives; the upstream {effect} and answers {status}")
        });
        let name = self.world.tries[usize::from(index)].name;
        if accepted && self.scenario().upstream.search_lag > 0 {
            self.attempt(index).shown_from = self.before.now;
        }
        self.write_letters(name, accepted);
        if accepted {
            never::effect(self.scenario(), self.before, usize::from(index))?;
        }
        Ok(true)
    }

    fn upstream(&mut self, index: u8, how: Handling) -> u16 {
        let attempt = self.world.tries[usize::from(index)];
        if let Some(status) = self.remembered(&attempt) {
            return status;
        }
        match how {
            Handling::Throttle => return 429,
            Handling::BreakBefore => return 500,
            Handling::Refuse => {
                if self.scenario().upstream.remembers_refusals {
                    self.remember(&attempt, 402);
                }
                return 402;
            }
            Handling::Proper | Handling::BreakAfter => {}
        }
        if let Some(condition) = attempt.condition {
            if condition != self.world.version {
                return 412;
            }
            self.world.version += 1;
        }
        self.world.effects.push(index);
        self.remember(&attempt, 200);
        if how == Handling::BreakAfter {
            500
        } else {
            200
        }
    }

    fn is_idempotent(&self, attempt: &Try) -> bool {
        self.world
            .record(attempt.name)
            .is_some_and(|record| record.operation.settle.capability.idempotent)
    }

    /// The answer under a key that the upstream still knows; 422 for another form under it.
    fn remembered(&self, attempt: &Try) -> Option<u16> {
        let lifetime = self.scenario().upstream.lifetime;
        let under_key = |memory: &&Memory| {
            memory.name == attempt.name
                && memory.round == attempt.round
                && self.world.now <= memory.since + lifetime
        };
        let memory = self.world.memory.iter().find(under_key)?;
        Some(if memory.form == attempt.form {
            memory.status
        } else {
            422
        })
    }

    fn remember(&mut self, attempt: &Try, status: u16) {
        if self.is_idempotent(attempt) {
            let since = self.world.now;
            self.world.memory.push(Memory {
                name: attempt.name,
                round: attempt.round,
                form: attempt.form,
                status,
                since,
            });
        }
    }

    pub(super) fn end_of_packet(&mut self, index: u8) {
        self.attempt(index).packet = Packet::Over;
    }

    pub(super) fn lose_packet(&mut self, index: u8) -> Happened {
        self.world.left.losses -= 1;
        self.end_of_packet(index);
        self.say(|| format!("the packet of attempt {index} is lost"));
        match self.world.tries[usize::from(index)].task {
            Task::Waiting(_) | Task::Listening => self.record(index, Shown::Cut, false, false),
            Task::Permitted | Task::Frozen(_) | Task::Gone => Ok(true),
        }
    }

    pub(super) fn answer(&mut self, index: u8, lost: bool) -> Happened {
        let Packet::Answered(status) = self.before.tries[usize::from(index)].packet else {
            return Ok(false);
        };
        self.end_of_packet(index);
        self.say(|| format!("the answer to attempt {index} arrives"));
        self.record(index, Shown::Answer(status), false, lost)
    }

    /// Records what an attempt showed. `lost`: the reply to the commit is lost, and the write will be
    /// repeated.
    pub(super) fn record(&mut self, index: u8, shown: Shown, open: bool, lost: bool) -> Happened {
        if lost {
            self.world.left.lost_replies -= 1;
            self.world.repeats.push(Repeat::Record {
                attempt: index,
                shown,
            });
            self.say(|| "the reply of the register is lost".to_owned());
        }
        let attempt = self.attempt(index);
        attempt.task = if open { Task::Listening } else { Task::Gone };
        if let (false, Packet::Answered(_)) = (open, attempt.packet) {
            attempt.packet = Packet::Over;
        }
        self.commit(index, shown, open)?;
        let call = self.world.tries[usize::from(index)].call;
        let waits = call.filter(|call| {
            self.world.calls[usize::from(*call)].state == CallerState::Trying(index)
        });
        if let Some(call) = waits {
            if lost {
                let state = self.scenario().calls[usize::from(call)].without_answer();
                self.world.calls[usize::from(call)].state = state;
            } else {
                let name = self.world.tries[usize::from(index)].name;
                self.tell(Some(call), name);
            }
        }
        Ok(true)
    }

    /// The write itself; the same when it is repeated.
    pub(super) fn commit(&mut self, index: u8, shown: Shown, open: bool) -> Happened {
        let steps = self.steps;
        let attempt = self.world.tries[usize::from(index)];
        let evidence = self.evidence(&attempt, shown);
        let proxy = self.proxy_of(attempt.instance);
        let proof = proof_of(&evidence);
        if attempt.proof == Proof::None {
            self.attempt(index).proof = proof;
        }
        let record = Record {
            key: steps.names.key(attempt.name),
            attempt: attempt_id(attempt.instance, attempt.number),
            evidence: evidence.clone(),
            open,
            at: moment(steps.scenario, proxy, self.world.now),
        };
        let command = Command::Record(record);
        let reply = apply(
            &mut self.world,
            steps.scenario,
            &steps.names,
            proxy,
            &command,
        );
        let Reply::Recorded(recorded) = reply else {
            panic!("a record was answered with {reply:?}");
        };
        let (state, effect) = (recorded.state, recorded.effect);
        self.say(|| {
            let word = state.as_ref().map_or("not there", State::word);
            format!("{} is {word}", attempt.name)
        });
        let proves = matches!(
            evidence,
            Evidence::Answered {
                class: AnswerClass::Applied,
                ..
            }
        );
        if let Some(State::Completed(ended)) = &state
            && ended.verdict == Verdict::Refused
            && ended.attempt == Some(attempt_id(attempt.instance, attempt.number))
        {
            self.refused_for_good(index);
        }
        if proves {
            never::answered(self.scenario(), &self.world, index, effect)?;
            self.see_answered(index);
        }
        let undoing = self
            .world
            .record(attempt.name)
            .is_some_and(|record| record.operation.settling.void.is_some());
        match (&state, proves && !undoing) {
            (Some(State::Completed(_)), _) | (_, false) => Ok(true),
            (_, true) => Err(Violation(format!(
                "{} was proved to be applied and is not COMPLETED",
                attempt.name
            ))),
        }
    }

    /// The witness counts the effects that were answered, where each is one of its own.
    fn see_answered(&mut self, index: u8) {
        let name = self.world.tries[usize::from(index)].name;
        let known = self.world.seen.answered.contains(&index);
        if !known && !never::deduplicates(self.scenario(), name) {
            self.world.seen.answered.push(index);
        }
    }

    /// The witness takes a definitive refusal for proof; where the upstream remembers refusals, for all
    /// attempts under that key.
    fn refused_for_good(&mut self, index: u8) {
        let remembers = self.scenario().upstream.remembers_refusals;
        let refused = self.world.tries[usize::from(index)];
        for (at, attempt) in (0..).zip(&mut self.world.tries) {
            let same_key = attempt.name == refused.name && attempt.round == refused.round;
            if attempt.proof == Proof::None && (at == index || (same_key && remembers)) {
                attempt.proof = Proof::NotProcessed;
            }
        }
    }

    fn evidence(&self, attempt: &Try, shown: Shown) -> Evidence {
        let interrupted = |why| Evidence::Interrupted {
            phase: Phase::Waiting,
            why,
        };
        match shown {
            Shown::Expired => Evidence::NotSent(Unsent::DispatchExpired),
            Shown::ConnectionLost => Evidence::NotSent(Unsent::ConnectionLost),
            Shown::AlreadySettled => Evidence::NotSent(Unsent::AlreadySettled),
            Shown::Cut => interrupted(Interruption::Closed),
            Shown::TimedOut => interrupted(Interruption::Timeout),
            Shown::ClosedToSettle => interrupted(Interruption::ClosedToSettle),
            Shown::Answer(status) => Evidence::Answered {
                answer: answer(status),
                class: self
                    .steps
                    .answers
                    .class(status, attempt.condition.is_some()),
            },
        }
    }
}

fn proof_of(evidence: &Evidence) -> Proof {
    match evidence {
        Evidence::NotSent(_) => Proof::NotSent,
        Evidence::Answered { class, .. } if *class == AnswerClass::NotProcessed => {
            Proof::NotProcessed
        }
        Evidence::Interrupted { .. } | Evidence::Answered { .. } => Proof::None,
    }
}
