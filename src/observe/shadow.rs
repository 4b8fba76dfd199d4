//! A register of what is only observed: in memory, bounded, and nobody's promise.
//!
//! What always holds: the same function decides here as in the register (`protocol::decide`), so that
//! what is reported is what enforcing would do. What would not have been sent under the rules leaves no
//! trace here: an enforced world is what repeats and tokens are judged against.
//!
//! What it does not do: settle. An operation in doubt stands in nobody's way once its answer is lost:
//! how long enforcing would have taken to settle it is not known. What was forgotten, because so many
//! came after it or because the process ended, is judged as new.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

use crate::protocol::command::{
    Admission, Admit, Changes, Command, Record as Evident, Reply, Ruling,
};
use crate::protocol::decide::decide;
use crate::protocol::fence::Fence;
use crate::protocol::ids::{AttemptId, Fingerprint, InstanceId, OperationKey, ResourceKey};
use crate::protocol::operation::{IdentityOrigin, Operation, State};
use crate::protocol::outcome::Evidence;
use crate::protocol::time::Moment;
use crate::protocol::view::{Living, Record, TwinNote, Unsettled, View};

/// Most operations, fences, and notes, each.
const MOST: usize = 65_536;

/// What the register itself knows, where it could be asked: effects of the same resource may be
/// enforced, or have been.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// Who is alive: others that share the register carry operations too.
    pub(super) living: Living,
    pub(super) epoch: u64,
    pub(super) record: Option<Record>,
    pub(super) fence: Option<Fence>,
    pub(super) unsettled: Vec<Unsettled>,
}

/// What would have come of a request.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) admission: Admission,
    /// It would have waited for an older operation first.
    pub(super) waited: bool,
}

/// The register.
#[derive(Debug)]
pub(super) struct Shadow {
    living: Living,
    operations: Bounded<OperationKey, Operation>,
    fences: Bounded<ResourceKey, Fence>,
    notes: Bounded<OperationKey, TwinNote>,
    /// Operations that named none, by what they mean.
    keyless: Bounded<Fingerprint, OperationKey>,
    /// INTENDED operations of each resource, in order of admission.
    under_way: HashMap<ResourceKey, Vec<OperationKey>>,
}

impl Shadow {
    /// Empty.
    pub(super) fn new(instance: InstanceId) -> Self {
        Self {
            living: Living::Only(instance),
            operations: Bounded::default(),
            fences: Bounded::default(),
            notes: Bounded::default(),
            keyless: Bounded::default(),
            under_way: HashMap::new(),
        }
    }

    /// Judges a request for an effect.
    pub(super) fn admit(&mut self, admit: &Admit, known: Known) -> Option<Judged> {
        self.living = known.living.clone();
        let mut view = self.view(admit, known);
        let (mut changes, mut admission) = judged(&view, admit)?;
        let waited = matches!(admission.ruling, Ruling::Wait { .. });
        if waited {
            // Once it is settled, everything is decided again.
            view.unsettled = Arc::default();
            (changes, admission) = judged(&view, admit)?;
        }
        let resource = admit.presented.as_ref().map(|it| &it.resource);
        if matches!(admission.ruling, Ruling::Granted(_)) {
            if let Some(resource) = resource {
                let under_way = self.under_way.entry(resource.clone()).or_default();
                under_way.push(admission.key.clone());
            }
            if admit.origin == IdentityOrigin::Fresh {
                let fingerprint = admit.meaning.fingerprint;
                self.keyless.put(fingerprint, admission.key.clone());
            }
        }
        self.write(changes);
        Some(Judged { admission, waited })
    }

    /// What an attempt showed. Answers the state that it is in now.
    pub(super) fn record(
        &mut self,
        key: &OperationKey,
        resource: Option<&ResourceKey>,
        attempt: AttemptId,
        evidence: Evidence,
        at: Moment,
    ) -> Option<State> {
        // Over, whether it is remembered or not.
        if let Some(resource) = resource {
            self.is_over(resource, key);
        }
        let operation = self.operations.get(key)?.clone();
        let view = View {
            record: Some(Record::Operation(Box::new(operation))),
            ..self.nothing()
        };
        let command = Command::Record(Evident {
            key: key.clone(),
            attempt,
            evidence,
            open: false,
            at,
        });
        let decision = decide(&view, &command);
        self.write(decision.changes);
        self.operations.get(key).map(|it| it.state.clone())
    }

    /// Is the identity known here, and needs the register not be asked for it?
    pub(super) fn knows(&self, key: &OperationKey) -> bool {
        self.operations.get(key).is_some()
    }

    fn view(&self, admit: &Admit, known: Known) -> View {
        let resource = admit.presented.as_ref().map(|it| &it.resource);
        let own = resource.and_then(|it| self.fences.get(it)).cloned();
        let fence = further(own, known.fence);
        let key = match &fence {
            Some(fence) if admit.follows_incarnation => admit.key.within(fence.incarnation),
            Some(_) | None => admit.key.clone(),
        };
        let note = self.notes.get(&key).cloned();
        let operation = self.operations.get(&key).cloned();
        let operation = operation.map(|it| Record::Operation(Box::new(it)));
        let record = operation.or(known.record);
        let first = note
            .as_ref()
            .and_then(|note| self.operations.get(&note.first));
        let mut unsettled = known.unsettled;
        unsettled.extend(
            resource
                .into_iter()
                .flat_map(|it| self.in_flight(it, &admit.at)),
        );
        View {
            epoch: known.epoch,
            fence,
            first: first.cloned(),
            keyless: self.keyless_equal(admit),
            unsettled: Arc::new(unsettled),
            note: note.clone().filter(|_| record.is_some()),
            record: record.or(note.map(Record::Twin)),
            ..self.nothing()
        }
    }

    fn nothing(&self) -> View {
        View::of_nothing(0, self.living.clone())
    }

    fn in_flight(&self, resource: &ResourceKey, now: &Moment) -> impl Iterator<Item = Unsettled> {
        let keys = self.under_way.get(resource).into_iter().flatten();
        let operations = keys.filter_map(|key| self.operations.get(key));
        let in_flight = operations.filter(|it| it.is_in_flight(&self.living, now));
        in_flight.filter_map(Unsettled::of)
    }

    /// Of the same caller and upstream only.
    fn keyless_equal(&self, admit: &Admit) -> Option<Operation> {
        admit.blind_retry?;
        let key = self.keyless.get(&admit.meaning.fingerprint)?;
        let same = key.tenant == admit.key.tenant
            && key.upstream == admit.key.upstream
            && key.principal == admit.key.principal;
        self.operations.get(key).filter(|_| same).cloned()
    }

    fn write(&mut self, changes: Changes) {
        if let Some(fence) = changes.fence {
            self.fences.put(fence.resource.clone(), fence);
        }
        if let Some(operation) = changes.operation {
            self.operations.put(operation.key.clone(), *operation);
        }
        if let Some(note) = changes.twin {
            self.notes.put(note.key.clone(), note);
        }
    }

    fn is_over(&mut self, resource: &ResourceKey, key: &OperationKey) {
        if let Some(under_way) = self.under_way.get_mut(resource) {
            under_way.retain(|other| other != key);
            if under_way.is_empty() {
                self.under_way.remove(resource);
            }
        }
    }
}

fn judged(view: &View, admit: &Admit) -> Option<(Changes, Admission)> {
    let decision = decide(view, &Command::Admit(Box::new(admit.clone())));
    match decision.reply {
        Reply::Admission(admission) => Some((decision.changes, admission)),
        Reply::Recorded(_)
        | Reply::Resend(_)
        | Reply::Parked(_)
        | Reply::Started(_)
        | Reply::Found(_)
        | Reply::Void(_)
        | Reply::Voided(_)
        | Reply::TakenUp(_)
        | Reply::Resolved(_)
        | Reply::Steered(_)
        | Reply::Leased(_)
        | Reply::Noted(_) => None,
    }
}

/// Of what was seen here and what the register holds, whichever is further. A cancel is the register's.
fn further(own: Option<Fence>, registered: Option<Fence>) -> Option<Fence> {
    match (own, registered) {
        (Some(own), Some(registered)) => {
            let reached = |fence: &Fence| (fence.incarnation, fence.mark, fence.closed);
            Some(if reached(&own) >= reached(&registered) {
                Fence {
                    cancelled: registered.cancelled,
                    ..own
                }
            } else {
                registered
            })
        }
        (own, registered) => own.or(registered),
    }
}

/// A map of the newest [`MOST`] entries.
#[derive(Debug)]
struct Bounded<K, V> {
    entries: HashMap<K, V>,
    order: VecDeque<K>,
}

impl<K, V> Default for Bounded<K, V> {
    fn default() -> Self {
        Self {
            entries: HashMap::new(),
            order: VecDeque::new(),
        }
    }
}

impl<K: Clone + Eq + Hash, V> Bounded<K, V> {
    fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key)
    }

    fn put(&mut self, key: K, value: V) {
        if self.entries.insert(key.clone(), value).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.entries.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::company::Company;
    use crate::protocol::ids::{
        Incarnation, OperationId, Principal, ResourceName, Tenant, UpstreamId,
    };
    use crate::protocol::outcome::Unsent;
    use crate::protocol::time::{BootId, BootInstant};
    use crate::store::conformance::commands as c;

    /// Whatever came of it, and whether it is remembered or made room long ago.
    #[test]
    fn what_has_ended_is_not_under_way() {
        let mut shadow = Shadow::new(InstanceId(1));
        let key = OperationKey {
            tenant: Tenant::new("t"),
            upstream: UpstreamId::new("u"),
            principal: Principal::None,
            id: OperationId::new("forgotten"),
            incarnation: Incarnation(0),
        };
        let resource = ResourceKey {
            tenant: Tenant::new("t"),
            name: ResourceName::new("r"),
        };
        shadow.under_way.insert(resource.clone(), vec![key.clone()]);
        let attempt = AttemptId {
            instance: InstanceId(1),
            number: 1,
        };
        let nothing = Evidence::NotSent(Unsent::ConnectionLost);
        let at = Moment {
            boot: BootId(1),
            boottime: BootInstant(0),
            wall_ms: 0,
        };
        let state = shadow.record(&key, Some(&resource), attempt, nothing, at);
        assert_eq!(state, None);
        assert!(shadow.under_way.is_empty());
    }

    /// What another sidecar of a shared register has under way is under way, and not in doubt.
    #[test]
    fn others_that_share_the_register_are_alive() {
        let mut shadow = Shadow::new(InstanceId(1));
        let others = c::admit("a", InstanceId(2));
        let theirs = View::of_nothing(0, Living::Only(InstanceId(2)));
        let decision = decide(&theirs, &Command::Admit(Box::new(others.clone())));
        let carried = decision.changes.operation.unwrap();
        let repeat = Admit {
            attempt: c::attempt(InstanceId(1)),
            ..others
        };
        let mut judged = |living| {
            let known = Known {
                living,
                epoch: 0,
                record: Some(Record::Operation(carried.clone())),
                fence: None,
                unsettled: Vec::new(),
            };
            shadow.admit(&repeat, known).unwrap().admission.ruling
        };
        let company = Arc::new(Company::of(InstanceId(1)));
        let among = judged(Living::Among(company));
        assert!(
            matches!(
                among,
                Ruling::Join {
                    uncertain: false,
                    ..
                }
            ),
            "{among:?}"
        );
        let alone = judged(Living::Only(InstanceId(1)));
        assert!(
            matches!(
                alone,
                Ruling::Join {
                    uncertain: true,
                    ..
                }
            ),
            "{alone:?}"
        );
    }

    #[test]
    fn the_oldest_entries_make_room() {
        let mut map = Bounded::default();
        for number in 0..=MOST {
            map.put(number, ());
        }
        map.put(MOST, ());
        assert_eq!(map.entries.len(), MOST);
        assert!(map.get(&0).is_none() && map.get(&1).is_some());
    }
}
