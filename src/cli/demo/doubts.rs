//! The acts in which nobody knows: an upstream that is asked, and one for which a person is.
//!
//! What always holds: the effect leaves once, however often its caller asks again; what is typed for a person is
//! the very command that is printed.
//!
//! What it does not do: stand in for the person while the demo is being watched: then the mail waits for whoever
//! watches.

use anyhow::{Context as _, Result, ensure};

use super::Stage;
use super::caller::{Ask, Saw};
use super::story::{Line, line};

const ASKED: &str = "5. An API without keys takes too long to answer, but can be asked";
const PERSON: &str = "6. An e-mail gateway breaks off; it has no keys, and cannot be asked";

/// What both acts are about.
pub(super) const PAYOUT: &str = "order-5";
pub(super) const MAIL: &str = "order-6";

/// Repeats join what is being settled; so many of them are far more than it takes.
const REPEATS: usize = 20;

/// Nobody hears the answer. It is found by a question.
pub(super) async fn asked(stage: &Stage, lines: &mut Vec<Line>) -> Result<()> {
    let proxy = stage.proxy.payouts();
    stage.provider.answer(false);
    let payout = Ask::post("/payouts", PAYOUT);
    let first = payout.send(proxy).await;
    let questions = stage.provider.questions();
    stage.provider.answer(true);
    let mut found = line(
        stage,
        ASKED,
        "the caller waits while it is asked",
        &first?,
        200,
        ("POST /payouts", 1),
    );
    found.require(questions > 0);
    lines.push(found);
    let again = payout.send(proxy).await?;
    lines.push(line(
        stage,
        ASKED,
        "it asks again",
        &again,
        200,
        ("POST /payouts", 1),
    ));
    Ok(())
}

/// Nobody can find out by himself. `once`: the person is played too.
pub(super) async fn person(stage: &Stage, once: bool, lines: &mut Vec<Line>) -> Result<()> {
    let proxy = stage.proxy.mail();
    let mail = Ask::post("/mails", MAIL);
    let mut tell = |what, saw: &Saw, status| {
        lines.push(line(stage, PERSON, what, saw, status, ("POST /mails", 1)));
    };
    stage.provider.break_off(true);
    let first = mail.send(proxy).await;
    stage.provider.break_off(false);
    tell("the caller", &first?, 504);
    let again = until_parked(&mail, proxy).await?;
    tell("it asks again", &again, 409);
    if once {
        println!(
            "Somebody looks into what the gateway has sent, and types\n\n  {}\n",
            stage.proxy.resolves(MAIL)
        );
        let said = stage.proxy.resolve(MAIL).await?;
        ensure!(
            said.status.success(),
            "the person's word was not taken: {}{}",
            String::from_utf8_lossy(&said.stdout),
            String::from_utf8_lossy(&said.stderr)
        );
        let told = mail.send(proxy).await?;
        tell("a person says that it was sent; it asks again", &told, 200);
    }
    Ok(())
}

/// Repeats join for as long as nobody knows whether a person is needed.
async fn until_parked(mail: &Ask, proxy: std::net::SocketAddr) -> Result<Saw> {
    for _ in 0..REPEATS {
        let saw = mail.send(proxy).await?;
        if saw.status.as_u16() != 504 {
            return Ok(saw);
        }
    }
    mail.send(proxy).await.context("nobody asked for a person")
}
