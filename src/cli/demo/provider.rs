//! A small payment provider with a ledger of the effects it accepted.
//!
//! What always holds: one line in the ledger for every effect, written before the answer; a key that
//! it has seen gets the first answer again and no second line. `heads` counts complete requests,
//! deduplicated or not. Payouts and mails have no keys: each is another effect. Payouts are listed.
//!
//! What it does not do: forget a key, or check tokens: third parties never do.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The provider, until it is dropped.
pub(super) struct Provider {
    address: SocketAddr,
    books: Arc<Books>,
    _server: JoinSet<()>,
}

struct Books {
    ledger: Mutex<Ledger>,
    /// Counts up with every change of the ledger.
    changed: watch::Sender<usize>,
    /// Answers leave only while this is true; lists always do.
    answering: watch::Sender<bool>,
    /// Connections end instead of answers.
    breaking_off: AtomicBool,
}

#[derive(Default)]
struct Ledger {
    lines: Vec<Entry>,
    by_key: HashMap<String, Bytes>,
    heads: usize,
    questions: usize,
}

/// An accepted effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// `PUT /accounts/42/statements/2026-09-13`.
    pub(super) what: String,
    /// What was sent.
    pub(super) content: String,
}

impl Provider {
    /// Starts one on a free port.
    pub(super) async fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let books = Arc::new(Books {
            ledger: Mutex::default(),
            changed: watch::Sender::new(0),
            answering: watch::Sender::new(true),
            breaking_off: AtomicBool::new(false),
        });
        let mut server = JoinSet::new();
        server.spawn(accept(listener, Arc::clone(&books)));
        Ok(Self {
            address,
            books,
            _server: server,
        })
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Effects accepted so far whose request or content contains this text.
    pub(super) fn effects(&self, of: &str) -> Vec<Entry> {
        let ledger = self.books.open();
        let about = |entry: &&Entry| entry.what.contains(of) || entry.content.contains(of);
        ledger.lines.iter().filter(about).cloned().collect()
    }

    /// Complete requests so far.
    pub(super) fn heads(&self) -> usize {
        self.books.open().heads
    }

    /// How often it was asked for its payouts.
    pub(super) fn questions(&self) -> usize {
        self.books.open().questions
    }

    /// Waits until an effect with this text is in the ledger.
    pub(super) async fn accepted(&self, of: &str) {
        let mut changed = self.books.changed.subscribe();
        while self.effects(of).is_empty() {
            // The sender lives as long as the provider.
            let _still_there = changed.changed().await;
        }
    }

    /// Holds back or releases all answers.
    pub(super) fn answer(&self, answering: bool) {
        self.books.answering.send_replace(answering);
    }

    /// From now on connections break off instead of being answered on, or no longer.
    pub(super) fn break_off(&self, breaking_off: bool) {
        self.books
            .breaking_off
            .store(breaking_off, Ordering::SeqCst);
    }
}

impl Books {
    fn open(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn accept(listener: TcpListener, books: Arc<Books>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let books = Arc::clone(&books);
        connections.spawn(async move {
            let service = service_fn(move |request| serve(Arc::clone(&books), request));
            let _hung_up = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn serve(
    books: Arc<Books>,
    request: Request<Incoming>,
) -> std::io::Result<Response<Full<Bytes>>> {
    let (head, body) = request.into_parts();
    if head.method == Method::GET && head.uri.path() == "/ledger" {
        return Ok(reply(StatusCode::OK, books.as_json()));
    }
    if head.method == Method::GET && head.uri.path() == "/payouts" {
        let query = head.uri.query().unwrap_or_default();
        let order = query.strip_prefix("order=").unwrap_or_default();
        return Ok(reply(StatusCode::OK, books.payouts(order)));
    }
    let Ok(content) = body.collect().await else {
        return Ok(reply(StatusCode::BAD_REQUEST, Bytes::new()));
    };
    let content = String::from_utf8_lossy(&content.to_bytes()).into_owned();
    let what = format!("{} {}", head.method, head.uri.path());
    let key = head.headers.get("idempotency-key");
    let key = key.filter(|_| !matches!(head.uri.path(), "/payouts" | "/mails"));
    let answer = books.enter(&what, &content, key.and_then(|key| key.to_str().ok()));
    if books.breaking_off.load(Ordering::SeqCst) {
        return Err(std::io::ErrorKind::ConnectionReset.into());
    }
    let mut answering = books.answering.subscribe();
    let _still_there = answering.wait_for(|answering| *answering).await;
    Ok(reply(StatusCode::OK, answer))
}

impl Books {
    /// One effect, or the first answer again.
    fn enter(&self, what: &str, content: &str, key: Option<&str>) -> Bytes {
        let mut ledger = self.open();
        ledger.heads = ledger.heads.saturating_add(1);
        if let Some(known) = key.and_then(|key| ledger.by_key.get(key)) {
            return known.clone();
        }
        ledger.lines.push(Entry {
            what: what.to_owned(),
            content: content.to_owned(),
        });
        let number = ledger.lines.len();
        let answer = serde_json::json!({ "effect": number, "of": what }).to_string();
        let answer = Bytes::from(answer);
        if let Some(key) = key {
            ledger.by_key.insert(key.to_owned(), answer.clone());
        }
        drop(ledger);
        self.changed
            .send_modify(|count| *count = count.saturating_add(1));
        answer
    }

    /// The payouts for an order.
    fn payouts(&self, order: &str) -> Bytes {
        let mut ledger = self.open();
        ledger.questions = ledger.questions.saturating_add(1);
        let of_order = |content: &str| {
            serde_json::from_str::<serde_json::Value>(content)
                .is_ok_and(|payout| payout.get("order").is_some_and(|it| it == order))
        };
        let found: Vec<_> = (1_usize..)
            .zip(&ledger.lines)
            .filter(|(_, entry)| entry.what == "POST /payouts" && of_order(&entry.content))
            .map(|(number, _)| serde_json::json!({ "effect": number, "order": order }))
            .collect();
        Bytes::from(serde_json::json!({ "found": found }).to_string())
    }

    fn as_json(&self) -> Bytes {
        let ledger = self.open();
        let lines: Vec<_> = ledger
            .lines
            .iter()
            .map(|entry| serde_json::json!({ "effect": entry.what, "content": entry.content }))
            .collect();
        Bytes::from(serde_json::json!({ "requests": ledger.heads, "effects": lines }).to_string())
    }
}

fn reply(status: StatusCode, content: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(content));
    *response.status_mut() = status;
    let json = http::HeaderValue::from_static("application/json");
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, json);
    response
}
