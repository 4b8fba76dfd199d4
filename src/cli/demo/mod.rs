//! `fencepost demo`: the story of a stale worker, played over real sockets.
//!
//! What lives here: a small payment provider with a ledger (`provider`), a network that can be
//! held up between it and the proxy (`relay`), callers (`caller`), the proxy as a process of its
//! own that can be killed (`child`), and the acts (`story`, and those in which nobody knows: `doubts`).
//!
//! What always holds: the table shows the *provider's own count* of effects beside what each caller
//! saw; where a count is wrong the demo says so and exits 1. Everything it starts, it ends.
//!
//! What it does not do: stand for a real provider. It deduplicates charges by key like the better ones, lists its
//! payouts, and can do neither for mail.

mod caller;
mod child;
mod doubts;
mod provider;
mod relay;
mod story;

use std::fmt::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

use super::Demo;
use super::failure::Failure;
use child::Proxy;
use provider::Provider;
use relay::Relay;
use story::Line;

/// What the acts are played on.
struct Stage {
    provider: Provider,
    relay: Relay,
    proxy: Proxy,
}

/// Plays all acts and prints the table; then serves until interrupted, unless told to play once. A
/// wrong count is a failure.
pub async fn run(demo: &Demo) -> Result<String, Failure> {
    if play(demo.once).await? {
        Ok(String::new())
    } else {
        Err(Failure::Wrong(String::new()))
    }
}

/// True if every count was right.
async fn play(once: bool) -> Result<bool> {
    let room = Room::new()?;
    let provider = Provider::start()
        .await
        .context("the demo's provider cannot be started")?;
    let relay = Relay::start(provider.address())
        .await
        .context("the demo's network cannot be started")?;
    let proxy = Proxy::start(&room.path, relay.address()).await?;
    println!(
        "A payment provider is at   http://{}  (its ledger: GET /ledger)",
        provider.address()
    );
    println!(
        "Fencepost stands before it http://{}  (one process, embedded register)\n",
        proxy.address()
    );
    let mut stage = Stage {
        provider,
        relay,
        proxy,
    };
    let lines = story::play(&mut stage, once).await?;
    print!("{}", table(&lines));
    let right = lines.iter().all(Line::is_right);
    println!(
        "\n{}",
        if right {
            "Every effect was accepted at most once, and no stale one got out."
        } else {
            "A COUNT IS WRONG. This is a bug in Fencepost: please report it with the lines above."
        }
    );
    if once {
        return Ok(right);
    }
    println!("{}", try_it(&stage));
    tokio::signal::ctrl_c()
        .await
        .context("cannot wait for Ctrl-C")?;
    Ok(right)
}

/// A directory of its own, gone at the end.
struct Room {
    path: PathBuf,
}

impl Room {
    fn new() -> Result<Self> {
        let name = format!("fencepost-demo-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        // An operator's token lies in it: nobody else reads it.
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self { path })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _already_gone = std::fs::remove_dir_all(&self.path);
    }
}

fn table(lines: &[Line]) -> String {
    let titles = [
        "what happened",
        "what the caller saw",
        "effects at the provider",
    ];
    let cells: Vec<[String; 3]> = lines
        .iter()
        .map(|line| {
            let mark = if line.is_right() { "" } else { "   <-- WRONG" };
            [
                line.what.to_owned(),
                line.saw.clone(),
                format!("{}{mark}", line.effects),
            ]
        })
        .collect();
    let width = |column: usize| {
        let longest = cells
            .iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count());
        let title = titles.get(column).map_or(0, |title| title.len());
        longest.max().unwrap_or(0).max(title)
    };
    let (first, second) = (width(0), width(1));
    let rule = format!(
        "{}  {}  {}\n",
        "-".repeat(first),
        "-".repeat(second),
        "-".repeat(23)
    );
    let mut text = String::new();
    let [a, b, c] = titles;
    let _infallible = writeln!(text, "{a:first$}  {b:second$}  {c}");
    text.push_str(&rule);
    let mut act = "";
    for (line, [what, saw, effects]) in lines.iter().zip(&cells) {
        if line.act != act {
            act = line.act;
            let _infallible = writeln!(text, "{act}");
        }
        let _infallible = writeln!(text, "{what:first$}  {saw:second$}  {effects}");
    }
    text
}

fn try_it(stage: &Stage) -> String {
    let (proxy, provider) = (stage.proxy.address(), stage.provider.address());
    let (mail, health) = (stage.proxy.mail(), stage.proxy.health());
    let worker = stage.proxy.worker();
    let (order, resolves, lists) = (
        doubts::MAIL,
        stage.proxy.resolves(doubts::MAIL),
        stage.proxy.lists(),
    );
    format!(
        "\nStill serving. Try it, then press Ctrl-C:\n\n  \
         # the mail waits for a person: you. See the ledger, say that it was sent, and ask again\n  \
         {resolves}\n  \
         curl -i http://{mail}/mails -H 'Content-Type: application/json' -d '{{\"order\":\"{order}\"}}'\n  \
         # charge once, however often you ask\n  \
         curl -i http://{proxy}/charges -H 'Idempotency-Key: order-1' -d '{{\"amount\":100}}'\n  \
         # own a statement for ten seconds and publish it under your token. Own it again when they are over: you are\n  \
         # somebody else now, with token 2, and what comes under token 1 is refused\n  \
         curl http://{worker}/v1/leases/statement:7:2026-09-13/acquire -d '{{\"ttl\":\"10s\",\"wait\":\"15s\"}}'\n  \
         curl -i -X PUT http://{proxy}/accounts/7/statements/2026-09-13 -H 'Fencing-Token: 1' -d '{{\"object_key\":\"one.pdf\"}}'\n  \
         # what the provider really did, and what the register knows\n  \
         curl http://{provider}/ledger\n  \
         {lists}\n  \
         curl http://{health}/metrics\n"
    )
}
