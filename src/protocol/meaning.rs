//! What requests mean, as far as the register can compare it.
//!
//! What always holds: two requests are held for the same, or for different ones, only where that is
//! known. A fingerprint made with another key, or with a form that cannot be made any more, says
//! neither; whoever asks must then refuse: a replay could be another request's answer, and "reused"
//! could be false.
//!
//! What it does not do: read requests or make digests (`wire`).

use std::sync::Arc;

use super::ids::Fingerprint;

/// What a request means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// In the form in force, under the key of its rule.
    pub fingerprint: Fingerprint,
    /// The earliest form that gives a request like this the same digest.
    pub since: u8,
    /// The same request as it was fingerprinted before its rule, or the form, changed. Where it is
    /// found again the requests are the same; where it is not, nothing is known.
    pub former: Option<Fingerprint>,
    /// What it is made of.
    pub members: Members,
}

/// How a request compares with a stored fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likeness {
    /// It means the same.
    Same,
    /// It means something else.
    Other,
    /// Nobody can tell.
    NotComparable,
}

/// Small keyed digests of what a request is made of, names and values together, in ascending order.
/// They tell *which* part of a later request differs when the fingerprints do, also when the bytes
/// are long gone; what a request means is never decided by them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Members {
    /// How finely it was taken apart.
    pub grain: Grain,
    /// 32 bits each.
    pub digests: Arc<[u32]>,
}

/// How finely a request was taken apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Grain {
    /// Every value of its own.
    #[default]
    Leaves,
    /// The members of the outermost object or array, because there were too many values.
    Outermost,
    /// Only what every request has: method, path, query. Its content was too much.
    Head,
}

impl Meaning {
    /// Compares it with what a record holds.
    pub fn likeness(&self, stored: &Fingerprint) -> Likeness {
        let own = &self.fingerprint;
        if stored.key == own.key && (self.since..=own.form).contains(&stored.form) {
            return if stored.digest == own.digest {
                Likeness::Same
            } else {
                Likeness::Other
            };
        }
        let former = self.former.as_ref();
        // Under one key a digest is of one form only.
        if former.is_some_and(|it| it.key == stored.key && it.digest == stored.digest) {
            Likeness::Same
        } else {
            Likeness::NotComparable
        }
    }

    /// Does it certainly mean what the record holds?
    pub fn is(&self, stored: &Fingerprint) -> bool {
        self.likeness(stored) == Likeness::Same
    }
}

/// A fingerprint that never had another form, of a request that nothing more is known of.
impl From<Fingerprint> for Meaning {
    fn from(fingerprint: Fingerprint) -> Self {
        Self {
            fingerprint,
            since: fingerprint.form,
            former: None,
            members: Members::default(),
        }
    }
}

impl Members {
    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.digests.is_empty()
    }

    /// Is this digest among them?
    pub fn contain(&self, digest: u32) -> bool {
        self.digests.binary_search(&digest).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(key: u32, form: u8, digest: u8) -> Fingerprint {
        Fingerprint {
            key,
            form,
            digest: [digest; 32],
        }
    }

    #[test]
    fn only_what_can_be_compared_is_called_the_same_or_another() {
        let meaning = Meaning {
            since: 2,
            former: Some(made(9, 1, 7)),
            ..made(1, 3, 5).into()
        };
        for (stored, likeness) in [
            (made(1, 3, 5), Likeness::Same),
            (made(1, 2, 5), Likeness::Same),
            (made(1, 3, 6), Likeness::Other),
            (made(1, 2, 6), Likeness::Other),
            // An older form, a later one, another key: whatever the digest says.
            (made(1, 1, 5), Likeness::NotComparable),
            (made(1, 4, 5), Likeness::NotComparable),
            (made(2, 3, 5), Likeness::NotComparable),
            (made(2, 3, 6), Likeness::NotComparable),
            (made(9, 1, 7), Likeness::Same),
            (made(9, 1, 8), Likeness::NotComparable),
        ] {
            assert_eq!(meaning.likeness(&stored), likeness, "{stored:?}");
            assert_eq!(meaning.is(&stored), likeness == Likeness::Same);
        }
    }
}
