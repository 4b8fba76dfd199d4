//! Any steps, and any progress of them.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::{attempt, moment};
use crate::protocol::finding::NotKnown;
use crate::protocol::ids::StepName;
use crate::protocol::settling::{Progress, Quiet, Said, Settling, Void};
use crate::protocol::steps::{
    Backoff, CallbackPolicy, LookUpPolicy, ResendPolicy, SettleStep, StepIndex, Steps, VoidPolicy,
};
use crate::protocol::time::Millis;

pub(super) fn steps(resend: impl Strategy<Value = ResendPolicy>) -> impl Strategy<Value = Steps> {
    (option::of(resend), vec(other_step(), 0..4), any::<bool>()).prop_map(
        |(resend, mut steps, last)| {
            if let Some(resend) = resend.map(SettleStep::SendAgain) {
                let at = if last { steps.len() } else { 0 };
                steps.insert(at, resend);
            }
            Steps::new(steps).unwrap()
        },
    )
}

fn other_step() -> impl Strategy<Value = SettleStep> {
    let question = (".{0,8}", any::<[u64; 4]>(), 1_u32.., any::<bool>()).prop_map(
        |(name, [lag, from, to, within], samples, tells_forms)| LookUpPolicy {
            name: StepName::new(name),
            lag: Millis(lag),
            samples: samples.try_into().unwrap(),
            every: Backoff {
                from: Millis(from),
                to: Millis(to),
            },
            within: Millis(within),
            tells_forms,
        },
    );
    let void = (".{0,8}", any::<[u64; 4]>(), any::<u32>()).prop_map(
        |(name, [lag, from, to, within], attempts)| VoidPolicy {
            name: StepName::new(name),
            lag: Millis(lag),
            attempts,
            every: Backoff {
                from: Millis(from),
                to: Millis(to),
            },
            within: Millis(within),
        },
    );
    let callback = any::<u64>().prop_map(|within| CallbackPolicy {
        within: Millis(within),
    });
    prop_oneof![
        (question, any::<bool>()).prop_map(|(question, compares)| if compares {
            SettleStep::Compare(question)
        } else {
            SettleStep::LookUp(question)
        }),
        void.prop_map(SettleStep::Void),
        callback.prop_map(SettleStep::Callback),
    ]
}

pub(super) fn settling() -> impl Strategy<Value = Settling> {
    let void =
        (any::<u8>(), any::<u32>(), attempt(), quiet()).prop_map(|(step, begun, last, quiet)| {
            Void {
                step: StepIndex(step),
                begun,
                last,
                quiet,
            }
        });
    let taken_up = option::of(quiet());
    let some = (quiet(), vec(progress(), 0..3), option::of(void), taken_up).prop_map(
        |(quiet, steps, void, taken_up)| Settling {
            quiet,
            steps,
            void,
            taken_up,
        },
    );
    prop_oneof![Just(Settling::default()), some]
}

fn quiet() -> impl Strategy<Value = Quiet> {
    vec(moment(), 0..3).prop_map(Quiet::of)
}

fn progress() -> impl Strategy<Value = Progress> {
    let moments = || option::of(moment());
    let said = prop_oneof![Just(Said::NotYet), not_known().prop_map(Said::NotKnown),];
    (
        any::<(u32, u32)>(),
        moments(),
        moments(),
        moments(),
        quiet(),
        option::of(said),
    )
        .prop_map(
            |((asked, samples), first_asked, last_asked, last_sample, turn, said)| Progress {
                asked,
                first_asked,
                last_asked,
                samples,
                last_sample,
                turn,
                said,
            },
        )
}

fn not_known() -> impl Strategy<Value = NotKnown> {
    prop_oneof![
        Just(NotKnown::Unanswered),
        any::<u16>().prop_map(NotKnown::Undecided),
        Just(NotKnown::Contradictory),
        Just(NotKnown::CredentialRefused),
        Just(NotKnown::SignatureExpired),
        Just(NotKnown::Redirected),
        Just(NotKnown::Unreadable),
        Just(NotKnown::TooLarge),
        Just(NotKnown::TooManyPages),
        prop_oneof![
            Just(NotKnown::ConditionFailed),
            Just(NotKnown::NotConfigured),
            Just(NotKnown::RequestNotKept),
            Just(NotKnown::TwoForms),
            Just(NotKnown::Voiding),
            Just(NotKnown::SeveralIncarnations),
        ],
    ]
}
