//! What somebody signed is never changed: nothing is put in, or it is refused.

use super::*;

const SIGNED: [(&str, &str); 12] = [
    ("signature", "sig1=:YQ==:"),
    ("signature-input", "sig1=()"),
    ("digest", "SHA-256=YQ=="),
    ("content-digest", "sha-256=:YQ==:"),
    ("repr-digest", "sha-256=:YQ==:"),
    ("content-md5", "YQ=="),
    ("x-amz-content-sha256", "UNSIGNED-PAYLOAD"),
    (
        "authorization",
        "AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=host, Signature=c",
    ),
    ("authorization", "AWS AKIA:c2ln"),
    ("authorization", "hawk id=\"1\""),
    ("authorization", "OAuth oauth_signature=\"c\""),
    ("x-own-signature", "abc"),
];

#[test]
fn a_signed_request_is_refused_or_left_alone_but_never_changed() {
    let listed = vec![HeaderName::from_static("x-own-signature")];
    let with = |insert: Insert, signed| Insert {
        signed,
        signatures: listed.clone(),
        ..insert
    };
    for (name, value) in SIGNED {
        for (slot, kind, body) in [
            (pointer("/key"), JSON, "{}"),
            (form("key"), FORM, "a=1"),
            (query("key"), JSON, "{}"),
        ] {
            let sent = request("/p", &[("content-type", kind), (name, value)], body);
            let derived = || rule(slot.clone(), KeyValue::Derived);
            refuses(&with(derived(), Signed::Unexpected), &sent, "signed");
            let left = fill(&with(derived(), Signed::LeftAlone), &sent, "k").unwrap();
            assert_eq!((left.request, left.keyless), (sent.clone(), true), "{name}");
            let referring = referring(slot.clone(), IfPresent::Refuse);
            refuses(
                &with(referring.clone(), Signed::Unexpected),
                &sent,
                "signed",
            );
            let left = fill(&with(referring, Signed::LeftAlone), &sent, "k").unwrap();
            assert_eq!((left.request, left.keyless), (sent, false), "{name}");
        }
        // A header covers nothing, and a key of the caller's own is signed with all the rest.
        let own = request(
            "/p",
            &[("content-type", JSON), (name, value)],
            r#"{"key":"k"}"#,
        );
        for signed in [Signed::Unexpected, Signed::LeftAlone, Signed::Always] {
            let header = Slot::Header(HeaderName::from_static("k"));
            let filled = fill(&with(rule(header, KeyValue::Derived), signed), &own, "k").unwrap();
            assert_eq!((filled.request, filled.keyless), (own.clone(), false));
            assert_eq!(filled.field.unwrap().1, DERIVED);
            let callers = with(rule(pointer("/key"), KeyValue::Caller), signed);
            let filled = fill(&callers, &own, "k").unwrap();
            assert_eq!((filled.request, filled.keyless), (own.clone(), false));
        }
    }
    let presigned = request("/p?X-Amz-Signature=c", &[("content-type", JSON)], "{}");
    refuses(
        &rule(pointer("/key"), KeyValue::Derived),
        &presigned,
        "signed",
    );
    // Declared, whatever it shows.
    let plain = typed(JSON, "{}");
    let declared = with(rule(pointer("/key"), KeyValue::Derived), Signed::Always);
    refuses(&declared, &plain, "`signed: true`");
    for (name, value) in [
        ("authorization", "Bearer aws4-x"),
        ("authorization", "Basic aws"),
    ] {
        let plain = request("/p", &[("content-type", JSON), (name, value)], "{}");
        assert!(fill(&rule(pointer("/key"), KeyValue::Derived), &plain, "k").is_ok());
    }
}
