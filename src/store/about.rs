//! What a register says of itself, for the people who look after it.
//!
//! What always holds: it shows where the register is and never how to get in. What does not agree is said
//! whether or not anything is admitted.
//!
//! What it does not do: judge whether anything may be admitted (`ready`).

/// The register as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Which kind: `embedded`, `postgres`, `memory`.
    pub kind: &'static str,
    /// Format of its tables; `None`: it has none.
    pub format: Option<u32>,
    /// What is worth knowing, by name, in the order in which it is told.
    pub facts: Vec<(&'static str, String)>,
    /// What is not as it was when the register was last known whole, one sentence each. Empty: nothing.
    pub differences: Vec<String>,
    /// It was accepted as it is, and admits nothing for so much longer at least, in milliseconds; `None`: it does
    /// not wait for that.
    pub quiet_ms: Option<u64>,
    /// What was done to it as a whole, newest first, at most [`TOLD`].
    pub history: Vec<Deed>,
}

/// So much of the history is told.
pub const TOLD: i64 = 8;

/// Something that was done to a register as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deed {
    /// When, by the wall clock of who did it.
    pub wall_ms: u64,
    /// What.
    pub text: String,
}

/// How a register stands that many processes share, as far as this one knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Is anything admitted?
    pub stands: Stands,
    /// Why nothing is admitted; `None`: it is.
    pub closed: Option<String>,
    /// Epochs that this process began by itself, after fail-overs that lost nothing.
    pub epochs_begun: u64,
}

/// Is anything admitted by the register, and what must happen before it is again?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stands {
    /// It admits.
    #[default]
    Whole,
    /// It may have lost commits, or it is not known yet whether it has.
    InDoubt,
    /// It was accepted as it is, and waits for what was under way.
    Quiet,
    /// It was exported.
    Moved,
    /// A newer version has brought it to a format that this one may not use.
    Outgrown,
}

impl Stands {
    const ALL: [Self; 5] = [
        Self::Whole,
        Self::InDoubt,
        Self::Quiet,
        Self::Moved,
        Self::Outgrown,
    ];

    /// All, each with whether it is this one: for metrics.
    pub fn ways(self) -> [(&'static str, bool); 5] {
        Self::ALL.map(|it| (it.word(), it == self))
    }

    /// For readiness, and a label of metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::InDoubt => "in-doubt",
            Self::Quiet => "quiet",
            Self::Moved => "moved",
            Self::Outgrown => "outgrown",
        }
    }
}
