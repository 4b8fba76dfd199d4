//! Callbacks that were proven to be the upstream's: what they say of which operation, recorded.
//!
//! What always holds: a callback settles by what the config's conditions say of it and by nothing else; one that
//! neither says anything of is no evidence. It names its operation in words of the config; an operation that
//! is not ours is left to the application. One that overtakes the answer of the attempt it is about waits for
//! that answer for a while, so that the record is the same whichever comes first; after that it is evidence.
//! Whatever it says is recorded before anybody else is told.
//!
//! What it does not do: verify signatures (`wire::signed`), take requests or pass them on (`proxy::callbacks`).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;

use super::Reconciler;
use super::asking::look_into;
use crate::config::{CallbackRule, Callbacks};
use crate::expression::{OperationFacts, PathParams, RequestFacts, Truth};
use crate::protocol::finding::{Finder, Finding, Found, Uncounted, Worth};
use crate::protocol::ids::{Incarnation, OperationId, OperationKey, Tenant, UpstreamId};
use crate::protocol::operation::{Effect, Operation};
use crate::store::StoreError;
use crate::wire::findings::outcome;
use crate::wire::keys;
use crate::wire::principal::of_headers;

/// How long a callback waits at most for the answer of an attempt that is under way.
const OVERTAKEN: Duration = Duration::from_secs(5);

/// A proven callback. Owned, so that it can be looked into off the async workers.
pub struct Callback {
    /// Of which upstream.
    pub upstream: UpstreamId,
    /// Whose operations it can be about.
    pub tenant: Tenant,
    /// The rules, and which of them it fell under.
    pub rules: Arc<Callbacks>,
    /// Its index.
    pub rule: usize,
    /// What its path captured.
    pub params: PathParams,
    /// Its head.
    pub head: Parts,
    /// Its content.
    pub body: Bytes,
}

/// What became of a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Heard {
    /// It settled its operation.
    Settled,
    /// It said what was known, or what does not count.
    NothingNew,
    /// It speaks against the record: an alarm was raised.
    Contradiction,
    /// No condition says anything of it: it is about something else.
    Silent,
    /// It says for good that there was no effect, of an attempt that is still under way: it is to come again.
    TooEarly,
    /// It does not name an operation.
    Nameless,
    /// It names one that is not ours.
    Unknown,
}

impl Heard {
    /// For metrics and logs.
    pub fn word(self) -> &'static str {
        match self {
            Self::Settled => "settled",
            Self::NothingNew => "nothing-new",
            Self::Contradiction => "contradiction",
            Self::Silent => "silent",
            Self::TooEarly => "too-early",
            Self::Nameless => "nameless",
            Self::Unknown => "unknown",
        }
    }
}

/// What a callback says.
enum Says {
    Nothing(Heard),
    Of(Box<OperationKey>, Found),
}

impl Reconciler {
    /// Records what a callback says.
    pub async fn called_back(&self, callback: Callback) -> Result<Heard, StoreError> {
        let callback = Arc::new(callback);
        let reading = Arc::clone(&callback);
        let says = look_into(move || reading.says()).await;
        let (key, found) = match says {
            // A fault of ours: the upstream sends it again, or a look-up finds it.
            None => return Ok(Heard::Silent),
            Some(Says::Nothing(heard)) => return Ok(heard),
            Some(Says::Of(key, found)) => (key, found),
        };
        let Some(operation) = self.settled_or_quiet(&key).await? else {
            return Ok(Heard::Unknown);
        };
        let Some(rule) = callback.rule() else {
            return Ok(Heard::Silent);
        };
        let finding = Finding {
            key: *key,
            by: Finder::Callback {
                definitive: rule.definitive,
                tells_forms: rule.tells_forms,
            },
            admitted: operation.admitted,
            found,
            at: self.dispatcher.clock.now(),
        };
        let weighed = self.record_finding(&operation, finding).await?;
        Ok(match (weighed.effect, weighed.worth) {
            (Effect::Contradiction, _) => Heard::Contradiction,
            (Effect::Changed | Effect::Nothing, Worth::Settled) => Heard::Settled,
            // It would be evidence if it came later, and may be the only one that ever comes.
            (_, Worth::Nothing(Uncounted::AttemptLive)) if rule.definitive => Heard::TooEarly,
            (
                Effect::Changed | Effect::Nothing,
                Worth::NothingNew | Worth::Sample { .. } | Worth::Nothing(_),
            ) => Heard::NothingNew,
        })
    }

    /// The operation, once no attempt of it is under way any more, or after a while.
    async fn settled_or_quiet(&self, key: &OperationKey) -> Result<Option<Operation>, StoreError> {
        let read = self.dispatcher.register.read();
        // Listening begins before looking: what ends between the two is not missed.
        let mut ticket = self.dispatcher.waiters.watch(key);
        let Some(stored) = read.operation(key, false).await? else {
            return Ok(None);
        };
        let living = self.dispatcher.register.living();
        let now = self.dispatcher.clock.now();
        if !stored.operation.is_in_flight(&living, &now) {
            return Ok(Some(stored.operation));
        }
        let _ended = tokio::time::timeout(OVERTAKEN, ticket.next()).await;
        let stored = read.operation(key, false).await?;
        Ok(stored.map(|stored| stored.operation))
    }
}

impl Callback {
    fn rule(&self) -> Option<&CallbackRule> {
        self.rules.rules.get(self.rule)
    }

    fn says(&self) -> Says {
        let Some(rule) = self.rule() else {
            return Says::Nothing(Heard::Silent);
        };
        let facts = RequestFacts {
            method: &self.head.method,
            raw_path: self.head.uri.path(),
            path: &self.params,
            query: self.head.uri.query(),
            headers: &self.head.headers,
            body: &self.body,
            token: None,
            operation: None,
        };
        let key = self.subject(rule, &facts);
        // What it shows is compared with what the operation's own request would carry: a text that somebody
        // chose elsewhere is none.
        let reference = key.as_ref().map(keys::reference);
        let operation = key.as_ref().map(|key| OperationFacts {
            id: key.id.as_str(),
            key: None,
            reference: reference.as_deref(),
            answers: None,
        });
        let facts = RequestFacts { operation, ..facts };
        match (found(rule, &facts), &key) {
            (None, _) => Says::Nothing(Heard::Silent),
            (Some(_), None) => Says::Nothing(Heard::Nameless),
            (Some(found), Some(key)) => Says::Of(Box::new(key.clone()), found),
        }
    }

    /// The operation that it names.
    fn subject(&self, rule: &CallbackRule, facts: &RequestFacts<'_>) -> Option<OperationKey> {
        let id = rule.subject.operation.render(facts).ok()?;
        let parts = rule.subject.principal.iter();
        let parts: Vec<Option<String>> = parts.map(|part| part.render(facts).ok()).collect();
        let principal = of_headers(parts.iter().map(Option::as_deref));
        Some(OperationKey {
            tenant: self.tenant.clone(),
            upstream: self.upstream.clone(),
            principal,
            id: OperationId::new(id),
            incarnation: Incarnation::default(),
        })
    }
}

/// `None`: nothing of use. A condition that cannot be computed says nothing, and neither do two that both
/// hold.
fn found(rule: &CallbackRule, facts: &RequestFacts<'_>) -> Option<Found> {
    let test = |condition: &Option<crate::expression::RequestCondition>| match condition {
        None => Truth::No,
        Some(condition) => condition.test(facts),
    };
    match (test(&rule.applied), test(&rule.not_applied)) {
        (Truth::Yes, Truth::No) => {
            let body = rule.outcome.body.as_ref();
            let body = body.map(|pick| pick.from_request(facts));
            Some(Found::Applied(outcome(&rule.outcome, body)))
        }
        (Truth::No, Truth::Yes) => Some(Found::NotApplied),
        (Truth::Yes, Truth::Yes | Truth::NotKnown)
        | (Truth::No, Truth::No | Truth::NotKnown)
        | (Truth::NotKnown, _) => None,
    }
}
