//! The README's two minutes with many sidecars, as they are written there.
//!
//! What always holds: what runs is the page's own text, but for addresses and the place of the binary; the
//! page says what it prints, to the letter.
//!
//! `FENCEPOST_WALK_THROUGH=write tests/run --test it walk_through` writes it into the page.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use crate::servers::shared;
use crate::support::demo::Demo;
use crate::support::ports::{folder, free};

const BINARY: &str = env!("CARGO_BIN_EXE_fencepost");

const MARK: &str = "<!-- walk-through: run by `tests/run --test it walk_through` -->\n";

/// What stands before a fenced text of that language, the text, and what stands after it.
fn around<'a>(page: &'a str, language: &str) -> (&'a str, &'a str, &'a str) {
    let fence = format!("```{language}\n");
    let from = page.find(&fence).expect("the page has that block") + fence.len();
    let (before, rest) = page.split_at(from);
    let (text, after) = rest.split_at(rest.find("```").expect("the block ends"));
    (before, text, after)
}

/// The page's ports lie next to each other; these are free.
fn elsewhere(script: &str) -> String {
    let mut arrays = String::new();
    let mut script = script.to_owned();
    for port in ["1500", "1501", "1502"] {
        writeln!(arrays, "port{port}=(none {} {})", free(), free()).unwrap();
        for which in ["$n", "$1"] {
            script = script.replace(
                &format!("{port}{which}"),
                &format!("${{port{port}[{which}]}}"),
            );
        }
    }
    format!("set -eu\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{arrays}{script}")
}

fn printed(script: &str, provider: &str) -> String {
    let room = folder();
    let release = room.path().join("target/release");
    std::fs::create_dir_all(&release).unwrap();
    std::os::unix::fs::symlink(BINARY, release.join("fencepost")).unwrap();
    let database = shared().database();
    let ran = Command::new("bash")
        .args(["-c", &elsewhere(script)])
        .current_dir(room.path())
        .env("DATABASE_URL", database.url())
        .env("PROVIDER", provider)
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{complaint}");
    String::from_utf8(ran.stdout).unwrap()
}

#[test]
fn the_pages_walk_through_prints_what_the_page_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (intro, rest) = page.split_once(MARK).expect("the page has its mark");
    let (_, script, after) = around(rest, "sh");
    // In its other terminal.
    let mut demo = Demo::start();
    let told = demo.line_with("A payment provider is at");
    let provider = told
        .split_whitespace()
        .find(|word| word.starts_with("http"));
    demo.line_with("Still serving");

    let printed = printed(script, provider.unwrap());

    let (before, said, end) = around(after, "text");
    if std::env::var("FENCEPOST_WALK_THROUGH").is_ok_and(|it| it == "write") {
        let upto = rest.len() - after.len();
        let page = format!("{intro}{MARK}{}{before}{printed}{end}", &rest[..upto]);
        std::fs::write(path, page).unwrap();
        return;
    }
    assert!(
        printed == said,
        "the README says\n{said}\nand this was printed\n{printed}\n\
         If that is right: FENCEPOST_WALK_THROUGH=write tests/run --test it walk_through"
    );
}
