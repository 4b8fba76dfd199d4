//! Which request is which: keys, accounts, and when two requests are the same.
//!
//! An operation is known by tenant, upstream `id`, account (`principal`) and the text of `once`. The
//! first request under that identity is let out; every later one must *mean the same*, and then gets
//! the answer of the first.
//!
//! # Keys of callers
//!
//! A key is 1 to 255 visible ASCII characters, once, bare (`abc`) or as a string (`"abc"`, RFC 9651);
//! both are one key. Capitals count. A comma in a bare key is part of it; what could be two keys that
//! somebody joined (`abc, abc`) is refused, as is anything else that cannot be read: 400, and the key
//! itself never reaches a log. The header is the one that the upstream takes keys in (`key: { header:
//! PayPal-Request-Id }`), `Idempotency-Key` where it takes none, or any other by `once: { header: X }`.
//!
//! # What counts
//!
//! | `means` | a repeat must have in common with the first |
//! |---|---|
//! | `whole` (default) | method, path, query as sent, and content: JSON by its value (members in any order, white space and escapes in any form; numbers as written, `1.0` is not `1`), forms by their pairs (names in any order), uploads (`multipart/form-data`) by their parts whatever the boundary, anything else and whatever has a `Content-Encoding` byte by byte |
//! | `raw` | method, path, query and content, byte by byte |
//! | a list | method, path, and the members listed. A member that is not there refuses the request, 400; with `optional: true` its absence counts |
//!
//! No header counts that a list does not name. JSON that is malformed, begins with a byte order mark or
//! repeats a member name is refused, 400: readers differ on what it means. So use `raw` where an API
//! takes such texts.
//!
//! A request that differs is refused, `422 idempotency-key-reused`, and told in what: `"differs":
//! ["json /amount"]`, never which value. That is also known after the stored request was dropped, from
//! small keyed digests beside the record, for contents up to 64 KiB.
//!
//! A record whose fingerprint was made under another `means`, or in another form, is compared where
//! that can be done: a repeat of the whole request is recognised after `means` was narrowed, and so is
//! an upload, byte by byte, that was recorded before uploads were taken apart. Where it cannot be done
//! the answer is `409 meaning-not-comparable`: neither replayed nor sent. Changing `means` is like
//! changing `once`: do it while nothing is unsettled.
//!
//! # Accounts and credentials
//!
//! `principal: [ { header: X-Account } ]` makes a header part of every identity: the same key under two
//! accounts is two operations, with two keys at the upstream. A listener that others than the worker
//! beside it can reach must choose: name what tells its callers apart, or write `principal: none`.
//!
//! A header is what a caller says of himself: fine for accounts that the upstream checks with his
//! credential, not for keeping callers apart who do not trust each other. They prove who they are:
//!
//! ```yaml
//! listen: 0.0.0.0:15001
//! listen_tls: { cert: /etc/tls/cert.pem, key: /etc/tls/key.pem, client_ca: /etc/tls/callers.pem }
//! principal: [ { client_certificate: subject } ]
//! ```
//!
//! | `client_certificate` | what names the caller | a renewed certificate is |
//! |---|---|---|
//! | `subject` | the whole subject, byte by byte: an authority that writes the same name as another kind of text has named another caller | the same caller |
//! | `uri` | the one readable URI among the alternative names, byte by byte: a SPIFFE id | the same caller |
//! | `dns` | the one readable DNS name among them; capitals do not count, a wildcard is none | the same caller |
//! | `fingerprint` | SHA-256 of all of it | **another caller**: a repeat after the renewal is a new operation, and is sent |
//!
//! Serial number and issuer are not on offer: they change with every renewal. A name of a form that the
//! verifier cannot read (a DNS name that is none, a URI that is not UTF-8) is passed over, as if it were
//! not there: an authority that signs such names beside good ones does not refuse them. A certificate
//! without that name, or with two readable ones of its kind, and a caller without a certificate (`client: optional`), get `400
//! identity-missing` for every effect; they are never taken for a default account. With `client: require`,
//! the default, nobody without a valid certificate gets past the handshake. Whatever headers say of
//! certificates (`X-Forwarded-Client-Cert`) is not looked at. Whoever is in `client_ca` decides on
//! names: authorities that name callers independently of each other belong to listeners, and upstreams,
//! of their own. Revocation lists are not read: let certificates of callers be short-lived. Several parts
//! count together: `[ { client_certificate: uri }, { header: X-Account } ]`.
//!
//! A certificate does not reach the upstream and scopes nothing there, so callers told apart by one get
//! derived keys: with `key: { value: caller }`, which profiles may bring, two of them with the same key
//! would share one operation of the credential that they share, and the config is refused.
//!
//! A connection is its caller's until it is closed, also past the end of the certificate that opened it;
//! no TLS session is resumed, so each new one proves it again. When a reload changes who vouches for
//! callers (`client_ca`, `client`, TLS or none) or puts another upstream behind the listener, connections
//! end as soon as what was asked on them is answered.
//!
//! Credentials rotate, so which one a request carries is never part of its identity or meaning. But an
//! answer to a request that carried one (`Authorization`, `Cookie`, `X-Api-Key`, `Api-Key`,
//! `X-Auth-Token`, `X-Access-Token`) is for callers who carry one too: `403 credential-required`. It is
//! not asked whether the credential is good; put a listener that strangers reach behind something that
//! does.
//!
//! # Requests without a key, and with too many
//!
//! Where `once` is a header that may be lacking, a request without it is an operation of its own. Some
//! middleware repeats such requests blindly, exactly while nobody knows how the first one ended: an
//! equal one for the same resource that comes within `blind_retry` while the first is unsettled joins
//! it, gets its answer, and is told so (`Fencepost-Joined: blind-retry`). Two payments that are equal on purpose and at once
//! need keys, or `blind_retry: never`.
//!
//! Some SDKs make a new key for each retry. Under a fence with `order: strict` an equal request of the
//! same account and generation that would have to wait for an unsettled one is its *twin*: `if_twin:
//! refuse` (409, for good), `answer` (the first one's answer, also later; if that came to nothing the
//! twin goes on as new), `send`.
