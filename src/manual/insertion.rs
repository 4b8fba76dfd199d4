//! What is put into requests: the upstream's key, references, and what must not be touched.
//!
//! # Where keys go
//!
//! | `key` | goes into | where that lacks on the way |
//! |---|---|---|
//! | `header: X` | a header field, instead of any of its name | |
//! | `json: /a/key` | a member of the JSON object that is the content, at its front | objects are made, arrays are not |
//! | `form: name` | a pair at the end of an urlencoded form, the first part of a multipart one | |
//! | `query: name` | a parameter at the end of the query | |
//! | `graphql: name` | the variable `$name` of a GraphQL request | `variables` is made, also in place of `null` |
//!
//! The text is put between the bytes of the caller's request; no other byte changes, and `Content-Length`
//! is that of the result. It depends on the operation alone, so every attempt sends the same bytes: the
//! first one and each that follows a lost answer, after a restart too, and on another sidecar.
//!
//! `value: derived` (36 characters in the form of a UUID) is a function of tenant, upstream, principal,
//! operation and round. `value: caller` sends the caller's own key. `once` is then the place that it goes to,
//! or a header: where it stands there already it is left as it is, and where `once` says `required: false`
//! and there is none, a derived one is put in. `format: uuid` makes derived keys UUIDs of version 4 and
//! refuses callers' keys that are none, or the one of zeros.
//!
//! What stands there otherwise is never written over. `400 insertion-refused`, before anything is recorded:
//!
//! - another key, an empty one, one that stands twice, or that is no text; under `value: derived`, any;
//! - content that is no JSON object (or form, or one GraphQL request with its document), that says what it
//!   is twice, or that has a `Content-Encoding`;
//! - a GraphQL document that is not *one* operation which declares the variable and uses it: a server
//!   ignores a variable that nobody declared, and does the mutation without the key. That it is used for the
//!   key (`@idempotent(key: $name)`) is for its author to see to, and that every field of the mutation is
//!   covered;
//! - a multipart content with a preamble.
//!
//! Content that would exceed `limits.body` with it is `413`.
//!
//! Under `mode: observe` nothing is put in: requests are forwarded as they came.
//!
//! # References
//!
//! ```yaml
//! effects:
//!   - on: POST /v1/payment_intents
//!     reference: [ { form: "metadata[fencepost_operation]", longest: 500 } ]
//!   - on: POST /v2/checkout/orders
//!     reference: [ { json: /purchase_units/0/custom_id, longest: 127, if_present: keep } ]
//! ```
//!
//! puts a text where later questions can find it. `{operation.reference}` (the default) is 35 characters, a
//! digest of the whole identity, with the incarnation of the resource and without the round: one operation is
//! found by it in whatever form it was sent, and no other one is. `{operation.id}` is readable, and shows the
//! API what the id is made of; `check` refuses it where incarnations of a resource would share it.
//!
//! References are *not* part of what requests are compared by, although they are part of every byte that is
//! sent: a repeat is compared as its caller sent it, so that switching a reference on makes no repeat look
//! like another request. Where the caller has something of his own there, the request is refused, or keeps
//! its own (`if_present: keep`) and is found by no question: a question with `{operation.reference}` is asked
//! only about requests that it went along with, and about any other nothing is known. `check` refuses such a
//! question where the effect puts no reference in.
//!
//! Few profiles bring a reference (`stripe-v1`, `checkout-com`: into metadata of the caller's own choosing):
//! most APIs refuse fields that an endpoint does not know. A request that was sent past the proxy under the
//! same key before is another one with it: the API refuses it for that, and the operation is uncertain.
//!
//! # When the config changes
//!
//! How things are put in is recorded with each operation. One that is unsettled is not sent again under a
//! config that would put in something else, or elsewhere: `fencepost check` says so, a reload that would do it
//! is refused and cannot be confirmed, and after a restart it is held back, with a line in the log, until the
//! config is put right or a person settles it. Operations that earlier versions recorded are held to the
//! kind of their key alone.
//!
//! # Signed requests
//!
//! A signature or a digest over query or content breaks when something is put in. A request is taken for
//! signed if it has one of `Signature`, `Signature-Input`, `Digest`, `Content-Digest`, `Repr-Digest`,
//! `Content-MD5`, `X-Amz-Content-Sha256`, a header of the config's `signatures`, an `Authorization` of AWS
//! (`AWS4-…`), `GOOG4-…`, `TC3-…`, `Hawk`, `Signature`, `EG1-…` or of OAuth 1 with its signature, or a query that is
//! signed.
//!
//! | `signed` | such a request, where something would be put in |
//! |---|---|
//! | `false` (default) | is refused, `400 insertion-refused` |
//! | `true`: all requests are | `check` refuses a config that would put anything in |
//! | `leave-alone` | is sent as it is, without references. Brings it its own key, that counts. Else it goes without one, has *one attempt* on a connection of its own, and a lost answer waits for a person |
//!
//! A key in a header is put in all the same: signatures cover the header fields that they name. Whoever
//! signs a field of the upstream's key (`value: derived` replaces it), or the host of this listener, gets what
//! he asked for: his API refuses the signature.
