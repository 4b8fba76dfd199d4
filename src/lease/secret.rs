//! How an acquisition is named to whoever does not hold it.
//!
//! What always holds: the acquisition id renews and releases its lease, so it is its holder's secret and leaves this
//! process towards him alone; logs, views and lists carry the first half of its SHA-256, by which its holder and a
//! reader of logs can compare. It is 128 random bits: nobody finds it by its digest.
//!
//! What it does not do: hide the acquisitions of other sources, which callers name on their requests.

use std::fmt::Write as _;

use ring::digest::{SHA256, digest as hashed};

use crate::protocol::ids::AcquisitionId;

/// 32 hexadecimal digits.
pub fn digest(acquisition: &AcquisitionId) -> String {
    let hash = hashed(&SHA256, acquisition.as_str().as_bytes());
    let half = hash.as_ref().iter().take(16);
    half.fold(String::with_capacity(32), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
