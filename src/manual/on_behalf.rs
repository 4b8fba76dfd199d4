//! Leases on behalf of a worker that was not changed.
//!
//! A worker that was written before there were tokens sends none. Its sidecar can hold the lease for it (`leases` in
//! the config, `config/on-behalf.yaml` to start from): it acquires the lease of a resource once the worker is seen to
//! live, renews it for as long as it is, and puts token and acquisition on every request for that resource that carries
//! no token. A request that carries its own is judged as it is.
//!
//! | how it stands | a request without a token gets |
//! |---|---|
//! | owned | the token; then everything is as if the worker had sent it |
//! | not yet: the worker was not seen, another has the lease, the register does not answer | `409 lease-held` |
//! | lost, for this process of the worker | `412 lease-lost`; the connection is closed |
//! | owned, over a connection that was opened before | `412 lease-lost`; the connection is closed |
//!
//! That is so under `mode: prefer` too: what is not owned is never taken for a request without a token. (Under
//! `mode: observe` it is: there nothing is refused.) It is looked at again right before the request is admitted, and
//! nothing of it is sent after the end of the lease. What is sent again later, to settle it, follows the rules that it
//! was admitted by.
//!
//! # When it is lost
//!
//! A lease lasts for `ttl` from the *beginning* of its last renewal, on a clock that counts suspend. It is renewed at a
//! third of that, and only if a probe that began after the last renewal found the worker alive. So a worker that is
//! stuck, or stopped, loses it; and so does a sidecar that stood still, a machine that slept, a register that was out of
//! reach for that long. Until then failures change nothing: they are tried again. When its time is over, or its source
//! says that another has it, it is lost for this *process* of the worker, for good.
//!
//! Why for good? The worker that froze may have read, decided and half prepared a request under the old lease. Were its
//! sidecar to take the lease again, that request would go out under a fresh token, over the top of whatever happened
//! meanwhile. That its probe answers again proves nothing: a frozen process that thaws answers it too. So nothing is
//! even acquired before the worker was visibly replaced:
//!
//! | `alive` | alive is | another start shows by |
//! |---|---|---|
//! | `http: URL` | an answer of 200 to 299 in time | `identity: { header: X }` or `{ json: /pointer }` of that answer; without it by nothing |
//! | `process: { pid_file: PATH }`, `{ command: NAME }` | the process is there, and neither stopped nor dead | its number, its start and the boot, once the one before is gone, and if it started after that was last seen: a child that outlives it is no new worker. One that starts within a hundredth of a second after that sight is not told from such a child, and has to be acknowledged. Sidecar and worker share their processes (one machine; `shareProcessNamespace: true`). It says nothing of a worker that is there and does nothing: probe by HTTP for that |
//! | `file: PATH` | the file is there and not empty | its content: in Kubernetes a field of the downward API that changes with every start |
//!
//! What a start is known by must be its own: one that ever owned proves nothing when it is seen again, so two replicas
//! behind one probe, or a value that is the same after a restart, get nothing back. Or the worker says itself that what it
//! does from now on is new, in its start-up or by hand: `POST /v1/leases/{resource}/acknowledge` on the `worker`
//! listener. It counts once. While the lease is owned it is given back and acquired anew, under another token.
//!
//! A worker that is replaced while the lease is owned gets another token: the lease is given back and acquired anew. Who
//! should start it again when its lease is lost is whoever watches it; a request that is refused with `412 lease-lost`
//! is a good reason for the worker to end itself, and `on_loss: exit` ends the sidecar (code 4), for those who start
//! both together.
//!
//! # Connections
//!
//! Whoever is not on this machine gets no token of the worker's: effects on what is held are behind a `listen` on the
//! loopback (`check` refuses any other), and a request from elsewhere is `412 lease-lost`.
//!
//! A connection carries only the acquisition that was in force when it was accepted; a pooled one could bring what was
//! begun before. Idle ones are closed a moment after an acquisition begins or ends, so that pools open new ones. A request
//! that waits in the listener's queue while that happens is on the older side.
//!
//! # Pinning
//!
//! A connection says that what comes over it was not begun before its acquisition; it cannot say so of a worker that
//! opens a new one for old work. Where work comes in by HTTP, the sidecar can know when. `inbound` is a listener before
//! the worker: whoever asks it for work asks there, and everything goes on to it as it came (only fields of one connection
//! stay, also `TE` and `Trailer`: gRPC does not go this way; an `Upgrade` is not carried on), however long the worker takes to answer. The id of the work, the trace id of
//! its `traceparent` or a header of your choice, is noted before it is forwarded, together with the acquisition and
//! token of each lease at that moment. A worker that is instrumented carries a trace on by itself; the span may change.
//! What it then sends without a token, over a connection that may say so, is judged by that moment:
//!
//! | its work came in | a request with that id gets |
//! |---|---|
//! | under the acquisition that is in force | its token |
//! | under an earlier one | the token of *then*: `412 stale-fencing-token`, or the stored answer where it was done already. It never leaves, but where the effect's token is only observed |
//! | under one that is over, and nothing is owned now | `412 lease-lost` |
//! | when nothing was owned | `412 lease-lost`, also once something is, as long as this sidecar runs |
//! | nobody knows: no id, never seen, forgotten | as without pinning; with `pin.strict: true` `412 lease-lost` |
//!
//! An id that comes in again keeps its first moment: it is the same work, which may have been begun. So whoever has work
//! done again *on purpose*, after the worker was replaced or before it owned anything, asks under a new id; a retry
//! within one trace is refused with the first. Only where no byte of it reached the worker (`502 upstream-unreachable`)
//! has it not come in, and the retry is new. A worker that breaks off is `502 outcome-uncertain`: it may have begun.
//! A request that carries several known ids is of the oldest moment. Of one that comes in with several, each is noted;
//! with none, nothing. `pin.required: true` turns both away with `400 identity-missing`.
//!
//! Ids are in memory, for `keep` at least (10 minutes; from the last time on that they came in) and twice that at most.
//! So `keep` is to be longer than the worker is ever busy with one piece of work. There is room for `at_most` ids
//! (400000; some 40 MB once they are there); to forget one early would be to take its work for new, so while there is no
//! room, work with an id that is not known is turned away with `503 overloaded`, and the log says so once. A sidecar
//! that was restarted has seen nothing. What was forgotten is what nobody knows: only `strict` refuses it, and with it
//! whatever the worker does of its own accord. An id is what the worker says: it orders the honest one, and binds no
//! other.
//!
//! To set it up: give the worker's address to the sidecar (`inbound`, `url`) and the sidecar's to whoever asked the
//! worker (in Kubernetes the `targetPort` of its Service; let the worker itself listen on the loopback). Ask once with
//! a `traceparent` and look whether what the worker sends carries the same trace id: its client has to be instrumented
//! too. Where it does not, take a header that it does pass on. Then `pin.strict: true` shows what escapes.
//!
//! # When the sidecar restarts
//!
//! The last ownership is in a small file in `state`, written before anything is claimed: `lease-DIGEST.json`, by the
//! resource. A sidecar that was killed goes on with it, under the same token, if its time is not over and the worker is the same. Else it
//! needs proof as above. A stop in order gives the lease back, last of all: an upgrade of the sidecar alone leaves the
//! worker without it until that is restarted too, or acknowledges; the log says so (WARN, `this process of the worker
//! owned the lease before`). Keep `state` where a restart finds it (an `emptyDir`
//! does for a container), one directory for each sidecar: a copy of it resumes nothing, and two processes on one are
//! refused. Without the file it is as if nobody ever owned: whoever deletes it vouches that the worker is a new one.
//! A file that cannot be read claims nothing, until it is acknowledged.
//! So does one of another kind of probe, header, pointer or file. On tmpfs or overlayfs a start is refused, unless the
//! register is `ephemeral` too.
//!
//! # What it is not
//!
//! The sidecar cannot know what a worker read before it began: a replica that waits for its turn has to read what it
//! works on after it got it. And a worker that answers its probe, and holds on to a decision for longer than its lease
//! lasts *while it is renewed*, is the owner all the while: that is what a lease is.
