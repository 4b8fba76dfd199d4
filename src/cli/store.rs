//! `store`: the register itself.
//!
//! What always holds: what is not in a copy is said together with what is.
//!
//! What it does not do: restore. A copy is put in place by hand, and the next start asks whether it may
//! be used.

use std::path::PathBuf;

use serde_json::json;

use super::arguments::{Store, StoreBackup, Which};
use super::failure::Failure;
use super::table::{clean, shell_word};
use crate::app::stopped;
use crate::config;

/// Does it; answers what to print.
pub(super) fn run(command: &Store, json: bool) -> Result<String, Failure> {
    match command {
        Store::Backup(backup) => self::backup(backup, json),
        Store::Mend(which) => mend(which, json),
    }
}

fn backup(backup: &StoreBackup, json: bool) -> Result<String, Failure> {
    let register = directory(&backup.which)?;
    let copied = stopped::backup(&register, &backup.to)?;
    if json {
        let told = json!({
            "copy": backup.to.display().to_string(),
            "position": copied.position,
            "bytes": copied.bytes,
            "holds_key": false,
        });
        return Ok(format!("{told:#}"));
    }
    let to = backup.to.display().to_string();
    Ok(format!(
        "copied to {} ({} bytes, position {})\n\
         The key is not in it: without the register's key file, or its configured keys, the stored \
         requests and answers in it cannot be read. Keep the key apart from the copy.\n\
         To restore it: stop the instance, put it in place as {}/register.db without the -wal and -shm \
         files of before, and start once with --accept-restored.\n",
        clean(&shell_word(&to)),
        copied.bytes,
        copied.position,
        clean(&register.display().to_string()),
    ))
}

fn mend(which: &Which, json: bool) -> Result<String, Failure> {
    let register = directory(which)?;
    stopped::mend(&register)?;
    let register = register.display().to_string();
    if json {
        return Ok(format!("{:#}", json!({"mended": register})));
    }
    Ok(format!(
        "{} was read through and written anew with checksums\n",
        clean(&register)
    ))
}

fn directory(which: &Which) -> Result<PathBuf, Failure> {
    match (&which.register, &which.config) {
        (Some(register), _) => Ok(register.clone()),
        (None, Some(file)) => Ok(config::load(file).map_err(Failure::Config)?.0.register.path),
        (None, None) => Err(Failure::Usage(
            "say which register with --register or --config".to_owned(),
        )),
    }
}
