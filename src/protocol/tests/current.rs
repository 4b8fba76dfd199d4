//! Contract §4 and §5: what needs a lease that is live, when it is admitted and when it is sent again.

use super::leases::{Door, TTL, granted};
use super::*;

impl World {
    /// This instance acquires it, and knows that it is live until then.
    fn owns(&mut self, acquisition: &'static str, until_ms: u64) -> Lease {
        let lease = granted(Door::default().acquire(self, acquisition));
        self.knows(acquisition, until_ms);
        lease
    }

    fn knows(&mut self, acquisition: &'static str, until_ms: u64) {
        self.lease = LeaseFacts::of(Some(LiveLease {
            acquisition: AcquisitionId::new(acquisition),
            until: BootInstant(until_ms),
        }));
    }

    /// As a reconciler that finds no step.
    fn plan_says_park(&mut self, key: &OperationKey) -> Option<State> {
        let park = Park {
            key: key.clone(),
            fit: true,
            lease: self.lease.clone(),
            at: self.now(),
        };
        match self.apply(&Command::Park(park)) {
            Reply::Parked(state) => state,
            other => panic!("{other:?}"),
        }
    }

    /// Nobody renews it, and so much time passes that it is anybody's.
    fn expires(&mut self) {
        let held = self.fences.get(&resource()).and_then(|it| it.lease.clone());
        // As whoever saw it long ago would find it.
        if let Some(seen) = held.map(|lease| lease.seen(self.now())) {
            self.now_ms += TTL;
            let mut door = Door { seen: Some(seen) };
            granted(door.acquire(self, "somebody"));
            let gone = door.release(self, "somebody");
            assert_eq!(gone, LeaseReply::Released);
        }
    }
}

fn current(id: &'static str, token: &str) -> Ask {
    of_own_source(id, token).with(|ask| ask.fence_policy().require = Ownership::Current)
}

/// A request with the register's own token, and no acquisition.
fn of_own_source(id: &'static str, token: &str) -> Ask {
    Ask::fenced(id, token).with(|ask| ask.source = OWN_SOURCE)
}

pub(super) fn acquired_by(id: &'static str, token: &str, acquisition: &'static str) -> Ask {
    of_own_source(id, token).with(|ask| ask.acquisition = Some(acquisition))
}

#[test]
fn an_effect_that_needs_a_live_lease_is_refused_where_nobody_can_know() {
    let mut world = World::new();
    granted(Door::default().acquire(&mut world, "a"));
    // Held, but by whoever renews it elsewhere.
    let refusal = refused(world.admit(&current("a", "1")));
    assert_eq!(refusal, Rejection::LeaseNotCurrent);
    world.knows("a", 3_000);
    let grant = world.granted(&current("a", "1"));
    assert_eq!(grant.dispatch_by, BootInstant(3_000), "not beyond it");
    world.now_ms = 3_000;
    let refusal = refused(world.admit(&current("b", "1")));
    assert_eq!(refusal, Rejection::LeaseNotCurrent);
}

/// C02: whoever lost his lease is told so by the register, whatever his own clock says.
#[test]
fn a_lease_that_the_register_does_not_hold_any_more_is_not_live() {
    let until = 100 * TTL;
    for lose in [
        |world: &mut World| world.expires(),
        |world: &mut World| {
            let gone = Door::default().release(world, "a");
            assert_eq!(gone, LeaseReply::Released);
        },
        |world: &mut World| world.epoch = 1,
        |world: &mut World| {
            world.steer(Steering::Advance);
        },
    ] {
        let mut world = World::new();
        world.owns("a", until);
        lose(&mut world);
        // A token that is let pass is not what makes him the owner.
        let observed = current("a", "1").with(|ask| ask.fence_policy().token = TokenMode::Observe);
        let admission = world.admission(&observed);
        assert!(admission.would_refuse.is_some());
        let none = current("b", "1").with(|ask| {
            ask.token = TokenField::Absent;
            ask.fence_policy().token = TokenMode::Prefer;
        });
        let refusal = refused(world.admit(&none));
        assert_eq!(refusal, Rejection::LeaseNotCurrent);
    }
}

/// The first byte leaves before both: the effect's own limit, and the lease's deadline where the lease must be live.
#[test]
fn dispatch_by_is_the_earlier_of_the_effects_own_limit_and_the_leases_deadline() {
    let by = |ownership, until| {
        let mut world = World::new();
        world.owns("a", until);
        let ask = of_own_source("a", "1").with(|ask| ask.fence_policy().require = ownership);
        world.granted(&ask).dispatch_by.0
    };
    let own = World::new().now_ms + 5_000;
    for (until, expected) in [(own - 1, own - 1), (own, own), (own + 1, own)] {
        assert_eq!(by(Ownership::Current, until), expected);
        assert_eq!(by(Ownership::NotOlder, until), own);
    }
}

/// An absent acquisition is accepted until a request names one; a named one is the lease's.
#[test]
fn an_own_token_goes_with_the_acquisition_that_it_was_granted_under() {
    let mut world = World::new();
    world.owns("a", 30_000);
    let named = |id, acquisition| of_own_source(id, "1").with(|ask| ask.acquisition = acquisition);
    world.granted(&named("k", None).with(|ask| ask.policy.order = Order::Free));
    let refusal = refused(world.admit(&named("l", Some("b"))));
    let is_his = |refusal: &Rejection| matches!(refusal, Rejection::TokenHeldByAnother { .. });
    assert!(is_his(&refusal), "{refusal:?}");
    world.granted(&named("m", Some("a")).with(|ask| ask.policy.order = Order::Free));
    let refusal = refused(world.admit(&named("n", None)));
    assert!(is_his(&refusal), "{refusal:?}");
}

/// Contract §5: what was admitted under a lease is sent again under it, and no longer than it lasts.
#[test]
fn a_resend_needs_the_lease_that_it_was_admitted_under() {
    let mut world = World::new();
    world.owns("a", 20_000);
    let grant = world.granted(&current("k", "1"));
    world.record(&grant, lost());
    let again = match world.resend(&grant.key) {
        ResendReply::Granted(again) => again,
        other => panic!("{other:?}"),
    };
    assert!(again.dispatch_by <= BootInstant(20_000));
    world.record(&again, lost());
    world.knows("a", world.now_ms);
    let gone = ResendReply::Forbidden(Parked::NotCurrent);
    assert_eq!(world.resend(&grant.key), gone);
    world.lease = LeaseFacts::unknown();
    assert_eq!(world.resend(&grant.key), gone, "nobody here can know");
}

/// Contract §5, *Current*: the owner is gone, and a repeat by the next one licenses one resend, under his lease. He
/// stays a joiner, and uses up nothing of his generation.
#[test]
fn a_repeat_by_the_next_owner_licenses_one_resend() {
    let mut world = World::new();
    world.owns("a", 20_000);
    let grant = world.granted(&current("k", "1"));
    world.record(&grant, lost());
    world.expires();
    world.lease = LeaseFacts::unknown();
    let gone = ResendReply::Forbidden(Parked::NotCurrent);
    assert_eq!(world.resend(&grant.key), gone);
    let needs_a_person = Some(State::NeedsAttention(Parked::NotCurrent));
    assert_eq!(world.plan_says_park(&grant.key), needs_a_person);
    // Not for whoever is no owner.
    let refusal = refused(world.admit(&current("k", "2")));
    assert!(
        matches!(refusal, Rejection::NeedsAttention(_)),
        "{refusal:?}"
    );

    let until = world.now_ms + 2_000;
    let bob = world.owns("b", until);
    let by_bob = current("k", &bob.token.to_string());
    let before = world.fence().clone();
    let joined = world.admit(&by_bob);
    let Ruling::Join { licenses, .. } = joined else {
        panic!("{joined:?}");
    };
    assert!(licenses);
    assert_eq!(
        (world.fence().first.clone(), world.fence().sequence),
        (None, None)
    );
    assert_eq!(world.fence().admissions, before.admissions);
    // Owning it is not asking for it.
    let waits = ResendReply::Settled(needs_a_person);
    assert_eq!(world.resend(&grant.key), waits);
    world.lease.licensed = true;
    let again = match world.resend(&grant.key) {
        ResendReply::Granted(again) => again,
        other => panic!("{other:?}"),
    };
    assert_eq!(again.dispatch_by, BootInstant(until), "under his lease");
    world.record(&again, applied());
    assert!(matches!(world.admit(&by_bob), Ruling::Replay { .. }));
}

/// A licence is no more than it says: every other rule stands.
#[test]
fn a_licence_sends_nothing_that_was_cut_off() {
    let mut world = World::new();
    world.owns("a", 20_000);
    let grant = world.granted(&current("k", "1"));
    world.record(&grant, lost());
    world.steer(Steering::Advance);
    let until = world.now_ms + 10_000;
    world.owns("b", until);
    world.lease.licensed = true;
    let cut_off = ResendReply::Forbidden(Parked::CutOff);
    assert_eq!(world.resend(&grant.key), cut_off);
}

/// The owner whose own operation was given up, because this instance did not know him for the owner (it was started
/// anew), has it sent once he is known again.
#[test]
fn an_owner_who_is_known_again_licenses_his_own() {
    let mut world = World::new();
    world.owns("a", 20_000);
    let grant = world.granted(&current("k", "1"));
    world.record(&grant, lost());
    world.lease = LeaseFacts::unknown();
    let waits = Some(State::NeedsAttention(Parked::NotCurrent));
    assert_eq!(world.plan_says_park(&grant.key), waits);
    world.knows("a", 20_000);
    let joined = world.admit(&current("k", "1"));
    assert!(
        matches!(joined, Ruling::Join { licenses: true, .. }),
        "{joined:?}"
    );
    world.lease.licensed = true;
    let again = world.resend(&grant.key);
    assert!(matches!(again, ResendReply::Granted(_)), "{again:?}");
}
