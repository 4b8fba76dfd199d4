//! A provider, the way to it, and workers of one column.
//!
//! What always holds: what is done to the network is done at the provider's door in every column;
//! with Fencepost, also between it and its callers.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;

use super::Column;
use crate::support::gate::until;
use crate::support::link::Link;
use crate::support::ports;
use crate::support::proxy::Proxy;
use crate::support::python::python;
use crate::support::setup::Setup;
use crate::workers::Worker;

/// What Fencepost is told of the provider. A payment happens once ever, by the order it is for,
/// whatever key the SDK makes; a publication once per generation. `{settle}`: how what nobody knows of a
/// payment is found out, where that is not the capability's usual way.
const EFFECTS: &str = r#"
effects:
  - on: POST /v1/payment_intents
    once: 'pay:{form["metadata[order]"]}'{settle}
  - on: PUT /statements/{date}
    once: "publish:{path.date}:{token.generation}"
    fence:
      resource: "statement:{path.date}"
      token: { header: Fencing-Token, mode: require }
  - on: POST /probe
    once: { header: Idempotency-Key }
"#;

const HONOURS_KEYS: &str =
    "capability: [idempotent]\nkey: { header: Idempotency-Key, lifetime: 24h, value: derived }";

/// So long does a provider remember keys that forgets them.
pub const LIFETIME: Duration = Duration::from_secs(3);

const FORGETS_KEYS: &str = "capability: [idempotent, query]\nkey: { header: Idempotency-Key, lifetime: 3s, value: derived }";

/// The provider lists what it did; a payment shows up there at once.
const ASKED: &str = r#"
    settle:
      - look_up:
          get: /v1/payment_intents?limit=100
          applied: 'response.body.data.exists_one(it, it.metadata.order == form["metadata[order]"])'
          not_applied: 'response.body.data.all(it, it.metadata.order != form["metadata[order]"])'
          outcome: { body: 'response.body.data.filter(it, it.metadata.order == form["metadata[order]"])[0]' }
          lag: 1s
          every: { from: 100ms, to: 100ms }"#;

/// One column's side of a row.
pub struct Stage {
    column: Column,
    /// The way to the provider.
    pub network: Link,
    /// Fencepost, and the way to it.
    front: Option<(Proxy, Link)>,
    /// Where the operations table lies.
    folder: TempDir,
}

impl Stage {
    /// At a provider that deduplicates by key, as Stripe does.
    pub fn honouring_keys(column: Column, provider: SocketAddr) -> Self {
        Self::new(column, provider, HONOURS_KEYS, "")
    }

    /// At a provider that deduplicates by key for [`LIFETIME`], and lists what it did.
    pub fn forgetting_keys(column: Column, provider: SocketAddr) -> Self {
        Self::new(column, provider, FORGETS_KEYS, ASKED)
    }

    /// At a provider that takes every request for a new one.
    pub fn without_keys(column: Column, provider: SocketAddr) -> Self {
        Self::new(column, provider, "capability: [opaque]", "")
    }

    /// At a provider that takes every request for a new one, and lists what it did.
    pub fn listing(column: Column, provider: SocketAddr) -> Self {
        Self::new(column, provider, "capability: [query]", ASKED)
    }

    fn new(column: Column, provider: SocketAddr, capability: &str, settle: &str) -> Self {
        let network = Link::to(provider);
        let front = (column == Column::Fencepost).then(|| {
            let effects = EFFECTS.replace("{settle}", settle);
            let setup = Setup::new(network.address(), &format!("{capability}{effects}"));
            let proxy = Proxy::start(setup);
            let road = Link::to(proxy.address());
            (proxy, road)
        });
        Self {
            column,
            network,
            front,
            folder: ports::folder(),
        }
    }

    /// A worker who is about to pay for that order.
    pub fn payer(&self, name: &str, order: &str) -> Worker {
        self.worker(name, &["pay", order])
    }

    /// A worker who is about to publish that text as the owner of that generation. (A worker of the
    /// operations table knows of no number but its leader's term.)
    pub fn publisher(&self, name: &str, text: &str, generation: &str) -> Worker {
        match self.column {
            Column::Fencepost => self.worker(name, &["publish", text, generation]),
            Column::LibraryAlone | Column::Table => self.worker(name, &["publish", text]),
        }
    }

    fn worker(&self, name: &str, what: &[&str]) -> Worker {
        let way = self.front.as_ref().map_or(&self.network, |(_, road)| road);
        let base_url = format!("http://{}", way.address());
        let script = match self.column {
            Column::LibraryAlone | Column::Fencepost => "it/matrix/python/sdk_alone.py",
            Column::Table => "it/matrix/python/operations_table.py",
        };
        let mut command = python(script);
        command.arg(base_url).args(what);
        if self.column == Column::Table {
            command.arg(self.table()).arg(name);
        }
        Worker::started(command)
    }

    /// Freezes it, but not while it moves its lease ahead: a frozen process would hold the file's lock,
    /// which no paused client does to a database server.
    pub fn pause(&self, worker: &Worker) {
        until("the worker is paused outside a transaction", || {
            worker.pause();
            let is_free = self.column != Column::Table || self.table_is_free();
            if !is_free {
                worker.wake();
            }
            is_free
        });
    }

    fn table_is_free(&self) -> bool {
        let table = rusqlite::Connection::open(self.table()).unwrap();
        table.busy_timeout(Duration::ZERO).unwrap();
        table.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok()
    }

    fn table(&self) -> PathBuf {
        self.folder.path().join("table")
    }

    /// The next so many answers are lost, on every part of the way.
    pub fn lose_answers(&self, count: usize) {
        for _ in 0..count {
            self.network.lose_next_answer();
            if let Some((_, road)) = &self.front {
                road.lose_next_answer();
            }
        }
    }

    /// Fencepost and the way to it, where there is one.
    pub fn front(&self) -> Option<&(Proxy, Link)> {
        self.front.as_ref()
    }

    /// Whatever runs beside the worker dies with it, and comes back.
    pub fn restart_sidecar(&mut self) {
        self.kill_sidecar();
        self.start_sidecar();
    }

    /// Whatever runs beside the worker dies with it.
    pub fn kill_sidecar(&mut self) {
        if let Some((proxy, _)) = &mut self.front {
            proxy.kill();
        }
    }

    pub fn start_sidecar(&mut self) {
        if let Some((proxy, _)) = &mut self.front {
            proxy.start_again();
        }
    }

    /// Waits until the newer publication has got as far as it gets while the older one is under way:
    /// to its answer, or into the register, where it waits.
    pub fn until_newer_is_as_far_as_it_gets(&self, newer: &mut Worker, generation: &str) {
        let Some((proxy, _)) = &self.front else {
            assert_eq!(newer.status(), 201);
            return;
        };
        until("the newer publication is known", || {
            let read = proxy.admin("GET", "/v1/resources/statement%3A2026-09-13");
            read.send().text().contains(&format!("\"{generation}\""))
        });
        // Had it been let out, it would be at the provider before this.
        assert_eq!(proxy.post("/probe").key("probe").send().status, 201);
    }

    /// The same worker's answer, where it waited.
    pub fn let_newer_end(&self, newer: &mut Worker) {
        if self.front.is_some() {
            assert_eq!(newer.status(), 201);
        }
    }
}
