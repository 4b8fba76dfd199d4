//! `lease run`: what it promises of its command, whatever the instance, the command and others do meanwhile.
//!
//! What always holds: real processes; what counts is when the command is gone and when another can have its lease.

use std::io::Read as _;
use std::process::{Child, ChildStdout};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::leases::{leased, read_all};
use super::*;

fn tell(keeper: &Child, signal: Signal) {
    let keeper = Pid::from_raw(i32::try_from(keeper.id()).unwrap()).unwrap();
    kill_process(keeper, signal).unwrap();
}

/// The command's next line; nothing, where it is gone.
fn line(out: &mut ChildStdout) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    while out.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap()
}

/// C15: while the instance hangs, and a renewal with it, the command has its grace and is gone by the end.
#[test]
fn a_command_is_told_a_grace_before_the_end_though_a_renewal_hangs() {
    let it = leased();
    let (ttl, grace) = (Duration::from_secs(6), "1s");
    let script = "exec 2>/dev/null; trap 'echo told' TERM; echo $$; while :; do sleep 0.05; done";
    let mut ran = it.run("6s", &["--grace", grace], script);
    let mut out = ran.stdout.take().unwrap();
    let command = Pid::from_raw(line(&mut out).parse().unwrap()).unwrap();
    let frozen = Instant::now();
    it.proxy.freeze();
    assert_eq!(line(&mut out), "told");
    let told = frozen.elapsed();
    until("it is killed", || {
        let stat = format!("/proc/{}/stat", command.as_raw_nonzero());
        std::fs::read_to_string(stat).map_or(true, |it| it.contains(") Z "))
    });
    let gone = frozen.elapsed();
    assert_eq!(line(&mut out), "", "with all that it started");
    let status = ran.wait().unwrap();
    it.proxy.thaw();
    assert_eq!(status.code(), Some(128 + 9), "it did not listen to SIGTERM");
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

/// However many signals there are, it is renewed when it is due; each is the command's.
#[test]
fn signals_are_passed_on_and_delay_no_renewal() {
    let it = leased();
    let script = "ulimit -c 0; exec 2>/dev/null
        trap 'echo 1' USR1; trap 'echo 2' USR2; trap 'echo 3' QUIT; trap 'exit 5' TERM
        echo up; while :; do sleep 0.05; done";
    let mut ran = it.run("3s", &["--grace", "500ms"], script);
    let mut out = ran.stdout.take().unwrap();
    assert_eq!(line(&mut out), "up");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(5) {
        let all = [
            (Signal::USR1, "1"),
            (Signal::USR2, "2"),
            (Signal::QUIT, "3"),
        ];
        for (signal, said) in all {
            tell(&ran, signal);
            assert_eq!(line(&mut out), said);
        }
    }
    assert_eq!(it.acquire("30s", "0s").status, 409, "it is held");
    tell(&ran, Signal::TERM);
    assert_eq!(line(&mut out), "");
    assert_eq!(ran.wait().unwrap().code(), Some(5));
    it.acquired("30s", "0s");
}

/// C15: what a command leaves behind works under its lease, and is stopped before that is given back.
#[test]
fn a_lease_is_held_until_nobody_works_under_it() {
    let it = leased();
    // It leaves one behind who is told to end and does not.
    let script = "exec 2>/dev/null; trap 'exit 5' USR1
        (trap 'echo told' TERM; kill -USR1 $$; while :; do sleep 0.05; done) &
        while :; do sleep 0.05; done";
    let mut ran = it.run("1h", &["--grace", "2s"], script);
    let mut out = ran.stdout.take().unwrap();
    assert_eq!(line(&mut out), "told");
    assert_eq!(it.acquire("30s", "0s").status, 409, "it is held");
    assert_eq!(line(&mut out), "", "killed after its grace");
    assert_eq!(ran.wait().unwrap().code(), Some(5));
    let (_, second) = it.acquired("30s", "0s");
    assert_eq!(second, "2");
}
