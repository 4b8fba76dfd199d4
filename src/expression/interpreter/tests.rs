//! That an expression cannot hurt: depth, size, work, panics; and that integers are exact.

use bytes::Bytes;
use http::{HeaderMap, Method};
use proptest::prelude::*;

use super::*;
use crate::expression::{AnswerFacts, PathParams, RequestFacts, WhyMissing};

fn facts<'a>(body: &'a [u8], params: &'a PathParams, headers: &'a HeaderMap) -> RequestFacts<'a> {
    RequestFacts {
        method: &Method::POST,
        raw_path: "/",
        path: params,
        query: None,
        headers,
        body,
        token: None,
        operation: None,
    }
}

fn text(source: &str, body: &[u8]) -> Result<String, WhyMissing> {
    let program = Program::compile(source, Root::OF_REQUEST, 0).unwrap();
    let (params, headers) = (PathParams::default(), HeaderMap::new());
    let facts = facts(body, &params, &headers);
    let scope = Scope::of_request(&program.references().iter(), &facts);
    program.text(&scope.map_err(|missing| missing.why)?)
}

fn refused(source: &str) -> String {
    Program::compile(source, Root::OF_REQUEST, 0)
        .unwrap_err()
        .message
}

#[test]
fn hostile_nesting_is_refused_before_it_is_parsed_or_run() {
    for (open, close) in [
        ("(", ")"),
        ("[", "]"),
        ("{1: ", "}"),
        ("size(", ")"),
        ("!", ""),
        ("-", ""),
    ] {
        for depth in [40, 120, 500, 2_000] {
            let source = format!("{}1{}", open.repeat(depth), close.repeat(depth));
            // Signs cancel each other out and make no depth, but then the types are wrong.
            let _either = Program::compile(&source, Root::OF_REQUEST, 0);
        }
    }
    let deep = |part: &str, depth: usize| format!("{}body.a", part.repeat(depth));
    assert!(refused(&deep("1 + ", 40)).contains("nested deeper"));
    assert!(refused(&deep("true ? 1 : ", 40)).contains("nested deeper"));
    assert!(refused(&format!("body{}", ".a".repeat(40))).contains("nested deeper"));
    assert!(refused(&format!("body{}", "[0]".repeat(40))).contains("nested deeper"));
    assert!(refused(&format!("{}body.a{}", "[".repeat(40), "]".repeat(40))).contains("nested"));
    assert!(refused(&format!("{}body.a{}", "(".repeat(900), ")".repeat(900))).contains("nested"));
    assert!(refused(&"a".repeat(2_049)).contains("longer than 2048"));
    let loops = "[1].all(x, ".repeat(3) + "true" + &")".repeat(3);
    assert!(refused(&loops).contains("within each other"));
    assert!(refused(&format!("[1]{}", ".map(x, x)".repeat(5))).contains("more than 4 loops"));
    assert!(refused(&vec!["'a'"; 18].join(" + ")).contains("additions"));
}

#[test]
fn the_deepest_that_is_accepted_runs_on_half_of_a_threads_usual_stack() {
    let depth = super::limits::DEEPEST - 1;
    let sources = [
        format!("body{}", ".a".repeat(depth)),
        format!("body{} == 1", "[0]".repeat(depth - 1)),
        format!("{}1{} == [1]", "[".repeat(depth - 2), "]".repeat(depth - 2)),
        format!("{}true", "false ? true : ".repeat(depth)),
        format!("{}'a'{}", "string(".repeat(depth), ")".repeat(depth)),
        format!("{}1", "1 - ".repeat(depth)),
    ];
    let programs = sources.map(
        |source| match Program::compile(&source, Root::OF_REQUEST, 0) {
            Ok(program) => program,
            Err(error) => panic!("{source}: {error}"),
        },
    );
    // As deep as any JSON gets.
    let body = format!("{}1{}", "[".repeat(120), "]".repeat(120));
    let running = std::thread::Builder::new()
        .stack_size(1 << 20)
        .spawn(move || {
            for program in &programs {
                let (params, headers) = (PathParams::default(), HeaderMap::new());
                let facts = facts(body.as_bytes(), &params, &headers);
                let scope = Scope::of_request(&program.references().iter(), &facts).unwrap();
                let _whatever = program.text(&scope);
            }
        });
    running.unwrap().join().unwrap();
}

#[test]
fn deep_json_is_unreadable() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(
        text("size(body) == 1", nested(100).as_bytes()).as_deref(),
        Ok("true")
    );
    for depth in [200, 100_000] {
        let why = text("size(body) == 1", nested(depth).as_bytes());
        assert_eq!(why, Err(WhyMissing::Unreadable), "{depth}");
        let unclosed = "{\"a\":".repeat(depth);
        assert_eq!(
            text("body.a == 1", unclosed.as_bytes()),
            Err(WhyMissing::Unreadable)
        );
    }
}

#[test]
fn work_is_bounded_before_it_begins() {
    let list = |length: usize| format!("[{}0]", "0,".repeat(length));
    let once = "body.exists(i, i == 1)";
    let twice = "body.exists(i, body.exists(j, i + j == 1))";
    assert_eq!(text(once, list(5_000).as_bytes()).as_deref(), Ok("false"));
    assert_eq!(text(twice, list(80).as_bytes()).as_deref(), Ok("false"));
    assert_eq!(
        text(twice, list(5_000).as_bytes()),
        Err(WhyMissing::TooMuch)
    );
    assert_eq!(
        text(once, list(80_000).as_bytes()),
        Err(WhyMissing::TooMuch)
    );
    // Each turn would go through a long text.
    let long = format!("[{}\"{}\"]", "0,".repeat(2_000), "x".repeat(500_000));
    let searched = "body.exists(i, body[2000].contains('y'))";
    assert_eq!(text(searched, long.as_bytes()), Err(WhyMissing::TooMuch));
    assert_eq!(
        text("body[2000].contains('y')", long.as_bytes()).as_deref(),
        Ok("false")
    );
    // Each loop would double the text.
    let doubling = format!("[body]{}[0]", ".map(x, x + x + x + x)".repeat(4));
    let many = format!("\"{}\"", "x".repeat(100_000));
    assert_eq!(text(&doubling, many.as_bytes()), Err(WhyMissing::TooMuch));
}

/// Until the first byte that differs, two integers beyond 2^53 are one for a double.
#[test]
fn integers_are_exact() {
    for (body, expected) in [
        ("9007199254740993", "9007199254740993"),
        ("9223372036854775807", "9223372036854775807"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("9223372036854775808", "9223372036854775808"),
        ("18446744073709551615", "18446744073709551615"),
    ] {
        assert_eq!(
            text("string(body)", body.as_bytes()).as_deref(),
            Ok(expected)
        );
    }
    assert_eq!(
        text("body + 1", b"9007199254740993").as_deref(),
        Ok("9007199254740994")
    );
    let equal = text("body == 9007199254740992", b"9007199254740993");
    assert_eq!(equal.as_deref(), Ok("false"));
    assert_eq!(
        text("string(body)", b"18446744073709551616"),
        Err(WhyMissing::Inexact)
    );
    assert_eq!(text("[body][0]", b"1.0"), Err(WhyMissing::NotScalar));
    assert_eq!(text("body == 1.5 ? 'y' : 'n'", b"1.5").as_deref(), Ok("y"));
}

#[test]
fn a_panic_of_the_interpreter_is_a_value_that_cannot_be_had() {
    // The hook would write to the output of the tests.
    struct Panics;
    impl std::fmt::Debug for Panics {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("Panics")
        }
    }
    impl cel::common::value::Val for Panics {
        fn get_type(&self) -> &cel::common::types::Type {
            panic!("on purpose")
        }
        fn cel_type() -> &'static cel::common::types::Type {
            panic!("on purpose")
        }
        fn clone_as_boxed<'v>(&self) -> Box<dyn cel::common::value::Val + 'v>
        where
            Self: 'v,
        {
            Box::new(Self)
        }
    }
    let program = Program::compile("body.a + body.b", Root::OF_REQUEST, 0).unwrap();
    let scope = Scope::with_body(Box::new(Panics));
    assert_eq!(program.text(&scope), Err(WhyMissing::Failed));
}

#[test]
fn what_is_not_named_is_not_read() {
    // Not JSON, and nobody asked.
    assert_eq!(text("'a' + 'b'", b"not json").as_deref(), Ok("ab"));
    let facts = AnswerFacts {
        status: 200,
        fields: &[(Bytes::from_static(b"a"), Bytes::from_static(b"\xff"))],
        body: Some(b"not json"),
    };
    let program = Program::compile("response.status == 200", Root::OF_ANSWER, 0).unwrap();
    let scope = Scope::of_answer(&program.references().iter(), &facts).unwrap();
    assert_eq!(program.holds(&scope), Ok(true));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Whatever stands in a config, and whatever a request brings, there is a value or a reason.
    #[test]
    fn nothing_panics(
        source in "(body|headers|path|[a-z0-9 .+*/<>=!&|?:,'\"\\[\\](){}é-]){0,40}",
        body in "[\\[\\]{}:,\"a-c0-9.e+ -]{0,40}",
    ) {
        if let Ok(program) = Program::compile(&source, Root::OF_REQUEST, 0) {
            let (params, headers) = (PathParams::default(), HeaderMap::new());
            let facts = facts(body.as_bytes(), &params, &headers);
            if let Ok(scope) = Scope::of_request(&program.references().iter(), &facts) {
                let _whatever = program.text(&scope);
            }
        }
    }

    #[test]
    fn every_integer_keeps_its_digits(signed in any::<i64>(), unsigned in any::<u64>()) {
        for integer in [signed.to_string(), unsigned.to_string()] {
            prop_assert_eq!(text("[body][0]", integer.as_bytes()), Ok(integer));
        }
    }
}
