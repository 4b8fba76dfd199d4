//! Random commands: every backend gives the replies, and ends with the tables, of `memory`.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;

use super::Subject;
use super::commands as c;
use super::settling as s;
use crate::protocol::command::{
    Admission, Admit, Command, Presented, Record, Reply, Resend, ResendReply, Resolution, Ruling,
    TokenField,
};
use crate::protocol::finding::{Finder, Found, NotKnown};
use crate::protocol::ids::Sequence;
use crate::protocol::ids::{AttemptId, FencingToken, InstanceId, OperationKey, TokenSource};
use crate::protocol::operation::{IdentityOrigin, Operation};
use crate::protocol::outcome::{AnswerClass, Evidence, Unsent};
use crate::protocol::policy::{
    IfOlderUnsettled, IfTwin, Order, PerGeneration, Policy, SettlePolicy, TokenMode,
};
use crate::protocol::start::Start;
use crate::protocol::steps::StepIndex;
use crate::protocol::time::{Millis, Moment};
use crate::protocol::void::{BeginVoid, VoidEnd, VoidReply, Voided};
use crate::store::OperationQuery;

/// One step; small numbers, so that steps meet.
#[derive(Clone, Debug)]
enum Step {
    Admit(Box<Asked>),
    /// Of the attempts granted so far, one ends (perhaps again).
    Record {
        attempt: prop::sample::Index,
        evidence: usize,
        open: bool,
    },
    Resend(u8),
    Park(u8),
    /// A look-up of this turn or another; or a callback, which may speak for good.
    Find {
        id: u8,
        found: u8,
        turn: u32,
        callback: Option<bool>,
    },
    /// A step has its turn.
    Start(u8, u8),
    BeginVoid(u8),
    TakeUp(u8),
    /// Of the undos granted so far, one ends (perhaps again).
    Voided {
        attempt: prop::sample::Index,
        end: u8,
    },
    Resolve {
        id: u8,
        verdict: u8,
    },
    Restart,
    Pass(u64),
}

#[derive(Clone, Debug)]
struct Asked {
    id: u8,
    follows_incarnation: bool,
    derived: bool,
    fingerprint: u8,
    resource: Option<u8>,
    token: Option<u64>,
    sequence: Option<u64>,
    order: bool,
    rules: (usize, usize, usize, usize),
    reserved: bool,
}

fn asked() -> impl Strategy<Value = Asked> {
    let what = (0..4_u8, any::<bool>(), any::<bool>(), 0..2_u8);
    let place = (
        prop::option::weighted(0.8, 0..2_u8),
        prop::option::weighted(0.8, 1..5_u64),
        prop::option::of(1..4_u64),
    );
    let rules = (0..3_usize, 0..3_usize, 0..3_usize, 0..3_usize);
    let how = (any::<bool>(), rules, prop::bool::weighted(0.9));
    (what, place, how).prop_map(|(what, place, how)| {
        let (id, follows_incarnation, derived, fingerprint) = what;
        let (resource, token, sequence) = place;
        let (order, rules, reserved) = how;
        Asked {
            id,
            follows_incarnation,
            derived,
            fingerprint,
            resource,
            token,
            sequence,
            order,
            rules,
            reserved,
        }
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => asked().prop_map(|asked| Step::Admit(Box::new(asked))),
        6 => (any::<prop::sample::Index>(), 0..7_usize, prop::bool::weighted(0.2)).prop_map(
            |(attempt, evidence, open)| Step::Record { attempt, evidence, open }
        ),
        2 => (0..4_u8).prop_map(Step::Resend),
        1 => (0..4_u8).prop_map(Step::Park),
        4 => (0..4_u8, 0..3_u8, 1..3_u32, prop::option::weighted(0.3, any::<bool>())).prop_map(
            |(id, found, turn, callback)| Step::Find { id, found, turn, callback }
        ),
        1 => (0..4_u8, 0..3_u8).prop_map(|(id, step)| Step::Start(id, step)),
        2 => (0..4_u8).prop_map(Step::BeginVoid),
        1 => (0..4_u8).prop_map(Step::TakeUp),
        1 => (any::<prop::sample::Index>(), 0..3_u8)
            .prop_map(|(attempt, end)| Step::Voided { attempt, end }),
        1 => (0..4_u8, 0..3_u8).prop_map(|(id, verdict)| Step::Resolve { id, verdict }),
        1 => Just(Step::Restart),
        1 => (0..60_000_u64).prop_map(Step::Pass),
    ]
}

/// What turns steps into commands; the same commands go to both backends.
struct Script {
    instance: InstanceId,
    now: u64,
    number: u64,
    granted: Vec<(OperationKey, AttemptId)>,
    undone: Vec<(OperationKey, AttemptId)>,
}

impl Script {
    fn begun() -> Self {
        Self {
            instance: InstanceId(1_000_000),
            now: 0,
            number: 0,
            granted: Vec::new(),
            undone: Vec::new(),
        }
    }

    fn attempt(&mut self) -> AttemptId {
        self.number += 1;
        AttemptId {
            instance: self.instance,
            number: self.number,
        }
    }

    /// `None`: the step is no command.
    fn command(&mut self, step: &Step) -> Option<Command> {
        let at = c::at(self.now);
        match step {
            Step::Admit(asked) => Some(Command::Admit(Box::new(self.admit(asked)))),
            Step::Record {
                attempt,
                evidence,
                open,
            } => {
                let (key, attempt) = match self.granted.as_slice() {
                    [] => return None,
                    granted => attempt.get(granted).clone(),
                };
                Some(Command::Record(Record {
                    key,
                    attempt,
                    evidence: evidence_of(*evidence),
                    open: *open,
                    at,
                }))
            }
            Step::Resend(id) => Some(Command::Resend(Resend {
                attempt: self.attempt(),
                at,
                ..c::resend(&key(*id), self.instance)
            })),
            Step::Park(id) => {
                let mut park = c::park(&key(*id));
                park.at = at;
                Some(Command::Park(park))
            }
            Step::Find { .. } => found(step, at),
            Step::Start(id, step) => Some(Command::Start(Start {
                key: key(*id),
                step: StepIndex(*step),
                at,
            })),
            Step::BeginVoid(id) => Some(Command::BeginVoid(BeginVoid {
                attempt: self.attempt(),
                ..s::begin_void(&key(*id), self.instance, at)
            })),
            Step::TakeUp(id) => Some(Command::TakeUp(s::take_up(&key(*id), at))),
            Step::Voided { attempt, end } => self.voided(*attempt, *end, at),
            Step::Resolve { id, verdict } => {
                let verdict = match verdict {
                    0 => Resolution::Applied(c::answer(200)),
                    new_key => Resolution::NotApplied {
                        new_key: *new_key == 2,
                    },
                };
                let mut resolve = c::resolve(&key(*id), verdict);
                resolve.at = at;
                Some(Command::Resolve(resolve))
            }
            Step::Restart | Step::Pass(_) => None,
        }
    }

    fn voided(&self, attempt: prop::sample::Index, end: u8, at: Moment) -> Option<Command> {
        let (key, attempt) = match self.undone.as_slice() {
            [] => return None,
            undone => attempt.get(undone).clone(),
        };
        let end = match end {
            0 => VoidEnd::Undone(c::answer(409)),
            1 => VoidEnd::Unclear(NotKnown::Unanswered),
            _ => VoidEnd::NotSent(Unsent::ConnectionLost),
        };
        Some(Command::Voided(Voided {
            key,
            attempt,
            end,
            at,
        }))
    }

    fn admit(&mut self, asked: &Asked) -> Admit {
        let base = c::admit("unused", self.instance);
        Admit {
            key: key(asked.id),
            follows_incarnation: asked.follows_incarnation,
            origin: if asked.derived {
                IdentityOrigin::Derived
            } else {
                IdentityOrigin::Caller
            },
            meaning: c::meaning(asked.fingerprint),
            presented: asked.resource.map(|resource| Presented {
                resource: c::resource_key(&format!("r{resource}")),
                token: asked.token.map_or(TokenField::Absent, |generation| {
                    TokenField::Token(FencingToken::new(0, generation).unwrap())
                }),
                source: TokenSource::new("workers"),
                acquisition: None,
                sequence: asked.sequence.and_then(Sequence::from_value),
            }),
            policy: Arc::new(policy_of(asked)),
            attempt: self.attempt(),
            at: c::at(self.now),
            reserved: asked.reserved,
            ..base
        }
    }

    fn note(&mut self, reply: &Reply) {
        let grant = match reply {
            Reply::Admission(Admission {
                ruling: Ruling::Granted(grant),
                ..
            })
            | Reply::Resend(ResendReply::Granted(grant)) => grant,
            Reply::Void(VoidReply::Granted(grant)) => {
                self.undone.push((grant.key.clone(), grant.attempt));
                return;
            }
            Reply::Admission(_)
            | Reply::Resend(_)
            | Reply::Recorded(_)
            | Reply::Parked(_)
            | Reply::Started(_)
            | Reply::Found(_)
            | Reply::Void(_)
            | Reply::Voided(_)
            | Reply::TakenUp(_)
            | Reply::Resolved(_)
            | Reply::Steered(_)
            | Reply::Leased(_)
            | Reply::Noted(_) => return,
        };
        self.granted.push((grant.key.clone(), grant.attempt));
    }
}

fn found(step: &Step, at: Moment) -> Option<Command> {
    let Step::Find {
        id,
        found,
        turn,
        callback,
    } = step
    else {
        return None;
    };
    let found = match found {
        0 => Found::Applied(c::answer(200)),
        1 => Found::NotApplied,
        _ => Found::NotKnown(NotKnown::Unreadable),
    };
    let mut finding = s::found(&key(*id), found, *turn, at);
    if let Some(definitive) = *callback {
        finding.by = Finder::Callback { definitive };
    }
    Some(Command::Find(finding))
}

fn policy_of(asked: &Asked) -> Policy {
    let (token, generation, older, twin) = asked.rules;
    let mut fence = c::fence_policy();
    fence.token = [TokenMode::Require, TokenMode::Prefer, TokenMode::Observe][token];
    fence.per_generation = [
        PerGeneration::Many,
        PerGeneration::One,
        PerGeneration::Numbered,
    ][generation];
    fence.if_older_unsettled = [
        IfOlderUnsettled::Wait(Millis(1_000)),
        IfOlderUnsettled::Refuse,
        IfOlderUnsettled::Send(Millis(1_000)),
    ][older];
    fence.if_twin = [IfTwin::Refuse, IfTwin::Answer, IfTwin::Send][twin];
    let policy = c::policy();
    Policy {
        fence: asked.resource.map(|_| fence),
        order: if asked.order {
            Order::Strict
        } else {
            Order::Free
        },
        settle: SettlePolicy {
            steps: s::steps(),
            ..policy.settle
        },
        ..policy
    }
}

fn evidence_of(which: usize) -> Evidence {
    [
        c::applied(),
        c::interrupted(),
        c::unsent(),
        c::answered(402, AnswerClass::Refused),
        c::answered(412, AnswerClass::ConditionFailed),
        c::answered(400, AnswerClass::NotProcessed),
        c::answered(500, AnswerClass::Ambiguous),
    ][which]
        .clone()
}

fn key(id: u8) -> OperationKey {
    c::key(&format!("op-{id}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn sqlite_answers_and_keeps_what_memory_does(steps in vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async { compare(&steps, Subject::sqlite().await).await });
    }

    #[test]
    fn postgres_answers_and_keeps_what_memory_does(steps in vec(step(), 1..60)) {
        // What reads and writes the connections goes on while the next command is thought up.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async { compare(&steps, Subject::postgres().await).await });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Cases that forget nothing between embedded and shared: every reading is the same, and what comes
    /// then is answered as if nothing had been moved.
    #[test]
    fn what_is_moved_is_and_stays_what_it_was(
        before in vec(step(), 1..40),
        after in vec(step(), 1..30),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async { compare_moved(&before, &after).await });
    }
}

async fn compare_moved(before: &[Step], after: &[Step]) {
    let (mut tested, mut memory) = (Subject::sqlite().await, Subject::memory());
    let mut script = Script::begun();
    restart(&mut tested, &mut memory, &script).await;
    run(before, &mut tested, &mut memory, &mut script).await;
    // Both directions of the file.
    for _ in 0..2 {
        tested = tested.moved().await;
        script.instance = InstanceId(script.instance.0 + 1);
        restart(&mut tested, &mut memory, &script).await;
        compare_tables(&tested, &memory).await;
    }
    run(after, &mut tested, &mut memory, &mut script).await;
    compare_tables(&tested, &memory).await;
}

async fn compare(steps: &[Step], mut tested: Subject) {
    let mut memory = Subject::memory();
    let mut script = Script::begun();
    restart(&mut tested, &mut memory, &script).await;
    run(steps, &mut tested, &mut memory, &mut script).await;
    compare_tables(&tested, &memory).await;
    tested.restart_as(script.instance).await;
    compare_tables(&tested, &memory).await;
}

async fn restart(tested: &mut Subject, memory: &mut Subject, script: &Script) {
    tested.restart_as(script.instance).await;
    memory.restart_as(script.instance).await;
}

async fn run(steps: &[Step], tested: &mut Subject, memory: &mut Subject, script: &mut Script) {
    for step in steps {
        script.now += 10;
        match step {
            Step::Restart => {
                script.instance = InstanceId(script.instance.0 + 1);
                restart(tested, memory, script).await;
            }
            Step::Pass(ms) => script.now += ms,
            Step::Admit(_)
            | Step::Record { .. }
            | Step::Resend(_)
            | Step::Park(_)
            | Step::Find { .. }
            | Step::Start(..)
            | Step::BeginVoid(_)
            | Step::TakeUp(_)
            | Step::Voided { .. }
            | Step::Resolve { .. } => {
                let Some(command) = script.command(step) else {
                    continue;
                };
                let expected = memory.read().apply(command.clone()).await.unwrap();
                let reply = tested.read().apply(command).await.unwrap();
                assert!(reply == expected, "{step:?}: {reply:?}, not {expected:?}");
                script.note(&reply);
            }
        }
    }
}

async fn compare_tables(tested: &Subject, memory: &Subject) {
    let (one, other) = (tested.read(), memory.read());
    for id in 0..4 {
        let key = key(id);
        let stored = one.operation(&key, true).await.unwrap();
        assert!(stored == other.operation(&key, true).await.unwrap());
        let peeked = one.peek(&key, None).await.unwrap();
        assert!(peeked == other.peek(&key, None).await.unwrap());
    }
    for name in ["r0", "r1"] {
        let key = c::resource_key(name);
        let stored = one.resource(&key).await.unwrap();
        assert!(stored == other.resource(&key).await.unwrap(), "{name}");
    }
    let fences = one.resources(None, 10).await.unwrap();
    assert_eq!(fences, other.resources(None, 10).await.unwrap());
    for state in [None, Some("COMPLETED"), Some("UNCERTAIN")] {
        let query = OperationQuery {
            state,
            limit: 3,
            ..OperationQuery::default()
        };
        let page = one.operations(&query).await.unwrap();
        assert!(page == other.operations(&query).await.unwrap());
    }
    // In the same order; the numbers themselves may have gaps.
    let in_doubt = |found: Vec<(u64, Operation)>| found.into_iter().map(|(_, it)| it).collect();
    let expected: Vec<Operation> = in_doubt(other.in_doubt(0, 10).await.unwrap());
    assert!(expected == in_doubt(one.in_doubt(0, 10).await.unwrap()));
    let summary = one.summary().await.unwrap();
    assert_eq!(summary, other.summary().await.unwrap());
}
