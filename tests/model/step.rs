//! What can happen next, and what becomes of the world when it does.
//!
//! What always holds: one action is one thing that happens atomically in the product: a transaction,
//! a byte that leaves, a packet that arrives, a process that dies. Everything that the rules decide is
//! decided by the real ones (`register`); every step is judged (`never`).

use std::fmt::Write as _;

use fencepost::protocol::policy::AnswerTable;

use super::never::{self, Judged, Violation};
use super::register::Names;
use super::scenario::{Handling, Scenario};
use super::wire::Shown;
use super::world::World;

pub use finding::Looking;
pub use leasing::{Manner, named};
pub use steering::applied;

mod asking;
mod finding;
mod idle;
mod leasing;
mod network;
mod people;
mod possible;
mod settling;
mod steering;

/// One thing that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A call is asked; decided late if `queued`; its reply is lost if `lost`.
    Ask { call: u8, queued: bool, lost: bool },
    /// A caller without a key hears what became of the operation that it joined.
    Hear(u8),
    /// The first byte leaves, or would have.
    Send(u8),
    /// All is checked, and the sender stands still.
    Freeze(u8),
    /// It goes on.
    Thaw(u8),
    /// Nothing was sent: the time is over, or the connection was dead.
    GiveUp(u8),
    /// The packet arrives.
    Deliver(u8, Handling),
    /// The packet never arrives; the sender's connection breaks.
    LosePacket(u8),
    /// The answer arrives.
    Answer { attempt: u8, lost: bool },
    /// The answer is lost; the connection breaks.
    LoseAnswer(u8),
    /// The connection breaks; the packet goes on.
    Cut(u8),
    /// The packet or the answer vanishes; nobody notices.
    Vanish(u8),
    /// The response limit passes; the attempt listens on.
    TimeOut { attempt: u8, lost: bool },
    /// An attempt has listened long enough.
    StopListening(u8),
    /// A write whose reply was lost is repeated.
    Repeat(u8),
    /// A proxy dies and another instance takes its place.
    Crash(u8),
    /// An instance is declared dead.
    DeclareDead(u8),
    /// The reconciler of a proxy takes the planned step.
    Settle { proxy: u8, record: u8, lost: bool },
    /// The reconciler of a proxy asks for a resend that nothing planned.
    StaleResend { proxy: u8, record: u8 },
    /// The reconciler of a proxy undoes an operation, by a plan of yesterday.
    StaleUndo { proxy: u8, record: u8 },
    /// The reconciler of a proxy gives an operation to a person, by a plan of yesterday.
    StalePark { proxy: u8, record: u8 },
    /// A person speaks.
    Say { record: u8, verdict: Said },
    /// A person has an operation asked after again.
    TakeUp { proxy: u8, record: u8 },
    /// A person has an operation sent again.
    SendFor { proxy: u8, record: u8, lost: bool },
    /// A person steers the resource.
    Steer(fencepost::protocol::fence::Deed),
    /// A person starts a new epoch.
    BeginEpoch,
    /// A question arrives at the upstream.
    Look { question: u8, how: Looking },
    /// Its answer arrives; the reply to what is recorded of it is lost if `lost`.
    Learn { question: u8, lost: bool },
    /// A callback comes in; it comes again if nobody says that it was recorded.
    CallBack { letter: u8, lost: bool },
    /// An undo leaves, or would have.
    SendUndo(u8),
    /// Nothing of it was sent.
    GiveUpUndo(u8),
    /// It arrives.
    DeliverUndo(u8),
    /// Its answer arrives.
    AnswerUndo(u8),
    /// Its connection breaks.
    CutUndo(u8),
    /// A holder wants the lease.
    Acquire(u8, Manner),
    /// A holder keeps it.
    Renew(u8, Manner),
    /// A holder gives it back, at that proxy.
    Release(u8, u8),
    /// Time passes.
    Tick,
}

/// What a person may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// It was applied, and that is so.
    Applied,
    /// It was not and cannot be any more.
    NotApplied,
    /// It was applied; it was not.
    FalselyApplied,
    /// It was not applied; it was, or still can be.
    FalselyNotApplied { new_key: bool },
}

/// What came of an action.
pub enum Came {
    /// It cannot happen here.
    Nothing,
    /// This.
    World(Box<World>),
    /// This, and it must never happen.
    Never(Violation),
}

/// What the steps of one exploration have in common.
pub struct Steps<'a> {
    pub scenario: &'a Scenario,
    pub names: Names,
    answers: AnswerTable,
}

/// One step under way.
struct Step<'a> {
    steps: &'a Steps<'a>,
    before: &'a World,
    world: Box<World>,
    /// The step in words, where somebody listens.
    words: Option<&'a mut String>,
}

/// `Ok(false)`: it cannot happen here.
type Happened = Result<bool, Violation>;

impl<'a> Steps<'a> {
    pub fn new(scenario: &'a Scenario) -> Self {
        Self {
            scenario,
            names: Names::default(),
            answers: AnswerTable::contract(),
        }
    }

    /// Takes one step; says it in words if `words` is there.
    pub fn take(&self, before: &World, action: Action, words: Option<&mut String>) -> Came {
        if self.comes_to_nothing(before, action) {
            return Came::Nothing;
        }
        let mut step = Step {
            steps: self,
            before,
            world: Box::new(before.clone()),
            words,
        };
        let happened = step.happen(action).and_then(|happened| {
            if happened {
                never::records(self.scenario, before, &step.world)?;
            }
            Ok(happened)
        });
        match happened {
            Ok(true) => Came::World(step.world),
            Ok(false) => Came::Nothing,
            Err(violation) => Came::Never(violation),
        }
    }
}

impl Step<'_> {
    fn happen(&mut self, action: Action) -> Happened {
        match action {
            Action::Ask { call, queued, lost } => self.ask(call, queued, lost),
            Action::Hear(call) => self.hear(call),
            Action::Send(attempt) => self.send(attempt),
            Action::Freeze(attempt) => self.freeze(attempt),
            Action::Thaw(attempt) => self.thaw(attempt),
            Action::GiveUp(attempt) => self.give_up(attempt),
            Action::Deliver(attempt, how) => self.deliver(attempt, how),
            Action::LosePacket(attempt) => self.lose_packet(attempt),
            Action::Answer { attempt, lost } => self.answer(attempt, lost),
            Action::LoseAnswer(attempt) => {
                self.world.left.losses -= 1;
                self.end_of_packet(attempt);
                self.say(|| format!("the answer to attempt {attempt} is lost"));
                self.record(attempt, Shown::Cut, false, false)
            }
            Action::Cut(attempt) => {
                self.world.left.losses -= 1;
                self.say(|| {
                    format!("the connection of attempt {attempt} breaks, its packet goes on")
                });
                self.record(attempt, Shown::Cut, false, false)
            }
            Action::Vanish(attempt) => {
                self.world.left.losses -= 1;
                self.end_of_packet(attempt);
                self.say(|| {
                    format!("what moves of attempt {attempt} vanishes, and nobody notices")
                });
                Ok(true)
            }
            Action::TimeOut { attempt, lost } => {
                self.world.left.timeouts -= 1;
                self.say(|| format!("attempt {attempt} runs into its limit and listens on"));
                self.record(attempt, Shown::TimedOut, true, lost)
            }
            Action::StopListening(attempt) => {
                self.say(|| format!("attempt {attempt} has listened long enough"));
                self.record(attempt, Shown::Cut, false, false)
            }
            Action::Repeat(index) => self.repeat(index),
            Action::Crash(proxy) => self.crash(proxy),
            Action::DeclareDead(instance) => self.declare_dead(instance),
            Action::Settle {
                proxy,
                record,
                lost,
            } => self.settle(proxy, record, lost),
            Action::StaleResend { proxy, record } => self.resend(proxy, record, false),
            Action::StaleUndo { proxy, record } => self.undo_by_old_plan(proxy, record),
            Action::StalePark { proxy, record } => self.park(proxy, record),
            Action::Say { record, verdict } => self.speak(record, verdict),
            Action::TakeUp { proxy, record } => self.take_up(proxy, record),
            Action::SendFor {
                proxy,
                record,
                lost,
            } => self.send_for(proxy, record, lost),
            Action::Steer(deed) => self.steer(deed),
            Action::BeginEpoch => self.begin_epoch(),
            Action::Look { question, how } => self.look(question, how),
            Action::Learn { question, lost } => self.learn(question, lost),
            Action::CallBack { letter, lost } => self.call_back(letter, lost),
            Action::SendUndo(undo) => self.send_undo(undo),
            Action::GiveUpUndo(undo) => self.give_up_undo(undo),
            Action::DeliverUndo(undo) => self.deliver_undo(undo),
            Action::AnswerUndo(undo) => self.answer_undo(undo),
            Action::CutUndo(undo) => self.cut_undo(undo),
            Action::Acquire(holder, manner) => self.acquire(holder, manner),
            Action::Renew(holder, manner) => self.renew(holder, manner),
            Action::Release(holder, proxy) => self.release(holder, proxy),
            Action::Tick => {
                self.world.now += 1;
                let now = self.world.now;
                self.say(|| format!("time passes: tick {now}"));
                if self.scenario().reboot_at == Some(now) {
                    self.world.left.crashes += 1;
                    return self.crash(0);
                }
                Ok(true)
            }
        }
    }

    fn scenario(&self) -> &Scenario {
        self.steps.scenario
    }

    fn say(&mut self, text: impl FnOnce() -> String) {
        if let Some(words) = &mut self.words {
            let gap = if words.is_empty() { "" } else { "; " };
            write!(words, "{gap}{}", text()).unwrap();
        }
    }

    fn judge(&self, judged: Judged) -> Happened {
        judged.map(|()| true)
    }
}
