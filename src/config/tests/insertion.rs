//! What is put into requests, as a file says it; and what contradicts itself.

use super::*;

/// An upstream whose lines from the fourth below its name on are these, with one effect whose further
/// lines these are.
fn with(lines: &str, of_effect: &str) -> String {
    let indented = |lines: &str, by: &str| {
        let lines: Vec<String> = lines.lines().map(|line| format!("{by}{line}\n")).collect();
        lines.concat()
    };
    let (lines, of_effect) = (indented(lines, "    "), indented(of_effect, "        "));
    upstream(&format!(
        "    capability: [idempotent]\n{lines}    effects:\n      - on: POST /x/{{id}}\n{of_effect}"
    ))
}

#[track_caller]
fn refused_for(text: &str, part: &str) {
    let problems = refused(text);
    let said = |problem: &Problem| problem.message.contains(part);
    assert!(
        problems.list().iter().any(said),
        "no {part:?} in\n{problems}"
    );
}

#[test]
fn a_key_goes_to_one_place() {
    for (key, place) in [
        ("header: K", "header k"),
        ("json: /a/b", "json /a/b"),
        ("form: \"metadata[k]\"", "form metadata[k]"),
        ("query: k", "query k"),
        ("graphql: $k", "graphql $k"),
    ] {
        let config = good(&with(&format!("key: {{ {key}, lifetime: 24h }}"), ""));
        let protect = protect_of(&config);
        assert_eq!(protect.insert.key.as_ref().unwrap().slot.to_string(), place);
        // The caller's own key comes in a header all the same.
        let header = if key.starts_with("header") {
            "header k"
        } else {
            "header idempotency-key"
        };
        let once = protect.once.template.single_value().unwrap();
        assert_eq!(once.to_string(), header);
        let placing = protect.policy.settle.key.unwrap().placing;
        assert_eq!(placing, Some(protect.insert.placing()));
    }
    refused_for(&with("key: { lifetime: 24h }", ""), "where does it go?");
    refused_for(&with("key: { header: K, json: /k }", ""), "one place");
    refused_for(&with("key: { json: \"\" }", ""), "a member");
    refused_for(&with("key: { graphql: a.b }", ""), "a variable");
    refused_for(&with("key: { form: 'a\"b' }", ""), "without `\"`");
    refused_for(
        &with("key: { header: Content-Type }", ""),
        "meaning of its own",
    );
    refused_for(&with("key: { json: /k, format: ulid }", ""), "any | uuid");
}

#[test]
fn an_effect_may_have_a_key_of_its_own() {
    let upstream = "key: { header: K, lifetime: 6h, longest: 108, value: caller }";
    let config = good(&with(
        upstream,
        "key: { lifetime: 45d, format: uuid }\nonce: { header: K }",
    ));
    let key = protect_of(&config).insert.key.clone().unwrap();
    assert_eq!(key.slot.to_string(), "header k");
    assert_eq!((key.longest, key.format), (Some(108), KeyFormat::Uuid));
    assert_eq!(key.policy.lifetime, Some(Millis(45 * 86_400_000)));
    assert_eq!(key.policy.value, KeyValue::Caller);
    // Answers are remembered for as long as any key counts.
    assert_eq!(
        config.register.remember.answers,
        Duration::from_secs(45 * 86_400)
    );
    let other = good(&with(upstream, "key: { json: /k }"));
    assert_eq!(
        protect_of(&other)
            .insert
            .key
            .as_ref()
            .unwrap()
            .slot
            .to_string(),
        "json /k"
    );
}

#[test]
fn a_callers_own_key_is_read_where_it_goes() {
    let key = "key: { json: /k, lifetime: 24h, value: caller }";
    for once in ["", "once: { json: /k }", "once: \"{body.k}\""] {
        let identity = protect_of(&good(&with(key, once))).once.clone();
        assert_eq!(identity.origin, IdentityOrigin::Caller, "{once}");
        assert!(identity.required, "{once}");
        assert_eq!(
            identity.template.single_value().unwrap().to_string(),
            "json /k"
        );
    }
    let may_lack = protect_of(&good(&with(key, "once: { json: /k, required: false }")));
    assert!(!may_lack.once.required);
    refused_for(&with(key, "once: { json: /other }"), "the caller's own key");
    refused_for(
        &with(key, "once: { json: /other, required: false }"),
        "may be lacking",
    );
    let derived = "key: { json: /k, lifetime: 24h }";
    refused_for(
        &with(derived, "once: { json: /k }"),
        "every request would be refused",
    );
}

/// A derived key is put in wherever the caller brings none, and one that is too long is refused upstream.
#[test]
fn a_derived_key_fits_wherever_one_is_made() {
    let key = |more: &str| format!("key: {{ header: K, lifetime: 24h, longest: 20{more} }}");
    let message = "a derived key has 36 characters";
    refused_for(&with(&key(""), ""), message);
    good(&with(&key(", value: caller"), ""));
    let keyless = "once: { header: K, required: false }";
    refused_for(&with(&key(", value: caller"), keyless), message);
    refused_for(
        &with(&key(", value: caller"), "key: { value: derived }"),
        message,
    );
}

#[test]
fn references_have_places_of_their_own() {
    let key = "key: { json: /k, lifetime: 24h }\n";
    let list = "reference: [ { json: /meta/op }, { header: X-Op, value: \"op-{operation.id}\", longest: 99, if_present: keep } ]";
    let protect = protect_of(&good(&with(&format!("{key}{list}"), "")));
    let rules = &protect.insert.references;
    assert_eq!(rules[0].value, [ReferencePart::Digest]);
    assert_eq!(rules[0].if_present, IfPresent::Refuse);
    let text = ReferencePart::Text("op-".to_owned());
    assert_eq!(rules[1].value, [text, ReferencePart::Id]);
    assert_eq!(
        (rules[1].longest, rules[1].if_present),
        (Some(99), IfPresent::Keep)
    );
    // An effect's own list stands in place of the upstream's.
    let none = protect_of(&good(&with(&format!("{key}{list}"), "reference: []")));
    assert!(none.insert.references.is_empty());
    for (reference, part) in [
        ("{ json: /k }", "one place"),
        ("{ json: /k/deeper }", "one place"),
        ("{ form: op }", "no content is both"),
        ("{ json: /op, value: fixed }", "{operation.reference}"),
        (
            "{ json: /op, value: \"{body.x}\" }",
            "{operation.reference}",
        ),
        ("{ json: /op, longest: 34 }", "35 characters"),
        ("{ value: \"{operation.id}\" }", "where does it go?"),
    ] {
        refused_for(&with(&format!("{key}reference: [ {reference} ]"), ""), part);
    }
    let fenced = "once: \"a:{token.generation}\"\nfence: { resource: \"x:{path.id}\" }\nreference: [ { json: /op, value: \"{operation.id}\" } ]";
    refused_for(&with(key, fenced), "every incarnation");
}

#[test]
fn what_is_signed_has_nothing_put_in() {
    let signed = |key: &str, more: &str| with(&format!("key: {{ {key} }}\nsigned: true"), more);
    refused_for(
        &signed("json: /k, lifetime: 24h", ""),
        "breaks the signature",
    );
    refused_for(
        &signed(
            "query: k, lifetime: 24h, value: caller",
            "once: { query: k, required: false }",
        ),
        "breaks the signature",
    );
    refused_for(
        &signed("header: K, lifetime: 24h", "reference: [ { json: /op } ]"),
        "breaks its signature",
    );
    good(&signed("header: K, lifetime: 24h", ""));
    good(&signed("json: /k, lifetime: 24h, value: caller", ""));
    let left = good(&with(
        "key: { json: /k, lifetime: 24h }\nsigned: leave-alone\nsignatures: [ X-Sig ]",
        "",
    ));
    let protect = protect_of(&left);
    assert_eq!(protect.insert.signatures, ["x-sig"]);
    // What goes without its key is an effect of an upstream that can do nothing.
    let keyless = protect.keyless.as_ref().unwrap();
    assert!(keyless.settle.capability.is_opaque() && keyless.settle.key.is_none());
    assert!(keyless.settle.steps.is_empty() && !keyless.keep_request);
    assert!(left.upstreams[0].fresh_connections);
    let header = good(&with(
        "key: { header: K, lifetime: 24h }\nsigned: leave-alone",
        "",
    ));
    assert!(protect_of(&header).keyless.is_none() && !header.upstreams[0].fresh_connections);
}

#[test]
fn the_place_that_the_config_names_stands_for_that_of_the_profile() {
    let text = upstream(
        "    profile: stripe-v1\n    key: { query: k }\n    effects:\n      - on: POST /x\n",
    );
    let key = protect_of(&good(&text)).insert.key.clone().unwrap();
    assert_eq!(
        (key.slot.to_string().as_str(), key.longest),
        ("query k", Some(255))
    );
}

/// What is looked for and was never sent is never found, and that would be taken for a proof.
#[test]
fn a_question_names_only_what_goes_along() {
    let asked = |what: &str, inserted: &str| {
        let step = format!(
            "settle: [ {{ look_up: {{ get: \"/x?r={what}\", not_applied: \"size(response.body) == 0\", lag: 1m }} }} ]"
        );
        with(
            "key: { header: K, lifetime: 24h }",
            &format!("{inserted}\n{step}"),
        )
        .replace(
            "capability: [idempotent]",
            "capability: [idempotent, query]",
        )
    };
    let reference = "{operation.reference}";
    let digest = "reference: [ { json: /op } ]";
    let kept = "reference: [ { json: /op, if_present: keep } ]";
    let id = "reference: [ { json: /op, value: \"{operation.id}\" } ]";
    let kept_id = "reference: [ { json: /op, value: \"{operation.id}\", if_present: keep } ]";
    let two = "reference: [ { json: /op }, { json: /p, if_present: keep } ]";
    for (what, inserted) in [
        (reference, digest),
        // Asked for only where it went along.
        (reference, kept),
        ("{operation.id}", id),
        ("{operation.id}", digest),
        ("{operation.key}", "reference: []"),
        ("{body.order}", "reference: []"),
    ] {
        good(&asked(what, inserted));
    }
    for (what, inserted, part) in [
        (reference, "reference: []", "into no request"),
        (reference, id, "into no request"),
        (reference, two, "several places"),
        ("{operation.id}", kept_id, "use `operation.reference`"),
    ] {
        refused_for(&asked(what, inserted), part);
    }
    // Wherever it is named: in a condition too, and in what undoes.
    let in_condition = asked("{body.order}", "reference: []").replace(
        "size(response.body) == 0",
        "response.body.r != operation.reference",
    );
    refused_for(&in_condition, "into no request");
    let undone = asked("{body.order}", "reference: []").replace(
        "settle: [ ",
        "settle: [ { void: { post: /v, form: { r: \"{operation.reference}\" }, done: \"true\", lag: 1m } }, ",
    );
    refused_for(&undone, "into no request");
    let keyless = asked("{operation.key}", "reference: []")
        .replace("    key: { header: K, lifetime: 24h }\n", "")
        .replace("[idempotent, query]", "[query]");
    refused_for(&keyless, "it has no `key`");
}
