//! A resource explained: who may act, who blocks whom, why, and what to type next.
//!
//! What always holds: it is told from the durable record by the rules that admission goes by; for each
//! operation that blocks others there is a way on.
//!
//! What it does not do: know callers who wait; they hold nothing in the register.

use serde::{Deserialize, Serialize};

use super::words::{shell_word, step, wall_time};
use super::{KeyView, LeaseView, Looker, OperationView, ResourceView};
use crate::protocol::fence::{Deed, Fence};
use crate::protocol::lease::LeaseFacts;
use crate::protocol::operation::{Operation, State};
use crate::protocol::plan::{self, Step};
use crate::protocol::policy::Order;
use crate::store::StoredResource;

/// A resource explained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedView {
    /// The fence.
    #[serde(flatten)]
    pub resource: ResourceView,
    /// Who owns it for a while.
    pub lease: LeaseView,
    /// Who may act on it now.
    pub standing: String,
    /// What to type about that, if there is something.
    pub command: Option<String>,
    /// Operations that others wait for, in the order of their admission.
    pub blockers: Vec<BlockerView>,
    /// Refusals that callers may get here, and what to type if they are right.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<AdviceView>,
}

/// A refusal, and what to type if whoever gets it is right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdviceView {
    /// Its name.
    pub refusal: String,
    /// Where that is so.
    pub when: String,
    /// The command.
    pub command: String,
}

/// An operation that others wait for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockerView {
    /// Which.
    #[serde(flatten)]
    pub operation: KeyView,
    /// Its state here and now.
    pub state: String,
    /// The token that it was admitted with.
    pub token: Option<String>,
    /// How long ago that was.
    pub age_ms: u64,
    /// Whom it blocks.
    pub blocks: String,
    /// Why it is not settled.
    pub because: String,
    /// What ends that.
    pub next: String,
    /// What to type, where it needs somebody or can be hurried.
    pub command: Option<String>,
}

impl ExplainedView {
    /// As `looker` sees it in this epoch.
    pub fn of(stored: &StoredResource, lease: LeaseView, looker: &Looker, epoch: u64) -> Self {
        let fence = &stored.fence;
        let (standing, command) = standing(fence, epoch);
        let blockers = stored.unsettled.iter();
        Self {
            resource: ResourceView::of(fence, epoch),
            lease,
            standing,
            command,
            blockers: blockers
                .map(|operation| BlockerView::of(operation, fence, looker))
                .collect(),
            advice: advice(fence, epoch),
        }
    }
}

fn standing(fence: &Fence, epoch: u64) -> (String, Option<String>) {
    let name = shell_word(fence.resource.name.as_str());
    let last = fence.interventions.last();
    // What opened the mark is not what closed it: that was the lease's release.
    let last = last.filter(|it| match it.how {
        Deed::Cancelled | Deed::Advanced | Deed::Reopened => true,
        Deed::Accepted(_) | Deed::Repaired(_) => false,
    });
    let who = last.map_or_else(String::new, |it| {
        format!(" ({} by {}: {})", it.how.past(), it.operator, it.reason)
    });
    if fence.cancelled {
        let reopen = format!("fencepost resources reopen {name} --reason '…'");
        let told = format!("nothing is admitted: it is cancelled{who}");
        return (told, Some(reopen));
    }
    let told = match (&fence.mark, fence.closed) {
        (None, _) => "any token is let in: none was presented yet".to_owned(),
        (Some(mark), _) if mark.epoch() < epoch => format!(
            "nobody may act: {mark} is of epoch {}, and epoch {epoch} is in force; its holder acquires again ({epoch}:…)",
            mark.epoch()
        ),
        (Some(mark), true) => format!(
            "whoever holds {mark} or less is cut off{who}: only a newer token is let in; its holder \
             acquires again"
        ),
        (Some(mark), false) => {
            format!(
                "whoever presents {mark} may act, and a newer token takes over; older ones are stale"
            )
        }
    };
    (told, None)
}

/// Where a token was presented, others can be refused; a cancelled resource refuses all, and says so itself, and so
/// does a mark of an earlier epoch.
fn advice(fence: &Fence, epoch: u64) -> Vec<AdviceView> {
    let mark = fence.mark.filter(|mark| mark.epoch() >= epoch);
    let Some(mark) = mark.filter(|_| !fence.cancelled) else {
        return Vec::new();
    };
    let name = shell_word(fence.resource.name.as_str());
    let one = |refusal: &str, when: String, command: String| AdviceView {
        refusal: refusal.to_owned(),
        when,
        command,
    };
    // The register's own tokens are not wrong: it issued them, or an operator said that it had.
    let repair = (!fence.is_own()).then(|| {
        one(
            "stale-fencing-token",
            format!("{mark} itself is wrong: TOKEN is the highest that the source has issued"),
            format!("fencepost resources repair {name} --to TOKEN --reason '…'"),
        )
    });
    let others = [
        one(
            "fencing-token-unknown",
            format!("a genuine TOKEN lies far above {mark}"),
            format!("fencepost resources accept {name} TOKEN --reason '…'"),
        ),
        one(
            "fencing-token-unknown",
            "its tokens come from another source from now on, or its source began to count anew; this is for all \
             resources"
                .to_owned(),
            "fencepost epoch advance --reason '…'".to_owned(),
        ),
    ];
    repair.into_iter().chain(others).collect()
}

impl BlockerView {
    fn of(operation: &Operation, fence: &Fence, looker: &Looker) -> Self {
        let view = OperationView::of(operation, looker);
        let name = view.key().typed();
        let resolve = || view.resolving();
        let settle = || format!("fencepost operations settle {name}");
        let planned = plan::plan(
            operation,
            Some(fence),
            &LeaseFacts::unknown(),
            &looker.living,
            &looker.now,
        );
        let acts_for = looker.may_act_for(operation);
        let (because, next, command) = match (&operation.state, acts_for, &planned) {
            (_, Some(left), _) => {
                let until = wall_time(looker.now.wall_ms.saturating_add(left.0));
                let because = "its attempt is under way".to_owned();
                (because, format!("it ends by itself, until {until}"), None)
            }
            (State::NeedsAttention(why), ..) if asks(operation) => (
                format!("nobody knows whether it was applied, and {}", why.reason()),
                format!(
                    "a person looks at the upstream, then says how it ended; or has it asked again: {}",
                    settle()
                ),
                Some(resolve()),
            ),
            (State::NeedsAttention(why), ..) | (_, None, Step::Park(why)) => (
                format!("nobody knows whether it was applied, and {}", why.reason()),
                "a person looks at the upstream, then says how it ended".to_owned(),
                Some(resolve()),
            ),
            (_, None, other) => (
                "nobody knows yet whether it was applied".to_owned(),
                step(other),
                Some(settle()),
            ),
        };
        Self {
            operation: view.key(),
            state: view.state,
            token: view.token,
            age_ms: view.age_ms,
            blocks: blocks(operation, fence),
            because,
            next,
            command,
        }
    }
}

fn asks(operation: &Operation) -> bool {
    let mut steps = operation.settle.steps.iter();
    steps.any(|(_, step)| step.question().is_some())
}

/// By the order of admission: (incarnation, token), none before any.
fn blocks(operation: &Operation, fence: &Fence) -> String {
    let Some(place) = &operation.place else {
        return "nothing".to_owned();
    };
    let Some(token) = &place.token else {
        return "every other request".to_owned();
    };
    let is_present = place.incarnation == fence.incarnation && fence.mark == place.token;
    if !is_present || fence.closed {
        return "every request with a newer token, and every one without a token".to_owned();
    }
    let within = match operation.order {
        Order::Strict => "every other request",
        Order::Free => "requests that must be in order",
    };
    format!("{within} under {token}, every one with a newer token, and every one without a token")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::fence::Intervention;
    use crate::protocol::ids::{FencingToken, ResourceKey, ResourceName, Tenant, TokenSource};
    use crate::protocol::lease::OWN_SOURCE;
    use crate::protocol::time::{BootId, BootInstant, Moment};

    fn fence(source: &str) -> Fence {
        let mut fence = Fence::unseen(ResourceKey {
            tenant: Tenant::new("t"),
            name: ResourceName::new("account:1"),
        });
        fence.mark = FencingToken::parse("101");
        fence.source = Some(TokenSource::new(source));
        fence
    }

    #[test]
    fn a_repair_is_advised_only_where_the_tokens_are_issued_elsewhere() {
        let repairs = |source| {
            let commands = advice(&fence(source), 0).into_iter().map(|it| it.command);
            let repairs = commands.filter(|it| it.contains("repair"));
            repairs.collect::<Vec<_>>()
        };
        assert_eq!(
            repairs("etcd"),
            ["fencepost resources repair account:1 --to TOKEN --reason '…'"]
        );
        assert_eq!(repairs(OWN_SOURCE), [""; 0]);
    }

    #[test]
    fn under_a_mark_of_an_earlier_epoch_nobody_may_act() {
        let old = fence(OWN_SOURCE);
        assert!(
            standing(&old, 0)
                .0
                .starts_with("whoever presents 101 may act")
        );
        assert!(!ResourceView::of(&old, 0).stale);
        assert_eq!(
            standing(&old, 1).0,
            "nobody may act: 101 is of epoch 0, and epoch 1 is in force; its holder acquires again (1:…)"
        );
        assert!(ResourceView::of(&old, 1).stale);
        assert_eq!(advice(&old, 1), []);
    }

    #[test]
    fn a_lease_that_was_given_back_was_not_cut_off_by_whoever_let_its_token_in() {
        let mut fence = fence(OWN_SOURCE);
        fence.closed = true;
        let did = |how| Intervention {
            how,
            operator: "alice".to_owned(),
            reason: "w".to_owned(),
            at: Moment {
                boot: BootId(1),
                boottime: BootInstant(5),
                wall_ms: 7,
            },
        };
        fence.interventions = [did(Deed::Accepted(FencingToken::parse("101").unwrap()))].into();
        let told = standing(&fence, 0).0;
        assert!(
            told.starts_with("whoever holds 101 or less is cut off: only"),
            "{told}"
        );
        fence.interventions = [did(Deed::Advanced)].into();
        let told = standing(&fence, 0).0;
        assert!(
            told.contains("is cut off (advanced by alice: w):"),
            "{told}"
        );
    }
}
