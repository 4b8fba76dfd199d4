//! Listing and counting: what may go through much of a tenant's rows, over a connection of its own.
//!
//! What always holds: signs of life never wait behind a listing, however slow it is: an instance whose operators
//! look for something would be taken for dead. That third connection is there for as long as a listing takes,
//! and one listing of a process at a time has it, which the others wait for, and no longer than for a statement. A listing is one transaction, so that a pooler gives it one
//! connection of the server, which ends it where nobody waits any more.
//!
//! What it does not do: read what a decision needs (`read`).

use tokio::sync::MutexGuard;
use tokio::time::timeout;
use tokio_postgres::types::{ToSql, Type};

use super::read::{OPERATION, Reader};
use super::rows::{self, Unreadable};
use super::session::{PATIENCE, Session};
use super::trouble::Trouble;
use super::whereabouts;
use crate::protocol::fence::Fence;
use crate::store::{OperationPage, OperationQuery, STATE_WORDS, StoreError, Summary};

/// Up to that many operations are counted; beyond, the database's estimate is told.
const COUNTED: i64 = 100_000;

pub(super) const LEASED: &str = "SELECT f.tenant, f.name AS id, f.record FROM fencepost.fences f
    WHERE f.leased AND f.tenant = $3 AND ($1::bytea IS NULL OR f.name > $1) ORDER BY f.name LIMIT $2";

/// A turn to list.
struct Listing<'r> {
    session: Session,
    _turn: MutexGuard<'r, ()>,
}

impl Listing<'_> {
    /// Leaves the server's connection as it was; whether that is heard does not matter.
    async fn end(&self) {
        let _closed = self.session.script("COMMIT").await;
    }
}

impl Reader {
    /// A connection to the server that the lane writes to.
    async fn listing(&self) -> Result<Listing<'_>, Trouble> {
        let turn = timeout(PATIENCE, self.listing.lock()).await;
        let busy =
            |_| Trouble::Refused("others list for long, and it is waited for no longer".to_owned());
        let turn = turn.map_err(busy)?;
        let session = self.connector.connect().await?;
        let limit = PATIENCE.as_millis();
        let begin = format!(
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = {limit}"
        );
        session.script(&begin).await?;
        let server = whereabouts::of(&session).await?;
        self.shared.whereabouts.agrees(server)?;
        Ok(Listing {
            session,
            _turn: turn,
        })
    }

    pub(super) async fn operations(
        &self,
        query: &OperationQuery,
    ) -> Result<OperationPage, StoreError> {
        let statement = format!(
            "SELECT {OPERATION} FROM fencepost.operations o
             WHERE ($1::text IS NULL OR o.state = $1)
               AND ($2::bytea IS NULL OR (o.resource = $2 AND o.tenant = $3))
               AND ($4::bytea IS NULL OR o.upstream = $4)
               AND ($5::bytea IS NULL OR o.id = $5)
               AND ($6::bigint IS NULL OR o.sequence < $6)
               AND o.tenant = $8 AND o.sequence > 0
             ORDER BY o.sequence DESC LIMIT $7"
        );
        let OperationQuery {
            state,
            resource,
            upstream,
            id,
            before,
            limit,
        } = query;
        let name = resource.as_ref().map(|it| it.name.as_str().as_bytes());
        let tenant = resource.as_ref().map(|it| it.tenant.as_str());
        let upstream = upstream.as_ref().map(|it| it.as_str().as_bytes());
        let id = id.as_deref().map(str::as_bytes);
        let before = before.map(|it| i64::try_from(it).unwrap_or(i64::MAX));
        // One more than asked for tells whether there is a next page.
        let most = i64::try_from(limit.saturating_add(1)).unwrap_or(i64::MAX);
        let parameters: [(&(dyn ToSql + Sync), Type); 8] = [
            (state, Type::TEXT),
            (&name, Type::BYTEA),
            (&tenant, Type::TEXT),
            (&upstream, Type::BYTEA),
            (&id, Type::BYTEA),
            (&before, Type::INT8),
            (&most, Type::INT8),
            (&self.tenant, Type::TEXT),
        ];
        self.read(async {
            let listing = self.listing().await?;
            let rows = listing.session.rows(&statement, &parameters).await?;
            listing.end().await;
            let mut found = self.opened(&rows)?;
            let next = (found.len() > *limit)
                .then(|| {
                    found.truncate(*limit);
                    found.last().map(|row| row.sequence.cast_unsigned())
                })
                .flatten();
            Ok(OperationPage {
                operations: found.into_iter().map(|row| row.operation).collect(),
                next,
            })
        })
        .await
    }

    pub(super) async fn resources(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Fence>, StoreError> {
        const FENCES: &str = "SELECT f.tenant, f.name AS id, f.record FROM fencepost.fences f
            WHERE f.tenant = $3 AND ($1::bytea IS NULL OR f.name > $1) ORDER BY f.name LIMIT $2";
        self.fences(FENCES, after, limit).await
    }

    pub(super) async fn leased(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Fence>, StoreError> {
        self.fences(LEASED, after, limit).await
    }

    async fn fences(
        &self,
        statement: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Fence>, StoreError> {
        let after = after.map(str::as_bytes);
        let most = i64::try_from(limit).unwrap_or(i64::MAX);
        let parameters: [(&(dyn ToSql + Sync), Type); 3] = [
            (&after, Type::BYTEA),
            (&most, Type::INT8),
            (&self.tenant, Type::TEXT),
        ];
        self.read(async {
            let listing = self.listing().await?;
            let rows = listing.session.rows(statement, &parameters).await?;
            listing.end().await;
            let mut fences = Vec::new();
            for row in rows {
                fences.push(rows::fence(&row)?);
            }
            Ok(fences)
        })
        .await
    }

    pub(super) async fn summary(&self) -> Result<Summary, StoreError> {
        // Settled ones are by far the most: counted while there are few, told roughly then.
        const COUNTS: &str = "
            WITH rough AS (SELECT greatest(reltuples, 0)::bigint AS operations FROM pg_class
                           WHERE oid = 'fencepost.operations'::regclass)
            SELECT state, count(*) FROM fencepost.operations
            WHERE unsettled AND sequence > -1 AND tenant = $2
            GROUP BY state
            UNION ALL
            SELECT o.state, count(*) FROM rough JOIN fencepost.operations o ON NOT o.unsettled
            WHERE rough.operations <= $1 AND o.tenant = $2 AND o.sequence > 0 GROUP BY o.state
            UNION ALL
            SELECT 'COMPLETED', operations FROM rough WHERE operations > $1";
        const EPOCH: &str = "SELECT epoch FROM fencepost.register";
        let oldest = format!(
            "SELECT {OPERATION} FROM fencepost.operations o
             WHERE o.unsettled AND o.sequence > -1 AND o.tenant = $1
             ORDER BY o.sequence LIMIT 1"
        );
        self.read(async {
            let mut summary = Summary::default();
            let tenant: (&(dyn ToSql + Sync), Type) = (&self.tenant, Type::TEXT);
            let counted = [(&COUNTED as _, Type::INT8), tenant.clone()];
            let listing = self.listing().await?;
            let session = &listing.session;
            let counts = session.rows(COUNTS, &counted).await?;
            let oldest = session.rows(&oldest, &[tenant]).await?;
            let epochs = session.rows(EPOCH, &[]).await?;
            listing.end().await;
            for word in STATE_WORDS {
                for row in &counts {
                    let count: i64 = row.try_get(1).map_err(Unreadable::from)?;
                    if row.try_get::<_, &str>(0).map_err(Unreadable::from)? == word && count > 0 {
                        summary.by_state.push((word, count.cast_unsigned()));
                    }
                }
            }
            let oldest = self.opened(&oldest)?;
            summary.oldest_unsettled = oldest.first().map(|row| row.operation.first_seen);
            for row in epochs {
                let epoch: i64 = row.try_get(0).map_err(Unreadable::from)?;
                summary.epoch = epoch.cast_unsigned();
            }
            Ok(summary)
        })
        .await
    }
}
