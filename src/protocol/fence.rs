//! The fence: the durable record of a resource, and how a token is judged against it.
//!
//! What always holds: the mark never goes down; raising it closes the book on the generation below
//! (its sequence, its first operation, its acquisition). Order is (incarnation, epoch, generation).
//!
//! What it does not do: know which operations are unsettled (`view`), or decide an admission
//! (`decide`).

use std::sync::Arc;

use super::broken::{Rule, broken};
use super::command::{Presented, TokenField};
use super::ids::{
    AcquisitionId, AdmissionNumber, FencingToken, Incarnation, OperationKey, ResourceKey, Sequence,
    TokenSource,
};
use super::lease::{Lease, OWN_SOURCE};
use super::policy::{FencePolicy, Order, TokenMode};
use super::rejection::{Rejection, UnknownToken};
use super::time::Moment;

/// The durable record of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fence {
    /// Whose fence.
    pub resource: ResourceKey,
    /// Counted up when the resource is reopened or repaired.
    pub incarnation: Incarnation,
    /// Highest token presented; `None` until one was.
    pub mark: Option<FencingToken>,
    /// A closed mark is stale itself.
    pub closed: bool,
    /// Who issues its tokens; named by the first.
    pub source: Option<TokenSource>,
    /// The acquisition first named with the mark.
    pub acquisition: Option<AcquisitionId>,
    /// Last sequence admitted under the mark.
    pub sequence: Option<Sequence>,
    /// First operation admitted under the mark.
    pub first: Option<OperationKey>,
    /// Durable cancel.
    pub cancelled: bool,
    /// Number of the last admission.
    pub admissions: AdmissionNumber,
    /// Operations admitted up to this number were cut off by a cancel or an advance: never sent
    /// again.
    pub cut_off: AdmissionNumber,
    /// The latest admissions, by what they must be ordered with.
    pub latest: Latest,
    /// What persons did to it, oldest first: the last few. No rule reads them.
    pub interventions: Arc<[Intervention]>,
    /// The last token that the register's own source issued.
    pub issued: Option<FencingToken>,
    /// The lease that the register keeps on it; expired or not.
    pub lease: Option<Lease>,
    /// The highest of the earlier marks that were closed when they were left. A repair opens none of them again.
    pub shut: Option<FencingToken>,
}

/// What a person did to a resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Intervention {
    /// What.
    pub how: Deed,
    /// Who.
    pub operator: String,
    /// Why.
    pub reason: String,
    /// When.
    pub at: Moment,
}

/// What became of a resource by a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Deed {
    /// It was cancelled.
    Cancelled,
    /// It was advanced.
    Advanced,
    /// It was reopened.
    Reopened,
    /// This token was let in.
    Accepted(FencingToken),
    /// It began again at this token.
    Repaired(FencingToken),
}

/// So many interventions are kept with a fence: it is read with every admission.
pub const INTERVENTIONS: usize = 4;

/// The latest admissions of a resource; enough to tell whether a resend could overtake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Latest {
    /// Generation of the latest admission that carried a token.
    pub generation: Option<(Incarnation, FencingToken)>,
    /// Latest admission that must be ordered within its generation.
    pub strict: AdmissionNumber,
    /// Latest admission without a token: ordered with everything.
    pub tokenless: AdmissionNumber,
}

/// Where an operation stands in the order of its resource: (incarnation, token), none before any.
pub type Generation = (Incarnation, Option<FencingToken>);

/// How a request's token stands against the fence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// No token, and none is needed.
    NoToken,
    /// At the mark or above it. `raises` if above.
    Valid {
        /// The token.
        token: FencingToken,
        /// Above the mark?
        raises: bool,
    },
    /// Outdated: may get a stored outcome, never an attempt.
    Stale {
        /// The token.
        token: FencingToken,
        /// What it is told.
        rejection: Rejection,
    },
    /// Refused at once.
    Refused(Rejection),
}

impl Fence {
    /// The fence of a resource that nobody has seen yet.
    pub fn unseen(resource: ResourceKey) -> Self {
        Self {
            resource,
            incarnation: Incarnation::default(),
            mark: None,
            closed: false,
            source: None,
            acquisition: None,
            sequence: None,
            first: None,
            cancelled: false,
            admissions: AdmissionNumber::default(),
            cut_off: AdmissionNumber::default(),
            latest: Latest::default(),
            interventions: Arc::default(),
            issued: None,
            lease: None,
            shut: None,
        }
    }

    /// Judges the presented token. Pure reading: [`Fence::raise`] is what follows for a valid one.
    pub fn judge(
        &self,
        register_epoch: u64,
        presented: &Presented,
        policy: &FencePolicy,
    ) -> Standing {
        let token = match (&presented.token, policy.token) {
            (TokenField::Malformed, _) => return Standing::Refused(Rejection::TokenMalformed),
            (TokenField::Absent, TokenMode::Require | TokenMode::Observe) => {
                return Standing::Refused(Rejection::TokenRequired);
            }
            (TokenField::Absent, TokenMode::Prefer) => return Standing::NoToken,
            (TokenField::Token(token), _) => *token,
        };
        if self.is_stale(register_epoch, token) {
            let rejection = Rejection::StaleToken {
                presented: token,
                current: self.mark,
                epoch: (token.epoch() < register_epoch).then_some(register_epoch),
            };
            return Standing::Stale { token, rejection };
        }
        if let Some(why) = self.cannot_place(register_epoch, token, presented, policy) {
            return Standing::Refused(Rejection::TokenUnknown {
                presented: token,
                why,
            });
        }
        if self.mark == Some(token) && self.held_by_another(presented) {
            let acquisition = presented.acquisition.clone();
            return Standing::Refused(Rejection::TokenHeldByAnother {
                presented: token,
                acquisition,
            });
        }
        Standing::Valid {
            token,
            raises: self.mark.is_none_or(|mark| token > mark),
        }
    }

    fn is_stale(&self, register_epoch: u64, token: FencingToken) -> bool {
        let below = |mark| token < mark && !broken(Rule::BelowMarkIsStale);
        let at_closed = |mark| token == mark && self.closed && !broken(Rule::ClosedMarkIsStale);
        (token.epoch() < register_epoch && !broken(Rule::LowerEpochIsStale))
            || self.mark.is_some_and(|mark| below(mark) || at_closed(mark))
    }

    fn cannot_place(
        &self,
        register_epoch: u64,
        token: FencingToken,
        presented: &Presented,
        policy: &FencePolicy,
    ) -> Option<UnknownToken> {
        if broken(Rule::UnknownIsRefused) {
            return None;
        }
        if token.epoch() > register_epoch {
            return Some(UnknownToken::LaterEpoch);
        }
        if self.never_issued(token, presented) {
            let is_first = self.mark.is_none() && self.issued.is_none();
            return Some(if is_first {
                UnknownToken::NoneIssued
            } else {
                UnknownToken::NeverIssued
            });
        }
        let mark = self.mark?;
        // A new epoch starts its own count: neither the step nor the source is compared across it.
        if mark.epoch() != token.epoch() {
            return None;
        }
        let step = token.generation().saturating_sub(mark.generation());
        if policy.max_step.is_some_and(|max| step > max) {
            return Some(UnknownToken::TooFarAhead);
        }
        let other = self
            .source
            .as_ref()
            .is_some_and(|source| *source != presented.source);
        other.then_some(if self.is_own() {
            UnknownToken::NotOwn
        } else {
            UnknownToken::OtherSource
        })
    }

    /// Would it be the register's own token, which it knows nothing of?
    fn never_issued(&self, token: FencingToken, presented: &Presented) -> bool {
        presented.source.as_str() == OWN_SOURCE && self.issued.is_none_or(|issued| token > issued)
    }

    /// An absent acquisition is accepted until a request names one; a named one must be the first that was, and
    /// the one that the register's own lease was granted under.
    fn held_by_another(&self, presented: &Presented) -> bool {
        let leased = self.lease.as_ref();
        let leased = leased.filter(|lease| Some(lease.token) == self.mark);
        let is_other = match (&presented.acquisition, &self.acquisition) {
            (None, named) => named.is_some(),
            (Some(own), Some(named)) => own != named,
            (Some(own), None) => leased.is_some_and(|lease| lease.acquisition != *own),
        };
        is_other && !broken(Rule::OneAcquisition)
    }

    /// Are its tokens the register's own?
    pub fn is_own(&self) -> bool {
        let source = self.source.as_ref();
        source.is_some_and(|source| source.as_str() == OWN_SOURCE)
    }

    /// The mark is about to change: a closed one stays closed, also where a repair goes back to it.
    pub(super) fn leave_mark(&mut self) {
        if self.closed {
            self.shut = self.shut.max(self.mark);
        }
    }

    /// Raises the mark to a valid token, or notes the acquisition first named with it. Returns
    /// whether anything changed.
    pub fn raise(&mut self, token: FencingToken, presented: &Presented) -> bool {
        if self.mark.is_none_or(|mark| token > mark) && !broken(Rule::MarkRises) {
            self.leave_mark();
            self.mark = Some(token);
            self.closed = false;
            self.source = Some(presented.source.clone());
            self.acquisition.clone_from(&presented.acquisition);
            self.sequence = None;
            self.first = None;
            return true;
        }
        if self.mark == Some(token) && self.acquisition.is_none() && presented.acquisition.is_some()
        {
            self.acquisition.clone_from(&presented.acquisition);
            return true;
        }
        false
    }

    /// Enters an admission: the next number, the generation's first operation and its sequence.
    pub fn enter(
        &mut self,
        key: &OperationKey,
        token: Option<FencingToken>,
        sequence: Option<Sequence>,
        order: Order,
    ) -> AdmissionNumber {
        let number = AdmissionNumber(self.admissions.0.saturating_add(1));
        self.admissions = number;
        match token {
            // Under `observe` a token below the mark can get here; it changes nothing of the mark's,
            // and is not taken for none: that would stand in the way of every earlier operation.
            Some(token) if self.mark == Some(token) || broken(Rule::ObservedStaleMovesNothing) => {
                self.first.get_or_insert_with(|| key.clone());
                self.sequence = self.sequence.max(sequence);
                self.latest.generation = Some((self.incarnation, token));
            }
            Some(_) => {}
            None => self.latest.tokenless = number,
        }
        if order == Order::Strict {
            self.latest.strict = number;
        }
        number
    }

    /// Was an operation admitted after `number` that must be ordered with the one of that number?
    /// Counts what was admitted, whether or not it was dispatched: a resend that is not made is
    /// looked up or parked, a resend that overtakes cannot be recalled.
    pub fn overtaken(&self, number: AdmissionNumber, generation: Generation, order: Order) -> bool {
        if broken(Rule::ResendKeepsOrder) {
            return false;
        }
        let (incarnation, token) = generation;
        let newer_generation =
            self.latest
                .generation
                .is_some_and(|(latest_incarnation, latest)| {
                    (latest_incarnation, Some(latest)) > (incarnation, token)
                });
        let within = match order {
            Order::Strict => self.admissions > number,
            Order::Free => self.latest.strict > number,
        };
        // `>` on the generation alone would be wrong for an operation that was admitted after the
        // newer generation's last one; its number says so.
        (newer_generation && self.admissions > number)
            || self.latest.tokenless > number
            || (token.is_none() && self.admissions > number)
            || within
    }
}

/// Must two operations of the same generation be ordered?
pub fn ordered_within(one: Order, other: Order) -> bool {
    one == Order::Strict || other == Order::Strict
}
