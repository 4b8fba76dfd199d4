//! What is forwarded: requests that are no effects, and effects that are only observed.
//!
//! What always holds: both ways stream; nothing of the register is touched, so that nothing here waits
//! for it or fails with it. What is only observed travels as its caller sent it, under its caller's own
//! key, and its answer is its upstream's.
//!
//! What it does not do: judge (`observe`).

use std::sync::Arc;

use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::Either;
use hyper::body::Incoming;

use super::bound::stamps_of;
use super::front::{Content, Front};
use crate::config::{Mode, Protect};
use crate::expression::PathParams;
use crate::observe::watch::Seen;
use crate::protocol::outcome::{Evidence, Interruption, Phase, Unsent};
use crate::telemetry::errors::chain;
use crate::upstream::PassThroughError;
use crate::wire::caller::Caller;
use crate::wire::hygiene;
use crate::wire::overheard::Overheard;
use crate::wire::problem::{self, About, Fault};
use crate::wire::reply::Reply;
use crate::wire::route::for_us;

impl Front {
    /// No effect: forwarded both ways, streaming.
    pub(super) async fn pass(&self, request: Request<Incoming>) -> Response<Content> {
        if self.gateway.config.mode == Mode::Observe {
            return self.pass_as_sent(request).await;
        }
        let (head, body) = request.into_parts();
        let headers = hygiene::pass_on(&head.headers, self.router.withheld_on_pass());
        let passed = self.forward(head, headers, Overheard::by_nobody(body));
        passed.await.map_or_else(|failed| failed.answer, by_nobody)
    }

    /// Rules that are only observed touch nothing of a request.
    pub(super) async fn pass_as_sent(&self, request: Request<Incoming>) -> Response<Content> {
        let (head, body) = request.into_parts();
        let headers = hygiene::as_sent(&head.headers, &[]);
        let passed = self.forward(head, headers, Overheard::by_nobody(body));
        passed.await.map_or_else(|failed| failed.answer, by_nobody)
    }

    /// An effect that is only observed: forwarded as it came, and judged beside its way.
    pub(super) async fn observe(
        &self,
        (request, caller): (Request<Incoming>, &Caller),
        name: &str,
        protect: Arc<Protect>,
        params: PathParams,
    ) -> Response<Content> {
        let stamps = stamps_of(request.extensions(), request.headers());
        let (head, body) = request.into_parts();
        let headers = hygiene::as_sent(&head.headers, &for_us(&protect));
        let dispatcher = &self.shared.dispatcher;
        let answer_limit = protect.answer_limit;
        let watch = self.shared.observer.watch(Seen {
            tenant: self.shared.config.tenant.clone(),
            fingerprints: self.shared.fingerprint_key.clone(),
            upstream: Arc::clone(&self.gateway.config),
            effect: name.to_owned(),
            protect,
            params,
            head: head.clone(),
            caller: caller.clone(),
            stamps,
            attempt: dispatcher.next_attempt(),
            at: dispatcher.clock.now(),
        });
        let Some(watch) = watch else {
            let passed = self.forward(head, headers, Overheard::by_nobody(body));
            return passed.await.map_or_else(|failed| failed.answer, by_nobody);
        };
        let (ear, answering) = watch.listen();
        match self.forward(head, headers, Overheard::by(body, ear)).await {
            Ok(response) => {
                let (head, body) = response.into_parts();
                let ear = answering.answered(head.status, &head.headers, answer_limit);
                let body = match ear {
                    Some(ear) => Overheard::by(body, ear),
                    None => Overheard::by_nobody(body),
                };
                Response::from_parts(head, Either::Right(Either::Left(body)))
            }
            Err(failed) => {
                answering.unanswered(failed.evidence);
                failed.answer
            }
        }
    }

    async fn forward(
        &self,
        mut head: Parts,
        headers: HeaderMap,
        body: Overheard<Incoming>,
    ) -> Result<Response<Incoming>, Failed> {
        let method = head.method.clone();
        head.headers = headers;
        head.version = http::Version::HTTP_11;
        let request = Request::from_parts(head, body);
        match self.gateway.pass.send(request).await {
            Ok(mut response) => {
                let status = response.status();
                *response.headers_mut() = hygiene::pass_back(response.headers(), &method, status);
                Ok(response)
            }
            Err(error) => {
                tracing::warn!(
                    upstream = %self.gateway.config.id,
                    error = %chain(&error),
                    "a request that was only forwarded was not answered"
                );
                Err(Failed {
                    answer: self.told(broken_pass(&error), &method),
                    evidence: evidence_of(&error),
                })
            }
        }
    }
}

/// A request that was forwarded has no answer of its upstream.
struct Failed {
    /// What its caller is told.
    answer: Response<Content>,
    evidence: Evidence,
}

pub(super) fn by_nobody(response: Response<Incoming>) -> Response<Content> {
    response.map(|body| Either::Right(Either::Left(Overheard::by_nobody(body))))
}

fn evidence_of(error: &PassThroughError) -> Evidence {
    match error {
        PassThroughError::Target => Evidence::NotSent(Unsent::Unfit),
        PassThroughError::Unreachable(_) => Evidence::NotSent(Unsent::ConnectionLost),
        PassThroughError::Broken(_) => Evidence::Interrupted {
            phase: Phase::Waiting,
            why: Interruption::Closed,
        },
    }
}

fn broken_pass(error: &PassThroughError) -> Reply {
    let fault = match error {
        PassThroughError::Target => Fault::NoRoute {
            why: "its target cannot be sent upstream",
        },
        PassThroughError::Unreachable(_) => Fault::UpstreamUnreachable,
        // Not an operation, yet nobody knows whether it was received.
        PassThroughError::Broken(_) => Fault::OutcomeUncertain {
            status: StatusCode::BAD_GATEWAY,
        },
    };
    problem::fault(&fault, About::default())
}
