//! A register is moved from beside one sidecar into a database for many.

use std::process::Output;

use super::*;
use crate::servers::shared;
use crate::support::script::Script;
use crate::support::setup::Setup;
use crate::support::upstream::Keys;

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_register_is_moved_once_and_not_used_where_it_was() {
    let upstream = Upstream::start(Keys::Honoured);
    let mut proxy = Proxy::start(Setup::opaque(upstream.address()));
    assert_eq!(pay(&proxy, "known", r#"{"amount":5}"#).send().status, 201);
    upstream.next(Script::lose_answer());
    assert_eq!(pay(&proxy, "lost", r#"{"amount":6}"#).send().status, 504);
    until_state(&proxy, "lost", "NEEDS_ATTENTION");
    let register = proxy.register();
    let register = register.to_str().unwrap();
    let file = proxy.register().join("moved.jsonl");
    let file = file.to_str().unwrap();
    let export = || {
        Proxy::command_alone(&[
            "store",
            "export",
            "--register",
            register,
            "--to",
            file,
            "--json",
        ])
    };

    let refused = export();
    assert_eq!(refused.status.code(), Some(1));
    assert!(complaint(&refused).contains("in use by another process"));
    proxy.stop();
    let exported = export();
    let told: serde_json::Value = serde_json::from_slice(&exported.stdout).unwrap();
    assert_eq!(told["operations"], 2, "{told}");
    assert_eq!(told["answers"], 1, "{told}");
    assert_eq!(told["memories"], 0, "{told}");
    // Nothing of what was sent stands in the file as it is.
    let text = std::fs::read_to_string(file).unwrap();
    assert!(!text.contains("amount"), "{text}");

    // Two registers of one truth would both admit.
    let ended = proxy.starts_again_with(&[]).unwrap_err();
    assert_eq!(ended.code(), Some(1));
    assert!(
        proxy.log().contains("exported to be moved"),
        "{}",
        proxy.log()
    );

    let database = shared().database();
    let url = database.url();
    let import = || Proxy::command_alone(&["store", "import", "--from", file, "--register", &url]);
    let imported = import();
    assert!(imported.status.success(), "{}", complaint(&imported));
    let said = String::from_utf8_lossy(&imported.stdout).into_owned();
    assert!(said.contains("with the longest `remember`"), "{said}");
    let states = database.query("SELECT state FROM fencepost.operations ORDER BY sequence");
    assert_eq!(states, "COMPLETED\nNEEDS_ATTENTION");
    let again = import();
    assert_eq!(again.status.code(), Some(1));
    assert!(complaint(&again).contains("holds a register already"));

    // Nobody used it there after all.
    drop(database);
    let back = Proxy::command_alone(&["store", "take-back", "--register", register]);
    assert!(back.status.success(), "{}", complaint(&back));
    proxy.start_again();
    assert!(pay(&proxy, "known", r#"{"amount":5}"#).send().is_replay());
}

/// What the embedded register remembered by its config, the shared one remembers before anybody has told it.
#[test]
fn how_long_is_remembered_goes_with_a_register_whose_config_is_named() {
    let upstream = Upstream::start(Keys::Honoured);
    let mut proxy = Proxy::start(Setup::opaque(upstream.address()));
    assert_eq!(pay(&proxy, "known", r#"{"amount":5}"#).send().status, 201);
    proxy.stop();
    proxy.change_config(
        "register:\n",
        "register:\n  remember: { answers: 40d, identities: 500d }\n",
    );
    let (config, file) = (proxy.config(), proxy.register().join("moved.jsonl"));
    let (config, file) = (config.to_str().unwrap(), file.to_str().unwrap());
    let exported = Proxy::command_alone(&[
        "store", "export", "--config", config, "--to", file, "--json",
    ]);
    let told: serde_json::Value = serde_json::from_slice(&exported.stdout).unwrap();
    assert_eq!(told["memories"], 1, "{told}");
    let database = shared().database();
    let url = database.url();
    let imported = Proxy::command_alone(&["store", "import", "--from", file, "--register", &url]);
    assert!(imported.status.success(), "{}", complaint(&imported));
    let said = String::from_utf8_lossy(&imported.stdout).into_owned();
    assert!(!said.contains("`remember`"), "{said}");
    let days = "SELECT remember_ms / 86400000 FROM fencepost.forgotten ORDER BY what";
    assert_eq!(database.query(days), "40\n500");
}

#[test]
fn a_database_is_accepted_only_if_something_speaks_against_it() {
    let database = shared().database();
    let url = database.url();
    let accept = [
        "store",
        "accept-restored",
        "--register",
        &url,
        "--quiet",
        "1s",
    ];
    let absent = Proxy::command_alone(&accept);
    assert_eq!(absent.status.code(), Some(1), "{}", complaint(&absent));
}
