//! Leases: who owns what, for how long, and with which token.
//!
//! # What a lease is
//!
//! Time-limited ownership of a resource: an *acquisition id* (is it still mine?) and a *fencing token* (who is newer?).
//! The register keeps it with the fence of the resource, so that the same transaction that grants a lease cuts off
//! whoever owned it before: his token is stale before the new owner's first request. Correctness never depends on a
//! clock that two machines share, on a release that arrives, or on an owner who notices that he lost it.
//!
//! # For workers
//!
//! On the workers' listener (`worker: { address }`), below `/v1`:
//!
//! | call | body | answer |
//! |---|---|---|
//! | `POST /leases/{resource}/acquire` | `{"ttl":"30s","wait":"5s","holder":"worker-1"}` | `resource`, `acquisition`, `token`, `ttl_ms`, `expires_in_ms` |
//! | `POST /leases/{resource}/renew` | `{"acquisition":"…"}` | the same, its whole time again; `412 lease-lost` |
//! | `POST /leases/{resource}/release` | `{"acquisition":"…"}` | 204; `412 lease-lost` |
//! | `POST /leases/acquire` | `{"resources":[…],"ttl":…,"wait":…,"holder":…}` | all of them or none, taken in sorted order |
//! | `GET /leases/{resource}` | | who owns it, with which token, for how long at most |
//!
//! - `ttl` is from 1 s to 24 h: what others wait after a crash. Renew at a third of it. `wait` is at most 60 s.
//! - `expires_in_ms` counts from before the request reached the register: subtract what the answer took on its way, or
//!   count from before you asked. On a machine that sleeps, count on a clock that goes on meanwhile (CLOCK_BOOTTIME).
//! - A renewal that fails or comes late is loss of ownership. Send nothing more under the token; acquire anew, and begin
//!   the work anew. A lease that is over is not renewed, though nobody else wanted it.
//! - The acquisition id is its holder's secret: whoever has it can renew and release. Logs, lists and `resources show`
//!   have the first half of its SHA-256 (`acquisition_digest`).
//! - Tokens are text. They never repeat or go back, also across releases, restarts, cancels and restores.
//!
//! # Waiting
//!
//! Whoever waits stands in line, first come, first served; it costs the register nothing while he waits in the same
//! process, and each transfer two commits (the release, the next one's acquisition) however many wait. Whoever hangs up
//! leaves the line. What was granted to somebody who had hung up is given back at once; where the answer was lost on
//! its way, the lease ends by itself. With a shared register each sidecar has a line of its own, and its first one
//! looks twice a second: between sidecars there is no order.
//!
//! Who does not wait is told `409 lease-held` with `retry_after_ms`: half to all of what is left (10 s at most), chosen
//! at random, so that those who poll do not all come at once. `Retry-After` says the same in whole seconds.
//!
//! # Time
//!
//! A lease that another holds is timed by whoever wants it, on its own clock, from its own first sight of it as it is
//! (every renewal is another sight). So a restarted process, another sidecar and another boot give every lease its full
//! time again before anybody else may take it, steps of the wall clock change nothing, and a dead holder's lease is free
//! at the latest its `ttl` after somebody who waits saw it first.
//!
//! # Only while it is live
//!
//! The fence refuses whoever has lost his lease *to another*. With `require: current` an effect is refused as soon as
//! its lease is over, `412 lease-not-current`, though nobody else took it: it is admitted only by the process that
//! acquired or last renewed the lease, by that process's own deadline, while the register records that acquisition
//! still. So after a restart of the sidecar the worker renews first; and every worker sends through the instance that
//! it has its lease from. What was admitted leaves before the lease ends. An operation whose answer was lost is sent
//! again under the lease that it was admitted under, not under a later one, and needs a person once that is lost; unless
//! the next owner repeats it (the same operation id, his own token): then it is sent once more, under his lease, and he
//! gets the outcome. With an id that contains the generation no later owner can repeat it; such a route needs a look-up.
//!
//! # `fencepost lease run`
//!
//! `fencepost lease run --resource X --ttl 30s --wait 10s -- COMMAND` holds a lease while a command runs. The command has
//! `FENCEPOST_RESOURCE`, `FENCEPOST_FENCING_TOKEN` and `FENCEPOST_ACQUISITION` in its environment. Its process group is
//! told to end (SIGTERM) `--grace` (5 s, a third of the ttl at most) before the end of a lease that cannot be renewed,
//! and killed at its end. When a renewal is refused, the lease is another's already: it is killed at once. That shows at
//! the next renewal, a third of the ttl later at most. Its exit status is that of `lease run`. Whoever kills `lease run`
//! itself with SIGKILL leaves the command running: its token is refused once another owns the resource.
//!
//! # For operators
//!
//! `fencepost leases list` and `leases show RESOURCE` (`GET /v1/leases`, `GET /v1/leases/{resource}`; by an index, however
//! many resources there are); `resources show` and `explain` name the holder too. A lease whose holder is dead has its
//! whole time again at the first look of each instance. To end somebody's ownership:
//! `fencepost resources advance` (the next one may acquire at once, with a higher token) or `cancel` (nobody may).
//!
//! Metrics, none with a resource in it:
//!
//! | metric | what |
//! |---|---|
//! | `fencepost_lease_held{source}` | acquired or renewed through this instance, and live by its clock |
//! | `fencepost_lease_waiting` | who waits here now |
//! | `fencepost_lease_acquire_seconds` | from asking until granted, waiting included; of those that were granted |
//! | `fencepost_wait_seconds{for="lease"}` | of all that had to wait, granted or not |
//! | `fencepost_lease_renewal_failures_total` | renewals that did not succeed |
//! | `fencepost_ownership_transfers_total{after}` | granted where somebody owned it before, whose lease was given back or cut off (`release`), or whose time was over (`expiry`): the latter are crashes and stalls |
//! | `fencepost_stale_token_rejections_total` | requests of owners who lost what they owned |
//!
//! Log lines name `resource`, `acquisition` (its digest) and `token`: `a lease was granted` (with `expired`, the digest
//! of the one whose time was over), `a lease was given back`, `a lease is lost`; refusals of effects have the same
//! fields, and `operation`, but for those of leases held on behalf of a worker (`lease-lost`, `lease-held`), which have
//! `upstream` and `reason`. Lines that nobody reads in time are lost, and counted by `fencepost_log_lines_lost_total`:
//! no effect waits for a log.
