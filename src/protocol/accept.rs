//! A person lets in a token that could not be placed (contract §4): a wild token must not brick a resource, and a
//! genuine one must not be shut out by a rule of thumb.
//!
//! What always holds: the mark rises to exactly that token, and is open; nothing is lowered. A jump may be as large
//! as he says, and above everything that was issued: then it counts as issued, so that the register never issues it
//! itself. Another source takes a new epoch: tokens of two who count are not comparable within one. Where the tokens
//! were the register's own until then, whoever lets in the first one of the new epoch says whose it is: of a token that
//! is nobody's it would still be said that it was never issued.
//!
//! What it does not do: judge the requests that carry the token; they are judged like any other.

use super::broken::{Rule, broken};
use super::command::NotAccepted;
use super::fence::{Deed, Fence};
use super::ids::{FencingToken, TokenSource};
use super::lease::OWN_SOURCE;

/// Raises the fence, or leaves it alone.
pub(super) fn accept(
    fence: &mut Fence,
    epoch: u64,
    token: FencingToken,
    source: Option<&TokenSource>,
) -> Result<Deed, NotAccepted> {
    if fence.cancelled {
        return Err(NotAccepted::Cancelled);
    }
    if token.epoch() < epoch {
        return Err(NotAccepted::EarlierEpoch(epoch));
    }
    if token.epoch() > epoch {
        return Err(NotAccepted::LaterEpoch(epoch));
    }
    let deed = Deed::Accepted(token);
    if let Some(mark) = fence.mark.filter(|mark| token <= *mark) {
        let said_before = token == mark && !fence.closed && fence.was_last(deed);
        if said_before && source.is_none_or(|source| fence.source.as_ref() == Some(source)) {
            return Ok(deed);
        }
        // Said without its source before, and nobody has acted under it: whose it is can still be said.
        let names_it = said_before && fence.source.is_none() && fence.first.is_none();
        if !names_it && !broken(Rule::AcceptOnlyRaises) {
            return Err(NotAccepted::NotAbove(mark));
        }
    }
    let is_new_epoch = fence.mark.is_some_and(|mark| mark.epoch() != token.epoch());
    if is_new_epoch && source.is_none() && fence.is_own() {
        return Err(NotAccepted::SourceIsMissing);
    }
    let known = fence.source.clone().filter(|_| !is_new_epoch);
    if let (Some(known), Some(other)) = (&known, source)
        && known != other
    {
        return Err(NotAccepted::OtherSource(known.clone()));
    }
    let own = source.or(known.as_ref()).map(TokenSource::as_str) == Some(OWN_SOURCE);
    if own && FencingToken::new(token.epoch(), token.generation().saturating_add(1)).is_none() {
        return Err(NotAccepted::TheLast);
    }
    fence.begin_at(token);
    fence.source = source.cloned().or(known);
    fence.lease = None;
    if fence.source.as_ref().map(TokenSource::as_str) == Some(OWN_SOURCE) {
        fence.issued = fence.issued.max(Some(token));
    }
    Ok(deed)
}

impl Fence {
    /// The mark is this token, open, and nothing was done under it yet.
    pub(super) fn begin_at(&mut self, token: FencingToken) {
        self.leave_mark();
        self.mark = Some(token);
        self.closed = false;
        self.acquisition = None;
        self.sequence = None;
        self.first = None;
    }
}
