//! What the shared register says of itself: its server, who takes part, what does not agree.
//!
//! What always holds: other tenants' sidecars are counted and never named. Nothing is changed by looking.
//!
//! What it does not do: say what sidecars remember: how far each had come only they know, and their logs and
//! `/readyz` say what they miss.

use tokio_postgres::types::{ToSql, Type};

use super::opening::FORMAT;
use super::read::Reader;
use super::restored;
use super::rows::Unreadable;
use super::trouble::Trouble;
use crate::store::StoreError;
use crate::store::about::{About, Deed, TOLD};

impl Reader {
    pub(super) async fn about(&self) -> Result<About, StoreError> {
        self.told().await.map_err(Trouble::into_store_error)
    }

    async fn told(&self) -> Result<About, Trouble> {
        let ground = restored::compared(&*self.session().await?).await?;
        let mut facts = vec![
            ("database", self.connector.place()),
            ("server", ground.server.system.to_string()),
            ("timeline", ground.server.timeline.to_string()),
        ];
        facts.push(("sidecars", self.sidecars().await?));
        let format = self.format().await?;
        if format.is_some_and(|it| it > FORMAT) {
            facts.push((
                "read as",
                format!("format {FORMAT}, the highest that is known here"),
            ));
        }
        let mut differences: Vec<_> = ground.differences.iter().map(ToString::to_string).collect();
        let awaited = restored::awaited(&*self.session().await?, &self.tenant).await?;
        facts.extend(awaited.others.map(|others| ("other tenants", others)));
        differences.extend(awaited.missing);
        Ok(About {
            kind: "postgres",
            format,
            facts,
            differences,
            quiet_ms: self.quiet().await?,
            history: self.history().await?,
        })
    }

    /// The register's, which may be a later one that this version may use.
    async fn format(&self) -> Result<Option<u32>, Trouble> {
        const FOUND: &str = "SELECT r.format FROM fencepost.register r WHERE r.single = 1";
        let rows = self.rows(FOUND, &[]).await?;
        let format = rows.first().map(|row| row.try_get::<_, i32>(0));
        let format = format.transpose().map_err(Unreadable::from)?;
        Ok(format.and_then(|it| u32::try_from(it).ok()))
    }

    /// As the database counts. Each sidecar counts too, from when it hears of it.
    async fn quiet(&self) -> Result<Option<u64>, Trouble> {
        // Where its clock was set back it begins anew.
        const LEFT: &str = "SELECT least(g.quiet_ms, greatest(0, ceil(g.quiet_ms
                - extract(epoch FROM clock_timestamp() - g.quiet_since)::numeric * 1000)))::bigint
            FROM fencepost.ground g
            WHERE g.quiet_ms IS NOT NULL AND NOT g.moved AND g.quiet_system = fencepost.system_1()
                AND g.quiet_timeline = fencepost.timeline_1()";
        let rows = self.rows(LEFT, &[]).await?;
        let left = rows.first().map(|row| row.try_get::<_, i64>(0));
        let left = left.transpose().map_err(Unreadable::from)?;
        Ok(left.map(i64::cast_unsigned))
    }

    async fn sidecars(&self) -> Result<String, Trouble> {
        const COUNTED: &str =
            "SELECT count(*) FILTER (WHERE NOT i.dead), count(*) FILTER (WHERE i.dead)
            FROM fencepost.instances i WHERE i.tenant = $1";
        let tenant: [(&(dyn ToSql + Sync), Type); 1] = [(&self.tenant, Type::TEXT)];
        let rows = self.rows(COUNTED, &tenant).await?;
        let counted = |at| -> Result<i64, Unreadable> {
            let row = rows.first();
            Ok(row.map_or(Ok(0), |row| row.try_get(at))?)
        };
        Ok(match (counted(0)?, counted(1)?) {
            (living, 0) => format!("{living} take part"),
            (living, dead) => format!("{living} take part, {dead} were declared dead"),
        })
    }

    async fn history(&self) -> Result<Vec<Deed>, Trouble> {
        const LAST: &str = "SELECT h.wall_ms, h.text FROM fencepost.history h
            ORDER BY h.sequence DESC LIMIT $1";
        let most: [(&(dyn ToSql + Sync), Type); 1] = [(&TOLD, Type::INT8)];
        let rows = self.rows(LAST, &most).await?;
        let deed = |row: &tokio_postgres::Row| -> Result<Deed, Unreadable> {
            Ok(Deed {
                wall_ms: row.try_get::<_, i64>(0)?.cast_unsigned(),
                text: row.try_get(1)?,
            })
        };
        let deeds: Result<Vec<_>, _> = rows.iter().map(deed).collect();
        Ok(deeds?)
    }
}
