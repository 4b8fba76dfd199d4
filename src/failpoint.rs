//! Failpoints: named places where a crash test may kill the process.
//!
//! What always holds: without the cargo feature `failpoints` every call is empty. With it,
//! `FENCEPOST_FAILPOINT=name` or `name:n` kills the process with SIGKILL at the n-th passage (the
//! first by default), as a power cut would: no destructor runs. `name:n:freeze` stops it there with
//! SIGSTOP, as a suspended machine would stand still, until somebody continues it. `name:n:block` blocks whoever
//! comes by there, for ever; all others go on.
//!
//! What it does not do: return errors, or exist in a release.

/// Dies or freezes here if the environment names this place.
#[cfg(feature = "failpoints")]
pub fn pass(name: &str) {
    armed::pass(name);
}

/// Nothing: failpoints are not compiled in.
#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub fn pass(_name: &str) {}

#[cfg(feature = "failpoints")]
mod armed {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use rustix::process::{Signal, getpid, kill_process};

    static ARMED: LazyLock<Option<Armed>> = LazyLock::new(|| {
        #[expect(
            clippy::disallowed_methods,
            reason = "a test-only switch, not configuration"
        )]
        let text = std::env::var("FENCEPOST_FAILPOINT").ok()?;
        Armed::parse(&text)
    });
    static PASSAGES: AtomicU64 = AtomicU64::new(0);

    /// Within this, a signal has stopped every thread.
    const REACHES_ALL: Duration = Duration::from_millis(100);

    struct Armed {
        name: String,
        nth: u64,
        how: How,
    }

    #[derive(Clone, Copy, PartialEq, Eq)]
    enum How {
        Dies,
        Freezes,
        Blocks,
    }

    impl Armed {
        fn parse(text: &str) -> Option<Self> {
            let mut parts = text.split(':');
            let name = parts.next()?.to_owned();
            let nth = parts.next().map_or(Ok(1), str::parse).ok()?;
            let how = match parts.next() {
                None => How::Dies,
                Some("freeze") => How::Freezes,
                Some("block") => How::Blocks,
                Some(_) => return None,
            };
            Some(Self { name, nth, how })
        }
    }

    pub(super) fn pass(name: &str) {
        let Some(armed) = &*ARMED else { return };
        if armed.name != name || PASSAGES.fetch_add(1, Ordering::SeqCst) + 1 != armed.nth {
            return;
        }
        match armed.how {
            How::Dies => {
                let _ = kill_process(getpid(), Signal::KILL);
            }
            How::Freezes => {
                let _ = kill_process(getpid(), Signal::STOP);
                // The signal is on its way; nothing more may happen here before it has reached every thread.
                std::thread::sleep(REACHES_ALL);
                return;
            }
            How::Blocks => {}
        }
        loop {
            std::thread::park();
        }
    }
}
