//! A register that is opened to be measured.
//!
//! What always holds: it is opened as `fencepost serve` does, with its reserve and its witness; every
//! commit is counted.
//!
//! What it does not do: count what readers do.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fencepost::clock::Clock;
use fencepost::protocol::ids::InstanceId;
use fencepost::protocol::time::Millis;
use fencepost::store::sqlite::{
    Opened, Options, Owner, Remember, Restored, SqliteBackend, USUAL_RESERVE, open,
};
use fencepost::store::{Backend, Register};
use tokio::task::JoinHandle;

pub const INSTANCE: InstanceId = InstanceId(0x00be_9c4e);

pub struct Bench {
    pub register: Register,
    pub clock: Clock,
    pub commits: Arc<Commits>,
    backend: Arc<SqliteBackend>,
}

/// What the writer says of its transactions.
#[derive(Default)]
pub struct Commits {
    pub transactions: AtomicU64,
    pub commands: AtomicU64,
    pub took_us: AtomicU64,
}

impl Bench {
    /// Answers are remembered for `answers`.
    pub async fn open(dir: &Path, answers: Millis) -> Self {
        let commits = Arc::new(Commits::default());
        let told = Arc::clone(&commits);
        let clock = Clock::system().unwrap();
        let options = Options {
            path: dir.to_owned(),
            create: true,
            ephemeral: true,
            keys: Vec::new(),
            remember: Remember {
                answers,
                identities: Millis(400 * 86_400_000),
            },
            witness: None,
            restored: Restored::Refuse,
            reserve: USUAL_RESERVE,
        };
        let owner = Owner {
            instance: INSTANCE,
            clock: clock.clone(),
            committed: Arc::new(move |took_us, commands| {
                told.transactions.fetch_add(1, Ordering::Relaxed);
                told.commands.fetch_add(commands as u64, Ordering::Relaxed);
                told.took_us.fetch_add(took_us, Ordering::Relaxed);
            }),
        };
        let Opened { backend, .. } = open(options, owner).await.unwrap();
        Self {
            register: Register::new(backend.clone(), INSTANCE),
            clock,
            commits,
            backend,
        }
    }

    /// Looks after the register meanwhile, as the product does.
    pub fn keep(&self) -> JoinHandle<()> {
        let backend = Arc::clone(&self.backend);
        tokio::spawn(async move {
            backend
                .keep(|purged| {
                    if !purged.is_nothing() {
                        eprintln!("forgot {} answers", purged.answers);
                    }
                })
                .await;
        })
    }

    pub async fn close(self) {
        self.backend.close().await.unwrap();
    }
}

/// Nanoseconds of processor time that the writer's thread has used.
pub fn writer_cpu_ns() -> u64 {
    let threads = fs::read_dir("/proc/self/task").unwrap();
    for thread in threads.flatten().map(|entry| entry.path()) {
        let read = |file| fs::read_to_string(thread.join(file)).unwrap_or_default();
        if read("comm").trim() == "register" {
            let used = read("schedstat");
            return used.split(' ').next().unwrap().parse().unwrap();
        }
    }
    0
}

/// Bytes that this process has written so far.
pub fn written_bytes() -> u64 {
    let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = io.lines().find_map(|line| line.strip_prefix("wchar: "));
    line.and_then(|number| number.parse().ok()).unwrap_or(0)
}
