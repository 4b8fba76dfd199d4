//! Two versions of the binary on one register, as in a rolling update: this one, and one that has brought the
//! tables to the next format and calls functions of its own. There is one format so far; the next one is made
//! here by hand, as the design lets it be: columns that may be left out, tables, and functions under new
//! names beside the old ones. The newer binary is this one, over a wire that changes the names it calls.
//!
//! What always holds: whoever runs already goes on, with the records of both, and starts again, as long as the
//! newer format says that it may; what it does not know it leaves as it is. Once that format says otherwise, it
//! is refused.

use super::super::servers::Wire;
use super::unknown::admission;
use super::*;
use crate::protocol::policy::{Order, Policy};
use crate::protocol::rejection::Rejection;
use crate::store::about::Stands;
use crate::store::{Backend, Resent, StoreError};

/// What a next version would run. `write_2` and `view_2` have all that the first ones have, and a column more.
const NEXT_FORMAT: &str = r"
    ALTER TABLE fencepost.operations ADD COLUMN region text;
    ALTER TABLE fencepost.fences ADD COLUMN home text NOT NULL DEFAULT 'somewhere';
    ALTER TABLE fencepost.instances ADD COLUMN version text;
    ALTER TABLE fencepost.register ADD COLUMN purpose text;
    ALTER TABLE fencepost.ground ADD COLUMN since bigint;
    ALTER TABLE fencepost.events ADD COLUMN kind text;
    CREATE TABLE fencepost.leases (name bytea PRIMARY KEY, holder bytea);
    CREATE INDEX operations_of_region ON fencepost.operations (region) WHERE unsettled;
    UPDATE fencepost.register SET format = 2;
    DO $make$
    DECLARE
        write_takes text := pg_get_function_arguments('fencepost.write_1'::regproc);
        view_takes text := pg_get_function_arguments('fencepost.view_1'::regproc);
        view_gives text := pg_get_function_result('fencepost.view_1'::regproc);
        passed text[];
    BEGIN
        SELECT array_agg('$' || i ORDER BY i) INTO passed
        FROM pg_proc p, generate_series(1, p.pronargs) i WHERE p.oid = 'fencepost.write_1'::regproc;
        EXECUTE format('CREATE FUNCTION fencepost.write_2(%s) LANGUAGE plpgsql AS $body$
            BEGIN
                SELECT w.* INTO position_now, closed, verdicts, aside_now
                FROM fencepost.write_1(%s) w;
                UPDATE fencepost.operations SET region = ''here'' WHERE identity = ANY (identities);
            END $body$', write_takes, array_to_string(passed, ', '));
        SELECT array_agg('$' || i ORDER BY i) INTO passed
        FROM pg_proc p, generate_series(1, p.pronargs) i WHERE p.oid = 'fencepost.view_1'::regproc;
        EXECUTE format('CREATE FUNCTION fencepost.view_2(%s) RETURNS %s, region text) LANGUAGE sql AS $body$
            SELECT v.*, ''here'' FROM fencepost.view_1(%s) v $body$',
            view_takes, rtrim(view_gives, ')'), array_to_string(passed, ', '));
    END $make$";

/// As a binary of the next version asks.
fn newer() -> Wire {
    let wire = Wire::to(shared().address());
    wire.say_instead("fencepost.write_1", "fencepost.write_2");
    wire.say_instead("fencepost.view_1", "fencepost.view_2");
    wire
}

/// What was made while the format was not settled is told from it, and left as it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_register_of_no_released_version_is_refused() {
    let database = database();
    let a = join(&database, A, LONG).await;
    a.carry_out(&c::admit("a", A), c::applied()).await;
    a.backend.close().await.unwrap();
    database.query("DROP TABLE fencepost.burying");
    let refused = try_sidecar(database.url(), 2).await.err().unwrap();
    assert!(matches!(refused, OpenError::Unreleased), "{refused}");
    let left = "SELECT count(*) FROM fencepost.operations";
    assert_eq!(database.query(left), "1");
}

/// Whoever runs while a newer version takes the register over admits nothing from then on, and says why; what it
/// has sent it still records.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sidecar_that_runs_ends_admitting_where_the_next_format_needs_all_to_be_newer() {
    let database = database();
    let a = join(&database, A, LONG).await;
    let (sent, other) = (on_r("sent", "1", A), c::admit("other", A));
    let permit = a.granted(&sent).await;
    assert!(a.backend.ready().await.is_ok());
    database.query("UPDATE fencepost.register SET format = 2, used_from = 2");
    // The very next one, whatever is remembered of the register.
    let told = admission(&a.backend, &other).await;
    assert!(matches!(told, Err(StoreError::Unavailable(_))), "{told:?}");
    until("it says why", async || {
        let why = a.backend.ready().await.err();
        why.is_some_and(|why| {
            why.to_string()
                .contains("format 2, this version reads up to 1")
        })
    })
    .await;
    assert_eq!(a.backend.standing().unwrap().stands, Stands::Outgrown);
    let written = "SELECT count(*) FROM fencepost.operations";
    assert_eq!(database.query(written), "1");
    let receipt = permit.finish(c::applied());
    a.register.record(&receipt, c::at(900)).await.unwrap();
    assert_eq!(a.state("sent").await, "COMPLETED");
    // One whose functions the newer format does not have any more says the same.
    database.query(
        "UPDATE fencepost.register SET format = 3, used_from = 1;
         ALTER FUNCTION fencepost.write_1 RENAME TO write_0",
    );
    until("it was looked at", async || {
        a.backend.standing().unwrap().stands == Stands::Whole
    })
    .await;
    database.query("UPDATE fencepost.register SET used_from = 3");
    until("it says why", async || {
        let why = a.backend.ready().await.err();
        why.is_some_and(|why| why.to_string().contains("format 3"))
    })
    .await;
    database.query(
        "UPDATE fencepost.register SET format = 1, used_from = 1;
         ALTER FUNCTION fencepost.write_0 RENAME TO write_1",
    );
    until("it admits again", async || a.backend.ready().await.is_ok()).await;
    a.carry_out(&other, c::applied()).await;
}

fn on_r(id: &str, token: &str, by: InstanceId) -> Admit {
    c::fenced(id, "r", token, by)
}

async fn replays(party: &Party, admit: &Admit) {
    let told = admission(&party.backend, &c::again(admit)).await;
    assert!(matches!(told, Ok(Ruling::Replay { .. })), "{told:?}");
}

fn region_of(database: &Database, id: &str) -> String {
    database.query(&format!(
        "SELECT coalesce(region, 'none') FROM fencepost.operations WHERE convert_from(id, 'UTF8') = '{id}'"
    ))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sidecar_that_runs_goes_on_beside_one_of_the_next_version() {
    let database = database();
    let old = join(&database, A, LONG).await;
    let early = on_r("early", "1", A);
    old.carry_out(&early, c::applied()).await;
    let left = c::admit("left", A);
    let _permit = old.granted(&left).await;

    database.query(NEXT_FORMAT);
    let wire = newer();
    let url = database.url_at(wire.address());
    let clock = Clock::system().unwrap();
    let backend = try_join(url, B, LONG, clock).await.unwrap();
    let new = Party {
        register: Register::new(backend.clone()),
        backend,
    };

    // The newer one knows what was written before, and by the old one since.
    replays(&new, &early).await;
    assert!(new.sees_in_flight(&left, c::at(1)).await);
    let of_old = on_r("of-old", "2", A);
    old.carry_out(&of_old, c::applied()).await;
    replays(&new, &of_old).await;
    assert_eq!(region_of(&database, "of-old"), "none");
    // The old one knows what the newer one writes: its mark, what it carries, what it has settled.
    let of_new = on_r("of-new", "3", B);
    let permit = new.granted(&of_new).await;
    assert_eq!(region_of(&database, "of-new"), "here");
    let stale = admission(&old.backend, &on_r("late", "2", A)).await;
    assert!(
        matches!(stale, Ok(Ruling::Refused(Rejection::StaleToken { .. }))),
        "{stale:?}"
    );
    assert!(old.sees_in_flight(&of_new, c::at(1)).await);
    let receipt = permit.finish(c::applied());
    new.register.record(&receipt, c::at(900)).await.unwrap();
    replays(&old, &of_new).await;

    // It settles what the newer one left, and leaves alone what it knows nothing of.
    let of_the_dead = Admit {
        policy: Arc::new(Policy {
            order: Order::Free,
            ..Policy::clone(&left.policy)
        }),
        ..c::admit("of-the-dead", B)
    };
    new.carry_out(&of_the_dead, c::interrupted()).await;
    new.backend.close().await.unwrap();
    old.beat().await;
    assert!(old.takes_for_dead(B));
    assert_eq!(old.in_doubt().await.len(), 2, "its own, and that one");
    let resend = c::resend(&of_the_dead.key, A);
    let Resent::Granted(permit) = old.register.resend(resend).await.unwrap() else {
        panic!("it may be sent again");
    };
    let receipt = permit.finish(c::applied());
    let recorded = old.register.record(&receipt, c::at(2_000)).await;
    recorded.unwrap();
    assert_eq!(old.state("of-the-dead").await, "COMPLETED");
    assert_eq!(region_of(&database, "of-the-dead"), "here");
    let found = old.backend.resource(&c::resource_key("r")).await.unwrap();
    assert!(found.unwrap().unsettled.is_empty());

    // One of its version that starts beside them is let in, until the newer format needs all to be newer.
    let again = Party::of(sidecar(database.url(), 3).await);
    replays(&again, &of_the_dead).await;
    database.query("UPDATE fencepost.register SET used_from = 2");
    let refused = try_sidecar(database.url(), 4).await.err().unwrap();
    assert!(
        matches!(refused, OpenError::FormatTooNew { found: 2, known: 1 }),
        "{refused}"
    );
}
