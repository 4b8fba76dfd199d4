//! What can be typed about operations and resources.
//!
//! What always holds: whatever changes something asks for a reason here, before anything is asked of an instance.
//!
//! What it does not do: act.

use clap::{Args, Subcommand, ValueEnum};

use super::{Instance, Page};

#[derive(Subcommand)]
pub(in crate::cli) enum Operations {
    /// List operations, newest first.
    List(OperationsList),
    /// Show one operation with its event log.
    Show(OperationShow),
    /// Tell the story of one operation, and what can still be done about it until when.
    Why(OperationWhy),
    /// Say how an operation ended. The verdict is kept with your name and reason.
    Resolve(OperationResolve),
    /// Say how many operations ended. Without --selection it only shows which, and what to type then.
    ResolveAll(OperationsResolve),
    /// Have an operation settled now, or sent once more because you say so.
    Settle(OperationSettle),
}

#[derive(Args)]
pub(in crate::cli) struct OperationWhy {
    #[command(flatten)]
    pub(in crate::cli) name: OperationName,
    #[command(flatten)]
    pub(in crate::cli) instance: Instance,
}

#[derive(Args)]
pub(in crate::cli) struct OperationSettle {
    #[command(flatten)]
    pub(in crate::cli) name: OperationName,
    /// Send the stored bytes once more under the same key, also where nothing would by itself: after a
    /// cancel or an advance, or beyond the number of resends. Never beyond the key's lifetime, nor past a
    /// newer operation, nor where the upstream does not deduplicate.
    #[arg(long, requires = "reason")]
    pub(in crate::cli) send: bool,
    /// Why; kept with the operation.
    #[arg(long)]
    pub(in crate::cli) reason: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) instance: Instance,
}

#[derive(Args)]
#[command(group = clap::ArgGroup::new("whose").required(true).multiple(true).args(["upstream", "resource"]))]
pub(in crate::cli) struct OperationsResolve {
    /// Those of this upstream, by its durable id.
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) upstream: Option<String>,
    /// Those of this resource.
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) resource: Option<String>,
    /// Those recorded in this state.
    #[arg(long, value_enum, default_value = "needs-attention")]
    pub(in crate::cli) state: UnsettledWord,
    /// Those first asked for so long ago or longer, like 10m or 2h.
    #[arg(long, value_name = "DURATION")]
    pub(in crate::cli) older_than: Option<String>,
    /// What you know of all of them.
    #[arg(long, value_enum)]
    pub(in crate::cli) verdict: VerdictWord,
    /// Why you are sure; kept with each operation.
    #[arg(long)]
    pub(in crate::cli) reason: String,
    /// With `applied`: status that callers get from now on. Default: 200.
    #[arg(long)]
    pub(in crate::cli) status: Option<u16>,
    /// As the preview said it: the verdict falls on exactly those operations, as they stood.
    #[arg(long)]
    pub(in crate::cli) selection: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) instance: Instance,
}

#[derive(Args)]
pub(in crate::cli) struct OperationsList {
    /// Only those recorded in this state.
    #[arg(long, value_enum)]
    pub(in crate::cli) state: Option<StateWord>,
    /// Only those of this resource.
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) resource: Option<String>,
    /// Only those of this upstream, by its durable id.
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) upstream: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) page: Page,
    #[command(flatten)]
    pub(in crate::cli) instance: Instance,
}

#[derive(Args)]
pub(in crate::cli) struct OperationShow {
    #[command(flatten)]
    pub(in crate::cli) name: OperationName,
    /// Show stored bodies too. They are customer content; the instance logs who reads them.
    #[arg(long)]
    pub(in crate::cli) bodies: bool,
    #[command(flatten)]
    pub(in crate::cli) instance: Instance,
}

#[derive(Args)]
pub(in crate::cli) struct OperationResolve {
    #[command(flatten)]
    pub(in crate::cli) name: OperationName,
    /// What you know.
    #[arg(long, value_enum)]
    pub(in crate::cli) verdict: VerdictWord,
    /// Why you are sure; kept with the operation.
    #[arg(long)]
    pub(in crate::cli) reason: String,
    /// The number of attempts that you looked at (`show` tells it): the verdict is on those and on none
    /// that went out since. `not-applied` needs it.
    #[arg(long, value_name = "NUMBER", required_if_eq("verdict", "not-applied"))]
    pub(in crate::cli) admitted: Option<u32>,
    /// With `applied`: status that callers get from now on. Default: 200.
    #[arg(long)]
    pub(in crate::cli) status: Option<u16>,
    /// With `applied`: content that callers get from now on, as JSON, or `@FILE` with JSON in it.
    #[arg(long, value_name = "JSON")]
    pub(in crate::cli) body: Option<String>,
    /// With `not-applied`: the next attempt goes out under a new upstream key. This gives up the
    /// upstream's protection should you be wrong.
    #[arg(long)]
    pub(in crate::cli) new_key: bool,
    #[command(flatten)]
    pub(in crate::cli) instance: Instance,
}

#[derive(Args)]
pub(in crate::cli) struct OperationName {
    /// Durable id of the upstream.
    pub(in crate::cli) upstream: String,
    /// Id of the operation.
    pub(in crate::cli) id: String,
    /// Digest of the account or caller, or `none`; needed where several share the id.
    #[arg(long, value_name = "DIGEST")]
    pub(in crate::cli) principal: Option<String>,
    /// Incarnation of the resource; needed where several share the id.
    #[arg(long, value_name = "NUMBER")]
    pub(in crate::cli) incarnation: Option<u64>,
}

#[derive(Subcommand)]
pub(in crate::cli) enum Resources {
    /// List resources by name.
    List(ResourcesList),
    /// Show one resource, and what stands in its way.
    Show(ResourceShow),
    /// Say who blocks whom, why, and what to type next.
    Explain(ResourceShow),
    /// Cut off all present holders: only a newer token is let in.
    Advance(ResourceSteer),
    /// Let nothing out any more, until it is reopened.
    Cancel(ResourceSteer),
    /// Let a cancelled resource admit again. Whoever held it stays cut off.
    Reopen(ResourceSteer),
    /// Let in a token that was refused as fencing-token-unknown: the mark rises to exactly this token.
    Accept(ResourceAccept),
    /// After a wild token: begin again, in a new incarnation, at the highest genuine token. Its holder goes on
    /// under it.
    Repair(ResourceRepair),
}

#[derive(Args)]
pub(in crate::cli) struct ResourceAccept {
    /// Name of the resource.
    pub(in crate::cli) name: String,
    /// The token, as the refusal names it: `108`, or `3:108` in epoch 3.
    #[arg(value_name = "TOKEN")]
    pub(in crate::cli) accepted: String,
    /// Who issued it. Only for a resource that has seen no token in this epoch: others have their source.
    #[arg(long)]
    pub(in crate::cli) source: Option<String>,
    /// Why; kept with the resource and with every operation that is unsettled there.
    #[arg(long)]
    pub(in crate::cli) reason: String,
    #[command(flatten)]
    pub(in crate::cli) instance: Instance,
}

#[derive(Args)]
pub(in crate::cli) struct ResourceRepair {
    /// Name of the resource.
    pub(in crate::cli) name: String,
    /// The highest genuine token, by the word of its source. Leave it out for leases of the register itself: it
    /// knows what it issued.
    #[arg(long, value_name = "TOKEN")]
    pub(in crate::cli) to: Option<String>,
    /// An operation that was applied under a higher token, and that you answer for; several times for several.
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) disown: Vec<String>,
    /// Why; kept with the resource and with every operation that is unsettled there, or disowned.
    #[arg(long)]
    pub(in crate::cli) reason: String,
    #[command(flatten)]
    pub(in crate::cli) instance: Instance,
}

#[derive(Subcommand)]
pub(in crate::cli) enum Epoch {
    /// Start a new epoch: tokens of all earlier ones are stale on every resource, seen before or not, and
    /// whoever holds a lease acquires again.
    Advance(EpochAdvance),
}

#[derive(Args)]
pub(in crate::cli) struct EpochAdvance {
    /// Why; kept in the history of the register, which `doctor` shows.
    #[arg(long)]
    pub(in crate::cli) reason: String,
    #[command(flatten)]
    pub(in crate::cli) instance: Instance,
}

#[derive(Subcommand)]
pub(in crate::cli) enum Leases {
    /// List the leases that are held, by resource.
    List(LeasesList),
    /// Show who owns a resource.
    Show(ResourceShow),
}

#[derive(Args)]
pub(in crate::cli) struct LeasesList {
    #[command(flatten)]
    pub(in crate::cli) page: Page,
    #[command(flatten)]
    pub(in crate::cli) instance: Instance,
}

#[derive(Args)]
pub(in crate::cli) struct ResourceSteer {
    /// Name of the resource.
    pub(in crate::cli) name: String,
    /// Why; kept with the resource and with every operation that is unsettled there.
    #[arg(long)]
    pub(in crate::cli) reason: String,
    #[command(flatten)]
    pub(in crate::cli) instance: Instance,
}

#[derive(Args)]
pub(in crate::cli) struct ResourcesList {
    #[command(flatten)]
    pub(in crate::cli) page: Page,
    #[command(flatten)]
    pub(in crate::cli) instance: Instance,
}

#[derive(Args)]
pub(in crate::cli) struct ResourceShow {
    /// Name of the resource.
    pub(in crate::cli) name: String,
    #[command(flatten)]
    pub(in crate::cli) instance: Instance,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum StateWord {
    Intended,
    Uncertain,
    NeedsAttention,
    NotApplied,
    Completed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum UnsettledWord {
    Intended,
    Uncertain,
    NeedsAttention,
}

impl UnsettledWord {
    /// The contract's word.
    pub(in crate::cli) fn word(self) -> &'static str {
        match self {
            Self::Intended => StateWord::Intended,
            Self::Uncertain => StateWord::Uncertain,
            Self::NeedsAttention => StateWord::NeedsAttention,
        }
        .word()
    }

    /// As it is typed.
    pub(in crate::cli) fn typed(self) -> &'static str {
        match self {
            Self::Intended => "intended",
            Self::Uncertain => "uncertain",
            Self::NeedsAttention => "needs-attention",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum VerdictWord {
    Applied,
    NotApplied,
}

impl StateWord {
    /// The contract's word.
    pub(in crate::cli) fn word(self) -> &'static str {
        match self {
            Self::Intended => "INTENDED",
            Self::Uncertain => "UNCERTAIN",
            Self::NeedsAttention => "NEEDS_ATTENTION",
            Self::NotApplied => "NOT_APPLIED",
            Self::Completed => "COMPLETED",
        }
    }
}

impl VerdictWord {
    /// The API's word.
    pub(in crate::cli) fn word(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::NotApplied => "not_applied",
        }
    }

    /// As it is typed.
    pub(in crate::cli) fn typed(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::NotApplied => "not-applied",
        }
    }
}
