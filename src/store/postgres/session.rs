//! One connection to the database, and how one is made.
//!
//! What always holds: no statement is waited for longer than [`PATIENCE`]; a session that made somebody
//! wait longer is not used again, because what it was asked for may still happen. Statements are sent
//! without being prepared, one round trip each, so that a pooler between us and the server may give
//! every transaction to another connection.
//!
//! What it does not do: try again.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, NoTls, Row};

use super::trouble::Trouble;

/// How long one statement may take, a wait for locks included.
pub(super) const PATIENCE: Duration = Duration::from_secs(8);

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(3);

/// Where the database is.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    config: Config,
}

/// A connection.
pub(super) struct Session {
    client: Client,
    /// What reads and writes it; ends with it.
    _work: JoinSet<()>,
}

impl Connector {
    pub(super) fn new(mut config: Config) -> Self {
        config
            .application_name("fencepost")
            .connect_timeout(CONNECT)
            .keepalives(true)
            .keepalives_idle(Duration::from_secs(10))
            .keepalives_interval(Duration::from_secs(3))
            .keepalives_retries(3)
            .tcp_user_timeout(PATIENCE);
        Self { config }
    }

    pub(super) async fn connect(&self) -> Result<Session, Trouble> {
        let connecting = self.config.connect(NoTls);
        let (client, connection) = timeout(CONNECT, connecting).await.map_err(|_elapsed| {
            Trouble::Lost("no connection to the database in time".to_owned())
        })??;
        let mut work = JoinSet::new();
        work.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(error = %error, "a connection to the database ended");
            }
        });
        Ok(Session {
            client,
            _work: work,
        })
    }
}

impl Session {
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
