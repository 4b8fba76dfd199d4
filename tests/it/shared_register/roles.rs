//! Roles: what `config/postgres-roles.sql` gives, and keeps from others.
//!
//! What always holds: the text that operators are given is what is executed here, names aside: roles
//! belong to a whole server.

use super::{complaint, out, pay, publish};
use crate::servers::{Database, Postgres, psql};
use crate::support::proxy::Proxy;
use crate::support::script::Script;
use crate::support::setup::Setup;
use crate::support::upstream::{Keys, Upstream};

const TEXT: &str = include_str!("../../../config/postgres-roles.sql");

/// The statements of one step.
fn step(number: usize, database: &Database) -> String {
    let (from, to) = (format!("\n-- {number}. "), format!("\n-- {}. ", number + 1));
    let rest = TEXT.split_once(&from).unwrap().1;
    let statements = rest.split_once(&to).map_or(rest, |(step, _)| step);
    let database = format!("ON DATABASE {}", database.name());
    let statements = statements.split_once('\n').unwrap().1;
    statements.replace("ON DATABASE fencepost", &database)
}

#[test]
fn one_workloads_credential_opens_nothing_of_another() {
    let server = Postgres::start();
    let database = server.database();
    let url = |role: &str, password: &str| database.url_as(server.address(), role, password);
    let owner = url("fencepost_owner", "OWNERS-PASSWORD");
    let payments = url("payments_sidecar", "SIDECARS-PASSWORD");
    let payroll = url("payroll_sidecar", "SIDECARS-PASSWORD");
    let for_payroll = |text: String| text.replace("payments", "payroll");
    database.query(&step(1, &database));
    // The owner is there already.
    let roles = for_payroll(step(1, &database));
    let roles = roles.lines().filter(|line| line.contains("payroll"));
    database.query(&roles.collect::<Vec<_>>().join("\n"));

    let upstream = Upstream::start(Keys::Ignored);
    let setup = |url: &str, tenant: &str| {
        let setup = Setup::opaque(upstream.address()).sharing(url, ", migrate: false");
        setup.with(&format!("tenant: {tenant}"))
    };
    let of_payments = setup(&payments, "payments");
    let config = of_payments.config();
    let command = [
        "store",
        "migrate",
        "--config",
        config.to_str().unwrap(),
        "--register",
        &owner,
    ];
    let made = Proxy::command_alone(&command);
    assert!(out(&made).contains("were made"), "{}", complaint(&made));
    psql(&owner, &step(3, &database)).unwrap();
    psql(&owner, &for_payroll(step(3, &database))).unwrap();

    // They do all that sidecars do: admit, record, settle, fence.
    let one = Proxy::start(of_payments);
    let other = Proxy::start(setup(&payroll, "payroll"));
    for proxy in [&one, &other] {
        assert_eq!(pay(proxy, "k").send().status, 201);
        assert!(pay(proxy, "k").send().is_replay());
        assert_eq!(publish(proxy, "108").send().status, 201);
        upstream.next(Script::lose_answer());
        assert_eq!(pay(proxy, "lost").send().status, 504);
        super::until_state(proxy, "lost", "NEEDS_ATTENTION");
    }

    each_sees_its_own(&payments, &payroll, &owner);
    the_database_refuses_the_rest(&payments);
    psql(&payments, "DELETE FROM fencepost.operations").unwrap();
    assert_eq!(count(&payments, "operations"), "0");
    assert_eq!(count(&payroll, "operations"), "3");

    // Nor does a sidecar work for another tenant than its role's.
    let said = Proxy::refused(setup(&payments, "payroll")).log();
    assert!(said.contains("row-level security"), "{said}");
    psql(&owner, "SELECT fencepost.shut_out('payroll_sidecar')").unwrap();
    assert!(psql(&payroll, "SELECT 1 FROM fencepost.operations").is_err());
}

fn count(url: &str, table: &str) -> String {
    psql(url, &format!("SELECT count(*) FROM fencepost.{table}")).unwrap()
}

fn each_sees_its_own(payments: &str, payroll: &str, owner: &str) {
    for (table, own) in [
        ("operations", "3"),
        ("fences", "1"),
        ("instances", "1"),
        ("members", "1"),
        ("forgotten", "2"),
    ] {
        assert_eq!(count(payments, table), own, "{table}");
        assert_eq!(count(payroll, table), own, "{table}");
    }
    let events = |url: &str| count(url, "events").parse::<u32>().unwrap();
    assert!(events(payments) > 0);
    assert_eq!(events(payments) + events(payroll), events(owner));
}

fn the_database_refuses_the_rest(url: &str) {
    for (sql, part) in [
        (
            "UPDATE fencepost.operations SET tenant = 'payroll'",
            "row-level security",
        ),
        (
            "INSERT INTO fencepost.fences VALUES ('payroll', 'x', 1, NULL, false, 'x')",
            "row-level security",
        ),
        (
            "INSERT INTO fencepost.members VALUES (current_user, 'payroll')",
            "permission denied",
        ),
        (
            "UPDATE fencepost.members SET tenant = 'payroll'",
            "permission denied",
        ),
        (
            "SELECT fencepost.let_in(current_user, 'payroll')",
            "permission denied",
        ),
        (
            "UPDATE fencepost.register SET epoch = 9",
            "permission denied",
        ),
        ("TRUNCATE fencepost.operations", "permission denied"),
        ("DROP TABLE fencepost.operations", "must be owner"),
    ] {
        let said = psql(url, sql).unwrap_err();
        assert!(said.contains(part), "{sql}: {said}");
    }
}
