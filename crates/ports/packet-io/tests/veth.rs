//! AF_PACKET ports on real veth pairs.

#![expect(
    unsafe_code,
    reason = "UDP_SEGMENT has no safe form in the standard library"
)]

use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use packet_io::{
    AfPacketConfig, AfPacketPort, Link, LinkEvent, LinkMonitor, Port, PortError, Waiter, WayOut,
    other_end,
};
use testkit::frames::{
    assert_the_first_frame_waits_for_no_other, local_sender, numbered, receive, send,
};
use testkit::namespace::{change_often, in_namespace, ip, take_carrier, tc, veth_pair};

fn open(name: &str) -> AfPacketPort {
    AfPacketPort::open(name, AfPacketConfig::default()).expect("an interface that is up and free")
}

fn open_error(name: &str) -> PortError {
    let result = AfPacketPort::open(name, AfPacketConfig::default());
    result.err().expect("an interface that cannot be opened")
}

/// Runs a test in a network namespace where v0 and v1 are a cable's ends.
fn with_cable(test: impl FnOnce()) {
    in_namespace(|| {
        veth_pair("v0", "v1");
        test();
    });
}

/// Like [`with_cable`], with ports at both ends.
fn on_cable(test: impl FnOnce(AfPacketPort, AfPacketPort)) {
    with_cable(|| test(open("v0"), open("v1")));
}

/// Returns the one's complement sum over pseudo-header and UDP datagram: 0xffff if the checksum is right (RFC 768). The
/// test computes the sum itself, so that it shares no code with the port.
fn udp_sum(addresses: &[u8], datagram: &[u8]) -> u32 {
    let mut bytes = addresses.to_vec();
    bytes.extend((datagram.len() as u32).to_be_bytes());
    bytes.extend([0, 17]);
    bytes.extend(datagram);
    if bytes.len() % 2 == 1 {
        bytes.push(0);
    }
    let mut sum = 0;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) * 256 + u32::from(pair[1]);
        if sum > 0xffff {
            sum -= 0xffff;
        }
    }
    sum
}

#[test]
fn frames_come_whole_and_in_order_of_sending() {
    on_cable(|mut one, mut other| {
        let sent: Vec<_> = (0..500).map(|n| numbered(n, 60 + n as usize)).collect();
        send(&mut one, sent.clone());
        let received = receive(&mut other, sent.len());
        assert!(
            received == sent,
            "{} frames came, or not as they were sent",
            received.len()
        );
        let (out, into) = (one.statistics(), other.statistics());
        assert_eq!((out.tx_frames, into.rx_frames), (500, 500));
        assert_eq!(out.tx_bytes, into.rx_bytes);
        assert_eq!(out.rx_frames, 0);
        assert_eq!(out.tx_dropped(), 0);
        assert_eq!(into.rx_dropped(), 0);
    });
}

#[test]
fn the_first_frame_after_a_pause_waits_for_no_other() {
    on_cable(|mut outside, mut port| {
        assert_the_first_frame_waits_for_no_other(&mut outside, &mut port);
    });
}

#[test]
fn copies_that_share_a_payload_leave_whole_also_when_it_changes() {
    on_cable(|mut outside, mut port| {
        let mut payload = [0; 1358];
        let mut sent = Vec::new();
        for number in 0..200 {
            let head = &numbered(number, 42);
            // After every ten copies another packet's payload uses the same memory.
            payload[1357] = (number / 10) as u8;
            // Some copies have a shorter payload, and one of six has none.
            let len = [1358, 1358, 1358, 700, 100, 0][number as usize % 6];
            port.transmit(0, [head, &payload[..len]].into())
                .expect("queueing");
            sent.push([head, &payload[..len]].concat());
        }
        port.flush().expect("sending");
        assert!(receive(&mut outside, sent.len()) == sent);
    });
}

/// Opens a port that also receives the frames that other programs on this host send out by the interface.
fn open_both_ways(name: &str, way_out: WayOut) -> AfPacketPort {
    let config = AfPacketConfig {
        way_out,
        takes_outgoing: true,
        ..AfPacketConfig::default()
    };
    AfPacketPort::open(name, config).expect("an interface that is up and free")
}

#[test]
fn a_port_that_takes_outgoing_frames_receives_the_hosts_and_not_its_own() {
    with_cable(|| {
        veth_pair("w0", "w1");
        let host = local_sender("v0");
        for way_out in [WayOut::Discipline, WayOut::Driver] {
            let (mut one, mut other) = (open_both_ways("v0", way_out), open("v1"));
            let sent: Vec<_> = [60, 13, 1514, 1600, 61].map(|len| numbered(7, len)).into();
            send(&mut one, sent);
            host.send(b"by the host").expect("sending");
            send(&mut other, [numbered(2, 60)]);
            let left: Vec<usize> = receive(&mut other, 4).iter().map(Vec::len).collect();
            assert_eq!(left, [60, 1514, 61, 53], "{way_out:?}");
            let taken = receive(&mut one, 2);
            assert_eq!(taken[1], numbered(2, 60));
            // The first frame is the host's datagram. The port has finished its checksum.
            assert_eq!(&taken[0][42..], b"by the host");
            assert_eq!(udp_sum(&taken[0][26..34], &taken[0][34..]), 0xffff);
            assert_eq!(one.receive(0, 9, &mut |_| ()).expect("receiving"), 0);
            let statistics = one.statistics();
            assert_eq!((statistics.rx_frames, statistics.tx_frames), (2, 3));
            assert_eq!((statistics.tx_bytes, statistics.rx_dropped()), (1635, 0));
            assert_eq!((statistics.tx_too_long, statistics.tx_too_short), (1, 1));
        }
    });
}

#[test]
fn the_first_frame_that_the_host_sends_by_a_ports_end_is_reported_and_no_other() {
    with_cable(|| {
        let host = local_sender("v0");
        for n_ports in [1, 3] {
            let config = AfPacketConfig::default();
            let mut ports = AfPacketPort::open_shared("v0", config, n_ports).expect("ports");
            let mut outside = open("v1");
            let n_notified = Arc::new(AtomicUsize::new(0));
            for port in &mut ports {
                let n_notified = Arc::clone(&n_notified);
                port.on_first_outgoing(move || {
                    n_notified.fetch_add(1, Ordering::Relaxed);
                });
            }
            // Announcements to multicast groups do not count.
            let multicast = UdpSocket::bind("10.9.0.1:0").expect("a socket");
            multicast
                .send_to(b"all", "224.0.0.251:5353")
                .expect("sending");
            // The frame did leave: it has arrived at the other end.
            assert_eq!(receive(&mut outside, 1).len(), 1);
            let mut taken = 0;
            let mut look = |ports: &mut [AfPacketPort]| {
                for port in ports {
                    taken += port.receive(0, 9, &mut |_| ()).expect("receiving");
                }
            };
            look(&mut ports);
            assert_eq!(n_notified.load(Ordering::Relaxed), 0);
            for _ in 0..3 {
                host.send(b"by the host").expect("sending");
                assert_eq!(receive(&mut outside, 1).len(), 1);
                look(&mut ports);
            }
            assert_eq!(
                (n_notified.load(Ordering::Relaxed), taken),
                (1, 0),
                "{n_ports}"
            );
        }
    });
}

#[test]
fn a_cables_other_end_has_a_name_in_the_same_namespace() {
    const LOOPBACK: i32 = 1;
    with_cable(|| {
        let number = |name: &str| open(name).interface_index().expect("a number");
        assert_eq!(other_end(number("v0")).as_deref(), Some("v1"));
        assert_eq!(other_end(number("v1")).as_deref(), Some("v0"));
        assert_eq!(other_end(LOOPBACK), None);
        assert_eq!(other_end(i32::MAX), None);
    });
}

#[test]
fn a_port_does_not_receive_what_leaves_its_interface() {
    with_cable(|| {
        let socket = local_sender("v0");
        let (mut one, mut other) = (open("v0"), open("v1"));
        send(&mut one, [numbered(1, 60)]);
        socket.send(b"by the host").expect("sending");
        send(&mut other, [numbered(2, 60)]);
        assert_eq!(receive(&mut other, 2).len(), 2);
        assert_eq!(receive(&mut one, 1), [numbered(2, 60)]);
        assert_eq!(one.receive(0, 9, &mut |_| ()).expect("receiving"), 0);
        assert_eq!(one.statistics().rx_frames, 1);
    });
}

#[test]
fn an_unfinished_udp_checksum_over_ipv4_is_finished() {
    with_cable(|| {
        let socket = local_sender("v0");
        let mut port = open("v1");
        for payload in [&b"four"[..], b"three", b"", &[0xff; 1400]] {
            socket.send(payload).expect("sending");
            let frames = receive(&mut port, 1);
            let frame = frames.first().expect("a frame");
            assert_eq!(frame[12..14], [0x08, 0x00]);
            assert_eq!(&frame[42..], payload);
            let found = udp_sum(&frame[26..34], &frame[34..]);
            assert_eq!(found, 0xffff, "{frame:02x?}");
        }
    });
}

#[test]
fn a_udp_checksum_that_comes_out_as_zero_is_sent_as_all_ones() {
    with_cable(|| {
        let socket = local_sender("v0");
        let mut port = open("v1");
        socket.send(&[0, 0]).expect("sending");
        let frame = receive(&mut port, 1).pop().expect("a frame");
        // The checksum as payload makes the sum all ones, whose complement is 0.
        socket.send(&frame[40..42]).expect("sending");
        let frame = receive(&mut port, 1).pop().expect("a frame");
        assert_eq!(frame[40..42], [0xff, 0xff]);
    });
}

#[test]
fn an_unfinished_udp_checksum_over_ipv6_is_finished() {
    with_cable(|| {
        std::fs::write("/proc/sys/net/ipv6/conf/v0/disable_ipv6", "0").expect("IPv6 turned on");
        ip("-6 addr add fd00::1/64 dev v0 nodad");
        ip("-6 neigh add fd00::2 lladdr 02:00:00:00:00:02 dev v0");
        let socket = UdpSocket::bind("[fd00::1]:4000").expect("a socket");
        let mut port = open("v1");
        socket
            .send_to(b"seven b", "[fd00::2]:5004")
            .expect("sending");
        // The kernel sends IPv6 neighbour discovery too.
        let is_ours = |frame: &Vec<u8>| frame.ends_with(b"seven b");
        let frame = std::iter::repeat_with(|| receive(&mut port, 1).pop().expect("a frame"))
            .find(is_ours)
            .expect("our frame");
        assert_eq!(frame[12..14], [0x86, 0xdd]);
        let found = udp_sum(&frame[22..54], &frame[54..]);
        assert_eq!(found, 0xffff, "{frame:02x?}");
    });
}

#[test]
fn the_vlan_tag_that_the_kernel_takes_out_is_put_back() {
    on_cable(|mut one, mut other| {
        let tagged = |tags: &[u8]| {
            let mut frame = numbered(7, 100);
            frame.splice(12..12, tags.iter().copied());
            frame
        };
        let sent = [
            tagged(&[0x81, 0x00, 0xe0, 0x05]),
            // The tag of VLAN 0: a tag of zeros is a tag too.
            tagged(&[0x81, 0x00, 0x00, 0x00]),
            tagged(&[0x81, 0x00, 0xa0, 0x00]),
            tagged(&[0x88, 0xa8, 0x00, 0x63]),
            tagged(&[0x88, 0xa8, 0x00, 0x63, 0x81, 0x00, 0x00, 0x00]),
            tagged(&[]),
        ];
        send(&mut one, sent.clone());
        assert_eq!(receive(&mut other, sent.len()), sent);
    });
}

#[test]
fn a_super_frame_is_cut_into_the_datagrams_it_stands_for() {
    with_cable(|| {
        let socket = local_sender("v0");
        let segment_bytes: libc::c_int = 400;
        // SAFETY: pointer and length describe an integer that lives through the call.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_UDP,
                libc::UDP_SEGMENT,
                (&raw const segment_bytes).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        assert_eq!(result, 0);
        let mut port = open("v1");
        // One payload fits a slot of the ring, the other comes through the socket's queue.
        for n_bytes in [900, 20_100] {
            let payload: Vec<u8> = (0..n_bytes).map(|n| (n % 251) as u8).collect();
            socket.send(&payload).expect("sending");
            let frames = receive(&mut port, payload.len().div_ceil(400));
            let lengths: Vec<usize> = frames.iter().map(|frame| frame.len() - 42).collect();
            let expected: Vec<usize> = payload.chunks(400).map(<[u8]>::len).collect();
            assert_eq!(lengths, expected);
            for frame in &frames {
                let found = udp_sum(&frame[26..34], &frame[34..]);
                assert_eq!(found, 0xffff, "{frame:02x?}");
            }
            let received: Vec<u8> = frames.into_iter().flat_map(|f| f[42..].to_vec()).collect();
            assert!(received == payload, "the payload is not what was sent");
        }
        assert_eq!(port.statistics().rx_dropped(), 0);
    });
}

#[test]
fn frames_of_an_mtu_of_9000_pass_also_if_it_was_raised_later() {
    on_cable(|mut one, mut early| {
        ip("link set v0 mtu 9000");
        ip("link set v1 mtu 9000");
        let sent = [
            numbered(1, 60),
            numbered(2, 9014),
            numbered(3, 60),
            numbered(4, 5000),
        ];
        send(&mut one, sent.clone());
        assert!(early.slot_frame_bytes() < 9014);
        assert_eq!(receive(&mut early, sent.len()), sent);
        drop(early);
        let mut late = open("v1");
        assert!(late.slot_frame_bytes() >= 9014 + 8);
        send(&mut one, sent.clone());
        assert_eq!(receive(&mut late, sent.len()), sent);
    });
}

#[test]
fn frames_that_the_kernel_drops_are_counted() {
    with_cable(|| {
        let config = AfPacketConfig {
            rx_ring_slots: 32,
            ..AfPacketConfig::default()
        };
        let mut small = AfPacketPort::open("v1", config).expect("a port");
        let mut one = open("v0");
        send(&mut one, (0..200).map(|n| numbered(n, 1000)));
        let received = receive(&mut small, 32);
        let first: Vec<_> = (0..32).map(|n| numbered(n, 1000)).collect();
        assert_eq!(received, first, "the oldest are kept");
        assert_eq!(small.statistics().rx_ring_full, 200 - 32);
        let found = small.statistics().rx_dropped();
        assert_eq!(found, 200 - 32, "counted once, not at every look");
        send(&mut one, [numbered(999, 60)]);
        assert_eq!(receive(&mut small, 1), [numbered(999, 60)]);
    });
}

/// Opens a port whose frames leave through a queueing discipline of 8 Mbit/s with a burst of one frame.
fn slow_port(name: &str) -> AfPacketPort {
    tc(&format!(
        "qdisc add dev {name} root tbf rate 8mbit burst 1600 limit 10mb"
    ));
    let config = AfPacketConfig {
        way_out: WayOut::Discipline,
        ..AfPacketConfig::default()
    };
    AfPacketPort::open(name, config).expect("a port")
}

/// Sends frames with consecutive numbers until the port is full. Returns the next number.
fn fill(port: &mut AfPacketPort, first: u32) -> u32 {
    let mut number = first;
    while !port.is_full() {
        assert!(
            number < first + 10_000,
            "10,000 frames of 1,000 bytes leave by 8 Mbit/s at once"
        );
        let frame = numbered(number, 1000);
        port.transmit(0, frame.as_slice().into()).expect("queueing");
        port.flush().expect("sending");
        number += 1;
    }
    number
}

#[test]
fn a_port_behind_a_slow_discipline_is_full_and_loses_nothing() {
    with_cable(|| {
        let (mut one, mut other) = (slow_port("v0"), open("v1"));
        let n_first = fill(&mut one, 0);
        assert!(one.has_unsent());
        let mut received = Vec::new();
        // Continue when the port has room again.
        while one.is_full() {
            received.extend(receive(&mut other, 1));
            one.flush().expect("sending");
        }
        let n_all = fill(&mut one, n_first);
        assert!(n_all > n_first);
        while one.is_full() {
            received.extend(receive(&mut other, 1));
            one.flush().expect("sending");
        }
        received.extend(receive(&mut other, n_all as usize - received.len()));
        let sent: Vec<_> = (0..n_all).map(|number| numbered(number, 1000)).collect();
        assert!(received == sent, "lost, or in another order");
        let statistics = one.statistics();
        assert_eq!(
            (statistics.tx_frames, statistics.tx_dropped()),
            (n_all.into(), 0)
        );
    });
}

#[test]
fn a_full_port_that_is_given_more_counts_what_it_has_no_place_for() {
    with_cable(|| {
        let mut one = slow_port("v0");
        let n_first = u64::from(fill(&mut one, 0));
        for number in 0..1000 {
            let frame = numbered(number, 1000);
            one.transmit(0, frame.as_slice().into()).expect("queueing");
        }
        let counted = one.statistics();
        assert!(counted.tx_no_room > 900, "{counted:?}");
        let rest = one.abandon();
        assert_eq!(rest.tx_frames + rest.tx_no_room, n_first + 1000);
        assert!(!one.has_unsent());
    });
}

#[test]
fn what_a_discipline_drops_is_counted() {
    with_cable(|| {
        tc("qdisc add dev v0 root tbf rate 800kbit burst 1600 limit 3000");
        let config = AfPacketConfig {
            way_out: WayOut::Discipline,
            ..AfPacketConfig::default()
        };
        let mut one = AfPacketPort::open("v0", config).expect("a port");
        send(&mut one, (0..20).map(|number| numbered(number, 1000)));
        let statistics = one.statistics();
        assert!(statistics.tx_no_room > 0, "{statistics:?}");
        assert_eq!(statistics.tx_frames + statistics.tx_no_room, 20);
        assert!(!one.is_full());
    });
}

#[test]
fn frames_that_cannot_be_sent_are_counted_and_the_others_go() {
    on_cable(|mut one, mut other| {
        let lengths = [60, 1600, 13, 0, 1514, 1519, 61];
        send(&mut one, lengths.map(|len| numbered(0, len)));
        let received: Vec<usize> = receive(&mut other, 3).iter().map(Vec::len).collect();
        assert_eq!(received, [60, 1514, 61]);
        let statistics = one.statistics();
        assert_eq!((statistics.tx_too_long, statistics.tx_too_short), (2, 2));
        assert_eq!((statistics.tx_frames, statistics.tx_dropped()), (3, 4));
    });
}

#[test]
fn what_cannot_leave_for_want_of_a_carrier_holds_nobody_up() {
    with_cable(|| {
        let mut one = open("v0");
        take_carrier("v0", "v1");
        let began = Instant::now();
        for _ in 0..50 {
            send(&mut one, (0..20).map(|n| numbered(n, 60)));
        }
        let statistics = one.statistics();
        assert_eq!(statistics.tx_link_down, 1000);
        assert_eq!(statistics.tx_dropped(), 1000);
        // Waiting for room, as with a full queue, would take 0.8 ms per frame.
        let elapsed = began.elapsed();
        assert!(elapsed < Duration::from_millis(400), "{elapsed:?}");
    });
}

#[test]
fn what_the_far_end_refuses_holds_nobody_up() {
    on_cable(|mut one, mut other| {
        // A veth refuses frames longer than its peer's MTU as if it had no room.
        ip("link set v1 mtu 500");
        let began = Instant::now();
        for k in 0..1000 {
            let frames = [numbered(k, 60), numbered(k, 1000), numbered(k, 1200)];
            send(&mut one, frames);
            assert_eq!(receive(&mut other, 1), [numbered(k, 60)]);
        }
        // Waiting for room, as with a full queue, would take 0.8 ms each time.
        let elapsed = began.elapsed();
        assert!(elapsed < Duration::from_millis(600), "{elapsed:?}");
        let statistics = one.statistics();
        assert_eq!((statistics.tx_frames, statistics.tx_no_room), (1000, 2000));
        // Once the peer's MTU is large enough again, long frames leave.
        ip("link set v1 mtu 1500");
        send(&mut one, [numbered(1, 1200)]);
        assert_eq!(receive(&mut other, 1), [numbered(1, 1200)]);
    });
}

#[test]
fn a_port_outlives_its_link_going_down() {
    on_cable(|mut one, mut other| {
        ip("link set v0 down");
        send(&mut one, [numbered(1, 60), numbered(2, 60)]);
        assert_eq!(one.statistics().tx_link_down, 2);
        let is_ready = |port: &AfPacketPort| {
            let mut waiter = Waiter::default();
            let fd = port.poll_fd().expect("a descriptor");
            waiter.wait([fd], Some(Duration::ZERO)).expect("waiting");
            waiter.is_ready(0)
        };
        assert!(is_ready(&one), "the loop is notified");
        assert_eq!(one.receive(0, 9, &mut |_| ()).expect("no error"), 0);
        assert!(!is_ready(&one), "and once only");
        ip("link set v0 up");
        send(&mut one, [numbered(3, 60)]);
        assert_eq!(receive(&mut other, 1), [numbered(3, 60)]);
        send(&mut other, [numbered(4, 60)]);
        assert_eq!(receive(&mut one, 1), [numbered(4, 60)]);
        ip("link del v0");
        send(&mut one, [numbered(5, 60)]);
        assert_eq!(one.statistics().tx_link_down, 3);
        assert_eq!(one.receive(0, 9, &mut |_| ()).expect("no error"), 0);
    });
}

#[test]
fn an_interface_is_one_switchs_at_a_time() {
    with_cable(|| {
        let holder = open("v0");
        let _another_interface = open("v1");
        assert!(matches!(open_error("v0"), PortError::InUse { .. }));
        assert!(
            open_error("v0")
                .to_string()
                .contains("interface \"v0\" is in use by another")
        );
        drop(holder);
        open("v0");
    });
}

#[test]
fn what_keeps_an_interface_from_being_opened_is_said() {
    with_cable(|| {
        ip("link set v0 down");
        let said = |name: &str| open_error(name).to_string();
        assert!(
            said("v0").contains("interface \"v0\" is down"),
            "{}",
            said("v0")
        );
        assert!(
            said("v9").contains("interface \"v9\" does not exist"),
            "{}",
            said("v9")
        );
        assert!(
            said("a234567890123456").contains("has 16 bytes"),
            "{}",
            said("a234567890123456")
        );
        assert!(said("").contains("Linux allows 1 to 15"), "{}", said(""));
        ip("tuntap add dev tun0 mode tun");
        assert!(
            said("tun0").contains("hardware type is 65534"),
            "{}",
            said("tun0")
        );
    });
}

/// The next test runs this test with fewer privileges and an environment variable. Without the variable this test does
/// nothing.
#[test]
fn without_privileges() {
    let Some(interface) = std::env::var_os("PACKET_IO_TEST_UNPRIVILEGED") else {
        return;
    };
    let error = open_error(&interface.to_string_lossy());
    assert!(matches!(error, PortError::NoPrivileges { .. }), "{error}");
    assert!(
        error.to_string().contains("CAP_NET_RAW is needed"),
        "{error}"
    );
}

#[test]
fn missing_privileges_are_said() {
    with_cable(|| {
        let output = Command::new("setpriv")
            .arg("--bounding-set=-net_raw")
            .arg(std::env::current_exe().expect("this test's binary"))
            .args(["--exact", "without_privileges"])
            .env("PACKET_IO_TEST_UNPRIVILEGED", "v0")
            .output()
            .expect("setpriv is installed");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.contains("1 passed"),
            "{said}"
        );
    });
}

#[test]
fn of_more_news_than_the_kernel_keeps_none_is_reported_but_that_some_is_lost() {
    with_cable(|| {
        let monitor = LinkMonitor::new().expect("rtnetlink");
        ip("link set v1 down");
        change_often("v0", 2_000);
        ip("link set v1 up");
        let receive = || monitor.receive().expect("rtnetlink");
        assert_eq!(receive(), None);
        assert_eq!(receive(), Some(Vec::new()), "nothing older comes behind");
        ip("link set v1 down");
        // The kernel has sent the event before `ip` ends.
        let events = receive().expect("no overrun");
        let is_it = |event: &LinkEvent| matches!(event, LinkEvent::Present(Link { name, is_up: false, .. }) if name == "v1");
        assert!(events.iter().any(is_it), "{events:?}");
    });
}
