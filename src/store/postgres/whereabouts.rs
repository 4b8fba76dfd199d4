//! Which server the parts of an open register are on: the lane's is the one that counts.
//!
//! What always holds: what the lane has committed is in the register that every reader looks at. A reader's
//! connection is used only while it belongs to the lane's present session, and leads to the server and the
//! timeline that the lane has looked at. Where they part, after a fail-over whose old server lives on, the
//! lane looks again; until both agree nothing is read, and nobody is taken for dead by what one of them says.
//!
//! What it does not do: decide which of two servers is the right one (`restored`), or see where a pooler leads
//! a session later: `write_1` and each sign of life look at that themselves.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio_postgres::Row;

use super::restored::Server;
use super::rows::Unreadable;
use super::session::Session;
use super::trouble::Trouble;
use crate::store::StoreError;

#[derive(Default)]
pub(super) struct Whereabouts {
    /// Where the lane has looked last; `None`: nowhere yet.
    lane: Mutex<Option<Server>>,
    /// Sessions that the lane has made.
    sessions: AtomicU64,
    /// Somebody was led elsewhere.
    suspected: AtomicBool,
}

impl Whereabouts {
    /// The lane has looked at its ground.
    pub(super) fn lane_is_on(&self, server: Server) {
        *self.lane.lock().unwrap_or_else(PoisonError::into_inner) = Some(server);
    }

    /// The lane has a new session.
    pub(super) fn lane_moved(&self) {
        self.sessions.fetch_add(1, Ordering::AcqRel);
    }

    /// Which of the lane's sessions this is.
    pub(super) fn lane_session(&self) -> u64 {
        self.sessions.load(Ordering::Acquire)
    }

    /// Is the lane there too, for all that is known? If not, it will look again.
    pub(super) fn agrees(&self, server: Server) -> Result<(), Trouble> {
        let lane = *self.lane.lock().unwrap_or_else(PoisonError::into_inner);
        match lane {
            Some(lane) if lane != server => {
                self.suspected.store(true, Ordering::Release);
                Err(Trouble::Lost(format!(
                    "a connection leads to the server {} on timeline {}, and what is written goes to {} on \
                     timeline {}",
                    server.system, server.timeline, lane.system, lane.timeline
                )))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Was somebody led elsewhere since this was asked last?
    pub(super) fn take_suspicion(&self) -> bool {
        self.suspected.swap(false, Ordering::AcqRel)
    }
}

/// Where a session leads.
pub(super) async fn of(session: &Session) -> Result<Server, Trouble> {
    const HERE: &str =
        "SELECT c.system_identifier, fencepost.timeline_1() FROM pg_control_system() c";
    let rows = session.rows(HERE, &[]).await?;
    let row = rows.first().ok_or_else(|| {
        Trouble::Unreadable(StoreError::Corrupt("the server has no name".to_owned()))
    })?;
    in_row(row, 0)
}

/// A system identifier and the timeline after it.
pub(super) fn in_row(row: &Row, at: usize) -> Result<Server, Trouble> {
    let system: i64 = row.try_get(at).map_err(Unreadable::from)?;
    let timeline: Option<i64> = row
        .try_get(at.saturating_add(1))
        .map_err(Unreadable::from)?;
    let timeline = timeline
        .ok_or_else(|| Trouble::Lost("the server is a replica, and writes nothing".to_owned()))?;
    Ok(Server {
        system: system.cast_unsigned(),
        timeline: timeline.cast_unsigned(),
    })
}
