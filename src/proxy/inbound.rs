//! A listener before the worker: whoever asks it for work passes through here.
//!
//! What always holds: what was owned is noted before the request is forwarded, so before anything of its work has
//! begun. All else goes through as it came, both ways, streaming: only what belongs to one connection stays on it.
//!
//! What it does not do: judge, record or repeat anything, or change protocols (`Upgrade`).

use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;

use super::forward::{broken_pass, by_nobody};
use super::front::{Content, whole};
use crate::config::Inbound;
use crate::lease::claim::Claims;
use crate::telemetry::errors::chain;
use crate::upstream::PassThrough;
use crate::wire::problem::{self, About, Fault};
use crate::wire::{hygiene, work};

/// What passes on what one listener takes. Cheap to clone.
#[derive(Clone)]
pub struct InboundFront {
    shared: Arc<InboundShared>,
}

/// What it is made of.
pub struct InboundShared {
    /// Its number in the config.
    pub way: usize,
    /// What the config says of it.
    pub rules: Inbound,
    /// What is held on behalf of the worker, and where it is noted.
    pub claims: Claims,
    /// The way to the worker.
    pub worker: PassThrough,
}

impl InboundFront {
    /// For these.
    pub fn new(shared: InboundShared) -> Self {
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Answers a request.
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Response<Content> {
        let InboundShared {
            way,
            rules,
            claims,
            worker,
        } = &*self.shared;
        let method = request.method().clone();
        if !claims.came_in(*way, request.headers()) && rules.pin.required {
            let name = work::name(&rules.pin.by);
            let field = format!(
                "`{name}` is missing, doubled or unreadable, and says here which work it is (`pin.required`)"
            );
            let fault = Fault::IdentityMissing { field };
            return whole(problem::fault(&fault, About::default()), &method);
        }
        let (mut head, body) = request.into_parts();
        head.headers = hygiene::to_worker(&head.headers);
        head.version = http::Version::HTTP_11;
        match worker.send(Request::from_parts(head, body)).await {
            Ok(mut response) => {
                let status = response.status();
                *response.headers_mut() = hygiene::from_worker(response.headers(), &method, status);
                by_nobody(response)
            }
            Err(error) => {
                tracing::warn!(
                    inbound = rules.name,
                    error = %chain(&error),
                    "the worker did not answer a request that was passed on to it"
                );
                whole(broken_pass(&error), &method)
            }
        }
    }
}
