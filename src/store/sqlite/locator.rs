//! Where an operation stands, by its identity: a number made from the identity, and the sequences of
//! the few operations that share it.
//!
//! What always holds: a locator finds candidates and decides nothing; whoever looks an identity up
//! compares all five columns of every row that is found, so that two identities with one locator cost
//! each other a row and are never confused. It depends on the identity alone, without a key: it is
//! stored, and stays the same for ever (locator 1, below); another way to make it is another format
//! of the register. Its upper half depends on the operation's id alone, so that operators find an id
//! without naming the rest of the identity.
//!
//! What it does not do: keep an identity from standing twice. The one writer does (`persist`), and
//! `soundness` looks for it. It has no time in front, which would keep new entries together: whoever
//! asks for an identity does not know when it was first seen.

use ring::digest::{Context, SHA256};
use rusqlite::Row;

use crate::protocol::ids::{OperationKey, Principal};

/// The candidates for an identity, one entry an operation. A table of its own rather than an index on
/// a column: an index would hold the same, and the column once more in every row. An index on the
/// identity itself takes 83 bytes an operation, and this takes 18: fewer pages for each new identity,
/// which falls anywhere in it, to be read from the disk and written back.
pub(super) const TABLE: &str = "
CREATE TABLE locators (
    locator INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    PRIMARY KEY (locator, sequence)
) STRICT, WITHOUT ROWID;
";

/// Bits that are kept of each half. So few in tests that nearly every look-up meets others.
const BITS: u32 = if cfg!(test) { 1 } else { 32 };

/// An identity, as its columns hold it.
#[derive(Clone, Copy)]
struct Columns<'c> {
    id: &'c str,
    upstream: &'c str,
    principal: &'c [u8],
    incarnation: i64,
    tenant: &'c str,
}

/// The locator of an identity, as a column.
pub(super) fn of(key: &OperationKey) -> i64 {
    Columns::of(key).locator(BITS)
}

/// The locator of the identity in five columns, in the order of the tables' keys, the first of which is
/// that.
pub(super) fn of_row(row: &Row<'_>, first: usize) -> rusqlite::Result<i64> {
    let columns = Columns {
        id: row.get_ref(first)?.as_str()?,
        upstream: row.get_ref(first + 1)?.as_str()?,
        principal: row.get_ref(first + 2)?.as_blob()?,
        incarnation: row.get(first + 3)?,
        tenant: row.get_ref(first + 4)?.as_str()?,
    };
    Ok(columns.locator(BITS))
}

/// The lowest and the highest locator that an operation with this id may have.
pub(super) fn range_of(id: &str) -> (i64, i64) {
    let upper = upper_half(id, BITS);
    (joined(upper, 0), joined(upper, u32::MAX))
}

impl<'c> Columns<'c> {
    fn of(key: &'c OperationKey) -> Self {
        Self {
            id: key.id.as_str(),
            upstream: key.upstream.as_str(),
            principal: match &key.principal {
                Principal::None => &[],
                Principal::Hashed(digest) => digest,
            },
            incarnation: key.incarnation.0.cast_signed(),
            tenant: key.tenant.as_str(),
        }
    }

    /// Locator 1. Each half is the first bytes of a SHA-256, of which `bits` are kept.
    fn locator(&self, bits: u32) -> i64 {
        let Self {
            id,
            upstream,
            principal,
            incarnation,
            tenant,
        } = self;
        let mut digest = begun("whole");
        for part in [
            id.as_bytes(),
            upstream.as_bytes(),
            principal,
            tenant.as_bytes(),
        ] {
            put(&mut digest, part);
        }
        digest.update(&incarnation.to_be_bytes());
        joined(upper_half(id, bits), half(digest, bits))
    }
}

fn upper_half(id: &str, bits: u32) -> u32 {
    let mut digest = begun("of id");
    put(&mut digest, id.as_bytes());
    half(digest, bits)
}

fn joined(upper: u32, lower: u32) -> i64 {
    (u64::from(upper) << u32::BITS | u64::from(lower)).cast_signed()
}

fn begun(which: &str) -> Context {
    let mut digest = Context::new(&SHA256);
    digest.update(b"fencepost locator 1 ");
    digest.update(which.as_bytes());
    digest
}

/// With its length in front: no two lists of parts are one text.
fn put(digest: &mut Context, part: &[u8]) {
    let length = u64::try_from(part.len()).unwrap_or(u64::MAX);
    digest.update(&length.to_be_bytes());
    digest.update(part);
}

fn half(digest: Context, bits: u32) -> u32 {
    let digest = digest.finish();
    let first = digest.as_ref().iter().take(4);
    let whole = first.fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
    whole >> (u32::BITS - bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::ids::{Incarnation, OperationId, Tenant, UpstreamId};

    fn key(id: &str, upstream: &str, incarnation: u64) -> OperationKey {
        OperationKey {
            id: OperationId::new(id),
            upstream: UpstreamId::new(upstream),
            principal: Principal::Hashed([9; 16]),
            incarnation: Incarnation(incarnation),
            tenant: Tenant::new("payments"),
        }
    }

    /// They are stored: computed once by other means, never to change.
    #[test]
    fn locators_are_what_they_were() {
        let with = key("order-42", "stripe", 3);
        let without = OperationKey {
            principal: Principal::None,
            ..key("", "stripe", u64::MAX)
        };
        assert_eq!(Columns::of(&with).locator(32), -3_513_534_599_255_117_066);
        assert_eq!(
            Columns::of(&without).locator(32),
            -7_952_655_809_602_952_349
        );
    }

    #[test]
    fn an_identity_and_its_columns_have_one_locator_in_the_range_of_its_id() {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        for number in 0..40 {
            let key = key(&format!("op-{number}"), "stripe", number);
            let found = connection
                .query_row(
                    "SELECT ?1, 'stripe', ?2, ?3, 'payments'",
                    rusqlite::params![key.id.as_str(), [9_u8; 16], number.cast_signed()],
                    |row| of_row(row, 0),
                )
                .unwrap();
            assert_eq!(found, of(&key));
            let (low, high) = range_of(key.id.as_str());
            assert!((low..=high).contains(&found));
        }
    }

    #[test]
    fn parts_are_told_apart() {
        let whole = |id, upstream| Columns::of(&key(id, upstream, 0)).locator(32);
        assert_ne!(whole("ab", "c"), whole("a", "bc"));
        assert_ne!(whole("a", "b"), whole("b", "a"));
    }
}
