-- Roles for a register in PostgreSQL: one that makes its tables, and one for the sidecars of each tenant.
--
-- A sidecar's role reads and writes the rows of its own tenant only: with the credential of one workload
-- nobody reads or changes another's operations, whatever he sends; nor says for another's sidecars that a
-- fail-over lost nothing, ends a quiet before its time, or makes another's answers be forgotten. It can stop
-- admission for all, as each sidecar must be able to. That needs one role for each tenant, and
-- `register: { postgres: { migrate: false } }` in the sidecars' configs. A single role for everything
-- works too: make it the owner, and leave the rest out.

-- 1. As an administrator, in the database of the register.
CREATE ROLE fencepost_owner LOGIN PASSWORD 'OWNERS-PASSWORD';
GRANT CONNECT, CREATE ON DATABASE fencepost TO fencepost_owner;
CREATE ROLE payments_sidecar LOGIN PASSWORD 'SIDECARS-PASSWORD';
GRANT CONNECT ON DATABASE fencepost TO payments_sidecar;
-- A sidecar's transactions are never idle for longer than this. One that is left open on purpose can keep
-- another tenant's dead sidecar from being declared dead until it is ended: a role can lift this limit for
-- itself, so where tenants are not trusted the pooler between sets it too (pgbouncer:
-- `idle_transaction_timeout`).
ALTER ROLE payments_sidecar SET idle_in_transaction_session_timeout = '10s';

-- 2. In a shell, now and for every new version of the tables:
--      fencepost store migrate --config fencepost.yaml --register '${env:OWNERS_DATABASE_URL}'

--    `store accept-restored`, `store export`, `store take-back` and `epoch advance` need that role too, with the same
--    `--register`: they are of all tenants.

-- 3. As fencepost_owner: which role is a sidecar of which `tenant`. Again after every `store migrate`.
SELECT fencepost.let_in('payments_sidecar', 'payments');
