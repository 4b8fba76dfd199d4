//! A lease: who owns a resource for a while (contract §7), and what admission must know of it.
//!
//! What always holds: it is a part of the fence's record, and is written in the same transaction as the mark. A
//! token is issued once: above the mark and above every one that was issued before, also after a release, a cancel
//! or a restore of the fence. A lease is live only by the *local* deadline of the instance that acquired or last
//! renewed it; an instance that cannot know says nothing, and `require: current` refuses. Whether its time is over
//! is judged by whoever wants it, on his own clock, from his own first sight of it as it is: so a register that was
//! away, or restored, or is asked by another machine gives every lease its full time again.
//!
//! What it does not do: wait, or hold leases for anybody (`lease`).

use super::broken::{Rule, broken};
use super::command::{Changes, Decision, Reply};
use super::decide::fence_or_unseen;
use super::fence::Fence;
use super::ids::{AcquisitionId, FencingToken, ResourceKey, TokenSource};
use super::time::{BootInstant, Millis, Moment};
use super::view::View;

/// Who issues the tokens of leases that the register itself keeps.
pub const OWN_SOURCE: &str = "fencepost";

/// What this instance knows of who owns a resource. It is no part of the register: it goes with each command, and
/// counts only where the register holds the same acquisition still.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseFacts {
    /// What it acquired or renewed itself, and until when that is live by its own clock.
    pub live: Option<LiveLease>,
    /// Whoever owns the resource now has repeated the operation: that licenses one resend of it, though it was
    /// admitted under another lease.
    pub licensed: bool,
}

/// A lease that this instance itself acquired or renewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveLease {
    /// Which acquisition.
    pub acquisition: AcquisitionId,
    /// Until when, taken from before the acquiring or renewing request was sent.
    pub until: BootInstant,
}

/// The lease on a resource, as it is recorded with the fence.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// Which acquisition.
    pub acquisition: AcquisitionId,
    /// Who, as he calls himself. No rule reads it.
    pub holder: String,
    /// The token that orders him.
    pub token: FencingToken,
    /// For how long, from each renewal on.
    pub ttl: Millis,
    /// Counted up by every renewal: another number is another sight.
    pub renewals: u64,
    /// When it was acquired or renewed last, for a person.
    pub since: Moment,
}

/// A lease as a process saw it first, and when.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sight {
    /// Its token: another grant has another, also under the same acquisition.
    pub token: FencingToken,
    /// After how many renewals.
    pub renewals: u64,
    /// When, on the own clock.
    pub at: Moment,
}

/// Somebody wants a lease, or to keep it, or no longer.
#[derive(Clone, Debug)]
pub struct Leasing {
    /// On which resource.
    pub resource: ResourceKey,
    /// What he wants.
    pub wish: Wish,
    /// How this process has seen the lease that is recorded, if it has.
    pub seen: Option<Sight>,
    /// When.
    pub at: Moment,
}

/// What somebody wants of a lease.
#[derive(Clone, Debug)]
pub enum Wish {
    /// To have it: absent or expired, else not.
    Acquire {
        /// A new one. The same a second time is the same wish.
        acquisition: AcquisitionId,
        /// Who, as he calls himself.
        holder: String,
        /// For how long.
        ttl: Millis,
    },
    /// To keep it for its whole time again.
    Renew {
        /// His own.
        acquisition: AcquisitionId,
    },
    /// To be rid of it.
    Release {
        /// His own.
        acquisition: AcquisitionId,
    },
}

/// What he is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseReply {
    /// It is his from now on, or still.
    Granted(Lease),
    /// It is another's, for so long at most by the clock of this process. Whoever has not seen it so yet sees it now.
    Held(Lease, Millis),
    /// It is not his any more, or never was.
    Lost,
    /// It was his, and is nobody's now.
    Released,
    /// The resource is cancelled: nobody owns it.
    Cancelled,
    /// Its tokens come from elsewhere: two who count would not know of each other.
    OtherSource(TokenSource),
    /// There is no token above its mark.
    Exhausted,
}

impl LeaseFacts {
    /// Nothing is known: no lease of this instance.
    pub fn unknown() -> Self {
        Self::default()
    }

    /// This lease, and no licence.
    pub fn of(live: Option<LiveLease>) -> Self {
        Self {
            live,
            licensed: false,
        }
    }

    /// As far as the register bears it out: the acquisition is the recorded one, of the epoch in force.
    pub(super) fn borne_out(&self, fence: Option<&Fence>, epoch: u64) -> Self {
        let recorded = fence.and_then(|fence| fence.lease_of(epoch));
        let is_recorded = |live: &&LiveLease| {
            broken(Rule::LiveIsTheRecorded)
                || recorded.is_some_and(|lease| lease.acquisition == live.acquisition)
        };
        Self {
            live: self.live.as_ref().filter(is_recorded).cloned(),
            licensed: self.licensed,
        }
    }

    /// What is left of the lease by this instance's own clock; nothing where it cannot know.
    pub(super) fn left(&self, now: BootInstant) -> Millis {
        let live = self.live.as_ref();
        live.map_or(Millis::default(), |live| live.until.since(now))
    }
}

impl Lease {
    /// How much of its time is left for sure; all of it for whoever did not see it before as it is.
    pub fn left(&self, seen: Option<&Sight>, now: &Moment) -> Millis {
        if broken(Rule::ExpiryIsByOwnSight) {
            let age = now.wall_ms.saturating_sub(self.since.wall_ms);
            return Millis(self.ttl.0.saturating_sub(age));
        }
        let same = |seen: &&Sight| (seen.token, seen.renewals) == (self.token, self.renewals);
        let passed = seen
            .filter(same)
            .and_then(|seen| now.elapsed_within_boot(&seen.at));
        Millis(self.ttl.0.saturating_sub(passed.unwrap_or_default().0))
    }

    /// It as seen now.
    pub fn seen(&self, at: Moment) -> Sight {
        Sight {
            token: self.token,
            renewals: self.renewals,
            at,
        }
    }
}

pub(super) fn lease(view: &View, leasing: &Leasing) -> Decision {
    let mut fence = fence_or_unseen(view, &leasing.resource);
    let reply = match &leasing.wish {
        Wish::Acquire {
            acquisition,
            holder,
            ttl,
        } => {
            let wanted = |token| Lease {
                acquisition: acquisition.clone(),
                holder: holder.clone(),
                token,
                ttl: *ttl,
                renewals: 0,
                since: leasing.at,
            };
            acquire(&mut fence, view.epoch, leasing, acquisition, wanted)
        }
        Wish::Renew { acquisition } => renew(&mut fence, view.epoch, leasing, acquisition),
        Wish::Release { acquisition } => release(&mut fence, acquisition),
    };
    let is_changed = view.fence.as_ref() != Some(&fence)
        && matches!(reply, LeaseReply::Granted(_) | LeaseReply::Released);
    let changes = Changes {
        fence: is_changed.then_some(fence),
        ..Changes::default()
    };
    Decision {
        changes,
        reply: Reply::Leased(reply),
    }
}

fn acquire(
    fence: &mut Fence,
    epoch: u64,
    leasing: &Leasing,
    acquisition: &AcquisitionId,
    wanted: impl FnOnce(FencingToken) -> Lease,
) -> LeaseReply {
    // An expired lease on a cancelled resource is no permission to restart.
    if fence.cancelled && !broken(Rule::CancelledIsLeasedToNobody) {
        return LeaseReply::Cancelled;
    }
    if let Some(held) = fence.lease_of(epoch) {
        if held.acquisition == *acquisition {
            // Asked again, because nobody knows whether it was granted. Whoever asks counts from now on: so must they
            // all.
            return again(fence, epoch, leasing, acquisition);
        }
        let left = held.left(leasing.seen.as_ref(), &leasing.at);
        if left > Millis::default() && !broken(Rule::LeaseIsExclusive) {
            return LeaseReply::Held(held.clone(), left);
        }
    }
    let own = TokenSource::new(OWN_SOURCE);
    if let Some(other) = fence.source.clone().filter(|source| *source != own) {
        return LeaseReply::OtherSource(other);
    }
    let Some(token) = fence.next_token(epoch) else {
        return LeaseReply::Exhausted;
    };
    let lease = wanted(token);
    // The old owner is cut off before the new one's first request.
    fence.issue(&lease, own);
    LeaseReply::Granted(lease)
}

fn again(
    fence: &mut Fence,
    epoch: u64,
    leasing: &Leasing,
    acquisition: &AcquisitionId,
) -> LeaseReply {
    match &fence.lease {
        Some(held) if broken(Rule::AskedAgainIsRenewed) => LeaseReply::Granted(held.clone()),
        Some(_) | None => renew(fence, epoch, leasing, acquisition),
    }
}

/// One that is over is lost, also where nobody else wanted it: whoever comes so late cannot know what was done
/// meanwhile in his name.
fn renew(
    fence: &mut Fence,
    epoch: u64,
    leasing: &Leasing,
    acquisition: &AcquisitionId,
) -> LeaseReply {
    let is_own = |lease: &&mut Lease| {
        (lease.acquisition == *acquisition || broken(Rule::RenewalIsTheOwners))
            && lease.token.epoch() == epoch
    };
    let Some(lease) = fence.lease.as_mut().filter(is_own) else {
        return LeaseReply::Lost;
    };
    let is_over = lease.left(leasing.seen.as_ref(), &leasing.at) == Millis::default();
    if is_over && !broken(Rule::LateRenewalIsLoss) {
        return LeaseReply::Lost;
    }
    lease.renewals = lease.renewals.saturating_add(1);
    lease.since = leasing.at;
    LeaseReply::Granted(lease.clone())
}

fn release(fence: &mut Fence, acquisition: &AcquisitionId) -> LeaseReply {
    let is_own =
        |lease: &Lease| lease.acquisition == *acquisition || broken(Rule::ReleaseIsTheOwners);
    match &fence.lease {
        Some(lease) if is_own(lease) => {
            fence.lease = None;
            // What he sends from now on is late.
            fence.closed |= fence.mark == fence.issued && !broken(Rule::ReleaseClosesTheMark);
            LeaseReply::Released
        }
        Some(_) | None => LeaseReply::Lost,
    }
}

impl Fence {
    /// The lease, if it is of the epoch in force: a new epoch cuts off all that were before.
    pub fn lease_of(&self, epoch: u64) -> Option<&Lease> {
        let lease = self.lease.as_ref();
        lease.filter(|lease| lease.token.epoch() == epoch)
    }

    /// Above the mark and above all that were issued, in the epoch in force; `None`: there is none.
    fn next_token(&self, epoch: u64) -> Option<FencingToken> {
        let known = self.mark.into_iter().chain(self.issued);
        let of_epoch = known.filter(|token| token.epoch() == epoch);
        let last = of_epoch.map(FencingToken::generation).max();
        let next = last.unwrap_or_default().checked_add(1)?;
        let token = FencingToken::new(epoch, next)?;
        if broken(Rule::TokensAreIssuedOnce) {
            return FencingToken::new(epoch, last.unwrap_or(next));
        }
        // An epoch that is behind the mark is a register that went back: nothing is issued below it.
        self.mark.is_none_or(|mark| token > mark).then_some(token)
    }

    fn issue(&mut self, lease: &Lease, own: TokenSource) {
        if !broken(Rule::IssuingRaisesTheMark) {
            self.mark = Some(lease.token);
        }
        self.closed = false;
        self.source = Some(own);
        self.acquisition = None;
        self.sequence = None;
        self.first = None;
        self.issued = Some(lease.token);
        self.lease = Some(lease.clone());
    }
}
