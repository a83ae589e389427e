//! A switch that was stopped for a while: the frames that waited for it are too old.

use std::thread::sleep;
use std::time::{Duration, Instant};

use packet_io::Port;
use testkit::frames::{numbered, receive, send};
use testkit::namespace::{in_namespace, in_root_namespace, ip, veth_pair};

use crate::support::{FORWARD, Running, TIMEOUT, outside, totals};

/// The value of `--max-age-ms`, and a time for which the switch is stopped and after which every frame is too old.
const AGE_MAX: &str = "300";
const AWAY: Duration = Duration::from_millis(900);

const N_OLD: u32 = 100;

/// Frames from this number on are sent after the stopped switch has been continued.
const FIRST_NEW: u32 = 1000;

/// Starts a switch in which frames from a1, which is port 1, leave through b1, which is port 2.
fn start(kind: &str, age_max: &str) -> Running {
    let ports = [format!("1@{kind}a1"), format!("2@{kind}b1")];
    let own = ["-i", &ports[0], "-i", &ports[1], "--max-age-ms", age_max];
    Running::start_that_logs(&[&own[..], &["--grpc", "off", "--json"], &FORWARD].concat())
}

fn await_stopped(switch: &Running) {
    let start = Instant::now();
    let path = format!("/proc/{}/stat", switch.id());
    while !std::fs::read_to_string(&path).is_ok_and(|it| it.contains(") T ")) {
        assert!(start.elapsed() < TIMEOUT, "it goes on");
        sleep(Duration::from_millis(1));
    }
}

fn number(frame: &[u8]) -> u32 {
    let number = frame.get(14..18).and_then(|it| it.try_into().ok());
    u32::from_be_bytes(number.expect("a number"))
}

/// Stops the switch, sends it frames, and continues it after a while. Returns the first numbers that leave the switch,
/// how many frames it received, and how many it dropped as too old.
fn stop_and_go_on(kind: &str, age_max: &str) -> (Vec<u32>, u64, u64) {
    ip("link set lo up");
    veth_pair("a0", "a1");
    veth_pair("b0", "b1");
    let switch = start(kind, age_max);
    let (mut a, mut b) = (outside("a0"), outside("b0"));
    send(&mut a, [numbered(0, 100)]);
    assert_eq!(receive(&mut b, 1), [numbered(0, 100)]);
    switch.signal("-STOP");
    await_stopped(&switch);
    send(&mut a, (1..=N_OLD).map(|n| numbered(n, 100)));
    sleep(AWAY);
    switch.signal("-CONT");
    let (mut numbers, mut n_sent) = (Vec::new(), FIRST_NEW);
    let start = Instant::now();
    while numbers.last().is_none_or(|last| *last < FIRST_NEW) {
        assert!(start.elapsed() < TIMEOUT, "nothing comes: {numbers:?}");
        send(&mut a, [numbered(n_sent, 100)]);
        n_sent += 1;
        sleep(Duration::from_millis(5));
        b.receive(0, 64, &mut |frame| numbers.push(number(frame)))
            .expect("receiving");
    }
    let totals = totals(&switch.stop("-TERM"));
    let port = &totals["ports"][0];
    let [n_taken, n_old] = ["rx_frames", "rx_too_old"].map(|it| port[it].as_u64().expect(it));
    assert_eq!(
        n_taken + n_old,
        u64::from(1 + N_OLD + n_sent - FIRST_NEW),
        "{port}"
    );
    (numbers, n_taken, n_old)
}

fn assert_old_ones_are_dropped(kind: &str) {
    let (numbers, _, n_old) = stop_and_go_on(kind, AGE_MAX);
    assert!(numbers.iter().all(|it| *it >= FIRST_NEW), "{numbers:?}");
    assert!(n_old >= u64::from(N_OLD), "{n_old}");
}

#[test]
fn what_waited_for_a_stopped_switch_in_a_packet_socket_is_not_sent_late() {
    in_namespace(|| assert_old_ones_are_dropped(""));
}

#[test]
fn what_waited_for_a_stopped_switch_in_an_xdp_socket_is_not_sent_late() {
    in_root_namespace(|| assert_old_ones_are_dropped("afxdp:"));
}

#[test]
fn a_switch_with_the_option_to_keep_old_frames_sends_them() {
    in_namespace(|| {
        let (numbers, n_taken, n_old) = stop_and_go_on("", "0");
        let old: Vec<u32> = (1..=N_OLD).collect();
        assert_eq!(numbers[..old.len()], old);
        assert!(n_taken > u64::from(N_OLD) && n_old == 0);
    });
}
