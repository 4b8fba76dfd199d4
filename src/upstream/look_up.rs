//! Questions to an upstream: requests without effect, and those that undo one.
//!
//! What always holds: they have connections of their own, never one that an effect might wait for; nothing is
//! sent twice; an answer is complete and within its limit, or it is none; everything ends within the
//! upstream's response limit; redirects are answers.
//!
//! What it does not do: choose what is asked, or judge an answer (`reconcile`).

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body_util::Full;
use tokio::time::timeout;

use super::answer::{self, Keeping, Unusable};
use super::endpoint::Endpoint;
use super::fields;
use super::pass_through::{PassThrough, PassThroughError};
use super::reserve::Limits;
use crate::clock;
use crate::protocol::outcome::{Answer, StoredRequest};
use crate::wire::body::BodyBudget;

/// The way of questions to one upstream. Cheap to clone; clones share their connections.
#[derive(Clone, Debug)]
pub struct Questions {
    client: PassThrough<Full<Bytes>>,
    limits: Limits,
    bodies: BodyBudget,
}

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Unanswered {
    /// It is no request.
    #[error("the question cannot be sent to the upstream")]
    Unfit,
    /// No byte of it left.
    #[error("the upstream cannot be reached")]
    Unreachable(#[source] PassThroughError),
    /// It broke off.
    #[error("the exchange with the upstream broke off")]
    Broken(#[source] PassThroughError),
    /// It took too long.
    #[error("no complete answer came within {0:?}")]
    TooLate(Duration),
    /// What came is no answer that could be trusted.
    #[error("what came is no complete answer")]
    Unusable,
    /// It is larger than may be read.
    #[error("the answer is larger than may be read")]
    TooLarge,
}

impl Questions {
    /// A way without connections. What it reads counts against `bodies`.
    pub fn new(endpoint: Endpoint, limits: Limits, bodies: BodyBudget) -> Self {
        Self {
            client: PassThrough::new(endpoint, &limits),
            limits,
            bodies,
        }
    }

    /// Asks. `most`: longest content of an answer, in bytes.
    pub async fn ask(&self, question: &StoredRequest, most: usize) -> Result<Answer, Unanswered> {
        let request = request(question).ok_or(Unanswered::Unfit)?;
        let within = self.limits.connect.saturating_add(self.limits.response);
        let answer = timeout(within, self.answer(request, most)).await;
        let answer = answer.map_err(|_elapsed| Unanswered::TooLate(within))??;
        match answer.body {
            Some(_) => Ok(answer),
            None => Err(Unanswered::TooLarge),
        }
    }

    async fn answer(
        &self,
        request: Request<Full<Bytes>>,
        most: usize,
    ) -> Result<Answer, Unanswered> {
        let begun = clock::boottime();
        let response = self
            .client
            .send(request)
            .await
            .map_err(|error| match error {
                PassThroughError::Target => Unanswered::Unfit,
                error @ PassThroughError::Unreachable(_) => Unanswered::Unreachable(error),
                error @ PassThroughError::Broken(_) => Unanswered::Broken(error),
            })?;
        let keeping = Keeping {
            limit: most,
            bodies: self.bodies.clone(),
            onward: None,
            begun,
            response: self.limits.response,
        };
        let answer = answer::read(response, keeping, self.limits.accept_by_close).await;
        answer.map_err(|unusable| match unusable {
            Unusable::NotFinal(_) | Unusable::Unframed | Unusable::CutShort(_) => {
                Unanswered::Unusable
            }
        })
    }
}

fn request(question: &StoredRequest) -> Option<Request<Full<Bytes>>> {
    let method = Method::from_bytes(&question.method).ok()?;
    let mut fields = HeaderMap::with_capacity(question.fields.len().saturating_add(2));
    fields::append(&question.fields, &mut fields).ok()?;
    let mut request = Request::builder()
        .method(method)
        .uri(std::str::from_utf8(&question.target).ok()?)
        .body(Full::new(question.body.clone()))
        .ok()?;
    *request.headers_mut() = fields;
    Some(request)
}
