//! What a template reads, what it refuses, and that values cannot be chosen to collide.

use http::{HeaderMap, HeaderValue, Method};
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

    fn read(&self, member: Member) -> Result<String, Missing> {
        self.rendered(&Template::of(member))
    }

    fn render(&self, text: &str) -> Result<String, Missing> {
        self.rendered(&Template::parse(text).unwrap())
    }

    fn rendered(&self, template: &Template) -> Result<String, Missing> {
        template.render(&RequestFacts {
            method: &Method::PUT,
            raw_path: "/accounts/a%3A42/2026-09-13",
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
fn forms_files_xml_and_graphql_are_read() {
    let mut request = Request::new();
    let typed = |request: &mut Request, kind: &'static str| {
        let kind = HeaderValue::from_static(kind);
        request.headers.insert(http::header::CONTENT_TYPE, kind);
    };
    typed(&mut request, "multipart/form-data; boundary=b");
    request.body = b"--b\r\nContent-Disposition: form-data; name=amount\r\n\r\n5\r\n\
        --b\r\nContent-Disposition: form-data; name=f; filename=x\r\n\r\nabc\r\n--b--";
    assert_eq!(request.render("a:{form.amount}").as_deref(), Ok("a:5"));
    assert_eq!(
        request.render("a:{form.amount + '0'}").as_deref(),
        Ok("a:50")
    );
    assert_eq!(request.render("a:{size(form)}").as_deref(), Ok("a:1"));
    assert_eq!(
        request.render("a:{form.f}").unwrap_err().why,
        WhyMissing::NotText
    );
    let digest = request.read(Member::Multipart("f".to_owned()));
    // SHA-256 of `abc`, FIPS 180-2, B.1.
    let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(digest.as_deref(), Ok(known));
    typed(&mut request, "application/json");
    request.body = br#"{"query":"q","variables":{"in":{"id":7}},"operationName":"Pay"}"#;
    let named = request.render("g:{graphql.operationName}:{graphql.in.id}");
    assert_eq!(named.as_deref(), Ok("g:Pay:7"));
    // The type says that it is no form, whatever it looks like.
    assert_eq!(
        request.render("a:{form.amount}").unwrap_err().why,
        WhyMissing::Unreadable
    );
    typed(&mut request, "text/xml");
    request.body = b"<a><b>7</b></a>";
    let path = crate::expression::XmlPath::parse("/a/b").unwrap();
    assert_eq!(request.read(Member::Xml(path)).as_deref(), Ok("7"));
}

#[test]
fn how_much_keeps_others_waiting_depends_on_what_is_done_with_it() {
    let above = |text| Template::parse(text).unwrap().slow_above();
    assert_eq!(above("a:{body.x}"), 65_536);
    assert_eq!(above("a:{body.x + 'x'}"), 65_536);
    assert_eq!(
        above("a:{body.x + 'x'}:{size(body.l.filter(i, i > 1))}"),
        4_096
    );
    assert_eq!(
        above("a:{body.l.exists(i, body.l.exists(j, i + j == 0))}"),
        0
    );
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
fn what_is_not_a_plain_member_is_computed() {
    let request = Request::new();
    for (template, expected) in [
        (
            "a:{path.account + \":\" + path.date}",
            "a:a%3A42%3A2026-09-13",
        ),
        ("{path.account + \":\" + path.date}", "a:42:2026-09-13"),
        ("n:{size(body.items)}", "n:1"),
        ("n:{body.order.id + 1}", "n:18"),
        (
            "m:{request.method}:{request.path}",
            "m:PUT:%2Faccounts%2Fa%253A42%2F2026-09-13",
        ),
        ("b:{body.order.id == 17}", "b:true"),
        ("q:{query.y == 'A' ? 'yes' : 'no'}", "q:yes"),
        ("h:{headers['X-Name'] + headers[\"x-name\"]}", "h:bobbob"),
        ("h:{has(headers.nope) ? headers.nope : 'none'}", "h:none"),
        ("t:{string(token.generation)}", "t:3%3A108"),
        ("e:{body.items.exists(i, i.sku == 's')}", "e:true"),
        ("k:{body.order['odd key'] + 'é}\\'{'}", "k:vé}'{"),
        ("m:{{'a': 'x'}['a']}", "m:x"),
        ("c:{'constant'}", "c:constant"),
    ] {
        assert_eq!(
            request.render(template).as_deref(),
            Ok(expected),
            "{template}"
        );
    }
}

#[test]
fn what_cannot_be_computed_names_its_expression() {
    let mut request = Request::new();
    request.query = "a=1&a=1&b=2";
    let nope = "expression `body.nope + 'x'`";
    for (template, field, why) in [
        ("x:{body.nope + 'x'}", nope, WhyMissing::Absent),
        (
            "x:{body.order.id + 'x'}",
            "expression `body.order.id + 'x'`",
            WhyMissing::Failed,
        ),
        ("x:{body['price']  }", "json /price", WhyMissing::NotScalar),
        (
            "x:{(body.price)}",
            "expression `(body.price)`",
            WhyMissing::NotScalar,
        ),
        (
            "x:{(body.order)}",
            "expression `(body.order)`",
            WhyMissing::NotScalar,
        ),
        ("x:{[1]}", "expression `[1]`", WhyMissing::NotScalar),
        ("x:{null}", "expression `null`", WhyMissing::NotScalar),
        ("x:{'' + ''}", "expression `'' + ''`", WhyMissing::Empty),
        (
            "x:{body.items[3].sku + ''}",
            "expression `body.items[3].sku + ''`",
            WhyMissing::Absent,
        ),
        (
            "x:{1 / (body.order.id - 17)}",
            "expression `1 / (body.order.id - 17)`",
            WhyMissing::Failed,
        ),
        (
            "x:{9223372036854775807 + body.order.id}",
            "expression `9223372036854775807 + body.order.id`",
            WhyMissing::Failed,
        ),
        // What is ambiguous refuses, whatever would be compared with it.
        ("x:{query.a == '2'}", "query a", WhyMissing::Repeated),
        ("x:{size(query)}", "query a", WhyMissing::Repeated),
        (
            "x:{has(headers.twice)}",
            "headers twice",
            WhyMissing::Repeated,
        ),
        ("x:{operation.id + 'x'}", "operation", WhyMissing::Absent),
    ] {
        let missing = request.render(template);
        let told = missing
            .as_ref()
            .map_err(|missing| (missing.field.as_str(), missing.why));
        assert_eq!(told, Err((field, why)), "{template}");
    }
    // A member that is not named does not matter.
    assert_eq!(request.render("x:{query.b + ''}").as_deref(), Ok("x:2"));
}

#[test]
fn what_a_computed_part_needs_is_there_or_named() {
    let mut request = Request::new();
    request.token = None;
    let missing = request.render("x:{token.generation + 'x'}").unwrap_err();
    assert_eq!(
        (missing.field.as_str(), missing.why),
        ("token", WhyMissing::Absent)
    );
    for (body, why) in [
        (&b"not json"[..], WhyMissing::Unreadable),
        (br#"{"a":1,"a":1}"#, WhyMissing::Repeated),
        (br#"{"b":{"x":1,"\u0078":1},"a":1}"#, WhyMissing::Repeated),
        (br#"{"a":18446744073709551616}"#, WhyMissing::Inexact),
        (br#"{"a":9007199254740993.0}"#, WhyMissing::Inexact),
    ] {
        request.body = body;
        let missing = request.render("x:{body.a + 1}").unwrap_err();
        assert_eq!((missing.field.as_str(), missing.why), ("body", why));
    }
}

#[test]
fn what_names_nothing_that_there_is_is_refused_where_it_stands() {
    for (text, offset, part) in [
        ("", 0, "is empty"),
        ("a:{", 2, "never closed"),
        ("a:{path.x", 2, "never closed"),
        ("a}b", 1, "cannot stand"),
        ("50%:{path.x}", 2, "cannot stand"),
        ("a:{path.x}{path.y}", 10, "need text between"),
        ("a:{path.x + ''}{path.y}", 15, "need text between"),
        ("a:{size(body)}{path.y}", 14, "need text between"),
        ("a:{}", 3, "is not CEL"),
        ("a:{path}", 3, "name a member"),
        ("a:{body}", 3, "name a member"),
        ("a:{path.x.y}", 3, "has no members"),
        ("a:{headers['x'][0]}", 3, "has no members"),
        ("a:{headers[\"no such\"]}", 3, "not the name of a header"),
        ("a:{token.epoch}", 3, "only generation"),
        ("a:{operation.secret}", 3, "only id"),
        ("a:{has(token.generation)}", 6, "always there"),
        ("a:{body[x]}", 8, "`x` is unknown"),
        (
            "é:{'é' + nope}",
            11,
            "`nope` is unknown here; known are request",
        ),
        ("a:{resource.id + 'x'}", 3, "`resource` is unknown"),
        ("a:{response.status}", 3, "`response` is unknown"),
        ("a:{headers.x-name + 'x'}", 13, "`name` is unknown"),
        ("a:{body.x +}", 11, "is not CEL"),
        ("a:{path.x.matches('a')}", 10, "`matches` is not a function"),
        ("a:{now() + path.x}", 3, "`now` is not a function"),
        ("a:{size(path.x, 1)}", 3, "called as `size(x)`"),
        ("a:{contains(path.x)}", 3, "called as `x.contains(y)`"),
        ("a:{body.all(x)}", 8, "not called like this"),
        ("a:{body.a.all(body, body > 1)}", 13, "is a root"),
        ("a:{Type{x: 1}}", 7, "not a type"),
        ("a:{b'x' + path.x}", 3, "bytes"),
        ("a:{body.?x}", 7, "unsupported"),
    ] {
        let error = Template::parse(text).unwrap_err();
        assert_eq!(error.offset, offset, "{text}: {error}");
        assert!(error.message.contains(part), "{text}: {error}");
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
    assert!(parse("a:{token.generation + 'x'}").uses_generation());
    let key = HeaderName::from_static("idempotency-key");
    assert!(parse("a:{headers['Idempotency-Key'] + 'x'}").reads_header(&key));
    assert!(parse("a:{size(headers)}").reads_header(&key));
    assert!(!parse("a:{headers.x + 'x'}").reads_header(&key));
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
        // A member, a computed part that is the same value, and a member again.
        let text = format!(
            "{{body.x}}{}{{'' + body.y}}{}{{body.z}}",
            TEXTS[between.0],
            TEXTS[between.1],
        );
        let template = Template::parse(&text).unwrap();
        let render = |values: &(String, String, String)| {
            let body = serde_json::json!({"x": values.0, "y": values.1, "z": values.2}).to_string();
            let facts = RequestFacts {
                method: &Method::POST,
                raw_path: "/",
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

/// Escapes stand in a target as they are written, and nowhere else.
#[test]
fn a_target_has_escapes_of_its_own() {
    let target = Template::parse_target("/s?query=a%5B%27b%27%5D%3A{operation.id}").unwrap();
    assert_eq!(target.written(), "/s?query=a%5B%27b%27%5D%3A{operation id}");
    assert!(Template::parse("/s?query=a%5B").is_err());
    for (wrong, at) in [
        ("/a%5", 2),
        ("/%zz", 1),
        ("/{operation.id}%", 15),
        ("/a}", 2),
    ] {
        assert_eq!(
            Template::parse_target(wrong).unwrap_err().offset,
            at,
            "{wrong}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Whatever stands in a config is a template or a problem inside it.
    #[test]
    fn no_text_panics(text in "([a-z:/%]|\\{[a-z0-9.+ '\"\\[\\](){}é-]{0,12}\\}|.){0,8}") {
        match Template::parse(&text) {
            Ok(template) => {
                let _whatever = Request::new().rendered(&template);
            }
            Err(error) => prop_assert!(error.offset <= text.len()),
        }
    }
}
