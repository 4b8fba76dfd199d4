//! Where a database is: a URL as libpq has it, understood once.
//!
//! What always holds: it is never shown, because it may hold a password; `place` says where it leads
//! without one. Whatever TLS is negotiated is verified, names included: there is no mode that takes any
//! certificate. `verify-ca` and `verify-full` therefore mean what `require` means, which is more than
//! libpq's.
//!
//! What it does not do: connect, or read libpq's own files and variables.

use std::fmt;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use super::secret::{Resolved, Secret};

const FORM: &str = "a database is `postgres://USER:PASSWORD@HOST:PORT/NAME`";

/// The URL of a database.
#[derive(Clone)]
pub struct DatabaseUrl {
    /// As the driver reads it.
    text: Secret,
    place: String,
    tls: DatabaseTls,
    ca: Option<PathBuf>,
    has_password: bool,
    stays_here: bool,
}

/// When the connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseTls {
    /// `disable`: never.
    Never,
    /// `prefer`, the default: where the server offers it.
    IfOffered,
    /// `require`, `verify-ca`, `verify-full`.
    Always,
}

impl DatabaseUrl {
    /// Is it meant for one? Whatever else is a path.
    pub fn is_one(text: &str) -> bool {
        text.starts_with("postgres://") || text.starts_with("postgresql://")
    }

    /// Reads it, or where it is to be had: `${env:NAME}`, `${file:/path}`. An error never shows it.
    pub fn resolve(text: &str) -> Result<Self, String> {
        Ok(Self::resolved(text)?.0)
    }

    /// The same; true: it stood there itself.
    pub(super) fn resolved(text: &str) -> Result<(Self, bool), String> {
        match Secret::resolve(text)? {
            Resolved::Literal(secret) => Ok((Self::parse(secret.expose())?, true)),
            Resolved::Elsewhere(secret) => Ok((Self::parse(secret.expose())?, false)),
        }
    }

    /// Stands for one that was not to be read.
    pub(super) fn unread() -> Self {
        Self {
            text: Secret::new(""),
            place: "a database".to_owned(),
            tls: DatabaseTls::IfOffered,
            ca: None,
            has_password: false,
            stays_here: true,
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        if !Self::is_one(text) {
            return Err(FORM.to_owned());
        }
        let (text, ca) = for_the_driver(text)?;
        // The driver's words name the option, never its value.
        let config: Config = text.parse().map_err(|error: tokio_postgres::Error| {
            let why = std::error::Error::source(&error).map(ToString::to_string);
            why.map_or_else(|| FORM.to_owned(), |why| format!("{FORM}: {why}"))
        })?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(format!("{FORM}: it names no host"));
        }
        let tls = match config.get_ssl_mode() {
            SslMode::Disable => DatabaseTls::Never,
            SslMode::Require => DatabaseTls::Always,
            // The driver may learn more; they are no less strict.
            SslMode::Prefer | _ => DatabaseTls::IfOffered,
        };
        Ok(Self {
            place: place(&config),
            tls,
            ca,
            has_password: config.get_password().is_some(),
            stays_here: stays_here(&config),
            text: Secret::new(text),
        })
    }

    /// The URL for the driver, password included.
    pub fn expose(&self) -> &str {
        self.text.expose()
    }

    /// Host, port and name, for messages.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Is the connection encrypted?
    pub fn tls(&self) -> DatabaseTls {
        self.tls
    }

    /// `sslrootcert`: roots to trust instead of the platform's.
    pub fn ca(&self) -> Option<&PathBuf> {
        self.ca.as_ref()
    }

    pub(super) fn has_password(&self) -> bool {
        self.has_password
    }

    /// Does nothing of it leave this machine?
    pub(super) fn stays_here(&self) -> bool {
        self.stays_here
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseUrl({})", self.place)
    }
}

impl PartialEq for DatabaseUrl {
    fn eq(&self, other: &Self) -> bool {
        self.text.matches(other.expose().as_bytes()) && self.ca == other.ca
    }
}

impl Eq for DatabaseUrl {}

/// The same URL without what is libpq's alone, and the roots that it named.
fn for_the_driver(text: &str) -> Result<(String, Option<PathBuf>), String> {
    let Some((place, query)) = text.split_once('?') else {
        return Ok((text.to_owned(), None));
    };
    let mut ca = None;
    let mut kept = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match (name, value) {
            ("sslmode", "verify-ca" | "verify-full") => kept.push("sslmode=require"),
            ("sslmode", "allow") => {
                return Err("`sslmode=allow` is not supported: `prefer` is the nearest".to_owned());
            }
            ("sslrootcert", "system" | "") => ca = None,
            ("sslrootcert", path) => {
                let path = percent_decode_str(path).decode_utf8();
                ca = Some(
                    path.map_err(|_| "`sslrootcert` is no text")?
                        .as_ref()
                        .into(),
                );
            }
            _ => kept.push(pair),
        }
    }
    if kept.is_empty() {
        return Ok((place.to_owned(), ca));
    }
    Ok((format!("{place}?{}", kept.join("&")), ca))
}

fn place(config: &Config) -> String {
    let ports = config.get_ports();
    let port = |at: usize| ports.get(at).or(ports.first()).copied().unwrap_or(5432);
    let named = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    });
    let mut hosts: Vec<String> = named.collect();
    if hosts.is_empty() {
        hosts = config
            .get_hostaddrs()
            .iter()
            .map(ToString::to_string)
            .collect();
    }
    let hosts = hosts.iter().enumerate();
    let hosts: Vec<String> = hosts
        .map(|(at, host)| format!("{host}:{}", port(at)))
        .collect();
    let database = config.get_dbname().or(config.get_user());
    format!("{}/{}", hosts.join(","), database.unwrap_or_default())
}

fn stays_here(config: &Config) -> bool {
    let named_here = config.get_hosts().iter().all(|host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost"
                || name
                    .parse()
                    .is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
        }
    });
    let addresses = config.get_hostaddrs();
    if addresses.is_empty() {
        named_here
    } else {
        addresses.iter().all(std::net::IpAddr::is_loopback)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> DatabaseUrl {
        DatabaseUrl::resolve(text).unwrap()
    }

    #[test]
    fn it_says_where_it_leads_and_never_the_password() {
        let url = read("postgres://me:hunter2@db.internal:6432/payments");
        assert_eq!(url.place(), "db.internal:6432/payments");
        assert!(!format!("{url:?}").contains("hunter2"));
        assert!(url.has_password() && !url.stays_here());
        let several = read("postgresql://me@a,b:5433/x?target_session_attrs=read-write");
        assert_eq!(several.place(), "a:5432,b:5433/x");
        assert!(!several.has_password());
        for here in [
            "postgres://u@127.0.0.1/x",
            "postgres://u@localhost/x",
            "postgres://u@[::1]/x",
        ] {
            assert!(read(here).stays_here(), "{here}");
        }
    }

    #[test]
    fn every_mode_with_tls_is_one_that_verifies() {
        for (mode, expected) in [
            ("", DatabaseTls::IfOffered),
            ("?sslmode=disable", DatabaseTls::Never),
            ("?sslmode=prefer", DatabaseTls::IfOffered),
            ("?sslmode=require", DatabaseTls::Always),
            ("?sslmode=verify-ca", DatabaseTls::Always),
            (
                "?connect_timeout=3&sslmode=verify-full",
                DatabaseTls::Always,
            ),
        ] {
            assert_eq!(
                read(&format!("postgres://u@h/x{mode}")).tls(),
                expected,
                "{mode}"
            );
        }
        let rooted = read("postgres://u@h/x?sslmode=verify-full&sslrootcert=/etc/my%20ca.pem");
        assert_eq!(rooted.ca(), Some(&PathBuf::from("/etc/my ca.pem")));
        assert!(!rooted.expose().contains("sslrootcert"));
        assert_eq!(read("postgres://u@h/x?sslrootcert=system").ca(), None);
    }

    #[test]
    fn what_is_not_understood_is_refused_without_being_shown() {
        for (bad, part) in [
            ("mysql://u:hunter2@h/x", "postgres://"),
            ("host=h password=hunter2", "postgres://"),
            ("postgres://u:hunter2@h/x?sslmode=allow", "prefer"),
            ("postgres://u:hunter2@h/x?sslmode=maybe", "sslmode"),
            ("postgres://u:hunter2@h/x?pgbouncer=true", "pgbouncer"),
            ("postgres://u:hunter2@h:port/x", "port"),
            ("postgres:///x", "names no host"),
            ("${env:NO_SUCH_VARIABLE_HERE}", "is not set"),
        ] {
            let problem = DatabaseUrl::resolve(bad).unwrap_err();
            assert!(problem.contains(part), "{bad}: {problem}");
            assert!(!problem.contains("hunter2"), "{problem}");
        }
    }
}
