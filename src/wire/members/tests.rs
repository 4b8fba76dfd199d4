//! Which member differs: names, never values.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;

use super::*;

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";
const PARTS: &str = "multipart/form-data; boundary=X";

#[derive(Clone, Copy)]
struct Sent<'a> {
    method: &'a str,
    target: &'a str,
    kind: &'static str,
    content: &'a str,
}

fn post<'a>(kind: &'static str, content: &'a str) -> Sent<'a> {
    Sent {
        method: "POST",
        target: "/a?x=1&y=2",
        kind,
        content,
    }
}

fn key() -> FingerprintKey {
    FingerprintKey::new(&[3; 32])
}

fn with<T>(sent: Sent<'_>, look: impl FnOnce(&Canonical<'_>) -> T) -> T {
    let kind = HeaderValue::from_static(sent.kind);
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, kind)]);
    let content = sent.content.as_bytes();
    look(&Canonical::of(sent.method, sent.target, &headers, content).unwrap())
}

fn kept(sent: Sent<'_>) -> Members {
    with(sent, |canonical| members(&key(), canonical))
}

fn told(first: Sent<'_>, second: Sent<'_>) -> String {
    let kept = kept(first);
    with(second, |canonical| differences(&key(), canonical, &kept)).join(", ")
}

/// B28: what differs, in the words of the config.
#[test]
fn the_member_that_differs_is_named() {
    let json = r#"{"amount":5,"card":{"number":"4242"},"items":[1,2]}"#;
    let first = post(JSON, json);
    for (second, names) in [
        (
            r#"{"amount":6,"card":{"number":"4242"},"items":[1,2]}"#,
            "json /amount",
        ),
        (
            r#"{"amount":5,"card":{"number":"4243"},"items":[1,3]}"#,
            "json /card/number, json /items/1",
        ),
        (
            r#"{"amount":5,"card":{"number":"4242"},"items":[1,2],"new":1}"#,
            "json /new",
        ),
        (r#"{"amount":5,"card":{"number":"4242"}}"#, LACKING),
        ("{}", "json"),
    ] {
        assert_eq!(told(first, post(JSON, second)), names, "{second}");
    }
    assert_eq!(
        told(
            first,
            Sent {
                method: "PUT",
                ..first
            }
        ),
        "method"
    );
    assert_eq!(
        told(
            first,
            Sent {
                target: "/b?x=1&y=2",
                ..first
            }
        ),
        "path"
    );
    assert_eq!(
        told(
            first,
            Sent {
                target: "/a?x=1&y=3",
                ..first
            }
        ),
        "query y"
    );
    let form = post(FORM, "a=1&b=2&i[]=3&i[]=4");
    assert_eq!(told(form, post(FORM, "a=1&b=3&i[]=3&i[]=4")), "form b");
    assert_eq!(told(form, post(FORM, "a=1&b=2&i[]=4&i[]=3")), "form i");
    let part = |name: &str, content: &str| {
        format!("--X\r\nContent-Disposition: form-data; name={name}\r\n\r\n{content}\r\n")
    };
    let file = |content: &str| format!("{}{}--X--", part("a", "1"), part("f", content));
    let (one, other) = (file("one"), file("other"));
    assert_eq!(told(post(PARTS, &one), post(PARTS, &other)), "part f");
    assert_eq!(
        told(post("text/plain", "1"), post("text/plain", "2")),
        CONTENT
    );
}

#[test]
fn of_unreadable_content_only_that_it_differs_is_told() {
    let (json, text) = (post(JSON, r#"{"a":1}"#), post("text/plain", "1"));
    assert_eq!(told(json, text), CONTENT);
}

#[test]
fn of_a_record_without_members_nothing_is_told() {
    let first = Members::default();
    let told = with(post(JSON, "1"), |canonical| {
        differences(&key(), canonical, &first)
    });
    assert!(told.is_empty());
}

/// Many values: by their outermost members. Too many of those: only what every request has.
#[test]
fn what_is_kept_is_bounded() {
    let list = |from: usize| {
        (from..from + 100)
            .map(|n| n.to_string())
            .collect::<Vec<_>>()
            .join(",")
    };
    let many =
        |from: usize, amount: u8| format!(r#"{{"amount":{amount},"items":[{}]}}"#, list(from));
    let (first, items, amount) = (many(0, 1), many(1, 1), many(0, 2));
    let few = kept(post(JSON, &first));
    assert_eq!((few.grain, few.digests.len()), (Grain::Outermost, 2 + 4));
    assert_eq!(told(post(JSON, &first), post(JSON, &items)), "json /items");
    assert_eq!(
        told(post(JSON, &first), post(JSON, &amount)),
        "json /amount"
    );
    // Fewer values than the first had, told by the same grain.
    assert_eq!(
        told(post(JSON, &first), post(JSON, r#"{"amount":1,"items":[]}"#)),
        "json /items"
    );
    let flat = format!("[{}]", list(0));
    let other = format!("[{}]", list(1));
    let kept = kept(post(JSON, &flat));
    assert_eq!((kept.grain, kept.digests.len()), (Grain::Head, 4));
    assert_eq!(told(post(JSON, &flat), post(JSON, &other)), CONTENT);
    assert_eq!(told(post(JSON, &flat), post(JSON, "[0]")), CONTENT);
    let large = format!(r#"{{"text":"{}"}}"#, "t".repeat(LARGEST));
    assert_eq!(told(post(JSON, &large), post(JSON, "{}")), CONTENT);
    assert_eq!(told(post(JSON, "{}"), post(JSON, &large)), CONTENT);
    let endless = format!("[{}1]", "1,".repeat(MOST_COMPARED));
    assert_eq!(told(post(JSON, "[1]"), post(JSON, &endless)), CONTENT);
    let names: Vec<String> = (0..20).map(|n| format!(r#""m{n}":1"#)).collect();
    let wide = format!("{{{}}}", names.join(","));
    let none = told(post(JSON, "{}"), post(JSON, &wide));
    assert_eq!(none.split(", ").count(), MOST_TOLD);
    let long = format!(r#"{{"{}":1}}"#, "n".repeat(1_000));
    assert_eq!(
        told(post(JSON, "{}"), post(JSON, &long)).len(),
        "json ".len() + LONGEST_NAME
    );
}

#[test]
fn digests_say_nothing_without_the_key() {
    let sent = post(JSON, r#"{"card":"4242"}"#);
    let other = with(sent, |canonical| {
        members(&FingerprintKey::new(&[4; 32]), canonical)
    });
    let own = kept(sent);
    assert!(own.digests.iter().all(|digest| !other.contain(*digest)));
    // The same value under two names is two digests.
    let both = kept(post(JSON, r#"{"a":"4242","b":"4242"}"#));
    let mut distinct = both.digests.to_vec();
    distinct.dedup();
    assert_eq!(distinct.len(), 2 + 4);
}

proptest! {
    /// Change one value: it is named, no value is, and nothing else is.
    #[test]
    fn exactly_the_changed_member_is_named(
        values in prop::collection::btree_map("[a-z/~\"]{1,6}", 0_u32..1_000_000, 1..20),
        which in any::<prop::sample::Index>(),
    ) {
        let write = |values: &std::collections::BTreeMap<String, u32>| {
            serde_json::to_string(values).unwrap()
        };
        let first = write(&values);
        let mut changed = values.clone();
        let name = values.keys().nth(which.index(values.len())).unwrap().clone();
        changed.insert(name.clone(), 1_000_000 + values[&name]);
        let second = write(&changed);
        let pointer = name.replace('~', "~0").replace('/', "~1");
        prop_assert_eq!(told(post(JSON, &first), post(JSON, &second)), format!("json /{pointer}"));
    }
}
