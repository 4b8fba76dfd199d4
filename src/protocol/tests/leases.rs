//! Contract §7: who owns a resource for a while, and the token that orders him.

use super::*;

const TTL: u64 = 30_000;

/// A process that asks for leases, and remembers how it saw them first.
#[derive(Default)]
struct Door {
    seen: Option<Sight>,
}

impl Door {
    fn ask(&mut self, world: &mut World, wish: Wish) -> LeaseReply {
        let leasing = Leasing {
            resource: resource(),
            wish,
            seen: self.seen.clone(),
            at: world.now(),
        };
        let reply = match world.apply(&Command::Lease(leasing)) {
            Reply::Leased(reply) => reply,
            other => panic!("{other:?}"),
        };
        if let LeaseReply::Granted(lease) | LeaseReply::Held(lease, _) = &reply {
            let now = lease.seen(world.now());
            let known = self.seen.take();
            self.seen = known
                .filter(|it| (it.token, it.renewals) == (now.token, now.renewals))
                .or(Some(now));
        }
        reply
    }

    fn acquire(&mut self, world: &mut World, acquisition: &str) -> LeaseReply {
        let wish = Wish::Acquire {
            acquisition: AcquisitionId::new(acquisition),
            holder: "worker-1".to_owned(),
            ttl: Millis(TTL),
        };
        self.ask(world, wish)
    }

    fn renew(&mut self, world: &mut World, acquisition: &str) -> LeaseReply {
        let acquisition = AcquisitionId::new(acquisition);
        self.ask(world, Wish::Renew { acquisition })
    }

    fn release(&mut self, world: &mut World, acquisition: &str) -> LeaseReply {
        let acquisition = AcquisitionId::new(acquisition);
        self.ask(world, Wish::Release { acquisition })
    }
}

fn granted(reply: LeaseReply) -> Lease {
    match reply {
        LeaseReply::Granted(lease) => lease,
        other => panic!("{other:?}"),
    }
}

fn left(reply: &LeaseReply) -> u64 {
    match reply {
        LeaseReply::Held(_, left) => left.0,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_lease_is_one_owners_until_its_time_is_over() {
    let (mut world, mut door) = (World::new(), Door::default());
    let first = granted(door.acquire(&mut world, "a"));
    assert_eq!(first.token, token("1"));
    // Asked twice it is one, and whoever counts its time counts anew.
    let again = granted(door.acquire(&mut world, "a"));
    assert_eq!((again.token, again.renewals), (first.token, 1));
    world.now_ms += 10_000;
    assert_eq!(left(&door.acquire(&mut world, "b")), TTL - 10_000);
    // Every renewal is for the whole time again.
    assert_eq!(granted(door.renew(&mut world, "a")).renewals, 2);
    world.now_ms += TTL - 1;
    assert_eq!(left(&door.acquire(&mut world, "b")), 1);
    world.now_ms += 1;
    let second = granted(door.acquire(&mut world, "b"));
    assert_eq!(second.token, token("2"));
    assert_eq!(door.renew(&mut world, "a"), LeaseReply::Lost);
    assert_eq!(door.release(&mut world, "a"), LeaseReply::Lost);
    assert_eq!(world.fences[&resource()].lease, Some(second));
}

/// Contract §7: a renewal that comes late is loss of ownership, though nobody else came.
#[test]
fn a_renewal_that_comes_late_is_none() {
    let (mut world, mut door) = (World::new(), Door::default());
    granted(door.acquire(&mut world, "a"));
    world.now_ms += TTL;
    assert_eq!(door.renew(&mut world, "a"), LeaseReply::Lost);
    assert_eq!(granted(door.acquire(&mut world, "b")).token, token("2"));
}

/// Contract §7: a restart, another machine, a clock of another boot: a lease has its full time again before anyone
/// else may take it, and its holder may renew it.
#[test]
fn whoever_has_not_seen_it_gives_it_its_full_time() {
    let (mut world, mut door) = (World::new(), Door::default());
    granted(door.acquire(&mut world, "a"));
    for boot in [1, 2] {
        world.now_ms += 10 * TTL;
        world.boot = BootId(boot);
        let mut anew = Door::default();
        assert_eq!(left(&anew.acquire(&mut world, "b")), TTL);
        world.now_ms += TTL - 1;
        assert_eq!(left(&anew.acquire(&mut world, "b")), 1);
    }
    let mut anew = Door::default();
    assert_eq!(granted(anew.renew(&mut world, "a")).renewals, 1);
    // Whoever watched the one before watches another now.
    assert_eq!(left(&door.acquire(&mut world, "b")), TTL);
    world.now_ms += TTL;
    granted(door.acquire(&mut world, "b"));
}

/// C: the old owner is cut off before the new one's first request, though he never hears of it.
#[test]
fn acquiring_advances_the_fence() {
    let (mut world, mut door) = (World::new(), Door::default());
    granted(door.acquire(&mut world, "a"));
    let grant = world.granted(&acquired_by("first", "1", "a"));
    world.record(&grant, applied());
    world.now_ms += TTL;
    granted(door.acquire(&mut world, "b"));
    let stale = Rejection::StaleToken {
        presented: token("1"),
        current: Some(token("2")),
        epoch: None,
    };
    assert_eq!(refused(world.admit(&acquired_by("late", "1", "a"))), stale);
    // Nor is the new one's token his who did not acquire it.
    let another = refused(world.admit(&acquired_by("other", "2", "a")));
    assert!(matches!(another, Rejection::TokenHeldByAnother { .. }));
    world.granted(&acquired_by("second", "2", "b"));
}

/// Tokens never repeat or go back, whatever becomes of leases.
#[test]
fn no_token_is_issued_twice() {
    let (mut world, mut door) = (World::new(), Door::default());
    let mut last = None;
    let names = ["a", "b", "c", "d", "e", "f"];
    for (round, name) in names.into_iter().enumerate() {
        let lease = granted(door.acquire(&mut world, name));
        assert!(last < Some(lease.token), "{last:?}, then {}", lease.token);
        last = Some(lease.token);
        match round {
            0 => assert_eq!(door.release(&mut world, name), LeaseReply::Released),
            1 => drop(world.steer(Steering::Advance)),
            2 => {
                world.steer(Steering::Cancel);
                assert_eq!(door.acquire(&mut world, "x"), LeaseReply::Cancelled);
                world.steer(Steering::Reopen);
            }
            3 => world.epoch = 5,
            _ => world.now_ms += TTL,
        }
        // Whoever was cut off holds nothing.
        assert_eq!(door.renew(&mut world, name), LeaseReply::Lost, "{round}");
    }
    assert_eq!(last, Some(token("5:2")));
    // Nobody gets a token that the register did not issue.
    let forged = refused(world.admit(&acquired_by("x", "5:3", "f")));
    assert!(matches!(
        forged,
        Rejection::TokenUnknown {
            why: UnknownToken::NeverIssued,
            ..
        }
    ));
}

/// What he sends after he gave it back is late.
#[test]
fn a_released_lease_orders_nothing_any_more() {
    let (mut world, mut door) = (World::new(), Door::default());
    granted(door.acquire(&mut world, "a"));
    assert_eq!(door.release(&mut world, "a"), LeaseReply::Released);
    let late = refused(world.admit(&acquired_by("late", "1", "a")));
    assert!(matches!(late, Rejection::StaleToken { .. }));
    assert_eq!(door.release(&mut world, "a"), LeaseReply::Lost);
}

/// Two who count would not know of each other.
#[test]
fn a_resource_whose_tokens_come_from_elsewhere_is_leased_to_nobody() {
    let (mut world, mut door) = (World::new(), Door::default());
    world.granted(&Ask::fenced("a", "107"));
    let before = world.fences[&resource()].clone();
    assert!(matches!(
        door.acquire(&mut world, "a"),
        LeaseReply::OtherSource(_)
    ));
    assert_eq!(world.fences[&resource()], before);
}

#[test]
fn where_no_token_is_left_none_is_issued() {
    let (mut world, mut door) = (World::new(), Door::default());
    granted(door.acquire(&mut world, "a"));
    let last = FencingToken::new(0, (1 << 63) - 1).unwrap();
    world.fences.get_mut(&resource()).unwrap().issued = Some(last);
    world.now_ms += TTL;
    let before = world.fences[&resource()].clone();
    assert_eq!(door.acquire(&mut world, "b"), LeaseReply::Exhausted);
    assert_eq!(world.fences[&resource()], before);
}

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

fn acquired_by(id: &'static str, token: &str, acquisition: &'static str) -> Ask {
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

/// Contract §7: whoever holds it is cut off, and the next one's token is above whatever was handed out.
#[test]
fn an_advance_burns_the_generation_of_a_lease() {
    let (mut world, mut door) = (World::new(), Door::default());
    let first = granted(door.acquire(&mut world, "a"));
    let sent = world.granted(&acquired_by("x", "1", "a"));
    let Steered::Done {
        mark, in_flight, ..
    } = world.steer(Steering::Advance)
    else {
        panic!()
    };
    assert_eq!(mark, Some(first.token));
    assert_eq!(in_flight.len(), 1);
    assert_eq!(in_flight[0].key, sent.key);
    assert!(is_stale(&world.admit(&acquired_by("y", "1", "a"))));
    assert_eq!(door.renew(&mut world, "a"), LeaseReply::Lost);
    // At once: whoever waits need not wait for the end of a lease that is gone.
    assert_eq!(granted(door.acquire(&mut world, "b")).token, token("2"));
}

/// Contract §4: what a person lets in was issued, from then on; nobody else is given it.
#[test]
fn an_accepted_token_of_the_register_counts_as_issued() {
    let (mut world, mut door) = (World::new(), Door::default());
    granted(door.acquire(&mut world, "a"));
    let accept = |world: &mut World, text: &str| {
        let token = token(text);
        world.steer(Steering::Accept {
            token,
            source: None,
        })
    };
    assert!(matches!(accept(&mut world, "40"), Steered::Done { .. }));
    assert_eq!(door.renew(&mut world, "a"), LeaseReply::Lost);
    world.granted(&acquired_by("x", "40", "z"));
    assert_eq!(granted(door.acquire(&mut world, "b")).token, token("41"));
}

/// The register knows what it issued: nobody states it.
#[test]
fn a_resource_of_own_leases_is_repaired_to_what_was_issued() {
    let (mut world, mut door) = (World::new(), Door::default());
    let lease = granted(door.acquire(&mut world, "a"));
    // As a register of before let it come to this, where a stranger's token was taken for its own.
    world.fences.get_mut(&resource()).unwrap().mark = Some(token("900"));
    let repair = |to: Option<&str>| Steering::Repair {
        to: to.map(token),
        disown: vec![],
    };
    let refused = world.steer(repair(Some("7")));
    let why = NotRepaired::Issued(lease.token);
    assert_eq!(refused, Steered::NotRepaired(why));
    let Steered::Done { mark, closed, .. } = world.steer(repair(None)) else {
        panic!()
    };
    assert_eq!((mark, closed), (Some(token("1")), false));
    // Its holder goes on, and what comes after him is newer.
    assert_eq!(granted(door.renew(&mut world, "a")).token, token("1"));
    world.granted(&acquired_by("x", "1", "a"));
    world.now_ms += TTL;
    assert_eq!(granted(door.acquire(&mut world, "b")).token, token("2"));
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

/// What a register that may have gone back, or is full, grants nobody.
#[test]
fn who_asks_for_ownership_asks_for_the_right_to_attempt() {
    let acquisition = AcquisitionId::new("a");
    let asks = |wish| {
        let leasing = Leasing {
            resource: resource(),
            wish,
            seen: None,
            at: World::new().now(),
        };
        Command::Lease(leasing).asks_for_attempt()
    };
    assert!(asks(Wish::Acquire {
        acquisition: acquisition.clone(),
        holder: String::new(),
        ttl: Millis(TTL),
    }));
    assert!(asks(Wish::Renew {
        acquisition: acquisition.clone()
    }));
    assert!(!asks(Wish::Release { acquisition }));
}
