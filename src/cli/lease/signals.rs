//! What others tell this process, for the command.
//!
//! What always holds: from the moment it listens no signal of these ends this process; each is told once.
//!
//! What it does not do: SIGKILL and SIGSTOP, which nobody can listen for.

use rustix::process::Signal;
use tokio::signal::unix::{Signal as Arriving, SignalKind, signal};

pub(super) struct Signals {
    term: Arriving,
    interrupt: Arriving,
    hang_up: Arriving,
    quit: Arriving,
    first: Arriving,
    second: Arriving,
}

impl Signals {
    pub(super) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            term: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
            quit: signal(SignalKind::quit())?,
            first: signal(SignalKind::user_defined1())?,
            second: signal(SignalKind::user_defined2())?,
        })
    }

    pub(super) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.term.recv() => Signal::TERM,
            _ = self.interrupt.recv() => Signal::INT,
            _ = self.hang_up.recv() => Signal::HUP,
            _ = self.quit.recv() => Signal::QUIT,
            _ = self.first.recv() => Signal::USR1,
            _ = self.second.recv() => Signal::USR2,
        }
    }
}
