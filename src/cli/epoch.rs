//! `epoch`: one number for the whole register.
//!
//! What always holds: what is printed as JSON is what the instance said.
//!
//! What it does not do: decide, or tell whoever holds a token.

use super::arguments::{Epoch, EpochAdvance};
use super::failure::Failure;
use super::instance::Touch;
use crate::admin::client::path;
use crate::admin::views::EpochView;

/// Does it; answers what to print.
pub(super) async fn run(command: &Epoch, json: bool) -> Result<String, Failure> {
    match command {
        Epoch::Advance(advance) => self::advance(advance, json).await,
    }
}

async fn advance(advance: &EpochAdvance, json: bool) -> Result<String, Failure> {
    let path = path(&["epoch", "advance"], &[]);
    let body = serde_json::json!({ "reason": advance.reason }).to_string();
    let told = advance.instance.change(&path, body, Touch::Records).await?;
    told.printed(json, advanced)
}

fn advanced(view: &EpochView) -> String {
    format!(
        "epoch {} is in force: every token of an earlier one, and every bare number, is stale on every \
         resource; whoever held a lease acquires again\n",
        view.epoch
    )
}
