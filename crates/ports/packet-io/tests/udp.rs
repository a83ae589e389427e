//! UDP ports, with ordinary sockets at the other end.

use std::{
    net::{SocketAddr, UdpSocket},
    process::Command,
    time::{Duration, Instant},
};

use etherparse::PacketBuilder;
use packet_io::{Port, PortError, UdpPort, mac_of};
use testkit::frames::{TIMEOUT, receive};
use testkit::namespace::{in_namespace, ip, veth_pair};
use testkit::text::assert_has;

fn open(address: &str) -> UdpPort {
    UdpPort::open(address.parse().expect("an address")).expect("an address that is free")
}

fn socket(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind(address).expect("an address that is free");
    socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    socket
}

/// A frame from and to these addresses.
fn frame(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2(mac_of(from.ip()), mac_of(to.ip()));
    let builder = match (from, to) {
        (SocketAddr::V4(from), SocketAddr::V4(to)) => {
            builder.ipv4(from.ip().octets(), to.ip().octets(), 64)
        }
        (SocketAddr::V6(from), SocketAddr::V6(to)) => {
            builder.ipv6(from.ip().octets(), to.ip().octets(), 64)
        }
        mixed => unreachable!("{mixed:?}"),
    };
    let mut frame = Vec::new();
    builder
        .udp(from.port(), to.port())
        .write(&mut frame, payload)
        .expect("a frame");
    frame
}

fn send(port: &mut UdpPort, frame: &[u8]) {
    port.transmit(0, [&frame[..20], &frame[20..]].into())
        .expect("queueing");
}

#[test]
fn a_datagram_becomes_the_frame_that_it_was_on_the_wire() {
    for host in ["127.0.0.1", "[::1]"] {
        let mut port = open(&format!("{host}:0"));
        let sender = socket(&format!("{host}:0"));
        assert_eq!(port.name(), format!("udp:{}", port.local_address()));
        let payloads = [&b"four"[..], b"odd", b"", &[0xff; 1400], &[7; 60_000]];
        for payload in payloads {
            sender
                .send_to(payload, port.local_address())
                .expect("sending");
            let expected = frame(
                sender.local_addr().expect("an address"),
                port.local_address(),
                payload,
            );
            let mut received = receive(&mut port, 1).pop().expect("a frame");
            if let [0x08, 0x00] = received[12..14] {
                // etherparse fills only the fragmentation fields, and so the header checksum, differently.
                assert_eq!(received[18..22], [0, 0, 0x40, 0]);
                received[18..22].copy_from_slice(&expected[18..22]);
                received[24..26].copy_from_slice(&expected[24..26]);
            }
            assert!(received == expected, "{:02x?}", &received[..62]);
        }
        assert_eq!(port.statistics().rx_dropped(), 0);
    }
}

#[test]
fn copies_go_to_the_address_and_port_of_their_headers() {
    for host in ["127.0.0.1", "[::1]"] {
        let mut port = open(&format!("{host}:0"));
        let viewers: Vec<UdpSocket> = (0..5).map(|_| socket(&format!("{host}:0"))).collect();
        // Send more datagrams than fit into one batch, so that the last batch is not full.
        for number in 0..200_u8 {
            let viewer = &viewers[usize::from(number) % viewers.len()];
            let to = viewer.local_addr().expect("an address");
            let frame = frame(port.local_address(), to, &[number; 50]);
            send(&mut port, &frame);
        }
        port.flush().expect("sending");
        let mut buffer = [0; 100];
        for number in 0..200_u8 {
            let viewer = &viewers[usize::from(number) % viewers.len()];
            let (n_bytes, from) = viewer.recv_from(&mut buffer).expect("a datagram");
            assert_eq!(buffer[..n_bytes], [number; 50]);
            assert_eq!(from, port.local_address());
        }
        let statistics = port.statistics();
        assert_eq!((statistics.tx_frames, statistics.tx_dropped()), (200, 0));
    }
}

/// Waits until the kernel accepts an IPv6 address as its own, which it does some time after `ip` has added the address.
fn wait_for_route_to(address: &str) {
    let is_local = || {
        let output = Command::new("ip")
            .args(["-6", "route", "get", address])
            .output();
        let output = output.expect("iproute2 is installed");
        String::from_utf8_lossy(&output.stdout).starts_with("local ")
    };
    let begin = Instant::now();
    while !is_local() {
        assert!(begin.elapsed() < TIMEOUT, "{address} is never local");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn without_an_address_of_its_own_it_uses_the_ones_that_it_is_spoken_to_at() {
    in_namespace(|| {
        ip("link set lo up");
        let mut port = open("0.0.0.0:5004");
        let viewer = socket("127.0.0.9:0");
        let viewers_address = viewer.local_addr().expect("an address");
        for address in ["127.0.0.1:5004", "127.0.0.2:5004"] {
            viewer.send_to(b"hello", address).expect("sending");
            let received = receive(&mut port, 1).pop().expect("a frame");
            let spoken_to: SocketAddr = address.parse().expect("an address");
            let SocketAddr::V4(v4) = spoken_to else {
                unreachable!("{spoken_to}");
            };
            assert_eq!(received[30..34], v4.ip().octets());
            assert_eq!(received[..6], mac_of(spoken_to.ip()));
            send(&mut port, &frame(spoken_to, viewers_address, b"back"));
            port.flush().expect("sending");
            let (_, from) = viewer.recv_from(&mut [0; 9]).expect("a datagram");
            assert_eq!(from, spoken_to);
        }
        ip("-6 addr add fd00::7/128 dev lo");
        wait_for_route_to("::1");
        wait_for_route_to("fd00::7");
        let mut port = open("[::]:5006");
        let viewer = socket("[::1]:0");
        let viewers_address = viewer.local_addr().expect("an address");
        for address in ["[::1]:5006", "[fd00::7]:5006"] {
            viewer.send_to(b"hello", address).expect("sending");
            let received = receive(&mut port, 1).pop().expect("a frame");
            let spoken_to: SocketAddr = address.parse().expect("an address");
            let SocketAddr::V6(v6) = spoken_to else {
                unreachable!("{spoken_to}");
            };
            assert_eq!(received[38..54], v6.ip().octets());
            send(&mut port, &frame(spoken_to, viewers_address, b"back"));
            port.flush().expect("sending");
            let (_, from) = viewer.recv_from(&mut [0; 9]).expect("a datagram");
            assert_eq!(from, spoken_to);
        }
    });
}

#[test]
fn what_cannot_be_sent_is_counted_by_reason_and_the_others_go() {
    in_namespace(|| {
        ip("link set lo up");
        let mut port = open("127.0.0.1:5004");
        let viewer = socket("127.0.0.1:0");
        let from = port.local_address();
        let to = viewer.local_addr().expect("an address");
        let elsewhere = "203.0.113.1:9".parse().expect("an address");
        let over_ipv6 = frame(
            "[::1]:1".parse().expect("an address"),
            "[::1]:2".parse().expect("an address"),
            b"x",
        );
        let mut not_udp = frame(from, to, b"x");
        not_udp[23] = 6;
        let mut too_long = frame(from, to, &[0; 65_507]);
        // The payload has one byte more than IPv4 can carry; only UDP's length field can hold such a length.
        too_long.push(0);
        too_long[38..40].copy_from_slice(&65_516_u16.to_be_bytes());
        for frame in [
            &frame(from, to, b"first"),
            &over_ipv6,
            &not_udp,
            &[0; 13].repeat(2)[..22].to_vec(),
            &frame(from, elsewhere, b"x"),
            &too_long,
            &frame(from, to, b"last"),
        ] {
            send(&mut port, frame);
        }
        port.transmit(0, [&[1; 13][..], &[]].into())
            .expect("queueing");
        port.flush().expect("sending");
        let mut buffer = [0; 9];
        for expected in [&b"first"[..], b"last"] {
            let (n_bytes, _) = viewer.recv_from(&mut buffer).expect("a datagram");
            assert_eq!(&buffer[..n_bytes], expected);
        }
        let statistics = port.statistics();
        let expected = [
            ("tx_too_long", 1),
            ("tx_too_short", 1),
            ("tx_not_udp", 3),
            ("tx_unreachable", 1),
        ];
        let counted: Vec<_> = statistics
            .drops()
            .into_iter()
            .filter(|(_, n)| *n > 0)
            .collect();
        assert_eq!(counted, expected);
        assert_eq!(statistics.tx_frames, 2);
    });
}

#[test]
fn ports_that_share_an_address_have_whole_flows() {
    let address = "127.0.0.1:0".parse().expect("an address");
    let mut ports = UdpPort::open_shared(address, 2).expect("two ports");
    let to = ports[0].local_address();
    assert_eq!(ports[1].local_address(), to);
    let senders: Vec<UdpSocket> = (0..32).map(|_| socket("127.0.0.1:0")).collect();
    for number in 0..10 {
        for sender in &senders {
            sender.send_to(&[number; 20], to).expect("sending");
        }
    }
    let mut flows = Vec::new();
    for port in &mut ports {
        let mut of_port = std::collections::BTreeMap::new();
        while port
            .receive(0, 64, &mut |frame| {
                let numbers = of_port
                    .entry([frame[34], frame[35]])
                    .or_insert_with(Vec::new);
                numbers.push(frame[42]);
            })
            .expect("receiving")
            > 0
        {}
        flows.extend(of_port);
    }
    // If frames of one flow came to two ports, `flows` would have more entries.
    assert_eq!(flows.len(), senders.len());
    for (_, numbers) in flows {
        assert_eq!(numbers, (0..10).collect::<Vec<u8>>());
    }
}

#[test]
fn datagrams_for_which_the_socket_had_no_room_are_counted() {
    let mut port = open("127.0.0.1:0");
    let sender = socket("127.0.0.1:0");
    let n_sent = 20_000;
    for _ in 0..n_sent {
        sender
            .send_to(&[0; 1400], port.local_address())
            .expect("sending");
    }
    let mut n_received = 0;
    while port
        .receive(0, 64, &mut |_| n_received += 1)
        .expect("receiving")
        > 0
    {}
    let statistics = port.statistics();
    assert!(statistics.rx_ring_full > 0);
    assert_eq!(n_received + statistics.rx_ring_full, n_sent);
    assert_eq!(
        port.statistics().rx_ring_full,
        statistics.rx_ring_full,
        "counted once"
    );
}

#[test]
fn a_port_needs_no_privileges_and_an_address_of_this_host() {
    in_namespace(|| {
        ip("link set lo up");
        veth_pair("v0", "v1");
        let holder = open("127.0.0.1:5004");
        let error = |address: &str| {
            let error = UdpPort::open(address.parse().expect("an address"));
            error.err().expect("an error")
        };
        assert!(matches!(error("127.0.0.1:5004"), PortError::Socket { .. }));
        let said = error("127.0.0.1:5004").to_string();
        assert_has(&said, "UDP address 127.0.0.1:5004: cannot bind");
        let foreign = error("203.0.113.1:5004");
        assert!(
            matches!(&foreign, PortError::AddressMissing { address }
                    if foreign.to_string().contains(&address.to_string())),
            "{foreign}"
        );
        drop(holder);
        open("127.0.0.1:5004");
    });
}
