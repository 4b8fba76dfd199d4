//! A register in PostgreSQL: the database, and what of this sidecar does not go into it.
//!
//! What always holds: a password that stands in the file is warned of, and a connection that leaves the
//! machine without being sure of TLS.
//!
//! What it does not do: connect.

use std::sync::Arc;
use std::time::Duration;

use super::super::database::{DatabaseTls, DatabaseUrl};
use super::super::field::Field;
use super::super::scalar::{self, DURATION};
use super::super::settings::{Action, RegisterPlace, SharedRegister, TlsFiles, Unlisted, Upstream};
use super::{NAME, is_name, path, tls_files};

/// When a sidecar that does nothing is taken for dead, unless it is said otherwise.
const DEAD_AFTER: Duration = Duration::from_secs(20);

/// The longest that one statement is waited for, and a connection after it, is 11 seconds.
const SOONEST: Duration = Duration::from_secs(12);

const LATEST: Duration = Duration::from_secs(60 * 60);

/// Reads it.
pub(super) fn place(field: &Field<'_>, upstreams: &[Arc<Upstream>]) -> RegisterPlace {
    let mut shared = SharedRegister {
        url: DatabaseUrl::unread(),
        tls: TlsFiles::default(),
        name: None,
        migrate: true,
        ephemeral: false,
        dead_after: DEAD_AFTER,
        state: None,
    };
    let Some(mut fields) = field.map() else {
        return RegisterPlace::Shared(shared);
    };
    if let Some(url) = fields.need("url").and_then(|field| url(&field)) {
        shared.url = url;
    }
    fields.or("connections", (), connections);
    if let Some(field) = fields.take("tls") {
        if shared.url.tls() == DatabaseTls::Never {
            field.error("there is no TLS with `sslmode=disable`");
        }
        shared.tls = tls_files(&field).unwrap_or_default();
        if shared.tls.ca.is_some() && shared.url.ca().is_some() {
            field.error("`sslrootcert` in the URL says which roots already");
        }
    }
    let root = shared.url.ca().filter(|_| shared.tls.ca.is_none());
    if let Some(root) = root.cloned() {
        field.depends_on(root.clone());
        shared.tls.ca = Some(root);
    }
    shared.name = fields
        .take("name")
        .and_then(|field| field.read(NAME, |text| is_name(text).then(|| text.to_owned())));
    shared.migrate = fields.or("migrate", true, Field::boolean);
    shared.ephemeral = fields.or("ephemeral", false, ephemeral);
    shared.dead_after = fields.or("dead_after", DEAD_AFTER, dead_after);
    shared.state = fields.take("state").and_then(|field| path(&field));
    if shared.state.is_none() && upstreams.iter().any(|upstream| is_observed(upstream)) {
        field.warn(
            "without `state`, a directory of this sidecar's own, the report of what is only observed \
             (`fencepost report`) begins anew at every start",
        );
    }
    fields.finish();
    RegisterPlace::Shared(shared)
}

fn url(field: &Field<'_>) -> Option<DatabaseUrl> {
    let text = field.secret_text()?;
    if field.leaves_secrets() {
        return None;
    }
    let (url, is_literal) = match DatabaseUrl::resolved(text) {
        Ok(resolved) => resolved,
        Err(problem) => {
            field.error(problem);
            return None;
        }
    };
    if is_literal && url.has_password() {
        field.warn("a secret stands in the file; use `${env:NAME}` or `${file:/path}`");
    }
    if url.tls() != DatabaseTls::Always && !url.stays_here() {
        field.warn(
            "whoever sits between here and the database can read and change what goes over this \
             connection: write `?sslmode=require`",
        );
    }
    Some(url)
}

/// As for an embedded one.
pub(super) fn ephemeral(field: &Field<'_>) -> Option<bool> {
    let ephemeral = field.boolean()?;
    if ephemeral {
        field.warn("what an ephemeral register knew is lost with it, and repeats are sent again");
    }
    Some(ephemeral)
}

fn dead_after(field: &Field<'_>) -> Option<Duration> {
    let limit = field.read(DURATION, scalar::duration)?;
    if limit < SOONEST {
        field.error(
            "is shorter than 12s: a database may take 8s to answer and another 3s to be reached again, and \
             sidecars that are only waiting for that would take each other for dead",
        );
    }
    if limit > LATEST {
        field.error(
            "is longer than 1h: for so long callers wait for what a sidecar left that really died",
        );
    }
    Some(limit)
}

/// One writes and one reads, each for everybody at once.
fn connections(field: &Field<'_>) -> Option<()> {
    field.number::<u64>(
        "2: one connection writes and one reads, each for all requests at once, and more would wait for \
         the same rows",
        2..=2,
    )?;
    Some(())
}

fn is_observed(upstream: &Upstream) -> bool {
    let effects = upstream.effects.iter().any(|effect| match &effect.action {
        Action::Protect(protect) => protect.is_observed(),
        Action::Pass => false,
    });
    let unlisted = match &upstream.unlisted {
        Unlisted::Protect(protect) => protect.is_observed(),
        Unlisted::Observe | Unlisted::Pass | Unlisted::Deny => false,
    };
    effects || unlisted
}
