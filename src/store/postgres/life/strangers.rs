//! Other tenants' instances: what a tenant left that starts no sidecar again is declared dead by another's.
//!
//! What always holds: the same rule as for the own (`protocol::pulse`), by a limit that is never shorter than
//! the one that the instance has told; and the database counts as long by its own clock before it believes
//! it (`bury_1`), because whoever says so is not of that tenant. What it did meanwhile outruns the declaration.
//! All of a tenant look, and one says it, since nobody is in a hurry. Were it done by nobody, everybody would wait
//! after the next fail-over for the word of an instance that was killed long ago.
//!
//! What it does not do: settle what they left: that is for their own tenant, whenever it comes.

use std::collections::BTreeMap;

use tokio_postgres::types::{ToSql, Type};

use super::{Life, column, named};
use crate::protocol::ids::InstanceId;
use crate::protocol::pulse::{Pulse, Read, Sign};
use crate::protocol::time::{BootInstant, Millis};
use crate::store::postgres::rows::Unreadable;
use crate::store::postgres::trouble::Trouble;

/// Others are waited for at least as long, and the database does so too.
pub(in crate::store::postgres) const SILENCE: Millis = Millis(if cfg!(test) { 0 } else { 60_000 });

/// Looks within the limit: enough for a pulse that now and then misses one.
const LOOKS: u64 = 6;

/// What was seen of them.
#[derive(Default)]
pub(super) struct Strangers {
    pulses: BTreeMap<InstanceId, (Pulse, Millis)>,
    looked: Option<BootInstant>,
}

impl Strangers {
    /// Whatever was seen does not go on from here.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

impl Life {
    /// At a sign of life that was given where the register stands.
    pub(super) async fn look_at_strangers(&mut self) -> Result<(), Trouble> {
        const SIGNS: &str =
            "SELECT s.id, s.beat, s.position, s.limit_ms FROM fencepost.strangers_1($1) s";
        // Looked at whoever's turn it is: a limit may be longer than a turn, and none would ever see it pass.
        let asked = self.shared.clock.boottime();
        let least = self.limit.max(SILENCE);
        let is_early = |looked| asked.since(looked).0 < least.0.div_euclid(LOOKS);
        if self.strangers.looked.is_some_and(is_early) {
            return Ok(());
        }
        let tenant: [(&(dyn ToSql + Sync), Type); 1] = [(&self.name.tenant, Type::TEXT)];
        let rows = self.reader.rows(SIGNS, &tenant).await?;
        let answered = self.shared.clock.boottime();
        let read = Read { asked, answered };
        self.strangers.looked = Some(asked);
        let before = std::mem::take(&mut self.strangers.pulses);
        for row in &rows {
            let number = |column| -> Result<u64, Unreadable> {
                Ok(row.try_get::<_, i64>(column)?.cast_unsigned())
            };
            let instance = named(row)?;
            let sign = Sign {
                beat: number(1)?,
                position: number(2)?,
            };
            let limit = least.max(Millis(number(3)?));
            let pulse = match before.get(&instance) {
                Some((pulse, _)) => pulse.then(sign, read, limit),
                None => Pulse::first(sign, read),
            };
            self.strangers.pulses.insert(instance, (pulse, limit));
        }
        if self.shared.is_warden() {
            self.bury_strangers().await?;
        }
        Ok(())
    }

    async fn bury_strangers(&mut self) -> Result<(), Trouble> {
        const BURY: &str = "SELECT fencepost.bury_1($1, $2, $3)";
        let all = self.strangers.pulses.iter();
        let silent: Vec<_> = all
            .filter(|(_, (pulse, limit))| pulse.is_dead(*limit))
            .map(|(instance, (pulse, _))| (*instance, pulse.sign()))
            .collect();
        if silent.is_empty() {
            return Ok(());
        }
        let (ids, signs): (Vec<_>, Vec<_>) = silent
            .into_iter()
            .map(|(it, sign)| (column(it), sign))
            .unzip();
        let beats: Vec<_> = signs.iter().map(|it| it.beat.cast_signed()).collect();
        let positions: Vec<_> = signs.iter().map(|it| it.position.cast_signed()).collect();
        let parameters: [(&(dyn ToSql + Sync), Type); 3] = [
            (&ids, Type::BYTEA_ARRAY),
            (&beats, Type::INT8_ARRAY),
            (&positions, Type::INT8_ARRAY),
        ];
        for row in self.reader.rows(BURY, &parameters).await? {
            let instance = named(&row)?;
            self.strangers.pulses.remove(&instance);
            tracing::warn!(
                instance = %instance,
                "an instance of another tenant is declared dead: it has done nothing for long. What it left \
                 is for its own tenant to settle"
            );
        }
        Ok(())
    }
}
