//! Contract §7: who owns a resource for a while, and the token that orders him.

use super::current::acquired_by;
use super::*;

pub(super) const TTL: u64 = 30_000;

/// A process that asks for leases, and remembers how it saw them first.
#[derive(Default)]
pub(super) struct Door {
    pub(super) seen: Option<Sight>,
}

impl Door {
    pub(super) fn ask(&mut self, world: &mut World, wish: Wish) -> LeaseReply {
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

    pub(super) fn acquire(&mut self, world: &mut World, acquisition: &str) -> LeaseReply {
        let wish = Wish::Acquire {
            acquisition: AcquisitionId::new(acquisition),
            holder: "worker-1".to_owned(),
            ttl: Millis(TTL),
        };
        self.ask(world, wish)
    }

    pub(super) fn renew(&mut self, world: &mut World, acquisition: &str) -> LeaseReply {
        let acquisition = AcquisitionId::new(acquisition);
        self.ask(world, Wish::Renew { acquisition })
    }

    pub(super) fn release(&mut self, world: &mut World, acquisition: &str) -> LeaseReply {
        let acquisition = AcquisitionId::new(acquisition);
        self.ask(world, Wish::Release { acquisition })
    }
}

pub(super) fn granted(reply: LeaseReply) -> Lease {
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
