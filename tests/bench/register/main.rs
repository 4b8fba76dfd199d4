//! Measures a register alone, through its own door and without HTTP: what its one writer
//! costs for each operation, and what stored, unsettled and forgotten operations do to that.
//!
//! What always holds: an *operation* is two commands, each committed with fsync before it is answered:
//! an admission under a fence, and the record of its answer. Registers that are compared take turns
//! within one run, because only ratios of one run mean anything. Every line on stdout is JSON.
//!
//! What it does not do: pass or fail, or run by itself: whoever asks for it builds it.
//!
//! ```text
//! bench() { cargo bench --features bench --bench register -- "$@"; }
//! bench fill   --dir /tmp/full --operations 10000000
//! bench turns  --dir /tmp/empty --dir /tmp/full --concurrency 32
//! bench fill   --dir /tmp/old --operations 1000000
//! bench purge  --dir /tmp/old
//! bench unsettled --dir /tmp/crashed --operations 100000
//! bench restart --dir /tmp/crashed
//! bench shared --url postgres://… --sidecars 3
//! bench fill-shared --url postgres://…/full --operations 10000000
//! bench shared --url postgres://…/empty --than postgres://…/full
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    unreachable_pub,
    reason = "a benchmark that cannot go on ends with a panic; it measures by clocks, and figures are rounded anyway"
)]

mod bare;
mod figures;
mod fill;
mod lived;
mod load;
mod register;
mod shared;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, Parser, Subcommand};
use fencepost::protocol::time::Millis;

use figures::{Figures, say};
use load::{Ids, Shape};
use register::Bench;

/// As in the product.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Longer than anything here was remembered for.
const FOR_EVER: Millis = Millis(400 * 86_400_000);

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    what: What,
    /// Cargo says so to every benchmark.
    #[arg(long, hide = true, global = true)]
    bench: bool,
}

#[derive(Subcommand)]
enum What {
    /// Makes a register with so many settled operations, once.
    Fill {
        #[arg(long)]
        dir: PathBuf,
        #[arg(long)]
        operations: u64,
        #[command(flatten)]
        shape: ShapeArguments,
    },
    /// Admits so many operations and leaves them unsettled.
    Unsettled {
        #[arg(long)]
        dir: PathBuf,
        #[arg(long)]
        operations: u64,
        #[command(flatten)]
        shape: ShapeArguments,
    },
    /// Measures registers in turn; the first is what the others are compared with.
    Turns {
        #[arg(long)]
        dir: Vec<PathBuf>,
        /// Takes turns with SQLite alone too, in this folder.
        #[arg(long)]
        bare: Option<PathBuf>,
        #[arg(long, default_value_t = 3)]
        rounds: usize,
        #[command(flatten)]
        pressure: Pressure,
        #[command(flatten)]
        shape: ShapeArguments,
    },
    /// Measures one register while it forgets every answer in it, and while it forgets none.
    Purge {
        #[arg(long)]
        dir: PathBuf,
        #[arg(long, default_value_t = 3)]
        rounds: usize,
        #[command(flatten)]
        pressure: Pressure,
        #[command(flatten)]
        shape: ShapeArguments,
    },
    /// Measures a register in PostgreSQL in turn with `pgbench` doing two transactions of the same kind.
    Shared {
        /// Of a database for nothing else.
        #[arg(long)]
        url: String,
        /// How many sidecars share the callers between them, in turn with one that has all.
        #[arg(long, default_value_t = 1)]
        sidecars: usize,
        /// Also takes turns with `pgbench`.
        #[arg(long)]
        pgbench: bool,
        /// Also takes turns with one sidecar of this register.
        #[arg(long)]
        than: Option<String>,
        #[arg(long, default_value_t = 3)]
        rounds: usize,
        #[command(flatten)]
        pressure: Pressure,
        #[command(flatten)]
        shape: ShapeArguments,
    },
    /// Makes a register in PostgreSQL with so many settled operations, once.
    FillShared {
        /// Of a database for nothing else.
        #[arg(long)]
        url: String,
        #[arg(long)]
        operations: u64,
        #[command(flatten)]
        shape: ShapeArguments,
    },
    /// Measures from opening a register to its first admission.
    Restart {
        #[arg(long)]
        dir: PathBuf,
        #[command(flatten)]
        shape: ShapeArguments,
    },
}

#[derive(Args, Clone, Copy)]
struct ShapeArguments {
    /// How many resources the operations are spread over.
    #[arg(long, default_value_t = 1_000_000)]
    resources: u64,
    /// Do ids follow in order, as those with a time in front do? Else they are random.
    #[arg(long)]
    ordered_ids: bool,
}

#[derive(Args, Clone, Copy)]
struct Pressure {
    /// How many callers there are at once.
    #[arg(long, default_value_t = 32)]
    concurrency: usize,
    /// How long each turn lasts.
    #[arg(long, default_value_t = 4)]
    seconds: u64,
}

impl ShapeArguments {
    fn shape(self) -> Shape {
        Shape {
            resources: self.resources,
            ids: if self.ordered_ids {
                Ids::Ordered
            } else {
                Ids::Random
            },
        }
    }
}

impl Pressure {
    async fn measure(self, bench: &Bench, shape: Shape) -> Figures {
        load::run(
            bench,
            shape,
            self.concurrency,
            Duration::from_secs(self.seconds),
        )
        .await
    }
}

#[tokio::main]
async fn main() {
    match Arguments::parse().what {
        What::Fill {
            dir,
            operations,
            shape,
        } => fill::settled(&dir, operations, shape.shape()).await,
        What::Unsettled {
            dir,
            operations,
            shape,
        } => fill::unsettled(&dir, operations, shape.shape()).await,
        What::Turns {
            dir,
            bare,
            rounds,
            pressure,
            shape,
        } => turns(&dir, bare.as_ref(), rounds, pressure, shape.shape()).await,
        What::Purge {
            dir,
            rounds,
            pressure,
            shape,
        } => purge(&dir, rounds, pressure, shape.shape()).await,
        What::Shared {
            url,
            sidecars,
            pgbench,
            than,
            rounds,
            pressure,
            shape,
        } => {
            let beside = shared::Beside {
                sidecars,
                pgbench,
                register: than,
            };
            shared::turns(&url, beside, rounds, pressure, shape.shape()).await;
        }
        What::FillShared {
            url,
            operations,
            shape,
        } => lived::settled(&url, operations, shape.shape()).await,
        What::Restart { dir, shape } => restart(&dir, shape.shape()).await,
    }
}

async fn turns(
    dirs: &[PathBuf],
    bare: Option<&PathBuf>,
    rounds: usize,
    pressure: Pressure,
    shape: Shape,
) {
    let mut totals = vec![Figures::default(); dirs.len()];
    let mut bare_total = Figures::default();
    for round in 0..rounds {
        for (dir, total) in dirs.iter().zip(&mut totals) {
            let bench = Bench::open(dir, FOR_EVER).await;
            let figures = pressure.measure(&bench, shape).await;
            bench.close().await;
            say("turn", &dir.display(), round, &figures);
            total.add(&figures);
        }
        if let Some(dir) = bare.cloned() {
            let length = Duration::from_secs(pressure.seconds);
            let measured = tokio::task::spawn_blocking(move || bare::run(&dir, shape, length));
            let figures = measured.await.unwrap();
            say("turn", &"SQLite alone", round, &figures);
            bare_total.add(&figures);
        }
    }
    for (dir, total) in dirs.iter().zip(&totals) {
        say("total", &dir.display(), rounds, total);
        figures::say_ratios(&dir.display(), &totals[0], total);
    }
    if bare.is_some() {
        say("total", &"SQLite alone", rounds, &bare_total);
        figures::say_ratios(&"register / SQLite alone", &bare_total, &totals[0]);
    }
}

/// The two take turns on one open register: `remember` belongs to its opening, so that it is opened
/// anew for each.
async fn purge(dir: &Path, rounds: usize, pressure: Pressure, shape: Shape) {
    let (mut without, mut with) = (Figures::default(), Figures::default());
    for round in 0..rounds {
        let bench = Bench::open(dir, FOR_EVER).await;
        let figures = pressure.measure(&bench, shape).await;
        bench.close().await;
        say("turn", &"keeping", round, &figures);
        without.add(&figures);

        let bench = Bench::open(dir, fill::OLD).await;
        let keeping = bench.keep();
        let figures = pressure.measure(&bench, shape).await;
        keeping.abort();
        bench.close().await;
        say("turn", &"forgetting", round, &figures);
        with.add(&figures);
    }
    say("total", &"keeping", rounds, &without);
    say("total", &"forgetting", rounds, &with);
    figures::say_ratios(&"forgetting / keeping", &without, &with);
}

async fn restart(dir: &Path, shape: Shape) {
    let begun = Instant::now();
    let bench = Bench::open(dir, FOR_EVER).await;
    let opened = begun.elapsed();
    load::admit_one(&bench, shape).await;
    let admitted = begun.elapsed();
    println!(
        "{}",
        serde_json::json!({
            "kind": "restart", "register": dir, "opened_ms": opened.as_secs_f64() * 1e3,
            "first_admission_ms": admitted.as_secs_f64() * 1e3,
        })
    );
    bench.close().await;
}
