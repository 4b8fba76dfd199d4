//! The listeners of an instance, opened and closed while it runs.
//!
//! What always holds: a door that stays keeps its socket and its connections, whatever is put behind
//! it: they stay as they were accepted, in TLS or not, with the caller that they had. One that is closed lets the requests under way on it finish.
//!
//! What it does not do: bind sockets, or choose fronts (`app`).

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::front::Front;
use super::listener;
use super::tls::InboundTls;
use crate::dispatch::live::Live;
use crate::protocol::ids::UpstreamId;

/// All doors.
#[derive(Default)]
pub struct Doors {
    open: Mutex<Vec<Door>>,
    listeners: TaskTracker,
}

/// Where a door is, by the config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The address.
    pub address: SocketAddr,
    /// The upstream behind it.
    pub upstream: UpstreamId,
}

/// What is behind one.
pub struct Behind {
    /// What answers.
    pub front: Front,
    /// How connections are accepted from now on; `None`: in the clear.
    pub tls: Option<InboundTls>,
}

struct Door {
    place: Place,
    behind: Live<Behind>,
    closing: CancellationToken,
}

impl Doors {
    /// Is one open there?
    pub fn is_open(&self, place: &Place) -> bool {
        self.open().iter().any(|door| door.place.is_at(place))
    }

    /// Opens one.
    pub fn add(&self, place: Place, socket: TcpListener, behind: Behind) {
        let door = Door {
            place,
            behind: Live::new(Arc::new(behind)),
            closing: CancellationToken::new(),
        };
        let served = listener::serve(socket, door.behind.clone(), door.closing.clone());
        self.listeners.spawn(served);
        self.open().push(door);
    }

    /// Puts something else behind one, as a whole. Gives it back if no door is there.
    pub fn put(&self, place: Place, behind: Behind) -> Option<(Place, Behind)> {
        let mut open = self.open();
        match open.iter_mut().find(|door| door.place.is_at(&place)) {
            Some(door) => {
                door.place = place;
                door.behind.replace(Arc::new(behind));
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

impl Place {
    /// Port 0 is a new port each time: there it is the upstream that tells them apart.
    fn is_at(&self, other: &Self) -> bool {
        self.address == other.address
            && (self.address.port() != 0 || self.upstream == other.upstream)
    }
}
