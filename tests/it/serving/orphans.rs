//! Servers of a test process that was killed.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use crate::servers::daemon::is_left;
use crate::servers::waiting::until;
use crate::servers::{Bouncer, Pool, Postgres, Settings};

/// Set for the test process that is to be killed.
const ROLE: &str = "FENCEPOST_TEST_TO_BE_KILLED";

/// The test plays both: itself, and the process that it starts to kill.
#[test]
fn nothing_outlives_a_test_process_that_is_killed() {
    if std::env::var_os(ROLE).is_some() {
        wait_to_be_killed();
    }
    let mut doomed = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture"])
        .arg("serving::orphans::nothing_outlives_a_test_process_that_is_killed")
        .env(ROLE, "")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(doomed.stdout.take().unwrap()).lines();
    let left: Vec<String> = lines
        .map(Result::unwrap)
        .skip_while(|line| line != "left:")
        .skip(1)
        .take_while(|line| line != "that is all")
        .collect();
    assert!(left.len() > 5, "{left:?}");
    assert!(left.iter().all(|it| is_left(it)), "{left:?}");

    doomed.kill().unwrap();
    doomed.wait().unwrap();

    for trace in left {
        until(&format!("{trace} is gone"), || !is_left(&trace));
    }
}

/// Says what it would leave: processes and folders; one server frozen, and with a disk of its own.
fn wait_to_be_killed() {
    let mut server = Postgres::start_with(&Settings::default().on_a_small_disk(80));
    let bouncer = Bouncer::start(server.address(), Pool::default());
    server.freeze();
    let mut out = std::io::stdout();
    writeln!(out, "left:").unwrap();
    for trace in server.traces().into_iter().chain(bouncer.traces()) {
        writeln!(out, "{trace}").unwrap();
    }
    writeln!(out, "that is all").unwrap();
    let _ = std::io::stdin().read_line(&mut String::new());
}
