//! The embedded register: where to put it, what it keeps, and what happens in each fault.
//!
//! It is one directory, owned by one process. `register.db` (with `-wal` and `-shm` beside it while in
//! use) is an SQLite database that you may look into with `sqlite3 -readonly`, and never without that (see
//! "Looking into it"); `key` seals the stored
//! requests and answers in it; `lock` tells who owns it; `witness` remembers how far it has come;
//! `reserve` is room on the disk for the day that it is full. **It fences only the callers of its one
//! process.** Many processes share one in PostgreSQL: [`shared_register`](super::shared_register).
//!
//! The rule behind everything below: *if the register cannot make something durable, nothing is sent.*
//!
//! # Where to put it
//!
//! | file system | |
//! |---|---|
//! | ext4, XFS, Btrfs, ZFS, F2FS, … on a disk of this machine | fine |
//! | NFS, SMB, 9P, Ceph, AFS, GFS2, OCFS2, Lustre, GPFS, …, a folder of a hypervisor's host | refused: locks and fsync mean there what server and mount options make of them |
//! | tmpfs, ramfs, overlay (a container's own layer) | refused, unless `ephemeral: true` says that it may be lost; then repeats of what it knew are sent again |
//! | FUSE (virtiofs and SSHFS look alike), anything unknown | a warning: it is on you that it is local and that its fsync reaches a disk |
//!
//! Every start writes, syncs and renames a file there before anything else, and refuses if that fails.
//!
//! # What happens in each fault
//!
//! | fault | what callers see | what you see | what to do |
//! |---|---|---|---|
//! | the process is killed, the power fails | a broken connection; a repeat gets what the record holds | at the next start, what was in flight is UNCERTAIN and is settled | nothing |
//! | a commit or fsync fails, a page cannot be read or written | `503 store-unavailable`, repeats of what is known included. The request whose intent that very commit held: `504 outcome-uncertain`. One that was sent, whose outcome cannot be recorded any more: the upstream's answer, marked `Fencepost-State: uncertain` | `/readyz` 503, "poisoned" there and in the log: this process writes nothing more, because what a later fsync says after a failed one cannot be trusted, also once the disk works again | check the disk, restart. The operation of that commit may reappear as INTENDED; it is UNCERTAIN then although nothing was sent |
//! | the disk is full | `503 store-unavailable` for whatever would be sent; stored outcomes are still given | `/readyz` 503, "the disk is full". The reserve was given back to the file system, so that outcomes of what was sent before are still recorded. If even that is used up, answers go out marked uncertain and are recorded when there is room. A start is refused: "No space left on device" | make room; within about a second admission goes on by itself, and `/readyz` says so a second later |
//! | the volume is read-only, or away | the start is refused; while running as a failed commit | the path in the message, "Read-only file system" | mount it, start |
//! | a second process is started on it | none | that one ends: "in use by another process"; also while the first is frozen or poisoned | – |
//! | one record is damaged | `503 store-unavailable` for that operation alone | its id in the log. It cannot be resolved either | restore a backup |
//! | a page of the database is torn or decayed | each page carries a checksum, compared at every read from the file. Met at the start, and up to 32 MiB it is read whole then: the start is refused. Met at work: `503 store-unavailable` from then on for whatever would be sent, because nobody knows what else is lost | "is damaged", "its checksum does not match"; "is not a register" if not even its head is right; at work `/readyz` 503 and "the register is damaged, and poisoned by it" | restore a backup, on a disk that you trust. `store backup` reads all of every copy, of whatever size: make them. A page that nobody reads harms nobody |
//! | the disk lost a write: a page is whole, and old | checksums cannot see it. Up to 32 MiB the start is refused if the page contradicts others, which an index that lost an entry does. In a larger register it goes unnoticed until a backup is made, or for good: what it has forgotten would be sent again | as above; `store backup` says what contradicts what | a disk that keeps what fsync promised. Restore a backup |
//! | another program wrote to the file | as for a torn page: what it wrote carries no checksums | as for a torn page | see "Looking into it" |
//! | the log beside it (`-wal`) is damaged | the start is refused if its witness saw commits that are lost with it, which it does within about a second | "may have been restored or copied" | as for a restored register, below |
//! | the witness cannot be written | none | "the register's witness cannot be written": until it can, a restored register may go unnoticed | make its place writable |
//! | it was written by a newer version | the start is refused | "has format N" | run that version; nothing was changed |
//! | it was written by an older version | – | "was brought from format 3 to format 4" | nothing. There is no way back: keep a backup from before an upgrade. All of it is read, and written anew beside it (`register.db.new`) with checksums: with millions of operations it takes minutes; interrupted, nothing was changed, and the next start begins again |
//! | … and cannot be brought up to date | the start is refused: no room on the disk (as much again as the register takes, while it lasts; a quarter more for formats 1 and 2), somebody has the file open, it is damaged, or an identity stands twice in it | "cannot be brought up to date", "in use" or "is damaged", and why | make room, close the other program; else restore a backup. Nothing was changed |
//! | the key file is gone | the start is refused | which file | put it back. Without it the stored requests and answers are lost; nothing can bring them back |
//! | a copy or an older state of it is started | the start is refused | "may have been restored or copied", with how far the register and its witness had come | see below |
//! | the wall clock is set, the machine sleeps | none: deadlines count on a clock that goes on during sleep and cannot be set. A key towards an upstream counts as old as the oldest clock says | after a large step forward, lost answers that wait for a person rather than being sent again | set the clock right |
//!
//! While an instance runs, reading goes on in all of these for as long as the file can be read:
//! `fencepost operations list` shows what is known. With `--register DIR` it does so too where the start is
//! refused for damage or as restored, but not on a volume that cannot be written.
//!
//! The faults of the disk and the damage were tried on the program as it ships (`tests/it/faults`).
//!
//! What checksums do not see: a lost write (above), a whole page that was written to the wrong place, and
//! damage to the log between the commit that wrote it and the checkpoint that moves it into the file, some
//! seconds under load, while it is mostly read from memory. A log that is found at a start has checksums of
//! its own, and ends where one does not match; its witness notices what is lost by that.
//!
//! # Looking into it
//!
//! `sqlite3 -readonly register.db` may look at any time. Without `-readonly`, `sqlite3` moves what it finds
//! in the log into the file when it ends, if nobody else has it open: nothing after an orderly stop, and all of
//! the log after a crash. It writes no checksums, so that the next start is refused: "its checksum does
//! not match". The same goes for everything that you change with it. If you are sure that this is what
//! happened, and not the disk:
//!
//! ```sh
//! fencepost store mend --config fencepost.yaml
//! ```
//!
//! reads the stopped register through without checksums, holds every index against its table and every identity
//! against its place, writes it anew with checksums, and notes in `history` who did it. What contradicts
//! itself is refused. What was changed without contradiction stays, and counts as written: a page that the disk
//! tore may be such a one, so on a disk that failed restore a backup instead.
//!
//! # What it remembers
//!
//! ```yaml
//! register:
//!   remember: { answers: 7d, identities: 400d }
//! ```
//!
//! A stored request goes as soon as its operation is settled. An answer goes `answers` after that, never
//! before the upstream has forgotten the key: from then on a repeat is told `410 answer-expired`, with
//! when and how the operation ended. The identity goes after `identities`; *a repeat that comes after
//! that is a new operation and is sent.* Choose it longer than any repeat can be late. Unsettled
//! operations and fences are never forgotten. The newest operation of all stays, too.
//!
//! These times are counted on the register's own age, which grows exactly as long as the machine is up
//! (sleep included, whether or not Fencepost runs), and by at most a day for each time that it was off.
//! So a wall clock that is wrong by years makes nothing forgotten; a machine that is off for weeks
//! remembers longer than it says. Forgetting goes in small steps between other commits
//! (`fencepost_store_forgotten_total`); the file does not shrink, its free pages are used again.
//!
//! # How large it gets, and what that costs
//!
//! A settled operation takes about 650 bytes, answer included; `register.db-wal` grows to about 16 MiB
//! and is written over from its start. What an operation costs hardly depends on how many others of
//! its resource are under way. It does depend on how many are stored: identities are found by a
//! table of about 20 bytes an operation, in which every new one dirties a page somewhere, as it does
//! among the fences. **Give a register of millions of operations
//! a machine that keeps the file in memory; where the disk has to be read for each of them, it admits a
//! fraction of what an empty one does.** `cargo bench --features bench --bench register` measures it.
//!
//! # Keys
//!
//! Without `encryption` a key is made at the first start, beside the register, readable by its owner
//! only. That keeps customer content out of a database file that got away, and is obfuscation to
//! whoever reads the whole directory: for real protection keep keys elsewhere.
//!
//! ```yaml
//! register:
//!   encryption: { keys: ["${file:/etc/fencepost/key}"] }     # openssl rand -hex 32
//! ```
//!
//! The first key seals, all open. To change it: put the new one in front and restart; keep the old one
//! behind it until `answers` has passed and nothing is unsettled from before, then take it away and
//! restart. Taken away too early, the operations that it sealed answer `503` (they are not sent again);
//! putting it back heals that. A key file of before is read in addition, until you remove it.
//! Fingerprints do not change with the key: the register keeps the key for them, sealed.
//!
//! # Backup and restore
//!
//! ```sh
//! fencepost store backup --config fencepost.yaml --to /backup/register-$(date +%F).db
//! ```
//!
//! may run at any time, also while the instance is at work; `cp` may not. The copy is one file, checked
//! before it gets its name. The key is not in it.
//!
//! **A restored register has forgotten what was sent after the backup.** It does not know that; its
//! witness does. A register that is behind its witness, whose file is not the one it was kept in, or
//! whose witness is gone, is refused, with both numbers in the message; `fencepost doctor --register DIR` shows
//! them too. To use it:
//!
//! 1. Make sure that no other copy of it is in use.
//! 2. Stop the instance; put the copy in place as `register.db`, without the `-wal` and `-shm` files of
//!    before, with the key.
//! 3. `fencepost serve --config … --accept-restored`, once. It is written down in the register
//!    (`history`), with who did it.
//!
//! A new *epoch* begins then, above every one of before, so that all fencing tokens that are out there
//! are stale on every resource: owners must acquire anew, with tokens of that epoch (`1:109`); leases that the
//! register itself granted, those in the backup and those of the lost span, are lost. Nothing is
//! admitted until the longest dispatch and response timeout has passed, so that what the other copy
//! sent last has ended. And for identities that were used in the lost span:
//!
//! - where the upstream deduplicates by key, it still does: the key is made from the identity, not from
//!   anything in the register. This holds for one lifetime of the key after the lost span;
//! - where it cannot (`opaque`, `query`, `callback`), *the promise is void for what was sent in the lost span*:
//!   compare with the provider's books before you let callers repeat. The upstream is not asked first.
//!
//! The witness lies beside the register unless you say where (`embedded: { witness: /other/volume/w }`).
//! Beside it, it notices a database file that was put back or copied; a snapshot that rolls back the
//! whole volume takes the witness along, and only one on another volume notices that. Commits of about
//! the last second before a crash are not known to it.
//!
//! # Without an instance
//!
//! `fencepost operations list|show|resolve --register DIR` and `resources list|show --register DIR` work on
//! the register of a stopped instance, with its keys and tenant from `--config FILE` if need be. They
//! own it meanwhile, and are refused while an instance does. Looking changes nothing, also of a register
//! that is refused as restored.
