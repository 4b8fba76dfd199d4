//! The first look at a request: which way it goes.
//!
//! What always holds: a path that two servers could read as two different ones is refused on an
//! upstream with protected effects, never passed unprotected; content is read within its limits
//! before anything is decided; while draining no new effect is begun.
//!
//! What it does not do: carry an effect out (`pipeline`), or shape what callers are told (`reply`).

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{Either, Full};
use hyper::body::Incoming;

use super::pipeline::Effect;
use super::reply::{self, Telling};
use crate::config::{Config, Protect, Route};
use crate::dispatch::attempt::Dispatcher;
use crate::dispatch::gateway::Gateway;
use crate::expression::{PathParams, RequestPath};
use crate::reconcile::Reconciler;
use crate::telemetry::metrics::RouteLabels;
use crate::upstream::PassThroughError;
use crate::wire::body::{self, Budget};
use crate::wire::fingerprint::FingerprintKey;
use crate::wire::identify::{self, Identified};
use crate::wire::problem::{About, Fault};
use crate::wire::{answer, hygiene, problem};

/// Content of what callers are sent: ours, or an upstream's, streaming.
pub type Content = Either<Full<Bytes>, Incoming>;

/// What all fronts of an instance share.
pub struct Shared {
    config: Arc<Config>,
    dispatcher: Dispatcher,
    reconciler: Reconciler,
    fingerprint_key: FingerprintKey,
    bodies: Budget,
}

/// What answers the requests of one listener. Cheap to clone.
#[derive(Clone)]
pub struct Front {
    shared: Arc<Shared>,
    gateway: Arc<Gateway>,
}

impl Shared {
    /// For all fronts of an instance.
    pub fn new(
        config: Arc<Config>,
        dispatcher: Dispatcher,
        reconciler: Reconciler,
        fingerprint_key: FingerprintKey,
    ) -> Self {
        let bodies = Budget::new(config.limits.buffered_bodies);
        Self { config, dispatcher, reconciler, fingerprint_key, bodies }
    }
}

impl Front {
    /// In front of one upstream.
    pub fn new(shared: Arc<Shared>, gateway: Arc<Gateway>) -> Self {
        Self { shared, gateway }
    }

    /// Answers a request, whatever it is.
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Response<Content> {
        let method = request.method().clone();
        let upstream = &self.gateway.config;
        let path = match RequestPath::parse(request.uri().path()) {
            Ok(path) => path,
            Err(_ambiguous) => {
                let why = "its path can be read in two ways";
                return whole(problem::fault(&Fault::NoRoute { why }, About::default()), &method);
            }
        };
        match upstream.route(&method, &path) {
            Route::Pass => self.pass(request).await,
            Route::Observe => {
                self.shared.dispatcher.metrics.unprotected_effect();
                self.pass(request).await
            }
            Route::Deny => {
                let why = "no effect of the config matches it, and the config denies such requests";
                whole(problem::fault(&Fault::NoRoute { why }, About::default()), &method)
            }
            Route::Protect { name, protect, params } => {
                let route = RouteLabels::new(name, upstream.id.as_str());
                let protect = Arc::clone(protect);
                let telling = self.protect(request, &path, params, protect, &route).await;
                whole(telling, &method)
            }
        }
    }
}
