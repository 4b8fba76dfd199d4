//! Kills under random traffic, a hundred at each kind of upstream, and a quarter as many power cuts;
//! `FENCEPOST_CRASH_KILLS=500` says how many kills else, for a long run by hand.
//!
//! What always holds: after every restart the callers' book and the upstream's ledger agree, and in
//! the end every operation is settled, or was said to need a person.
//!
//! What it does not do: repeat a run exactly. The seed gives the same choices; the machine's own
//! order of events differs.

use std::collections::HashMap;
use std::os::unix::process::ExitStatusExt;
use std::thread;

use serde_json::Value;

use super::book::Book;
use super::traffic::{Dice, OPERATION, Request, TOKEN};
use crate::support::gate::until;
use crate::support::http::Head;
use crate::support::proxy::Proxy;
use crate::support::script::Script;
use crate::support::setup::Setup;
use crate::support::upstream::{Keys, Upstream};

/// The short form; see `FENCEPOST_CRASH_KILLS`.
const KILLS: usize = 100;
const CALLERS: u64 = 6;
/// So many requests of each caller; then the proxy is killed wherever it is.
const REQUESTS: usize = 25;
/// How many kills go by between two looks at everything.
const AUDIT_EVERY: usize = 10;

const POINTS: [&str; 8] = [
    "before-intent",
    "after-intent",
    "after-resend",
    "after-first-byte",
    "after-last-byte",
    "after-answer",
    "before-outcome-commit",
    "after-outcome-commit",
];

const ROUTES: &str = r#"
effects:
  - on: POST /payments
    once: { header: Idempotency-Key }
    join: 1s
    SETTLE
  - on: PUT /statements/{date}
    once: "publish:{path.date}:{token.generation}"
    join: 1s
    SETTLE
    fence:
      resource: "statement:{path.date}"
      token: { header: Fencing-Token, mode: require }
      if_older_unsettled: { wait: 1s }
  - on: POST /accounts/{account}/payments
    once: { header: Idempotency-Key }
    join: 1s
    SETTLE
    fence:
      resource: "account:{path.account}"
      token: { header: Fencing-Token, mode: require }
      if_older_unsettled: { wait: 1s }
"#;

/// What goes with the process.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Loss {
    /// Nothing: what was written is there.
    Process,
    /// The power: what was not synced is gone.
    Power,
}

struct Campaign {
    upstream: Upstream,
    keys: Keys,
    loss: Loss,
    proxy: Proxy,
    book: Book,
    kills: usize,
    seed: u64,
    dice: Dice,
}

/// What whoever runs the test says.
fn said<T: std::str::FromStr<Err: std::fmt::Debug>>(name: &str) -> Option<T> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

impl Campaign {
    fn begin(keys: Keys, loss: Loss) -> Self {
        let seed = said("FENCEPOST_CRASH_SEED").unwrap_or_else(|| u64::from(std::process::id()));
        let kills = said("FENCEPOST_CRASH_KILLS").unwrap_or(KILLS);
        println!("FENCEPOST_CRASH_SEED={seed} FENCEPOST_CRASH_KILLS={kills}");
        let upstream = Upstream::start(keys);
        let (capability, settle) = match keys {
            Keys::Honoured => (
                "capability: [idempotent]\nkey: { header: Idempotency-Key, lifetime: 24h, value: derived }",
                "settle: [ { send_again: { attempts: 1000, backoff: { from: 5ms, to: 50ms } } } ]",
            ),
            Keys::Ignored => ("capability: [opaque]", ""),
        };
        let route = format!("{capability}{}", ROUTES.replace("SETTLE", settle));
        let mut setup = Setup::new(upstream.address(), &route);
        if loss == Loss::Power {
            setup = setup.on_a_disk_that_fails();
            setup.disk().unwrap().remembers_what_is_synced();
        }
        let mut proxy = Proxy::start(setup);
        proxy.kill();
        let kills = match loss {
            Loss::Process => kills,
            // Every sync costs a copy.
            Loss::Power => kills / 4,
        };
        Self {
            upstream,
            keys,
            loss,
            proxy,
            book: Book::default(),
            kills,
            seed,
            dice: Dice(seed),
        }
    }

    fn run(&mut self) {
        let mut points: HashMap<&str, usize> = HashMap::new();
        for number in 1..=self.kills {
            let point = *self.dice.one_of(&POINTS);
            let passage = 1 + self.dice.below(25);
            let died_there = self.round(number, &format!("{point}:{passage}"));
            *points
                .entry(if died_there { point } else { "anywhere" })
                .or_default() += 1;
            self.assert_ledger();
            if number % AUDIT_EVERY == 0 || number == self.kills {
                self.audit();
                println!("{number} kills, {} effects", self.upstream.effects().len());
            }
        }
        println!("killed at {points:?}");
        println!("callers were told {:?}", self.book.tally());
        let heads = self.upstream.heads().len();
        println!(
            "{heads} requests arrived, {} effects",
            self.upstream.effects().len()
        );
    }

    /// From one start to one kill. `false`: it had to be killed by hand.
    fn round(&mut self, number: usize, point: &str) -> bool {
        for _ in 0..self.dice.below(4) {
            let script = self.mishap();
            self.upstream.next(script);
        }
        if self.proxy.starts_again_dying_at(point) {
            let Self {
                proxy,
                book,
                upstream,
                seed,
                ..
            } = &*self;
            thread::scope(|scope| {
                for caller in 0..CALLERS {
                    let number = u64::try_from(number).unwrap();
                    let dice = Dice(seed ^ (number << 32) ^ (caller << 56));
                    scope.spawn(move || work(proxy, book, upstream, dice));
                }
            });
        }
        let died = self.proxy.end();
        match died {
            Some(status) => assert_eq!(status.signal(), Some(9), "{point}: {status}"),
            None => self.proxy.kill(),
        }
        self.lose();
        died.is_some()
    }

    /// Something that goes wrong at the upstream, besides.
    fn mishap(&mut self) -> Script {
        let refusals = match self.keys {
            // A 400 frees the identity: there, attempts could not be counted by operation.
            Keys::Ignored => 4,
            Keys::Honoured => 5,
        };
        match self.dice.below(refusals) {
            0 => Script::lose_answer(),
            1 => Script::cut_answer_after(self.dice.below(100)),
            2 => Script::refuse(500, r#"{"error":"no idea"}"#),
            3 => Script::refuse(402, r#"{"error":"no money"}"#),
            _ => Script::refuse(400, r#"{"error":"no sense"}"#),
        }
    }

    /// What must hold at every moment.
    fn assert_ledger(&self) {
        let mut effects: HashMap<String, usize> = HashMap::new();
        let mut latest: HashMap<String, u64> = HashMap::new();
        for effect in self.upstream.effects() {
            let operation = of(&effect.head, OPERATION).unwrap();
            let count = effects.entry(operation.clone()).or_default();
            *count += 1;
            assert_eq!(*count, 1, "a second effect of {operation}");
            if let Some(token) = of(&effect.head, TOKEN) {
                let token: u64 = token.parse().unwrap();
                let latest = latest.entry(effect.path.clone()).or_default();
                assert!(
                    token >= *latest,
                    "{operation} came after an effect under {latest}"
                );
                *latest = token;
            }
        }
        if self.keys == Keys::Ignored {
            self.assert_attempts();
        }
    }

    fn assert_attempts(&self) {
        let mut attempts: HashMap<String, usize> = HashMap::new();
        for head in self.upstream.heads() {
            *attempts.entry(of(&head, OPERATION).unwrap()).or_default() += 1;
        }
        for (operation, count) in attempts {
            let allowed = 1 + self.book.freed(&operation);
            assert!(
                count <= allowed,
                "{count} attempts of {operation}, {allowed} were allowed"
            );
        }
    }

    /// Starts it unarmed and looks at everything.
    fn audit(&mut self) {
        self.upstream.until_quiet();
        self.proxy.start_again();
        until("nothing is in doubt", || {
            self.in_state("INTENDED").is_empty() && self.in_state("UNCERTAIN").is_empty()
        });
        let stuck = self.in_state("NEEDS_ATTENTION");
        match self.keys {
            Keys::Honoured => assert!(stuck.is_empty(), "not settled: {stuck:?}"),
            Keys::Ignored => stuck.iter().for_each(|operation| self.resolve(operation)),
        }
        let contradictions = self.proxy.metric("fencepost_contradictions_total");
        assert!(
            contradictions.abs() < f64::EPSILON,
            "{contradictions} contradictions"
        );
        for outcome in self.book.outcomes() {
            self.send(&outcome.request);
        }
        self.assert_ledger();
        self.proxy.kill();
        self.lose();
    }

    /// What else is gone with the process.
    fn lose(&self) {
        match self.loss {
            Loss::Process => {}
            Loss::Power => self.proxy.disk().loses_what_was_not_synced(),
        }
    }

    fn in_state(&self, state: &str) -> Vec<Value> {
        let list = self
            .proxy
            .read(&format!("/v1/operations?limit=500&state={state}"));
        list["operations"].as_array().unwrap().clone()
    }

    /// A person looks at the provider's books and says what stands there.
    fn resolve(&self, operation: &Value) {
        let id = operation["id"].as_str().unwrap();
        let effects = self.upstream.effects();
        let found = effects
            .iter()
            .position(|it| of(&it.head, OPERATION).as_deref() == Some(id));
        let said = match found {
            Some(at) => format!(
                r#"{{"verdict":"applied","reason":"it is in the books","status":201,"body":{{"id":"effect-{}"}}}}"#,
                at + 1
            ),
            None => r#"{"verdict":"not_applied","reason":"it is not in the books"}"#.to_owned(),
        };
        if found.is_none() {
            self.book.free(id);
        }
        let path = format!("/v1/operations/provider/{}/resolve", id.replace(':', "%3A"));
        let answer = self.proxy.admin("POST", &path).json(&said).send();
        assert_eq!(answer.status, 200, "{id}: {}", answer.text());
    }

    fn send(&self, request: &Request) {
        let before = self.book.sends(request);
        let answer = request.call(&self.proxy).send();
        self.book.told(request, &before, &answer, &self.upstream);
    }
}

/// One caller, until it has done enough or the proxy is gone.
fn work(proxy: &Proxy, book: &Book, upstream: &Upstream, mut dice: Dice) {
    for _ in 0..REQUESTS {
        let request = Request::random(&mut dice, book);
        let before = book.sends(&request);
        let Ok(answer) = request.call(proxy).attempt() else {
            return;
        };
        book.told(&request, &before, &answer, upstream);
    }
}

fn of(head: &Head, field: &str) -> Option<String> {
    head.fields.first(field).map(str::to_owned)
}

/// B01.
#[test]
fn kills_at_an_upstream_that_honours_keys_make_no_second_effect() {
    Campaign::begin(Keys::Honoured, Loss::Process).run();
}

#[test]
fn kills_at_an_upstream_that_cannot_deduplicate_make_no_second_attempt() {
    Campaign::begin(Keys::Ignored, Loss::Process).run();
}

/// E11.
#[test]
fn power_cuts_at_an_upstream_that_cannot_deduplicate_make_no_second_attempt() {
    Campaign::begin(Keys::Ignored, Loss::Power).run();
}
