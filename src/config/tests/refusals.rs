//! What is refused, each at its place: one line a case, `line:column => words of the message => YAML`
//! (`\n` is a line end). The YAML stands in a file, in an upstream from line 6, or in an effect
//! `PUT /x/{id}` of an idempotent upstream from line 10; its columns are the file's.

use super::{effect, refused, refused_at, upstream};
use crate::config::{CertificateName, ClientCertificates, ListenTls, PrincipalPart, Severity};
use http::HeaderName;

/// All cases of a table are tried; the misses are shown together.
fn all_refused(table: &str, file: impl Fn(&str) -> String) {
    let mut missed = String::new();
    let mut tried = 0;
    for case in table.lines().filter(|line| !line.is_empty()) {
        let mut parts = case.splitn(3, " => ");
        let (place, words) = (parts.next().unwrap(), parts.next().unwrap());
        let text = file(&parts.next().unwrap().replace("\\n", "\n"));
        let problems = refused(&text);
        let hit = problems.list().iter().any(|problem| {
            problem.severity == Severity::Error
                && format!("{}:{}", problem.line, problem.column) == place
                && problem.message.contains(words)
        });
        if !hit {
            missed = format!("{missed}{case}\n{problems}\n\n");
        }
        tried += 1;
    }
    assert!(missed.is_empty(), "{missed}");
    assert!(tried > 0);
}

fn whole(text: &str) -> String {
    text.to_owned()
}

const UNKNOWN_IN_FILE: &str = r"
2:1 => is not a known field => version: 1\nupstream: {}
2:10 => is not a known field => version: 1\nadmin: { adress: x }
2:11 => is not a known field => version: 1\nhealth: { port: 1 }
2:11 => is not a known field => version: 1\nlimits: { bodies: 1 }
2:13 => is not a known field => version: 1\nregister: { sqlite: x }
2:25 => is not a known field => version: 1\nregister: { embedded: { dir: x } }
2:11 => is not a known field => version: 1\nworker: { adress: x }
";

const UNKNOWN_IN_UPSTREAM: &str = r"
6:5 => is not a known field =>     bogus: 1
6:12 => is not a known field =>     tls: { cert: x }
6:12 => is not a known field =>     key: { place: x }
6:17 => is not a known field =>     timeouts: { read: 1s }
6:16 => is not a known field =>     answers: { maybe: [200] }
";

const UNKNOWN_IN_EFFECT: &str = r"
10:9 => is not a known field =>         bogus: 1
10:28 => is not a known field =>         once: { header: K, need: true }
10:51 => is not a known field =>         fence: { resource: x, token: { header: T, kind: y } }
10:31 => is not a known field =>         fence: { resource: x, owner: y }
10:21 => is not a known field =>         settle: [ { wait: 1s } ]
10:35 => is not a known field =>         settle: [ { send_again: { times: 1 } } ]
10:46 => is not a known field =>         settle: [ { send_again: { backoff: { x: 1s } } } ]
10:19 => is not a known field =>         limits: { head: 1 }
10:17 => is not a known field =>         pass: { x: 1 }
11:9 => is not a known field =>         pass: {}\n        join: 1s
";

#[test]
fn unknown_fields_are_refused_at_every_level() {
    all_refused(UNKNOWN_IN_FILE, whole);
    all_refused(UNKNOWN_IN_UPSTREAM, upstream);
    all_refused(UNKNOWN_IN_EFFECT, effect);
}

const MEANINGLESS_IN_FILE: &str = r#"
2:9 => is not a name => version: 1\ntenant: a/b\nupstreams: {}
1:1 => `version` is missing => 
2:12 => names no upstream => version: 1\nupstreams: {}
2:12 => expected fields => version: 1\nupstreams: 3
1:1 => expected fields => []
2:8 => is not a duration => version: 1\ndrain: 1 hour ago
2:19 => is not an address => version: 1\nadmin: { address: localhost }
2:28 => is not a size => version: 1\nlimits: { buffered_bodies: lots }
3:34 => is not a URL => version: 1\nupstreams:\n  a: { listen: 127.0.0.1:1, url: "api.stripe.com" }
3:34 => credentials => version: 1\nupstreams:\n  a: { listen: 127.0.0.1:1, url: "https://u:p@x" }
3:34 => a path or a query => version: 1\nupstreams:\n  a: { listen: 127.0.0.1:1, url: "https://x/v1" }
"#;

const MEANINGLESS_IN_UPSTREAM: &str = r#"
6:14 => there is no profile `stripe` =>     profile: stripe
6:18 => is not one of =>     capability: [idempotnt]
6:18 => nothing else =>     capability: [opaque, conditional]
6:20 => belongs to one connection =>     key: { header: Connection }
6:20 => is not the name of a header =>     key: { header: "a b" }
6:26 => is not a status =>     answers: { applied: [199] }
6:42 => already =>     answers: { applied: [200], refused: ["200-201"] }
6:15 => is not one of =>     unlisted: allow
6:26 => is not one of true | false =>     accept_close_framed: yes
6:22 => is not a method and a path =>     effects: [ { on: /x } ]
6:22 => is not a method in capitals =>     effects: [ { on: post /x } ]
6:31 => whole segment =>     effects: [ { on: "POST /x/{" } ]
6:16 => `on` is missing =>     effects: [ { once: x } ]
"#;

const MEANINGLESS_IN_EFFECT: &str = r"
10:23 => is not a JSON pointer =>         once: { json: a/b }
10:15 => one of header, json, form, query, path =>         once: {}
10:35 => from one place =>         once: { header: A, query: b }
10:27 => is not a status from 400 =>         uncertain_status: 200
10:45 => is not a number =>         settle: [ { send_again: { attempts: 0 } } ]
10:15 => secrets only =>         join: ${env:JOIN}
10:13 => has no value =>         join:
10:15 => a single value =>         join: [1s]
";

#[test]
fn values_that_mean_nothing_are_refused_where_they_stand() {
    all_refused(MEANINGLESS_IN_FILE, whole);
    all_refused(MEANINGLESS_IN_UPSTREAM, upstream);
    all_refused(MEANINGLESS_IN_EFFECT, effect);
}

const RULES_IN_UPSTREAM: &str = r#"
6:16 => tell callers apart =>   b: { listen: 0.0.0.0:2, url: http://x }
6:77 => no caller of this listener is asked for a certificate =>   b: { listen: 0.0.0.0:2, url: http://x, principal: [ { client_certificate: subject } ] }
7:55 => no caller of this listener is asked for a certificate =>     listen_tls: { cert: c, key: k }\n    principal: [ { header: A }, { client_certificate: uri } ]
7:40 => `serial` is not one of subject | uri | dns | fingerprint =>     listen_tls: { cert: c, key: k, client_ca: a }\n    principal: [ { client_certificate: serial } ]
6:51 => a value comes from one place =>     principal: [ { header: A, client_certificate: dns } ]
6:18 => one of header, client_certificate is missing =>     principal: [ {} ]
6:17 => `key` is missing =>     listen_tls: { cert: c }
6:17 => `cert` is missing =>     listen_tls: { key: k, client_ca: a }
6:44 => which certificates? =>     listen_tls: { cert: c, key: k, client: require }
6:58 => `maybe` is not one of require | optional =>     listen_tls: { cert: c, key: k, client_ca: a, client: maybe }
6:54 => did you mean `client_ca`? =>     listen_tls: { cert: c, key: k, client: optional, client_cas: a }
8:30 => say `value: derived` =>     listen_tls: { cert: c, key: k, client_ca: a }\n    principal: [ { header: A }, { client_certificate: uri } ]\n    key: { header: K, value: caller }
8:14 => say `value: derived` =>     listen_tls: { cert: c, key: k, client_ca: a }\n    principal: [ { client_certificate: subject } ]\n    profile: generic
6:16 => `upstreams.a.listen` listens there already =>   b: { listen: 127.0.0.1:15001, url: http://x }
6:48 => has the id `a` already =>   b: { listen: 127.0.0.1:2, url: http://x, id: a }
6:19 => listens there already => admin: { address: 127.0.0.1:15001 }
6:19 => listens there already => admin: { address: 0.0.0.0:15001, operators: { a: x } }
6:19 => needs no `operators` => admin: { address: 0.0.0.0:1 }
6:35 => nobody could tell them apart => admin: { operators: { a: same, b: same } }
6:20 => listens there already => worker: { address: 127.0.0.1:15001 }
6:20 => only a loopback address => worker: { address: 0.0.0.0:1 }
6:23 => `no-such` is not one of answer-expired =>     errors: [ { for: [no-such], body: "{}" } ]
6:24 => is not one of never | same-operation =>     errors: [ { retry: perhaps, body: "{}" } ]
6:25 => is not a status from 400 to 599 =>     errors: [ { status: 200, body: "{}" } ]
6:15 => `body` is missing =>     errors: [ { status: 400 } ]
6:23 => is not JSON =>     errors: [ { body: "{" } ]
6:23 => `{nmae}` is nothing that is known =>     errors: [ { body: '{"a": "{nmae}"}' } ]
6:57 => `Fencepost-State` is no header that an error may set =>     errors: [ { body: "{}", headers: { Fencepost-State: x } } ]
6:8 => does not cover the longest response timeout, 30s => drain: 10s
6:10 => no TLS towards an `http` URL =>     tls: { ca: x }
6:10 => come together =>     tls: { client_cert: x }
4:5 => needs a `key` =>     capability: [idempotent]
6:10 => only where it is honoured =>     key: { header: K }
6:18 => fresh connection =>     connections: reuse
7:32 => 36 characters =>     capability: [idempotent]\n    key: { header: K, longest: 35 }
6:33 => listed already =>     effects: [ { on: POST /x }, { on: POST /x } ]
6:54 => capability `idempotent` =>     effects: [ { on: PUT /x, settle: [ { send_again: {} } ] } ]
12:25 => the upstream may have forgotten the key =>     capability: [idempotent, query]\n    key: { header: K, lifetime: 2h }\n    effects:\n      - on: POST /x\n        settle:\n          - look_up: { get: /x, applied: response.status == 200, not_applied: response.status == 404, lag: 1s, within: 1h36m }\n          - send_again: {}
12:19 => its turn comes when its time is over =>     capability: [idempotent, query]\n    key: { header: K, lifetime: 2h }\n    effects:\n      - on: POST /x\n        settle:\n          - look_up: { get: /x, applied: response.status == 200, not_applied: response.status == 404, lag: 1s, within: 1h36m }\n          - void: { post: /c, done: response.status == 200, lag: 1s, within: 1h }
"#;

const RULES_IN_EFFECT: &str = r#"
10:15 => no parameter `{nope}` =>         once: "a:{path.nope}"
10:15 => under a `fence` only =>         once: "a:{path.id}:{token.generation}"
10:15 => under a `fence` only =>         once: "{resource.incarnation}:{path.id}"
10:15 => says nothing about the request =>         once: always
10:15 => from itself =>         once: "{operation.id}"
10:37 => only a header may be lacking =>         once: { path: id, required: false }
10:40 => only where Fencepost issues it =>         fence: { resource: x, require: current }
10:16 => `exact` is not one of raw | whole =>         means: exact
10:16 => names nothing =>         means: []
10:32 => is named already =>         means: [ { json: /a }, { json: /a } ]
10:18 => no parameter `{nope}` =>         means: [ { path: nope } ]
10:26 => is not a JSON pointer =>         means: [ { json: a } ]
10:18 => is missing =>         means: [ { optional: true } ]
10:30 => is not a known field =>         means: [ { json: /a, required: true } ]
10:16 => `resource` is missing =>         fence: {}
10:28 => cannot depend on the token =>         fence: { resource: "{token}" }
10:51 => capability `conditional` =>         fence: { resource: x, if_older_unsettled: send }
10:64 => cannot be `free` =>         fence: { resource: x, per_generation: numbered, order: free }
10:25 => more than all buffered bodies =>         limits: { body: 1GiB }
11:33 => keep_request: never =>         keep_request: never\n        settle: [ { send_again: {} } ]
10:44 => shorter than =>         settle: [ { send_again: { backoff: { from: 2s, to: 1s } } } ]
"#;

/// Problems inside expressions stand at their own line and column, however the text is written.
const EXPRESSIONS: &str = r#"
10:19 => no parameter `{nope}` =>         once: "a:{path.nope + ''}"
10:29 => is unknown here; known are request =>         once: "a:{path.id + nope}"
10:37 => is unknown here =>         once: 'a:{path.id + ''é'' + x}'
12:21 => is unknown here =>         once: >-\n          a:{path.id\n          + ''    + nope}
11:19 => is not a function here; there are size, contains =>         once: |-\n          {body.x.now() + path.id}
10:19 => from itself =>         once: "a:{operation.id + ''}"
10:29 => under a `fence` only =>         once: "a:{path.id + token.generation}"
10:15 => says nothing about the request =>         once: "a:{1 + 1}"
10:32 => cannot depend on the token =>         fence: { resource: "r:{token.generation + ''}" }
10:32 => cannot depend on the operation =>         fence: { resource: "r:{operation.id + ''}" }
10:30 => is unknown here; known are response =>         answers: { applied: "body.x == 1" }
10:30 => has only status, headers, body =>         answers: { applied: "response.code == 1" }
10:29 => holds for no status =>         answers: { applied: "response.status == '200'" }
10:18 => 200 is both `applied` and `refused` =>         answers: { applied: "response.status < 300", refused: [200] }
10:18 => 250 is both =>         answers: { applied: "response.status == 250", uncertain: "response.status == 250" }
10:35 => stands alone =>         answers: { applied: [200, "response.status == 201"] }
10:29 => is not a status =>         answers: { applied: 2xx }
10:48 => is not CEL =>         answers: { applied: "response.status ==" }
10:22 => the path of an element =>         once: { xml: order/id }
10:26 => a variable =>         once: { graphql: "a b" }
"#;

#[test]
fn problems_inside_expressions_are_shown_where_they_stand() {
    all_refused(EXPRESSIONS, effect);
}

#[test]
fn rules_between_fields_hold() {
    all_refused(RULES_IN_UPSTREAM, upstream);
    all_refused(RULES_IN_EFFECT, effect);
}

#[test]
fn what_a_later_version_brings_is_refused_by_name() {
    for text in [
        "version: 1\nregister: { if_down: forward-with-key }\n".to_owned(),
        upstream("    hosts: [x]\n"),
    ] {
        let problems = refused(&text);
        let shown = problems.to_string();
        assert!(
            shown.contains("is not supported by this version"),
            "{text}\n{shown}"
        );
    }
}

#[test]
fn a_default_listener_collides_as_well() {
    let text = upstream("").replace("15001", "15020");
    refused_at(&text, 1, 1, "is the default address of `health`");
    super::good(&format!("{text}health: none\n"));
}

#[test]
fn a_listener_for_others_must_say_that_it_has_no_principal() {
    let text = upstream("").replace("127.0.0.1:15001", "0.0.0.0:15001");
    refused_at(&text, 4, 13, "principal: none");
    super::good(&format!("{text}    principal: none\n"));
    let told_apart = super::good(&format!(
        "{text}    principal: [ {{ header: X-Account }} ]\n"
    ));
    let account = PrincipalPart::Header(HeaderName::from_static("x-account"));
    assert_eq!(told_apart.upstreams[0].principal, [account]);
}

/// A certificate chooses the caller; TLS alone does not, and neither does a certificate that nobody
/// looks at.
#[test]
fn a_listener_for_others_may_tell_them_apart_by_certificate() {
    let text = upstream("").replace("127.0.0.1:15001", "0.0.0.0:15001");
    let tls = "    listen_tls: { cert: c.pem, key: k.pem, client_ca: ca.pem }\n";
    refused_at(&format!("{text}{tls}"), 4, 13, "principal: none");
    let config = super::good(&format!(
        "{text}{tls}    principal: [ {{ client_certificate: subject }}, {{ header: X-A }} ]\n"
    ));
    let upstream = &config.upstreams[0];
    let parts = [
        PrincipalPart::Certificate(CertificateName::Subject),
        PrincipalPart::Header(HeaderName::from_static("x-a")),
    ];
    assert_eq!(upstream.principal, parts);
    let client = ClientCertificates {
        ca: "ca.pem".into(),
        required: true,
    };
    let files = ListenTls {
        cert: "c.pem".into(),
        key: "k.pem".into(),
        client: Some(client),
    };
    assert_eq!(upstream.listen_tls.as_ref(), Some(&files));
    // Whoever watches the config watches them too.
    assert_eq!(config.files, [files.cert, files.key, "ca.pem".into()]);
}

#[test]
fn all_mistakes_in_one_file_are_listed_with_their_places() {
    let text = "\
version: 2
upstreams:
  stripe:
    lisen: 127.0.0.1:15001
    url: ftp://api.stripe.com
    timeouts: { response: soon }
    effects:
      - on: POST /v1/charges
        once: \"charge:{size(boddy)}\"
";
    let problems = refused(text);
    let shown = problems.to_string();
    let places: Vec<(usize, usize, &str)> = problems
        .list()
        .iter()
        .filter(|problem| problem.severity == Severity::Error)
        .map(|problem| (problem.line, problem.column, problem.path.as_str()))
        .collect();
    assert_eq!(
        places,
        [
            (1, 10, "version"),
            (4, 5, "upstreams.stripe"),
            (4, 5, "upstreams.stripe.lisen"),
            (5, 10, "upstreams.stripe.url"),
            (6, 27, "upstreams.stripe.timeouts.response"),
            (9, 29, "upstreams.stripe.effects[0].once"),
        ],
        "{shown}"
    );
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(
        lines[1],
        "test.yaml:1:10: version: `2` is not 1, the version that this program reads"
    );
    assert_eq!(
        lines[4],
        "test.yaml:4:5: upstreams.stripe.lisen: is not a known field; did you mean `listen`?"
    );
}

/// A credential that stands in must see the account that the request was of.
#[test]
fn a_credential_that_may_be_another_accounts_is_refused() {
    let file = |principal: &str, keep: &str, header: &str| {
        format!(
            "version: 1\nupstreams:\n  bank:\n    listen: 127.0.0.1:1\n    url: https://a\n    principal: {principal}\n    \
             capability: [query]\n    effects:\n      - on: POST /x\n        once: {{ header: K }}\n        {keep}\n        \
             settle:\n          - look_up: {{ get: /x, applied: 'true', lag: 1s, credential: {{ header: {header}, value: v }} }}\n"
        )
    };
    let (account, nobody, kept) = (
        "[ { header: X-Account } ]",
        "none",
        "keep_request: until-settled",
    );
    let never = "keep_request: never";
    for (principal, keep, header, words) in [
        (
            "[ { header: Authorization } ]",
            kept,
            "Authorization",
            "another account's",
        ),
        (account, kept, "X-Account", "another account's"),
        (account, never, "Authorization", "which account"),
    ] {
        let problems = refused(&file(principal, keep, header));
        let told = problems
            .list()
            .iter()
            .any(|problem| problem.message.contains(words));
        assert!(told, "{words}: {problems}");
    }
    for (principal, keep) in [(account, kept), (nobody, kept), (nobody, never)] {
        super::good(&file(principal, keep, "Authorization"));
    }
}
