//! What a new config does to the operations in the register, and whether that may be.
//!
//! What always holds: while admissions are held the comparison is bounded in time; what an operator
//! confirmed is exactly the config in hand. It is written down once that is in force, in our log, and in
//! that of every operation that it concerns, unless the process ends meanwhile.
//!
//! What it does not do: put a config in force.

use std::time::Duration;

use tokio::time::timeout;

use super::{Inner, NAMED};
use crate::admin::comparison::{Compared, ComparisonView, compared};
use crate::admin::reload::{Confirmation, how_to_confirm};
use crate::config::Config;
use crate::protocol::command::Note;
use crate::protocol::ids::OperationKey;
use crate::store::Register;

/// The config in force and the one that is to follow it.
#[derive(Clone, Copy)]
pub(super) struct Change<'a> {
    pub(super) before: &'a Config,
    pub(super) after: &'a Config,
    /// That unsettled operations may change under it.
    pub(super) confirmed: Option<&'a Confirmation>,
}

impl Change<'_> {
    /// Refuses a config under which unsettled operations change, unless that is confirmed; and one under
    /// which they would be sent again otherwise, whoever confirms it. Answers those that change.
    pub(super) async fn judged(
        self,
        register: &Register,
    ) -> Result<Vec<OperationKey>, Vec<String>> {
        let Self {
            before,
            after,
            confirmed,
        } = self;
        let compared = compared(register, Some(before), after).await;
        let Compared { view, changing } =
            compared.map_err(|error| vec![format!("the register cannot be read: {error}")])?;
        if view.sends_otherwise || (!changing.is_empty() && confirmed.is_none()) {
            let mut reasons = reasons(&view);
            reasons.push(how_to_confirm(&view));
            return Err(reasons);
        }
        if view.recent.would_change > 0 {
            tracing::warn!(
                operations = view.recent.would_change,
                of = view.recent.looked_at,
                "repeats of settled operations will be new operations under this config"
            );
        }
        Ok(changing)
    }

    /// The same while nobody is admitted: callers wait for it, so it does not take for ever.
    pub(super) async fn judged_within(
        self,
        limit: Duration,
        register: &Register,
    ) -> Result<Vec<OperationKey>, Vec<String>> {
        let judged = timeout(limit, self.judged(register)).await;
        judged.unwrap_or_else(|_elapsed| {
            Err(vec![format!(
                "the register was not compared within {limit:?}, and callers wait no longer: settle what \
                 is unsettled, or restart"
            )])
        })
    }
}

impl Inner {
    /// Who let them change, in their own logs and in ours. The config is in force: this undoes nothing.
    pub(super) async fn write_down(&self, confirmed: &Confirmation, changing: Vec<OperationKey>) {
        let Confirmation {
            digest,
            operator,
            reason,
        } = confirmed;
        tracing::warn!(
            operator,
            digest,
            operations = changing.len(),
            "an operator accepted that unsettled operations change under this config"
        );
        for key in changing {
            let note = Note {
                text: format!("changes under config {digest}, accepted by {operator}: {reason}"),
                at: self.dispatcher.clock.now(),
                key,
            };
            let id = note.key.id.clone();
            if let Err(error) = self.dispatcher.register.note(note).await {
                tracing::error!(operation = %id, operator, digest, error = %error,
                    "that it changes under this config is not in its own log");
            }
        }
    }
}

/// What would change, in words: the first ones by name.
pub(super) fn reasons(comparison: &ComparisonView) -> Vec<String> {
    let unsettled = comparison.unsettled;
    let first = format!(
        "{} of {} unsettled operations would change",
        unsettled.would_change, unsettled.looked_at
    );
    let named = comparison.changes.iter().take(unsettled.would_change);
    let named = named.take(NAMED).map(ToString::to_string);
    std::iter::once(first).chain(named).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::protocol::command::{Command, Reply};
    use crate::protocol::fence::Fence;
    use crate::protocol::ids::{InstanceId, ResourceKey};
    use crate::protocol::operation::Operation;
    use crate::protocol::view::Record;
    use crate::store::{
        Backend, OperationPage, OperationQuery, Pending, Stored, StoredResource, Summary,
    };

    /// A register that never answers.
    struct Silent;

    fn never<'a, T: Send + 'a>() -> Pending<'a, T> {
        Box::pin(std::future::pending())
    }

    impl Backend for Silent {
        fn apply(&self, _: Command) -> Pending<'_, Reply> {
            never()
        }
        fn peek<'a>(
            &'a self,
            _: &'a OperationKey,
            _: Option<&'a ResourceKey>,
        ) -> Pending<'a, Option<Record>> {
            never()
        }
        fn operation<'a>(&'a self, _: &'a OperationKey, _: bool) -> Pending<'a, Option<Stored>> {
            never()
        }
        fn operations<'a>(&'a self, _: &'a OperationQuery) -> Pending<'a, OperationPage> {
            never()
        }
        fn resource<'a>(&'a self, _: &'a ResourceKey) -> Pending<'a, Option<StoredResource>> {
            never()
        }
        fn resources<'a>(&'a self, _: Option<&'a str>, _: usize) -> Pending<'a, Vec<Fence>> {
            never()
        }
        fn in_doubt(&self, _: u64, _: usize) -> Pending<'_, Vec<(u64, Operation)>> {
            never()
        }
        fn unsettled(&self, _: u64, _: usize) -> Pending<'_, Vec<(u64, Operation)>> {
            never()
        }
        fn summary(&self) -> Pending<'_, Summary> {
            never()
        }
        fn ready(&self) -> Pending<'_, ()> {
            never()
        }
        fn instance(&self) -> InstanceId {
            InstanceId(1)
        }
        fn living(&self) -> crate::protocol::view::Living {
            crate::protocol::view::Living::Only(crate::protocol::ids::InstanceId(1))
        }

        fn close(&self) -> Pending<'_, ()> {
            never()
        }
    }

    #[tokio::test]
    async fn a_register_that_does_not_answer_keeps_nobody_waiting_for_ever() {
        let text = "version: 1\nupstreams:\n  u:\n    listen: 127.0.0.1:1\n    \
                    url: http://127.0.0.1:2\n    capability: [opaque]\n";
        let (config, _) = crate::config::parse_without_secrets(text, "c.yaml").unwrap();
        let register = Register::new(Arc::new(Silent));
        let change = Change {
            before: &config,
            after: &config,
            confirmed: None,
        };
        let judged = change.judged_within(Duration::from_millis(10), &register);
        let judged = timeout(Duration::from_secs(30), judged).await;
        let reasons = judged.expect("it ends").unwrap_err();
        assert!(
            reasons[0].contains("not compared within 10ms"),
            "{reasons:?}"
        );
    }
}
