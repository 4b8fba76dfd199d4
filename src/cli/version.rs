//! `version`.
//!
//! What always holds: it is the version that `fencepost_build_info` shows.
//!
//! What it does not do: ask a running instance for its version (`GET /v1/status`).

/// The version of this binary.
pub(super) fn text(json: bool) -> String {
    let version = env!("CARGO_PKG_VERSION");
    if json {
        serde_json::json!({ "version": version }).to_string()
    } else {
        format!("fencepost {version}")
    }
}
