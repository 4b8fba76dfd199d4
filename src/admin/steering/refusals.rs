//! Why a resource is not steered as an operator wants it, and what he types instead.
//!
//! What always holds: the sentence names what it depends on (the mark, the epoch, the source, the operations), so that
//! nobody has to ask a second time for it.
//!
//! What it does not do: decide.

use crate::admin::problem::Problem;
use crate::admin::views::{KeyView, shell_word};
use crate::protocol::command::{NotAccepted, NotRepaired, Steered, Steering};
use crate::protocol::ids::ResourceName;
use crate::protocol::lease::OWN_SOURCE;

pub(super) fn told(refused: &Steered, how: &Steering, name: &ResourceName) -> Problem {
    let word = shell_word(name.as_str());
    match refused {
        Steered::NotAccepted(why) => not_accepted(why, &word),
        Steered::NotRepaired(why) => not_repaired(why, how, &word),
        Steered::NotCancelled | Steered::Done { .. } => Problem::conflict(
            "not-cancelled",
            "it is not cancelled, so there is nothing to reopen; holders that were cut off go on \
             with a newer token",
        ),
    }
}

fn not_accepted(why: &NotAccepted, word: &str) -> Problem {
    let detail = match why {
        NotAccepted::Cancelled => reopen_first(word),
        NotAccepted::NotAbove(mark) => format!(
            "the token does not lie above the mark, {mark}, and nothing is lowered: whoever holds it acquires \
             again; if {mark} itself is wrong: fencepost resources repair {word} --to TOKEN --reason '…'"
        ),
        NotAccepted::EarlierEpoch(epoch) => format!(
            "the token is of an earlier epoch than the one in force, {epoch}: it is stale on every resource for \
             ever, and its holder acquires again in epoch {epoch}"
        ),
        NotAccepted::LaterEpoch(epoch) => format!(
            "the token is of an epoch that has not started: epoch {epoch} is in force, and the next one is \
             started for all resources by: fencepost epoch advance --reason '…'"
        ),
        NotAccepted::OtherSource(known) => format!(
            "the tokens of this resource are issued by `{known}` in this epoch, and those of two sources cannot \
             be compared: another source takes a new epoch: fencepost epoch advance --reason '…'"
        ),
        NotAccepted::SourceIsMissing => format!(
            "no token of this epoch has been seen: say who issued it: fencepost resources accept {word} TOKEN \
             --source {OWN_SOURCE} --reason '…'; or name another source, if it has changed with the epoch"
        ),
        NotAccepted::TheLast => {
            "the tokens of this resource are issued here, and none could follow this one: nobody \
                                 could ever own the resource again in this epoch"
                .to_owned()
        }
    };
    Problem::conflict("token-not-accepted", detail)
}

fn not_repaired(why: &NotRepaired, how: &Steering, word: &str) -> Problem {
    let detail = match why {
        NotRepaired::NoMark => "no token was ever presented for it: any is let in".to_owned(),
        NotRepaired::Cancelled => reopen_first(word),
        NotRepaired::ToIsMissing => format!(
            "its tokens are issued elsewhere, so only you can say which was the highest genuine one: ask its \
             source, then: fencepost resources repair {word} --to TOKEN --reason '…'"
        ),
        NotRepaired::Issued(issued) => format!(
            "its tokens are the register's own, and the highest one that it issued is {issued}: leave `to` out"
        ),
        NotRepaired::NotBelow(mark) => format!(
            "it would not go below the mark, {mark}: there is nothing to repair; a token above the mark is let \
             in by: fencepost resources accept {word} TOKEN --reason '…'"
        ),
        NotRepaired::Applied { operations, more } => {
            let named = operations.first().map_or("ID", |it| it.key.id.as_str());
            let others = if *more {
                " These are not all: so many effects under higher tokens are no accident of one wild token."
            } else {
                ""
            };
            format!(
                "operations were applied under higher tokens in this incarnation; a repair goes below them only if \
                 you answer for each of them: fencepost resources repair {word}{} --disown {} … --reason '…'.{others}",
                to(how),
                shell_word(named),
            )
        }
    };
    let problem = Problem::conflict("not-repaired", detail);
    match why {
        NotRepaired::Applied { operations, .. } => {
            let named = operations.iter().map(|it| KeyView::of(&it.key));
            problem.candidates(named.collect())
        }
        NotRepaired::NoMark
        | NotRepaired::Cancelled
        | NotRepaired::ToIsMissing
        | NotRepaired::Issued(_)
        | NotRepaired::NotBelow(_) => problem,
    }
}

fn to(how: &Steering) -> String {
    match how {
        Steering::Repair { to: Some(to), .. } => format!(" --to {to}"),
        Steering::Repair { to: None, .. }
        | Steering::Cancel
        | Steering::Advance
        | Steering::Reopen
        | Steering::Accept { .. } => String::new(),
    }
}

fn reopen_first(word: &str) -> String {
    format!("it is cancelled; first: fencepost resources reopen {word} --reason '…'")
}
