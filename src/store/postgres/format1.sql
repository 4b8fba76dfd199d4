-- The tables of a shared register, format 1, and the functions that read and write them.
--
-- What always holds: records are the truth; the columns beside them are there to find rows by, to guard
-- writes by (`version`), and for an operator with psql. Identities and names are bytes: they are compared
-- as they are, and may hold what a text may not. What a tenant's role can write is unique within that tenant
-- only, and looked for there: a role that makes a row up, under whatever identity, stands in no other's way.
-- A function that is called by a released binary is never changed: another version of it gets another name, so
-- that two versions of the binary work side by side.
--
-- What it does not do: decide anything. A function checks that what was decided on is still so, and writes.

CREATE SCHEMA IF NOT EXISTS fencepost;

-- One row, asked for by its key (`single`): nobody has counted the rows of a table as small as this one, and a
-- plan for the hundreds that are guessed at is compiled first, at every call.
--
-- `used_from`: the lowest format whose binaries may go on using it. A later format that only adds to the
-- tables leaves it as it is: then the binaries of both work side by side, and those of the earlier one start.
-- Where it is raised, earlier ones that run admit nothing from then on (`write_1`): whoever raises it waits, as an
-- export does, for those that had looked before. They may go on to record what they have sent.
CREATE TABLE fencepost.register (
    single smallint PRIMARY KEY CHECK (single = 1),
    id bytea NOT NULL,
    format integer NOT NULL,
    used_from integer NOT NULL DEFAULT 1,
    epoch bigint NOT NULL,
    created_wall_ms bigint NOT NULL,
    fingerprint_key bytea NOT NULL,
    lived_ms bigint NOT NULL,
    read_boot bytea NOT NULL,
    read_boottime_ms bigint NOT NULL,
    read_wall_ms bigint NOT NULL
);

-- How old the memory of a tenant is, as its sidecars count together, and who read which clocks last for that. It
-- begins as the register says. Each tenant has its own, so that none makes another's be forgotten.
CREATE TABLE fencepost.ages (
    tenant text COLLATE "C" PRIMARY KEY,
    lived_ms bigint NOT NULL,
    read_boot bytea NOT NULL,
    read_boottime_ms bigint NOT NULL,
    read_wall_ms bigint NOT NULL
);

-- How far what is old of a tenant was forgotten: answers (0) and identities (1), by the sequence of operations.
-- A lap ends where everything is young; what was not old enough when it was passed waits for the next one.
-- `remember_ms`: the longest that any sidecar of the tenant has ever told to remember it; only a person lowers that.
CREATE TABLE fencepost.forgotten (
    tenant text COLLATE "C",
    what smallint,
    passed bigint NOT NULL DEFAULT 0,
    lap_ms bigint NOT NULL DEFAULT 0,
    remember_ms bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, what)
);

CREATE TABLE fencepost.sealing_keys (
    id bigint PRIMARY KEY,
    last_used_ms bigint NOT NULL
);

CREATE TABLE fencepost.history (
    sequence bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    wall_ms bigint NOT NULL,
    text text NOT NULL
);

-- One row for each start of a sidecar. `position` counts its transactions, each of which writes it: so
-- whoever declares an instance dead waits for what it is just committing, and it admits nothing after. `aside`
-- counts those that recorded something while nothing was admitted, or after it was declared dead. One that
-- carried operations of several tenants into a register that was moved is dead to each of them.
CREATE TABLE fencepost.instances (
    -- All instances read all ids.
    id bytea CHECK (octet_length(id) = 16),
    tenant text NOT NULL,
    name text NOT NULL,
    started_wall_ms bigint NOT NULL,
    beat bigint NOT NULL DEFAULT 0,
    position bigint NOT NULL DEFAULT 0,
    aside bigint NOT NULL DEFAULT 0,
    dead boolean NOT NULL DEFAULT false,
    PRIMARY KEY (id, tenant)
) WITH (fillfactor = 50);

-- A tenant's role that takes another's id would confirm, or hide what is missing, for that instance.
CREATE UNIQUE INDEX living_instances ON fencepost.instances (id) WHERE NOT dead;

-- Room in each page, so that a fence that rises stays in it.
CREATE TABLE fencepost.fences (
    tenant text COLLATE "C" NOT NULL,
    name bytea NOT NULL,
    version bigint NOT NULL,
    mark text,
    cancelled boolean NOT NULL,
    record bytea NOT NULL,
    applied bytea,
    applied_number bigint NOT NULL DEFAULT 0,
    leased boolean NOT NULL DEFAULT false,
    PRIMARY KEY (tenant, name)
) WITH (fillfactor = 70);

-- Who has a lease, by name: few of many.
CREATE INDEX leased_in_order ON fencepost.fences (tenant, name) WHERE leased;

-- `identity`: the first half of the SHA-256 of (tenant, upstream, principal, id, incarnation). Anybody can
-- reckon it, so it is one of its tenant only. Whoever reads a row compares what it stands for. `keyless`: what
-- equal requests without a key have in common. `settled_ms` is the age of its tenant when it was settled.
CREATE TABLE fencepost.operations (
    tenant text COLLATE "C" NOT NULL,
    identity bytea NOT NULL,
    sequence bigint GENERATED ALWAYS AS IDENTITY,
    version bigint NOT NULL,
    upstream bytea NOT NULL,
    principal bytea NOT NULL,
    id bytea NOT NULL,
    incarnation bigint NOT NULL,
    state text NOT NULL,
    unsettled boolean NOT NULL,
    resource bytea,
    number bigint,
    token text,
    keyless bytea,
    owner bytea,
    first_seen_wall_ms bigint NOT NULL,
    record bytea NOT NULL,
    answer bytea,
    request bytea,
    settled_ms bigint
) WITH (fillfactor = 80);

-- A plan is made once and kept, and it may be made while a table is empty or was never counted: all indexes that
-- have a column of the condition look alike then, and one that knows the tenant only would lead through everything
-- that the tenant ever did, at every admission from then on. So there is one index for each way of looking, and
-- nothing to choose: each begins with what tells the row, and has the tenant, where it must be unique within it,
-- under a collation that orders alike and that no statement names. Those that do begin with the tenant say
-- something that is always true (`sequence > 0`, `sequence > -1`): no statement uses them that does not say the
-- same. For the same reason the functions below search no table from end to end, and what they look for among many
-- is looked for one by one (`OFFSET 0`: a join may read all there is, where it thinks that there is little).

CREATE UNIQUE INDEX operations_by_identity ON fencepost.operations (identity, tenant COLLATE "POSIX");
-- What a callback is about, where effects carry the incarnation of their resource beside their id: the others are
-- found by their identity, so that it costs nothing where nothing was reopened.
CREATE INDEX reopened_by_id ON fencepost.operations (id, tenant COLLATE "POSIX") WHERE incarnation > 0;
-- Pages of operations of a tenant, newest first; and what is old enough to be forgotten, oldest first.
CREATE UNIQUE INDEX operations_in_order ON fencepost.operations (tenant, sequence) WHERE sequence > 0;
-- What one of all instances of a tenant looks through now and then: has anybody been forgotten?
CREATE INDEX unsettled_in_order ON fencepost.operations (tenant, sequence) WHERE unsettled AND sequence > -1;
-- What stands in the way of an admission.
CREATE INDEX unsettled_of_resource ON fencepost.operations (resource, number)
    WHERE unsettled AND resource IS NOT NULL;
-- What a pass of the reconciler reads: its own, and those of the dead.
CREATE INDEX unsettled_of_owner ON fencepost.operations (owner, sequence) WHERE unsettled;
-- What a request without a key may be the blind retry of.
CREATE INDEX unsettled_keyless ON fencepost.operations (keyless, sequence)
    WHERE unsettled AND keyless IS NOT NULL;

CREATE TABLE fencepost.twins (
    tenant text COLLATE "C" NOT NULL,
    identity bytea NOT NULL,
    upstream bytea NOT NULL,
    principal bytea NOT NULL,
    id bytea NOT NULL,
    incarnation bigint NOT NULL,
    record bytea NOT NULL,
    first bytea NOT NULL
);

CREATE UNIQUE INDEX twins_by_identity ON fencepost.twins (identity, tenant COLLATE "POSIX");
-- Notes go with the operation that they name.
CREATE INDEX twins_of_first ON fencepost.twins (first);

-- Found by the story of an operation.
CREATE TABLE fencepost.events (
    tenant text COLLATE "C",
    operation bytea,
    sequence bigint GENERATED ALWAYS AS IDENTITY,
    record bytea NOT NULL,
    CONSTRAINT events_of_operation PRIMARY KEY (tenant, operation, sequence)
);

-- Rows of one snapshot, by what was asked: kind 0 the register (version: its epoch), 1 a fence, 2 an
-- operation, 3 a twin's note, 4 an unsettled operation of a resource, 5 the newest unsettled operation
-- without a key. `slot`: which of its kind was asked for.
CREATE FUNCTION fencepost.view_1(
    fence_tenants text[], fence_names bytea[],
    operation_tenants text[], identities bytea[], with_request boolean[],
    note_tenants text[], notes bytea[],
    resource_tenants text[], resource_names bytea[],
    keyless_tenants text[], keyless_of bytea[])
RETURNS TABLE (kind smallint, slot bigint, version bigint, sequence bigint, tenant text, upstream bytea,
    principal bytea, id bytea, incarnation bigint, record bytea, answer bytea, request bytea)
LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $body$
BEGIN
    RETURN QUERY
    SELECT 0::smallint, 0::bigint, r.epoch, 0::bigint, NULL::text, NULL::bytea, NULL::bytea, NULL::bytea,
           NULL::bigint, NULL::bytea, NULL::bytea, NULL::bytea
    FROM fencepost.register r WHERE r.single = 1
    UNION ALL
    SELECT 1::smallint, s.slot, f.version, 0::bigint, f.tenant, NULL, NULL, f.name, NULL, f.record, NULL, NULL
    FROM unnest(fence_tenants, fence_names) WITH ORDINALITY s(tenant, name, slot)
    CROSS JOIN LATERAL (
        SELECT * FROM fencepost.fences k WHERE k.tenant = s.tenant AND k.name = s.name OFFSET 0) f
    UNION ALL
    SELECT 2::smallint, s.slot, o.version, o.sequence, o.tenant, o.upstream, o.principal, o.id,
           o.incarnation, o.record, o.answer, CASE WHEN s.requested THEN o.request END
    FROM unnest(operation_tenants, identities, with_request)
        WITH ORDINALITY s(tenant, identity, requested, slot)
    CROSS JOIN LATERAL (
        SELECT * FROM fencepost.operations k
        WHERE k.tenant = s.tenant AND k.identity = s.identity OFFSET 0) o
    UNION ALL
    SELECT 3::smallint, s.slot, 0::bigint, 0::bigint, t.tenant, t.upstream, t.principal, t.id,
           t.incarnation, t.record, NULL, NULL
    FROM unnest(note_tenants, notes) WITH ORDINALITY s(tenant, identity, slot)
    CROSS JOIN LATERAL (
        SELECT * FROM fencepost.twins k
        WHERE k.tenant = s.tenant AND k.identity = s.identity OFFSET 0) t
    UNION ALL
    SELECT 4::smallint, s.slot, o.version, o.sequence, o.tenant, o.upstream, o.principal, o.id,
           o.incarnation, o.record, o.answer, NULL
    FROM unnest(resource_tenants, resource_names) WITH ORDINALITY s(tenant, name, slot)
    CROSS JOIN LATERAL (
        SELECT * FROM fencepost.operations k
        WHERE k.unsettled AND k.tenant = s.tenant AND k.resource = s.name OFFSET 0) o
    UNION ALL
    SELECT 5::smallint, s.slot, o.version, o.sequence, o.tenant, o.upstream, o.principal, o.id,
           o.incarnation, o.record, o.answer, NULL
    FROM unnest(keyless_tenants, keyless_of) WITH ORDINALITY s(tenant, keyless, slot)
    CROSS JOIN LATERAL (
        SELECT * FROM fencepost.operations k
        WHERE k.unsettled AND k.tenant = s.tenant AND k.keyless = s.keyless
        ORDER BY k.sequence DESC LIMIT 1) o;
END
$body$;

-- Locks fences, in the order given, until the transaction ends: what is decided then is written.
CREATE FUNCTION fencepost.lock_1(fence_tenants text[], fence_names bytea[]) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off AS $body$
BEGIN
    FOR slot IN 1 .. coalesce(array_length(fence_names, 1), 0) LOOP
        PERFORM 1 FROM fencepost.fences
        WHERE tenant = fence_tenants[slot] AND name = fence_names[slot] FOR UPDATE;
    END LOOP;
END
$body$;

-- Writes decisions, one after the other, each only if what it was decided on is still so. Answers for each:
-- 0 written, 1 something changed meanwhile, 2 the instance is declared dead and admits nothing any more,
-- 3 another epoch is in force, 4 nothing is admitted on this ground (`format1_ground.sql`), or by binaries of
-- this format any more, or this is not the server that the instance took for the register's. Answers too how
-- many transactions of the instance there are, this one included, and whether nothing is admitted. `reached`:
-- how many it remembers, and how many of those aside; and on which server, and timeline, it has found the
-- register whole (NULL: on none). Whoever closes the ground for good waits for those that have written the
-- instance's row already; so that comes before the look at the ground. A decision is written whole or not at
-- all: where only its second half fails, the whole transaction does (FP001), and everything is decided again.
--
-- Of each decision: the fence (NULL name: none; expected version, 0 for none yet, NULL: not looked at;
-- NULL record: left as it is), the operation likewise, which half of the identity's rows must be absent,
-- and what equal requests without a key must be (`keyless_seen`: the sequence of the newest, 0 for none).
-- `begins`: the version of an operation that is new. Whoever writes a twin's note writes the fence too: it is
-- looked for before the fence is waited for.
CREATE FUNCTION fencepost.write_1(
    own bytea, epoch_seen bigint, admits boolean[],
    fence_tenants text[], fence_names bytea[], fence_versions bigint[], fence_marks text[],
    fence_cancelled boolean[], fence_leased boolean[], fence_records bytea[],
    identities bytea[], versions bigint[], tenants text[], upstreams bytea[], principals bytea[],
    ids bytea[], incarnations bigint[], states text[], unsettled_now boolean[], resources bytea[],
    numbers bigint[], tokens text[], keyless_ids bytea[], owners bytea[], first_seen bigint[],
    records bytea[], answers bytea[], requests bytea[], request_changes smallint[], settled bigint[],
    applied_now boolean[], note_expected boolean[], keyless_seen bigint[],
    note_of integer[], note_identities bytea[], note_tenants text[], note_upstreams bytea[],
    note_principals bytea[], note_ids bytea[], note_incarnations bigint[], note_records bytea[],
    note_firsts bytea[],
    event_of integer[], event_operations bytea[], event_records bytea[], reached bigint[],
    begins bigint[],
    OUT position_now bigint, OUT closed boolean, OUT verdicts smallint[], OUT aside_now bigint)
LANGUAGE plpgsql SET enable_seqscan = off AS $body$
DECLARE
    alive boolean;
    here bigint := fencepost.timeline_1();
    elsewhere boolean;
    epoch_now bigint;
    shared bytea;
    newest bigint;
    verdict smallint;
    place text;
    spoiled text[] := '{}';
BEGIN
    -- A permit follows the commit: it is on the disk by then, whatever a role or a pooler prefers. Every other
    -- value waits for the server's own disk at least (`local`), and for what replicas are to have done.
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    -- What was waited for is looked at as it is then, and not as it was when the transaction began.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'the register is written at READ COMMITTED, and not at % (default_transaction_isolation)',
            upper(current_setting('transaction_isolation')) USING ERRCODE = 'FP001';
    END IF;
    verdicts := '{}';
    UPDATE fencepost.instances SET position = position + 1 WHERE id = own AND NOT dead
    RETURNING position, aside INTO position_now, aside_now;
    alive := FOUND;
    -- A pooler leads each transaction where it will: to an old primary that lives on, and was whole too.
    elsewhere := reached[4] IS NOT NULL
        AND (here IS DISTINCT FROM reached[4] OR fencepost.system_1() IS DISTINCT FROM reached[3]);
    SELECT r.epoch,
           g.doubt IS NOT NULL OR g.timeline <> here OR g.system <> fencepost.system_1()
               OR elsewhere OR reached[4] IS NULL
               OR coalesce(position_now <= reached[1] OR aside_now < reached[2], false) OR r.used_from > 1
    INTO epoch_now, closed FROM fencepost.register r CROSS JOIN fencepost.ground g
    WHERE r.single = 1 AND g.single = 1;
    IF closed OR NOT alive THEN
        -- What is recorded on closed ground is counted aside: it would take the place of a commit that was lost,
        -- or of one aside, and hide that it was. So is what an instance records that is declared dead.
        UPDATE fencepost.instances
        SET position = position - CASE WHEN alive THEN 1 ELSE 0 END,
            aside = aside + CASE WHEN false = ANY (admits) AND NOT elsewhere AND aside >= reached[2] THEN 1
                            ELSE 0 END
        WHERE id = own AND dead <> alive;
        SELECT max(aside) INTO aside_now FROM fencepost.instances WHERE id = own AND dead <> alive;
    END IF;
    -- Two equal requests without a key are decided one after the other, wherever they come in.
    FOR shared IN
        SELECT DISTINCT k.id FROM unnest(keyless_ids, keyless_seen) k(id, seen)
        WHERE k.seen IS NOT NULL ORDER BY k.id
    LOOP
        PERFORM pg_advisory_xact_lock(('x' || encode(substr(shared, 1, 8), 'hex'))::bit(64)::bigint);
    END LOOP;
    FOR i IN 1 .. coalesce(array_length(admits, 1), 0) LOOP
        verdict := 0;
        place := coalesce(fence_tenants[i], tenants[i]) || ':'
            || encode(coalesce(fence_names[i], resources[i]), 'hex');
        <<judged>>
        BEGIN
        -- It was decided on what an earlier one of these would have written, and did not: the version that it
        -- expects may be there all the same, and be another's.
        IF place = ANY (spoiled) OR encode(identities[i], 'hex') = ANY (spoiled) THEN
            verdict := 1;
            EXIT judged;
        END IF;
        IF elsewhere THEN
            verdict := 4;
            EXIT judged;
        END IF;
        IF admits[i] AND NOT alive THEN
            verdict := 2;
            EXIT judged;
        END IF;
        IF admits[i] AND closed THEN
            verdict := 4;
            EXIT judged;
        END IF;
        IF admits[i] AND epoch_now <> epoch_seen THEN
            verdict := 3;
            EXIT judged;
        END IF;
        IF versions[i] = 0 THEN
            PERFORM 1 FROM fencepost.operations WHERE tenant = tenants[i] AND identity = identities[i];
            IF FOUND THEN
                verdict := 1;
                EXIT judged;
            END IF;
        ELSIF versions[i] > 0 THEN
            PERFORM 1 FROM fencepost.operations
            WHERE tenant = tenants[i] AND identity = identities[i] AND version = versions[i];
            IF NOT FOUND THEN
                verdict := 1;
                EXIT judged;
            END IF;
        END IF;
        IF note_expected[i] IS NOT NULL THEN
            PERFORM 1 FROM fencepost.twins WHERE tenant = tenants[i] AND identity = identities[i];
            IF FOUND <> note_expected[i] THEN
                verdict := 1;
                EXIT judged;
            END IF;
        END IF;
        IF keyless_seen[i] IS NOT NULL THEN
            SELECT max(o.sequence) INTO newest FROM fencepost.operations o
            WHERE o.unsettled AND o.tenant = tenants[i] AND o.keyless = keyless_ids[i];
            IF coalesce(newest, 0) <> keyless_seen[i] THEN
                verdict := 1;
                EXIT judged;
            END IF;
        END IF;
        IF fence_records[i] IS NOT NULL THEN
            IF fence_versions[i] = 0 THEN
                INSERT INTO fencepost.fences (tenant, name, version, mark, cancelled, leased, record)
                VALUES (fence_tenants[i], fence_names[i], 1, fence_marks[i], fence_cancelled[i],
                        fence_leased[i], fence_records[i])
                ON CONFLICT DO NOTHING;
            ELSE
                UPDATE fencepost.fences
                SET version = version + 1, mark = fence_marks[i], cancelled = fence_cancelled[i],
                    leased = fence_leased[i], record = fence_records[i]
                WHERE tenant = fence_tenants[i] AND name = fence_names[i] AND version = fence_versions[i];
            END IF;
            IF NOT FOUND THEN
                verdict := 1;
                EXIT judged;
            END IF;
        ELSIF fence_versions[i] IS NOT NULL THEN
            -- Left as it is, and must be so until the end of the transaction.
            PERFORM 1 FROM fencepost.fences
            WHERE tenant = fence_tenants[i] AND name = fence_names[i] AND version = fence_versions[i]
            FOR SHARE;
            IF NOT FOUND AND fence_versions[i] > 0 THEN
                verdict := 1;
                EXIT judged;
            END IF;
        END IF;
        IF records[i] IS NOT NULL AND versions[i] = 0 THEN
            INSERT INTO fencepost.operations
                (identity, version, tenant, upstream, principal, id, incarnation, state, unsettled,
                 resource, number, token, keyless, owner, first_seen_wall_ms, record, answer, request,
                 settled_ms)
            VALUES
                (identities[i], begins[i], tenants[i], upstreams[i], principals[i], ids[i], incarnations[i],
                 states[i], unsettled_now[i], resources[i], numbers[i], tokens[i], keyless_ids[i],
                 owners[i], first_seen[i], records[i], answers[i], requests[i], settled[i])
            ON CONFLICT DO NOTHING;
            IF NOT FOUND THEN
                RAISE EXCEPTION 'an operation appeared meanwhile' USING ERRCODE = 'FP001';
            END IF;
        ELSIF records[i] IS NOT NULL THEN
            UPDATE fencepost.operations o
            SET version = o.version + 1, state = states[i], unsettled = unsettled_now[i],
                resource = resources[i], number = numbers[i], token = tokens[i], owner = owners[i],
                record = records[i], answer = answers[i],
                request = CASE request_changes[i] WHEN 0 THEN o.request ELSE requests[i] END,
                settled_ms = CASE WHEN o.state = states[i] THEN coalesce(o.settled_ms, settled[i])
                             ELSE settled[i] END
            WHERE o.tenant = tenants[i] AND o.identity = identities[i] AND o.version = versions[i];
            IF NOT FOUND THEN
                RAISE EXCEPTION 'an operation changed meanwhile' USING ERRCODE = 'FP001';
            END IF;
        END IF;
        IF note_expected[i] AND records[i] IS NOT NULL THEN
            DELETE FROM fencepost.twins WHERE tenant = tenants[i] AND identity = identities[i];
        END IF;
        IF applied_now[i] THEN
            -- What a replacement worker reads first; no decision is taken on it.
            UPDATE fencepost.fences SET applied = identities[i], applied_number = numbers[i]
            WHERE tenant = tenants[i] AND name = resources[i] AND applied_number < numbers[i];
        END IF;
        FOR n IN 1 .. coalesce(array_length(note_of, 1), 0) LOOP
            IF note_of[n] = i THEN
                INSERT INTO fencepost.twins
                    (identity, tenant, upstream, principal, id, incarnation, record, first)
                VALUES (note_identities[n], note_tenants[n], note_upstreams[n], note_principals[n],
                        note_ids[n], note_incarnations[n], note_records[n], note_firsts[n])
                ON CONFLICT (tenant, identity) DO UPDATE SET record = excluded.record, first = excluded.first;
            END IF;
        END LOOP;
        FOR n IN 1 .. coalesce(array_length(event_of, 1), 0) LOOP
            IF event_of[n] = i THEN
                INSERT INTO fencepost.events (tenant, operation, record)
                VALUES (tenants[i], event_operations[n], event_records[n]);
            END IF;
        END LOOP;
        END judged;
        verdicts := verdicts || verdict;
        IF verdict <> 0 THEN
            spoiled := spoiled || ARRAY[place, encode(identities[i], 'hex')];
        END IF;
    END LOOP;
END
$body$;

-- Shows a sign of life, and answers with those of all of a tenant, with its age, and with
-- the ground that this was done on: does the register stand there (`firm_1`), and after how many acceptances?
-- Where there are none it answers with the ground alone. Nobody is waited for: whoever holds the own row is
-- just writing it, which is a sign of life too. One that a crash of the server takes back was not needed.
CREATE FUNCTION fencepost.beat_1(own bytea, whose text)
RETURNS TABLE (id bytea, beat bigint, "position" bigint, dead boolean, lived_ms bigint, system bigint,
    timeline bigint, accepted bigint, firm boolean)
LANGUAGE plpgsql AS $body$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE fencepost.instances i SET beat = i.beat + 1
    WHERE i.id = (SELECT k.id FROM fencepost.instances k WHERE k.id = own AND NOT k.dead
                  FOR UPDATE SKIP LOCKED);
    RETURN QUERY SELECT i.id, i.beat, i.position, i.dead, coalesce(a.lived_ms, 0), fencepost.system_1(),
                        fencepost.timeline_1(), g.accepted, fencepost.firm_1()
                 FROM fencepost.ground g LEFT JOIN fencepost.ages a ON a.tenant = whose
                 LEFT JOIN fencepost.instances i ON i.tenant = whose
                 WHERE g.single = 1;
END
$body$;

-- Declares instances dead that have done nothing since they were seen like this; answers with those. Whoever
-- holds its row is alive, or is found the next time. Where the register does not stand nobody is declared: on
-- another timeline that would be said without what the instance did last, and nobody would ask it then
-- whether it misses anything.
CREATE FUNCTION fencepost.declare_1(ids bytea[], beats bigint[], positions bigint[]) RETURNS SETOF bytea
LANGUAGE plpgsql AS $body$
BEGIN
    IF NOT fencepost.firm_1() THEN
        RETURN;
    END IF;
    FOR slot IN 1 .. coalesce(array_length(ids, 1), 0) LOOP
        RETURN QUERY
        UPDATE fencepost.instances i SET dead = true
        WHERE i.id = (SELECT k.id FROM fencepost.instances k
                      WHERE k.id = ids[slot] AND k.beat = beats[slot] AND k.position = positions[slot]
                      FOR UPDATE SKIP LOCKED)
        RETURNING i.id;
    END LOOP;
END
$body$;

-- These end, and have done all that they will. Answers whether that was written: where the register does
-- not stand, they still are to say whether they miss anything there.
CREATE FUNCTION fencepost.leave_1(own bytea[]) RETURNS boolean
LANGUAGE plpgsql AS $body$
BEGIN
    IF NOT fencepost.firm_1() THEN
        RETURN false;
    END IF;
    UPDATE fencepost.instances SET dead = true WHERE id = ANY (own);
    RETURN true;
END
$body$;
