//! The bytes of settling, as they lie in registers out there; and what readers of before it make of them.

use std::num::NonZeroU32;

use super::*;
use crate::protocol::finding::NotKnown;
use crate::protocol::ids::{EffectName, StepName};
use crate::protocol::operation::Parked;
use crate::protocol::policy::{Destination, Placing, Way};
use crate::protocol::settling::{Progress, Quiet, Said, Void};
use crate::protocol::steps::{
    Backoff, CallbackPolicy, LookUpPolicy, SettleStep, StepIndex, VoidPolicy,
};

const SETTLED: &str = "\
    010101150c73746174656d656e743a34320101036c0109ac02010403020101bbbbbbbbbbbbbbbbbbbbbbbbbb\
    bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb2b0101cc00000000000000000000000000000001dd00000000\
    0000000000000000000000e90781d8c1a28c347504000101000107010180b89929010005000605c801b0ea01\
    011c0c6279207265666572656e636580dddb0103e807e0d40380b8992901021c0c6279207265666572656e63\
    6580dddb0103e807e0d40380b8992901031a0d63616e63656c206279206b6579e0d40304d00fc03e80bab703\
    0403c0cf2402000156cc00000000000000000000000000000002010403020101bbbbbbbbbbbbbbbbbbbbbbbb\
    bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbdd000000000000000000000000000000eb0783d8c1a28c34\
    c8df020101010002010100dd000000000000000000000000000000e90781d8c1a28c34dd0000000000000000\
    00000000000000ec0784d8c1a28c34010000f20101dd000000000000000000000000000000ed0785d8c1a28c\
    340306000000000000520701dd000000000000000000000000000000ee0786d8c1a28c3401dd000000000000\
    000000000000000000f10789d8c1a28c340201dd000000000000000000000000000000f00788d8c1a28c3401\
    0101f40307000000000001000172030256cc00000000000000000000000000000002010403020101bbbbbbbb\
    bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbdd000000000000000000000000000000\
    eb0783d8c1a28c34c8df020101010001dd000000000000000000000000000000ef0787d8c1a28c34010ac12a\
    9b4d";

const TURNS: &str = "\
    83010701dd000000000000000000000000000000ee0786d8c1a28c3401dd0000000000000000000000000000\
    00f10789d8c1a28c340201dd000000000000000000000000000000f00788d8c1a28c34010101f40302dd0000\
    00000000000000000000000000eb0783d8c1a28c34dd000000000000000000000000000000ec0784d8c1a28c\
    34";

fn resend() -> SettleStep {
    SettleStep::SendAgain(ResendPolicy {
        attempts: 5,
        backoff_from: Millis(200),
        backoff_to: Millis(30_000),
    })
}

fn look_up() -> LookUpPolicy {
    LookUpPolicy {
        name: StepName::new("by reference"),
        lag: Millis(3_600_000),
        samples: NonZeroU32::new(3).unwrap(),
        every: Backoff {
            from: Millis(1_000),
            to: Millis(60_000),
        },
        within: Millis(86_400_000),
        tells_forms: true,
    }
}

fn void() -> SettleStep {
    SettleStep::Void(VoidPolicy {
        name: StepName::new("cancel by key"),
        lag: Millis(60_000),
        attempts: 4,
        every: Backoff {
            from: Millis(2_000),
            to: Millis(8_000),
        },
        within: Millis(7_200_000),
    })
}

fn callback() -> SettleStep {
    SettleStep::Callback(CallbackPolicy {
        within: Millis(600_000),
    })
}

fn of_steps(steps: Vec<SettleStep>, state: State, settling: Settling) -> Operation {
    let mut operation = operation();
    operation.settle.steps = Steps::new(steps).unwrap();
    operation.state = state;
    operation.settling = settling;
    operation
}

fn all_of_it() -> Operation {
    let attempt = operation().attempts.remove(0);
    let steps = vec![
        resend(),
        SettleStep::LookUp(look_up()),
        SettleStep::Compare(look_up()),
        void(),
        callback(),
    ];
    let settling = Settling {
        quiet: Quiet::of([moment(5)]),
        steps: vec![
            Progress::default(),
            Progress {
                asked: 7,
                first_asked: Some(moment(6)),
                last_asked: Some(moment(9)),
                samples: 2,
                last_sample: Some(moment(8)),
                turn: Quiet::default(),
                said: Some(Said::NotKnown(NotKnown::Undecided(500))),
            },
            Progress {
                said: Some(Said::NotYet),
                ..Progress::default()
            },
        ],
        void: Some(Void {
            step: StepIndex(3),
            begun: 2,
            last: attempt,
            quiet: Quiet::of([moment(7)]),
        }),
        taken_up: None,
    };
    let state = State::NeedsAttention(Parked::UndoUnclear);
    of_steps(steps, state, settling)
}

#[test]
fn steps_and_how_far_they_have_come() {
    let text = to_hex(&encode_operation(&all_of_it()));
    assert_eq!(text, SETTLED);
    let bytes = from_hex(&text);
    assert_eq!(decode_operation(&bytes, key(), None), Ok(all_of_it()));
}

/// Appended to what lies in registers already: a record that nobody took up has the bytes of before.
#[test]
fn what_a_person_took_up_stands_behind_everything_else() {
    let mut taken_up = all_of_it();
    taken_up.state = State::Uncertain;
    let before = encode_operation(&taken_up);
    taken_up.settling.taken_up = Some(Quiet::of([moment(8)]));
    let bytes = encode_operation(&taken_up);
    let since = "01dd000000000000000000000000000000f00788d8c1a28c34";
    let tail = to_hex(&bytes[..bytes.len() - CHECKSUM]);
    assert!(tail.ends_with(since), "{tail}");
    assert_eq!(decode_operation(&bytes, key(), None), Ok(taken_up.clone()));
    taken_up.settling.taken_up = None;
    assert_eq!(decode_operation(&before, key(), None), Ok(taken_up));
}

/// How it went out stands behind the steps, which are spelled out then; readers of before leave it alone.
#[test]
fn how_it_went_out() {
    let mut operation = of_steps(vec![resend()], State::Uncertain, Settling::default());
    operation.settle.way = Some(Way {
        effect: EffectName::new("POST /a"),
        destination: Destination(0x0102_0304_0506_0708),
        placing: Placing(9),
    });
    let bytes = encode_operation(&operation);
    let appended = "01000605c801b0ea011807504f5354202f6101020304050607080000000000000009";
    let text = to_hex(&bytes);
    assert!(text.contains(appended), "{text}");
    assert_eq!(decode_operation(&bytes, key(), None), Ok(operation.clone()));
    let (resend, state) = read_of_old(&operation);
    assert_eq!(
        (resend, state),
        (operation.settle.steps.send_again(), State::Uncertain)
    );
}

/// What a reader of before makes of it: the fields that it knew, as it read them.
fn read_of_old(operation: &Operation) -> (Option<ResendPolicy>, State) {
    let bytes = encode_operation(operation);
    let body = &bytes[1..bytes.len() - CHECKSUM];
    let mut reader = Reader::new(body);
    let _origin: IdentityOrigin = Field::take(&mut reader).unwrap();
    let _place: Option<Place> = Field::take(&mut reader).unwrap();
    let _order: Order = Field::take(&mut reader).unwrap();
    let _fingerprint: Fingerprint = Field::take(&mut reader).unwrap();
    let _key_use: KeyUse = Field::take(&mut reader).unwrap();
    let resend = reader
        .part(|reader| {
            let _capability: Capability = Field::take(reader)?;
            let _key: Option<KeyPolicy> = Field::take(reader)?;
            Field::take(reader)
        })
        .unwrap();
    let state = match reader.byte().unwrap() {
        0 => State::Intended,
        1 => State::Uncertain,
        2 => State::NeedsAttention(Field::take(&mut reader).unwrap()),
        3 => State::NotApplied(Field::take(&mut reader).unwrap()),
        4 => reader
            .part(|reader| {
                Ok(State::Completed(Completion {
                    verdict: Field::take(reader)?,
                    provenance: Field::take(reader)?,
                    attempt: Field::take(reader)?,
                    answer: None,
                    at: Field::take(reader)?,
                }))
            })
            .unwrap(),
        tag => panic!("{tag}"),
    };
    let attempts: Vec<Attempt> = Field::take(&mut reader).unwrap();
    assert_eq!(attempts, operation.attempts);
    (resend, state)
}

#[test]
fn a_reader_of_before_sends_nothing_that_may_be_undone_and_knows_every_word() {
    // Where nothing is undone it sends again, as it always did.
    let steps = vec![SettleStep::LookUp(look_up()), resend(), callback()];
    let operation = of_steps(steps, State::Uncertain, Settling::default());
    let resends = operation.settle.steps.send_again();
    assert!(resends.is_some());
    assert_eq!(read_of_old(&operation), (resends, State::Uncertain));
    // Else it has no step, and gives it to a person.
    let of_old = State::NeedsAttention(Parked::NoStep);
    assert_eq!(read_of_old(&all_of_it()), (None, of_old.clone()));
    for why in [Parked::NotToldInTime, Parked::NotCalledBack] {
        let state = State::NeedsAttention(why);
        let operation = of_steps(vec![callback()], state, Settling::default());
        assert_eq!(read_of_old(&operation), (None, of_old.clone()));
    }
    // What was undone is refused to it, whoever found that out.
    let undone = |provenance, answer| {
        State::Completed(Completion {
            verdict: Verdict::Refused,
            provenance,
            attempt: Some(attempt_id(1)),
            answer,
            at: moment(4),
        })
    };
    let settling = Settling::default();
    let operation = of_steps(vec![void()], undone(Provenance::Void, None), settling);
    let (_, state) = read_of_old(&operation);
    assert_eq!(state, undone(Provenance::LookUp, None));
    let bytes = encode_operation(&operation);
    assert_eq!(decode_operation(&bytes, key(), None), Ok(operation));
}

/// Since when a step has had its turn stands behind the rest of it.
#[test]
fn a_reader_of_before_leaves_turns_alone() {
    let mut operation = all_of_it();
    let progress = &mut operation.settling.steps[1];
    progress.turn = Quiet::of([moment(3), moment(4)]);
    let of_old = (progress.asked, progress.last_sample, progress.said);
    let mut writer = Writer::default();
    progress.put(&mut writer);
    let bytes = writer.into_bytes();
    assert_eq!(to_hex(&bytes), TURNS);
    let read = Reader::new(&bytes).part(|reader| {
        let asked: u32 = Field::take(reader)?;
        let _first_asked: Option<Moment> = Field::take(reader)?;
        let _last_asked: Option<Moment> = Field::take(reader)?;
        let _samples: u32 = Field::take(reader)?;
        let last_sample: Option<Moment> = Field::take(reader)?;
        let said: Option<Said> = Field::take(reader)?;
        Ok((asked, last_sample, said))
    });
    assert_eq!(read, Ok(of_old));
    let bytes = encode_operation(&operation);
    assert_eq!(decode_operation(&bytes, key(), None), Ok(operation));
}

/// A writer of before leaves out what it does not know: nothing was asked, nothing was seen to be quiet.
#[test]
fn what_a_writer_of_before_wrote_has_its_resends_and_nothing_else() {
    let bytes = from_hex(OPERATION);
    let found = decode_operation(&bytes, key(), None).unwrap();
    assert_eq!(found.settling, Settling::default());
    let steps: Vec<_> = found
        .settle
        .steps
        .iter()
        .map(|(_, it)| it.clone())
        .collect();
    assert_eq!(steps, [resend()]);
}
