//! Is the worker alive, and which start of it is it?
//!
//! What always holds: whatever is not understood is no sign of life. What tells starts apart and is lacking is no
//! sign of life either: without it nobody could say who answers. Nothing that the worker answers is kept but the
//! digest of its start, and of a process its number and its start. A process that is stopped is not alive; this sidecar
//! and whoever started it are no worker.
//!
//! What it does not do: decide what follows (`held`), or look at its watch: whoever asks gives up.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::str::FromStr as _;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response, Uri, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use super::remembered::{Process, Start};
use crate::config::{Sign, StartIdentity};
use crate::protocol::time::{BootId, BootInstant};

/// Longest content that is looked into, in bytes.
const CONTENT: usize = 64 << 10;

/// Longest text that a start is known by, in bytes.
const IDENTITY: usize = 1 << 10;

/// Why it is not seen to be alive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct NotAlive(pub(super) String);

/// What was seen of a worker that is alive: its start, where that shows.
pub(super) type Looked<'a> =
    Pin<Box<dyn Future<Output = Result<Option<Start>, NotAlive>> + Send + 'a>>;

/// Somebody who can look.
pub(super) trait Look: Send + Sync {
    /// Looks once, in this boot.
    fn look(&self, boot: BootId) -> Looked<'_>;
}

impl Look for Sign {
    fn look(&self, boot: BootId) -> Looked<'_> {
        Box::pin(async move {
            match self {
                Self::Http { url, identity } => answer(url, identity.as_ref()).await,
                Self::PidFile(path) => {
                    let path = path.clone();
                    blocking(move || of_pid_file(&path, boot)).await
                }
                Self::Command(name) => {
                    let name = name.clone();
                    blocking(move || of_command(&name, boot)).await
                }
                Self::File(path) => {
                    let path = path.clone();
                    blocking(move || of_file(&path)).await
                }
            }
        })
    }
}

async fn blocking(
    look: impl FnOnce() -> Result<Start, NotAlive> + Send + 'static,
) -> Result<Option<Start>, NotAlive> {
    match tokio::task::spawn_blocking(look).await {
        Ok(start) => start.map(Some),
        Err(gone) => Err(not(gone)),
    }
}

/// A connection of its own: one that is open says nothing of who would open another.
async fn answer(url: &Uri, identity: Option<&StartIdentity>) -> Result<Option<Start>, NotAlive> {
    let host = url.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((host, url.port_u16().unwrap_or(80)));
    let stream = TokioIo::new(stream.await.map_err(not)?);
    let (mut sender, connection) = http1::handshake(stream).await.map_err(not)?;
    let authority = url.authority().map_or("", |authority| authority.as_str());
    let target = url.path_and_query().map_or("/", |target| target.as_str());
    let request = Request::get(target)
        .header(header::HOST, authority)
        .header(header::USER_AGENT, "fencepost-probe")
        .header(header::CONNECTION, "close")
        .body(Empty::<Bytes>::new());
    let request = request.map_err(not)?;
    let asking = async {
        let response = sender.send_request(request).await.map_err(not)?;
        understood(response, identity).await
    };
    tokio::pin!(asking);
    tokio::select! {
        biased;
        understood = &mut asking => understood,
        // What it has sent is still to be read.
        _ended = connection => asking.await,
    }
}

async fn understood(
    response: Response<Incoming>,
    identity: Option<&StartIdentity>,
) -> Result<Option<Start>, NotAlive> {
    let status = response.status();
    if !status.is_success() {
        return Err(not(format!("it answers {status}")));
    }
    match identity {
        None => Ok(None),
        Some(StartIdentity::Header(name)) => {
            of_header(response.headers().get_all(name).iter(), name).map(Some)
        }
        Some(StartIdentity::Json(pointer)) => {
            let content = Limited::new(response.into_body(), CONTENT);
            let content = content.collect().await.map_err(not)?.to_bytes();
            of_json(&content, pointer).map(Some)
        }
    }
}

fn of_header<'v>(
    mut values: impl Iterator<Item = &'v HeaderValue>,
    name: &HeaderName,
) -> Result<Start, NotAlive> {
    match (values.next(), values.next()) {
        (Some(value), None) => start(&String::from_utf8_lossy(value.as_bytes())),
        (None, _) => Err(not(format!("its answer has no field {name}"))),
        (Some(_), Some(_)) => Err(not(format!("its answer has several fields {name}"))),
    }
}

fn of_json(content: &[u8], pointer: &str) -> Result<Start, NotAlive> {
    let content: Value = serde_json::from_slice(content).map_err(not)?;
    match content.pointer(pointer) {
        Some(Value::String(text)) => start(text),
        Some(value @ (Value::Number(_) | Value::Bool(_))) => start(&value.to_string()),
        Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => Err(not(format!(
            "its answer has no text or number at {pointer}"
        ))),
    }
}

fn of_file(path: &Path) -> Result<Start, NotAlive> {
    start(&text(path)?)
}

fn of_pid_file(path: &Path, boot: BootId) -> Result<Start, NotAlive> {
    let text = text(path)?;
    let number = u32::from_str(text.trim());
    let number = number.map_err(|_| not(format!("{} holds no number", path.display())))?;
    let running = Running::read(number)?;
    running.is_no_part_of(&own_line())?;
    running.start(boot)
}

/// This process, and whoever started it, and so on.
fn own_line() -> Vec<u32> {
    let mut line = vec![std::process::id()];
    while let Some(running) = line.last().and_then(|last| Running::read(*last).ok()) {
        // Nobody started the first, or nobody who can be seen here.
        if running.parent == 0 || line.contains(&running.parent) {
            break;
        }
        line.push(running.parent);
    }
    line
}

/// Those of one name that somebody of the same name started are his.
fn of_command(name: &str, boot: BootId) -> Result<Start, NotAlive> {
    let mut named: Vec<Running> = Vec::new();
    for entry in std::fs::read_dir("/proc").map_err(not)? {
        let number = entry.ok().and_then(|entry| {
            let number = entry.file_name();
            u32::from_str(number.to_str()?).ok()
        });
        // Whoever ends meanwhile is not there.
        let running = number.and_then(|number| Running::read(number).ok());
        named.extend(running.filter(|running| running.name == name));
    }
    let numbers: Vec<u32> = named.iter().map(|running| running.number).collect();
    named.retain(|running| !numbers.contains(&running.parent));
    match named.as_slice() {
        [one] => {
            one.is_no_part_of(&own_line())?;
            one.start(boot)
        }
        [] => Err(not(format!("no process is called `{name}`"))),
        [_, _, ..] => Err(not(format!(
            "several processes are called `{name}`, and none of them started the others"
        ))),
    }
}

/// A process, as its `stat` tells (proc(5)).
struct Running {
    number: u32,
    name: String,
    state: char,
    parent: u32,
    /// In ticks since the boot.
    started: u64,
}

impl Running {
    fn read(number: u32) -> Result<Self, NotAlive> {
        let path = PathBuf::from(format!("/proc/{number}/stat"));
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|_| not(format!("there is no process {number}")))?;
        Self::parse(number, &text).ok_or_else(|| not("its `stat` cannot be read"))
    }

    /// The name stands in brackets, and may have any in it.
    fn parse(number: u32, text: &str) -> Option<Self> {
        let (before, after) = text.rsplit_once(") ")?;
        let (_, name) = before.split_once(" (")?;
        let mut fields = after.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        // Of 52 fields the 22nd; the 5th is the next.
        let started = fields.nth(17)?.parse().ok()?;
        Some(Self {
            number,
            name: name.to_owned(),
            state,
            parent,
            started,
        })
    }

    /// With a number of another set of processes one finds oneself, who is always alive. Threads have numbers too.
    fn is_no_part_of(&self, line: &[u32]) -> Result<(), NotAlive> {
        let thread = PathBuf::from(format!("/proc/self/task/{}", self.number));
        if line.contains(&self.number) || thread.exists() {
            return Err(not(format!(
                "process {} is this sidecar, or one that started it: processes are not shared",
                self.number
            )));
        }
        Ok(())
    }

    fn start(&self, boot: BootId) -> Result<Start, NotAlive> {
        let Self {
            number,
            started,
            state,
            ..
        } = self;
        match state {
            'T' | 't' => Err(not(format!("process {number} is stopped"))),
            'Z' | 'X' | 'x' => Err(not(format!("process {number} has ended"))),
            _ => Ok(Start::of_process(&Process {
                boot,
                number: *number,
                started: *started,
            })),
        }
    }
}

/// By what starts are told apart: what tells them apart otherwise says nothing of those before.
pub(super) fn kind(sign: &Sign) -> String {
    match sign {
        Sign::Http { identity, .. } => match identity {
            None => "http".to_owned(),
            Some(StartIdentity::Header(name)) => format!("http header {name}"),
            Some(StartIdentity::Json(pointer)) => format!("http json {pointer}"),
        },
        Sign::PidFile(_) | Sign::Command(_) => "process".to_owned(),
        Sign::File(path) => format!("file {}", path.display()),
    }
}

/// Is it there still? One that has ended and was not waited for is not.
pub(super) fn is_there(process: &Process) -> bool {
    Running::read(process.number).is_ok_and(|running| {
        running.started == process.started && !matches!(running.state, 'Z' | 'X' | 'x')
    })
}

/// When it started; `None`: never, by this clock.
pub(super) fn started(process: &Process) -> Option<BootInstant> {
    // `USER_HZ`: the same for every program on Linux, whatever the kernel counts in itself.
    const TICK: u64 = 10;
    process.started.checked_mul(TICK).map(BootInstant)
}

fn text(path: &Path) -> Result<String, NotAlive> {
    use std::io::Read as _;
    let mut text = String::new();
    let limit = u64::try_from(IDENTITY).unwrap_or_default();
    std::fs::File::open(path)
        .and_then(|file| {
            let more = limit.saturating_add(1);
            file.take(more).read_to_string(&mut text)
        })
        .map_err(|error| not(format!("{}: {error}", path.display())))?;
    Ok(text)
}

fn start(text: &str) -> Result<Start, NotAlive> {
    if text.trim().is_empty() {
        return Err(not("what tells its starts apart is empty"));
    }
    if text.len() > IDENTITY {
        return Err(not("what tells its starts apart is too long"));
    }
    Ok(Start::of(text))
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "an error comes by value out of `map_err`"
)]
fn not(why: impl ToString) -> NotAlive {
    NotAlive(why.to_string())
}

#[cfg(test)]
mod tests;
