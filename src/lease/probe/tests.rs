//! What counts as a sign of life, and which starts are told apart.

use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

const BOOT: BootId = BootId(7);

/// Answers every connection with that.
async fn worker(answer: &'static str) -> Uri {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/healthz", listener.local_addr().unwrap());
    let serving = async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 1024];
            let _ = stream.read(&mut head).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    };
    tokio_util::task::TaskTracker::new().spawn(serving);
    url.parse().unwrap()
}

async fn seen(
    answer: &'static str,
    identity: Option<StartIdentity>,
) -> Result<Option<Start>, NotAlive> {
    let url = worker(answer).await;
    Sign::Http { url, identity }.look(BOOT).await
}

fn header() -> StartIdentity {
    StartIdentity::Header(HeaderName::from_static("x-started"))
}

#[tokio::test]
async fn an_answer_counts_with_what_tells_its_start_and_not_without() {
    const GOOD: &str =
        "HTTP/1.1 200 OK\r\nX-Started: one\r\nContent-Length: 12\r\n\r\n{\"a\":{\"b\":1}";
    assert_eq!(seen(GOOD, None).await, Ok(None));
    assert_eq!(seen(GOOD, Some(header())).await, Ok(Some(Start::of("one"))));
    let json = Some(StartIdentity::Json("/a/b".to_owned()));
    let whole = "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{\"a\":{\"b\":1}}";
    assert_eq!(seen(whole, json.clone()).await, Ok(Some(Start::of("1"))));
    // Broken off, empty, twice, not there, no success, nothing at all.
    assert!(seen(GOOD, json).await.is_err());
    for bad in [
        "HTTP/1.1 200 OK\r\nX-Started: \r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX-Started: a\r\nX-Started: b\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 503 Busy\r\nX-Started: one\r\nContent-Length: 0\r\n\r\n",
        "",
    ] {
        assert!(seen(bad, Some(header())).await.is_err(), "{bad}");
    }
}

/// C10 on the worker's side: a process that stands still is not alive, though it is there.
#[tokio::test]
async fn a_process_is_its_number_and_its_start_and_one_that_is_stopped_is_not_alive() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pid");
    let sleeper = || {
        let mut sleep = Command::new("sleep");
        sleep.arg("60").stdin(Stdio::null()).spawn().unwrap()
    };
    let mut first = sleeper();
    std::fs::write(&path, format!("{}\n", first.id())).unwrap();
    let sign = Sign::PidFile(path.clone());
    let one = sign.look(BOOT).await.unwrap();
    assert_eq!(sign.look(BOOT).await.unwrap(), one);
    assert_ne!(sign.look(BootId(8)).await.unwrap(), one, "another boot");
    let signal = |signal| {
        let number = i32::try_from(first.id()).unwrap();
        kill_process(Pid::from_raw(number).unwrap(), signal).unwrap();
    };
    signal(Signal::STOP);
    while sign.look(BOOT).await.is_ok() {
        tokio::task::yield_now().await;
    }
    signal(Signal::CONT);
    while sign.look(BOOT).await != Ok(one.clone()) {
        tokio::task::yield_now().await;
    }
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(sign.look(BOOT).await.is_err());
    let mut second = sleeper();
    std::fs::write(&path, second.id().to_string()).unwrap();
    assert_ne!(sign.look(BOOT).await.unwrap(), one);
    second.kill().unwrap();
    second.wait().unwrap();
}

#[tokio::test]
async fn a_name_is_one_process_or_the_parent_of_all() {
    let own = std::fs::read_to_string("/proc/self/comm").unwrap();
    let own = own.trim_end().to_owned();
    // Several tests may run at once under this name; then nobody is named by it.
    assert!(Sign::Command(own).look(BOOT).await.is_err());
    let nobody = Sign::Command("nobody-is-called-so".to_owned());
    assert!(nobody.look(BOOT).await.is_err());
}

/// Processes are not shared: whoever looks finds itself, always alive, and new with each of its own starts.
#[tokio::test]
async fn this_sidecar_and_whoever_started_it_are_no_worker() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pid");
    let parent = rustix::process::getppid().unwrap().as_raw_nonzero().get();
    for number in [std::process::id().to_string(), parent.to_string()] {
        std::fs::write(&path, &number).unwrap();
        let NotAlive(why) = Sign::PidFile(path.clone()).look(BOOT).await.unwrap_err();
        assert!(why.contains("processes are not shared"), "{number}: {why}");
    }
}

#[test]
fn a_name_with_brackets_and_blanks_hides_no_field() {
    let fields: Vec<String> = (5..=52).map(|field| field.to_string()).collect();
    let text = format!("42 (a) b (c) S 7 {}", fields.join(" "));
    let running = Running::parse(42, &text).unwrap();
    assert_eq!(
        (running.state, running.parent, running.started),
        ('S', 7, 22)
    );
    assert_eq!(running.name, "a) b (c");
}

#[tokio::test]
async fn a_file_tells_starts_apart_by_its_content() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("start");
    let sign = Sign::File(path.clone());
    assert!(sign.look(BOOT).await.is_err());
    std::fs::write(&path, "containerd://1").unwrap();
    let first = sign.look(BOOT).await.unwrap();
    std::fs::write(&path, "containerd://2").unwrap();
    assert_ne!(sign.look(BOOT).await.unwrap(), first);
    for bad in [" \n".to_owned(), "x".repeat(IDENTITY + 1)] {
        std::fs::write(&path, bad).unwrap();
        assert!(sign.look(BOOT).await.is_err());
    }
}
