//! A slow network between two parties: a relay whose bytes the test can hold back or lose.
//!
//! What always holds: bytes that the link has accepted stay in it, in order, and arrive when they
//! are released, also if the sender has hung up or died since: as packets on a real network would.
//! One thread owns both sockets of a connection, so that a reset is a reset.
//!
//! What it does not do: understand HTTP.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// A relay to one address.
pub struct Link {
    address: SocketAddr,
    mood: Arc<Mood>,
}

#[derive(Default)]
struct Mood {
    /// Requests on connections up to this number stay in the link.
    requests_held_up_to: AtomicUsize,
    answers_held: AtomicBool,
    in_link: AtomicUsize,
    answers_to_lose: AtomicUsize,
    answers_lost: AtomicUsize,
    connections: AtomicUsize,
    /// Connections up to this number are cut.
    cut_up_to: AtomicUsize,
    stopping: AtomicBool,
    /// Every request byte that was let out, whatever became of it.
    passed_on: Mutex<Vec<u8>>,
    /// The same for answers.
    passed_back: Mutex<Vec<u8>>,
}

impl Link {
    /// Starts one; it passes everything on until told otherwise.
    pub fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let mood = Arc::new(Mood::default());
        let shared = Arc::clone(&mood);
        thread::spawn(move || {
            for caller in listener.incoming().flatten() {
                if shared.stopping.load(Ordering::SeqCst) {
                    return;
                }
                // Refused over there is a close here.
                let Ok(server) = TcpStream::connect(target) else {
                    continue;
                };
                let mood = Arc::clone(&shared);
                let number = mood.connections.fetch_add(1, Ordering::SeqCst) + 1;
                thread::spawn(move || Pair::new(caller, server).run(number, &mood));
            }
        });
        Self { address, mood }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on requests stay in the link.
    pub fn hold_requests(&self) {
        self.hold_requests_up_to(usize::MAX);
    }

    /// From now on requests on the connections that exist stay in the link; those on later
    /// connections overtake them.
    pub fn hold_requests_on_open_connections(&self) {
        self.hold_requests_up_to(self.connections());
    }

    /// Lets them arrive.
    pub fn release_requests(&self) {
        self.hold_requests_up_to(0);
    }

    fn hold_requests_up_to(&self, number: usize) {
        let held = &self.mood.requests_held_up_to;
        held.store(number, Ordering::SeqCst);
    }

    /// From now on answers stay in the link.
    pub fn hold_answers(&self) {
        self.mood.answers_held.store(true, Ordering::SeqCst);
    }

    /// Lets them arrive.
    pub fn release_answers(&self) {
        self.mood.answers_held.store(false, Ordering::SeqCst);
    }

    /// Request bytes that are in the link now.
    pub fn request_bytes_held(&self) -> usize {
        self.mood.in_link.load(Ordering::SeqCst)
    }

    /// The next answer that begins to arrive is thrown away and its caller's connection reset.
    pub fn lose_next_answer(&self) {
        self.mood.answers_to_lose.fetch_add(1, Ordering::SeqCst);
    }

    /// Resets every connection that is open now, on both sides.
    pub fn cut_callers(&self) {
        let all = self.mood.connections.load(Ordering::SeqCst);
        self.mood.cut_up_to.store(all, Ordering::SeqCst);
    }

    /// How many connections were ever made through it.
    pub fn connections(&self) -> usize {
        self.mood.connections.load(Ordering::SeqCst)
    }

    /// Every request byte that it has passed on, as text.
    pub fn passed_on(&self) -> String {
        String::from_utf8_lossy(&self.mood.passed_on.lock().unwrap()).into_owned()
    }

    /// Every answer byte that it has passed back, as text.
    pub fn passed_back(&self) -> String {
        String::from_utf8_lossy(&self.mood.passed_back.lock().unwrap()).into_owned()
    }

    /// How many answers were thrown away.
    pub fn answers_lost(&self) -> usize {
        self.mood.answers_lost.load(Ordering::SeqCst)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.mood.stopping.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

impl Mood {
    fn takes_answer_to_lose(&self) -> bool {
        self.answers_to_lose
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                left.checked_sub(1)
            })
            .is_ok()
    }
}

struct Pair {
    up: Direction,
    down: Direction,
}

struct Direction {
    from: Arc<TcpStream>,
    to: Arc<TcpStream>,
    inside: VecDeque<u8>,
    ended: bool,
    end_passed_on: bool,
}

impl Pair {
    fn new(caller: TcpStream, server: TcpStream) -> Self {
        for stream in [&caller, &server] {
            stream.set_nonblocking(true).unwrap();
            stream.set_nodelay(true).unwrap();
        }
        let (caller, server) = (Arc::new(caller), Arc::new(server));
        Self {
            up: Direction::new(&caller, &server),
            down: Direction::new(&server, &caller),
        }
    }

    fn run(mut self, number: usize, mood: &Mood) {
        let mut counted = 0;
        while !mood.stopping.load(Ordering::SeqCst) && !self.over() {
            let mut moved = self.up.take_in();
            let now = self.up.inside.len();
            mood.in_link.fetch_add(now, Ordering::SeqCst);
            mood.in_link.fetch_sub(counted, Ordering::SeqCst);
            counted = now;
            if number > mood.requests_held_up_to.load(Ordering::SeqCst) {
                moved |= self.up.let_out(&mood.passed_on);
            }
            moved |= self.down.take_in();
            if number <= mood.cut_up_to.load(Ordering::SeqCst) {
                self.resets();
                break;
            }
            if !self.down.inside.is_empty() && mood.takes_answer_to_lose() {
                self.resets();
                mood.answers_lost.fetch_add(1, Ordering::SeqCst);
                break;
            }
            if !mood.answers_held.load(Ordering::SeqCst) {
                moved |= self.down.let_out(&mood.passed_back);
            }
            if !moved {
                thread::sleep(Duration::from_micros(300));
            }
        }
        mood.in_link.fetch_sub(counted, Ordering::SeqCst);
    }

    /// Both sockets end in a reset when they are dropped.
    fn resets(&self) {
        for stream in [&self.up.from, &self.up.to] {
            let _ = socket2::SockRef::from(&**stream).set_linger(Some(Duration::ZERO));
        }
    }

    fn over(&self) -> bool {
        self.down.end_passed_on && (self.up.end_passed_on || self.up.inside.is_empty())
    }
}

impl Direction {
    fn new(from: &Arc<TcpStream>, to: &Arc<TcpStream>) -> Self {
        Self {
            from: Arc::clone(from),
            to: Arc::clone(to),
            inside: VecDeque::new(),
            ended: false,
            end_passed_on: false,
        }
    }

    /// Accepts what has come; `true` if that was anything.
    fn take_in(&mut self) -> bool {
        if self.ended {
            return false;
        }
        let mut piece = [0; 16_384];
        match (&*self.from).read(&mut piece) {
            Ok(0) => self.ended = true,
            Ok(count) => self.inside.extend(&piece[..count]),
            Err(fault) if is_idle(&fault) => return false,
            Err(_) => self.ended = true,
        }
        true
    }

    /// Passes on what is inside, and the end after it; `true` if that was anything.
    fn let_out(&mut self, passed: &Mutex<Vec<u8>>) -> bool {
        let (front, _) = self.inside.as_slices();
        if front.is_empty() {
            let ends = self.ended && !self.end_passed_on;
            if ends {
                let _ = self.to.shutdown(Shutdown::Write);
                self.end_passed_on = true;
            }
            return ends;
        }
        match (&*self.to).write(front) {
            Ok(count) => {
                passed.lock().unwrap().extend(&front[..count]);
                self.inside.drain(..count);
            }
            Err(fault) if is_idle(&fault) => return false,
            // Nobody is there any more: what is left has nowhere to go.
            Err(_) => {
                self.inside.clear();
                self.ended = true;
                self.end_passed_on = true;
            }
        }
        true
    }
}

fn is_idle(fault: &io::Error) -> bool {
    matches!(fault.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
