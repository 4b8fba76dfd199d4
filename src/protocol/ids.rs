//! Names and numbers that identify things: tenants, upstreams, resources, operations, attempts.
//!
//! What always holds: an identifier is compared by its exact bytes; a fencing token is an ordered
//! pair of integers below 2^63, compared as integers, read and written as decimal text only.
//!
//! What it does not do: derive identities from requests (`wire`), or hash principals (`wire`).

use std::fmt;
use std::sync::Arc;

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps the exact text; no normalisation of any kind.
            pub fn new(text: impl AsRef<str>) -> Self {
                Self(Arc::from(text.as_ref()))
            }

            /// The exact text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }
    };
}

text_id! {
    /// Namespace in a shared register; from the config, never from a caller.
    Tenant
}
text_id! {
    /// Durable identity of an upstream; outlives its name, address and file position.
    UpstreamId
}
text_id! {
    /// The logical operation as its caller or its template names it, unique within (tenant,
    /// upstream, principal).
    OperationId
}
text_id! {
    /// Name of a resource whose effects must be ordered, unique within its tenant, across upstreams
    /// and principals.
    ResourceName
}
text_id! {
    /// One acquisition of a lease. Equality answers "still mine?"; it never orders anything.
    AcquisitionId
}
text_id! {
    /// Who issues the fencing tokens of a resource. Tokens of two sources are not comparable.
    TokenSource
}
text_id! {
    /// The rules of an effect as the config names them.
    EffectName
}
text_id! {
    /// A settle step as the config names it, unique within its effect.
    StepName
}

/// What selects an account or a caller, hashed; `None` for one worker behind a loopback listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Principal {
    /// No principal is configured.
    None,
    /// Keyed digest of the configured fields; the fields themselves are never stored.
    Hashed([u8; 16]),
}

/// How often a resource was reopened or repaired. Counts up, never down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub u64);

impl Incarnation {
    /// The one after this one.
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// Identity of an operation: the same across retries, workers and generations.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationKey {
    /// Namespace.
    pub tenant: Tenant,
    /// Durable id of the upstream.
    pub upstream: UpstreamId,
    /// Account or caller.
    pub principal: Principal,
    /// The id proper.
    pub id: OperationId,
    /// 0 for an id that is once ever. An id that contains the generation carries the incarnation of
    /// its resource too, filled in from the fence inside the transaction.
    pub incarnation: Incarnation,
}

impl OperationKey {
    /// The same identity within another incarnation of its resource.
    pub fn within(&self, incarnation: Incarnation) -> Self {
        Self {
            incarnation,
            ..self.clone()
        }
    }
}

impl ResourceName {
    /// The longest that is taken, in bytes: every admission on it reads its name, and a register's index keeps it.
    pub const LONGEST: usize = 1_024;

    /// The name, unless it is empty or too long.
    pub fn taken(text: impl AsRef<str>) -> Option<Self> {
        let fits = (1..=Self::LONGEST).contains(&text.as_ref().len());
        fits.then(|| Self::new(text))
    }
}

/// Identity of a resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceKey {
    /// Namespace.
    pub tenant: Tenant,
    /// Name within it.
    pub name: ResourceName,
}

/// One start of one Fencepost process. Random, never reused, never derived from a host name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceId(pub u128);

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// One try at sending an operation. Every write about a try carries this id, so that applying the
/// write twice is harmless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId {
    /// Who tries.
    pub instance: InstanceId,
    /// Counter within the instance.
    pub number: u64,
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.instance, self.number)
    }
}

/// How many keys have been used towards the upstream for one operation; the upstream key is a pure
/// function of the identity and this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Round(pub u32);

impl Round {
    /// The round after this one; stays at the last one rather than wrapping to an old key.
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// Number of an admission within its resource: the order in which effects were let out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AdmissionNumber(pub u64);

/// `Fencing-Sequence`: order within one generation under `per_generation: numbered`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(u64);

impl Sequence {
    /// Decimal digits only, below 2^63.
    pub fn parse(text: &str) -> Option<Self> {
        decimal(text).map(Self)
    }

    /// The number.
    pub fn value(self) -> u64 {
        self.0
    }

    /// A number from a stored record or a test; `None` from 2^63 upwards.
    pub fn from_value(value: u64) -> Option<Self> {
        (value < TOKEN_LIMIT).then_some(Self(value))
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Tokens and sequences stay below this, so that they survive every signed 64-bit integer on the
/// way.
const TOKEN_LIMIT: u64 = 1 << 63;

/// An ordered generation identifier, issued when ownership is acquired: (epoch, generation).
///
/// Text form: `108` (epoch 0, for ever) or `3:108`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken {
    epoch: u64,
    generation: u64,
}

impl FencingToken {
    /// Both parts below 2^63, else `None`.
    pub fn new(epoch: u64, generation: u64) -> Option<Self> {
        (epoch < TOKEN_LIMIT && generation < TOKEN_LIMIT).then_some(Self { epoch, generation })
    }

    /// Reads `108` or `3:108`. No sign, no space, no exponent, no leading zero, ASCII digits only:
    /// two texts never mean one token.
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_once(':') {
            None => Self::new(0, decimal(text)?),
            Some((epoch, generation)) => match decimal(epoch)? {
                // `0:108` and `108` would be two texts for one token.
                0 => None,
                epoch => Self::new(epoch, decimal(generation)?),
            },
        }
    }

    /// The register-wide part.
    pub fn epoch(self) -> u64 {
        self.epoch
    }

    /// The part that its source counts up.
    pub fn generation(self) -> u64 {
        self.generation
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.epoch {
            0 => write!(f, "{}", self.generation),
            epoch => write!(f, "{epoch}:{}", self.generation),
        }
    }
}

fn decimal(text: &str) -> Option<u64> {
    let plain = !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_digit())
        && (text.len() == 1 || !text.starts_with('0'));
    let value: u64 = if plain {
        text.parse().ok()?
    } else {
        return None;
    };
    (value < TOKEN_LIMIT).then_some(value)
}

/// Keyed digest of what a request means. Two fingerprints made with another key or another canonical
/// form are not comparable; both are named here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    /// Which key made it: the first bytes of the digest of the key.
    pub key: u32,
    /// Which version of the canonical form.
    pub form: u8,
    /// HMAC-SHA-256.
    pub digest: [u8; 32],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_read_only_their_one_text_form() {
        for good in ["0", "5", "108", "9223372036854775807", "3:108", "1:0"] {
            assert_eq!(FencingToken::parse(good).unwrap().to_string(), good);
        }
        // C24: what doubles, locales and sloppy writers make of a token.
        for bad in [
            "",
            " 5",
            "5 ",
            "+5",
            "-5",
            "05",
            "0:5",
            "5.0",
            "9.007e15",
            "9007199254740992.0",
            "٥",
            "9223372036854775808",
            "18446744073709551616",
            "1:",
            ":1",
            "1:2:3",
            "1:02",
            "0x5",
            "abc",
        ] {
            assert_eq!(FencingToken::parse(bad), None, "{bad:?}");
        }
    }

    /// C20: an order, not an equality. C24: of integers, not of doubles.
    #[test]
    fn tokens_order_by_epoch_then_generation_as_integers() {
        let token = |text: &str| FencingToken::parse(text).unwrap();
        assert!(token("9") < token("10"));
        assert!(token("999") < token("1:1"));
        assert!(token("2:5") < token("10:4"));
        assert!(token("9007199254740992") < token("9007199254740993"));
    }
}
