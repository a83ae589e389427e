//! AF_XDP ports on real veth pairs. The kernel lets only root outside any user namespace load an XDP program, so these
//! tests make a network namespace without a user namespace.

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use etherparse::PacketBuilder;
use packet_io::{
    AfPacketConfig, AfPacketPort, AfXdpConfig, AfXdpPort, Destination, Frame, Port, PortError,
};
use testkit::frames::{
    TIMEOUT, assert_the_first_frame_waits_for_no_other, local_sender, numbered, receive, send,
};
use testkit::namespace::{
    has_xdp_program, in_namespace, in_root_namespace, ip, run, take_carrier, veth_pair,
    veth_pair_with_queues,
};

fn open(name: &str) -> AfXdpPort {
    AfXdpPort::open(name, &AfXdpConfig::default()).expect("an interface that is up and free")
}

fn open_packet(name: &str) -> AfPacketPort {
    AfPacketPort::open(name, AfPacketConfig::default()).expect("an interface that is up and free")
}

fn open_error(name: &str) -> PortError {
    let result = AfXdpPort::open(name, &AfXdpConfig::default());
    result.err().expect("an interface that cannot be opened")
}

/// Runs a test with an AF_PACKET port on v0 and an AF_XDP port on v1, the ends of a cable.
fn on_cable(test: impl FnOnce(AfPacketPort, AfXdpPort)) {
    in_root_namespace(|| {
        veth_pair("v0", "v1");
        test(open_packet("v0"), open("v1"));
    });
}

#[test]
fn frames_pass_between_xdp_and_packet_sockets_whole_and_in_order() {
    on_cable(|mut outside, mut port| {
        assert_eq!(port.mode().to_string(), "XDP native, copy, 1 queue");
        // More frames than the ring has chunks, in both directions.
        for round in 0..10 {
            let sent: Vec<_> = (0..500)
                .map(|n| numbered(round * 500 + n, 60 + n as usize))
                .collect();
            for batch in sent.chunks(100) {
                send(&mut outside, batch.to_vec());
                assert!(receive(&mut port, batch.len()) == batch, "into the port");
                send(&mut port, batch.to_vec());
                assert!(
                    receive(&mut outside, batch.len()) == batch,
                    "out of the port"
                );
            }
        }
        let statistics = port.statistics();
        assert_eq!((statistics.rx_frames, statistics.tx_frames), (5000, 5000));
        assert_eq!(statistics.rx_bytes, statistics.tx_bytes);
        assert_eq!((statistics.rx_dropped(), statistics.tx_dropped()), (0, 0));
    });
}

#[test]
fn the_first_frame_after_a_pause_waits_for_no_other() {
    on_cable(|mut outside, mut port| {
        assert_the_first_frame_waits_for_no_other(&mut outside, &mut port);
    });
}

#[test]
fn an_unfinished_checksum_of_a_local_sender_is_finished() {
    in_root_namespace(|| {
        veth_pair("v0", "v1");
        std::fs::write("/proc/sys/net/ipv6/conf/v0/disable_ipv6", "0").expect("IPv6 turned on");
        ip("-6 addr add fd00::1/64 dev v0 nodad");
        ip("-6 neigh add fd00::2 lladdr 02:00:00:00:00:02 dev v0");
        let v4 = local_sender("v0");
        let v6 = UdpSocket::bind("[fd00::1]:4000").expect("a socket");
        v6.connect("[fd00::2]:5004").expect("a peer");
        let mut port = open("v1");
        for payload in [&b"four"[..], b"three", b"", &[0xff; 1400], &[0, 0]] {
            for socket in [&v4, &v6] {
                socket.send(payload).expect("sending");
                // The kernel sends IPv6 neighbour discovery too.
                let frames =
                    std::iter::repeat_with(|| receive(&mut port, 1).pop().expect("a frame"));
                let is_udp = |frame: &Vec<u8>| match frame[12..14] {
                    [0x08, 0x00] => frame[23] == 17,
                    _ => frame[20] == 17,
                };
                let frame = frames.into_iter().find(is_udp).expect("a frame");
                let parsed =
                    etherparse::PacketHeaders::from_ethernet_slice(&frame).expect("a frame");
                let udp = parsed
                    .transport
                    .clone()
                    .and_then(|transport| transport.udp());
                let udp = udp.expect("a datagram");
                let expected = match parsed.net.expect("IP") {
                    etherparse::NetHeaders::Ipv4(ip, _) => udp.calc_checksum_ipv4(&ip, payload),
                    etherparse::NetHeaders::Ipv6(ip, _) => udp.calc_checksum_ipv6(&ip, payload),
                    other => unreachable!("{other:?}"),
                };
                assert_eq!(Ok(udp.checksum), expected, "{frame:02x?}");
                assert!(frame.ends_with(payload));
            }
        }
    });
}

#[test]
fn where_the_driver_runs_no_programs_the_kernel_does() {
    in_root_namespace(|| {
        ip("link set lo up");
        let mut port = open("lo");
        assert_eq!(port.mode().to_string(), "XDP generic, copy, 1 queue");
        let sender = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        for payload in [&b"odd"[..], &[7; 1400]] {
            sender.send_to(payload, "127.0.0.1:5004").expect("sending");
            let frame = receive(&mut port, 1).pop().expect("a frame");
            let parsed = etherparse::PacketHeaders::from_ethernet_slice(&frame).expect("a frame");
            let udp = parsed.transport.and_then(|transport| transport.udp());
            let udp = udp.expect("a datagram");
            let Some(etherparse::NetHeaders::Ipv4(ip, _)) = parsed.net else {
                unreachable!("IPv4 was sent");
            };
            assert_eq!(Ok(udp.checksum), udp.calc_checksum_ipv4(&ip, payload));
        }
        // Sent frames come back, as on every loopback.
        send(&mut port, [numbered(1, 60), numbered(2, 1400)]);
        assert_eq!(receive(&mut port, 2), [numbered(1, 60), numbered(2, 1400)]);
    });
}

/// Returns a UDP frame to an address, which is given as text, and a port.
fn datagram(to: &str, port: u16) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let builder = match to.parse().expect("an address") {
        std::net::IpAddr::V4(to) => builder.ipv4([10, 9, 0, 1], to.octets(), 64),
        std::net::IpAddr::V6(to) => builder.ipv6([0xfd; 16], to.octets(), 64),
    };
    let mut frame = Vec::new();
    builder
        .udp(4000, port)
        .write(&mut frame, b"payload")
        .expect("a frame");
    frame
}

#[test]
fn only_what_is_for_the_switch_is_taken_and_the_rest_goes_to_the_kernel() {
    in_root_namespace(|| {
        veth_pair("v0", "v1");
        ip("link set v1 address 02:00:00:00:00:02");
        ip("addr add 10.9.0.2/24 dev v1");
        let host = UdpSocket::bind("10.9.0.2:6000").expect("a socket");
        host.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        let destination = |address: &str, udp_port| Destination {
            address: address.parse().expect("an address"),
            udp_port,
        };
        let config = AfXdpConfig {
            destinations: vec![
                destination("10.9.0.2", Some(5004)),
                destination("10.9.0.200", None),
                destination("fd00::2", Some(5004)),
                destination("fd00::3", None),
                destination("10.9.0.2", Some(5006)),
            ],
            ..AfXdpConfig::default()
        };
        let mut port = AfXdpPort::open("v1", &config).expect("a port");
        let mut outside = open_packet("v0");
        let mut with_options = datagram("10.9.0.2", 5004);
        with_options.splice(34..34, [1; 8]);
        with_options[14] = 0x47;
        let mut later_fragment = datagram("10.9.0.2", 5004);
        later_fragment[21] = 5;
        let mut tcp = datagram("10.9.0.2", 5004);
        tcp[23] = 6;
        let mut tcp_to_any = datagram("10.9.0.200", 1);
        tcp_to_any[23] = 6;
        let ours = [
            datagram("10.9.0.2", 5004),
            with_options,
            datagram("10.9.0.200", 7),
            tcp_to_any,
            datagram("fd00::2", 5004),
            datagram("fd00::3", 9),
            datagram("10.9.0.2", 5006),
        ];
        let not_ours = [
            numbered(1, 60),
            numbered(2, 14),
            datagram("10.9.0.2", 5005),
            datagram("10.9.0.3", 5004),
            datagram("fd00::2", 5005),
            datagram("fd00::4", 5004),
            later_fragment,
            tcp,
            datagram("10.9.0.2", 6000),
        ];
        for (ours, not_ours) in ours.iter().zip(&not_ours) {
            send(&mut outside, [not_ours.clone(), ours.clone()]);
        }
        send(&mut outside, not_ours[ours.len()..].to_vec());
        assert_eq!(receive(&mut port, ours.len()), ours);
        let mut buffer = [0; 64];
        let (n_bytes, from) = host.recv_from(&mut buffer).expect("the host's datagram");
        assert_eq!(
            (&buffer[..n_bytes], from.to_string()),
            (&b"payload"[..], "10.9.0.1:4000".to_owned())
        );
        assert_eq!(port.receive(0, 9, &mut |_| ()).expect("receiving"), 0);
    });
}

#[test]
fn too_many_destinations_are_refused() {
    in_root_namespace(|| {
        veth_pair("v0", "v1");
        let destination = Destination {
            address: [10, 0, 0, 1].into(),
            udp_port: Some(1),
        };
        let with = |n_destinations| AfXdpConfig {
            destinations: vec![destination; n_destinations],
            ..AfXdpConfig::default()
        };
        let error = AfXdpPort::open("v1", &with(17)).err().expect("an error");
        assert!(error.to_string().contains("17 destinations"), "{error}");
        AfXdpPort::open("v1", &with(16)).expect("a port");
    });
}

#[test]
fn frames_of_an_mtu_of_9000_pass() {
    in_root_namespace(|| {
        veth_pair("v0", "v1");
        ip("link set v0 mtu 9000");
        ip("link set v1 mtu 9000");
        let (mut outside, mut port) = (open_packet("v0"), open("v1"));
        let sent: Vec<_> = [60, 9014, 3840, 3841, 4096, 4097, 8192, 8193, 14]
            .into_iter()
            .zip(0..)
            .map(|(len, n)| numbered(n, len).split_at(len).0.to_vec())
            .collect();
        for _ in 0..3 {
            send(&mut outside, sent.clone());
            assert!(receive(&mut port, sent.len()) == sent, "into the port");
            send(&mut port, sent.clone());
            assert!(receive(&mut outside, sent.len()) == sent, "out of the port");
        }
        send(&mut port, [numbered(1, 9015)]);
        assert_eq!(port.statistics().tx_too_long, 1);
        assert_eq!(port.statistics().rx_dropped(), 0);
    });
}

#[test]
fn frames_that_the_kernel_has_no_chunk_for_are_counted() {
    in_root_namespace(|| {
        veth_pair("v0", "v1");
        let config = AfXdpConfig {
            rx_ring_slots: 32,
            ..AfXdpConfig::default()
        };
        let mut small = AfXdpPort::open("v1", &config).expect("a port");
        let mut outside = open_packet("v0");
        send(&mut outside, (0..200).map(|n| numbered(n, 1000)));
        let first: Vec<_> = (0..32).map(|n| numbered(n, 1000)).collect();
        assert_eq!(receive(&mut small, 32), first, "the oldest are kept");
        let statistics = small.statistics();
        assert_eq!(statistics.rx_no_buffer, 168);
        assert_eq!(statistics.rx_dropped(), 168);
        send(&mut outside, [numbered(999, 60)]);
        assert_eq!(receive(&mut small, 1), [numbered(999, 60)]);
    });
}

#[test]
fn frames_that_cannot_be_sent_are_counted_and_the_others_go() {
    on_cable(|mut outside, mut port| {
        let tagged = |len: usize| {
            let mut frame = numbered(0, len - 4);
            frame.splice(12..12, [0x81, 0x00, 0, 5]);
            frame
        };
        let mut frames: Vec<_> = [60, 1600, 13, 0, 1514, 1515, 61]
            .map(|len| numbered(0, len.max(18))[..len].to_vec())
            .into();
        frames.extend([tagged(1518), tagged(1519)]);
        send(&mut port, frames);
        let received: Vec<usize> = receive(&mut outside, 4).iter().map(Vec::len).collect();
        assert_eq!(received, [60, 1514, 61, 1518]);
        let statistics = port.statistics();
        assert_eq!((statistics.tx_too_long, statistics.tx_too_short), (3, 2));
        assert_eq!((statistics.tx_frames, statistics.tx_dropped()), (4, 5));
    });
}

#[test]
fn a_burst_larger_than_all_chunks_leaves_whole() {
    in_root_namespace(|| {
        veth_pair("v0", "v1");
        let (mut port, n_frames) = (open("v1"), 3 * packet_io::limits::XDP_TX_CHUNKS as u64);
        // Nobody takes the frames at the other end, where the kernel drops them.
        for n in 0..n_frames {
            port.transmit(0, numbered(n as u32, 1400).as_slice().into())
                .expect("queueing");
        }
        port.flush().expect("sending");
        let statistics = port.statistics();
        assert_eq!(statistics.tx_frames + statistics.tx_no_room, n_frames);
        assert_eq!(statistics.tx_dropped(), statistics.tx_no_room);
        assert!(statistics.tx_frames > n_frames / 2, "{statistics:?}");
        let at_the_peer = std::fs::read_to_string("/proc/net/dev").expect("the counters");
        let line = at_the_peer
            .lines()
            .find(|line| line.trim().starts_with("v0:"));
        let counts = line
            .and_then(|line| line.split_once(':'))
            .expect("the peer's line")
            .1;
        let counts: Vec<u64> = counts
            .split_whitespace()
            .map(|word| word.parse().expect("a count"))
            .collect();
        assert_eq!(counts[1], statistics.tx_frames, "frames at the peer");
    });
}

/// Sends more copies than can share a payload at once, more payloads than the port can share at once, frames with two
/// alternating payloads, and frames whose payload uses the memory of an earlier payload.
#[test]
fn frames_that_share_payloads_leave_whole_and_in_order() {
    on_cable(|mut outside, mut port| {
        let mut payload_id = 0;
        for (n_payloads, n_copies, payload_bytes, is_interleaved) in [
            (1, 200, 1400, false),
            (40, 3, 1000, false),
            (2, 50, 1458, true),
            (30, 70, 1, false),
            (5, 9, 0, false),
        ] {
            let payloads: Vec<Vec<u8>> = (0..n_payloads)
                .map(|number| vec![number as u8 ^ payload_bytes as u8; payload_bytes])
                .collect();
            let mut order: Vec<(usize, usize)> = (0..n_payloads)
                .flat_map(|payload| (0..n_copies).map(move |copy| (payload, copy)))
                .collect();
            if is_interleaved {
                order.sort_by_key(|&(payload, copy)| (copy, payload));
            }
            let mut expected = Vec::new();
            for (payload, copy) in order {
                let head = numbered(copy as u32, 18 + copy % 25);
                let payload_bytes = &payloads[payload];
                let frame = Frame {
                    head: &head,
                    payload: payload_bytes,
                    payload_id: payload_id + 1 + payload as u64,
                };
                expected.push([head.as_slice(), payload_bytes].concat());
                port.transmit(0, frame).expect("queueing");
            }
            payload_id += n_payloads as u64;
            port.flush().expect("sending");
            assert_eq!(port.statistics().tx_dropped(), 0);
            let received = receive(&mut outside, expected.len());
            assert!(
                received == expected,
                "{n_payloads} payloads, {n_copies} copies"
            );
        }
    });
}

#[test]
fn what_cannot_leave_for_want_of_a_carrier_is_counted_so() {
    in_root_namespace(|| {
        veth_pair("v0", "v1");
        let mut port = open("v1");
        take_carrier("v1", "v0");
        let began = Instant::now();
        for _ in 0..50 {
            send(&mut port, (0..20).map(|n| numbered(n, 60)));
        }
        let statistics = port.statistics();
        assert_eq!(statistics.tx_link_down, 1000);
        assert_eq!(statistics.tx_dropped(), 1000);
        assert_eq!(statistics.tx_frames, 0);
        let elapsed = began.elapsed();
        assert!(elapsed < Duration::from_millis(400), "{elapsed:?}");
    });
}

#[test]
fn a_port_outlives_its_link_going_down() {
    on_cable(|mut outside, mut port| {
        ip("link set v1 down");
        send(&mut port, [numbered(1, 60)]);
        send(&mut port, [numbered(2, 60), numbered(3, 60)]);
        assert_eq!(port.statistics().tx_link_down, 2);
        ip("link set v1 up");
        // Now the frame that was published to the kernel earlier leaves.
        send(&mut port, []);
        send(&mut port, [numbered(4, 60)]);
        assert_eq!(receive(&mut outside, 2), [numbered(1, 60), numbered(4, 60)]);
        send(&mut outside, [numbered(5, 60)]);
        assert_eq!(receive(&mut port, 1), [numbered(5, 60)]);
        ip("link del v0");
        send(&mut port, [numbered(6, 60)]);
        send(&mut port, [numbered(7, 60)]);
        assert!(port.statistics().tx_link_down >= 3);
        assert_eq!(port.receive(0, 9, &mut |_| ()).expect("no error"), 0);
    });
}

#[test]
fn an_interface_is_one_switchs_at_a_time_and_free_again_at_once() {
    in_root_namespace(|| {
        veth_pair("v0", "v1");
        for _ in 0..5 {
            let holder = open("v1");
            assert!(has_xdp_program("v1"));
            assert!(matches!(open_error("v1"), PortError::InUse { .. }));
            let packet = AfPacketPort::open("v1", AfPacketConfig::default());
            assert!(matches!(packet, Err(PortError::InUse { .. })));
            drop(holder);
            assert!(!has_xdp_program("v1"));
        }
        open_packet("v1");
    });
}

#[test]
fn several_queues_are_one_port_or_one_each() {
    in_root_namespace(|| {
        veth_pair("v8", "v9");
        veth_pair_with_queues("v0", "v1", 2);
        let (mut outside, mut port) = (open_packet("v0"), open("v1"));
        assert_eq!(port.mode().n_queues, 2);
        // The core on which the sender runs decides which queue gets a frame, so the test tries both cores.
        for core in ["0", "1"] {
            run(&format!("taskset -pc {core} {}", std::process::id()));
            let sent: Vec<_> = (0..100).map(|n| numbered(n, 200)).collect();
            send(&mut outside, sent.clone());
            let mut received = receive(&mut port, sent.len());
            received.sort_unstable();
            assert_eq!(received, sent);
        }
        drop(port);
        let ports = AfXdpPort::open_queues("v1", &AfXdpConfig::default()).expect("two ports");
        assert_eq!(ports.len(), 2);
        for mut port in ports {
            send(&mut port, [numbered(1, 60)]);
            assert_eq!(receive(&mut outside, 1), [numbered(1, 60)]);
            assert!(has_xdp_program("v1"), "as long as one of them lives");
        }
        assert!(!has_xdp_program("v1"));
    });
}

/// The next test runs this test in a process of its own, with an environment variable. Without the variable this test
/// does nothing.
#[test]
fn holds_a_port_until_killed() {
    if std::env::var_os("PACKET_IO_TEST_HOLD").is_none() {
        return;
    }
    let port = open("v1");
    println!("holding {}", port.name());
    std::thread::sleep(TIMEOUT * 4);
}

#[test]
fn a_killed_process_leaves_no_program_behind() {
    in_root_namespace(|| {
        veth_pair("v0", "v1");
        let mut child = Command::new(std::env::current_exe().expect("this test's binary"))
            .args(["--exact", "holds_a_port_until_killed", "--nocapture"])
            .env("PACKET_IO_TEST_HOLD", "1")
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let said = BufReader::new(child.stdout.take().expect("its output")).lines();
        let is_holding = said
            .map_while(Result::ok)
            .any(|line| line.contains("holding v1"));
        assert!(is_holding && has_xdp_program("v1"));
        child.kill().expect("killing");
        child.wait().expect("its end");
        let start = Instant::now();
        while has_xdp_program("v1") {
            assert!(start.elapsed() < TIMEOUT, "the program is still there");
            std::thread::yield_now();
        }
        // The queue and the interface are free again.
        drop(open("v1"));
    });
}

#[test]
fn memory_stays_flat() {
    on_cable(|mut outside, mut port| {
        let resident_pages = || {
            let statm = std::fs::read_to_string("/proc/self/statm").expect("the process's memory");
            let words: Vec<u64> = statm
                .split(' ')
                .map_while(|word| word.parse().ok())
                .collect();
            words[1]
        };
        let frame = numbered(7, 1400);
        let mut round = || {
            for _ in 0..100 {
                for _ in 0..32 {
                    outside
                        .transmit(0, frame.as_slice().into())
                        .expect("queueing");
                }
                outside.flush().expect("sending");
                let mut n_frames = 0;
                while n_frames < 32 {
                    let n = port.receive(0, 64, &mut |_| ()).expect("receiving");
                    n_frames += n;
                }
                for _ in 0..32 {
                    port.transmit(0, [&frame[..42], &frame[42..]].into())
                        .expect("queueing");
                }
                port.flush().expect("sending");
                n_frames = 0;
                while n_frames < 32 {
                    n_frames += outside.receive(0, 64, &mut |_| ()).expect("receiving");
                }
            }
        };
        // Two rounds use every ring completely, so all pages of the rings are resident afterwards.
        round();
        round();
        let before = resident_pages();
        for _ in 0..15 {
            round();
        }
        let after = resident_pages();
        assert!(after <= before + 16, "{before} pages became {after}");
    });
}

#[test]
fn what_keeps_an_interface_from_being_opened_is_said() {
    in_root_namespace(|| {
        veth_pair("v0", "v1");
        ip("link set v0 down");
        let said = |name: &str| open_error(name).to_string();
        assert!(said("v0").contains("is down"), "{}", said("v0"));
        assert!(said("v9").contains("does not exist"), "{}", said("v9"));
        ip("tuntap add dev tun0 mode tun");
        assert!(said("tun0").contains("hardware type"), "{}", said("tun0"));
    });
}

#[test]
fn in_a_user_namespace_the_missing_privileges_are_said() {
    in_namespace(|| {
        veth_pair("v0", "v1");
        let error = open_error("v1");
        assert!(
            matches!(error, PortError::NoXdpPrivileges { .. }),
            "{error}"
        );
        assert!(
            error
                .to_string()
                .contains("CAP_BPF outside any user namespace"),
            "{error}"
        );
        // A packet socket can nevertheless be opened on v1.
        open_packet("v1");
    });
}
