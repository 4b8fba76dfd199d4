//! Ports that belong to one test alone.
//!
//! What always holds: a port given out here lies below the range that the kernel takes for outgoing
//! connections, so that it is still free when a server is started a second time.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

const FIRST: u32 = 12_000;
const COUNT: u32 = 18_000;

/// A port on which nobody listens, not given out before by this process.
pub fn free() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        // Another run of the tests at the same time begins elsewhere.
        let start = std::process::id().wrapping_mul(97);
        let port = u16::try_from(FIRST + start.wrapping_add(step) % COUNT).unwrap();
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no free port between {FIRST} and {}", FIRST + COUNT);
}
