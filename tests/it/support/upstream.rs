//! A third party on a raw socket: keeps its own ledger of effects, and does what a script says.
//!
//! What always holds: an effect is counted only when its request has arrived whole; every byte and
//! every head is kept; the ledger outlives the proxy. What it counts is what a story believes.
//!
//! What it does not do: judge the requests. It has no opinion on tokens.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{self, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Instant;

use super::gate::until;
use super::http::{Head, Reader};
use super::script::{Ending, Refusal, Script, json_answer};

/// Something that happened in the world and cannot be taken back.
#[derive(Clone, Debug)]
pub struct Effect {
    pub method: String,
    pub path: String,
    /// The idempotency key that it arrived with.
    pub key: Option<String>,
    pub head: Head,
    pub body: String,
    pub at: Instant,
}

/// What the third party makes of a key that it has seen before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// The first answer once more, without another effect.
    Honoured,
    /// Another effect.
    Ignored,
}

/// A running third party. GET and OPTIONS have no effect; every other request has one.
pub struct Upstream {
    shared: Arc<Shared>,
    address: SocketAddr,
}

struct Shared {
    keys: Keys,
    /// What stands before a key in the target or the content; `None`: keys are in their header.
    before_key: Option<&'static str>,
    stopping: AtomicBool,
    log: Mutex<Log>,
}

#[derive(Default)]
struct Log {
    scripts: VecDeque<Script>,
    connections: usize,
    open: HashMap<usize, TcpStream>,
    bytes: Vec<u8>,
    heads: Vec<Head>,
    effects: Vec<Effect>,
    remembered: HashMap<String, Vec<u8>>,
    /// Keys whose first request is on its way to its effect.
    running: HashSet<String>,
    /// What those get meanwhile; `None`: it makes nothing of it.
    while_running: Option<Vec<u8>>,
    /// What an effect of that number is answered; `None`: 201, and its name.
    usual: Option<fn(usize) -> Vec<u8>>,
    judges_conditions: bool,
    /// Every request that arrived whole, with what it was answered, or would have been.
    served: Vec<(Head, Vec<u8>)>,
    questions: Option<Answering>,
}

/// What questions are answered, by what has happened.
type Answering = Box<dyn Fn(&[Effect], &Head, &str) -> Vec<u8> + Send>;

impl Upstream {
    /// Starts one on a port of its own.
    pub fn start(keys: Keys) -> Self {
        Self::start_at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), keys)
    }

    /// Starts one that honours keys which follow this text in the target or the content, up to the end of
    /// a value.
    pub fn honouring(before_key: &'static str) -> Self {
        let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self::begin(anywhere, Keys::Honoured, Some(before_key))
    }

    /// Starts one at a given address, with an empty ledger.
    pub fn start_at(address: SocketAddr, keys: Keys) -> Self {
        Self::begin(address, keys, None)
    }

    fn begin(address: SocketAddr, keys: Keys, before_key: Option<&'static str>) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            keys,
            before_key,
            stopping: AtomicBool::new(false),
            log: Mutex::default(),
        });
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if serving.stopping.load(Ordering::SeqCst) {
                    return;
                }
                let serving = Arc::clone(&serving);
                // Known before the next one is accepted.
                let number = serving.opened(&stream);
                thread::spawn(move || serving.connection(&stream, number));
            }
        });
        Self { shared, address }
    }

    /// What befalls the next request that no earlier script is waiting for.
    pub fn next(&self, script: Script) {
        self.log().scripts.push_back(script);
    }

    /// What a repeat is answered from now on while the first request of its key is held before its effect.
    pub fn while_running(&self, answer: Vec<u8>) {
        self.log().while_running = Some(answer);
    }

    /// Judges requests by their condition from now on: `If-None-Match: *` holds where nothing is, `If-Match` where
    /// just that is. See [`what_is_there`].
    pub fn judge_conditions(&self) {
        self.log().judges_conditions = true;
    }

    /// What an effect is answered from now on, by its number.
    pub fn answer_usually(&self, usual: fn(usize) -> Vec<u8>) {
        self.log().usual = Some(usual);
    }

    /// Forgets every key: whatever comes under one is new.
    pub fn forget_keys(&self) {
        self.log().remembered.clear();
    }

    /// What a GET, or a POST that asks or undoes (`/ask…`, `/void…`, `…/payments/cancel`), is answered from now on: none of them is an effect.
    pub fn when_asked(&self, answer: impl Fn(&[Effect], &Head, &str) -> Vec<u8> + Send + 'static) {
        self.log().questions = Some(Box::new(answer));
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Everything that happened, in its order.
    pub fn effects(&self) -> Vec<Effect> {
        self.log().effects.clone()
    }

    /// The effect of that number, counted from 1; what it answered names it `effect-<number>`.
    pub fn effect(&self, number: usize) -> Effect {
        self.log().effects[number - 1].clone()
    }

    /// How many effects there were on this path.
    pub fn effects_on(&self, path: &str) -> usize {
        let log = self.log();
        log.effects.iter().filter(|it| it.path == path).count()
    }

    /// Every complete head that arrived, of whatever request.
    pub fn heads(&self) -> Vec<Head> {
        self.log().heads.clone()
    }

    /// Every request that arrived whole, with what it was answered, or would have been.
    pub fn served(&self) -> Vec<(Head, Vec<u8>)> {
        self.log().served.clone()
    }

    /// How many connections were ever made.
    pub fn connections(&self) -> usize {
        self.log().connections
    }

    /// Returns when every connection made before this call is over: nothing of a sender that is dead
    /// can arrive any more.
    pub fn until_quiet(&self) {
        // Connections are accepted in their order.
        let last = TcpStream::connect(self.address).unwrap();
        drop(last);
        until("every connection to the upstream is over", || {
            self.log().open.is_empty()
        });
    }

    /// Every byte that ever arrived, on all connections, as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.log().bytes).into_owned()
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.shared.log()
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        for stream in self.log().open.values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        // Wakes the accept loop, which then sees that it is over.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap()
    }

    fn opened(&self, stream: &TcpStream) -> usize {
        let mut log = self.log();
        log.connections += 1;
        let number = log.connections;
        log.open.insert(number, stream.try_clone().unwrap());
        number
    }

    fn connection(&self, stream: &TcpStream, number: usize) {
        let ending = self.requests(stream).unwrap_or(Ending::Close);
        // The other handle goes first: the one that is closed last is the one that resets.
        self.log().open.remove(&number);
        if ending == Ending::Reset {
            let _ = socket2::SockRef::from(stream).set_linger(Some(std::time::Duration::ZERO));
        }
    }

    fn requests(&self, stream: &TcpStream) -> io::Result<Ending> {
        let mut reader = Reader::new(stream, |piece: &[u8]| {
            self.log().bytes.extend_from_slice(piece);
        });
        loop {
            let script = loop {
                if !reader.unread.is_empty() {
                    break self.log().scripts.pop_front().unwrap_or_default();
                }
                // The length of the first piece is the sender's choice: look at one byte, so that
                // a script can cut within it.
                reader.read = 0;
                reader.limit = Some(1);
                if !reader.more()? {
                    return Ok(Ending::Close);
                }
            };
            reader.limit = script.cut_request_after;
            let request = reader.head().and_then(|head| {
                let head = head.ok_or(io::ErrorKind::UnexpectedEof)?;
                self.log().heads.push(head.clone());
                let body = reader.body(&head, false)?;
                Ok((head, body))
            });
            let Ok((head, body)) = request else {
                return Ok(script.ending);
            };
            let ending = self.serve(stream, &head, &body, script)?;
            if ending != Ending::KeepAlive || head.closes() {
                return Ok(ending);
            }
        }
    }

    fn key_of(&self, head: &Head, body: &[u8]) -> Option<String> {
        let Some(before) = self.before_key else {
            let headers = [
                "idempotency-key",
                "paypal-request-id",
                "cko-idempotency-key",
            ];
            let key = headers.iter().find_map(|name| head.fields.first(name));
            return key.map(str::to_owned);
        };
        let body = String::from_utf8_lossy(body);
        let texts = [head.word(1), &body];
        let found = texts.into_iter().find_map(|text| text.split_once(before));
        let (_, value) = found?;
        let end = value.find(['"', '&', '\r']).unwrap_or(value.len());
        Some(value[..end].to_owned())
    }

    fn serve(
        &self,
        mut stream: &TcpStream,
        head: &Head,
        body: &[u8],
        script: Script,
    ) -> io::Result<Ending> {
        let key = self.key_of(head, body);
        let was_held = script.before_effect.is_some();
        if let Some(gate) = script.before_effect {
            self.log().running.extend(key.clone());
            if !gate.pass() {
                return Ok(Ending::Reset);
            }
        }
        let mut answer = if let Some(answer) = script.answer {
            answer
        } else {
            let mut log = self.log();
            // Nobody comes between its effect and what is remembered of it.
            if let (true, Some(key)) = (was_held, &key) {
                log.running.remove(key);
            }
            let made = Made {
                stored: script.effect_answer,
                refusal: script.refusal,
            };
            log.answer(self.keys, key, (head, body), made)
        };
        self.log().served.push((head.clone(), answer.clone()));
        if script.before_answer.is_some_and(|gate| !gate.pass()) {
            return Ok(Ending::Reset);
        }
        if let Some(length) = script.cut_answer_after {
            answer.truncate(length);
        }
        let mut rest = answer.as_slice();
        if let Some((after, gate)) = script.before_rest {
            let (first, later) = rest.split_at(after.min(rest.len()));
            stream.write_all(first)?;
            rest = later;
            if !gate.pass() {
                return Ok(Ending::Reset);
            }
        }
        stream.write_all(rest)?;
        Ok(script.ending)
    }
}

/// What is made of a request that is neither a question nor a repeat.
struct Made {
    stored: Option<Vec<u8>>,
    refusal: Option<Refusal>,
}

/// The name of what stands at a path, where conditions are judged, and its content: it is called as the effect that
/// put it there. At a path that contains `seeded` something stands from the beginning, called `seed`.
pub fn what_is_there<'e>(effects: &'e [Effect], path: &str) -> Option<(String, &'e str)> {
    let newest = effects.iter().rposition(|effect| effect.path == path);
    match newest {
        Some(at) => Some((format!("effect-{}", at + 1), &effects[at].body)),
        None => path
            .contains("seeded")
            .then(|| ("seed".to_owned(), "what was there")),
    }
}

impl Log {
    fn answer(
        &mut self,
        keys: Keys,
        key: Option<String>,
        (head, body): (&Head, &[u8]),
        made: Made,
    ) -> Vec<u8> {
        let path = head.word(1);
        let is_question = matches!(head.word(0), "GET" | "OPTIONS")
            || path.starts_with("/ask")
            || path.starts_with("/void")
            || path.ends_with("/payments/cancel");
        if let (true, Some(answer)) = (is_question, &self.questions) {
            return answer(&self.effects, head, &String::from_utf8_lossy(body));
        }
        if is_question {
            let count = self.effects.len();
            return json_answer(200, &format!("{{\"effects\":{count}}}"));
        }
        if let (Some(answer), Some(key)) = (&self.while_running, &key)
            && self.running.contains(key)
        {
            return answer.clone();
        }
        if let (Keys::Honoured, Some(known)) = (keys, &key)
            && let Some(answer) = self.remembered.get(known)
        {
            return answer.clone();
        }
        if let Some(refusal) = made.refusal
            && key.as_ref().is_none_or(|key| !self.running.contains(key))
        {
            if let (true, Some(key)) = (refusal.remembered, key) {
                self.remembered.insert(key, refusal.answer.clone());
            }
            return refusal.answer;
        }
        if self.judges_conditions && !self.holds(head) {
            return b"HTTP/1.1 412 Scripted\r\nContent-Length: 0\r\n\r\n".to_vec();
        }
        self.effects.push(Effect {
            method: head.word(0).to_owned(),
            path: head.word(1).to_owned(),
            key: key.clone(),
            head: head.clone(),
            body: String::from_utf8_lossy(body).into_owned(),
            at: Instant::now(),
        });
        let number = self.effects.len();
        let usual = || match self.usual {
            Some(usual) => usual(number),
            None => json_answer(201, &format!("{{\"id\":\"effect-{number}\"}}")),
        };
        let answer = made.stored.unwrap_or_else(usual);
        if let Some(key) = key {
            self.remembered.insert(key, answer.clone());
        }
        answer
    }

    fn holds(&self, head: &Head) -> bool {
        let there = what_is_there(&self.effects, head.word(1));
        let there = there.map(|(tag, _)| format!("\"{tag}\""));
        let is_new = head.fields.first("if-none-match") != Some("*") || there.is_none();
        let asked = head.fields.first("if-match");
        is_new && asked.is_none_or(|asked| there.as_deref() == Some(asked))
    }
}
