//! The demo, in a terminal of its own.
//!
//! What always holds: it is ended as a person would, by an interrupt, so that it takes what it started with it.
//!
//! What it does not do: play it once (`demo --once` is a command like any other).

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// A demo that goes on serving.
pub struct Demo {
    child: Child,
    /// It ends if it cannot print.
    terminal: Lines<BufReader<ChildStdout>>,
}

impl Demo {
    pub fn start() -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_fencepost"))
            .arg("demo")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let terminal = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, terminal }
    }

    /// The next line with this text in it.
    pub fn line_with(&mut self, text: &str) -> String {
        loop {
            let line = self.terminal.next().expect("the demo goes on").unwrap();
            if line.contains(text) {
                return line;
            }
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
