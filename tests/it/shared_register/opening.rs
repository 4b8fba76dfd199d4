//! Which registers are opened, by whom, and with which keys.

use super::{complaint, migrate, out, pay, run};
use crate::servers::shared;
use crate::support::proxy::Proxy;
use crate::support::setup::Setup;
use crate::support::upstream::{Keys, Upstream};

#[test]
fn tables_are_made_by_store_migrate_where_sidecars_may_not() {
    let upstream = Upstream::start(Keys::Honoured);
    let database = shared().database();
    let setup = || Setup::payments(upstream.address()).sharing(&database.url(), ", migrate: false");
    let said = Proxy::refused(setup()).log();
    let setup = setup();
    assert!(
        said.contains("holds no register") && said.contains("store migrate"),
        "{said}"
    );

    let made = migrate(&setup);
    assert!(
        out(&made).contains("its tables were made (format 1)"),
        "{}",
        complaint(&made)
    );
    assert!(out(&migrate(&setup)).contains("up to date"));
    assert_eq!(
        database.query("SELECT count(*) FROM fencepost.instances"),
        "0"
    );
    let proxy = Proxy::start(setup);
    assert_eq!(pay(&proxy, "k").send().status, 201);
    let names = database.query("SELECT name <> '' FROM fencepost.instances");
    assert_eq!(names, "t");
}

#[test]
fn a_register_of_a_newer_version_is_left_alone() {
    let upstream = Upstream::start(Keys::Honoured);
    let database = shared().database();
    let setup = || Setup::payments(upstream.address()).sharing(&database.url(), "");
    assert!(migrate(&setup()).status.success());
    database.query("UPDATE fencepost.register SET format = 99, used_from = 99");
    for said in [Proxy::refused(setup()).log(), complaint(&migrate(&setup()))] {
        assert!(
            said.contains("has format 99, this version reads up to 1"),
            "{said}"
        );
    }
}

/// Rolled out first, a later version has brought the tables up to date; sidecars of this one start beside it.
#[test]
fn a_register_of_a_newer_version_that_this_one_may_use_is_used() {
    let upstream = Upstream::start(Keys::Honoured);
    let database = shared().database();
    let setup = || Setup::payments(upstream.address()).sharing(&database.url(), "");
    let before = Proxy::start(setup());
    assert_eq!(pay(&before, "k").send().status, 201);
    database.query(
        "UPDATE fencepost.register SET format = 99;
         ALTER TABLE fencepost.operations ADD COLUMN of_format_99 text NOT NULL DEFAULT 'x';
         ALTER TABLE fencepost.fences ADD COLUMN of_format_99 text NOT NULL DEFAULT 'x';
         ALTER TABLE fencepost.instances ADD COLUMN of_format_99 text NOT NULL DEFAULT 'x'",
    );
    let beside = Proxy::start(setup());
    assert!(pay(&beside, "k").send().is_replay());
    for (proxy, key) in [(&before, "l"), (&beside, "m")] {
        assert_eq!(pay(proxy, key).send().status, 201);
    }
    assert!(out(&migrate(&setup())).contains("up to date"));
    assert_eq!(
        database.query("SELECT format FROM fencepost.register"),
        "99"
    );
    assert_eq!(upstream.effects().len(), 3);
}

#[test]
fn without_its_key_it_is_not_opened_and_without_any_it_says_so() {
    let upstream = Upstream::start(Keys::Honoured);
    let database = shared().database();
    let url = database.url();
    let (old, new) = ("5e".repeat(32), "6f".repeat(32));
    let with = |encryption: &str| Setup::payments(upstream.address()).sealed(&url, "", encryption);
    let keys = |list: &str| with(&format!("{{ keys: [{list}] }}"));

    let open = with("none");
    let checked = Proxy::command_alone(&["check", open.config().to_str().unwrap()]);
    assert!(
        out(&checked).contains("whoever reads the database"),
        "{}",
        out(&checked)
    );
    let mut first = Proxy::start(open);
    let paid = pay(&first, "k").send();
    assert_eq!(paid.status, 201);
    first.stop();

    let said = Proxy::refused(keys(&old)).log();
    assert!(said.contains("was it made with other keys"), "{said}");
    // What was kept without a key is read on, and the register follows the first key.
    let mut second = Proxy::start(keys(&format!("{old}, none")));
    let again = pay(&second, "k").send();
    assert!(
        again.is_replay() && again.body == paid.body,
        "{}",
        again.text()
    );
    assert_eq!(pay(&second, "l").send().status, 201);
    second.stop();
    assert!(
        Proxy::refused(with("none"))
            .log()
            .contains("was it made with other keys")
    );

    let mut third = Proxy::start(keys(&format!("{new}, {old}")));
    assert!(pay(&third, "l").send().is_replay());
    third.stop();
    let fourth = Proxy::start(keys(&new));
    // It is sealed with a key that is not there, and is not sent again.
    assert_eq!(pay(&fourth, "l").send().status, 503);
    assert_eq!(upstream.effects().len(), 2);
}

#[test]
fn it_is_not_asked_whether_it_was_restored() {
    let upstream = Upstream::start(Keys::Honoured);
    let database = shared().database();
    let setup = Setup::payments(upstream.address()).sharing(&database.url(), "");
    let refused = run(&["serve", "--accept-restored"], &setup.config());
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        complaint(&refused).contains("start without --accept-restored"),
        "{}",
        complaint(&refused)
    );
}
