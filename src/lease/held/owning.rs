//! How ownership goes on: renewed a third of its time after the last time, for a worker that was seen since.
//!
//! What always holds: a renewal that fails on its way is tried again until the end, and no longer; whatever says that
//! another owns ends it at once. A source that acknowledges what it does not record has lost it.
//!
//! What it does not do: begin (`beginning`).

use std::time::Duration;

use tokio::time::timeout;

use super::{Granted, Held, Last, NotGranted, Phase, remembered};
use crate::protocol::ids::AcquisitionId;
use crate::protocol::time::{BootInstant, Millis};

impl Held {
    pub(super) fn third(&self) -> Millis {
        Millis((self.wanted.ttl.0 / 3).max(1))
    }

    pub(super) async fn renew(&mut self) {
        let Phase::Owning(owning) = &self.phase else {
            return;
        };
        let is_alive = self.worker_seen.trouble.is_none();
        let seen = self.worker_seen.success.as_ref().filter(|_| is_alive);
        // A worker that was seen before that may have got stuck since.
        if seen.is_none_or(|seen| seen.began < owning.begun) {
            return;
        }
        let ownership = owning.ownership.clone();
        let begun = self.clock.boottime();
        let renewed = self
            .ask_to_renew(&ownership.acquisition, ownership.until)
            .await;
        if ownership.until <= self.clock.boottime() {
            self.lose("the answer to its renewal came after its end");
            return;
        }
        match renewed {
            Ok(granted)
                if (granted.token, &granted.acquisition)
                    != (ownership.token, &ownership.acquisition) =>
            {
                self.lose("its source renewed another one");
            }
            Ok(granted) => self.renewed(granted.until, begun).await,
            Err(NotGranted::Unreachable(why)) => self.not_renewed(&why),
            Err(why) => self.lose(&why.to_string()),
        }
    }

    async fn renewed(&mut self, until: BootInstant, begun: BootInstant) {
        let Last::Known(last) = &self.last else {
            self.lose("what is remembered of it is another one's");
            return;
        };
        let last = last.clone();
        if let Err(why) = self.remember(remembered::Ownership { until, ..last }).await {
            self.not_renewed(&why);
            return;
        }
        let now = self.clock.boottime();
        let third = self.third();
        if let Phase::Owning(owning) = &mut self.phase
            && owning.ownership.until > now
        {
            owning.ownership.until = until;
            owning.begun = begun;
            self.due.failures = 0;
            self.due.ask = begun.after(third);
            self.show();
        }
    }

    fn not_renewed(&mut self, why: &str) {
        tracing::warn!(
            lease = self.name,
            resource = %self.resource.name,
            why,
            "a lease is not renewed: it is tried again until its end"
        );
        self.ask_later();
    }

    /// Renews, and sees to it that it is recorded. Takes no longer than it may be worth anything.
    pub(super) async fn ask_to_renew(
        &self,
        acquisition: &AcquisitionId,
        until: BootInstant,
    ) -> Result<Granted, NotGranted> {
        let patience = until.since(self.clock.boottime()).min(self.third());
        let asking = async {
            let granted = self.source.renew(&self.resource, acquisition).await?;
            self.source.confirm(&self.resource, acquisition).await?;
            Ok(granted)
        };
        match timeout(Duration::from_millis(patience.0.max(1)), asking).await {
            Ok(asked) => asked,
            Err(_late) => Err(NotGranted::Unreachable("not in time".to_owned())),
        }
    }
}
