//! A volume that is read-only at the start, or becomes it at work, as a kernel does that found errors.

use super::*;

const READ_ONLY: &str = "open,write,sync,truncate,names . EROFS";

#[test]
fn on_a_read_only_volume_it_does_not_start() {
    let (upstream, mut proxy) = on_a_disk_that_fails(Keys::Ignored);
    assert_effect_1(&pay(&proxy, "k").send());
    proxy.stop();
    proxy.disk().fails(&[READ_ONLY]);

    assert_does_not_start(&mut proxy, "Read-only file system");

    let path = proxy.register().join("lock");
    assert!(proxy.log().contains(path.to_str().unwrap()), "which file");
    proxy.disk().heals();
    proxy.start_again();
    assert!(pay(&proxy, "k").send().is_replay());
    assert_eq!(upstream.heads().len(), 1);
}

#[test]
fn a_volume_that_becomes_read_only_stops_the_work_until_the_restart() {
    let (upstream, mut proxy) = on_a_disk_that_fails(Keys::Ignored);
    assert_effect_1(&pay(&proxy, "before").send());
    proxy.stop();
    proxy.start_again();
    proxy.disk().fails(&[READ_ONLY]);

    assert_uncertain(&pay(&proxy, "k").send());

    until_not_ready(&proxy, "poisoned");
    assert_unavailable(&pay(&proxy, "k").send());
    assert_unavailable(&pay(&proxy, "before").send());
    assert_eq!(operation(&proxy, "before")["state"], "COMPLETED");
    assert_eq!(upstream.heads().len(), 1, "nothing was sent");
    assert_eq!(
        proxy.stop().code(),
        Some(0),
        "it ends in order all the same"
    );
    assert_does_not_start(&mut proxy, "Read-only file system");
    proxy.disk().heals();
    proxy.start_again();
    assert!(!is_known(&proxy, "k"), "not a byte of it could be written");
    assert_eq!(pay(&proxy, "k").send().status, 201);
    assert!(pay(&proxy, "before").send().is_replay());
    assert_eq!(upstream.heads().len(), 2);
}
