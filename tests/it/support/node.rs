//! The Node that `tests/run` prepares, with the packages that tests need and no others.
//!
//! What always holds: it is found beside the build, never on the PATH.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A command that runs `script`, a path below `tests/`.
pub fn node(script: &str) -> Command {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("test-node");
    let interpreter = folder.join("bin/node");
    let packages = folder.join("node_modules");
    for needed in [&interpreter, &packages] {
        assert!(
            needed.exists(),
            "{} is missing: run tests/run once, it makes the Node environment",
            needed.display()
        );
    }
    let script: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests", script]
        .iter()
        .collect();
    let mut command = Command::new(interpreter);
    command.arg(script).env("NODE_PATH", packages);
    command
}
