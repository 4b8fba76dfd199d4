//! Answers: what counts as one, what is kept of it, and what callers are told.
//!
//! # What counts
//!
//! An answer counts when it is complete beyond doubt: a status from 200 to 599, and content that came to
//! the end that its own framing announced. Interim answers (1xx) are read and passed over. These are no
//! answers, and leave the operation UNCERTAIN:
//!
//! - content that is cut short, by whatever, also between two chunks or within trailer fields;
//! - content that only the end of the connection ends (`accept_close_framed: true` where the API's
//!   documentation says that its answers are like that);
//! - two lengths that differ, a length beside `Transfer-Encoding`, a transfer coding other than `chunked`;
//! - a head that cannot be read or is larger than 256 KiB, `101`, a status beyond 599.
//!
//! Bytes that follow a complete answer are not part of it; the connection that brought them is closed. An
//! answer that comes before the request was all sent counts. Redirects are passed on and never followed.
//! Content codings are not undone: what is stored and replayed are the bytes that came. Trailer fields
//! are read and dropped.
//!
//! # When it is too large to keep
//!
//! An answer is kept up to `limits: { answer }` of its effect (1 MiB), and as long as there is room for it
//! among all buffered bodies (`limits: { buffered_bodies }`; the first 16 KiB of an answer need none).
//! The caller whose request brought a larger one gets it as it comes, with `Fencepost-Body: not-kept`.
//! Joiners and replays get its status and fields, the same mark, and no content.
//!
//! - Its last piece is held back until the record has committed: whoever saw all of it saw a recorded
//!   outcome. If the record does not commit within `record_timeout`, or the upstream breaks off, the
//!   answer ends incomplete (a chunk or bytes are missing and the connection is closed), never looking
//!   whole. The operation is UNCERTAIN then, and the same request again learns how it ended.
//! - `timeouts: { response }` runs to the end of the answer, its content included. An effect whose
//!   answers take long to read needs a longer one: after it the operation is UNCERTAIN, and although the
//!   answer is still passed on, the first settle step cuts it off.
//! - A caller that reads slowly may hold the answer up for half of the time that was left when it began; then
//!   it is cut off, and the answer is read to its end without it. A caller that hangs up stops nothing.
//! - A caller of HTTP/1.0 could not tell such an answer's end from a break. It gets the head alone.
//!
//! # What callers can rely on
//!
//! Once a byte of a request may have left, its caller gets a complete answer, whatever happens here: the
//! upstream's own, or `504 outcome-uncertain`. The exceptions are the two above, and a proxy that is
//! killed. A caller that hangs up before its request was decided has withdrawn it. When a stop comes to
//! its end, a request that only waited for its predecessor gets `503 draining`: nothing was sent for it.
//!
//! # What the proxy says itself
//!
//! Refusals and faults of the proxy are `application/problem+json` (RFC 9457), marked `Fencepost-Source: proxy`. `type`
//! is `urn:fencepost:problem:` and the name; `retry` says whether a repeat can help: `never`, `same-operation` (repeat
//! the same request under the same identity), `after-settlement` (not before something else is settled).
//!
//! | problem | status | retry | | meaning |
//! |---|---|---|---|---|
//! | `idempotency-key-required` | 400 | never |  | the effect needs a key, and there is none |
//! | `idempotency-key-malformed` | 400 | never |  | the key cannot be read, or is too long |
//! | `fencing-token-malformed` | 400 | never |  | the token, or the sequence beside it, cannot be read |
//! | `identity-missing` | 400 | never |  | something that the identity is made of is not in the request |
//! | `insertion-refused` | 400 | never |  | key or reference cannot be put where the config wants them (see [`insertion`](super::insertion)) |
//! | `stale-fencing-token` | 412 | never |  | somebody newer owns this work: stop |
//! | `token-held-by-another` | 412 | never |  | the token belongs to another acquisition |
//! | `generation-used` | 412 | never |  | this generation has done its one operation |
//! | `sequence-regressed` | 412 | never |  | a higher sequence was admitted already |
//! | `lease-not-current` | 412 | never |  | the effect needs a lease that is live, and known here to be |
//! | `lease-held` | 409 | same-operation | Retry-After | the sidecar holds the lease on behalf of its worker, and does not have it yet: another has it, or the worker was not seen yet |
//! | `lease-lost` | 412 | never |  | it had it for this worker, and lost it; or the connection is older than the acquisition, or the work came in when it was not owned (`inbound`). Restart the worker |
//! | `fencing-token-unknown` | 412 | after-settlement |  | the token cannot be placed: a later epoch, a jump, another source; the text says what an operator types if it is genuine |
//! | `fencing-token-required` | 428 | never |  | the effect needs a token, and there is none |
//! | `idempotency-key-reused` | 422 | never |  | this identity was used with another request; `differs` names what is different |
//! | `meaning-not-comparable` | 409 | never |  | this identity was used before the rule that compares requests changed |
//! | `credential-required` | 403 | never |  | the operation was asked for with a credential: send yours |
//! | `operation-in-flight` | 409 | same-operation | Retry-After | its attempt is under way |
//! | `predecessor-unsettled` | 409 | same-operation | Retry-After | an older operation of the resource is not settled yet |
//! | `predecessor-unsettled` | 409 | after-settlement |  | the older operation waits for a person |
//! | `needs-attention` | 409 | after-settlement |  | a person must say how it ended |
//! | `near-duplicate` | 409 | never |  | the same request is under way under another identity, which is named |
//! | `resource-cancelled` | 410 | never |  | the resource was cancelled (whoever held its token is told `stale-fencing-token`) |
//! | `answer-expired` | 410 | never |  | it ended, and only when and how is still known |
//! | `outcome-uncertain` | 504 | same-operation | Retry-After | nobody knows yet; settling goes on. Or the effect's `uncertain_status` |
//! | `upstream-unreachable` | 502 | same-operation |  | nothing was sent |
//! | `store-unavailable` | 503 | same-operation | Retry-After | nothing was sent: the register cannot commit |
//! | `draining` | 503 | same-operation | Retry-After | nothing was sent: this instance is stopping, or its config changed meanwhile |
//! | `overloaded` | 503 | same-operation | Retry-After | nothing was sent: too much is under way |
//! | `dispatch-expired` | 503 | same-operation | Retry-After | nothing was sent: it took too long until the first byte |
//! | `body-too-large` | 413 | never |  | the content is larger than may be buffered |
//! | `no-route` | 421 | never |  | no upstream is configured for this host and path, or they are not what they seem |
//! | `operation-voided` | 409 | never | | stored and replayed like an answer: nobody knew how it ended, and it was undone. A new operation needs a new identity |
