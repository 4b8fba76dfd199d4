//! `operations why`: the story of one operation, and what can still be done about it until when.
//!
//! What always holds: what happened comes before what can be done; whatever can be typed is printed so that
//! it can be copied.
//!
//! What it does not do: judge.

use std::fmt::Write;

use super::facts;
use crate::admin::views::{MoveView, StoryView};
use crate::cli::arguments::OperationWhy;
use crate::cli::failure::Failure;
use crate::cli::table::{age, clean};

pub(super) async fn run(why: &OperationWhy, json: bool) -> Result<String, Failure> {
    let path = why.name.path(Some("why"), None);
    why.instance.read(&path).await?.printed(json, told)
}

pub(super) fn told(view: &StoryView) -> String {
    let mut text = facts(&view.operation);
    text.push_str("\nwhat happened\n");
    for line in &view.story {
        let attempt = line.attempt.as_deref().map(|it| format!(" [{it}]"));
        let _ = writeln!(
            text,
            "  {}{}  {}",
            line.at,
            clean(&attempt.unwrap_or_default()),
            clean(&line.text)
        );
    }
    text.push_str("\nwhat can be done\n");
    for it in &view.moves {
        let _ = writeln!(text, "  {}", clean(&sentence(it)));
        if let Some(command) = &it.command {
            let _ = writeln!(text, "      {}", clean(command));
        }
    }
    text
}

fn sentence(it: &MoveView) -> String {
    let mut text = format!("{}  {}", if it.possible { "yes" } else { "no " }, it.what);
    if let (Some(until), Some(left)) = (&it.until, it.left_ms) {
        let _ = write!(text, ", for another {} (until {until})", age(left));
    }
    if let Some(because) = &it.because {
        let _ = write!(text, ": {because}");
    }
    text
}
