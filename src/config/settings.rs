//! The typed config: what the rest of the house reads.
//!
//! What always holds: every value is usable as it is. Defaults are filled in, profiles are applied,
//! the rules of `check` hold; nothing here needs to be looked at twice.
//!
//! What it does not do: remember where in the file a value stood.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, Method, Uri};

use super::answers::AnswerRules;
use super::asking::Asking;
use super::callbacks::Callbacks;
use super::callers::{ListenTls, PrincipalPart};
use super::database::DatabaseUrl;
use super::encryption::EncryptionKey;
use super::errors::ErrorShape;
use super::inbound::Inbound;
use super::insertion::{self, Insert, KeyRule};
use super::leases::HeldLease;
use super::secret::Secret;
use crate::expression::{
    Member, Missing, PathParams, PathTemplate, RequestFacts, RequestPath, Template, WhyMissing,
};
use crate::protocol::ids::{EffectName, Tenant, TokenSource, UpstreamId};
use crate::protocol::operation::IdentityOrigin;
use crate::protocol::policy::{Capability, Destination, Placing, Policy, Timeouts};
use crate::protocol::time::Millis;

/// A whole config.
#[derive(Clone, Debug)]
pub struct Config {
    /// Namespace in the register.
    pub tenant: Tenant,
    /// The register.
    pub register: Register,
    /// The operators' listener; `None`: there is none.
    pub admin: Option<Admin>,
    /// Where `/livez`, `/readyz` and `/metrics` are; `None`: nowhere.
    pub health: Option<SocketAddr>,
    /// Where callers ask how their operations stand; `None`: nowhere.
    pub worker: Option<SocketAddr>,
    /// In the order of the file; ids, names and addresses are distinct.
    pub upstreams: Vec<Arc<Upstream>>,
    /// Leases that are held on behalf of the worker; names and resources are distinct.
    pub leases: Vec<HeldLease>,
    /// Ways in to the worker; names and addresses are distinct.
    pub inbound: Vec<Inbound>,
    /// Limits of the whole process.
    pub limits: Limits,
    /// How long an answer is held back for its record to commit.
    pub record_timeout: Duration,
    /// How long a stop waits for what is in flight.
    pub drain: Duration,
    /// SHA-256 of the file, in hex: tells two configs apart, says nothing of secrets that came from
    /// elsewhere.
    pub digest: String,
    /// Files beside it that it depends on: secrets and certificates.
    pub files: Vec<PathBuf>,
}

/// The register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Register {
    /// Where it is.
    pub place: RegisterPlace,
    /// How long it remembers what is settled.
    pub remember: Remember,
    /// The first seals, all open; none: the embedded register's own key file. A shared one has at least
    /// one, be it the one that everybody knows.
    pub keys: Vec<EncryptionKey>,
}

/// Where a register is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegisterPlace {
    /// On this machine's disk, for one process.
    Embedded(Embedded),
    /// In a PostgreSQL database, for all who reach it.
    Shared(SharedRegister),
}

/// The embedded register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Embedded {
    /// Its directory.
    pub path: PathBuf,
    /// Is it fine to lose it at a reboot? Then tmpfs and overlay file systems are accepted.
    pub ephemeral: bool,
    /// The file of its witness; `None`: beside it.
    pub witness: Option<PathBuf>,
}

/// A register in PostgreSQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedRegister {
    /// Where the database is.
    pub url: DatabaseUrl,
    /// TLS beyond the platform's roots.
    pub tls: TlsFiles,
    /// What operators see this sidecar called; `None`: the name of its host.
    pub name: Option<String>,
    /// Does a sidecar make the tables, or bring them up to date, at its start?
    pub migrate: bool,
    /// Is it fine to lose it when the server's machine stops? Then one that does not write durably is accepted.
    pub ephemeral: bool,
    /// A sidecar that does nothing for so long is taken for dead by the others.
    pub dead_after: Duration,
    /// A directory of this sidecar's own for what is no one else's; `None`: in memory only.
    pub state: Option<PathBuf>,
}

/// How long a settled operation is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remember {
    /// With its answer: not shorter than any key's lifetime.
    pub answers: Duration,
    /// At all: not shorter than the answers.
    pub identities: Duration,
}

/// The operators' listener.
#[derive(Clone, Debug)]
pub struct Admin {
    /// Loopback, unless there are operators.
    pub address: SocketAddr,
    /// Name and bearer token of each.
    pub operators: Vec<(String, Secret)>,
}

/// Limits of the whole process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// All buffered bodies together, in bytes.
    pub buffered_bodies: usize,
}

/// Is what the rules say done, or only told?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// It is done.
    Enforce,
    /// It is told: requests are forwarded as they came, and judged beside their way.
    Observe,
}

/// One upstream and its listener.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// As in the file; for logs and metrics.
    pub name: String,
    /// Its durable identity.
    pub id: UpstreamId,
    /// Where callers reach it.
    pub listen: SocketAddr,
    /// How callers speak TLS to it; `None`: in the clear.
    pub listen_tls: Option<ListenTls>,
    /// What selects an account or a caller: part of every operation's identity. Empty: none. A
    /// certificate stands here only where `listen_tls` asks for it.
    pub principal: Vec<PrincipalPart>,
    /// Where it is: `http` or `https` with a host; neither path nor query.
    pub url: Uri,
    /// TLS beyond the platform's roots.
    pub tls: TlsFiles,
    /// What it can do about duplicates.
    pub capability: Capability,
    /// Where the key goes and how it is remembered, unless an effect says otherwise; `None` where it
    /// honours none.
    pub key: Option<KeyRule>,
    /// In the order of the file; the first that matches counts.
    pub effects: Vec<EffectRule>,
    /// What becomes of unsafe requests that no effect matches.
    pub unlisted: Unlisted,
    /// For requests that no effect matches; effects have their own.
    pub mode: Mode,
    /// Time limits of one attempt.
    pub timeouts: Timeouts,
    /// Is an answer proof although only the connection's end ends it?
    pub accept_close_framed: bool,
    /// Does every effect get a connection of its own? Always for opaque upstreams.
    pub fresh_connections: bool,
    /// Where its callbacks arrive; `None`: nobody listens for any.
    pub callbacks: Option<Arc<Callbacks>>,
    /// How problems are told to callers who know the vendor's shape only; the first that fits counts.
    pub errors: Vec<ErrorShape>,
}

/// Files for TLS towards an upstream, PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Roots to trust instead of the platform's.
    pub ca: Option<PathBuf>,
    /// Our certificate; present exactly when the key is.
    pub client_cert: Option<PathBuf>,
    /// Its key.
    pub client_key: Option<PathBuf>,
}

/// Requests that are treated alike.
#[derive(Clone, Debug)]
pub struct EffectRule {
    /// `PUT /accounts/{account}`: as in the file; for logs and metrics.
    pub name: String,
    /// Which methods.
    pub methods: Methods,
    /// Which paths.
    pub path: PathTemplate,
    /// How they are treated.
    pub action: Action,
}

/// A set of methods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Methods {
    /// Every method that is not safe (RFC 9110, 9.2.1).
    Unsafe,
    /// These.
    These(Vec<Method>),
}

/// How a request is treated.
#[derive(Clone, Debug)]
pub enum Action {
    /// Forwarded as it is.
    Pass,
    /// An effect.
    Protect(Arc<Protect>),
}

/// How an effect is protected.
#[derive(Clone, Debug)]
pub struct Protect {
    /// Is it protected, or only watched?
    pub mode: Mode,
    /// Its identity.
    pub once: Identity,
    /// Where callers put a key of their own: not passed on but by [`KeyRule`].
    pub caller_key_header: HeaderName,
    /// What is put into its requests.
    pub insert: Arc<Insert>,
    /// The rules of those that go without the key, because they are signed and left alone; `None` where
    /// there are none such.
    pub keyless: Option<Arc<Policy>>,
    /// What the fingerprint covers.
    pub means: Means,
    /// Its fence; `Some` exactly when the policy has one.
    pub fence: Option<Fence>,
    /// What an answer proves.
    pub answers: AnswerRules,
    /// The rules of admission and settling.
    pub policy: Arc<Policy>,
    /// What the steps of settling ask.
    pub asking: Asking,
    /// How long a repeat waits for the operation in flight.
    pub join: Duration,
    /// How long after the first one an equal request is its repeat, where neither has a key; `None`:
    /// never.
    pub blind_retry: Option<Millis>,
    /// Longest body of a request, in bytes.
    pub body_limit: usize,
    /// Longest body of an answer that is kept, in bytes.
    pub answer_limit: usize,
    /// Status of `outcome-uncertain`.
    pub uncertain_status: u16,
}

/// Where an operation's identity comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its text.
    pub template: Template,
    /// Is a request refused that lacks the one header, or the place of the caller's own key, that the
    /// template consists of? All other missing values refuse anyway.
    pub required: bool,
    /// Who named an operation whose id could be had.
    pub origin: IdentityOrigin,
}

/// What of a request counts when it is compared with another; its method and path always do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Means {
    /// Query and content, in canonical form.
    Whole,
    /// Query and content, byte by byte.
    Raw,
    /// These members and nothing else; at least one.
    Listed(Vec<Selected>),
}

/// A member that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selected {
    /// Which.
    pub member: Member,
    /// May it be lacking? Then its absence counts; else the request is refused.
    pub optional: bool,
}

/// Where resource and token come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// Name of the resource.
    pub resource: Template,
    /// The token.
    pub token: Member,
    /// Who issues it.
    pub source: TokenSource,
    /// The header with the acquisition.
    pub acquisition: HeaderName,
    /// The header with the sequence.
    pub sequence: HeaderName,
}

/// What becomes of unsafe requests that no effect matches.
#[derive(Clone, Debug)]
pub enum Unlisted {
    /// Forwarded and counted.
    Observe,
    /// Forwarded.
    Pass,
    /// Refused.
    Deny,
    /// An effect, named by the caller's own key.
    Protect(Arc<Protect>),
}

/// Where a request goes.
#[derive(Clone, Debug)]
pub enum Route<'a> {
    /// Forwarded as it is.
    Pass,
    /// Forwarded and counted as unprotected.
    Observe,
    /// Refused.
    Deny,
    /// An effect.
    Protect {
        /// Name for logs and metrics: the effect's, or `unlisted`.
        name: &'a str,
        /// Its rules.
        protect: &'a Arc<Protect>,
        /// What its path captured.
        params: PathParams,
    },
}

/// What the rules are called for requests that no effect matches.
pub(super) const UNLISTED: &str = "unlisted";

impl Upstream {
    /// What becomes of a request. Safe methods that no effect lists pass. A path that would be an
    /// effect only for a server that takes `%2F` for a slash is denied.
    pub fn route(&self, method: &Method, path: &RequestPath) -> Route<'_> {
        let listed = self
            .effects
            .iter()
            .filter(|effect| effect.methods.contain(method))
            .find_map(|effect| Some((effect, effect.path.captures(path)?)));
        match (listed, &self.unlisted) {
            (Some((effect, params)), _) => match &effect.action {
                Action::Pass => Route::Pass,
                Action::Protect(protect) => Route::Protect {
                    name: &effect.name,
                    protect,
                    params,
                },
            },
            (None, _) if self.might_be_effect(method, path) => Route::Deny,
            (None, _) if method.is_safe() => Route::Pass,
            (None, Unlisted::Observe) => Route::Observe,
            (None, Unlisted::Pass) => Route::Pass,
            (None, Unlisted::Deny) => Route::Deny,
            (None, Unlisted::Protect(protect)) => Route::Protect {
                name: UNLISTED,
                protect,
                params: PathParams::default(),
            },
        }
    }

    fn might_be_effect(&self, method: &Method, path: &RequestPath) -> bool {
        self.effects
            .iter()
            .any(|effect| effect.methods.contain(method) && effect.path.might_match(path))
    }

    /// The ways in which its effects put things into their requests.
    pub fn placings(&self) -> impl Iterator<Item = Placing> {
        self.protects().map(|protect| protect.insert.placing())
    }

    /// Where it is, as one number.
    pub fn destination(&self) -> Destination {
        insertion::destination(&self.url)
    }

    /// The rules of the effect of that name; the first of it counts.
    pub fn protect_named(&self, name: &EffectName) -> Option<&Arc<Protect>> {
        let is_it = |protect: &&Arc<Protect>| {
            let way = protect.policy.settle.way.as_ref();
            way.is_some_and(|way| way.effect == *name)
        };
        self.protects().find(is_it)
    }

    /// The rules of all its effects.
    pub fn protects(&self) -> impl Iterator<Item = &Arc<Protect>> {
        let listed = self
            .effects
            .iter()
            .filter_map(|effect| match &effect.action {
                Action::Protect(protect) => Some(protect),
                Action::Pass => None,
            });
        let unlisted = match &self.unlisted {
            Unlisted::Protect(protect) => Some(protect),
            Unlisted::Observe | Unlisted::Pass | Unlisted::Deny => None,
        };
        listed.chain(unlisted)
    }
}

impl Protect {
    /// Does the upstream get the caller's own key?
    pub fn sends_callers_key(&self) -> bool {
        self.insert.key.as_ref().is_some_and(KeyRule::is_callers)
    }

    /// Is it forwarded whatever the rules say?
    pub fn is_observed(&self) -> bool {
        self.mode == Mode::Observe
    }

    /// Requests with more content than this, in bytes, are identified off the async workers.
    pub fn slow_above(&self) -> usize {
        let resource = self.fence.as_ref().map(|fence| fence.resource.slow_above());
        let once = self.once.template.slow_above();
        resource.map_or(once, |resource| resource.min(once))
    }
}

impl Methods {
    /// Is the method one of them?
    pub fn contain(&self, method: &Method) -> bool {
        match self {
            Self::Unsafe => !method.is_safe(),
            Self::These(these) => these.contains(method),
        }
    }
}

impl Identity {
    /// The id that the request names. `Ok(None)`: it names none and need not; whoever asked makes a
    /// fresh one.
    pub fn read(&self, facts: &RequestFacts<'_>) -> Result<Option<String>, Missing> {
        match self.template.render(facts) {
            Ok(id) => Ok(Some(id)),
            Err(missing) if self.may_lack(&missing) => Ok(None),
            Err(missing) => Err(missing),
        }
    }

    /// Only a header or the place of the caller's own key may be lacking (`parse` sees to that), only
    /// wholly, and only where it is all there is.
    fn may_lack(&self, missing: &Missing) -> bool {
        !self.required
            && missing.why == WhyMissing::Absent
            && self.template.single_value().is_some()
    }
}
