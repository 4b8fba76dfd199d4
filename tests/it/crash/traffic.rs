//! Random requests of workers who share payments, statements and accounts, and do not know what the
//! others did.
//!
//! What always holds: a seed and a number give the same choices; the body and two fields of a
//! request say which operation it is and under which token, so that the upstream's ledger can be
//! read without the proxy.

use std::net::SocketAddr;

use super::book::Book;
use crate::support::call::Call;
use crate::support::dice::Dice;

/// A field for the test's own eyes: the operation's id in the register.
pub(super) const OPERATION: &str = "X-Test-Operation";
/// Another: the token.
pub(super) const TOKEN: &str = "X-Test-Token";

/// One request, as often as somebody sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// The operation's id in the register.
    pub(super) operation: String,
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) key: Option<String>,
    pub(super) resource: Option<String>,
    pub(super) token: Option<u64>,
    pub(super) body: String,
}

impl Request {
    /// Somebody's next request, to one of so many resources of each kind.
    pub(super) fn random(dice: &mut Dice, book: &Book, resources: usize) -> Self {
        match dice.below(100) {
            0..30 => Self::payment(dice.roll()),
            30..55 => book
                .any_known(dice)
                .unwrap_or_else(|| Self::payment(dice.roll())),
            55..63 => match book.any_known(dice) {
                // A refused publication leaves its derived identity free for another payload: there,
                // a change is no mix-up.
                Some(known) if known.key.is_some() => known.changed(),
                Some(_) | None => Self::payment(dice.roll()),
            },
            63..80 => Self::statement(dice, book, resources),
            _ => Self::from_account(dice, book, resources),
        }
    }

    fn payment(number: u64) -> Self {
        let key = format!("pay-{number:x}");
        Self {
            body: body(&key, 0, false),
            operation: key.clone(),
            method: "POST",
            path: "/payments".to_owned(),
            key: Some(key),
            resource: None,
            token: None,
        }
    }

    fn statement(dice: &mut Dice, book: &Book, resources: usize) -> Self {
        let date = format!("2026-09-{:02}", 1 + dice.below(resources));
        let resource = format!("statement:{date}");
        let token = token(dice, book, &resource);
        let operation = format!("publish:{date}:{token}");
        Self {
            body: body(&operation, token, false),
            operation,
            method: "PUT",
            path: format!("/statements/{date}"),
            key: None,
            resource: Some(resource),
            token: Some(token),
        }
    }

    fn from_account(dice: &mut Dice, book: &Book, resources: usize) -> Self {
        let account = dice.below(resources);
        let resource = format!("account:{account}");
        let token = token(dice, book, &resource);
        let key = format!("from-{account}-{:x}", dice.roll());
        Self {
            body: body(&key, token, false),
            operation: key.clone(),
            method: "POST",
            path: format!("/accounts/{account}/payments"),
            key: Some(key),
            resource: Some(resource),
            token: Some(token),
        }
    }

    /// The same identity with another payload, by a worker that mixes something up.
    fn changed(self) -> Self {
        let token = self.token.unwrap_or_default();
        Self {
            body: body(&self.operation, token, true),
            ..self
        }
    }

    /// To the proxy that listens there.
    pub(super) fn call(&self, at: SocketAddr) -> Call {
        let mut call = Call::new(at, self.method, &self.path).field(OPERATION, &self.operation);
        if let Some(key) = &self.key {
            call = call.key(key);
        }
        if let Some(token) = self.token {
            let token = token.to_string();
            call = call.token(&token).field(TOKEN, &token);
        }
        call.json(&self.body)
    }
}

/// Mostly the present owner's, sometimes the next one's, sometimes an old one's.
fn token(dice: &mut Dice, book: &Book, resource: &str) -> u64 {
    let mark = book.mark(resource).max(100);
    match dice.below(10) {
        0..3 => mark + 1,
        3..7 => mark,
        _ => mark - u64::try_from(dice.below(3)).unwrap() - 1,
    }
}

fn body(operation: &str, token: u64, changed: bool) -> String {
    format!(r#"{{"operation":"{operation}","token":{token},"changed":{changed}}}"#)
}
