//! A lease as it is held for a command.
//!
//! What always holds: its end is counted from before it was asked for, by a clock that counts suspend; nothing that the
//! instance does, also nothing at all, lets a wait here outlast the moment at which the command has to be told.
//!
//! What it does not do: stop the command.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;

use super::{Run, TICK, reached};
use crate::admin::client::{AdminClient, ClientError, path};
use crate::clock;
use crate::protocol::time::{BootInstant, Millis};

/// Giving back is tried for so long.
const GIVING_BACK: Duration = Duration::from_secs(2);

/// As the instance tells it.
#[derive(Deserialize)]
struct Told {
    acquisition: String,
    token: String,
    expires_in_ms: u64,
}

pub(super) struct Held<'r> {
    client: AdminClient,
    run: &'r Run,
    pub(super) acquisition: String,
    pub(super) token: String,
    /// Nobody else has it before.
    pub(super) until: BootInstant,
    /// When it is to be renewed.
    due: BootInstant,
}

impl<'r> Held<'r> {
    /// Waits for it as long as the arguments say. It is to be confirmed before it is used.
    pub(super) async fn acquire(run: &'r Run) -> Result<Self, ClientError> {
        Self::acquire_from(AdminClient::of_worker(&run.worker)?, run).await
    }

    async fn acquire_from(client: AdminClient, run: &'r Run) -> Result<Self, ClientError> {
        let body = json!({
            "ttl": format!("{}ms", run.ttl.0),
            "wait": format!("{}ms", run.wait.0),
            "holder": run.holder.clone().unwrap_or_else(host),
        });
        let before = clock::boottime();
        let to = path(&["leases", &run.resource, "acquire"], &[]);
        let answer = client.change_after(&to, body.to_string(), run.wait).await;
        let answer = answer.map_err(as_it_is_typed)?;
        let told: Told = client.understand(&answer)?;
        Ok(Self {
            // The wait counts against it too: too short is safe.
            until: before.after(Millis(told.expires_in_ms)),
            due: before,
            client,
            run,
            acquisition: told.acquisition,
            token: told.token,
        })
    }

    /// Renews it once, so that its time counts from now on and not from before the wait.
    pub(super) async fn confirm(&mut self) -> Result<(), ClientError> {
        let before = clock::boottime();
        let told = tokio::select! {
            told = self.renew() => told?,
            () = reached(before.after(self.run.ttl)) => return Err(self.client.late()),
        };
        self.count_from(before, &told);
        if self.end() <= clock::boottime() {
            return Err(self.client.late());
        }
        Ok(())
    }

    /// Renews at every third of its time; ends when it is lost, or could not be renewed until a grace before its end.
    pub(super) async fn keep(&mut self) -> String {
        const SILENT: &str = "it was not renewed in time";
        let mut trouble = SILENT.to_owned();
        loop {
            let end = self.end();
            reached(self.due.min(end)).await;
            let now = clock::boottime();
            if now >= end {
                return trouble;
            }
            let renewed = tokio::select! {
                renewed = self.renew() => Some(renewed),
                () = reached(end.min(now.after(self.third()))) => None,
            };
            // Where it fails it is tried again at once, but not in a busy loop.
            self.due = clock::boottime().after(TICK);
            match renewed {
                Some(Ok(told)) => {
                    self.count_from(now, &told);
                    SILENT.clone_into(&mut trouble);
                }
                Some(Err(ClientError::Refused(details)))
                    if details.status == 412 || details.status == 410 =>
                {
                    self.until = now;
                    return details.detail;
                }
                Some(Err(error)) => trouble = error.to_string(),
                None => "the instance does not answer".clone_into(&mut trouble),
            }
        }
    }

    /// Best effort: what is not released ends by itself.
    pub(super) async fn release(&self) {
        let to = path(&["leases", &self.run.resource, "release"], &[]);
        let body = json!({ "acquisition": self.acquisition }).to_string();
        let _released = timeout(GIVING_BACK, self.client.change(&to, body)).await;
    }

    async fn renew(&self) -> Result<Told, ClientError> {
        let to = path(&["leases", &self.run.resource, "renew"], &[]);
        let body = json!({ "acquisition": self.acquisition }).to_string();
        let answer = self.client.change(&to, body).await?;
        self.client.understand(&answer)
    }

    fn count_from(&mut self, before: BootInstant, told: &Told) {
        self.until = before.after(Millis(told.expires_in_ms));
        self.due = before.after(self.third());
    }

    fn third(&self) -> Millis {
        Millis((self.run.ttl.0 / 3).max(1))
    }

    /// When the command has to be told, if it is not renewed until then.
    fn end(&self) -> BootInstant {
        let grace = self.run.grace.min(self.third());
        BootInstant(self.until.0.saturating_sub(grace.0))
    }
}

/// What the API says of a field is to be typed as an argument here.
fn as_it_is_typed(error: ClientError) -> ClientError {
    match error {
        ClientError::Refused(mut details) if details.kind.ends_with(":lease-held") => {
            "another holds it: stand in line with `--wait` (60s at most), or try again later"
                .clone_into(&mut details.detail);
            ClientError::Refused(details)
        }
        other => other,
    }
}

fn host() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::routing::post;

    use super::*;
    use crate::config::Secret;

    #[test]
    fn who_is_told_to_stand_in_line_is_told_what_to_type() {
        let told = |kind: &str| {
            let details = crate::admin::problem::Details {
                kind: format!("urn:fencepost:problem:{kind}"),
                detail: "use `wait`".to_owned(),
                ..Default::default()
            };
            as_it_is_typed(ClientError::Refused(Box::new(details))).to_string()
        };
        assert!(told("lease-held").contains("`--wait`"));
        assert!(told("token-source").contains("use `wait`"));
    }

    /// An instance that answers after this has waited for longer than a client waits for what takes no time.
    const WAITED: Duration = Duration::from_millis(200);
    const PATIENCE: Duration = Duration::from_millis(20);

    async fn granted() -> &'static str {
        tokio::time::sleep(WAITED).await;
        r#"{"acquisition":"a-1","token":"7","expires_in_ms":30000}"#
    }

    fn run(wait: Millis) -> Run {
        Run {
            resource: "r".to_owned(),
            ttl: Millis(30_000),
            wait,
            grace: Millis(5_000),
            holder: None,
            worker: String::new(),
            command: Vec::new(),
        }
    }

    #[tokio::test]
    async fn it_is_waited_for_as_long_as_the_arguments_say() {
        let router = Router::new().route("/v1/leases/r/acquire", post(granted));
        let client = || {
            let client = AdminClient::within(router.clone(), &Secret::new("t"));
            client.unwrap().within_time(PATIENCE)
        };
        let run_at_once = run(Millis::default());
        let late = Held::acquire_from(client(), &run_at_once).await;
        assert!(matches!(late, Err(ClientError::Unreachable { .. })));
        let run_that_waits = run(Millis(60_000));
        let held = Held::acquire_from(client(), &run_that_waits).await.unwrap();
        assert_eq!(
            (held.acquisition.as_str(), held.token.as_str()),
            ("a-1", "7")
        );
    }
}
