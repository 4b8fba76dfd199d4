//! C10: ten thousand callers, most of whom hang up, at whatever moment.
//!
//! What always holds: time stands still for the leases, so that none of them ends by itself: whoever waits in vain waits
//! for one that nobody has. One thread, and choices by chance that can be made again: the seed is printed.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::lost::staged;
use super::stage::Staged;
use super::*;
use crate::protocol::ids::FencingToken;

const AT_ONCE: usize = 20;
const EACH: usize = 500;
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// `SplitMix64`.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % u64::try_from(end).unwrap()).unwrap()
    }
}

/// What callers were told.
#[derive(Default)]
struct Told {
    /// The highest token of each resource, and whether its owner has it still.
    tokens: BTreeMap<String, (FencingToken, bool)>,
    granted: usize,
    refused: usize,
    hung_up: usize,
    released: usize,
}

impl Told {
    fn granted(&mut self, owned: &Owned) {
        let name = owned.resource.name.to_string();
        let token = owned.lease.token;
        if let Some((last, is_owned)) = self.tokens.insert(name, (token, true)) {
            assert!(!is_owned, "{token} while {last} is somebody's");
            assert!(token > last, "{token} after {last}");
        }
        self.granted += 1;
    }

    fn gives_back(&mut self, owned: &Owned) {
        let known = self.tokens.get_mut(&*owned.resource.name.to_string());
        known.unwrap().1 = false;
    }
}

/// One caller after the other.
struct Caller {
    backend: Arc<Staged>,
    own: Own,
    dice: Dice,
    told: Arc<Mutex<Told>>,
}

impl Caller {
    async fn call(&mut self) {
        // The answer to whoever is next is lost.
        if self.dice.below(150) == 0 {
            self.backend.loses.fetch_add(1, Ordering::SeqCst);
        }
        let wait = if self.dice.below(4) == 0 { 0 } else { 60_000 };
        let wanted = wanted("w", wait);
        let how_many = if self.dice.below(4) == 0 { 2 } else { 1 };
        let first = self.dice.below(NAMES.len());
        let names = NAMES.iter().cycle().skip(first).take(how_many);
        let names: Vec<ResourceKey> = names.map(|name| resource(name)).collect();
        let own = self.own.clone();
        let asked = async move {
            match &*names {
                [one] => own.acquire(one, &wanted).await.map(|owned| vec![owned]),
                _ => own
                    .acquire_all(names, &wanted)
                    .await
                    .map_err(|(_, why)| why),
            }
        };
        let Some(told) = self.or_hangs_up(asked).await else {
            return;
        };
        let owned = match told {
            Ok(owned) => owned,
            Err(NoLease::Held(_)) if wait == 0 => {
                self.told.lock().unwrap().refused += 1;
                return;
            }
            Err(why) => panic!("{why}"),
        };
        for one in &owned {
            self.told.lock().unwrap().granted(one);
        }
        self.works(&owned).await;
        for one in &owned {
            self.told.lock().unwrap().gives_back(one);
        }
        for one in owned {
            let own = self.own.clone();
            let released = async move { own.release(&one.resource, &one.lease.acquisition).await };
            match self.or_hangs_up(released).await {
                Some(Ok(())) => self.told.lock().unwrap().released += 1,
                Some(Err(NoLease::Store(StoreError::CommitUnknown(_)))) | None => {}
                Some(Err(why)) => panic!("{why}"),
            }
        }
    }

    /// Whoever owns it renews it now and then.
    async fn works(&mut self, owned: &[Owned]) {
        for one in owned {
            if self.dice.below(3) > 0 {
                tokio::task::yield_now().await;
                continue;
            }
            let (own, one) = (self.own.clone(), one.clone());
            let renewed = async move { own.renew(&one.resource, &one.lease.acquisition).await };
            match self.or_hangs_up(renewed).await {
                Some(Ok(_) | Err(NoLease::Store(StoreError::CommitUnknown(_)))) | None => {}
                Some(Err(why)) => panic!("{why}"),
            }
        }
    }

    /// Most have some patience; some have all of it.
    async fn or_hangs_up<T>(&mut self, asked: impl Future<Output = T>) -> Option<T> {
        if self.dice.below(4) == 0 {
            return Some(asked.await);
        }
        let most = *[4, 20, 100].get(self.dice.below(3)).unwrap();
        let turns = self.dice.below(most);
        let patience = async {
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
        };
        // Asked first: whoever begins has begun.
        tokio::select! {
            biased;
            told = asked => Some(told),
            () = patience => {
                self.told.lock().unwrap().hung_up += 1;
                None
            }
        }
    }
}

#[tokio::test]
async fn nothing_is_kept_for_ten_thousand_who_hang_up_at_whatever_moment() {
    let seed = boottime_us();
    println!("seed {seed}");
    let (backend, own, _clock) = staged();
    let mut dice = Dice(seed);
    *backend.dallies.lock().unwrap() = Some(Box::new(move || dice.below(4)));
    let told = Arc::<Mutex<Told>>::default();
    let callers = (1..=u64::try_from(AT_ONCE).unwrap()).map(|number| {
        let mut caller = Caller {
            backend: Arc::clone(&backend),
            own: own.clone(),
            dice: Dice(seed.wrapping_mul(31).wrapping_add(number)),
            told: Arc::clone(&told),
        };
        spawn(async move {
            for _ in 0..EACH {
                caller.call().await;
            }
        })
    });
    let callers: Vec<_> = callers.collect();
    // Some seconds; whoever waits for what nobody has waits for ever.
    let over = tokio::time::timeout(Duration::from_secs(60), async {
        for caller in callers {
            caller.await.unwrap();
        }
        // What was begun is brought to its end, whoever hung up.
        own.tasks.close();
        own.tasks.wait().await;
    });
    over.await.expect("somebody waits in vain");
    for name in NAMES {
        assert_eq!(backend.lease(name).await, None, "{name}");
        assert_eq!(own.live(&resource(name)), None, "{name}");
    }
    let told = std::mem::take(&mut *told.lock().unwrap());
    let counts = (told.granted, told.refused, told.hung_up, told.released);
    println!("granted, refused, hung up, released: {counts:?}");
    let enough = [told.granted, told.hung_up, told.released];
    assert!(enough.iter().all(|count| *count > 1_000), "{counts:?}");
    backend.loses.store(0, Ordering::SeqCst);
    for name in NAMES {
        let (last, _) = told.tokens[name];
        let next = own.acquire(&resource(name), &wanted("next", 0)).await;
        assert!(next.unwrap().lease.token > last, "{name}");
    }
}
