//! Repeats: what the record under an identity says to another request of that identity (contract §4).
//!
//! What always holds: a stored outcome is for the request that made it and for no other; a repeat of
//! what is under way joins it; an identity is free for another request only where nothing happened
//! under it, or the upstream's stored refusal stands under an id that the proxy made.
//!
//! What it does not do: judge tokens or write (`admission`).

use super::admission::{Caller, Desk};
use super::broken::{Rule, broken};
use super::command::{Admit, Event, Ruling};
use super::ids::OperationKey;
use super::meaning::Likeness;
use super::operation::{IdentityOrigin, Operation, Parked, State};
use super::outcome::{Provenance, Verdict};
use super::policy::{IfTwin, KeyValue, Ownership};
use super::rejection::{Expired, Rejection};
use super::view::{Record, TwinNote};

impl Desk<'_> {
    pub(super) fn consult_record(&mut self, caller: &Caller) -> Result<Option<Ruling>, Rejection> {
        match &self.view.record {
            None => Ok(None),
            Some(Record::Twin(note)) => self.consult_note(note, caller),
            Some(Record::Operation(operation)) => {
                let likeness = self.admit.meaning.likeness(&operation.fingerprint);
                if likeness == Likeness::Same {
                    return match (self.answer_from(operation, caller)?, &self.view.note) {
                        (None, Some(note)) => self.consult_note(note, caller),
                        (ruling, _) => Ok(ruling),
                    };
                }
                if leaves_identity_free(operation, likeness) || broken(Rule::IdentityIsOneRequest) {
                    return Ok(None);
                }
                Err(self.not_the_same(likeness, &operation.key, caller))
            }
        }
    }

    /// What the record answers to a repeat; `None`: go on as if new.
    fn answer_from(
        &self,
        operation: &Operation,
        caller: &Caller,
    ) -> Result<Option<Ruling>, Rejection> {
        let key = operation.key.clone();
        let settled_as_nothing = matches!(operation.state, State::NotApplied(_));
        if operation.credentialed && !self.admit.credentialed && !settled_as_nothing {
            return Err(Rejection::CredentialRequired(Box::new(key)));
        }
        match &operation.state {
            State::Completed(_) if broken(Rule::CompletedIsReplayed) => Ok(None),
            State::Completed(completion) if completion.answer.is_none() => {
                let ended = completion.at.wall_ms;
                Err(Rejection::AnswerExpired(Box::new(Expired {
                    clocks_disagree: ended < operation.first_seen.wall_ms
                        || ended > self.admit.at.wall_ms,
                    ..Expired::of(key, completion)
                })))
            }
            State::Completed(completion) => {
                let stale = matches!(caller, Caller::Stale(..));
                Ok(Some(Ruling::Replay {
                    completion: Box::new(completion.clone()),
                    stale,
                }))
            }
            State::Intended | State::Uncertain if broken(Rule::RepeatJoins) => Ok(None),
            State::Intended | State::Uncertain => {
                let uncertain = !operation.is_in_flight(&self.view.living, &self.admit.at);
                let licenses = uncertain && self.licenses(operation, caller);
                Ok(Some(joining(operation, uncertain, licenses)))
            }
            // It waits for a person only because its owner was gone. Here is another; or the same one, whom nobody
            // here knew to be the owner.
            State::NeedsAttention(Parked::NotCurrent) if self.is_by_owner(operation, caller) => {
                Ok(Some(joining(operation, true, true)))
            }
            State::NeedsAttention(_) if broken(Rule::AttentionHolds) => Ok(None),
            State::NeedsAttention(_) => Err(Rejection::NeedsAttention(Box::new(key))),
            State::NotApplied(_) => Ok(None),
        }
    }

    /// Does its caller own the resource now, while what it repeats was admitted under a lease that is lost?
    fn licenses(&self, operation: &Operation, caller: &Caller) -> bool {
        let of_his_own = operation.place.as_ref().and_then(|place| place.token) == caller.token();
        !of_his_own && self.is_by_owner(operation, caller)
    }

    /// Does it need an owner, and is its caller the one?
    fn is_by_owner(&self, operation: &Operation, caller: &Caller) -> bool {
        operation.require == Ownership::Current
            && matches!(caller, Caller::Holder(_))
            && self.is_current()
    }

    /// A request without a key that equals an unsettled one for the same resource, without a key too, is
    /// the blind retry of some middleware: they come exactly then.
    pub(super) fn join_equal_without_key(
        &mut self,
        caller: &Caller,
    ) -> Result<Option<Ruling>, Rejection> {
        let (Some(window), Some(first)) = (self.admit.blind_retry, &self.view.keyless) else {
            return Ok(None);
        };
        let late = self.admit.at.is_past(&first.first_seen, window) && !broken(Rule::EqualIsRecent);
        let unheard = late || broken(Rule::EqualWithoutKeyJoins);
        if unheard || first.key == self.key || !first.is_equal_without_key(self.admit) {
            return Ok(None);
        }
        let ruling = self.answer_from(first, caller)?;
        self.changes.events.push(Event {
            key: first.key.clone(),
            at: self.admit.at,
            attempt: None,
            text: "joined by an equal request without a key".to_owned(),
        });
        Ok(ruling)
    }

    fn consult_note(&self, note: &TwinNote, caller: &Caller) -> Result<Option<Ruling>, Rejection> {
        let likeness = self.admit.meaning.likeness(&note.fingerprint);
        if likeness != Likeness::Same {
            return Err(self.not_the_same(likeness, &note.key, caller));
        }
        if broken(Rule::TwinIsNoted) {
            return Ok(None);
        }
        match self.fenced().map(|(_, policy)| policy.if_twin) {
            Some(IfTwin::Refuse) => Err(Rejection::NearDuplicate {
                first: Box::new(note.first.clone()),
            }),
            Some(IfTwin::Answer) => match &self.view.first {
                // If the first ends NOT_APPLIED the note is void; so it is where the first was
                // then corrected, and is no twin any more.
                Some(first) if first.fingerprint == note.fingerprint => {
                    self.answer_from(first, caller)
                }
                Some(_) | None => Ok(None),
            },
            Some(IfTwin::Send) | None => Ok(None),
        }
    }

    /// The record is of another request, or of one that cannot be compared with this any more. Where
    /// tokens are observed nothing is refused for one, and what is left is the identity.
    fn not_the_same(
        &self,
        likeness: Likeness,
        recorded: &OperationKey,
        caller: &Caller,
    ) -> Rejection {
        match (caller, likeness) {
            (Caller::Stale(_, rejection), _) if !self.is_observing() => rejection.clone(),
            (
                Caller::Tokenless | Caller::Holder(_) | Caller::Stale(..),
                Likeness::NotComparable,
            ) => Rejection::NotComparable(Box::new(recorded.clone())),
            (
                Caller::Tokenless | Caller::Holder(_) | Caller::Stale(..),
                Likeness::Same | Likeness::Other,
            ) => Rejection::KeyReused,
        }
    }
}

fn joining(operation: &Operation, uncertain: bool, licenses: bool) -> Ruling {
    Ruling::Join {
        key: operation.key.clone(),
        attempt: operation.attempts.last().map(|newest| newest.id),
        admitted: operation.admitted,
        uncertain,
        licenses,
    }
}

impl Operation {
    /// Is it one that a request without a key may be the blind retry of: unsettled, without a key too, of
    /// the same caller, upstream and resource, and the same request? Also where a person has to say how it
    /// ended: nobody knows that it had no effect. Which stores look for it by.
    pub fn is_equal_without_key(&self, admit: &Admit) -> bool {
        let (own, asked) = (&self.key, &admit.key);
        let presented = admit.presented.as_ref();
        let resource = presented.map(|shown| &shown.resource.name);
        let same_resource = self.place.as_ref().map(|place| &place.resource) == resource;
        let needs_a_person = matches!(self.state, State::NeedsAttention(_));
        self.origin == IdentityOrigin::Fresh
            && self.state.is_unsettled()
            && !(needs_a_person && broken(Rule::EqualWaitsForPerson))
            && own.tenant == asked.tenant
            && own.upstream == asked.upstream
            && own.principal == asked.principal
            && (same_resource || broken(Rule::EqualIsOfOneResource))
            && admit.meaning.fingerprint == self.fingerprint
    }
}

/// Another request may take the identity: nothing happened under it, or the upstream refused and the
/// proxy had composed the id itself. Under the caller's own key a stored refusal is final. A refusal
/// that may be this very request's is not sent past under a new key.
fn leaves_identity_free(operation: &Operation, likeness: Likeness) -> bool {
    match &operation.state {
        State::NotApplied(_) => true,
        State::Completed(completion) => {
            let own_key = operation
                .settle
                .key
                .is_some_and(|key| key.value == KeyValue::Caller);
            // An undo is not the upstream's refusal of the request; and one that is on its way still, though
            // the upstream refused, may not tell the corrected request from this one.
            let undone =
                completion.provenance == Provenance::Void || operation.settling.void.is_some();
            let refused = completion.verdict == Verdict::Refused;
            refused
                && (!undone || broken(Rule::VoidedIsFinal))
                && operation.origin == IdentityOrigin::Derived
                && likeness == Likeness::Other
                && (!own_key || broken(Rule::CallersRefusalIsFinal))
        }
        State::Intended | State::Uncertain | State::NeedsAttention(_) => false,
    }
}

/// The upstream answered under the current key with a failure that it stores, and this is another
/// form: it needs another key.
pub(super) fn is_corrected_after_refusal(earlier: &Operation, admit: &Admit) -> bool {
    let refused = match &earlier.state {
        State::Completed(completion) => completion.verdict == Verdict::Refused,
        State::Intended | State::Uncertain | State::NeedsAttention(_) | State::NotApplied(_) => {
            false
        }
    };
    let another = admit.meaning.likeness(&earlier.fingerprint) == Likeness::Other;
    refused && another && !broken(Rule::CorrectedTakesNewKey)
}
