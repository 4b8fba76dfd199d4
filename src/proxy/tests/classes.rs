//! What an answer proves by profile: to the only attempt, and to a repeat of one whose answer was lost.

use super::*;
use crate::protocol::command::Resend;
use crate::protocol::outcome::{Answer, Evidence, Fields, Interruption, Phase};
use crate::store::Resent;
use crate::store::permit::Permit;

const STRIPE: &str = "\n    profile: stripe-v1\n";

/// The draft names no lifetime: without one nothing is repeated unattended.
const GENERIC: &str = "\n    profile: generic\n    key: { lifetime: 24h }\n";

/// Status, state after the only attempt, state after a repeat.
type Row = (u16, &'static str, &'static str);

/// The same for both.
const ALIKE: &[Row] = &[
    (200, "COMPLETED", "COMPLETED"),
    (201, "COMPLETED", "COMPLETED"),
    (202, "COMPLETED", "COMPLETED"),
    (204, "COMPLETED", "COMPLETED"),
    // A redirect proves nothing, nor does 304.
    (302, "UNCERTAIN", "UNCERTAIN"),
    (304, "UNCERTAIN", "UNCERTAIN"),
    (308, "UNCERTAIN", "UNCERTAIN"),
    // Nothing happened, says the answer; of the attempt before it, it says nothing.
    (401, "NOT_APPLIED", "UNCERTAIN"),
    (403, "NOT_APPLIED", "UNCERTAIN"),
    (404, "NOT_APPLIED", "UNCERTAIN"),
    (422, "NOT_APPLIED", "UNCERTAIN"),
    (429, "NOT_APPLIED", "UNCERTAIN"),
    (408, "UNCERTAIN", "UNCERTAIN"),
    // The key is in use: an attempt may be running right now.
    (409, "UNCERTAIN", "UNCERTAIN"),
    (412, "UNCERTAIN", "UNCERTAIN"),
    (424, "UNCERTAIN", "UNCERTAIN"),
    (425, "UNCERTAIN", "UNCERTAIN"),
    (500, "UNCERTAIN", "UNCERTAIN"),
    (502, "UNCERTAIN", "UNCERTAIN"),
    (503, "UNCERTAIN", "UNCERTAIN"),
    (504, "UNCERTAIN", "UNCERTAIN"),
    (520, "UNCERTAIN", "UNCERTAIN"),
    (524, "UNCERTAIN", "UNCERTAIN"),
];

fn bench(rules: &str) -> Bench {
    let nobody = SocketAddr::from(([127, 0, 0, 1], 9));
    Bench::new(nobody, rules, Box::new(|_| ()))
}

async fn admitted(bench: &Bench, key: &str) -> (Permit, Arc<Protect>, Identified) {
    let (protect, identified) = bench.identified(0, key);
    let (attempt, now) = (
        bench.dispatcher.next_attempt(),
        bench.dispatcher.clock.now(),
    );
    let admit = identified.admit(attempt, now, true);
    let admitted = bench.dispatcher.register.admit(admit).await.unwrap();
    (admitted.permit.unwrap(), protect, identified)
}

async fn resent(bench: &Bench, key: &OperationKey) -> Permit {
    let timeouts = bench.gateways[0].config.timeouts;
    let resend = Resend {
        key: key.clone(),
        attempt: bench.dispatcher.next_attempt(),
        dispatch: timeouts.dispatch,
        overdue_after: timeouts.overdue_after(),
        attended: None,
        lease: crate::protocol::lease::LeaseFacts::unknown(),
        at: bench.dispatcher.clock.now(),
    };
    match bench.dispatcher.register.resend(resend).await.unwrap() {
        Resent::Granted(permit) => permit,
        other => panic!("{other:?}"),
    }
}

async fn record(bench: &Bench, permit: Permit, evidence: Evidence) -> &'static str {
    let receipt = permit.finish(evidence);
    let now = bench.dispatcher.clock.now();
    let recorded = bench
        .dispatcher
        .register
        .record(&receipt, now)
        .await
        .unwrap();
    recorded.state.unwrap().word()
}

/// By status alone, as the profile reads it.
async fn answered(
    bench: &Bench,
    protect: &Arc<Protect>,
    identified: &Identified,
    status: u16,
    fields: Fields,
) -> Evidence {
    let load = bench.gateways[0]
        .load(&identified.request, protect)
        .unwrap();
    let answer = Answer {
        status,
        fields,
        body: None,
    };
    let class = load.judge().class(answer.clone()).await;
    Evidence::Answered { answer, class }
}

/// B07, and contract §3 on what a repeat's answer proves.
#[tokio::test]
async fn an_answer_proves_by_profile_and_a_repeats_answer_proves_less() {
    // Stripe stores what it answered under a key, a declined charge too; the draft does not say.
    let refused = [
        (STRIPE, (402, "COMPLETED", "COMPLETED")),
        (GENERIC, (402, "COMPLETED", "UNCERTAIN")),
    ];
    // Stripe says in the content of a 400 whether its key met another request; without any, it says nothing.
    let unread = [
        (400, "UNCERTAIN", "UNCERTAIN"),
        (400, "NOT_APPLIED", "UNCERTAIN"),
    ];
    for ((profile, refused), unread) in refused.into_iter().zip(unread) {
        let bench = bench(profile);
        let retry_after: Fields = vec![("retry-after".into(), "1".into())];
        for (status, sole, repeat) in ALIKE.iter().copied().chain([refused, unread]) {
            // Advice on when to come again proves nothing either way.
            for (advice, fields) in [("without", Vec::new()), ("with", retry_after.clone())] {
                let key = format!("sole-{status}-{advice}");
                let (permit, protect, identified) = admitted(&bench, &key).await;
                let evidence =
                    answered(&bench, &protect, &identified, status, fields.clone()).await;
                assert_eq!(
                    record(&bench, permit, evidence.clone()).await,
                    sole,
                    "{key}"
                );

                let key = format!("repeat-{status}-{advice}");
                let (permit, _, identified) = admitted(&bench, &key).await;
                let lost = Evidence::Interrupted {
                    phase: Phase::Waiting,
                    why: Interruption::Closed,
                };
                assert_eq!(record(&bench, permit, lost).await, "UNCERTAIN");
                let permit = resent(&bench, &identified.key).await;
                assert_eq!(record(&bench, permit, evidence).await, repeat, "{key}");
            }
        }
    }
}
