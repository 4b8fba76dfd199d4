//! `store`: the register itself.
//!
//! What always holds: what is not in a copy is said together with what is.
//!
//! What it does not do: restore. A copy is put in place by hand, and the next start asks whether it may
//! be used. Nor copy a database: PostgreSQL has its own means.

use std::path::Path;

use serde_json::json;

use super::arguments::{Store, StoreBackup, StoreMigrate, Which};
use super::failure::Failure;
use super::moving;
use super::table::{clean, shell_word};
use crate::app::direct::{self, Place};
use crate::config::{self, Config};

/// Does it; answers what to print.
pub(super) async fn run(command: &Store, json: bool) -> Result<String, Failure> {
    match command {
        Store::Backup(backup) => self::backup(backup, json),
        Store::Mend(which) => self::mend(which, json),
        Store::Migrate(migrate) => self::migrate(migrate, json).await,
        Store::Export(export) => moving::export(export, json).await,
        Store::Import(import) => moving::import(import, json).await,
        Store::TakeBack(back) => moving::take_back(back, json).await,
        Store::AcceptRestored(accept) => moving::accept_restored(accept, json).await,
    }
}

fn backup(backup: &StoreBackup, json: bool) -> Result<String, Failure> {
    let place = place(&backup.which)?;
    let copied = direct::backup(&place, &backup.to)?;
    if json {
        let told = json!({
            "copy": backup.to.display().to_string(),
            "position": copied.position,
            "bytes": copied.bytes,
            "holds_key": false,
        });
        return Ok(format!("{told:#}"));
    }
    let directory = match &place {
        Place::Directory(path) => path.display().to_string(),
        Place::Database(url) => url.place().to_owned(),
    };
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
        clean(&directory),
    ))
}

fn mend(which: &Which, json: bool) -> Result<String, Failure> {
    let place = place(which)?;
    let register = direct::mend(&place)?.display().to_string();
    if json {
        return Ok(format!("{:#}", json!({"mended": register})));
    }
    Ok(format!(
        "{} was read through and written anew with checksums\n",
        clean(&register)
    ))
}

fn place(which: &Which) -> Result<Place, Failure> {
    match (&which.register, &which.config) {
        (Some(place), _) => Ok(place.clone()),
        (None, Some(file)) => Ok(Place::of(&loaded(file)?)),
        (None, None) => Err(Failure::Usage(
            "say which register with --register or --config".to_owned(),
        )),
    }
}

async fn migrate(migrate: &StoreMigrate, json: bool) -> Result<String, Failure> {
    let config = loaded(&migrate.config)?;
    let place = migrate.register.clone();
    let url = match place.unwrap_or_else(|| Place::of(&config)) {
        Place::Database(url) => url,
        Place::Directory(path) => {
            return Err(Failure::Usage(format!(
                "the register at {} is embedded: a start of its instance brings it up to date",
                path.display()
            )));
        }
    };
    let migrated = direct::migrate(&config, &url).await?;
    if json {
        let told = json!({
            "register": migrated.place,
            "format": migrated.format,
            "made": migrated.is_new,
        });
        return Ok(format!("{told:#}"));
    }
    let done = if migrated.is_new {
        "its tables were made"
    } else {
        "its tables are up to date"
    };
    Ok(format!(
        "{}: {done} (format {})\n",
        clean(&migrated.place),
        migrated.format
    ))
}

fn loaded(file: &Path) -> Result<Config, Failure> {
    Ok(config::load(file).map_err(Failure::Config)?.0)
}
