//! What follows from what is remembered, case by case.

use super::*;

const OWN: InstanceId = InstanceId(1);
const OTHER: InstanceId = InstanceId(2);
const HERE: Server = Server {
    system: 7,
    timeline: 1,
};
const PROMOTED: Server = Server {
    timeline: 2,
    ..HERE
};

impl Memory {
    /// Nobody else did anything meanwhile.
    fn judges(&mut self, found: &Found, now: BootInstant) -> Judgement {
        let before = self.seen();
        self.judge(found, &before, now)
    }

    /// How far the other has come. Answers whether it went back.
    fn hears(&mut self, position: u64, now: BootInstant) -> bool {
        let before = self.seen();
        let told = alive(position);
        self.heard([(OTHER, told)].into_iter(), &before, now)
    }
}

fn at(ms: u64) -> BootInstant {
    BootInstant(1_000_000 + ms)
}

fn alive(position: u64) -> Progress {
    Progress {
        reached: Reached { position, aside: 0 },
        dead: false,
    }
}

fn found(server: Server, own: u64, other: u64) -> Found {
    Found {
        server,
        recorded: HERE,
        instances: [(OWN, alive(own)), (OTHER, alive(other))].into(),
        ..Found::default()
    }
}

impl Found {
    /// As it is there, but for what is changed of the one.
    fn but(mut self, of: InstanceId, change: impl FnOnce(&mut Progress)) -> Self {
        self.instances.entry(of).and_modify(change);
        self
    }
}

/// Has committed 5 of its own, and seen 9 of the other's.
fn remembering() -> Memory {
    let mut memory = Memory::default();
    assert_eq!(memory.judges(&found(HERE, 3, 9), at(0)), Judgement::Whole);
    memory.committed(OWN, 5, 0, at(1));
    memory
}

#[test]
fn what_is_as_far_or_further_is_whole() {
    for (own, other) in [(5, 9), (6, 9), (5, 40)] {
        let judged = remembering().judges(&found(HERE, own, other), at(2));
        assert_eq!(judged, Judgement::Whole, "{own} {other}");
    }
}

#[test]
fn every_sign_of_a_loss_closes() {
    let mut lower_epoch = remembering();
    lower_epoch.committed(OWN, 5, 3, at(1));
    let cases = [
        (remembering(), found(HERE, 4, 9)),
        (remembering(), found(PROMOTED, 4, 9)),
        // Another's, as it was read last.
        (remembering(), found(PROMOTED, 5, 8)),
        (lower_epoch, found(HERE, 5, 9)),
        (Memory::default(), found(Server { system: 8, ..HERE }, 5, 9)),
    ];
    for (mut memory, found) in cases {
        let judged = memory.judges(&found, at(2));
        assert!(matches!(judged, Judgement::Close(_)), "{judged:?}");
        // Looking again changes nothing.
        assert_eq!(memory.judges(&found, at(3)), judged);
    }
}

#[test]
fn an_instance_that_is_gone_was_lost_unless_its_grave_may_have_been_cleared() {
    let mut gone = found(HERE, 5, 9);
    gone.instances.remove(&OTHER);
    let judged = remembering().judges(&gone, at(2));
    assert!(matches!(judged, Judgement::Close(_)), "{judged:?}");
    let judged = remembering().judges(&gone, at(FRESH.0 + 2));
    assert_eq!(judged, Judgement::Whole);
}

#[test]
fn the_dead_may_go() {
    let mut memory = remembering();
    let mut dead = found(HERE, 5, 9);
    if let Some(other) = dead.instances.get_mut(&OTHER) {
        other.dead = true;
    }
    assert_eq!(memory.judges(&dead, at(2)), Judgement::Whole);
    dead.instances.remove(&OTHER);
    assert_eq!(memory.judges(&dead, at(3)), Judgement::Whole);
}

#[test]
fn another_history_is_confirmed_and_opened_after_a_while() {
    let mut memory = remembering();
    let promoted = found(PROMOTED, 5, 9);
    for (ms, may_open) in [
        (10, false),
        (9 + OBJECTIONS.0, false),
        (10 + OBJECTIONS.0, true),
    ] {
        let own = vec![OWN];
        let expected = Judgement::Confirm { own, may_open };
        assert_eq!(memory.judges(&promoted, at(ms)), expected);
    }
}

#[test]
fn what_was_accepted_is_quiet_by_the_own_clock_and_then_learned() {
    let mut memory = remembering();
    let mut accepted = found(PROMOTED, 2, 2);
    accepted.accepted = 1;
    accepted.epoch = 1;
    accepted.doubt = Some("accepted".to_owned());
    accepted.quiet = Some(Millis(100));
    accepted.quiet_here = true;
    for (ms, over) in [(10, false), (109, false), (110, true)] {
        let expected = Judgement::Quiet { accepted: 1, over };
        assert_eq!(memory.judges(&accepted, at(ms)), expected);
    }
    let opened = Found {
        doubt: None,
        quiet: None,
        recorded: PROMOTED,
        ..accepted.clone()
    };
    assert_eq!(memory.judges(&opened, at(120)), Judgement::Whole);
    assert_eq!(memory.reached(OWN).position, 2);
    // It had seen an epoch that the operator could not see.
    let mut ahead = remembering();
    ahead.committed(OWN, 5, 1, at(1));
    let judged = ahead.judges(&accepted, at(10));
    assert!(matches!(judged, Judgement::Close(_)), "{judged:?}");
}

#[test]
fn signs_of_life_say_how_far_others_have_come() {
    let mut memory = remembering();
    assert!(!memory.hears(12, at(2)));
    let judged = memory.judges(&found(HERE, 5, 11), at(3));
    assert!(matches!(judged, Judgement::Close(_)), "{judged:?}");
    assert!(memory.hears(11, at(4)));
    // And are not forgotten for it.
    let judged = memory.judges(&found(HERE, 5, 11), at(5));
    assert!(matches!(judged, Judgement::Close(_)), "{judged:?}");
}

/// What is read was so when it was asked for, or later.
#[test]
fn whoever_commits_while_signs_are_read_did_not_go_back() {
    let mut memory = remembering();
    let before = memory.seen();
    memory.committed(OWN, 6, 0, at(2));
    assert!(!memory.heard([(OWN, alive(5))].into_iter(), &before, at(3)));
    assert_eq!(memory.reached(OWN).position, 6);
}

/// A sign that came while the register was asked is later than what it answers.
#[test]
fn whoever_went_on_meanwhile_did_not_go_back() {
    let mut memory = remembering();
    let before = memory.seen();
    assert!(!memory.hears(12, at(2)));
    let judged = memory.judge(&found(HERE, 5, 11), &before, at(3));
    assert_eq!(judged, Judgement::Whole);
    assert_eq!(
        memory.reached(OTHER).position,
        12,
        "what was seen is not unlearned"
    );
}

#[test]
fn signs_of_life_are_worth_something_only_where_the_register_is_whole() {
    let here = Heard {
        server: HERE,
        accepted: 0,
    };
    let mut memory = Memory::default();
    assert_eq!(memory.worth(Some(here)), Worth::Company);
    memory.judges(&found(HERE, 5, 9), at(0));
    assert_eq!(memory.worth(Some(here)), Worth::All);
    let elsewhere = Heard {
        server: PROMOTED,
        ..here
    };
    let later = Heard {
        accepted: 1,
        ..here
    };
    for heard in [None, Some(elsewhere), Some(later)] {
        assert_eq!(memory.worth(heard), Worth::Nothing, "{heard:?}");
    }
    memory.judges(&found(PROMOTED, 5, 9), at(1));
    assert_eq!(memory.worth(Some(elsewhere)), Worth::Nothing);
}

#[test]
fn a_moved_register_is_moved_whatever_else() {
    let mut moved = found(HERE, 5, 9);
    moved.moved = true;
    moved.doubt = Some("exported".to_owned());
    moved.quiet = Some(Millis(0));
    moved.quiet_here = true;
    moved.accepted = 1;
    moved.epoch = 1;
    let judged = remembering().judges(&moved, at(2));
    assert_eq!(judged, Judgement::Moved("exported".to_owned()));
}

/// The old primary lives on, and whoever has confirmed on the new one is led back to it.
#[test]
fn nobody_goes_back_to_an_earlier_history() {
    let mut memory = remembering();
    let before = memory.seen();
    let promoted = found(PROMOTED, 5, 9);
    let judged = memory.judge(&promoted, &before, at(10));
    assert!(matches!(judged, Judgement::Confirm { .. }), "{judged:?}");
    let judged = memory.judge(&found(HERE, 5, 9), &before, at(20));
    assert!(matches!(judged, Judgement::Close(_)), "{judged:?}");
}

/// What they had committed when it was said counts for as long as their row is there.
#[test]
fn the_dead_are_missed_where_they_are_less_than_they_were() {
    let mut memory = remembering();
    let dead = found(HERE, 5, 9).but(OTHER, |it| it.dead = true);
    assert_eq!(memory.judges(&dead, at(2)), Judgement::Whole);
    assert_eq!(memory.judges(&dead, at(3)), Judgement::Whole);
    let less = dead.clone().but(OTHER, |it| it.reached.position = 8);
    let alive_again = found(HERE, 5, 9);
    for found in [less, alive_again] {
        let judged = memory.judges(&found, at(4));
        assert!(matches!(judged, Judgement::Close(_)), "{judged:?}");
    }
    let told = |dead, position| Progress {
        dead,
        ..alive(position)
    };
    for (told, is_missed) in [
        (told(true, 9), false),
        (told(true, 8), true),
        (told(false, 9), true),
    ] {
        let before = memory.seen();
        let missed = memory.heard([(OTHER, told)].into_iter(), &before, at(5));
        assert_eq!(missed, is_missed, "{told:?}");
    }
}

/// Recorded while nothing is admitted, and gone with another fail-over.
#[test]
fn what_was_recorded_aside_is_missed_by_whoever_saw_it() {
    const AGAIN: Server = Server {
        timeline: 3,
        ..HERE
    };
    let mut recorder = remembering();
    let mut onlooker = Memory::default();
    onlooker.committed(OTHER, 9, 0, at(0));
    let judged = onlooker.judges(&found(HERE, 5, 9), at(1));
    assert_eq!(judged, Judgement::Whole);
    let asked = |memory: &mut Memory, found: &Found, ms| {
        let judged = memory.judges(found, at(ms));
        assert!(matches!(judged, Judgement::Confirm { .. }), "{judged:?}");
    };
    asked(&mut recorder, &found(PROMOTED, 5, 9), 10);
    recorder.put_aside(OWN, 1, at(11));
    recorder.put_aside(OWN, 2, at(12));
    assert_eq!(
        recorder.reached(OWN),
        Reached {
            position: 5,
            aside: 2
        }
    );
    let recorded = |server, aside| found(server, 5, 9).but(OWN, |it| it.reached.aside = aside);
    for memory in [&mut recorder, &mut onlooker] {
        asked(memory, &recorded(PROMOTED, 2), 13);
        // Signs of life tell nothing of it.
        let before = memory.seen();
        assert!(!memory.heard([(OWN, alive(5))].into_iter(), &before, at(14)));
        let judged = memory.judges(&recorded(AGAIN, 1), at(15));
        assert!(matches!(judged, Judgement::Close(_)), "{judged:?}");
        asked(memory, &recorded(AGAIN, 2), 16);
    }
}

/// A doubt and a quiet may last for days, and whoever recorded something may be started again meanwhile.
#[test]
fn what_is_recorded_aside_during_a_doubt_or_a_quiet_is_missed_by_whoever_saw_it() {
    const AGAIN: Server = Server {
        timeline: 3,
        ..HERE
    };
    let recorded = |server, aside| found(server, 5, 9).but(OWN, |it| it.reached.aside = aside);
    let doubted = |server, aside| Found {
        doubt: Some("commits are missing".to_owned()),
        ..recorded(server, aside)
    };
    let quiet = |server, aside| Found {
        accepted: 1,
        epoch: 1,
        quiet: Some(Millis(1_000)),
        quiet_here: server == PROMOTED,
        ..doubted(server, aside)
    };
    let states: [&dyn Fn(Server, u64) -> Found; 2] = [&doubted, &quiet];
    for is_new in [false, true] {
        for found in states {
            let mut onlooker = if is_new {
                Memory::default()
            } else {
                remembering()
            };
            onlooker.judges(&found(PROMOTED, 0), at(10));
            onlooker.judges(&found(PROMOTED, 4), at(11));
            let judged = onlooker.judges(&found(AGAIN, 3), at(12));
            let Judgement::Close(differences) = judged else {
                panic!("{judged:?}");
            };
            let missed = Difference::Aside {
                instance: OWN,
                remembered: 4,
                found: 3,
            };
            assert_eq!(differences, [missed]);
        }
    }
}

/// What the person who accepted it gave up is not missed; what is recorded since is.
#[test]
fn a_quiet_begins_with_what_was_accepted() {
    let mut memory = remembering();
    memory.put_aside(OWN, 6, at(5));
    let quiet = |aside| Found {
        accepted: 1,
        epoch: 1,
        doubt: Some("accepted".to_owned()),
        quiet: Some(Millis(1_000)),
        quiet_here: true,
        ..found(PROMOTED, 3, 9).but(OWN, |it| it.reached.aside = aside)
    };
    memory.judges(&quiet(2), at(10));
    let reached = |position, aside| Reached { position, aside };
    assert_eq!(memory.reached(OWN), reached(3, 2));
    memory.put_aside(OWN, 3, at(11));
    let open = |aside| Found {
        doubt: None,
        quiet: None,
        recorded: PROMOTED,
        ..quiet(aside)
    };
    let judged = memory.judges(&open(2), at(12));
    assert!(matches!(judged, Judgement::Close(_)), "{judged:?}");
    assert_eq!(memory.judges(&open(3), at(13)), Judgement::Whole);
}
