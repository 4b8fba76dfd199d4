//! Questions are asked and answered, callbacks come in, and what was done is undone.

use fencepost::protocol::command::{Command, Reply};
use fencepost::protocol::finding::{Finder, Finding, Found, NotKnown, Worth};
use fencepost::protocol::operation::State;
use fencepost::protocol::outcome::Unsent;
use fencepost::protocol::steps::StepIndex;
use fencepost::protocol::time::Millis;
use fencepost::protocol::void::{BeginVoid, VoidEnd, VoidReply, Voided};

use super::super::never;
use super::super::register::{answer, apply, attempt_id, form_of, moment};
use super::super::scenario::TICK_MS;
use super::super::wire::{Letter, Packet, Proof, Question, Repeat, Sight, Undo};
use super::super::world::Name;
use super::{Happened, Step};

/// What a question meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looking {
    /// Everything that shows by now.
    Shown,
    /// An effect that does not show.
    Hidden,
    /// Something that cannot be understood.
    Unclear,
}

/// Undos are numbered apart from attempts.
const UNDOS: u8 = 100;

impl Step<'_> {
    /// One question at a time, and one in a tick: what is asked at the same moment is the same question.
    pub(super) fn ask_upstream(&mut self, proxy: u8, record: u8, step: StepIndex) -> Happened {
        let record = &self.before.records[usize::from(record)];
        let name = record.name;
        let scenario = self.steps.scenario;
        if scenario.away {
            return Ok(false);
        }
        let last = record.operation.settling.of(step);
        let last = last.and_then(|known| known.last_asked);
        // On whichever machine: a pause passes between two questions.
        let asked =
            (0..scenario.proxies).any(|it| last == Some(moment(scenario, it, self.before.now)));
        let under_way = |it: &Question| it.name == name && it.asked == self.before.now;
        if asked || self.before.questions.iter().any(under_way) {
            return Ok(false);
        }
        self.world.left.questions = self.world.left.questions.saturating_sub(1);
        self.world.questions.push(Question {
            name,
            step: step.0,
            proxy,
            asked: self.before.now,
            admitted: record.operation.admitted,
            tries: u8::try_from(self.before.tries.len()).unwrap(),
            form: form_of(&record.operation),
            seen: None,
            saw: None,
        });
        self.say(|| format!("proxy {proxy} asks what became of {name}"));
        Ok(true)
    }

    pub(super) fn look(&mut self, index: u8, how: Looking) -> Happened {
        let question = self.before.questions[usize::from(index)];
        let now = self.before.now;
        let sight = match how {
            Looking::Unclear => {
                self.world.left.unclear -= 1;
                Sight::Unclear
            }
            Looking::Shown => self.sight(&question),
            Looking::Hidden => {
                if self.sight(&question) == Sight::Absent {
                    return Ok(false);
                }
                let lag = self.scenario().upstream.search_lag;
                let young = self.effects_of(question.name, |since| now < since + lag);
                if !young && now > self.before.blind_until {
                    if self.before.left.blind == 0 {
                        return Ok(false);
                    }
                    self.world.left.blind -= 1;
                    self.world.blind_until = now + 1;
                }
                Sight::Absent
            }
        };
        let mut effects = self.before.effects.iter().filter(|index| {
            let attempt = &self.before.tries[usize::from(**index)];
            attempt.name == question.name
        });
        let asked = &mut self.world.questions[usize::from(index)];
        asked.seen = Some(sight);
        asked.saw = match (effects.next(), effects.next()) {
            (Some(only), None) if sight == Sight::Applied => Some(*only),
            _ => None,
        };
        self.say(|| format!("the upstream looks for {}: {sight:?}", question.name));
        Ok(true)
    }

    /// Is there an effect in force, and is each of them so old?
    fn effects_of(&self, name: Name, so_old: impl Fn(u8) -> bool) -> bool {
        let mut any = false;
        for index in &self.before.effects {
            let attempt = &self.before.tries[usize::from(*index)];
            if attempt.name == name && !attempt.undone {
                any = true;
                if !so_old(attempt.shown_from) {
                    return false;
                }
            }
        }
        any
    }

    fn sight(&self, question: &Question) -> Sight {
        let operation = self
            .before
            .record(question.name)
            .map(|record| &record.operation);
        let tells = operation.is_some_and(|operation| {
            let step = operation.settle.steps.at(StepIndex(question.step));
            step.and_then(|step| step.question())
                .is_some_and(|policy| policy.tells_forms)
        });
        let mut sight = Sight::Absent;
        for index in &self.before.effects {
            let attempt = &self.before.tries[usize::from(*index)];
            if attempt.name != question.name || attempt.undone {
                continue;
            }
            if !tells || attempt.form == question.form {
                return Sight::Applied;
            }
            sight = Sight::Unclear;
        }
        sight
    }

    /// The answer to a question arrives.
    pub(super) fn learn(&mut self, index: u8, lost: bool) -> Happened {
        let question = self.world.questions.remove(usize::from(index));
        if lost {
            self.world.left.lost_replies -= 1;
            self.world.repeats.push(Repeat::Find {
                question,
                instance: self.before.proxies[usize::from(question.proxy)],
                at: self.before.now,
            });
        }
        self.bring_in(&question, self.before.now)
    }

    /// What was found is recorded, as found at that tick.
    pub(super) fn bring_in(&mut self, question: &Question, at: u8) -> Happened {
        let Some(seen) = question.seen else {
            return Ok(false);
        };
        let found = match seen {
            Sight::Applied => Found::Applied(answer(203)),
            Sight::Absent => Found::NotApplied,
            Sight::Unclear => Found::NotKnown(NotKnown::Unreadable),
        };
        let by = Finder::LookUp {
            step: StepIndex(question.step),
            asked_at: moment(self.steps.scenario, question.proxy, question.asked),
        };
        self.say(|| format!("proxy {} learns: {seen:?}", question.proxy));
        let name = question.name;
        let on = (question.proxy, at);
        let ended = |step: &Self| step.world.record(name).and_then(never::told_of);
        let was = ended(self);
        let happened = self.find(name, on, by, question.admitted, found)?;
        let later = usize::from(question.tries) < self.world.tries.len();
        if let (None, Some(_), true, Some(saw)) = (was, ended(self), later, question.saw) {
            self.world.seen.found.push((name, saw, question.tries));
        }
        Ok(happened)
    }

    /// A callback comes in.
    pub(super) fn call_back(&mut self, index: u8, lost: bool) -> Happened {
        let letter = self.before.letters[usize::from(index)];
        if lost {
            self.world.left.lost_replies -= 1;
        } else {
            self.world.letters.remove(usize::from(index));
        }
        let found = if letter.applied {
            Found::Applied(answer(202))
        } else {
            Found::NotApplied
        };
        let by = Finder::Callback {
            definitive: letter.definitive,
        };
        let record = self.before.record(letter.name);
        let admitted = record.map_or(0, |record| record.operation.admitted);
        self.say(|| {
            let what = match (letter.applied, letter.definitive) {
                (true, _) => "applied",
                (false, true) => "not applied, for good",
                (false, false) => "not applied",
            };
            format!("a callback comes in: {} was {what}", letter.name)
        });
        let on = (0, self.before.now);
        self.find(letter.name, on, by, admitted, found)
    }

    /// `on`: by which proxy, and at which tick.
    fn find(
        &mut self,
        name: Name,
        on: (u8, u8),
        by: Finder,
        admitted: u32,
        found: Found,
    ) -> Happened {
        let (proxy, tick) = on;
        let steps = self.steps;
        let finding = Finding {
            key: steps.names.key(name),
            by,
            admitted,
            found,
            at: moment(steps.scenario, proxy, tick),
        };
        let command = Command::Find(finding);
        let reply = apply(
            &mut self.world,
            steps.scenario,
            &steps.names,
            proxy,
            &command,
        );
        let Reply::Found(weighed) = reply else {
            panic!("a finding was answered with {reply:?}");
        };
        if let (Some(State::NotApplied(_)), Worth::Settled) = (&weighed.state, weighed.worth) {
            never::disproved(self.scenario(), self.before, name)?;
            let unproven = self.world.tries.iter_mut().filter(|it| it.name == name);
            for attempt in unproven.filter(|attempt| attempt.proof == Proof::None) {
                attempt.proof = Proof::Said;
            }
        }
        let word = weighed.state.as_ref().map_or("not there", State::word);
        self.say(|| format!("{name} is {word}"));
        Ok(true)
    }

    /// The upstream calls back about what it did with an attempt.
    pub(super) fn write_letters(&mut self, name: Name, accepted: bool) {
        if self.world.left.letters == 0 {
            return;
        }
        self.world.left.letters -= 1;
        let letter = |applied, definitive| Letter {
            name,
            applied,
            definitive,
        };
        if accepted {
            // Trouble on the way is no last word.
            self.world.letters.push(letter(false, false));
            self.world.letters.push(letter(true, false));
        } else {
            self.world.letters.push(letter(false, true));
        }
    }

    pub(super) fn undo_by_old_plan(&mut self, proxy: u8, record: u8) -> Happened {
        let operation = &self.before.records[usize::from(record)].operation;
        let mut steps = operation.settle.steps.iter();
        match steps.find(|(_, step)| step.void().is_some()) {
            Some((step, _)) => self.begin_undo(proxy, record, step, false),
            None => Ok(false),
        }
    }

    /// `lost`: nobody hears that it has begun.
    pub(super) fn begin_undo(
        &mut self,
        proxy: u8,
        record: u8,
        step: StepIndex,
        lost: bool,
    ) -> Happened {
        let undo = Undo {
            name: self.before.records[usize::from(record)].name,
            instance: self.before.proxies[usize::from(proxy)],
            number: u8::try_from(self.before.undos.len()).unwrap(),
            step: step.0,
            at: self.before.now,
            round: 0,
            dispatch_by: 0,
            packet: if lost { Packet::Over } else { Packet::Unsent },
            at_work: !lost,
        };
        if !self.begin_this_undo(proxy, undo)? {
            return Ok(false);
        }
        // Only that it is quiet may have been seen, which needs no second time.
        if lost {
            let begun = self.world.undos.len() > self.before.undos.len();
            if !begun {
                return Ok(false);
            }
            self.world.left.lost_replies -= 1;
            let undo = u8::try_from(self.before.undos.len()).unwrap();
            self.world.repeats.push(Repeat::Void { undo });
            self.say(|| "and the reply is lost".to_owned());
        }
        Ok(true)
    }

    /// The same write, a second time.
    pub(super) fn begin_undo_again(&mut self, index: u8) -> Happened {
        let first = self.before.undos[usize::from(index)];
        let undo = Undo {
            packet: Packet::Unsent,
            at_work: true,
            ..first
        };
        self.begin_this_undo(self.proxy_of(first.instance), undo)?;
        let undos = &self.world.undos;
        if undos.len() > self.before.undos.len() {
            never::undoing_twice(&undos[undos.len() - 1], self.before.now)?;
        }
        Ok(true)
    }

    fn begin_this_undo(&mut self, proxy: u8, undo: Undo) -> Happened {
        let steps = self.steps;
        let Undo { name, instance, .. } = undo;
        let index = self.before.undos.len();
        let begin = BeginVoid {
            key: steps.names.key(name),
            step: StepIndex(undo.step),
            attempt: attempt_id(instance, UNDOS + undo.number),
            dispatch: Millis(TICK_MS),
            overdue_after: Millis(TICK_MS + 9_000),
            at: moment(steps.scenario, proxy, undo.at),
        };
        let command = Command::BeginVoid(begin);
        let reply = apply(
            &mut self.world,
            steps.scenario,
            &steps.names,
            proxy,
            &command,
        );
        let Reply::Void(VoidReply::Granted(grant)) = reply else {
            // Only that it is quiet may have been seen.
            return Ok(*self.world != *self.before);
        };
        self.world.undos.push(Undo {
            round: u8::try_from(grant.round.0).unwrap(),
            dispatch_by: u32::try_from(grant.dispatch_by.0).unwrap(),
            ..undo
        });
        self.say(|| format!("undo {index} of {name} begins"));
        let judged = never::undoing(self.scenario(), self.before, name);
        self.judge(judged)
    }

    fn undo(&mut self, index: u8) -> &mut Undo {
        &mut self.world.undos[usize::from(index)]
    }

    fn is_too_late(&self, index: u8) -> bool {
        let by = self.before.undos[usize::from(index)].dispatch_by;
        u64::from(self.before.now) * TICK_MS > u64::from(by)
    }

    pub(super) fn send_undo(&mut self, index: u8) -> Happened {
        if self.is_too_late(index) {
            return Ok(false);
        }
        let until = self.world.now + self.scenario().delay;
        let undo = self.undo(index);
        undo.packet = Packet::Flying(until);
        let name = undo.name;
        if !self.world.seen.undone.contains(&name) {
            self.world.seen.undone.push(name);
        }
        self.say(|| format!("undo {index} leaves"));
        Ok(true)
    }

    pub(super) fn give_up_undo(&mut self, index: u8) -> Happened {
        if !self.is_too_late(index) {
            if self.world.left.unsent == 0 {
                return Ok(false);
            }
            self.world.left.unsent -= 1;
        }
        self.undo(index).packet = Packet::Over;
        self.say(|| format!("undo {index} sends nothing"));
        self.end_undo(index, VoidEnd::NotSent(Unsent::DispatchExpired))
    }

    /// Undoes what was done under the key, if the upstream still knows it; and says the same if not.
    pub(super) fn deliver_undo(&mut self, index: u8) -> Happened {
        let undo = self.before.undos[usize::from(index)];
        let lifetime = self.scenario().upstream.lifetime;
        let now = self.world.now;
        let known = self.world.memory.iter().any(|memory| {
            (memory.name, memory.round) == (undo.name, undo.round) && now <= memory.since + lifetime
        });
        if known {
            let tries = self.world.tries.iter_mut();
            for attempt in tries.filter(|it| (it.name, it.round) == (undo.name, undo.round)) {
                attempt.undone = true;
            }
        }
        let at_work = undo.at_work;
        self.undo(index).packet = if at_work {
            Packet::Answered(200)
        } else {
            Packet::Over
        };
        self.say(|| format!("undo {index} arrives; the key is known: {known}"));
        Ok(true)
    }

    pub(super) fn answer_undo(&mut self, index: u8) -> Happened {
        self.undo(index).packet = Packet::Over;
        self.say(|| format!("the answer to undo {index} arrives"));
        self.end_undo(index, VoidEnd::Undone(answer(410)))
    }

    /// The connection breaks; what moves goes on.
    pub(super) fn cut_undo(&mut self, index: u8) -> Happened {
        self.world.left.losses -= 1;
        let undo = self.undo(index);
        if let Packet::Answered(_) = undo.packet {
            undo.packet = Packet::Over;
        }
        self.say(|| format!("the connection of undo {index} breaks"));
        self.end_undo(index, VoidEnd::Unclear(NotKnown::Unanswered))
    }

    fn end_undo(&mut self, index: u8, end: VoidEnd) -> Happened {
        let steps = self.steps;
        let undo = self.undo(index);
        undo.at_work = false;
        let (name, instance, number) = (undo.name, undo.instance, undo.number);
        let proxy = self.proxy_of(instance);
        let voided = Voided {
            key: steps.names.key(name),
            attempt: attempt_id(instance, UNDOS + number),
            end,
            at: moment(steps.scenario, proxy, self.before.now),
        };
        let command = Command::Voided(voided);
        let reply = apply(
            &mut self.world,
            steps.scenario,
            &steps.names,
            proxy,
            &command,
        );
        let Reply::Voided(recorded) = reply else {
            panic!("an undo was answered with {reply:?}");
        };
        let word = recorded.state.as_ref().map_or("not there", State::word);
        self.say(|| format!("{name} is {word}"));
        Ok(true)
    }

    /// Which proxy an instance is.
    pub(super) fn proxy_of(&self, instance: u8) -> u8 {
        let proxies = self.before.proxies.iter();
        let index = proxies.clone().position(|it| *it == instance);
        u8::try_from(index.unwrap_or_default()).unwrap()
    }
}
