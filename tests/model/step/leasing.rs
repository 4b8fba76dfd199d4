//! Holders acquire, renew and release, at the proxy beside them.
//!
//! What always holds: what a proxy knows of a lease it knows as the product does: a deadline from before the request
//! that asked for it, the first sight of another's from after the answer. A holder whose reply was lost asks again
//! under the same acquisition; one that lost its lease keeps its token, and goes on with it.

use fencepost::protocol::command::{Command, Reply};
use fencepost::protocol::ids::AcquisitionId;
use fencepost::protocol::lease::{Lease, LeaseReply, Leasing, Sight, Wish};
use fencepost::protocol::time::Millis;

use super::super::never;
use super::super::register::{apply, moment};
use super::super::scenario::TICK_MS;
use super::super::world::{Glimpse, Live};
use super::{Happened, Step};

/// When, and whether the reply is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manner {
    /// It was asked for a tick before it is decided.
    pub queued: bool,
    pub lost: bool,
}

impl Step<'_> {
    pub(super) fn acquire(&mut self, holder: u8, manner: Manner) -> Happened {
        let index = usize::from(holder);
        let held = self.before.holdings[index];
        let scenario = self.steps.scenario;
        let asked = if held.asking {
            held.acquisition
        } else {
            self.world.left.acquisitions -= 1;
            let all = self.before.holdings.iter();
            all.map(|it| it.acquisition).max().unwrap_or_default() + 1
        };
        let who = &scenario.holders[index];
        let wish = Wish::Acquire {
            acquisition: named(asked),
            holder: String::new(),
            ttl: Millis(who.ttl_ms),
        };
        let reply = self.ask_for_lease(who.proxy, wish, manner);
        let his = &mut self.world.holdings[index];
        his.acquisition = asked;
        his.asking = manner.lost;
        match reply {
            LeaseReply::Granted(lease) => {
                never::leased(self.before, who.proxy, asked, &lease)?;
                self.granted_lease(holder, &lease, manner);
                self.say(|| format!("{} owns it under token {}", who.who, lease.token));
                Ok(true)
            }
            LeaseReply::Held(lease, _) => {
                his.asking = false;
                self.world.left.acquisitions = self.before.left.acquisitions;
                self.world.holdings[index] = held;
                if !manner.lost {
                    self.see_lease(who.proxy, &lease);
                }
                self.say(|| format!("{} is told that another owns it", who.who));
                Ok(self.world.sights != self.before.sights)
            }
            LeaseReply::Lost => {
                self.world.holdings[index].asking = false;
                self.say(|| format!("{} lost it before it knew of it", who.who));
                Ok(true)
            }
            LeaseReply::Cancelled
            | LeaseReply::OtherSource(_)
            | LeaseReply::Exhausted
            | LeaseReply::Released => Ok(false),
        }
    }

    pub(super) fn renew(&mut self, holder: u8, manner: Manner) -> Happened {
        let index = usize::from(holder);
        let held = self.before.holdings[index];
        self.world.left.renewals -= 1;
        let who = &self.steps.scenario.holders[index];
        let acquisition = named(held.acquisition);
        match self.ask_for_lease(who.proxy, Wish::Renew { acquisition }, manner) {
            LeaseReply::Granted(lease) => {
                let by = held.acquisition;
                never::renewed(self.before, who.proxy, by, self.now_ms(manner), who.ttl_ms)?;
                self.granted_lease(holder, &lease, manner);
                self.say(|| format!("{} renews it", who.who));
            }
            LeaseReply::Lost => {
                self.loses(holder, manner);
                self.say(|| format!("{} is told that it lost it", who.who));
            }
            other => panic!("a renewal was answered with {other:?}"),
        }
        Ok(true)
    }

    /// At whatever proxy: his own knows nothing of it where it is another.
    pub(super) fn release(&mut self, holder: u8, proxy: u8) -> Happened {
        let index = usize::from(holder);
        let held = self.before.holdings[index];
        self.world.left.releases -= 1;
        let who = &self.steps.scenario.holders[index];
        let acquisition = named(held.acquisition);
        let wish = Wish::Release { acquisition };
        let reply = self.ask_for_lease(proxy, wish, Manner::default());
        if proxy == who.proxy {
            self.loses(holder, Manner::default());
        }
        self.world.holdings[index].lost = true;
        self.world.holdings[index].released = true;
        match reply {
            LeaseReply::Released => {
                never::released(self.before, held.acquisition)?;
                let seen = &mut self.world.seen;
                seen.owner = None;
                seen.closed = seen.mark;
                self.say(|| format!("{} releases it", who.who));
            }
            LeaseReply::Lost => self.say(|| format!("{} has nothing to release", who.who)),
            other => panic!("a release was answered with {other:?}"),
        }
        Ok(true)
    }

    fn ask_for_lease(&mut self, proxy: u8, wish: Wish, manner: Manner) -> LeaseReply {
        let steps = self.steps;
        if manner.lost {
            self.world.left.lost_replies -= 1;
        }
        let scenario = steps.scenario;
        let sight = self.before.sights[usize::from(proxy)].map(|it| Sight {
            token: it.token,
            renewals: u64::from(it.renewals),
            at: moment(scenario, proxy, it.at),
        });
        let leasing = Leasing {
            resource: steps.names.resource(0),
            wish,
            seen: sight,
            at: moment(scenario, proxy, self.before.now - u8::from(manner.queued)),
        };
        let command = Command::Lease(leasing);
        match apply(&mut self.world, scenario, &steps.names, proxy, &command) {
            Reply::Leased(reply) => reply,
            other => panic!("a wish for a lease was answered with {other:?}"),
        }
    }

    /// The truth, and what the holder and its proxy know of it.
    fn granted_lease(&mut self, holder: u8, lease: &Lease, manner: Manner) {
        let index = usize::from(holder);
        let acquisition = self.world.holdings[index].acquisition;
        let seen = &mut self.world.seen;
        seen.owner = Some(acquisition);
        seen.issued = seen.issued.max(Some(lease.token));
        if seen.mark.is_none_or(|mark| lease.token > mark) {
            seen.mark = Some(lease.token);
            seen.holder = None;
        }
        if manner.lost {
            return;
        }
        let who = &self.steps.scenario.holders[index];
        let until_ms = self.now_ms(manner) + who.ttl_ms;
        let his = &mut self.world.holdings[index];
        (his.token, his.until_ms, his.lost) = (Some(lease.token), until_ms, false);
        his.released = false;
        self.world.live[usize::from(who.proxy)] = Some(Live {
            acquisition,
            until_ms,
        });
        self.see_lease(who.proxy, lease);
    }

    fn loses(&mut self, holder: u8, manner: Manner) {
        if manner.lost {
            return;
        }
        let his = &mut self.world.holdings[usize::from(holder)];
        his.lost = true;
        let acquisition = his.acquisition;
        let proxy = self.steps.scenario.holders[usize::from(holder)].proxy;
        let live = &mut self.world.live[usize::from(proxy)];
        *live = live.filter(|live| live.acquisition != acquisition);
    }

    /// The first sight counts.
    fn see_lease(&mut self, proxy: u8, lease: &Lease) {
        let glimpse = Glimpse {
            token: lease.token,
            renewals: u8::try_from(lease.renewals).unwrap(),
            at: self.before.now,
        };
        let known = &mut self.world.sights[usize::from(proxy)];
        let same = |it: &Glimpse| (it.token, it.renewals) == (glimpse.token, glimpse.renewals);
        if !known.as_ref().is_some_and(same) {
            *known = Some(glimpse);
        }
    }

    fn now_ms(&self, manner: Manner) -> u64 {
        u64::from(self.before.now - u8::from(manner.queued)) * TICK_MS
    }
}

/// An acquisition's id, by its number.
pub fn named(acquisition: u8) -> AcquisitionId {
    AcquisitionId::new(acquisition.to_string())
}
