//! Forgetting: answers first, then whole identities; a few rows at a time, by one instance of a tenant at a
//! time.
//!
//! What always holds: only what is settled is forgotten, fences never, and nothing before the longest time that
//! any sidecar of the tenant has ever told, by the tenant's own age in the register, which goes on by the clocks that count suspend of whoever looks after it: while
//! nobody does, the register does not grow older. A step is one statement and one short transaction, that
//! reads rows in the order they were admitted in and follows an index wherever it goes, so that a hundred
//! million rows are as easily stepped through as a hundred; the database's own vacuum keeps up.
//!
//! Why there are laps: no index says when an operation was settled, because every operation would have
//! to be put into it. Most are settled as soon as they are admitted. One that was not is passed, and stays
//! until the next lap: its answer for twice as long as it must at most, its identity a day longer.
//!
//! What was told may be lost with a fail-over: each instance tells it again, and nothing is forgotten before
//! everybody had the time to. One that comes new forgets at once, by what it finds told.
//!
//! What it does not do: give space back to the file system, or wait for locks that another instance holds to
//! do the same.

use std::time::Duration;

use tokio::time::sleep;
use tokio_postgres::types::{ToSql, Type};

use super::PostgresBackend;
use super::life;
use super::rows::Unreadable;
use super::session::Session;
use super::trouble::Trouble;
use crate::protocol::time::{Millis, Moment};
use crate::store::StoreError;
use crate::store::age::Lived;
use crate::store::remember::{Purged, Remember};

/// How often it is looked whether something is old.
const EVERY: Duration = Duration::from_secs(10);

/// Between two steps, so that others come first.
const PAUSE: Duration = Duration::from_millis(20);

/// Rows that one step looks at.
const ROWS: i64 = 500;

/// Nothing that was admitted so much longer ago than it is remembered is waited for: it is passed.
const PASSED_AFTER: Millis = Millis(24 * 60 * 60 * 1_000);

/// Whole identities go as they are passed, so a lap is short; answers leave their operations behind.
const LAP: Millis = Millis(24 * 60 * 60 * 1_000);

/// What a step goes through: whoever comes second does nothing. The row is locked that no other tenant's role
/// sees; an advisory lock could be taken by anybody.
const NEXT: &str = "WITH
    here AS MATERIALIZED (SELECT f.passed FROM fencepost.forgotten f
        WHERE f.tenant = $7 AND f.what = $1 FOR UPDATE SKIP LOCKED),
    next AS MATERIALIZED (
        SELECT o.identity, o.sequence, coalesce(NOT o.unsettled AND o.settled_ms <= $2, false) AS old,
            o.first_seen_wall_ms <= $3 AS passed
        FROM fencepost.operations o
        WHERE o.tenant = $7 AND o.sequence > 0 AND o.sequence > (SELECT passed FROM here)
        ORDER BY o.sequence LIMIT $4),
    seen AS MATERIALIZED (
        SELECT count(*) AS looked_at, max(n.sequence) FILTER (WHERE n.old OR n.passed) AS up_to FROM next n),
    moved AS (
        UPDATE fencepost.forgotten f
        SET passed = coalesce(s.up_to, 0), lap_ms = CASE WHEN s.up_to IS NULL THEN $5 ELSE f.lap_ms END
        FROM seen s, here h
        WHERE f.tenant = $7 AND f.what = $1 AND (s.up_to IS NOT NULL OR f.lap_ms <= $6)),";

const ANSWERS: &str = "
    gone AS (
        UPDATE fencepost.operations o SET answer = NULL, version = o.version + 1
        WHERE o.tenant = $7 AND o.identity = ANY(ARRAY(SELECT n.identity FROM next n WHERE n.old))
            AND NOT o.unsettled AND o.settled_ms <= $2 AND o.answer IS NOT NULL
        RETURNING 1)";

/// Its story goes with it; whoever repeated it is new as well.
const IDENTITIES: &str = "
    gone AS (
        DELETE FROM fencepost.operations o
        WHERE o.tenant = $7 AND o.identity = ANY(ARRAY(SELECT n.identity FROM next n WHERE n.old))
            AND NOT o.unsettled AND o.settled_ms <= $2
        RETURNING o.identity),
    stories AS (
        DELETE FROM fencepost.events e
        WHERE e.tenant = $7 AND e.operation = ANY(ARRAY(SELECT g.identity FROM gone g))),
    notes AS (
        DELETE FROM fencepost.twins t
        WHERE t.tenant = $7 AND t.first = ANY(ARRAY(SELECT g.identity FROM gone g)))";

const TOLD: &str = "
    SELECT s.looked_at, s.up_to IS NOT NULL, (SELECT count(*) FROM gone) FROM seen s";

/// Looks after a change of the ground before anything is forgotten: meanwhile each instance has told again how
/// long it wants everything remembered.
const LOOKS: u32 = 3;

/// Has everybody had the time to tell?
#[derive(Debug, Default)]
struct Settling {
    on: Option<u64>,
    /// Looks that found nothing changed; `None`: nothing has changed since the start.
    looks: Option<u32>,
}

impl Settling {
    /// Looks at where it stands, every [`EVERY`].
    fn look(&mut self, on: Option<u64>) {
        if self.on == on && on.is_some() {
            self.looks = self.looks.map(|it| it.saturating_add(1));
        } else if self.on.is_some() || on.is_none() {
            self.looks = Some(0);
        }
        self.on = on;
    }

    fn is_over(&self) -> bool {
        self.on.is_some() && self.looks.is_none_or(|it| it >= LOOKS)
    }
}

/// What is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Answers,
    Identities,
}

/// What came of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    gone: u64,
    /// Is there probably more?
    more: bool,
}

/// What came of looking after the register once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tended {
    /// What was forgotten.
    pub purged: Purged,
    /// Is there probably more?
    pub more: bool,
}

impl PostgresBackend {
    /// Looks after the register until it is closed, as long and as often as it is this instance's turn.
    /// `purged` is told what was forgotten.
    pub async fn keep(&self, purged: impl Fn(Purged)) {
        let mut session = None;
        let mut forgotten = Purged::default();
        let mut settling = Settling::default();
        let mut goes_on = false;
        while !self.errands.is_closed() {
            if !goes_on {
                settling.look(self.ground());
                self.remind().await;
            }
            let mut more = false;
            if self.shared.is_warden() && settling.is_over() {
                match self.tend(&mut session).await {
                    Ok(tended) => {
                        purged(tended.purged);
                        forgotten.add(tended.purged);
                        more = tended.more;
                    }
                    Err(error) => {
                        tracing::warn!(error = %error, "the register could not be looked after");
                    }
                }
            }
            goes_on = more;
            if more {
                sleep(PAUSE).await;
                continue;
            }
            if !forgotten.is_nothing() {
                let Purged {
                    answers,
                    identities,
                } = std::mem::take(&mut forgotten);
                tracing::info!(answers, identities, "what was old was forgotten");
            }
            // A connection more than the two is only held while there is something to do.
            session = None;
            sleep(EVERY).await;
        }
    }

    /// Whoever forgets goes by what is told: and what was told may have been lost with a fail-over.
    pub(super) async fn remind(&self) {
        if let Err(trouble) = life::tell_memory(&self.reader, self.remember).await {
            let error = trouble.into_store_error();
            tracing::debug!(error = %error, "it was not told how long anything is remembered");
        }
    }

    /// The epoch that admits; `None`: nothing does.
    fn ground(&self) -> Option<u64> {
        let is_open = self.shared.ground.closed().is_none();
        is_open.then(|| self.shared.epoch())
    }

    /// Looks after the register once, over a connection of its own.
    pub(super) async fn tend(&self, held: &mut Option<Session>) -> Result<Tended, StoreError> {
        let tended = self.tend_over(held).await;
        if tended.is_err() {
            *held = None;
        }
        tended.map_err(Trouble::into_store_error)
    }

    async fn tend_over(&self, held: &mut Option<Session>) -> Result<Tended, Trouble> {
        let session = match held.take() {
            Some(session) if !session.is_closed() => session,
            Some(_) | None => self.connector.connect().await?,
        };
        let now = self.shared.clock.now();
        let lived = self.shared.lived();
        grow_older(&session, &self.reader.tenant, lived, &now).await?;
        let remember = self.longest_told(&session).await?;
        let step = async |what| self.step(&session, what, remember, lived, &now).await;
        let answers = step(What::Answers).await?;
        let identities = step(What::Identities).await?;
        *held = Some(session);
        Ok(Tended {
            purged: Purged {
                answers: answers.gone,
                identities: identities.gone,
            },
            more: answers.more || identities.more,
        })
    }

    /// How long anything is remembered: what this instance was told, or any other of its tenant that was told
    /// longer. So the one with the shortest memory forgets nothing of the others.
    async fn longest_told(&self, session: &Session) -> Result<Remember, Trouble> {
        const TOLD: &str =
            "SELECT f.what, f.remember_ms FROM fencepost.forgotten f WHERE f.tenant = $1";
        let mut remember = self.remember;
        for row in session
            .rows(TOLD, &[(&self.reader.tenant, Type::TEXT)])
            .await?
        {
            let what: i16 = row.try_get(0).map_err(Unreadable::from)?;
            let told: i64 = row.try_get(1).map_err(Unreadable::from)?;
            let told = Millis(told.max(0).cast_unsigned());
            if what == What::Answers.column() {
                remember.answers = remember.answers.max(told);
            } else if what == What::Identities.column() {
                remember.identities = remember.identities.max(told);
            }
        }
        Ok(remember)
    }

    async fn step(
        &self,
        session: &Session,
        what: What,
        remember: Remember,
        lived: Lived,
        now: &Moment,
    ) -> Result<Step, Trouble> {
        let length = what.remembered(remember);
        // The register is not as old as that.
        let Some(until) = lived.before(length) else {
            return Ok(Step {
                gone: 0,
                more: false,
            });
        };
        let passed = now.wall_ms.saturating_sub(length.plus(PASSED_AFTER).0);
        let lap = lived.before(what.lap(remember)).unwrap_or_default();
        let parameters: [(&(dyn ToSql + Sync), Type); 7] = [
            (&what.column(), Type::INT2),
            (&until.column(), Type::INT8),
            (&passed.cast_signed(), Type::INT8),
            (&ROWS, Type::INT8),
            (&lived.column(), Type::INT8),
            (&lap.column(), Type::INT8),
            (&self.reader.tenant, Type::TEXT),
        ];
        let rows = session.rows(&what.statement(), &parameters).await?;
        let Some(row) = rows.first() else {
            return Ok(Step {
                gone: 0,
                more: false,
            });
        };
        let looked_at: i64 = row.try_get(0).map_err(Unreadable::from)?;
        let moved: bool = row.try_get(1).map_err(Unreadable::from)?;
        let gone: i64 = row.try_get(2).map_err(Unreadable::from)?;
        Ok(Step {
            gone: gone.cast_unsigned(),
            more: moved && looked_at == ROWS,
        })
    }
}

/// How old the tenant's memory is by whoever looks after it; never less than it was.
async fn grow_older(
    session: &Session,
    tenant: &str,
    lived: Lived,
    now: &Moment,
) -> Result<(), Trouble> {
    const OLDER: &str = "UPDATE fencepost.ages
        SET lived_ms = $1, read_boot = $2, read_boottime_ms = $3, read_wall_ms = $4
        WHERE tenant = $5 AND lived_ms < $1";
    let boot = now.boot.0.to_be_bytes().to_vec();
    let parameters: [(&(dyn ToSql + Sync), Type); 5] = [
        (&lived.column(), Type::INT8),
        (&boot, Type::BYTEA),
        (&now.boottime.0.cast_signed(), Type::INT8),
        (&now.wall_ms.cast_signed(), Type::INT8),
        (&tenant, Type::TEXT),
    ];
    session.rows(OLDER, &parameters).await?;
    Ok(())
}

impl What {
    fn column(self) -> i16 {
        match self {
            Self::Answers => 0,
            Self::Identities => 1,
        }
    }

    fn remembered(self, remember: Remember) -> Millis {
        match self {
            Self::Answers => remember.answers,
            Self::Identities => remember.identities,
        }
    }

    /// A lap through answers passes every operation that is remembered.
    fn lap(self, remember: Remember) -> Millis {
        match self {
            Self::Answers => remember.answers.max(LAP),
            Self::Identities => LAP,
        }
    }

    pub(super) fn statement(self) -> String {
        let gone = match self {
            Self::Answers => ANSWERS,
            Self::Identities => IDENTITIES,
        };
        format!("{NEXT}{gone}{TOLD}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_forgotten_until_all_have_told_again() {
        let mut settling = Settling::default();
        let mut look = |on| {
            settling.look(on);
            settling.is_over()
        };
        assert!(look(Some(1)), "at the start");
        assert!(look(Some(1)));
        for changed in [Some(2), None] {
            assert!(!look(changed));
            assert_eq!([look(Some(3)), look(Some(3))], [false; 2], "{changed:?}");
        }
        assert_eq!([look(Some(3)), look(Some(3))], [false, true]);
        let mut closed = Settling::default();
        closed.look(None);
        closed.look(Some(1));
        assert!(!closed.is_over());
    }
}
