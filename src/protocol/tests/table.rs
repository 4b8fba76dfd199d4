//! Every state × every event, written out. The table is a file beside this one: a change of a rule
//! shows as a changed line, and somebody has to mean it.

use std::fmt::Write as _;

use super::*;

type Prepare = (&'static str, fn(&mut World) -> Option<Grant>);
type Happen = (&'static str, fn(&mut World, Option<&Grant>) -> String);

fn uncertain(world: &mut World) -> Grant {
    let grant = world.granted(&subject());
    world.record(&grant, lost());
    grant
}

/// Everything that can settle it counts at once.
fn subject() -> Ask {
    Ask::fenced("k", "107").with(|ask| {
        let at_once = Backoff {
            from: Millis(0),
            to: Millis(0),
        };
        let steps = vec![
            SettleStep::SendAgain(resends(3).send_again().unwrap()),
            SettleStep::LookUp(LookUpPolicy {
                lag: Millis(0),
                samples: std::num::NonZeroU32::MIN,
                every: at_once,
                ..super::finding::question()
            }),
            SettleStep::Void(VoidPolicy {
                name: StepName::new("undo"),
                lag: Millis(0),
                attempts: 3,
                every: at_once,
                within: Millis(60_000),
            }),
        ];
        ask.policy.settle.steps = Steps::new(steps).unwrap();
    })
}

fn undoing(world: &mut World, how: VoidEnd) -> Grant {
    let grant = uncertain(world);
    begin_undo(world);
    end_undo(world, how);
    grant
}

fn look_up(world: &mut World, found: Found) -> String {
    let by = Finder::LookUp {
        step: StepIndex(1),
        asked_at: world.now(),
    };
    worth(&world.found_by(by, world.admitted(), found))
}

fn worth(weighed: &Weighed) -> String {
    if weighed.effect == Effect::Contradiction {
        return "Contradiction".to_owned();
    }
    match weighed.worth {
        Worth::Settled => "settles it".to_owned(),
        Worth::NothingNew => "nothing new".to_owned(),
        Worth::Sample { .. } => "a sample".to_owned(),
        Worth::Nothing(why) => format!("{why:?}"),
    }
}

const UNDO: AttemptId = AttemptId {
    instance: OWN,
    number: 50,
};

fn begin_undo(world: &mut World) -> String {
    let begin = BeginVoid {
        key: key("k"),
        step: StepIndex(2),
        attempt: UNDO,
        dispatch: Millis(5_000),
        overdue_after: Millis(45_000),
        at: world.now(),
    };
    match world.apply(&Command::BeginVoid(begin)) {
        Reply::Void(VoidReply::Granted(_)) => "granted".to_owned(),
        Reply::Void(VoidReply::NotNow) => "not now".to_owned(),
        Reply::Void(VoidReply::Settled(_)) => "nothing to do".to_owned(),
        Reply::Void(other) => format!("{other:?}"),
        other => panic!("{other:?}"),
    }
}

fn end_undo(world: &mut World, end: VoidEnd) -> String {
    let voided = Voided {
        key: key("k"),
        attempt: UNDO,
        end,
        at: world.now(),
    };
    match world.apply(&Command::Voided(voided)) {
        Reply::Voided(recorded) => format!("{:?}", recorded.effect),
        other => panic!("{other:?}"),
    }
}

fn an_answer() -> Answer {
    Answer {
        status: 200,
        fields: Vec::new(),
        body: None,
    }
}

const STATES: &[Prepare] = &[
    ("(none)", |_| None),
    ("INTENDED", |world| Some(world.granted(&subject()))),
    ("INTENDED of a dead instance", |world| {
        let grant = world.granted(&subject());
        world.restart();
        Some(grant)
    }),
    ("UNCERTAIN", |world| Some(uncertain(world))),
    ("UNCERTAIN, listening", |world| {
        let grant = world.granted(&subject());
        world.record_open(&grant, timed_out(), true);
        Some(grant)
    }),
    ("NEEDS_ATTENTION", |world| {
        let grant = uncertain(world);
        world.give_up(&grant.key);
        Some(grant)
    }),
    ("UNCERTAIN, asked after again", |world| {
        let grant = uncertain(world);
        world.give_up(&grant.key);
        world.take_up(&grant.key);
        Some(grant)
    }),
    ("NOT_APPLIED by proof", |world| {
        let grant = world.granted(&subject());
        world.record(&grant, not_sent());
        Some(grant)
    }),
    ("NOT_APPLIED by a person", |world| {
        let grant = uncertain(world);
        world.resolve(&grant.key, Resolution::NotApplied { new_key: false });
        Some(grant)
    }),
    ("COMPLETED applied", |world| {
        let grant = world.granted(&subject());
        world.record(&grant, applied());
        Some(grant)
    }),
    ("COMPLETED refused", |world| {
        let grant = world.granted(&subject());
        world.record(&grant, answer(402, AnswerClass::Refused));
        Some(grant)
    }),
    ("UNCERTAIN, being undone", |world| {
        let grant = uncertain(world);
        begin_undo(world);
        Some(grant)
    }),
    ("UNCERTAIN, perhaps undone", |world| {
        Some(undoing(world, VoidEnd::Unclear(NotKnown::Unanswered)))
    }),
    ("COMPLETED by an undo", |world| {
        Some(undoing(world, VoidEnd::Undone(an_answer())))
    }),
    ("COMPLETED by a person", |world| {
        let grant = uncertain(world);
        let said = Answer {
            status: 200,
            fields: Vec::new(),
            body: None,
        };
        world.resolve(&grant.key, Resolution::Applied(said));
        Some(grant)
    }),
];

fn ruling(world: &mut World, ask: &Ask) -> String {
    match world.admit(ask) {
        Ruling::Granted(_) => "granted".to_owned(),
        Ruling::Replay { stale, completion } => {
            format!(
                "replay {:?}{}",
                completion.verdict,
                if stale { ", stale" } else { "" }
            )
        }
        Ruling::Join { uncertain, .. } => if uncertain {
            "join, settle now"
        } else {
            "join"
        }
        .to_owned(),
        Ruling::Wait { .. } => "wait".to_owned(),
        Ruling::ReserveFirst => "reserve first".to_owned(),
        Ruling::Refused(rejection) => {
            let text = format!("{rejection:?}");
            format!(
                "refused {}",
                text.split([' ', '(', '{']).next().unwrap_or_default()
            )
        }
    }
}

fn evidence(world: &mut World, grant: Option<&Grant>, evidence: Evidence, open: bool) -> String {
    let stray = Grant {
        key: key("k"),
        attempt: AttemptId {
            instance: OWN,
            number: 99,
        },
        round: Round(0),
        origin: IdentityOrigin::Caller,
        dispatch_by: BootInstant(0),
        look_again: false,
        request: None,
    };
    format!(
        "{:?}",
        world
            .record_open(grant.unwrap_or(&stray), evidence, open)
            .effect
    )
}

const EVENTS: &[Happen] = &[
    ("same request", |world, _| ruling(world, &subject())),
    ("another payload", |world, _| {
        ruling(world, &subject().payload(2))
    }),
    ("same request, newer token", |world, _| {
        ruling(world, &Ask::fenced("k", "108"))
    }),
    ("same request, stale token", |world, _| {
        world
            .fences
            .entry(resource())
            .or_insert_with(|| Fence::unseen(resource()))
            .mark = Some(token("200"));
        ruling(world, &subject())
    }),
    ("same request, no connection", |world, _| {
        ruling(world, &subject().with(|a| a.reserved = false))
    }),
    ("another operation, newer token", |world, _| {
        ruling(world, &Ask::fenced("other", "108"))
    }),
    ("answer: applied", |world, g| {
        evidence(world, g, applied(), false)
    }),
    ("answer: refused", |world, g| {
        evidence(world, g, answer(402, AnswerClass::Refused), false)
    }),
    ("answer: condition failed", |world, g| {
        evidence(world, g, answer(412, AnswerClass::ConditionFailed), false)
    }),
    ("answer: not processed", |world, g| {
        evidence(world, g, answer(400, AnswerClass::NotProcessed), false)
    }),
    ("answer: ambiguous", |world, g| {
        evidence(world, g, answer(500, AnswerClass::Ambiguous), false)
    }),
    ("not sent", |world, g| evidence(world, g, not_sent(), false)),
    ("interrupted", |world, g| evidence(world, g, lost(), false)),
    ("interrupted, still listening", |world, g| {
        evidence(world, g, timed_out(), true)
    }),
    ("resend", |world, _| resent(&world.resend(&key("k")))),
    ("park", |world, _| {
        world.park(&key("k"));
        String::new()
    }),
    ("look-up: applied", |world, _| {
        look_up(world, Found::Applied(an_answer()))
    }),
    ("look-up: not applied", |world, _| {
        look_up(world, Found::NotApplied)
    }),
    ("look-up: not known", |world, _| {
        look_up(world, Found::NotKnown(NotKnown::Unreadable))
    }),
    ("callback: applied", |world, _| {
        worth(&world.called_back(false, Found::Applied(an_answer())))
    }),
    ("callback: not applied", |world, _| {
        worth(&world.called_back(false, Found::NotApplied))
    }),
    ("callback: not applied for good", |world, _| {
        worth(&world.called_back(true, Found::NotApplied))
    }),
    ("an undo begins", |world, _| begin_undo(world)),
    ("undone", |world, _| {
        end_undo(world, VoidEnd::Undone(an_answer()))
    }),
    ("perhaps undone", |world, _| {
        end_undo(world, VoidEnd::Unclear(NotKnown::Unanswered))
    }),
    ("undo not sent", |world, _| {
        end_undo(world, VoidEnd::NotSent(Unsent::ConnectionLost))
    }),
    ("person: send it again", |world, _| {
        resent(&world.attend(&key("k")))
    }),
    ("person: ask again", |world, _| {
        match world.take_up(&key("k")) {
            TakenUp::Begun(_) => "begun".to_owned(),
            TakenUp::Settled(_) => "nothing to do".to_owned(),
            TakenUp::NothingToAsk(why) => format!("nothing to ask {why:?}"),
        }
    }),
    ("person: applied", |world, _| {
        let said = Answer {
            status: 200,
            fields: Vec::new(),
            body: None,
        };
        resolved(&world.resolve(&key("k"), Resolution::Applied(said)))
    }),
    ("person: not applied", |world, _| {
        resolved(&world.resolve(&key("k"), Resolution::NotApplied { new_key: false }))
    }),
];

fn resent(reply: &ResendReply) -> String {
    match reply {
        ResendReply::Granted(_) => "granted".to_owned(),
        ResendReply::NotNow => "not now".to_owned(),
        ResendReply::Settled(_) => "nothing to do".to_owned(),
        ResendReply::Forbidden(why) => format!("forbidden {why:?}"),
    }
}

fn resolved(reply: &Resolved) -> String {
    match reply {
        Resolved::Done(_) => "done",
        Resolved::Unknown => "unknown",
        Resolved::AlreadyCompleted { .. } => "already completed",
        Resolved::AlreadyNotApplied => "already not applied",
        Resolved::StillInFlight => "still in flight",
        Resolved::MovedOn(_) => "moved on",
    }
    .to_owned()
}

#[test]
fn every_state_and_every_event() {
    let mut table = String::new();
    for (state, prepare) in STATES {
        writeln!(table, "{state}").unwrap();
        for (event, happen) in EVENTS {
            let mut world = World::new();
            let grant = prepare(&mut world);
            let said = happen(&mut world, grant.as_ref());
            writeln!(
                table,
                "  {event:32} {said:32} -> {}",
                world.state(&key("k"))
            )
            .unwrap();
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/protocol/tests/table.txt");
    let known = std::fs::read_to_string(path).unwrap_or_default();
    if known != table {
        let fresh = std::env::temp_dir().join("fencepost-table.txt");
        std::fs::write(&fresh, &table).unwrap();
        let changed: Vec<_> = table
            .lines()
            .filter(|line| !known.lines().any(|old| old == *line))
            .collect();
        panic!(
            "the table changed; if it was meant, take {}:\n{}",
            fresh.display(),
            changed.join("\n")
        );
    }
}
