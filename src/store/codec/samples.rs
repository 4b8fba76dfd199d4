//! Any record there can be, for property tests.

mod settling;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use settling::{settling, steps};

use crate::protocol::command::Event;
use crate::protocol::fence::{Deed, Fence, Intervention, Latest};
use crate::protocol::ids::{
    AcquisitionId, AdmissionNumber, AttemptId, EffectName, FencingToken, Fingerprint, Incarnation,
    InstanceId, OperationId, Principal, ResourceName, Round, Sequence, Tenant, TokenSource,
    UpstreamId,
};
use crate::protocol::ids::{OperationKey, ResourceKey};
use crate::protocol::lease::Lease;
use crate::protocol::meaning::{Grain, Members};
use crate::protocol::operation::Operation;
use crate::protocol::operation::{
    Attempt, AttemptEnd, Completion, IdentityOrigin, KeyUse, Parked, Place, State, WhyNot,
};
use crate::protocol::outcome::Answer;
use crate::protocol::outcome::{Interruption, Phase, Provenance, StoredRequest, Unsent, Verdict};
use crate::protocol::policy::{
    Capability, Destination, KeyPolicy, KeyValue, Order, Ownership, Placing, SettlePolicy, Way,
};
use crate::protocol::steps::ResendPolicy;
use crate::protocol::time::{BootId, BootInstant, Millis, Moment};
use crate::protocol::view::TwinNote;

pub(super) fn key() -> impl Strategy<Value = OperationKey> {
    let principal = option::of(any::<[u8; 16]>());
    (".{0,8}", ".{0,8}", principal, ".{0,200}", any::<u64>()).prop_map(
        |(tenant, upstream, principal, id, incarnation)| OperationKey {
            tenant: Tenant::new(tenant),
            upstream: UpstreamId::new(upstream),
            principal: principal.map_or(Principal::None, Principal::Hashed),
            id: OperationId::new(id),
            incarnation: Incarnation(incarnation),
        },
    )
}

fn moment() -> impl Strategy<Value = Moment> {
    any::<(u128, u64, u64)>().prop_map(|(boot, boottime, wall_ms)| Moment {
        boot: BootId(boot),
        boottime: BootInstant(boottime),
        wall_ms,
    })
}

fn attempt_id() -> impl Strategy<Value = AttemptId> {
    any::<(u128, u64)>().prop_map(|(instance, number)| AttemptId {
        instance: InstanceId(instance),
        number,
    })
}

fn fingerprint() -> impl Strategy<Value = Fingerprint> {
    any::<(u32, u8, [u8; 32])>().prop_map(|(key, form, digest)| Fingerprint { key, form, digest })
}

fn token() -> impl Strategy<Value = FencingToken> {
    let half = 0..1_u64 << 63;
    (half.clone(), half)
        .prop_map(|(epoch, generation)| FencingToken::new(epoch, generation).unwrap())
}

fn sequence() -> impl Strategy<Value = Sequence> {
    (0..1_u64 << 63).prop_map(|value| Sequence::from_value(value).unwrap())
}

fn place() -> impl Strategy<Value = Place> {
    (
        ".{0,20}",
        any::<u64>(),
        option::of(token()),
        option::of(sequence()),
        any::<u64>(),
    )
        .prop_map(|(resource, incarnation, token, sequence, number)| Place {
            resource: ResourceName::new(resource),
            incarnation: Incarnation(incarnation),
            token,
            sequence,
            number: AdmissionNumber(number),
        })
}

fn order() -> impl Strategy<Value = Order> {
    prop_oneof![Just(Order::Strict), Just(Order::Free)]
}

fn phase() -> impl Strategy<Value = Phase> {
    prop_oneof![
        Just(Phase::Sending),
        Just(Phase::Waiting),
        Just(Phase::Receiving)
    ]
}

fn interruption() -> impl Strategy<Value = Interruption> {
    prop_oneof![
        Just(Interruption::Timeout),
        Just(Interruption::Closed),
        Just(Interruption::BadAnswer),
        Just(Interruption::StrayBytes),
        Just(Interruption::ProcessGone),
        Just(Interruption::ClosedToSettle),
    ]
}

fn provenance() -> impl Strategy<Value = Provenance> {
    prop_oneof![
        Just(Provenance::Answer),
        Just(Provenance::LookUp),
        Just(Provenance::Callback),
        Just(Provenance::Operator),
        Just(Provenance::Void),
    ]
}

fn parked() -> impl Strategy<Value = Parked> {
    prop_oneof![
        Just(Parked::NoStep),
        Just(Parked::KeyTooOld),
        Just(Parked::RequestNotKept),
        Just(Parked::Overtaken),
        Just(Parked::CutOff),
        Just(Parked::ResendsUsedUp),
        Just(Parked::NotOrdered),
        Just(Parked::NotCurrent),
        Just(Parked::NotToldInTime),
        prop_oneof![Just(Parked::NotCalledBack), Just(Parked::UndoUnclear)],
    ]
}

fn attempt_end() -> impl Strategy<Value = AttemptEnd> {
    prop_oneof![
        Just(AttemptEnd::Silent),
        (phase(), interruption()).prop_map(|(phase, why)| AttemptEnd::Open(phase, why)),
        (phase(), interruption()).prop_map(|(phase, why)| AttemptEnd::Closed(phase, why)),
        any::<u16>().prop_map(AttemptEnd::Ambiguous),
        provenance().prop_map(AttemptEnd::Disproved),
    ]
}

fn attempt() -> impl Strategy<Value = Attempt> {
    (
        attempt_id(),
        any::<u32>(),
        fingerprint(),
        moment(),
        any::<u64>(),
        any::<bool>(),
        attempt_end(),
    )
        .prop_map(
            |(id, round, fingerprint, at, overdue_after, resend, end)| Attempt {
                id,
                round: Round(round),
                fingerprint,
                at,
                overdue_after: Millis(overdue_after),
                resend,
                end,
            },
        )
}

fn fields() -> impl Strategy<Value = Vec<(Bytes, Bytes)>> {
    vec((piece(20), piece(50)), 0..6)
}

fn piece(longest: usize) -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..longest).prop_map(Bytes::from)
}

pub(super) fn answer() -> impl Strategy<Value = Answer> {
    (200_u16..600, fields(), option::of(piece(300))).prop_map(|(status, fields, body)| Answer {
        status,
        fields,
        body,
    })
}

pub(super) fn request() -> impl Strategy<Value = StoredRequest> {
    (piece(8), piece(40), fields(), piece(300)).prop_map(|(method, target, fields, body)| {
        StoredRequest {
            method,
            target,
            fields,
            body,
        }
    })
}

fn why_not() -> impl Strategy<Value = WhyNot> {
    let unsent = prop_oneof![
        Just(Unsent::DispatchExpired),
        Just(Unsent::ConnectionLost),
        Just(Unsent::AlreadySettled),
        Just(Unsent::Unfit),
    ];
    prop_oneof![
        unsent.prop_map(WhyNot::NotSent),
        any::<u16>().prop_map(WhyNot::NotProcessed),
        provenance().prop_map(WhyNot::Said),
    ]
}

fn completion() -> impl Strategy<Value = Completion> {
    let verdict = prop_oneof![Just(Verdict::Applied), Just(Verdict::Refused)];
    (
        verdict,
        provenance(),
        option::of(attempt_id()),
        option::of(answer()),
        moment(),
    )
        .prop_map(|(verdict, provenance, attempt, answer, at)| Completion {
            verdict,
            provenance,
            attempt,
            answer,
            at,
        })
}

fn state() -> impl Strategy<Value = State> {
    prop_oneof![
        Just(State::Intended),
        Just(State::Uncertain),
        parked().prop_map(State::NeedsAttention),
        why_not().prop_map(State::NotApplied),
        completion().prop_map(State::Completed),
    ]
}

fn settle() -> impl Strategy<Value = SettlePolicy> {
    let value = prop_oneof![Just(KeyValue::Derived), Just(KeyValue::Caller)];
    let (lifetime, placing) = (option::of(any::<u64>()), option::of(any::<u64>()));
    let key = (value, lifetime, any::<bool>(), placing).prop_map(
        |(value, lifetime, remembers_refusals, placing)| KeyPolicy {
            value,
            lifetime: lifetime.map(Millis),
            remembers_refusals,
            placing: placing.map(Placing),
        },
    );
    let resend = any::<(u32, u64, u64)>().prop_map(|(attempts, from, to)| ResendPolicy {
        attempts,
        backoff_from: Millis(from),
        backoff_to: Millis(to),
    });
    let capability =
        any::<[bool; 4]>().prop_map(|[conditional, idempotent, query, callback]| Capability {
            conditional,
            idempotent,
            query,
            callback,
        });
    let way =
        (".{0,20}", any::<u64>(), any::<u64>()).prop_map(|(effect, destination, placing)| Way {
            effect: EffectName::new(effect),
            destination: Destination(destination),
            placing: Placing(placing),
        });
    let all = (capability, option::of(key), steps(resend), option::of(way));
    all.prop_map(|(capability, key, steps, way)| SettlePolicy {
        capability,
        key,
        steps,
        way,
    })
}

fn lease() -> impl Strategy<Value = Lease> {
    let fields = (".{0,20}", ".{0,20}", token(), any::<(u64, u64)>(), moment());
    fields.prop_map(
        |(acquisition, holder, token, (ttl, renewals), since)| Lease {
            acquisition: AcquisitionId::new(acquisition),
            holder,
            token,
            ttl: Millis(ttl),
            renewals,
            since,
        },
    )
}

pub(super) fn operation() -> impl Strategy<Value = Operation> {
    let origin = prop_oneof![
        Just(IdentityOrigin::Caller),
        Just(IdentityOrigin::Derived),
        Just(IdentityOrigin::Fresh),
    ];
    let require = prop_oneof![Just(Ownership::NotOlder), Just(Ownership::Current)];
    let key_use = (any::<u32>(), option::of((attempt_id(), moment())));
    let what = (key(), origin, option::of(place()), order(), fingerprint());
    let how = (key_use, settle(), state(), vec(attempt(), 0..4), require);
    let rest = (
        any::<(u32, u32, bool, bool)>(),
        moment(),
        moment(),
        members(),
        settling(),
    );
    (what, how, rest).prop_map(|(what, how, rest)| {
        let (key, origin, place, order, fingerprint) = what;
        let ((round, first), settle, state, attempts, require) = how;
        let (counts, first_seen, changed, members, settling) = rest;
        let (admitted, resends, request_kept, credentialed) = counts;
        Operation {
            key,
            origin,
            place,
            order,
            fingerprint,
            members,
            credentialed,
            key_use: KeyUse {
                round: Round(round),
                first,
            },
            settle,
            state,
            attempts,
            admitted,
            resends,
            require,
            request_kept,
            first_seen,
            changed,
            settling,
        }
    })
}

fn members() -> impl Strategy<Value = Members> {
    let grain = prop_oneof![
        Just(Grain::Leaves),
        Just(Grain::Outermost),
        Just(Grain::Head)
    ];
    let some = (grain, vec(any::<u32>(), 1..5)).prop_map(|(grain, digests)| Members {
        grain,
        digests: digests.into(),
    });
    prop_oneof![3 => some, 1 => Just(Members::default())]
}

pub(super) fn fence() -> impl Strategy<Value = Fence> {
    let latest = (
        option::of((any::<u64>().prop_map(Incarnation), token())),
        any::<(u64, u64)>(),
    )
        .prop_map(|(generation, (strict, tokenless))| Latest {
            generation,
            strict: AdmissionNumber(strict),
            tokenless: AdmissionNumber(tokenless),
        });
    let who = (".{0,8}", ".{0,40}", any::<(u64, bool, bool)>());
    let held = (
        option::of(token()),
        option::of(".{0,8}"),
        option::of(".{0,8}"),
        option::of(sequence()),
        option::of(key()),
    );
    let fields = (
        who,
        held,
        any::<(u64, u64)>(),
        latest,
        vec(intervention(), 0..3),
        (
            option::of(token()),
            option::of(lease()),
            option::of(token()),
        ),
    );
    fields.prop_map(|(who, held, numbers, latest, interventions, leased)| {
        let (tenant, name, (incarnation, closed, cancelled)) = who;
        let (mark, source, acquisition, sequence, first) = held;
        Fence {
            resource: ResourceKey {
                tenant: Tenant::new(tenant),
                name: ResourceName::new(name),
            },
            incarnation: Incarnation(incarnation),
            mark,
            closed,
            source: source.map(TokenSource::new),
            acquisition: acquisition.map(AcquisitionId::new),
            sequence,
            first,
            cancelled,
            admissions: AdmissionNumber(numbers.0),
            cut_off: AdmissionNumber(numbers.1),
            latest,
            interventions: interventions.into(),
            issued: leased.0,
            lease: leased.1,
            shut: leased.2,
        }
    })
}

fn intervention() -> impl Strategy<Value = Intervention> {
    let how = prop_oneof![
        Just(Deed::Cancelled),
        Just(Deed::Advanced),
        Just(Deed::Reopened),
        token().prop_map(Deed::Accepted),
        token().prop_map(Deed::Repaired),
    ];
    (how, ".{0,8}", ".{0,40}", moment()).prop_map(|(how, operator, reason, at)| Intervention {
        how,
        operator,
        reason,
        at,
    })
}

pub(super) fn note() -> impl Strategy<Value = TwinNote> {
    (key(), key(), fingerprint()).prop_map(|(key, first, fingerprint)| TwinNote {
        key,
        first,
        fingerprint,
    })
}

pub(super) fn event() -> impl Strategy<Value = Event> {
    (key(), moment(), option::of(attempt_id()), ".{0,80}").prop_map(|(key, at, attempt, text)| {
        Event {
            key,
            at,
            attempt,
            text,
        }
    })
}
