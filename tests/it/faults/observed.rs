//! A register that commits no more, beside an effect that is only observed.
//!
//! What always holds: the one is refused, and the other notices nothing.

use super::*;

const ROUTE: &str = r"
capability: [idempotent]
key: { header: Idempotency-Key, lifetime: 24h, value: derived }
effects:
  - on: POST /payments
    once: { header: Idempotency-Key }
  - on: POST /watched
    mode: observe
    once: { header: Idempotency-Key }
";

#[test]
fn a_poisoned_register_holds_back_nothing_that_is_only_watched() {
    let upstream = Upstream::start(Keys::Ignored);
    let setup = Setup::new(upstream.address(), ROUTE).on_a_disk_that_fails();
    let mut proxy = Proxy::start(setup);
    let watched = |proxy: &Proxy| {
        proxy
            .post("/watched")
            .key("k")
            .json(r#"{"amount":5}"#)
            .send()
    };
    assert_eq!(watched(&proxy).status, 201);
    proxy.disk().fails(&["sync register.db-wal EIO"]);
    assert_ne!(pay(&proxy, "a").send().status, 201);
    until_not_ready(&proxy, "poisoned");
    proxy.disk().heals();
    assert_unavailable(&pay(&proxy, "b").send());

    for _ in 0..2 {
        assert_eq!(watched(&proxy).status, 201);
    }

    let effects = upstream.effects();
    assert_eq!(effects.len(), 3, "each of them went out");
    for effect in effects {
        assert_eq!(
            (effect.key.as_deref(), &*effect.body),
            (Some("k"), r#"{"amount":5}"#)
        );
    }
    // The report goes on, and is kept all the same.
    let replayed = |report: Value| {
        let rows = report["effects"].as_array().unwrap().clone();
        let row = rows
            .into_iter()
            .find(|row| row["effect"] == "POST /watched");
        row.is_some_and(|row| row["requests"] == 3 && row["found"][0]["finding"] == "replayed")
    };
    until("they are judged", || replayed(proxy.read("/v1/report")));
    proxy.stop();
    proxy.start_again();
    assert!(replayed(proxy.read("/v1/report")));
}
