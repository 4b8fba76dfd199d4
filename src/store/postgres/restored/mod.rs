//! Is the database still the one that it was? Noticing fail-overs, restores and copies.
//!
//! What always holds: nothing is admitted unless the server is the one, and writes the timeline, that the
//! register was known whole on, and no instance misses anything: `write_1` looks at that in every
//! transaction, so that a pooler that leads elsewhere unnoticed is noticed, and each new connection is
//! looked at before it is used. Every instance remembers, in its memory alone, how far it and the others had
//! come. Where its server has another timeline, and everybody who was not dead there finds everything that
//! he remembers, nothing was lost, and a new epoch begins by itself: tokens of before are stale, since the
//! old server may live on. Anything else stops admission, for all instances and durably, until an operator
//! accepts the register as it is; then an epoch begins above all that anybody remembers, after a quiet as long
//! as the longest request may be under way, which each instance counts on its own clock.
//!
//! What is recorded stays possible: evidence about what was sent is never refused, nor is a cancel. It is counted
//! aside, and remembered by all who look, during a doubt and a quiet too, so that another fail-over does not lose it
//! unnoticed. So is what an instance records that was declared dead.
//!
//! What it cannot know: commits of an instance that died before anybody read how far it had come. So the
//! confirmation of each instance that was not declared dead *before* the fail-over is needed, and one that
//! cannot give it any more leaves the decision to a person. Commits of the last moments of an instance that
//! was not even known where the other timeline begins are missed by nobody but itself: it has ten seconds to
//! say so. Where no instance was running, nobody remembers: a new timeline then needs a person, and an
//! older state of the disk under the same timeline is not noticed. Nor is what an instance committed between
//! the last sign of life that anybody read and its own end, if such a state was put back meanwhile. Nor what an
//! operator's tool wrote without a sidecar: it is no instance, and counts nothing.
//!
//! Whoever only looks (an operator's tool) changes nothing of this: it remembers nothing that others
//! do not, and it is no instance that could be asked.

mod awaited;
mod difference;
mod memory;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::ClientConfig;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

pub(super) use awaited::awaited;
pub(super) use difference::Difference;
pub(super) use memory::{Heard, OBJECTIONS, Progress, Reached, Remembered, Server, Worth};

use super::moving::reached;
use super::opening::OpenError;
use super::rows::Unreadable;
use super::session::Session;
use super::shared::Shared;
use super::tables::outgrown;
use super::trouble::Trouble;
use crate::clock::Clock;
use crate::protocol::ids::InstanceId;
use crate::protocol::time::{BootInstant, Millis};
use crate::store::StoreError;
use crate::store::about::{Standing, Stands};
use memory::{Found, Judgement, Memory, Seen};

/// What the parts of an open register share of it.
#[derive(Default)]
pub(super) struct Ground {
    memory: Mutex<Memory>,
    standing: Mutex<Standing>,
    /// Somebody saw what a connection that was found good before should be looked at again for.
    is_suspect: AtomicBool,
    only_looks: AtomicBool,
}

impl Ground {
    pub(super) fn standing(&self) -> Standing {
        locked(&self.standing).clone()
    }

    /// Why nothing is admitted, if nothing is.
    pub(super) fn closed(&self) -> Option<StoreError> {
        let closed = locked(&self.standing).closed.clone();
        closed.map(StoreError::Unavailable)
    }

    /// The same, where it was just found so.
    pub(super) fn why(&self) -> StoreError {
        self.closed().unwrap_or_else(|| {
            StoreError::Unavailable(
                "nothing is admitted by the register any more: it is looked at why".to_owned(),
            )
        })
    }

    /// An own transaction was committed.
    pub(super) fn committed(&self, own: InstanceId, position: u64, epoch: u64, now: BootInstant) {
        locked(&self.memory).committed(own, position, epoch, now);
    }

    /// An own transaction recorded something where nothing is admitted; so many did.
    pub(super) fn put_aside(&self, own: InstanceId, aside: u64, now: BootInstant) {
        locked(&self.memory).put_aside(own, aside, now);
    }

    /// What the instance remembers of its transactions, and of where they belong.
    pub(super) fn remembered(&self, own: InstanceId) -> Remembered {
        locked(&self.memory).remembered(own)
    }

    /// As if the lane had found it whole there.
    #[cfg(test)]
    pub(super) fn believe_whole_on(&self, server: Server) {
        locked(&self.memory).believe_whole_on(server);
    }

    /// From now on it is looked at, and nothing is done about what is found.
    pub(super) fn only_look(&self) {
        self.only_looks.store(true, Ordering::Release);
    }

    /// It is to be looked at again, whatever was found.
    pub(super) fn suspect(&self) {
        self.is_suspect.store(true, Ordering::Release);
    }

    /// Is it to be looked at again? Whoever asks does so.
    pub(super) fn was_suspected(&self) -> bool {
        self.is_suspect.swap(false, Ordering::AcqRel)
    }

    /// What instances are remembered to have done, to be compared with signs of life that are read next.
    pub(super) fn seen(&self) -> Seen {
        locked(&self.memory).seen()
    }

    /// Signs of life were read there (`None`: where the register does not stand). Answers what they are worth;
    /// if they do not fit what is known, the lane looks.
    pub(super) fn heard(
        &self,
        heard: Option<Heard>,
        all: impl Iterator<Item = (InstanceId, Progress)>,
        before: &Seen,
        now: BootInstant,
    ) -> Worth {
        let mut memory = locked(&self.memory);
        let worth = memory.worth(heard);
        let fits = match worth {
            Worth::All => !memory.heard(all, before, now),
            // It is looked at all the time.
            Worth::Company => true,
            Worth::Nothing => false,
        };
        if !fits {
            self.suspect();
        }
        worth
    }

    /// Says it when it changes, and not again.
    fn stand(&self, stands: Stands, closed: Option<String>) {
        let mut standing = locked(&self.standing);
        standing.stands = stands;
        if standing.closed == closed {
            return;
        }
        if let Some(why) = &closed {
            tracing::error!(why, "the register admits nothing");
        } else {
            tracing::info!("the register admits");
        }
        standing.closed = closed;
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Whoever panicked left a whole value.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Looks at the ground by way of a connection. Answers whether it need not be looked at again before that
/// ends.
pub(super) async fn assess(session: &Session, shared: &Shared) -> Result<bool, Trouble> {
    // What is opened is looked at once more.
    for _ in 0..3 {
        let before = shared.ground.seen();
        let found = found(session).await?;
        shared.whereabouts.lane_is_on(found.server);
        let now = shared.clock.now();
        let judgement = locked(&shared.ground.memory).judge(&found, &before, now.boottime);
        if judgement == Judgement::Whole {
            shared.saw_epoch(found.epoch);
            if let Some(why) = outgrown(session).await? {
                shared.ground.stand(Stands::Outgrown, Some(why));
                return Ok(false);
            }
            shared.ground.stand(Stands::Whole, None);
            return Ok(true);
        }
        let only_looks = shared.ground.only_looks.load(Ordering::Acquire);
        let (stands, why) = match judgement {
            Judgement::Whole => continue,
            Judgement::Closed(why) => (Stands::InDoubt, needs_a_person(&why)),
            Judgement::Moved(why) => (Stands::Moved, is_elsewhere(&why)),
            Judgement::Close(differences) => {
                let why = told(&differences);
                if !only_looks {
                    close(session, shared, &why).await?;
                }
                (Stands::InDoubt, needs_a_person(&why))
            }
            Judgement::Confirm { .. } if only_looks => {
                let why = format!(
                    "{}. The sidecars find out whether anything is missing",
                    change(&found)
                );
                (Stands::InDoubt, why)
            }
            Judgement::Confirm { own, may_open } => {
                match confirm(session, shared, &found, &own, may_open).await? {
                    Some(why) => (Stands::InDoubt, why),
                    None => continue,
                }
            }
            Judgement::Quiet {
                accepted,
                over: true,
            } if !only_looks && open(session, shared, accepted).await? => continue,
            Judgement::Quiet { .. } => (Stands::Quiet, found.doubt.unwrap_or_default()),
        };
        shared.ground.stand(stands, Some(why));
        return Ok(false);
    }
    Ok(false)
}

fn told(differences: &[Difference]) -> String {
    let told: Vec<_> = differences.iter().map(ToString::to_string).collect();
    told.join("; ")
}

fn change(found: &Found) -> Difference {
    Difference::Timeline {
        recorded: found.recorded,
        found: found.server,
    }
}

fn is_elsewhere(why: &str) -> String {
    format!(
        "the register is no longer used here: {why}. Where that file was imported it goes on; if it was \
         imported nowhere and never will be, take the register back (`fencepost store take-back`)"
    )
}

fn needs_a_person(why: &str) -> String {
    format!(
        "the register may have lost commits: {why}. Make sure that no other copy of it is in use; then \
         accept it (`fencepost store accept-restored`), which cuts off every token of before by a new epoch"
    )
}

async fn close(session: &Session, shared: &Shared, why: &str) -> Result<(), Trouble> {
    const CLOSE: &str = "SELECT fencepost.close_1($1, $2, $3)";
    let epoch = locked(&shared.ground.memory).epoch().cast_signed();
    let wall = shared.clock.now().wall_ms.cast_signed();
    let parameters: [(&(dyn ToSql + Sync), Type); 3] = [
        (&why, Type::TEXT),
        (&epoch, Type::INT8),
        (&wall, Type::INT8),
    ];
    session.rows(CLOSE, &parameters).await?;
    Ok(())
}

/// `None`: a new epoch began.
async fn confirm(
    session: &Session,
    shared: &Shared,
    found: &Found,
    own: &[InstanceId],
    may_open: bool,
) -> Result<Option<String>, Trouble> {
    const CONFIRM: &str =
        "SELECT c.epoch_begun, c.missing, c.witnesses FROM fencepost.confirm_1($1, $2, $3) c";
    // One that has done nothing yet remembers that it was there.
    let mut ids = shared.all_own();
    ids.extend(own);
    let own: Vec<_> = ids.iter().map(|it| it.0.to_be_bytes().to_vec()).collect();
    let wall = shared.clock.now().wall_ms.cast_signed();
    let parameters: [(&(dyn ToSql + Sync), Type); 3] = [
        (&own, Type::BYTEA_ARRAY),
        (&may_open, Type::BOOL),
        (&wall, Type::INT8),
    ];
    let rows = session.rows(CONFIRM, &parameters).await?;
    let row = rows.first().ok_or_else(nothing)?;
    if let Some(epoch) = column::<Option<i64>>(row, 0)? {
        locked(&shared.ground.standing).epochs_begun += 1;
        tracing::warn!(
            from = found.recorded.timeline,
            to = found.server.timeline,
            epoch,
            "the database failed over and lost nothing: a new epoch begins, every token of before is stale"
        );
        return Ok(None);
    }
    let Some(missing) = column::<Option<Vec<Vec<u8>>>>(row, 1)? else {
        // Somebody was faster.
        return Ok(None);
    };
    let change = change(found);
    if missing.is_empty() && column::<Option<i64>>(row, 2)?.unwrap_or_default() == 0 {
        let why =
            format!("{change}, and no instance that was there before says that nothing is missing");
        return Ok(Some(needs_a_person(&why)));
    }
    if missing.is_empty() {
        return Ok(Some(format!(
            "{change}. Nobody misses anything; there is still time for objections"
        )));
    }
    let missing: Result<Vec<_>, _> = missing.iter().map(|it| instance(it)).collect();
    let missing: Vec<_> = missing?.iter().map(ToString::to_string).collect();
    let missing = missing.join(", ");
    let why =
        format!("{change}, and these instances have not said that nothing is missing: {missing}");
    Ok(Some(needs_a_person(&why)))
}

/// After an acceptance. Answers whether it was opened.
async fn open(session: &Session, shared: &Shared, accepted: u64) -> Result<bool, Trouble> {
    const OPEN: &str = "SELECT fencepost.open_1($1, $2)";
    let wall = shared.clock.now().wall_ms.cast_signed();
    let parameters: [(&(dyn ToSql + Sync), Type); 2] =
        [(&accepted.cast_signed(), Type::INT8), (&wall, Type::INT8)];
    let rows = session.rows(OPEN, &parameters).await?;
    column(rows.first().ok_or_else(nothing)?, 0)
}

async fn found(session: &Session) -> Result<Found, Trouble> {
    const FOUND: &str =
        "SELECT g.system_now, g.timeline_now, g.epoch, g.system, g.timeline, g.doubt,
        g.accepted, g.quiet_ms, g.quiet_here, g.ids, g.positions, g.dead, g.moved, g.asides
        FROM fencepost.ground_1() g";
    let rows = session.rows(FOUND, &[]).await?;
    let row = rows.first().ok_or_else(nothing)?;
    let number = |at| Ok::<_, Trouble>(column::<i64>(row, at)?.cast_unsigned());
    let Some(timeline) = column::<Option<i64>>(row, 1)? else {
        return Err(Trouble::Lost(
            "the server is a replica, and writes nothing".to_owned(),
        ));
    };
    let ids: Vec<Vec<u8>> = column(row, 9)?;
    let positions: Vec<i64> = column(row, 10)?;
    let dead: Vec<bool> = column(row, 11)?;
    let asides: Vec<i64> = column(row, 13)?;
    let mut instances = BTreeMap::new();
    let reached = positions.into_iter().zip(asides);
    for ((id, reached), dead) in ids.iter().zip(reached).zip(dead) {
        let (position, aside) = (reached.0.cast_unsigned(), reached.1.cast_unsigned());
        let reached = Reached { position, aside };
        instances.insert(instance(id)?, Progress { reached, dead });
    }
    Ok(Found {
        server: Server {
            system: number(0)?,
            timeline: timeline.cast_unsigned(),
        },
        epoch: number(2)?,
        recorded: Server {
            system: number(3)?,
            timeline: number(4)?,
        },
        doubt: column(row, 5)?,
        moved: column(row, 12)?,
        accepted: number(6)?,
        quiet: column::<Option<i64>>(row, 7)?.map(|it| Millis(it.cast_unsigned())),
        quiet_here: column::<Option<bool>>(row, 8)?.unwrap_or_default(),
        instances,
    })
}

fn column<'r, T: tokio_postgres::types::FromSql<'r>>(
    row: &'r Row,
    at: usize,
) -> Result<T, Trouble> {
    Ok(row.try_get(at).map_err(Unreadable::from)?)
}

fn instance(id: &[u8]) -> Result<InstanceId, Trouble> {
    let id = id.try_into().map_err(|_| {
        Trouble::Unreadable(StoreError::Corrupt(
            "an instance has an id of wrong length".to_owned(),
        ))
    })?;
    Ok(InstanceId(u128::from_be_bytes(id)))
}

fn nothing() -> Trouble {
    Trouble::Unreadable(StoreError::Corrupt(
        "the register says nothing of its ground".to_owned(),
    ))
}

/// A register was accepted as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The epoch that begins.
    pub epoch: u64,
}

/// Accepts a register that may have lost commits. `quiet`: the longest that a request can be under way;
/// nothing is admitted for that long after an instance has learnt of it. `operator`: who says so. `None`:
/// nothing speaks against the register, and nothing was done. One that was exported is not accepted
/// ([`OpenError::Moved`]).
pub async fn accept_restored(
    url: &str,
    tls: Option<&Arc<ClientConfig>>,
    quiet: Millis,
    operator: &str,
    clock: &Clock,
) -> Result<Option<Accepted>, OpenError> {
    const ACCEPT: &str = "SELECT a.begun, a.moved FROM fencepost.accept_1($1, $2, $3) a";
    let session = reached(url, tls).await?;
    let quiet = i64::try_from(quiet.0).unwrap_or(i64::MAX);
    let wall = clock.now().wall_ms.cast_signed();
    let parameters: [(&(dyn ToSql + Sync), Type); 3] = [
        (&quiet, Type::INT8),
        (&operator, Type::TEXT),
        (&wall, Type::INT8),
    ];
    let rows = session.rows(ACCEPT, &parameters).await?;
    let row = rows.first().ok_or_else(nothing)?;
    if let Some(why) = column::<Option<String>>(row, 1)? {
        return Err(OpenError::Moved(why));
    }
    let epoch = column::<Option<i64>>(row, 0)?;
    Ok(epoch.map(|epoch| Accepted {
        epoch: epoch.cast_unsigned(),
    }))
}

/// Where the register is, and what is not as it was where it was known whole.
pub(super) struct Compared {
    pub(super) server: Server,
    pub(super) differences: Vec<Difference>,
}

/// What an operator compares before he accepts it.
pub(super) async fn compared(session: &Session) -> Result<Compared, Trouble> {
    let found = found(session).await?;
    let mut differences = Vec::new();
    let (recorded, server) = (found.recorded, found.server);
    if server.system != recorded.system {
        differences.push(Difference::Copied {
            recorded,
            found: server,
        });
    }
    if server.timeline != recorded.timeline {
        differences.push(Difference::Timeline {
            recorded,
            found: server,
        });
    }
    differences.extend(found.doubt.map(|why| Difference::Closed {
        why: if found.moved { is_elsewhere(&why) } else { why },
    }));
    Ok(Compared {
        server,
        differences,
    })
}
