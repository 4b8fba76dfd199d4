//! What a test wants of its PostgreSQL server beyond the ordinary.

/// An ordinary server, unless told otherwise: durable (`fsync = on`), passwords by SCRAM, no TLS.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub(super) lines: Vec<(String, String)>,
    pub(super) own_identity: bool,
    pub(super) with_tls: bool,
    pub(super) archiving: bool,
    pub(super) small_disk: Option<u32>,
}

impl Settings {
    /// A line of postgresql.conf. A later one of the same name counts.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.lines.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A system identifier that no other server has. Without this, servers of one test process share
    /// theirs, as copies of one `initdb`: an `initdb` more takes two seconds.
    pub fn of_its_own_identity(self) -> Self {
        Self {
            own_identity: true,
            ..self
        }
    }

    /// Offers TLS, with a certificate made for it: `Postgres::authority` tells whose.
    pub fn with_tls(self) -> Self {
        Self {
            with_tls: true,
            ..self
        }
    }

    /// Keeps its log of changes for `Postgres::backup`.
    pub fn archiving(self) -> Self {
        Self {
            archiving: true,
            ..self
        }
    }

    /// Its data lies on a disk of its own that `Postgres::fill_disk` can fill.
    pub fn on_a_small_disk(self, megabytes: u32) -> Self {
        Self {
            small_disk: Some(megabytes),
            ..self
        }
    }
}
