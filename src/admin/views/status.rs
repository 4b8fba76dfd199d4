//! The instance with its register, as it is now.
//!
//! What always holds: where the register does not answer, it is said that nothing is known of it, and the
//! rest is told all the same. No credential is in it.
//!
//! What it does not do: show operations.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Looker;
use super::words::{time, wall_time};
use crate::protocol::operation::Operation;
use crate::protocol::remaining;
use crate::protocol::time::{Millis, Moment};
use crate::reconcile::standing::Standing;
use crate::store::about::{About, Deed};
use crate::store::{Pressing, Summary};

/// The instance and its register.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusView {
    /// Version of the binary.
    pub version: String,
    /// This start of this process.
    pub instance: String,
    /// Digest of the config in force; empty: there is a register only, and nobody runs on it.
    pub config_digest: String,
    /// Whose operations these are.
    pub tenant: String,
    /// Is it stopping?
    pub draining: bool,
    /// Can it admit durably now?
    pub ready: bool,
    /// Why not.
    pub reasons: Vec<String>,
    /// The register as a whole; null: it does not answer.
    pub register: Option<RegisterView>,
    /// What stands in it; null: it does not answer.
    pub counted: Option<CountedView>,
    /// Evidence against recorded outcomes since this process began; null: nobody runs on it.
    #[serde(default)]
    pub contradictions: Option<u64>,
    /// How settling goes, for each upstream; empty: nobody runs on it.
    #[serde(default)]
    pub settling: Vec<StandingView>,
}

/// How settling goes for one upstream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandingView {
    /// Which; null: all that the config no longer has.
    pub upstream: Option<String>,
    /// When its last pass began; null: it has had none.
    pub began: Option<String>,
    /// How long ago that was.
    pub began_ms_ago: Option<u64>,
    /// How long it took; null: it is under way.
    pub took_ms: Option<u64>,
    /// Operations that nobody knows the outcome of, as the pass found them.
    pub in_doubt: u64,
    /// Of them: that had a step to take.
    pub due: u64,
    /// That have one later, or wait for a callback or a late answer.
    pub later: u64,
    /// That were left for the next pass, so many of their resource being worked on already.
    pub held_back: u64,
    /// Why it ended early.
    pub fault: Option<String>,
    /// Exchanges with the upstream that failed in a row.
    pub failures: u32,
    /// How long settling leaves the upstream alone; 0: it does not.
    pub left_alone_ms: u64,
}

/// The register as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterView {
    /// `embedded`, `postgres` or `memory`.
    pub kind: String,
    /// Format of its tables.
    pub format: Option<u32>,
    /// What is worth knowing of it, by name.
    pub facts: BTreeMap<String, String>,
    /// What is not as it was when it was last known whole. Empty: nothing.
    pub differences: Vec<String>,
    /// It was accepted as it is, and admits nothing for so much longer at least; null: it does not wait for that.
    #[serde(default)]
    pub quiet_ms: Option<u64>,
    /// What was done to it as a whole, newest first.
    pub history: Vec<DeedView>,
}

/// Something that was done to the register as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeedView {
    /// When, by the wall clock of who did it.
    pub at: String,
    /// What.
    pub text: String,
}

/// What is unsettled, at a glance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PressingView {
    /// Operations whose attempt is under way, or was left by an instance.
    pub intended: u64,
    /// Operations that are being settled.
    pub uncertain: u64,
    /// Operations that wait for a person.
    pub needs_attention: u64,
    /// Age of the oldest one.
    pub oldest_ms: Option<u64>,
    /// The least time that an upstream still remembers the key of one of them; null without such a key.
    pub key_lifetime_left_ms: Option<u64>,
}

impl PressingView {
    /// At this moment. `walked`: the least key lifetime that is left among those beyond the oldest, where there are
    /// such.
    pub fn of(pressing: &Pressing, walked: Option<Millis>, now: &Moment) -> Self {
        let count = |word: &str| {
            let of_it = pressing.by_state.iter().find(|(state, _)| *state == word);
            of_it.map_or(0, |(_, count)| *count)
        };
        let age = |operation: &Operation| now.age_at_most(&operation.first_seen);
        let left = |operation| remaining::lifetime_of_key(operation, now);
        Self {
            intended: count("INTENDED"),
            uncertain: count("UNCERTAIN"),
            needs_attention: count("NEEDS_ATTENTION"),
            oldest_ms: pressing
                .oldest
                .first()
                .map(|it| age(it).unwrap_or_default().0),
            key_lifetime_left_ms: pressing
                .oldest
                .iter()
                .filter_map(left)
                .chain(walked)
                .min()
                .map(|it| it.0),
        }
    }
}

/// What stands in the register.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountedView {
    /// Token epoch in force.
    pub epoch: u64,
    /// Operations by state, by the contract's words.
    pub operations: BTreeMap<String, u64>,
    /// When the oldest unsettled operation was first admitted.
    pub oldest_unsettled: Option<String>,
    /// Its age.
    pub oldest_unsettled_ms: Option<u64>,
    /// The least time that an upstream still remembers the key of an unsettled operation; null without such a
    /// key.
    #[serde(default)]
    pub key_lifetime_left_ms: Option<u64>,
    /// When the newest operation was first admitted: of what came after it, the register knows nothing.
    pub newest: Option<String>,
}

impl StandingView {
    /// As it is at this moment.
    pub fn of(standing: Standing, now: &Moment) -> Self {
        let pass = standing.pass;
        let ago = |began: &Moment| now.age_at_most(began).unwrap_or_default();
        Self {
            upstream: standing.upstream.map(|id| id.to_string()),
            began: pass.began.as_ref().map(time),
            began_ms_ago: pass.began.as_ref().map(|began| ago(began).0),
            took_ms: pass.took.map(|took| took.0),
            in_doubt: pass.in_doubt,
            due: pass.due,
            later: pass.later,
            held_back: pass.held_back,
            fault: pass.fault,
            failures: standing.failures,
            left_alone_ms: standing.left_alone.0,
        }
    }
}

impl RegisterView {
    /// What it says of itself.
    pub fn of(about: About) -> Self {
        let facts = about.facts.into_iter();
        Self {
            kind: about.kind.to_owned(),
            format: about.format,
            facts: facts.map(|(name, fact)| (name.to_owned(), fact)).collect(),
            differences: about.differences,
            quiet_ms: about.quiet_ms,
            history: about.history.into_iter().map(DeedView::of).collect(),
        }
    }
}

impl DeedView {
    fn of(deed: Deed) -> Self {
        Self {
            at: wall_time(deed.wall_ms),
            text: deed.text,
        }
    }
}

impl CountedView {
    /// What it counts.
    pub fn of(
        summary: &Summary,
        pressing: &PressingView,
        newest: Option<&Operation>,
        looker: &Looker,
    ) -> Self {
        let counts = summary.by_state.iter();
        let oldest = summary.oldest_unsettled.as_ref();
        Self {
            epoch: summary.epoch,
            operations: counts
                .map(|(state, count)| ((*state).to_owned(), *count))
                .collect(),
            oldest_unsettled: oldest.map(time),
            oldest_unsettled_ms: oldest.map(|since| looker.age(since).0),
            key_lifetime_left_ms: pressing.key_lifetime_left_ms,
            newest: newest.map(|operation| time(&operation.first_seen)),
        }
    }
}
