//! Finding a running instance.
//!
//! What always holds: what was typed wins over what a config says, and a token is taken from a config
//! only where it can be nobody else's.
//!
//! What it does not do: guess ports.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use super::arguments::Instance;
use super::failure::Failure;
use crate::admin::client::AdminClient;
use crate::config::{self, Admin, Secret};

const USUAL: &str = "http://127.0.0.1:15000";

impl Instance {
    /// A client for it.
    pub(super) fn client(&self) -> Result<AdminClient, Failure> {
        let (address, token) = match (&self.admin, &self.config) {
            (Some(admin), _) => (admin.clone(), None),
            (None, Some(file)) => from_config(file)?,
            (None, None) => (USUAL.to_owned(), None),
        };
        let token = self.token.as_ref().or(token.as_ref());
        Ok(AdminClient::new(&address, token)?)
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
