//! Log lines: JSON, one a line, on standard error.
//!
//! What always holds: a log that cannot be written, or is read too slowly, never stops an effect, nor the end of the
//! process: lines are written behind, many at once; those for which there is no room are lost and counted, and those
//! that the system does not take are lost. A panic's message, which may quote
//! what it choked on, stays out of the log; its place goes in.
//!
//! What it does not do: choose what to log, rotate, or ship anywhere. A process that is killed loses the lines of its
//! last moment; what must not be lost is in the register.

use std::io::{self, BufWriter, Write};
use std::panic::PanicHookInfo;
use std::sync::{Mutex, OnceLock, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// So many lines wait to be written at most, of some 300 bytes.
const WAITING: usize = 16_384;

/// So many bytes are written at once.
const TOGETHER: usize = 64 << 10;

/// So long does it wait for more once all has been written: who logs need not wake it for every line.
const PAUSE: Duration = Duration::from_millis(5);

/// So long may it take to write what is left at the end.
const AT_END: Duration = Duration::from_millis(1_500);

/// Who writes behind; dropped, it writes what is left.
static BEHIND: Mutex<Option<WorkerGuard>> = Mutex::new(None);

static LOST: OnceLock<ErrorCounter> = OnceLock::new();

/// Writes what is left when it is dropped.
#[derive(Debug)]
pub struct Finish;

impl Drop for Finish {
    fn drop(&mut self) {
        finish();
    }
}

/// Logs cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogsError {
    /// The level is not one.
    #[error(
        "`{text}` is not a log level: say error, warn, info, debug or trace, \
         or like `info,fencepost::proxy=debug`"
    )]
    Level {
        /// What was given.
        text: String,
        /// What is wrong with it.
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    /// Somebody set up a subscriber before.
    #[error("logs are set up already")]
    Twice(#[source] tracing::subscriber::SetGlobalDefaultError),
}

/// Sends log lines of `level` and above to standard error, as JSON. `level` is a word, or a filter
/// like `info,fencepost::proxy=debug`. Once per process, which is to end with [`finish`].
pub fn start(level: &str) -> Result<(), LogsError> {
    let (writer, guard) = behind(io::stderr(), WAITING);
    let lost = writer.error_counter();
    tracing::subscriber::set_global_default(lines(level, writer)?).map_err(LogsError::Twice)?;
    std::panic::set_hook(Box::new(log_panic));
    *BEHIND.lock().unwrap_or_else(PoisonError::into_inner) = Some(guard);
    let _once = LOST.set(lost);
    Ok(())
}

/// Writes what is left, if somebody takes it within a second and a half; later lines are lost.
pub fn finish() {
    if let Some(guard) = BEHIND.lock().unwrap_or_else(PoisonError::into_inner).take() {
        dropped_within(guard, AT_END);
    }
}

/// Drops it elsewhere, and waits for that no longer than so: with a full queue the guard complains to standard output,
/// which may be the very pipe that nobody reads.
fn dropped_within<T: Send + 'static>(last: T, at_most: Duration) {
    let (told, done) = mpsc::channel::<()>();
    let dropping = thread::Builder::new().name("logs-end".to_owned());
    let dropping = dropping.spawn(move || {
        drop(last);
        drop(told);
    });
    if dropping.is_ok() {
        let _ended_or_not = done.recv_timeout(at_most);
    }
}

/// So many lines were lost, because there was no room for them.
pub fn lost() -> u64 {
    let lost = LOST.get().map_or(0, ErrorCounter::dropped_lines);
    u64::try_from(lost).unwrap_or(u64::MAX)
}

fn behind<W: Write + Send + 'static>(out: W, waiting: usize) -> (NonBlocking, WorkerGuard) {
    NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(waiting)
        .thread_name("logs")
        .finish(Together(BufWriter::with_capacity(TOGETHER, out)))
}

/// Flushed when no line is left that waits.
struct Together<W: Write>(BufWriter<W>);

impl<W: Write> Write for Together<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.0.flush();
        thread::sleep(PAUSE);
        flushed
    }
}

fn lines<W>(
    level: &str,
    writer: W,
) -> Result<impl tracing::Subscriber + Send + Sync + 'static, LogsError>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let filter = EnvFilter::builder()
        .parse(level)
        .map_err(|source| LogsError::Level {
            text: level.to_owned(),
            source,
        })?;
    Ok(tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_current_span(true)
        .with_span_list(false)
        .with_env_filter(filter)
        // Its own complaint about a broken standard error would be a panic.
        .log_internal_errors(false)
        .with_writer(writer)
        .finish())
}

fn log_panic(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string);
    let thread = thread::current();
    tracing::error!(
        place = place.as_deref().unwrap_or("unknown"),
        thread = thread.name().unwrap_or("unnamed"),
        "a task panicked; what it was doing is settled like any interruption"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_is_one_json_object_with_time_level_and_fields() {
        let written = Lines::default();
        let sink = written.clone();
        let subscriber = lines("info", move || sink.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(operation = "pay:\"1\"\n", token = %"3:108", "admitted");
            tracing::debug!("not at this level");
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1, "{text}");
        let line: serde_json::Value = serde_json::from_str(lines[0]).unwrap();
        assert_eq!(line["level"], "INFO");
        assert_eq!(line["message"], "admitted");
        assert_eq!(line["operation"], "pay:\"1\"\n");
        assert_eq!(line["token"], "3:108");
        let time = line["timestamp"].as_str().unwrap();
        assert!(humantime::parse_rfc3339(time).is_ok(), "{time}");
    }

    /// Nobody reads it until he is told to.
    struct Unread(mpsc::Receiver<()>, Lines);

    impl Write for Unread {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Whoever let it go has read everything.
            let _let_go = self.0.recv();
            self.1.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_log_that_nobody_reads_stops_nobody() {
        let (read, unread) = mpsc::channel();
        let written = Lines::default();
        let (writer, guard) = behind(Unread(unread, written.clone()), 4);
        let lost = writer.error_counter();
        tracing::subscriber::with_default(lines("info", writer).unwrap(), || {
            for number in 0..1_000 {
                tracing::info!(number, padding = "a".repeat(1_000), "goes on");
            }
        });
        assert!(lost.dropped_lines() > 800, "{}", lost.dropped_lines());
        drop(read);
        drop(guard);
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        let whole = text
            .lines()
            .filter(|line| serde_json::from_str::<serde_json::Value>(line).is_ok());
        assert_eq!(whole.count() + lost.dropped_lines(), 1_000);
    }

    /// Does not end before whoever has the other end lets go.
    struct Stuck(mpsc::Receiver<()>);

    impl Drop for Stuck {
        fn drop(&mut self) {
            let _let_go = self.0.recv();
        }
    }

    #[test]
    fn a_log_that_nobody_reads_keeps_no_process_from_its_end() {
        let (_held, unread) = mpsc::channel();
        let (told, ended) = mpsc::channel();
        thread::spawn(move || {
            dropped_within(Stuck(unread), Duration::from_millis(50));
            told.send(()).unwrap();
        });
        ended.recv_timeout(Duration::from_secs(20)).unwrap();
    }

    #[test]
    fn what_is_left_is_written_at_the_end() {
        let written = Lines::default();
        let (writer, guard) = behind(written.clone(), WAITING);
        tracing::subscriber::with_default(lines("info", writer).unwrap(), || {
            for number in 0..1_000 {
                tracing::info!(number, "one of the last");
            }
        });
        dropped_within(guard, Duration::from_secs(20));
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 1_000);
    }

    #[test]
    fn a_wrong_level_says_what_is_understood() {
        let Err(error) = lines("fencepost=loud", io::sink) else {
            panic!("accepted");
        };
        assert!(error.to_string().contains("`fencepost=loud`"), "{error}");
    }
}
