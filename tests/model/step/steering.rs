//! A person steers the resource, or starts a new epoch.
//!
//! What always holds: what the witness takes for the mark afterwards is what the person said, not what the register
//! holds.

use fencepost::protocol::command::{Applied, Command, Reply, Steer, Steered, Steering};
use fencepost::protocol::fence::{Deed, Fence};
use fencepost::protocol::ids::FencingToken;
use fencepost::protocol::operation::State;
use fencepost::protocol::outcome::Verdict;
use fencepost::protocol::view::AppliedAbove;

use super::super::never;
use super::super::register::{admissions, apply, moment};
use super::super::world::World;
use super::{Action, Happened, Step};

/// What a person may do to the resource, and to all of them.
pub(super) fn of_the_resource(world: &World, amends: &[Deed], found: &mut Vec<Action>) {
    let left = &world.left;
    let steering = [
        (left.cancels, Deed::Cancelled),
        (left.advances, Deed::Advanced),
        (left.reopens, Deed::Reopened),
    ];
    let allowed = steering.into_iter().filter(|(left, _)| *left > 0);
    found.extend(allowed.map(|(_, deed)| Action::Steer(deed)));
    if left.amends > 0 {
        found.extend(amends.iter().map(|deed| Action::Steer(*deed)));
    }
    if left.epochs > 0 {
        found.push(Action::BeginEpoch);
    }
}

impl Step<'_> {
    pub(super) fn steer(&mut self, deed: Deed) -> Happened {
        let steps = self.steps;
        let steer = Steer {
            resource: steps.names.resource(0),
            how: wanted(deed),
            operator: "operator".to_owned(),
            reason: "stop".to_owned(),
            at: moment(steps.scenario, 0, self.before.now),
        };
        let command = Command::Steer(steer);
        let reply = apply(&mut self.world, steps.scenario, &steps.names, 0, &command);
        let Reply::Steered(Steered::Done { .. }) = reply else {
            return Ok(false);
        };
        let world = &mut self.world;
        match deed {
            Deed::Cancelled => world.left.cancels -= 1,
            Deed::Advanced => world.left.advances -= 1,
            Deed::Reopened => world.left.reopens -= 1,
            Deed::Accepted(_) | Deed::Repaired(_) => world.left.amends -= 1,
        }
        let cut_off = admissions(world.fences[0].as_ref());
        let seen = &mut world.seen;
        match deed {
            Deed::Cancelled | Deed::Advanced => {
                seen.cancelled |= deed == Deed::Cancelled;
                seen.owner = None;
                seen.closed = seen.mark;
                seen.cut_off = cut_off;
            }
            Deed::Reopened => seen.cancelled = false,
            // Nothing that he says lowers it.
            Deed::Accepted(token) => {
                seen.mark = seen.mark.max(Some(token));
                seen.holder = None;
                seen.owner = None;
                seen.void_from = None;
            }
            Deed::Repaired(token) => {
                seen.mark = Some(token);
                seen.closed = seen.closed.map(|closed| closed.min(token));
                seen.holder = None;
            }
        }
        self.say(|| format!("a person steers the resource: {deed:?}"));
        let judged = never::steered(self.before, &self.world, deed);
        self.judge(judged)
    }

    pub(super) fn begin_epoch(&mut self) -> Happened {
        self.world.left.epochs -= 1;
        self.world.epoch += 1;
        // Whoever owned it acquires again.
        self.world.seen.owner = None;
        let epoch = self.world.epoch;
        self.say(|| format!("a person starts epoch {epoch}"));
        Ok(true)
    }
}

fn wanted(deed: Deed) -> Steering {
    match deed {
        Deed::Cancelled => Steering::Cancel,
        Deed::Advanced => Steering::Advance,
        Deed::Reopened => Steering::Reopen,
        Deed::Accepted(token) => Steering::Accept {
            token,
            source: None,
        },
        Deed::Repaired(token) => Steering::Repair {
            to: Some(token),
            disown: Vec::new(),
        },
    }
}

/// What a repair of this fence must not go below.
pub fn applied(world: &World, fence: &Fence, above: FencingToken) -> AppliedAbove {
    let applied = world.records.iter().filter_map(|record| {
        let place = record.operation.place.as_ref()?;
        let is_of_it =
            place.resource == fence.resource.name && place.incarnation == fence.incarnation;
        let token = place.token.filter(|token| *token > above && is_of_it)?;
        let State::Completed(completion) = &record.operation.state else {
            return None;
        };
        (completion.verdict == Verdict::Applied).then(|| Applied {
            key: record.operation.key.clone(),
            token,
        })
    });
    AppliedAbove::of(applied.collect())
}
