//! A register in PostgreSQL that has lived: with millions of settled operations.
//!
//! What always holds: every row was written by the product for an operation like it, and copied with
//! its events under an identity of its own. Identities come in random order, with all indexes in
//! place, so that their pages are as full as they would be.
//!
//! What it does not do: make answers that open: a copy's answer stays sealed for its original, weighs
//! what it must, and is never read.

use std::time::Instant;

use serde_json::json;

use crate::load::{Caller, Shape};
use crate::register::Bench;
use crate::shared::psql;

const TRANSACTION: u64 = 250_000;

pub async fn settled(url: &str, operations: u64, shape: Shape) {
    let begun = Instant::now();
    let bench = Bench::join(url).await;
    Caller::new(&bench, shape).complete_one().await;
    bench.close().await;
    psql(url, &fences(shape));
    let mut made = 0;
    while made < operations {
        let more = TRANSACTION.min(operations - made);
        psql(url, &copies(made, more, shape));
        made += more;
        eprintln!("{made} of {operations}");
    }
    psql(url, "VACUUM (ANALYZE) fencepost.operations");
    psql(url, "VACUUM (ANALYZE) fencepost.events");
    psql(url, "VACUUM (ANALYZE) fencepost.fences");
    psql(url, "CHECKPOINT");
    let took = begun.elapsed().as_secs_f64();
    println!(
        "{}",
        json!({"kind": "filled", "operations": operations, "took_s": took})
    );
}

/// A fence for each resource, named as `resource_name` does.
fn fences(shape: Shape) -> String {
    format!(
        "INSERT INTO fencepost.fences (tenant, name, version, mark, cancelled, record, applied, applied_number)
         SELECT f.tenant, convert_to('statement:account-' || lpad(n::text, 7, '0') || ':2026-09', 'UTF8'),
                f.version, f.mark, f.cancelled, f.record, f.applied, f.applied_number
         FROM (SELECT * FROM fencepost.fences LIMIT 1) f, generate_series(0, {}) n
         ON CONFLICT DO NOTHING",
        shape.resources - 1
    )
}

fn copies(made: u64, more: u64, shape: Shape) -> String {
    format!(
        "WITH original AS MATERIALIZED
             (SELECT * FROM fencepost.operations WHERE state = 'COMPLETED' ORDER BY sequence LIMIT 1),
         copied AS (
             INSERT INTO fencepost.operations
                 (tenant, identity, version, upstream, principal, id, incarnation, state, unsettled, resource,
                  number, token, keyless, owner, first_seen_wall_ms, record, answer, request, settled_ms)
             SELECT o.tenant, substr(sha256(convert_to('copy ' || n, 'UTF8')), 1, octet_length(o.identity)),
                    o.version, o.upstream, o.principal,
                    convert_to(substr(encode(sha256(convert_to('id ' || n, 'UTF8')), 'hex'), 1,
                        octet_length(o.id)), 'UTF8'),
                    o.incarnation, o.state, o.unsettled,
                    convert_to('statement:account-' || lpad((n * 7919 % {resources})::text, 7, '0') || ':2026-09',
                        'UTF8'),
                    o.number, o.token, o.keyless, o.owner, o.first_seen_wall_ms, o.record, o.answer, o.request,
                    o.settled_ms
             FROM original o, generate_series({made}::bigint, {last}::bigint) n
             RETURNING tenant, identity)
         INSERT INTO fencepost.events (tenant, operation, record)
         SELECT c.tenant, c.identity, e.record
         FROM copied c,
              (SELECT record FROM fencepost.events WHERE operation = (SELECT identity FROM original)) e",
        resources = shape.resources,
        last = made + more - 1,
    )
}
