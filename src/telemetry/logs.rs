//! Log lines: JSON, one a line, on standard error.
//!
//! What always holds: a log that cannot be written never stops an effect, and a panic's message,
//! which may quote what it choked on, stays out of the log; its place goes in.
//!
//! What it does not do: choose what to log, rotate, or ship anywhere.

use std::panic::PanicHookInfo;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

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
/// like `info,fencepost::proxy=debug`. Once per process.
pub fn start(level: &str) -> Result<(), LogsError> {
    tracing::subscriber::set_global_default(lines(level, std::io::stderr)?)
        .map_err(LogsError::Twice)?;
    std::panic::set_hook(Box::new(log_panic));
    Ok(())
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
    let thread = std::thread::current();
    tracing::error!(
        place = place.as_deref().unwrap_or("unknown"),
        thread = thread.name().unwrap_or("unnamed"),
        "a task panicked; what it was doing is settled like any interruption"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

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

    #[test]
    fn a_wrong_level_says_what_is_understood() {
        let Err(error) = lines("fencepost=loud", io::sink) else {
            panic!("accepted");
        };
        assert!(error.to_string().contains("`fencepost=loud`"), "{error}");
    }
}
