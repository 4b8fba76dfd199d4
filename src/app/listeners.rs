//! The listeners of a config, ready to be opened: sockets bound, certificates read.
//!
//! What always holds: everything that can fail has been done before one of them is opened. A listener
//! that is open already keeps its socket; its certificates are read again whatever has changed, since
//! files change without the config.
//!
//! What it does not do: accept (`proxy::doors`).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::{AppError, bind};
use crate::config::{Config, Inbound, ListenTls, Upstream};
use crate::dispatch::attempt::Dispatcher;
use crate::dispatch::gateway::Gateway;
use crate::dispatch::supervisor::Supervisor;
use crate::lease::claim::Claims;
use crate::protocol::ids::UpstreamId;
use crate::proxy::callbacks::{CallbackFront, CallbackShared};
use crate::proxy::doors::{Behind, Doors, Face, Place, Way};
use crate::proxy::front::{Front, Shared};
use crate::proxy::inbound::{InboundFront, InboundShared};
use crate::proxy::tls::InboundTls;
use crate::reconcile::Reconciler;
use crate::upstream::{Endpoint, Limits, PassThrough, TlsMaterial};

/// Those of one config.
pub(super) struct Listeners {
    sockets: Vec<(Place, TcpListener)>,
    tls: HashMap<(UpstreamId, Way), InboundTls>,
}

impl Listeners {
    /// Reads what all of them need, and binds those that are not open.
    pub(super) async fn of(config: &Config, doors: &Doors) -> Result<Self, AppError> {
        let mut listeners = Self {
            sockets: Vec::new(),
            tls: HashMap::new(),
        };
        for (name, place, files) in all(config) {
            if let Some(files) = files {
                let tls = InboundTls::load(files);
                let tls = tls.map_err(|why| AppError::Listener(what(name, place.way), why))?;
                listeners.tls.insert((place.upstream, place.way), tls);
            }
        }
        for (name, place, _) in all(config) {
            if !doors.is_open(&place) {
                let socket = bind(what(name, place.way), place.address).await?;
                listeners.sockets.push((place, socket));
            }
        }
        Ok(listeners)
    }

    /// Puts a face behind the door at this place, and opens it if it is a new one.
    pub(super) fn put(&mut self, doors: &Doors, place: Place, face: Face) {
        let tls = self.tls.get(&(place.upstream.clone(), place.way)).cloned();
        let Some((place, behind)) = doors.put(place, Behind { face, tls }) else {
            return;
        };
        let bound = self.sockets.iter().position(|(bound, _)| *bound == place);
        if let Some(bound) = bound {
            let (_, socket) = self.sockets.swap_remove(bound);
            let tls = behind.tls.is_some();
            let callbacks = place.way == Way::FromUpstream;
            let (listen, name) = (place.address, &place.upstream);
            match place.way {
                Way::ToUpstream | Way::FromUpstream => {
                    tracing::info!(upstream = %name, %listen, tls, callbacks, "listening");
                }
                Way::ToWorker => tracing::info!(inbound = %name, %listen, tls, "listening"),
            }
            doors.add(place, socket, behind);
        }
    }
}

/// A listener of a config: its name there, where it is, and its certificates.
type Named<'a> = (&'a str, Place, Option<&'a ListenTls>);

/// All listeners of a config.
fn all(config: &Config) -> impl Iterator<Item = Named<'_>> {
    let upstreams = config.upstreams.iter().flat_map(|it| of_upstream(it));
    let inbound = config.inbound.iter();
    upstreams.chain(inbound.map(|it| (it.name.as_str(), to_worker(it), it.listen_tls.as_ref())))
}

/// What a listener is for.
fn what(name: &str, way: Way) -> String {
    match way {
        Way::ToUpstream => format!("upstream `{name}`"),
        Way::FromUpstream => format!("callbacks of upstream `{name}`"),
        Way::ToWorker => format!("inbound `{name}`"),
    }
}

/// Where a way to the worker begins.
fn to_worker(inbound: &Inbound) -> Place {
    Place {
        address: inbound.listen,
        upstream: UpstreamId::new(&inbound.name),
        way: Way::ToWorker,
    }
}

/// The doors before the worker, and what is to be put behind them.
pub(super) struct WaysIn {
    faces: Vec<(Place, Face)>,
    /// Those who ask there and have no answer yet.
    asked: TaskTracker,
}

impl WaysIn {
    /// Those of a config.
    pub(super) fn of(
        config: &Config,
        claims: &Claims,
        supervisor: &Supervisor,
    ) -> Result<Self, AppError> {
        let asked = TaskTracker::new();
        let face = |(way, rules): (usize, &Inbound)| {
            let endpoint = Endpoint::new(&rules.url.to_string(), &TlsMaterial::default(), false);
            let endpoint = endpoint.map_err(|why| AppError::Worker(rules.name.clone(), why))?;
            let front = InboundFront::new(InboundShared {
                way,
                rules: rules.clone(),
                claims: claims.clone(),
                worker: PassThrough::new(endpoint, &Limits::default()).keeping_host(),
                supervisor: supervisor.clone(),
                asked: asked.clone(),
            });
            Ok((to_worker(rules), Face::Inbound(front)))
        };
        let faces: Result<_, AppError> = config.inbound.iter().enumerate().map(face).collect();
        let faces = faces?;
        Ok(Self { faces, asked })
    }

    pub(super) fn faces(&self) -> impl Iterator<Item = &(Place, Face)> {
        self.faces.iter()
    }
}

/// Nothing new is let in by these: waits until all who ask there have the head of an answer, and for what a drain waits
/// for otherwise, for at most so long. True if no effect is under way then.
pub(super) async fn drained(
    inbound: Option<&WaysIn>,
    supervisor: &Supervisor,
    at_most: Duration,
) -> bool {
    let answered = async {
        if let Some(inbound) = inbound {
            inbound.asked.close();
            let _slow_worker = timeout(at_most, inbound.asked.wait()).await;
        }
    };
    let (drained, ()) = tokio::join!(supervisor.drained(at_most), answered);
    drained
}

/// The listeners of one upstream, each with its certificates.
fn of_upstream(upstream: &Upstream) -> impl Iterator<Item = Named<'_>> {
    let place = |address, way| Place {
        address,
        upstream: upstream.id.clone(),
        way,
    };
    let callers = place(upstream.listen, Way::ToUpstream);
    let callbacks = upstream.callbacks.as_ref().map(|callbacks| {
        let place = place(callbacks.listen, Way::FromUpstream);
        (upstream.name.as_str(), place, callbacks.listen_tls.as_ref())
    });
    let listen_tls = upstream.listen_tls.as_ref();
    let callers = (upstream.name.as_str(), callers, listen_tls);
    [callers].into_iter().chain(callbacks)
}

/// What is to be put behind the doors of one upstream.
pub(super) fn faces(
    shared: &Arc<Shared>,
    gateway: &Arc<Gateway>,
    dispatcher: &Dispatcher,
    reconciler: &Reconciler,
) -> Vec<(Place, Face)> {
    let upstream = Arc::clone(&gateway.config);
    let face = |place: Place| {
        let face = match (place.way, &upstream.callbacks) {
            (Way::FromUpstream, Some(rules)) => {
                Face::Callbacks(CallbackFront::new(CallbackShared {
                    upstream: upstream.id.clone(),
                    tenant: shared.config().tenant.clone(),
                    rules: Arc::clone(rules),
                    application: gateway.application.clone(),
                    reconciler: reconciler.clone(),
                    dispatcher: dispatcher.clone(),
                    bodies: CallbackShared::room(rules.body_limit),
                }))
            }
            (Way::ToUpstream | Way::FromUpstream | Way::ToWorker, _) => {
                Face::Callers(Front::new(Arc::clone(shared), Arc::clone(gateway)))
            }
        };
        (place, face)
    };
    of_upstream(&upstream)
        .map(|(_, place, _)| face(place))
        .collect()
}
