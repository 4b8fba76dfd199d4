//! The acts: Alice and Bob, as the articles tell them, and what must have happened.
//!
//! What always holds: every line is checked twice, by what the caller saw and by the provider's own
//! ledger.
//!
//! What it does not do: sleep for luck. It waits for what it needs to have happened.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::Stage;
use super::caller::{Ask, Saw};
use super::doubts;

/// A line of the table.
pub(super) struct Line {
    pub(super) act: &'static str,
    pub(super) what: &'static str,
    pub(super) saw: String,
    pub(super) effects: usize,
    expected_effects: usize,
    expected: bool,
}

impl Line {
    /// Is everything as it must be?
    pub(super) fn is_right(&self) -> bool {
        self.expected && self.effects == self.expected_effects
    }

    /// It is right only if this is so too.
    pub(super) fn require(&mut self, so: bool) {
        self.expected &= so;
    }
}

/// Plays all acts in order. `once`: nobody is there to be asked.
pub(super) async fn play(stage: &mut Stage, once: bool) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    stale_worker(stage, &mut lines).await?;
    lost_answer(stage, &mut lines).await?;
    held_up_in_the_network(stage, &mut lines).await?;
    killed_in_mid_call(stage, &mut lines).await?;
    doubts::asked(stage, &mut lines).await?;
    doubts::person(stage, once, &mut lines).await?;
    Ok(lines)
}

const STALE: &str = "1. Alice owns the statement, generation 1, and is paused past the end of her lease; Bob takes over with 2";
const LOST: &str = "2. Bob loses his answer";
const HELD: &str = "3. Alice's request is admitted, then held up in the network; Bob takes over";
const KILLED: &str =
    "4. The proxy is killed after the provider applied a charge, before it answered";

async fn stale_worker(stage: &Stage, lines: &mut Vec<Line>) -> Result<()> {
    let proxy = stage.proxy.address();
    let worker = stage.proxy.worker();
    // Alice has read her input and composed her request; then she is paused.
    let hers = Ask::own(42, "alice", worker).await?;
    let alice = Ask::publish(42, &hers, "generation-1.pdf");
    let his = Ask::own(42, "bob", worker).await?;
    let bob = Ask::publish(42, &his, "generation-2.pdf")
        .send(proxy)
        .await?;
    lines.push(line(
        stage,
        STALE,
        "Bob (2) publishes",
        &bob,
        200,
        ("/accounts/42/", 1),
    ));
    let alice = alice.send(proxy).await?;
    lines.push(line(
        stage,
        STALE,
        "Alice (1) wakes up and publishes",
        &alice,
        412,
        ("/accounts/42/", 1),
    ));
    Ok(())
}

async fn lost_answer(stage: &Stage, lines: &mut Vec<Line>) -> Result<()> {
    let proxy = stage.proxy.address();
    let his = Ask::own(43, "bob", stage.proxy.worker()).await?;
    let bob = Ask::publish(43, &his, "bobs.pdf");
    send_and_hang_up(stage, &bob, proxy).await?;
    let retried = bob.send(proxy).await?;
    lines.push(line(
        stage,
        LOST,
        "Bob (1) asks again",
        &retried,
        200,
        ("/accounts/43/", 1),
    ));
    let changed = Ask::publish(43, &his, "something-else.pdf")
        .send(proxy)
        .await?;
    lines.push(line(
        stage,
        LOST,
        "another payload under that identity",
        &changed,
        422,
        ("/accounts/43/", 1),
    ));
    Ok(())
}

/// The provider has the effect; the caller is gone before it hears of it.
async fn send_and_hang_up(stage: &Stage, ask: &Ask, proxy: std::net::SocketAddr) -> Result<()> {
    let mut stream = TcpStream::connect(proxy)
        .await
        .context("the proxy does not answer")?;
    let mut head = format!("{} {} HTTP/1.1\r\nhost: {proxy}\r\n", ask.method, ask.path);
    for (name, value) in &ask.headers {
        let _infallible = write!(head, "{name}: {value}\r\n");
    }
    let length = ask.content.len();
    let _infallible = write!(
        head,
        "content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(ask.content.as_bytes()).await?;
    stage.provider.accepted(&ask.path).await;
    Ok(())
}

async fn held_up_in_the_network(stage: &mut Stage, lines: &mut Vec<Line>) -> Result<()> {
    let (proxy, worker) = (stage.proxy.address(), stage.proxy.worker());
    let hers = Ask::own(44, "alice", worker).await?;
    stage.relay.hold();
    let alice = Ask::publish(44, &hers, "generation-1.pdf");
    let alice = tokio::task::JoinSet::from_iter([async move { alice.send(proxy).await }]);
    stage.relay.holds_a_request().await;
    // Alice's request is on the wire, and her lease ends. Bob arrives, and has to wait for what she sent.
    let his = Ask::own(44, "bob", worker).await?;
    let bob = Ask::publish(44, &his, "generation-2.pdf");
    let bob = tokio::task::JoinSet::from_iter([async move { bob.send(proxy).await }]);
    let before = stage.provider.effects("/accounts/44/").len();
    lines.push(Line {
        act: HELD,
        what: "Bob (2) arrives while it is held",
        saw: "waits".to_owned(),
        effects: before,
        expected_effects: 0,
        expected: bob.len() == 1,
    });
    stage.relay.release();
    let alice = only(alice).await?;
    let bob = only(bob).await?;
    let order: Vec<_> = stage.provider.effects("/accounts/44/");
    let last_is_bobs = order
        .last()
        .is_some_and(|entry| entry.content.contains("generation-2"));
    lines.push(line(
        stage,
        HELD,
        "Alice (1), once it arrives",
        &alice,
        200,
        ("generation-1.pdf", 1),
    ));
    let mut last = line(
        stage,
        HELD,
        "Bob (2), after her: his stands",
        &bob,
        200,
        ("/accounts/44/", 2),
    );
    last.require(last_is_bobs);
    lines.push(last);
    Ok(())
}

async fn killed_in_mid_call(stage: &mut Stage, lines: &mut Vec<Line>) -> Result<()> {
    let proxy = stage.proxy.address();
    stage.provider.answer(false);
    let charge = Ask::charge("order-4711", 100);
    let first = charge.clone();
    let first = tokio::task::JoinSet::from_iter([async move { first.send(proxy).await }]);
    stage.provider.accepted("order-4711").await;
    stage.proxy.kill().await?;
    let hung_up = only(first).await.is_err();
    stage.provider.answer(true);
    lines.push(Line {
        act: KILLED,
        what: "the first caller",
        saw: if hung_up {
            "its connection broke"
        } else {
            "an answer"
        }
        .to_owned(),
        effects: stage.provider.effects("order-4711").len(),
        expected_effects: 1,
        expected: hung_up,
    });
    let heads = stage.provider.heads();
    stage.proxy.restart().await?;
    let again = charge.send(proxy).await?;
    let settled_by_key = stage.provider.heads() > heads;
    let mut line = line(
        stage,
        KILLED,
        "after the restart it asks again",
        &again,
        200,
        ("order-4711", 1),
    );
    line.require(settled_by_key);
    lines.push(line);
    Ok(())
}

async fn only(mut task: tokio::task::JoinSet<Result<Saw>>) -> Result<Saw> {
    task.join_next()
        .await
        .context("nobody asked")?
        .context("a caller died")?
}

/// What a caller saw beside what the provider counts. `of`: a text in the effects, and how many there must be.
pub(super) fn line(
    stage: &Stage,
    act: &'static str,
    what: &'static str,
    saw: &Saw,
    status: u16,
    (of, expected_effects): (&str, usize),
) -> Line {
    Line {
        act,
        what,
        saw: saw.words(),
        effects: stage.provider.effects(of).len(),
        expected_effects,
        expected: saw.status.as_u16() == status,
    }
}
