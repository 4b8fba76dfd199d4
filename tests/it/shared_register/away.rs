//! The database goes away, and comes back.

use super::pay;
use crate::servers::{PASSWORD, Wire, shared};
use crate::support::gate::until;
use crate::support::ports;
use crate::support::proxy::Proxy;
use crate::support::setup::Setup;
use crate::support::upstream::{Keys, Upstream};

#[test]
fn a_register_that_is_down_refuses_the_start_and_says_where_it_is() {
    let port = ports::free();
    let url = format!("postgres://me:{PASSWORD}@127.0.0.1:{port}/x");
    let upstream = Upstream::start(Keys::Honoured);
    let said = Proxy::refused(Setup::payments(upstream.address()).sharing(&url, "")).log();
    let place = format!("the register at 127.0.0.1:{port}/x cannot be opened");
    assert!(said.contains(&place) && said.contains("refused"), "{said}");
    assert!(!said.contains(PASSWORD), "{said}");
}

#[test]
fn nothing_is_sent_while_it_is_away_and_it_goes_on_by_itself() {
    let upstream = Upstream::start(Keys::Honoured);
    let database = shared().database();
    let wire = Wire::to(shared().address());
    let url = database.url_at(wire.address());
    let proxy = Proxy::start(Setup::payments(upstream.address()).sharing(&url, ""));
    assert_eq!(pay(&proxy, "before").send().status, 201);

    wire.refuse();
    wire.cut();
    until("it is not ready", || proxy.health("/readyz").status == 503);
    let refused = pay(&proxy, "meanwhile").send();
    assert_eq!(refused.verdict(), (503, "store-unavailable".to_owned()));
    assert!(refused.field("retry-after").is_some());
    assert_eq!(proxy.health("/livez").status, 200);
    assert_eq!(upstream.effects().len(), 1);

    wire.accept();
    until("it is ready", || proxy.health("/readyz").status == 200);
    assert_eq!(pay(&proxy, "meanwhile").send().status, 201);
    assert!(pay(&proxy, "before").send().is_replay());
    assert_eq!(upstream.effects().len(), 2);
}
