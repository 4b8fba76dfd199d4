//! `reload`: a running instance reads its config again.
//!
//! What always holds: what is printed is what the instance said; a config that it refused is confirmed by
//! its digest and with a reason, never by a mere yes.
//!
//! What it does not do: send a config. The instance reads its own file.

use super::arguments::Reload;
use super::failure::Failure;
use super::instance::Touch;
use crate::admin::in_force::ReloadView;
use crate::admin::reload::Asked;

/// Does it; answers what to print.
pub(super) async fn run(reload: &Reload, json: bool) -> Result<String, Failure> {
    let asked = Asked {
        accept_identity_changes: reload.accept_identity_changes.clone(),
        reason: reload.reason.clone(),
    };
    let body = serde_json::to_string(&asked).map_err(|error| Failure::Usage(error.to_string()))?;
    let told = reload
        .instance
        .change("/reload", body, Touch::Nothing)
        .await?;
    told.printed(json, said)
}

fn said(reload: &ReloadView) -> String {
    let digest = reload.digest.as_deref().unwrap_or("-");
    format!("the config with digest {digest} is {}", reload.result)
}
