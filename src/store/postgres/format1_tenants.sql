-- Who may see what, where several tenants share a register: beside the tables of format 1.
--
-- What always holds: the role that made the tables may do everything. A role that was let in for a tenant
-- reads and writes the operations, fences, notes, events and instances of that tenant and of no other (and
-- how old its own memory is, and how far it was forgotten),
-- whatever statement it sends: the database sees to it (row-level security), not the sidecar. The
-- functions that sidecars call run with the rights of their caller.
--
-- What is shared by all who are let in: the row of the register itself (its format, epoch, and the
-- fingerprint key, sealed), which keys were used, the history, the ground, and of all instances their ids and
-- how many transactions each has made. Such a role changes nothing of it but by the functions of the ground,
-- which close the register to all and open it to nobody. Notifications reach whoever listens, and anybody may
-- send one: they name operations by a hash, and are hints that nothing is decided on.

-- One role, one tenant.
CREATE TABLE fencepost.members (
    role name PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL
);

ALTER TABLE fencepost.members ENABLE ROW LEVEL SECURITY;
ALTER TABLE fencepost.forgotten ENABLE ROW LEVEL SECURITY;
ALTER TABLE fencepost.ages ENABLE ROW LEVEL SECURITY;
ALTER TABLE fencepost.instances ENABLE ROW LEVEL SECURITY;
ALTER TABLE fencepost.fences ENABLE ROW LEVEL SECURITY;
ALTER TABLE fencepost.operations ENABLE ROW LEVEL SECURITY;
ALTER TABLE fencepost.twins ENABLE ROW LEVEL SECURITY;
ALTER TABLE fencepost.events ENABLE ROW LEVEL SECURITY;

CREATE POLICY own_row ON fencepost.members FOR SELECT USING (role = current_user);

-- The tenant is looked up once a statement, not once a row.
CREATE POLICY own_tenant ON fencepost.forgotten
    USING (tenant = (SELECT m.tenant FROM fencepost.members m WHERE m.role = current_user));
CREATE POLICY own_tenant ON fencepost.ages
    USING (tenant = (SELECT m.tenant FROM fencepost.members m WHERE m.role = current_user));
CREATE POLICY own_tenant ON fencepost.instances
    USING (tenant = (SELECT m.tenant FROM fencepost.members m WHERE m.role = current_user));
CREATE POLICY own_tenant ON fencepost.fences
    USING (tenant = (SELECT m.tenant FROM fencepost.members m WHERE m.role = current_user));
CREATE POLICY own_tenant ON fencepost.operations
    USING (tenant = (SELECT m.tenant FROM fencepost.members m WHERE m.role = current_user));
CREATE POLICY own_tenant ON fencepost.twins
    USING (tenant = (SELECT m.tenant FROM fencepost.members m WHERE m.role = current_user));
CREATE POLICY own_tenant ON fencepost.events
    USING (tenant = (SELECT m.tenant FROM fencepost.members m WHERE m.role = current_user));

-- The index on living instances keeps a role from the id of one that lives. Nor does it take that of another
-- tenant's dead one, which row-level security hides from it: that would seem to have come alive again.
CREATE FUNCTION fencepost.is_new_1() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $body$
BEGIN
    PERFORM 1 FROM fencepost.instances i WHERE i.id = new.id AND i.tenant <> new.tenant;
    IF FOUND THEN
        RAISE unique_violation USING MESSAGE = 'the id of this instance is, or was, that of another tenant''s';
    END IF;
    RETURN new;
END
$body$;

CREATE TRIGGER new_instances BEFORE INSERT ON fencepost.instances
    FOR EACH ROW WHEN (NOT new.dead) EXECUTE FUNCTION fencepost.is_new_1();

-- Lets a role in as a sidecar of a tenant, with what a sidecar needs and nothing else. Again after every
-- change of the format: it grants what that format needs. A role that had another tenant has this one.
CREATE FUNCTION fencepost.let_in(whom name, whose text) RETURNS void
LANGUAGE plpgsql AS $body$
DECLARE
    one text;
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA fencepost TO %I', whom);
    FOREACH one IN ARRAY ARRAY['fences', 'operations', 'twins', 'events'] LOOP
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON fencepost.%I TO %I', one, whom);
    END LOOP;
    -- Not on which timeline it began: that says who is asked after a fail-over.
    EXECUTE format('GRANT SELECT, INSERT (id, tenant, name, started_wall_ms, dead_after_ms),'
        ' UPDATE (beat, position, aside, dead), DELETE ON fencepost.instances TO %I', whom);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE ON fencepost.forgotten, fencepost.ages TO %I', whom);
    EXECUTE format('GRANT SELECT ON fencepost.register, fencepost.members, fencepost.ground,'
        ' fencepost.history TO %I', whom);
    FOREACH one IN ARRAY ARRAY['view_1', 'lock_1', 'write_1', 'beat_1', 'declare_1', 'leave_1', 'timeline_1',
        'system_1', 'firm_1', 'ground_1', 'close_1', 'confirm_1', 'open_1', 'strangers_1', 'bury_1',
        'unconfirmed_1']
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION fencepost.%I TO %I', one, whom);
    END LOOP;
    INSERT INTO fencepost.members (role, tenant) VALUES (whom, whose)
    ON CONFLICT (role) DO UPDATE SET tenant = excluded.tenant;
END
$body$;

-- The reverse. Sessions that are open lose it too.
CREATE FUNCTION fencepost.shut_out(whom name) RETURNS void
LANGUAGE plpgsql AS $body$
BEGIN
    -- Where it was the last of its tenant nobody is left to declare dead what still counts as alive, and after
    -- a fail-over everybody would wait for its word.
    UPDATE fencepost.instances i SET dead = true
    FROM fencepost.members m
    WHERE m.role = whom AND i.tenant = m.tenant
      AND NOT EXISTS (SELECT 1 FROM fencepost.members o WHERE o.tenant = m.tenant AND o.role <> whom);
    DELETE FROM fencepost.members WHERE role = whom;
    EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA fencepost FROM %I', whom);
    EXECUTE format('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA fencepost FROM %I', whom);
    EXECUTE format('REVOKE ALL ON SCHEMA fencepost FROM %I', whom);
END
$body$;
