//! A new epoch, because an operator says so.
//!
//! What always holds: it is one for all tenants; so only a role that may write the register's own row begins it, and
//! no role that was let in for one tenant. Each admission looks at the epoch inside the transaction that writes it,
//! after it has written its instance's row; so once the new one is committed, whoever has written that row before is
//! waited for: then nothing more can be admitted that was decided in an earlier epoch. A sidecar that has not heard of
//! it yet is told by its next write.
//!
//! What it does not do: begin one where the register is in doubt, or was exported: an acceptance begins one anyway.

use tokio_postgres::types::{ToSql, Type};

use super::PostgresBackend;
use super::rows::Unreadable;
use super::trouble::Trouble;
use crate::store::{NewEpoch, StoreError};

/// On the disk before it is answered, whatever a role or a pooler prefers.
const BEGIN: &str = "WITH begun AS (
        UPDATE fencepost.register r SET epoch = r.epoch + 1
        FROM fencepost.ground g
        WHERE r.single = 1 AND g.single = 1 AND g.doubt IS NULL
          AND g.system = fencepost.system_1() AND g.timeline = fencepost.timeline_1()
          AND coalesce(g.system = $1 AND g.timeline = $2, true)
        RETURNING r.epoch),
    told AS (
        INSERT INTO fencepost.history (wall_ms, text)
        SELECT $3, 'epoch ' || b.epoch || ' begins, as ' || $4 || ' says: ' || $5 FROM begun b)
    SELECT b.epoch, set_config('synchronous_commit', CASE current_setting('synchronous_commit')
        WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true)
    FROM begun b";

const LIVING: &str = "SELECT i.id FROM fencepost.instances i WHERE NOT i.dead";

/// Whoever is just committing holds his row. One at a time, and none is held while the next is waited for: else this
/// one and two of them could wait for each other in a circle.
const WAIT: &str = "SELECT 1 FROM fencepost.instances i WHERE i.id = $1 FOR SHARE";

/// What PostgreSQL says to who may not.
const DENIED: &str = "(42501)";

impl PostgresBackend {
    pub(super) async fn try_begin_epoch(&self, new: &NewEpoch) -> Result<u64, StoreError> {
        let own = self.shared.instance();
        let server = self.shared.ground.remembered(own).whole_on;
        // A tool has seen none before: what the register says of itself is all that it knows.
        let system = server.map(|it| it.system.cast_signed());
        let timeline = server.map(|it| it.timeline.cast_signed());
        let wall = new.at.wall_ms.cast_signed();
        let parameters: [(&(dyn ToSql + Sync), Type); 5] = [
            (&system, Type::INT8),
            (&timeline, Type::INT8),
            (&wall, Type::INT8),
            (&new.operator, Type::TEXT),
            (&new.reason, Type::TEXT),
        ];
        let begun = self.reader.rows(BEGIN, &parameters).await;
        let rows = begun.map_err(|trouble| match trouble {
            Trouble::Refused(why) if why.ends_with(DENIED) => StoreError::Unavailable(format!(
                "an epoch is that of all tenants, and the role of this sidecar was let in for one of them: ask an \
                 instance, or use a tool, with the role that made the tables ({why})"
            )),
            Trouble::Lost(why) => StoreError::CommitUnknown(format!(
                "a new epoch may have begun, `doctor` tells which is in force: {why}"
            )),
            other => other.into_store_error(),
        })?;
        let row = rows.first().ok_or_else(|| {
            StoreError::Unavailable(
                "the register is not known to be whole (`doctor` says why), was exported, or this connection leads to \
                 a server that it has left"
                    .to_owned(),
            )
        })?;
        let epoch: i64 = row.try_get(0).map_err(|error| {
            let Unreadable(fault) = Unreadable::from(error);
            fault
        })?;
        let epoch = epoch.cast_unsigned();
        self.shared.saw_epoch(epoch);
        self.wait_for_all().await.map_err(|trouble| {
            StoreError::CommitUnknown(format!(
                "epoch {epoch} has begun; whether a transaction of before is still under way is not known: {}",
                trouble.into_store_error()
            ))
        })?;
        Ok(epoch)
    }

    async fn wait_for_all(&self) -> Result<(), Trouble> {
        for row in self.reader.rows(LIVING, &[]).await? {
            let Ok(id) = row.try_get::<_, &[u8]>(0) else {
                continue;
            };
            self.reader.rows(WAIT, &[(&id, Type::BYTEA)]).await?;
        }
        Ok(())
    }
}
