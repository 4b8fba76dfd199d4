//! What was forgotten of an operation, and what was renamed meanwhile.

use std::fs;
use std::time::Duration;

use super::{complaint, pay};
use crate::servers::shared;
use crate::support::gate::until_after;
use crate::support::proxy::Proxy;
use crate::support::setup::Setup;
use crate::support::upstream::{Keys, Upstream};

/// Scenario 9: a queue redelivers an operation whose answer is forgotten, after its upstream was renamed.
#[test]
fn a_late_redelivery_to_a_renamed_upstream_is_told_how_it_ended_and_not_sent() {
    let upstream = Upstream::start(Keys::Ignored);
    let database = shared().database();
    let setup = Setup::opaque(upstream.address()).sharing(&database.url(), "");
    let config = setup.config();
    let text = fs::read_to_string(&config).unwrap();
    let shorter = text.replacen(
        "register:\n",
        "register:\n  remember: { answers: 1s, identities: 1h }\n",
        1,
    );
    fs::write(&config, shorter).unwrap();
    let mut proxy = Proxy::start(setup);
    assert_eq!(pay(&proxy, "k").send().status, 201);
    // The newest of all keeps its answer.
    assert_eq!(pay(&proxy, "newer").send().status, 201);
    until_after(Duration::from_secs(11), "the answer is forgotten", || {
        let answered = "SELECT answer IS NULL FROM fencepost.operations WHERE id = 'k'";
        database.query(answered) == "t"
    });
    proxy.stop();

    // Another id is another upstream: what the register knows would be lost on it.
    proxy.change_config("  provider:\n", "  provider-eu:\n    id: elsewhere\n");
    let check = || {
        let (file, url) = (config.to_str().unwrap(), database.url());
        Proxy::command_alone(&["check", file, "--against-register", &url])
    };
    let refused = check();
    assert_eq!(refused.status.code(), Some(1), "{}", complaint(&refused));
    proxy.change_config("    id: elsewhere\n", "    id: provider\n");
    let fine = check();
    assert_eq!(fine.status.code(), Some(0), "{}", complaint(&fine));

    proxy.start_again();
    let told = pay(&proxy, "k").send();
    assert_eq!(told.verdict(), (410, "answer-expired".to_owned()));
    let left = told.json();
    assert_eq!(left["verdict"], "applied", "{left}");
    assert!(left["completed"].is_string(), "{left}");
    // An operator reads it too.
    let known = proxy.read("/v1/operations/provider/k");
    assert_eq!(known["state"], "COMPLETED", "{known}");
    assert_eq!(upstream.heads().len(), 2);
}
