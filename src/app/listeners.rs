//! The listeners of a config, ready to be opened: sockets bound, certificates read.
//!
//! What always holds: everything that can fail has been done before one of them is opened. A listener
//! that is open already keeps its socket; its certificates are read again whatever has changed, since
//! files change without the config.
//!
//! What it does not do: accept (`proxy::doors`).

use std::collections::HashMap;
use std::sync::Arc;

use tokio::net::TcpListener;

use super::{AppError, bind};
use crate::config::{Config, ListenTls, Upstream};
use crate::dispatch::attempt::Dispatcher;
use crate::dispatch::gateway::Gateway;
use crate::protocol::ids::UpstreamId;
use crate::proxy::callbacks::{CallbackFront, CallbackShared};
use crate::proxy::doors::{Behind, Doors, Face, Place, Way};
use crate::proxy::front::{Front, Shared};
use crate::proxy::tls::InboundTls;
use crate::reconcile::Reconciler;

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
        for (upstream, place, files) in config.upstreams.iter().flat_map(|it| of_upstream(it)) {
            if let Some(files) = files {
                let tls = InboundTls::load(files);
                let tls = tls.map_err(|why| AppError::Listener(upstream.name.clone(), why))?;
                listeners.tls.insert((place.upstream, place.way), tls);
            }
        }
        for (upstream, place, _) in config.upstreams.iter().flat_map(|it| of_upstream(it)) {
            if !doors.is_open(&place) {
                let what = match place.way {
                    Way::ToUpstream => format!("upstream `{}`", upstream.name),
                    Way::FromUpstream => format!("callbacks of upstream `{}`", upstream.name),
                };
                let socket = bind(what, place.address).await?;
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
            tracing::info!(
                upstream = %place.upstream,
                listen = %place.address,
                tls,
                callbacks,
                "listening"
            );
            doors.add(place, socket, behind);
        }
    }
}

/// The listeners of one upstream, each with its certificates.
fn of_upstream(
    upstream: &Upstream,
) -> impl Iterator<Item = (&Upstream, Place, Option<&ListenTls>)> {
    let place = |address, way| Place {
        address,
        upstream: upstream.id.clone(),
        way,
    };
    let callers = place(upstream.listen, Way::ToUpstream);
    let callbacks = upstream.callbacks.as_ref().map(|callbacks| {
        let place = place(callbacks.listen, Way::FromUpstream);
        (upstream, place, callbacks.listen_tls.as_ref())
    });
    let callers = (upstream, callers, upstream.listen_tls.as_ref());
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
            (Way::ToUpstream | Way::FromUpstream, _) => {
                Face::Callers(Front::new(Arc::clone(shared), Arc::clone(gateway)))
            }
        };
        (place, face)
    };
    of_upstream(&upstream)
        .map(|(_, place, _)| face(place))
        .collect()
}
