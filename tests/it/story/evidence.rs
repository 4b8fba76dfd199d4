//! Every way an answer can be, end to end: what its caller is told, and what the record holds.
//!
//! What always holds: an answer that is not complete beyond doubt is none; one that is reaches the
//! caller as it is; nothing is sent twice or followed, whatever the answer; bytes that follow an answer
//! are never taken for the next one's.

use super::*;
use crate::support::script::{Ending, Script};
use crate::support::secured::Secured;
use crate::support::setup::Setup;
use crate::support::upstream::Keys;

/// What becomes of it at an upstream that can neither deduplicate nor be asked.
#[derive(Clone)]
enum Becomes {
    /// It is an outcome, or says that nothing happened: told as it is, with this content.
    Told(u16, &'static str, &'static str),
    /// It proves nothing: told as it is, and marked.
    Marked(u16, &'static str),
    /// It is none.
    Unknown,
}

use Becomes::{Marked, Told, Unknown};

const COMPLETED: &str = "COMPLETED";

fn head(lines: &str) -> String {
    format!("HTTP/1.1 {}\r\n\r\n", lines.trim().replace('\n', "\r\n"))
}

/// What it is, its bytes, how the connection goes on, and what becomes of it.
type Row = (&'static str, String, Ending, Becomes);

/// The upstream closes after it, and it is no answer.
fn none(what: &'static str, answer: &str) -> Row {
    (what, answer.to_owned(), Ending::Close, Unknown)
}

/// An outcome.
fn outcome(what: &'static str, answer: &str, status: u16, content: &'static str) -> Row {
    let becomes = Told(status, content, COMPLETED);
    (what, answer.to_owned(), Ending::KeepAlive, becomes)
}

fn ok() -> String {
    head("200 OK\nContent-Length: 2") + "ok"
}

fn chunks(content: &str) -> String {
    head("200 OK\nTransfer-Encoding: chunked") + content
}

/// No head of a final answer, or one that cannot be believed.
fn without_a_head() -> Vec<Row> {
    let upgrade = head("101 Switching\nUpgrade: x\nConnection: upgrade");
    let large = head(&format!(
        "200 OK\nx: {}\nContent-Length: 0",
        "v".repeat(300_000)
    ));
    vec![
        none("interim answers and nothing else", &head("103 Early Hints")),
        none("another protocol", &upgrade),
        none(
            "a status that there is not",
            &head("600 What\nContent-Length: 0"),
        ),
        none("closed without a word", ""),
        (
            "reset without a word",
            String::new(),
            Ending::Reset,
            Unknown,
        ),
        none("half a head", "HTTP/1.1 200 OK\r\nContent-Le"),
        none("no HTTP", "SSH-2.0-OpenSSH\r\n\r\n"),
        none("a head too large", &large),
    ]
}

/// Content whose end is not certain.
fn without_an_end() -> Vec<Row> {
    let half = head("200 OK\nContent-Length: 9") + "half";
    let compressed = head("200 OK\nTransfer-Encoding: gzip, chunked") + "0\r\n\r\n";
    let two = head("200 OK\nContent-Length: 2\nContent-Length: 3") + "ok!";
    let both = head("200 OK\nContent-Length: 2\nTransfer-Encoding: chunked");
    vec![
        none("cut short by length", &half),
        ("cut short by reset", half.clone(), Ending::Reset, Unknown),
        none("cut short in a chunk", &chunks("9\r\nhalf")),
        none("cut short between chunks", &chunks("4\r\nhalf\r\n")),
        none(
            "cut short in its trailer",
            &chunks("2\r\nok\r\n0\r\nx: 1\r\n"),
        ),
        none("no chunk", &chunks("zz\r\nok\r\n0\r\n\r\n")),
        none("ended by close alone", &(head("200 OK") + "all of it?")),
        none("compressed in transfer", &compressed),
        none("two lengths", &two),
        none("a length and chunks", &(both + "2\r\nok\r\n0\r\n\r\n")),
    ]
}

/// Whatever it says, it is complete.
fn complete() -> Vec<Row> {
    let interim = head("100 Continue") + &head("103 Hints\nLink: </x>") + &head("103 More");
    let twice = head("200 OK\nContent-Length: 2\nContent-Length: 2") + "ok";
    let stray = ok() + &head("500 Other\nContent-Length: 0");
    let gzip = head("200 OK\nContent-Encoding: gzip\nContent-Length: 3") + "\x1f~z";
    let same = head("304 Same\nContent-Length: 5") + "stray";
    let busy = head("503 Busy\nContent-Length: 4") + "wait";
    let no = |status: u16| head(&format!("{status} No\nContent-Length: 2")) + "no";
    let unprocessed = Told(422, "no", "NOT_APPLIED");
    vec![
        outcome("plain", &ok(), 200, "ok"),
        outcome("interim answers before it", &(interim + &ok()), 200, "ok"),
        outcome("one length twice", &twice, 200, "ok"),
        outcome(
            "trailer fields",
            &chunks("2\r\nok\r\n0\r\nx-end: 1\r\n\r\n"),
            200,
            "ok",
        ),
        (
            "closed after it, unannounced",
            ok(),
            Ending::Close,
            Told(200, "ok", COMPLETED),
        ),
        outcome("a second answer after it", &stray, 200, "ok"),
        outcome("bytes after it", &(ok() + "stray"), 200, "ok"),
        outcome(
            "204 with content",
            &(head("204 None\nContent-Length: 5") + "stray"),
            204,
            "",
        ),
        ("304 with content", same, Ending::KeepAlive, Marked(304, "")),
        outcome("compressed", &gzip, 200, "\x1f~z"),
        ("busy", busy, Ending::KeepAlive, Marked(503, "wait")),
        outcome("refused", &no(402), 402, "no"),
        ("not processed", no(422), Ending::KeepAlive, unprocessed),
    ]
}

/// A01, A19, A09, and what A07 asks of one attempt.
#[test]
fn every_way_an_answer_can_be() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::opaque(upstream.address()));
    answer_in_every_way(&upstream, &proxy);
}

/// A12: the same table for the other way to an upstream.
#[test]
fn every_way_an_answer_can_be_through_tls() {
    let upstream = Upstream::start(Keys::Ignored);
    let secured = Secured::before(upstream.address());
    let setup = Setup::opaque(upstream.address());
    let config = setup.config();
    let authority = config.with_file_name("authority.pem");
    secured.write_authority(&authority);
    let plain = format!("url: http://{}", upstream.address());
    let tls = format!(
        "url: {}\n    tls: {{ ca: {} }}",
        secured.url(),
        authority.display()
    );
    let text = std::fs::read_to_string(&config).unwrap();
    assert_eq!(text.matches(&plain).count(), 1, "{text}");
    std::fs::write(&config, text.replacen(&plain, &tls, 1)).unwrap();
    let proxy = Proxy::start(setup);
    answer_in_every_way(&upstream, &proxy);
    // An opaque upstream gets a connection of its own for each effect.
    assert_eq!(secured.sessions(), upstream.heads().len());
}

fn answer_in_every_way(upstream: &Upstream, proxy: &Proxy) {
    let table = [without_a_head(), without_an_end(), complete()].concat();
    for (number, (what, answer, ending, becomes)) in table.iter().enumerate() {
        let key = format!("k-{number}");
        upstream.next(Script::answer_raw(answer.as_bytes()).then(*ending));

        let told = pay(proxy, &key, "{}").send();

        let (marked, kept) = match becomes {
            Told(status, content, kept) => {
                assert_eq!(
                    (told.status, told.text().as_str()),
                    (*status, *content),
                    "{what}"
                );
                (None, *kept)
            }
            Marked(status, content) => {
                assert_eq!(
                    (told.status, told.text().as_str()),
                    (*status, *content),
                    "{what}"
                );
                (Some("uncertain"), "NEEDS_ATTENTION")
            }
            Unknown => {
                assert_eq!(
                    told.verdict(),
                    (504, "outcome-uncertain".to_owned()),
                    "{what}"
                );
                (None, "NEEDS_ATTENTION")
            }
        };
        assert_eq!(told.field("fencepost-state"), marked, "{what}");
        until(what, || state(proxy, &key) == kept);
        assert_eq!(upstream.heads().len(), number + 1, "{what}: sent once");
    }
}

/// On a connection that is used again, what follows an answer is not the next one's.
#[test]
fn bytes_that_follow_an_answer_are_never_taken_for_the_next_one() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    let ok = head("200 OK\nContent-Length: 2") + "ok";
    let second = head("299 Stray\nContent-Length: 5") + "stray";
    for (number, answer) in [
        ok.clone() + &second,
        ok.clone() + "\r\n",
        ok.clone() + "stray",
        head("200 OK\nTransfer-Encoding: chunked") + "2\r\nok\r\n0\r\n\r\n" + &second,
        head("204 None\nContent-Length: 5") + "stray",
        head("204 None\nTransfer-Encoding: chunked") + "5\r\nstray\r\n0\r\n\r\n",
    ]
    .into_iter()
    .enumerate()
    {
        upstream.next(Script::answer_raw(answer));
        let first = pay(&proxy, &format!("odd-{number}"), "{}").send();
        assert!(matches!(first.status, 200 | 204), "{}", first.head.text);
        let next = pay(&proxy, &format!("next-{number}"), "{}").send();
        let own = format!(r#"{{"id":"effect-{}"}}"#, number + 1);
        assert_eq!((next.status, next.text()), (201, own));
    }
    assert_eq!(upstream.heads().len(), 12);
}

/// A19: a redirect is told as it is, whatever its kind and wherever it leads; it proves nothing.
#[test]
fn a_redirect_is_told_and_never_followed() {
    let (upstream, elsewhere) = (
        Upstream::start(Keys::Ignored),
        Upstream::start(Keys::Ignored),
    );
    let proxy = Proxy::start(Setup::opaque(upstream.address()));
    let other_host = format!("http://{}/x", elsewhere.address());
    let mut sent = 0;
    for status in [300, 301, 302, 303, 307, 308] {
        for location in ["/payments/1", other_host.as_str()] {
            sent += 1;
            let key = format!("k-{sent}");
            let text = format!("{status} Go\nLocation: {location}\nContent-Length: 0");
            upstream.next(Script::answer_raw(head(&text)));
            let told = pay(&proxy, &key, "{}").send();
            assert_eq!(told.status, status);
            assert_eq!(told.field("location"), Some(location));
            assert_eq!(told.field("fencepost-state"), Some("uncertain"));
            until_state(&proxy, &key, "NEEDS_ATTENTION");
            assert_eq!(upstream.heads().len(), sent);
        }
    }
    assert_eq!(elsewhere.connections(), 0);
}
