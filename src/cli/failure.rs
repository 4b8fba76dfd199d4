//! What can go wrong with a command, and its exit code.
//!
//! What always holds: 1 refused, 2 usage, 3 unreachable, 4 a lease was lost that the process was to end with; the message says what to do next.
//!
//! What it does not do: log. A command's user reads standard error.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use super::table::{clean, clean_lines, shell_word};
use crate::admin::client::ClientError;
use crate::admin::problem::Details;
use crate::app::{AppError, LEASE_LOST};
use crate::config::Problems;
use crate::telemetry::errors::chain;

/// A command that was not done.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The instance refused, or is none, or did not answer.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The config is refused.
    #[error("{0}")]
    Config(Problems),
    /// What was typed cannot be meant.
    #[error("{0}")]
    Usage(String),
    /// What was checked is wrong; the text is the result.
    #[error("{0}")]
    Wrong(String),
    /// `serve` or `demo` ended with an error.
    #[error(transparent)]
    Service(#[from] anyhow::Error),
    /// The register cannot be had, or not be copied.
    #[error(transparent)]
    Register(#[from] AppError),
    /// `serve` ended with the lease that it held.
    #[error(transparent)]
    LeaseLost(AppError),
    /// There is no runtime to be had.
    #[error("the system gives no threads or no event queue")]
    Runtime(#[source] io::Error),
}

impl Failure {
    /// Tells the user, and gives the exit code. `json`: a refusal is printed as the instance's JSON.
    pub(super) fn report(&self, json: bool) -> ExitCode {
        match self {
            Self::Wrong(text) => {
                // The exit code says "wrong" even where nobody reads what is.
                let _ = super::print(text);
            }
            Self::Client(ClientError::Refused(details)) if json => {
                let text = serde_json::to_string_pretty(details);
                let _ = super::print(&text.unwrap_or_default());
            }
            Self::Client(ClientError::Refused(details)) => complain(&explained(details)),
            Self::Client(_)
            | Self::Usage(_)
            | Self::Service(_)
            | Self::Register(_)
            | Self::LeaseLost(_)
            | Self::Runtime(_) => {
                complain(&chain(self).to_string());
            }
            Self::Config(problems) => complain(&problems.to_string()),
        }
        ExitCode::from(self.code())
    }

    pub(super) fn code(&self) -> u8 {
        match self {
            Self::Client(ClientError::Unreachable { .. } | ClientError::NotUnderstood { .. }) => 3,
            Self::Client(ClientError::Address { .. } | ClientError::Token) | Self::Usage(_) => 2,
            Self::LeaseLost(_) => LEASE_LOST,
            Self::Client(ClientError::Refused(_))
            | Self::Config(_)
            | Self::Wrong(_)
            | Self::Service(_)
            | Self::Register(_)
            | Self::Runtime(_) => 1,
        }
    }
}

/// The exit code of a result that was printed. A reader that has seen enough (`| head`) is fine.
pub(super) fn written(result: io::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("the result cannot be written: {error}"));
            ExitCode::from(1)
        }
    }
}

/// A refusal in words, with the operations that the name could mean.
fn explained(details: &Details) -> String {
    let name = details.kind.rsplit(':').next().unwrap_or_default();
    let refusal = format!("refused ({}): {}", clean(name), clean(&details.detail));
    let mut lines = vec![refusal];
    lines.extend(details.candidates.iter().map(|candidate| {
        let principal = candidate.principal.as_deref().unwrap_or("none");
        let id = shell_word(&candidate.id);
        let line = format!(
            "  {} {id} --principal {principal} --incarnation {}",
            candidate.upstream, candidate.incarnation
        );
        clean(&line).into_owned()
    }));
    lines.join("\n")
}

fn complain(text: &str) {
    // Nobody is left to be told that nobody can be told.
    let _ = writeln!(io::stderr(), "{}", clean_lines(text));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::views::KeyView;

    #[test]
    fn exit_codes_are_those_of_the_documentation() {
        let refused = || Box::new(Details::default());
        let address = || ClientError::Address {
            text: "x".to_owned(),
        };
        let unreachable = || ClientError::Unreachable {
            instance: http::uri::Authority::from_static("a:1"),
            remedy: "",
            source: None,
        };
        assert_eq!(Failure::from(ClientError::Refused(refused())).code(), 1);
        assert_eq!(Failure::Wrong(String::new()).code(), 1);
        assert_eq!(Failure::from(address()).code(), 2);
        assert_eq!(Failure::Usage(String::new()).code(), 2);
        assert_eq!(Failure::from(unreachable()).code(), 3);
    }

    #[test]
    fn an_ambiguous_name_comes_with_what_to_type() {
        let details = Details {
            kind: "urn:fencepost:problem:ambiguous-operation".to_owned(),
            detail: "say which".to_owned(),
            candidates: vec![KeyView {
                upstream: "bank".to_owned(),
                id: "pay-1".to_owned(),
                principal: None,
                incarnation: 2,
            }],
            ..Details::default()
        };
        assert_eq!(
            explained(&details),
            "refused (ambiguous-operation): say which\n  \
             bank pay-1 --principal none --incarnation 2"
        );
    }
}
