//! Conditions and picks on what a question found, and on what somebody called back with.
//!
//! What always holds: what cannot be evaluated is not known, never false; what is picked out of a document
//! is a part of it, byte for byte: nothing is written anew, so no digit and no member is lost.
//!
//! What it does not do: ask (`upstream`), or say what a condition means for an operation (`reconcile`).

use std::fmt;

use cel::Value;
use cel::objects::Key;
use serde_json::value::RawValue;

use super::condition::{AnswerFacts, Truth};
use super::interpreter::{ExpressionError, Program, Reference, Root, Scope};
use super::member::{RequestFacts, WhyMissing};

/// A condition on a stored request and an answer to a question about it.
#[derive(Clone, PartialEq, Eq)]
pub struct FoundCondition(Program);

/// A condition on a request, and on the operation that it is about.
#[derive(Clone, PartialEq, Eq)]
pub struct RequestCondition(Program);

/// A part of a JSON document, chosen by an expression.
#[derive(Clone, PartialEq, Eq)]
pub struct Pick(Program);

impl FoundCondition {
    /// Compiles `response.status == 200 && response.body.data.exists(i, i.id == operation.id)`.
    pub fn parse(source: &str) -> Result<Self, ExpressionError> {
        Program::compile(source, Root::OF_FOUND, 0).map(Self)
    }

    /// What it reads.
    pub fn references(&self) -> &[Reference] {
        self.0.references()
    }

    /// Does it hold?
    pub fn test(&self, request: &RequestFacts<'_>, answer: &AnswerFacts<'_>) -> Truth {
        let references = self.0.references();
        let scope = Scope::of_found(&references.iter(), request, answer);
        truth(scope.and_then(|scope| self.0.holds(&scope)))
    }
}

impl RequestCondition {
    /// Compiles `body.type == 'paid' && body.reference == operation.reference`.
    pub fn parse(source: &str) -> Result<Self, ExpressionError> {
        Program::compile(source, Root::OF_CALLBACK_ABOUT, 0).map(Self)
    }

    /// Does it hold?
    pub fn test(&self, request: &RequestFacts<'_>) -> Truth {
        let scope = Scope::of_request(&self.0.references().iter(), request);
        let scope = scope.map_err(|missing| missing.why);
        truth(scope.and_then(|scope| self.0.holds(&scope)))
    }
}

fn truth(holds: Result<bool, WhyMissing>) -> Truth {
    match holds {
        Ok(true) => Truth::Yes,
        Ok(false) => Truth::No,
        Err(_) => Truth::NotKnown,
    }
}

impl Pick {
    /// Compiles `response.body.data[0]`, to pick out of answers.
    pub fn of_found(source: &str) -> Result<Self, ExpressionError> {
        Program::compile(source, Root::OF_FOUND, 0).map(Self)
    }

    /// Compiles `body.data.object`, to pick out of requests.
    pub fn of_request(source: &str) -> Result<Self, ExpressionError> {
        Program::compile(source, Root::OF_CALLBACK, 0).map(Self)
    }

    /// What it reads.
    pub fn references(&self) -> &[Reference] {
        self.0.references()
    }

    /// Picks out of an answer's content.
    pub fn from_answer<'a>(
        &self,
        request: &RequestFacts<'_>,
        answer: &AnswerFacts<'a>,
    ) -> Result<&'a [u8], WhyMissing> {
        let document = answer.json_body().ok_or(WhyMissing::Unreadable)?;
        let references = self.0.references();
        let scope = Scope::of_found(&references.iter(), request, answer)?;
        self.out_of(&scope, document)
    }

    /// Picks out of a request's content.
    pub fn from_request<'a>(&self, request: &RequestFacts<'a>) -> Result<&'a [u8], WhyMissing> {
        let scope = Scope::of_request(&self.0.references().iter(), request);
        let scope = scope.map_err(|missing| missing.why)?;
        self.out_of(&scope, request.body)
    }

    fn out_of<'a>(&self, scope: &Scope<'_>, document: &'a [u8]) -> Result<&'a [u8], WhyMissing> {
        let wanted = as_json(&self.0.value(scope)?).ok_or(WhyMissing::NotScalar)?;
        let text = std::str::from_utf8(document).map_err(|_| WhyMissing::NotText)?;
        let whole: &RawValue = serde_json::from_str(text).map_err(|_| WhyMissing::Unreadable)?;
        // Of equal parts each is as good as another.
        let part = part_equal_to(whole.get(), &wanted).ok_or(WhyMissing::Failed)?;
        Ok(part.as_bytes())
    }
}

/// As `serde_json` would have read it; `None` for what no JSON text holds.
fn as_json(value: &Value) -> Option<serde_json::Value> {
    Some(match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(boolean) => (*boolean).into(),
        Value::Int(integer) => (*integer).into(),
        Value::UInt(integer) => (*integer).into(),
        Value::Float(float) => serde_json::Number::from_f64(*float)?.into(),
        Value::String(text) => text.as_str().into(),
        Value::List(items) => {
            let items = items.iter().map(as_json);
            serde_json::Value::Array(items.collect::<Option<_>>()?)
        }
        Value::Map(map) => {
            let entries = map.map.iter().map(|(name, value)| match name {
                Key::String(name) => Some((name.as_str().to_owned(), as_json(value)?)),
                Key::Int(_) | Key::Uint(_) | Key::Bool(_) => None,
            });
            serde_json::Value::Object(entries.collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

/// The first part of the document that says the same. The document was read whole before, with bounded
/// depth.
fn part_equal_to<'a>(document: &'a str, wanted: &serde_json::Value) -> Option<&'a str> {
    let here: serde_json::Value = serde_json::from_str(document).ok()?;
    if here == *wanted {
        return Some(document.trim());
    }
    match here {
        serde_json::Value::Array(_) => {
            let items: Vec<&RawValue> = serde_json::from_str(document).ok()?;
            let mut items = items.into_iter();
            items.find_map(|item| part_equal_to(item.get(), wanted))
        }
        serde_json::Value::Object(_) => {
            let members: Members<'_> = serde_json::from_str(document).ok()?;
            let mut members = members.0.into_iter();
            members.find_map(|member| part_equal_to(member.get(), wanted))
        }
        serde_json::Value::Null
        | serde_json::Value::Bool(_)
        | serde_json::Value::Number(_)
        | serde_json::Value::String(_) => None,
    }
}

/// What the members of an object hold, in the order of the text.
struct Members<'a>(Vec<&'a RawValue>);

impl<'de: 'a, 'a> serde::Deserialize<'de> for Members<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Vec<&'de RawValue>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while map.next_key::<serde::de::IgnoredAny>()?.is_some() {
                    members.push(map.next_value()?);
                }
                Ok(members)
            }
        }

        source.deserialize_map(Visitor).map(Self)
    }
}

impl fmt::Debug for FoundCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FoundCondition({})", self.0.source())
    }
}

impl fmt::Debug for RequestCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestCondition({})", self.0.source())
    }
}

impl fmt::Debug for Pick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pick({})", self.0.source())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderMap, Method};

    use super::*;
    use crate::expression::{OperationFacts, PathParams};

    fn request<'a>(
        headers: &'a HeaderMap,
        path: &'a PathParams,
        body: &'a [u8],
    ) -> RequestFacts<'a> {
        RequestFacts {
            method: &Method::POST,
            raw_path: "/charges",
            path,
            query: None,
            headers,
            body,
            token: None,
            operation: Some(OperationFacts::of_id("pay:o42")),
        }
    }

    fn json() -> Vec<(Bytes, Bytes)> {
        vec![(
            Bytes::from_static(b"content-type"),
            Bytes::from_static(b"application/json"),
        )]
    }

    /// Condition and pick over one answer to a question about `pay:o42`, whose content is `body`.
    fn asked(condition: &str, pick: &str, body: &str) -> (Truth, Result<String, WhyMissing>) {
        let (headers, path, fields) = (HeaderMap::new(), PathParams::default(), json());
        let facts = request(&headers, &path, br#"{"amount":5}"#);
        let answer = AnswerFacts {
            status: 200,
            fields: &fields,
            body: Some(body.as_bytes()),
        };
        let truth = FoundCondition::parse(condition)
            .unwrap()
            .test(&facts, &answer);
        let picked = Pick::of_found(pick).unwrap().from_answer(&facts, &answer);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (truth, picked.map(text))
    }

    #[test]
    fn what_is_found_is_taken_byte_for_byte() {
        let body = r#"{"data":[{"ref":"other","n":1},
            {"ref":"pay:o42", "amount": 1.50, "big":9007199254740993,"z":{"b":1,"a":2}}]}"#;
        let mine = "response.body.data.filter(i, i.ref == operation.id)[0]";
        let (truth, picked) = asked(
            "response.status == 200 && response.body.data.exists(i, i.ref == operation.id)",
            mine,
            body,
        );
        assert_eq!(truth, Truth::Yes);
        let exact =
            r#"{"ref":"pay:o42", "amount": 1.50, "big":9007199254740993,"z":{"b":1,"a":2}}"#;
        assert_eq!(picked.as_deref(), Ok(exact));
        let (_, inner) = asked("true", &format!("{mine}.z"), body);
        assert_eq!(inner.as_deref(), Ok(r#"{"b":1,"a":2}"#));
        let (_, scalar) = asked("true", &format!("{mine}.amount"), body);
        assert_eq!(scalar.as_deref(), Ok("1.50"));
    }

    #[test]
    fn the_request_that_was_sent_can_be_compared_with() {
        let equal = "response.body.amount == body.amount";
        assert_eq!(
            asked(equal, "response.body", r#"{"amount":5}"#).0,
            Truth::Yes
        );
        assert_eq!(
            asked(equal, "response.body", r#"{"amount":6}"#).0,
            Truth::No
        );
    }

    #[test]
    fn what_cannot_be_read_is_not_known() {
        let condition = "size(response.body.data) == 0";
        for body in [
            "<html>",
            "",
            "{}",
            r#"{"data":null}"#,
            r#"{"data":[],"data":[1]}"#,
        ] {
            let (truth, picked) = asked(condition, "response.body.data[0]", body);
            assert_eq!(truth, Truth::NotKnown, "{body}");
            assert!(picked.is_err(), "{body}");
        }
    }

    #[test]
    fn nothing_is_made_up() {
        let (_, made) = asked("true", "response.body.a + 'x'", r#"{"a":"b"}"#);
        assert_eq!(made, Err(WhyMissing::Failed));
        assert!(FoundCondition::parse("nonsense.x == 1").is_err());
        assert!(RequestCondition::parse("response.status == 200").is_err());
        assert!(RequestCondition::parse("operation.reference == body.a").is_ok());
        assert!(RequestCondition::parse("token.generation == '1'").is_err());
        assert!(Pick::of_request("operation.id").is_err());
    }

    #[test]
    fn a_callback_is_read_by_itself() {
        let (headers, path) = (HeaderMap::new(), PathParams::default());
        let facts = request(
            &headers,
            &path,
            br#"{"type":"done","data":{"object":{"id": 7}}}"#,
        );
        let condition = RequestCondition::parse("body.type == 'done'").unwrap();
        assert_eq!(condition.test(&facts), Truth::Yes);
        let pick = Pick::of_request("body.data.object").unwrap();
        assert_eq!(pick.from_request(&facts), Ok(&br#"{"id": 7}"#[..]));
    }
}
