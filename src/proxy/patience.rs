//! What a request has used up on its way through the pipeline.
//!
//! What always holds: it only grows.
//!
//! What it does not do: wait.

use crate::protocol::time::Millis;

/// How often a request whose connection died before its first byte is admitted again.
const FRESH_TRIES: u32 = 2;

/// What a request has used up on its way.
#[derive(Default)]
pub(super) struct Patience {
    /// Waiting for predecessors.
    pub(super) waited: Millis,
    /// Connections that died before their first byte.
    dead_connections: u32,
    /// The record's answer is not enough: it needs a connection.
    pub(super) must_reserve: bool,
    /// For a connection or for others: nothing was sent for it, nor asked that may be.
    pub(super) only_waits: bool,
}

impl Patience {
    /// Another connection died; is that one too many?
    pub(super) fn give_up_on_connections(&mut self) -> bool {
        self.must_reserve = true;
        self.dead_connections = self.dead_connections.saturating_add(1);
        self.dead_connections > FRESH_TRIES
    }
}
