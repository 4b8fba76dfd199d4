//! The first look at a request: which way it goes.
//!
//! What always holds: content is read within its limits
//! before anything is decided; while draining no new effect is begun.
//!
//! What it does not do: carry an effect out (`pipeline`), forward what is none (`forward`), or shape what callers are told (`reply`).

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{Either, Full};
use hyper::body::Incoming;

use super::bound::{Bound, stamps_of};
use super::detached;
use super::pipeline::Effect;
use super::told::{Counted, Teller, Told};
use crate::config::{Config, Protect};
use crate::dispatch::arrivals::Peer;
use crate::dispatch::attempt::{Dispatcher, Granted};
use crate::dispatch::gateway::Gateway;
use crate::dispatch::turnstile::Names;
use crate::expression::PathParams;
use crate::lease::secret::digest;
use crate::observe::counts::{Finding, Occasion, Treatment};
use crate::observe::signs;
use crate::observe::watch::Observer;
use crate::protocol::command::TokenField;
use crate::protocol::ids::{AttemptId, OperationId};
use crate::protocol::operation::IdentityOrigin;
use crate::reconcile::Reconciler;
use crate::telemetry::errors::chain;
use crate::telemetry::metrics::RouteLabels;
use crate::upstream::PassingBody;
use crate::wire::body::BodyBudget;
use crate::wire::caller::Caller;
use crate::wire::fingerprint::FingerprintKey;
use crate::wire::identify::{self, Identified, Original, Scope, Unidentified, identify};
use crate::wire::overheard::Overheard;
use crate::wire::prefer;
use crate::wire::problem::{self, About, Fault, Row};
use crate::wire::reply::Reply;
use crate::wire::route::{Routed, Router};

/// Content of what callers are sent: ours and whatever is kept, or an upstream's as it comes: of no
/// effect, or too large to keep.
pub type Content = Either<Full<Bytes>, Either<Overheard<Incoming>, PassingBody>>;

/// What requests that no effect matches are counted under.
const UNLISTED: &str = "unlisted";

/// What all fronts of an instance share.
pub struct Shared {
    pub(super) config: Arc<Config>,
    pub(super) dispatcher: Dispatcher,
    reconciler: Reconciler,
    pub(super) fingerprint_key: FingerprintKey,
    names: Names,
    bodies: BodyBudget,
    pub(super) observer: Observer,
}

/// What answers the requests of one listener under one config. Cheap to clone.
#[derive(Clone)]
pub struct Front {
    pub(super) shared: Arc<Shared>,
    pub(super) gateway: Arc<Gateway>,
    pub(super) router: Arc<Router>,
}

impl Shared {
    /// For all fronts of an instance. `names`: what operations are named by under this config; `bodies`:
    /// the room for all content that is held.
    pub fn new(
        config: Arc<Config>,
        dispatcher: Dispatcher,
        reconciler: Reconciler,
        fingerprint_key: FingerprintKey,
        names: Names,
        bodies: BodyBudget,
        observer: Observer,
    ) -> Self {
        Self {
            config,
            dispatcher,
            reconciler,
            fingerprint_key,
            names,
            bodies,
            observer,
        }
    }

    /// The same under another config. Content that is held already goes on counting.
    pub fn under(&self, config: Arc<Config>, names: Names) -> Self {
        self.bodies.resize(config.limits.buffered_bodies);
        let record_timeout = config.record_timeout;
        Self {
            config,
            dispatcher: Dispatcher {
                record_timeout,
                ..self.dispatcher.clone()
            },
            reconciler: self.reconciler.clone(),
            fingerprint_key: self.fingerprint_key.clone(),
            names,
            bodies: self.bodies.clone(),
            observer: self.observer.clone(),
        }
    }

    /// What it goes by.
    pub fn config(&self) -> &Arc<Config> {
        &self.config
    }

    /// The room for all content that is held.
    pub fn bodies(&self) -> &BodyBudget {
        &self.bodies
    }

    /// What operations are named by.
    pub fn names(&self) -> &Names {
        &self.names
    }
}

impl Front {
    /// In front of one upstream.
    pub fn new(shared: Arc<Shared>, gateway: Arc<Gateway>) -> Self {
        let router = Arc::new(Router::new(Arc::clone(&gateway.config)));
        Self {
            shared,
            gateway,
            router,
        }
    }

    /// Answers a request, whatever it is, of whoever is at the other end.
    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
        caller: &Caller,
    ) -> Response<Content> {
        let method = request.method().clone();
        match self.router.route(&method, request.uri().path()) {
            Ok(Routed::Pass) => self.pass(request).await,
            Ok(Routed::Observe) => {
                self.shared.dispatcher.metrics.unprotected_effect();
                self.count(UNLISTED, Treatment::Unlisted, &method, None, &[]);
                self.pass(request).await
            }
            Ok(Routed::Spared(fault)) => {
                let reason = Row::of_fault(&fault).name();
                let route = RouteLabels::new(UNLISTED, self.gateway.config.id.as_str());
                self.shared.dispatcher.metrics.would_refuse(&route, reason);
                let refused = Finding::Refused(reason.into());
                self.count(UNLISTED, Treatment::Observed, &method, None, &[refused]);
                self.pass_as_sent(request).await
            }
            Ok(Routed::Protect {
                name,
                protect,
                params,
            }) if protect.is_observed() => {
                let protect = Arc::clone(protect);
                self.observe((request, caller), name, protect, params).await
            }
            Ok(Routed::Protect {
                name,
                protect,
                params,
            }) => {
                self.protect((request, caller), name, &params, protect)
                    .await
            }
            Err(fault) => self.told(problem::fault(&fault, About::default()), &method),
        }
    }

    /// A whole answer, as callers of this upstream understand it.
    pub(super) fn told(&self, reply: Reply, method: &Method) -> Response<Content> {
        whole(self.spoken(reply), method)
    }

    fn spoken(&self, reply: Reply) -> Reply {
        reply.shaped(&self.gateway.config.errors)
    }

    /// Where somebody at the other end can ask: `worker` is on a loopback address, which is another machine's own
    /// there.
    fn worker_of(&self, peer: Option<Peer>) -> Option<SocketAddr> {
        let address = peer.and_then(|peer| peer.address);
        let is_here = address.is_some_and(|address| address.to_canonical().is_loopback());
        self.shared.config.worker.filter(|_| is_here)
    }

    /// An effect: its content is read, its identity found, and then it is carried out.
    async fn protect(
        &self,
        (request, caller): (Request<Incoming>, &Caller),
        name: &str,
        params: &PathParams,
        protect: &Arc<Protect>,
    ) -> Response<Content> {
        let (method, version) = (request.method().clone(), request.version());
        let peer = request.extensions().get::<Peer>().copied();
        let bound = request.extensions().get::<Arc<Bound>>().cloned();
        let bound = bound.unwrap_or_default();
        // Whoever does not wait needs somewhere to ask.
        let worker = self.worker_of(peer);
        let preferred = worker.and_then(|_| prefer::asynchronous(request.headers()));
        let route = &RouteLabels::new(name, self.gateway.config.id.as_str());
        let metrics = &self.shared.dispatcher.metrics;
        let (mut identified, original) =
            match self.identify((request, caller), params, protect).await {
                Ok(identified) => identified,
                Err(refused) => {
                    metrics.rejected(route, refused.name());
                    let findings = signs::of_unidentified(&refused);
                    self.count(name, Treatment::Enforced, &method, None, &findings);
                    tracing::info!(
                        upstream = %self.gateway.config.id,
                        reason = refused.name(),
                        "refused before it was identified"
                    );
                    return self.told(refused.reply(protect.fence.as_ref()), &method);
                }
            };
        // And a name to come back by: without one a repeat would be a new operation, and nobody sees the outcome.
        let preferred = preferred.filter(|_| identified.origin != IdentityOrigin::Fresh);
        if preferred.is_some() {
            prefer::honoured(&mut Arc::make_mut(&mut identified.request).fields);
        }
        if identified.origin == IdentityOrigin::Fresh {
            metrics.without_identity();
        }
        let arrivals = &self.shared.dispatcher.arrivals;
        let (arrived, repeat) = arrivals.arrive(&identified.key, peer.unwrap_or_default());
        let effect = Effect {
            dispatcher: self.shared.dispatcher.clone(),
            reconciler: self.shared.reconciler.clone(),
            gateway: Arc::clone(&self.gateway),
            protect: Arc::clone(protect),
            teller: Teller::of(&identified, protect),
            stamped: bound.stamped(&identified),
            identified,
            original,
            fingerprints: self.shared.fingerprint_key.clone(),
            names: self.shared.names.clone(),
            repeat,
            granted: Granted::default(),
            // Before HTTP/1.1 an answer of unknown length ends with its connection, broken or not.
            sees_breaks: version >= http::Version::HTTP_11,
        };
        let asked = Asking {
            front: self.clone(),
            effect,
            route: route.clone(),
            name: name.to_owned(),
            method: method.clone(),
        };
        let told = match preferred {
            None => asked.run().await,
            Some(preferred) => detached::run(asked, preferred).await,
        };
        arrived.answered();
        let reply = self.spoken(told.reply.based_at(worker));
        respond(Told { reply, ..told }, &method)
    }

    /// For the report.
    fn count(
        &self,
        effect: &str,
        treatment: Treatment,
        method: &Method,
        operation: Option<&OperationId>,
        findings: &[Finding],
    ) {
        let about = Occasion {
            upstream: self.gateway.config.id.as_str(),
            effect,
            treatment,
            method: method.as_str(),
            operation,
            at_ms: self.shared.dispatcher.clock.now().wall_ms,
        };
        self.shared.observer.counts().request(about, findings);
    }

    async fn identify(
        &self,
        (request, caller): (Request<Incoming>, &Caller),
        params: &PathParams,
        protect: &Arc<Protect>,
    ) -> Result<(Identified, Original), Unidentified> {
        if self.shared.dispatcher.supervisor.is_draining() {
            return Err(Fault::Draining.into());
        }
        let (head, incoming) = request.into_parts();
        let body = self.shared.bodies.read(incoming, protect.body_limit).await.map_err(|error| {
            tracing::info!(error = %chain(&error), "nothing was sent: the content cannot be used");
            let broken = Fault::NoRoute { why: "Its content did not come to its end" };
            error.fault().unwrap_or(broken)
        })?;
        let first_attempt = self.shared.dispatcher.next_attempt();
        if body.len() <= protect.slow_above() {
            return self.identify_here(head, body, caller, params, protect, first_attempt);
        }
        let (front, params, protect) = (self.clone(), params.clone(), Arc::clone(protect));
        let caller = caller.clone();
        let identified = tokio::task::spawn_blocking(move || {
            front.identify_here(head, body, &caller, &params, &protect, first_attempt)
        });
        // It fails only with the process, or with a fault of ours: nothing was sent either way.
        identified.await.unwrap_or(Err(Fault::Draining.into()))
    }

    fn identify_here(
        &self,
        head: Parts,
        body: Bytes,
        caller: &Caller,
        params: &PathParams,
        protect: &Protect,
        first_attempt: AttemptId,
    ) -> Result<(Identified, Original), Unidentified> {
        let scope = Scope {
            tenant: &self.shared.config.tenant,
            upstream: &self.gateway.config,
            fingerprints: &self.shared.fingerprint_key,
        };
        let effect = identify::Effect {
            protect,
            params,
            head: &head,
            body: body.clone(),
            caller,
            first_attempt,
            stamps: &stamps_of(&head.extensions, &head.headers),
        };
        let identified = identify(scope, effect)?;
        let params = params.clone();
        Ok((identified, Original { params, head, body }))
    }
}

/// A request for an effect, and how it is accounted for.
pub(super) struct Asking {
    front: Front,
    pub(super) effect: Effect,
    route: RouteLabels,
    name: String,
    method: Method,
}

impl Asking {
    /// Carries it out, and counts it once it has an answer.
    pub(super) async fn run(&self) -> Told {
        let Self { front, effect, .. } = self;
        let metrics = &front.shared.dispatcher.metrics;
        let (told, observed) = effect.run().await;
        told.counted.count(metrics, &self.route);
        if let Counted::Rejected(reason) = told.counted {
            log_refusal(&effect.identified, reason);
        }
        let mut findings = signs::of_request(&effect.identified);
        if let Some(rejection) = observed {
            metrics.would_refuse(&self.route, Row::of_rejection(&rejection).name());
            findings.push(signs::let_pass(&rejection));
        }
        findings.extend(told.counted.finding());
        let id = Some(&effect.identified.key.id);
        front.count(&self.name, Treatment::Enforced, &self.method, id, &findings);
        told
    }
}

/// A rise in stale tokens deserves a look; the names are what one looks for.
fn log_refusal(identified: &Identified, reason: &str) {
    let presented = identified.presented.as_ref();
    let token = presented.and_then(|presented| match presented.token {
        TokenField::Token(token) => Some(tracing::field::display(token)),
        TokenField::Absent | TokenField::Malformed => None,
    });
    let acquisition = presented.and_then(|presented| presented.acquisition.as_ref());
    tracing::info!(
        upstream = %identified.key.upstream,
        operation = %identified.key.id,
        resource = presented.map(|presented| tracing::field::display(&presented.resource.name)),
        token,
        acquisition = acquisition.map(digest),
        reason,
        "refused"
    );
}

/// The answer to a request that a fault of ours ended: nobody knows how far it got.
pub(super) fn given_up(method: &Method) -> Response<Content> {
    let fault = Fault::OutcomeUncertain {
        status: StatusCode::GATEWAY_TIMEOUT,
    };
    whole(problem::fault(&fault, About::default()), method)
}

/// The answer to a request that was shed unread.
pub(super) fn overloaded(method: &Method) -> Response<Content> {
    whole(problem::fault(&Fault::Overloaded, About::default()), method)
}

/// The answer to a request that was not sent in TLS, to a listener that speaks nothing else.
pub(super) fn in_the_clear(method: &Method) -> Response<Content> {
    let fault = Fault::NoRoute {
        why: "This listener speaks TLS: the URL begins with `https`",
    };
    whole(problem::fault(&fault, About::default()), method)
}

/// The answer to a request whose connection was accepted for another upstream, or under another trust:
/// nothing of it is read, and on a new connection it is welcome.
pub(super) fn outlasted(method: &Method) -> Response<Content> {
    let mut response = whole(
        problem::fault(&Fault::ConfigChanged, About::default()),
        method,
    );
    let close = HeaderValue::from_static("close");
    response
        .headers_mut()
        .insert(http::header::CONNECTION, close);
    response
}

fn respond(told: Told, method: &Method) -> Response<Content> {
    let Some(passing) = told.passing.filter(|_| told.reply.may_have_content(method)) else {
        return whole(told.reply, method);
    };
    let (mut head, _none) = told.reply.into_response(method).into_parts();
    if let Some(length) = passing.length {
        head.headers
            .insert(http::header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    let content = passing.content.into_body();
    Response::from_parts(head, Either::Right(Either::Right(content)))
}

pub(super) fn whole(reply: Reply, method: &Method) -> Response<Content> {
    reply.into_response(method).map(Either::Left)
}
