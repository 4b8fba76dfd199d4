//! Settling: how it is found out what became of an operation whose answer was lost, and what can be promised.
//!
//! # The promise
//!
//! At most one accepted effect per operation, given the upstream's declared capability; otherwise an explicit
//! `uncertain`, never a guess.
//!
//! | the upstream can | `capability` | a lost answer is settled by | promise |
//! |---|---|---|---|
//! | order by itself (a token it checks, If-Match, If-None-Match) | `conditional` | `compare`: looking at what is there now; `send_again`, with the same condition | no stale effect, no duplicate, even if the proxy freezes in mid-send. Judged per request: without its condition it is not conditional. A token that the upstream accepts when equal gives order only |
//! | deduplicate by key | `idempotent` | `send_again`, under the same key, within its lifetime; or `void`, by the key | at most one accepted effect, while a sent or frozen request cannot arrive later than the lifetime's last fifth |
//! | be asked | `query` | `look_up`: a question with three answers | at most one, if the lag exceeds how late a sent request can still arrive (frozen sidecar, slow network, the upstream's own queue) |
//! | call back | `callback` | `callback`: a signed webhook, or a later look-up | at most one, when the callback comes |
//! | none of these | `opaque` | a person | at most one *attempt*; connections are never reused across effects |
//!
//! # The order of steps
//!
//! `settle` is a list, of eight steps at most; a person comes after the last. Without it an `idempotent` upstream is
//! sent to again, up to five times, and for any other a person is asked. `fencepost explain` tells the steps of a
//! request, `fencepost operations why` those of an operation.
//!
//! The *first* step in the list that can still succeed is taken, and taken again after its pauses, until it has
//! had its time or its attempts. A step that cannot help is passed over: a resend beyond four fifths of the key's
//! lifetime, or of what was cancelled or overtaken by a newer operation; a question past its `within`. So put
//! first what is to be tried first. A look-up that stands behind a resend is asked when the resends are used up.
//!
//! The time of a question or a callback (`within`) runs from its turn: from when everything is quiet, or the step
//! before it is over; all of them together have the sum. It runs while the upstream is away too, and in another boot
//! it begins again, as far as the clocks cannot tell. What is sent under the key has its time from the newest attempt
//! on: a `void` or `send_again` whose time is over before its turn is refused by `check`.
//!
//! Late answers are read until the first step acts: it closes the connection, and from then on the answer is lost
//! for good. Where no step can help, the late answer is the only hope left, and is listened for, for ten minutes
//! at most; then a person is asked.
//!
//! An intent keeps its steps, with their lags and limits, when the config changes. What is asked (URL, conditions)
//! is the config's: it is found by the step's `name`. A question that the config no longer has is *not known*.
//! How far the steps have come is in the register, and survives a restart.
//!
//! | step | needs | does |
//! |---|---|---|
//! | `send_again` | `idempotent`, a key with a `lifetime` | sends the stored bytes again under the same key |
//! | `send_again` | `conditional`, a request with its condition | sends the stored bytes again with it, within an hour |
//! | `look_up` | `query` | asks; changes nothing at the upstream |
//! | `compare` | `conditional` | asks what is there now; for PUT |
//! | `void` | `idempotent` | has whatever was done under the key undone |
//! | `callback` | `callback`, and `callbacks` of the upstream | waits |
//!
//! # Questions
//!
//! `look_up` asks by GET or POST, at the endpoint and with the credential that the operation was sent with; nothing of
//! the effect goes along (no key, no condition, no signature, no content). A `credential` of the config's stands
//! in where that one is refused (401), or is not kept, and only where it sees the same account: where the upstream has a
//! `principal`, that must go along from the stored request, in another header. There are three answers:
//!
//! - **applied** settles at once, whenever it comes, also what was NOT_APPLIED or waits for a person. Callers get
//!   `outcome`, marked `Fencepost-Provenance: look-up`.
//! - **not applied** counts only
//!   - if it was asked `lag` after everything was quiet: every attempt closed, or its instance declared dead;
//!   - `samples` times (3), each asked a pause after the answer before it, without an attempt in between;
//!   - from all pages, where there are several.
//! - **not known** is everything else, and counts for neither. Its reason is in the operation's event log.
//!
//! Why a lag: a request that was sent may still be on its way, in a slow network, in the upstream's own queue, or in a
//! sidecar that froze and was *declared* dead; and many APIs show in lists and searches later what they have done
//! already. Why samples: one answer may come from a replica that is behind. **Choose the lag longer than the sum of
//! both.** Nothing but the lag protects there: an operation that was settled as NOT_APPLIED too early is sent again
//! when its caller repeats it. There is no default. Questions are asked from the beginning, not only after the lag,
//! since "applied" counts at once. Lag is counted on the clock that counts suspend; in another boot by the wall clock,
//! and where that stepped back the lag starts again.
//!
//! *Not known* is: an answer that neither condition is about, or both; conditions that cannot be computed; HTML where
//! JSON was expected; a redirect, which is never followed; a refused credential; a stored signature that has expired
//! (a request that is signed over itself cannot ask; give it a `credential`); an answer that is not complete within
//! `timeouts.response`; more than `answer` (1 MiB, at most 16 MiB); more than `pages.most` pages (10, at most 100);
//! a request that is made of what is not kept; two forms.
//!
//! *Two forms*: where a corrected request was sent under the identity of one that may yet have been applied, "applied"
//! does not say which. Such a finding is not known, unless the condition compares what the form says (`tells_forms:
//! true`). A callback never tells: it may have been written about the first form, and come when the second is in
//! force.
//!
//! `compare` reads the target of the PUT (or `get`). What was sent is there: applied. Anything else, in particular
//! somebody else's later state, is not known. That what the request's own condition asks for is still there (the same
//! ETag; nothing, for `If-None-Match: *`) is not known either: it may have been made, used and deleted meanwhile, or
//! replaced and put back, and sending it again would do it twice. Say `never_reverts: true` where nobody deletes
//! and nothing is restored, versions and lifecycles included: then it means not applied, with lag and samples as
//! above.
//!
//! # The same condition again
//!
//! An upstream that orders by itself may be sent to again without a key: what carries a condition that no longer
//! holds once it was met (`If-Match` with a version, `If-None-Match: *`; not `If-Match: *`, and not
//! `If-None-Match` with a version). It has to be written (`send_again`); without its condition a request is passed
//! over, whoever asks. 2xx: applied. 412: not known, since the first attempt may be what the condition met; a
//! `compare` before it tells. Under a fence like any resend: not past a newer operation, not after a cancel; without
//! one PUT, PATCH and DELETE are never sent again unattended. What stood there, was replaced, and stands there once
//! more (ABA) meets a condition twice, as does what was deleted since (`If-None-Match: *`): versions that never come
//! back, ETags of a version and not of content, are proof against that. No lifetime of a key bounds it, and so nothing
//! is sent unattended later than an hour after it was first asked for. An attempt that is answered 2xx after another
//! was is a *contradiction*: the condition was met twice, or is not looked at. No profile takes this step by itself.
//!
//! # Signed requests without their key
//!
//! What is signed and left alone (`signed: leave-alone`) may go without the key that would be put into it: nothing is
//! sent again then, and nothing undone; look-ups, comparisons and callbacks are taken. A question by a key or a
//! reference (`operation.key`, `operation.reference`) that the request did not carry is not known.
//!
//! # Undoing
//!
//! `void` is for effects that should rather not be in force than be in doubt: a request that cancels by key whatever
//! was done under it. It begins when everything has been quiet for its `lag`, while the upstream still knows the key
//! (four fifths of the lifetime); an effect that arrives after it is not undone. Once it has begun, a late answer to the
//! request itself says only that it was applied, not that it still is: the undo's end says that, or a look-up after
//! its lag. That it has begun is on
//! disk before it leaves, and from then on nothing is sent under the key any more, whoever asks. When `done` holds,
//! the operation is COMPLETED as refused, and callers get `409 operation-voided`: a new operation needs a new
//! identity. An unclear answer is tried again, `attempts` times in all; then a person is asked. That it was applied
//! all the same, found later, is a contradiction: it changes nothing, and raises an alarm.
//!
//! # Callbacks
//!
//! `callbacks` of an upstream is a listener of its own. A callback is believed under its signature alone: over the exact
//! bytes that came, in constant time, with one of the secrets, and, where a time is signed, within `tolerance` of ours.
//! One that is not is answered 401 and reaches nobody. What is believed
//!
//! - must name its operation (`operation`, and `principal` where the upstream has one): others are passed on and change
//!   nothing. Where ids belong to an incarnation of their resource, several operations may have one id: the callback
//!   is about the one whose `reference` (or key) it names; where it names none it settles none, and the event logs
//!   of those that are unsettled say so;
//! - says `applied`: that settles, also when it comes before the answer (it waits for that for five seconds), late,
//!   twice, or when the step has had its time (but not once an undo has begun);
//! - says `not_applied`: that counts only with `definitive: true`, if no attempt is live, and if only one was ever
//!   made; else a look-up or a person has the word. While one is live it is answered 503, so that it comes again. Say
//!   `definitive` only where the API means "and never will be";
//! - is recorded first, and then passed on to the application (`forward`), unchanged; the upstream gets the
//!   application's answer. Where it cannot be recorded, or the application does not answer, the upstream is
//!   answered 5xx, so that it sends it again. The application may see one twice, as without Fencepost.
//!
//! No time is signed by `github`, by `adyen`, and by `hmac` without `timestamp`: whoever has seen such a callback can
//! play it again for as long as its secret is in use. That an operation was applied stays true, and is recorded
//! once. That one was *not* applied need not be true of its next attempt: `definitive` counts only where one
//! attempt was ever made.
//!
//! `adyen` signs eight fields of every item (`pspReference`, `originalReference`, `merchantAccountCode`,
//! `merchantReference`, `amount.value`, `amount.currency`, `eventCode`, `success`): rules read the items one by one
//! as `body`, with those fields alone, all of them texts. One item that is not signed, and none of the notification is
//! believed. Without `forward` the answer is `[accepted]`.
//!
//! # A person
//!
//! Where no step can still succeed, the operation is NEEDS_ATTENTION: callers get `409 needs-attention`, and what is
//! ordered behind it waits. `fencepost operations why UPSTREAM ID` tells the story, what can still be done, until
//! when, and what to type; `… resolve UPSTREAM ID --verdict applied|not-applied --reason WHY` says how it ended (see
//! [`operations`](super::operations)). Evidence that comes later still settles it without him.
//!
//! # How it goes
//!
//! Every five seconds a pass looks for what nobody works on, for each upstream apart: 64 operations of an upstream are
//! worked on at a time, and of those that a pass finds at most eight of one resource, so that none takes the room of
//! the others. A caller that repeats an uncertain operation has its step taken now. After five exchanges in a row
//! that failed an upstream is left alone for a second, then two, up to a minute, and one operation tries for all;
//! until it answers again, be it to a caller.
//! Waiting for an upstream that is away uses no step up, but time runs: a key's lifetime, a window. `fencepost doctor`
//! and `GET /v1/status` tell of each upstream how its last pass went and for how long it is left alone.
//!
//! # What cannot be promised
//!
//! - **A freeze beyond the lag.** A sidecar that was declared dead may thaw. What it has sent, or has in a socket, may
//!   arrive after "not found" was believed, and then a repeat is a second effect. The same holds of a network, or a
//!   queue of the upstream's, that delivers later than the lag (for `send_again`: than the last fifth of the key's
//!   lifetime). Only a `conditional` upstream is proof against it.
//! - **What the upstream forgets.** A key beyond its lifetime is a new one. That is why nothing is sent again after four
//!   fifths of it.
//! - **Conditions that lie.** A search that finds another payment of the same amount says "applied" to the wrong
//!   question. Ask by something that is the operation's own: `reference` puts it there.
//! - **A person's word.** It is taken. NOT_APPLIED keeps the key, so that an upstream with keys still catches a wrong one.
//! - **An order that was settled too late.** While an operation is in doubt, what must be ordered with it waits or is
//!   refused: doubt costs time.
//! - **A restored register** does not know what it has forgotten; identities first seen after it are not asked for
//!   before they are sent (see [`register`](super::register)).
