//! A person repairs a resource that a wild token raised (contract §7).
//!
//! What always holds: the mark goes back in a *new incarnation* only, which is newer than all that was done in the
//! earlier one, and starts at the highest genuine token: the highest that the register itself issued, else the one
//! that he states. Never below that of an operation that was applied in the present incarnation, unless he answers
//! for that very operation by name. What was issued stays issued: no token is issued twice.
//!
//! The mark is *open*: the holder of the genuine token is whom the repair is for, and he goes on under it, without a
//! new lease. Unless that token had been closed before the wild one came, by a cancel, an advance or its holder's
//! release: a repair gives back what a wild token took, not what a person took.
//!
//! What it does not do: cut anything off. What is unsettled of the earlier incarnation is older than all that
//! follows, which waits for it.

use super::broken::{Rule, broken};
use super::command::{Applied, Event, NotRepaired, Steer, Steering};
use super::fence::{Deed, Fence};
use super::ids::{FencingToken, OperationId};
use super::view::View;

/// So many operations are named in a refusal.
const NAMED: usize = 20;

/// Begins the new incarnation, or leaves the fence alone.
pub(super) fn repair(
    view: &View,
    fence: &mut Fence,
    to: Option<FencingToken>,
    disown: &[OperationId],
    how: &Steering,
) -> Result<Deed, NotRepaired> {
    let mark = fence.mark.ok_or(NotRepaired::NoMark)?;
    if fence.cancelled {
        return Err(NotRepaired::Cancelled);
    }
    let token = how.repairs_to(fence).ok_or(NotRepaired::ToIsMissing)?;
    let issued = fence.issued.filter(|_| fence.is_own());
    if let Some(issued) = issued.filter(|issued| to.is_some_and(|to| to != *issued)) {
        return Err(NotRepaired::Issued(issued));
    }
    let deed = Deed::Repaired(token);
    if token == mark && fence.was_last(deed) {
        return Ok(deed);
    }
    if token >= mark {
        return Err(NotRepaired::NotBelow(mark));
    }
    not_below_what_was_applied(view, disown)?;
    if !broken(Rule::RepairIsANewIncarnation) {
        fence.incarnation = fence.incarnation.next();
    }
    fence.begin_at(token);
    fence.closed = fence.shut >= Some(token) && !broken(Rule::RepairOpensNothing);
    let is_his = |lease: &super::lease::Lease| lease.token == token;
    fence.lease = fence.lease.take().filter(is_his);
    Ok(deed)
}

fn not_below_what_was_applied(view: &View, disown: &[OperationId]) -> Result<(), NotRepaired> {
    let mut owned = view.applied.operations.iter();
    let is_owned = |it: &&Applied| !disown.contains(&it.key.id);
    let named: Vec<_> = owned.by_ref().filter(is_owned).take(NAMED).collect();
    let more = owned.any(|it| !disown.contains(&it.key.id)) || !view.applied.whole;
    if (named.is_empty() && view.applied.whole) || broken(Rule::RepairKeepsWhatWasApplied) {
        return Ok(());
    }
    Err(NotRepaired::Applied {
        operations: named.into_iter().cloned().collect(),
        more,
    })
}

/// It stands in the log of each operation that he answers for.
pub(super) fn disowned(view: &View, steer: &Steer) -> Vec<Event> {
    let Steering::Repair { disown, .. } = &steer.how else {
        return Vec::new();
    };
    let text = format!(
        "disowned by {} in the repair of its resource: {}",
        steer.operator, steer.reason
    );
    let applied = view.applied.operations.iter();
    let his = applied.filter(|it| disown.contains(&it.key.id));
    his.map(|it| Event {
        key: it.key.clone(),
        at: steer.at,
        attempt: None,
        text: text.clone(),
    })
    .collect()
}
