//! What a crash run stands on beside the proxies: an upstream with a ledger, the callers' book, and what must
//! hold of both.
//!
//! What always holds: the ledger decides; it is read without the proxy. What a person says of an operation
//! is what the ledger says.

use std::collections::HashMap;

use serde_json::Value;

use super::book::Book;
use super::traffic::{OPERATION, Request, TOKEN};
use crate::support::call::Call;
use crate::support::dice::{Dice, said};
use crate::support::gate::until;
use crate::support::http::Head;
use crate::support::proxy::Proxy;
use crate::support::script::Script;
use crate::support::setup::Setup;
use crate::support::upstream::{Keys, Upstream};

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

/// Shared by all callers of a run.
pub(super) struct World {
    pub(super) upstream: Upstream,
    pub(super) book: Book,
    keys: Keys,
}

/// Of this run, unless one was said.
pub(super) fn seed() -> u64 {
    said("FENCEPOST_CRASH_SEED").unwrap_or_else(|| u64::from(std::process::id()))
}

impl World {
    pub(super) fn begin(keys: Keys) -> Self {
        Self {
            upstream: Upstream::start(keys),
            book: Book::default(),
            keys,
        }
    }

    /// A proxy before that upstream.
    pub(super) fn setup(&self) -> Setup {
        let (capability, settle) = match self.keys {
            Keys::Honoured => (
                "capability: [idempotent]\nkey: { header: Idempotency-Key, lifetime: 24h, value: derived }",
                "settle: [ { send_again: { attempts: 1000, backoff: { from: 5ms, to: 50ms } } } ]",
            ),
            Keys::Ignored => ("capability: [opaque]", ""),
        };
        let route = format!("{capability}{}", ROUTES.replace("SETTLE", settle));
        Setup::new(self.upstream.address(), &route)
    }

    /// Somebody's next requests meet with something that goes wrong at the upstream, besides.
    pub(super) fn mishaps(&self, dice: &mut Dice) {
        for _ in 0..dice.below(4) {
            let script = self.mishap(dice);
            self.upstream.next(script);
        }
    }

    fn mishap(&self, dice: &mut Dice) -> Script {
        let refusals = match self.keys {
            // A 400 frees the identity: there, attempts could not be counted by operation.
            Keys::Ignored => 4,
            Keys::Honoured => 5,
        };
        match dice.below(refusals) {
            0 => Script::lose_answer(),
            1 => Script::cut_answer_after(dice.below(100)),
            2 => Script::refuse(500, r#"{"error":"no idea"}"#),
            3 => Script::refuse(402, r#"{"error":"no money"}"#),
            _ => Script::refuse(400, r#"{"error":"no sense"}"#),
        }
    }

    /// Somebody sends it; what he is told must fit all that anybody was told. `false`: he was told nothing.
    pub(super) fn ask(&self, request: &Request, call: &Call) -> bool {
        let before = self.book.sends(request);
        let Ok(answer) = call.attempt() else {
            return false;
        };
        self.book.told(request, &before, &answer, &self.upstream);
        true
    }

    /// What must hold at every moment.
    pub(super) fn assert_ledger(&self) {
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

    /// Looks at everything, once nothing of a sender that is dead can arrive any more: all is settled or needs
    /// a person, who then says what the ledger says; and every outcome that anybody was told is still the
    /// same, wherever it is asked for.
    pub(super) fn audit(&self, proxies: &[Proxy]) {
        let first = &proxies[0];
        until("nothing is in doubt", || !is_in_doubt(first));
        let stuck = in_state(first, "NEEDS_ATTENTION");
        match self.keys {
            Keys::Honoured => assert!(stuck.is_empty(), "not settled: {stuck:?}"),
            Keys::Ignored => stuck.iter().for_each(|it| self.resolve(first, it)),
        }
        for proxy in proxies {
            let contradictions = proxy.metric("fencepost_contradictions_total");
            assert!(
                contradictions.abs() < f64::EPSILON,
                "{contradictions} contradictions"
            );
        }
        for (outcome, proxy) in self.book.outcomes().iter().zip(proxies.iter().cycle()) {
            let request = &outcome.request;
            assert!(self.ask(request, &request.call(proxy.address())));
        }
        self.assert_ledger();
    }

    /// A person looks at the provider's books and says what stands there.
    fn resolve(&self, proxy: &Proxy, operation: &Value) {
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
        let answer = proxy.admin("POST", &path).json(&said).send();
        assert_eq!(answer.status, 200, "{id}: {}", answer.text());
    }
}

/// Is anything neither settled nor left to a person?
pub(super) fn is_in_doubt(proxy: &Proxy) -> bool {
    !in_state(proxy, "INTENDED").is_empty() || !in_state(proxy, "UNCERTAIN").is_empty()
}

fn in_state(proxy: &Proxy, state: &str) -> Vec<Value> {
    let list = proxy.read(&format!("/v1/operations?limit=500&state={state}"));
    list["operations"].as_array().unwrap().clone()
}

fn of(head: &Head, field: &str) -> Option<String> {
    head.fields.first(field).map(str::to_owned)
}
