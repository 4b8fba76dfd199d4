//! Who waits where for what: the letters between processes.
//!
//! A process that waits for an operation tells so to whoever carries it; that one sends a word once its end
//! has committed. Letters are notifications of the database (NOTIFY), sent in transactions of their own: inside
//! of one that writes they would have all commits of the database follow each other.
//!
//! What always holds: a letter is a hint and nothing else: whoever gets one looks at the register. Lost,
//! doubled or forged ones cost a look. Nothing here grows without bound: what finds no room is not told,
//! and its waiter finds out by looking now and then.
//!
//! What it does not do: send or receive (`life`, `session`), or look (`dispatch::abroad`).

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::identity;
use crate::protocol::ids::{InstanceId, OperationKey};

/// So many operations are remembered as waited for elsewhere.
const OPERATIONS: usize = 4_096;

/// And so many processes that wait for one.
const WAITERS: usize = 64;

/// Letters that wait to be sent, at most.
const OUTGOING: usize = 4_096;

/// Which operation, in a letter.
type Identity = Vec<u8>;

/// The letters of one process.
#[derive(Default)]
pub(super) struct Abroad {
    /// Others that wait for what is carried here.
    waiting: Mutex<HashMap<Identity, BTreeSet<InstanceId>>>,
    /// How many entries it has: mostly none, and then nobody takes the lock.
    waited_for: AtomicUsize,
    /// To whom it was said that we wait for what he carries.
    asked: Mutex<HashMap<Identity, InstanceId>>,
    outgoing: Mutex<Vec<Letter>>,
    /// There is something to send.
    pub(super) post: Notify,
    /// Something that is waited for here may have ended.
    pub(super) hint: Notify,
}

/// To whom, and what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Letter {
    to: InstanceId,
    word: Word,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Word {
    /// That instance waits for that operation.
    Waits(InstanceId, Identity),
    /// That operation ended.
    Ended(Identity),
}

impl Abroad {
    /// An operation has left doubt, and that is committed.
    pub(super) fn ended(&self, key: &OperationKey) {
        if self.waited_for.load(Ordering::Acquire) == 0 {
            return;
        }
        let identity = identity::of(key);
        let mut waiting = locked(&self.waiting);
        let waiters = waiting.remove(&identity);
        self.waited_for.store(waiting.len(), Ordering::Release);
        drop(waiting);
        for to in waiters.into_iter().flatten() {
            self.send(Letter {
                to,
                word: Word::Ended(identity.clone()),
            });
        }
    }

    /// `own` waits for these, each of which somebody else carries: whoever does not know it yet is told.
    pub(super) fn waits(&self, own: InstanceId, carried: Vec<(Identity, InstanceId)>) {
        let mut asked = locked(&self.asked);
        let before = std::mem::take(&mut *asked);
        for (identity, carrier) in carried {
            if before.get(&identity) != Some(&carrier) {
                self.send(Letter {
                    to: carrier,
                    word: Word::Waits(own, identity.clone()),
                });
            }
            asked.insert(identity, carrier);
        }
    }

    /// A letter came in.
    pub(super) fn heard(&self, text: &str) {
        match Word::parse(text) {
            Some(Word::Waits(who, identity)) => {
                let mut waiting = locked(&self.waiting);
                if waiting.len() >= OPERATIONS {
                    // Mostly those that were never settled.
                    waiting.clear();
                }
                let waiters = waiting.entry(identity).or_default();
                if waiters.len() < WAITERS {
                    waiters.insert(who);
                }
                self.waited_for.store(waiting.len(), Ordering::Release);
            }
            Some(Word::Ended(identity)) => {
                // Should it be waited for once more, its carrier has to be told once more.
                locked(&self.asked).remove(&identity);
                self.hint.notify_one();
            }
            None => tracing::debug!("a notification of somebody else was received"),
        }
    }

    /// What is to be sent: channels, and a text for each.
    pub(super) fn outgoing(&self) -> Vec<(String, String)> {
        let letters = std::mem::take(&mut *locked(&self.outgoing));
        let letters = letters.into_iter();
        letters
            .map(|letter| (channel(letter.to), letter.word.text()))
            .collect()
    }

    #[cfg(test)]
    pub(super) fn is_waited_for(&self, key: &OperationKey) -> bool {
        locked(&self.waiting).contains_key(&identity::of(key))
    }

    fn send(&self, letter: Letter) {
        let mut outgoing = locked(&self.outgoing);
        if outgoing.len() < OUTGOING {
            outgoing.push(letter);
            self.post.notify_one();
        }
    }
}

/// Where letters to an instance go. A name that needs no quotes.
pub(super) fn channel(InstanceId(instance): InstanceId) -> String {
    format!("fencepost_{instance:032x}")
}

impl Word {
    fn text(&self) -> String {
        match self {
            Self::Waits(InstanceId(who), identity) => format!("w {} {who:032x}", hex(identity)),
            Self::Ended(identity) => format!("e {}", hex(identity)),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(' ');
        let (kind, identity) = (parts.next()?, unhex(parts.next()?)?);
        let word = match kind {
            "w" => {
                let who = u128::from_be_bytes(unhex(parts.next()?)?.try_into().ok()?);
                Self::Waits(InstanceId(who), identity)
            }
            "e" => Self::Ended(identity),
            _ => return None,
        };
        parts.next().is_none().then_some(word)
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Of an identity or an instance: sixteen bytes, and nothing else.
fn unhex(text: &str) -> Option<Vec<u8>> {
    let is_hex = text.len() == 32 && text.bytes().all(|it| it.is_ascii_hexdigit());
    let number = is_hex
        .then(|| u128::from_str_radix(text, 16).ok())
        .flatten()?;
    Some(number.to_be_bytes().to_vec())
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Letters are hints: one that a panic lost is found out by looking.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::conformance::commands as c;

    const HERE: InstanceId = InstanceId(0xa);
    const THERE: InstanceId = InstanceId(0xb);

    fn identity() -> Identity {
        identity::of(&c::key("a"))
    }

    fn only(letters: Vec<(String, String)>) -> (String, String) {
        assert_eq!(letters.len(), 1, "{letters:?}");
        letters.into_iter().next().unwrap()
    }

    #[test]
    fn whoever_waits_elsewhere_is_told_of_the_end_and_once() {
        let (here, there) = (Abroad::default(), Abroad::default());
        there.waits(THERE, vec![(identity(), HERE)]);
        let (to, text) = only(there.outgoing());
        assert_eq!(to, channel(HERE));
        here.heard(&text);
        here.ended(&c::key("another"));
        assert_eq!(here.outgoing(), []);
        here.ended(&c::key("a"));
        let (to, text) = only(here.outgoing());
        assert_eq!(to, channel(THERE));
        assert_eq!(Word::parse(&text), Some(Word::Ended(identity())));
        here.ended(&c::key("a"));
        assert_eq!(here.outgoing(), []);
    }

    #[test]
    fn a_carrier_is_asked_again_only_when_it_is_another_one() {
        let abroad = Abroad::default();
        let asked = |carrier| {
            abroad.waits(THERE, vec![(identity(), carrier)]);
            abroad.outgoing().len()
        };
        assert_eq!(
            [asked(HERE), asked(HERE), asked(InstanceId(0xc))],
            [1, 0, 1]
        );
        abroad.waits(THERE, Vec::new());
        abroad.waits(THERE, vec![(identity(), HERE)]);
        assert_eq!(abroad.outgoing().len(), 1, "a new wait is told anew");
    }

    #[test]
    fn letters_of_others_and_floods_are_borne() {
        let abroad = Abroad::default();
        let id = hex(&identity());
        for text in [
            "",
            "w",
            "e",
            "e xyz",
            "w 00 00",
            "x y z",
            "e \u{1f980}",
            &format!("e {id} {id}"),
        ] {
            assert_eq!(Word::parse(text), None, "{text:?}");
            abroad.heard(text);
        }
        for number in 0..3 * OPERATIONS as u128 {
            let operation = number.to_be_bytes().to_vec();
            abroad.heard(&Word::Waits(InstanceId(number), operation).text());
            abroad.heard(&Word::Waits(InstanceId(number), identity()).text());
        }
        let waiting = locked(&abroad.waiting);
        assert!(waiting.len() <= OPERATIONS);
        assert!(waiting.values().all(|waiters| waiters.len() <= WAITERS));
        assert!(
            channel(InstanceId(u128::MAX)).len() < 64,
            "no longer than a name may be"
        );
    }
}
