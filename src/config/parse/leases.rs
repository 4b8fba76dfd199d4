//! `leases`: what is held on behalf of a worker that knows nothing of tokens.
//!
//! What always holds: a resource is held once; its tokens come from one source, in the effects too, and only whoever is
//! on this machine reaches those; a probe comes often enough for every renewal to rest on one; there is a place where
//! the last ownership is remembered.
//!
//! What it does not do: look whether the worker is there.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use http::Uri;
use http::uri::Scheme;

use super::super::field::{Field, Fields};
use super::super::leases::{Alive, HeldLease, OnLoss, Sign, StartIdentity};
use super::super::scalar::{self, DURATION};
use super::super::settings::{Register, RegisterPlace, Upstream};
use super::{NAME, is_name, path, value};
use crate::protocol::ids::{ResourceName, TokenSource};
use crate::protocol::lease::OWN_SOURCE;
use crate::protocol::time::Millis;

const DEFAULT_TTL: Millis = Millis(30_000);
const TTLS: (Millis, Millis) = (Millis(1_000), Millis(24 * 60 * 60 * 1_000));

/// How often it is looked, and how long at most, unless it is said otherwise or the lease is shorter.
const EVERY: Millis = Millis(2_000);
const TIMEOUT: Millis = Millis(1_000);

/// Names that are read with every admission, in bytes.
const LONGEST: usize = 200;

/// Sources that are to come.
const LATER: [&str; 5] = ["etcd", "zookeeper", "redis", "postgres", "kubernetes"];

/// What stands around it.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    pub(super) upstreams: &'a [Arc<Upstream>],
    pub(super) register: &'a Register,
    pub(super) worker: Option<SocketAddr>,
}

/// Reads all of them.
pub(super) fn leases(fields: &mut Fields<'_>, around: Around<'_>) -> Vec<HeldLease> {
    let mut leases: Vec<HeldLease> = Vec::new();
    let Some(field) = fields.take("leases") else {
        return leases;
    };
    for (name, field) in field.named() {
        if !is_name(name) {
            field.error(format!("`{name}` is not {NAME}"));
        }
        let Some(lease) = lease(name, &field, around) else {
            continue;
        };
        let other = leases.iter().find(|other| other.resource == lease.resource);
        if let Some(other) = other {
            field.error(format!(
                "`{}` holds that resource already: they would take it from each other",
                other.name
            ));
        }
        leases.push(lease);
    }
    leases
}

fn lease(name: &str, field: &Field<'_>, around: Around<'_>) -> Option<HeldLease> {
    let mut fields = field.map()?;
    let resource_field = fields.need("resource");
    let resource = resource_field.as_ref().and_then(resource);
    if let (Some(field), Some(resource)) = (&resource_field, &resource) {
        judge_effects(field, resource, around.upstreams);
    }
    fields.or("source", (), |field| {
        field.choice_or_later(&[(OWN_SOURCE, ())], &LATER)
    });
    let ttl = fields.or("ttl", DEFAULT_TTL, ttl);
    let holder = fields.take("holder").and_then(|field| holder(&field));
    let alive_field = fields.need("alive");
    let alive = alive_field.as_ref().and_then(|field| alive(field, ttl));
    if let (Some(field), Some(alive)) = (&alive_field, &alive) {
        warn_of_no_proof(field, alive, around.worker);
    }
    let on_loss = fields.or("on_loss", OnLoss::Refuse, |field| {
        field.choice(&[("refuse", OnLoss::Refuse), ("exit", OnLoss::Exit)])
    });
    let state = match fields.take("state") {
        Some(field) => path(&field),
        None => usual_state(field, around.register),
    };
    fields.finish();
    Some(HeldLease {
        name: name.to_owned(),
        resource: resource?,
        source: TokenSource::new(OWN_SOURCE),
        ttl,
        holder,
        alive: alive?,
        on_loss,
        state: state?,
    })
}

fn resource(field: &Field<'_>) -> Option<ResourceName> {
    let plain = |text: &str| !text.is_empty() && !text.contains(['{', '}']);
    field.read(
        "the name of one resource, in plain text (`statement:account-42`)",
        |text| ResourceName::taken(text).filter(|_| plain(text)),
    )
}

fn ttl(field: &Field<'_>) -> Option<Millis> {
    let ttl = field.read(DURATION, scalar::millis)?;
    let (shortest, longest) = TTLS;
    if ttl < shortest || ttl > longest {
        field.error("is to be from `1s` to `24h`");
    }
    Some(ttl)
}

fn holder(field: &Field<'_>) -> Option<String> {
    field.read("a name (at most 200 bytes)", |text| {
        (!text.is_empty() && text.len() <= LONGEST).then(|| text.to_owned())
    })
}

fn alive(field: &Field<'_>, ttl: Millis) -> Option<Alive> {
    let mut fields = field.map()?;
    let (http, process, file) = (
        fields.take("http"),
        fields.take("process"),
        fields.take("file"),
    );
    let identity = fields.take("identity");
    if let (Some(field), None) = (&identity, &http) {
        field.error(
            "is of an `http` probe: a process and a file tell their starts apart by themselves",
        );
    }
    let given = [&http, &process, &file];
    if given.iter().filter(|field| field.is_some()).count() != 1 {
        field.error("needs one of `http`, `process` and `file`");
    }
    let identity = identity.map(|field| start_identity(&field));
    let sign = match (http, process, file) {
        (Some(field), _, _) => url(&field).map(|url| Sign::Http {
            url,
            identity: identity.flatten(),
        }),
        (None, Some(field), _) => process_of(&field),
        (None, None, Some(field)) => path(&field).map(Sign::File),
        (None, None, None) => None,
    };
    let sixth = Millis((ttl.0 / 6).max(1));
    let every = duration(&mut fields, "every", EVERY.min(sixth));
    let timeout = duration(&mut fields, "timeout", TIMEOUT.min(sixth));
    if every.plus(timeout) > Millis(ttl.0 / 3) {
        field.error(
            "`every` and `timeout` together are longer than a third of `ttl`: a renewal would have no probe to rest \
             on",
        );
    }
    fields.finish();
    Some(Alive {
        sign: sign?,
        every,
        timeout,
    })
}

fn duration(fields: &mut Fields<'_>, name: &'static str, default: Millis) -> Millis {
    fields.or(name, default, |field| field.read(DURATION, scalar::millis))
}

fn url(field: &Field<'_>) -> Option<Uri> {
    field.read(
        "an `http` URL with a host (`http://127.0.0.1:8080/healthz`)",
        |text| {
            let url: Uri = text.parse().ok()?;
            let has_host = url.host().is_some_and(|host| !host.is_empty());
            (url.scheme() == Some(&Scheme::HTTP) && has_host).then_some(url)
        },
    )
}

fn start_identity(field: &Field<'_>) -> Option<StartIdentity> {
    let mut fields = field.map()?;
    let (header, json) = (fields.take("header"), fields.take("json"));
    fields.finish();
    match (header, json) {
        (Some(field), None) => value::header(&field).map(StartIdentity::Header),
        (None, Some(field)) => field.read("a JSON pointer (`/started`)", |text| {
            text.starts_with('/')
                .then(|| StartIdentity::Json(text.to_owned()))
        }),
        (Some(_), Some(_)) | (None, None) => {
            field.error("needs one of `header` and `json`");
            None
        }
    }
}

fn process_of(field: &Field<'_>) -> Option<Sign> {
    let mut fields = field.map()?;
    let (pid_file, command) = (fields.take("pid_file"), fields.take("command"));
    fields.finish();
    match (pid_file, command) {
        (Some(field), None) => path(&field).map(Sign::PidFile),
        (None, Some(field)) => field.read(
            "the name of a process as the kernel knows it (at most 15 bytes, as in /proc/PID/comm)",
            |text| {
                (1..=15)
                    .contains(&text.len())
                    .then(|| Sign::Command(text.to_owned()))
            },
        ),
        (Some(_), Some(_)) | (None, None) => {
            field.error("needs one of `pid_file` and `command`");
            None
        }
    }
}

/// Beside the register.
fn usual_state(field: &Field<'_>, register: &Register) -> Option<PathBuf> {
    let state = match &register.place {
        RegisterPlace::Embedded(embedded) => Some(embedded.path.clone()),
        RegisterPlace::Shared(shared) => shared.state.clone(),
    };
    if state.is_none() {
        field.error(
            "needs `state`, a directory of this sidecar's own that outlives its restarts (or `register.postgres.state`): \
             the last ownership is remembered there",
        );
    }
    state
}

/// A token is compared with those of its own source alone.
fn judge_effects(field: &Field<'_>, resource: &ResourceName, upstreams: &[Arc<Upstream>]) {
    let mut acts = false;
    for upstream in upstreams {
        let fences = upstream.protects().filter_map(|it| it.fence.as_ref());
        for fence in fences.filter(|fence| fence.resource.could_make(resource.as_str())) {
            acts = true;
            if !upstream.listen.ip().to_canonical().is_loopback() {
                field.error(format!(
                    "an effect of `{}` may act on it (`{}`), and others than the worker beside this sidecar reach it at \
                     {}: its `listen` is to be on 127.0.0.1 or [::1]",
                    upstream.name,
                    fence.resource.written(),
                    upstream.listen
                ));
            }
            if fence.source.as_str() != OWN_SOURCE {
                field.error(format!(
                    "an effect of `{}` may act on it (`{}`), and takes its tokens from `{}`: write \
                     `source: {OWN_SOURCE}` in its `token`",
                    upstream.name,
                    fence.resource.written(),
                    fence.source
                ));
            }
        }
    }
    if !acts {
        field.warn("no effect acts on it: nothing is stamped");
    }
}

fn warn_of_no_proof(field: &Field<'_>, alive: &Alive, worker: Option<SocketAddr>) {
    if alive.sign.tells_starts_apart() {
        return;
    }
    let way = if worker.is_some() {
        ""
    } else {
        ", for which there is no `worker` listener"
    };
    field.warn(format!(
        "without `identity` no probe proves that the worker was replaced: what was lost is acquired again only after \
         it is acknowledged (`POST /v1/leases/{{resource}}/acknowledge`){way}"
    ));
}
