//! What comes to nothing, as can be told before a world of its own is made for it.
//!
//! What always holds: what is told here changes nothing; whatever else comes to nothing is found out by its step. Three
//! of four tries in a world of leases end here.

use fencepost::protocol::plan::{self, Step as Planned};

use super::super::register::{fence_of, lease, moment};
use super::super::scenario::TICK_MS;
use super::super::world::World;
use super::{Action, Manner, Said, Steps};

impl Steps<'_> {
    pub(super) fn comes_to_nothing(&self, world: &World, action: Action) -> bool {
        match action {
            Action::Settle {
                proxy,
                record,
                lost,
            } => match self.planned(world, proxy, record) {
                Planned::Nothing | Planned::Await | Planned::Listen { .. } => true,
                // Nobody repeats these.
                Planned::Start { .. }
                | Planned::Ask { .. }
                | Planned::CloseThenPlan { .. }
                | Planned::Park(_) => lost,
                Planned::Void { .. } | Planned::Resend { .. } => false,
            },
            Action::Say { record, verdict } => !may_say(world, record, verdict),
            Action::Acquire(holder, manner) => !may_acquire(world, holder, manner),
            Action::Renew(holder, _) => !may_renew(world, holder),
            Action::Release(holder, _) => !may_release(world, holder),
            _ => false,
        }
    }

    /// What the reconciler of that proxy would do with that record.
    pub(super) fn planned(&self, world: &World, proxy: u8, record: u8) -> Planned {
        let record = &world.records[usize::from(record)];
        plan::plan(
            &record.operation,
            fence_of(world, &record.operation),
            &lease(world, proxy, record.name),
            &self.names.companies.living(world, self.scenario, proxy),
            &moment(self.scenario, proxy, world.now),
        )
    }
}

/// People know what was and what still can be; some say something else.
fn may_say(world: &World, record: u8, said: Said) -> bool {
    let name = world.records[usize::from(record)].name;
    let applied = world.effects_of(name) > 0;
    let impossible = || !applied && !world.may_still_act(name);
    match said {
        Said::Applied => applied,
        Said::FalselyApplied => !applied,
        Said::NotApplied => impossible(),
        Said::FalselyNotApplied { .. } => !impossible(),
    }
}

/// Whoever takes it for his does not acquire it.
fn may_acquire(world: &World, holder: u8, manner: Manner) -> bool {
    let held = &world.holdings[usize::from(holder)];
    let now_ms = u64::from(world.now - u8::from(manner.queued)) * TICK_MS;
    let is_his = held.token.is_some() && !held.lost && held.until_ms > now_ms;
    !is_his && (held.asking || world.left.acquisitions > 0)
}

/// A proxy renews also what is over, as long as it was not told.
fn may_renew(world: &World, holder: u8) -> bool {
    let held = &world.holdings[usize::from(holder)];
    held.token.is_some() && !held.lost && world.left.renewals > 0
}

fn may_release(world: &World, holder: u8) -> bool {
    let held = &world.holdings[usize::from(holder)];
    held.token.is_some() && !held.released && world.left.releases > 0
}
