//! What a world is made of before anything happens: who calls, what the upstream can do, and how
//! much may go wrong.
//!
//! What always holds: a scenario is data. Time is counted in ticks of ten seconds; a dispatch lasts
//! one tick, an attempt is overdue after two. Several small scenarios meet more than one large one
//! would in the same number of states.

use std::sync::Arc;

use fencepost::protocol::fence::Deed;
use fencepost::protocol::ids::FencingToken;
use fencepost::protocol::policy::{
    FencePolicy, IfOlderUnsettled, IfTwin, KeyValue, Order, Ownership, PerGeneration, Policy,
    SettlePolicy, Timeouts, TokenMode,
};
use fencepost::protocol::steps::{ResendPolicy, Steps};
use fencepost::protocol::time::Millis;

use super::world::{CallerState, Name};

pub use super::policies::{
    asked, calls_back, conditional, conditional_again, idempotent, opaque, question, undone,
};

/// One tick.
pub const TICK_MS: u64 = 10_000;

/// A small world.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// For people and for the table of rules.
    pub name: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// How many proxies share the register; one owns it alone.
    pub proxies: u8,
    /// Has each its own machine, whose clocks say nothing to the others?
    pub machines: bool,
    /// Who asks for what.
    pub calls: Vec<Call>,
    /// What the upstream does.
    pub upstream: Upstream,
    /// Time ends here.
    pub horizon: u8,
    /// A packet arrives at most so many ticks after it left.
    pub delay: u8,
    /// A sender freezes at most so long between its last check and its first byte.
    pub freeze: u8,
    /// May an admission be decided a tick after its request was read?
    pub queued: bool,
    /// May a resend be asked for without a plan?
    pub stale_plans: bool,
    /// May an undo be asked for without a plan?
    pub stale_undos: bool,
    /// How much may go wrong.
    pub budget: Budget,
    /// Who acquires leases of the first resource.
    pub holders: Vec<Holder>,
    /// The epoch in force at first.
    pub epoch: u64,
    /// What a person may let in, or repair to.
    pub amends: Vec<Deed>,
    /// Tokens from this one on are too far above the mark, until one is let in.
    pub far: Option<FencingToken>,
    /// Does a fence stand already, with the mark of token 0 from the usual source?
    pub known_source: bool,
    /// Beyond the margins: also what a person caused by speaking too early counts.
    pub nothing_is_excused: bool,
    /// Its machine is started anew then.
    pub reboot_at: Option<u8>,
    /// Is the upstream away for whoever asks?
    pub away: bool,
    /// Does the wall clock of every machine run an hour ahead of the one before?
    pub skewed: bool,
}

/// Somebody who wants to own the first resource.
#[derive(Clone, Debug)]
pub struct Holder {
    pub who: &'static str,
    /// Through which proxy.
    pub proxy: u8,
    /// For how long, in milliseconds.
    pub ttl_ms: u64,
    /// Does it own it when the world begins? One does, at most.
    pub owns: bool,
}

/// One request, asked again and again until its caller knows how it ended.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its place among the calls.
    pub index: u8,
    /// Whose.
    pub who: &'static str,
    /// Through which proxy.
    pub proxy: u8,
    /// Which operation: 0 is `a`.
    pub operation: u8,
    /// Does the id carry the incarnation?
    pub follows_incarnation: bool,
    /// Did the proxy compose the id?
    pub derived: bool,
    /// It has no key, and equal ones within so long are its repeats.
    pub blind_retry: Option<Millis>,
    /// Which resource, if it is fenced. Where there are two, tokens differ in neither and nobody steers:
    /// the witness keeps one mark.
    pub resource: u8,
    /// Whose token: that of the lease which this holder acquired last, lost or not.
    pub held_by: Option<u8>,
    /// Is it fenced, and by which token? `Some(None)`: fenced, no token.
    pub token: Option<Option<FencingToken>>,
    /// Is the token from elsewhere?
    pub wild: bool,
    /// Its acquisition.
    pub acquisition: Option<&'static str>,
    /// Its sequence.
    pub sequence: Option<u64>,
    /// What the request means.
    pub form: u8,
    /// The upstream's version that it is conditional on.
    pub condition: Option<u8>,
    /// How often it may be granted; after that it has no connection.
    pub grants: u8,
    /// Its rules.
    pub policy: Arc<Policy>,
}

/// What the upstream does.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// Ticks that it remembers a key.
    pub lifetime: u8,
    /// Does it remember refusals?
    pub remembers_refusals: bool,
    /// An effect shows for sure only so many ticks after it was accepted.
    pub search_lag: u8,
    /// What it may do besides answering properly.
    pub odd: &'static [Handling],
}

/// What an upstream does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Handling {
    /// As it should.
    Proper,
    /// Refuses for good: 402.
    Refuse,
    /// Says that it did not process it: 429.
    Throttle,
    /// Breaks before the effect: 500.
    BreakBefore,
    /// Breaks after the effect: 500.
    BreakAfter,
}

/// How often each misfortune may happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// A proxy dies and starts again as another instance.
    pub crashes: u8,
    /// A living instance is declared dead.
    pub false_deaths: u8,
    /// A packet or an answer is lost, or a connection is cut while its packet goes on.
    pub losses: u8,
    /// The response limit passes.
    pub timeouts: u8,
    /// A connection turns out dead before the first byte.
    pub unsent: u8,
    /// The upstream does something odd.
    pub odd: u8,
    /// A commit whose reply is lost; its write is repeated later.
    pub lost_replies: u8,
    /// A person has what was given up asked after again.
    pub take_ups: u8,
    /// A person has something sent again.
    pub sends: u8,
    /// A person's verdict that is right.
    pub verdicts: u8,
    /// A person's verdict that is wrong or too early.
    pub lies: u8,
    /// Of those lies, may they ask for a new key?
    pub new_keys: u8,
    /// Questions; the reconciler asks as many as it has to once nothing more goes wrong.
    pub questions: u8,
    /// A question is answered by what cannot be understood.
    pub unclear: u8,
    /// The upstream does not show what it should, for two ticks.
    pub blind: u8,
    /// The upstream calls back.
    pub letters: u8,
    /// The resource is cancelled, advanced, reopened.
    pub cancels: u8,
    /// See above.
    pub advances: u8,
    /// See above.
    pub reopens: u8,
    /// Of what a person may amend ([`Scenario::amends`]).
    pub amends: u8,
    /// A person starts a new epoch.
    pub epochs: u8,
    /// A lease is acquired, and renewed.
    pub acquisitions: u8,
    /// See above.
    pub renewals: u8,
    /// A lease is given back.
    pub releases: u8,
}

/// A token of epoch 0.
pub fn token(generation: u64) -> Option<Option<FencingToken>> {
    Some(FencingToken::new(0, generation))
}

impl Scenario {
    /// A world in which nothing goes wrong yet.
    pub fn new(name: &'static str, about: &'static str, mut calls: Vec<Call>) -> Self {
        for (index, call) in (0..).zip(&mut calls) {
            call.index = index;
        }
        let proxies = calls.iter().map(|call| call.proxy + 1).max().unwrap_or(1);
        Self {
            name,
            about,
            proxies,
            machines: false,
            calls,
            upstream: Upstream {
                lifetime: 60,
                remembers_refusals: false,
                search_lag: 0,
                odd: &[],
            },
            horizon: 4,
            delay: 1,
            freeze: 0,
            queued: false,
            stale_plans: false,
            stale_undos: false,
            budget: Budget::default(),
            holders: Vec::new(),
            epoch: 0,
            amends: Vec::new(),
            far: None,
            known_source: false,
            nothing_is_excused: false,
            reboot_at: None,
            away: false,
            skewed: false,
        }
    }

    pub fn horizon(mut self, ticks: u8) -> Self {
        self.horizon = ticks;
        self
    }

    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// The upstream forgets keys after so many ticks, and every call's policy knows.
    pub fn lifetime(mut self, ticks: u8) -> Self {
        self.upstream.lifetime = ticks;
        self.each_policy(|policy| {
            if let Some(key) = &mut policy.settle.key {
                key.lifetime = Some(Millis(u64::from(ticks) * TICK_MS));
            }
        });
        self
    }

    /// The upstream answers a repeat of a refused request with the same refusal.
    pub fn remembers_refusals(mut self) -> Self {
        self.upstream.remembers_refusals = true;
        self.each_policy(|policy| {
            if let Some(key) = &mut policy.settle.key {
                key.remembers_refusals = true;
            }
        });
        self
    }

    /// Only one resend per admission.
    pub fn one_resend(mut self) -> Self {
        self.each_policy(|policy| {
            if let Some(resend) = policy.settle.steps.send_again() {
                policy.settle.steps = Steps::resends(Some(ResendPolicy {
                    attempts: 1,
                    ..resend
                }));
            }
        });
        self
    }

    /// Changes the policy of every call.
    pub fn each_policy(&mut self, change: impl Fn(&mut Policy)) {
        for call in &mut self.calls {
            change(Arc::make_mut(&mut call.policy));
        }
    }

    /// The first call for an operation.
    pub fn call_for(&self, name: Name) -> Option<&Call> {
        let mut calls = self.calls.iter();
        calls.find(|call| call.operation == name.operation)
    }

    /// The long form: more of everything.
    pub fn widened(mut self) -> Self {
        let more = |count: &mut u8| *count += u8::from(*count > 0);
        self.horizon += 1;
        more(&mut self.budget.crashes);
        more(&mut self.budget.losses);
        more(&mut self.budget.odd);
        more(&mut self.budget.lost_replies);
        // A request without a key is never the same again.
        for call in self
            .calls
            .iter_mut()
            .filter(|call| call.blind_retry.is_none())
        {
            call.grants += 1;
        }
        self
    }
}

impl Call {
    /// A fenced, strict call for an operation named by `id` (`a` to `z`) of an idempotent upstream.
    pub fn new(who: &'static str, id: char, generation: u64) -> Self {
        let operation = u8::try_from(id).unwrap() - b'a';
        Self {
            index: 0,
            who,
            held_by: None,
            proxy: 0,
            operation,
            follows_incarnation: false,
            derived: false,
            blind_retry: None,
            resource: 0,
            token: token(generation),
            wild: false,
            acquisition: None,
            sequence: None,
            form: operation + 1,
            condition: None,
            grants: 1,
            policy: Arc::new(Policy {
                fence: Some(FencePolicy {
                    token: TokenMode::Require,
                    per_generation: PerGeneration::Many,
                    require: Ownership::NotOlder,
                    if_older_unsettled: IfOlderUnsettled::Wait(Millis(TICK_MS)),
                    if_twin: IfTwin::Refuse,
                    max_step: None,
                }),
                order: Order::Strict,
                settle: idempotent(),
                timeouts: Timeouts {
                    dispatch: Millis(TICK_MS),
                    connect: Millis(0),
                    response: Millis(4_000),
                },
                keep_request: true,
            }),
        }
    }

    /// The same caller's rules, without a fence.
    pub fn unfenced(mut self) -> Self {
        self.token = None;
        self.policy(|policy| policy.fence = None)
    }

    /// Fenced, but without a token.
    pub fn tokenless(mut self) -> Self {
        self.token = Some(None);
        self.fence(|fence| fence.token = TokenMode::Prefer)
    }

    /// Without a key: a request of its own, whose letter nobody else has. Whoever repeats it in good faith
    /// is another call, with the same form.
    pub fn keyless(mut self, form: u8, ticks: u64) -> Self {
        self.blind_retry = Some(Millis(ticks * TICK_MS));
        self.form(form)
    }

    /// Its token is judged and recorded, and nothing is refused for it.
    pub fn observed(self) -> Self {
        self.fence(|fence| fence.token = TokenMode::Observe)
    }

    /// With the token that this holder acquired last, and only under a live lease.
    pub fn owned(mut self, holder: u8) -> Self {
        self.held_by = Some(holder);
        self.fence(|fence| fence.require = Ownership::Current)
    }

    /// With the token that this holder acquired last.
    pub fn held(mut self, holder: u8) -> Self {
        self.held_by = Some(holder);
        self
    }

    pub fn of(mut self, resource: u8) -> Self {
        self.resource = resource;
        self
    }

    pub fn at(mut self, proxy: u8) -> Self {
        self.proxy = proxy;
        self
    }

    pub fn form(mut self, form: u8) -> Self {
        self.form = form;
        self
    }

    pub fn grants(mut self, grants: u8) -> Self {
        self.grants = grants;
        self
    }

    pub fn settle(self, settle: SettlePolicy) -> Self {
        self.policy(|policy| policy.settle = settle)
    }

    pub fn free(self) -> Self {
        self.policy(|policy| policy.order = Order::Free)
    }

    pub fn policy(mut self, change: impl FnOnce(&mut Policy)) -> Self {
        change(Arc::make_mut(&mut self.policy));
        self
    }

    pub fn fence(self, change: impl FnOnce(&mut FencePolicy)) -> Self {
        self.policy(|policy| {
            if let Some(fence) = &mut policy.fence {
                change(fence);
            }
        })
    }

    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// The rules under its fence.
    pub fn fenced(&self) -> Option<&FencePolicy> {
        self.policy.fence.as_ref()
    }

    /// Where its caller stands who gets no answer that settles it: it asks again. Without a key that would
    /// be another request.
    pub fn without_answer(&self) -> CallerState {
        match self.blind_retry {
            Some(_) => CallerState::Over,
            None => CallerState::Asking,
        }
    }

    /// Is nothing refused for its token?
    pub fn is_observed(&self) -> bool {
        self.fenced()
            .is_some_and(|fence| fence.token == TokenMode::Observe)
    }

    /// Does the upstream know the caller's own key?
    pub fn own_key(&self) -> bool {
        let key = self.policy.settle.key;
        key.is_some_and(|key| key.value == KeyValue::Caller)
    }
}
