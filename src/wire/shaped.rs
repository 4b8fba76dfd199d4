//! Problems in a vendor's own shape, for an SDK that understands no other.
//!
//! What always holds: only what the proxy itself says is shaped, never an upstream's answer; whatever the
//! shape, the fields that say which operation it is, where it can be looked at and when to come back stay.
//!
//! What it does not do: choose the problem (`problem`), or the shape (config).

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};

use super::problem::Row;
use super::reply::Reply;
use crate::config::ErrorShape;

/// What a shape can say of a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    pub(super) row: Row,
    pub(super) detail: String,
    pub(super) operation: String,
}

impl Reply {
    /// The same, in the first shape that fits.
    pub fn shaped(mut self, shapes: &[ErrorShape]) -> Self {
        let Some(facts) = self.problem.take() else {
            return self;
        };
        let (name, retry) = (facts.row.name(), facts.row.retry().word());
        let Some(shape) = shapes.iter().find(|shape| shape.fits(name, retry)) else {
            return self;
        };
        let own = shape.status.and_then(|it| StatusCode::from_u16(it).ok());
        self.status = own.unwrap_or(self.status);
        let status = self.status;
        let body = shape.filled(&|fact| match fact {
            "name" => name.to_owned(),
            "title" => facts.row.title().to_owned(),
            "detail" => facts.detail.clone(),
            "retry" => retry.to_owned(),
            "operation" => facts.operation.clone(),
            "status" => status.as_u16().to_string(),
            // No other name comes through `check`.
            _ => String::new(),
        });
        self.body = Bytes::from(body.to_string());
        let json = HeaderValue::from_static("application/json");
        self.headers.insert(CONTENT_TYPE, json);
        for (name, value) in &shape.headers {
            self.headers.insert(name.clone(), value.clone());
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;
    use crate::config::{PROBLEMS, RETRIES};
    use crate::wire::problem::{self, About, Fault, every_row};

    fn stripe() -> Vec<ErrorShape> {
        let text = "version: 1\nupstreams: { s: { listen: 127.0.0.1:0, url: http://s, profile: stripe-v1 } }\n";
        let (config, _) = crate::config::parse(text, "test").unwrap();
        config.upstreams[0].errors.clone()
    }

    fn uncertain() -> Reply {
        let status = StatusCode::GATEWAY_TIMEOUT;
        problem::fault(&Fault::OutcomeUncertain { status }, About::default())
    }

    /// A shape may be for any problem there is, and for no other.
    #[test]
    fn the_config_knows_every_problem_by_its_name() {
        let named: BTreeSet<&str> = every_row().iter().map(|row| row.name()).collect();
        assert_eq!(named, BTreeSet::from(PROBLEMS));
        let retries: BTreeSet<&str> = every_row().iter().map(|row| row.retry().word()).collect();
        assert_eq!(retries, BTreeSet::from(RETRIES));
    }

    #[test]
    fn an_uncertain_answer_is_one_of_the_vendors_errors_and_says_where_to_ask() {
        let plain = uncertain();
        let shaped = plain.clone().shaped(&stripe());
        assert_eq!(shaped.status, StatusCode::GATEWAY_TIMEOUT);
        let body: Value = serde_json::from_slice(&shaped.body).unwrap();
        assert_eq!(body["error"]["type"], "api_error");
        assert_eq!(body["error"]["code"], "outcome-uncertain");
        assert!(!body["error"]["message"].as_str().unwrap().is_empty());
        assert_eq!(shaped.headers["stripe-should-retry"], "true");
        assert_eq!(shaped.headers[CONTENT_TYPE], "application/json");
        assert_eq!(shaped.headers["retry-after"], plain.headers["retry-after"]);
        assert_eq!(shaped.headers["fencepost-source"], "proxy");
    }

    #[test]
    fn what_must_never_be_repeated_says_so_to_the_sdk() {
        let why = Fault::KeyRequired {
            header: http::HeaderName::from_static("idempotency-key"),
        };
        let shaped = problem::fault(&why, About::default()).shaped(&stripe());
        assert_eq!(shaped.headers["stripe-should-retry"], "false");
        assert_eq!(shaped.status, StatusCode::BAD_REQUEST);
    }

    #[test]
    fn without_a_shape_that_fits_it_stays_a_problem() {
        assert!(uncertain().shaped(&[]).headers[CONTENT_TYPE] == "application/problem+json");
        let other = ErrorShape {
            names: vec!["draining"],
            ..stripe().remove(0)
        };
        let told = uncertain().shaped(&[other]);
        assert_eq!(told.headers[CONTENT_TYPE], "application/problem+json");
    }
}
