-- What the register stands on: which server, and which of its timelines; beside the tables of format 1.
--
-- What always holds: admissions are written only where `ground` says that this is so and nothing speaks
-- against it (`write_1`). Whoever closes or opens it locks its row. Functions that look at all instances
-- run with the rights of who made the tables, since a tenant's role sees its own only; and nobody may call
-- them but who was let in. What such a role may say with them is what a sidecar of its tenant may say: it
-- confirms for the instances of its tenant, and for how long everybody else is waited for is not its word.
-- Times of waiting are those of the database's clock *and* of the own clock of whoever speaks: the longer one
-- counts, so that neither a role that lies nor a clock that leaps cuts it short.

-- `system`, `timeline`: of the server that the register was last known whole on. `doubt`: why nothing is
-- admitted. `noticed`: another timeline was found, and instances are asked whether they miss anything there.
-- `noticed_at`, `objections_ms`: when that was, and how long whoever misses something has to say so.
-- `moved`: the register was exported, and nobody but who takes it back opens it again; `doubt_before`: what
-- stood against it then, which goes with it.
-- `accepted` counts how often an operator took the register as it was; `quiet_ms` is then how long nothing is
-- admitted, on the server that he meant. `remembered_epoch`: the highest that anybody says there was.
CREATE TABLE fencepost.ground (
    single smallint PRIMARY KEY CHECK (single = 1),
    system bigint NOT NULL,
    timeline bigint NOT NULL,
    doubt text,
    moved boolean NOT NULL DEFAULT false,
    doubt_before text,
    noticed bigint,
    noticed_at timestamptz,
    objections_ms bigint NOT NULL DEFAULT 10000,
    accepted bigint NOT NULL DEFAULT 0,
    quiet_ms bigint,
    quiet_since timestamptz,
    quiet_system bigint,
    quiet_timeline bigint,
    remembered_epoch bigint NOT NULL DEFAULT 0
);

-- Of each instance that was not dead where another timeline begins: does it find all that it remembers?
CREATE TABLE fencepost.confirmations (
    instance bytea PRIMARY KEY,
    tenant text NOT NULL,
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
-- each process of the server keeps it. A session may say otherwise here, and only deceives itself: what others
-- depend on looks at the server (`bury_1`, `confirm_1`).
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
                     FROM fencepost.ground g WHERE g.single = 1), false);
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
    OUT ids bytea[], OUT positions bigint[], OUT dead boolean[], OUT moved boolean, OUT asides bigint[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $body$
BEGIN
    SELECT s.system_identifier, fencepost.timeline_1(), r.epoch, g.system, g.timeline, g.doubt, g.accepted,
           g.quiet_ms,
           g.quiet_system = s.system_identifier AND g.quiet_timeline = fencepost.timeline_1(), g.moved
    INTO system_now, timeline_now, epoch, system, timeline, doubt, accepted, quiet_ms, quiet_here, moved
    FROM fencepost.register r CROSS JOIN fencepost.ground g CROSS JOIN pg_control_system() s
    WHERE r.single = 1 AND g.single = 1;
    SELECT coalesce(array_agg(i.id ORDER BY i.id), '{}'), coalesce(array_agg(i.position ORDER BY i.id), '{}'),
           coalesce(array_agg(i.dead ORDER BY i.id), '{}'), coalesce(array_agg(i.aside ORDER BY i.id), '{}')
    INTO ids, positions, dead, asides
    -- One that is dead to several tenants is one.
    FROM (SELECT k.id, max(k.position) AS position, bool_or(k.dead) AS dead, max(k.aside) AS aside
          FROM fencepost.instances k GROUP BY k.id) i;
END
$body$;

-- Nothing is admitted from now on. Where that is so already, the reasons of before stay, and another is added
-- once, as long as there is room. An epoch that is remembered lies a little above the recorded one, or is made up.
CREATE FUNCTION fencepost.close_1(why text, epoch_remembered bigint, wall bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $body$
BEGIN
    PERFORM 1 FROM fencepost.ground g FOR UPDATE;
    INSERT INTO fencepost.history (wall_ms, text)
    SELECT wall, 'nothing is admitted any more: ' || left(why, 4000) FROM fencepost.ground g
    WHERE g.doubt IS NULL;
    UPDATE fencepost.ground g
    SET doubt = CASE WHEN g.doubt IS NULL THEN left(why, 4000)
                     WHEN g.moved OR position(left(why, 4000) IN g.doubt) > 0 OR length(g.doubt) > 4000
                         THEN g.doubt
                     ELSE g.doubt || '; ' || left(why, 4000) END,
        remembered_epoch = greatest(g.remembered_epoch, least(epoch_remembered, r.epoch + 1000))
    FROM fencepost.register r;
END
$body$;

-- The tenant that whoever called speaks for; NULL: for all, since he is who made the tables. Asked inside
-- of functions that run with the rights of those.
CREATE FUNCTION fencepost.speaks_for_1() RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $body$
DECLARE
    caller name := CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role') END;
BEGIN
    IF pg_has_role(caller, current_user, 'MEMBER') THEN
        RETURN NULL;
    END IF;
    -- No tenant is called that.
    RETURN coalesce((SELECT m.tenant FROM fencepost.members m WHERE m.role = caller), '');
END
$body$;

-- The server writes another timeline, and these instances, which are one process, find there all that they
-- remember. If everybody does who was not dead where it begins, and somebody was there, nothing was lost:
-- whoever waited long enough for objections (`may_open`) begins a new epoch, if by the database's clock that
-- was long enough too. Answers with it, or with those that are still asked. The dead are not asked: their
-- declaration was committed after all that they did.
CREATE FUNCTION fencepost.confirm_1(
    own bytea[], may_open boolean, wall bigint, OUT epoch_begun bigint, OUT missing bytea[], OUT witnesses bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $body$
DECLARE
    here bigint := fencepost.timeline_1();
    whose text := fencepost.speaks_for_1();
    found fencepost.ground;
BEGIN
    SELECT g.* INTO found FROM fencepost.ground g FOR UPDATE;
    IF found.doubt IS NOT NULL OR found.timeline = here THEN
        RETURN;
    END IF;
    IF found.noticed IS DISTINCT FROM here OR found.noticed_at > clock_timestamp() THEN
        UPDATE fencepost.ground g SET noticed_at = clock_timestamp() RETURNING g.noticed_at INTO found.noticed_at;
    END IF;
    IF found.noticed IS DISTINCT FROM here THEN
        UPDATE fencepost.ground g SET noticed = here;
        DELETE FROM fencepost.confirmations;
        INSERT INTO fencepost.confirmations (instance, tenant, confirmed)
        SELECT i.id, i.tenant, false FROM fencepost.instances i WHERE NOT i.dead AND i.timeline IS DISTINCT FROM here;
    END IF;
    UPDATE fencepost.confirmations c SET confirmed = true
    WHERE c.instance = ANY (own) AND (whose IS NULL OR c.tenant = whose);
    SELECT coalesce(array_agg(c.instance) FILTER (WHERE NOT c.confirmed), '{}'),
           count(*) FILTER (WHERE c.confirmed)
    INTO missing, witnesses FROM fencepost.confirmations c;
    IF NOT may_open OR missing <> '{}' OR witnesses = 0
        OR extract(epoch FROM clock_timestamp() - found.noticed_at) * 1000 < found.objections_ms
    THEN
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

-- An operator takes the register as it is on this server. Answers with the epoch that begins (NULL: nothing
-- speaks against the register), or why it is not to be had: it was exported.
CREATE FUNCTION fencepost.accept_1(quiet bigint, operator text, wall bigint, OUT begun bigint, OUT moved text)
LANGUAGE plpgsql AS $body$
DECLARE
    here bigint := fencepost.timeline_1();
    server bigint := (SELECT s.system_identifier FROM pg_control_system() s);
    found fencepost.ground;
BEGIN
    SELECT g.* INTO found FROM fencepost.ground g FOR UPDATE;
    IF found.moved THEN
        moved := found.doubt;
        RETURN;
    END IF;
    IF found.doubt IS NULL AND found.system = server AND found.timeline = here THEN
        RETURN;
    END IF;
    UPDATE fencepost.register r SET epoch = greatest(r.epoch, found.remembered_epoch) + 1
    RETURNING r.epoch INTO begun;
    INSERT INTO fencepost.history (wall_ms, text)
    VALUES (wall, format('accepted by %s although %s; epoch %s begins', operator,
                         coalesce(found.doubt, 'its server has another timeline'), begun));
    UPDATE fencepost.ground g
    SET doubt = 'accepted by ' || operator || ', and what was under way must have ended first',
        accepted = g.accepted + 1, quiet_ms = quiet, quiet_since = clock_timestamp(), quiet_system = server,
        quiet_timeline = here;
END
$body$;

-- The quiet after that acceptance is over, as whoever calls has counted. Answers whether it admits again: if
-- that is so by the database's clock too.
CREATE FUNCTION fencepost.open_1(accepted_seen bigint, wall bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $body$
DECLARE
    here bigint := fencepost.timeline_1();
    server bigint := (SELECT s.system_identifier FROM pg_control_system() s);
BEGIN
    UPDATE fencepost.ground g SET quiet_since = clock_timestamp() WHERE g.quiet_since > clock_timestamp();
    UPDATE fencepost.ground g
    SET system = server, timeline = here, doubt = NULL, noticed = NULL, quiet_ms = NULL
    WHERE g.accepted = accepted_seen AND g.quiet_ms IS NOT NULL AND g.quiet_system = server
      AND g.quiet_timeline = here AND NOT g.moved
      AND extract(epoch FROM clock_timestamp() - g.quiet_since) * 1000 >= g.quiet_ms;
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

-- The register is exported: it admits nothing any more, whatever stood against it before, and no quiet of
-- before opens it. During such a quiet it is not exported: answers how long that is; NULL: done.
CREATE FUNCTION fencepost.move_1(why text, wall bigint) RETURNS bigint
LANGUAGE plpgsql AS $body$
DECLARE
    here bigint := fencepost.timeline_1();
    server bigint := (SELECT s.system_identifier FROM pg_control_system() s);
    found fencepost.ground;
    against text;
BEGIN
    SELECT g.* INTO found FROM fencepost.ground g FOR UPDATE;
    IF found.quiet_ms IS NOT NULL AND found.quiet_system = server AND found.quiet_timeline = here THEN
        RETURN found.quiet_ms;
    END IF;
    against := CASE
        WHEN found.moved THEN found.doubt_before
        WHEN found.doubt IS NULL AND (found.system <> server OR found.timeline <> here)
            THEN 'its server had another timeline, and nobody had said that nothing was missing'
        ELSE found.doubt
    END;
    UPDATE fencepost.ground g
    SET doubt = why, moved = true, doubt_before = against, noticed = NULL, quiet_ms = NULL, quiet_since = NULL,
        quiet_system = NULL, quiet_timeline = NULL;
    DELETE FROM fencepost.confirmations;
    INSERT INTO fencepost.history (wall_ms, text)
    VALUES (wall, 'nothing is admitted any more: ' || why
            || coalesce('; what stood against it before: ' || against, ''));
    RETURN NULL;
END
$body$;

-- What was exported is used nowhere, as an operator says. What he takes back he accepts or not, as any other.
-- Answers whether it had been exported.
CREATE FUNCTION fencepost.take_back_1(operator text, wall bigint) RETURNS boolean
LANGUAGE plpgsql AS $body$
DECLARE
    told text := 'it was exported, and taken back by ' || operator;
BEGIN
    UPDATE fencepost.ground g
    SET moved = false, doubt = told || coalesce('; before that: ' || g.doubt_before, ''), doubt_before = NULL
    WHERE g.moved;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO fencepost.history (wall_ms, text) VALUES (wall, told);
    RETURN true;
END
$body$;

-- Whoever is let in may call what `let_in` says.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA fencepost FROM PUBLIC;
