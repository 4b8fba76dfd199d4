//! Many sidecars on one resource, random tokens: what they were told, in which order, is judged afterwards.
//!
//! What always holds: moments are ticks of one counter, taken before a question is asked and after it was
//! answered. Whatever is asserted of two steps is asserted only where one had ended before the other began, or
//! spanned it whole: those have one order for everybody.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::servers::shared;
use super::unknown::admission;
use super::{PostgresBackend, sidecar, sidecars};
use crate::protocol::command::{Admit, Command, Record, Reply, Ruling};
use crate::protocol::ids::{AttemptId, FencingToken, InstanceId, OperationKey};
use crate::protocol::operation::State;
use crate::protocol::outcome::Evidence;
use crate::protocol::policy::{IfOlderUnsettled, Order, Policy};
use crate::protocol::rejection::Rejection;
use crate::store::Backend;
use crate::store::conformance::commands as c;

const SIDECARS: u128 = 6;
const STEPS: u64 = 60;

/// `SplitMix64`.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

/// One question, from before it was asked until it was answered.
#[derive(Debug)]
struct Asked {
    began: u64,
    ended: u64,
    token: u64,
    key: OperationKey,
    told: Told,
}

#[derive(Debug)]
enum Told {
    /// And from when on its end was being recorded, which is `None` where it never was.
    Granted {
        attempt: AttemptId,
        over_from: u64,
        applied: bool,
    },
    /// The mark that it was stale against.
    Stale(u64),
    Else,
}

/// What all of them share.
#[derive(Default)]
struct World {
    tick: AtomicU64,
    highest: AtomicU64,
}

impl World {
    fn now(&self) -> u64 {
        self.tick.fetch_add(1, Ordering::SeqCst)
    }
}

fn question(instance: InstanceId, id: &str, token: u64, order: Order) -> Admit {
    let base = c::fenced(id, "hot", &token.to_string(), instance);
    let mut admit = c::under(base, |policy| {
        policy.if_older_unsettled = IfOlderUnsettled::Refuse;
    });
    Arc::make_mut(&mut admit.policy).order = order;
    admit
}

async fn work(
    world: Arc<World>,
    register: Arc<PostgresBackend>,
    own: u128,
    seed: u64,
) -> Vec<Asked> {
    let mut random = Random(seed ^ u64::try_from(own).unwrap());
    let mut told = Vec::new();
    for step in 0..STEPS {
        let highest = world.highest.load(Ordering::SeqCst);
        let token = (highest + random.below(4)).saturating_sub(2).max(1);
        world.highest.fetch_max(token, Ordering::SeqCst);
        // Some identities are asked for by several of them.
        let id = if random.below(3) == 0 {
            format!("shared-{}", step / 4)
        } else {
            format!("own-{own}-{step}")
        };
        let order = [Order::Free, Order::Strict][usize::try_from(random.below(2)).unwrap()];
        let admit = question(InstanceId(own), &id, token, order);
        let (key, attempt) = (admit.key.clone(), admit.attempt);
        let began = world.now();
        let reply = register
            .apply(Command::Admit(Box::new(admit)))
            .await
            .unwrap();
        let ended = world.now();
        let Reply::Admission(admission) = reply else {
            panic!("{reply:?}");
        };
        let ruling = match admission.ruling {
            Ruling::Granted(_) => {
                tokio::task::yield_now().await;
                let evidence = [c::applied(), c::unsent()];
                let which = usize::from(random.below(4) == 0);
                let over_from = world.now();
                record(&register, &key, attempt, evidence[which].clone()).await;
                Told::Granted {
                    attempt,
                    over_from,
                    applied: which == 0,
                }
            }
            Ruling::Refused(Rejection::StaleToken { current, .. }) => {
                Told::Stale(current.unwrap().generation())
            }
            _ => Told::Else,
        };
        told.push(Asked {
            began,
            ended,
            token,
            key,
            told: ruling,
        });
    }
    told
}

async fn record(
    register: &PostgresBackend,
    key: &OperationKey,
    attempt: AttemptId,
    evidence: Evidence,
) {
    let record = Record {
        key: key.clone(),
        attempt,
        evidence,
        open: false,
        at: c::at(500),
    };
    register.apply(Command::Record(record)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_fence_is_one_and_nothing_overtakes_what_is_unsettled() {
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let database = shared().database();
    let world = Arc::new(World::default());
    let mut all = tokio::task::JoinSet::new();
    for (own, register) in (1..).zip(sidecars(&database, SIDECARS).await) {
        all.spawn(work(Arc::clone(&world), register, own, seed));
    }
    let history: Vec<Asked> = all.join_all().await.into_iter().flatten().collect();
    judge_fence(&history);
    judge_order(&history);
    judge_outcomes(&history);
    let granted = history
        .iter()
        .filter(|it| matches!(it.told, Told::Granted { .. }))
        .count();
    let stale = history
        .iter()
        .filter(|it| matches!(it.told, Told::Stale(_)))
        .count();
    println!("{granted} granted, {stale} stale of {}", history.len());
    assert!(
        granted > 20 && stale > 5,
        "they hardly met: {granted} {stale}"
    );
    let fence = super::sidecar(database.url(), 99).await;
    let found = fence
        .resource(&c::resource_key("hot"))
        .await
        .unwrap()
        .unwrap();
    let highest = history.iter().map(|it| it.token).max().unwrap();
    assert_eq!(found.fence.mark, FencingToken::new(0, highest));
    assert!(found.unsettled.is_empty());
}

/// The mark is the highest token of all that was asked before, for everybody.
fn judge_fence(history: &[Asked]) {
    for one in history {
        let before = history.iter().filter(|other| other.ended < one.began);
        let at_least = before.map(|other| other.token).max().unwrap_or(0);
        let begun = history.iter().filter(|other| other.began < one.ended);
        match &one.told {
            Told::Stale(mark) => {
                assert!(
                    *mark >= at_least && *mark > one.token,
                    "{one:?}, at least {at_least}"
                );
                assert!(
                    begun.map(|it| it.token).any(|token| token == *mark),
                    "{one:?}"
                );
            }
            Told::Granted { .. } => assert!(one.token >= at_least, "{one:?} after {at_least}"),
            Told::Else => {}
        }
    }
}

/// Nothing newer is granted while something older is surely unsettled.
fn judge_order(history: &[Asked]) {
    for newer in history {
        let Told::Granted { .. } = newer.told else {
            continue;
        };
        for older in history {
            if let Told::Granted { over_from, .. } = older.told
                && older.token < newer.token
            {
                let unsettled_throughout = older.ended < newer.began && over_from > newer.ended;
                assert!(!unsettled_throughout, "{newer:?} over {older:?}");
            }
        }
    }
}

/// No operation is applied twice, and none is attempted twice at once.
fn judge_outcomes(history: &[Asked]) {
    for (index, one) in history.iter().enumerate() {
        for other in history.iter().skip(index + 1) {
            if let (
                Told::Granted {
                    applied,
                    over_from,
                    attempt,
                },
                Told::Granted {
                    applied: too,
                    over_from: over_too,
                    attempt: another,
                },
            ) = (&one.told, &other.told)
                && one.key == other.key
            {
                assert_ne!(attempt, another);
                assert!(!(*applied && *too), "{one:?} and {other:?}");
                let apart = *over_from < other.ended || *over_too < one.ended;
                assert!(apart, "{one:?} and {other:?}");
            }
        }
    }
}

/// Equal requests without a key, at the same moment at different sidecars: what one of them must see is a
/// row that is not there yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_equal_requests_without_a_key_one_is_sent() {
    use crate::protocol::operation::IdentityOrigin;
    use crate::protocol::time::Millis;
    let database = shared().database();
    let registers = sidecars(&database, 4).await;
    for round in 0..10_u8 {
        let mut all = tokio::task::JoinSet::new();
        for (own, register) in (1..).zip(registers.clone()) {
            all.spawn(async move {
                let id = format!("fresh-{round}-{own}");
                let admit = Admit {
                    origin: IdentityOrigin::Fresh,
                    blind_retry: Some(Millis(300_000)),
                    meaning: c::meaning(round),
                    ..c::admit(&id, InstanceId(own))
                };
                let reply = register
                    .apply(Command::Admit(Box::new(admit)))
                    .await
                    .unwrap();
                let Reply::Admission(admission) = reply else {
                    panic!("{reply:?}");
                };
                u32::from(matches!(admission.ruling, Ruling::Granted(_)))
            });
        }
        assert_eq!(
            all.join_all().await.into_iter().sum::<u32>(),
            1,
            "round {round}"
        );
    }
}

/// One identity under two resources meets in its own row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_identity_is_sent_once_whatever_resource_it_names() {
    let database = shared().database();
    let registers = sidecars(&database, 4).await;
    for round in 0..10_u8 {
        let mut all = tokio::task::JoinSet::new();
        for (own, register) in (1..).zip(registers.clone()) {
            all.spawn(async move {
                // A resource of its own: what was left unsettled in another round is in nobody's way.
                let (id, resource) = (format!("same-{round}"), format!("r-{round}-{own}"));
                let admit = Admit {
                    meaning: c::meaning(round),
                    ..c::fenced(&id, &resource, "1", InstanceId(own))
                };
                let key = admit.key.clone();
                let reply = register
                    .apply(Command::Admit(Box::new(admit)))
                    .await
                    .unwrap();
                let Reply::Admission(admission) = reply else {
                    panic!("{reply:?}");
                };
                let found = register.operation(&key, false).await.unwrap();
                let found = found.unwrap_or_else(|| panic!("{admission:?}"));
                assert_eq!(found.operation.state, State::Intended);
                assert_eq!(found.operation.attempts.len(), 1);
                u32::from(matches!(admission.ruling, Ruling::Granted(_)))
            });
        }
        assert_eq!(
            all.join_all().await.into_iter().sum::<u32>(),
            1,
            "round {round}"
        );
    }
}

/// Two decisions of one batch, the second of which was taken on what the first would have written: where the
/// first is not, the version that the second expects may be there all the same, and be somebody else's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_written_on_top_of_what_was_not() {
    let database = shared().database();
    let registers = sidecars(&database, 2).await;
    let (behind, newer) = (&registers[0], &registers[1]);
    for round in 0..10_u64 {
        let resource = format!("r-{round}");
        let ask = |id: String, token: &str, own: u128| {
            let admit = c::fenced(&id, &resource, token, InstanceId(own));
            let admit = Admit {
                meaning: c::meaning(u8::try_from(id.len()).unwrap()),
                ..admit
            };
            Command::Admit(Box::new(Admit {
                policy: Arc::new(Policy {
                    order: Order::Free,
                    ..Policy::clone(&admit.policy)
                }),
                ..admit
            }))
        };
        let first = ask(format!("first-{round}"), "1", 1);
        let Command::Admit(admit) = &first else {
            unreachable!("it is one");
        };
        let (key, attempt) = (admit.key.clone(), admit.attempt);
        behind.apply(first).await.unwrap();
        record(behind, &key, attempt, c::applied()).await;
        // The new owner, at another sidecar.
        let reply = newer
            .apply(ask(format!("new-{round}"), "2", 2))
            .await
            .unwrap();
        assert!(is_granted(&reply), "{reply:?}");
        // As many as it takes for one of them to meet the new owner's version.
        let late = (0..6).map(|number| {
            let id = format!("late-{round}-{}", "x".repeat(number));
            behind.apply(ask(id, "1", 1))
        });
        for reply in futures_util::future::join_all(late).await {
            let reply = reply.unwrap();
            assert!(!is_granted(&reply), "a stale token was admitted: {reply:?}");
        }
        let found = newer
            .resource(&c::resource_key(&resource))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(found.fence.mark, FencingToken::new(0, 2));
        assert_eq!(found.unsettled.len(), 1);
    }
}

fn is_granted(reply: &Reply) -> bool {
    match reply {
        Reply::Admission(admission) => matches!(admission.ruling, Ruling::Granted(_)),
        _ => false,
    }
}

/// Who is admitted under the twin's identity looks for notes, waits for the fence, and must notice a note that was
/// written while he waited: it has counted the fence up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_note_of_a_twin_counts_the_fence_up() {
    let database = shared().database();
    let one = sidecar(database.url(), 1).await;
    let first = c::fenced("first", "r", "1", InstanceId(1));
    let ruling = admission(&one, &first).await.unwrap();
    assert!(matches!(ruling, Ruling::Granted(_)), "{ruling:?}");
    let fence =
        || database.query("SELECT version || ' ' || encode(record, 'hex') FROM fencepost.fences");
    let before = fence();
    let twin = c::fenced("twin", "r", "1", InstanceId(1));
    let ruling = admission(&one, &twin).await.unwrap();
    assert!(matches!(ruling, Ruling::Refused(_)), "{ruling:?}");
    assert_eq!(database.query("SELECT count(*) FROM fencepost.twins"), "1");
    assert_eq!(
        before
            .strip_prefix("1 ")
            .map(|record| format!("2 {record}")),
        Some(fence())
    );
}
