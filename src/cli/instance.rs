//! Finding a running instance, or a register without one.
//!
//! What always holds: what was typed wins over what a config says, and a token is taken from a config
//! only where it can be nobody else's. A register is given back before its answer is printed.
//!
//! What it does not do: guess ports, or take an embedded register from an instance.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::arguments::Instance;
use super::failure::Failure;
use crate::admin::client::{AdminClient, ClientError};
use crate::app::direct::{Direct, Purpose, Which};
use crate::config::{self, Admin, Secret};
use crate::protocol::ids::Tenant;

const USUAL: &str = "http://127.0.0.1:15000";

/// What was answered.
pub(super) struct Told {
    client: AdminClient,
    answer: Value,
}

impl Told {
    /// As JSON, or in the words of `text`.
    pub(super) fn printed<V: DeserializeOwned>(
        &self,
        json: bool,
        text: impl FnOnce(&V) -> String,
    ) -> Result<String, Failure> {
        if json {
            return Ok(format!("{:#}", self.answer));
        }
        Ok(text(&self.understood()?))
    }

    /// As what it is to be.
    pub(super) fn understood<V: DeserializeOwned>(&self) -> Result<V, Failure> {
        Ok(self.client.understand(&self.answer)?)
    }

    /// As it came.
    pub(super) fn into_json(self) -> Value {
        self.answer
    }
}

/// What a call does to the register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Touch {
    /// It is only looked at.
    Nothing,
    /// It is changed.
    Records,
}

impl Instance {
    /// Reads what stands at a path.
    pub(super) async fn read(&self, path: &str) -> Result<Told, Failure> {
        self.ask(path, None, Touch::Nothing).await
    }

    /// The same where reading leaves a trace.
    pub(super) async fn read_touching(&self, path: &str, touch: Touch) -> Result<Told, Failure> {
        self.ask(path, None, touch).await
    }

    /// Posts. `body`: JSON.
    pub(super) async fn change(
        &self,
        path: &str,
        body: String,
        touch: Touch,
    ) -> Result<Told, Failure> {
        self.ask(path, Some(body), touch).await
    }

    async fn ask(&self, path: &str, change: Option<String>, touch: Touch) -> Result<Told, Failure> {
        let Some(register) = &self.register else {
            let client = self.client()?;
            let answer = asked(&client, path, change).await?;
            return Ok(Told { client, answer });
        };
        let purpose = match touch {
            Touch::Nothing => Purpose::Look,
            Touch::Records => Purpose::Change,
        };
        let config = match &self.config {
            None => None,
            Some(file) => Some(config::load(file).map_err(Failure::Config)?.0),
        };
        let tenant = match (&config, &self.tenant) {
            (Some(config), _) => config.tenant.clone(),
            (None, name) => Tenant::new(name.as_deref().unwrap_or("default")),
        };
        let which = Which {
            place: register.clone(),
            tenant,
            config: config.as_ref(),
        };
        let operator = format!("user {}", rustix::process::getuid().as_raw());
        let direct = Direct::open(which, purpose, operator).await?;
        let client = AdminClient::within(direct.router.clone(), &direct.token)?;
        let answer = asked(&client, path, change).await;
        direct.close().await?;
        Ok(Told {
            client,
            answer: answer?,
        })
    }

    /// A client for it.
    fn client(&self) -> Result<AdminClient, Failure> {
        let (address, token) = match (&self.admin, &self.config) {
            (Some(admin), _) => (admin.clone(), None),
            (None, Some(file)) => from_config(file)?,
            (None, None) => (USUAL.to_owned(), None),
        };
        let token = self.token.as_ref().or(token.as_ref());
        Ok(AdminClient::new(&address, token)?)
    }
}

async fn asked(
    client: &AdminClient,
    path: &str,
    change: Option<String>,
) -> Result<Value, ClientError> {
    match change {
        None => client.read(path).await,
        Some(body) => client.change(path, body).await,
    }
}

fn from_config(file: &Path) -> Result<(String, Option<Secret>), Failure> {
    let (config, _warnings) = config::load(file).map_err(Failure::Config)?;
    let admin = config.admin.ok_or_else(|| {
        Failure::Usage(format!(
            "{} has no `admin` listener: give the address of one with --admin",
            file.display()
        ))
    })?;
    Ok((
        format!("http://{}", reachable(admin.address)),
        only_token(admin),
    ))
}

/// Several operators: the config does not say which of them is typing.
fn only_token(admin: Admin) -> Option<Secret> {
    let mut operators = admin.operators.into_iter();
    match (operators.next(), operators.next()) {
        (Some((_, token)), None) => Some(token),
        (None | Some(_), _) => None,
    }
}

/// A listener on every address is reached by loopback.
fn reachable(listening: SocketAddr) -> SocketAddr {
    let ip = match listening.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listening.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_on_every_address_is_reached_by_loopback() {
        for (listening, expected) in [
            ("0.0.0.0:1", "127.0.0.1:1"),
            ("[::]:1", "[::1]:1"),
            ("10.0.0.1:1", "10.0.0.1:1"),
        ] {
            let reached = reachable(listening.parse().unwrap());
            assert_eq!(reached.to_string(), expected);
        }
    }

    #[test]
    fn a_token_is_taken_from_a_config_only_if_it_is_the_only_one() {
        let admin = |names: &[&str]| Admin {
            address: "127.0.0.1:1".parse().unwrap(),
            operators: names
                .iter()
                .map(|name| ((*name).to_owned(), Secret::new(*name)))
                .collect(),
        };
        let only = only_token(admin(&["alice"]));
        assert!(only.is_some_and(|token| token.matches(b"alice")));
        assert!(only_token(admin(&["alice", "bob"])).is_none());
        assert!(only_token(admin(&[])).is_none());
    }
}
