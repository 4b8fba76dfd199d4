//! Moving a register into PostgreSQL, and what happens when the database fails over or is restored.
//!
//! # Moving
//!
//! ```sh
//! # The instance is stopped first: an embedded register has one owner.
//! fencepost store export --config fencepost.yaml --to moved.jsonl
//! fencepost store import --register '${env:DATABASE_URL}' --from moved.jsonl
//! ```
//!
//! Nothing is forgotten: fences, operations with their stories (tombstones included), notes of twins, stored
//! answers and requests, the epoch, the register's id and age, its history. What is sealed stays sealed: give
//! the sidecars of the new register *the same keys* (`encryption: { keys: … }`; a key file that lay beside the
//! embedded register is its content in hex). What was under way is UNCERTAIN there, and is settled.
//!
//! How long a tenant's answers and identities are remembered goes with them: of a shared register the longest
//! that any sidecar has ever told, of an embedded one what its `--config` says. Where the file does not say
//! (exported with `--register DIR` alone, or by a version of before), `import` tells so, and whoever starts first
//! forgets by its own `remember`: start the sidecar with the longest one first.
//!
//! The old register is marked: a start on it is refused, by earlier versions too, because two registers of one
//! truth would both admit. If the file is used nowhere and never will be, `fencepost store take-back
//! --register DIR` undoes it. The file is JSON lines, readable by its owner only; its last line says that it is
//! whole. A file that was cut or changed is refused, and the database is left as it was. A register is only
//! moved to where there is none.
//!
//! `fencepost store export --register URL` writes a shared register to such a file. It closes that register
//! first: nothing is admitted by it any more, whoever still runs on it. Whether the file can be written, and
//! whether this version knows the register's format, is found out before; if the export fails all the same, it
//! says so, and is made again, or the register taken back. What its sidecars learn afterwards of
//! what they had sent is recorded there and is not in the file; in the file those operations are in doubt, and
//! are settled. It stays closed, whatever was decided on it before: an acceptance is refused, and names the
//! file. `store take-back --register URL` says that the file is used nowhere; what was taken back admits once it
//! is accepted (`store accept-restored`, below). While a register waits after it was accepted it is not
//! exported; a sidecar that runs on it ends that wait. What stood against a register when it was exported goes
//! with it, and has to be accepted where it is imported.
//!
//! # When the database fails over, or is restored
//!
//! The register remembers which server it stands on (system identifier) and which timeline that server writes;
//! each sidecar remembers, in its memory, how many transactions it and the others had committed.
//!
//! | what happened | what sidecars do | what to do |
//! |---|---|---|
//! | the server restarted, the network was away | go on | nothing |
//! | fail-over, and every sidecar that was not dead finds all that it remembers | ten seconds of time for objections, then a new epoch begins by itself; "lost nothing" in the log and in `history` | holders acquire anew, with tokens of the new epoch: the old server may live on, and its tokens are stale |
//! | fail-over that lost commits; a restore to an earlier moment; a snapshot of the disk put back | nothing is admitted, durably, for all: `503 store-unavailable`, `/readyz` red, with what is missing | below |
//! | fail-over while a sidecar had just died, of whatever tenant, or while none was running | the same: what the dead had committed last nobody knows | `doctor` names it; below |
//! | another fail-over before admission goes on, which lost what was recorded meanwhile | the same: evidence and cancels are recorded all the time, and counted aside. What is found missing is added to what was found before | below |
//! | the database is on another server (a copy, `pg_restore`, `pg_upgrade`), also behind a pooler and under running sidecars | the same | below |
//! | the database is a replica | nothing is admitted while it is one | – |
//!
//! A sidecar notices with its next request, and one that is asked nothing within about five seconds, also
//! behind a pooler that hides the change; it reads every three seconds how far the others have come, so that
//! commits of one that is gone since are missed by those that are not. Until the register is known whole nobody
//! is declared dead, and whoever stops is still one who was to confirm: the rest leaves it to you.
//!
//! `/readyz` says in `register` how it stands, and `/metrics` in `fencepost_store_standing{standing="…"}`, which is
//! 1 of one of them: `whole`, `in-doubt` (it may have lost commits, or that is being found out), `quiet` (accepted,
//! and waiting), `moved`, `outgrown` (a newer version took it over). `fencepost_store_epochs_begun_total` counts the epochs that a sidecar began by itself:
//! alert on it, since holders of tokens must acquire anew.
//!
//! A sidecar whose death was declared *before* the fail-over need not be asked: the declaration was committed
//! after all that it had done. Synchronous replication (`synchronous_standby_names`) is what makes a fail-over
//! lose nothing; everything here only finds out whether it did.
//!
//! To go on:
//!
//! 1. `fencepost doctor --register URL --config fencepost.yaml` says what is not as it was when the register was
//!    known whole, when its newest operation was admitted, and what was done to it before. Make sure that no
//!    other copy of the database is in use. Compare what was sent since that operation, and what the log and
//!    `/readyz` of each sidecar say is missing, with the provider's books.
//! 2. `fencepost store accept-restored --register URL --config fencepost.yaml`, by the role that owns the
//!    tables. It begins an epoch above all that anybody remembers. Each sidecar then counts, on its own clock,
//!    as long as the longest request can be under way, and the database counts too; after that all of them
//!    admit. Until then `doctor` says how long that is at least, and there is nothing to accept.
//!
//! What was sent in the lost span is unknown to the register. Where the upstream deduplicates by key it still
//! does, for one lifetime of the key; where it cannot (`opaque`), *the promise is void for the lost span.*
//!
//! What is not noticed: an earlier state of the disk under the same timeline, put back while no sidecar was
//! running; what a sidecar committed in its last three seconds, if such a state was put back just then and it
//! never comes again; and commits of the last seconds of a sidecar that was not yet known where the new timeline begins,
//! if it does not come back within those ten seconds: it closes the register when it does. Nor is what an operator's
//! tool wrote straight into the database (`--register URL`): no sidecar remembers that.
