//! What a verdict on many operations did, or would do.
//!
//! What always holds: each operation is told apart, with what became of it.
//!
//! What it does not do: decide.

use serde::{Deserialize, Serialize};

use super::KeyView;

/// What a verdict on many operations did, or would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManyResolvedView {
    /// Was it only looked at?
    pub dry_run: bool,
    /// Names exactly these operations as they stood: a verdict that carries it falls on no others.
    pub selection: String,
    /// Those that it is, or would be, the verdict on; newest first.
    pub resolved: usize,
    /// Those that it cannot be.
    pub refused: usize,
    /// Do more operations match than were looked at?
    pub more: bool,
    /// Why it stopped before the last one.
    pub stopped: Option<String>,
    /// One by one.
    pub operations: Vec<OneResolvedView>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OneResolvedView {
    /// Which.
    #[serde(flatten)]
    pub operation: KeyView,
    /// Its state before.
    pub state: String,
    /// How long ago it was first asked for.
    pub age_ms: u64,
    /// Its resource.
    pub resource: Option<String>,
    /// The state that it is in now, or would be; null where the verdict is refused.
    pub becomes: Option<String>,
    /// Why it is refused.
    pub refused: Option<String>,
}
