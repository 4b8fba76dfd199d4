//! How ownership begins: what is remembered at the start, what proves a new process, acquiring and resuming.
//!
//! What always holds: without proof nothing is even asked for: another replica can have it. What is granted is
//! remembered on the disk before it is claimed, and given back where it cannot be. A copy of a state resumes nothing.
//! Nothing begins once this sidecar is stopping.
//!
//! What it does not do: renew (`owning`).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::super::probe;
use super::super::secret::digest;
use super::{Granted, Held, Last, NotGranted, Ownership, Owning, Phase, Start, remembered};
use crate::protocol::time::BootInstant;

/// Beyond the wait, an answer takes no longer.
const ANSWER: Duration = Duration::from_secs(10);

/// Why a worker that is there, and nothing proves to be another, has it no more.
pub(super) const OWNED_BEFORE: &str = "this process of the worker owned it before";

impl Held {
    /// What follows from what is remembered.
    pub(super) fn begin(&mut self) {
        let now = self.clock.now();
        match &self.last {
            Last::Known(last)
                if last.boot == now.boot && last.until > now.boottime && !last.released =>
            {
                self.phase = Phase::Resuming(last.clone());
            }
            Last::Unreadable(why) => {
                let path = self.state.path().display();
                tracing::error!(
                    lease = self.name,
                    path = %path,
                    why,
                    "what is remembered of a lease cannot be used: nothing is claimed until it is acknowledged"
                );
            }
            Last::Never | Last::Known(_) | Last::Copied(_) => {}
        }
        self.show();
    }

    /// Is the worker visibly none that ever owned?
    pub(super) fn is_proven(&self) -> bool {
        if self.acknowledged {
            return true;
        }
        let last = match &self.last {
            Last::Never => return true,
            Last::Unreadable(_) => return false,
            Last::Known(last) | Last::Copied(last) => last,
        };
        let seen = self.worker_seen.success.as_ref();
        let start = seen.and_then(|seen| seen.start.as_ref());
        match (&last.start, start) {
            // What tells them apart otherwise now differs without another start.
            (Some(_), Some(_)) if last.sign != self.sign => false,
            (Some(before), Some(start)) => {
                !last.starts.contains(start) && self.is_newer(start, before, last.seen)
            }
            // One of both does not say which it is.
            (None, _) | (_, None) => false,
        }
    }

    /// Of processes: the one before is gone, and this one started after it was last seen. Its child is older.
    fn is_newer(&self, start: &Start, before: &Start, seen: BootInstant) -> bool {
        let Some(before) = before.process() else {
            return true;
        };
        if before.boot != self.clock.now().boot {
            return true;
        }
        let started = start.process().and_then(|start| probe::started(&start));
        !probe::is_there(&before) && started.is_some_and(|started| started > seen)
    }

    /// The start that owned last was there a moment ago, whether it owns now or not. When that was is remembered once
    /// another one is there.
    pub(super) async fn seen_again(&mut self, start: Option<&Start>, began: BootInstant) {
        let boot = self.clock.now().boot;
        if let Last::Known(last) | Last::Copied(last) = &mut self.last
            && last.boot == boot
            && start.is_some()
            && last.start.as_ref() == start
        {
            last.seen = last.seen.max(began);
            return;
        }
        let before = self.worker_seen.success.as_ref();
        let before = before.and_then(|seen| seen.start.as_ref());
        if let Last::Known(last) = &self.last
            && before.is_some()
            && before == last.start.as_ref()
            && before != start
        {
            let last = last.clone();
            if let Err(why) = self.remember(last).await {
                tracing::warn!(
                    lease = self.name,
                    why,
                    "when its worker was last seen is not remembered"
                );
            }
        }
    }

    pub(super) async fn acquire(&mut self) {
        if self.stopping.is_cancelled() {
            return;
        }
        let is_alive = self.worker_seen.trouble.is_none();
        let Some(seen) = self.worker_seen.success.as_ref().filter(|_| is_alive) else {
            return;
        };
        if !self.is_proven() {
            self.is_refused();
            return;
        }
        let (start, began) = (seen.start.clone(), seen.began);
        let begun = self.clock.boottime();
        let limit = Duration::from_millis(self.wanted.wait.0).saturating_add(ANSWER);
        let asked = timeout(limit, self.source.acquire(&self.resource, &self.wanted)).await;
        let late = || NotGranted::Unreachable("not in time".to_owned());
        match asked.unwrap_or_else(|_| Err(late())) {
            Ok(granted) => self.granted(granted, (start, began), begun).await,
            Err(why) => {
                let waits = matches!(why, NotGranted::Held(_));
                self.not_granted(&why);
                if waits {
                    // It was waited for already.
                    self.due.failures = 0;
                }
            }
        }
    }

    /// Says once that this process of the worker owned it before this one of the sidecar began: whoever upgrades the
    /// sidecar alone would wonder.
    fn is_refused(&mut self) {
        if self.lost.is_some() || matches!(self.last, Last::Unreadable(_)) {
            return;
        }
        tracing::warn!(
            lease = self.name,
            resource = %self.resource.name,
            "this process of the worker owned the lease before: it is refused until it is replaced or acknowledged"
        );
        self.lost = Some(OWNED_BEFORE.to_owned());
    }

    async fn granted(
        &mut self,
        granted: Granted,
        (start, seen): (Option<Start>, BootInstant),
        begun: BootInstant,
    ) {
        if self.stopping.is_cancelled() {
            self.give_back(&granted.acquisition).await;
            return;
        }
        let (starts, known) = match &self.last {
            Last::Known(last) | Last::Copied(last) => (last.starts.clone(), Some(last.token)),
            Last::Never | Last::Unreadable(_) => (Vec::new(), None),
        };
        if let Some(known) = known.filter(|known| granted.token <= *known) {
            let issued = granted.token;
            self.give_back(&granted.acquisition).await;
            self.not_granted(&NotGranted::Behind { issued, known });
            return;
        }
        let last = remembered::Ownership {
            acquisition: granted.acquisition.clone(),
            token: granted.token,
            start: start.clone(),
            starts: Vec::new(),
            seen,
            sign: self.sign.clone(),
            boot: self.clock.now().boot,
            until: granted.until,
            released: false,
        };
        if let Err(why) = self.remember(last.with_starts(&starts)).await {
            self.give_back(&granted.acquisition).await;
            self.not_granted(&NotGranted::Refused(why));
            return;
        }
        // Whatever comes of it: this start has owned.
        self.acknowledged = false;
        if granted.until <= self.clock.boottime() {
            self.lose("it was granted too late");
            return;
        }
        self.own(granted, start, begun);
    }

    /// Goes on with what was owned before this process started.
    pub(super) async fn resume(&mut self) {
        let Phase::Resuming(last) = &self.phase else {
            return;
        };
        if self.stopping.is_cancelled() {
            return;
        }
        let is_seen = self.worker_seen.success.is_some() && self.worker_seen.trouble.is_none();
        if !is_seen {
            return;
        }
        let last = last.clone();
        let begun = self.clock.boottime();
        match self.ask_to_renew(&last.acquisition, last.until).await {
            Ok(granted) if last.until <= self.clock.boottime() || !is_same(&granted, &last) => {
                self.lose("it could not be resumed in time");
            }
            Ok(granted) => {
                let (start, until) = (last.start.clone(), granted.until);
                if let Err(why) = self.remember(remembered::Ownership { until, ..last }).await {
                    self.not_granted(&NotGranted::Refused(why));
                    return;
                }
                self.own(granted, start, begun);
            }
            Err(NotGranted::Unreachable(why)) => self.not_granted(&NotGranted::Unreachable(why)),
            Err(why) => self.lose(&format!("it could not be resumed: {why}")),
        }
    }

    fn own(&mut self, granted: Granted, start: Option<Start>, begun: BootInstant) {
        let Granted {
            token,
            acquisition,
            until,
        } = granted;
        tracing::info!(
            lease = self.name,
            resource = %self.resource.name,
            acquisition = digest(&acquisition),
            %token,
            "a lease is held on behalf of the worker"
        );
        self.phase = Phase::Owning(Owning {
            ownership: Ownership {
                token,
                acquisition,
                until,
            },
            start,
            begun,
        });
        self.lost = None;
        self.trouble = None;
        self.due.failures = 0;
        self.due.ask = begun.after(self.third());
        self.show();
    }

    fn not_granted(&mut self, why: &NotGranted) {
        let text = why.to_string();
        if self.trouble.as_ref() != Some(&text) && !matches!(why, NotGranted::Held(_)) {
            tracing::warn!(lease = self.name, resource = %self.resource.name, why = text, "a lease is not granted");
        }
        self.trouble = Some(match why {
            NotGranted::Held(_) => "another holds it".to_owned(),
            _ => text,
        });
        self.ask_later();
    }

    /// On the disk, before anything is claimed.
    pub(super) async fn remember(&mut self, last: remembered::Ownership) -> Result<(), String> {
        let written = self.write(last.clone()).await;
        written.map_err(|error| format!("it cannot be remembered: {error}"))?;
        self.last = Last::Known(last);
        Ok(())
    }

    /// After whatever is being written, also if nobody waits for that any more.
    pub(super) async fn write(&self, last: remembered::Ownership) -> io::Result<()> {
        let state = Arc::clone(&self.state);
        let turn = state.turn().await;
        let write = tokio::task::spawn_blocking(move || {
            let written = state.write(&last);
            drop(turn);
            written
        });
        write
            .await
            .unwrap_or_else(|gone| Err(io::Error::other(gone)))
    }
}

fn is_same(granted: &Granted, last: &remembered::Ownership) -> bool {
    granted.token == last.token && granted.acquisition == last.acquisition
}
