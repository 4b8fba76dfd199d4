//! Operations and resources in an operator's hands, and in the hands of whoever asks instead of waiting.
//!
//! # At 3 a.m.
//!
//! `fencepost doctor` says whether effects are admitted, how many operations wait for a person, and how long the
//! keys of what is unsettled are still remembered. Then:
//!
//! | to know | type |
//! |---|---|
//! | what waits for a person | `fencepost operations list --state needs-attention` |
//! | what happened to one, and what can still be done until when | `fencepost operations why UPSTREAM ID` |
//! | who blocks whom, why, and what to type next | `fencepost resources explain NAME` |
//!
//! | to do | type |
//! |---|---|
//! | say how one ended, having looked at the upstream | `fencepost operations resolve UPSTREAM ID --verdict applied\|not-applied --reason WHY` |
//! | the same of many | `fencepost operations resolve-all --upstream ID --verdict … --reason WHY`: it shows them, and what to type then |
//! | have the settle steps taken now; what waits for a person is asked after again, and not sent | `fencepost operations settle UPSTREAM ID` |
//! | have the stored bytes sent once more | `… settle UPSTREAM ID --send --reason WHY` |
//! | cut off whoever holds a resource | `fencepost resources advance NAME --reason WHY` |
//! | let nothing out for it any more; and again | `fencepost resources cancel\|reopen NAME --reason WHY` |
//! | let a token in that was refused as `fencing-token-unknown` | `fencepost resources accept NAME TOKEN --reason WHY` |
//! | begin again at the genuine token, after a wild one | `fencepost resources repair NAME --to TOKEN --reason WHY` |
//! | cut off every token there is, on every resource | `fencepost epoch advance --reason WHY` |
//!
//! Each speaks to a running instance (`--admin URL`, or `--config FILE`), or straight to a register: an embedded
//! one that no instance is running on (`--register DIR`), or a database beside its sidecars (`--register
//! '${env:DATABASE_URL}' --config FILE`, which has its keys). What changes something needs a named operator (`admin`,
//! `operators`), whose token is in `FENCEPOST_TOKEN` or, where there is one operator only, is found in `--config FILE`.
//! Only an instance sends, so `settle` needs one. `--json` prints what the API said. Exit codes: 0
//! done, 1 refused, 2 mistyped, 3 nobody there.
//!
//! There is no "unlock". What may have been sent is let go by a verdict only, and no verdict comes without a
//! reason and a name; both stand in the operation's own log. A verdict is refused on a COMPLETED operation, and
//! while an attempt of a living instance is under way. One of many falls on what its author saw: the preview
//! prints a `--selection`, and if other operations match by then, or the same ones have moved on, nothing is
//! resolved. `NOT_APPLIED` keeps the operation's key, so that the upstream still catches a wrong one, as long as
//! it remembers the key.
//!
//! `settle` of what waits for a person has the upstream asked again, where it has a step that asks: each question has
//! its time and its samples anew, and the lag counts from when everything became quiet. Nothing is sent, and nothing
//! undone; callers who repeat the request wait meanwhile. Where nothing is found it waits for a person again. Who had
//! it asked, and why, stands in its log.
//!
//! `settle --send` sends again what would not be sent by itself: what a cancel or an advance cut off, what has used
//! up its resends, what no fence orders. It makes one attempt, under the same key. Nobody can have sent again what
//! could be another effect, or undo a newer one: beyond four fifths of the key's lifetime, after a newer operation
//! that must be ordered with it, where the upstream does not deduplicate, or where the bytes are not kept.
//!
//! `advance` and `cancel` answer with what was admitted before and is not settled, and until when it may still act.
//! The last four things that operators did to a resource stand with it (`resources show`).
//!
//! # Tokens in an operator's hands
//!
//! Nothing here lowers a mark, or lets anything be sent again. `resources explain` says which of these is the next one
//! to type, and so do the refusals.
//!
//! - **advance** closes the mark: whoever holds it is cut off. Where the tokens are the register's own, the lease is
//!   gone with it: its holder's next renewal is `412 lease-lost`, whoever waits has it at once, under a token above
//!   all that were ever handed out; a worker on whose behalf it was held has it again only once it is restarted or
//!   acknowledged. A foreign source's next token is simply above it.
//! - **accept** lets in one token that could not be placed: a jump of more than `max_step`, or one above everything
//!   that was issued, which counts as issued from then on. The mark is exactly that token then, and open. Where the
//!   tokens are the register's own and a lease is held, it ends: its holder is told at his next renewal only. It is refused
//!   where that would lower something, on a cancelled resource, for a token of another epoch, and for one of another
//!   source within the epoch: tokens of two who count cannot be compared.
//! - **repair** is for a resource that a wild token raised, so that its genuine holder is stale. It begins a new
//!   *incarnation* at the highest genuine token: for leases of the register itself the highest that it issued (leave
//!   `--to` out), else the one that you state; ask the source. The mark is open, so that the holder of that token goes on
//!   under it; unless it had been closed before the wild one came, by a cancel, an advance or its holder's release:
//!   then the next one is let in. It goes below no operation that was applied in the present incarnation, unless you
//!   answer for it by name (`--disown ID`, once for each): the refusal names them, and what is disowned has it in its
//!   log. What is unsettled of before is older than all that follows, and settles first. The embedded register looks
//!   through all its operations for that: with millions of them it takes seconds, during which nothing is admitted.
//! - **epoch advance** starts a new epoch, of all tenants of the register: from its answer on every token of an earlier
//!   one is stale on every resource, seen before or not, by every sidecar that shares the register, also one that has
//!   not heard of it. A bare number is of epoch 0 for ever. Leases are lost, and acquired again as `1:1`, one
//!   held on behalf of a worker only after that is restarted or acknowledged; a foreign source stamps the epoch from
//!   then on (`1:109`). What was admitted before may still leave until its `dispatch-by`.
//!   It is for a token source that was restored and counts from below, for another source, and for credentials that
//!   leaked. On PostgreSQL it takes the role that made the tables. It stands in the history, with your name and reason
//!   (`doctor`).
//!
//! # The API
//!
//! Below `/v1` on the `admin` listener. Who changes something, or reads stored bodies, is an operator with a token of
//! his own; where none is named, nobody can. Once operators are named, reading needs a token too.
//!
//! | call | what |
//! |---|---|
//! | `GET /operations?state=&resource=&upstream=&limit=&after=` | newest first, in pages |
//! | `GET /operations/{upstream}/{id}` | one, with its event log. `?bodies=true` adds what is stored of request and answer, and a line to its log that says who read it |
//! | `GET /operations/{upstream}/{id}/why` | `story` (what happened, oldest first) and `moves` (what can be done, until when, and what to type) |
//! | `POST /operations/{upstream}/{id}/resolve` | `{"verdict":"applied"\|"not_applied","reason","status"?,"body"?,"new_key"?,"admitted"?}`. With `admitted`, the verdict is on what was admitted so often and nothing later: `409 moved-on` |
//! | `POST /operations/resolve` | `{"filter":{"state"?,"upstream"?,"resource"?,"older_than"?},"verdict","reason","status"?,"dry_run"?,"selection"?}`: at most 500 at once, `more` says whether there are more. With the `selection` of a preview: those, or none, `409 selection-changed` |
//! | `POST /operations/{upstream}/{id}/settle` | `{"send"?,"reason"?}` |
//! | `GET /resources`, `GET /resources/{name}`, `GET /resources/{name}/explain` | |
//! | `POST /resources/{name}/advance`, `/cancel`, `/reopen` | `{"reason"}` |
//! | `GET /leases`, `GET /leases/{resource}` | those that are held, by resource (manual, "leases") |
//! | `POST /resources/{name}/accept` | `{"token","source"?,"reason"}`; `409 token-not-accepted` says why not |
//! | `POST /resources/{name}/repair` | `{"to"?,"disown"?,"reason"}`; `409 not-repaired` says why not, with the operations in the way under `candidates` |
//! | `POST /epoch/advance` | `{"reason"}`; answers `{"epoch"}`, which is in force then |
//! | `GET /status`, `GET /report`, `GET /config` | |
//!
//! # What to watch
//!
//! `config/prometheus/alerts.yaml` holds rules for Prometheus: operations that wait for a person, contradictions, keys whose
//! lifetime runs out, what is unsettled for long. `/readyz` tells the same numbers under `unsettled`, and none of them
//! makes an instance unready. A scrape costs the same however much is unsettled: a register in PostgreSQL counts
//! its 5000 oldest. `fencepost_key_lifetime_left_seconds` is the least of all that is unsettled: where that is more than
//! 256 operations, each instance walks over them, for at most a tenth of the time (with 100 000 about once in half a
//! minute), so that the number may be a walk old.
//!
//! # Asking instead of waiting
//!
//! With `worker: { address: 127.0.0.1:15010 }` a caller on this machine asks how his operation stands, `GET
//! /v1/operations/{upstream}/{id}`, and the `Location` of whatever is not settled is that address. It only reads,
//! and shows no content.
//!
//! `Prefer: respond-async` (RFC 7240) is answered `202` with that `Location` and `Preference-Applied:
//! respond-async`, once the operation is in the register; it goes on by itself. `wait=10` waits up to ten seconds
//! first. What is decided sooner (an outcome, a refusal) is answered as usual, and a repeat joins as usual, and gets
//! the outcome once there is one. Without a `worker` listener there would be nowhere to ask, and without a name (a
//! request that lacks its key) nobody could come back for the outcome: whoever sends so, or from another machine,
//! waits. What is honoured is not passed on.
//!
//! "Not known yet" is one answer whatever went wrong: `504 outcome-uncertain` (or the effect's `uncertain_status`)
//! with `Location` and `Retry-After`, or the upstream's own ambiguous answer marked `Fencepost-State: uncertain`.
//! It is no failure: do not take it for "declined", and do not begin anew under another key. The same request under
//! the same key joins, however blindly a middleware repeats it, and sends nothing.
//!
//! # Errors in a vendor's own shape
//!
//! An SDK understands its vendor's errors only. `errors` of an upstream, or of its profile, shapes what the proxy
//! itself has to say: status, fields, and JSON with texts filled in. What the upstream says is never shaped, and
//! `Fencepost-Operation`, `Location` and `Retry-After` stay. `stripe-v1` brings shapes:
//!
//! | problem | Stripe SDKs raise | they repeat |
//! |---|---|---|
//! | `idempotency-key-reused`, `meaning-not-comparable`, `near-duplicate` | `IdempotencyError`, with 400 | no |
//! | whatever else is never let out, like `stale-fencing-token` | `InvalidRequestError`, with 400 | no |
//! | `credential-required` | `PermissionError` | no |
//! | `needs-attention`, and waiting behind one | `APIError` | no |
//! | `outcome-uncertain`, `operation-in-flight`, `draining`, and whatever else a repeat can help | `APIError`, with the problem's own status | yes, under the same key: it joins |
//!
//! `error.code` is the problem's name, so that an application can tell them apart.
