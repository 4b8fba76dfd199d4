//! The rules by name, and a switch that breaks one of them, so that the model check can show that it
//! would notice.
//!
//! What always holds: without the cargo feature `broken-rules`, which no release has, `broken` is
//! the constant `false` and nothing can turn it. With the feature a rule is broken on one thread
//! alone, and none is broken until a test asks for it.
//!
//! What it does not do: state the rules. They stand where they are enforced; each of those places
//! asks here.

macro_rules! rules {
    ($($name:ident: $says:literal,)*) => {
        /// A rule of the contract, as one place in the code enforces it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Rule {
            $(#[doc = $says] $name,)*
        }

        impl Rule {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The rule in words.
            pub fn says(self) -> &'static str {
                match self {
                    $(Self::$name => $says,)*
                }
            }
        }
    };
}

rules! {
    LowerEpochIsStale: "a token of a lower epoch is stale",
    BelowMarkIsStale: "a token below the mark is stale",
    ClosedMarkIsStale: "a token equal to a closed mark is stale",
    UnknownIsRefused: "a token that cannot be placed is refused",
    OneAcquisition: "a token belongs to the acquisition first named with it",
    MarkRises: "a valid token above the mark raises it",
    MarkRisesWhateverFollows: "the mark rises also when the request is then refused or made to wait",
    ObservedIsLetPass: "where tokens are observed nothing is refused for one, or made to wait",
    ObservedRaisesTheMark: "an observed token raises the mark like any other",
    ObservedStaleMovesNothing: "an observed stale token takes over nothing of the mark's",
    StaleNeverActs: "a stale caller gets stored outcomes, never an attempt",
    IdentityIsOneRequest: "another request under a used identity is refused",
    CompletedIsReplayed: "a completed operation is replayed, never sent again",
    RepeatJoins: "a repeat of an operation in flight or in doubt joins it",
    AttentionHolds: "a repeat of an operation that needs a person is refused",
    EqualWithoutKeyJoins: "an equal request without a key joins the unsettled one that it repeats",
    EqualWaitsForPerson: "an equal request without a key is no new one while a person has to settle the first",
    EqualIsOfOneResource: "equal requests without keys are one within one resource only",
    EqualIsRecent: "an equal request without a key is a repeat only for so long",
    RepeatedWriteGrantsOnce: "an admission that is written twice is granted once",
    TwinIsJudged: "a twin of an unsettled operation is judged at once",
    TwinIsNoted: "a refused twin stays refused",
    CurrentNeedsLiveLease: "what needs ownership is admitted under a live lease only",
    LiveIsTheRecorded: "a lease that was lost is not live, whatever its holder's clock says",
    DispatchWithinLease: "what needs ownership leaves before the lease ends",
    CancelledAdmitsNothing: "a cancelled resource admits nothing",
    OnePerGeneration: "with `one`, a generation belongs to the first operation admitted",
    SequenceRises: "with `numbered`, the sequence rises with every admission",
    SettleBeforeSupersede: "nothing is admitted over an unsettled operation of an older generation",
    StrictWithinGeneration: "strict operations of one generation follow each other",
    TokenlessWaits: "a request without a token waits for every unsettled operation",
    OnlyConditionalGoesAhead: "only a request with its own condition goes ahead of an older one",
    ReserveFirst: "nothing is admitted without a reserved connection",
    IntentListsItsAttempt: "an intent lists its attempt before the first byte",
    LookAgain: "after another's verdict the record is looked at again before the first byte",
    RetryKeepsKey: "an operation tried again keeps its upstream key",
    CorrectedTakesNewKey: "a corrected request after a stored refusal takes a new key",
    CallersRefusalIsFinal: "a stored refusal under the caller's own key is final",
    EveryAttemptIsDisproved: "NOT_APPLIED needs proof for every attempt",
    RefusalOfRepeatProvesNothing: "a refusal of a repeat is definitive only where refusals are remembered",
    ConditionOfRepeatProvesNothing: "a failed condition of a repeat proves nothing",
    CompletedIsFinal: "evidence never changes a completed operation",
    LateProofCompletes: "late proof of application completes what is not completed",
    FirstAnswerIsTheOne: "of attempts that are answered as somebody found before, only the first is what was found",
    EarlierFindingNamesEarlier: "what was found of an earlier turn is no attempt of a later one",
    CompletesAsItsForm: "proof completes the operation as the form that was sent",
    LateWriteChangesNothing: "a write that is repeated late does not open an attempt again",
    SilenceIsOverdue: "a silent attempt is overdue once its limits have passed",
    AnotherBootIsDatedBySight: "an attempt of another machine is dated by its first sight, on the own clock",
    OneAttemptAtATime: "nothing is resent while an attempt acts or listens",
    ResendKeepsKey: "a resend goes out under the same key",
    ResendNeedsDeduplication: "only what the upstream deduplicates is resent",
    ConditionIsTheRequests: "an upstream orders by itself only what carries its condition",
    ResendNeedsOrder: "without a fence only what commutes is resent",
    ResendKeepsOrder: "nothing is resent after a later operation that is ordered with it",
    ResendNeedsLiveLease: "what needs ownership is resent under a live lease only",
    LaterOwnerLicenses: "what needs ownership is resent under a later lease only once its owner repeats it",
    ResendsAreCounted: "the number of resends is bounded",
    CutOffIsNotResent: "what was cut off or cancelled is never resent",
    ResendWithinLifetime: "nothing is resent after four fifths of the key's lifetime",
    ResendLeavesInTime: "a resend leaves before four fifths of the key's lifetime are over",
    LifetimeFromFirstAttempt: "the lifetime counts from the first attempt under the key",
    LifetimeSurvivesUnsent: "an attempt that sent nothing does not renew the lifetime of others",
    PlanClosesFirst: "a settle step closes a listening attempt before it acts",
    PlanParks: "an operation that no step can help is given to a person",
    ParkIsPlanned: "nothing is given to a person while an attempt acts or listens, or a step can help",
    VerdictWaitsForAttempt: "a person's verdict waits for an attempt that acts",
    VerdictLeavesCompleted: "a person's verdict never changes a completed operation",
    FindingLeavesCompleted: "a finding never changes a completed operation",
    NotFoundNeedsLag: "`not found` counts only when asked so long after everything was quiet",
    NotFoundNeedsSamples: "`not found` counts only from so many samples in a row",
    SamplesAreApart: "samples of `not found` are a pause apart",
    QuietIsSeenOnTheOwnClock: "how long it has been quiet is counted on the own clock, from the own first sight",
    TurnIsNoted: "a step that cannot be taken has its time all the same, on the own clock",
    TimeRunsFromTheTurn: "the time of a question or a callback runs from its turn, not while others have theirs",
    AttemptEndsQuiet: "a new attempt ends the quiet that `not found` is counted from",
    CallbackWaitsForTheLiving: "a callback proves no absence while an attempt acts or listens",
    NotKnownIsNoSample: "what is not known is not taken for `not found`",
    TwoFormsAreNotKnown: "`applied` says nothing where it cannot tell two forms apart",
    CallbackIsDefinitive: "a callback that does not speak for good proves no absence",
    CallbackSpeaksOfOneAttempt: "a callback proves no absence of other attempts than its own",
    RefusedStaysListed: "an attempt that was refused stays listed when its operation is corrected",
    UndoNeedsQuiet: "an undo begins only so long after everything was quiet",
    UndoWithinLifetime: "an undo begins only while the upstream still knows the key",
    UndoIsTheLast: "once an undo has begun nothing else is sent under the key",
    TakenUpIsOnlyAsked: "what a person has asked after again is not sent by itself",
    VoidedIsNotFree: "once an undo has begun the operation is not free to be tried again",
    VoidedIsFinal: "what an undo has begun of is replayed once it ended, also to a corrected request",
    UndoneMayNotStand: "once an undo has begun, what was seen before it ended proves nothing",
    UndoneAnswerProvesNothing: "once an undo has begun, an attempt's own answer does not say that it is in force",
    WhatWasAdmittedIsCutOff: "a cancel or an advance cuts off what was admitted before",
    AdvanceClosesTheMark: "an advance closes the mark",
    CutOffEndsTheLease: "a cancel or an advance ends the lease",
    LeaseIsExclusive: "a lease is nobody else's before its time is over",
    ExpiryIsByOwnSight: "a lease ends so long after it was first seen as it is, by the own clock",
    AskedAgainIsRenewed: "a lease that is asked for again by its owner has its whole time again for everybody",
    RenewalIsTheOwners: "a lease is renewed by its own acquisition only",
    LateRenewalIsLoss: "a lease is not renewed after its time",
    ReleaseIsTheOwners: "a lease is released by its own acquisition only",
    ReleaseClosesTheMark: "a released token is stale",
    CancelledIsLeasedToNobody: "a cancelled resource is leased to nobody",
    TokensAreIssuedOnce: "a token is issued once",
    IssuingRaisesTheMark: "an old owner is cut off before the new one's first request",
}

/// Is the rule broken? Only ever in a test.
#[cfg(not(feature = "broken-rules"))]
pub(super) const fn broken(_rule: Rule) -> bool {
    false
}

#[cfg(feature = "broken-rules")]
thread_local! {
    static BROKEN: std::cell::Cell<Option<Rule>> = const { std::cell::Cell::new(None) };
}

/// Is the rule broken? Only ever in a test.
#[cfg(feature = "broken-rules")]
pub(super) fn broken(rule: Rule) -> bool {
    BROKEN.get() == Some(rule)
}

/// Breaks one rule on this thread, or none again.
#[cfg(feature = "broken-rules")]
pub fn break_rule(rule: Option<Rule>) {
    BROKEN.set(rule);
}
