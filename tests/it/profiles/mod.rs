//! The shipped profiles against upstreams that behave as their vendors document, nasty parts included.
//!
//! What always holds: the profile is the shipped file, with nothing changed but how long is waited; the upstream
//! counts effects; an object that is somebody else's settles nothing.
//!
//! What lives elsewhere: the vendors' own SDKs (`stripe`), what an answer proves by profile (`config::tests`).

mod callbacks;
mod found;
mod nasty;
mod requests;
mod vendors;
mod whatever;

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::call::Call;
use crate::support::gate::{Gate, until};
use crate::support::http::Head;
use crate::support::proxy::Proxy;
use crate::support::script::Script;
use crate::support::setup::Setup;
use crate::support::upstream::Upstream;

const FORM: &str = "application/x-www-form-urlencoded";

/// A version 4 UUID: every profile takes it as a key.
const KEY: &str = "6f1c0d5e-3a7b-4c21-9d84-0b5b2f6a9e13";

const QUICK: &str = "timeouts: { connect: 2s, response: 300ms, dispatch: 5s }\n";

/// So often is sent again here, where a profile sends again.
const RESENDS: usize = 2;

/// The proxy in front of an upstream of that profile. `route`: what else the config says of it.
struct Scene {
    proxy: Proxy,
    upstream: Upstream,
    _profiles: TempDir,
}

impl Scene {
    fn new(profile: &str, upstream: Upstream, route: &str) -> Self {
        Self::with(profile, &hastened(profile), upstream, route)
    }

    /// With another text for the profile.
    fn with(profile: &str, text: &str, upstream: Upstream, route: &str) -> Self {
        let profiles = tempfile::tempdir().unwrap();
        let file = profiles.path().join(format!("{profile}.yaml"));
        std::fs::write(file, text).unwrap();
        let proxy = Proxy::start(setup(profile, upstream.address(), route, profiles.path()));
        Self {
            proxy,
            upstream,
            _profiles: profiles,
        }
    }

    fn operation(&self, id: &str) -> Value {
        self.proxy.read(&format!("/v1/operations/provider/{id}"))
    }

    fn until_state(&self, id: &str, wanted: &str) {
        until(&format!("{id} is {wanted}"), || {
            self.operation(id)["state"] == wanted
        });
    }

    /// The proxy dies when the upstream has done what it is asked for and has not answered, and comes back when the
    /// upstream no longer knows the key.
    fn loses_past_the_key(&mut self, call: &Call, lifetime: Duration) {
        let gate = Gate::closed();
        self.upstream.next(Script::hold_answer(&gate));
        let begun = Instant::now();
        let lost = call.start();
        gate.until_reached();
        self.proxy.kill();
        gate.open();
        assert!(lost.try_answer().is_err());
        self.upstream.until_quiet();
        self.upstream.forget_keys();
        until("the key is past its time", || begun.elapsed() > lifetime);
        self.proxy.start_again();
    }

    /// The heads of everything that was no question.
    fn sent(&self) -> Vec<Head> {
        let heads = self.upstream.heads();
        let is_sent = |head: &Head| head.word(0) != "GET" && !head.word(1).ends_with("/cancel");
        heads.into_iter().filter(is_sent).collect()
    }
}

fn setup(profile: &str, upstream: SocketAddr, route: &str, profiles: &Path) -> Setup {
    let route = format!("profile: {profile}\n{route}");
    Setup::new(upstream, &route).with(&format!("profiles: {}", profiles.display()))
}

/// How long is waited instead of minutes and hours.
struct Pace<'a> {
    /// For a lag of a minute.
    minute: &'a str,
    /// For a lag of an hour.
    hour: &'a str,
    /// For an answer to a question, in all.
    within: &'a str,
}

const SECONDS: Pace<'_> = Pace {
    minute: "1s",
    hour: "2s",
    within: "1h",
};

/// A shipped profile that waits for seconds where it waits for minutes and hours.
fn hastened(profile: &str) -> String {
    at_pace(profile, &SECONDS)
}

fn at_pace(profile: &str, pace: &Pace<'_>) -> String {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/profiles");
    let shipped = std::fs::read_to_string(shipped.join(format!("{profile}.yaml"))).unwrap();
    let every = "every: { from: 100ms, to: 100ms }";
    let Pace {
        minute,
        hour,
        within,
    } = pace;
    let mut text = String::new();
    for line in shipped.lines() {
        let indent = &line[..line.len() - line.trim_start().len()];
        let quick = match line.trim() {
            "lag: 60s" => {
                format!("{indent}lag: {minute}\n{indent}within: {within}\n{indent}{every}")
            }
            "lag: 2h" => format!("{indent}lag: {hour}\n{indent}within: {within}"),
            "every: { from: 2s, to: 5m }" => format!("{indent}{every}"),
            "- send_again: {}" => {
                format!(
                    "{indent}- send_again: {{ attempts: {RESENDS}, backoff: {{ from: 50ms, to: 50ms }} }}"
                )
            }
            _ => {
                let flow = format!("lag: {minute}, within: {within}, {every} }}");
                line.replace("lag: 60s }", &flow)
            }
        };
        text.push_str(&quick);
        text.push('\n');
    }
    text
}
