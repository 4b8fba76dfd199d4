//! One connection to the database, and how one is made.
//!
//! What always holds: no statement is waited for longer than [`PATIENCE`]; a session that made somebody
//! wait longer is not used again, because what it was asked for may still happen. Statements are sent
//! without being prepared, one round trip each, so that a pooler between us and the server may give
//! every transaction to another connection. Where a session listens for notifications, whoever made it is
//! told of each; with such a pooler in between there may be none. A session leads to a server that takes
//! writes, whatever the URL says of that (`target_session_attrs`): a register that cannot be written to
//! is none, and one that is behind would be believed.
//!
//! What it does not do: try again.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_postgres::config::{Host, TargetSessionAttrs};
use tokio_postgres::tls::TlsStream;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, Row, Socket};

use super::tls::Tls;
use super::trouble::Trouble;

/// How long one statement may take, a wait for locks included.
pub(super) const PATIENCE: Duration = Duration::from_secs(8);

/// How long a connection to one host may take to be made.
const CONNECT: Duration = Duration::from_secs(3);

/// Where a server listens if nothing else is said.
const USUAL_PORT: u16 = 5432;

/// Where the database is.
#[derive(Clone)]
pub(super) struct Connector {
    config: Config,
    /// `None`: it is never encrypted.
    tls: Option<Tls>,
    /// How long all hosts of the URL may take together.
    patience: Duration,
}

/// A connection.
pub(super) struct Session {
    client: Client,
    /// What reads and writes it; ends with it.
    _work: JoinSet<()>,
}

impl Connector {
    pub(super) fn new(mut config: Config, tls: Option<&Arc<ClientConfig>>) -> Self {
        config
            .application_name("fencepost")
            .connect_timeout(CONNECT)
            .keepalives(true)
            .keepalives_idle(Duration::from_secs(10))
            .keepalives_interval(Duration::from_secs(3))
            .keepalives_retries(3)
            .tcp_user_timeout(PATIENCE)
            .target_session_attrs(TargetSessionAttrs::ReadWrite);
        let tls = tls.map(|config| Tls::new(config));
        let hosts = config.get_hosts().len().max(config.get_hostaddrs().len());
        let hosts = u32::try_from(hosts).unwrap_or(u32::MAX).max(1);
        Self {
            config,
            tls,
            patience: CONNECT.saturating_mul(hosts),
        }
    }

    /// Where it leads: hosts, ports, database. No credential.
    pub(super) fn place(&self) -> String {
        let ports = self.config.get_ports();
        let hosts = self.config.get_hosts().iter().enumerate();
        let hosts: Vec<_> = hosts
            .map(|(at, host)| {
                let port = ports
                    .get(at)
                    .or(ports.first())
                    .copied()
                    .unwrap_or(USUAL_PORT);
                match host {
                    Host::Tcp(name) => format!("{name}:{port}"),
                    Host::Unix(path) => format!("{}:{port}", path.display()),
                }
            })
            .collect();
        let name = self.config.get_dbname().unwrap_or_default();
        format!("{}/{name}", hosts.join(","))
    }

    pub(super) async fn connect(&self) -> Result<Session, Trouble> {
        self.connect_hearing(|_| {}).await
    }

    /// `heard` is told the text of every notification, at once: it must not wait for anything.
    pub(super) async fn connect_hearing(
        &self,
        heard: impl Fn(&str) + Send + 'static,
    ) -> Result<Session, Trouble> {
        let connecting = async {
            Ok::<_, tokio_postgres::Error>(match &self.tls {
                None => {
                    let (client, connection) = self.config.connect(NoTls).await?;
                    Session::over(client, connection, heard)
                }
                Some(tls) => {
                    let (client, connection) = self.config.connect(tls.clone()).await?;
                    Session::over(client, connection, heard)
                }
            })
        };
        let late = |_| Trouble::Lost("no connection to the database in time".to_owned());
        Ok(timeout(self.patience, connecting).await.map_err(late)??)
    }
}

impl Session {
    fn over<S>(
        client: Client,
        mut connection: Connection<Socket, S>,
        heard: impl Fn(&str) + Send + 'static,
    ) -> Self
    where
        S: TlsStream + Unpin + Send + 'static,
    {
        let mut work = JoinSet::new();
        work.spawn(async move {
            loop {
                match poll_fn(|context| connection.poll_message(context)).await {
                    Some(Ok(AsyncMessage::Notification(told))) => heard(told.payload()),
                    Some(Ok(_notice)) => {}
                    Some(Err(error)) => {
                        tracing::debug!(error = %error, "a connection to the database ended");
                        return;
                    }
                    None => return,
                }
            }
        });
        Self {
            client,
            _work: work,
        }
    }

    /// Runs one statement.
    pub(super) async fn rows(
        &self,
        statement: &str,
        parameters: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>, Trouble> {
        let rows = self.client.query_typed(statement, parameters);
        Ok(timeout(PATIENCE, rows)
            .await
            .map_err(|_elapsed| Trouble::late())??)
    }

    /// Runs a statement that goes through whole tables, for as long as it takes: for operators' tools.
    pub(super) async fn patient_rows(&self, statement: &str) -> Result<Vec<Row>, Trouble> {
        Ok(self.client.query_typed(statement, &[]).await?)
    }

    /// Runs statements that answer nothing.
    pub(super) async fn script(&self, statements: &str) -> Result<(), Trouble> {
        let done = self.client.batch_execute(statements);
        Ok(timeout(PATIENCE, done)
            .await
            .map_err(|_elapsed| Trouble::late())??)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }
}
