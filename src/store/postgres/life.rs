//! Staying alive, and seeing who does: this instance's sign of life, the others' signs, and letters.
//!
//! What always holds: an instance is declared dead only after several own reads that span the limit
//! (`protocol::pulse`), and only if it has done nothing since the last of them: the declaration is guarded
//! by what was seen. Everything here is one short statement beside the lane, that waits for no lock. An
//! instance that finds itself declared dead goes on under another id: what it began under the old one
//! is late evidence, and is still recorded. Instances of one tenant know each other, and nobody else: what
//! others leave is not theirs to settle, even where they declare them dead (`strangers`).
//!
//! What is read elsewhere than where the lane found the register whole counts for nothing: nobody is
//! declared dead there, and the lane looks again. So an instance that nobody asks anything notices a
//! fail-over behind a pooler, and others' commits that are gone, within one beat and one look.
//!
//! What it does not do: take over what the dead left (`reconcile`), or stop a dead instance's commits
//! (`write_1` does).

mod strangers;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

pub(super) use strangers::SILENCE;

use super::opening::random_id;
use super::read::Reader;
use super::restored::{Heard, Progress, Reached, Server, Worth};
use super::rows::Unreadable;
use super::shared::{Others, Shared};
use super::trouble::Trouble;
use super::whereabouts;
use crate::protocol::ids::InstanceId;
use crate::protocol::pulse::{Pulse, Read, Sign};
use crate::protocol::share;
use crate::protocol::time::{BootInstant, Millis};
use crate::store::StoreError;
use crate::store::age::Lived;
use crate::store::remember::Remember;
use strangers::Strangers;

/// An instance that does nothing for so long is taken for dead. What it may have sent is then settled by
/// others: under the same key, or by asking. It is longer than an ordinary stop of a process or a fail-over
/// of the database takes; and no shorter than it must be, because callers wait that long when an
/// instance really died. Nothing depends on its being right: a dead instance's admissions are refused, and
/// what it says late is late evidence.
pub const USUAL_LIMIT: Millis = Millis(20_000);

/// Signs of life within the limit; and within the usual one where the own is longer, because others may
/// have another. In tests, whoever has a long limit gives none by himself.
const BEATS: u64 = 7;

const SLOWEST: Option<Millis> = if cfg!(test) { None } else { Some(USUAL_LIMIT) };

/// The rows of the dead stay for so long, and for as long as an unsettled operation names them.
const GRAVE: Millis = Millis(60 * 60 * 1_000);

/// How this instance is told apart, by people and by roles.
#[derive(Clone, Debug)]
pub(super) struct Name {
    pub(super) tenant: String,
    pub(super) name: String,
}

pub(super) struct Life {
    shared: Arc<Shared>,
    reader: Arc<Reader>,
    name: Name,
    limit: Millis,
    pulses: BTreeMap<InstanceId, Pulse>,
    strangers: Strangers,
}

/// Between two signs of life.
fn pace(limit: Millis) -> Duration {
    let within = SLOWEST.map_or(limit, |slowest| limit.min(slowest));
    Duration::from_millis((within.0 / BEATS).max(1))
}

/// A row of `instances`.
struct Seen {
    instance: InstanceId,
    sign: Sign,
    dead: bool,
}

impl Life {
    pub(super) fn new(shared: Arc<Shared>, reader: Arc<Reader>, name: Name, limit: Millis) -> Self {
        Self {
            shared,
            reader,
            name,
            limit,
            pulses: BTreeMap::new(),
            strangers: Strangers::default(),
        }
    }

    /// Until it is dropped.
    pub(super) async fn run(mut self) {
        let every = pace(self.limit);
        let mut silent = false;
        loop {
            // The first sign was given before anything was decided.
            tokio::select! {
                () = sleep(every) => {}
                () = self.shared.found_dead.notified() => {}
            }
            match self.beat().await {
                Ok(()) => silent = false,
                // Said once: as long as nothing comes of it, nothing is new.
                Err(_) if silent => {}
                Err(trouble) => {
                    silent = true;
                    tracing::warn!(
                        error = %trouble.into_store_error(),
                        "no sign of life could be given: others may take this instance for dead"
                    );
                }
            }
        }
    }

    /// One sign of life, and a look at everybody's.
    pub(super) async fn beat(&mut self) -> Result<(), Trouble> {
        const BEAT: &str = "SELECT * FROM fencepost.beat_1($1, $2)";
        let own = self.shared.instance();
        let before = self.shared.ground.seen();
        let asked = self.shared.clock.boottime();
        let parameters: [(&(dyn ToSql + Sync), Type); 2] =
            [(&column(own), Type::BYTEA), (&self.name.tenant, Type::TEXT)];
        let rows = self.reader.rows(BEAT, &parameters).await?;
        let answered = self.shared.clock.boottime();
        let read = Read { asked, answered };
        // What another server says of anybody is not so where the own decisions are written.
        if let Some(row) = rows.first()
            && let Err(elsewhere) = self.shared.whereabouts.agrees(whereabouts::in_row(row, 5)?)
        {
            self.forget_signs();
            return Err(elsewhere);
        }
        let mut all = Vec::new();
        for row in &rows {
            all.extend(Seen::of_somebody(row)?);
            self.shared.saw_age(lived(row)?);
        }
        let heard = rows.first().map(heard).transpose()?.flatten();
        let progress = all.iter().map(|seen| (seen.instance, seen.progress()));
        let ground = &self.shared.ground;
        match ground.heard(heard, progress, &before, answered) {
            Worth::All => {}
            Worth::Company => {
                self.shared.meet_all(&all, &[], answered);
                return Ok(());
            }
            Worth::Nothing => {
                // What was seen of the others elsewhere does not go on here.
                self.forget_signs();
                return Ok(());
            }
        }
        let alive = all.iter().any(|seen| seen.instance == own && !seen.dead);
        if !alive {
            self.be_born_again(own).await?;
        }
        let fallen = self.judge(&all, read).await?;
        self.shared.meet_all(&all, &fallen, answered);
        self.clear_graves().await?;
        self.look_at_strangers().await
    }

    fn forget_signs(&mut self) {
        self.pulses.clear();
        self.strangers.forget();
    }

    /// Whoever has done nothing for too long is declared dead. Gives back who was.
    async fn judge(&mut self, all: &[Seen], read: Read) -> Result<Vec<InstanceId>, Trouble> {
        let before = std::mem::take(&mut self.pulses);
        if before
            .keys()
            .any(|it| !all.iter().any(|seen| seen.instance == *it))
        {
            // The rows of the living are removed by nobody.
            self.shared.ground.suspect();
        }
        let company = self.shared.company();
        let others = all
            .iter()
            .filter(|seen| !seen.dead && !company.is_own(seen.instance));
        for Seen { instance, sign, .. } in others {
            let pulse = match before.get(instance) {
                Some(pulse) => pulse.then(*sign, read, self.limit),
                None => Pulse::first(*sign, read),
            };
            self.pulses.insert(*instance, pulse);
        }
        let pulses = self.pulses.iter();
        let suspects: Vec<_> = pulses
            .filter(|(_, pulse)| pulse.is_dead(self.limit))
            .map(|(instance, pulse)| (*instance, pulse.sign()))
            .collect();
        if suspects.is_empty() {
            return Ok(Vec::new());
        }
        self.declare(&suspects).await
    }

    async fn declare(&self, suspects: &[(InstanceId, Sign)]) -> Result<Vec<InstanceId>, Trouble> {
        const DECLARE: &str = "SELECT fencepost.declare_1($1, $2, $3)";
        let suspects = suspects.iter();
        let ids: Vec<_> = suspects.clone().map(|(it, _)| column(*it)).collect();
        let beats: Vec<_> = suspects
            .clone()
            .map(|(_, it)| it.beat.cast_signed())
            .collect();
        let positions: Vec<_> = suspects.map(|(_, it)| it.position.cast_signed()).collect();
        let parameters: [(&(dyn ToSql + Sync), Type); 3] = [
            (&ids, Type::BYTEA_ARRAY),
            (&beats, Type::INT8_ARRAY),
            (&positions, Type::INT8_ARRAY),
        ];
        let mut dead = Vec::new();
        for row in self.reader.rows(DECLARE, &parameters).await? {
            let instance = named(&row)?;
            tracing::warn!(
                instance = %instance,
                "an instance is declared dead: it has done nothing for {} ms. What it left is settled by \
                 the others",
                self.limit.0
            );
            dead.push(instance);
        }
        Ok(dead)
    }

    /// Others took it for dead: everything from now on is done by another.
    async fn be_born_again(&mut self, before: InstanceId) -> Result<(), Trouble> {
        let id = random_id().map_err(|_| no_randomness())?;
        let own = InstanceId(u128::from_be_bytes(id));
        take_part(
            &self.reader,
            own,
            &self.name,
            self.limit,
            self.shared.clock.now().wall_ms,
        )
        .await?;
        self.shared.go_on_as(own);
        tracing::warn!(
            before = %before,
            instance = %own,
            "this instance was declared dead, and goes on under another id"
        );
        self.reader.renew().await
    }

    /// One of all instances does it.
    async fn clear_graves(&self) -> Result<(), Trouble> {
        const CLEAR: &str = "DELETE FROM fencepost.instances i
            WHERE i.id = ANY($1) AND i.dead AND NOT EXISTS
                (SELECT FROM fencepost.operations o
                 WHERE o.unsettled AND o.tenant = i.tenant AND o.owner = i.id)";
        let others = self.shared.others();
        if !self.shared.is_warden() {
            return Ok(());
        }
        let now = self.shared.clock.boottime();
        let old = others.dead.iter();
        let old: Vec<_> = old
            .filter(|(_, since)| now.since(**since) > GRAVE)
            .map(|(instance, _)| column(*instance))
            .collect();
        if !old.is_empty() {
            self.reader
                .rows(CLEAR, &[(&old, Type::BYTEA_ARRAY)])
                .await?;
        }
        Ok(())
    }
}

/// Who has been declared dead so far; for whoever gives no sign of life himself.
pub(super) async fn look(shared: &Shared, reader: &Reader) -> Result<(), Trouble> {
    const LOOK: &str = "SELECT i.id, i.beat, i.position, i.dead FROM fencepost.instances i
        WHERE i.tenant = $1";
    let mut all = Vec::new();
    for row in &reader.rows(LOOK, &[(&reader.tenant, Type::TEXT)]).await? {
        all.push(Seen::of(row)?);
    }
    shared.meet_all(&all, &[], shared.clock.boottime());
    Ok(())
}

/// The register gets to know an instance.
pub(super) async fn take_part(
    reader: &Reader,
    own: InstanceId,
    name: &Name,
    limit: Millis,
    wall_ms: u64,
) -> Result<(), Trouble> {
    const INSERT: &str = "INSERT INTO fencepost.instances
        (id, tenant, name, started_wall_ms, dead_after_ms)
        VALUES ($1, $2, $3, $4, $5) ON CONFLICT (id, tenant) DO NOTHING";
    const AGES: &str = "INSERT INTO fencepost.ages
        SELECT $1, r.lived_ms, r.read_boot, r.read_boottime_ms, r.read_wall_ms FROM fencepost.register r
        ON CONFLICT DO NOTHING";
    let parameters: [(&(dyn ToSql + Sync), Type); 5] = [
        (&column(own), Type::BYTEA),
        (&name.tenant, Type::TEXT),
        (&name.name, Type::TEXT),
        (&wall_ms.cast_signed(), Type::INT8),
        (&limit.0.cast_signed(), Type::INT8),
    ];
    reader.rows(INSERT, &parameters).await?;
    reader.rows(AGES, &[(&name.tenant, Type::TEXT)]).await?;
    Ok(())
}

/// How long this instance wants settled operations remembered. Whoever forgets goes by the longest that any of
/// the tenant has ever told: the one that needs a long memory may be away while others forget.
pub(super) async fn tell_memory(reader: &Reader, remember: Remember) -> Result<(), Trouble> {
    const TELL: &str = "INSERT INTO fencepost.forgotten AS f (tenant, what, remember_ms)
        VALUES ($1, 0, $2), ($1, 1, $3)
        ON CONFLICT (tenant, what) DO UPDATE SET remember_ms = excluded.remember_ms
        WHERE f.remember_ms < excluded.remember_ms";
    let length = |it: Millis| i64::try_from(it.0).unwrap_or(i64::MAX);
    let parameters: [(&(dyn ToSql + Sync), Type); 3] = [
        (&reader.tenant, Type::TEXT),
        (&length(remember.answers), Type::INT8),
        (&length(remember.identities), Type::INT8),
    ];
    reader.rows(TELL, &parameters).await?;
    Ok(())
}

/// It has done all that it will: what it leaves is for the others at once. Answers whether that was written: where
/// the register does not stand, its word is still waited for.
pub(super) async fn take_leave(shared: &Shared, reader: &Reader) -> Result<bool, Trouble> {
    const LEAVE: &str = "SELECT fencepost.leave_1($1)";
    let own: Vec<_> = shared.all_own().into_iter().map(column).collect();
    let rows = reader.rows(LEAVE, &[(&own, Type::BYTEA_ARRAY)]).await?;
    let left = rows.first().map(|row| row.try_get(0)).transpose();
    Ok(left.map_err(Unreadable::from)?.unwrap_or_default())
}

/// Sends letters as they come up, all that wait in one statement; until it is dropped.
pub(super) async fn deliver(shared: Arc<Shared>, reader: Arc<Reader>) {
    const NOTIFY: &str = "SELECT pg_notify(l.channel, l.word) FROM unnest($1, $2) l(channel, word)";
    loop {
        shared.abroad.post.notified().await;
        let (channels, words): (Vec<_>, Vec<_>) = shared.abroad.outgoing().into_iter().unzip();
        if channels.is_empty() {
            continue;
        }
        let parameters: [(&(dyn ToSql + Sync), Type); 2] =
            [(&channels, Type::TEXT_ARRAY), (&words, Type::TEXT_ARRAY)];
        if let Err(trouble) = reader.rows(NOTIFY, &parameters).await {
            // They find out by looking.
            tracing::debug!(error = %trouble.into_store_error(), "letters were not sent");
        }
    }
}

impl Shared {
    fn meet_all(&self, all: &[Seen], fallen: &[InstanceId], now: BootInstant) {
        let known = self.others();
        let mut others = Others::default();
        for seen in all {
            let instance = seen.instance;
            if seen.dead || fallen.contains(&instance) {
                let since = known.dead.get(&instance).copied();
                others.dead.insert(instance, since.unwrap_or(now));
            } else {
                others.living.push(instance);
            }
        }
        self.meet(others);
    }

    /// Is this the one that does what one of all has to do, for now? Another one takes its turn every ten
    /// minutes.
    pub(super) fn is_warden(&self) -> bool {
        const TURN: Millis = Millis(10 * 60 * 1_000);
        let turn = self.lived().since(Lived::default()).0 / TURN.0;
        share::is_first(self.instance(), &self.others().living, u128::from(turn))
    }
}

impl Seen {
    /// What is recorded aside is no sign of life: whoever does so looks at the ground all the time.
    fn progress(&self) -> Progress {
        Progress {
            reached: Reached {
                position: self.sign.position,
                aside: 0,
            },
            dead: self.dead,
        }
    }

    /// Where there is nobody, the row has no id.
    fn of_somebody(row: &Row) -> Result<Option<Self>, Trouble> {
        let id: Option<&[u8]> = row.try_get(0).map_err(Unreadable::from)?;
        id.map(|_| Self::of(row)).transpose()
    }

    fn of(row: &Row) -> Result<Self, Trouble> {
        let number = |column| -> Result<u64, Unreadable> {
            Ok(row.try_get::<_, i64>(column)?.cast_unsigned())
        };
        Ok(Self {
            instance: named(row)?,
            sign: Sign {
                beat: number(1)?,
                position: number(2)?,
            },
            dead: row.try_get(3).map_err(Unreadable::from)?,
        })
    }
}

fn lived(row: &Row) -> Result<Lived, Trouble> {
    let lived: i64 = row.try_get(4).map_err(Unreadable::from)?;
    Ok(Lived(lived.cast_unsigned()))
}

/// Where a row of `beat_1` was read; `None`: where the register does not stand.
fn heard(row: &Row) -> Result<Option<Heard>, Trouble> {
    let number =
        |column| -> Result<u64, Unreadable> { Ok(row.try_get::<_, i64>(column)?.cast_unsigned()) };
    let firm: bool = row.try_get(8).map_err(Unreadable::from)?;
    if !firm {
        return Ok(None);
    }
    let server = Server {
        system: number(5)?,
        timeline: number(6)?,
    };
    let accepted = number(7)?;
    Ok(Some(Heard { server, accepted }))
}

fn instance(bytes: &[u8]) -> Result<InstanceId, Trouble> {
    let whole = bytes.try_into().map_err(|_| {
        let text = "instances: an id of wrong length".to_owned();
        Trouble::Unreadable(StoreError::Corrupt(text))
    })?;
    Ok(InstanceId(u128::from_be_bytes(whole)))
}

/// The instance that a row begins with.
pub(super) fn named(row: &Row) -> Result<InstanceId, Trouble> {
    instance(row.try_get(0).map_err(Unreadable::from)?)
}

/// An instance as a column.
pub(super) fn column(InstanceId(instance): InstanceId) -> Vec<u8> {
    instance.to_be_bytes().to_vec()
}

fn no_randomness() -> Trouble {
    Trouble::Refused("the system has no randomness for an instance id".to_owned())
}
