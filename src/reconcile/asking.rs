//! The questions of settle steps: asked, read page by page, and what they found recorded.
//!
//! What always holds: a question goes to the upstream of the intent, with the credential of the intent; the
//! config's own stands in only where that one was refused or is not kept, and sees the same account. What is
//! recorded says when it was asked, *before* the question left. An upstream that cannot be reached uses nothing
//! up; whatever else happens is a finding, at worst "not known", with its reason.
//!
//! What it does not do: count findings (`protocol::weigh`), or look into answers (`wire::findings`).

use std::sync::Arc;

use http::HeaderName;

use crate::config::{Credential, Protect, Query};
use crate::dispatch::gateway::Gateway;
use crate::expression::PathParams;
use crate::protocol::finding::{Finder, Finding, Found, NotKnown, Weighed, Worth};
use crate::protocol::operation::{Effect, Operation, State};
use crate::protocol::outcome::{Answer, StoredRequest};
use crate::protocol::steps::{SettleStep, StepIndex};
use crate::store::{StoreError, Stored};
use crate::upstream::Unanswered;
use crate::wire::findings::{self, Page};
use crate::wire::insertion::{self, Named};
use crate::wire::keys;
use crate::wire::question::{Asked, Bearing};

use super::Reconciler;
use super::steps::AWAY;
use super::way::is_otherwise;

/// What a question came to.
pub(super) enum Came {
    /// To this.
    Found(Found),
    /// To nothing: no byte of it left.
    Away(Unanswered),
}

/// A question, ready to be asked.
pub(super) struct Ready {
    pub(super) asked: Arc<Asked>,
    pub(super) protect: Arc<Protect>,
    /// Where the key stood, if in a header.
    pub(super) key_header: Option<HeaderName>,
    /// Does what selects accounts now say that it is of the account that it was of?
    same_account: bool,
}

impl Reconciler {
    /// Asks the question of that step once, and records what was found. `None`: the upstream is away.
    pub(super) async fn ask(
        &self,
        gateway: &Gateway,
        stored: Stored,
        step: StepIndex,
    ) -> Result<Option<Weighed>, StoreError> {
        let operation = stored.operation;
        // Before anything of it leaves: what it finds is as old as this.
        let asked_at = self.dispatcher.clock.now();
        let found = match ready(gateway, &operation, stored.request) {
            Err(why) => Found::NotKnown(why),
            Ok(ready) => match self.found(gateway, &operation, &ready, step).await {
                Came::Found(found) => found,
                Came::Away(why) => {
                    tracing::warn!(
                        operation = %operation.key.id,
                        upstream = %operation.key.upstream,
                        error = %why,
                        "the upstream is away; it is asked later"
                    );
                    self.say(&operation.key, AWAY).await?;
                    return Ok(None);
                }
            },
        };
        let finding = Finding {
            key: operation.key.clone(),
            by: Finder::LookUp { step, asked_at },
            admitted: operation.admitted,
            found,
            at: self.dispatcher.clock.now(),
        };
        self.record_finding(&operation, finding).await.map(Some)
    }

    /// Records a finding, and tells everybody who waits for the operation.
    pub(super) async fn record_finding(
        &self,
        before: &Operation,
        finding: Finding,
    ) -> Result<Weighed, StoreError> {
        let weighed = self.dispatcher.register.find(finding).await?;
        if weighed.effect == Effect::Contradiction {
            self.dispatcher.metrics.contradiction();
            tracing::error!(
                operation = %before.key.id,
                upstream = %before.key.upstream,
                "contradiction: what was found speaks against the record"
            );
        }
        if weighed.worth == Worth::Settled
            && let (Some(state), Some(turn)) = (&weighed.state, weighed.turn)
        {
            self.tell(before, state.clone(), turn);
        }
        Ok(weighed)
    }

    async fn found(
        &self,
        gateway: &Gateway,
        operation: &Operation,
        ready: &Ready,
        step: StepIndex,
    ) -> Came {
        match operation.settle.steps.at(step) {
            Some(SettleStep::LookUp(policy)) => {
                self.look_up(gateway, ready, policy.name.as_str()).await
            }
            Some(SettleStep::Compare(policy)) => {
                self.compare(gateway, ready, policy.name.as_str()).await
            }
            Some(SettleStep::SendAgain(_) | SettleStep::Void(_) | SettleStep::Callback(_))
            | None => Came::Found(Found::NotKnown(NotKnown::NotConfigured)),
        }
    }

    /// Page by page.
    async fn look_up(&self, gateway: &Gateway, ready: &Ready, name: &str) -> Came {
        let Some(look_up) = ready.protect.asking.look_up(name) else {
            return Came::Found(Found::NotKnown(NotKnown::NotConfigured));
        };
        let pages = look_up.pages.as_ref();
        let most = pages.map_or(1, |pages| pages.most);
        let mut page: Option<String> = None;
        for _ in 0..most {
            let named = pages.zip(page.as_deref());
            let named = named.map(|(pages, name)| (pages.parameter.as_str(), name));
            let answer = self.answer(gateway, ready, &look_up.query, named, look_up.answer_limit);
            let answer = match answer.await {
                Ok(answer) => answer,
                Err(came) => return came,
            };
            let (asked, protect) = (Arc::clone(&ready.asked), Arc::clone(&ready.protect));
            let name = name.to_owned();
            let said = look_into(move || match protect.asking.look_up(&name) {
                Some(look_up) => findings::of_look_up(look_up, &asked, &answer),
                None => Page::Last(Found::NotKnown(NotKnown::NotConfigured)),
            });
            match said.await {
                None => return Came::Found(Found::NotKnown(NotKnown::ConditionFailed)),
                Some(Page::Last(found)) => return Came::Found(found),
                // A page that names itself never ends.
                Some(Page::Next(next)) if Some(&next) == page.as_ref() => break,
                Some(Page::Next(next)) => page = Some(next),
            }
        }
        Came::Found(Found::NotKnown(NotKnown::TooManyPages))
    }

    async fn compare(&self, gateway: &Gateway, ready: &Ready, name: &str) -> Came {
        let Some(compare) = ready.protect.asking.compare(name) else {
            return Came::Found(Found::NotKnown(NotKnown::NotConfigured));
        };
        let answer = match &compare.query {
            Some(query) => {
                let most = compare.answer_limit;
                self.answer(gateway, ready, query, None, most).await
            }
            None => self.answer_from_there(gateway, ready, name).await,
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(came) => return came,
        };
        let (asked, never_reverts) = (Arc::clone(&ready.asked), compare.never_reverts);
        let said = look_into(move || findings::of_comparison(&asked, &answer, never_reverts)).await;
        Came::Found(said.unwrap_or(Found::NotKnown(NotKnown::ConditionFailed)))
    }

    /// What is there where the request was sent to.
    async fn answer_from_there(
        &self,
        gateway: &Gateway,
        ready: &Ready,
        name: &str,
    ) -> Result<Answer, Came> {
        let Some(compare) = ready.protect.asking.compare(name) else {
            return Err(Came::Found(Found::NotKnown(NotKnown::NotConfigured)));
        };
        let header = ready.key_header.as_ref();
        let ask = |credential: Option<&Credential>| ready.asked.same_place(credential, header);
        let stand_in = compare.credential.as_ref();
        let asked = async |credential| match ask(credential) {
            Some(question) => self.sent(gateway, &question, compare.answer_limit).await,
            None => Err(Came::Found(Found::NotKnown(NotKnown::RequestNotKept))),
        };
        let first = asked(None).await?;
        match stand_in {
            Some(own) if is_refused(&first) && may_stand_in(gateway, ready, stand_in) => {
                asked(Some(own)).await
            }
            Some(_) | None => Ok(first),
        }
    }

    /// The answer to a question, with whichever credential gets one. One that may see another account's
    /// operations gets none: a config that has it is refused, but what is settled may be of one before.
    async fn answer(
        &self,
        gateway: &Gateway,
        ready: &Ready,
        query: &Query,
        page: Option<(&str, &str)>,
        most: usize,
    ) -> Result<Answer, Came> {
        let header = ready.key_header.as_ref();
        let ask = async |bearing| match ready.asked.question(query, bearing, page, header) {
            Ok(question) => self.sent(gateway, &question, most).await,
            Err(_missing) if ready.asked.request().is_none() => {
                Err(Came::Found(Found::NotKnown(NotKnown::RequestNotKept)))
            }
            Err(_missing) => Err(Came::Found(Found::NotKnown(NotKnown::ConditionFailed))),
        };
        match first_bearing(ready) {
            None => Err(Came::Found(Found::NotKnown(NotKnown::RequestNotKept))),
            Some(Bearing::StandIn) => ask(Bearing::StandIn).await,
            Some(Bearing::Stored) => {
                let first = ask(Bearing::Stored).await?;
                if is_refused(&first) && may_stand_in(gateway, ready, query.credential.as_ref()) {
                    return ask(Bearing::StandIn).await;
                }
                Ok(first)
            }
        }
    }

    async fn sent(
        &self,
        gateway: &Gateway,
        question: &StoredRequest,
        most: usize,
    ) -> Result<Answer, Came> {
        let breaker = self.breaker_of(&gateway.config.id);
        let failed = || breaker.failed(self.dispatcher.clock.now().boottime);
        let why = match gateway.questions.ask(question, most).await {
            Ok(answer) => {
                breaker.answered();
                return Ok(answer);
            }
            Err(why) => why,
        };
        let not_known = match why {
            away @ Unanswered::Unreachable(_) => {
                failed();
                return Err(Came::Away(away));
            }
            Unanswered::Broken(_) | Unanswered::TooLate(_) | Unanswered::Unusable => {
                failed();
                NotKnown::Unanswered
            }
            Unanswered::TooLarge => {
                breaker.answered();
                NotKnown::TooLarge
            }
            Unanswered::Unfit => NotKnown::ConditionFailed,
        };
        Err(Came::Found(Found::NotKnown(not_known)))
    }
}

/// Who asks first; `None`: nobody can. Without the stored request nothing says whose account it was.
pub(super) fn first_bearing(ready: &Ready) -> Option<Bearing> {
    match ready.asked.request() {
        Some(_) => Some(Bearing::Stored),
        None if ready.same_account => Some(Bearing::StandIn),
        None => None,
    }
}

/// Does the config's own credential see the account of the stored request? Not where what selects accounts has
/// changed since.
pub(super) fn may_stand_in(gateway: &Gateway, ready: &Ready, own: Option<&Credential>) -> bool {
    ready.same_account && own.is_some_and(|own| own.leaves(&gateway.config.principal))
}

/// What can be asked about an operation, by the config in force. The rules are those of the route of its stored
/// request; without one, those that it was admitted by. Rules by which it would have gone out another way say
/// nothing of it: elsewhere, or by another text, there is nothing to be found.
pub(super) fn ready(
    gateway: &Gateway,
    operation: &Operation,
    request: Option<StoredRequest>,
) -> Result<Ready, NotKnown> {
    let (protect, request) = if let Some(request) = request {
        let route = gateway.route_of(&request);
        let (protect, params) = route.ok_or(NotKnown::NotConfigured)?;
        (protect, Some((request, params)))
    } else {
        let way = operation.settle.way.as_ref();
        let way = way.ok_or(NotKnown::RequestNotKept)?;
        let protect = gateway.config.protect_named(&way.effect);
        let protect = protect.ok_or(NotKnown::NotConfigured)?;
        (Arc::clone(protect), None::<(_, PathParams)>)
    };
    if is_otherwise(operation, &gateway.config, &protect.insert) {
        return Err(NotKnown::NotConfigured);
    }
    let rule = protect.insert.key.as_ref();
    let named = Named {
        key: &operation.key,
        origin: operation.origin,
        round: operation.key_use.round,
    };
    // What went without a key is not found by one, and neither is it by a reference that it does not carry.
    let sent_under = rule.filter(|_| operation.settle.key.is_some());
    let key = sent_under.map(|rule| keys::by_rule(rule, named.origin, named.key, named.round));
    let stored = request.as_ref().map(|(request, _)| request);
    let reference = insertion::carried_reference(&protect.insert, stored, named);
    let key_header = rule.and_then(|rule| rule.slot.header().cloned());
    let asked = Asked::about(operation, request, key, reference);
    let same_account = asked.is_of(&operation.key.principal, &gateway.config.principal);
    Ok(Ready {
        same_account,
        asked: Arc::new(asked),
        protect,
        key_header,
    })
}

/// 403 says that its account may not ask this, and that of another one might is no answer for it.
pub(super) fn is_refused(answer: &Answer) -> bool {
    answer.status == 401
}

/// Off the async workers: conditions may take long. `None`: a fault of ours, and nobody knows.
pub(super) async fn look_into<T: Send + 'static>(
    look: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    tokio::task::spawn_blocking(look).await.ok()
}

/// Is it settled now?
pub(super) fn is_settled(state: Option<&State>) -> bool {
    state.is_none_or(|state| !state.is_unsettled())
}
