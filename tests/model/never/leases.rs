//! What must never become of a lease.

use fencepost::protocol::lease::Lease;

use super::super::scenario::TICK_MS;
use super::super::wire::Try;
use super::super::world::World;
use super::{Judged, never};

/// An acquisition was granted.
pub fn leased(before: &World, proxy: u8, acquisition: u8, lease: &Lease) -> Judged {
    if before.seen.owner == Some(acquisition) {
        return renewed_by(before, acquisition);
    }
    never(before.seen.cancelled, || {
        "a cancelled resource was leased to somebody".to_owned()
    })?;
    let repeats = before
        .seen
        .issued
        .is_some_and(|issued| lease.token <= issued);
    never(repeats, || {
        format!(
            "token {} was issued, which is not above all that were",
            lease.token
        )
    })?;
    let now = u64::from(before.now) * TICK_MS;
    let owned = before.seen.owner.is_some_and(|owner| {
        let others = before.live.iter().enumerate();
        let mut live = others.filter_map(|(of, live)| live.map(|live| (of, live)));
        live.any(|(_, live)| live.acquisition == owner && live.until_ms > now)
    });
    never(owned, || {
        format!("at proxy {proxy} a lease was granted while its owner may still take it for his")
    })
}

/// A renewal was granted, which was asked for then.
pub fn renewed(before: &World, proxy: u8, acquisition: u8, at_ms: u64, ttl_ms: u64) -> Judged {
    renewed_by(before, acquisition)?;
    let current = before.fences[0].as_ref().and_then(|it| it.lease.as_ref());
    let over = before.sights[usize::from(proxy)].is_some_and(|sight| {
        current
            .is_some_and(|it| (it.token, it.renewals) == (sight.token, u64::from(sight.renewals)))
            && at_ms >= u64::from(sight.at) * TICK_MS + ttl_ms
    });
    never(over, || "a lease was renewed after its time".to_owned())
}

fn renewed_by(before: &World, acquisition: u8) -> Judged {
    never(before.seen.owner != Some(acquisition), || {
        "a lease was renewed by whoever had lost it".to_owned()
    })
}

/// A release was granted.
pub fn released(before: &World, acquisition: u8) -> Judged {
    never(before.seen.owner != Some(acquisition), || {
        "a lease was released by whoever had lost it".to_owned()
    })
}

/// What needs ownership was admitted, or sent again.
pub fn is_owner(before: &World, attempt: &Try) -> Judged {
    let name = attempt.name;
    let is_proxy = |instance: &u8| *instance == attempt.instance;
    let proxy = before.proxies.iter().position(is_proxy);
    let live = proxy.and_then(|proxy| before.live[proxy]);
    let live = live.filter(|live| live.until_ms > u64::from(attempt.at) * TICK_MS);
    never(live.is_none(), || {
        format!("{name} was admitted without a live lease")
    })?;
    let lost = live.is_some_and(|live| before.seen.owner != Some(live.acquisition));
    never(lost, || {
        format!("{name} was admitted under a lease that is lost")
    })?;
    let beyond = live.is_some_and(|live| u64::from(attempt.dispatch_by) > live.until_ms);
    never(beyond, || format!("{name} could leave after its lease"))
}

/// What was admitted under a lease that is lost was sent again: by whose word?
pub fn is_licensed(before: &World, attempt: &Try, attended: bool) -> Judged {
    let name = attempt.name;
    let of_the_owner = attempt.token == before.seen.issued;
    let is_proxy = |(proxy, licensed): &(u8, _)| {
        before.proxies[usize::from(*proxy)] == attempt.instance && *licensed == name
    };
    let licensed = before.licences.iter().any(is_proxy);
    never(!(of_the_owner || licensed || attended), || {
        format!("{name} was sent again under a later lease, and its owner had not asked for it")
    })
}
