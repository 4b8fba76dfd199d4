//! The tree becomes a [`Config`].
//!
//! What always holds: every field is read once, in one place, and what is wrong with it is reported
//! there, together with the rules that tie it to its neighbours; reading goes on with a default, so
//! that one run finds everything.
//!
//! What it does not do: report success. A config that was built beside an error is thrown away.

mod answers;
mod asking;
mod callbacks;
mod callers;
mod effect;
mod errors;
mod fence;
mod inbound;
mod insertion;
mod leases;
mod means;
mod observed;
mod register;
mod settle;
mod shared;
mod upstream;
mod value;

pub(super) use insertion::PLACES;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::field::{Field, Fields};
use super::profile::Library;
use super::scalar::{self, DURATION, SIZE};
use super::secret::Secret;
use super::settings::{Admin, Config, Limits, Mode, TlsFiles, Upstream};
use crate::protocol::ids::Tenant;

const DEFAULT_ADMIN: SocketAddr = SocketAddr::new(LOOPBACK, 15_000);
const DEFAULT_HEALTH: SocketAddr = SocketAddr::new(LOOPBACK, 15_020);
const LOOPBACK: std::net::IpAddr = std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
const DEFAULT_BUFFERED: usize = 256 << 20;
const DEFAULT_RECORD_TIMEOUT: Duration = Duration::from_secs(5);
/// Beyond the longest response, to record it and to answer.
const DRAIN_MARGIN: Duration = Duration::from_secs(5);

pub(super) const VERSION: &str = "1, the version that this program reads";
pub(super) const ADDRESS: &str = "an address with a port (`127.0.0.1:15001`, `[::1]:15001`)";

/// What must be distinct across the file.
#[derive(Debug, Default)]
struct Taken {
    addresses: Vec<(SocketAddr, String)>,
    ids: Vec<(String, String)>,
}

/// What upstreams have of the whole file.
#[derive(Clone, Copy, Debug)]
struct Inherited<'a> {
    mode: Mode,
    limits: Limits,
    library: &'a Library,
}

/// Reads a whole file. `None` where not even a default can stand in.
pub(super) fn config(root: &Field<'_>, digest: String) -> Option<Config> {
    let mut fields = root.map()?;
    version(&mut fields);
    let mode = mode(&mut fields, Mode::Enforce);
    let library = Library::new(fields.take("profiles").and_then(|field| directory(&field)));
    let tenant = fields.or("tenant", Tenant::new("default"), tenant);
    let mut taken = Taken::default();
    let limits = fields.take("limits");
    let limits = limits
        .and_then(|field| limits_of(&field))
        .unwrap_or(Limits {
            buffered_bodies: DEFAULT_BUFFERED,
        });
    let inherited = Inherited {
        mode,
        limits,
        library: &library,
    };
    let upstreams = upstreams(&mut fields, &inherited, &mut taken);
    let admin = admin(&mut fields, &mut taken);
    let health = health(&mut fields, &mut taken);
    let worker = worker(&mut fields, &mut taken);
    let register = register::register(&mut fields, &upstreams);
    let around = leases::Around {
        upstreams: &upstreams,
        register: &register,
        worker,
    };
    let leases = leases::leases(&mut fields, around);
    let inbound = inbound::inbound(&mut fields, &leases, &mut taken);
    let record_timeout = fields.or("record_timeout", DEFAULT_RECORD_TIMEOUT, |field| {
        field.read(DURATION, scalar::duration)
    });
    let drain = drain(&mut fields, &upstreams);
    fields.finish();
    Some(Config {
        tenant,
        register,
        admin,
        health,
        worker,
        upstreams,
        leases,
        inbound,
        limits,
        record_timeout,
        drain,
        digest,
        files: Vec::new(),
    })
}

fn version(fields: &mut Fields<'_>) {
    if let Some(field) = fields.need("version") {
        field.read(VERSION, |text| (text == "1").then_some(()));
    }
}

fn tenant(field: &Field<'_>) -> Option<Tenant> {
    field.read(NAME, |text| is_name(text).then(|| Tenant::new(text)))
}

pub(super) const NAME: &str = "a name (letters, digits, `-`, `_`, `.`; at most 64)";

/// Names go into logs, metrics, paths of the operators' API and identities.
pub(super) fn is_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !text.is_empty() && text.len() <= 64 && text.chars().all(allowed)
}

fn limits_of(field: &Field<'_>) -> Option<Limits> {
    let mut fields = field.map()?;
    let buffered_bodies = fields.or("buffered_bodies", DEFAULT_BUFFERED, |field| {
        field.read(SIZE, scalar::size)
    });
    fields.finish();
    Some(Limits { buffered_bodies })
}

/// `mode`, or that of whatever it stands in.
fn mode(fields: &mut Fields<'_>, inherited: Mode) -> Mode {
    fields.or("mode", inherited, |field| {
        field.choice(&[("enforce", Mode::Enforce), ("observe", Mode::Observe)])
    })
}

fn upstreams(
    fields: &mut Fields<'_>,
    inherited: &Inherited<'_>,
    taken: &mut Taken,
) -> Vec<Arc<Upstream>> {
    let Some(field) = fields.need("upstreams") else {
        return Vec::new();
    };
    let named = field.named();
    if named.is_empty() && (field.is_null() || field.is_map()) {
        field.error("names no upstream");
    }
    let upstreams: Vec<_> = named
        .into_iter()
        .filter_map(|(name, field)| upstream::upstream(name, &field, inherited, taken))
        .map(Arc::new)
        .collect();
    observed::warn_of_shared_fences(&field, &upstreams);
    upstreams
}

fn admin(fields: &mut Fields<'_>, taken: &mut Taken) -> Option<Admin> {
    let default = Admin {
        address: DEFAULT_ADMIN,
        operators: Vec::new(),
    };
    let Some(field) = fields.take("admin") else {
        taken.claim_default("admin", DEFAULT_ADMIN, fields.own());
        return Some(default);
    };
    if is_none(&field) {
        return None;
    }
    let mut fields = field.map()?;
    let address_field = fields.take("address");
    let address = address_field
        .as_ref()
        .and_then(address)
        .unwrap_or(DEFAULT_ADMIN);
    let operators = fields
        .take("operators")
        .map(|field| operators(&field))
        .unwrap_or_default();
    let place = address_field.unwrap_or(field);
    taken.claim(address, &place);
    if !address.ip().is_loopback() && operators.is_empty() {
        place.error("only a loopback address needs no `operators`");
    }
    fields.finish();
    Some(Admin { address, operators })
}

fn operators(field: &Field<'_>) -> Vec<(String, Secret)> {
    let mut operators: Vec<(String, Secret)> = Vec::new();
    for (name, field) in field.named() {
        if !is_name(name) {
            field.error(format!("`{name}` is not {NAME}"));
        }
        let Some(secret) = field.secret() else {
            continue;
        };
        if operators
            .iter()
            .any(|(_, other)| other.matches(secret.expose().as_bytes()))
        {
            field.error("another operator has the same token: nobody could tell them apart");
        }
        operators.push((name.to_owned(), secret));
    }
    operators
}

fn health(fields: &mut Fields<'_>, taken: &mut Taken) -> Option<SocketAddr> {
    let Some(field) = fields.take("health") else {
        taken.claim_default("health", DEFAULT_HEALTH, fields.own());
        return Some(DEFAULT_HEALTH);
    };
    if is_none(&field) {
        return None;
    }
    let mut fields = field.map()?;
    let address_field = fields.take("address");
    let address = address_field
        .as_ref()
        .and_then(address)
        .unwrap_or(DEFAULT_HEALTH);
    taken.claim(address, &address_field.unwrap_or(field));
    fields.finish();
    Some(address)
}

/// Where callers ask how an operation stands. It has no tokens, so it is for this machine alone.
fn worker(fields: &mut Fields<'_>, taken: &mut Taken) -> Option<SocketAddr> {
    let field = fields.take("worker")?;
    let mut fields = field.map()?;
    let address_field = fields.need("address");
    fields.finish();
    let place = address_field?;
    let address = address(&place)?;
    taken.claim(address, &place);
    if !address.ip().is_loopback() {
        place.error("only a loopback address: whoever reaches it reads how operations stand");
    }
    Some(address)
}

/// `admin: none` switches a listener off that would be there by default.
fn is_none(field: &Field<'_>) -> bool {
    field.is_word("none")
}

fn drain(fields: &mut Fields<'_>, upstreams: &[Arc<Upstream>]) -> Duration {
    let responses = upstreams
        .iter()
        .map(|upstream| upstream.timeouts.response.0);
    let longest = Duration::from_millis(responses.max().unwrap_or_default());
    fields.or("drain", longest.saturating_add(DRAIN_MARGIN), |field| {
        let drain = field.read(DURATION, scalar::duration)?;
        if drain < longest {
            let longest = humantime::format_duration(longest);
            field.error(format!(
                "does not cover the longest response timeout, {longest}"
            ));
        }
        Some(drain)
    })
}

fn address(field: &Field<'_>) -> Option<SocketAddr> {
    field.read(ADDRESS, |text| text.parse().ok())
}

fn path(field: &Field<'_>) -> Option<PathBuf> {
    field.read("a path", |text| {
        (!text.is_empty()).then(|| PathBuf::from(text))
    })
}

/// A directory that is there.
fn directory(field: &Field<'_>) -> Option<PathBuf> {
    let directory = path(field)?;
    if !directory.is_dir() {
        field.error(format!("`{}` is no directory", directory.display()));
    }
    Some(directory)
}

/// A file that whoever watches the config watches too.
fn file(field: &Field<'_>) -> Option<PathBuf> {
    path(field).inspect(|file| field.depends_on(file.clone()))
}

/// Files for TLS.
fn tls_files(field: &Field<'_>) -> Option<TlsFiles> {
    let mut fields = field.map()?;
    let mut named = |name| file(&fields.take(name)?);
    let files = TlsFiles {
        ca: named("ca"),
        client_cert: named("client_cert"),
        client_key: named("client_key"),
    };
    if files.client_cert.is_some() != files.client_key.is_some() {
        field.error("`client_cert` and `client_key` come together");
    }
    fields.finish();
    Some(files)
}

impl Taken {
    fn claim(&mut self, address: SocketAddr, field: &Field<'_>) {
        let other = self
            .addresses
            .iter()
            .find(|(other, _)| collide(*other, address));
        if let Some((_, other)) = other {
            field.error(format!("`{other}` listens there already"));
        }
        self.addresses.push((address, field.path().to_owned()));
    }

    /// For a listener that is there although the file does not mention it.
    fn claim_default(&mut self, name: &'static str, address: SocketAddr, own: &Field<'_>) {
        let other = self
            .addresses
            .iter()
            .find(|(other, _)| collide(*other, address));
        if let Some((_, other)) = other {
            own.error(format!(
                "`{other}` is the default address of `{name}`: give it another, or write `{name}: none`"
            ));
        }
        self.addresses.push((address, name.to_owned()));
    }

    fn claim_id(&mut self, id: &str, field: &Field<'_>) {
        if let Some((_, other)) = self.ids.iter().find(|(other, _)| other == id) {
            field.error(format!(
                "`{other}` has the id `{id}` already: their operations would mix"
            ));
        }
        self.ids.push((id.to_owned(), field.path().to_owned()));
    }
}

/// Port 0 is a new port each time.
fn collide(one: SocketAddr, other: SocketAddr) -> bool {
    let anywhere = one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() != 0 && one.port() == other.port() && (one.ip() == other.ip() || anywhere)
}
