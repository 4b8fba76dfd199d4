//! However long a file is, reading it takes time in proportion.

use rustix::time::{ClockId, clock_gettime};

/// As long as the operator API lets a config be, or longer than any.
const LENGTH: usize = 1 << 20;

/// Seconds of processor time, in a build without optimisation. What took the square of the length took
/// minutes.
const LIMIT: i64 = 20;

fn repeated(first: &str, line: impl Fn(usize) -> String) -> String {
    let mut text = first.to_owned();
    let mut number = 0;
    while text.len() < LENGTH {
        text += &line(number);
        number += 1;
    }
    text
}

fn shapes() -> Vec<(&'static str, String)> {
    let upstream = "version: 1\nupstreams:\n  u:\n    listen: 127.0.0.1:1\n    \
                    url: http://127.0.0.1:2\n    capability: [opaque]\n    effects:\n";
    let effect = |number: usize| {
        let name = "n".repeat(200);
        format!("      - on: POST /{number}/{name}\n        once: \"{{path.x}}-{number}\"\n")
    };
    vec![
        ("keys", repeated("", |number| format!("k{number}: 1\n"))),
        ("a line of texts", repeated("a: [", |_| "x, ".to_owned())),
        ("lines of texts", repeated("a:\n", |_| "- x\n".to_owned())),
        ("maps", repeated("a:\n", |_| "- { x: y }\n".to_owned())),
        (
            "blanks in a text",
            repeated("a: \"\\n", |_| " ".repeat(64)) + "\"",
        ),
        (
            "lines in a text",
            repeated("a: \"", |_| "\n\n x".to_owned()) + "\"",
        ),
        ("a block", repeated("a: >\n", |_| "  x\n\n".to_owned())),
        ("a text", repeated("a: ", |_| "x".to_owned())),
        (
            "texts with lines",
            repeated("a:\n", |_| format!("- \"\\n{}\n  x\"\n", " ".repeat(1_000))),
        ),
        ("a key", repeated("", |_| "k".to_owned()) + ": 1\n"),
        ("brackets", "[".repeat(LENGTH)),
        ("comments", repeated("", |_| "# x\n".to_owned())),
        ("effects", repeated(upstream, effect)),
        (
            "unknown fields",
            repeated("version: 1\nupstreams:\n", |number| {
                format!("  u{number}: {{ a: 1, b: 2 }}\n")
            }),
        ),
    ]
}

#[test]
fn reading_takes_time_in_proportion_to_the_length() {
    let used = || clock_gettime(ClockId::ThreadCPUTime).tv_sec;
    for (what, text) in shapes() {
        let before = used();
        let _read = crate::config::parse_without_secrets(&text, "long.yaml");
        let took = used() - before;
        assert!(took <= LIMIT, "{what}: {took} s");
    }
}
