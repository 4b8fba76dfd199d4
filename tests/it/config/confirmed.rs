//! A config under which unsettled operations change, put in force because a person says so.
//!
//! What always holds: what is confirmed is exactly the config that was refused, and who confirmed it is
//! known afterwards.

use std::process::Output;

use crate::support::call::Call;
use crate::support::gate::Gate;
use crate::support::proxy::Proxy;
use crate::support::script::Script;
use crate::support::setup::{OPERATOR, Setup};
use crate::support::upstream::{Keys, Upstream};

use super::reload::{changed, digest, reasons, replace, text};

fn told(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8(text).unwrap()
}

#[test]
fn what_was_refused_is_put_in_force_once_an_operator_confirms_that_very_config() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::opaque(upstream.address()));
    upstream.next(Script::lose_answer());
    let order = proxy.post("/orders").json(r#"{"order":"o-1","nr":7}"#);
    assert_ne!(order.send().status, 201);
    let before = digest(&proxy);
    let reload = changed(&proxy, "order:{body.order}", "bestellung:{body.order}");
    assert_eq!(reload["result"], "refused", "{reload}");
    let refused = reload["digest"].as_str().unwrap().to_owned();

    // The refusal says what to type, and so does `check`.
    let typed = format!("fencepost reload --accept-identity-changes {refused} --reason");
    assert!(reasons(&reload).contains(&typed), "{reload}");
    let admin = format!("http://{}", proxy.admin_address());
    let file = proxy.config().display().to_string();
    let checked = Proxy::command_alone(&["check", &file, "--admin", &admin, "--token", OPERATOR.1]);
    assert!(told(&checked).contains(&typed), "{checked:?}");

    // Without a confirmation it is refused again; and a confirmation is of one config only.
    let again = proxy.command(&["reload"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(told(&again).contains(&typed), "{again:?}");
    let good = text(&proxy);
    replace(&proxy, &format!("{good}# another\n"));
    let confirm = || {
        let confirmed = ["reload", "--accept-identity-changes", &refused];
        proxy.command(&[&confirmed[..], &["--reason", "o-1 was seen at the bank"]].concat())
    };
    let other = confirm();
    assert_eq!(other.status.code(), Some(1));
    let said = told(&other);
    assert!(
        said.contains("config-refused") && said.contains(&refused),
        "{said}"
    );
    let nobody = Call::new(proxy.admin_address(), "POST", "/v1/reload").json("{}");
    assert_eq!(nobody.send().status, 401);
    assert_eq!(digest(&proxy), before);

    replace(&proxy, &good);
    let confirmed = confirm();
    assert_eq!(confirmed.status.code(), Some(0), "{confirmed:?}");

    assert_eq!(digest(&proxy), refused);
    let events = proxy.read("/v1/operations/provider/order%3Ao-1")["events"].to_string();
    for word in [OPERATOR.0, &refused, "o-1 was seen at the bank"] {
        assert!(events.contains(word), "{word}: {events}");
    }
    let log = proxy.log();
    let line = log
        .lines()
        .find(|line| line.contains("an operator accepted"));
    let line = line.expect("it stands in the log");
    assert!(
        line.contains(OPERATOR.0) && line.contains(&refused),
        "{line}"
    );
    // This is what was accepted: a repeat is another operation.
    assert_eq!(order.send().status, 201);
    assert_eq!(upstream.effects().len(), 2);
}

/// Sent again to another place it would be another effect: no person's word makes that right.
#[test]
fn what_would_be_sent_again_otherwise_cannot_be_confirmed() {
    let (upstream, other) = (
        Upstream::start(Keys::Honoured),
        Upstream::start(Keys::Honoured),
    );
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    let gate = Gate::closed();
    upstream.next(Script::hold_effect(&gate));
    let slow = proxy.post("/payments").key("k1").json(r#"{"amount":7}"#);
    let slow = slow.start();
    gate.until_reached();
    let before = digest(&proxy);
    let (here, there) = (upstream.address().to_string(), other.address().to_string());
    let reload = changed(&proxy, &here, &there);
    assert_eq!(reload["result"], "refused", "{reload}");
    assert!(reasons(&reload).contains("cannot be confirmed"), "{reload}");
    let refused = reload["digest"].as_str().unwrap().to_owned();
    let confirmed = ["reload", "--accept-identity-changes", &refused];
    let confirmed = proxy.command(&[&confirmed[..], &["--reason", "k1 was seen"]].concat());
    assert_eq!(confirmed.status.code(), Some(1), "{confirmed:?}");
    assert!(
        told(&confirmed).contains("cannot be confirmed"),
        "{confirmed:?}"
    );
    assert_eq!(digest(&proxy), before);
    gate.open();
    assert_eq!(slow.answer().status, 201);
    assert_eq!((upstream.effects().len(), other.effects().len()), (1, 0));
}
