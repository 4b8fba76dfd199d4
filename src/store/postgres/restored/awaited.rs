//! Whose word is waited for before a register counts as whole on a new timeline; for the people who look after it.
//!
//! What always holds: instances of other tenants are counted, and told by their ids, which everybody may know;
//! what else they are called is their tenant's.
//!
//! What it does not do: wait (`super`).

use tokio_postgres::types::Type;

use super::{column, instance, nothing};
use crate::store::postgres::session::Session;
use crate::store::postgres::trouble::Trouble;

/// Who else there is.
pub(in crate::store::postgres) struct Awaited {
    /// Other tenants' sidecars; `None`: there are none.
    pub(in crate::store::postgres) others: Option<String>,
    /// Of whom a word is waited for, and what to do; `None`: of nobody.
    pub(in crate::store::postgres) missing: Option<String>,
}

/// `tenant`: whose sidecars are told by name.
pub(in crate::store::postgres) async fn awaited(
    session: &Session,
    tenant: &str,
) -> Result<Awaited, Trouble> {
    const TOLD: &str = "SELECT u.tenants, u.living, u.dead, u.ids, u.names, u.of_tenants
        FROM fencepost.unconfirmed_1($1) u";
    let rows = session.rows(TOLD, &[(&tenant, Type::TEXT)]).await?;
    let row = rows.first().ok_or_else(nothing)?;
    let counted = |at| column::<i64>(row, at);
    let (tenants, living, dead) = (counted(0)?, counted(1)?, counted(2)?);
    let others = format!("{tenants}: {living} sidecars take part, {dead} were declared dead");
    let ids: Vec<Vec<u8>> = column(row, 3)?;
    let names: Vec<Option<String>> = column(row, 4)?;
    let mut missing = Vec::new();
    for (id, name) in ids.iter().zip(names) {
        let who = name.unwrap_or_else(|| "of another tenant".to_owned());
        missing.push(format!("{} ({who})", instance(id)?));
    }
    let of_tenants = counted(5)?;
    let missing = (!missing.is_empty()).then(|| {
        format!(
            "sidecars of {of_tenants} tenants have not said that they miss nothing: {}. One that was killed \
             never will: `fencepost store accept-restored` is needed then",
            missing.join(", ")
        )
    });
    Ok(Awaited {
        others: (tenants > 0).then_some(others),
        missing,
    })
}
