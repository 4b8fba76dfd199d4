-- What the register stands on: which server, and which of its timelines; beside the tables of format 1.
--
-- What always holds: admissions are written only where `ground` says that this is so and nothing speaks
-- against it (`write_1`). Whoever closes or opens it locks its row. Functions that look at all instances
-- run with the rights of who made the tables, since a tenant's role sees its own only.

-- `system`, `timeline`: of the server that the register was last known whole on. `doubt`: why nothing is
-- admitted. `noticed`: another timeline was found, and instances are asked whether they miss anything there.
-- `moved`: the register was exported, and nobody but who takes it back opens it again.
-- `accepted` counts how often an operator took the register as it was; `quiet_ms` is then how long nothing is
-- admitted, on the server that he meant. `remembered_epoch`: the highest that anybody says there was.
CREATE TABLE fencepost.ground (
    single smallint PRIMARY KEY CHECK (single = 1),
    system bigint NOT NULL,
    timeline bigint NOT NULL,
    doubt text,
    moved boolean NOT NULL DEFAULT false,
    noticed bigint,
    accepted bigint NOT NULL DEFAULT 0,
    quiet_ms bigint,
    quiet_system bigint,
    quiet_timeline bigint,
    remembered_epoch bigint NOT NULL DEFAULT 0
);

-- Whoever may use the schema admits only on it.
GRANT SELECT ON fencepost.ground TO PUBLIC;

-- Of each instance that was not dead where another timeline begins: does it find all that it remembers?
CREATE TABLE fencepost.confirmations (
    instance bytea PRIMARY KEY,
    confirmed boolean NOT NULL
);

-- The timeline that this server writes; a replica writes none.
CREATE FUNCTION fencepost.timeline_1() RETURNS bigint
LANGUAGE plpgsql AS $body$
BEGIN
    IF pg_is_in_recovery() THEN
        RETURN NULL;
    END IF;
    RETURN ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint;
END
$body$;

-- The server itself. It is the same for as long as a server's process lives, and reading it opens a file: so
-- each process of the server keeps it. Nothing that one may not do depends on what a session says here.
CREATE FUNCTION fencepost.system_1() RETURNS bigint
LANGUAGE plpgsql AS $body$
DECLARE
    kept text := current_setting('fencepost.system', true);
BEGIN
    IF coalesce(kept, '') = '' THEN
        kept := set_config('fencepost.system', (SELECT s.system_identifier FROM pg_control_system() s)::text,
                           false);
    END IF;
    RETURN kept::bigint;
END
$body$;

-- Does the register stand here: on the ground that it was last known whole on, and does nothing speak
-- against it?
CREATE FUNCTION fencepost.firm_1() RETURNS boolean
LANGUAGE plpgsql AS $body$
BEGIN
    RETURN coalesce((SELECT g.doubt IS NULL AND g.timeline = fencepost.timeline_1()
                         AND g.system = fencepost.system_1()
                     FROM fencepost.ground g), false);
END
$body$;

-- Where it has taken part first.
ALTER TABLE fencepost.instances ADD COLUMN timeline bigint DEFAULT fencepost.timeline_1();

INSERT INTO fencepost.ground (single, system, timeline)
SELECT 1, s.system_identifier, fencepost.timeline_1() FROM pg_control_system() s;

-- All that is compared with what an instance remembers.
CREATE FUNCTION fencepost.ground_1(
    OUT system_now bigint, OUT timeline_now bigint, OUT epoch bigint, OUT system bigint, OUT timeline bigint,
    OUT doubt text, OUT accepted bigint, OUT quiet_ms bigint, OUT quiet_here boolean,
    OUT ids bytea[], OUT positions bigint[], OUT dead boolean[], OUT moved boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $body$
BEGIN
    SELECT s.system_identifier, fencepost.timeline_1(), r.epoch, g.system, g.timeline, g.doubt, g.accepted,
           g.quiet_ms,
           g.quiet_system = s.system_identifier AND g.quiet_timeline = fencepost.timeline_1(), g.moved
    INTO system_now, timeline_now, epoch, system, timeline, doubt, accepted, quiet_ms, quiet_here, moved
    FROM fencepost.register r CROSS JOIN fencepost.ground g CROSS JOIN pg_control_system() s;
    SELECT coalesce(array_agg(i.id ORDER BY i.id), '{}'), coalesce(array_agg(i.position ORDER BY i.id), '{}'),
           coalesce(array_agg(i.dead ORDER BY i.id), '{}')
    INTO ids, positions, dead FROM fencepost.instances i;
END
$body$;

-- Nothing is admitted from now on. Where that is so already, the first reason stays.
CREATE FUNCTION fencepost.close_1(why text, epoch_remembered bigint, wall bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $body$
BEGIN
    PERFORM 1 FROM fencepost.ground g FOR UPDATE;
    INSERT INTO fencepost.history (wall_ms, text)
    SELECT wall, 'nothing is admitted any more: ' || why FROM fencepost.ground g WHERE g.doubt IS NULL;
    UPDATE fencepost.ground g
    SET doubt = coalesce(g.doubt, why), remembered_epoch = greatest(g.remembered_epoch, epoch_remembered);
END
$body$;

-- The server writes another timeline, and these instances, which are one process, find there all that they
-- remember. If everybody does who was not dead where it begins, and somebody was there, nothing was lost:
-- whoever waited long enough for objections (`may_open`) begins a new epoch. Answers with it, or with those
-- that are still asked. The dead are not asked: their declaration was committed after all that they did.
CREATE FUNCTION fencepost.confirm_1(
    own bytea[], may_open boolean, wall bigint, OUT epoch_begun bigint, OUT missing bytea[], OUT witnesses bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $body$
DECLARE
    here bigint := fencepost.timeline_1();
    found fencepost.ground;
BEGIN
    SELECT g.* INTO found FROM fencepost.ground g FOR UPDATE;
    IF found.doubt IS NOT NULL OR found.timeline = here THEN
        RETURN;
    END IF;
    IF found.noticed IS DISTINCT FROM here THEN
        UPDATE fencepost.ground g SET noticed = here;
        DELETE FROM fencepost.confirmations;
        INSERT INTO fencepost.confirmations (instance, confirmed)
        SELECT i.id, false FROM fencepost.instances i WHERE NOT i.dead AND i.timeline IS DISTINCT FROM here;
    END IF;
    UPDATE fencepost.confirmations c SET confirmed = true WHERE c.instance = ANY (own);
    SELECT coalesce(array_agg(c.instance) FILTER (WHERE NOT c.confirmed), '{}'),
           count(*) FILTER (WHERE c.confirmed)
    INTO missing, witnesses FROM fencepost.confirmations c;
    IF NOT may_open OR missing <> '{}' OR witnesses = 0 THEN
        RETURN;
    END IF;
    UPDATE fencepost.register r SET epoch = greatest(r.epoch, found.remembered_epoch) + 1
    RETURNING r.epoch INTO epoch_begun;
    UPDATE fencepost.ground g SET timeline = here, noticed = NULL;
    INSERT INTO fencepost.history (wall_ms, text)
    VALUES (wall, format('the server went from timeline %s to %s and lost nothing, as %s instances found;'
                         ' epoch %s begins', found.timeline, here, witnesses, epoch_begun));
    DELETE FROM fencepost.confirmations;
END
$body$;

-- An operator takes the register as it is on this server. Answers with the epoch that begins; NULL: nothing
-- speaks against the register.
CREATE FUNCTION fencepost.accept_1(quiet bigint, operator text, wall bigint) RETURNS bigint
LANGUAGE plpgsql AS $body$
DECLARE
    here bigint := fencepost.timeline_1();
    server bigint := (SELECT s.system_identifier FROM pg_control_system() s);
    found fencepost.ground;
    begun bigint;
BEGIN
    SELECT g.* INTO found FROM fencepost.ground g FOR UPDATE;
    IF found.doubt IS NULL AND found.system = server AND found.timeline = here THEN
        RETURN NULL;
    END IF;
    UPDATE fencepost.register r SET epoch = greatest(r.epoch, found.remembered_epoch) + 1
    RETURNING r.epoch INTO begun;
    INSERT INTO fencepost.history (wall_ms, text)
    VALUES (wall, format('accepted by %s although %s; epoch %s begins', operator,
                         coalesce(found.doubt, 'its server has another timeline'), begun));
    UPDATE fencepost.ground g
    SET doubt = 'accepted by ' || operator || ', and what was under way must have ended first',
        accepted = g.accepted + 1, quiet_ms = quiet, quiet_system = server, quiet_timeline = here;
    RETURN begun;
END
$body$;

-- The quiet after that acceptance is over. Answers whether it admits again.
CREATE FUNCTION fencepost.open_1(accepted_seen bigint, wall bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $body$
DECLARE
    here bigint := fencepost.timeline_1();
    server bigint := (SELECT s.system_identifier FROM pg_control_system() s);
BEGIN
    UPDATE fencepost.ground g
    SET system = server, timeline = here, doubt = NULL, noticed = NULL, quiet_ms = NULL
    WHERE g.accepted = accepted_seen AND g.quiet_ms IS NOT NULL AND g.quiet_system = server
      AND g.quiet_timeline = here;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    -- Whoever came back meanwhile may have remembered a higher one than the operator's tool could see.
    UPDATE fencepost.register r SET epoch = g.remembered_epoch + 1
    FROM fencepost.ground g WHERE g.remembered_epoch >= r.epoch;
    DELETE FROM fencepost.confirmations;
    INSERT INTO fencepost.history (wall_ms, text)
    SELECT wall, format('admits again, in epoch %s', r.epoch) FROM fencepost.register r;
    RETURN true;
END
$body$;
