//! The report's numbers: per effect, how many requests, and what the rules found in them.
//!
//! What always holds: the number of rows is bounded by the config's effects and the contract's words,
//! and by a limit beyond that; an example names an effect and the digest of an operation's id, never a
//! path, a key, content or a credential.
//!
//! What it does not do: keep itself (`file`), or judge.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ring::digest;
use serde::{Deserialize, Serialize};

use crate::protocol::ids::OperationId;

/// Most effects that are kept apart, over all configs since the report began.
const MOST_EFFECTS: usize = 1_024;

/// Most findings of one effect: the contract's reasons, and some missing members.
const MOST_FINDINGS: usize = 64;

/// Most missing members of one effect that are kept apart.
const MOST_MEMBERS: usize = 16;

/// Longest method that is shown.
const LONGEST_METHOD: usize = 16;

/// Stands for the members beyond.
const OTHER_MEMBERS: &str = "others";

/// How a request was treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Treatment {
    /// What was found was done.
    Enforced,
    /// It was forwarded whatever was found.
    Observed,
    /// No effect matches it, and it was forwarded.
    Unlisted,
}

/// What the rules find in a request; under [`Treatment::Observed`], what they would have done.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "finding", content = "of", rename_all = "kebab-case")]
pub enum Finding {
    /// It repeats what was done, and gets that answer.
    Replayed,
    /// It repeats what is under way, and joins it.
    Joined,
    /// It waits for an older operation of its resource.
    Waited,
    /// It was refused; the problem's name.
    Refused(Cow<'static, str>),
    /// It would be refused, were tokens not observed; the problem's name.
    LetPass(Cow<'static, str>),
    /// It has no token, and is let in without: `require` would refuse it.
    WithoutToken,
    /// A member that its identity or meaning is made of cannot be had.
    Lacking(Cow<'static, str>),
    /// It names no operation: whoever sends it again makes another one.
    WithoutIdentity,
    /// Nobody knows how it ended, and it is to be settled.
    InDoubt,
    /// It could not be judged; why.
    NotJudged(Cow<'static, str>),
}

/// A request that shows what is meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Example {
    /// Its method.
    pub method: String,
    /// First half of the SHA-256 of its operation's id, in hex, if it has one.
    pub operation: Option<String>,
}

/// How often something was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// What.
    #[serde(flatten)]
    pub finding: Finding,
    /// How often.
    pub count: u64,
    /// First time, in milliseconds since 1970.
    pub first_ms: u64,
    /// Last time.
    pub last_ms: u64,
    /// The request that it was found in last.
    pub example: Option<Example>,
}

/// One effect, treated in one way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Durable id of the upstream.
    pub upstream: String,
    /// Name of the effect, like `PUT /accounts/{account}`.
    pub effect: String,
    /// How its requests were treated.
    pub treatment: Treatment,
    /// How many there were.
    pub requests: u64,
    /// What was found, in order of its first time.
    pub found: Vec<Found>,
}

/// Everything since the report began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Book {
    /// When it began, in milliseconds since 1970; 0 while nothing was counted.
    pub since_ms: u64,
    /// By upstream, effect and treatment.
    pub rows: Vec<Row>,
    /// Requests of effects that were too many to be kept apart.
    pub beyond: u64,
}

/// A request that something was found in.
#[derive(Clone, Copy, Debug)]
pub struct Occasion<'a> {
    /// Durable id of its upstream.
    pub upstream: &'a str,
    /// Name of its effect.
    pub effect: &'a str,
    /// How it was treated.
    pub treatment: Treatment,
    /// Its method.
    pub method: &'a str,
    /// The operation that it names, if any.
    pub operation: Option<&'a OperationId>,
    /// Now, in milliseconds since 1970.
    pub at_ms: u64,
}

/// The numbers, shared by whoever counts and whoever shows them.
#[derive(Clone, Debug, Default)]
pub struct Counts(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    since_ms: u64,
    rows: BTreeMap<String, BTreeMap<(Treatment, String), Tally>>,
    effects: usize,
    beyond: u64,
    /// Counts up with every change.
    changes: u64,
}

#[derive(Debug, Default)]
struct Tally {
    requests: u64,
    found: Vec<Found>,
}

impl Finding {
    /// Its word, without what it is of.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Replayed => "replayed",
            Self::Joined => "joined",
            Self::Waited => "waited",
            Self::Refused(_) => "refused",
            Self::LetPass(_) => "let-pass",
            Self::WithoutToken => "without-token",
            Self::Lacking(_) => "lacking",
            Self::WithoutIdentity => "without-identity",
            Self::InDoubt => "in-doubt",
            Self::NotJudged(_) => "not-judged",
        }
    }
}

impl Counts {
    /// Goes on from what was kept.
    pub fn from(book: Book) -> Self {
        let mut inner = Inner {
            since_ms: book.since_ms,
            beyond: book.beyond,
            ..Inner::default()
        };
        for row in book.rows {
            if let Some(tally) = inner.tally(&row.upstream, row.treatment, &row.effect) {
                tally.requests = tally.requests.saturating_add(row.requests);
                tally
                    .found
                    .extend(row.found.into_iter().take(MOST_FINDINGS));
            }
        }
        Self(Arc::new(Mutex::new(inner)))
    }

    /// One more request, and what was found in it.
    pub fn request(&self, about: Occasion<'_>, findings: &[Finding]) {
        self.add(about, 1, findings);
    }

    /// What was found later in a request that is counted already.
    pub fn later(&self, about: Occasion<'_>, finding: Finding) {
        self.add(about, 0, &[finding]);
    }

    /// All of it, and the number of changes so far.
    pub fn book(&self) -> (Book, u64) {
        let inner = self.inner();
        let rows = inner.rows.iter().flat_map(|(upstream, effects)| {
            effects.iter().map(|((treatment, effect), tally)| Row {
                upstream: upstream.clone(),
                effect: effect.clone(),
                treatment: *treatment,
                requests: tally.requests,
                found: tally.found.clone(),
            })
        });
        let book = Book {
            since_ms: inner.since_ms,
            rows: rows.collect(),
            beyond: inner.beyond,
        };
        (book, inner.changes)
    }

    /// How many changes there were so far.
    pub fn changes(&self) -> u64 {
        self.inner().changes
    }

    fn add(&self, about: Occasion<'_>, requests: u64, findings: &[Finding]) {
        let mut inner = self.inner();
        inner.changes = inner.changes.saturating_add(1);
        if inner.since_ms == 0 {
            inner.since_ms = about.at_ms;
        }
        match inner.tally(about.upstream, about.treatment, about.effect) {
            Some(tally) => {
                tally.requests = tally.requests.saturating_add(requests);
                for finding in findings {
                    tally.find(finding, &about);
                }
            }
            None => inner.beyond = inner.beyond.saturating_add(requests),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Nothing that could panic is done under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn tally(&mut self, upstream: &str, treatment: Treatment, effect: &str) -> Option<&mut Tally> {
        if !self.rows.contains_key(upstream) {
            if self.effects >= MOST_EFFECTS {
                return None;
            }
            self.rows.insert(upstream.to_owned(), BTreeMap::new());
        }
        let effects = self.rows.get_mut(upstream)?;
        let key = (treatment, effect.to_owned());
        if !effects.contains_key(&key) {
            if self.effects >= MOST_EFFECTS {
                return None;
            }
            self.effects = self.effects.saturating_add(1);
        }
        Some(effects.entry(key).or_default())
    }
}

impl Tally {
    fn find(&mut self, finding: &Finding, about: &Occasion<'_>) {
        let finding = self.within_bounds(finding);
        let example = Some(Example::of(about));
        let room = self.found.len() < MOST_FINDINGS;
        match self.found.iter_mut().find(|it| it.finding == *finding) {
            Some(known) => {
                known.count = known.count.saturating_add(1);
                known.last_ms = about.at_ms;
                known.example = example;
            }
            None if room => self.found.push(Found {
                finding: finding.into_owned(),
                count: 1,
                first_ms: about.at_ms,
                last_ms: about.at_ms,
                example,
            }),
            None => {}
        }
    }

    /// Only the names of missing members are not the contract's own.
    fn within_bounds<'a>(&self, finding: &'a Finding) -> Cow<'a, Finding> {
        let members = self.found.iter().map(|it| &it.finding);
        let members = members.filter(|it| matches!(it, Finding::Lacking(_)));
        let is_new = !self.found.iter().any(|it| it.finding == *finding);
        if matches!(finding, Finding::Lacking(_)) && is_new && members.count() >= MOST_MEMBERS {
            return Cow::Owned(Finding::Lacking(OTHER_MEMBERS.into()));
        }
        Cow::Borrowed(finding)
    }
}

impl Example {
    fn of(about: &Occasion<'_>) -> Self {
        Self {
            // A method may be any word of its caller's.
            method: about.method.chars().take(LONGEST_METHOD).collect(),
            operation: about.operation.map(|id| digest_of(id.as_str())),
        }
    }
}

/// What stands for an operation's id: ids name customers. Who has the id can make the same of it.
fn digest_of(id: &str) -> String {
    let digest = digest::digest(&digest::SHA256, id.as_bytes());
    let half = digest.as_ref().first_chunk().copied().unwrap_or_default();
    format!("{:032x}", u128::from_be_bytes(half))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about<'a>(effect: &'a str, operation: Option<&'a OperationId>) -> Occasion<'a> {
        Occasion {
            upstream: "bank",
            effect,
            treatment: Treatment::Observed,
            method: "POST",
            operation,
            at_ms: 7,
        }
    }

    #[test]
    fn requests_are_counted_once_and_findings_by_what_they_are() {
        let counts = Counts::default();
        let id = OperationId::new("pay:customer-7");
        let stale = Finding::Refused("stale-fencing-token".into());
        counts.request(about("POST /x", Some(&id)), &[]);
        counts.request(
            about("POST /x", Some(&id)),
            &[Finding::Waited, stale.clone()],
        );
        counts.request(about("POST /x", Some(&id)), std::slice::from_ref(&stale));
        counts.later(about("POST /x", Some(&id)), Finding::InDoubt);
        let (book, changes) = counts.book();
        assert_eq!(changes, 4);
        assert_eq!(book.rows.len(), 1);
        assert_eq!(book.rows[0].requests, 3);
        let found: Vec<_> = book.rows[0]
            .found
            .iter()
            .map(|it| (&it.finding, it.count))
            .collect();
        assert_eq!(
            found,
            [(&Finding::Waited, 1), (&stale, 2), (&Finding::InDoubt, 1)]
        );
        let text = serde_json::to_string(&book).unwrap();
        assert!(!text.contains("customer-7"), "{text}");
        // What was kept is what is gone on from.
        assert_eq!(Counts::from(book.clone()).book().0, book);
    }

    #[test]
    fn neither_effects_nor_members_grow_without_bound() {
        let counts = Counts::default();
        for number in 0..MOST_EFFECTS + 5 {
            counts.request(about(&format!("POST /{number}"), None), &[]);
        }
        for number in 0..MOST_MEMBERS + 5 {
            let lacking = Finding::Lacking(format!("json /{number}").into());
            counts.request(about("POST /0", None), &[lacking]);
        }
        let (book, _) = counts.book();
        assert_eq!(book.rows.len(), MOST_EFFECTS);
        assert_eq!(book.beyond, 5);
        let row = book
            .rows
            .iter()
            .find(|row| row.effect == "POST /0")
            .unwrap();
        assert_eq!(row.found.len(), MOST_MEMBERS + 1);
        let last = row.found.last().unwrap();
        assert_eq!(
            (&last.finding, last.count),
            (&Finding::Lacking("others".into()), 5)
        );
    }
}
