//! A disk that fails when it is told to: the shim of `tests/shim/faults.c` under the real binary.
//!
//! What always holds: an order counts from the next call on, also of a process that runs already; what
//! failed is noted, so that a test can show that it broke something. Without orders it is a good disk.
//!
//! What it does not do: fail what goes to the kernel past libc (`fallocate` of the reserve).

use std::path::{Path, PathBuf};
use std::process::Command;

/// The disk under one register.
pub struct Disk {
    register: PathBuf,
    orders: PathBuf,
    kept: PathBuf,
}

impl Disk {
    /// `folder`: where orders are left. `register`: the directory that they are about.
    pub fn below(folder: &Path, register: &Path) -> Self {
        let folder = folder.canonicalize().unwrap();
        let kept = folder.join("kept");
        std::fs::create_dir(&kept).unwrap();
        Self {
            register: folder.join(register.file_name().unwrap()),
            orders: folder.join("faults"),
            kept,
        }
    }

    /// From now on these orders count and no others. One each: `CALLS NAME ERROR` and conditions, as the
    /// shim explains; names are those of files in the register's directory, `.` is all of them.
    pub fn fails(&self, orders: &[&str]) {
        let lines: Vec<_> = orders.iter().map(|order| self.spelled_out(order)).collect();
        self.order(&lines.join("\n"));
    }

    /// From now on it is a good disk again.
    pub fn heals(&self) {
        self.order("");
    }

    /// From now on it remembers what a power cut would leave. To be said before the first start.
    pub fn remembers_what_is_synced(&self) {
        let (register, kept) = (self.register.display(), self.kept.display());
        self.order(&format!("keep {register} {kept}"));
    }

    /// The power was cut when the process ended: of every file there is what was last synced. The files
    /// stay the same ones, as a disk's would.
    pub fn loses_what_was_not_synced(&self) {
        for entry in std::fs::read_dir(&self.register).unwrap() {
            let path = entry.unwrap().path();
            let kept = self.kept.join(path.file_name().unwrap());
            match std::fs::read(kept) {
                Ok(content) => std::fs::write(&path, content).unwrap(),
                Err(_never_synced) => std::fs::remove_file(&path).unwrap(),
            }
        }
    }

    /// What has failed so far: `sync register.db-wal EIO`.
    pub fn failed(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.orders.with_extension("struck"));
        let below = format!("{}/", self.register.display());
        let text = text.unwrap_or_default().replace(&below, "");
        text.lines().map(str::to_owned).collect()
    }

    pub fn stand_under(&self, command: &mut Command) {
        let shim = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("fault-shim.so");
        assert!(
            shim.exists(),
            "{} is missing: run tests/run once, it compiles it",
            shim.display()
        );
        command
            .env("LD_PRELOAD", shim)
            .env("FENCEPOST_FAULTS", &self.orders);
    }

    /// Renamed into place: the shim sees the old orders or the new ones.
    fn order(&self, text: &str) {
        let aside = self.orders.with_extension("new");
        std::fs::write(&aside, text).unwrap();
        std::fs::rename(aside, &self.orders).unwrap();
    }

    fn spelled_out(&self, order: &str) -> String {
        let mut words = order.split(' ');
        let (calls, name) = (words.next().unwrap(), words.next().unwrap());
        let file = |name: &str| match name {
            "." => self.register.clone(),
            name => self.register.join(name),
        };
        let mut line = vec![calls.to_owned(), file(name).display().to_string()];
        line.extend(words.map(|word| match word.strip_prefix("while=") {
            Some(name) => format!("while={}", file(name).display()),
            None => word.to_owned(),
        }));
        line.join(" ")
    }
}
