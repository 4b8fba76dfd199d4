//! Which operation a callback is about.
//!
//! What always holds: an id names one operation, except where effects carry the incarnation of their resource
//! beside it; of several incarnations the one is meant whose reference or key the callback names, and without
//! that none: what is unsettled among them learns that somebody spoke of one. A callback that names another's
//! reference is about no operation of that id.
//!
//! What it does not do: read callbacks, or weigh them (`callback`).

use super::Reconciler;
use crate::config::KeyRule;
use crate::protocol::finding::{Finder, Finding, Found, NotKnown};
use crate::protocol::ids::{OperationKey, Round};
use crate::protocol::operation::Operation;
use crate::store::StoreError;
use crate::wire::keys;

/// What a callback names an operation by.
pub(super) struct Named {
    /// Within incarnation 0.
    pub(super) key: OperationKey,
    /// What its request carried, where the callback says that.
    pub(super) reference: Option<String>,
}

/// What is meant.
pub(super) enum Meant {
    /// Nothing that is known.
    Nothing,
    /// This one.
    One(Box<Operation>),
    /// One of these, and nobody can tell which.
    OneOf(Vec<Operation>),
}

impl Reconciler {
    /// The operation that is named.
    pub(super) async fn meant(&self, named: &Named) -> Result<Meant, StoreError> {
        let mut known = self.of_that_id(&named.key).await?;
        if let Some(reference) = &named.reference {
            let rules = self.key_rules(&named.key);
            known.retain(|operation| carries(operation, reference, &rules));
        }
        if known.len() > 1 {
            return Ok(Meant::OneOf(known));
        }
        let only = known.pop().map(Box::new);
        Ok(only.map_or(Meant::Nothing, Meant::One))
    }

    /// All incarnations.
    async fn of_that_id(&self, key: &OperationKey) -> Result<Vec<Operation>, StoreError> {
        let read = self.dispatcher.register.read();
        if !self.may_have_incarnations(key) {
            let stored = read.operation(key, false).await?;
            return Ok(stored.into_iter().map(|stored| stored.operation).collect());
        }
        read.incarnations(key).await
    }

    /// Only an identity that carries the incarnation has more than one of them; a config that is gone does
    /// not say.
    pub(super) fn may_have_incarnations(&self, key: &OperationKey) -> bool {
        let gateways = self.gateways.now();
        let Some(gateway) = gateways.by_id(&key.upstream) else {
            return true;
        };
        let mut protects = gateway.config.protects();
        protects.any(|protect| protect.once.template.follows_incarnation())
    }

    /// How the upstream's effects get their keys.
    fn key_rules(&self, key: &OperationKey) -> Vec<KeyRule> {
        let gateways = self.gateways.now();
        let Some(gateway) = gateways.by_id(&key.upstream) else {
            return Vec::new();
        };
        let protects = gateway.config.protects();
        protects
            .filter_map(|protect| protect.insert.key.clone())
            .collect()
    }

    /// The event logs of those that are unsettled say once that somebody spoke of one of them.
    pub(super) async fn note_ambiguous(&self, all: Vec<Operation>) -> Result<(), StoreError> {
        let why = NotKnown::SeveralIncarnations;
        for operation in all {
            if !operation.state.is_unsettled() {
                continue;
            }
            let read = self.dispatcher.register.read();
            let stored = read.operation(&operation.key, false).await?;
            let mut events = stored.iter().flat_map(|stored| &stored.events);
            if events.any(|event| event.text.contains(why.reason())) {
                continue;
            }
            let finding = Finding {
                key: operation.key.clone(),
                by: Finder::Callback { definitive: false },
                admitted: operation.admitted,
                found: Found::NotKnown(why),
                at: self.dispatcher.clock.now(),
            };
            self.record_finding(&operation, finding).await?;
        }
        Ok(())
    }
}

/// Is it the text that the operation's requests carried?
fn carries(operation: &Operation, text: &str, rules: &[KeyRule]) -> bool {
    let rounds = (0..=operation.key_use.round.0).map(Round);
    let mut keys = rounds.flat_map(|round| {
        let of_rule = move |rule| keys::by_rule(rule, operation.origin, &operation.key, round);
        rules.iter().map(of_rule)
    });
    keys::reference(&operation.key) == text || keys.any(|key| key == text)
}
