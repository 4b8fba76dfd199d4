//! A caller who would rather ask than wait (`Prefer: respond-async`, RFC 7240).
//!
//! What always holds: he is told 202 only once his operation is in the register, or joined there, and goes on
//! without him; until then it is withdrawn if he hangs up, like any other. Whatever is decided sooner is
//! answered as if he had waited.
//!
//! What it does not do: tell him later; he asks.

use tokio::time::sleep;

use super::front::Asking;
use super::told::Told;
use crate::wire::prefer::Asynchronous;

/// Carries the request out, for as long as its caller likes to wait; then it goes on by itself.
pub(super) async fn run(asking: Asking, preferred: Asynchronous) -> Told {
    let (granted, supervisor) = (
        asking.effect.granted.clone(),
        asking.effect.dispatcher.supervisor.clone(),
    );
    let mut running = Box::pin(async move { asking.run().await });
    let goes_on = async {
        let (key, ()) = tokio::join!(granted.told(), sleep(preferred.wait));
        key
    };
    tokio::select! {
        biased;
        told = &mut running => told,
        key = goes_on => {
            supervisor.effect(async move {
                let _told_to_nobody = running.await;
            });
            Told::accepted(&key)
        }
    }
}
