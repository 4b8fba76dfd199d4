//! When operations are woken next.
//!
//! What always holds: an operation stands here once; of each upstream at most so many, those that are due first,
//! so that none takes the room of another's and memory stays flat. Whatever finds no room, or is due too late to
//! stand here, is found by a pass.
//!
//! What it does not do: wake anybody, or read a clock.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::protocol::ids::{OperationKey, UpstreamId};
use crate::protocol::time::{BootInstant, Millis};

/// Who is due later than this is left to a pass.
pub(super) const LONGEST: Millis = Millis(600_000);

/// Who is due when.
#[derive(Debug)]
pub(super) struct Later {
    most: usize,
    queues: Mutex<HashMap<UpstreamId, Queue>>,
    /// Somebody is due before whoever was first.
    pub(super) sooner: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    by_due: BTreeSet<(BootInstant, OperationKey)>,
    due_of: HashMap<OperationKey, BootInstant>,
}

impl Later {
    /// Nobody; at most so many of an upstream.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            queues: Mutex::default(),
            sooner: Notify::new(),
        }
    }

    /// It is due then, and not when it was before.
    pub(super) fn put(&self, key: &OperationKey, due: BootInstant) {
        let mut queues = self.queues();
        let first = first(&queues);
        let queue = queues.entry(key.upstream.clone()).or_default();
        queue.remove(key);
        queue.by_due.insert((due, key.clone()));
        queue.due_of.insert(key.clone(), due);
        if queue.by_due.len() > self.most
            && let Some((_, last)) = queue.by_due.pop_last()
        {
            queue.due_of.remove(&last);
        }
        drop(queues);
        if first.is_none_or(|first| due < first) {
            self.sooner.notify_one();
        }
    }

    /// Whoever is due at `now`; they stand here no more.
    pub(super) fn take_due(&self, now: BootInstant) -> Vec<OperationKey> {
        let mut due = Vec::new();
        let mut queues = self.queues();
        queues.retain(|_, queue| {
            while let Some((at, _)) = queue.by_due.first()
                && *at <= now
                && let Some((_, key)) = queue.by_due.pop_first()
            {
                queue.due_of.remove(&key);
                due.push(key);
            }
            !queue.by_due.is_empty()
        });
        due
    }

    /// When somebody is due first.
    pub(super) fn first(&self) -> Option<BootInstant> {
        first(&self.queues())
    }

    fn queues(&self) -> MutexGuard<'_, HashMap<UpstreamId, Queue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn remove(&mut self, key: &OperationKey) {
        if let Some(due) = self.due_of.remove(key) {
            self.by_due.remove(&(due, key.clone()));
        }
    }
}

fn first(queues: &HashMap<UpstreamId, Queue>) -> Option<BootInstant> {
    let firsts = queues.values().filter_map(|queue| queue.by_due.first());
    firsts.map(|(due, _)| *due).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::ids::{Incarnation, OperationId, Principal, Tenant};

    fn key(upstream: &str, id: u64) -> OperationKey {
        OperationKey {
            tenant: Tenant::new("t"),
            upstream: UpstreamId::new(upstream),
            principal: Principal::None,
            id: OperationId::new(id.to_string()),
            incarnation: Incarnation(0),
        }
    }

    #[test]
    fn an_operation_stands_here_once_at_its_newest_time() {
        let later = Later::new(10);
        for due in [50, 20, 30] {
            later.put(&key("u", 1), BootInstant(due));
        }
        assert_eq!(later.first(), Some(BootInstant(30)));
        assert_eq!(later.take_due(BootInstant(29)), []);
        assert_eq!(later.take_due(BootInstant(30)), [key("u", 1)]);
        assert_eq!(
            (later.take_due(BootInstant(99)), later.first()),
            (vec![], None)
        );
    }

    #[test]
    fn those_who_are_due_first_have_room_and_no_upstream_takes_anothers() {
        let later = Later::new(3);
        for id in (1..=100_000).rev() {
            later.put(&key("u", id), BootInstant(id));
        }
        later.put(&key("v", 1), BootInstant(1_000_000));
        let held: usize = later
            .queues()
            .values()
            .map(|queue| queue.due_of.len())
            .sum();
        assert_eq!(held, 4);
        let due = later.take_due(BootInstant(1_000_000));
        let of_u: Vec<_> = due
            .iter()
            .filter(|it| **it != key("v", 1))
            .cloned()
            .collect();
        assert_eq!(of_u, [key("u", 1), key("u", 2), key("u", 3)]);
        assert!(due.contains(&key("v", 1)));
    }
}
