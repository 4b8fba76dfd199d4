//! One state of the world: the register, the proxies, what is on the wire, what the upstream did, and
//! what an all-knowing witness has seen.
//!
//! What always holds: a state holds nothing that no later step asks for, so that two ways to the same
//! situation meet. The witness never looks at the register to know what happened.

use fencepost::protocol::fence::Fence;
use fencepost::protocol::ids::{FencingToken, Incarnation, OperationKey};
use fencepost::protocol::operation::Operation;
use fencepost::protocol::outcome::Verdict;

use super::kept::Kept;
use super::scenario::{Budget, Scenario};
use super::wire::{Letter, Packet, Question, Repeat, Task, Try, Undo};

/// One state.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct World {
    /// Ticks since the beginning.
    pub now: u8,
    /// The epoch in force.
    pub epoch: u64,
    /// The fences of the resources: of one, mostly.
    pub fences: [Option<Kept<Fence>>; 2],
    /// The operations, in order of record.
    pub records: Vec<Record>,
    /// Notes of twins.
    pub notes: Vec<Note>,
    /// The proxies that run.
    pub proxies: Vec<Instance>,
    /// Instances that are not declared dead.
    pub living: Vec<Instance>,
    /// The callers.
    pub calls: Vec<Caller>,
    /// What the holders know of their leases.
    pub holdings: Vec<Holding>,
    /// The lease that each proxy acquired or renewed last.
    pub live: Vec<Option<Live>>,
    /// The lease as each proxy saw it first.
    pub sights: Vec<Option<Glimpse>>,
    /// Operations that a later owner repeated at that proxy.
    pub licences: Vec<(u8, Name)>,
    /// Every attempt that was granted, in order.
    pub tries: Vec<Try>,
    /// Writes whose reply was lost, to be repeated.
    pub repeats: Vec<Repeat>,
    /// Questions under way.
    pub questions: Vec<Question>,
    /// Callbacks under way.
    pub letters: Vec<Letter>,
    /// Every undo that was granted, in order.
    pub undos: Vec<Undo>,
    /// From then on the upstream shows what it should again.
    pub blind_until: u8,
    /// What the upstream remembers.
    pub memory: Vec<Memory>,
    /// What the upstream did: attempts whose effect it accepted, in order.
    pub effects: Vec<u8>,
    /// The upstream's version, for conditions.
    pub version: u8,
    /// What may still go wrong.
    pub left: Budget,
    /// What was seen by who sees everything.
    pub seen: Seen,
}

/// Number of an instance.
pub type Instance = u8;

/// An operation in short: which, and in which incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    pub operation: u8,
    pub incarnation: u8,
}

/// A stored operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    pub name: Name,
    pub operation: Kept<Operation>,
    /// The form whose bytes are kept.
    pub request: Option<u8>,
}

/// A twin's note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Note {
    pub twin: Name,
    pub first: Name,
    pub form: u8,
}

/// A holder's lease, as the holder knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Holding {
    /// Counted up over all holders; 0 before the first.
    pub acquisition: u8,
    pub token: Option<FencingToken>,
    pub until_ms: u64,
    /// It was told so.
    pub lost: bool,
    pub released: bool,
    /// The reply to its wish was lost, and it asks again.
    pub asking: bool,
}

/// A lease as the proxy knows it that acquired or renewed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Live {
    pub acquisition: u8,
    pub until_ms: u64,
}

/// A lease as a proxy saw it first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Glimpse {
    pub token: FencingToken,
    pub renewals: u8,
    /// The tick.
    pub at: u8,
}

/// Where a caller stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Caller {
    /// Grants left.
    pub grants: u8,
    pub state: CallerState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallerState {
    /// Asks again.
    Asking,
    /// Its own attempt is under way.
    Trying(u8),
    /// It had no key, and waits for the operation that it repeats.
    Joined(Name),
    /// It had no key, and its request is over; whoever repeats it asks for something new.
    Over,
    /// Knows how its operation ended.
    Told(Name, Told),
}

/// An outcome, as callers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Told {
    pub verdict: Verdict,
    pub status: u16,
    pub form: u8,
}

/// What the upstream remembers under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Memory {
    pub name: Name,
    pub round: u8,
    pub form: u8,
    pub status: u16,
    pub since: u8,
}

/// What the witness saw.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub struct Seen {
    /// The highest valid token that a committed admission presented.
    pub mark: Option<FencingToken>,
    /// Tokens from this one on are nobody's.
    pub void_from: Option<FencingToken>,
    /// Tokens up to this one were cut off.
    pub closed: Option<FencingToken>,
    /// The acquisition first named with the mark.
    pub holder: Option<&'static str>,
    pub cancelled: bool,
    /// The acquisition that owns the resource, expired or not.
    pub owner: Option<u8>,
    /// The highest token that was issued with a lease.
    pub issued: Option<FencingToken>,
    /// Admissions up to this number were cut off.
    pub cut_off: u8,
    /// How operations ended, first seen.
    pub ended: Vec<(Name, Told)>,
    /// Operations of which a person said something false, and whether that asked for a new key.
    pub lies: Vec<(Name, bool)>,
    /// Ids that were refused as twins.
    pub twins: Vec<Name>,
    /// Operations of which an undo may have left.
    pub undone: Vec<Name>,
    /// Attempts whose answer, that they were applied, was recorded; where a second one is a second effect.
    pub answered: Vec<u8>,
    /// Operations that were found to be applied by the effect of that attempt, and how many attempts there were
    /// when they were asked after; where there are more by now.
    pub found: Vec<(Name, u8, u8)>,
    /// Operations that a person had asked after again, and nobody sent or gave up since.
    pub taken_up: Vec<Name>,
}

impl World {
    /// Before anything happened.
    pub fn new(scenario: &Scenario) -> Self {
        let proxies: Vec<Instance> = (0..scenario.proxies).collect();
        let mut world = Self {
            now: 0,
            epoch: scenario.epoch,
            fences: [
                scenario.known_source.then(super::register::known_fence),
                None,
            ],
            records: Vec::new(),
            notes: Vec::new(),
            living: proxies.clone(),
            proxies: proxies.clone(),
            calls: scenario
                .calls
                .iter()
                .map(|call| Caller {
                    grants: call.grants,
                    state: CallerState::Asking,
                })
                .collect(),
            tries: Vec::new(),
            repeats: Vec::new(),
            questions: Vec::new(),
            letters: Vec::new(),
            undos: Vec::new(),
            blind_until: 0,
            memory: Vec::new(),
            effects: Vec::new(),
            version: 0,
            holdings: vec![Holding::default(); scenario.holders.len()],
            live: vec![None; proxies.len()],
            sights: vec![None; proxies.len()],
            licences: Vec::new(),
            left: scenario.budget,
            seen: Seen::default(),
        };
        world.seen.void_from = scenario.far;
        world.owned_from_the_start(scenario);
        world
    }

    fn owned_from_the_start(&mut self, scenario: &Scenario) {
        for (holder, held) in scenario.holders.iter().zip(&mut self.holdings) {
            if !holder.owns {
                continue;
            }
            let fence = super::register::leased_fence(holder);
            *held = Holding {
                acquisition: 1,
                token: fence.issued,
                until_ms: holder.ttl_ms,
                ..Holding::default()
            };
            self.live[usize::from(holder.proxy)] = Some(Live {
                acquisition: 1,
                until_ms: holder.ttl_ms,
            });
            self.sights[usize::from(holder.proxy)] = fence.issued.map(|token| Glimpse {
                token,
                renewals: 0,
                at: 0,
            });
            (self.seen.mark, self.seen.issued) = (fence.issued, fence.issued);
            self.seen.owner = Some(1);
            self.fences[0] = Some(fence);
        }
    }

    pub fn record(&self, name: Name) -> Option<&Record> {
        self.records.iter().find(|record| record.name == name)
    }

    pub fn tries_of(&self, name: Name) -> impl Iterator<Item = &Try> {
        self.tries
            .iter()
            .filter(move |attempt| attempt.name == name)
    }

    /// How often the effect of an operation was accepted.
    pub fn effects_of(&self, name: Name) -> usize {
        let of_it = |index: &&u8| self.tries[usize::from(**index)].name == name;
        self.effects.iter().filter(of_it).count()
    }

    /// Was the effect of that form accepted?
    pub fn had_effect(&self, name: Name, form: u8) -> bool {
        self.effects.iter().any(|index| {
            let attempt = &self.tries[usize::from(*index)];
            attempt.name == name && attempt.form == form
        })
    }

    /// Can some attempt of the operation still have an effect?
    pub fn may_still_act(&self, name: Name) -> bool {
        self.tries_of(name).any(|attempt| {
            matches!(attempt.packet, Packet::Flying(_))
                || matches!(attempt.task, Task::Permitted | Task::Frozen(_))
        })
    }

    /// Is its effect accepted and not undone?
    pub fn in_force(&self, name: Name) -> bool {
        self.effects.iter().any(|index| {
            let attempt = &self.tries[usize::from(*index)];
            attempt.name == name && !attempt.undone
        })
    }

    /// Can an undo of it still take effect?
    pub fn may_be_undone(&self, name: Name) -> bool {
        let moving = |it: &&Undo| {
            matches!(it.packet, Packet::Flying(_)) || (it.packet == Packet::Unsent && it.at_work)
        };
        self.undos.iter().filter(moving).any(|it| it.name == name)
    }

    pub fn lied(&self, name: Name) -> bool {
        self.seen.lies.iter().any(|(lie, _)| *lie == name)
    }

    pub fn is_current(&self, instance: Instance) -> bool {
        self.proxies.contains(&instance)
    }

    pub fn is_unsettled(&self) -> bool {
        let unsettled = |record: &Record| record.operation.state.is_unsettled();
        self.records.iter().any(unsettled)
    }
}

impl Name {
    pub fn of(key: &OperationKey) -> Self {
        let Incarnation(incarnation) = key.incarnation;
        Self {
            operation: key.id.as_str().as_bytes()[0] - b'a',
            incarnation: u8::try_from(incarnation).unwrap(),
        }
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}", char::from(b'a' + self.operation))?;
        match self.incarnation {
            0 => write!(f, "`"),
            more => write!(f, "/{more}`"),
        }
    }
}

impl Clone for World {
    fn clone(&self) -> Self {
        Self {
            now: self.now,
            epoch: self.epoch,
            fences: self.fences.clone(),
            records: cloned(&self.records),
            notes: cloned(&self.notes),
            proxies: cloned(&self.proxies),
            living: cloned(&self.living),
            calls: cloned(&self.calls),
            holdings: cloned(&self.holdings),
            live: cloned(&self.live),
            sights: cloned(&self.sights),
            licences: cloned(&self.licences),
            tries: cloned(&self.tries),
            repeats: cloned(&self.repeats),
            questions: cloned(&self.questions),
            letters: cloned(&self.letters),
            undos: cloned(&self.undos),
            blind_until: self.blind_until,
            memory: cloned(&self.memory),
            effects: cloned(&self.effects),
            version: self.version,
            left: self.left,
            seen: self.seen.clone(),
        }
    }
}

impl Clone for Seen {
    fn clone(&self) -> Self {
        Self {
            mark: self.mark,
            void_from: self.void_from,
            closed: self.closed,
            holder: self.holder,
            cancelled: self.cancelled,
            owner: self.owner,
            issued: self.issued,
            cut_off: self.cut_off,
            ended: cloned(&self.ended),
            lies: cloned(&self.lies),
            twins: cloned(&self.twins),
            undone: cloned(&self.undone),
            answered: cloned(&self.answered),
            found: cloned(&self.found),
            taken_up: cloned(&self.taken_up),
        }
    }
}

/// Most lists of a state are empty, and it costs nothing to copy those.
fn cloned<T: Clone>(list: &[T]) -> Vec<T> {
    if list.is_empty() {
        Vec::new()
    } else {
        list.to_vec()
    }
}
