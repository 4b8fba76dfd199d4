//! Everything that might happen next.
//!
//! What always holds: what is named here is tried; whether it can happen is for the step to find out.

use super::super::scenario::Handling;
use super::super::wire::{Packet, Task};
use super::super::world::{CallerState, World};
use super::{Action, Looking, Manner, Said, Steps, steering};

impl Steps<'_> {
    /// Everything that might happen next.
    pub fn possible(&self, world: &World) -> Vec<Action> {
        let mut found = Vec::with_capacity(32);
        self.of_calls(world, &mut found);
        for (index, attempt) in (0..).zip(&world.tries) {
            self.of_try(world, index, attempt.task, attempt.packet, &mut found);
        }
        self.of_the_register(world, &mut found);
        of_people(world, &mut found);
        self.of_holders(world, &mut found);
        of_findings(world, &mut found);
        found.extend(
            (0..)
                .zip(&world.repeats)
                .map(|(index, _)| Action::Repeat(index)),
        );
        if world.now < self.scenario.horizon && !overdue_packet(world) {
            found.push(Action::Tick);
        }
        found
    }

    fn of_calls(&self, world: &World, found: &mut Vec<Action>) {
        for (call, caller) in (0..).zip(&world.calls) {
            match caller.state {
                CallerState::Asking => {}
                CallerState::Joined(_) => {
                    found.push(Action::Hear(call));
                    continue;
                }
                CallerState::Trying(_) | CallerState::Told(..) | CallerState::Over => continue,
            }
            for queued in [false, true] {
                if queued && (!self.scenario.queued || world.now == 0) {
                    continue;
                }
                let ask = |lost| Action::Ask { call, queued, lost };
                found.push(ask(false));
                if world.left.lost_replies > 0 {
                    found.push(ask(true));
                }
            }
        }
    }

    fn of_holders(&self, world: &World, found: &mut Vec<Action>) {
        for (holder, _) in (0..).zip(&world.holdings) {
            for queued in [false, true] {
                if queued && (!self.scenario.queued || world.now == 0) {
                    continue;
                }
                for lost in [false, true] {
                    if lost && world.left.lost_replies == 0 {
                        continue;
                    }
                    let manner = Manner { queued, lost };
                    found.push(Action::Acquire(holder, manner));
                    found.push(Action::Renew(holder, manner));
                }
            }
            let proxies = (0..).zip(&world.proxies);
            found.extend(proxies.map(|(proxy, _)| Action::Release(holder, proxy)));
        }
    }

    fn of_try(
        &self,
        world: &World,
        attempt: u8,
        task: Task,
        packet: Packet,
        found: &mut Vec<Action>,
    ) {
        let (left, at_work) = (
            &world.left,
            matches!(task, Task::Waiting(_) | Task::Listening),
        );
        match task {
            Task::Permitted => {
                found.push(Action::Send(attempt));
                found.push(Action::GiveUp(attempt));
                if self.scenario.freeze > 0 {
                    found.push(Action::Freeze(attempt));
                }
            }
            Task::Frozen(_) => found.push(Action::Thaw(attempt)),
            Task::Waiting(since) if world.now > since && left.timeouts > 0 => {
                found.push(Action::TimeOut {
                    attempt,
                    lost: false,
                });
                if left.lost_replies > 0 {
                    found.push(Action::TimeOut {
                        attempt,
                        lost: true,
                    });
                }
            }
            Task::Waiting(_) | Task::Listening | Task::Gone => {}
        }
        match packet {
            Packet::Flying(_) => {
                found.push(Action::Deliver(attempt, Handling::Proper));
                if left.odd > 0 {
                    let odd = self.scenario.upstream.odd.iter();
                    found.extend(odd.map(|how| Action::Deliver(attempt, *how)));
                }
                if left.losses > 0 {
                    found.push(Action::LosePacket(attempt));
                    if at_work {
                        found.push(Action::Vanish(attempt));
                        found.push(Action::Cut(attempt));
                    }
                }
            }
            Packet::Answered(_) if at_work => {
                let arrives = |lost| Action::Answer { attempt, lost };
                found.push(arrives(false));
                if left.lost_replies > 0 {
                    found.push(arrives(true));
                }
                if left.losses > 0 {
                    found.push(Action::LoseAnswer(attempt));
                    found.push(Action::Vanish(attempt));
                }
            }
            Packet::Over if task == Task::Listening => found.push(Action::StopListening(attempt)),
            Packet::Unsent | Packet::Answered(_) | Packet::Over => {}
        }
    }

    fn of_the_register(&self, world: &World, found: &mut Vec<Action>) {
        let left = &world.left;
        let records = (0..).zip(&world.records);
        let settled_by: Vec<Option<u8>> = records
            .map(|(record, _)| may_ask(world, record).then(|| settler(world, record)))
            .collect();
        for (proxy, _) in (0..).zip(&world.proxies) {
            if left.crashes > 0 {
                found.push(Action::Crash(proxy));
            }
            for (record, by) in (0..).zip(&settled_by) {
                let settle = |lost| Action::Settle {
                    proxy,
                    record,
                    lost,
                };
                if *by == Some(proxy) {
                    found.push(settle(false));
                    if left.lost_replies > 0 {
                        found.push(settle(true));
                    }
                }
                if self.scenario.stale_undos {
                    found.push(Action::StaleUndo { proxy, record });
                }
                if self.scenario.stale_plans {
                    found.push(Action::StaleResend { proxy, record });
                    found.push(Action::StalePark { proxy, record });
                }
            }
        }
        for instance in &world.living {
            if self.scenario.proxies > 1 && (!world.is_current(*instance) || left.false_deaths > 0)
            {
                found.push(Action::DeclareDead(*instance));
            }
        }
        for (record, _) in (0..).zip(&world.records) {
            let mut say = |verdict| found.push(Action::Say { record, verdict });
            if left.verdicts > 0 {
                say(Said::Applied);
                say(Said::NotApplied);
            }
            if left.lies > 0 {
                say(Said::FalselyApplied);
                say(Said::FalselyNotApplied { new_key: false });
                if left.new_keys > 0 {
                    say(Said::FalselyNotApplied { new_key: true });
                }
            }
        }
        steering::of_the_resource(world, &self.scenario.amends, found);
    }
}

fn of_people(world: &World, found: &mut Vec<Action>) {
    let left = &world.left;
    for (record, it) in (0..).zip(&world.records) {
        if !it.operation.state.is_unsettled() {
            continue;
        }
        let proxy = settler(world, record);
        if left.take_ups > 0 {
            found.push(Action::TakeUp { proxy, record });
        }
        let send = |lost| Action::SendFor {
            proxy,
            record,
            lost,
        };
        if left.sends > 0 {
            found.push(send(false));
            if left.lost_replies > 0 {
                found.push(send(true));
            }
        }
    }
}

fn of_learning(world: &World, found: &mut Vec<Action>, question: u8) {
    let learn = |lost| Action::Learn { question, lost };
    found.push(learn(false));
    if world.left.lost_replies > 0 {
        found.push(learn(true));
    }
}

/// Which proxy settles a record: the one of its last attempt if it lives, else the last that does. Every proxy
/// may; whoever is taken for dead only by the others sees its own attempts go on, as they do.
fn settler(world: &World, record: u8) -> u8 {
    let name = world.records[usize::from(record)].name;
    let last = world.tries_of(name).last();
    let lives = |it: &u8| world.living.contains(it);
    let own = |it: &u8| lives(it) && last.is_some_and(|attempt| attempt.instance == *it);
    let index = world.proxies.iter().position(own);
    let index = index.or_else(|| world.proxies.iter().rposition(lives));
    u8::try_from(index.unwrap_or(world.proxies.len() - 1)).unwrap()
}

/// Questions are counted: only where the next step would be one.
fn may_ask(world: &World, record: u8) -> bool {
    let operation = &world.records[usize::from(record)].operation;
    let asks = operation.settle.steps.iter().next();
    world.left.questions > 0 || asks.is_none_or(|(_, step)| step.question().is_none())
}

fn of_findings(world: &World, found: &mut Vec<Action>) {
    for (question, it) in (0..).zip(&world.questions) {
        if it.seen.is_some() {
            of_learning(world, &mut *found, question);
            continue;
        }
        let look = |how| Action::Look { question, how };
        found.extend([look(Looking::Shown), look(Looking::Hidden)]);
        if world.left.unclear > 0 {
            found.push(look(Looking::Unclear));
        }
    }
    for (letter, _) in (0..).zip(&world.letters) {
        found.push(Action::CallBack {
            letter,
            lost: false,
        });
        if world.left.lost_replies > 0 {
            found.push(Action::CallBack { letter, lost: true });
        }
    }
    for (undo, it) in (0..).zip(&world.undos) {
        match it.packet {
            Packet::Unsent => found.extend([Action::SendUndo(undo), Action::GiveUpUndo(undo)]),
            Packet::Flying(_) => found.push(Action::DeliverUndo(undo)),
            Packet::Answered(_) => found.push(Action::AnswerUndo(undo)),
            Packet::Over => {}
        }
        if it.at_work && it.packet != Packet::Unsent && world.left.losses > 0 {
            found.push(Action::CutUndo(undo));
        }
    }
}

/// Must something arrive before time can pass?
fn overdue_packet(world: &World) -> bool {
    let undo = world
        .undos
        .iter()
        .any(|undo| matches!(undo.packet, Packet::Flying(until) if until <= world.now));
    undo || world.tries.iter().any(|attempt| {
        matches!(attempt.packet, Packet::Flying(until) if until <= world.now)
            || matches!(attempt.task, Task::Frozen(until) if until <= world.now)
    })
}
