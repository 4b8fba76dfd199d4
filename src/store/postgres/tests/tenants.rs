//! What a tenant's credential can say of the ground, in its own words: the functions, as psql calls them.
//!
//! What always holds: roles belong to a whole server, so that is one of its own. Nobody runs on the register
//! meanwhile who would say anything of himself.

use super::super::servers::{Postgres, psql};
use super::restored::until_closed;
use super::*;
use crate::protocol::command::Resolution;
use crate::protocol::operation::IdentityOrigin;
use crate::store::Backend;
use crate::store::postgres::identity;

/// A register of two tenants; the credential of one.
struct World {
    database: Database,
    other: String,
    server: Postgres,
}

const OTHERS: &str = "'\\x000000000000000000000000000000ff'::bytea";

impl World {
    async fn new() -> Self {
        let server = Postgres::start();
        let database = server.database();
        let a = join(&database, A, LONG).await;
        a.carry_out(&c::admit("a", A), c::applied()).await;
        a.freeze().await;
        let mut work = std::mem::take(&mut *a.backend.work.lock().unwrap());
        work.shutdown().await;
        database.query("CREATE ROLE other LOGIN PASSWORD 'x'");
        database.query("SELECT fencepost.let_in('other', 'other')");
        let other = database.url_as(server.address(), "other", "x");
        let world = Self {
            database,
            other,
            server,
        };
        world.says(&format!(
            "INSERT INTO fencepost.instances (id, tenant, name, started_wall_ms)
             VALUES ({OTHERS}, 'other', 'x', 0)"
        ));
        world
    }

    fn says(&self, sql: &str) -> String {
        psql(&self.other, sql).unwrap_or_else(|why| panic!("{sql}: {why}"))
    }

    /// The other tenant's role writes rows under all that an operation is found by, before that is there.
    fn takes_place_of(&self, admit: &Admit) {
        let hex = |number: u128| format!("{number:032x}");
        let identity = hex(identity::number(&admit.key));
        let keyless = hex(u128::from_be_bytes(
            identity::shared_by_equals(admit).digest,
        ));
        let owner = hex(admit.attempt.instance.0);
        self.says(&format!(
            "INSERT INTO fencepost.operations (identity, version, tenant, upstream, principal, id, incarnation,
                 state, unsettled, keyless, owner, first_seen_wall_ms, record)
             VALUES ('\\x{identity}', 1, 'other', '', '', '', 0, 'UNCERTAIN', true, '\\x{keyless}',
                 '\\x{owner}', 0, '');
             INSERT INTO fencepost.twins (identity, tenant, upstream, principal, id, incarnation, record, first)
             VALUES ('\\x{identity}', 'other', '', '', '', 0, '', '\\x{identity}');
             INSERT INTO fencepost.events (tenant, operation, sequence, record) OVERRIDING SYSTEM VALUE
             SELECT 'other', '\\x{identity}', n, '' FROM generate_series(1, 500) n"
        ));
    }

    /// What comes of saying that nothing is missing, for everybody: the epoch, who is missing.
    fn confirms(&self, url: &str) -> String {
        psql(
            url,
            "SELECT c.epoch_begun, cardinality(c.missing), c.witnesses
             FROM fencepost.ground_1() g, LATERAL fencepost.confirm_1(g.ids, true, 0) c",
        )
        .unwrap_or_else(|why| panic!("{}: {why}", self.database.name()))
    }
}

/// Nor does whoever may speak for all begin an epoch before others had time to object.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_confirms_for_its_own_instances_alone() {
    let world = World::new().await;
    let database = &world.database;
    database.query(
        "UPDATE fencepost.instances SET timeline = 0;
         UPDATE fencepost.ground SET timeline = 0, objections_ms = 3600000",
    );
    assert_eq!(world.confirms(&world.other), "|1|1");
    assert_eq!(world.confirms(&world.other), "|1|1");
    let owner = database.url();
    assert_eq!(world.confirms(&owner), "|0|2");
    // Clocks that go back make it wait again.
    database.query("UPDATE fencepost.ground SET noticed_at = noticed_at + interval '1 day'");
    assert_eq!(world.confirms(&world.other), "|0|2");
    database.query("UPDATE fencepost.ground SET noticed_at = noticed_at - interval '61 minutes'");
    assert_eq!(world.confirms(&world.other), "1|0|2");
}

/// It would confirm for that one, or hide what it misses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_takes_the_id_of_nobody_who_lives() {
    let world = World::new().await;
    let take = format!(
        "INSERT INTO fencepost.instances (id, tenant, name, started_wall_ms)
         SELECT i.id, 'other', 'x', 0 FROM fencepost.ground_1() g, unnest(g.ids) i(id) WHERE i.id <> {OTHERS}"
    );
    let said = psql(&world.other, &take).unwrap_err();
    assert!(said.contains("that of another tenant's"), "{said}");
    // Nor of one that is dead: it would be alive again for all who look.
    let database = &world.database;
    database.query("UPDATE fencepost.instances SET dead = true");
    let said = psql(&world.other, &take).unwrap_err();
    assert!(said.contains("that of another tenant's"), "{said}");
    let dead = "SELECT g.dead FROM fencepost.ground_1() g";
    assert_eq!(database.query(dead), "{t,t}");
    // What is dead to several tenants, as after a move, is one that is as far as it came.
    database.query(&format!(
        "INSERT INTO fencepost.instances (id, tenant, name, started_wall_ms, position, aside, dead)
         VALUES ({OTHERS}, 'third', 'x', 0, 7, 8, true)"
    ));
    let told = "SELECT cardinality(g.ids), g.positions[2], g.asides[2], g.dead[2] FROM fencepost.ground_1() g";
    assert_eq!(database.query(told), "2|7|8|t");
}

/// Its row may be gone by then, and the id be another's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_confirms_for_nobody_whose_id_it_has_taken_since() {
    let world = World::new().await;
    let database = &world.database;
    database.query(
        "UPDATE fencepost.instances SET timeline = 0;
         UPDATE fencepost.ground SET timeline = 0, objections_ms = 0",
    );
    assert_eq!(world.confirms(&world.other), "|1|1");
    database.query(&format!(
        "DELETE FROM fencepost.instances WHERE tenant = '{}'",
        c::TENANT
    ));
    let id = format!("'\\x{:032x}'::bytea", A.0);
    world.says(&format!(
        "INSERT INTO fencepost.instances (id, tenant, name, started_wall_ms) VALUES ({id}, 'other', 'x', 0)"
    ));
    assert_eq!(world.confirms(&world.other), "|1|1");
}

/// Whatever is unique in a register is so within a tenant: identities, which anybody can reckon, and numbers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_stands_in_no_others_way_with_rows_of_its_own() {
    let world = World::new().await;
    let database = &world.database;
    database.query("CREATE ROLE payments LOGIN PASSWORD 'x'");
    let let_in = format!("SELECT fencepost.let_in('payments', '{}')", c::TENANT);
    database.query(&let_in);
    let url = database.url_as(world.server.address(), "payments", "x");
    // One with the role of its tenant, and one that sees all rows.
    for (instance, url) in [(B, url), (C, database.url())] {
        let party = Party::of(sidecar(url, instance.0).await);
        let fenced = |id: &str, token| c::fenced(&format!("{id}-{instance}"), "r", token, instance);
        let keyless = Admit {
            origin: IdentityOrigin::Fresh,
            blind_retry: Some(Millis(300_000)),
            ..fenced("keyless", "5")
        };
        let (done, lost) = (fenced("done", "5"), fenced("lost", "5"));
        for admit in [&done, &lost, &keyless] {
            world.takes_place_of(admit);
        }
        party.carry_out(&done, c::applied()).await;
        party.carry_out(&keyless, c::applied()).await;
        party.carry_out(&lost, c::interrupted()).await;
        let found = party.register.read().operation(&done.key, true).await;
        assert!(found.unwrap().unwrap().events.is_empty());
        let again = party.register.admit(c::again(&done)).await.unwrap();
        assert!(matches!(again.admission.ruling, Ruling::Replay { .. }));
        assert_eq!(party.in_doubt().await, [lost.key.id.as_str()]);
        let looked_at = party
            .backend
            .reader
            .look_at(std::slice::from_ref(&lost.key))
            .await;
        assert_eq!(looked_at.unwrap().len(), 1);
        let read = party.register.read();
        let resource = read.resource(&c::resource_key("r")).await.unwrap();
        assert_eq!(resource.unwrap().last_completed.unwrap().key, keyless.key);
        let resolved = party
            .register
            .resolve(c::resolve(
                &lost.key,
                Resolution::NotApplied { new_key: false },
            ))
            .await;
        resolved.unwrap();
        assert_eq!(party.in_doubt().await, [""; 0]);
        party.backend.close().await.unwrap();
    }
}

/// What is recorded where nothing is admitted is counted, by whoever writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenants_role_records_where_nothing_is_admitted() {
    let world = World::new().await;
    let database = &world.database;
    database.query("CREATE ROLE payments LOGIN PASSWORD 'x'");
    let let_in = format!("SELECT fencepost.let_in('payments', '{}')", c::TENANT);
    database.query(&let_in);
    let url = database.url_as(world.server.address(), "payments", "x");
    let party = Party::of(sidecar(url, B.0).await);
    let permit = party.granted(&c::admit("sent", B)).await;
    database.query("UPDATE fencepost.ground SET doubt = 'commits were lost'");
    let receipt = permit.finish(c::applied());
    let recorded = party.register.record(&receipt, c::at(900)).await;
    recorded.unwrap();
    assert_eq!(party.state("sent").await, "COMPLETED");
    let aside = "SELECT max(aside) FROM fencepost.instances WHERE NOT dead";
    assert_eq!(database.query(aside), "1");
    let why = until_closed(&party.backend, "commits were lost").await;
    assert!(!why.contains("permission"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_closes_a_register_that_can_be_accepted_and_opens_none() {
    let world = World::new().await;
    let database = &world.database;
    world.says("SELECT fencepost.close_1(repeat('x', 100000), 9223372036854775807, 0)");
    let kept = "SELECT length(doubt) < 5000, remembered_epoch FROM fencepost.ground";
    assert_eq!(database.query(kept), "t|1000");
    // What is found later is added, once, and not without end.
    let told = "SELECT length(doubt) FROM fencepost.ground";
    for (why, length) in [
        ("'lost'", "4006"),
        ("'lost'", "4006"),
        ("repeat('y', 9000)", "4006"),
    ] {
        world.says(&format!("SELECT fencepost.close_1({why}, 0, 0)"));
        assert_eq!(database.query(told), length, "{why}");
    }
    let accept = "SELECT begun FROM fencepost.accept_1(3600000, 'alice', 0)";
    assert_eq!(database.query(accept), "1001");
    let open = "SELECT fencepost.open_1(1, 0)";
    assert_eq!(world.says(open), "f");
    assert_eq!(database.query(open), "f");
    database.query("UPDATE fencepost.ground SET quiet_since = quiet_since - interval '61 minutes'");
    assert_eq!(world.says(open), "t");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rest_is_refused() {
    let world = World::new().await;
    for sql in [
        "UPDATE fencepost.register SET lived_ms = 9000000000000000000",
        "UPDATE fencepost.ground SET doubt = NULL",
        "UPDATE fencepost.instances SET timeline = 0",
        "INSERT INTO fencepost.instances (id, tenant, name, started_wall_ms, timeline)
         VALUES ('x', 'other', 'x', 0, 0)",
        "INSERT INTO fencepost.history (wall_ms, text) VALUES (0, 'admits again')",
        "UPDATE fencepost.confirmations SET confirmed = true",
        "UPDATE fencepost.instances SET dead_after_ms = 0",
        "INSERT INTO fencepost.silences VALUES ('x', 0, 0, '-infinity')",
        "SELECT * FROM fencepost.silences",
        "SELECT * FROM fencepost.burying FOR UPDATE",
        "SELECT fencepost.accept_1(0, 'me', 0)",
        "SELECT fencepost.move_1('away', 0)",
        "SELECT fencepost.take_back_1('me', 0)",
        "SELECT fencepost.speaks_for_1()",
        "SELECT fencepost.let_in('other', 'payments')",
    ] {
        let said = psql(&world.other, sql).unwrap_err();
        assert!(said.contains("permission denied"), "{sql}: {said}");
    }
    // What everybody reads has the form that everybody expects.
    let odd = "INSERT INTO fencepost.instances (id, tenant, name, started_wall_ms) VALUES ('x', 'other', 'x', 0)";
    let said = psql(&world.other, odd).unwrap_err();
    assert!(said.contains("check constraint"), "{said}");
    world.says("UPDATE fencepost.ages SET lived_ms = 9000000000000000000");
    let aged = "SELECT count(*) FROM fencepost.ages WHERE lived_ms > 8000000000000000000";
    assert_eq!(world.database.query(aged), "0");
    // One that was not let in, or is no more.
    world.database.query("SELECT fencepost.shut_out('other')");
    let dead =
        "SELECT string_agg(tenant || ' ' || dead, ', ' ORDER BY tenant) FROM fencepost.instances";
    assert_eq!(world.database.query(dead), "other true, payments false");
    world
        .database
        .query("GRANT USAGE ON SCHEMA fencepost TO other");
    for sql in [
        "SELECT fencepost.close_1('x', 0, 0)",
        "SELECT fencepost.ground_1()",
        "SELECT fencepost.confirm_1('{}', true, 0)",
    ] {
        let said = psql(&world.other, sql).unwrap_err();
        assert!(said.contains("permission denied"), "{sql}: {said}");
    }
}
