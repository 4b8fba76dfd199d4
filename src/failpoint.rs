//! Failpoints: named places where a crash test may kill the process.
//!
//! What always holds: without the cargo feature `failpoints` every call is empty. With it,
//! `FENCEPOST_FAILPOINT=name` or `name:n` kills the process with SIGKILL at the n-th passage (the
//! first by default), as a power cut would: no destructor runs.
//!
//! What it does not do: return errors, delay, or exist in a release.

/// Dies here if the environment names this place.
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

    static ARMED: LazyLock<Option<(String, u64)>> = LazyLock::new(|| {
        #[expect(
            clippy::disallowed_methods,
            reason = "a test-only switch, not configuration"
        )]
        let text = std::env::var("FENCEPOST_FAILPOINT").ok()?;
        match text.split_once(':') {
            Some((name, nth)) => Some((name.to_owned(), nth.parse().ok()?)),
            None => Some((text, 1)),
        }
    });
    static PASSAGES: AtomicU64 = AtomicU64::new(0);

    pub(super) fn pass(name: &str) {
        let Some((armed, nth)) = &*ARMED else { return };
        if armed == name && PASSAGES.fetch_add(1, Ordering::SeqCst) + 1 == *nth {
            let own = rustix::process::getpid();
            let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
            // The signal is on its way; nothing more may happen here.
            loop {
                std::thread::park();
            }
        }
    }
}
