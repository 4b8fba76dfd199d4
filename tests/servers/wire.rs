//! The network between clients and a server: a relay that stalls, delays, cuts, and loses the answer to
//! a chosen statement.
//!
//! What always holds: bytes arrive in order, and those that it holds back are kept; where some have vanished,
//! none follow. A cut is a reset on both sides, never an orderly end. An answer is lost only once the server has given it whole.
//!
//! What it does not do: choose statements inside TLS; all else works there too.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};

use socket2::SockRef;

use super::conversation::{Conversation, Fate, Passed};
use super::waiting::until;

/// A relay to one address at a time.
#[derive(Debug)]
pub struct Wire {
    address: SocketAddr,
    line: Arc<Line>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    ToServer,
    ToClient,
}

#[derive(Debug)]
struct Line {
    mood: Mutex<Mood>,
    changed: Condvar,
}

#[derive(Debug)]
struct Mood {
    target: SocketAddr,
    refusing: bool,
    refused: usize,
    stopping: bool,
    to_server: Lane,
    to_client: Lane,
    chosen: Option<Chosen>,
    instead: Vec<(Vec<u8>, Vec<u8>)>,
    lost: usize,
    made: usize,
    open: HashMap<usize, Weak<Connection>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    stalled: bool,
    swallowing: bool,
    delay: Duration,
}

/// The statement after `before` others that contain `text`.
#[derive(Debug)]
struct Chosen {
    text: Vec<u8>,
    before: usize,
    fate: Fate,
}

impl Wire {
    /// Starts one; it passes everything on until told otherwise.
    pub fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let line = Arc::new(Line {
            mood: Mutex::new(Mood::new(target)),
            changed: Condvar::new(),
        });
        let shared = Arc::clone(&line);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if shared.mood.lock().unwrap().stopping {
                    return;
                }
                Connection::open(client, &shared);
            }
        });
        Self { address, line }
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections made from now on lead there.
    pub fn lead_to(&self, target: SocketAddr) {
        self.change(|mood| mood.target = target);
    }

    /// From now on bytes in that direction stay in the wire, ends of connections too; the other
    /// direction goes on.
    pub fn stall(&self, direction: Direction) {
        self.change(|mood| mood.lane(direction).stalled = true);
    }

    /// Lets them arrive.
    pub fn release(&self, direction: Direction) {
        self.change(|mood| mood.lane(direction).stalled = false);
    }

    /// From now on bytes in that direction vanish, ends of connections too, while the other direction goes on. A
    /// connection that something has vanished from is half open for good: nothing gets through there any more.
    pub fn swallow(&self, direction: Direction) {
        self.change(|mood| mood.lane(direction).swallowing = true);
    }

    /// The same from the next statement on that contains this text, which is the first to vanish.
    pub fn swallow_from(&self, text: &str) {
        self.choose(text, 1, Fate::Swallowed);
    }

    /// New connections carry everything again.
    pub fn carry_again(&self) {
        self.change(|mood| {
            mood.to_server.swallowing = false;
            mood.to_client.swallowing = false;
        });
    }

    /// From now on bytes in that direction take so long, however many are under way.
    pub fn delay(&self, direction: Direction, by: Duration) {
        self.change(|mood| mood.lane(direction).delay = by);
    }

    /// Resets every connection that is open now, and returns when they are gone.
    pub fn cut(&self) {
        let open: Vec<_> = self.change(|mood| mood.open.values().cloned().collect());
        for connection in open.iter().filter_map(Weak::upgrade) {
            connection.cut(&self.line);
        }
        until("the connections are cut", || {
            open.iter().all(|it| it.strong_count() == 0)
        });
    }

    /// From now on new connections are reset at once.
    pub fn refuse(&self) {
        self.change(|mood| mood.refusing = true);
    }

    /// Lets them through again.
    pub fn accept(&self) {
        self.change(|mood| mood.refusing = false);
    }

    /// The next statement that contains this text, in whatever case, is run by the server; its answer is
    /// swallowed, and the connection is cut.
    pub fn lose_answer_to(&self, text: &str) {
        self.choose(text, 1, Fate::AnswerLost);
    }

    /// The same for the n-th statement from now, whatever it says; the next one is the first.
    pub fn lose_answer_number(&self, n: usize) {
        self.choose("", n, Fate::AnswerLost);
    }

    /// The next statement that contains this text never reaches the server, and the connection is cut:
    /// to the client the same as a lost answer.
    pub fn lose(&self, text: &str) {
        self.choose(text, 1, Fate::Lost);
    }

    /// From now on the server is sent that other text, of equal length, wherever a client says this one: as a
    /// client of another version would.
    pub fn say_instead(&self, text: &str, other: &str) {
        assert_eq!(text.len(), other.len(), "messages keep their lengths");
        self.change(|mood| mood.instead.push((text.into(), other.into())));
    }

    /// How many statements or answers were lost.
    pub fn lost(&self) -> usize {
        self.line.mood.lock().unwrap().lost
    }

    /// How many connections were ever made through it.
    pub fn connections(&self) -> usize {
        self.line.mood.lock().unwrap().made
    }

    /// How many were reset as soon as they were made.
    pub fn refused(&self) -> usize {
        self.line.mood.lock().unwrap().refused
    }

    /// How many are open now.
    pub fn open_connections(&self) -> usize {
        let mood = self.line.mood.lock().unwrap();
        let open = mood.open.values();
        open.filter(|it| it.strong_count() > 0).count()
    }

    fn choose(&self, text: &str, n: usize, fate: Fate) {
        let chosen = Chosen {
            text: text.as_bytes().to_vec(),
            before: n.checked_sub(1).expect("the first statement is number 1"),
            fate,
        };
        self.change(|mood| mood.chosen = Some(chosen));
    }

    fn change<T>(&self, how: impl FnOnce(&mut Mood) -> T) -> T {
        let changed = how(&mut self.line.mood.lock().unwrap());
        self.line.changed.notify_all();
        changed
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        let open: Vec<_> = self.change(|mood| {
            mood.stopping = true;
            mood.open.values().filter_map(Weak::upgrade).collect()
        });
        for connection in open {
            connection.cut(&self.line);
        }
        let _ = TcpStream::connect(self.address);
    }
}

impl Mood {
    fn new(target: SocketAddr) -> Self {
        Self {
            target,
            refusing: false,
            refused: 0,
            stopping: false,
            to_server: Lane::default(),
            to_client: Lane::default(),
            chosen: None,
            instead: Vec::new(),
            lost: 0,
            made: 0,
            open: HashMap::new(),
        }
    }

    fn lane(&mut self, direction: Direction) -> &mut Lane {
        match direction {
            Direction::ToServer => &mut self.to_server,
            Direction::ToClient => &mut self.to_client,
        }
    }

    /// What becomes of the statement that says this.
    fn fate(&mut self, statement: &[u8]) -> Fate {
        let Some(chosen) = &mut self.chosen else {
            return Fate::Answered;
        };
        if !contains(statement, &chosen.text) {
            return Fate::Answered;
        }
        if let Some(left) = chosen.before.checked_sub(1) {
            chosen.before = left;
            return Fate::Answered;
        }
        let fate = chosen.fate;
        self.chosen = None;
        fate
    }
}

fn replace(bytes: &mut [u8], text: &[u8], other: &[u8]) {
    for at in 0..(bytes.len() + 1).saturating_sub(text.len()) {
        if bytes[at..].starts_with(text) {
            bytes[at..at + text.len()].copy_from_slice(other);
        }
    }
}

fn contains(statement: &[u8], text: &[u8]) -> bool {
    text.is_empty()
        || statement
            .windows(text.len())
            .any(|it| it.eq_ignore_ascii_case(text))
}

/// Both sockets; four threads hold it, and the last one closes them.
#[derive(Debug)]
struct Connection {
    client: TcpStream,
    server: TcpStream,
    conversation: Mutex<Conversation>,
    is_cut: AtomicBool,
    /// Something has vanished on its way there.
    deaf_server: AtomicBool,
    deaf_client: AtomicBool,
}

/// Bytes under way, and when they arrive at the earliest.
type Packet = (Instant, Vec<u8>);

/// Packets that a lane holds before its sender has to wait, as a network would make him.
const IN_FLIGHT: usize = 64;

/// How often a blocked writer looks whether it was cut.
const LOOK: Duration = Duration::from_millis(20);

impl Connection {
    fn open(client: TcpStream, line: &Arc<Line>) {
        let (target, refusing) = {
            let mood = line.mood.lock().unwrap();
            (mood.target, mood.refusing)
        };
        let server = TcpStream::connect(target);
        let (Ok(server), false) = (server, refusing) else {
            line.mood.lock().unwrap().refused += 1;
            let _ = SockRef::from(&client).set_linger(Some(Duration::ZERO));
            return;
        };
        for stream in [&client, &server] {
            stream.set_nodelay(true).unwrap();
            stream.set_write_timeout(Some(LOOK)).unwrap();
        }
        let connection = Arc::new(Self {
            client,
            server,
            conversation: Mutex::default(),
            is_cut: AtomicBool::new(false),
            deaf_server: AtomicBool::new(false),
            deaf_client: AtomicBool::new(false),
        });
        {
            let mut mood = line.mood.lock().unwrap();
            mood.made += 1;
            let number = mood.made;
            mood.open.retain(|_, it| it.strong_count() > 0);
            mood.open.insert(number, Arc::downgrade(&connection));
        }
        for direction in [Direction::ToServer, Direction::ToClient] {
            let (sender, receiver) = sync_channel(IN_FLIGHT);
            let (reader, writer) = (Arc::clone(&connection), Arc::clone(&connection));
            let (at_reader, at_writer) = (Arc::clone(line), Arc::clone(line));
            thread::spawn(move || reader.take_in(direction, &sender, &at_reader));
            thread::spawn(move || writer.let_out(direction, &receiver, &at_writer));
        }
    }

    fn ends(&self, direction: Direction) -> (&TcpStream, &TcpStream) {
        match direction {
            Direction::ToServer => (&self.client, &self.server),
            Direction::ToClient => (&self.server, &self.client),
        }
    }

    /// Reads until the end, or until it is cut.
    fn take_in(&self, direction: Direction, sender: &SyncSender<Packet>, line: &Line) {
        let (mut from, _) = self.ends(direction);
        let mut piece = [0; 16_384];
        loop {
            let count = match from.read(&mut piece) {
                Err(fault) if fault.kind() == ErrorKind::Interrupted => continue,
                Ok(0) | Err(_) => return,
                Ok(count) => count,
            };
            let lane = *line.mood.lock().unwrap().lane(direction);
            if lane.swallowing {
                self.deafen(direction);
            }
            if self.is_deaf(direction) {
                continue;
            }
            let passed = self.hear(direction, &piece[..count], line);
            if passed.is_swallowed {
                self.deafen(direction);
            }
            if passed.ends_here {
                line.mood.lock().unwrap().lost += 1;
                self.cut(line);
            }
            let packet = (Instant::now() + lane.delay, passed.bytes);
            if self.is_cut() || sender.send(packet).is_err() {
                return;
            }
        }
    }

    fn hear(&self, direction: Direction, bytes: &[u8], line: &Line) -> Passed {
        let mut conversation = self.conversation.lock().unwrap();
        match direction {
            Direction::ToServer => {
                let fate = |statement: &[u8]| line.mood.lock().unwrap().fate(statement);
                let mut passed = conversation.hear_client(bytes, fate);
                for (text, other) in &line.mood.lock().unwrap().instead {
                    replace(&mut passed.bytes, text, other);
                }
                passed
            }
            Direction::ToClient => conversation.hear_server(bytes),
        }
    }

    /// Writes what was read, each when it is due, and passes the end on.
    fn let_out(&self, direction: Direction, receiver: &Receiver<Packet>, line: &Line) {
        let (_, to) = self.ends(direction);
        for (due, bytes) in receiver {
            if !self.may_go(direction, due, line) || !self.write(to, &bytes) {
                return;
            }
        }
        let swallowing = line.mood.lock().unwrap().lane(direction).swallowing;
        let is_passed_on = !swallowing && !self.is_deaf(direction);
        if is_passed_on && self.may_go(direction, Instant::now(), line) {
            let _ = to.shutdown(Shutdown::Write);
        }
    }

    /// Waits until it is due and the lane is free; `false`: it is cut.
    fn may_go(&self, direction: Direction, due: Instant, line: &Line) -> bool {
        let mut mood = line.mood.lock().unwrap();
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if self.is_cut() {
                return false;
            }
            mood = if mood.lane(direction).stalled {
                line.changed.wait(mood).unwrap()
            } else if left.is_zero() {
                return true;
            } else {
                line.changed.wait_timeout(mood, left).unwrap().0
            };
        }
    }

    fn write(&self, mut to: &TcpStream, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            match to.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(fault) => match fault.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                    _gone => return false,
                },
            }
            if self.is_cut() {
                return false;
            }
        }
        true
    }

    fn deafness(&self, direction: Direction) -> &AtomicBool {
        match direction {
            Direction::ToServer => &self.deaf_server,
            Direction::ToClient => &self.deaf_client,
        }
    }

    fn deafen(&self, direction: Direction) {
        self.deafness(direction).store(true, Ordering::SeqCst);
    }

    fn is_deaf(&self, direction: Direction) -> bool {
        self.deafness(direction).load(Ordering::SeqCst)
    }

    fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::SeqCst)
    }

    /// Wakes its threads without a word to either side; the last of them to go closes with a reset.
    fn cut(&self, line: &Line) {
        let mood = line.mood.lock().unwrap();
        self.is_cut.store(true, Ordering::SeqCst);
        for stream in [&self.client, &self.server] {
            let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
            let _ = stream.shutdown(Shutdown::Read);
        }
        line.changed.notify_all();
        drop(mood);
    }
}
