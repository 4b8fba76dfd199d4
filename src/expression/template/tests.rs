//! What a template reads, what it refuses, and that values cannot be chosen to collide.

use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;

use super::*;
use crate::expression::{PathParams, PathTemplate, RequestPath, WhyMissing};
use crate::protocol::ids::FencingToken;

struct Request {
    path: PathParams,
    headers: HeaderMap,
    query: &'static str,
    body: &'static [u8],
    token: Option<FencingToken>,
}

impl Request {
    fn new() -> Self {
        let template = PathTemplate::parse("/accounts/{account}/{date}").unwrap();
        let path = RequestPath::parse("/accounts/a%3A42/2026-09-13").unwrap();
        let mut headers = HeaderMap::new();
        headers.insert("x-name", HeaderValue::from_static("bob"));
        headers.append("twice", HeaderValue::from_static("1"));
        headers.append("twice", HeaderValue::from_static("1"));
        headers.insert("blank", HeaderValue::from_static(""));
        Self {
            path: template.captures(&path).unwrap(),
            headers,
            query: "x=1+2&y=%41",
            body: br#"{"order":{"id":17,"odd key":"v"},"items":[{"sku":"s"}],"price":1.5}"#,
            token: FencingToken::parse("3:108"),
        }
    }

    fn render(&self, text: &str) -> Result<String, Missing> {
        Template::parse(text).unwrap().render(&RequestFacts {
            path: &self.path,
            query: Some(self.query),
            headers: &self.headers,
            body: self.body,
            token: self.token,
            operation: None,
        })
    }
}

#[test]
fn members_are_read_and_inserted() {
    let request = Request::new();
    for (template, expected) in [
        ("constant", "constant"),
        (
            "publish:{path.account}:{path.date}",
            "publish:a%3A42:2026-09-13",
        ),
        ("{path.account}", "a:42"),
        ("q {query.x}/{query.y}", "q 1 2/A"),
        ("h:{headers.X-Name}|{headers[\"x-name\"]}", "h:bob|bob"),
        ("o:{body.order.id}", "o:17"),
        ("o:{ body.order[\"odd key\"] }", "o:v"),
        ("i:{body.items[0].sku}", "i:s"),
        // The epoch is part of it: generation 108 of another epoch is another one.
        ("g:{token.generation}", "g:3%3A108"),
        ("{token}", "3:108"),
        ("r:{resource.incarnation}:{path.date}", "r:*:2026-09-13"),
        // What separates is escaped, even a letter or a hyphen.
        ("{path.date}-{path.date}", "2026%2D09%2D13-2026%2D09%2D13"),
        ("{headers.x-name}o{headers.x-name}", "b%6Fbob%6Fb"),
    ] {
        assert_eq!(
            request.render(template).as_deref(),
            Ok(expected),
            "{template}"
        );
    }
}

#[test]
fn a_form_field_is_read() {
    let mut request = Request::new();
    request.body = b"amount=5&metadata[order]=7";
    assert_eq!(
        request.render("{form[\"metadata[order]\"]}").as_deref(),
        Ok("7")
    );
    assert_eq!(request.render("{form.amount}").as_deref(), Ok("5"));
}

#[test]
fn a_value_that_cannot_be_had_names_its_field() {
    let mut request = Request::new();
    for (template, field, why) in [
        ("x:{headers.nope}", "header nope", WhyMissing::Absent),
        ("x:{headers.twice}", "header twice", WhyMissing::Repeated),
        ("{headers.blank}", "header blank", WhyMissing::Empty),
        ("{body.price}", "json /price", WhyMissing::NotScalar),
        ("{body.order}", "json /order", WhyMissing::NotScalar),
        ("{body.order.nope}", "json /order/nope", WhyMissing::Absent),
        ("{query.z}", "query z", WhyMissing::Absent),
        ("{operation.id}", "operation id", WhyMissing::Absent),
    ] {
        let missing = request.render(template).unwrap_err();
        assert_eq!(
            (missing.field.as_str(), missing.why),
            (field, why),
            "{template}"
        );
    }
    request.token = None;
    assert_eq!(
        request.render("{token.generation}").unwrap_err().why,
        WhyMissing::Absent
    );
    request.body = b"not json";
    assert_eq!(
        request.render("{body.a}").unwrap_err().why,
        WhyMissing::Unreadable
    );
}

#[test]
fn what_is_not_a_plain_member_is_refused_where_it_stands() {
    for (text, offset) in [
        ("", 0),
        ("a:{", 2),
        ("a:{path.x", 2),
        ("a}b", 1),
        ("50%:{path.x}", 2),
        ("a:{path.x}{path.y}", 10),
        ("a:{path.x + path.y}", 2),
        ("a:{size(body)}", 2),
        ("a:{request.method}", 2),
        ("a:{path}", 2),
        ("a:{path.x.y}", 2),
        ("a:{body}", 2),
        ("a:{headers[\"no such\"]}", 2),
        ("a:{token.epoch}", 2),
        ("a:{operation.key}", 2),
        ("a:{body[x]}", 2),
        ("a:{}", 2),
    ] {
        let error = Template::parse(text).unwrap_err();
        assert_eq!(error.offset, offset, "{text}: {error}");
    }
}

#[test]
fn it_knows_what_it_is() {
    let parse = |text| Template::parse(text).unwrap();
    assert!(parse("{headers.idempotency-key}").single_value().is_some());
    assert!(
        parse("x:{headers.idempotency-key}")
            .single_value()
            .is_none()
    );
    assert!(parse("a:{token.generation}").uses_generation());
    assert!(parse("a:{token.generation}").follows_incarnation());
    assert!(parse("a:{resource.incarnation}").follows_incarnation());
    assert!(!parse("a:{path.x}").follows_incarnation());
}

/// Separators from the same small alphabet as the values, so that collisions would be found.
const TEXTS: [&str; 8] = ["-", "a", "ab", "3", ":", "/", "::", "é"];

proptest! {
    #[test]
    fn different_values_never_give_one_text(
        first in ("[a3A:%/é-]{1,5}", "[a3A:%/é-]{1,5}", "[a3A:%/é-]{1,5}"),
        second in ("[a3A:%/é-]{1,5}", "[a3A:%/é-]{1,5}", "[a3A:%/é-]{1,5}"),
        between in (0_usize..8, 0_usize..8),
    ) {
        let text = format!(
            "{{body.x}}{}{{body.y}}{}{{body.z}}",
            TEXTS[between.0],
            TEXTS[between.1],
        );
        let template = Template::parse(&text).unwrap();
        let render = |values: &(String, String, String)| {
            let body = serde_json::json!({"x": values.0, "y": values.1, "z": values.2}).to_string();
            let facts = RequestFacts {
                path: &PathParams::default(),
                query: None,
                headers: &HeaderMap::new(),
                body: body.as_bytes(),
                token: None,
                operation: None,
            };
            template.render(&facts).unwrap()
        };
        prop_assert_eq!(render(&first) == render(&second), first == second);
    }
}
