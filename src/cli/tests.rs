//! Commands as they are typed, against the real operator API over a socket.

use clap::Parser;
use tokio::runtime::Runtime;

use super::arguments::Arguments;
use super::{Failure, run};
use crate::admin::tests::{House, alice, house};

/// A running instance, and somebody who types.
struct Desk {
    // Serves until it is dropped.
    _threads: Runtime,
    house: House,
}

impl Desk {
    fn new() -> Self {
        let threads = Runtime::new().unwrap();
        let house = threads.block_on(house(alice()));
        Self {
            _threads: threads,
            house,
        }
    }

    fn types(&self, words: &[&str]) -> Result<String, Failure> {
        self.types_as("alice's", words)
    }

    fn types_as(&self, token: &str, words: &[&str]) -> Result<String, Failure> {
        let address = format!("http://{}", self.house.api);
        let where_to = ["--admin", &address, "--token", token];
        let line = ["fencepost"].iter().chain(words).chain(&where_to);
        run(Arguments::try_parse_from(line).unwrap())
    }
}

#[test]
fn a_person_finds_an_operation_and_settles_it() {
    let desk = Desk::new();
    desk.house.left_behind("pay:acc/7");
    let list = desk
        .types(&["operations", "list", "--state", "intended"])
        .unwrap();
    let row = list.lines().nth(1).unwrap();
    assert!(
        row.starts_with("UNCERTAIN  0s   bank      pay:acc/7  account:1/2  3:108"),
        "{list}"
    );
    let shown = desk
        .types(&["operations", "show", "bank", "pay:acc/7"])
        .unwrap();
    assert!(
        shown.contains(
            "operations resolve bank pay:acc/7 --principal none --incarnation 0 --admitted 1 --verdict"
        ),
        "{shown}"
    );
    // It was sent once: a verdict on another number of attempts is on something that nobody looked at.
    let stale = desk.types(&[
        "operations",
        "resolve",
        "bank",
        "pay:acc/7",
        "--verdict",
        "not-applied",
        "--admitted",
        "2",
        "--reason",
        "seen",
    ]);
    let told = stale.unwrap_err().to_string();
    assert!(told.contains("moved-on"), "{told}");
    let verdict = [
        "--verdict",
        "applied",
        "--reason",
        "seen",
        "--body",
        r#"{"id":"ch_1"}"#,
    ];
    let words = [
        &["operations", "resolve", "bank", "pay:acc/7"][..],
        &verdict,
    ]
    .concat();
    assert_eq!(desk.types(&words).unwrap(), "bank pay:acc/7: COMPLETED");
    let again = desk.types(&words).unwrap_err();
    assert_eq!(again.code(), 1);
    let shown = desk
        .types(&["operations", "show", "bank", "pay:acc/7", "--bodies"])
        .unwrap();
    assert!(shown.contains("applied 200 (by operator)"), "{shown}");
    assert!(
        shown.contains("{\"id\":\"ch_1\"}") && shown.contains("by alice: seen"),
        "{shown}"
    );
}

#[test]
fn a_person_asks_which_generation_is_authoritative() {
    let desk = Desk::new();
    desk.house.left_behind("pay-1");
    let shown = desk.types(&["resources", "show", "account:1/2"]).unwrap();
    assert!(shown.contains("token            3:108"), "{shown}");
    assert!(shown.contains("unsettled, oldest first"), "{shown}");
    let json = desk.types(&["resources", "list", "--json"]).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["resources"][0]["token"], "3:108");
}

#[test]
fn a_refusal_is_1_and_nobody_there_is_3() {
    let desk = Desk::new();
    let wrong = desk
        .types_as("mallory's", &["operations", "list"])
        .unwrap_err();
    assert_eq!(wrong.code(), 1);
    let unknown = desk
        .types(&["operations", "show", "bank", "pay-0"])
        .unwrap_err();
    assert_eq!(unknown.code(), 1);
    let nobody = Arguments::try_parse_from([
        "fencepost",
        "resources",
        "list",
        "--admin",
        "http://127.0.0.1:1",
    ]);
    assert_eq!(run(nobody.unwrap()).unwrap_err().code(), 3);
}
