//! How a proxy under test is set up: one upstream, everything else on ports of its own.
//!
//! What always holds: the config stays the same over restarts, unless a test changes it, as do the
//! ports and the register; only a failpoint may differ from one start to the next, and what its disk
//! does.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use super::disk::Disk;
use super::ports;

/// The operator's name and token in every config made here.
pub const OPERATOR: (&str, &str) = ("carol", "carols-token-for-tests-0123456789");

/// After so long without a sign of life, the others take a sidecar for dead: what it left is theirs.
pub const DEAD_AFTER: Duration = Duration::from_secs(20);

/// A place for a proxy to run in.
pub struct Setup {
    folder: TempDir,
    pub listener: SocketAddr,
    pub admin: SocketAddr,
    pub health: SocketAddr,
    disk: Option<Disk>,
}

impl Setup {
    /// `route`: the YAML of one upstream below `url`, without indent.
    pub fn new(upstream: SocketAddr, route: &str) -> Self {
        let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let setup = Self {
            folder: ports::folder(),
            listener: at(ports::free()),
            admin: at(ports::free()),
            health: at(ports::free()),
            disk: None,
        };
        std::fs::write(setup.path("operator"), OPERATOR.1).unwrap();
        std::fs::write(setup.config(), setup.yaml(upstream, route)).unwrap();
        setup
    }

    /// Payments (once ever, by the caller's key) and statements (fenced, once per generation) at an
    /// upstream that honours keys.
    pub fn payments(upstream: SocketAddr) -> Self {
        Self::new(
            upstream,
            &format!("capability: [idempotent]\n{KEY}{ROUTES}"),
        )
    }

    /// The same routes at an upstream that can neither deduplicate nor be asked.
    pub fn opaque(upstream: SocketAddr) -> Self {
        Self::new(upstream, &format!("capability: [opaque]\n{ROUTES}"))
    }

    /// With these settings too, of the top level.
    pub fn with(self, settings: &str) -> Self {
        let config = std::fs::read_to_string(self.config()).unwrap();
        std::fs::write(self.config(), format!("{config}{settings}\n")).unwrap();
        self
    }

    /// With its register in that database, as all who are set up so share it. `fields`: further ones of
    /// `postgres`. The key is one for all.
    pub fn sharing(self, url: &str, fields: &str) -> Self {
        let key = "5e".repeat(32);
        self.sealed(url, fields, &format!("{{ keys: [{key}] }}"))
    }

    /// The same, sealed as that says.
    pub fn sealed(self, url: &str, fields: &str, encryption: &str) -> Self {
        let config = std::fs::read_to_string(self.config()).unwrap();
        let embedded = format!(
            "  embedded: {{ path: {}, ephemeral: true }}\n",
            self.register().display()
        );
        assert!(config.contains(&embedded), "{config}");
        let shared =
            format!("  postgres: {{ url: \"{url}\" {fields} }}\n  encryption: {encryption}\n");
        std::fs::write(self.config(), config.replace(&embedded, &shared)).unwrap();
        self
    }

    /// With a disk that fails when it is told to.
    pub fn on_a_disk_that_fails(self) -> Self {
        let disk = Disk::below(self.folder(), &self.register());
        Self {
            disk: Some(disk),
            ..self
        }
    }

    /// That disk, if it has one.
    pub fn disk(&self) -> Option<&Disk> {
        self.disk.as_ref()
    }

    pub fn config(&self) -> PathBuf {
        self.path("fencepost.yaml")
    }

    pub fn log(&self) -> PathBuf {
        self.path("log")
    }

    /// The register's directory.
    pub fn register(&self) -> PathBuf {
        self.path("register")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn yaml(&self, upstream: SocketAddr, route: &str) -> String {
        let Self {
            listener,
            admin,
            health,
            ..
        } = self;
        let folder = self.folder().display();
        let operator = OPERATOR.0;
        let route = route.trim_end().replace('\n', "\n    ");
        format!(
            r#"version: 1
register:
  embedded: {{ path: {folder}/register, ephemeral: true }}
admin:
  address: {admin}
  operators: {{ {operator}: "${{file:{folder}/operator}}" }}
health: {{ address: {health} }}
upstreams:
  provider:
    listen: {listener}
    url: http://{upstream}
    {route}
"#
        )
    }
}

const KEY: &str = "key: { header: Idempotency-Key, lifetime: 24h, value: derived }\n";

const ROUTES: &str = r#"timeouts: { connect: 2s, response: 10s, dispatch: 5s }
effects:
  - on: POST /payments
    once: { header: Idempotency-Key }
  - on: POST /orders
    once: "order:{body.order}"
  - on: PUT /statements/{date}
    once: "publish:{path.date}:{token.generation}"
    fence:
      resource: "statement:{path.date}"
      token: { header: Fencing-Token, mode: require }
  - on: POST /accounts/{account}/payments
    once: { header: Idempotency-Key }
    fence:
      resource: "account:{path.account}"
      token: { header: Fencing-Token, mode: require }
"#;
