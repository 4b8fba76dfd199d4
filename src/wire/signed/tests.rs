//! Signatures as their inventors show them, and everything that is not one.

use http::HeaderValue;
use ring::hmac;

use super::*;
use crate::config::Secret;

const NOW: Duration = Duration::from_secs(1_614_265_330);

fn rule(scheme: Scheme, secrets: &[&str]) -> Signature {
    Signature {
        scheme,
        secrets: secrets.iter().map(|secret| Secret::new(*secret)).collect(),
        tolerance: Duration::from_secs(300),
    }
}

fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in all {
        headers.append(*name, HeaderValue::from_str(value).unwrap());
    }
    headers
}

fn hex_hmac(secret: &str, text: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, text.as_bytes());
    let digits = tag.as_ref().iter();
    digits.fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
}

/// The example of GitHub's documentation.
#[test]
fn githubs_own_example_is_proven() {
    let sent = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    let rule = rule(Scheme::GitHub, &["It's a Secret to Everybody"]);
    let signed = headers(&[("x-hub-signature-256", sent)]);
    assert_eq!(verify(&rule, &signed, b"Hello, World!", NOW), Ok(()));
    let upper = headers(&[(
        "x-hub-signature-256",
        &sent.to_uppercase().replace("SHA", "sha"),
    )]);
    assert_eq!(verify(&rule, &upper, b"Hello, World!", NOW), Ok(()));
    assert_eq!(
        verify(&rule, &signed, b"Hello, World?", NOW),
        Err(Unproven::Forged)
    );
    let twice = headers(&[("x-hub-signature-256", sent), ("x-hub-signature-256", sent)]);
    assert_eq!(
        verify(&rule, &twice, b"Hello, World!", NOW),
        Err(Unproven::Unsigned)
    );
    let none = headers(&[]);
    assert_eq!(
        verify(&rule, &none, b"Hello, World!", NOW),
        Err(Unproven::Unsigned)
    );
    for broken in [
        "757107ea",
        "sha256=",
        "sha256=7",
        "sha256=zz",
        "sha1=757107ea",
    ] {
        let sent = headers(&[("x-hub-signature-256", broken)]);
        let refused = verify(&rule, &sent, b"Hello, World!", NOW);
        assert!(refused.is_err(), "{broken}");
    }
}

/// The example of the Standard Webhooks libraries.
#[test]
fn the_standards_own_example_is_proven() {
    const BODY: &[u8] = br#"{"test": 2432232314}"#;
    let rule = rule(
        Scheme::Standard,
        &["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
    );
    let sent = |prefix: &str, signature: &str| {
        let mut all = HeaderMap::new();
        for (suffix, value) in [
            ("id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
            ("timestamp", "1614265330"),
            ("signature", signature),
        ] {
            let name = http::HeaderName::try_from(format!("{prefix}-{suffix}")).unwrap();
            all.append(name, HeaderValue::from_str(value).unwrap());
        }
        all
    };
    let own = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    let others = own.replace("g0", "h0");
    for prefix in ["webhook", "svix"] {
        assert_eq!(verify(&rule, &sent(prefix, own), BODY, NOW), Ok(()));
        let among = format!("v1a,AAAA v1,AAAA {own}");
        assert_eq!(verify(&rule, &sent(prefix, &among), BODY, NOW), Ok(()));
        let wrong = verify(&rule, &sent(prefix, &others), BODY, NOW);
        assert_eq!(wrong, Err(Unproven::Forged));
        let other = verify(&rule, &sent(prefix, "v1a,AAAA"), BODY, NOW);
        assert_eq!(other, Err(Unproven::Unsigned));
    }
}

#[test]
fn stripes_scheme_signs_the_time() {
    const BODY: &str = r#"{"id":"evt_1"}"#;
    let rule = rule(Scheme::Stripe, &["whsec_new", "whsec_old"]);
    let at = |time: u64, secret: &str| {
        let tag = hex_hmac(secret, &format!("{time}.{BODY}"));
        headers(&[("stripe-signature", &format!("t={time},v1={tag},v0=00"))])
    };
    let now = NOW.as_secs();
    for secret in ["whsec_new", "whsec_old"] {
        for time in [now - 300, now, now + 300] {
            let verdict = verify(&rule, &at(time, secret), BODY.as_bytes(), NOW);
            assert_eq!(verdict, Ok(()), "{time}");
        }
        for time in [now - 301, now + 301, 0] {
            let verdict = verify(&rule, &at(time, secret), BODY.as_bytes(), NOW);
            assert_eq!(verdict, Err(Unproven::OutOfTime), "{time}");
        }
    }
    let stranger = verify(&rule, &at(now, "whsec_other"), BODY.as_bytes(), NOW);
    assert_eq!(stranger, Err(Unproven::Forged));
    // The time is signed: a fresh one put over an old signature is a forgery.
    let old = hex_hmac("whsec_new", &format!("{}.{BODY}", now - 9_000));
    for header in [
        format!("t={now},v1={old}"),
        format!("t={},t={now},v1={old}", now - 9_000),
        format!("v1={old}"),
        format!("t={now}"),
        format!("t={now},v0={old}"),
        String::from("nonsense"),
        vec!["v1=00"; 40].join(","),
    ] {
        let sent = headers(&[("stripe-signature", &header)]);
        assert!(
            verify(&rule, &sent, BODY.as_bytes(), NOW).is_err(),
            "{header}"
        );
    }
}

#[test]
fn an_hmac_in_a_header_is_read_as_configured() {
    let scheme = |digest, encoding, timestamp: Option<&'static str>| {
        Scheme::Hmac(HmacHeader {
            header: http::HeaderName::from_static("x-sig"),
            digest,
            encoding,
            prefix: "v=".to_owned(),
            timestamp: timestamp.map(http::HeaderName::from_static),
        })
    };
    for (digest, algorithm) in [
        (HmacDigest::Sha1, hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY),
        (HmacDigest::Sha256, hmac::HMAC_SHA256),
        (HmacDigest::Sha512, hmac::HMAC_SHA512),
    ] {
        let sign = |text: &str| hmac::sign(&hmac::Key::new(algorithm, b"s3cret"), text.as_bytes());
        let bare = rule(scheme(digest, HmacEncoding::Base64, None), &["s3cret"]);
        let sent = format!("v={}", BASE64.encode(sign("body")));
        let sent = headers(&[("x-sig", &sent)]);
        assert_eq!(verify(&bare, &sent, b"body", NOW), Ok(()));
        assert_eq!(verify(&bare, &sent, b"Body", NOW), Err(Unproven::Forged));

        let timed = rule(
            scheme(digest, HmacEncoding::Base64, Some("x-time")),
            &["s3cret"],
        );
        let at = |time: &str| {
            let sent = format!("v={}", BASE64.encode(sign(&format!("{time}.body"))));
            verify(
                &timed,
                &headers(&[("x-sig", &sent), ("x-time", time)]),
                b"body",
                NOW,
            )
        };
        assert_eq!(at("1614265330"), Ok(()));
        assert_eq!(at("1614260000"), Err(Unproven::OutOfTime));
        assert_eq!(at("+1614265330"), Err(Unproven::Unreadable));
        assert_eq!(at("soon"), Err(Unproven::Unreadable));
        assert_eq!(verify(&timed, &sent, b"body", NOW), Err(Unproven::Unsigned));
    }
}
