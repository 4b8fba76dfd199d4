//! The command, with all that it started.
//!
//! What always holds: it is a process group of its own, and is told and stopped as one; it is gone when nobody of the
//! group lives, not when the command itself ended.
//!
//! What it does not do: follow whoever leaves the group (`setsid`).

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::process::{Child, Command};
use tokio::time::sleep;

use super::reached;
use crate::clock;
use crate::protocol::time::{BootInstant, Millis};

/// Whoever is killed is gone after this, or the system does not let him go.
const DYING: Millis = Millis(5_000);

/// Looks whether anybody is left after such pauses, shorter ones first.
const LOOKS: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));

pub(super) struct Group {
    leader: Child,
    id: Option<Pid>,
}

impl Group {
    pub(super) fn start(command: &[String], environment: [(&str, &str); 3]) -> io::Result<Self> {
        let (program, arguments) = match command.split_first() {
            Some((program, arguments)) => (program.as_str(), arguments),
            None => ("true", &[][..]),
        };
        let leader = Command::new(program)
            .args(arguments)
            .envs(environment)
            .process_group(0)
            .spawn()?;
        let id = leader.id().and_then(|id| i32::try_from(id).ok());
        Ok(Self {
            leader,
            id: id.and_then(Pid::from_raw),
        })
    }

    /// Until the command itself ended; others of the group may still work.
    pub(super) async fn ended(&mut self) {
        // One that cannot be waited for is not attended any longer: its group is stopped.
        let _status = self.leader.wait().await;
    }

    /// How the command itself ended, if it has.
    pub(super) fn status(&mut self) -> io::Result<Option<ExitStatus>> {
        self.leader.try_wait()
    }

    pub(super) fn tell(&self, signal: Signal) {
        // Whoever is gone already needs no telling.
        let _gone = self.id.map(|group| kill_process_group(group, signal));
    }

    /// Tells all of it to end, and kills what is left then. Is it gone?
    pub(super) async fn stop(&mut self, by: BootInstant) -> bool {
        self.tell(Signal::TERM);
        if self.gone_by(by).await {
            return true;
        }
        self.tell(Signal::KILL);
        self.gone_by(clock::boottime().after(DYING)).await
    }

    async fn gone_by(&mut self, by: BootInstant) -> bool {
        tokio::select! {
            biased;
            () = self.gone() => true,
            () = reached(by) => false,
        }
    }

    async fn gone(&mut self) {
        self.ended().await;
        let (mut pause, longest) = LOOKS;
        while self.id.is_some_and(lives) {
            sleep(pause).await;
            pause = pause.saturating_mul(2).min(longest);
        }
    }
}

/// Does anybody of a group live? Who is dead and was not reaped (by a first process that reaps nobody, as in many a
/// container) is in the group, but does nothing any more.
fn lives(group: Pid) -> bool {
    if test_kill_process_group(group) == Err(Errno::SRCH) {
        return false;
    }
    // Where nobody can be looked at, the kernel's word counts.
    let Ok(all) = std::fs::read_dir("/proc") else {
        return true;
    };
    let mut is_seen = false;
    for entry in all.flatten() {
        let name = entry.file_name();
        let first = name.as_encoded_bytes().first();
        if !first.is_some_and(u8::is_ascii_digit) {
            continue;
        }
        // Gone since it was listed.
        let Ok(stat) = std::fs::read(entry.path().join("stat")) else {
            continue;
        };
        let member = Member::of(&String::from_utf8_lossy(&stat));
        match member.filter(|member| member.group == group.as_raw_nonzero().get()) {
            Some(Member { lives: true, .. }) => return true,
            Some(_) => is_seen = true,
            None => {}
        }
    }
    !is_seen
}

/// What `/proc/PID/stat` says of a process.
#[derive(Debug, PartialEq)]
struct Member {
    group: i32,
    lives: bool,
}

impl Member {
    fn of(stat: &str) -> Option<Self> {
        // Its name may hold anything, also what looks like the fields after it.
        let (_, fields) = stat.rsplit_once(") ")?;
        let mut fields = fields.split_ascii_whitespace();
        let state = fields.next()?;
        let group = fields.nth(1)?.parse().ok()?;
        // A process lives as long as one of its threads, though its first has ended.
        let threads: u32 = fields.nth(14)?.parse().ok()?;
        Some(Self {
            group,
            lives: !matches!(state, "Z" | "X") || threads > 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(state: &str, threads: u32) -> String {
        format!(
            "41 (a) Z 1 2) {state} 1 40 40 0 -1 4228364 138 0 0 0 5 6 7 8 20 0 {threads} 0 68 0 0"
        )
    }

    #[test]
    fn the_dead_who_were_not_reaped_do_not_live() {
        for (state, threads, lives) in [
            ("S", 1, true),
            ("T", 1, true),
            ("Z", 1, false),
            ("X", 0, false),
            ("Z", 2, true),
        ] {
            let expected = Member { group: 40, lives };
            assert_eq!(Member::of(&stat(state, threads)), Some(expected), "{state}");
        }
        assert_eq!(Member::of("41 (a"), None);
        assert_eq!(Member::of("41 (a) S 1"), None);
    }

    #[tokio::test]
    async fn a_group_lives_until_the_last_of_it_is_gone() {
        let script = "sleep 600 & exit 7".to_owned();
        let command = ["sh".to_owned(), "-c".to_owned(), script];
        let mut group = Group::start(&command, [("A", "a"), ("B", "b"), ("C", "c")]).unwrap();
        group.ended().await;
        assert!(lives(group.id.unwrap()));
        let by = clock::boottime().after(Millis(10_000));
        assert!(group.stop(by).await);
        assert!(clock::boottime() < by, "it ended when it was told to");
        assert!(!lives(group.id.unwrap()));
        assert_eq!(group.status().unwrap().unwrap().code(), Some(7));
    }

    #[tokio::test]
    async fn who_does_not_listen_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        // Also where the command itself has ended, and whoever does not listen is what it left behind.
        for last in ["sleep 600", "exit 7"] {
            let deaf = folder.path().join(last);
            let script = format!("trap '' TERM; : > '{}'; sleep 600 & {last}", deaf.display());
            let command = ["sh".to_owned(), "-c".to_owned(), script];
            let mut group = Group::start(&command, [("A", "a"), ("B", "b"), ("C", "c")]).unwrap();
            let heard_of = async {
                while !deaf.exists() {
                    tokio::task::yield_now().await;
                }
            };
            let limit = Duration::from_secs(20);
            tokio::time::timeout(limit, heard_of).await.unwrap();
            let is_told = group.stop(clock::boottime().after(Millis(300))).await;
            let lives = lives(group.id.unwrap());
            group.tell(Signal::KILL);
            assert!(is_told && !lives, "{last}: {is_told}, {lives}");
            assert!(group.status().unwrap().is_some());
        }
    }
}
