//! The README's two minutes with many sidecars, as they are written there.
//!
//! What always holds: what runs is the page's own text, but for addresses and the place of the binary; the
//! page says what it prints, to the letter.
//!
//! `FENCEPOST_WALK_THROUGH=write tests/run --test it walk_through` writes it into the page.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::servers::shared;
use crate::support::ports::{folder, free};

const BINARY: &str = env!("CARGO_BIN_EXE_fencepost");

/// The demo in its other terminal.
struct Demo {
    child: Child,
    /// It ends if it cannot print.
    _terminal: Lines<BufReader<ChildStdout>>,
    provider: String,
}

impl Demo {
    fn start() -> Self {
        let mut child = Command::new(BINARY)
            .arg("demo")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut terminal = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut line = || terminal.next().unwrap().unwrap();
        let provider = loop {
            if let Some(rest) = line().strip_prefix("A payment provider is at") {
                break rest.split_whitespace().next().unwrap().to_owned();
            }
        };
        while !line().starts_with("Still serving") {}
        Self {
            child,
            _terminal: terminal,
            provider,
        }
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let id = i32::try_from(self.child.id()).unwrap();
        let _ = kill_process(Pid::from_raw(id).unwrap(), Signal::INT);
        let _ = self.child.wait();
    }
}

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
    let demo = Demo::start();

    let printed = printed(script, &demo.provider);

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
