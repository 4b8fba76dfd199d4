//! The tables of a shared register: are they there, are they made, and are they still ours to use?
//!
//! What always holds: a format that was never released is told from the one that was. A later format is used only as
//! long as it says that this version may.
//!
//! What it does not do: read what stands in them, or take the lock that whoever makes them holds (`opening`).

use tokio_postgres::types::Type;

use super::engine;
use super::life;
use super::opening::{FORMAT, OpenError};
use super::restored;
use super::rows::Unreadable;
use super::session::Session;
use super::trouble::Trouble;

const TABLES: &str = include_str!("format1.sql");

const TENANTS: &str = include_str!("format1_tenants.sql");

/// What they stand on, and who declares dead whom nobody of its tenant can.
const GROUND: &str = concat!(
    include_str!("format1_ground.sql"),
    include_str!("format1_silent.sql")
);

pub(super) async fn holds_tables(session: &Session) -> Result<bool, OpenError> {
    const FOUND: &str = "SELECT to_regclass('fencepost.register') IS NOT NULL";
    // Without what was added to the tables last before they were settled.
    const EARLIER: &str = "SELECT 1 FROM fencepost.register r
        WHERE r.format = 1 AND to_regclass('fencepost.burying') IS NULL";
    let found = session.rows(FOUND, &[]).await?;
    let found = found.first().map(|row| row.try_get(0)).transpose();
    if !found.map_err(Unreadable::from)?.unwrap_or(false) {
        return Ok(false);
    }
    if session.rows(EARLIER, &[]).await?.is_empty() {
        Ok(true)
    } else {
        Err(OpenError::Unreleased)
    }
}

/// Inside a transaction.
pub(super) async fn make_tables(session: &Session) -> Result<(), OpenError> {
    engine::recognise(session).await?;
    session.script(TABLES).await?;
    session.script(TENANTS).await?;
    session.script(GROUND).await?;
    let (objections, silence) = (restored::OBJECTIONS.0, life::SILENCE.0);
    let wait =
        format!("UPDATE fencepost.ground SET objections_ms = {objections}, silence_ms = {silence}");
    Ok(session.script(&wait).await?)
}

/// Why this version may not go on using the register, however it opened it; `None`: it may.
pub(super) async fn outgrown(session: &Session) -> Result<Option<String>, Trouble> {
    const BEYOND: &str =
        "SELECT r.format FROM fencepost.register r WHERE r.single = 1 AND r.used_from > $1";
    let known = i32::try_from(FORMAT).unwrap_or(i32::MAX);
    let rows = session.rows(BEYOND, &[(&known, Type::INT4)]).await?;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    let format: i32 = row.try_get(0).map_err(Unreadable::from)?;
    let found = u32::try_from(format).unwrap_or_default();
    let beyond = OpenError::FormatTooNew {
        found,
        known: FORMAT,
    };
    Ok(Some(format!(
        "{beyond}, and may not go on using it: start a version that knows it"
    )))
}
