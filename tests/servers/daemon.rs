//! A server's processes: started, frozen, killed, and never left behind.
//!
//! What always holds: only the process that this value started is signalled, and its descendants, each
//! by its id; they are gone when the value is dropped, and soon after the test process if that was
//! killed or left the value in a static: a shell between the two waits for the end of a pipe.
//!
//! What it does not do: restart. Another start is another value.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::waiting::until;

/// Starts the rest of its arguments, says their process id, waits for the pipe's end, ends them. A frozen
/// child of theirs would hear nothing: it is thawed. Nothing is waited for in between, so that the id
/// stays theirs. Where one of the group stands still when the test process dies, the kernel hangs up on the
/// group, which now belongs to nobody: that must not end who is to see to it.
const KEEPER: &str = r#"
trap : HUP
ending=$1
shift
"$@" </dev/null >&2 &
server=$!
echo "$server"
exec >&2
read -r nothing
kill -s "$ending" "$server"
kill -s CONT "$server" $(cat "/proc/$server/task/$server/children" 2>/dev/null)
wait "$server"
"#;

/// A server that was started.
#[derive(Debug)]
pub struct Daemon {
    keeper: Child,
    server: Pid,
}

impl Daemon {
    /// Starts it, with what it says added to `log`. `ending`: the signal upon which it ends at once.
    pub fn start(command: &Command, ending: &str, log: &Path) -> Self {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .unwrap();
        let mut keeper = Command::new("sh");
        keeper
            .args(["-c", KEEPER, "keeper", ending])
            .arg(command.get_program())
            .args(command.get_args())
            .env_clear()
            .envs(
                command
                    .get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            )
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            // A terminal's interrupt must not end it together with the tests.
            .process_group(0);
        let mut keeper = keeper.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(keeper.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let server = Pid::from_raw(line.trim().parse().unwrap()).unwrap();
        Self { keeper, server }
    }

    /// The process id of its first process.
    pub fn id(&self) -> i32 {
        self.server.as_raw_nonzero().get()
    }

    /// Has its first process ended?
    pub fn is_over(&self) -> bool {
        is_over(self.id())
    }

    /// Sends its first process a signal; one that has ended hears nothing.
    pub fn signal(&self, signal: Signal) {
        if !self.is_over() {
            let _ = kill_process(self.server, signal);
        }
    }

    /// The same, and waits until it has ended upon it.
    pub fn end(&self, signal: Signal) {
        self.signal(signal);
        until("the server ends", || self.is_over());
    }

    /// Kills every process of it (SIGKILL) and returns when there is none.
    pub fn kill(&self) {
        // Who stands still starts no others meanwhile.
        self.freeze();
        let all = self.everyone();
        for id in &all {
            send(*id, Signal::KILL);
        }
        until("every process of the server is gone", || {
            all.iter().all(|id| is_over(*id))
        });
    }

    /// Freezes every process of it and returns when all stand still.
    pub fn freeze(&self) {
        until("every process of the server stands still", || {
            let running: Vec<_> = self
                .everyone()
                .into_iter()
                .filter(|id| !matches!(state(*id), None | Some('T' | 'Z' | 'X')))
                .collect();
            for id in &running {
                send(*id, Signal::STOP);
            }
            running.is_empty()
        });
    }

    /// Lets them go on.
    pub fn thaw(&self) {
        for id in self.everyone().into_iter().rev() {
            send(id, Signal::CONT);
        }
    }

    /// Its first process and all that descend from it, each before its own; those that have ended
    /// excepted.
    pub fn everyone(&self) -> Vec<i32> {
        let mut found = vec![self.id()];
        let parents = parents();
        let mut at = 0;
        while let Some(parent) = found.get(at).copied() {
            let children = parents.iter().filter(|(_, of)| *of == parent);
            found.extend(children.map(|(child, _)| *child));
            at += 1;
        }
        found.retain(|id| !is_over(*id));
        found
    }
}

/// What tells a process from all others for ever: its id, which comes round again within minutes where many
/// are started, and when it began. `None`: it has ended.
fn trace(id: i32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    let begun = fields.split(' ').nth(19).filter(|_| !is_over(id))?;
    Some(format!("process {id} {begun}"))
}

/// Is a process, or a folder, still there?
pub fn is_left(trace: &str) -> bool {
    match trace
        .strip_prefix("process ")
        .and_then(|it| it.split_once(' '))
    {
        Some((id, _)) => self::trace(id.parse().unwrap()).as_deref() == Some(trace),
        None => Path::new(trace).exists(),
    }
}

impl Daemon {
    /// All that would be left of it, for [`is_left`]: its processes, and its folder.
    pub fn traces(&self, folder: &Path) -> Vec<String> {
        let processes = self.everyone().into_iter().filter_map(trace);
        processes.chain([folder.display().to_string()]).collect()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

fn send(id: i32, signal: Signal) {
    // It may have ended since it was looked for.
    let _ = Pid::from_raw(id).map(|id| kill_process(id, signal));
}

/// Nobody is left of it but what its parent may still ask about.
fn is_over(id: i32) -> bool {
    matches!(state(id), None | Some('Z' | 'X'))
}

/// As in the third field of `/proc/ID/stat`.
fn state(id: i32) -> Option<char> {
    stat(id).map(|(state, _)| state)
}

/// State and parent.
fn stat(id: i32) -> Option<(char, i32)> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name before it may hold anything, blanks and brackets too.
    let (_, rest) = text.rsplit_once(") ")?;
    let mut words = rest.split(' ');
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}

/// Every process of the machine and its parent.
fn parents() -> Vec<(i32, i32)> {
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|id| stat(id).map(|(_, parent)| (id, parent)))
        .collect()
}
