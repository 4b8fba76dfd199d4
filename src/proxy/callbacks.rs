//! The listener for an upstream's callbacks.
//!
//! What always holds: content is read within its limit and its signature verified before anything of it is
//! believed or passed on; what it proves is recorded before the application gets it, unchanged; where that
//! cannot be recorded the upstream is told to come again. A forged one reaches nobody. Until it is believed
//! it is anybody's: it takes no room that effects need, and only for a while.
//!
//! What it does not do: remember callbacks. One that comes twice says what is known, and reaches the application
//! twice: it has to cope with that, as without us.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;

use super::front::{Content, whole};
use crate::config::{CallbackRule, Callbacks};
use crate::dispatch::attempt::Dispatcher;
use crate::expression::{PathParams, RequestPath};
use crate::protocol::ids::{Tenant, UpstreamId};
use crate::protocol::outcome::{Answer, StoredRequest};
use crate::reconcile::Reconciler;
use crate::reconcile::callback::{Callback, Heard};
use crate::telemetry::errors::chain;
use crate::upstream::{Questions, Unanswered};
use crate::wire::body::{BodyBudget, BodyError};
use crate::wire::hygiene;
use crate::wire::problem::{self, About, Fault};
use crate::wire::reply::{Reply, Source};
use crate::wire::signed::{self, Unproven};

/// What answers an upstream's callbacks. Cheap to clone.
#[derive(Clone)]
pub struct CallbackFront {
    pub(super) shared: Arc<CallbackShared>,
}

/// What it is made of.
pub struct CallbackShared {
    /// Whose callbacks.
    pub upstream: UpstreamId,
    /// Whose operations they can be about.
    pub tenant: Tenant,
    /// The rules.
    pub rules: Arc<Callbacks>,
    /// The way to the application; `None`: there is none.
    pub application: Option<Questions>,
    /// Who records what they prove.
    pub reconciler: Reconciler,
    /// Clocks and numbers.
    pub dispatcher: Dispatcher,
    /// The room for content that nobody vouches for yet: a stranger who fills it keeps out callbacks, and
    /// no effect.
    pub bodies: BodyBudget,
}

impl CallbackShared {
    /// Room for the content of this many callbacks at a time, each as long as it may be.
    const AT_A_TIME: usize = 16;

    /// The room for callbacks that may be so long.
    pub fn room(body_limit: usize) -> BodyBudget {
        BodyBudget::new(body_limit.saturating_mul(Self::AT_A_TIME))
    }
}

/// Largest answer of the application, in bytes.
const ANSWER: usize = 1 << 20;

impl CallbackFront {
    /// For these.
    pub fn new(shared: CallbackShared) -> Self {
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Answers a request.
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Response<Content> {
        let method = request.method().clone();
        let reply = match self.take(request).await {
            Ok(reply) | Err(reply) => reply,
        };
        whole(reply, &method)
    }

    async fn take(&self, request: Request<Incoming>) -> Result<Reply, Reply> {
        let shared = &self.shared;
        let (head, content) = request.into_parts();
        let (index, rule, params) = self.rule_of(&head).ok_or_else(no_route)?;
        let forged = |why| {
            self.count("forged");
            self.unproven(rule, why)
        };
        signed::bears(&rule.signature, &head.headers).map_err(forged)?;
        let reading = shared
            .bodies
            .read_as_it_comes(content, shared.rules.body_limit);
        let body = tokio::time::timeout(shared.rules.response, reading).await;
        let body = body.map_err(|_| Reply::new(StatusCode::REQUEST_TIMEOUT, Source::Proxy))?;
        let body = body.map_err(|error| unread(&error))?;
        let now = Duration::from_millis(shared.dispatcher.clock.now().wall_ms);
        signed::verify(&rule.signature, &head.headers, &body, now).map_err(forged)?;
        let callback = Callback {
            upstream: shared.upstream.clone(),
            tenant: shared.tenant.clone(),
            rules: Arc::clone(&shared.rules),
            rule: index,
            params,
            head: head.clone(),
            body: body.clone(),
        };
        let heard = shared.reconciler.called_back(callback).await;
        let heard = heard.map_err(|error| {
            self.count("not-recorded");
            tracing::warn!(
                upstream = %shared.upstream,
                error = %chain(&error),
                "a callback could not be recorded; the upstream is to send it again"
            );
            problem::fault(&Fault::StoreUnavailable, About::default())
        })?;
        self.count(heard.word());
        tracing::info!(upstream = %shared.upstream, rule = rule.name, heard = heard.word(), "called back");
        if heard == Heard::TooEarly {
            return Err(later(StatusCode::SERVICE_UNAVAILABLE));
        }
        self.pass_on(&head, body).await
    }

    fn rule_of(&self, head: &Parts) -> Option<(usize, &CallbackRule, PathParams)> {
        if head.method != Method::POST {
            return None;
        }
        let path = RequestPath::parse(head.uri.path()).ok()?;
        let mut rules = self.shared.rules.rules.iter().enumerate();
        rules.find_map(|(index, rule)| Some((index, rule, rule.path.captures(&path)?)))
    }

    /// To the application, as it came.
    async fn pass_on(&self, head: &Parts, body: Bytes) -> Result<Reply, Reply> {
        let Some(application) = &self.shared.application else {
            return Ok(Reply::new(StatusCode::NO_CONTENT, Source::Proxy));
        };
        let target = head.uri.path_and_query().map_or("/", |it| it.as_str());
        let fields = hygiene::as_sent(&head.headers, &[]);
        let fields = fields.iter().map(|(name, value)| {
            let name = Bytes::copy_from_slice(name.as_str().as_bytes());
            (name, Bytes::copy_from_slice(value.as_bytes()))
        });
        let request = StoredRequest {
            method: Bytes::from_static(b"POST"),
            target: Bytes::copy_from_slice(target.as_bytes()),
            fields: fields.collect(),
            body,
        };
        match application.ask(&request, ANSWER).await {
            Ok(answer) => Ok(answered(&answer)),
            Err(why) => {
                tracing::warn!(
                    upstream = %self.shared.upstream,
                    error = %chain(&why),
                    "the application did not take a callback; the upstream is to send it again"
                );
                Err(not_taken(&why))
            }
        }
    }

    /// Whoever sends it is told that it is not believed, and not how near it came.
    fn unproven(&self, rule: &CallbackRule, why: Unproven) -> Reply {
        tracing::warn!(
            upstream = %self.shared.upstream,
            rule = rule.name,
            why = %why,
            "a callback is not believed: it reaches nobody"
        );
        Reply::new(StatusCode::UNAUTHORIZED, Source::Proxy)
    }

    fn count(&self, heard: &'static str) {
        let metrics = &self.shared.dispatcher.metrics;
        metrics.called_back(self.shared.upstream.as_str(), heard);
    }
}

fn no_route() -> Reply {
    let fault = Fault::NoRoute {
        why: "No callback of the upstream is taken under this method and path",
    };
    problem::fault(&fault, About::default())
}

fn unread(error: &BodyError) -> Reply {
    match error {
        BodyError::TooLarge { limit } => {
            problem::fault(&Fault::BodyTooLarge { limit: *limit }, About::default())
        }
        BodyError::Overloaded => problem::fault(&Fault::Overloaded, About::default()),
        BodyError::Broken { .. } => Reply::new(StatusCode::BAD_REQUEST, Source::Proxy),
    }
}

fn answered(answer: &Answer) -> Reply {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::BAD_GATEWAY);
    let mut reply = Reply::new(status, Source::Upstream);
    reply.append(
        answer
            .fields
            .iter()
            .filter(|(name, _)| std::str::from_utf8(name).is_ok_and(hygiene::answers)),
    );
    reply.body = answer.body.clone().unwrap_or_default();
    reply
}

fn not_taken(why: &Unanswered) -> Reply {
    let status = match why {
        Unanswered::TooLate(_) => StatusCode::GATEWAY_TIMEOUT,
        Unanswered::Unfit
        | Unanswered::Unreachable(_)
        | Unanswered::Broken(_)
        | Unanswered::Unusable
        | Unanswered::TooLarge => StatusCode::BAD_GATEWAY,
    };
    later(status)
}

/// The upstream is to send it again.
fn later(status: StatusCode) -> Reply {
    let mut reply = Reply::new(status, Source::Proxy);
    let later = HeaderValue::from_static("5");
    reply.headers.insert(RETRY_AFTER, later);
    reply
}
