//! What is unsettled, as every sidecar's scrape asks: at a cost that does not grow with how much it is.
//!
//! What always holds: along the index of what is unsettled, from the oldest on, at most so many rows are read
//! as are counted.
//!
//! What it does not do: count what lies beyond; whoever wants that asks for the summary.

use tokio_postgres::types::{ToSql, Type};

use super::read::{OPERATION, Reader};
use super::rows::{OperationRow, Unreadable};
use super::trouble::Trouble;
use crate::protocol::operation::Operation;
use crate::store::{COUNTED, LOOKED_AT, Pressing, STATE_WORDS, StoreError};

/// Of a tenant, so many of the oldest.
pub(super) const COUNTS: &str = "SELECT f.state, count(*) FROM (
        SELECT o.state FROM fencepost.operations o WHERE o.unsettled AND o.sequence > -1 AND o.tenant = $1
        ORDER BY o.sequence LIMIT $2) f
    GROUP BY f.state";

/// One by one, from behind a sequence ($3) on.
pub(super) fn behind() -> String {
    format!(
        "SELECT {OPERATION} FROM fencepost.operations o
         WHERE o.unsettled AND o.sequence > -1 AND o.tenant = $1 AND o.sequence > $3
         ORDER BY o.sequence LIMIT $2"
    )
}

impl Reader {
    pub(super) async fn pressing(&self) -> Result<Pressing, StoreError> {
        self.pressed().await.map_err(Trouble::into_store_error)
    }

    pub(super) async fn unsettled(
        &self,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Operation)>, StoreError> {
        let found = self.unsettled_behind(after, limit).await;
        let found = found.map_err(Trouble::into_store_error)?;
        Ok(found
            .into_iter()
            .map(|row| (row.sequence.cast_unsigned(), row.operation))
            .collect())
    }

    async fn unsettled_behind(
        &self,
        after: u64,
        limit: usize,
    ) -> Result<Vec<OperationRow>, Trouble> {
        let most = i64::try_from(limit).unwrap_or(i64::MAX);
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        let parameters: [(&(dyn ToSql + Sync), Type); 3] = [
            (&self.tenant, Type::TEXT),
            (&most, Type::INT8),
            (&after, Type::INT8),
        ];
        self.found(&behind(), &parameters).await
    }

    async fn pressed(&self) -> Result<Pressing, Trouble> {
        let counted = i64::from(COUNTED);
        let parameters: [(&(dyn ToSql + Sync), Type); 2] =
            [(&self.tenant, Type::TEXT), (&counted, Type::INT8)];
        let rows = self.rows(COUNTS, &parameters).await?;
        let mut by_state = Vec::new();
        for word in STATE_WORDS {
            for row in &rows {
                let count: i64 = row.try_get(1).map_err(Unreadable::from)?;
                if row.try_get::<_, &str>(0).map_err(Unreadable::from)? == word {
                    by_state.push((word, count.cast_unsigned()));
                }
            }
        }
        let oldest = self.unsettled_behind(0, LOOKED_AT).await?;
        Ok(Pressing {
            by_state,
            oldest: oldest.into_iter().map(|row| row.operation).collect(),
        })
    }
}
