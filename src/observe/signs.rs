//! What of a request, or of a refusal, is a finding.
//!
//! What always holds: it is said in the contract's words, whether what was found was done or only
//! observed.
//!
//! What it does not do: count (`counts`).

use super::counts::Finding;
use crate::protocol::command::{Admission, Ruling, TokenField};
use crate::protocol::operation::IdentityOrigin;
use crate::protocol::policy::TokenMode;
use crate::protocol::rejection::Rejection;
use crate::wire::identify::{Identified, Unidentified};
use crate::wire::problem::{Fault, Row};

/// What a request shows by itself, before anything is asked.
pub fn of_request(identified: &Identified) -> Vec<Finding> {
    let mut findings = Vec::new();
    if identified.origin == IdentityOrigin::Fresh {
        findings.push(Finding::WithoutIdentity);
    }
    let presented = identified.presented.as_ref().map(|it| it.token);
    let mode = identified.policy.fence.map(|it| it.token);
    if (presented, mode) == (Some(TokenField::Absent), Some(TokenMode::Prefer)) {
        findings.push(Finding::WithoutToken);
    }
    findings
}

/// Why there is nothing to ask: the member that is lacking, and the refusal.
pub fn of_unidentified(unidentified: &Unidentified) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Unidentified::Fault(fault) = unidentified {
        findings.extend(lacking(fault));
    }
    findings.push(Finding::Refused(unidentified.name().into()));
    findings
}

/// A refusal by the rules.
pub fn of_rejection(rejection: &Rejection) -> Finding {
    Finding::Refused(Row::of_rejection(rejection).name().into())
}

/// What is let pass because tokens are observed.
pub fn let_pass(rejection: &Rejection) -> Finding {
    Finding::LetPass(Row::of_rejection(rejection).name().into())
}

/// What enforcing would do with a request.
pub(super) fn of_admission(admission: &Admission, waited: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(admission.would_refuse.as_ref().map(let_pass));
    findings.extend(waited.then_some(Finding::Waited));
    findings.extend(match &admission.ruling {
        Ruling::Granted(_) | Ruling::ReserveFirst => None,
        Ruling::Replay { .. } => Some(Finding::Replayed),
        Ruling::Join { .. } => Some(Finding::Joined),
        // It was asked again as if the older one were settled.
        Ruling::Wait { .. } => None,
        Ruling::Refused(rejection) => Some(of_rejection(rejection)),
    });
    findings
}

fn lacking(fault: &Fault) -> Option<Finding> {
    let member = match fault {
        Fault::IdentityMissing { field } => field.clone(),
        Fault::NotInsertable { what } => what.clone(),
        Fault::KeyRequired { header } | Fault::KeyMalformed { header } => {
            format!("header {header}")
        }
        Fault::NoRoute { .. }
        | Fault::BodyTooLarge { .. }
        | Fault::Overloaded
        | Fault::Draining
        | Fault::ConfigChanged
        | Fault::OperationInFlight
        | Fault::OutcomeUncertain { .. }
        | Fault::UpstreamUnreachable
        | Fault::WorkerUnreachable
        | Fault::WorkerBroke { .. }
        | Fault::TooMuchWork { .. }
        | Fault::StoreUnavailable
        | Fault::LeaseHeld { .. }
        | Fault::LeaseLost { .. }
        | Fault::DispatchExpired => return None,
    };
    Some(Finding::Lacking(member.into()))
}
