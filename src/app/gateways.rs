//! The upstreams of a config, ready to be sent to.
//!
//! What always holds: where nothing about the way to an upstream has changed, its connections are kept
//! over a change of config.
//!
//! What it does not do: connect.

use std::sync::Arc;
use std::time::Duration;

use super::AppError;
use crate::clock::Clock;
use crate::config::{self, Action, Config};
use crate::dispatch::gateway::{Gateway, Gateways};
use crate::upstream::{EffectPool, Endpoint, Limits, PassThrough, Questions, TlsMaterial};
use crate::wire::body::BodyBudget;

/// Largest content of an answer where no effect says less.
const ANSWER_BYTES: usize = 1024 * 1024;

/// `before`: those in force, if any. `bodies`: the room for all content that is held.
pub(super) fn open(
    config: &Config,
    before: Option<&Gateways>,
    clock: &Clock,
    bodies: &BodyBudget,
) -> Result<Gateways, AppError> {
    let open = |upstream: &Arc<config::Upstream>| {
        let before = before.and_then(|before| before.by_id(&upstream.id));
        let gateway = match before.filter(|before| is_same_way(before, upstream)) {
            Some(before) => Gateway {
                config: Arc::clone(upstream),
                endpoint: before.endpoint.clone(),
                pool: before.pool.clone(),
                pass: before.pass.clone(),
                questions: before.questions.clone(),
                application: application(upstream, bodies)?,
            },
            None => opened(upstream, clock, bodies)?,
        };
        Ok(Arc::new(gateway))
    };
    let all: Vec<_> = config
        .upstreams
        .iter()
        .map(open)
        .collect::<Result<_, AppError>>()?;
    Ok(Gateways::new(all))
}

fn opened(
    upstream: &Arc<config::Upstream>,
    clock: &Clock,
    bodies: &BodyBudget,
) -> Result<Gateway, AppError> {
    let tls = TlsMaterial {
        ca: upstream.tls.ca.clone(),
        client_cert: upstream.tls.client_cert.clone(),
        client_key: upstream.tls.client_key.clone(),
    };
    let endpoint = Endpoint::new(&upstream.url.to_string(), &tls, upstream.fresh_connections)
        .map_err(|error| AppError::Upstream(upstream.name.clone(), error))?;
    let limits = limits(upstream);
    let pool = EffectPool::within(bodies.clone(), endpoint.clone(), limits, clock.clone());
    let pass = PassThrough::new(endpoint.clone(), &limits);
    let questions = Questions::new(endpoint.clone(), limits, bodies.clone());
    Ok(Gateway {
        config: Arc::clone(upstream),
        endpoint,
        pool,
        pass,
        questions,
        application: application(upstream, bodies)?,
    })
}

/// Whoever takes the upstream's callbacks.
fn application(
    upstream: &config::Upstream,
    bodies: &BodyBudget,
) -> Result<Option<Questions>, AppError> {
    let Some(callbacks) = &upstream.callbacks else {
        return Ok(None);
    };
    let Some(url) = &callbacks.forward else {
        return Ok(None);
    };
    let endpoint = Endpoint::new(&url.to_string(), &TlsMaterial::default(), false)
        .map_err(|error| AppError::Upstream(upstream.name.clone(), error))?;
    let limits = Limits {
        response: callbacks.response,
        ..Limits::default()
    };
    Ok(Some(Questions::new(endpoint, limits, bodies.clone())))
}

/// Certificates may have changed in their files: those are read again.
fn is_same_way(before: &Gateway, upstream: &config::Upstream) -> bool {
    before.config.url == upstream.url
        && upstream.tls == config::TlsFiles::default()
        && before.config.tls == upstream.tls
        && before.config.fresh_connections == upstream.fresh_connections
        && *before.pool.limits() == limits(upstream)
}

fn limits(upstream: &config::Upstream) -> Limits {
    Limits {
        connect: Duration::from_millis(upstream.timeouts.connect.0),
        response: Duration::from_millis(upstream.timeouts.response.0),
        answer_bytes: largest_answer(upstream),
        accept_by_close: upstream.accept_close_framed,
        ..Limits::default()
    }
}

fn largest_answer(upstream: &config::Upstream) -> usize {
    let limit = |action: &Action| match action {
        Action::Protect(protect) => Some(protect.answer_limit),
        Action::Pass => None,
    };
    let limits = upstream
        .effects
        .iter()
        .filter_map(|effect| limit(&effect.action));
    limits.max().unwrap_or(ANSWER_BYTES)
}
