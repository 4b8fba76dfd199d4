//! Which engine answers: the rules of this register are PostgreSQL's.
//!
//! What always holds: no tables are made by an engine that only speaks PostgreSQL's protocol. What it does
//! not do otherwise would not be noticed: CockroachDB took advisory locks without locking anything for years.
//!
//! What it does not do: tell a service that runs PostgreSQL itself from PostgreSQL.

use super::opening::OpenError;
use super::rows::Unreadable;
use super::session::Session;

/// The oldest major version that has all that is used.
const OLDEST: i32 = 13;

/// Refuses what is not PostgreSQL, or too old.
pub(super) async fn recognise(session: &Session) -> Result<(), OpenError> {
    const ENGINE: &str = "SELECT version(), current_setting('server_version_num')::int4";
    let rows = session.rows(ENGINE, &[]).await?;
    let Some(row) = rows.first() else {
        return Err(OpenError::Engine("says nothing of itself".to_owned()));
    };
    let (words, number): (String, i32) = (
        row.try_get(0).map_err(Unreadable::from)?,
        row.try_get(1).map_err(Unreadable::from)?,
    );
    judged(&words, number).map_err(OpenError::Engine)
}

/// `Err`: what is wrong with it.
fn judged(words: &str, number: i32) -> Result<(), String> {
    let first: String = words.split(" on ").take(1).collect();
    let is_postgres = words.starts_with("PostgreSQL ") && !first.contains("-YB-");
    if !is_postgres {
        return Err(format!("is {first}"));
    }
    if number / 10_000 < OLDEST {
        return Err(format!("is {first}, which is older than {OLDEST}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_postgresql_that_is_new_enough_is_taken() {
        for (words, number) in [
            (
                "PostgreSQL 15.14 (Debian 15.14-0+deb12u1) on x86_64-pc-linux-gnu, compiled by gcc",
                150_014,
            ),
            ("PostgreSQL 13.0 on aarch64-unknown-linux-gnu", 130_000),
        ] {
            assert_eq!(judged(words, number), Ok(()), "{words}");
        }
        for (words, number, why) in [
            (
                "CockroachDB CCL v25.1.0 (x86_64-pc-linux-gnu)",
                130_000,
                "is CockroachDB CCL",
            ),
            (
                "PostgreSQL 15.2-YB-2.25.0.0-b0 on x86_64-pc-linux-gnu",
                150_002,
                "YB",
            ),
            (
                "PostgreSQL 12.22 on x86_64-pc-linux-gnu",
                120_022,
                "older than 13",
            ),
        ] {
            let told = judged(words, number).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
    }
}
