//! Who is alive, as each proxy knows it.
//!
//! What always holds: every proxy reads a record as soon as it is written: a later first sight is only more careful.
//! Whoever knows of the same instances knows the same, and that is made once.

use std::cell::RefCell;
use std::sync::Arc;

use fencepost::protocol::company::Company;
use fencepost::protocol::ids::InstanceId;
use fencepost::protocol::view::Living;

use super::register::moment;
use super::scenario::{Scenario, TICK_MS};
use super::world::{Instance, World};

/// What proxies have known of each other, by who knows it, who ever was, and who of them lives: a bit for each.
#[derive(Debug, Default)]
pub struct Companies(RefCell<Vec<(Knows, Arc<Company>)>>);

type Knows = (Instance, u64, u64);

impl Companies {
    /// Which instances the proxy of that index takes for alive.
    pub fn living(&self, world: &World, scenario: &Scenario, proxy: u8) -> Living {
        let own = world.proxies[usize::from(proxy)];
        if scenario.proxies == 1 {
            return Living::Only(named(own));
        }
        let known = self.of(world, own);
        if !scenario.machines {
            return Living::Among(known);
        }
        let mut company = (*known).clone();
        for record in &world.records {
            let written = record.operation.attempts.iter().map(|it| it.at.boottime.0);
            let tick = written.max().unwrap_or_default() / TICK_MS;
            let seen = moment(scenario, proxy, u8::try_from(tick).unwrap());
            company.see(&record.operation, &seen);
        }
        Living::Among(Arc::new(company))
    }

    fn of(&self, world: &World, own: Instance) -> Arc<Company> {
        let mut living = 0;
        for instance in &world.living {
            living |= bit(*instance);
        }
        let mut newest = 0;
        for instance in world.living.iter().chain(&world.proxies) {
            newest = newest.max(*instance);
        }
        let mut ever = bit(newest) | (bit(newest) - 1);
        for attempt in &world.tries {
            ever |= bit(attempt.instance);
        }
        let knows = (own, ever, living);
        let mut known = self.0.borrow_mut();
        // There are few.
        if let Some((_, company)) = known.iter().find(|(it, _)| *it == knows) {
            return Arc::clone(company);
        }
        let dead = (0..64).filter(|it| bit(*it) & ever & !living != 0);
        let mut company = Company::of(named(own));
        company.bury(dead.map(named).collect());
        let company = Arc::new(company);
        known.push((knows, Arc::clone(&company)));
        company
    }
}

fn bit(instance: Instance) -> u64 {
    1 << instance
}

fn named(instance: Instance) -> InstanceId {
    InstanceId(u128::from(instance))
}
