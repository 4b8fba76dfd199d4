//! Sidecars that share a register stand still until every deadline is past and the others have taken them for
//! dead; what they left is settled by another; then they go on where they were.
//!
//! What always holds: at most one effect per operation where the upstream honours keys, at most one attempt
//! where it does not; nothing of an older owner takes effect after something of a newer one; what a thawed
//! sidecar still knows is late evidence, and settles what nobody else could know.
//!
//! What lives elsewhere: one that stands still alone (`freeze`).

use serde_json::Value;

use crate::servers::{Database, shared};
use crate::support::call::{Call, InFlight};
use crate::support::gate::{until, until_after};
use crate::support::proxy::Proxy;
use crate::support::script::Script;
use crate::support::setup::{DEAD_AFTER, Setup};
use crate::support::upstream::{Keys, Upstream};

const OPAQUE: &str = "capability: [opaque]\n";

const IDEMPOTENT: &str =
    "capability: [idempotent]\nkey: { header: Idempotency-Key, lifetime: 24h, value: derived }\n";

const ROUTES: &str = r#"
timeouts: { connect: 2s, response: 400ms, dispatch: 400ms }
effects:
  - on: PUT /statements/{date}
    once: "publish:{path.date}:{token.generation}"
    join: 100ms
    fence:
      resource: "statement:{path.date}"
      token: { header: Fencing-Token, mode: require }
      if_older_unsettled: { wait: 100ms }
"#;

/// Where one of them stands still, with what in its hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    name: &'static str,
    left: Left,
}

/// What can be known of its attempt without it, and what it knows itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// The register has heard of nothing.
    Nothing,
    /// An admission; nothing was sent.
    Unsent,
    /// Some of the request.
    Sent,
    /// It knows the answer.
    Answered,
    /// The register knows it as well.
    Recorded,
}

const PLACES: [Place; 7] = [
    Place {
        name: "before-intent",
        left: Left::Nothing,
    },
    Place {
        name: "after-intent",
        left: Left::Unsent,
    },
    Place {
        name: "after-first-byte",
        left: Left::Sent,
    },
    Place {
        name: "after-last-byte",
        left: Left::Sent,
    },
    Place {
        name: "after-answer",
        left: Left::Answered,
    },
    Place {
        name: "before-outcome-commit",
        left: Left::Answered,
    },
    Place {
        name: "after-outcome-commit",
        left: Left::Recorded,
    },
];

/// Alice's request stands still within her sidecar; Bob's sidecar goes on.
struct Frozen {
    place: Place,
    sidecar: Proxy,
    alice: Option<InFlight>,
}

struct World {
    upstream: Upstream,
    database: Database,
    bobs: Proxy,
    frozen: Vec<Frozen>,
}

impl World {
    /// One that is frozen at each of the places, each on a statement of its own.
    fn frozen_at(places: &[Place], keys: Keys) -> Self {
        let upstream = Upstream::start(keys);
        let database = shared().database();
        let capability = match keys {
            Keys::Honoured => IDEMPOTENT,
            Keys::Ignored => OPAQUE,
        };
        let setup = || {
            let setup = Setup::new(upstream.address(), &format!("{capability}{ROUTES}"));
            setup.sharing(&database.url(), "")
        };
        let bobs = Proxy::start(setup());
        let freeze = |place: &Place| {
            let sidecar = Proxy::dying_at(setup(), &format!("{}:1:freeze", place.name));
            if place.name == "after-resend" {
                upstream.next(Script::lose_answer());
            }
            let alice = publish(&sidecar, place, 107).start();
            sidecar.until_frozen();
            Frozen {
                place: *place,
                sidecar,
                alice: Some(alice),
            }
        };
        Self {
            frozen: places.iter().map(freeze).collect(),
            bobs,
            database,
            upstream,
        }
    }

    fn state(&self, place: &Place) -> Value {
        state(&self.bobs, place)
    }

    /// As the others see it, at the latest so long after they have seen it move.
    fn until_taken_over(&self, state_of: impl Fn(Left) -> &'static str) {
        for Frozen { place, .. } in &self.frozen {
            if place.left != Left::Nothing {
                let wanted = state_of(place.left);
                until_after(DEAD_AFTER, &format!("{place:?} is {wanted}"), || {
                    self.state(place) == wanted
                });
            }
        }
        let dead = "SELECT count(*) FROM fencepost.instances WHERE dead";
        let all = self.frozen.len().to_string();
        until_after(DEAD_AFTER, "all of them are taken for dead", || {
            self.database.query(dead) == all
        });
    }

    /// Bob publishes as well. What he is told.
    fn bob_publishes(&self, place: &Place) -> (u16, String) {
        publish(&self.bobs, place, 108).send().verdict()
    }

    /// Who published what at a place, in the order of the ledger.
    fn published(&self, place: &Place) -> Vec<String> {
        let effects = self.upstream.effects();
        let here = effects.into_iter().filter(|it| it.path == path(place));
        here.map(|it| it.body).collect()
    }

    /// How many requests arrived there.
    fn heads(&self, place: &Place) -> usize {
        let heads = self.upstream.heads();
        heads.iter().filter(|it| it.word(1) == path(place)).count()
    }
}

fn path(place: &Place) -> String {
    format!("/statements/{}", place.name)
}

fn publish(at: &Proxy, place: &Place, token: u64) -> Call {
    let by = if token == 107 { "alice" } else { "bob" };
    at.put(&path(place))
        .token(&token.to_string())
        .content("text/plain", by)
}

fn state(at: &Proxy, place: &Place) -> Value {
    let path = format!("/v1/operations/provider/publish%3A{}%3A107", place.name);
    at.read(&path)["state"].clone()
}

/// What the newer owner's refused request has done already: nothing of the older one is admitted anew.
const STALE: (u16, &str) = (412, "stale-fencing-token");

fn assert_verdict(told: &(u16, String), wanted: (u16, &str), place: &Place) {
    assert_eq!((told.0, told.1.as_str()), wanted, "{place:?}");
}

/// It takes part again, under another name.
fn assert_goes_on(sidecar: &Proxy, place: &Place) {
    let after = Place {
        name: "after-all",
        ..*place
    };
    until(&format!("{place:?}: it admits again"), || {
        matches!(publish(sidecar, &after, 1).send().status, 201 | 412)
    });
}

impl World {
    /// They go on, and do all that they still will. What Alice was told by each, and the ledger's end.
    fn thaw(&mut self) -> Vec<(u16, String)> {
        for Frozen { sidecar, .. } in &self.frozen {
            sidecar.thaw();
        }
        let mut told = Vec::new();
        for Frozen {
            place,
            sidecar,
            alice,
        } in &mut self.frozen
        {
            told.push(alice.take().unwrap().answer().verdict());
            assert_goes_on(sidecar, place);
            assert!(sidecar.stop().success(), "{place:?}");
        }
        told
    }
}

#[test]
fn an_upstream_that_honours_keys_has_one_effect_of_what_is_taken_over() {
    let resend = Place {
        name: "after-resend",
        left: Left::Unsent,
    };
    let places = [&PLACES[..], &[resend]].concat();
    let mut world = World::frozen_at(&places, Keys::Honoured);
    for place in &places {
        let told = world.bob_publishes(place);
        let is_known = matches!(place.left, Left::Nothing) || world.state(place) == "COMPLETED";
        assert!(
            told.0 == 409 || (told.0 == 201 && is_known),
            "{place:?}: {told:?}"
        );
    }
    world.until_taken_over(|_| "COMPLETED");
    for place in &places {
        assert_verdict(&world.bob_publishes(place), (201, ""), place);
    }
    let wanted = |place: &Place| match place.left {
        Left::Nothing => vec!["bob"],
        _ => vec!["alice", "bob"],
    };
    for place in &places {
        assert_eq!(world.published(place), wanted(place), "{place:?}");
    }

    let told = world.thaw();

    for (place, told) in places.iter().zip(told) {
        assert!(
            matches!(told.0, 201 | 412 | 503 | 504),
            "{place:?}: {told:?}"
        );
        let known = if place.left == Left::Nothing {
            "NOTHING"
        } else {
            "COMPLETED"
        };
        assert!(
            known == "NOTHING" || world.state(place) == known,
            "{place:?}"
        );
    }
    world.bobs.stop();
    world.upstream.until_quiet();
    for place in &places {
        assert_eq!(world.published(place), wanted(place), "{place:?}");
        let most = match (place.left, *place == resend) {
            (Left::Nothing, _) => 1,
            (Left::Unsent, false) | (Left::Recorded, _) => 2,
            (Left::Unsent, true) | (Left::Sent | Left::Answered, _) => 3,
        };
        assert!(world.heads(place) <= most, "{place:?}");
    }
}

/// C17.
#[test]
fn an_upstream_that_cannot_deduplicate_gets_one_attempt_of_what_is_taken_over() {
    let mut world = World::frozen_at(&PLACES, Keys::Ignored);
    world.until_taken_over(|left| match left {
        Left::Recorded => "COMPLETED",
        _ => "NEEDS_ATTENTION",
    });
    for place in &PLACES {
        let told = world.bob_publishes(place);
        let may = matches!(place.left, Left::Nothing | Left::Recorded);
        assert_eq!(told.0, if may { 201 } else { 409 }, "{place:?}: {told:?}");
    }

    let told = world.thaw();

    for (place, told) in PLACES.iter().zip(told) {
        let (state, expected): (_, &[u16]) = match place.left {
            Left::Nothing => (None, &[412, 503, 504]),
            // Nobody but the thawed one could know.
            Left::Unsent => (Some("NOT_APPLIED"), &[503]),
            Left::Sent => (None, &[201, 409, 504]),
            Left::Answered | Left::Recorded => (Some("COMPLETED"), &[201, 504]),
        };
        assert!(expected.contains(&told.0), "{place:?}: {told:?}");
        if let Some(state) = state {
            assert_eq!(world.state(place), state, "{place:?}");
        }
        let alice = publish(&world.bobs, place, 107).send().verdict();
        let bob = world.bob_publishes(place);
        match place.left {
            Left::Nothing | Left::Unsent => {
                assert_verdict(&alice, STALE, place);
                assert_verdict(&bob, (201, ""), place);
            }
            Left::Answered | Left::Recorded => {
                assert_verdict(&alice, (201, ""), place);
                assert_verdict(&bob, (201, ""), place);
            }
            Left::Sent => assert_eq!(alice.0, bob.0, "{place:?}: {alice:?} {bob:?}"),
        }
    }
    world.bobs.stop();
    world.upstream.until_quiet();
    for place in &PLACES {
        let published = world.published(place);
        let all: &[&[&str]] = match place.left {
            Left::Nothing | Left::Unsent => &[&["bob"]],
            // Perhaps it has arrived whole, perhaps not; nobody knows.
            Left::Sent => &[&[], &["alice"], &["alice", "bob"]],
            Left::Answered | Left::Recorded => &[&["alice", "bob"]],
        };
        assert!(
            all.iter().any(|it| published == *it),
            "{place:?}: {published:?}"
        );
        let attempts = world.heads(place);
        assert!(attempts <= published.len().max(1), "{place:?}: {attempts}");
    }
}
