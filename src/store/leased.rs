//! Fences with a lease, for registers that have no better way than to look at every fence.
//!
//! What always holds: the order and the bounds of `Backend::resources`.
//!
//! What it does not do: serve a register of the product; those have an index.

use super::{Backend, LOOKED_AT, StoreError};
use crate::protocol::fence::Fence;

pub(super) async fn among_all<B: Backend + ?Sized>(
    backend: &B,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<Fence>, StoreError> {
    let mut leased = Vec::new();
    let mut after = after.map(str::to_owned);
    loop {
        let page = backend.resources(after.as_deref(), LOOKED_AT).await?;
        let is_last = page.len() < LOOKED_AT;
        after = page.last().map(|fence| fence.resource.name.to_string());
        leased.extend(page.into_iter().filter(|fence| fence.lease.is_some()));
        if is_last || leased.len() >= limit {
            leased.truncate(limit);
            return Ok(leased);
        }
    }
}
