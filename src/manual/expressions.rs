//! Expressions: what a value can be computed from, what a condition may look at, and what becomes of
//! whatever is missing, ambiguous or inexact.
//!
//! # Values
//!
//! `once` and a fence's `resource` are templates: text with `{…}` parts. A part is one of two things:
//!
//! - **A plain member** is read directly: `path.NAME`, `query.NAME`, `headers.NAME`,
//!   `body.NAME.NAME` (JSON), `form.NAME` (URL-encoded or multipart), `graphql.NAME`,
//!   `token.generation`, `operation.id`, `resource.incarnation`; `["NAME"]` for other names, `[0]` for
//!   items. Header names stand as they are: `{headers.x-account}`.
//! - **Anything else is CEL** (<https://cel.dev>), compiled when the config is read:
//!   `{body.order.id + "-" + string(body.line)}`.
//!
//! | root | holds |
//! |---|---|
//! | `request` | `method`, `path` (as sent) |
//! | `path`, `query`, `form` | texts by name |
//! | `headers` | texts by name, in the spelling of the expression or in lower case |
//! | `body` | the JSON content |
//! | `token` | `generation`, the epoch before it where there is one |
//! | `operation` | `id`, not in `once`; about an operation that was sent, also `key`, `reference` and `answers` (the statuses that proved nothing, as `500 400`); in conditions on callbacks `id` and `reference` |
//!
//! Functions: `size`, `contains`, `startsWith`, `endsWith`, `string`, `int`, `uint`, `double`, `bool`,
//! `has`, `all`, `exists`, `exists_one`, `map`, `filter`, and CEL's operators. There are no clocks and
//! no patterns. `check` refuses any other root or function, at its line and column.
//!
//! The long form takes one value as it is:
//!
//! | form | value |
//! |---|---|
//! | `{ header: X }`, `{ query: NAME }`, `{ path: NAME }` | as above |
//! | `{ json: /order/id }` | RFC 6901 |
//! | `{ form: FIELD }` | a field; a file is none |
//! | `{ multipart: NAME }` | SHA-256 of a part's content, in hex: a file names the operation |
//! | `{ xml: /order/id }` | the text of an element, by local names from the root |
//! | `{ graphql: input.order.id }` | a variable; `operationName` is the operation's name, `$operationName` a variable of that name. Effects are matched by path: give each operation that must be told apart its name in the identity |
//!
//! What is *not* a value, and refuses the request with `identity-missing`, naming the field:
//!
//! - what is absent, empty, or longer than 1024 bytes;
//! - what stands twice: a header, a parameter, a field, a part, an XML element or one on its path; a
//!   JSON member on its path, and anywhere in the body once CEL reads it. Never the first, never the
//!   last: which one the upstream takes is its own affair;
//! - null, lists, maps, bytes and numbers with a fraction or an exponent. Integers keep every digit up
//!   to 64 bits; beside a larger one, no CEL part reads the body;
//! - a form with another content type, a broken multipart body, XML with a document type, entities, or
//!   comments inside the element, a GraphQL batch;
//! - whatever CEL cannot compute: text plus number, an index out of bounds, an overflow.
//!
//! Two different lists of values never give the same identity: in a template with text or several
//! parts, each value is written with `%`, `:`, `/`, control characters and the separators used
//! percent-encoded. That holds for the *values of the parts*: `{a + ":" + b}` is one part, and `x:y`
//! plus `z` is `x` plus `y:z` there. Write `{a}:{b}`.
//!
//! # Answers
//!
//! Each class of `answers` is a list of statuses or a condition over `response.status`,
//! `response.headers` and `response.body` (only of content that is whole, uncoded and declared JSON).
//!
//! - The effect's own classes win over the upstream's, those over the profile's, those over the
//!   defaults. **A list changes the statuses that it names. A condition says all of its class**: what
//!   lower layers put into it proves nothing unless the condition holds.
//! - An answer that two classes of one layer claim is uncertain; `check` refuses what it can see of
//!   that beforehand.
//! - A condition that cannot be evaluated (a member that is not there, content that is no JSON, a field
//!   that stands twice) is *not known*, and the answer uncertain: never applied. Guard with the status:
//!   `response.status == 200 && response.body.paid == true` is simply false for a 404.
//!
//! Conditions that ask for the status alone are turned into a table when the config is read; guards by
//! status keep the interpreter away from all other answers.
//!
//! # Bounds
//!
//! An expression has at most 2048 bytes, 24 levels, 16 additions, and 4 loops of which 2 within each
//! other. Bodies are bounded by `limits`; CEL reads at most 65 536 JSON values of one. Before it runs,
//! the product of its loops over what it was given is checked; beyond two million steps nothing is
//! computed. Content above 64 KiB is read off the async workers (above 4 KiB where an expression loops
//! over it, always where it loops within a loop). A failure of the interpreter itself is a value that
//! cannot be had.
