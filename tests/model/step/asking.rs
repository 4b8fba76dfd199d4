//! Callers ask; admissions commit; an attempt begins.

use fencepost::protocol::command::{Command, Grant, Reply, Ruling};
use fencepost::protocol::operation::State;
use fencepost::protocol::policy::{IfTwin, Order};
use fencepost::protocol::rejection::Rejection;

use super::super::never;
use super::super::register::{admissions, apply, attempt_id, form_of, live, moment, number_of};
use super::super::scenario::Call;
use super::super::wire::{Packet, Proof, Repeat, Task, Try};
use super::super::world::{CallerState, Instance, Name, Record};
use super::{Happened, Step};

/// Who begins an attempt.
pub(super) struct Beginner {
    pub(super) instance: Instance,
    pub(super) number: u8,
    pub(super) call: Option<u8>,
    pub(super) at: u8,
    /// The reply was lost: nobody holds the permit.
    pub(super) lost: bool,
}

impl Step<'_> {
    pub(super) fn ask(&mut self, call: u8, queued: bool, lost: bool) -> Happened {
        let Some(asked) = self.call(call) else {
            return Ok(false);
        };
        let asked = &asked;
        if lost {
            self.world.left.lost_replies -= 1;
        }
        let beginner = Beginner {
            instance: self.before.proxies[usize::from(asked.proxy)],
            number: u8::try_from(self.before.tries.len()).unwrap(),
            call: Some(call),
            at: self.before.now - u8::from(queued),
            lost,
        };
        let reserved = self.before.calls[usize::from(call)].grants > 0;
        self.say(|| {
            let token = asked
                .token
                .map(|token| token.map_or("no token".to_owned(), |token| format!("token {token}")));
            format!(
                "{} asks for `{}` with {}{}",
                asked.who,
                char::from(b'a' + asked.operation),
                token.unwrap_or("no fence".to_owned()),
                if lost { ", and the reply is lost" } else { "" },
            )
        });
        self.admit(asked, beginner, reserved)
    }

    /// As it is asked now: with the token that its holder has. One without a lease has none to send.
    pub(super) fn call(&self, call: u8) -> Option<Call> {
        let mut asked = self.steps.scenario.calls[usize::from(call)].clone();
        if let Some(holder) = asked.held_by {
            asked.token = Some(Some(self.before.holdings[usize::from(holder)].token?));
        }
        Some(asked)
    }

    pub(super) fn admit(&mut self, asked: &Call, beginner: Beginner, reserved: bool) -> Happened {
        let steps = self.steps;
        let attempt = attempt_id(beginner.instance, beginner.number);
        let at = moment(steps.scenario, asked.proxy, beginner.at);
        let live = live(self.before, asked.proxy);
        let admit = steps.names.admit(asked, attempt, at, reserved, live);
        let command = Command::Admit(Box::new(admit));
        let reply = apply(
            &mut self.world,
            steps.scenario,
            &steps.names,
            asked.proxy,
            &command,
        );
        let Reply::Admission(admission) = reply else {
            panic!("an admission was answered with {reply:?}");
        };
        self.see_token(asked);
        let name = Name::of(&admission.key);
        never::ruled(self.before, asked, beginner.at, name, &admission.ruling)?;
        if matches!(
            admission.ruling,
            Ruling::Wait { .. } | Ruling::Refused(Rejection::NearDuplicate { .. })
        ) {
            self.see_twin(asked, name);
        }
        match admission.ruling {
            Ruling::Granted(grant) => self.granted(asked, beginner, &grant),
            Ruling::Replay { .. } => {
                self.say(|| "it is replayed".to_owned());
                if !beginner.lost {
                    self.tell(beginner.call, name);
                }
                Ok(true)
            }
            Ruling::Join { key, licenses, .. } => {
                let joined = Name::of(&key);
                let licence = (asked.proxy, joined);
                if licenses && !self.world.licences.contains(&licence) {
                    self.world.licences.push(licence);
                }
                self.say(|| format!("it joins {joined}"));
                if let (Some(call), Some(_)) = (beginner.call, asked.blind_retry) {
                    self.world.calls[usize::from(call)].state = CallerState::Joined(joined);
                }
                Ok(true)
            }
            Ruling::Wait { predecessor, .. } => {
                self.say(|| format!("it waits for {}", Name::of(&predecessor)));
                Ok(true)
            }
            Ruling::ReserveFirst => {
                self.say(|| "it has no connection".to_owned());
                Ok(true)
            }
            Ruling::Refused(rejection) => {
                self.say(|| format!("refused: {}", shortly(&rejection)));
                if let (Some(call), Some(_)) = (beginner.call, asked.blind_retry) {
                    self.world.calls[usize::from(call)].state = CallerState::Over;
                }
                Ok(true)
            }
        }
    }

    /// The witness sees which token was presented. One that the witness knows to be void does not
    /// count.
    fn see_token(&mut self, asked: &Call) {
        let epoch = self.world.epoch;
        let Some(Some(token)) = asked.token else {
            return;
        };
        let seen = &mut self.world.seen;
        let is_void = seen.void_from.is_some_and(|from| token >= from);
        if asked.wild || is_void || token.epoch() != epoch {
            return;
        }
        if seen.mark.is_none_or(|mark| token > mark) {
            seen.mark = Some(token);
            seen.holder = asked.acquisition;
        } else if seen.mark == Some(token) && seen.holder.is_none() {
            seen.holder = asked.acquisition;
        }
    }

    /// The witness sees that a request repeats an unsettled one of its generation under another id.
    fn see_twin(&mut self, asked: &Call, name: Name) {
        let refuses = asked
            .fenced()
            .is_some_and(|fence| fence.if_twin == IfTwin::Refuse && !asked.is_observed());
        let repeats = |other: &Record| {
            let place = other.operation.place.as_ref();
            other.name != name
                && other.operation.state.is_unsettled()
                && form_of(&other.operation) == asked.form
                && place.is_some_and(|place| Some(place.token) == asked.token)
                && (other.operation.order == Order::Strict || asked.policy.order == Order::Strict)
        };
        let seen = &mut self.world.seen.twins;
        if refuses && self.before.records.iter().any(repeats) && !seen.contains(&name) {
            seen.push(name);
        }
    }

    fn granted(&mut self, asked: &Call, beginner: Beginner, grant: &Grant) -> Happened {
        if let Some(caller) = beginner.call.map(usize::from) {
            let caller = &mut self.world.calls[caller];
            caller.grants = caller.grants.saturating_sub(1);
        }
        let name = Name::of(&grant.key);
        self.world.seen.taken_up.retain(|it| *it != name);
        let lost = beginner.lost;
        let (call, index) = (beginner.call, self.begin(&beginner, grant));
        self.say(|| format!("granted: attempt {index}"));
        if lost {
            self.world.repeats.push(Repeat::Admit { attempt: index });
        } else if let Some(call) = call {
            self.world.calls[usize::from(call)].state = CallerState::Trying(index);
        }
        self.world.tries[usize::from(index)].condition = asked.condition;
        let judged = never::admitted(self.scenario(), self.before, &self.world, asked);
        self.judge(judged)
    }

    /// A caller without a key hears how the operation ended that it joined. If that was not applied, its
    /// own request goes on as new.
    pub(super) fn hear(&mut self, call: u8) -> Happened {
        let caller = self.before.calls[usize::from(call)].state;
        let CallerState::Joined(name) = caller else {
            return Ok(false);
        };
        let record = self.before.record(name);
        match record.map(|record| &record.operation.state) {
            Some(State::Completed(_)) => self.tell(Some(call), name),
            Some(State::NotApplied(_)) => {
                self.world.calls[usize::from(call)].state = CallerState::Asking;
            }
            Some(State::NeedsAttention(_)) => {
                self.world.calls[usize::from(call)].state = CallerState::Over;
            }
            Some(State::Intended | State::Uncertain) | None => return Ok(false),
        }
        self.say(|| {
            let who = self.steps.scenario.calls[usize::from(call)].who;
            format!("{who} hears what became of {name}")
        });
        Ok(true)
    }

    /// Enters an attempt that was granted.
    pub(super) fn begin(&mut self, beginner: &Beginner, grant: &Grant) -> u8 {
        let name = Name::of(&grant.key);
        let record = self.world.record(name).unwrap();
        let operation = &record.operation;
        let place = operation.place.as_ref();
        let number = place.map_or(0, |place| u8::try_from(place.number.0).unwrap());
        let condition = self.before.tries_of(name).last();
        let attempt = Try {
            name,
            instance: beginner.instance,
            number: beginner.number,
            call: beginner.call,
            round: u8::try_from(grant.round.0).unwrap(),
            form: form_of(operation),
            condition: condition.and_then(|earlier| earlier.condition),
            at: beginner.at,
            place: number,
            resource: place.map_or(0, |place| u8::try_from(number_of(&place.resource)).unwrap()),
            incarnation: place.map_or(0, |place| u8::try_from(place.incarnation.0).unwrap()),
            token: place.and_then(|place| place.token),
            strict: operation.order == Order::Strict,
            sequence: place.and_then(|place| place.sequence.map(|it| it.value())),
            dispatch_by: u32::try_from(grant.dispatch_by.0).unwrap(),
            look_again: grant.look_again,
            task: if beginner.lost {
                Task::Gone
            } else {
                Task::Permitted
            },
            packet: Packet::Unsent,
            proof: Proof::None,
            shown_from: 0,
            undone: false,
        };
        let fence = &self.world.fences[usize::from(attempt.resource)];
        debug_assert!(number <= admissions(fence.as_ref()));
        self.world.tries.push(attempt);
        u8::try_from(self.world.tries.len() - 1).unwrap()
    }

    /// The caller is told what the record holds.
    pub(super) fn tell(&mut self, call: Option<u8>, name: Name) {
        let Some(call) = call.map(usize::from) else {
            return;
        };
        let told = self.world.record(name).and_then(never::told_of);
        self.world.calls[call].state = match told {
            Some(told) => CallerState::Told(name, told),
            None => self.steps.scenario.calls[call].without_answer(),
        };
        if let Some(told) = told {
            self.say(|| {
                let who = self.steps.scenario.calls[call].who;
                format!("{who} is told {:?} ({})", told.verdict, told.status)
            });
        }
    }
}

fn shortly(rejection: &Rejection) -> String {
    let text = format!("{rejection:?}");
    let end = text.find([' ', '(', '{']).unwrap_or(text.len());
    text[..end].to_owned()
}
