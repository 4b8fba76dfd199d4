//! Compiles the page checksums against the SQLite that is linked in.
//!
//! What always holds: the header is that of the library, as `libsqlite3-sys` hands it on; a system's own
//! SQLite is never looked at.
//!
//! What it does not do: anything else; the product needs no other C of its own.

use std::error::Error;

const SOURCE: &str = "src/store/sqlite/checksums/cksumvfs.c";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={SOURCE}");
    #[expect(
        clippy::disallowed_methods,
        reason = "cargo tells build scripts everything by the environment"
    )]
    let header = std::env::var("DEP_SQLITE3_INCLUDE")?;
    cc::Build::new()
        .file(SOURCE)
        .include(header)
        .define("SQLITE_CKSUMVFS_STATIC", None)
        .define("SQLITE_CKSUMVFS_INIT_FUNCNAME", "\"carry_checksums\"")
        // Its assertions are for those who change it; a page's sum is taken at every read of a page.
        .define("NDEBUG", None)
        .opt_level(3)
        .warnings(false)
        .try_compile("cksumvfs")?;
    Ok(())
}
