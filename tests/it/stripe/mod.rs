//! The official Stripe SDKs through Fencepost, against localstripe.
//!
//! What always holds: neither of the two knows of Fencepost; only the SDK's base URL differs. The
//! provider does *not* honour idempotency keys, so every duplicate that slips through stands in its
//! own lists.

mod errors;
mod node;
mod python;

use std::net::{Ipv4Addr, SocketAddr};

use serde_json::Value;

use crate::support::call::Call;
use crate::support::python::{Dialogue, python};

/// localstripe, running.
pub struct Provider {
    _running: Dialogue,
    address: SocketAddr,
}

impl Provider {
    pub fn start() -> Self {
        let mut running = Dialogue::start(python("python/payment_provider.py"));
        let port = running.line().parse().unwrap();
        Self {
            _running: running,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A customer with a card.
    pub fn customer(&self) -> String {
        let made = python::sdk("prepare", self.address, &[]);
        made["customer"].as_str().unwrap().to_owned()
    }

    /// The ids of all payment intents for that order, by the provider's own list.
    pub fn intents(&self, order: &str) -> Vec<Value> {
        let list = Call::new(self.address, "GET", "/v1/payment_intents?limit=100")
            .field("Authorization", "Bearer sk_test_of_nobody")
            .send()
            .json();
        let all = list["data"].as_array().unwrap().iter();
        all.filter(|it| it["metadata"]["order"] == order)
            .map(|it| it["id"].clone())
            .collect()
    }

    /// The ids of all charges for that order, by the provider's own list.
    pub fn charges(&self, order: &str) -> Vec<Value> {
        let list = python::sdk("list", self.address, &[]);
        let all = list.as_array().unwrap().iter();
        all.filter(|it| it["order"] == order)
            .map(|it| it["id"].clone())
            .collect()
    }
}
