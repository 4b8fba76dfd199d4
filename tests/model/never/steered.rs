//! What must never come of a person's word on a resource.

use fencepost::protocol::fence::Deed;
use fencepost::protocol::operation::State;
use fencepost::protocol::outcome::Verdict;

use super::super::world::World;
use super::{Judged, never};

/// A person steered the resource.
pub fn steered(before: &World, after: &World, deed: Deed) -> Judged {
    let (Some(earlier), Some(later)) = (&before.fences[0], &after.fences[0]) else {
        return Ok(());
    };
    let is_same = earlier.incarnation == later.incarnation;
    never(is_same && later.mark < earlier.mark, || {
        "the mark went down within an incarnation".to_owned()
    })?;
    let Deed::Repaired(to) = deed else {
        return Ok(());
    };
    for record in &before.records {
        let place = record.operation.place.as_ref();
        let place = place.filter(|place| place.incarnation == earlier.incarnation);
        let above = place.and_then(|place| place.token).filter(|it| *it > to);
        let applied = match &record.operation.state {
            State::Completed(completion) => completion.verdict == Verdict::Applied,
            State::Intended
            | State::Uncertain
            | State::NeedsAttention(_)
            | State::NotApplied(_) => false,
        };
        if let Some(token) = above {
            never(applied, || {
                let name = record.name;
                format!(
                    "{name} was applied under token {token}, and the resource begins again at {to}"
                )
            })?;
        }
    }
    Ok(())
}
