//! The contract's table of problems, row by row.

use super::*;
use crate::protocol::ids::{AcquisitionId, FencingToken, ResourceName, Sequence, Tenant};
use crate::protocol::outcome::{Provenance, Verdict};
use crate::protocol::rejection::{Expired, UnknownToken};
use crate::protocol::time::{BootId, BootInstant, Moment};
use crate::wire::reply::fixtures::operation;
use crate::wire::reply::{OPERATION, SOURCE};
use http::header::LOCATION;

/// The table of the contract, §6, with those that came to it since.
const CONTRACT: &str = "
idempotency-key-required 400 never -
idempotency-key-malformed 400 never -
fencing-token-malformed 400 never -
identity-missing 400 never -
insertion-refused 400 never -
stale-fencing-token 412 never -
token-held-by-another 412 never -
generation-used 412 never -
sequence-regressed 412 never -
lease-not-current 412 never -
lease-lost 412 never -
lease-held 409 same-operation Retry-After
fencing-token-unknown 412 after-settlement -
fencing-token-required 428 never -
idempotency-key-reused 422 never -
meaning-not-comparable 409 never -
credential-required 403 never -
operation-in-flight 409 same-operation Retry-After
predecessor-unsettled 409 same-operation Retry-After
predecessor-unsettled 409 after-settlement -
needs-attention 409 after-settlement -
near-duplicate 409 never -
resource-cancelled 410 never -
answer-expired 410 never -
outcome-uncertain 504 same-operation Retry-After
upstream-unreachable 502 same-operation -
store-unavailable 503 same-operation Retry-After
draining 503 same-operation Retry-After
overloaded 503 same-operation Retry-After
dispatch-expired 503 same-operation Retry-After
body-too-large 413 never -
no-route 421 never -
";

fn token(text: &str) -> FencingToken {
    FencingToken::parse(text).unwrap()
}

fn rejections() -> Vec<Rejection> {
    let other = || Box::new(operation("other:\"1\""));
    vec![
        Rejection::TokenRequired,
        Rejection::TokenMalformed,
        Rejection::StaleToken {
            presented: token("107"),
            current: Some(token("9007199254740993")),
            epoch: None,
        },
        Rejection::TokenUnknown {
            presented: token("3:1"),
            why: UnknownToken::LaterEpoch,
        },
        Rejection::TokenHeldByAnother {
            presented: token("107"),
            acquisition: Some(AcquisitionId::new("a-1")),
        },
        Rejection::KeyReused,
        Rejection::NotComparable(other()),
        Rejection::CredentialRequired(other()),
        Rejection::AnswerExpired(Box::new(expired(1_790_000_000_000))),
        Rejection::NeedsAttention(other()),
        Rejection::LeaseNotCurrent,
        Rejection::ResourceCancelled,
        Rejection::GenerationUsed { by: other() },
        Rejection::SequenceRegressed {
            presented: None,
            last: Sequence::parse("4"),
        },
        Rejection::PredecessorUnsettled {
            predecessor: other(),
            waiting_may_help: true,
        },
        Rejection::PredecessorUnsettled {
            predecessor: other(),
            waiting_may_help: false,
        },
        Rejection::NearDuplicate { first: other() },
    ]
}

fn expired(wall_ms: u64) -> Expired {
    Expired {
        key: operation("pay:1"),
        verdict: Verdict::Refused,
        provenance: Provenance::LookUp,
        at: Moment {
            boot: BootId(1),
            boottime: BootInstant(5),
            wall_ms,
        },
        clocks_disagree: wall_ms == 0,
    }
}

/// Contract §4: with when and how it ended; and no time is told as if it were certain.
#[test]
fn what_is_left_of_an_answer_is_when_and_how_it_ended() {
    let told = |expired: Expired| {
        let rejection = Rejection::AnswerExpired(Box::new(expired));
        read(&refused(&rejection, About::default()))
    };
    let document = told(expired(1_790_000_000_000));
    assert_eq!(document["completed"], "2026-09-21T14:13:20.000Z");
    assert_eq!(document["verdict"], "refused");
    assert_eq!(document["provenance"], "look-up");
    let detail = document["detail"].as_str().unwrap();
    for words in [
        "ended at 2026-09-21T14:13:20.000Z, by the clock of the instance that recorded it. Its",
        "refused for good, by a look-up",
    ] {
        assert!(detail.contains(words), "{detail}");
    }
    let stepped = told(expired(0));
    let detail = stepped["detail"].as_str().unwrap();
    assert!(detail.contains("a clock was wrong, or was set"), "{detail}");
}

fn faults() -> Vec<Fault> {
    let header = HeaderName::from_static("idempotency-key");
    vec![
        Fault::NoRoute { why: "No route" },
        Fault::KeyRequired {
            header: header.clone(),
        },
        Fault::KeyMalformed { header },
        Fault::IdentityMissing {
            field: "json /id".to_owned(),
        },
        Fault::NotInsertable {
            what: "No room".to_owned(),
        },
        Fault::BodyTooLarge { limit: 1_048_576 },
        Fault::Overloaded,
        Fault::Draining,
        Fault::ConfigChanged,
        Fault::StoreUnavailable,
        Fault::UpstreamUnreachable,
        Fault::WorkerUnreachable,
        Fault::WorkerBroke {
            status: StatusCode::GATEWAY_TIMEOUT,
        },
        Fault::TooMuchWork { at_most: 100 },
        Fault::DispatchExpired,
        Fault::LeaseHeld {
            resource: ResourceName::new("statement:\\42"),
            why: "another holds it".to_owned(),
        },
        Fault::LeaseLost {
            resource: None,
            why: "its time ended".to_owned(),
            remedy: Remedy::BeginAnew,
        },
        Fault::OperationInFlight,
        Fault::OutcomeUncertain {
            status: StatusCode::GATEWAY_TIMEOUT,
        },
    ]
}

/// What a caller can be told.
pub(in crate::wire) fn every_row() -> Vec<Row> {
    let refused = rejections()
        .iter()
        .map(Row::of_rejection)
        .collect::<Vec<_>>();
    let faults = faults().iter().map(Row::of_fault).collect::<Vec<_>>();
    [refused, faults].concat()
}

fn replies(about: About<'_>) -> Vec<Reply> {
    let refused = rejections().into_iter().map(|why| refused(&why, about));
    let faults = faults().into_iter().map(|why| fault(&why, about));
    refused.chain(faults).collect()
}

fn read(reply: &Reply) -> Value {
    serde_json::from_slice(&reply.body).unwrap()
}

#[test]
fn every_row_of_the_contract_and_no_other() {
    let mut seen: Vec<String> = replies(About::default())
        .iter()
        .map(|reply| {
            let document = read(reply);
            let kind = document["type"].as_str().unwrap();
            let name = kind.strip_prefix("urn:fencepost:problem:").unwrap();
            let retry = document["retry"].as_str().unwrap();
            let after = match reply.headers.get(RETRY_AFTER) {
                Some(seconds) => {
                    assert!(seconds.to_str().unwrap().parse::<u64>().unwrap() > 0);
                    "Retry-After"
                }
                None => "-",
            };
            assert_eq!(document["status"], reply.status.as_u16());
            format!("{name} {} {retry} {after}", reply.status.as_u16())
        })
        .collect();
    let mut expected: Vec<&str> = CONTRACT.lines().filter(|row| !row.is_empty()).collect();
    seen.sort();
    // Some faults differ in their sentence only.
    seen.dedup();
    expected.sort_unstable();
    assert_eq!(seen, expected);
}

/// Whoever meets a problem finds it in the manual, with its status and what a retry does.
#[test]
fn the_manual_tells_every_problem() {
    let manual = include_str!("../../manual/answers.rs");
    let rows = manual.lines().filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix("//! | `")?.split('|').collect();
        let [name, status, retry, after, _meaning, ""] = cells.as_slice() else {
            return None;
        };
        let after = if after.trim().is_empty() {
            "-"
        } else {
            after.trim()
        };
        let name = name.trim().trim_end_matches('`');
        Some([name, status.trim(), retry.trim(), after].join(" "))
    });
    let mut told: Vec<String> = rows.collect();
    let mut expected: Vec<String> = CONTRACT
        .lines()
        .filter(|row| !row.is_empty())
        .map(str::to_owned)
        .chain(["operation-voided 409 never -".to_owned()])
        .collect();
    told.sort();
    expected.sort();
    assert_eq!(told, expected);
}

#[test]
fn every_problem_is_complete() {
    let key = operation("pay:\"1\"\r\n");
    let resource = ResourceKey {
        tenant: Tenant::new("t"),
        name: ResourceName::new("statement:\\42"),
    };
    let about = About {
        operation: Some(&key),
        resource: Some(&resource),
        ..About::default()
    };
    for reply in replies(about) {
        let document = read(&reply);
        assert_eq!(reply.headers[CONTENT_TYPE], "application/problem+json");
        assert_eq!(reply.headers[SOURCE], "proxy");
        assert!(reply.headers.contains_key(OPERATION));
        assert_eq!(document["resource"], "statement:\\42");
        assert!(document["operation"].is_string());
        assert_eq!(document["upstream"], "bank/eu");
        assert!(!document["title"].as_str().unwrap().is_empty());
        let detail = document["detail"].as_str().unwrap();
        assert!(detail.ends_with('.') && !detail.contains("  "), "{detail}");
    }
}

#[test]
fn only_unsettled_operations_are_located() {
    let key = operation("pay:1");
    let about = About {
        operation: Some(&key),
        resource: None,
        ..About::default()
    };
    for reply in replies(about) {
        let document = read(&reply);
        let kind = document["type"].as_str().unwrap();
        let unsettled = [
            "operation-in-flight",
            "needs-attention",
            "outcome-uncertain",
        ]
        .iter()
        .any(|name| kind.ends_with(name));
        assert_eq!(reply.headers.contains_key(LOCATION), unsettled, "{kind}");
    }
}

/// B28: the caller learns what differs, by name.
#[test]
fn a_reused_identity_says_what_differs() {
    let differs = ["json /amount".to_owned(), "path".to_owned()];
    let about = About {
        differs: &differs,
        ..About::default()
    };
    let document = read(&refused(&Rejection::KeyReused, about));
    assert_eq!(document["differs"], serde_json::json!(differs));
    let detail = document["detail"].as_str().unwrap();
    assert!(
        detail.ends_with("It differs in: json /amount, path."),
        "{detail}"
    );
    let unknown = read(&refused(&Rejection::KeyReused, About::default()));
    assert_eq!(unknown.get("differs"), None);
}

#[test]
fn tokens_are_text_to_the_last_digit() {
    let stale = Rejection::StaleToken {
        presented: token("107"),
        current: Some(token("9007199254740993")),
        epoch: None,
    };
    let document = read(&refused(&stale, About::default()));
    assert_eq!(document["presented"], "107");
    assert_eq!(document["current"], "9007199254740993");
}

#[test]
fn the_operation_in_the_way_is_named_with_its_place() {
    let rejection = Rejection::PredecessorUnsettled {
        predecessor: Box::new(operation("a/b")),
        waiting_may_help: true,
    };
    let own = operation("mine");
    let about = About {
        operation: Some(&own),
        resource: None,
        ..About::default()
    };
    let document = read(&refused(&rejection, about));
    assert_eq!(document["operation"], "mine");
    assert_eq!(document["predecessor"]["operation"], "a/b");
    assert_eq!(
        document["predecessor"]["location"],
        "/v1/operations/bank%2Feu/a%2Fb?principal=none&incarnation=0"
    );
}

/// A restart of the worker does not make its work of another moment.
#[test]
fn what_can_be_done_about_a_loss_goes_by_its_cause() {
    let lost = |remedy| {
        let fault = Fault::LeaseLost {
            resource: Some(ResourceName::new("account:42")),
            why: "x".to_owned(),
            remedy,
        };
        let document = read(&super::fault(&fault, About::default()));
        assert_eq!(document["resource"], "account:42");
        document["detail"].as_str().unwrap().to_owned()
    };
    let all = [
        (Remedy::BeginAnew, "restart the worker"),
        (Remedy::AskAgain, "under a new id"),
        (Remedy::CarryId, "does not carry on the id"),
        (Remedy::SendFromThere, "the worker's own machine"),
    ];
    for (remedy, own) in all {
        let detail = lost(remedy);
        let told: Vec<_> = all.iter().filter(|(_, it)| detail.contains(it)).collect();
        assert_eq!(told.len(), 1, "{detail}");
        assert!(detail.contains(own), "{detail}");
    }
    let stale = Rejection::StaleToken {
        presented: token("1"),
        current: Some(token("2")),
        epoch: None,
    };
    for (stamped, own) in [
        (Some(Standing::Earlier), "under a new id"),
        (Some(Standing::Present), "acquire the lease again"),
        (None, "acquire the lease again"),
    ] {
        let about = About {
            stamped,
            ..About::default()
        };
        let document = read(&refused(&stale, about));
        assert!(
            document["detail"].as_str().unwrap().contains(own),
            "{document}"
        );
    }
}

#[test]
fn a_route_chooses_the_status_of_uncertainty() {
    let status = StatusCode::ACCEPTED;
    let reply = fault(&Fault::OutcomeUncertain { status }, About::default());
    assert_eq!(reply.status, status);
    assert_eq!(read(&reply)["status"], 202);
}

#[test]
fn unread_content_closes_the_connection() {
    let reply = fault(&Fault::BodyTooLarge { limit: 1 }, About::default());
    assert_eq!(reply.headers[CONNECTION], "close");
}

/// What is advised can be done: nothing is let in before a lease was taken, and what is forgotten in a config is said.
#[test]
fn a_token_that_cannot_be_placed_comes_with_what_helps() {
    let resource = ResourceKey {
        tenant: Tenant::new("t"),
        name: ResourceName::new("statement:1/2"),
    };
    let detail = |why| {
        let rejection = Rejection::TokenUnknown {
            presented: token("1:9"),
            why,
        };
        let about = About {
            resource: Some(&resource),
            ..About::default()
        };
        let document = read(&refused(&rejection, about));
        document["detail"].as_str().unwrap().to_owned()
    };
    let first = detail(UnknownToken::NoneIssued);
    assert!(
        first.contains("POST /v1/leases/statement%3A1%2F2/acquire"),
        "{first}"
    );
    assert!(!first.contains("resources accept"), "{first}");
    let forgotten = detail(UnknownToken::NotOwn);
    assert!(
        forgotten.contains("write `source: fencepost`"),
        "{forgotten}"
    );
    let own = detail(UnknownToken::NeverIssued);
    assert!(own.contains(" 1:9 --source fencepost --reason"), "{own}");
    let jump = detail(UnknownToken::TooFarAhead);
    assert!(jump.contains("accept statement:1/2 1:9 --reason"), "{jump}");
}
