//! Looking whether the config has changed: its file, and the files that it depends on.
//!
//! What always holds: what counts is content, read by path, so that a rename, a ConfigMap's change of
//! links and an edit in place are all seen, and a touch is none. A change counts once two looks in a row
//! saw the same, so that nobody reads a file that is being written.
//!
//! What it does not do: read a config, or judge one (`reload`).

use std::path::{Path, PathBuf};

use ring::digest::{SHA256, digest};

/// What all those files held: a digest each, `None` where one cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Look(Vec<(PathBuf, Option<[u8; 32]>)>);

impl Look {
    /// Looks. Blocks.
    pub(super) fn at(config: &Path, beside: &[PathBuf]) -> Self {
        let files = std::iter::once(config).chain(beside.iter().map(PathBuf::as_path));
        let held = |file: &Path| {
            let digest = digest(&SHA256, &std::fs::read(file).ok()?);
            digest.as_ref().first_chunk().copied()
        };
        Self(files.map(|file| (file.to_owned(), held(file))).collect())
    }

    /// The same files, but as they were in an earlier look, where that knew them: what has changed since
    /// then is still to be seen.
    pub(super) fn since(self, earlier: &Self) -> Self {
        let files = self.0.into_iter().map(|(file, held)| {
            let known = earlier.0.iter().find(|(known, _)| *known == file);
            let held = known.map_or(held, |(_, held)| *held);
            (file, held)
        });
        Self(files.collect())
    }
}

/// What was seen, and what came of it.
pub(super) struct Watched {
    settled: Look,
    last: Look,
}

impl Watched {
    /// Begins with what is in force.
    pub(super) fn new(in_force: Look) -> Self {
        Self {
            settled: in_force.clone(),
            last: in_force,
        }
    }

    /// Is this a change to act on?
    pub(super) fn changed(&mut self, now: &Look) -> bool {
        let is_steady = self.last == *now;
        self.last = now.clone();
        is_steady && self.settled != *now
    }

    /// It was acted on, whatever came of it.
    pub(super) fn settle(&mut self, now: Look) {
        self.last = now.clone();
        self.settled = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_counts_once_it_is_steady_and_once_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let write = |name: &str, text: &str| std::fs::write(path(name), text).unwrap();
        let beside = [path("secret")];
        let look = || Look::at(&path("config"), &beside);
        write("config", "one");
        write("secret", "a");
        let mut watched = Watched::new(look());
        assert!(!watched.changed(&look()));
        write("config", "tw");
        assert!(!watched.changed(&look()), "perhaps it is being written");
        write("config", "two");
        assert!(!watched.changed(&look()), "indeed it was");
        assert!(watched.changed(&look()));
        watched.settle(look());
        assert!(!watched.changed(&look()));
        // A secret, and then a file that is gone.
        write("secret", "b");
        assert!(!watched.changed(&look()));
        assert!(watched.changed(&look()));
        watched.settle(look());
        std::fs::remove_file(path("config")).unwrap();
        assert!(!watched.changed(&look()));
        assert!(watched.changed(&look()));
        // Back to what was in force.
        watched.settle(look());
        write("config", "two");
        assert!(!watched.changed(&look()));
        assert!(watched.changed(&look()));
    }

    #[test]
    fn what_changed_after_it_was_read_is_still_to_be_seen() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let write = |name: &str, text: &str| std::fs::write(path(name), text).unwrap();
        write("config", "one");
        write("secret", "a");
        let read = Look::at(&path("config"), &[]);
        write("config", "two");
        // It turned out to depend on another file.
        let now = || Look::at(&path("config"), &[path("secret")]);
        let mut watched = Watched::new(now().since(&read));
        watched.changed(&now());
        assert!(watched.changed(&now()));
    }

    #[test]
    fn contents_do_not_run_together() {
        let folder = tempfile::tempdir().unwrap();
        let look = |config: &str, secret: &str| {
            let path = |name: &str| folder.path().join(name);
            std::fs::write(path("config"), config).unwrap();
            std::fs::write(path("secret"), secret).unwrap();
            Look::at(&path("config"), &[path("secret")])
        };
        assert!(look("ab", "c") != look("a", "bc"));
    }
}
