//! A register in PostgreSQL, which many sidecars share: how to make it, who may see what in it, and how
//! operators work in it.
//!
//! ```yaml
//! tenant: payments
//! register:
//!   postgres: { url: "${env:DATABASE_URL}" }
//!   encryption: { keys: ["${file:/etc/fencepost/key}"] }      # openssl rand -hex 32; the same for all
//! ```
//!
//! An operation, a fence and an answer are the same to all sidecars of one `tenant`: a payment that was made
//! through one is answered by the others, and a token that is stale at one is stale at all. The rule is the
//! one of the embedded register: *if the register cannot make something durable, nothing is sent.* While
//! the database cannot be reached, callers are told `503 store-unavailable`, `/readyz` is 503, and both end
//! by themselves when it can. A sidecar does not start without it.
//!
//! # Making it
//!
//! Everything lies in the schema `fencepost` of the database. The first sidecar that starts makes the
//! tables, or `fencepost store migrate --config FILE` does, which `migrate: false` demands. A register of a
//! newer format is refused, and nothing in it changed.
//!
//! Each sidecar holds two connections, one to write and one to read, each for all its requests at once:
//! more would wait for the same rows, so another number of `connections` is refused. A third is held while it
//! is a sidecar's turn to forget what is old. No statement is prepared, so a pooler in transaction mode may stand between.
//!
//! # The way to it
//!
//! | `sslmode` in the URL | |
//! |---|---|
//! | `disable` | never encrypted |
//! | `prefer`, or none written | encrypted where the server offers it. Whoever sits in between can make it not offer; `check` warns unless the database is on this machine |
//! | `require`, `verify-ca`, `verify-full` | encrypted, or refused |
//!
//! *Whatever is encrypted is verified*, also under `prefer`: the certificate must be of an authority of the
//! platform, or of the one in `tls: { ca: FILE }` (or `sslrootcert` in the URL), and bear the name in the URL.
//! A server whose certificate nobody signed, as Debian installs one, therefore needs its `ca`, or
//! `sslmode=disable`. `tls: { client_cert: FILE, client_key: FILE }` shows the server a certificate of ours.
//!
//! The URL is a secret as a whole and never shown; messages name host, port and database. Several hosts may
//! stand in it: `postgres://user@a,b/name?target_session_attrs=read-write` finds the one that writes.
//!
//! # Keys
//!
//! Others than the machine's administrators read a database: its backups, its replicas, whoever runs the
//! service. So a register in PostgreSQL has no key file beside it: it needs keys, or `encryption: none`.
//! With `none` the stored requests, their credentials and the answers are sealed with a key that stands in
//! the source of this program. **That is obfuscation:** it keeps them from nobody, and fingerprints can be
//! guessed at. What it is for: `keys: [KEY, none]` puts an end to it later, without losing anything.
//!
//! To change a key while sidecars run: put the new one *behind* the old one everywhere and restart them, one
//! by one; then in front; and take the old one away when `remember.answers` has passed and nothing is
//! unsettled from before. A sidecar that lacks the first key of another cannot read what that one sealed, and
//! answers `503` for it; it does not send it again. A role that owns the tables seals the register's own
//! fingerprint key anew at its start; where sidecars may not, `fencepost store migrate` does.
//!
//! # Who may see what
//!
//! `config/postgres-roles.sql` is the text: a role that owns the tables, and one role for the sidecars of
//! each tenant, let in with `SELECT fencepost.let_in('payments_sidecar', 'payments')`. Such a role reads and
//! writes the operations, fences and instances of its own tenant and of no other, whatever statement it
//! sends: row-level security sees to it, not this program. Sidecars of one tenant trust each other: whoever
//! has the credential of one can change, or delete, what that tenant's others rely on.
//!
//! Shared by all tenants is what the register says of itself: epoch, history, which keys were used, and of all
//! instances their ids and how many transactions each has made. A tenant's role changes nothing of that, and may
//! call no function but those of its sidecars. How old what is remembered is, each tenant counts for itself: none
//! makes another's be forgotten. After a fail-over ([`super::moving`]) a role confirms only for instances of its
//! own tenant; ten seconds for objections, and the quiet after an acceptance, pass by the database's clock too,
//! whatever a role says. What remains: any sidecar may say that the register lost commits, since any may be the
//! only one who knows. So a tenant's credential can stop admission for all, until the owner accepts the register,
//! and take locks that others wait for. Where tenants do not trust each other that far, give each a database of
//! its own.
//!
//! Without such roles, with one role for everything, a sidecar still lists and settles only its own tenant's
//! operations; but then it is this program that sees to it.
//!
//! # Operators
//!
//! `fencepost operations list|show|resolve` and `resources list|show` work straight in it, while sidecars are
//! at work too: `--register '${env:DATABASE_URL}' --config FILE`, where the config brings keys and tenant.
//! They take part as nobody's instance and admit nothing. Through a running instance (`--admin`, or
//! `--config` alone) is better where one runs, since callers that wait there are woken.
//!
//! `store backup` is for the embedded register. A database is backed up with its own means, and its keys
//! apart from it. A database that was restored to an earlier state admits nothing until it is
//! accepted ([`super::moving`] says what is noticed, and what is not): compare the lost span with the provider's
//! books first.
//!
//! # What is not in it
//!
//! The report of `mode: observe` is each sidecar's own. It is kept in `state: DIR`, one directory for each
//! sidecar; without that it begins anew at every start, and `check` warns where something is observed.
