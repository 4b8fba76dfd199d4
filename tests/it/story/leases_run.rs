//! `lease run`: what it promises of its command, whatever the instance, the command and others do meanwhile.
//!
//! What always holds: real processes; what counts is when the command is gone and when another can have its lease.

use std::io::Read as _;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::leases::{Leased, Said, leased, read_all};
use super::*;
use crate::support::link::Link;

fn tell(keeper: &Child, signal: Signal) {
    let keeper = Pid::from_raw(i32::try_from(keeper.id()).unwrap()).unwrap();
    kill_process(keeper, signal).unwrap();
}

/// Works for longer than any test waits, and not for ever. Signals come when it is counted how long.
const COUNT: &str = "exec 2>/dev/null; moments=$(seq 2000)";
const WORK: &str = "for moment in $moments; do sleep 0.05; done";

/// C15: while the instance hangs, and a renewal with it, the command has its grace and is gone by the end.
#[test]
fn a_command_is_told_a_grace_before_the_end_though_a_renewal_hangs() {
    is_told_in_time_while_the_instance_hangs("1s");
}

/// Whoever asks for more grace than there is gets a third of the time, and no more than the time.
#[test]
fn a_command_has_no_longer_grace_than_its_lease_has_time() {
    is_told_in_time_while_the_instance_hangs("30s");
}

fn is_told_in_time_while_the_instance_hangs(grace: &str) {
    let it = leased();
    let ttl = Duration::from_secs(6);
    let script = format!("{COUNT}; trap 'echo told' TERM; echo $$; {WORK}");
    let mut ran = it.run("6s", &["--grace", grace], &script);
    let said = Said::by(&mut ran);
    let command = Pid::from_raw(said.line().parse().unwrap()).unwrap();
    let frozen = Instant::now();
    it.proxy.freeze();
    assert_eq!(said.line(), "told");
    let told = frozen.elapsed();
    until("it is killed", || {
        let stat = format!("/proc/{}/stat", command.as_raw_nonzero());
        std::fs::read_to_string(stat).map_or(true, |it| it.contains(") Z "))
    });
    let gone = frozen.elapsed();
    assert_eq!(said.line(), "", "with all that it started");
    let status = ran.wait().unwrap();
    it.proxy.thaw();
    assert_eq!(status.code(), Some(128 + 9), "it did not listen to SIGTERM");
    // Two thirds of its time, less a renewal that was due.
    assert!(told >= Duration::from_secs(1), "told after {told:?}");
    let had = gone.saturating_sub(told);
    assert!(had >= Duration::from_millis(500), "{had:?} of its grace");
    let late = gone.saturating_sub(ttl);
    assert!(late < Duration::from_millis(500), "{late:?} after its end");
}

/// What was waited for does not count against the time of the lease.
#[test]
fn a_command_that_waited_for_longer_than_its_time_has_all_of_it() {
    let it = leased();
    it.acquired("4s", "0s");
    let script = "sleep 1; echo ran";
    let mut ran = it.run("3s", &["--wait", "30s", "--grace", "500ms"], script);
    assert_eq!(read_all(&mut ran), "ran\n");
    assert_eq!(ran.wait().unwrap().code(), Some(0));
    let (_, third) = it.acquired("30s", "0s");
    assert_eq!(third, "3");
}

/// Who is told to end while he waits ends, and leaves the line.
#[test]
fn whoever_is_told_to_end_while_he_waits_begins_nothing() {
    let it = leased();
    let (first, _) = it.acquired("1h", "0s");
    for (signal, number) in [(Signal::TERM, 15), (Signal::INT, 2), (Signal::QUIT, 3)] {
        let mut waiting = it.run("30s", &["--wait", "60s"], "echo ran");
        until("it stands in line", || {
            it.proxy.counted("fencepost_lease_waiting") == 1
        });
        tell(&waiting, signal);
        assert_eq!(read_all(&mut waiting), "");
        assert_eq!(waiting.wait().unwrap().code(), Some(128 + number));
        until("it left the line", || {
            it.proxy.counted("fencepost_lease_waiting") == 0
        });
    }
    assert_eq!(it.his("release", &first).status, 204);
    let (_, second) = it.acquired("30s", "0s");
    assert_eq!(second, "2");
}

/// The same a moment later, when it is granted and not begun.
#[test]
fn whoever_is_told_to_end_before_he_begins_gives_back_what_was_granted() {
    let it = leased();
    let (first, _) = it.acquired("1h", "0s");
    let link = Link::to(it.worker);
    let way = ["--wait", "60s"];
    let mut waiting = Leased::run_through(link.address(), "1h", &way, &["echo", "ran"]);
    until("it stands in line", || {
        it.proxy.counted("fencepost_lease_waiting") == 1
    });
    link.hold_requests();
    assert_eq!(it.his("release", &first).status, 204);
    until("it has asked for its whole time", || {
        link.request_bytes_held() > 0
    });
    let renewal = link.request_bytes_held();
    tell(&waiting, Signal::TERM);
    until("it gives back", || link.request_bytes_held() > renewal);
    link.release_requests();
    assert_eq!(read_all(&mut waiting), "");
    assert_eq!(waiting.wait().unwrap().code(), Some(128 + 15));
    let (_, third) = it.acquired("30s", "10s");
    assert_eq!(third, "3");
}

/// What cannot begin gives back what it began under.
#[test]
fn a_command_that_cannot_be_started_keeps_no_lease() {
    let it = leased();
    for (program, code, token) in [("/nowhere/to/be/found", 127, "2"), ("/", 126, "4")] {
        let mut ran = it.run_command("1h", &[], &[program]);
        assert_eq!(ran.wait().unwrap().code(), Some(code), "{program}");
        let mut said = String::new();
        ran.stderr
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        assert!(said.contains(program), "{said}");
        let (next, its) = it.acquired("30s", "0s");
        assert_eq!(its, token);
        assert_eq!(it.his("release", &next).status, 204);
    }
}

/// Far more often than anything is renewed.
const ROUND: Duration = Duration::from_millis(20);

/// However many signals there are, it is renewed when it is due; each is the command's.
#[test]
fn signals_are_passed_on_and_delay_no_renewal() {
    let it = leased();
    let script = format!(
        "ulimit -c 0; {COUNT}
        trap 'echo 1' USR1; trap 'echo 2' USR2; trap 'echo 3' QUIT; trap 'exit 5' TERM
        echo up; {WORK}"
    );
    let mut ran = it.run("3s", &["--grace", "500ms"], &script);
    let said = Said::by(&mut ran);
    assert_eq!(said.line(), "up");
    let begun = Instant::now();
    // Each ends one of the moments for which it works.
    for round in 1..=250 {
        let from = ROUND * round;
        until("the next round is due", || begun.elapsed() > from);
        let all = [
            (Signal::USR1, "1"),
            (Signal::USR2, "2"),
            (Signal::QUIT, "3"),
        ];
        for (signal, word) in all {
            tell(&ran, signal);
            assert_eq!(said.line(), word);
        }
    }
    assert_eq!(it.acquire("30s", "0s").status, 409, "it is held");
    tell(&ran, Signal::TERM);
    assert_eq!(said.line(), "");
    assert_eq!(ran.wait().unwrap().code(), Some(5));
    it.acquired("30s", "0s");
}

/// C15: what a command leaves behind works under its lease, and is stopped before that is given back.
#[test]
fn a_lease_is_held_until_nobody_works_under_it() {
    let it = leased();
    // It leaves one behind who is told to end and does not.
    let script = format!(
        "{COUNT}; trap 'exit 5' USR1
        (trap 'echo told' TERM; kill -USR1 $$; {WORK}) &
        {WORK}"
    );
    let mut ran = it.run("1h", &["--grace", "2s"], &script);
    let said = Said::by(&mut ran);
    assert_eq!(said.line(), "told");
    assert_eq!(it.acquire("30s", "0s").status, 409, "it is held");
    assert_eq!(said.line(), "", "killed after its grace");
    assert_eq!(ran.wait().unwrap().code(), Some(5));
    let (_, second) = it.acquired("30s", "0s");
    assert_eq!(second, "2");
}
