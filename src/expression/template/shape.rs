//! Whether a text can have come from a template, without the request that it was made of.
//!
//! What always holds: a text that the template made is never denied. Values are encoded so that they
//! end at the first unencoded separator; so there is one way to take a text apart, or none.
//!
//! What it does not do: prove that it came from there. Another template may make the same text.

use super::{Part, Template, compute};
use crate::expression::interpreter::Scope;
use crate::expression::{Missing, RequestFacts};

impl Template {
    /// Could some request have made this text?
    pub fn could_make(&self, text: &str) -> bool {
        match self.parts.as_slice() {
            // Alone, a value is taken as it is.
            [Part::Member(_) | Part::Computed(_)] => !text.is_empty(),
            parts => self.fits(parts, text),
        }
    }

    /// In the words of the config, with members by the names that problems have for them:
    /// `publish:{path account}:{token}`.
    pub fn written(&self) -> String {
        let parts = self.parts.iter().map(|part| match part {
            Part::Text(text) => text.clone(),
            Part::Member(member) => format!("{{{member}}}"),
            Part::Computed(program) => format!("{{{}}}", program.source()),
        });
        parts.collect()
    }

    /// Its computed parts, each as written and with what it gives for one request.
    pub fn computed(&self, facts: &RequestFacts<'_>) -> Vec<(String, Result<String, Missing>)> {
        let scope = Scope::of_request(&self.references(), facts);
        let parts = self.parts.iter().filter_map(|part| match part {
            Part::Text(_) | Part::Member(_) => None,
            Part::Computed(program) => Some(program),
        });
        let given = parts.map(|program| {
            let value = match &scope {
                Ok(scope) => compute(program, Some(scope)),
                Err(missing) => Err(missing.clone()),
            };
            (program.source().trim().to_owned(), value)
        });
        given.collect()
    }

    fn fits(&self, parts: &[Part], text: &str) -> bool {
        match parts {
            [] => text.is_empty(),
            [Part::Text(own), rest @ ..] => text
                .strip_prefix(own.as_str())
                .is_some_and(|text| self.fits(rest, text)),
            [Part::Member(_) | Part::Computed(_), rest @ ..] => {
                let end = text.find(|c| self.escapes(c)).unwrap_or(text.len());
                end > 0 && text.get(end..).is_some_and(|after| self.fits(rest, after))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::PathParams;
    use http::{HeaderMap, Method};
    use proptest::prelude::*;

    #[test]
    fn a_text_of_another_template_is_denied() {
        let template = Template::parse("publish:{path.account}:{path.date}").unwrap();
        assert!(template.could_make("publish:42:2026-09-13"));
        for other in [
            "publish:42",
            "publish:42:2026-09-13:108",
            "publish::2026-09-13",
            "pay:42:2026-09-13",
            "publish:42:2026-09-13/x",
            "",
        ] {
            assert!(!template.could_make(other), "{other}");
        }
        let whole = Template::parse("{headers.x}").unwrap();
        assert!(whole.could_make("any:thing") && !whole.could_make(""));
    }

    proptest! {
        #[test]
        fn what_it_makes_is_never_denied(
            first in "[ -~\u{e9}\n]{1,9}",
            second in "[ -~]{1,9}",
            between in "[a-c:/.-]{1,3}",
            after in "[a-c:/.-]{0,3}",
        ) {
            let text = format!("x{{body.a}}{between}{{body.b + 'z'}}{after}");
            let template = Template::parse(&text).unwrap();
            let body = serde_json::json!({ "a": first, "b": second }).to_string();
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
            prop_assert!(template.could_make(&template.render(&facts).unwrap()));
        }
    }
}
