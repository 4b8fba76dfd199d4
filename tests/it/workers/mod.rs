//! Alice and Bob: workers as processes of their own, to be frozen as a real pause would freeze them.
//!
//! What always holds: a worker has made up its mind (read its token, prepared its request) before it
//! says "ready"; it sends when told to, or as soon as it thaws; it neither retries nor looks again.

use std::io::Write;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::gate::until;
use crate::support::python::{Dialogue, python};

/// The kernel counts the starts of processes in hundredths of a second.
const TWO_TICKS: Duration = Duration::from_millis(20);

/// A running worker.
pub struct Worker {
    dialogue: Dialogue,
}

/// What a worker saw.
#[derive(Debug)]
pub struct Seen {
    pub status: u16,
    pub body: String,
}

impl Worker {
    /// Starts one that is going to send `body`, as JSON, under `token`.
    pub fn ready(target: SocketAddr, request: &str, token: &str, body: &str) -> Self {
        let mut command = python("it/workers/worker.py");
        command.args([&target.to_string(), request, token, body]);
        Self::started(command)
    }

    /// Starts one that says "ready" by itself.
    pub fn started(command: Command) -> Self {
        let mut dialogue = Dialogue::start(command);
        assert_eq!(dialogue.line(), "ready");
        Self { dialogue }
    }

    /// Kill -9, now. Whoever starts after it has another start by the kernel's count, which is in ticks: within the same
    /// one nobody can say who was there first.
    pub fn kill(&mut self) {
        self.dialogue.child.kill().unwrap();
        self.dialogue.child.wait().unwrap();
        let gone = Instant::now();
        until("the kernel counts on", || gone.elapsed() > TWO_TICKS);
    }

    /// Freezes it (SIGSTOP); returns when the kernel has.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
        let stat = format!("/proc/{}/stat", self.dialogue.child.id());
        until("the worker is stopped", || {
            let text = std::fs::read_to_string(&stat).unwrap();
            text.rsplit(") ").next().unwrap().starts_with('T')
        });
    }

    /// Lets it go on where it was.
    pub fn wake(&self) {
        self.signal(Signal::CONT);
    }

    /// Tells it to send. A frozen worker does so when it wakes.
    pub fn go(&mut self) {
        self.dialogue.hears.write_all(b"go\n").unwrap();
    }

    /// Tells it what to do, where it is one that is told.
    pub fn tell(&mut self, line: &str) {
        let line = format!("{line}\n");
        self.dialogue.hears.write_all(line.as_bytes()).unwrap();
    }

    /// What it got for an answer.
    pub fn seen(&mut self) -> Seen {
        let line = self.line();
        Seen {
            status: status(&line),
            body: line["body"].as_str().unwrap().to_owned(),
        }
    }

    /// The status that it was left with.
    pub fn status(&mut self) -> u16 {
        status(&self.line())
    }

    fn line(&mut self) -> Value {
        serde_json::from_str(&self.dialogue.line()).unwrap()
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.dialogue.child.id()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }
}

fn status(line: &Value) -> u16 {
    u16::try_from(line["status"].as_u64().unwrap()).unwrap()
}

mod tests {
    use super::Worker;
    use crate::support::upstream::{Keys, Upstream};

    #[test]
    fn a_frozen_worker_sends_nothing_until_it_wakes() {
        let upstream = Upstream::start(Keys::Ignored);
        let mut alice = Worker::ready(upstream.address(), "PUT /statements/1", "107", "{}");
        let mut bob = Worker::ready(upstream.address(), "PUT /statements/1", "108", "{}");
        alice.pause();
        alice.go();
        bob.go();
        assert_eq!(bob.seen().status, 201);
        assert_eq!(upstream.effects().len(), 1, "Alice is frozen");
        alice.wake();
        let seen = alice.seen();
        assert_eq!(
            (seen.status, seen.body.as_str()),
            (201, r#"{"id":"effect-2"}"#)
        );
        let tokens: Vec<_> = upstream
            .effects()
            .iter()
            .map(|it| it.head.fields.first("fencing-token").map(str::to_owned))
            .collect();
        assert_eq!(tokens, [Some("108".to_owned()), Some("107".to_owned())]);
    }
}
