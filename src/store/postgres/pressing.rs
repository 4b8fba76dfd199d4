//! What is unsettled, as every sidecar's scrape asks: at a cost that does not grow with how much it is.
//!
//! What always holds: along the index of what is unsettled, from the oldest on, at most so many rows are read
//! as are counted.
//!
//! What it does not do: count what lies beyond; whoever wants that asks for the summary.

use tokio_postgres::types::{ToSql, Type};

use super::read::{OPERATION, Reader};
use super::rows::Unreadable;
use super::trouble::Trouble;
use crate::store::{COUNTED, LOOKED_AT, Pressing, STATE_WORDS, StoreError};

/// Of a tenant, so many of the oldest.
pub(super) const COUNTS: &str = "SELECT f.state, count(*) FROM (
        SELECT o.state FROM fencepost.operations o WHERE o.unsettled AND o.sequence > -1 AND o.tenant = $1
        ORDER BY o.sequence LIMIT $2) f
    GROUP BY f.state";

/// The same one by one.
pub(super) fn oldest() -> String {
    format!(
        "SELECT {OPERATION} FROM fencepost.operations o
         WHERE o.unsettled AND o.sequence > -1 AND o.tenant = $1
         ORDER BY o.sequence LIMIT $2"
    )
}

impl Reader {
    pub(super) async fn pressing(&self) -> Result<Pressing, StoreError> {
        self.pressed().await.map_err(Trouble::into_store_error)
    }

    async fn pressed(&self) -> Result<Pressing, Trouble> {
        let tenant: (&(dyn ToSql + Sync), Type) = (&self.tenant, Type::TEXT);
        let counted = i64::from(COUNTED);
        let rows = self
            .rows(COUNTS, &[tenant.clone(), (&counted, Type::INT8)])
            .await?;
        let mut by_state = Vec::new();
        for word in STATE_WORDS {
            for row in &rows {
                let count: i64 = row.try_get(1).map_err(Unreadable::from)?;
                if row.try_get::<_, &str>(0).map_err(Unreadable::from)? == word {
                    by_state.push((word, count.cast_unsigned()));
                }
            }
        }
        let most = i64::try_from(LOOKED_AT).unwrap_or(i64::MAX);
        let oldest = self
            .found(&oldest(), &[tenant, (&most, Type::INT8)])
            .await?;
        Ok(Pressing {
            by_state,
            oldest: oldest.into_iter().map(|row| row.operation).collect(),
        })
    }
}
