//! Rolling out: watch first, then check, then require.
//!
//! # Watch: `mode: observe`
//!
//! For the whole file, for one upstream, or for one effect; the nearest wins. An effect of mode
//! `observe` is forwarded, always:
//!
//! - its upstream sees what it would see without Fencepost: the caller's own fields, the caller's own
//!   key, its content byte by byte as it comes. Only what belongs to one connection, `Host`, and
//!   `Fencing-*`, `Fencepost-*` and the fence's own fields are not passed on. No key is attached;
//! - its caller gets what the upstream says. Nothing is replayed, joined, held back or refused, also not
//!   for how a path is spelt or for `unlisted: deny`;
//! - it does not wait for the register, and does not notice when that is poisoned, full or gone.
//!
//! Beside its way it is judged by the very rules that would be enforced, and counted. **Nothing of that is
//! written to the register**: no token that was only watched raises a mark, and no operation that was only
//! watched is ever "done already". So the other way round: what was forwarded in the minute before
//! `enforce` is new to it, and a repeat of it is sent, under a key that Fencepost derives unless `key: {
//! value: caller }` is in force. Switch when callers are not in the middle of retries.
//!
//! It is judged by what was seen since the start (65 536 operations and resources at most) and by what the
//! register holds of effects that are, or were, enforced. What would wait for an older operation is
//! judged as if that were settled then. What cannot be judged is counted with the reason: `no-room` (64
//! MiB of content are listened to at once), `too-many-at-once` (4 096 requests), `cut-off` (its content
//! broke off).
//!
//! Where an effect is observed and another one of the same resource is enforced, the fence cannot order
//! the two: `check` warns of it. What is enforced keeps its promises against everything else.
//!
//! # Then tokens: `token: { mode: observe | prefer | require }`
//!
//! Under `mode: enforce` identity, intent, replay and settling hold; the token's mode says what tokens do.
//!
//! | mode | no token | a stale one | a newer one |
//! |---|---|---|---|
//! | `observe` | let in, counted as `let-pass` | let in, counted as `let-pass`, in its place among the generations | raises the mark |
//! | `prefer` | let in, counted as `without-token` | `412 stale-fencing-token` | raises the mark |
//! | `require` | `428 fencing-token-required` | `412 stale-fencing-token` | raises the mark |
//!
//! All three judge the token and keep the mark, which never goes down: going back a step is a change of
//! the config, and a token that was stale stays so. Observed tokens do raise it, on purpose: they were
//! checked like any other (a token that cannot be placed does not), and whoever presents a newer one has
//! taken over. An operation that is let in although its token is stale or missing is on the wire like any
//! other: while it is unsettled, newer ones of its resource wait for it, as the contract says.
//!
//! What is not refused is what a token would be refused for. Under a resource that an operator cancelled
//! nothing goes out in all three modes: a cancel is a person's word, not a verdict on a token, and whoever
//! types it needs to know that nothing goes out any more. By what name it is refused depends on the token,
//! which is judged first: a cancel closes the mark, so who held it, or less, is told `412 stale-fencing-token`,
//! and a token that cannot be placed is `412 fencing-token-unknown`, as ever. Who comes with a newer token of
//! another source, without one, or where tokens are observed, and whoever wants the lease of the resource, is
//! told `410 resource-cancelled`; of the register's own tokens no newer one is handed out, so that effects
//! under them get the 412. On behalf of a worker it is `412 lease-lost`. (Under the effect's own
//! `mode: observe` nothing is enforced, a cancel neither.)
//!
//! # And the rest: `unlisted: observe | protect | deny | pass`
//!
//! Unsafe requests that no effect matches: forwarded and counted, an effect named by the caller's key,
//! refused (`421 no-route`), or forwarded. The report's rows `unlisted` say how many there are.
//!
//! # The report
//!
//! ```sh
//! fencepost report --config fencepost.yaml        # from the running instance: GET /v1/report
//! fencepost report --register /var/lib/fencepost  # from the register of a stopped one
//! fencepost report --json …
//! ```
//!
//! Per upstream, effect and treatment (`enforced`, `observed`, `unlisted`): how many requests, and of
//! them how many were, or would have been
//!
//! | found | of | means |
//! |---|---|---|
//! | `replayed` | | repeats of what is done |
//! | `joined` | | repeats of what is under way or in doubt |
//! | `waited` | | held back by an older operation of the resource (observed effects only) |
//! | `refused` | the problem | refused, for this reason |
//! | `let-pass` | the problem | refused, were tokens not observed |
//! | `without-token` | | let in by `prefer`, refused by `require` |
//! | `lacking` | the member | without a member that identity or meaning is made of |
//! | `without-identity` | | named by nobody: a caller's repeat is another operation |
//! | `in-doubt` | | without an answer that says how it ended |
//! | `not-judged` | why | see above |
//!
//! each with its first and last time, and the last such request: its method and the first 32 digits of the
//! SHA-256 of its operation's id (`printf %s ID | sha256sum`); never a path, a key, content or a
//! credential. It is kept in `report.json` beside the register, every five seconds and at a stop, and
//! outlives restarts and changes of config; it costs no commit, and a crash loses seconds of it. To begin
//! another one, stop the instance and remove the file. A backup does not hold it.
//!
//! Since the start of the process, for alarms: `fencepost_observed_total{route,finding}` (with the finding
//! `request` for all of them), `fencepost_would_refuse_total{route,reason}`,
//! `fencepost_unprotected_effects_total`, `fencepost_operations_without_identity_total`.
//!
//! # In this order
//!
//! 1. `mode: observe`. When nothing is `lacking`, nothing is refused `idempotency-key-reused`, and what
//!    would be replayed are indeed repeats:
//! 2. `mode: enforce` with `token: { mode: observe }`: repeats are safe from here on. When every service
//!    sends its token and what is let pass for a stale one are indeed old owners:
//! 3. `token: { mode: prefer }`: old owners are refused. When `without-token` stands still:
//! 4. `token: { mode: require }`. Then `unlisted: deny`, once the rows `unlisted` stand still.
