//! The listeners of a config, ready to be opened: sockets bound, certificates read.
//!
//! What always holds: everything that can fail has been done before one of them is opened. A listener
//! that is open already keeps its socket; its certificates are read again whatever has changed, since
//! files change without the config.
//!
//! What it does not do: accept (`proxy::doors`).

use std::collections::HashMap;

use tokio::net::TcpListener;

use super::{AppError, bind};
use crate::config::{Config, Upstream};
use crate::protocol::ids::UpstreamId;
use crate::proxy::doors::{Behind, Doors, Place};
use crate::proxy::front::Front;
use crate::proxy::tls::InboundTls;

/// Those of one config.
pub(super) struct Listeners {
    sockets: Vec<(Place, TcpListener)>,
    tls: HashMap<UpstreamId, InboundTls>,
}

impl Listeners {
    /// Reads what all of them need, and binds those that are not open.
    pub(super) async fn of(config: &Config, doors: &Doors) -> Result<Self, AppError> {
        let mut listeners = Self {
            sockets: Vec::new(),
            tls: HashMap::new(),
        };
        for upstream in &config.upstreams {
            if let Some(files) = &upstream.listen_tls {
                let tls = InboundTls::load(files);
                let tls = tls.map_err(|why| AppError::Listener(upstream.name.clone(), why))?;
                listeners.tls.insert(upstream.id.clone(), tls);
            }
        }
        for upstream in &config.upstreams {
            let place = place(upstream);
            if !doors.is_open(&place) {
                let what = format!("upstream `{}`", upstream.name);
                let socket = bind(what, upstream.listen).await?;
                listeners.sockets.push((place, socket));
            }
        }
        Ok(listeners)
    }

    /// Puts a front behind the door at this place, and opens it if it is a new one.
    pub(super) fn put(&mut self, doors: &Doors, place: Place, front: Front) {
        let tls = self.tls.get(&place.upstream).cloned();
        let Some((place, behind)) = doors.put(place, Behind { front, tls }) else {
            return;
        };
        let bound = self.sockets.iter().position(|(bound, _)| *bound == place);
        if let Some(bound) = bound {
            let (_, socket) = self.sockets.swap_remove(bound);
            let tls = behind.tls.is_some();
            tracing::info!(upstream = %place.upstream, listen = %place.address, tls, "listening");
            doors.add(place, socket, behind);
        }
    }
}

/// Where callers reach it.
pub(super) fn place(upstream: &Upstream) -> Place {
    Place {
        address: upstream.listen,
        upstream: upstream.id.clone(),
    }
}
