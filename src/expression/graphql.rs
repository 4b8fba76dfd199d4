//! What a GraphQL request over HTTP says beside its query text.
//!
//! What always holds: the request is one JSON object with its query as a text; a batch (an array of
//! requests) has no value, since it is several operations in one, and neither has a GET, whose
//! content is empty.
//!
//! What it does not do: read the query text: arguments written into it are not seen. Clients that
//! deduplicate send variables.

use std::fmt;

use super::json;
use super::member::WhyMissing;

/// A variable, or the name of the operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GraphQl {
    /// `operationName`.
    OperationName,
    /// A variable, and the way into it: `input.order.id`.
    Variable(Vec<String>),
}

impl GraphQl {
    /// Reads `amount`, `$amount`, `input.order.id`; `operationName` is the operation's name, and
    /// `$operationName` a variable of that name.
    pub fn parse(text: &str) -> Option<Self> {
        if text == "operationName" {
            return Some(Self::OperationName);
        }
        let names = text.strip_prefix('$').unwrap_or(text).split('.');
        let plain = |name: &str| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        let names = names.map(|name| plain(name).then(|| name.to_owned()));
        names.collect::<Option<_>>().map(Self::Variable)
    }
}

impl fmt::Display for GraphQl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OperationName => f.write_str("operationName"),
            Self::Variable(names) => write!(f, "${}", names.join(".")),
        }
    }
}

/// What the request says.
pub(super) fn value(body: &[u8], wanted: &GraphQl) -> Result<String, WhyMissing> {
    // Also refuses batches: an array has no member of this name.
    json::scalar(body, &["query".to_owned()]).map_err(|_| WhyMissing::Unreadable)?;
    match wanted {
        GraphQl::OperationName => json::scalar(body, &["operationName".to_owned()]),
        GraphQl::Variable(names) => {
            let mut pointer = vec!["variables".to_owned()];
            pointer.extend_from_slice(names);
            json::scalar(body, &pointer)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str, wanted: &str) -> Result<String, WhyMissing> {
        value(body.as_bytes(), &GraphQl::parse(wanted).unwrap())
    }

    #[test]
    fn variables_and_the_operations_name_are_read() {
        let body = r#"{"query":"mutation Pay($n: Int!) {..}","operationName":"Pay",
            "variables":{"n":9007199254740993,"input":{"id":"a"},"operationName":"v"}}"#;
        assert_eq!(read(body, "n").as_deref(), Ok("9007199254740993"));
        assert_eq!(read(body, "$n").as_deref(), Ok("9007199254740993"));
        assert_eq!(read(body, "input.id").as_deref(), Ok("a"));
        assert_eq!(read(body, "operationName").as_deref(), Ok("Pay"));
        assert_eq!(read(body, "$operationName").as_deref(), Ok("v"));
        assert_eq!(read(body, "input"), Err(WhyMissing::NotScalar));
        assert_eq!(read(body, "m"), Err(WhyMissing::Absent));
    }

    #[test]
    fn what_is_not_one_request_has_no_value() {
        for body in [
            "",
            "[{\"query\":\"q\",\"variables\":{\"n\":1}}]",
            "{\"variables\":{\"n\":1}}",
            "{\"query\":{},\"variables\":{\"n\":1}}",
            "{\"query\":\"a\",\"query\":\"b\",\"variables\":{\"n\":1}}",
            "mutation { pay }",
        ] {
            assert_eq!(read(body, "n"), Err(WhyMissing::Unreadable), "{body}");
        }
        let doubled = "{\"query\":\"q\",\"variables\":{\"n\":1},\"variables\":{\"n\":2}}";
        assert_eq!(read(doubled, "n"), Err(WhyMissing::Repeated));
        for bad in ["", "$", "a..b", "a.", "é", "a[0]", "a b"] {
            assert_eq!(GraphQl::parse(bad), None, "{bad}");
        }
    }
}
