//! Identities computed from what a request holds, and answers judged by what they hold.
//!
//! What always holds: an identity is had from one unambiguous place or the request is refused and
//! nothing leaves; an answer proves an effect only where the config's condition can be evaluated and
//! holds.

use super::*;
use crate::support::script::Script;
use crate::support::setup::Setup;
use crate::support::upstream::Keys;

const ROUTE: &str = r#"
capability: [opaque]
effects:
  - on: POST /transfers
    once: >-
      transfer:{body.account.id}:{body.lines.filter(l, l.kind == 'debit')
      .map(l, string(l.number))[0]}
    answers:
      applied: "response.status == 200 && response.body.ok == true"
      refused: "response.status == 200 && response.body.ok == false"
  - on: POST /soap
    once: { xml: /Envelope/Body/order/id }
  - on: POST /graphql
    once: "gql:{graphql.operationName}:{graphql.input.order}"
  - on: POST /upload
    once: { multipart: file }
  - on: POST /form
    once: "form:{form.amount}"
"#;

fn transfer(proxy: &Proxy, number: &str, padding: usize) -> Call {
    let padding = "x".repeat(padding);
    proxy.post("/transfers").json(&format!(
        r#"{{"account":{{"id":"a:1"}},"lines":[{{"kind":"fee","number":1}},{{"kind":"debit","number":{number}}}],"padding":"{padding}"}}"#
    ))
}

#[test]
fn what_an_answer_says_decides_and_what_it_leaves_open_stays_open() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::new(upstream.address(), ROUTE));
    for (number, answer, ends) in [
        ("1", r#"{"ok":true}"#, "COMPLETED"),
        ("2", r#"{"ok":false}"#, "COMPLETED"),
        ("3", r#"{"ok":"true"}"#, "NEEDS_ATTENTION"),
        ("4", r#"{"ok":true,"ok":false}"#, "NEEDS_ATTENTION"),
        ("5", "{}", "NEEDS_ATTENTION"),
        ("6", "<html>", "NEEDS_ATTENTION"),
    ] {
        upstream.next(Script::refuse(200, answer));
        let told = transfer(&proxy, number, 0).send();
        assert_eq!((told.status, told.text().as_str()), (200, answer));
        until_state(&proxy, &format!("transfer:a%3A1:{number}"), ends);
        let asked = upstream.heads().len();
        let again = transfer(&proxy, number, 0).send();
        match ends {
            "COMPLETED" => assert_replayed(&again, &told),
            _ => assert_refused(&again, 409, "needs-attention", "after-settlement"),
        }
        assert_eq!(upstream.heads().len(), asked, "{answer}");
    }
}

/// 2^53 and its neighbour are one for whoever reads numbers as doubles.
#[test]
fn computed_identities_are_exact_and_large_content_keeps_them() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::new(upstream.address(), ROUTE));
    for (turn, padding) in [0, 65_536, 300_000].into_iter().enumerate() {
        for number in ["9007199254740992", "9007199254740993"] {
            upstream.next(Script::refuse(200, r#"{"ok":true}"#));
            let number = format!("{number}{turn}");
            let first = transfer(&proxy, &number, padding).send();
            assert_eq!((first.status, first.is_replay()), (200, false), "{number}");
            assert_replayed(&transfer(&proxy, &number, padding).send(), &first);
        }
    }
    assert_eq!(upstream.heads().len(), 6);
}

#[test]
fn every_kind_of_content_names_its_operation_or_is_refused() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::new(upstream.address(), ROUTE));
    let typed = |path: &str, kind: &str, body: &str| proxy.post(path).content(kind, body);
    let soap = |inner: &str| {
        let body = format!(
            "<s:Envelope xmlns:s='urn:s'><s:Body><order>{inner}</order></s:Body></s:Envelope>"
        );
        typed("/soap", "text/xml", &body)
    };
    let gql = |body: &str| typed("/graphql", "application/json", body);
    let upload = |content: &str| {
        let part = "--b\r\nContent-Disposition: form-data; name=file; filename=f\r\n\r\n";
        typed(
            "/upload",
            "multipart/form-data; boundary=b",
            &format!("{part}{content}\r\n--b--"),
        )
    };
    let form = |body: &str| typed("/form", "application/x-www-form-urlencoded", body);
    let request =
        r#"{"query":"mutation Pay","operationName":"Pay","variables":{"input":{"order":"o-1"}}}"#;
    for call in [
        soap("<id>7</id>"),
        gql(request),
        upload("abc"),
        form("amount=5"),
    ] {
        let first = call.send();
        assert_eq!(
            (first.status, first.is_replay()),
            (201, false),
            "{}",
            first.text()
        );
        assert_replayed(&call.send(), &first);
    }
    assert_eq!(upstream.effects().len(), 4);
    for call in [
        soap("<id>7</id><id>8</id>"),
        soap("<id>7<!-- 1 -->8</id>"),
        typed("/soap", "text/xml", "<!DOCTYPE Envelope><Envelope/>"),
        gql(&format!("[{request}]")),
        typed("/upload", "multipart/form-data", "abc"),
        form("amount=5&amount=5"),
        form("amount=5&%61mount=6"),
        typed(
            "/transfers",
            "application/json",
            r#"{"account":{"id":1},"lines":[]}"#,
        ),
        typed(
            "/transfers",
            "application/json",
            r#"{"account":{"id":1},"lines":[{"kind":"debit"}]}"#,
        ),
    ] {
        assert_refused(&call.send(), 400, "identity-missing", "never");
    }
    assert_eq!(upstream.effects().len(), 4);
}
