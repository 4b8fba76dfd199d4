//! Sending what undoes an effect: like an effect, on a connection that was reserved before it began.
//!
//! What always holds: it is sent on nothing but a permit, once per connection; its first byte leaves before
//! the permit's `dispatch-by` or not at all; *not sent* is said only of what was counted here; everything ends
//! within the upstream's response limit, and nothing of it leaves after that.
//!
//! What it does not do: judge an answer (`reconcile`), or read on for a late one: another try says the same.

use tokio::time::timeout;

use super::answer::Keeping;
use super::evidence;
use super::exchange::Exchanged;
use super::outbound::Outbound;
use super::reserve::Reserved;
use crate::clock;
use crate::protocol::outcome::{Answer, Evidence, Interruption, Unsent};
use crate::store::permit::VoidPermit;

/// Why a request that undoes has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unheard {
    /// No byte of it left, and none can any more.
    NotSent(Unsent),
    /// It may have left, and no complete answer came in time.
    Broken,
    /// The answer is larger than may be read.
    TooLarge,
}

impl Reserved {
    /// Sends what undoes. `most`: longest content of an answer, in bytes.
    pub async fn undo(
        self,
        permit: &VoidPermit,
        outbound: Outbound,
        most: usize,
    ) -> Result<Answer, Unheard> {
        let (Some(live), pool) = self.open() else {
            return Err(Unheard::NotSent(Unsent::ConnectionLost));
        };
        let limits = *pool.limits();
        let meter = std::sync::Arc::clone(live.meter());
        meter.arm(permit.dispatch_by());
        let keeping = Keeping {
            limit: most,
            bodies: pool.bodies().clone(),
            onward: None,
            begun: clock::boottime(),
            response: limits.response,
        };
        let exchange = live.exchange(outbound, keeping, limits.accept_by_close);
        // Given up, the exchange is dropped, and its connection with it: what was counted is all there will be.
        let evidence = match timeout(limits.response, Box::pin(exchange)).await {
            Ok(Exchanged::Answered(answer, live)) => {
                pool.put_back(live);
                return match answer.body {
                    Some(_) => Ok(answer),
                    None => Err(Unheard::TooLarge),
                };
            }
            Ok(Exchanged::Cut(cut)) => {
                let cause: &(dyn std::error::Error + 'static) = &cut;
                tracing::info!(cause, "a request that undoes ended without an answer");
                evidence::of_cut(&meter.facts(), &cut)
            }
            Err(_elapsed) => evidence::of_end(&meter.facts(), Interruption::Timeout),
        };
        Err(match evidence {
            Evidence::NotSent(why) => Unheard::NotSent(why),
            Evidence::Interrupted { .. } | Evidence::Answered { .. } => Unheard::Broken,
        })
    }
}
