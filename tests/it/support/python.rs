//! The Python that `tests/run` prepares, with the packages that tests need and no others.
//!
//! What always holds: it is found beside the build, never on the PATH.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A command that runs `script`, a path below `tests/`.
pub fn python(script: &str) -> Command {
    let interpreter = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .with_file_name("test-python")
        .join("bin/python");
    assert!(
        interpreter.exists(),
        "{} is missing: run tests/run once, it makes the Python environment",
        interpreter.display()
    );
    let script: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests", script]
        .iter()
        .collect();
    let mut command = Command::new(interpreter);
    command.arg(script).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// A Python process that talks in lines. Killed when dropped.
pub struct Dialogue {
    pub child: Child,
    pub says: BufReader<ChildStdout>,
    pub hears: ChildStdin,
}

impl Dialogue {
    pub fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let says = BufReader::new(child.stdout.take().unwrap());
        let hears = child.stdin.take().unwrap();
        Self { child, says, hears }
    }

    /// Its next line; panics if it ended instead.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.says.read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "it ended after {line:?}");
        line.trim_end().to_owned()
    }
}

impl Drop for Dialogue {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
