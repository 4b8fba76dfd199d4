//! Registers that are moved: what is refused, and that nothing is there of what was.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::super::servers::{Database, shared};
use super::super::{OpenError, accept_restored, export, import, take_back};
use super::restored::{until_admits, until_closed};
use super::sidecar;
use crate::clock::Clock;
use crate::protocol::command::{Command, Record, Reply, Ruling};
use crate::protocol::ids::InstanceId;
use crate::protocol::time::Millis;
use crate::store::about::Stands;
use crate::store::conformance::commands as c;
use crate::store::moving::MoveError;
use crate::store::{Backend, StoreError};

const OWN: InstanceId = InstanceId(1);

fn clock() -> Clock {
    Clock::system().unwrap()
}

/// A register with a few things of every kind, in a file.
async fn exported(folder: &TempDir) -> (Database, PathBuf) {
    let database = shared().database();
    let register = sidecar(database.url(), 1).await;
    for number in 0..5 {
        let admit = c::fenced(&format!("op-{number}"), &format!("r{number}"), "5", OWN);
        register
            .apply(Command::Admit(Box::new(admit.clone())))
            .await
            .unwrap();
        if number < 3 {
            let record = Record {
                key: admit.key,
                attempt: admit.attempt,
                evidence: c::applied(),
                open: false,
                at: c::at(500),
            };
            register.apply(Command::Record(record)).await.unwrap();
        }
    }
    let file = folder.path().join("moved.jsonl");
    export(&database.url(), None, &file, &clock())
        .await
        .unwrap();
    (database, file)
}

async fn refused(to: &Database, file: &Path) -> MoveError {
    import(&to.url(), None, file).await.unwrap_err()
}

fn is_absent(database: &Database) -> bool {
    database.query("SELECT to_regclass('fencepost.register') IS NULL") == "t"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_cut_or_changed_leaves_nothing() {
    let folder = TempDir::new().unwrap();
    let (_from, file) = exported(&folder).await;
    let whole = fs::read_to_string(&file).unwrap();
    let lines: Vec<_> = whole.split_inclusive('\n').collect();
    let to = shared().database();
    let without = |at: usize| -> String {
        let others = lines.iter().enumerate().filter(|(line, _)| *line != at);
        others.map(|(_, line)| *line).collect()
    };
    let mut broken: Vec<String> = (0..lines.len()).map(without).collect();
    // In the middle of the end, in the middle of a line, after a line, and nothing at all.
    for length in [whole.len() - 1, whole.len() / 2, lines[0].len(), 0] {
        broken.push(whole[..length].to_owned());
    }
    // Two operations in each other's place; a digit of an age; something after the end.
    let mut swapped = lines.clone();
    let first = lines
        .iter()
        .position(|it| it.contains("\"operation\""))
        .unwrap();
    swapped.swap(first, first + 1);
    broken.push(swapped.concat());
    broken.push(whole.replacen("\"read_boottime_ms\":", "\"read_boottime_ms\":1", 1));
    broken.push(format!("{whole}\n"));
    for (case, text) in broken.iter().enumerate() {
        assert_ne!(*text, whole, "case {case}");
        let path = folder.path().join("broken.jsonl");
        fs::write(&path, text).unwrap();
        let error = refused(&to, &path).await;
        assert!(
            matches!(error, MoveError::NotWhole { .. }),
            "{case}: {error:?}"
        );
        assert!(is_absent(&to), "case {case}");
    }
    // The same database takes what is whole.
    import(&to.url(), None, &file).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_a_later_version_is_refused() {
    let folder = TempDir::new().unwrap();
    let (_from, file) = exported(&folder).await;
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replacen("\"format\":1", "\"format\":2", 1)).unwrap();
    let to = shared().database();
    let error = refused(&to, &file).await;
    assert!(
        matches!(error, MoveError::FormatTooNew { found: 2, .. }),
        "{error:?}"
    );
    assert!(is_absent(&to));
}

/// A register is moved only to where there is none, also no empty one: a sidecar may just be opening it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_merged() {
    let folder = TempDir::new().unwrap();
    let (_from, file) = exported(&folder).await;
    let to = shared().database();
    let already = sidecar(to.url(), 9).await;
    let error = refused(&to, &file).await;
    assert!(matches!(error, MoveError::NotEmpty), "{error:?}");
    already.ready().await.unwrap();
}

/// The one that was moved admits nothing, whoever still runs on it; until a person takes it back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_moved_register_and_its_copy_one_admits() {
    let folder = TempDir::new().unwrap();
    let database = shared().database();
    let running = sidecar(database.url(), 1).await;
    let before = c::fenced("before", "r", "5", OWN);
    running
        .apply(Command::Admit(Box::new(before.clone())))
        .await
        .unwrap();
    let file = folder.path().join("moved.jsonl");
    export(&database.url(), None, &file, &clock())
        .await
        .unwrap();
    let admit = c::admit("after", OWN);
    let error = running
        .apply(Command::Admit(Box::new(admit)))
        .await
        .unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    let error = running.ready().await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Unavailable(why) if why.contains("moved")),
        "{error:?}"
    );
    // What it had sent it may still say.
    let record = Record {
        key: before.key.clone(),
        attempt: before.attempt,
        evidence: c::applied(),
        open: false,
        at: c::at(500),
    };
    running.apply(Command::Record(record)).await.unwrap();
    let to = shared().database();
    import(&to.url(), None, &file).await.unwrap();
    let there = sidecar(to.url(), 2).await;
    let stored = there.operation(&before.key, true).await.unwrap().unwrap();
    assert_eq!(stored.operation.state.word(), "INTENDED");
    assert!(stored.request.is_some(), "its request can be opened there");
    let admit = c::admit("there", InstanceId(2));
    let Reply::Admission(admission) = there.apply(Command::Admit(Box::new(admit))).await.unwrap()
    else {
        panic!("another reply");
    };
    assert!(matches!(admission.ruling, Ruling::Granted(_)));
}

/// The keys come along by hand; without them nobody opens what was moved.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sealed_stays_sealed() {
    let folder = TempDir::new().unwrap();
    let (_from, file) = exported(&folder).await;
    let to = shared().database();
    import(&to.url(), None, &file).await.unwrap();
    let options = super::Options {
        keys: vec![crate::store::seal::MasterKey::new([8; 32])],
        ..super::options(to.url(), c::TENANT, super::LONG)
    };
    let error = super::open(options, super::owner(InstanceId(3)))
        .await
        .err()
        .unwrap();
    assert!(matches!(error, OpenError::Key(_)), "{error:?}");
}

/// One process may have carried operations of several tenants, one config after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_is_dead_to_every_tenant_that_it_carried_operations_of() {
    let database = shared().database();
    drop(sidecar(database.url(), 1).await);
    let owner = "0a".repeat(16);
    database.query(&format!(
        "INSERT INTO fencepost.operations (identity, version, tenant, upstream, principal, id, incarnation,
             state, unsettled, owner, first_seen_wall_ms, record)
         SELECT decode(md5(n::text), 'hex'), 1, 't' || n % 2, '', '', '', 0, 'INTENDED', true, '\\x{owner}', 0, ''
         FROM generate_series(1, 4) n"
    ));
    let session = super::super::moving::reached(&database.url(), None)
        .await
        .unwrap();
    super::super::moving::import::bury_owners(&session)
        .await
        .unwrap();
    let dead = database.query(&format!(
        "SELECT string_agg(tenant, ' ' ORDER BY tenant) FROM fencepost.instances
         WHERE dead AND id = '\\x{owner}'"
    ));
    assert_eq!(dead, "t0 t1");
}

/// What was decided on it before, or is by somebody who does not know, opens no register that was exported.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_opens_what_was_exported_but_taking_it_back() {
    let folder = TempDir::new().unwrap();
    let database = shared().database();
    let url = database.url();
    let running = sidecar(url.clone(), 1).await;
    running.ready().await.unwrap();
    database.query("SELECT fencepost.close_1('commits were lost', 0, 0)");
    // As if an acceptance on another server had been interrupted by a move of the database.
    database.query(
        "UPDATE fencepost.register SET epoch = 1;
         UPDATE fencepost.ground SET accepted = 1, quiet_ms = 0, quiet_since = clock_timestamp(),
         quiet_system = 1, quiet_timeline = 1",
    );
    let file = folder.path().join("moved.jsonl");
    let export = async || export(&url, None, &file, &clock()).await;
    export().await.unwrap();
    let why = until_closed(&running, "no longer used here").await;
    assert!(why.contains("moved.jsonl"), "{why}");
    assert_eq!(running.standing().unwrap().stands, Stands::Moved);
    let accept = async || accept_restored(&url, None, Millis(0), "alice", &clock()).await;
    let refused = accept().await.unwrap_err();
    assert!(
        matches!(&refused, OpenError::Moved(why) if why.contains("moved.jsonl")),
        "{refused:?}"
    );
    let opened = "SELECT fencepost.open_1(g.accepted, 0) FROM fencepost.ground g";
    assert_eq!(database.query(opened), "f");
    let history = database.query("SELECT text FROM fencepost.history ORDER BY sequence");
    assert!(
        history.contains("exported to") && history.contains("before: commits were lost"),
        "{history}"
    );

    // What stood against it went with it.
    let to = shared().database();
    import(&to.url(), None, &file).await.unwrap();
    let there = sidecar(to.url(), 2).await;
    until_closed(&there, "commits were lost").await;
    let accepted = accept_restored(&to.url(), None, Millis(0), "alice", &clock()).await;
    assert!(accepted.unwrap().is_some());
    until_admits(&there).await;

    // The other one, as if that had not happened.
    take_back(&url, None, "alice", &clock()).await.unwrap();
    until_closed(&running, "commits were lost").await;
    let twice = take_back(&url, None, "alice", &clock()).await.unwrap_err();
    assert!(matches!(twice, OpenError::NotMoved), "{twice:?}");
    assert_eq!(accept().await.unwrap().unwrap().epoch, 2);
    until_admits(&running).await;
    assert_eq!(running.standing().unwrap().stands, Stands::Whole);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn during_the_quiet_after_an_acceptance_nothing_is_exported() {
    let folder = TempDir::new().unwrap();
    let database = shared().database();
    let running = sidecar(database.url(), 1).await;
    database.query("SELECT fencepost.close_1('commits were lost', 0, 0)");
    let quiet = Millis(3_600_000);
    let accepted = accept_restored(&database.url(), None, quiet, "alice", &clock()).await;
    assert!(accepted.unwrap().is_some());
    let file = folder.path().join("moved.jsonl");
    let refused = export(&database.url(), None, &file, &clock())
        .await
        .unwrap_err();
    assert!(
        matches!(refused, MoveError::Quiet { wait_ms } if wait_ms == quiet.0),
        "{refused:?}"
    );
    assert!(!file.exists());
    until_closed(&running, "accepted by alice").await;
    assert_eq!(running.standing().unwrap().stands, Stands::Quiet);
}

/// Whoever needs it longest may start last: nothing is forgotten before that has told so anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn how_long_is_remembered_is_moved_too() {
    let folder = TempDir::new().unwrap();
    let (database, _) = exported(&folder).await;
    database.query(
        "UPDATE fencepost.forgotten SET remember_ms = 7000 + what WHERE tenant = 'payments';
         INSERT INTO fencepost.forgotten (tenant, what, remember_ms) VALUES ('another', 1, 9), ('never', 0, 0)",
    );
    let file = folder.path().join("again.jsonl");
    let moved = export(&database.url(), None, &file, &clock()).await;
    assert_eq!(moved.unwrap().counts.memories, 2);
    let told =
        "SELECT tenant, what, remember_ms, passed, lap_ms FROM fencepost.forgotten ORDER BY 1, 2";
    let to = shared().database();
    assert_eq!(
        import(&to.url(), None, &file)
            .await
            .unwrap()
            .counts
            .memories,
        2
    );
    assert_eq!(
        to.query(told),
        "another|0|0|0|0\nanother|1|9|0|0\npayments|0|7000|0|0\npayments|1|7001|0|0"
    );
    // A file of before says nothing of it, and nobody has told anything there.
    let text = fs::read_to_string(&file).unwrap();
    let (before, rest) = text.split_once(",\"memories\":[").unwrap();
    let (_, after) = rest.split_once(']').unwrap();
    let text = format!("{before}{after}").replacen(",\"memories\":2", "", 1);
    fs::write(&file, resealed(&text)).unwrap();
    let to = shared().database();
    assert_eq!(
        import(&to.url(), None, &file)
            .await
            .unwrap()
            .counts
            .memories,
        0
    );
    assert_eq!(to.query(told), "");
}

/// With the digest that the changed file has.
fn resealed(text: &str) -> String {
    let at = text.rfind("{\"end\"").unwrap();
    let (lines, end) = text.split_at(at);
    let digest = ring::digest::digest(&ring::digest::SHA256, lines.as_bytes());
    let hex = |text: String, byte: &u8| format!("{text}{byte:02x}");
    let digest = digest.as_ref().iter().fold(String::new(), hex);
    let (head, _) = end.split_once("\"sha256\":\"").unwrap();
    format!("{lines}{head}\"sha256\":\"{digest}\"}}}}\n")
}

/// A file has one age, and each tenant its own: what was settled a while ago is that old there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_settled_is_as_old_as_before() {
    let folder = TempDir::new().unwrap();
    let (database, _) = exported(&folder).await;
    let ages = "SELECT a.lived_ms - o.settled_ms FROM fencepost.operations o JOIN fencepost.ages a
        ON a.tenant = o.tenant WHERE NOT o.unsettled ORDER BY o.sequence";
    let before = database.query(ages);
    database.query(
        "INSERT INTO fencepost.ages SELECT 'older', lived_ms + 5000, read_boot, read_boottime_ms,
         read_wall_ms FROM fencepost.ages",
    );
    let file = folder.path().join("again.jsonl");
    export(&database.url(), None, &file, &clock())
        .await
        .unwrap();
    let to = shared().database();
    import(&to.url(), None, &file).await.unwrap();
    let after = "SELECT r.lived_ms - o.settled_ms FROM fencepost.operations o, fencepost.register r
        WHERE NOT o.unsettled ORDER BY o.sequence";
    assert_eq!(to.query(after), before);
}

/// Nobody is stopped for a file that cannot be; and where that turns out too late, it is said what to type.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_that_fails_stops_nobody_or_says_how_to_go_on() {
    let folder = TempDir::new().unwrap();
    let database = shared().database();
    let register = sidecar(database.url(), 1).await;
    let file = folder.path().join("moved.jsonl");
    let export = async |to: &Path| export(&database.url(), None, to, &clock()).await;
    let moved = "SELECT moved FROM fencepost.ground";
    database.query("UPDATE fencepost.register SET format = 2");
    let newer = export(&file).await.unwrap_err();
    let MoveError::Shared(OpenError::FormatTooNew { found: 2, .. }) = newer else {
        panic!("{newer:?}");
    };
    database.query("UPDATE fencepost.register SET format = 1");
    let nowhere = export(&folder.path().join("nowhere/moved.jsonl")).await;
    let nowhere = nowhere.unwrap_err();
    assert!(matches!(nowhere, MoveError::File { .. }), "{nowhere:?}");
    assert_eq!(database.query(moved), "f");
    register.ready().await.unwrap();
    // Nothing is left of having tried.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    database.query("ALTER TABLE fencepost.twins RENAME COLUMN record TO broken");
    let broken = export(&file).await.unwrap_err();
    assert!(matches!(broken, MoveError::Stopped(_)), "{broken:?}");
    assert!(broken.to_string().contains("take-back"), "{broken}");
    assert_eq!(database.query(moved), "t");
    database.query("ALTER TABLE fencepost.twins RENAME COLUMN broken TO record");
    export(&file).await.unwrap();
}
