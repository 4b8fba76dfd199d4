//! A listener before the worker: whoever asks it for work passes through here.
//!
//! What always holds: what was owned is noted before the request is forwarded, so before anything of its work has
//! begun, and under the id that the worker gets to see; only what never reached it is as if it had not come. What cannot
//! be noted, for want of room, is not forwarded; nor is what comes while draining. All else goes through as it came, both ways, streaming: only what
//! belongs to one connection stays on it.
//!
//! What it does not do: judge, record or repeat anything, or change protocols (`Upgrade`).

use std::sync::Arc;

use http::header::HOST;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use tokio_util::task::TaskTracker;

use super::forward::by_nobody;
use super::front::{Content, whole};
use crate::config::Inbound;
use crate::dispatch::supervisor::Supervisor;
use crate::lease::claim::Claims;
use crate::lease::pins::{Note, Noted};
use crate::telemetry::errors::chain;
use crate::upstream::{PassThrough, PassThroughError};
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
    /// Says when nothing new is let in.
    pub supervisor: Supervisor,
    /// Those who ask and have no answer yet.
    pub asked: TaskTracker,
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
            supervisor,
            asked,
        } = &*self.shared;
        // Before it is looked whether it may be: a drain waits for whoever is let in.
        let _asked = asked.token();
        let (mut head, body) = request.into_parts();
        let method = head.method.clone();
        let refused = |fault| whole(problem::fault(&fault, About::default()), &method);
        // As the worker gets them: what a `Connection` names stays here, the id of the work too.
        head.headers = hygiene::to_worker(&head.headers);
        if let Some(host) = named_host(&head.uri) {
            head.headers.insert(HOST, host);
        }
        if let Some(fault) = lacking(rules, &head.headers) {
            return refused(fault);
        }
        // What the worker would send for it does not go out any more.
        if supervisor.is_draining() {
            return refused(Fault::Draining);
        }
        let note = match claims.came_in(*way, &head.headers) {
            Noted::Work(note) => Some(Open { claims, note }),
            Noted::Nothing => None,
            Noted::NoRoom => {
                return refused(Fault::TooMuchWork {
                    at_most: rules.at_most,
                });
            }
        };
        head.version = http::Version::HTTP_11;
        let error = match worker.send(Request::from_parts(head, body)).await {
            Ok(mut response) => {
                let status = response.status();
                *response.headers_mut() = hygiene::from_worker(response.headers(), &method, status);
                return by_nobody(response);
            }
            Err(error) => error,
        };
        tracing::warn!(
            inbound = rules.name,
            error = %chain(&error),
            "the worker did not answer a request that was passed on to it"
        );
        let fault = match error {
            PassThroughError::Broken(_) => {
                let status = StatusCode::BAD_GATEWAY;
                return refused(Fault::WorkerBroke { status });
            }
            PassThroughError::Unreachable(_) => Fault::WorkerUnreachable,
            PassThroughError::Target => Fault::NoRoute {
                why: "its target cannot be passed on",
            },
        };
        // No byte of it left.
        if let Some(open) = &note {
            claims.withdraw(&open.note);
        }
        refused(fault)
    }
}

/// A request without an answer: what it was noted as is not forgotten.
struct Open<'c> {
    claims: &'c Claims,
    note: Note,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.claims.answered(&self.note);
    }
}

/// What keeps a request from being let in at all.
fn lacking(rules: &Inbound, headers: &HeaderMap) -> Option<Fault> {
    let is_there = !rules.pin.required || work::one(&rules.pin.by, headers).is_some();
    (!is_there).then(|| {
        let name = work::name(&rules.pin.by);
        let field = format!(
            "`{name}` is missing, doubled or unreadable, and says here which work it is (`pin.required`)"
        );
        Fault::IdentityMissing { field }
    })
}

/// A target in absolute form names the host, whatever the Host field says
/// (<https://www.rfc-editor.org/rfc/rfc9112#section-3.2.2>).
fn named_host(target: &Uri) -> Option<HeaderValue> {
    let host = target.scheme().and(target.authority())?;
    HeaderValue::from_str(host.as_str()).ok()
}
