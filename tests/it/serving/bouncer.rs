//! A pgbouncer before a server.

use super::ask;
use crate::servers::{Bouncer, Pool, psql, shared};

#[test]
fn many_clients_share_the_few_connections_of_a_bouncer() {
    let database = shared().database();
    let pool = Pool {
        connections: 2,
        ..Pool::default()
    };
    let mut bouncer = Bouncer::start(shared().address(), pool);
    let url = database.url_at(bouncer.address());
    let clients: Vec<_> = (0..10)
        .map(|_| ask(url.clone(), "SELECT pg_backend_pid() FROM pg_sleep(0.05)"))
        .collect();
    let mut sessions: Vec<_> = clients
        .into_iter()
        .map(|client| client.join().unwrap().unwrap())
        .collect();
    sessions.sort_unstable();
    sessions.dedup();
    assert!(sessions.len() <= 2, "{sessions:?}");
    assert!(
        psql(&bouncer.console(), "SHOW POOLS")
            .unwrap()
            .contains(database.name())
    );

    bouncer.kill();
    assert!(psql(&url, "SELECT 1").unwrap_err().contains("refused"));
    bouncer.start_again();
    assert_eq!(psql(&url, "SELECT 1").unwrap(), "1");
}

#[test]
fn a_role_gets_through_a_bouncer_with_its_own_password_only() {
    let database = shared().database();
    let role = format!("worker_of_{}", database.name());
    database.query(&format!("CREATE ROLE {role} LOGIN PASSWORD 'its-own'"));
    let bouncer = Bouncer::start(shared().address(), Pool::default());
    let url = |password: &str| database.url_as(bouncer.address(), &role, password);
    assert_eq!(psql(&url("its-own"), "SELECT current_user").unwrap(), role);
    assert!(psql(&url("another"), "SELECT 1").is_err());
    database.query(&format!("DROP ROLE {role}"));
}
