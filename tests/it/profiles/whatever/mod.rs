//! Every shipped profile, whatever its upstream does: callers repeat what they were not told, requests, answers and
//! questions meet random moods, and the proxy is killed and started again. `FENCEPOST_PROFILES_OPERATIONS=60` says how
//! many operations each profile has, for a long run by hand; `FENCEPOST_PROFILES_SEED` says which moods.
//!
//! What always holds, by the upstream's own ledger: at most one effect of an operation where the profile says
//! `idempotent` or `conditional`, at most one attempt where it says `opaque`; no effect under an older token after one
//! under a newer; everything is settled as it happened, or waits for a person, as soon as its steps have had their
//! time; callers are told of their own effect, and always the same. Each rule is shown to be looked at.
//!
//! What it does not do: repeat a run exactly, for threads run as they like; hold anything for longer than a profile
//! reckons with (`tests/model` shows what breaks then).

mod answers;
mod blind;
mod judge;
mod moods;
mod rows;

use std::collections::HashMap;
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use answers::{Question, after};
use judge::{Evidence, OPERATION, Operation, faults, is_at_its_end};
use moods::mood;
use rows::{ROWS, Row};

use super::*;
use crate::support::call::Answer;
use crate::support::dice::{Dice, said};
use crate::support::gate::until_after;
use crate::support::proxy::FAILPOINTS;
use crate::support::upstream::Effect;

/// Of each profile; see `FENCEPOST_PROFILES_OPERATIONS`.
const OPERATIONS: usize = 6;

/// Unless a seed is said or the run is long.
const SEED: u64 = 20_260_913;

/// So many operations for each time that the proxy is killed.
const OPERATIONS_OF_KILL: usize = 3;

/// So often a caller says the same again, at most.
const TRIES: usize = 3;

/// How far the upstream's lists are behind what it does.
const INDEX_LAG: Duration = Duration::from_millis(300);

/// A lag here is longer than anything is held, and than lists are behind.
const RECKONING: Pace<'_> = Pace {
    minute: "2s",
    hour: "2s",
    within: "6s",
};

/// When the steps of everything have had their time: all resends and questions, some passes between them, and an
/// upstream that is left alone for a while, on a slow machine.
const BOUND: Duration = Duration::from_secs(40);

/// How often is looked whether everything has come to its end.
const LOOK: Duration = Duration::from_millis(50);

/// One profile's run.
struct Trial<'a> {
    row: &'a Row,
    scene: Scene,
    operations: Vec<Operation>,
    told: Mutex<Vec<(String, Answer)>>,
    undone: Arc<Mutex<HashMap<String, Instant>>>,
    /// Callers that have not given up yet.
    busy: AtomicUsize,
}

impl<'a> Trial<'a> {
    fn begin(
        row: &'a Row,
        text: &str,
        upstream: Upstream,
        operations: usize,
        dice: &mut Dice,
    ) -> Self {
        let route = format!("{QUICK}{}", row.route);
        let scene = Scene::with(row.request.profile, text, upstream, &route);
        let undone: Arc<Mutex<HashMap<String, Instant>>> = Arc::default();
        if let Some(told) = row.told {
            let (undone, asked) = (Arc::clone(&undone), AtomicUsize::new(0));
            scene.upstream.when_asked(move |effects, head, body| {
                if head.word(1).ends_with("/cancel") {
                    let key = after(body, r#""idempotency_key":""#).to_owned();
                    undone.lock().unwrap().insert(key, Instant::now());
                }
                let astray = asked.fetch_add(1, Ordering::SeqCst) % 4 == 1;
                told(&question(effects, head, astray))
            });
        }
        let operation = |number: usize| Operation {
            key: uuid(dice),
            token: row.fenced.then(|| 100 + u64::try_from(number).unwrap() / 2),
        };
        Self {
            row,
            scene,
            operations: (0..operations).map(operation).collect(),
            told: Mutex::default(),
            undone,
            busy: AtomicUsize::new(0),
        }
    }

    /// Everybody calls, while the proxy is killed so many times.
    fn run(&mut self, dice: &mut Dice, kills: usize) {
        let operations = self.operations.clone();
        self.busy.store(operations.len(), Ordering::SeqCst);
        let address = self.scene.proxy.address();
        let (row, told, busy) = (self.row, &self.told, &self.busy);
        thread::scope(|scope| {
            for (number, operation) in operations.iter().enumerate() {
                scope.spawn(move || {
                    let _over = Over(busy);
                    insist(row, (address, number, TRIES), operation, told);
                });
            }
            for _ in 0..kills {
                kill(&mut self.scene, row, busy, dice);
            }
            let patience = Duration::from_secs(60);
            until_after(
                patience,
                "nobody calls any more, or the proxy is dead",
                || busy.load(Ordering::SeqCst) == 0 || self.scene.proxy.end().is_some(),
            );
            if self.scene.proxy.end().is_some() {
                self.scene.proxy.start_again();
            }
        });
    }

    /// What there is to be judged, once everything had its time.
    fn end(mut self, bound: Duration) -> Evidence {
        let proxy = &mut self.scene.proxy;
        // Once more: it may still have a point to die at.
        proxy.kill();
        proxy.start_again();
        let begun = Instant::now();
        let list = "/v1/operations?limit=500";
        let records = loop {
            let page = proxy.read(list);
            let records = page["operations"].as_array().unwrap().clone();
            if records.iter().all(is_at_its_end) || begun.elapsed() > bound {
                break records;
            }
            thread::sleep(LOOK);
        };
        // Its event log outlives the proxy.
        let is_contradicted = |record: &Value| {
            let operation = self.scene.operation(record["id"].as_str().unwrap());
            operation["events"].to_string().contains("CONTRADICTION")
        };
        let contradictions = records.iter().any(is_contradicted);
        let proxy = &mut self.scene.proxy;
        assert!(proxy.stop().success());
        let upstream = &self.scene.upstream;
        upstream.until_quiet();
        Evidence {
            operations: self.operations,
            effects: upstream.effects(),
            heads: upstream.heads(),
            served: upstream.served(),
            undone: self.undone.lock().unwrap().clone(),
            records,
            told: self.told.into_inner().unwrap(),
            contradictions,
        }
    }
}

/// One caller less, however he ends.
struct Over<'a>(&'a AtomicUsize);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A caller who says it again until he is told how it ended, or loses patience.
fn insist(
    row: &Row,
    (address, number, tries): (SocketAddr, usize, usize),
    operation: &Operation,
    told: &Mutex<Vec<(String, Answer)>>,
) {
    let key = &operation.key;
    let call = row.request.call(address, key, &number.to_string());
    let call = call.field(OPERATION, key);
    let call = match operation.token {
        Some(token) => call.token(&token.to_string()),
        None => call,
    };
    for _ in 0..tries {
        until("the proxy is there", || TcpStream::connect(address).is_ok());
        let Ok(answer) = call.attempt() else {
            continue;
        };
        let is_over = answer.status < 300 && answer.field("fencepost-state").is_none();
        told.lock().unwrap().push((key.clone(), answer));
        if is_over {
            return;
        }
    }
}

/// New moods, and then the end of the proxy: wherever it is, or at a point of its own.
fn kill(scene: &mut Scene, row: &Row, busy: &AtomicUsize, dice: &mut Dice) {
    for _ in 0..2 + dice.below(4) {
        scene.upstream.next(mood(dice, row));
    }
    let heads = scene.upstream.heads().len() + 1 + dice.below(6);
    until("somebody calls, or nobody does any more", || {
        scene.upstream.heads().len() >= heads
            || busy.load(Ordering::SeqCst) == 0
            || scene.proxy.end().is_some()
    });
    scene.proxy.kill();
    if dice.below(2) == 0 {
        scene.proxy.start_again();
    } else {
        let point = dice.one_of(&FAILPOINTS);
        let passage = 1 + dice.below(6);
        // It may get there while it starts: then it is dead again, and started the next time.
        scene
            .proxy
            .starts_again_dying_at(&format!("{point}:{passage}"));
    }
}

fn question<'a>(effects: &'a [Effect], head: &'a Head, astray: bool) -> Question<'a> {
    let shown = effects.iter().enumerate();
    let shown = shown.filter(|(_, it)| it.at.elapsed() >= INDEX_LAG);
    Question {
        effects: shown.map(|(index, it)| (index + 1, it)).collect(),
        all: effects,
        target: head.word(1),
        astray,
    }
}

/// A key that every profile takes.
fn uuid(dice: &mut Dice) -> String {
    let (one, two) = (dice.roll(), dice.roll());
    format!(
        "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
        one >> 32,
        one & 0xffff,
        (one >> 16) & 0xfff,
        two & 0xfff,
        two >> 16
    )
}

/// One profile, and what is wrong with it.
fn tried(row: &Row, seed: u64, operations: usize) -> Vec<String> {
    let mut dice = Dice(seed);
    let text = at_pace(row.request.profile, &RECKONING);
    let mut trial = Trial::begin(row, &text, row.upstream(), operations, &mut dice);
    for _ in 0..operations {
        trial.scene.upstream.next(mood(&mut dice, row));
    }
    trial.run(&mut dice, operations / OPERATIONS_OF_KILL);
    faults(row, &trial.end(BOUND))
}

#[test]
fn whatever_the_upstream_does_every_profile_keeps_its_promise() {
    let long = said("FENCEPOST_PROFILES_OPERATIONS");
    let operations = long.unwrap_or(OPERATIONS);
    let usual = match long {
        Some(_) => u64::from(std::process::id()),
        None => SEED,
    };
    let seed = said("FENCEPOST_PROFILES_SEED").unwrap_or(usual);
    println!("FENCEPOST_PROFILES_SEED={seed} FENCEPOST_PROFILES_OPERATIONS={operations}");
    let faults: Vec<_> = thread::scope(|scope| {
        let trial = |(number, row): (u64, &'static Row)| {
            let run = scope.spawn(move || tried(row, seed ^ (number << 48), operations));
            (row.name, run)
        };
        let runs: Vec<_> = (1..).zip(ROWS).map(trial).collect();
        let ended = runs.into_iter().map(|(name, run)| (name, run.join()));
        ended
            .flat_map(|(name, run)| {
                match run {
                    Ok(faults) => faults,
                    Err(_) => vec!["its run broke off".to_owned()],
                }
                .into_iter()
                .map(move |fault| format!("{name}: {fault}"))
            })
            .collect()
    });
    assert!(faults.is_empty(), "seed {seed}:\n{}", faults.join("\n"));
}

#[test]
fn every_shipped_profile_has_a_row() {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/profiles");
    for file in std::fs::read_dir(shipped).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy();
        assert!(ROWS.iter().any(|row| row.request.profile == name), "{name}");
    }
}
