//! The README's first screen: what a provider counts when something goes wrong, with what people
//! write today and with Fencepost.
//!
//! What always holds: every cell is played with real processes over real sockets and holds the
//! *provider's own* count; the README says what was measured, to the letter. The same calls, by the
//! same libraries with their defaults, in all three columns. With Fencepost what befalls the network
//! befalls both sides of it.
//!
//! `FENCEPOST_MATRIX=write tests/run --test it matrix` writes what it measured into the README;
//! without it a difference fails the test. Whatever it writes, a broken promise fails it.
//!
//! What it does not do: measure time (`tests/bench/run`), or show every fault (`story`, `crash`).

mod page;
mod rows;
mod stage;

use std::thread;

/// What stands between a worker and its provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    /// The retries of the client library.
    LibraryAlone,
    /// The same, with a table of operations and a leader: `python/operations_table.py`.
    Table,
    /// The worker of the first column, with another base URL.
    Fencepost,
}

const COLUMNS: [Column; 3] = [Column::LibraryAlone, Column::Table, Column::Fencepost];

/// What the provider counted, and what that means.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cell {
    /// Accepted effects.
    effects: usize,
    /// In words, where the number does not say it all.
    note: &'static str,
    /// A customer was charged twice, or an old result stands over a new one.
    harm: bool,
}

/// A row: what goes wrong, and a play of it.
type Row = (&'static str, fn(Column) -> Cell);

const ROWS: [Row; 8] = [
    ("the answer is lost", rows::lost_answer),
    ("the application calls again", rows::application_retry),
    ("the worker is killed after sending", rows::crash_after_send),
    ("a paused worker wakes up late", rows::paused_worker),
    ("a stale request is still on the wire", rows::stale_request),
    (
        "the API honours no keys, the answer is lost",
        rows::api_without_keys,
    ),
    (
        "the API honours no keys but can be asked, the answer is lost",
        rows::api_that_can_be_asked,
    ),
    (
        "the API has forgotten the key when the worker comes back",
        rows::forgotten_key,
    ),
];

/// All cells, each row in its own thread: they mostly wait.
fn measured() -> Vec<(&'static str, Vec<Cell>)> {
    thread::scope(|scope| {
        let playing = ROWS.map(|(name, play)| {
            let row = move || COLUMNS.map(play).to_vec();
            (name, scope.spawn(row))
        });
        playing
            .map(|(name, row)| (name, row.join().unwrap()))
            .to_vec()
    })
}

/// A15 (a key for every retry), B01 (the worker died in between) and the two articles' own stories,
/// beside what people do about them today.
#[test]
fn the_readme_shows_what_the_provider_counted() {
    let measured = measured();
    for (name, cells) in &measured {
        let with_fencepost = cells.last().unwrap();
        assert!(!with_fencepost.harm, "{name}: {with_fencepost:?}");
    }
    page::compare_or_write(&page::table(&measured));
}
