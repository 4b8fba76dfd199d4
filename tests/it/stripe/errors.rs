//! What the SDKs make of the proxy's own refusals: the class of the exception, and whether they repeat.
//!
//! What always holds: the shipped `stripe-v1` profile; the upstream is a stand-in that counts, and what the
//! SDK sent is counted on its way to the proxy.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::support::call::Call;
use crate::support::gate::{Gate, until};
use crate::support::link::Link;
use crate::support::node::node;
use crate::support::proxy::Proxy;
use crate::support::python::python;
use crate::support::script::Script;
use crate::support::setup::Setup;
use crate::support::upstream::{Keys, Upstream};

/// The profile, and a fence and little patience for charges.
const ROUTE: &str = r#"profile: stripe-v1
timeouts: { connect: 2s, response: 60s, dispatch: 5s }
effects:
  - on: POST /v1/charges
    once: { header: Idempotency-Key }
    join: 200ms
    settle: [ { send_again: { attempts: 1, backoff: { from: 1ms, to: 1ms } } } ]
    fence:
      resource: "account"
      token: { header: Fencing-Token, mode: prefer }
      order: free
"#;

#[derive(Clone, Copy, Debug)]
enum Sdk {
    Python,
    Node,
}

/// One charge: what the SDK made of it, and how often it asked.
fn charge(
    sdk: Sdk,
    proxy: SocketAddr,
    amount: u32,
    key: &str,
    token: Option<&str>,
) -> (Value, usize) {
    let link = Link::to(proxy);
    let fields = token.map(|token| json!({ "Fencing-Token": token }));
    let (mut command, options) = match sdk {
        Sdk::Python => {
            let mut options = json!({ "idempotency_key": key });
            if let Some(fields) = fields {
                options["headers"] = fields;
            }
            (python("python/stripe_error.py"), options)
        }
        Sdk::Node => {
            let mut options = json!({ "idempotencyKey": key });
            if let Some(fields) = fields {
                options["additionalHeaders"] = fields;
            }
            (node("node/stripe_error.cjs"), options)
        }
    };
    let output = command
        .args([&format!("http://{}", link.address()), "2"])
        .args([&amount.to_string(), &options.to_string()])
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{sdk:?} gave up: {words}");
    let told = serde_json::from_slice(&output.stdout).unwrap();
    let asked = link.passed_on().matches("POST /v1/charges ").count();
    (told, asked)
}

/// Class by SDK; the status and code that it shows; how often it asked.
fn assert_told(
    sdk: Sdk,
    told: &(Value, usize),
    classes: [&str; 2],
    status: u16,
    code: &str,
    asked: usize,
) {
    let [python, node] = classes;
    let class = match sdk {
        Sdk::Python => python,
        Sdk::Node => node,
    };
    let (error, times) = told;
    assert_eq!(error["class"], class, "{sdk:?}: {error}");
    assert_eq!(error["status"], status, "{sdk:?}: {error}");
    assert_eq!(error["code"], code, "{sdk:?}: {error}");
    assert_eq!(*times, asked, "{sdk:?}: {error}");
}

const API: [&str; 2] = ["APIError", "StripeAPIError"];
const INVALID: [&str; 2] = ["InvalidRequestError", "StripeInvalidRequestError"];
const IDEMPOTENCY: [&str; 2] = ["IdempotencyError", "StripeIdempotencyError"];

#[test]
fn the_sdks_raise_the_right_class_and_repeat_only_what_is_joined() {
    for sdk in [Sdk::Python, Sdk::Node] {
        let upstream = Upstream::start(Keys::Honoured);
        let mut proxy = Proxy::start(Setup::new(upstream.address(), ROUTE));
        let at = proxy.address();

        // 422: the key met another request. A defect, and no repeat.
        let (made, _) = charge(sdk, at, 500, "k", Some("7"));
        assert!(made["id"].is_string(), "{made}");
        let told = charge(sdk, at, 501, "k", Some("7"));
        assert_told(sdk, &told, IDEMPOTENCY, 400, "idempotency-key-reused", 1);

        // 412: a newer owner has acted.
        let told = charge(sdk, at, 500, "stale", Some("6"));
        assert_told(sdk, &told, INVALID, 400, "stale-fencing-token", 1);

        // 504: nobody knows. It asks again under its key, which joins; nothing is sent for that.
        let never = Gate::closed();
        upstream.next(Script::lose_answer());
        upstream.next(Script::hold_answer(&never));
        let told = charge(sdk, at, 500, "lost", None);
        assert_told(sdk, &told, API, 504, "outcome-uncertain", 3);
        assert_eq!(upstream.heads().len(), 3);
        never.open();
        until("it is settled", || {
            proxy.read("/v1/operations/provider/lost")["state"] == "COMPLETED"
        });
        let again = charge(sdk, at, 500, "lost", None);
        assert!(again.0["id"].is_string(), "{again:?}");
        assert_eq!(upstream.effects().len(), 2);

        // 409: it needs a person; a repeat is of no use.
        upstream.next(Script::lose_answer());
        upstream.next(Script::lose_answer());
        let (first, _) = charge(sdk, at, 500, "stuck", None);
        assert_eq!(first["class"], API[usize::from(matches!(sdk, Sdk::Node))]);
        let told = charge(sdk, at, 500, "stuck", None);
        assert_told(sdk, &told, API, 409, "needs-attention", 1);

        // 503: it is stopping; nothing is sent, and it asks again.
        let held = Gate::closed();
        upstream.next(Script::hold_answer(&held));
        let under_way = Call::new(at, "POST", "/v1/refunds")
            .key("held")
            .content("application/x-www-form-urlencoded", "amount=1")
            .start();
        held.until_reached();
        let before = upstream.heads().len();
        proxy.begin_to_stop();
        until("it is stopping", || proxy.health("/readyz").status == 503);
        let told = charge(sdk, at, 500, "later", None);
        assert_told(sdk, &told, API, 503, "draining", 3);
        assert_eq!(upstream.heads().len(), before);
        held.open();
        assert_eq!(under_way.answer().status, 201);
        assert!(proxy.ended().success());
    }
}
