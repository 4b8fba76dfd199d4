//! What connections may say on behalf of their worker, and until when.
//!
//! What always holds: these run on one thread: nothing is accepted while a test does not wait.

use std::io::Write as _;

use tokio::io::AsyncReadExt as _;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::super::bound::{Bound, Stamped};
use super::callers::served_for;
use super::commits::Counting;
use super::*;
use crate::config::{Inbound, Pin, PinBy};
use crate::lease::claim::{Changes, Claim, Claims, Entry, Ownership};
use crate::lease::pins::{Noted, Pinned, Pins};
use crate::protocol::ids::{AcquisitionId, FencingToken, ResourceName, TokenSource};
use crate::protocol::time::Millis;
use crate::wire::problem::Fault;
use crate::wire::stamp::{Stamp, Stamps, Standing, Token};

/// A lease that somebody holds.
pub(super) struct Held {
    claim: watch::Sender<Claim>,
    changes: Changes,
    pub(super) claims: Claims,
}

impl Held {
    fn new() -> Self {
        let (claim, claimed) = watch::channel(Claim::NotYet("it begins".to_owned()));
        let changes = Changes::default();
        let entry = Entry {
            resource: ResourceName::new("a"),
            source: TokenSource::new("caller"),
            claim: claimed,
            acknowledge: mpsc::channel(1).0,
        };
        let claims = Claims::new(Clock::system().unwrap(), vec![entry], changes.clone());
        Self {
            claim,
            changes,
            claims,
        }
    }

    pub(super) fn owned(&self, acquisition: &str, token: u64, left: Millis) {
        let until = Clock::system().unwrap().boottime().after(left);
        self.claim.send_replace(Claim::Owned(Ownership {
            token: FencingToken::new(0, token).unwrap(),
            acquisition: AcquisitionId::new(acquisition),
            until,
        }));
        self.changes.tell();
    }
}

pub(super) const LONG: Millis = Millis(60_000);

fn upstream() -> Counting {
    Counting::answering_first_after(Some(Duration::ZERO))
}

/// A request that is on its way, with nobody having accepted it yet.
fn sent(address: SocketAddr, key: &str) -> TcpStream {
    sent_for(address, key, "nobody-asked")
}

/// The same for some work.
fn sent_for(address: SocketAddr, key: &str, work: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!(
        "POST /payments HTTP/1.1\r\nHost: x\r\nX-Account: a\r\nX-Work: {work}\r\nIdempotency-Key: {key}\r\n\
         Content-Length: 2\r\nConnection: close\r\n\r\n{{}}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

pub(super) async fn told(stream: TcpStream) -> String {
    stream.set_nonblocking(true).unwrap();
    let mut stream = tokio::net::TcpStream::from_std(stream).unwrap();
    let mut text = String::new();
    let read = tokio::time::timeout(LIMIT, stream.read_to_string(&mut text));
    read.await.unwrap().unwrap();
    text
}

fn is_lost(text: &str) -> bool {
    text.starts_with("HTTP/1.1 412 ") && text.contains("lease-lost")
}

#[tokio::test]
async fn who_waited_to_be_accepted_is_bound_to_what_was_before() {
    let upstream = upstream();
    let bench = Bench::new(upstream.address, FENCED, Box::new(|_| ()));
    let held = Held::new();
    held.owned("first", 107, LONG);
    let address = served_for(bench, held.claims.clone(), CancellationToken::new()).await;
    // It came before anybody looked what is in force.
    let text = told(sent(address, "early")).await;
    assert!(is_lost(&text), "{text}");
    let text = told(sent(address, "k-1")).await;
    assert!(text.starts_with("HTTP/1.1 201 "), "{text}");
    // It came before the second began, and is accepted after it has.
    let waiting = sent(address, "of-the-first");
    held.owned("second", 108, LONG);
    let text = told(waiting).await;
    assert!(is_lost(&text), "{text}");
    let text = told(sent(address, "k-2")).await;
    assert!(text.starts_with("HTTP/1.1 201 "), "{text}");
    assert_eq!(upstream.requests(), 2);
}

/// C05: the gate is where the first byte would leave, whatever else goes on.
#[tokio::test]
async fn nothing_is_sent_beyond_the_end_of_the_lease() {
    let upstream = upstream();
    let held = Held::new();
    let admitted_late = Box::new(|_| std::thread::sleep(Duration::from_secs(2)));
    let bench = Bench::new(upstream.address, FENCED, admitted_late);
    held.owned("first", 107, Millis(1_500));
    let address = served_for(bench, held.claims.clone(), CancellationToken::new()).await;
    let text = told(sent(address, "early")).await;
    assert!(is_lost(&text), "{text}");
    let text = told(sent(address, "k")).await;
    assert!(text.contains("dispatch-expired"), "{text}");
    assert_eq!(upstream.requests(), 0);
}

#[tokio::test]
async fn it_is_looked_at_again_right_before_the_admission() {
    let bench = Bench::new(upstream().address, FENCED, Box::new(|_| ()));
    let held = Held::new();
    held.owned("first", 107, Millis(3_000));
    let bound = Bound::now(&held.claims);
    let (_, mut identified) = bench.identified(0, "k");
    identified.stamped = Some(Standing::Present);
    identified.presented.as_mut().unwrap().resource.name = ResourceName::new("a");
    identified.presented.as_mut().unwrap().acquisition = Some(AcquisitionId::new("first"));
    let stamped = bound.stamped(&identified);
    let admit = || {
        let (attempt, at) = (
            bench.dispatcher.next_attempt(),
            bench.dispatcher.clock.now(),
        );
        identified.admit(attempt, at, true)
    };
    let limited = stamped.limit(admit()).unwrap();
    assert!(limited.policy.timeouts.dispatch <= Millis(3_000));
    held.owned("first", 107, LONG);
    let limited = stamped.limit(admit()).unwrap();
    assert_eq!(limited.policy.timeouts, identified.policy.timeouts);
    let over = |stamped: &Stamped| matches!(stamped.limit(admit()), Err(Fault::LeaseLost { .. }));
    held.owned("first", 107, Millis(0));
    assert!(over(&stamped), "its time is over");
    held.owned("second", 108, LONG);
    assert!(over(&stamped), "it is another one");
}

/// By which work is known by `X-Work`.
pub(super) fn way() -> Inbound {
    Inbound {
        name: "jobs".to_owned(),
        listen: "127.0.0.1:0".parse().unwrap(),
        listen_tls: None,
        url: "http://127.0.0.1:1".parse().unwrap(),
        pin: Pin {
            by: PinBy::Header(http::HeaderName::from_static("x-work")),
            required: false,
            strict: false,
        },
        keep: LONG,
        at_most: 100,
        resources: vec![ResourceName::new("a")],
    }
}

impl Held {
    /// With a way in.
    fn pinning(strict: bool) -> Self {
        let mut way = way();
        way.pin.strict = strict;
        Self::pinning_by(&way)
    }

    pub(super) fn pinning_by(way: &Inbound) -> Self {
        let held = Self::new();
        let pins = Pins::new(std::slice::from_ref(way), &Clock::system().unwrap());
        let claims = held.claims.clone().pinning(pins);
        Self { claims, ..held }
    }

    /// What is known of some work.
    pub(super) fn pinned(&self, work: &'static str) -> Pinned {
        self.claims.pinned(&ResourceName::new("a"), &of(work))
    }

    fn comes_in(&self, work: &'static str) {
        assert!(matches!(self.claims.came_in(0, &of(work)), Noted::Work(_)));
    }
}

/// The headers of a request for some work.
fn of(work: &'static str) -> http::HeaderMap {
    let name = http::HeaderName::from_static("x-work");
    [(name, http::HeaderValue::from_static(work))]
        .into_iter()
        .collect()
}

fn token(acquisition: &str, token: u64) -> Token {
    Token {
        token: FencingToken::new(0, token).unwrap(),
        acquisition: AcquisitionId::new(acquisition),
        source: TokenSource::new("caller"),
    }
}

fn one(stamp: Stamp) -> Stamps {
    [(ResourceName::new("a"), stamp)].into_iter().collect()
}

/// `None`: it is lost; else what it is stamped with.
fn assert_stamped(stamps: &Stamps, expected: Option<Stamp>) {
    match expected {
        Some(stamp) => assert_eq!(*stamps, one(stamp)),
        None => assert!(format!("{stamps:?}").contains("Lost("), "{stamps:?}"),
    }
}

#[test]
fn work_is_stamped_as_of_the_moment_at_which_it_came_in() {
    let held = Held::pinning(false);
    let nothing = Bound::now(&held.claims);
    held.comes_in("early");
    assert_stamped(&nothing.stamps(&of("early")), None);
    let waits = nothing.stamps(&of("unknown"));
    assert_eq!(waits, one(Stamp::NotYet("it begins".to_owned())));
    held.owned("first", 107, LONG);
    held.comes_in("old");
    let first = Bound::now(&held.claims);
    let owned = Some(Stamp::Owned(token("first", 107)));
    assert_stamped(&first.stamps(&of("old")), owned);
    assert_stamped(&first.stamps(&of("early")), None);
    held.claim.send_replace(Claim::NotYet(String::new()));
    assert_stamped(&Bound::now(&held.claims).stamps(&of("old")), None);
    held.owned("second", 108, LONG);
    held.comes_in("new");
    let second = Bound::now(&held.claims);
    let earlier = Some(Stamp::Earlier(token("first", 107)));
    assert_stamped(&second.stamps(&of("old")), earlier);
    for work in ["new", "unknown"] {
        let owned = Some(Stamp::Owned(token("second", 108)));
        assert_stamped(&second.stamps(&of(work)), owned);
    }
    assert_stamped(&second.stamps(&of("early")), None);
    // The connection's rule stands above it.
    for work in ["new", "unknown", "old"] {
        assert_stamped(&first.stamps(&of(work)), None);
    }
}

#[test]
fn where_it_is_strict_what_nobody_knows_is_lost() {
    let held = Held::pinning(true);
    assert_stamped(&Bound::now(&held.claims).stamps(&of("unknown")), None);
    held.owned("first", 107, LONG);
    held.comes_in("work");
    let bound = Bound::now(&held.claims);
    assert_stamped(&bound.stamps(&of("unknown")), None);
    assert_stamped(&bound.stamps(&http::HeaderMap::new()), None);
    let owned = Some(Stamp::Owned(token("first", 107)));
    assert_stamped(&bound.stamps(&of("work")), owned);
}

/// Nothing of it leaves though the fence would have it: here it knows of no later token, as after a repair.
#[tokio::test]
async fn what_is_of_an_earlier_ownership_is_never_sent() {
    let upstream = upstream();
    let bench = Bench::new(upstream.address, FENCED, Box::new(|_| ()));
    let held = Held::pinning(false);
    held.owned("first", 107, LONG);
    held.comes_in("old");
    held.owned("second", 108, LONG);
    let address = served_for(bench, held.claims.clone(), CancellationToken::new()).await;
    let text = told(sent(address, "early")).await;
    assert!(is_lost(&text), "{text}");
    let text = told(sent_for(address, "k", "old")).await;
    assert!(is_lost(&text), "{text}");
    assert_eq!(upstream.requests(), 0);
    // From then on it does.
    let text = told(sent(address, "k")).await;
    assert!(text.starts_with("HTTP/1.1 201 "), "{text}");
    let text = told(sent_for(address, "k-2", "old")).await;
    assert!(text.contains("stale-fencing-token"), "{text}");
    assert_eq!(upstream.requests(), 1);
}
