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
//! newer format is refused, and nothing in it changed, unless it says that this version may go on using it: then
//! sidecars of both versions run side by side while a new version is rolled out, and those of the earlier one may
//! start anew. `store migrate` by the new version comes first. Once the register says otherwise, sidecars of an
//! earlier version that still run admit nothing any more (`503 store-unavailable`, `/readyz` red, with the reason;
//! `fencepost_store_standing{standing="outgrown"}`); what they had sent they still record.
//!
//! Each sidecar holds two connections, one to write and one to read, each for all its requests at once:
//! more would wait for the same rows, so another number of `connections` is refused. A third is held while it
//! is a sidecar's turn to forget what is old, and one while operations or resources are listed or counted
//! (operators, `/metrics`): signs of life do not wait for those. No statement is prepared, so a pooler in transaction mode may stand between.
//!
//! # Which database
//!
//! PostgreSQL, tested with version 15; one older than 13, or another engine that speaks its protocol, is refused
//! when the tables are to be made. What follows for the rest is *reasoned from their documentation, not tried*:
//!
//! | | |
//! |---|---|
//! | RDS, Cloud SQL and others that run PostgreSQL on a disk which is replicated below it | as PostgreSQL: after their fail-over the same timeline goes on, as after a restart |
//! | a streaming replica that is promoted (Patroni, Azure's flexible server, by hand) | as [`super::moving`] says. Asynchronous replication loses commits: set `synchronous_standby_names`, or Patroni's `synchronous_mode` |
//! | Aurora | the storage is one for writer and readers, so that a fail-over should lose nothing; whether its server tells a timeline the way that is asked here is not known. Where it does not, nothing is admitted |
//! | YugabyteDB | refused. It has had advisory locks and notifications only for a short time, and no timelines |
//! | CockroachDB | refused. For years its advisory locks locked nothing, and it has no timelines; equal requests without a key could both be sent |
//! | pgbouncer in transaction mode | tested. In statement mode careful decisions, which take several statements, fail. Other poolers: where each transaction has one connection, the same should hold |
//! | a replica for reading | never: everything is read from the server that writes |
//!
//! One database for registers and other things works; one of its own is easier to restore.
//!
//! # How large
//!
//! Measured on 2026-11-30, each row in one run: a PostgreSQL 15 with 2 GB of `shared_buffers`, sidecars and callers on
//! two virtual cores together; an operation is two durable steps. `pgbench` does two transactions of the same kind
//! with prepared statements, over a connection for each caller.
//!
//! | callers | | operations a second | `pgbench` | p50 |
//! |---|---|---|---|---|
//! | 1 | one sidecar | 370 to 380 | 840 to 860 | 2.2 ms |
//! | 32 | one sidecar | 1 460 to 1 680 | 1 440 to 1 620 | 19 to 21 ms |
//! | 32 | shared by three sidecars | 1 560 to 1 810 | | 15 to 18 ms |
//! | 32 | one sidecar, all on one resource | 1 590 to 1 700 | | 18 to 19 ms |
//! | 32 | one sidecar, a million resources that it has not met | 810 to 840 | | 38 ms |
//! | 32 | the same, beside ten million settled operations (10 GB, in memory) | 650 to 720 | | 44 to 48 ms |
//!
//! One caller waits for two round trips and two commits (1.0 ms for statements that write and do no more), and for
//! what the server works: half a millisecond a step. Whoever meets a resource that another sidecar has written, or
//! that it has not met since its start, takes a careful turn more.
//!
//! A sidecar sends what has come up meanwhile in one transaction, 16 steps of 32 callers here; three share them
//! out, and each of theirs holds five. What a transaction costs is the disk's and the cores': measure on yours
//! (`cargo bench --features bench --bench register -- shared --url … --pgbench`). Forgetting goes 500 operations at
//! a time, in 0.2 to 0.6 seconds each beside ten million, while the machine did other work.
//!
//! Connections: two for each sidecar, and others for a while; 95 fit a server with `max_connections = 200`, and
//! five hundred share it through a pooler that holds sixty, as tests show. At rest each sidecar reads the signs of
//! life of all of its tenant every three seconds: five hundred read about 90 000 small rows a second together
//! (reckoned, not measured). An operation with a small answer took 1.8 KB, indexes
//! included.
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
//! stand in it, `postgres://user@a,b/name`: the one that takes writes is used, by every connection, whatever
//! `target_session_attrs` in the URL says. A replica is never read: it is behind, and would be believed.
//!
//! # What the server must keep
//!
//! A permit follows its commit, so the commit must last. A server with `fsync = off` or `full_page_writes = off` is
//! refused at the start of a sidecar, unless `ephemeral: true` says that the register may be lost; then repeats
//! of what it knew are sent again. Switched off while sidecars run, that is noticed at the next start of one.
//! `synchronous_commit` may be what it likes: where a role, a database or a pooler prefers `off`, whatever is
//! decided is committed with `on` all the same, and `local`, `remote_write` and `remote_apply`, all of which
//! wait for the server's own disk, stay as they are. What `local` does not wait for is the replica: with it a
//! fail-over may lose commits.
//!
//! # Who is dead
//!
//! Each sidecar gives a sign of life seven times in `dead_after`, and at least every three seconds. One whose
//! row in the register has not changed for that long (20s, unless said otherwise), over at least four reads of
//! another that itself never stood still for half of it, is declared dead: what it left unsettled is settled by the
//! others, and whatever it still wants to admit is refused. Nothing depends on that being right; but callers
//! wait so long for what a sidecar left that really died, and a shorter time takes sidecars for dead that only
//! wait for their database. Less than 12s is refused, because a statement may take 8s and a new connection 3s;
//! more than 1h too. Sidecars may differ in it while it is being changed.
//!
//! A tenant whose last sidecar was killed, and which starts none again, has nobody to say so. One sidecar of each
//! other tenant does: by its own clock for as long as that instance would have been waited for, a minute at least, and
//! then as long again by the database's. Nothing else is done to it: what it left waits for its own tenant. Were it
//! left alive, the next fail-over would wait for its word ([`super::moving`]). `doctor` and `/v1/status` count other
//! tenants' sidecars, and after a fail-over name each instance whose word is missing.
//!
//! # How long it is remembered
//!
//! `remember` is each sidecar's to say, and the register keeps the longest that any sidecar of the tenant has
//! ever said: one with an upstream whose keys live for 30 days is not made to forget by one without. Nothing
//! lowers that by itself, since whoever needs it may only be away. Once all of them have a shorter one, an
//! operator says so to the database, as the owner of the tables:
//!
//! ```sql
//! UPDATE fencepost.forgotten SET remember_ms = 0 WHERE tenant = 'payments';
//! ```
//!
//! The ones that run tell theirs again within ten seconds, as they do where a fail-over has lost what they had
//! told; and after a fail-over nothing is forgotten before all of them had the time to.
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
//! only one who knows. So a tenant's credential can stop admission for all, until the owner accepts the register.
//!
//! It can say that another tenant's instance is silent; what that does meanwhile outruns it, so that it can be
//! believed only where the instance was kept from its row for its whole limit, or the database's clock leapt. The
//! instance then goes on under another id.
//!
//! Rows that such a role makes up stand in nobody's way: identities, which anybody can reckon, and whatever
//! else is unique, are so within a tenant. Locks are another matter, since PostgreSQL lets every role take them:
//!
//! | such a role can | meanwhile | until |
//! |---|---|---|
//! | make up very many unsettled rows under a resource's name of another tenant | careful admissions there take longer: they read past these | they are deleted |
//! | lock a whole table that it may write (`LOCK TABLE fencepost.operations`) | `503 store-unavailable` for all, and nothing is sent | its session ends |
//! | take the advisory lock of somebody else's equal requests without a key, whose number it sees while that is held (`pg_locks`) | `503` for these | the same |
//! | take the advisory lock under which a register is opened | no sidecar starts, and `store migrate` waits | the same |
//! | leave a transaction open in which it called a function of the ground | nobody confirms or accepts a fail-over | the same |
//! | leave a transaction open in which it declared an instance dead (`bury_1`) that had been silent for its whole limit | nobody else declares any other tenant's instance dead, and that one, if it was only frozen, cannot write | the same |
//! | leave any transaction open | vacuum of all tables waits, and they grow | the same |
//! | write rows of its own that nobody can read, or an age beyond all bounds | `store export` or `import` of the register fails, and names the row | the owner deletes what is that tenant's |
//! | use up connections, shared memory for locks, or the disk | `503` | an administrator frees them |
//!
//! Nothing is sent twice by any of it, and none is hidden: `pg_locks` and `pg_stat_activity` name the role, whose
//! sessions the administrator ends (`ALTER ROLE … NOLOGIN`, then `pg_terminate_backend`). `ALTER ROLE …
//! CONNECTION LIMIT` bounds the last one; no timeout bounds the others, because a role may set its own. It was not
//! narrowed by functions that write with their owner's rights, which would take away the first row alone, and row-level
//! security from under all the others. Where tenants do not trust each other that far, give each a database of
//! its own.
//!
//! Without such roles, with one role for everything, a sidecar still lists and settles only its own tenant's
//! operations; but then it is this program that sees to it.
//!
//! # Operators
//!
//! `fencepost operations list|show|resolve` and `resources list|show` work straight in it, while sidecars are
//! at work too: `--register '${env:DATABASE_URL}' --config FILE`, where the config brings keys and tenant.
//! They take part as nobody's instance and admit nothing; so what they write is counted by nobody, and a fail-over
//! that loses it is not noticed by that: look again after one. Through a running instance (`--admin`, or
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
