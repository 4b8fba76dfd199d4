//! A register that is opened to be measured.
//!
//! What always holds: it is opened as `fencepost serve` does, with its reserve and its witness; every
//! commit is counted.
//!
//! What it does not do: count what readers do.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fencepost::clock::Clock;
use fencepost::protocol::ids::InstanceId;
use fencepost::protocol::time::Millis;
use fencepost::store::seal::MasterKey;
use fencepost::store::sqlite::{
    Opened, Options, Owner, Remember, Restored, SqliteBackend, USUAL_RESERVE, open,
};
use fencepost::store::{Register, postgres};
use tokio::task::JoinHandle;

pub const INSTANCE: InstanceId = InstanceId(0x00be_9c4e);

pub struct Bench {
    pub register: Register,
    pub clock: Clock,
    pub commits: Arc<Commits>,
    pub instance: InstanceId,
    /// Of the embedded register.
    backend: Option<Arc<SqliteBackend>>,
}

/// What the writer says of its transactions.
#[derive(Default)]
pub struct Commits {
    pub transactions: AtomicU64,
    pub commands: AtomicU64,
    pub took_us: AtomicU64,
}

impl Commits {
    fn count(&self, took_us: u64, commands: usize) {
        self.transactions.fetch_add(1, Ordering::Relaxed);
        self.commands.fetch_add(commands as u64, Ordering::Relaxed);
        self.took_us.fetch_add(took_us, Ordering::Relaxed);
    }
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
            committed: Arc::new(move |took_us, commands| told.count(took_us, commands)),
        };
        let Opened { backend, .. } = open(options, owner).await.unwrap();
        Self {
            register: Register::new(backend.clone()),
            clock,
            commits,
            instance: INSTANCE,
            backend: Some(backend),
        }
    }

    /// One more sidecar of a register in PostgreSQL.
    pub async fn join(url: &str) -> Self {
        let commits = Arc::new(Commits::default());
        let told = Arc::clone(&commits);
        let clock = Clock::system().unwrap();
        let instance = InstanceId(u128::from(crate::load::seed()));
        let options = postgres::Options {
            url: url.to_owned(),
            tls: None,
            keys: vec![MasterKey::new([7; 32])],
            migrate: true,
            name: "bench".to_owned(),
            tenant: "payments".to_owned(),
            part: postgres::Part::Sidecar,
            ephemeral: false,
            dead_after: postgres::USUAL_LIMIT,
            remember: Remember {
                answers: Millis(7 * 86_400_000),
                identities: Millis(400 * 86_400_000),
            },
        };
        let owner = postgres::Owner {
            instance,
            clock: clock.clone(),
            committed: Box::new(move |took_us, commands| told.count(took_us, commands)),
        };
        let opened = postgres::open(options, owner).await.unwrap();
        Self {
            register: Register::new(opened.backend),
            clock,
            commits,
            instance,
            backend: None,
        }
    }

    /// Looks after the register meanwhile, as the product does.
    pub fn keep(&self) -> JoinHandle<()> {
        let backend = self.backend.clone().expect("an embedded register");
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
        self.register.read().close().await.unwrap();
    }
}

/// Processor time that a thread has used.
#[derive(Clone, Copy, Default)]
pub struct Processor {
    pub all_ns: u64,
    /// Of that, in the kernel: what files cost. Counted in ticks.
    pub kernel_ns: u64,
}

impl Processor {
    /// Of the register's writer; nothing where there is none.
    pub fn of_writer() -> Self {
        let threads = fs::read_dir("/proc/self/task").unwrap();
        let mut threads = threads.flatten().map(|entry| entry.path());
        let is_writer = |thread: &PathBuf| {
            fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.trim() == "register")
        };
        threads
            .find(is_writer)
            .map(|it| Self::of(&it))
            .unwrap_or_default()
    }

    pub fn of_this_thread() -> Self {
        Self::of(Path::new("/proc/thread-self"))
    }

    pub fn since(self, earlier: Self) -> Self {
        Self {
            all_ns: self.all_ns - earlier.all_ns,
            kernel_ns: self.kernel_ns - earlier.kernel_ns,
        }
    }

    /// From `schedstat` (nanoseconds), and `stat`, whose fifteenth field is hundredths of a second in
    /// the kernel; the second is a name in brackets.
    fn of(thread: &Path) -> Self {
        let field = |file: &str, index: usize| -> u64 {
            let text = fs::read_to_string(thread.join(file)).unwrap();
            let text = text.rsplit(')').next().unwrap();
            let mut fields = text.split_whitespace();
            fields.nth(index).unwrap().parse().unwrap()
        };
        Self {
            all_ns: field("schedstat", 0),
            kernel_ns: field("stat", 12) * 10_000_000,
        }
    }
}

/// Bytes that this process has written so far.
pub fn written_bytes() -> u64 {
    let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = io.lines().find_map(|line| line.strip_prefix("wchar: "));
    line.and_then(|number| number.parse().ok()).unwrap_or(0)
}
