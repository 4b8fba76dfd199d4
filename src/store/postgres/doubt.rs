//! What this instance should look at: its own operations in doubt, its share of those that the dead left, and
//! now and then what nobody seems to look at.
//!
//! What always holds: an operation of a living instance is left to it, unless it has not changed for so long
//! that it seems to be forgotten. Whose turn it is only spares work; the transaction in which a step is
//! admitted decides. A pass reads the rows of the own and of the dead by index, however many others
//! there are.
//!
//! What it does not do: settle (`reconcile`).

use std::sync::Arc;

use tokio_postgres::types::{ToSql, Type};

use super::identity;
use super::life::column;
use super::read::{OPERATION, Reader};
use super::rows::OperationRow;
use super::shared::{Others, Shared};
use super::trouble::Trouble;
use crate::protocol::company::Company;
use crate::protocol::ids::{InstanceId, OperationKey};
use crate::protocol::operation::Operation;
use crate::protocol::policy::{GRACE, LISTEN};
use crate::protocol::share;
use crate::protocol::time::{Millis, Moment};
use crate::store::StoreError;
use crate::store::age::Lived;

/// In doubt and unchanged for longer: whoever carries it would have listened to its end.
const FORSAKEN: Millis = Millis(LISTEN.0 + 60 * GRACE.0);

/// Once in this time, what is forsaken is searched for, by one of all instances,
const SEARCH_EVERY: Millis = Millis(60_000);

/// for so long: each of its passes then reads everything.
const SEARCH_FOR: Millis = Millis(10_000);

/// One look at who is there.
struct Lookout<'s> {
    shared: &'s Shared,
    company: Arc<Company>,
    others: Arc<Others>,
    now: Moment,
}

impl Reader {
    /// In order of record, after a cursor. Empty only at the end.
    pub(super) async fn in_doubt(
        &self,
        mut after: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Operation)>, StoreError> {
        let lookout = self.shared.lookout();
        let searches = lookout.searches();
        loop {
            let rows = if searches {
                self.all_in_doubt(after, limit).await
            } else {
                let carriers = lookout.carriers();
                self.in_doubt_of(&carriers, after, limit).await
            };
            let rows = rows.map_err(Trouble::into_store_error)?;
            let Some(last) = rows.last().map(|row| row.sequence.cast_unsigned()) else {
                return Ok(Vec::new());
            };
            let own = rows
                .into_iter()
                .filter(|row| lookout.is_due(&row.operation));
            let own: Vec<_> = own
                .map(|row| (row.sequence.cast_unsigned(), row.operation))
                .collect();
            if !own.is_empty() {
                return Ok(own);
            }
            after = last;
        }
    }

    /// What stands under these keys. Whoever carries one that is in doubt is told that it is waited for.
    pub(super) async fn look_at(
        &self,
        keys: &[OperationKey],
    ) -> Result<Vec<Operation>, StoreError> {
        let statement = format!(
            "SELECT {OPERATION} FROM unnest($1, $2) w(tenant, identity) CROSS JOIN LATERAL
                 (SELECT * FROM fencepost.operations k
                  WHERE k.tenant = w.tenant AND k.identity = w.identity OFFSET 0) o"
        );
        let named = keys.iter().map(|it| (it.tenant.as_str(), identity::of(it)));
        let (tenants, identities): (Vec<_>, Vec<_>) = named.unzip();
        let parameters: [(&(dyn ToSql + Sync), Type); 2] = [
            (&tenants, Type::TEXT_ARRAY),
            (&identities, Type::BYTEA_ARRAY),
        ];
        let found = self.found(&statement, &parameters).await;
        let found = found.map_err(Trouble::into_store_error)?;
        let company = self.shared.company();
        let abroad = found
            .iter()
            .map(|row| &row.operation)
            .filter_map(|operation| {
                let carrier = operation.carrier().filter(|it| !company.is_own(*it))?;
                operation
                    .state
                    .is_in_doubt()
                    .then(|| (identity::of(&operation.key), carrier))
            });
        self.shared
            .abroad
            .waits(self.shared.instance(), abroad.collect());
        let found = found.into_iter().map(|row| row.operation);
        Ok(found.filter(|it| keys.contains(&it.key)).collect())
    }

    async fn in_doubt_of(
        &self,
        carriers: &[Vec<u8>],
        after: u64,
        limit: usize,
    ) -> Result<Vec<OperationRow>, Trouble> {
        // Each carrier's by itself: the index gives them in order.
        let (after, most) = (i64::try_from(after).unwrap_or(i64::MAX), at_most(limit));
        let parameters: [(&(dyn ToSql + Sync), Type); 4] = [
            (&carriers, Type::BYTEA_ARRAY),
            (&after, Type::INT8),
            (&most, Type::INT8),
            (&self.tenant, Type::TEXT),
        ];
        self.found(&of_carriers(), &parameters).await
    }

    async fn all_in_doubt(&self, after: u64, limit: usize) -> Result<Vec<OperationRow>, Trouble> {
        let statement = format!(
            "SELECT {OPERATION} FROM fencepost.operations o
             WHERE o.unsettled AND o.tenant = $3 AND o.sequence > -1 AND o.sequence > $1
                 AND o.state <> 'NEEDS_ATTENTION'
             ORDER BY o.sequence LIMIT $2"
        );
        let (after, most) = (i64::try_from(after).unwrap_or(i64::MAX), at_most(limit));
        let parameters: [(&(dyn ToSql + Sync), Type); 3] = [
            (&after, Type::INT8),
            (&most, Type::INT8),
            (&self.tenant, Type::TEXT),
        ];
        self.found(&statement, &parameters).await
    }
}

/// $1: owners, $2: a sequence, $3: at most, $4: the tenant.
pub(super) fn of_carriers() -> String {
    format!(
        "SELECT {OPERATION} FROM unnest($1) w(owner) CROSS JOIN LATERAL
             (SELECT * FROM fencepost.operations k
              WHERE k.unsettled AND k.owner = w.owner AND k.tenant = $4 AND k.sequence > $2
                  AND k.state <> 'NEEDS_ATTENTION'
              ORDER BY k.sequence LIMIT $3) o
         ORDER BY o.sequence LIMIT $3"
    )
}

fn at_most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

impl Shared {
    fn lookout(&self) -> Lookout<'_> {
        Lookout {
            shared: self,
            company: self.company(),
            others: self.others(),
            now: self.clock.now(),
        }
    }

    /// Is it for this instance to settle, as soon as somebody here asks for it? Whose turn it would be is not
    /// asked then.
    pub(super) fn may_settle(&self, operation: &Operation) -> bool {
        let lookout = self.lookout();
        match operation.carrier() {
            Some(carrier) => lookout.is_left_to_all(carrier) || lookout.is_forsaken(operation),
            None => true,
        }
    }
}

impl Lookout<'_> {
    /// Those whose operations are looked at: ourselves, and the dead.
    fn carriers(&self) -> Vec<Vec<u8>> {
        let own = self.company.own();
        let dead = self.others.dead.keys().copied();
        own.chain(dead.filter(|it| !self.company.is_own(*it)))
            .map(column)
            .collect()
    }

    fn searches(&self) -> bool {
        let lived = self.shared.lived().since(Lived::default());
        let within = lived.0 % SEARCH_EVERY.0;
        within < SEARCH_FOR.0 && self.shared.is_warden()
    }

    fn is_due(&self, operation: &Operation) -> bool {
        let Some(carrier) = operation.carrier() else {
            return true;
        };
        if self.company.is_own(carrier) {
            return true;
        }
        match self.others.dead.get(&carrier) {
            Some(since) => {
                let waited = self.now.boottime.since(*since);
                let thing = identity::number(&operation.key);
                share::is_due(self.shared.instance(), &self.others.living, thing, waited)
            }
            None => self.is_forsaken(operation),
        }
    }

    fn is_left_to_all(&self, carrier: InstanceId) -> bool {
        self.company.is_own(carrier) || !self.company.is_alive(carrier)
    }

    /// By whatever clock there is: nothing but work depends on it.
    fn is_forsaken(&self, operation: &Operation) -> bool {
        let unchanged = self.now.age_at_most(&operation.changed);
        unchanged.is_some_and(|unchanged| unchanged > FORSAKEN)
    }
}
