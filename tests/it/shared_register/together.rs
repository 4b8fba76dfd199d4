//! Two sidecars, one truth.

use super::{pay, publish, until_state};
use crate::servers::shared;
use crate::support::gate::Gate;
use crate::support::proxy::Proxy;
use crate::support::script::Script;
use crate::support::setup::Setup;
use crate::support::upstream::{Keys, Upstream};

#[test]
fn a_payment_through_one_is_answered_by_the_other() {
    let upstream = Upstream::start(Keys::Ignored);
    let database = shared().database();
    let sidecar = || Proxy::start(Setup::opaque(upstream.address()).sharing(&database.url(), ""));
    let (one, other) = (sidecar(), sidecar());
    let paid = pay(&one, "k").send();
    assert_eq!(paid.status, 201, "{}", paid.text());
    let again = pay(&other, "k").send();
    assert_eq!((again.status, &again.body), (paid.status, &paid.body));
    assert!(again.is_replay(), "{}", again.head.text);
    assert_eq!(upstream.effects().len(), 1);
    // Fingerprints are made with one key: another payment under the same name is told from it.
    let reused = other.post("/payments").key("k").json(r#"{"amount":6}"#);
    assert_eq!(reused.send().verdict().0, 422);
}

#[test]
fn a_stale_owner_is_refused_wherever_he_comes_in() {
    let upstream = Upstream::start(Keys::Honoured);
    let database = shared().database();
    let sidecar = || Proxy::start(Setup::payments(upstream.address()).sharing(&database.url(), ""));
    let (alices, bobs) = (sidecar(), sidecar());
    assert_eq!(publish(&alices, "107").send().status, 201);
    assert_eq!(publish(&bobs, "108").send().status, 201);
    let stale = publish(&alices, "106").send();
    assert_eq!(stale.verdict(), (412, "stale-fencing-token".to_owned()));
    let fresh = alices.put("/statements/2026-09-14").token("107").json("{}");
    assert_eq!(fresh.send().status, 201);
    assert_eq!(publish(&alices, "109").send().status, 201);
    assert_eq!(
        publish(&bobs, "108").json("{\"late\":1}").send().status,
        412
    );
}

/// Each lists, and settles, what is its own tenant's.
#[test]
fn tenants_share_a_database_and_nothing_in_it() {
    let upstream = Upstream::start(Keys::Ignored);
    let database = shared().database();
    let sidecar = |tenant: &str| {
        let setup = Setup::opaque(upstream.address()).sharing(&database.url(), "");
        Proxy::start(setup.with(&format!("tenant: {tenant}")))
    };
    let (payments, payroll) = (sidecar("payments"), sidecar("payroll"));
    assert_eq!(pay(&payments, "k").send().status, 201);
    assert_eq!(pay(&payroll, "k").send().status, 201);
    assert_eq!(upstream.effects().len(), 2);
    for one in [&payments, &payroll] {
        // Whoever came last stands first in the table, for everybody.
        let list = one.read("/v1/operations?limit=1");
        assert_eq!(list["operations"].as_array().unwrap().len(), 1, "{list}");
    }
}

/// What an instance left behind is settled by its own tenant's: another's has other credentials, and
/// another account at the same provider.
#[test]
fn nobody_settles_for_another_tenant() {
    let upstream = Upstream::start(Keys::Ignored);
    let database = shared().database();
    let sidecar = |tenant: &str| {
        let setup = Setup::opaque(upstream.address()).sharing(&database.url(), "");
        Proxy::start(setup.with(&format!("tenant: {tenant}")))
    };
    let (mut payments, payroll) = (sidecar("payments"), sidecar("payroll"));
    let gate = Gate::closed();
    upstream.next(Script::hold_answer(&gate));
    let _under_way = pay(&payments, "left").start();
    gate.until_reached();
    payments.kill();
    let state = || {
        let of = "tenant = 'payments' AND id = 'left'";
        database.query(&format!(
            "SELECT state FROM fencepost.operations WHERE {of}"
        ))
    };
    assert_eq!(state(), "INTENDED");
    // Its own, which is newer, is settled as far as can be: so a pass has been over both.
    upstream.next(Script::lose_answer());
    assert_eq!(pay(&payroll, "own").send().status, 504);
    until_state(&payroll, "own", "NEEDS_ATTENTION");
    assert_eq!(state(), "INTENDED");
    payments.start_again();
    until_state(&payments, "left", "NEEDS_ATTENTION");
}
