//! Reading beside the lane: one connection that all readers share, to the server that the lane writes to.
//!
//! What always holds: a read is one statement, so it sees one snapshot, of committed transactions only.
//! Many readers use the connection at once, one statement behind the other, signs of life among them: so each
//! follows an index to few rows. A read is a hint or a report; the one decision that is taken on it is one that
//! writes nothing.
//!
//! What it does not do: hold a transaction open, or list (`listing`).

use std::sync::Arc;

use tokio::sync::Mutex;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::abroad::channel;
use super::identity;
use super::known::Lack;
use super::lane::want;
use super::restored::Server;
use super::rows::{self, Opener, OperationRow, Unreadable};
use super::session::{Connector, Session};
use super::shared::Shared;
use super::trouble::Trouble;
use super::wants::Wants;
use super::whereabouts;
use crate::protocol::command::{Command, Reply};
use crate::protocol::decide::decide;
use crate::protocol::ids::{Incarnation, OperationKey, ResourceKey};
use crate::protocol::operation::Operation;
use crate::protocol::view::Record;
use crate::store::{StoreError, Stored, StoredResource, codec, load};

/// How often one look goes back for what it turned out to need.
const LOOKS: usize = 6;

/// The columns of an operation, as `view_1` gives them.
pub(super) const OPERATION: &str =
    "o.version, o.sequence, o.tenant, o.upstream, o.principal, o.id, o.incarnation,
    o.record, o.answer, NULL::bytea AS request";

pub(super) struct Reader {
    pub(super) shared: Arc<Shared>,
    pub(super) connector: Connector,
    /// Whose rows are listed: other tenants' are neither told, settled nor forgotten here.
    pub(super) tenant: String,
    held: Mutex<Option<Held>>,
    /// Whose turn it is to list.
    pub(super) listing: Mutex<()>,
}

/// A connection, and where it leads.
struct Held {
    session: Arc<Session>,
    server: Server,
    /// Which of the lane's sessions it goes with.
    beside: u64,
}

/// Operations of an id ($1) of a tenant ($2), of resources that were reopened.
pub(super) fn reopened() -> String {
    format!(
        "SELECT {OPERATION} FROM fencepost.operations o
         WHERE o.id = $1 AND o.tenant = $2 AND o.incarnation > 0"
    )
}

impl Reader {
    pub(super) fn new(shared: Arc<Shared>, connector: Connector, tenant: String) -> Self {
        Self {
            shared,
            connector,
            tenant,
            held: Mutex::new(None),
            listing: Mutex::new(()),
        }
    }

    /// The shared connection, made if need be.
    pub(super) async fn session(&self) -> Result<Arc<Session>, Trouble> {
        let whereabouts = &self.shared.whereabouts;
        let mut held = self.held.lock().await;
        let is_good = |it: &Held| {
            !it.session.is_closed()
                && it.beside == whereabouts.lane_session()
                && whereabouts.agrees(it.server).is_ok()
        };
        if let Some(it) = held.as_ref().filter(|it| is_good(it)) {
            return Ok(Arc::clone(&it.session));
        }
        *held = None;
        let beside = whereabouts.lane_session();
        let session = Arc::new(self.listening().await?);
        let server = whereabouts::of(&session).await?;
        whereabouts.agrees(server)?;
        *held = Some(Held {
            session: Arc::clone(&session),
            server,
            beside,
        });
        Ok(session)
    }

    /// A connection on which letters come in, where the server or what stands before it lets them.
    async fn listening(&self) -> Result<Session, Trouble> {
        let shared = Arc::clone(&self.shared);
        let heard = move |letter: &str| shared.abroad.heard(letter);
        let session = self.connector.connect_hearing(heard).await?;
        let own = self.shared.all_own().into_iter();
        let listen: Vec<_> = own.map(|it| format!("LISTEN {}", channel(it))).collect();
        match session.script(&listen.join(";")).await {
            Ok(()) => Ok(session),
            Err(lost @ Trouble::Lost(_)) => Err(lost),
            Err(Trouble::Changed(why) | Trouble::Refused(why)) => {
                tracing::debug!(error = why, "no letters can be heard");
                Ok(session)
            }
            Err(unreadable @ Trouble::Unreadable(_)) => Err(unreadable),
        }
    }

    /// Goes on over a new connection, on which letters to all own ids are heard.
    pub(super) async fn renew(&self) -> Result<(), Trouble> {
        *self.held.lock().await = None;
        self.session().await.map(drop)
    }

    pub(super) async fn rows(
        &self,
        statement: &str,
        parameters: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>, Trouble> {
        let session = self.session().await?;
        let rows = session.rows(statement, parameters).await;
        if matches!(rows, Err(Trouble::Lost(_))) {
            self.leave(&session).await;
        }
        rows
    }

    /// Nobody uses a connection again that was lost.
    async fn leave(&self, lost: &Arc<Session>) {
        let mut held = self.held.lock().await;
        if held
            .as_ref()
            .is_some_and(|it| Arc::ptr_eq(&it.session, lost))
        {
            *held = None;
        }
    }

    /// The reply to a command that writes nothing, if it is one that does not.
    pub(super) async fn look(&self, command: &Command) -> Result<Option<Reply>, StoreError> {
        let mut wants = Wants::default();
        want(&mut wants, command);
        for _ in 0..LOOKS {
            let session = self.session().await.map_err(Trouble::into_store_error)?;
            let known = self.shared.epoch();
            let reading = wants.read(&session, &self.shared).await;
            if matches!(reading, Err(Trouble::Lost(_))) {
                self.leave(&session).await;
            }
            let mut reading = reading.map_err(Trouble::into_store_error)?;
            if reading.epoch < known {
                // A server that others have left says nothing; the lane looks.
                self.shared.ground.suspect();
                break;
            }
            self.shared.saw_epoch(reading.epoch);
            let (epoch, living) = (reading.epoch, self.shared.living());
            match load::view(&mut &mut reading, command, epoch, living) {
                Ok(view) => {
                    let decision = decide(&view, command);
                    return Ok(decision.changes.is_empty().then_some(decision.reply));
                }
                Err(lack) if wants.add(&lack) => {}
                Err(_) => break,
            }
        }
        // Whoever decides carefully goes on where this leaves off.
        Ok(None)
    }

    pub(super) async fn peek(
        &self,
        key: &OperationKey,
        resource: Option<&ResourceKey>,
    ) -> Result<Option<Record>, StoreError> {
        let mut key = key.clone();
        for _ in 0..LOOKS {
            let mut wants = Wants::default();
            wants.operation(&key);
            wants.note(&key);
            if let Some(resource) = resource {
                wants.fence(resource);
            }
            let session = self.session().await.map_err(Trouble::into_store_error)?;
            let reading = wants.read(&session, &self.shared).await;
            if matches!(reading, Err(Trouble::Lost(_))) {
                self.leave(&session).await;
            }
            let mut reading = reading.map_err(Trouble::into_store_error)?;
            let mut rows = &mut reading;
            let placed = match resource {
                Some(resource) => {
                    let fence =
                        load::Rows::fence(&mut rows, resource).map_err(|it| unexpected(&it))?;
                    load::placed(&key, fence.as_ref())
                }
                None => key.clone(),
            };
            if placed == key {
                return load::record(&mut rows, &key).map_err(|it| unexpected(&it));
            }
            key = placed;
        }
        Err(StoreError::Unavailable(
            "its resource changes all the time".to_owned(),
        ))
    }

    pub(super) async fn operation(
        &self,
        key: &OperationKey,
        with_request: bool,
    ) -> Result<Option<Stored>, StoreError> {
        const EVENTS: &str = "SELECT e.record FROM fencepost.events e
            WHERE e.tenant = $2 AND e.operation = $1 ORDER BY e.sequence";
        let statement = format!(
            "SELECT {OPERATION}, CASE WHEN $3 THEN o.request END AS kept
             FROM fencepost.operations o WHERE o.tenant = $2 AND o.identity = $1"
        );
        let (identity, tenant) = (identity::of(key), key.tenant.as_str());
        let named: [(&(dyn ToSql + Sync), Type); 2] =
            [(&identity, Type::BYTEA), (&tenant, Type::TEXT)];
        let [first, second] = named.clone();
        let parameters = [first, second, (&with_request as _, Type::BOOL)];
        let opener = Opener::new(&self.shared);
        self.read(async {
            let found = self.rows(&statement, &parameters).await?;
            let Some(row) = found.first() else {
                return Ok(None);
            };
            let operation = opener.operation(row)?.operation;
            if operation.key != *key {
                return Err(Unreadable::another(&operation.key).into());
            }
            let mut events = Vec::new();
            for row in self.rows(EVENTS, &named).await? {
                let record: &[u8] = row.try_get(0).map_err(Unreadable::from)?;
                let event = codec::decode_event(record, key.clone()).map_err(|malformed| {
                    Unreadable(malformed.of(&format_args!("event of operation {:?}", key.id)))
                })?;
                events.push(event);
            }
            Ok(Some(Stored {
                operation,
                events,
                request: opener.request(row, "kept", key)?,
            }))
        })
        .await
    }

    /// The first is found by its identity; there are few of the others.
    pub(super) async fn incarnations(
        &self,
        key: &OperationKey,
    ) -> Result<Vec<Operation>, StoreError> {
        let statement = reopened();
        let (id, tenant) = (key.id.as_str().as_bytes(), key.tenant.as_str());
        let parameters: [(&(dyn ToSql + Sync), Type); 2] =
            [(&id, Type::BYTEA), (&tenant, Type::TEXT)];
        let first = key.within(Incarnation::default());
        let first = self.operation(&first, false).await?;
        let mut known: Vec<_> = first.into_iter().map(|it| it.operation).collect();
        let opener = Opener::new(&self.shared);
        let later = self.read(async {
            let rows = self.rows(&statement, &parameters).await?;
            let opened = rows.iter().map(|row| opener.operation(row));
            let opened: Result<Vec<_>, Unreadable> = opened.collect();
            Ok(opened?)
        });
        let later = later.await?.into_iter().map(|row| row.operation);
        // Another account's may have the same id.
        known.extend(later.filter(|it| it.key.within(key.incarnation) == *key));
        Ok(known)
    }

    pub(super) async fn resource(
        &self,
        key: &ResourceKey,
    ) -> Result<Option<StoredResource>, StoreError> {
        const FENCE: &str = "SELECT f.tenant, f.name AS id, f.record FROM fencepost.fences f
            WHERE f.tenant = $1 AND f.name = $2";
        let unsettled = format!(
            "SELECT {OPERATION} FROM fencepost.operations o
             WHERE o.unsettled AND o.tenant = $1 AND o.resource = $2 ORDER BY o.number"
        );
        let last = format!(
            "SELECT {OPERATION} FROM fencepost.operations o JOIN fencepost.fences f
                 ON o.tenant = f.tenant AND o.identity = f.applied
             WHERE f.tenant = $1 AND f.name = $2
                 AND o.resource = f.name AND o.number = f.applied_number"
        );
        let (tenant, name) = (key.tenant.as_str(), key.name.as_str().as_bytes());
        let parameters: [(&(dyn ToSql + Sync), Type); 2] =
            [(&tenant, Type::TEXT), (&name, Type::BYTEA)];
        self.read(async {
            let found = self.rows(FENCE, &parameters).await?;
            let Some(row) = found.first() else {
                return Ok(None);
            };
            let last = self.found(&last, &parameters).await?;
            Ok(Some(StoredResource {
                fence: rows::fence(row)?,
                unsettled: operations_of(self.found(&unsettled, &parameters).await?),
                last_completed: last.into_iter().next().map(|row| row.operation),
            }))
        })
        .await
    }

    pub(super) async fn epoch(&self) -> Result<u64, StoreError> {
        const EPOCH: &str = "SELECT r.epoch FROM fencepost.register r WHERE r.single = 1";
        self.read(async {
            let rows = self.rows(EPOCH, &[]).await?;
            let absent = || Unreadable(StoreError::Corrupt("the register has no row".to_owned()));
            let row = rows.first().ok_or_else(absent)?;
            let epoch: i64 = row.try_get(0).map_err(Unreadable::from)?;
            Ok(epoch.cast_unsigned())
        })
        .await
    }

    pub(super) async fn found(
        &self,
        statement: &str,
        parameters: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<OperationRow>, Trouble> {
        let rows = self.rows(statement, parameters).await?;
        Ok(self.opened(&rows)?)
    }

    pub(super) fn opened(&self, rows: &[Row]) -> Result<Vec<OperationRow>, Unreadable> {
        let opener = Opener::new(&self.shared);
        rows.iter().map(|row| opener.operation(row)).collect()
    }

    pub(super) async fn read<T>(
        &self,
        reading: impl Future<Output = Result<T, Trouble>>,
    ) -> Result<T, StoreError> {
        reading.await.map_err(Trouble::into_store_error)
    }
}

fn operations_of(rows: Vec<OperationRow>) -> Vec<Operation> {
    rows.into_iter().map(|row| row.operation).collect()
}

fn unexpected(lack: &Lack) -> StoreError {
    StoreError::Corrupt(format!("read, and not there: {lack:?}"))
}
