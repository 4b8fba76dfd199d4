//! The config: checking it, explaining a request by it, and changing it while an instance runs.
//!
//! # Before it is in force
//!
//! ```sh
//! fencepost check fencepost.yaml             # every problem at once, with line and column
//! fencepost schema > fencepost.schema.json   # for editors and pipelines
//! ```
//!
//! The schema (JSON Schema, draft 2020-12) is made of the questions that the parser asks, so it knows
//! exactly the fields that this version reads. It says nothing of rules between fields: whatever it
//! refuses, `check` refuses too; the reverse does not hold. For the YAML language server:
//! `# yaml-language-server: $schema=./fencepost.schema.json`.
//!
//! # Whose identity would change?
//!
//! What an operation is called follows from the config: tenant, the upstream's `id`, `principal`, `once`.
//! Change one of them, and a repeat of what was sent yesterday is a new operation and is sent.
//!
//! ```sh
//! fencepost check new.yaml --admin http://127.0.0.1:15000      # against a running instance
//! fencepost check new.yaml --against-register /var/lib/fencepost   # against a stopped one's register
//! ```
//!
//! looks at every unsettled operation and at the 1000 newest others, and lists those that would have
//! another name, another resource, no upstream, no effect, or would be sent again otherwise (under another
//! key, to another place). Exit code 1 if there is one; `--json` says how many were looked at.
//!
//! Stored requests are identified again, by the same code as any request. Where none is stored (settled
//! operations, `keep_request: never`, opaque upstreams) the rules are compared with those in force, and
//! where several could have named an operation, an unsettled one counts as changed and a settled one does
//! not; of a
//! register alone those are not known, and what is compared is the recorded name with what the new rules
//! could make. So is `principal` by certificate, always: certificates are not stored. That notices a rule that is gone or has another form, but not, for example, a caller's key
//! that is now looked for in another header. **Prefer `--admin`.** Secrets of the new config are not read
//! by the instance.
//!
//! # What would be made of this request?
//!
//! ```sh
//! fencepost explain --config fencepost.yaml \
//!   -X PUT http://127.0.0.1:15002/accounts/42/statements/2026-09-13 \
//!   -H 'Fencing-Token: 108' -H 'Content-Type: application/json' -d @statement.json
//! ```
//!
//! takes the steps that an instance would take, one after the other, and sends nothing: listener, rule
//! (and why the ones before it do not match), the parts of the identity with their values, principal,
//! resource, token, fingerprint, the key that the upstream would get, the policy; or the problem that the
//! caller would see. `@FILE` instead of words is a captured HTTP/1.1 request. Values of fields that are
//! credentials by their name are not shown. `--client-cert FILE`, or curl's `--cert FILE`, is the
//! certificate that the caller shows; it is read and not verified. It opens no register: whether a token is stale and whether it
//! is a repeat is not said.
//!
//! With `--and` and a second request it says whether both are one operation, and if not, which value
//! tells them apart; or, if they are one and say different things, which member differs.
//!
//! # While it is in force
//!
//! `serve` looks at its config every two seconds, at the files of secrets and certificates that it names
//! too, by content; so an edit in place, a rename and a ConfigMap's change of links are all seen. A change
//! counts once two looks in a row saw the same. SIGHUP reads it again at once, changed or not.
//!
//! | the new config | what happens |
//! |---|---|
//! | is fine | it is put in force as a whole. Listeners that stay keep their sockets, and their connections but for those named below; new ones are opened, others closed when their requests are done. Effects in flight keep the rules that they were admitted under, and operations the settle policy that is recorded with them; whatever comes next goes by the new config. Log: `another config is in force`, with both digests |
//! | has a problem | the old one stays; the log lists every problem with its place |
//! | would change an unsettled operation, as above | the old one stays; the log names up to ten of them. It is judged again every half minute, since they may get settled; settle them with `fencepost operations`, or confirm it as below |
//! | would change settled operations only | it is put in force, with a warning that counts them |
//! | changes `tenant`, `register`, `admin.address`, `health.address`, or operators from none to some | the old one stays; the log names what cannot change while running |
//! | has other certificates for a listener (`listen_tls`), in the config or in its files | whoever connects from now on meets the new ones; connections that are open stay, with the caller that they had |
//! | has other roots for callers (`client_ca`, also the content of its file), another `client`, TLS where there was none or none where there was, or another upstream at the same address | connections that are open end: what was asked on them is answered, and whoever goes on connects again and is known by the new rules. A request that was on its way meanwhile gets `503 draining`, or finds the connection closed; nothing of it was sent |
//! | has certificates or an upstream that cannot be used, or an address that cannot be had | the old one stays |
//!
//! # A config that was refused, all the same
//!
//! The refusal, in the log and in `GET /v1/config`, ends with what to type; so does `check --admin`:
//!
//! ```sh
//! fencepost reload --accept-identity-changes DIGEST --reason 'looked up at the bank' --config fencepost.yaml
//! ```
//!
//! It confirms the file with that digest and no other: has it changed since, it is refused again. Only a
//! named operator can; his name, the digest and the reason go into the log of every operation that changes
//! (`fencepost operations show`). **A repeat of such an operation is a new one and is sent**, although
//! nobody knows whether the first one took effect. Without `--accept-identity-changes` the command does what
//! SIGHUP does, and says what came of it. A start with another config asks nobody: it says in the log what
//! it leaves behind.
//!
//! # What is in force
//!
//! `fencepost_config_reloads_total{result="applied"|"invalid"|"refused"}` counts; `GET /v1/config` on the
//! operators' listener says which config is in force, since when, and what became of the last one that
//! was read; `/readyz` has the digest too. The digest is the SHA-256 of the file: `sha256sum` makes it.
//!
//! Where names change, admissions are held for the moment in which the register is looked at and the new
//! names are put in force, so that none slips through under the old ones; for a few seconds at most, or the
//! old config stays. A request that was read before and not yet admitted is told `503 draining`, that the
//! config changed, and to send again; nothing of it was sent.
