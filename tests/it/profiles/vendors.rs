//! What each vendor documents for its worst hours, and what becomes of a request that meets it: one row each.
//!
//! What always holds: what the vendor said reaches the caller as he said it; whether it was applied is not guessed from
//! it; the same key is all that is ever sent.
//!
//! What lives elsewhere: Stripe's and PayPal's (`nasty`).

use std::thread;

use super::requests::{
    ADYEN, BREVO, EC2, GENERIC, GITHUB, GOCARDLESS, IETF, RESEND, Request, SENDGRID, SHOPIFY,
    STRIPE_V2,
};
use super::*;
use crate::support::upstream::Keys;

/// What one request meets.
#[derive(Clone, Copy)]
enum Meets {
    /// It is done, and nobody hears of it.
    Lost,
    /// Nothing is done, and this is said.
    Told(u16, &'static str),
    /// The same, and not in JSON.
    Raw(&'static str),
    /// It is done, and this is said of it, now and later.
    Stored(u16, &'static str),
}

struct Row {
    what: &'static str,
    request: Request,
    route: &'static str,
    meets: &'static [Meets],
    /// Whatever comes after those.
    then: Option<Meets>,
    /// The first answer; `None`: that nobody knows.
    told: Option<u16>,
    /// In the end.
    state: &'static str,
    /// Heads that were no questions, and effects.
    sent: usize,
    effects: usize,
}

/// The first time, and as often again as is usual.
const SENT_IN_ALL: usize = 1 + 5;

const LIFETIME: &str = "key: { lifetime: 24h }\n";

/// It goes well in the end.
const ROW: Row = Row {
    what: "",
    request: GENERIC,
    route: "",
    meets: &[],
    then: None,
    told: Some(201),
    state: "COMPLETED",
    sent: 2,
    effects: 1,
};

/// Nobody can find out.
const PERSON: Row = Row {
    told: None,
    state: "NEEDS_ATTENTION",
    sent: 1,
    ..ROW
};

const ADYENS_704: &str = "HTTP/1.1 422 Scripted\r\nContent-Type: application/json\r\ntransient-error: true\r\nContent-Length: 32\r\n\r\n{\"status\":422,\"errorCode\":\"704\"}";
const MISMATCH: &str = "HTTP/1.1 400 Scripted\r\nContent-Type: text/xml\r\nContent-Length: 93\r\n\r\n<Response><Errors><Error><Code>IdempotentParameterMismatch</Code></Error></Errors></Response>";
const CONFLICT: &str = r#"{"error":{"errors":[{"reason":"idempotent_creation_conflict","links":{"conflicting_resource_id":"PM1"}}]}}"#;
const SHOPIFY_RUNS: &str =
    r#"{"data":{"orderCreate":{"userErrors":[{"code":"IDEMPOTENCY_CONCURRENT_REQUEST"}]}}}"#;
const SHOPIFY_REFUSES: &str =
    r#"{"data":{"orderCreate":{"userErrors":[{"code":"INVALID","message":"no such item"}]}}}"#;
const SHOPIFY_ORDERED: &str = r#"{"data":{"orderCreate":{"id":"o_1","userErrors":[]}}}"#;
const SHOPIFY_THROTTLED: &str = r#"{"errors":[{"extensions":{"code":"THROTTLED"}}]}"#;

const ROWS: &[Row] = &[
    Row {
        what: "Adyen: 704, the first request is still running",
        request: ADYEN,
        meets: &[Meets::Lost, Meets::Raw(ADYENS_704)],
        sent: 3,
        ..ROW
    },
    Row {
        what: "Adyen: 703, their store of keys is away",
        request: ADYEN,
        meets: &[Meets::Told(503, r#"{"status":503,"errorCode":"703"}"#)],
        told: Some(503),
        ..ROW
    },
    Row {
        what: "Adyen: a validation error is one",
        request: ADYEN,
        meets: &[Meets::Told(422, r#"{"status":422,"errorCode":"130"}"#)],
        told: Some(422),
        state: "NOT_APPLIED",
        sent: 1,
        effects: 0,
        ..ROW
    },
    Row {
        what: "Brevo: the first was taken, and nobody says what became of it",
        request: BREVO,
        meets: &[Meets::Lost],
        then: Some(Meets::Told(400, r#"{"code":"duplicate_parameter"}"#)),
        sent: SENT_IN_ALL,
        ..PERSON
    },
    Row {
        what: "Resend: the first request is still running",
        request: RESEND,
        meets: &[
            Meets::Lost,
            Meets::Told(409, r#"{"name":"concurrent_idempotent_requests"}"#),
        ],
        sent: 3,
        ..ROW
    },
    Row {
        what: "Resend: the key met another payload",
        request: RESEND,
        then: Some(Meets::Told(409, r#"{"name":"invalid_idempotent_request"}"#)),
        told: Some(409),
        sent: SENT_IN_ALL,
        effects: 0,
        ..PERSON
    },
    Row {
        what: "Shopify: refused inside a 200",
        request: SHOPIFY,
        meets: &[Meets::Told(200, SHOPIFY_REFUSES)],
        told: Some(200),
        sent: 1,
        effects: 0,
        ..ROW
    },
    Row {
        what: "Shopify: the first request is still running, inside a 200",
        request: SHOPIFY,
        meets: &[
            Meets::Told(200, SHOPIFY_RUNS),
            Meets::Stored(200, SHOPIFY_ORDERED),
        ],
        told: Some(200),
        ..ROW
    },
    Row {
        what: "Shopify: throttled inside a 200",
        request: SHOPIFY,
        meets: &[Meets::Told(200, SHOPIFY_THROTTLED)],
        told: Some(200),
        state: "NOT_APPLIED",
        sent: 1,
        effects: 0,
        ..ROW
    },
    Row {
        what: "EC2: the token met other parameters",
        request: EC2,
        meets: &[Meets::Raw(MISMATCH)],
        told: Some(400),
        effects: 0,
        ..PERSON
    },
    Row {
        what: "EC2: nobody knows how long a token counts",
        request: EC2,
        meets: &[Meets::Lost],
        ..PERSON
    },
    Row {
        what: "GoCardless: something was created under this key, perhaps by this very request",
        request: GOCARDLESS,
        meets: &[Meets::Told(409, CONFLICT)],
        told: Some(409),
        effects: 0,
        ..PERSON
    },
    Row {
        what: "GoCardless: the same to a repeat",
        request: GOCARDLESS,
        route: LIFETIME,
        meets: &[Meets::Lost],
        then: Some(Meets::Told(409, CONFLICT)),
        sent: SENT_IN_ALL,
        ..PERSON
    },
    Row {
        what: "the draft: the key met another payload",
        request: IETF,
        route: LIFETIME,
        then: Some(Meets::Told(422, r#"{"title":"another payload"}"#)),
        told: Some(422),
        sent: SENT_IN_ALL,
        effects: 0,
        ..PERSON
    },
    Row {
        what: "the draft: the first request is still running",
        request: IETF,
        route: LIFETIME,
        meets: &[Meets::Lost, Meets::Told(409, r#"{"title":"is running"}"#)],
        sent: 3,
        ..ROW
    },
    Row {
        what: "the draft: an API that does not say how long a key counts",
        request: IETF,
        meets: &[Meets::Lost],
        ..PERSON
    },
    Row {
        what: "generic: the first request is still running",
        request: GENERIC,
        route: LIFETIME,
        meets: &[Meets::Lost, Meets::Told(409, "{}")],
        sent: 3,
        ..ROW
    },
    Row {
        what: "generic: 422 to the first request, which was not processed",
        request: GENERIC,
        route: LIFETIME,
        meets: &[Meets::Told(422, "{}")],
        told: Some(422),
        state: "NOT_APPLIED",
        sent: 1,
        effects: 0,
        ..ROW
    },
    Row {
        what: "generic: 422 to a repeat says nothing of the first",
        request: GENERIC,
        route: LIFETIME,
        meets: &[Meets::Lost, Meets::Told(422, "{}")],
        sent: 3,
        ..ROW
    },
    Row {
        what: "SendGrid: one attempt, then a person",
        request: SENDGRID,
        meets: &[Meets::Lost],
        ..PERSON
    },
    Row {
        what: "SendGrid: a 500 is no failure",
        request: SENDGRID,
        meets: &[Meets::Stored(500, "{}")],
        told: Some(500),
        ..PERSON
    },
    Row {
        what: "GitHub: one attempt, then a person",
        request: GITHUB,
        meets: &[Meets::Lost],
        ..PERSON
    },
    Row {
        what: "GitHub: what was not processed may be sent again",
        request: GITHUB,
        meets: &[Meets::Told(422, r#"{"message":"Validation Failed"}"#)],
        told: Some(422),
        state: "NOT_APPLIED",
        sent: 1,
        effects: 0,
        ..ROW
    },
    Row {
        what: "Stripe v2: what failed is run again under its key",
        request: STRIPE_V2,
        meets: &[Meets::Told(500, r#"{"error":{"type":"api_error"}}"#)],
        told: Some(500),
        ..ROW
    },
    Row {
        what: "Stripe v2: the key met another payload",
        request: STRIPE_V2,
        then: Some(Meets::Told(
            400,
            r#"{"error":{"type":"idempotency_error"}}"#,
        )),
        told: Some(400),
        sent: SENT_IN_ALL,
        effects: 0,
        ..PERSON
    },
    Row {
        what: "Stripe v2: a refusal of a repeat says nothing of the first",
        request: STRIPE_V2,
        meets: &[
            Meets::Lost,
            Meets::Told(402, r#"{"error":{"type":"card_error"}}"#),
        ],
        sent: 3,
        ..ROW
    },
];

impl Meets {
    fn script(self) -> Script {
        match self {
            Self::Lost => Script::lose_answer(),
            Self::Told(status, body) => Script::refuse(status, body),
            Self::Raw(bytes) => Script::answer_raw(bytes),
            Self::Stored(status, body) => Script::store(status, body),
        }
    }
}

impl Row {
    fn check(&self) {
        let upstream = self.request.upstream(Keys::Honoured);
        let route = format!("{QUICK}{}", self.route);
        let scene = Scene::new(self.request.profile, upstream, &route);
        let scripts = self.meets.iter().map(|meets| meets.script());
        let then = self.then.iter().cycle().take(SENT_IN_ALL);
        let scripts = scripts.chain(then.map(|meets| meets.script()));
        scripts.for_each(|script| scene.upstream.next(script));
        let call = self.request.call(scene.proxy.address(), KEY, "1");

        let told = call.send();

        let what = self.what;
        if let Some(status) = self.told {
            assert_eq!(told.status, status, "{what}: {}", told.text());
        } else {
            let said = told.problem().unwrap_or_default();
            let nobody_knows = ["outcome-uncertain", "needs-attention"];
            assert!(
                nobody_knows.contains(&said.as_str()),
                "{what}: {}",
                told.text()
            );
        }
        scene.until_state(KEY, self.state);
        let sent: Vec<_> = scene.sent();
        assert_eq!(sent.len(), self.sent, "{what}: sent");
        assert_eq!(scene.upstream.effects().len(), self.effects, "{what}");
        // The same request, each time.
        assert!(
            sent.iter().all(|head| head.text == sent[0].text),
            "{what}: {sent:?}"
        );
        let operation = scene.operation(KEY);
        let verdict = operation["outcome"]["verdict"].as_str();
        let again = match self.state {
            "COMPLETED" => {
                let expected = match self.effects {
                    0 => "refused",
                    _ => "applied",
                };
                assert_eq!(verdict, Some(expected), "{what}");
                call.send()
            }
            "NEEDS_ATTENTION" => {
                let again = call.send();
                assert_eq!(
                    again.verdict(),
                    (409, "needs-attention".to_owned()),
                    "{what}"
                );
                again
            }
            // It is free for whoever corrects it.
            _ => return,
        };
        assert_eq!(again.is_replay(), self.state == "COMPLETED", "{what}");
        assert_eq!(scene.sent().len(), self.sent, "{what}: sent once more");
    }
}

/// Each row of the table of upstreams that has a worst hour of its own; F07, F12.
#[test]
fn what_vendors_say_at_their_worst_is_taken_for_what_it_says() {
    thread::scope(|scope| {
        for row in ROWS {
            scope.spawn(|| row.check());
        }
    });
}

/// B20, F01. Brevo forgets a key within minutes, and whatever comes under it then is sent anew.
#[test]
fn a_mail_whose_key_is_forgotten_is_not_sent_again() {
    let lifetime = Duration::from_secs(2);
    let route = "key: { lifetime: 2s }\n";
    let upstream = BREVO.upstream(Keys::Honoured);
    let mut scene = Scene::new("brevo", upstream, route);
    let mail = BREVO.call(scene.proxy.address(), KEY, "1");
    scene.loses_past_the_key(&mail, lifetime);

    scene.until_state(KEY, "NEEDS_ATTENTION");
    assert_eq!(mail.send().verdict(), (409, "needs-attention".to_owned()));
    assert_eq!((scene.upstream.effects().len(), scene.sent().len()), (1, 1));
}

/// E-mails of a sender that brings no key have one each, in the content, and the vendor's own form of it.
#[test]
fn a_mail_without_a_key_is_given_one_in_its_content() {
    let scene = Scene::new("brevo", BREVO.upstream(Keys::Honoured), QUICK);
    scene.upstream.next(Script::lose_answer());
    let mail = scene
        .proxy
        .post(BREVO.target)
        .json(r#"{"subject":"hello"}"#);
    assert_eq!(mail.send().status, 201);
    assert_eq!((scene.upstream.effects().len(), scene.sent().len()), (1, 2));
    let key = scene.upstream.effect(1).key.unwrap();
    assert_eq!(key.len(), 36, "{key}");
}

/// The draft quotes keys, and clients send them bare: either is the same key.
#[test]
fn a_quoted_key_and_a_bare_one_are_one_operation() {
    let scene = Scene::new("ietf", Upstream::start(Keys::Honoured), QUICK);
    let order = |key: &str| {
        let order = scene.proxy.post("/orders").json("{}");
        order.field("Idempotency-Key", key).send()
    };
    assert_eq!(order(&format!("\"{KEY}\"")).status, 201);
    let again = order(KEY);
    assert_eq!((again.status, again.is_replay()), (201, true));
    assert_eq!(scene.sent().len(), 1);
}

/// A signed request without a token of its own is left as it is, and has one attempt.
#[test]
fn a_signed_request_without_a_token_is_sent_once_as_it_is() {
    let scene = Scene::new("aws-ec2", EC2.upstream(Keys::Honoured), QUICK);
    scene.upstream.next(Script::lose_answer());
    let body = "Action=RunInstances&ImageId=ami-1";
    let (field, credential) = EC2.fields[0];
    let run = scene.proxy.post("/").content(FORM, body);
    assert_eq!(run.field(field, credential).send().status, 504);
    until("it waits for a person", || {
        let list = scene.proxy.read("/v1/operations");
        list["operations"][0]["state"] == "NEEDS_ATTENTION"
    });
    assert_eq!(scene.upstream.effect(1).body, body);
    assert_eq!(scene.sent().len(), 1);
}
