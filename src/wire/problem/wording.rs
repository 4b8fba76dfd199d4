//! What is wrong this time, in a sentence that a person can act on, and in members for a program.
//!
//! What always holds: sentences say what happened, that nothing was sent where nothing was, and what
//! to do next. Tokens and sequences are text: no reader may round them.
//!
//! What it does not do: quote keys that could not be read, header values or content.

use serde_json::{Value, json};

use super::{About, Fault, Remedy};
use crate::expression::Member;
use crate::protocol::ids::{FencingToken, OperationKey, ResourceKey, ResourceName};
use crate::protocol::lease::OWN_SOURCE;
use crate::protocol::outcome::{Provenance, Verdict};
use crate::protocol::rejection::{Expired, Rejection, UnknownToken};
use crate::wire::reply::{location, rfc3339, segment, word};
use crate::wire::shell::shell_word;
use crate::wire::stamp::Standing;

/// The variable part of a problem.
pub(super) struct Wording {
    pub(super) detail: String,
    pub(super) members: Vec<(&'static str, Value)>,
}

impl Wording {
    pub(super) fn of_rejection(rejection: &Rejection, about: About<'_>) -> Self {
        Self {
            detail: sentence(rejection, about),
            members: members(rejection),
        }
    }

    pub(super) fn of_fault(fault: &Fault) -> Self {
        let detail = match fault {
            Fault::NoRoute { why } => format!("{why}. Nothing was sent."),
            Fault::KeyRequired { header } => format!(
                "This request needs the field {header}: one value for each logical operation, the \
                 same for all its retries. Nothing was sent."
            ),
            Fault::KeyMalformed { header } => format!(
                "The field {header} holds 1 to 255 visible ASCII characters, bare or in quotes, and \
                 occurs once. Nothing was sent."
            ),
            Fault::IdentityMissing { field } => {
                format!("What identifies the operation cannot be had: {field}. Nothing was sent.")
            }
            Fault::NotInsertable { what } => format!(
                "This upstream tells a repeat by what is put into its requests, and it cannot be put into \
                 this one: {what}. Nothing was sent."
            ),
            Fault::BodyTooLarge { limit } => format!(
                "The content of this request may be at most {limit} bytes long (`limits.body`). \
                 Nothing was sent."
            ),
            Fault::Overloaded => {
                "Too much content is held at once. Send the same request again. Nothing was sent."
                    .to_owned()
            }
            Fault::Draining => {
                "This proxy admits nothing more. Send the same request again. Nothing was sent."
                    .to_owned()
            }
            Fault::ConfigChanged => {
                "The config of this proxy changed while this request waited, and with it what operations \
                 are named by. Send the same request again: it is read under the new one. Nothing was sent."
                    .to_owned()
            }
            Fault::StoreUnavailable => {
                "This request cannot be recorded, so nothing was sent for it. Send the same request \
                 again, under the same identity: an earlier one may have been sent."
                    .to_owned()
            }
            Fault::UpstreamUnreachable => {
                "No connection could be made, or it was lost before the first byte. Nothing was sent. \
                 Send the same request again."
                    .to_owned()
            }
            Fault::DispatchExpired => {
                "The request was held up between its admission and its first byte. Nothing was sent. \
                 Send the same request again."
                    .to_owned()
            }
            Fault::WorkerUnreachable => WORKER_UNREACHABLE.to_owned(),
            Fault::WorkerBroke { .. } => WORKER_BROKE.to_owned(),
            Fault::TooMuchWork { at_most } => too_much_work(*at_most),
            Fault::LeaseHeld { why, .. } => lease_held(why),
            Fault::LeaseLost { why, remedy, .. } => lease_lost(why, *remedy),
            Fault::OperationInFlight => {
                "It was sent and not answered yet. Send the same request again to get its answer; it \
                 will not be sent twice."
                    .to_owned()
            }
            Fault::OutcomeUncertain { .. } => {
                "It may have taken effect; that is being found out. Send the same request again under \
                 the same identity to get the outcome. A new identity could make a second effect."
                    .to_owned()
            }
        };
        Self {
            detail,
            members: texts([("resource", resource_of(fault).map(|name| name as _))]),
        }
    }
}

fn resource_of(fault: &Fault) -> Option<&ResourceName> {
    match fault {
        Fault::LeaseHeld { resource, .. } => Some(resource),
        Fault::LeaseLost { resource, .. } => resource.as_ref(),
        _ => None,
    }
}

const WORKER_UNREACHABLE: &str = "No connection to the worker behind this address could be made (`inbound`, `url`): is \
                                  it running? Nothing was sent to it.";

const WORKER_BROKE: &str = "The worker behind this address broke off before it answered (`inbound`). It may have \
                            begun, and nobody here finds out: only it can tell.";

fn too_much_work(at_most: usize) -> String {
    format!(
        "When work came in is remembered of {at_most} ids (`inbound`, `at_most`), and there is no room for another: one \
         would have to be forgotten before its time. Nothing was sent to the worker."
    )
}

fn lease_held(why: &str) -> String {
    format!(
        "This sidecar holds the lease of this resource on behalf of its worker, and does not have it: {why}. Nothing \
         was sent."
    )
}

fn lease_lost(why: &str, remedy: Remedy) -> String {
    let remedy = match remedy {
        Remedy::BeginAnew => {
            "Work that was begun before is void: restart the worker, or let it begin anew (`POST \
             /v1/leases/{resource}/acknowledge`) on new connections."
        }
        Remedy::AskAgain => ASK_AGAIN,
        Remedy::CarryId => {
            "The worker does not carry on the id that its work came in with, or that is forgotten: manual, `on_behalf`, \
             Pinning."
        }
        Remedy::SendFromThere => {
            "Send it from the worker's own machine, or with a token of a lease of your own."
        }
    };
    format!(
        "This sidecar held the lease of this resource on behalf of its worker, and this request is not from that \
         ownership: {why}. {remedy} Nothing was sent."
    )
}

/// Of what is pinned: a restart of the worker does not make it of another moment.
const ASK_AGAIN: &str = "Have the work done again under a new id (`traceparent`, or the header that it is pinned by), \
                         if it is to be done.";

fn token_required(token: Option<&Member>) -> String {
    let place = token.map(|place| format!(" ({place})"));
    let place = place.unwrap_or_default();
    format!(
        "This effect is fenced: send the fencing token of your lease with it{place}. Nothing was sent."
    )
}

fn stale_work() -> String {
    format!(
        "The work of this request came in under an ownership of this resource that is over, and it has the token of \
         then. {ASK_AGAIN} Nothing was sent."
    )
}

fn sentence(rejection: &Rejection, about: About<'_>) -> String {
    let fixed = match rejection {
        Rejection::TokenRequired => return token_required(about.token),
        Rejection::TokenMalformed => {
            "A fencing token is a decimal number below 2^63, or epoch:generation, in exactly one \
             field; a sequence is such a number. Nothing was sent."
        }
        Rejection::StaleToken { .. } if about.stamped == Some(Standing::Earlier) => {
            return stale_work();
        }
        Rejection::StaleToken {
            presented,
            epoch: Some(epoch),
            ..
        } => return of_earlier_epoch(*presented, *epoch),
        Rejection::StaleToken { epoch: None, .. } => {
            "A newer owner has acted on this resource, or whoever held it was cut off. Stop working on it; \
             acquire the lease again before anything else. Nothing was sent."
        }
        Rejection::TokenUnknown { presented, why } => {
            return unknown_token(*presented, *why, about.resource);
        }
        Rejection::TokenHeldByAnother { .. } => {
            "Two acquisitions present this token. Only the one that was named with it first may use \
             it; acquire the lease again. Nothing was sent."
        }
        Rejection::KeyReused => {
            "An operation of this identity exists with another method, path, query or body. A \
             different operation needs a different identity. Nothing was sent."
        }
        Rejection::NotComparable(_) => {
            "An operation of this identity exists, and whether it was this request can no longer be \
             told: the rule (`means`), the key or the form of fingerprints has changed since. It is \
             neither replayed nor sent. Look the effect up; a different operation needs a different \
             identity. Nothing was sent."
        }
        Rejection::CredentialRequired(_) => {
            "This operation was asked for with a credential, and this request carries none. Send it \
             again with the credential that the upstream asks for. Nothing was sent."
        }
        Rejection::AnswerExpired(expired) => return ended(expired),
        Rejection::NeedsAttention(_) => {
            "Nobody knows whether the effect happened, and no automatic step can find out. An \
             operator has to look it up and resolve it (`fencepost operations resolve`)."
        }
        Rejection::LeaseNotCurrent => {
            "This effect needs a lease that is live right now, and this instance does not know it to \
             be. Renew or acquire the lease through this instance. Nothing was sent."
        }
        Rejection::ResourceCancelled => {
            "An operator cancelled this resource. Nothing is sent for it until it is reopened."
        }
        Rejection::GenerationUsed { .. } => {
            "Each generation of this resource has one operation, and this one had another. Acquire \
             the lease again for a new generation. Nothing was sent."
        }
        Rejection::SequenceRegressed { .. } => {
            "Operations of this resource are numbered: send a sequence above the last one that was \
             admitted under this token. Nothing was sent."
        }
        Rejection::PredecessorUnsettled {
            waiting_may_help, ..
        } => predecessor(*waiting_may_help),
        Rejection::NearDuplicate { .. } => {
            "The very same request is unsettled under another identity. Repeat that one to get its \
             answer; a retry must not change its key. Nothing was sent."
        }
    };
    fixed.to_owned()
}

fn predecessor(waiting_may_help: bool) -> &'static str {
    if waiting_may_help {
        "An older operation of this resource may still take effect. Send the same request again when \
         it is settled. Nothing was sent."
    } else {
        "An older operation of this resource may have taken effect, and only a person can find out. \
         An operator has to resolve it first. Nothing was sent."
    }
}

fn members(rejection: &Rejection) -> Vec<(&'static str, Value)> {
    match rejection {
        Rejection::StaleToken {
            presented,
            current,
            epoch,
        } => texts([
            ("presented", Some(presented as &dyn ToString)),
            ("current", current.as_ref().map(|token| token as _)),
            ("epoch", epoch.as_ref().map(|epoch| epoch as _)),
        ]),
        Rejection::TokenUnknown { presented, .. } => texts([("presented", Some(presented as _))]),
        Rejection::TokenHeldByAnother {
            presented,
            acquisition,
        } => texts([
            ("presented", Some(presented as &dyn ToString)),
            ("acquisition", acquisition.as_ref().map(|id| id as _)),
        ]),
        Rejection::SequenceRegressed { presented, last } => texts([
            ("sequence", presented.as_ref().map(|it| it as &dyn ToString)),
            ("last_sequence", last.as_ref().map(|it| it as _)),
        ]),
        Rejection::GenerationUsed { by } => vec![("by", reference(by))],
        Rejection::PredecessorUnsettled { predecessor, .. } => {
            vec![("predecessor", reference(predecessor))]
        }
        Rejection::NearDuplicate { first } => vec![("first", reference(first))],
        Rejection::AnswerExpired(expired) => texts([
            (
                "completed",
                Some(&rfc3339(expired.at.wall_ms) as &dyn ToString),
            ),
            ("verdict", Some(&way(expired.verdict))),
            ("provenance", Some(&word(expired.provenance))),
        ]),
        Rejection::TokenRequired
        | Rejection::TokenMalformed
        | Rejection::KeyReused
        | Rejection::NotComparable(_)
        | Rejection::CredentialRequired(_)
        | Rejection::NeedsAttention(_)
        | Rejection::LeaseNotCurrent
        | Rejection::ResourceCancelled => Vec::new(),
    }
}

/// Those that are there.
fn texts<const N: usize>(
    values: [(&'static str, Option<&dyn ToString>); N],
) -> Vec<(&'static str, Value)> {
    values
        .into_iter()
        .filter_map(|(name, value)| Some((name, Value::from(value?.to_string()))))
        .collect()
}

/// When and how, which is all that is left. A time is one clock's, and none is better known.
fn ended(expired: &Expired) -> String {
    let how = match (expired.verdict, expired.provenance) {
        (Verdict::Applied, _) => "accepted",
        (Verdict::Refused, Provenance::Void) => "undone",
        (Verdict::Refused, _) => "refused for good",
    };
    let said = match expired.provenance {
        Provenance::Answer => "the upstream's answer",
        Provenance::LookUp => "a look-up",
        Provenance::Callback => "a callback",
        Provenance::Operator => "an operator",
        Provenance::Void => "the upstream, at our asking",
    };
    let when = rfc3339(expired.at.wall_ms);
    let doubt = if expired.clocks_disagree {
        " That cannot have been the time: a clock was wrong, or was set since."
    } else {
        ""
    };
    format!(
        "The operation ended at {when}, by the clock of the instance that recorded it.{doubt} Its effect was \
         {how}, by {said}. It is not repeated; only its answer is gone. Look the effect up at the upstream. \
         Nothing was sent."
    )
}

fn way(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Applied => "applied",
        Verdict::Refused => "refused",
    }
}

fn of_earlier_epoch(presented: FencingToken, epoch: u64) -> String {
    format!(
        "The token {presented} is of epoch {}, and epoch {epoch} is in force: every token of an earlier one is stale, \
         on every resource. Stop working on it; acquire the lease again before anything else. Nothing was sent.",
        presented.epoch()
    )
}

/// With what an operator types if it is genuine after all: whoever presented it tells him.
fn unknown_token(
    presented: FencingToken,
    why: UnknownToken,
    resource: Option<&ResourceKey>,
) -> String {
    let reason = match why {
        UnknownToken::LaterEpoch => "is of an epoch that has not started",
        UnknownToken::NeverIssued => "is above everything that its source has issued",
        UnknownToken::TooFarAhead => "is too far above the highest one seen",
        UnknownToken::OtherSource => "is of another source than the resource's",
        UnknownToken::NoneIssued => return none_issued(resource),
        UnknownToken::NotOwn => return not_own(),
    };
    let name = resource.map_or_else(|| "NAME".to_owned(), |key| shell_word(key.name.as_str()));
    let way = match why {
        UnknownToken::TooFarAhead => format!(
            "an operator can let it in (`fencepost resources accept {name} {presented} --reason '…'`)"
        ),
        // Only of its own tokens the register knows what was issued.
        UnknownToken::NeverIssued => format!(
            "an operator can let it in (`fencepost resources accept {name} {presented} --source {OWN_SOURCE} \
             --reason '…'`)"
        ),
        UnknownToken::LaterEpoch
        | UnknownToken::OtherSource
        | UnknownToken::NoneIssued
        | UnknownToken::NotOwn => {
            "an operator can start a new epoch, which cuts off every token of before (`fencepost epoch advance \
             --reason '…'`)"
                .to_owned()
        }
    };
    format!("The token {reason}. If it is genuine, {way}. Nothing was sent.")
}

/// It is not for an operator: whoever sent it has no lease.
fn none_issued(resource: Option<&ResourceKey>) -> String {
    let name = resource.map_or_else(|| "NAME".to_owned(), |key| segment(key.name.as_str()));
    format!(
        "Nobody has taken a lease of this resource yet, so no token of it is genuine: take one first \
         (`POST /v1/leases/{name}/acquire` on the `worker` listener). Nothing was sent."
    )
}

/// Most often the config was forgotten, and a new epoch would cut off all who have a lease.
fn not_own() -> String {
    format!(
        "The tokens of this resource come from `{OWN_SOURCE}`, and this effect takes them from another source: write \
         `source: {OWN_SOURCE}` in the effect's `token`. Only if the source has really changed an operator starts a \
         new epoch, which cuts off every token of before (`fencepost epoch advance --reason '…'`). Nothing was sent."
    )
}

fn reference(key: &OperationKey) -> Value {
    json!({
        "operation": key.id.as_str(),
        "upstream": key.upstream.as_str(),
        "location": location(key),
    })
}
