//! Ports whose interfaces are removed, return, go down or get addresses.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::support::{FORWARD, Running, TIMEOUT, drops, http_get, lost_at_sender, outside};
use packet_io::Port;
use serde_json::{Value, json};
use testkit::frames::{local_sender, numbered, receive, send};
use testkit::namespace::{
    change_often, in_namespace, in_root_namespace, ip, run, set_queues, veth_pair,
    veth_pair_with_queues,
};
use testkit::text::assert_starts;

/// Starts a switch whose ports 1 and 2 are the interfaces a1 and b1. These are ends of veth pairs; the other ends are
/// a0 and b0. Frames from port 1 leave through port 2.
fn start(kind: &str, options: &[&str]) -> Running {
    veth_pair("a0", "a1");
    veth_pair("b0", "b1");
    start_on(
        ["a1", "b1"].map(|interface| format!("{kind}{interface}")),
        options,
    )
}

fn start_on([one, two]: [String; 2], options: &[&str]) -> Running {
    let ports = [format!("1@{one}"), format!("2@{two}")];
    let arguments = ["-i", &ports[0], "-i", &ports[1], "--grpc", "off", "--json"];
    let metrics = ["--metrics", "127.0.0.1:0", "--log-format", "json"];
    ip("link set lo up");
    Running::start_that_logs(&[&arguments[..], &metrics, options, &FORWARD].concat())
}

/// Parses a line of the log, and removes its time and its message.
fn event(line: &str) -> Value {
    let mut event: Value = serde_json::from_str(line).expect(line);
    let members = event.as_object_mut().expect("an object");
    members.remove("timestamp");
    members.remove("message");
    event
}

/// Waits for a warning of the log about a port, with these members and no others.
fn expect_warning(switch: &Running, name: &str, port: u64, interface: &str, more: Value) {
    let mut expected =
        json!({"level": "WARN", "event": name, "port": port, "interface": interface});
    let members = expected.as_object_mut().expect("an object");
    members.extend(more.as_object().expect("an object").clone());
    assert_eq!(event(&switch.wait_for_line(&[name])), expected);
}

fn metric(switch: &Running, sample: &str) -> u64 {
    let (_, text) = http_get(switch, "/metrics");
    let line = text.lines().find_map(|line| line.strip_prefix(sample));
    let value = line.expect(sample).trim().parse();
    value.expect("a number")
}

/// Waits until a sample has an acceptable value.
fn wait_for_metric(switch: &Running, sample: &str, will_do: impl Fn(u64) -> bool) {
    let began = Instant::now();
    while !will_do(metric(switch, sample)) {
        assert!(
            began.elapsed() < TIMEOUT,
            "{sample}: {}",
            metric(switch, sample)
        );
        thread::sleep(Duration::from_millis(5));
    }
}

/// Sends frames into an interface until somebody stops the traffic, and counts the frames.
struct Traffic {
    is_stopped: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Traffic {
    fn into(interface: &str) -> Traffic {
        let is_stopped = Arc::new(AtomicBool::new(false));
        let mut port = outside(interface);
        let stopped = Arc::clone(&is_stopped);
        let thread = thread::spawn(move || {
            let mut n_sent = 0;
            while !stopped.load(Ordering::Relaxed) {
                send(&mut port, (0..10).map(|number| numbered(number, 200)));
                n_sent += 10;
                thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(port.statistics().tx_dropped(), 0);
            n_sent
        });
        Traffic { is_stopped, thread }
    }

    fn stop(self) -> u64 {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.thread.join().expect("it sends")
    }
}

/// Stops a switch and returns its totals.
fn totals(switch: Running) -> Value {
    crate::support::totals(&switch.stop("-TERM"))
}

fn number(port: &Value, field: &str) -> u64 {
    port[field].as_u64().expect(field)
}

const LOST: &str = "reprise_port_link{port=\"2\",name=\"NAME\",state=\"lost\"}";

/// Twice removes port 2's interface under traffic and creates it again, and accounts for every frame.
fn removed_and_made_anew(kind: &str, options: &[&str]) {
    let switch = start(kind, options);
    let name = format!("{kind}b1");
    let lost = LOST.replace("NAME", &name);
    let link_down = format!(
        "reprise_port_transmit_drops_total{{port=\"2\",name=\"{name}\",reason=\"tx_link_down\"}}"
    );
    let traffic = Traffic::into("a0");
    assert!(receive(&mut outside("b0"), 50).len() >= 50, "it forwards");
    for times in 1..=2_u64 {
        let before = metric(&switch, &link_down);
        ip("link del b1");
        expect_warning(&switch, "port_lost", 2, "b1", json!({"lost_events": times}));
        wait_for_metric(&switch, &lost, |is_lost| is_lost == 1);
        wait_for_metric(&switch, &link_down, |dropped| dropped >= before + 20);
        veth_pair("b0", "b1");
        expect_warning(&switch, "port_rebound", 2, "b1", json!({}));
        assert!(
            receive(&mut outside("b0"), 50).len() >= 50,
            "it forwards again"
        );
        wait_for_metric(&switch, &lost, |is_lost| is_lost == 0);
    }
    let n_sent = traffic.stop() - lost_at_sender("a0");
    let received = "reprise_port_received_packets_total{port=\"1\",name=\"NAME\"}";
    let received = received.replace("NAME", &format!("{kind}a1"));
    wait_for_metric(&switch, &received, |n| n == n_sent);
    let totals = totals(switch);
    let [one, two] = [0, 1].map(|place| &totals["ports"][place]);
    assert_eq!(number(one, "rx_frames") + drops(one, "rx_"), n_sent);
    assert_eq!(number(one, "lost_events"), 0);
    assert_eq!(number(two, "lost_events"), 2);
    let gone = number(two, "tx_frames") + drops(two, "tx_");
    assert_eq!(gone, number(one, "rx_frames"), "{two}");
    let found = drops(two, "tx_");
    assert_eq!(
        found,
        number(two, "tx_link_down") + number(two, "tx_no_room"),
        "{two}"
    );
}

#[test]
fn an_interface_that_is_removed_and_made_anew_has_its_port_again() {
    in_namespace(|| {
        removed_and_made_anew("", &[]);
    });
}

#[test]
fn two_workers_lose_a_port_and_have_it_again() {
    in_namespace(|| {
        removed_and_made_anew("", &["--workers", "2"]);
    });
}

#[test]
fn a_switch_that_spins_loses_a_port_and_has_it_again() {
    in_namespace(|| {
        removed_and_made_anew("", &["--wait", "spin"]);
    });
}

#[test]
fn an_afxdp_port_is_lost_and_there_again() {
    in_root_namespace(|| {
        removed_and_made_anew("afxdp:", &[]);
    });
}

#[test]
fn the_port_that_receives_is_lost_and_there_again() {
    in_namespace(|| {
        let switch = start("", &[]);
        let mut receiver = outside("b0");
        for times in 1..=2 {
            send(&mut outside("a0"), (0..10).map(|n| numbered(n, 100)));
            assert_eq!(receive(&mut receiver, 10).len(), 10);
            ip("link del a0");
            let lost = event(&switch.wait_for_line(&["port_lost"]));
            assert_eq!(lost["port"], 1);
            assert_eq!(lost["lost_events"], times);
            veth_pair("a0", "a1");
            switch.wait_for_line(&["port_rebound"]);
        }
        let totals = totals(switch);
        assert_eq!(number(&totals["ports"][0], "rx_frames"), 20);
    });
}

/// Another network namespace, which exists as long as this value.
struct OtherNamespace(Child);

impl OtherNamespace {
    fn new() -> OtherNamespace {
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", "echo; exec sleep 600"]);
        let child = command.stdout(Stdio::piped()).spawn();
        let mut child = child.expect("unshare starts");
        let mut byte = [0];
        // The child has entered its namespace when it writes.
        let stdout = child.stdout.as_mut().expect("a pipe");
        stdout.read_exact(&mut byte).expect("a line");
        OtherNamespace(child)
    }

    fn ip(&self, arguments: &str) {
        let process = self.0.id().to_string();
        let status = Command::new("nsenter")
            .args(["--net", "--target", &process, "ip"])
            .args(arguments.split_whitespace())
            .status();
        assert!(status.expect("nsenter starts").success(), "{arguments}");
    }
}

impl Drop for OtherNamespace {
    fn drop(&mut self) {
        // Fails if the child has ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_interface_that_moves_to_another_namespace_and_back_has_its_port_again() {
    in_namespace(|| {
        let switch = start("", &[]);
        let (mut sender, mut receiver) = (outside("a0"), outside("b0"));
        let other = OtherNamespace::new();
        ip(&format!("link set b1 netns {}", other.0.id()));
        switch.wait_for_line(&["port_lost"]);
        send(&mut sender, (0..5).map(|n| numbered(n, 100)));
        wait_for_metric(
            &switch,
            "reprise_port_transmit_drops_total{port=\"2\",name=\"b1\",reason=\"tx_link_down\"}",
            |n| n == 5,
        );
        // The interface keeps its index, by which the switch recognises it.
        other.ip(&format!("link set b1 netns {}", std::process::id()));
        ip("link set b1 up");
        switch.wait_for_line(&["port_rebound"]);
        send(&mut sender, [numbered(9, 100)]);
        assert_eq!(receive(&mut receiver, 1), [numbered(9, 100)]);
        totals(switch);
    });
}

#[test]
fn an_interface_that_returns_unusable_is_reported_and_one_with_another_mtu_is_used() {
    in_namespace(|| {
        let switch = start("", &[]);
        ip("link set a0 mtu 9000");
        ip("link set a1 mtu 9000");
        let mut sender = outside("a0");
        send(&mut sender, [numbered(0, 8000)]);
        let too_long =
            "reprise_port_transmit_drops_total{port=\"2\",name=\"b1\",reason=\"tx_too_long\"}";
        wait_for_metric(&switch, too_long, |n| n == 1);
        ip("link del b1");
        switch.wait_for_line(&["port_lost"]);
        ip("tuntap add b1 mode tun");
        let reason = "interface \"b1\" carries no Ethernet frames: its hardware type is 65534, expected 1 (ARPHRD_ETHER)";
        expect_warning(&switch, "port_unusable", 2, "b1", json!({"reason": reason}));
        ip("link del b1");
        ip("link add b0 type veth peer name b1");
        ip("link set b0 mtu 9000 up");
        ip("link set b1 mtu 9000");
        let logged = event(&switch.wait_for_line(&["port_unusable"]));
        let reason = logged["reason"].as_str().expect("a text");
        assert_starts(reason, "interface \"b1\" is down: bring it up first");
        ip("link set b1 up");
        switch.wait_for_line(&["port_rebound"]);
        let mut receiver = outside("b0");
        send(&mut sender, [numbered(1, 8000)]);
        assert_eq!(receive(&mut receiver, 1), [numbered(1, 8000)]);
        assert_eq!(metric(&switch, too_long), 1);
        totals(switch);
    });
}

#[test]
fn links_that_go_down_and_up_are_reported_and_counted() {
    in_namespace(|| {
        let switch = start("", &["--workers", "2"]);
        let down = "reprise_port_link{port=\"2\",name=\"b1\",state=\"down\"}";
        // The interface b1 is down administratively at first, then because its other end is down.
        for (times, interface) in [(1, "b1"), (2, "b0")] {
            ip(&format!("link set {interface} down"));
            let more = json!({"link_down_events": times});
            expect_warning(&switch, "port_down", 2, "b1", more);
            assert_eq!(metric(&switch, down), 1);
            ip(&format!("link set {interface} up"));
            let more = json!({"link_up_events": times});
            expect_warning(&switch, "port_up", 2, "b1", more);
            assert_eq!(metric(&switch, down), 0);
        }
        let events = ["down", "up"].map(|what| {
            metric(
                &switch,
                &format!("reprise_port_link_{what}_events_total{{port=\"2\",name=\"b1\"}}"),
            )
        });
        assert_eq!(events, [2, 2]);
        let totals = totals(switch);
        let downs = [0, 1].map(|place| number(&totals["ports"][place], "link_down_events"));
        assert_eq!(downs, [0, 2]);
    });
}

#[test]
fn a_switch_ends_on_the_loss_of_a_port_if_told_to() {
    in_namespace(|| {
        let switch = start("", &["--exit-on-port-loss", "--log-level", "off"]);
        ip("link del b1");
        let (status, printed, said) = switch.end();
        let expected = "error: port 2@b1: its interface was removed (--exit-on-port-loss)";
        assert_eq!(said, expected);
        assert_eq!(status, Some(3));
        assert!(printed.contains("\"ports\""), "the totals: {printed}");
    });
}

#[test]
fn an_interface_with_an_address_is_warned_of_at_the_start_and_later() {
    in_namespace(|| {
        veth_pair("a0", "a1");
        veth_pair("b0", "b1");
        ip("address add 10.0.1.100/24 dev a1");
        let switch = start_on(["a1", "b1"].map(str::to_owned), &[]);
        let logged: Vec<Value> = switch.before.iter().map(|line| event(line)).collect();
        let first = json!({
            "level": "WARN", "event": "interface_has_address",
            "port": 1, "interface": "a1", "address": "10.0.1.100",
        });
        assert_eq!(logged, [first]);
        ip("address add 10.0.2.7/24 dev b1");
        let more = json!({"address": "10.0.2.7"});
        expect_warning(&switch, "interface_has_address", 2, "b1", more);
        totals(switch);
    });
}

#[test]
fn whoever_sends_at_the_switchs_end_of_a_cable_is_shown_the_other_once() {
    in_namespace(|| {
        veth_pair("a0", "a1");
        veth_pair("b0", "b1");
        let switch = start_on(["a1", "b1"].map(str::to_owned), &[]);
        let host = local_sender("a1");
        for _ in 0..3 {
            host.send(b"by the host").expect("sending");
        }
        expect_warning(&switch, "frame_sent_at_own_end", 1, "a1", json!({}));
        host.send(b"by the host").expect("sending");
        // The switch forwards between the other ends as before.
        let (mut one, mut two) = (outside("a0"), outside("b0"));
        send(&mut one, [numbered(1, 60)]);
        assert_eq!(receive(&mut two, 1), [numbered(1, 60)]);
        switch.signal("-TERM");
        let (_, _, later) = switch.end();
        assert!(!later.contains("frame_sent_at_own_end"), "{later}");
    });
}

fn wait_until_up(interface: &str) {
    let deadline = Instant::now() + TIMEOUT;
    while !run(&format!("ip -o link show {interface}")).contains("state UP") {
        assert!(Instant::now() < deadline, "{interface} does not come up");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until every thread is stopped: the signal stops one thread, which stops the others only when it runs.
fn wait_until_stopped(switch: &Running) {
    let tasks = format!("/proc/{}/task", switch.id());
    let is_stopped = |task: &std::path::Path| {
        // The file of a thread that has ended is gone.
        std::fs::read_to_string(task.join("stat")).map_or(true, |stat| {
            stat.rsplit_once(") ")
                .is_some_and(|(_, state)| state.starts_with('T'))
        })
    };
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let mut threads = std::fs::read_dir(&tasks).expect("procfs");
        if threads.all(|task| is_stopped(&task.expect("procfs").path())) {
            return;
        }
        assert!(Instant::now() < deadline, "the switch does not stop");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Stops the switch, lets `and` cause more events than the kernel's socket buffer holds, and continues the switch.
fn overrun(switch: &Running, and: impl FnOnce()) {
    switch.signal("-STOP");
    wait_until_stopped(switch);
    and();
    switch.signal("-CONT");
}

#[test]
fn news_that_the_kernel_could_not_keep_are_made_good_by_a_look_at_all() {
    in_namespace(|| {
        let switch = start("", &[]);
        veth_pair("c0", "c1");
        overrun(&switch, || {
            // The buffer holds the first event, but not the last.
            ip("link set b1 down");
            change_often("c0", 2_000);
            ip("link set b1 up");
            // After so many events the kernel reports with delay that b1 is up.
            wait_until_up("b1");
        });
        ip("link set a1 down");
        let logged = event(&switch.wait_for_line(&["port_"]));
        assert_eq!(logged["event"], "port_down");
        assert_eq!(logged["port"], 1);
        assert_eq!(
            metric(
                &switch,
                "reprise_port_link{port=\"2\",name=\"b1\",state=\"up\"}"
            ),
            1
        );
        overrun(&switch, || {
            change_often("c0", 2_000);
            ip("link del b1");
        });
        switch.wait_for_line(&["port_lost"]);
        totals(switch);
    });
}

fn limit_descriptors(switch: &Running, limit: &str) {
    let process = switch.id().to_string();
    let status = Command::new("prlimit")
        .args(["--pid", &process, &format!("--nofile={limit}")])
        .status();
    assert!(status.expect("util-linux").success());
}

#[test]
fn a_kernel_that_does_not_say_how_interfaces_are_is_asked_again() {
    in_namespace(|| {
        let switch = start("", &[]);
        veth_pair("c0", "c1");
        limit_descriptors(&switch, "3:4096");
        overrun(&switch, || change_often("c0", 2_000));
        let logged = event(&switch.wait_for_line(&["interfaces_unwatched"]));
        let expected = json!({
            "level": "ERROR", "event": "interfaces_unwatched",
            "error": "Too many open files (os error 24)",
        });
        assert_eq!(logged, expected);
        ip("link set b1 down");
        limit_descriptors(&switch, "4096:4096");
        let logged = event(&switch.wait_for_line(&["port_down"]));
        assert_eq!(logged["port"], 2);
        let logged = event(&switch.wait_for_line(&["interfaces_watched"]));
        assert_eq!(logged["level"], "WARN");
        ip("link set b1 up");
        switch.wait_for_line(&["port_up"]);
        totals(switch);
    });
}

#[test]
fn a_port_stays_on_an_interface_that_is_renamed() {
    in_namespace(|| {
        let switch = start("", &[]);
        // Kernels before 6.2 rename no interface that is up.
        ip("link set b1 down");
        switch.wait_for_line(&["port_down"]);
        ip("link set b1 name c1");
        expect_warning(&switch, "port_renamed", 2, "c1", json!({"before": "b1"}));
        ip("link set c1 up");
        let logged = event(&switch.wait_for_line(&["port_up"]));
        assert_eq!(logged["port"], 2);
        assert_eq!(logged["interface"], "c1");
        // Another interface gets the name that the port's interface had, but the port stays with its own interface.
        veth_pair("d0", "b1");
        ip("address add 10.0.2.7/24 dev c1");
        let logged = event(&switch.wait_for_line(&["interface_has_address"]));
        assert_eq!(logged["port"], 2);
        assert_eq!(logged["interface"], "c1");
        let mut receiver = outside("b0");
        send(&mut outside("a0"), [numbered(1, 100)]);
        assert_eq!(receive(&mut receiver, 1), [numbered(1, 100)]);
        // The port takes the new interface b1 once the port has lost its own interface.
        ip("link del c1");
        switch.wait_for_line(&["port_lost"]);
        switch.wait_for_line(&["port_rebound"]);
        let mut receiver = outside("d0");
        send(&mut outside("a0"), [numbered(2, 100)]);
        assert_eq!(receive(&mut receiver, 1), [numbered(2, 100)]);
        totals(switch);
    });
}

#[test]
fn queues_that_an_afxdp_port_does_not_serve_are_reported() {
    in_root_namespace(|| {
        veth_pair("b0", "b1");
        veth_pair_with_queues("a0", "a1", 2);
        set_queues("a0", 1);
        set_queues("a1", 1);
        let switch = start_on(["afxdp:a1", "b1"].map(str::to_owned), &[]);
        let unserved = "reprise_port_unserved_queues{port=\"1\",name=\"afxdp:a1\"}";
        let assert_logged = |queues: u32| {
            let more = json!({"queues": queues, "served": 1});
            expect_warning(&switch, "port_queues", 1, "a1", more);
        };
        assert_eq!(
            (metric(&switch, unserved), http_get(&switch, "/readyz").0),
            (0, 200)
        );
        set_queues("a1", 2);
        assert_logged(2);
        assert_eq!(metric(&switch, unserved), 1);
        let lacks = "port 1@afxdp:a1 does not serve 1 of its interface's receive queues\n";
        assert_eq!(http_get(&switch, "/readyz"), (503, lacks.to_owned()));
        set_queues("a1", 1);
        assert_logged(1);
        assert_eq!(
            (metric(&switch, unserved), http_get(&switch, "/readyz").0),
            (0, 200)
        );
        totals(switch);
    });
}
