//! Proxies die, the reconciler settles, people speak.

use fencepost::protocol::command::{
    Attended, Command, Park, Reply, Resend, ResendReply, Resolution, Resolve, Resolved,
};
use fencepost::protocol::operation::State;
use fencepost::protocol::plan::Step as Planned;
use fencepost::protocol::start::Start;
use fencepost::protocol::steps::StepIndex;
use fencepost::protocol::time::Millis;

use super::super::never::{self, Violation};
use super::super::register::{answer, apply, attempt_id, lease, moment};
use super::super::scenario::TICK_MS;
use super::super::wire::{Packet, Proof, Repeat, Shown, Task};
use super::super::world::CallerState;
use super::asking::Beginner;
use super::{Happened, Said, Step};

impl Step<'_> {
    pub(super) fn crash(&mut self, proxy: u8) -> Happened {
        let world = &mut self.world;
        let dead = world.proxies[usize::from(proxy)];
        let next = world
            .living
            .iter()
            .chain(world.tries.iter().map(|attempt| &attempt.instance))
            .chain(&world.proxies)
            .max()
            .map_or(0, |last| last + 1);
        world.left.crashes -= 1;
        world.proxies[usize::from(proxy)] = next;
        if self.steps.scenario.proxies == 1 {
            world.living.clear();
        }
        world.living.push(next);
        for attempt in &mut world.tries {
            if attempt.instance == dead {
                attempt.task = Task::Gone;
                if let Packet::Answered(_) = attempt.packet {
                    attempt.packet = Packet::Over;
                }
            }
        }
        for undo in world.undos.iter_mut().filter(|it| it.instance == dead) {
            undo.at_work = false;
            if matches!(undo.packet, Packet::Unsent | Packet::Answered(_)) {
                undo.packet = Packet::Over;
            }
        }
        world.questions.retain(|question| question.proxy != proxy);
        world.live[usize::from(proxy)] = None;
        world.sights[usize::from(proxy)] = None;
        world.licences.retain(|(at, _)| *at != proxy);
        for (call, caller) in self.steps.scenario.calls.iter().zip(&mut world.calls) {
            let waits = matches!(
                caller.state,
                CallerState::Trying(_) | CallerState::Joined(_)
            );
            if call.proxy == proxy && waits {
                caller.state = call.without_answer();
            }
        }
        // Whoever would repeat a write died with it.
        let (tries, undos) = (&world.tries, &world.undos);
        world.repeats.retain(|repeat| {
            let by = match repeat {
                Repeat::Admit { attempt }
                | Repeat::Resend { attempt, .. }
                | Repeat::Record { attempt, .. } => tries[usize::from(*attempt)].instance,
                Repeat::Find { instance, .. } => *instance,
                Repeat::Void { undo } => undos[usize::from(*undo)].instance,
            };
            by != dead
        });
        self.say(|| format!("proxy {proxy} dies and starts again as instance {next}"));
        Ok(true)
    }

    pub(super) fn declare_dead(&mut self, instance: u8) -> Happened {
        if self.world.is_current(instance) {
            self.world.left.false_deaths -= 1;
        }
        self.world.living.retain(|living| *living != instance);
        self.say(|| format!("instance {instance} is declared dead"));
        Ok(true)
    }

    pub(super) fn repeat(&mut self, index: u8) -> Happened {
        let repeat = self.world.repeats.remove(usize::from(index));
        self.say(|| "a write whose reply was lost is repeated".to_owned());
        match repeat {
            Repeat::Record { attempt, shown } => {
                self.commit(attempt, shown, shown == Shown::TimedOut)
            }
            Repeat::Admit { attempt } => {
                let first = self.before.tries[usize::from(attempt)];
                let Some(call) = first.call else {
                    return Ok(false);
                };
                let beginner = Beginner {
                    instance: first.instance,
                    number: first.number,
                    call: None,
                    at: first.at,
                    lost: false,
                };
                // Its token may be another by now; the write is the one that it was.
                let Some(mut asked) = self.call(call) else {
                    return Ok(false);
                };
                asked.token = asked.token.map(|_| first.token);
                self.admit(&asked, beginner, true)
            }
            Repeat::Find { question, at, .. } => self.bring_in(&question, at),
            Repeat::Void { undo } => self.begin_undo_again(undo),
            Repeat::Resend { attempt, attended } => {
                let first = self.before.tries[usize::from(attempt)];
                let proxy = self
                    .before
                    .proxies
                    .iter()
                    .position(|it| *it == first.instance);
                let record = self
                    .before
                    .records
                    .iter()
                    .position(|it| it.name == first.name);
                let (Some(proxy), Some(record)) = (proxy, record) else {
                    return Ok(true);
                };
                let beginner = Beginner {
                    instance: first.instance,
                    number: first.number,
                    call: None,
                    at: first.at,
                    lost: false,
                };
                let proxy = u8::try_from(proxy).unwrap();
                let attended = attended.then(super::people::somebody);
                let record = u8::try_from(record).unwrap();
                self.send_again(proxy, record, &beginner, attended)?;
                Ok(true)
            }
        }
    }

    /// The reconciler of a proxy plans one step and takes it.
    pub(super) fn settle(&mut self, proxy: u8, record: u8, lost: bool) -> Happened {
        let planned = self.steps.planned(self.before, proxy, record);
        match planned {
            Planned::Nothing | Planned::Await | Planned::Listen { .. } => Ok(false),
            Planned::Start { step } if !lost => self.start_step(proxy, record, step),
            Planned::Start { .. } => Ok(false),
            Planned::Ask { step, .. } if !lost => self.ask_upstream(proxy, record, step),
            Planned::Void { step, .. } => self.begin_undo(proxy, record, step, lost),
            Planned::Ask { .. } => Ok(false),
            Planned::CloseThenPlan { .. } if !lost => self.close(proxy, record),
            Planned::Resend { .. } => {
                if self.resend(proxy, record, lost)? {
                    return Ok(true);
                }
                let name = self.before.records[usize::from(record)].name;
                Err(Violation(format!(
                    "the plan asks for a resend of {name} that is refused"
                )))
            }
            Planned::Park(_) if !lost => self.park(proxy, record),
            Planned::CloseThenPlan { .. } | Planned::Park(_) => Ok(false),
        }
    }

    /// A step has its turn.
    fn start_step(&mut self, proxy: u8, record: u8, step: StepIndex) -> Happened {
        let steps = self.steps;
        let name = self.before.records[usize::from(record)].name;
        let start = Start {
            key: steps.names.key(name),
            step,
            at: moment(steps.scenario, proxy, self.before.now),
        };
        let command = Command::Start(start);
        apply(
            &mut self.world,
            steps.scenario,
            &steps.names,
            proxy,
            &command,
        );
        self.say(|| format!("step {} of {name} has its turn", step.0));
        Ok(*self.world != *self.before)
    }

    fn close(&mut self, proxy: u8, record: u8) -> Happened {
        let own = self.before.proxies[usize::from(proxy)];
        let name = self.before.records[usize::from(record)].name;
        let listener = self.before.tries.iter().position(|attempt| {
            attempt.name == name && attempt.instance == own && attempt.task == Task::Listening
        });
        let Some(listener) = listener else {
            return Ok(false);
        };
        let listener = u8::try_from(listener).unwrap();
        self.say(|| format!("the reconciler closes attempt {listener}"));
        self.record(listener, Shown::ClosedToSettle, false, false)
    }

    pub(super) fn resend(&mut self, proxy: u8, record: u8, lost: bool) -> Happened {
        if lost {
            self.world.left.lost_replies -= 1;
        }
        let beginner = Beginner {
            instance: self.before.proxies[usize::from(proxy)],
            number: u8::try_from(self.before.tries.len()).unwrap(),
            call: None,
            at: self.before.now,
            lost,
        };
        self.send_again(proxy, record, &beginner, None)
    }

    /// `Ok(false)`: it was not granted, and nothing changed.
    pub(super) fn send_again(
        &mut self,
        proxy: u8,
        record: u8,
        beginner: &Beginner,
        attended: Option<Attended>,
    ) -> Happened {
        let steps = self.steps;
        let is_attended = attended.is_some();
        let name = self.before.records[usize::from(record)].name;
        let resend = Resend {
            key: steps.names.key(name),
            attempt: attempt_id(beginner.instance, beginner.number),
            dispatch: Millis(TICK_MS),
            overdue_after: Millis(TICK_MS + 9_000),
            attended,
            lease: lease(self.before, proxy, name),
            at: moment(steps.scenario, proxy, beginner.at),
        };
        let command = Command::Resend(resend);
        let reply = apply(
            &mut self.world,
            steps.scenario,
            &steps.names,
            proxy,
            &command,
        );
        match reply {
            Reply::Resend(ResendReply::Granted(grant)) => {
                let index = self.begin(beginner, &grant);
                self.world.licences.retain(|it| *it != (proxy, name));
                if beginner.lost {
                    self.world.repeats.push(Repeat::Resend {
                        attempt: index,
                        attended: is_attended,
                    });
                }
                self.say(|| format!("{name} is sent again: attempt {index}"));
                if is_attended {
                    self.world.seen.taken_up.retain(|it| *it != name);
                }
                let judged = never::resent(self.scenario(), self.before, &self.world, is_attended);
                self.judge(judged)
            }
            Reply::Resend(
                ResendReply::NotNow | ResendReply::Settled(_) | ResendReply::Forbidden(_),
            ) => Ok(false),
            other => panic!("a resend was answered with {other:?}"),
        }
    }

    pub(super) fn park(&mut self, proxy: u8, record: u8) -> Happened {
        let steps = self.steps;
        let name = self.before.records[usize::from(record)].name;
        let park = Park {
            key: steps.names.key(name),
            fit: true,
            lease: lease(self.before, proxy, name),
            at: moment(steps.scenario, proxy, self.before.now),
        };
        let command = Command::Park(park);
        apply(
            &mut self.world,
            steps.scenario,
            &steps.names,
            proxy,
            &command,
        );
        let given = match self.world.record(name).map(|it| &it.operation.state) {
            Some(State::NeedsAttention(why)) if *self.world != *self.before => *why,
            _ => return Ok(false),
        };
        self.world.seen.taken_up.retain(|it| *it != name);
        self.say(|| format!("{name} is given to a person: {}", given.reason()));
        let judged = never::parked(self.scenario(), self.before, name);
        self.judge(judged)
    }

    pub(super) fn speak(&mut self, record: u8, said: Said) -> Happened {
        let steps = self.steps;
        let record = &self.before.records[usize::from(record)];
        let name = record.name;
        let verdict = match said {
            Said::Applied | Said::FalselyApplied => Resolution::Applied(answer(200)),
            Said::NotApplied => Resolution::NotApplied { new_key: false },
            Said::FalselyNotApplied { new_key } => Resolution::NotApplied { new_key },
        };
        let lies = match said {
            Said::Applied | Said::NotApplied => {
                self.world.left.verdicts = self.world.left.verdicts.saturating_sub(1);
                None
            }
            Said::FalselyApplied => Some(false),
            Said::FalselyNotApplied { new_key } => Some(new_key),
        };
        let resolve = Resolve {
            key: steps.names.key(name),
            verdict: verdict.clone(),
            operator: "operator".to_owned(),
            reason: "looked".to_owned(),
            seen: None,
            at: moment(steps.scenario, 0, self.before.now),
        };
        let command = Command::Resolve(resolve);
        let reply = apply(&mut self.world, steps.scenario, &steps.names, 0, &command);
        let Reply::Resolved(Resolved::Done(state)) = reply else {
            return Ok(false);
        };
        if let Some(new_key) = lies {
            self.world.left.lies -= 1;
            self.world.left.new_keys -= u8::from(new_key);
            self.world.seen.lies.push((name, new_key));
        }
        if let Resolution::NotApplied { .. } = verdict {
            let unproven = self.world.tries.iter_mut().filter(|it| it.name == name);
            for attempt in unproven.filter(|attempt| attempt.proof == Proof::None) {
                attempt.proof = Proof::Said;
            }
        }
        self.say(|| {
            let falsely = if lies.is_some() { "falsely " } else { "" };
            format!("a person says {falsely}that {name} is {}", state.word())
        });
        debug_assert!(!matches!(state, State::Intended));
        let judged = never::verdict(self.scenario(), self.before, name);
        self.judge(judged)
    }
}
