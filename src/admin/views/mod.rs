//! The API's JSON: what it shows of operations, fences and the register.
//!
//! What always holds: tokens and sequences are text, durations are `_ms` integers, times are RFC
//! 3339 in UTC. An INTENDED operation of a dead or overdue instance is shown as UNCERTAIN, because
//! that is what it is. The same structs are read back by the client.
//!
//! What it does not do: show stored bodies, but in [`ContentView`] and on request; show stored
//! credentials at all.

mod content;
mod explained;
mod lease;
mod many;
mod operation;
mod resource;
mod status;
mod story;
mod words;

pub use content::{ContentView, EventView, OperationDetail};
pub use explained::{AdviceView, BlockerView, ExplainedView};
pub use lease::{LeaseList, LeaseView};
pub use many::{ManyResolvedView, OneResolvedView};
pub use operation::{
    AttemptView, KeyView, OperationList, OperationView, OutcomeView, ResolutionView, SettlingView,
};
pub use resource::{
    EpochView, InFlightView, InterventionView, ResourceDetail, ResourceList, ResourceView,
    SteeredView,
};
pub use status::{CountedView, PressingView, RegisterView, StandingView, StatusView};
pub use story::{LineView, MoveView, StoryView};
pub use words::shell_word;
pub(super) use words::{hex, provenance, time, wall_time};

use crate::protocol::operation::{Attempt, AttemptEnd, Operation, State};
use crate::protocol::time::{Millis, Moment};
use crate::protocol::view::Living;

/// Who looks, and when: what is overdue depends on it.
#[derive(Clone, Debug)]
pub struct Looker {
    /// Instances that are not dead.
    pub living: Living,
    /// Now.
    pub now: Moment,
}

impl Looker {
    /// The state as it is here and now.
    fn state_word(&self, operation: &Operation) -> &'static str {
        match &operation.state {
            State::Intended if !operation.is_in_flight(&self.living, &self.now) => {
                State::Uncertain.word()
            }
            state => state.word(),
        }
    }

    /// How long some attempt of it may still act by itself; `None`: none will.
    fn may_act_for(&self, operation: &Operation) -> Option<Millis> {
        let acting = |attempt: &&Attempt| {
            attempt.end == AttemptEnd::Silent && attempt.is_live(&self.living, &self.now)
        };
        let attempts = operation.attempts.iter().filter(acting);
        let left = attempts.map(|attempt| {
            let age = self.now.age_at_most(&attempt.at).unwrap_or_default();
            Millis(attempt.overdue_after.0.saturating_sub(age.0))
        });
        left.max()
    }

    /// Age by the best clock there is; 0 where the wall clock stepped back across a boot.
    pub fn age(&self, since: &Moment) -> Millis {
        self.now.age_at_most(since).unwrap_or_default()
    }
}
