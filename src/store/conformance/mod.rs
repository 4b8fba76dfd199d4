//! One suite for every backend: the same scenarios, and random commands compared with `memory`.
//!
//! What always holds: a scenario knows only the door ([`Register`] and `Backend`), never how a
//! backend keeps its rows, and asserts what a caller could be hurt by.
//!
//! What it does not do: fault a backend (its own tests do), or test the rules themselves (`protocol`).

mod amending;
mod clocks;
pub(crate) mod commands;
mod keyless;
mod leases;
mod random;
mod reading;
mod scenarios;
pub(crate) mod settling;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tempfile::TempDir;

use super::memory::MemoryBackend;
use super::postgres::servers::{Database, shared};
use super::seal::{KEY_LEN, MasterKey};
use super::{Backend, Register, Remember, postgres, sqlite};
use crate::clock::Clock;
use crate::protocol::ids::InstanceId;
use crate::protocol::time::Millis;

const REMEMBER: Remember = Remember {
    answers: Millis(7 * 86_400_000),
    identities: Millis(400 * 86_400_000),
};

/// Of shared registers that are made here.
pub(crate) const KEY: [u8; KEY_LEN] = [7; KEY_LEN];

/// A register under test, that can be restarted.
pub(super) struct Subject {
    register: Register,
    kind: Kind,
}

enum Kind {
    Memory(MemoryBackend),
    Sqlite(TempDir),
    /// And the key that it is sealed with.
    Postgres(Database, [u8; KEY_LEN]),
}

impl Subject {
    fn memory() -> Self {
        let instance = next_instance();
        let backend = MemoryBackend::new(instance);
        Self {
            register: Register::new(Arc::new(backend.clone())),
            kind: Kind::Memory(backend),
        }
    }

    async fn sqlite() -> Self {
        let dir = TempDir::new().unwrap();
        Self {
            register: open_sqlite(&dir, next_instance()).await,
            kind: Kind::Sqlite(dir),
        }
    }

    async fn postgres() -> Self {
        let database = shared().database();
        Self {
            register: open_postgres(database.url(), commands::TENANT, KEY, next_instance()).await,
            kind: Kind::Postgres(database, KEY),
        }
    }

    fn register(&self) -> &Register {
        &self.register
    }

    fn read(&self) -> &dyn Backend {
        self.register.read()
    }

    /// The next start of the process, on the same register.
    async fn restart(&mut self) {
        self.restart_as(next_instance()).await;
    }

    async fn restart_as(&mut self, instance: InstanceId) {
        self.register.read().close().await.unwrap();
        self.register = match &self.kind {
            Kind::Memory(backend) => Register::new(Arc::new(backend.reopened(instance))),
            Kind::Sqlite(dir) => open_sqlite(dir, instance).await,
            Kind::Postgres(database, key) => {
                open_postgres(database.url(), commands::TENANT, *key, instance).await
            }
        };
    }

    /// All of it in another database, by way of a file.
    async fn moved(self) -> Self {
        self.register.read().close().await.unwrap();
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("moved.jsonl");
        let clock = Clock::system().unwrap();
        let (key, exported) = match &self.kind {
            Kind::Memory(_) => panic!("it lies nowhere"),
            Kind::Sqlite(dir) => {
                let key = std::fs::read(dir.path().join("key")).unwrap();
                let exported = sqlite::export(sqlite_options(dir), None, &clock, &file).unwrap();
                (key.try_into().unwrap(), exported)
            }
            Kind::Postgres(database, key) => {
                let exported = postgres::export(&database.url(), None, &file, &clock)
                    .await
                    .unwrap();
                (*key, exported)
            }
        };
        let database = shared().database();
        let imported = postgres::import(&database.url(), None, &file)
            .await
            .unwrap();
        assert_eq!(imported, exported);
        Self {
            register: open_postgres(database.url(), commands::TENANT, key, next_instance()).await,
            kind: Kind::Postgres(database, key),
        }
    }
}

fn sqlite_options(dir: &TempDir) -> sqlite::Options {
    sqlite::Options {
        path: dir.path().to_owned(),
        create: true,
        ephemeral: true,
        keys: Vec::new(),
        remember: REMEMBER,
        witness: None,
        restored: sqlite::Restored::Refuse,
        reserve: 0,
    }
}

async fn open_sqlite(dir: &TempDir, instance: InstanceId) -> Register {
    let owner = sqlite::Owner {
        instance,
        clock: Clock::system().unwrap(),
        committed: Arc::new(|_, _| {}),
    };
    let opened = sqlite::open(sqlite_options(dir), owner).await.unwrap();
    Register::new(opened.backend)
}

/// An instance on the database at that address.
pub(crate) async fn open_postgres(
    url: String,
    tenant: &str,
    key: [u8; KEY_LEN],
    instance: InstanceId,
) -> Register {
    let options = postgres::Options {
        url,
        tls: None,
        keys: vec![MasterKey::new(key)],
        migrate: true,
        name: "conformance".to_owned(),
        tenant: tenant.to_owned(),
        part: postgres::Part::Sidecar,
        ephemeral: false,
        dead_after: postgres::USUAL_LIMIT,
        remember: REMEMBER,
    };
    let owner = postgres::Owner {
        instance,
        clock: Clock::system().unwrap(),
        committed: Box::new(|_, _| {}),
    };
    let opened = postgres::open(options, owner).await.unwrap();
    Register::new(opened.backend)
}

fn next_instance() -> InstanceId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    InstanceId(NEXT.fetch_add(1, Ordering::Relaxed).into())
}

/// Runs every scenario against every backend.
macro_rules! against_every_backend {
    ($($module:ident :: $scenario:ident),+ $(,)?) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $scenario() {
                super::$module::$scenario(super::Subject::memory()).await;
            })+
        }
        mod postgres_server {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $scenario() {
                super::$module::$scenario(super::Subject::postgres().await).await;
            })+
        }
        mod sqlite_file {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $scenario() {
                super::$module::$scenario(super::Subject::sqlite().await).await;
            })+
        }
    };
}

against_every_backend! {
    scenarios::an_operation_is_admitted_recorded_and_replayed,
    scenarios::of_many_identical_admissions_one_gets_the_permit,
    scenarios::a_refused_request_raises_the_fence_all_the_same,
    scenarios::a_newer_generation_waits_for_the_older_one,
    scenarios::a_twin_is_noted_for_good,
    scenarios::the_note_of_a_twin_is_void_when_the_first_was_not_applied,
    scenarios::a_resend_gets_the_stored_bytes,
    scenarios::a_resend_is_forbidden_once_overtaken,
    scenarios::an_operation_is_parked_and_resolved,
    scenarios::a_sequence_never_goes_back,
    scenarios::a_not_applied_operation_is_admitted_again,
    scenarios::after_a_restart_an_intent_is_uncertain,
    scenarios::a_fence_survives_a_restart,
    scenarios::an_answer_survives_a_restart_byte_for_byte,
    scenarios::evidence_twice_changes_nothing,
    scenarios::evidence_without_an_intent_is_a_contradiction,
    scenarios::identities_are_compared_by_their_exact_bytes,
    scenarios::nothing_is_granted_without_a_connection,
    keyless::an_equal_request_without_a_key_finds_the_one_in_doubt,
    amending::a_repair_sees_what_was_applied_and_where,
    amending::so_many_are_no_accident_of_one_wild_token,
    amending::in_a_new_epoch_every_token_of_before_is_stale,
    amending::in_a_new_epoch_leases_of_before_are_lost,
    leases::a_lease_outlives_the_process,
    leases::a_lease_cuts_off_the_owner_before,
    clocks::a_suspended_machine_makes_an_intent_overdue,
    clocks::a_wall_clock_that_is_set_makes_no_intent_overdue,
    clocks::another_boot_counts_as_past,
    clocks::a_key_grows_old_while_the_machine_sleeps,
    clocks::a_key_is_as_old_as_the_older_clock_says,
    clocks::beyond_a_boot_a_key_is_dated_by_the_wall_clock,
    clocks::beyond_a_boot_a_clock_that_went_back_ends_a_key,
    reading::a_peek_sees_what_was_committed,
    reading::stored_requests_go_when_settled,
    reading::operations_are_listed_newest_first_in_pages,
    reading::operations_are_found_by_what_they_are,
    reading::an_operation_is_found_in_every_incarnation,
    reading::what_is_in_doubt_is_listed_from_a_cursor,
    reading::a_resource_shows_what_stands_in_its_way,
    reading::the_last_applied_is_the_one_admitted_last,
    reading::resources_are_listed_by_name,
    leases::leases_are_listed_by_name,
    reading::the_summary_counts,
    reading::what_presses_is_told,
    reading::an_event_log_tells_the_story,
    settling::what_is_not_found_often_enough_was_not_applied,
    settling::what_is_found_completes_with_its_answer,
    settling::an_undo_is_durable_before_it_is_sent,
    settling::an_undo_that_was_not_sent_leaves_nothing,
    settling::what_was_given_up_is_asked_after_again,
}
