//! What is remembered of work, for how long, and of how much.

use std::cell::Cell;

use http::HeaderValue;

use super::*;
use crate::clock::Manual;
use crate::config::Pin as Rule;
use crate::protocol::time::{BootId, Moment as Instant};

const HEADER: &str = "x-work";
const KEEP: Millis = Millis(10_000);

/// A way in, and who owns what.
struct Ground {
    clock: Manual,
    pins: Pins,
    /// The acquisition of `a` by its number; none is 0.
    owned: Cell<u64>,
}

fn way(name: &str, by: PinBy, strict: bool, resources: &[&str]) -> Inbound {
    Inbound {
        name: name.to_owned(),
        listen: "127.0.0.1:0".parse().unwrap(),
        listen_tls: None,
        url: "http://127.0.0.1:1".parse().unwrap(),
        pin: Rule {
            by,
            required: false,
            strict,
        },
        keep: KEEP,
        at_most: 3,
        resources: resources.iter().map(ResourceName::new).collect(),
    }
}

fn by_header() -> PinBy {
    PinBy::Header(http::HeaderName::from_static(HEADER))
}

fn headers(ids: &[&str]) -> HeaderMap {
    let name = http::HeaderName::from_static(HEADER);
    let ids = ids.iter();
    ids.map(|id| (name.clone(), HeaderValue::from_str(id).unwrap()))
        .collect()
}

fn past(number: u64) -> Past {
    Past {
        token: FencingToken::new(0, number).unwrap(),
        acquisition: AcquisitionId::new(format!("a-{number}")),
    }
}

impl Ground {
    fn new(ways: &[Inbound]) -> Self {
        let clock = Manual::at(Instant {
            boot: BootId(1),
            boottime: BootInstant(5_000),
            wall_ms: 0,
        });
        let pins = Pins::new(ways, &clock.clock());
        Self {
            clock,
            pins,
            owned: Cell::new(0),
        }
    }

    fn with_one() -> Self {
        Self::new(&[way("one", by_header(), false, &["a"])])
    }

    fn own(&self, number: u64) {
        self.owned.set(number);
    }

    fn note(&self, way: usize, ids: &[&str]) -> Noted {
        let owned = self.owned.get();
        self.pins
            .note(way, &headers(ids), |_| (owned > 0).then(|| past(owned)))
    }

    /// And is answered.
    fn comes_in(&self, way: usize, ids: &[&str]) -> bool {
        match self.note(way, ids) {
            Noted::Work(note) => {
                self.pins.answered(&note);
                true
            }
            Noted::Nothing | Noted::NoRoom => false,
        }
    }

    fn begun(&self, ids: &[&str]) -> Note {
        match self.note(0, ids) {
            Noted::Work(note) => note,
            other => panic!("{other:?}"),
        }
    }

    fn pinned(&self, ids: &[&str]) -> Pinned {
        self.pins.of(&ResourceName::new("a"), &headers(ids))
    }
}

#[test]
fn work_is_of_the_moment_at_which_it_came_in() {
    let ground = Ground::with_one();
    assert!(ground.comes_in(0, &["none"]));
    ground.own(1);
    assert!(ground.comes_in(0, &["first"]));
    ground.own(2);
    assert!(ground.comes_in(0, &["second"]));
    assert_eq!(ground.pinned(&["none"]), Pinned::Unowned);
    assert_eq!(ground.pinned(&["first"]), Pinned::Under(past(1)));
    assert_eq!(ground.pinned(&["second"]), Pinned::Under(past(2)));
    assert_eq!(ground.pinned(&["never"]), Pinned::Free);
    assert_eq!(ground.pinned(&[]), Pinned::Free);
    let other = ResourceName::new("b");
    assert_eq!(ground.pins.of(&other, &headers(&["first"])), Pinned::Free);
}

#[test]
fn what_comes_in_again_keeps_its_first_moment() {
    let ground = Ground::with_one();
    assert!(ground.comes_in(0, &["unowned"]));
    ground.own(1);
    assert!(ground.comes_in(0, &["work"]));
    ground.own(2);
    // Within the same age, and over to the next.
    for _ in 0..5 {
        assert!(ground.comes_in(0, &["work"]) && ground.comes_in(0, &["unowned"]));
        assert_eq!(ground.pinned(&["work"]), Pinned::Under(past(1)));
        assert_eq!(ground.pinned(&["unowned"]), Pinned::Unowned);
        ground.clock.pass(Millis(KEEP.0 - 1));
    }
    assert_eq!(ground.pinned(&["work"]), Pinned::Under(past(1)));
}

#[test]
fn it_is_remembered_for_keep_at_least_and_twice_that_at_most() {
    for begun in [0, 1, KEEP.0 / 2, KEEP.0 - 1, KEEP.0, 3 * KEEP.0 + 1] {
        let ground = Ground::with_one();
        ground.own(1);
        ground.clock.pass(Millis(begun));
        assert!(ground.comes_in(0, &["work"]));
        ground.clock.pass(Millis(KEEP.0 / 2));
        assert!(ground.comes_in(0, &["other"]));
        ground.clock.pass(Millis(KEEP.0 / 2 - 1));
        assert_eq!(ground.pinned(&["work"]), Pinned::Under(past(1)), "{begun}");
        ground.clock.pass(Millis(KEEP.0 + 1));
        assert_eq!(ground.pinned(&["work"]), Pinned::Free, "{begun}");
    }
}

/// To forget one for another would be to take its work for new.
#[test]
fn none_is_forgotten_for_want_of_room() {
    let ground = Ground::with_one();
    ground.own(1);
    for id in ["a", "b", "c"] {
        assert!(ground.comes_in(0, &[id]));
    }
    ground.own(2);
    for passed in [KEEP.0 - 1, 1, KEEP.0 - 1] {
        assert!(matches!(ground.note(0, &["d"]), Noted::NoRoom));
        assert!(matches!(ground.note(0, &["a", "d"]), Noted::NoRoom));
        assert!(ground.pins.0[0].remembered(|remembered| remembered.told));
        assert_eq!(ground.pinned(&["d"]), Pinned::Free, "it is not let in");
        for id in ["a", "b", "c"] {
            assert_eq!(ground.pinned(&[id]), Pinned::Under(past(1)));
        }
        ground.clock.pass(Millis(passed));
    }
    // What is known already needs none; and then it is remembered for longer than the others.
    assert!(ground.comes_in(0, &["a"]));
    ground.clock.pass(Millis(1));
    assert_eq!(ground.pinned(&["a"]), Pinned::Under(past(1)));
    assert!(ground.comes_in(0, &["d"]) && ground.comes_in(0, &["e"]));
    assert_eq!(ground.pinned(&["d"]), Pinned::Under(past(2)));
    assert!(matches!(ground.note(0, &["f"]), Noted::NoRoom));
    let held = ground.pins.0[0].remembered(|it| it.recent.len() + it.before.len());
    assert_eq!(held, 3);
}

#[test]
fn what_says_no_id_is_not_noted_and_of_two_ids_each_is() {
    let roomy = Inbound {
        at_most: 12,
        ..way("one", by_header(), false, &["a"])
    };
    let ground = Ground::new(&[roomy]);
    ground.own(1);
    assert!(matches!(ground.note(0, &[]), Noted::Nothing));
    assert!(matches!(ground.note(7, &["one"]), Noted::Nothing), "no way");
    assert_eq!(ground.pinned(&["one"]), Pinned::Free);
    assert!(ground.comes_in(0, &["one", "other"]));
    ground.own(2);
    assert!(ground.comes_in(0, &["one", "new"]));
    assert_eq!(ground.pinned(&["one"]), Pinned::Under(past(1)));
    assert_eq!(ground.pinned(&["other"]), Pinned::Under(past(1)));
    assert_eq!(ground.pinned(&["new"]), Pinned::Under(past(2)));
    // A worker may go on with what it joined them to.
    for joined in ["one,other", "one, other"] {
        assert_eq!(ground.pinned(&[joined]), Pinned::Under(past(1)));
    }
}

/// Whoever waits for its answer shows that the work goes on, however long ago it began.
#[test]
fn what_has_no_answer_yet_is_not_forgotten() {
    let ground = Ground::with_one();
    ground.own(1);
    let long = ground.begun(&["work"]);
    assert!(ground.comes_in(0, &["work"]), "another with it is answered");
    ground.own(2);
    for passed in [KEEP.0 - 1, KEEP.0, 3 * KEEP.0, KEEP.0] {
        ground.clock.pass(Millis(passed));
        assert_eq!(ground.pinned(&["work"]), Pinned::Under(past(1)), "{passed}");
    }
    ground.pins.answered(&long);
    ground.clock.pass(Millis(2 * KEEP.0));
    assert_eq!(ground.pinned(&["work"]), Pinned::Free);
}

#[test]
fn what_never_reached_the_worker_is_as_if_it_had_not_come_in() {
    let ground = Ground::with_one();
    ground.own(1);
    let note = ground.begun(&["work"]);
    ground.pins.withdraw(&note);
    assert_eq!(ground.pinned(&["work"]), Pinned::Free);
    ground.own(2);
    let note = ground.begun(&["work"]);
    assert_eq!(ground.pinned(&["work"]), Pinned::Under(past(2)));
    // Another request with it did reach the worker, before or after.
    ground.own(3);
    let later = ground.begun(&["work"]);
    ground.clock.pass(Millis(KEEP.0 / 2));
    ground.pins.withdraw(&later);
    assert_eq!(ground.pinned(&["work"]), Pinned::Under(past(2)));
    let later = ground.begun(&["work"]);
    ground.pins.withdraw(&note);
    assert_eq!(ground.pinned(&["work"]), Pinned::Under(past(2)));
    ground.pins.withdraw(&later);
    assert_eq!(ground.pinned(&["work"]), Pinned::Free);
}

/// It was forgotten meanwhile, and is there for another's sake.
#[test]
fn what_is_withdrawn_too_late_is_not_taken_from_another() {
    let ground = Ground::with_one();
    ground.own(1);
    let note = ground.begun(&["work"]);
    ground.pins.answered(&note);
    ground.clock.pass(Millis(2 * KEEP.0));
    ground.own(2);
    assert!(ground.comes_in(0, &["work"]));
    ground.pins.withdraw(&note);
    assert_eq!(ground.pinned(&["work"]), Pinned::Under(past(2)));
}

/// One request for work of two moments is of the older one.
#[test]
fn of_several_ids_the_oldest_moment_counts() {
    let ground = Ground::with_one();
    assert!(ground.comes_in(0, &["none"]));
    ground.own(1);
    assert!(ground.comes_in(0, &["first"]));
    ground.own(2);
    assert!(ground.comes_in(0, &["second"]));
    for ids in [["first", "second"], ["second", "first"]] {
        assert_eq!(ground.pinned(&ids), Pinned::Under(past(1)), "at once");
    }
    for ids in [["none", "second"], ["second", "none"]] {
        assert_eq!(ground.pinned(&ids), Pinned::Unowned);
    }
    assert_eq!(ground.pinned(&["never", "second"]), Pinned::Under(past(2)));
}

#[test]
fn where_it_is_strict_what_is_not_known_is_not_free() {
    let ways = [
        way("strict", PinBy::Trace, true, &["a"]),
        way("other", by_header(), false, &["a", "b"]),
    ];
    let ground = Ground::new(&ways);
    ground.own(1);
    assert_eq!(ground.pinned(&[]), Pinned::Unknown);
    assert_eq!(ground.pinned(&["never"]), Pinned::Unknown);
    let other = ResourceName::new("b");
    assert_eq!(ground.pins.of(&other, &headers(&["never"])), Pinned::Free);
    // It came in by another way, and that is known.
    assert!(ground.comes_in(1, &["work"]));
    assert_eq!(ground.pinned(&["work"]), Pinned::Under(past(1)));
}

/// After a repair tokens begin anew, lower than before.
#[test]
fn of_several_moments_the_oldest_is_not_the_one_with_the_lowest_token() {
    let ground = Ground::with_one();
    ground.own(900);
    assert!(ground.comes_in(0, &["before"]));
    ground.clock.pass(Millis(1));
    ground.own(108);
    assert!(ground.comes_in(0, &["after"]));
    for ids in [["before", "after"], ["after", "before"]] {
        assert_eq!(ground.pinned(&ids), Pinned::Under(past(900)));
    }
}
