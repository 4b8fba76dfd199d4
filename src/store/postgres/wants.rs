//! What a decision needs to see, and its reading: one question, one snapshot.
//!
//! What always holds: everything that is wanted is read by one statement, so that it all is of one
//! moment. What is wanted depends on what was read (a twin's note names the first): then all of it is
//! read again, with that too.
//!
//! What it does not do: decide, or know which rows a decision needs (`store::load`).

use std::collections::BTreeSet;

use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::identity::{self, Shared};
use super::known::{Known, Lack, Line};
use super::rows::{self, Opener, OperationRow};
use super::session::Session;
use super::shared::Shared as Register;
use super::trouble::Trouble;
use crate::protocol::ids::{OperationKey, ResourceKey};
use crate::protocol::view::{AppliedAbove, Unsettled};
use crate::store::load::{self, Above};

const VIEW: &str = "SELECT * FROM fencepost.view_1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";

/// Goes through the operations of the tenant: no index is kept for what a person asks once in a while. The highest
/// first, of whatever incarnation; that stands in the record.
const APPLIED: &str = "SELECT k.version, k.sequence, k.tenant, k.upstream, k.principal, k.id, k.incarnation, k.record,
        NULL::bytea AS answer
    FROM (SELECT o.*, string_to_array(CASE WHEN strpos(o.token, ':') > 0 THEN o.token ELSE '0:' || o.token END,
                                      ':')::bigint[] AS pair
          FROM fencepost.operations o
          WHERE o.sequence > 0 AND o.tenant = $1 AND o.resource = $2 AND o.state = 'COMPLETED'
            AND o.token IS NOT NULL OFFSET 0) k
    WHERE k.pair > ARRAY[$3, $4] ORDER BY k.pair DESC LIMIT $5";

/// So many of all incarnations.
const APPLIED_READ: usize = 4_096;

const LOCK: &str = "SELECT fencepost.lock_1($1, $2)";

const EPOCH: i16 = 0;
const FENCE: i16 = 1;
const OPERATION: i16 = 2;
const NOTE: i16 = 3;
const UNSETTLED: i16 = 4;
const KEYLESS: i16 = 5;

/// What is wanted; each once.
#[derive(Debug, Default)]
pub(super) struct Wants {
    fences: Vec<ResourceKey>,
    /// And whether its stored request is, too.
    operations: Vec<(OperationKey, bool)>,
    notes: Vec<OperationKey>,
    lines: Vec<ResourceKey>,
    keyless: Vec<Shared>,
    applied: Vec<Above>,
}

impl Wants {
    pub(super) fn fence(&mut self, resource: &ResourceKey) {
        add(&mut self.fences, resource);
    }

    pub(super) fn operation(&mut self, key: &OperationKey) {
        if !self.operations.iter().any(|(known, _)| known == key) {
            self.operations.push((key.clone(), false));
        }
    }

    pub(super) fn request(&mut self, key: &OperationKey) {
        self.operation(key);
        for (known, requested) in &mut self.operations {
            *requested |= known == key;
        }
    }

    pub(super) fn note(&mut self, key: &OperationKey) {
        add(&mut self.notes, key);
    }

    pub(super) fn line(&mut self, resource: &ResourceKey) {
        self.fence(resource);
        add(&mut self.lines, resource);
    }

    /// True: it was not wanted before, so a reading helps.
    pub(super) fn add(&mut self, lack: &Lack) -> bool {
        let before = self.len();
        match lack {
            Lack::Fence(resource) => self.fence(resource),
            Lack::Operation(key) => self.operation(key),
            Lack::Note(key) => self.note(key),
            Lack::Line(resource) => self.line(resource),
            Lack::Request(key) => {
                self.request(key);
                return true;
            }
            Lack::Keyless(shared) => add(&mut self.keyless, shared),
            Lack::Applied(above) => add(&mut self.applied, above),
        }
        self.len() > before
    }

    fn len(&self) -> usize {
        let Self {
            fences,
            operations,
            notes,
            lines,
            keyless,
            applied,
        } = self;
        fences.len() + operations.len() + notes.len() + lines.len() + keyless.len() + applied.len()
    }

    /// Locks the fences until the transaction ends, in the order that everybody locks them in.
    pub(super) async fn lock(&self, session: &Session) -> Result<(), Trouble> {
        let ordered: BTreeSet<_> = self.fences.iter().map(place).collect();
        let (tenants, names): (Vec<_>, Vec<_>) = ordered.into_iter().unzip();
        let parameters: [(&(dyn ToSql + Sync), Type); 2] =
            [(&tenants, Type::TEXT_ARRAY), (&names, Type::BYTEA_ARRAY)];
        session.rows(LOCK, &parameters).await?;
        Ok(())
    }

    /// Reads it all.
    pub(super) async fn read(
        &self,
        session: &Session,
        register: &Register,
    ) -> Result<Known, Trouble> {
        let (fence_tenants, fence_names): (Vec<_>, Vec<_>) = self.fences.iter().map(place).unzip();
        let (line_tenants, line_names): (Vec<_>, Vec<_>) = self.lines.iter().map(place).unzip();
        let (operation_tenants, identities): (Vec<_>, Vec<_>) =
            self.operations.iter().map(|(key, _)| named(key)).unzip();
        let requested: Vec<bool> = self.operations.iter().map(|(_, it)| *it).collect();
        let (note_tenants, notes): (Vec<_>, Vec<_>) = self.notes.iter().map(named).unzip();
        let keyless = self.keyless.iter();
        let (keyless_tenants, keyless): (Vec<_>, Vec<_>) = keyless
            .map(|it| (it.tenant.as_str(), it.digest.as_slice()))
            .unzip();
        let parameters: [(&(dyn ToSql + Sync), Type); 11] = [
            (&fence_tenants, Type::TEXT_ARRAY),
            (&fence_names, Type::BYTEA_ARRAY),
            (&operation_tenants, Type::TEXT_ARRAY),
            (&identities, Type::BYTEA_ARRAY),
            (&requested, Type::BOOL_ARRAY),
            (&note_tenants, Type::TEXT_ARRAY),
            (&notes, Type::BYTEA_ARRAY),
            (&line_tenants, Type::TEXT_ARRAY),
            (&line_names, Type::BYTEA_ARRAY),
            (&keyless_tenants, Type::TEXT_ARRAY),
            (&keyless, Type::BYTEA_ARRAY),
        ];
        let rows = session.rows(VIEW, &parameters).await?;
        let mut known = self.known(&rows, Opener::new(register))?;
        for above in &self.applied {
            let found = applied(session, register, above).await?;
            known.put_applied(above.clone(), found);
        }
        Ok(known)
    }

    /// What the rows say; what is wanted and not among them is not there.
    fn known(&self, rows: &[Row], opener: Opener<'_>) -> Result<Known, rows::Unreadable> {
        let mut known = Known::reading(0);
        for resource in &self.fences {
            known.put_fence(resource.clone(), None);
        }
        for (key, requested) in &self.operations {
            known.put_operation(key.clone(), None);
            if *requested {
                known.put_request(key.clone(), None);
            }
        }
        for key in &self.notes {
            known.put_note(key.clone(), None);
        }
        for shared in &self.keyless {
            known.put_keyless(shared.clone(), None);
        }
        let mut lines: Vec<Line> = vec![Line::new(); self.lines.len()];
        for row in rows {
            let kind: i16 = row.try_get("kind")?;
            let slot: i64 = row.try_get("slot")?;
            // Slots are counted from one.
            let slot = usize::try_from(slot).unwrap_or_default().wrapping_sub(1);
            match kind {
                EPOCH => known.epoch = row.try_get::<_, i64>("version")?.cast_unsigned(),
                FENCE => {
                    let fence = rows::fence(row)?;
                    let version = row.try_get("version")?;
                    known.put_fence(fence.resource.clone(), Some((version, fence)));
                }
                OPERATION => {
                    let found = opener.operation(row)?;
                    let key = found.operation.key.clone();
                    self.is_the_one(slot, &key)?;
                    if self.operations.get(slot).is_some_and(|(_, it)| *it) {
                        known.put_request(key.clone(), opener.request(row, "request", &key)?);
                    }
                    known.put_operation(key, Some((found.version, found.operation)));
                }
                NOTE => {
                    let note = rows::note(row)?;
                    known.put_note(note.key.clone(), Some(note));
                }
                UNSETTLED => {
                    let OperationRow { operation, .. } = opener.operation(row)?;
                    let entry = operation.place.as_ref().map(|place| place.number);
                    let entry = entry.zip(Unsettled::of(&operation));
                    if let Some(line) = lines.get_mut(slot) {
                        line.extend(entry);
                    }
                }
                KEYLESS => {
                    let found = opener.operation(row)?;
                    if let Some(shared) = self.keyless.get(slot) {
                        known.put_keyless(shared.clone(), Some((found.sequence, found.operation)));
                    }
                }
                other => return Err(rows::Unreadable::kind(other)),
            }
        }
        for (resource, line) in self.lines.iter().zip(lines) {
            known.put_line(resource, line);
        }
        Ok(known)
    }

    /// Two identities with one digest: what was asked for is not what is there.
    fn is_the_one(&self, slot: usize, found: &OperationKey) -> Result<(), rows::Unreadable> {
        match self.operations.get(slot) {
            Some((asked, _)) if asked == found => Ok(()),
            Some(_) | None => Err(rows::Unreadable::another(found)),
        }
    }
}

/// A statement of its own, a moment later: what was applied stays so, and nothing is admitted meanwhile that the
/// version of the fence would not tell of.
async fn applied(
    session: &Session,
    register: &Register,
    wanted: &Above,
) -> Result<AppliedAbove, Trouble> {
    let resource = &wanted.resource;
    let (tenant, name) = place(resource);
    let (epoch, generation) = (wanted.token.epoch(), wanted.token.generation());
    let (epoch, generation) = (epoch.cast_signed(), generation.cast_signed());
    let at_most = i64::try_from(APPLIED_READ).unwrap_or(i64::MAX);
    let parameters: [(&(dyn ToSql + Sync), Type); 5] = [
        (&tenant, Type::TEXT),
        (&name, Type::BYTEA),
        (&epoch, Type::INT8),
        (&generation, Type::INT8),
        (&at_most, Type::INT8),
    ];
    let rows = session.rows(APPLIED, &parameters).await?;
    let opener = Opener::new(register);
    let mut found = Vec::new();
    for row in &rows {
        let OperationRow { operation, .. } = opener.operation(row)?;
        found.extend(load::applied_above(&operation, wanted));
    }
    let mut found = AppliedAbove::of(found);
    found.whole &= rows.len() < APPLIED_READ;
    Ok(found)
}

fn add<T: PartialEq + Clone>(to: &mut Vec<T>, one: &T) {
    if !to.contains(one) {
        to.push(one.clone());
    }
}

/// Where an operation or a note stands.
fn named(key: &OperationKey) -> (&str, Vec<u8>) {
    (key.tenant.as_str(), identity::of(key))
}

fn place(resource: &ResourceKey) -> (&str, &[u8]) {
    (resource.tenant.as_str(), resource.name.as_str().as_bytes())
}
