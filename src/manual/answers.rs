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
