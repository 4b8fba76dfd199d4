//! TLS to the database: whatever is negotiated is verified.

use super::{complaint, migrate, pay};
use crate::servers::{Postgres, Settings, shared};
use crate::support::proxy::Proxy;
use crate::support::setup::Setup;
use crate::support::upstream::{Keys, Upstream};

#[test]
fn a_server_is_believed_only_with_a_certificate_of_the_right_authority() {
    let server = Postgres::start_with(&Settings::default().with_tls());
    let database = server.database();
    let upstream = Upstream::start(Keys::Honoured);
    let folder = tempfile::tempdir().unwrap();
    let strange = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let stranger = folder.path().join("stranger.pem");
    std::fs::write(&stranger, strange.cert.pem()).unwrap();
    let setup = |query: &str, fields: &str| {
        let url = format!("{}?{query}", database.url());
        Setup::payments(upstream.address()).sharing(&url, fields)
    };
    let trusting = |path: &std::path::Path| format!(", tls: {{ ca: {} }}", path.display());

    // Also where TLS is only preferred: one that cannot be verified is not gone on with in the clear.
    for query in ["sslmode=require", "sslmode=prefer", "sslmode=verify-full"] {
        let refused = migrate(&setup(query, &trusting(&stranger)));
        assert_eq!(refused.status.code(), Some(1), "{query}");
        let said = complaint(&refused);
        assert!(said.contains("certificate"), "{query}: {said}");
    }
    let right = trusting(&server.authority());
    for query in ["sslmode=require", "sslmode=prefer"] {
        let mut proxy = Proxy::start(setup(query, &right));
        assert_eq!(pay(&proxy, query).send().status, 201);
        let encrypted =
            "SELECT bool_and(ssl), count(*) >= 2 FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
            WHERE application_name = 'fencepost'";
        assert_eq!(database.query(encrypted), "t|t");
        proxy.stop();
    }
    let by_url = format!(
        "sslmode=verify-full&sslrootcert={}",
        server.authority().display()
    );
    let migrated = migrate(&setup(&by_url, ""));
    assert!(migrated.status.success(), "{}", complaint(&migrated));
}

#[test]
fn a_server_without_tls_is_refused_where_it_is_required() {
    let database = shared().database();
    let upstream = Upstream::start(Keys::Honoured);
    let url = format!("{}?sslmode=require", database.url());
    let refused = migrate(&Setup::payments(upstream.address()).sharing(&url, ""));
    assert_eq!(refused.status.code(), Some(1));
    let said = complaint(&refused);
    assert!(said.contains("does not support TLS"), "{said}");
}
