//! The listeners of an instance, opened and closed while it runs.
//!
//! What always holds: a door that stays keeps its socket. It keeps its connections too, with the callers
//! that they had, for as long as the same upstream is behind it and the same trust says who callers are;
//! a renewed certificate of our own changes neither. With another upstream, another trust (TLS or none,
//! other roots, `client`), connections that were accepted before it end: the requests under way on them
//! are answered to the end, and no further one is let in under a name that somebody else gave. A door
//! that is closed lets the requests under way on it finish.
//!
//! What it does not do: bind sockets, or choose fronts (`app`).

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::callbacks::CallbackFront;
use super::front::{Content, Front};
use super::inbound::InboundFront;
use super::listener;
use super::tls::InboundTls;
use crate::dispatch::live::Live;
use crate::lease::claim::Claims;
use crate::protocol::ids::UpstreamId;
use crate::wire::caller::Caller;

/// All doors.
#[derive(Default)]
pub struct Doors {
    open: Mutex<Vec<Door>>,
    listeners: TaskTracker,
    claims: Claims,
}

/// Where a door is, by the config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The address.
    pub address: SocketAddr,
    /// The upstream behind it; of a way to the worker its own name.
    pub upstream: UpstreamId,
    /// Who comes in by it.
    pub way: Way,
}

/// Who comes in by a door.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// Callers, who want something of the upstream.
    ToUpstream,
    /// The upstream itself, which calls back.
    FromUpstream,
    /// Whoever asks the worker for work.
    ToWorker,
}

/// What answers behind a door.
#[derive(Clone)]
pub enum Face {
    /// Callers.
    Callers(Front),
    /// The upstream's callbacks.
    Callbacks(CallbackFront),
    /// Who asks the worker.
    Inbound(InboundFront),
}

/// What is behind one.
pub struct Behind {
    /// What answers.
    pub face: Face,
    /// How connections are accepted from now on; `None`: in the clear.
    pub tls: Option<InboundTls>,
}

/// What is behind a door, and the connections that may ask it.
pub(super) struct InForce {
    pub(super) behind: Behind,
    /// Those that are accepted from now on.
    pub(super) connections: Arc<Generation>,
}

/// Connections that were accepted for one upstream and under one trust.
pub(super) struct Generation {
    ending: CancellationToken,
}

struct Door {
    place: Place,
    in_force: Live<InForce>,
    closing: CancellationToken,
}

impl Face {
    /// Answers a request of whoever is at the other end.
    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
        caller: &Caller,
    ) -> Response<Content> {
        match self {
            Self::Callers(front) => front.answer(request, caller).await,
            Self::Callbacks(front) => front.answer(request).await,
            Self::Inbound(front) => front.answer(request).await,
        }
    }
}

impl Doors {
    /// None yet. `claims`: what is held on behalf of those who come in by them.
    pub fn new(claims: Claims) -> Self {
        Self {
            claims,
            ..Self::default()
        }
    }

    /// What is held on behalf of those who come in by them.
    pub fn claims(&self) -> &Claims {
        &self.claims
    }

    /// Is one open there?
    pub fn is_open(&self, place: &Place) -> bool {
        self.open().iter().any(|door| door.place.is_at(place))
    }

    /// Opens one.
    pub fn add(&self, place: Place, socket: TcpListener, behind: Behind) {
        let closing = CancellationToken::new();
        let door = Door {
            place,
            in_force: Live::new(Arc::new(InForce::first(behind, &closing))),
            closing,
        };
        let (in_force, closing) = (door.in_force.clone(), door.closing.clone());
        // What comes in to the worker says nothing on its behalf: its connections outlast every acquisition.
        let claims = match door.place.way {
            Way::ToUpstream | Way::FromUpstream => self.claims.clone(),
            Way::ToWorker => Claims::default(),
        };
        let served = listener::serve(socket, in_force, claims, closing);
        self.listeners.spawn(served);
        self.open().push(door);
    }

    /// Puts something else behind one, as a whole, and ends the connections that were not accepted for
    /// it. Gives it back if no door is there.
    pub fn put(&self, place: Place, behind: Behind) -> Option<(Place, Behind)> {
        let mut open = self.open();
        match open.iter_mut().find(|door| door.place.is_at(&place)) {
            Some(door) => {
                door.put(place, behind);
                None
            }
            None => Some((place, behind)),
        }
    }

    /// Closes all but these; answers which.
    pub fn keep(&self, places: &[Place]) -> Vec<Place> {
        let kept = |door: &Door| places.iter().any(|place| door.place.is_at(place));
        let mut open = self.open();
        let closed: Vec<Door> = open.extract_if(.., |door| !kept(door)).collect();
        let closed = closed.into_iter().map(|door| {
            door.closing.cancel();
            door.place
        });
        closed.collect()
    }

    /// Closes all; waits for their connections, at most so long.
    pub async fn close(&self, at_most: Duration) {
        self.keep(&[]);
        self.listeners.close();
        let _slow_readers = tokio::time::timeout(at_most, self.listeners.wait()).await;
    }

    fn open(&self) -> MutexGuard<'_, Vec<Door>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Door {
    fn put(&mut self, place: Place, behind: Behind) {
        let before = self.in_force.now();
        let same = (&self.place.upstream, self.place.way) == (&place.upstream, place.way);
        let stay = same && before.behind.trusts_as(&behind);
        self.place = place;
        if stay {
            let connections = Arc::clone(&before.connections);
            self.in_force.replace(Arc::new(InForce {
                behind,
                connections,
            }));
            return;
        }
        let next = InForce::first(behind, &self.closing);
        self.in_force.replace(Arc::new(next));
        before.connections.ending.cancel();
        tracing::info!(
            upstream = %self.place.upstream,
            listen = %self.place.address,
            "another upstream or other trust: connections that were open end"
        );
    }
}

impl Behind {
    /// Would both know a caller by the same certificates?
    fn trusts_as(&self, other: &Self) -> bool {
        self.tls.as_ref().map(InboundTls::trust) == other.tls.as_ref().map(InboundTls::trust)
    }
}

impl InForce {
    /// With no connection yet; those that come end with the door.
    pub(super) fn first(behind: Behind, closing: &CancellationToken) -> Self {
        let connections = Generation {
            ending: closing.child_token(),
        };
        Self {
            behind,
            connections: Arc::new(connections),
        }
    }

    /// May a connection of that generation ask it?
    pub(super) fn admits(&self, generation: &Arc<Generation>) -> bool {
        Arc::ptr_eq(&self.connections, generation)
    }
}

impl Generation {
    /// Its connections finish what is under way on them, and take nothing more.
    pub(super) async fn ending(&self) {
        self.ending.cancelled().await;
    }
}

impl Place {
    /// Port 0 is a new port each time: there it is the upstream that tells them apart.
    fn is_at(&self, other: &Self) -> bool {
        self.address == other.address
            && (self.address.port() != 0
                || (&self.upstream, self.way) == (&other.upstream, other.way))
    }
}
