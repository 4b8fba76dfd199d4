//! The tokenizer and the canonical form of JSON: equal meaning, equal form, and nothing else.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn form(text: &str) -> String {
    String::from_utf8(canonical(text.as_bytes()).unwrap()).unwrap()
}

fn same(one: &str, other: &str) -> bool {
    canonical(one.as_bytes()).unwrap() == canonical(other.as_bytes()).unwrap()
}

/// B05: what a second serialisation of the same object may look like, and what is another one.
#[test]
fn the_documented_table_of_equal_and_unequal_texts() {
    let first = r#"{"a":1,"b":2}"#;
    for equal in [
        r#"{"b":2,"a":1}"#,
        "{ \"a\":1,\n\t\"b\" : 2 }\r\n",
        r#"{"\u0061":1,"\u0062":2}"#,
    ] {
        assert!(same(first, equal), "{equal}");
    }
    for other in [
        r#"{"a":1.0,"b":2}"#,
        r#"{"a":1e0,"b":2}"#,
        r#"{"a":"1","b":2}"#,
        r#"{"a":1,"b":2,"c":null}"#,
        r#"{"A":1,"b":2}"#,
        r#"[{"a":1,"b":2}]"#,
        r#"{"a":{"b":2}}"#,
    ] {
        assert!(!same(first, other), "{other}");
    }
    assert!(!same("[9007199254740993]", "[9007199254740992]"));
    assert!(!same("[1,2]", "[2,1]"));
    assert!(!same("[[1],2]", "[1,[2]]"));
    assert!(!same(r#"["é"]"#, r#"["e\u0301"]"#), "no normalisation");
}

#[test]
fn the_form_reads_as_json() {
    assert_eq!(
        form("{ \"b\" : [ 1 , { } , [ ] ] , \"a\" : { \"z\" : null , \"y\" : true } }"),
        r#"{"a":{"y":true,"z":null},"b":[1,{},[]]}"#
    );
    assert_eq!(form(r#" "a\/\"\\\u0022\u005c" "#), r#""a/\"\\\"\\""#);
    assert_eq!(form("\"\\n\\u0000\""), "\"\n\0\"");
}

#[test]
fn repeated_members_are_refused_however_they_are_written() {
    for text in [
        r#"{"a":1,"a":1,"b":2}"#,
        r#"{"a":1,"b":2,"\u0061":3}"#,
        r#"[{"x":{"\ud83d\ude00":1,"😀":2}}]"#,
        r#"{"":0,"":0}"#,
    ] {
        let error = canonical(text.as_bytes()).unwrap_err();
        assert!(
            matches!(error, JsonError::DuplicateMember { .. }),
            "{text}: {error}"
        );
    }
}

#[test]
fn surrogates_pair_up_or_stay_exact() {
    assert!(same(r#""\ud83d\ude00""#, "\"😀\""));
    assert!(same(r#""\uD83D\uDE00""#, r#""\ud83d\ude00""#));
    for lone in [
        r#""\ud83d""#,
        r#""\ude00""#,
        r#""\ude00\ud83d""#,
        r#""\ud83dx""#,
    ] {
        assert!(!same(lone, "\"\u{FFFD}\""), "{lone}");
        assert!(!same(lone, r#""\ud83d\ude00""#), "{lone}");
    }
    assert!(!same(r#""\ud83d""#, r#""\ud83e""#));
    assert!(same(r#""\ud83d\u0041""#, r#""\ud83dA""#));
    assert_eq!(
        canonical(br#""\ud83d\uZZZZ""#),
        Err(JsonError::Malformed { at: 9 })
    );
}

#[test]
fn what_is_not_rfc_8259_is_refused() {
    for text in [
        "",
        " ",
        "{",
        "}",
        "[",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{\"a\":1,}",
        "{a:1}",
        "{\"a\" 1}",
        "{\"a\":}",
        "{'a':1}",
        "01",
        "-",
        "-01",
        "+1",
        ".5",
        "1.",
        "1e",
        "1e+",
        "0x1",
        "NaN",
        "Infinity",
        "tru",
        "truex",
        "nul",
        "\"",
        "\"a",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12G4\"",
        "\"\t\"",
        "\"\n\"",
        "1 1",
        "{} {}",
        "/**/1",
        "\u{A0}1",
        "\0",
    ] {
        assert!(canonical(text.as_bytes()).is_err(), "{text:?}");
    }
    for text in ["0", "-0", "1.5e-7", "1E+400", "\"\"", "null", "[[]]"] {
        assert_eq!(form(text), text);
    }
    assert_eq!(canonical(b"\xEF\xBB\xBF{}"), Err(JsonError::ByteOrderMark));
    assert_eq!(canonical(b"\"\xFF\""), Err(JsonError::NotUtf8 { at: 1 }));
}

#[test]
fn nesting_ends_at_its_limit_and_not_in_a_stack_overflow() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(canonical(nested(128).as_bytes()).is_ok());
    assert!(matches!(
        canonical(nested(129).as_bytes()),
        Err(JsonError::TooDeep { at: 128 })
    ));
    assert!(canonical("[".repeat(1_000_000).as_bytes()).is_err());
    assert!(canonical("{\"a\":".repeat(1_000_000).as_bytes()).is_err());
}

/// A value, apart from how it is written.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Word(&'static str),
    Number(String),
    Text(Vec<u16>),
    List(Vec<Value>),
    Members(BTreeMap<Vec<u16>, Value>),
}

fn text() -> impl Strategy<Value = Vec<u16>> {
    let unit = prop_oneof![
        4 => 0x61_u16..0x64,
        1 => Just(0x22_u16),
        1 => Just(0x5C_u16),
        1 => 0_u16..0x20,
        1 => 0xD800_u16..0xE000,
        1 => any::<u16>(),
    ];
    prop::collection::vec(unit, 0..4)
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        prop::sample::select(vec!["true", "false", "null"]).prop_map(Value::Word),
        prop::sample::select(vec!["0", "1", "1.0", "1e0", "-1", "10"])
            .prop_map(|token| Value::Number(token.to_owned())),
        text().prop_map(Value::Text),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::List),
            prop::collection::btree_map(text(), inner, 0..4).prop_map(Value::Members),
        ]
    })
}

/// One of the many ways to write a value; `choices` decides which.
fn write(value: &Value, choices: &mut impl Iterator<Item = u8>, out: &mut String) {
    let blank = |choices: &mut dyn Iterator<Item = u8>| {
        ["", " ", "\n", "\t \r"][usize::from(choices.next().unwrap() % 4)]
    };
    out.push_str(blank(choices));
    match value {
        Value::Word(word) => out.push_str(word),
        Value::Number(token) => out.push_str(token),
        Value::Text(units) => write_text(units, choices, out),
        Value::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                write(item, choices, out);
            }
            out.push(']');
        }
        Value::Members(members) => {
            let mut members: Vec<_> = members.iter().collect();
            for index in (1..members.len()).rev() {
                let other = usize::from(choices.next().unwrap()) % (index + 1);
                members.swap(index, other);
            }
            out.push('{');
            for (index, (name, member)) in members.into_iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                out.push_str(blank(choices));
                write_text(name, choices, out);
                out.push_str(blank(choices));
                out.push(':');
                write(member, choices, out);
            }
            out.push('}');
        }
    }
    out.push_str(blank(choices));
}

fn write_text(units: &[u16], choices: &mut impl Iterator<Item = u8>, out: &mut String) {
    out.push('"');
    for decoded in char::decode_utf16(units.iter().copied()) {
        let choice = choices.next().unwrap();
        match decoded {
            Ok(plain)
                if choice.is_multiple_of(2) && plain >= ' ' && plain != '"' && plain != '\\' =>
            {
                out.push(plain);
            }
            Ok(escaped) => {
                let mut room = [0; 2];
                for unit in escaped.encode_utf16(&mut room) {
                    let digits = format!("{unit:04x}");
                    out.push_str("\\u");
                    out.push_str(&if choice.is_multiple_of(3) {
                        digits.to_uppercase()
                    } else {
                        digits
                    });
                }
            }
            Err(lone) => {
                let digits = format!("\\u{:04x}", lone.unpaired_surrogate());
                out.push_str(&digits);
            }
        }
    }
    out.push('"');
}

fn written(value: &Value, choices: &[u8]) -> Vec<u8> {
    let mut out = String::new();
    write(value, &mut choices.iter().copied().cycle(), &mut out);
    canonical(out.as_bytes()).unwrap_or_else(|error| panic!("{out}: {error}"))
}

proptest! {
    /// Equal meaning, equal form — and different meaning, different form.
    #[test]
    fn forms_are_equal_exactly_if_the_values_are(
        one in value(),
        other in value(),
        choices in prop::collection::vec(any::<u8>(), 1..40),
        more in prop::collection::vec(any::<u8>(), 1..40),
    ) {
        prop_assert_eq!(written(&one, &choices), written(&one, &more));
        prop_assert_eq!(
            written(&one, &choices) == written(&other, &more),
            one == other
        );
    }

    #[test]
    fn no_bytes_make_it_panic_and_its_form_is_its_own_form(
        bytes in prop::collection::vec(
            prop_oneof![prop::sample::select(b"{}[]\",:\\u0d8e1-+.tn ".to_vec()), any::<u8>()],
            0..48,
        )
    ) {
        if let Ok(form) = canonical(&bytes)
            && form.iter().all(|&byte| byte >= 0x20 && byte != 0xED)
        {
            prop_assert_eq!(canonical(&form), Ok(form.clone()));
        }
    }
}
