//! What became of a batch of decisions, as the database tells it.
//!
//! What always holds: there is one verdict for each decision, in their order.
//!
//! What it does not do: write (`batch`).

use tokio_postgres::Row;

use super::rows::Unreadable;
use super::trouble::Trouble;
use crate::store::StoreError;

/// What became of one decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Written.
    Written,
    /// Something it was decided on has changed.
    Changed,
    /// This instance is declared dead, and admits nothing any more.
    Dead,
    /// Another epoch is in force.
    AnotherEpoch,
    /// Nothing is admitted on the server's present ground.
    Closed,
}

/// What became of a batch.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// Of each decision, in their order.
    pub(super) verdicts: Vec<Verdict>,
    /// Transactions of the instance, this one included; `None`: it is declared dead.
    pub(super) position: Option<u64>,
    /// Is nothing admitted on this ground?
    pub(super) closed: bool,
    /// Transactions of the instance that recorded something on ground that admitted nothing.
    pub(super) aside: Option<u64>,
}

impl Written {
    /// What the one row says of so many decisions.
    pub(super) fn of(rows: &[Row], asked: usize) -> Result<Self, Trouble> {
        let written = rows.first().map(Self::read).transpose()?;
        let written = written.unwrap_or_default();
        let told = written.verdicts.len();
        if told == asked {
            return Ok(written);
        }
        let text = format!("{told} verdicts on {asked} decisions");
        Err(Trouble::Unreadable(StoreError::Corrupt(text)))
    }

    fn read(row: &Row) -> Result<Self, Unreadable> {
        let told: Vec<i16> = row.try_get(0)?;
        let position: Option<i64> = row.try_get(1)?;
        Ok(Self {
            verdicts: told.into_iter().map(Verdict::of).collect(),
            position: position.map(i64::cast_unsigned),
            closed: row.try_get(2)?,
            aside: row.try_get::<_, Option<i64>>(3)?.map(i64::cast_unsigned),
        })
    }
}

impl Verdict {
    fn of(told: i16) -> Self {
        match told {
            0 => Self::Written,
            2 => Self::Dead,
            3 => Self::AnotherEpoch,
            4 => Self::Closed,
            _ => Self::Changed,
        }
    }
}
