-- Instances that nobody of their own tenant declares dead, because nobody of it is left: beside the tables of
-- format 1.
--
-- What always holds: whoever is declared dead here has done nothing to its row for its limit by the database's
-- clock, from the first time that somebody said so; and whoever says so has counted that on its own clock
-- too. The longer one counts, so that neither a clock that leaps nor a role that lies is enough alone. Whatever the
-- instance does outruns it, and nothing but the mark is changed: what it left is for its own tenant. A role
-- learns of another tenant's instances what it may know already: ids, and how much they have done.
--
-- Whoever says so and does not end his transaction holds the row of whom he declares dead: nobody else declares
-- that one dead meanwhile, and it does not come back to write. That a role does so on purpose no function
-- prevents; a limit for idle transactions that such a role cannot lift does (`config/postgres-roles.sql`).
--
-- What it does not do: settle. A mark that was wrong is a right to settle, and what the instance says late is
-- late evidence, as contract §8 has it.

-- What it has told its tenant: an instance that does nothing for so long is dead.
ALTER TABLE fencepost.instances ADD COLUMN dead_after_ms bigint NOT NULL DEFAULT 20000;

-- At least so long is waited for other tenants' instances: nobody is in a hurry for them.
ALTER TABLE fencepost.ground ADD COLUMN silence_ms bigint NOT NULL DEFAULT 60000;

-- Since when somebody says that an instance does nothing, and what it had done by then.
CREATE TABLE fencepost.silences (
    instance bytea PRIMARY KEY,
    beat bigint NOT NULL,
    position bigint NOT NULL,
    since timestamptz NOT NULL
);

-- Whose turn it is to declare: who has its row. No role can reach it but by way of `bury_1`, where an advisory lock
-- could be held by anybody for ever.
CREATE TABLE fencepost.burying (single smallint PRIMARY KEY CHECK (single = 1));
INSERT INTO fencepost.burying (single) VALUES (1);

-- As `firm_1`, by the server's own word: the session's may be its role's.
CREATE FUNCTION fencepost.firm_here_1() RETURNS boolean
LANGUAGE plpgsql AS $body$
BEGIN
    RETURN coalesce((SELECT g.doubt IS NULL AND g.timeline = fencepost.timeline_1()
                         AND g.system = s.system_identifier
                     FROM fencepost.ground g CROSS JOIN pg_control_system() s WHERE g.single = 1), false);
END
$body$;

-- Signs of life of other tenants' instances, and how long each is waited for. Where the register does not stand
-- there are none: what is read there says nothing of anybody.
CREATE FUNCTION fencepost.strangers_1(whose text)
RETURNS TABLE (id bytea, beat bigint, "position" bigint, limit_ms bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $body$
BEGIN
    IF NOT fencepost.firm_here_1() THEN
        RETURN;
    END IF;
    -- A tenant that waits for ever for its own is not waited for by others.
    RETURN QUERY
    SELECT i.id, i.beat, i.position, least(greatest(i.dead_after_ms, g.silence_ms), 3600000)
    FROM fencepost.instances i CROSS JOIN fencepost.ground g
    WHERE NOT i.dead AND i.tenant <> whose AND g.single = 1;
END
$body$;

-- These have done nothing since they were seen like this, as whoever calls has counted. Answers with those that
-- are declared dead: those for which that is so by the database's clock too. Whoever holds its row is alive. One
-- caller at a time: a second one leaves it to the first.
CREATE FUNCTION fencepost.bury_1(ids bytea[], beats bigint[], positions bigint[]) RETURNS SETOF bytea
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $body$
DECLARE
    silent record;
BEGIN
    PERFORM 1 FROM fencepost.burying b WHERE b.single = 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND OR NOT fencepost.firm_here_1() THEN
        RETURN;
    END IF;
    DELETE FROM fencepost.silences s
    WHERE NOT EXISTS (SELECT 1 FROM fencepost.instances i
                      WHERE i.id = s.instance AND NOT i.dead AND i.beat = s.beat AND i.position = s.position);
    INSERT INTO fencepost.silences AS s (instance, beat, position, since)
    SELECT DISTINCT i.id, i.beat, i.position, clock_timestamp()
    FROM unnest(ids, beats, positions) u(id, beat, position)
    JOIN fencepost.instances i ON i.id = u.id AND i.beat = u.beat AND i.position = u.position AND NOT i.dead
    -- A clock that went back makes them wait again.
    ON CONFLICT (instance) DO UPDATE SET since = excluded.since WHERE s.since > excluded.since;
    FOR silent IN
        SELECT s.instance, s.beat, s.position, s.since
        FROM fencepost.silences s WHERE s.instance = ANY (ids)
    LOOP
        RETURN QUERY
        UPDATE fencepost.instances i SET dead = true
        WHERE NOT i.dead AND i.id = (
            SELECT k.id FROM fencepost.instances k CROSS JOIN fencepost.ground g
            WHERE k.id = silent.instance AND NOT k.dead AND k.beat = silent.beat
              AND k.position = silent.position AND g.single = 1
              AND extract(epoch FROM clock_timestamp() - silent.since) * 1000
                  >= least(greatest(k.dead_after_ms, g.silence_ms), 3600000)
            FOR UPDATE OF k SKIP LOCKED)
        RETURNING i.id;
    END LOOP;
END
$body$;

-- How many instances of others there are, of how many tenants; and of whom a word is waited for before the
-- register is known whole on its present timeline. Names are told of the own tenant alone.
CREATE FUNCTION fencepost.unconfirmed_1(
    whose text, OUT tenants bigint, OUT living bigint, OUT dead bigint, OUT ids bytea[], OUT names text[],
    OUT of_tenants bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $body$
DECLARE
    speaks_for text := fencepost.speaks_for_1();
BEGIN
    SELECT count(DISTINCT i.tenant), count(*) FILTER (WHERE NOT i.dead), count(*) FILTER (WHERE i.dead)
    INTO tenants, living, dead FROM fencepost.instances i WHERE i.tenant <> whose;
    SELECT coalesce(array_agg(c.instance ORDER BY c.instance), '{}'),
           coalesce(array_agg(CASE WHEN i.tenant = whose AND coalesce(speaks_for, whose) = whose
                              THEN i.name END ORDER BY c.instance), '{}'),
           count(DISTINCT i.tenant)
    INTO ids, names, of_tenants
    FROM fencepost.ground g CROSS JOIN fencepost.confirmations c
    -- One that was marked since is waited for all the same.
    JOIN fencepost.instances i ON i.id = c.instance AND i.tenant = c.tenant
    WHERE g.single = 1 AND g.doubt IS NULL AND g.noticed = fencepost.timeline_1() AND NOT c.confirmed;
END
$body$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA fencepost FROM PUBLIC;
