//! How upstreams answer what they are asked, by what they have done: true as far as it goes, and no further than their
//! lists reach.
//!
//! What always holds: an effect is called `effect-<number>`, and somebody else's thing otherwise.
//!
//! What it does not do: know how far the lists are behind. Whoever asks brings what shows by now.

use crate::support::script::json_answer;
use crate::support::upstream::{Effect, what_is_there};

/// A question, and what it may be answered from.
pub(super) struct Question<'a> {
    /// What has happened, and shows by now; each with its number.
    pub(super) effects: Vec<(usize, &'a Effect)>,
    /// Everything that has happened.
    pub(super) all: &'a [Effect],
    pub(super) target: &'a str,
    /// Is it to be answered with somebody else's things alone?
    pub(super) astray: bool,
}

impl Question<'_> {
    /// Those of whose requests that is true.
    fn of(&self, is_meant: impl Fn(&Effect) -> bool) -> Vec<(usize, &Effect)> {
        let shown = self.effects.iter().filter(|_| !self.astray);
        shown.filter(|(_, it)| is_meant(it)).copied().collect()
    }

    /// Those whose key the target names.
    fn by_key(&self) -> Vec<(usize, &Effect)> {
        self.of(|it| {
            let key = it.key.as_deref();
            key.is_some_and(|key| self.target.contains(key))
        })
    }
}

/// A list of things, somebody else's first.
fn list<'e>(
    others: &str,
    found: impl IntoIterator<Item = (usize, &'e Effect)>,
    shown: impl Fn(usize, &Effect) -> String,
) -> String {
    let own = found.into_iter().map(|(number, it)| shown(number, it));
    let others = (!others.is_empty()).then(|| others.to_owned());
    others.into_iter().chain(own).collect::<Vec<_>>().join(",")
}

fn ok(body: &str) -> Vec<u8> {
    json_answer(200, body)
}

/// What stands between that text and the end of the value.
pub(super) fn after<'t>(text: &'t str, before: &str) -> &'t str {
    let (_, value) = text.split_once(before).unwrap_or_default();
    let end = value.find(['"', '&', '/', '?']).unwrap_or(value.len());
    &value[..end]
}

const METADATA: &str = "metadata%5Bfencepost_operation%5D=";

/// Stripe's search knows no more than it has indexed.
pub(super) fn stripe(question: &Question<'_>) -> Vec<u8> {
    let found = question.of(|it| question.target.contains(after(&it.body, METADATA)));
    let others = r#"{"id":"pi_0","status":"succeeded","metadata":{}}"#;
    let others = if question.astray { others } else { "" };
    let data = list(others, found, |number, it| {
        let reference = after(&it.body, METADATA);
        format!(
            r#"{{"id":"effect-{number}","status":"succeeded","metadata":{{"fencepost_operation":"{reference}"}}}}"#
        )
    });
    ok(&format!(r#"{{"data":[{data}]}}"#))
}

pub(super) fn paypal(question: &Question<'_>) -> Vec<u8> {
    let order = after(question.target, "/orders/");
    let found = question.of(|it| after(&it.path, "/orders/") == order);
    let status = if found.is_empty() {
        "APPROVED"
    } else {
        "COMPLETED"
    };
    let payments = list("", found, |number, _| {
        format!(r#"{{"id":"effect-{number}","status":"CREATED"}}"#)
    });
    ok(&format!(
        r#"{{"id":"{order}","status":"{status}","purchase_units":[{{"payments":{{"authorizations":[{payments}]}}}}]}}"#
    ))
}

pub(super) fn increase(question: &Question<'_>) -> Vec<u8> {
    let others = r#"{"id":"t_0","idempotency_key":"other"}"#;
    let others = if question.astray { others } else { "" };
    let data = list(others, question.by_key(), |number, it| {
        let key = it.key.as_deref().unwrap_or_default();
        format!(r#"{{"id":"effect-{number}","idempotency_key":"{key}"}}"#)
    });
    ok(&format!(r#"{{"data":[{data}]}}"#))
}

pub(super) fn wise(question: &Question<'_>) -> Vec<u8> {
    let others = r#"{"id":"t_0","customerTransactionId":"other"}"#;
    let all = list(others, question.of(|_| true), |number, it| {
        let key = it.key.as_deref().unwrap_or_default();
        format!(r#"{{"id":"effect-{number}","customerTransactionId":"{key}"}}"#)
    });
    ok(&format!("[{all}]"))
}

pub(super) fn checkout_com(question: &Question<'_>) -> Vec<u8> {
    let all = list(r#"{"id":"pay_0"}"#, question.of(|_| true), |number, it| {
        let reference = after(&it.body, r#""fencepost_operation":""#);
        format!(r#"{{"id":"effect-{number}","metadata":{{"fencepost_operation":"{reference}"}}}}"#)
    });
    ok(&format!(r#"{{"data":[{all}]}}"#))
}

pub(super) fn google(question: &Question<'_>) -> Vec<u8> {
    let others = r#"{"id":"0","clientOperationId":"other"}"#;
    let others = if question.astray { others } else { "" };
    let items = list(others, question.by_key(), |number, it| {
        let key = it.key.as_deref().unwrap_or_default();
        format!(r#"{{"id":"effect-{number}","clientOperationId":"{key}"}}"#)
    });
    ok(&format!(r#"{{"items":[{items}]}}"#))
}

/// It cancels whatever was paid under the key, and says the same where nothing was.
pub(super) fn square(question: &Question<'_>) -> Vec<u8> {
    if question.astray {
        return ok(r#"{"errors":[{"code":"BAD_REQUEST"}]}"#);
    }
    ok("{}")
}

/// Whoever reads after a write sees it.
pub(super) fn s3(question: &Question<'_>) -> Vec<u8> {
    match what_is_there(question.all, question.target) {
        None => b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec(),
        Some((tag, content)) => format!(
            "HTTP/1.1 200 OK\r\nETag: \"{tag}\"\r\nContent-Length: {}\r\n\r\n{content}",
            content.len()
        )
        .into_bytes(),
    }
}

pub(super) fn stored(number: usize) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nETag: \"effect-{number}\"\r\nContent-Length: 0\r\n\r\n")
        .into_bytes()
}

pub(super) fn ordered(number: usize) -> Vec<u8> {
    ok(&format!(
        r#"{{"data":{{"orderCreate":{{"id":"effect-{number}","userErrors":[]}}}}}}"#
    ))
}
