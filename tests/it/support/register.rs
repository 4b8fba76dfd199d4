//! The file of a register, opened by hand.
//!
//! What always holds: what is written by hand carries checksums, as what the product writes; what a
//! stranger writes does not.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

/// The database of the register in that directory, its checksums compared and written.
pub fn by_hand(register: &Path) -> Connection {
    fencepost::store::sqlite::compare_checksums().unwrap();
    Connection::open(register.join("register.db")).unwrap()
}

/// The same as `sqlite3` opens it, which knows nothing of checksums.
pub fn by_a_stranger(register: &Path) -> Connection {
    let path = register.join("register.db");
    Connection::open_with_flags_and_vfs(path, OpenFlags::default(), c"unix").unwrap()
}

/// Makes it larger than what is read whole at a start, with rows that nobody looks for.
pub fn pad(register: &Path, mebibytes: u32) {
    let padding = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
                   INSERT INTO history (wall_ms, text) SELECT i, hex(randomblob(512)) FROM n";
    by_hand(register)
        .execute(padding, [mebibytes * 1024])
        .unwrap();
}
