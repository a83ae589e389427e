//! Several ports on one interface, one per worker. The kernel distributes the flows among the ports.

use std::collections::BTreeMap;
use std::time::Duration;

use etherparse::PacketBuilder;
use packet_io::{AfPacketConfig, AfPacketPort, AfXdpConfig, AfXdpPort, Port, PortError, Waiter};
use testkit::namespace::{in_namespace, in_root_namespace, veth_pair, veth_pair_with_queues};

/// How long a test waits for frames that it expects.
const TIMEOUT: Duration = Duration::from_secs(120);

const N_FLOWS: u16 = 32;
const N_FRAMES_A_FLOW: u16 = 20;

/// A UDP datagram of a flow, with a number in its payload.
fn datagram(flow: u16, number: u16) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .ipv4([10, 9, 0, 1], [10, 9, 0, 2], 64)
        .udp(4000 + flow, 5004);
    let mut frame = Vec::new();
    builder
        .write(&mut frame, &number.to_be_bytes())
        .expect("a datagram");
    frame
}

/// Returns the flow and the number of a frame that [`datagram`] made.
fn flow_and_number(frame: &[u8]) -> (u16, u16) {
    let word = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    (word(34) - 4000, word(42))
}

/// Sends frames of all flows in turn. Returns the flow and number of each received frame, with the index of the port
/// that received the frame.
fn send_and_receive(
    sender: &mut dyn Port,
    ports: &mut [Box<dyn Port>],
) -> Vec<(usize, (u16, u16))> {
    for number in 0..N_FRAMES_A_FLOW {
        for flow in 0..N_FLOWS {
            let frame = datagram(flow, number);
            sender
                .transmit(0, frame.as_slice().into())
                .expect("queueing");
        }
        sender.flush().expect("sending");
    }
    let (mut seen, mut waiter) = (Vec::new(), Waiter::default());
    let n_frames = usize::from(N_FLOWS * N_FRAMES_A_FLOW);
    while seen.len() < n_frames {
        let descriptors = ports.iter().filter_map(|port| port.poll_fd());
        waiter.wait(descriptors, Some(TIMEOUT)).expect("waiting");
        let n_before = seen.len();
        for (place, port) in ports.iter_mut().enumerate() {
            let mut take = |frame: &[u8]| seen.push((place, flow_and_number(frame)));
            port.receive(0, 64, &mut take).expect("receiving");
        }
        assert!(seen.len() > n_before, "only {n_before} of {n_frames} came");
    }
    assert_eq!(seen.len(), n_frames, "some came twice");
    seen
}

/// Checks that all frames of each flow came to one port, and in order. Returns the port of each flow.
fn places(seen: &[(usize, (u16, u16))]) -> Vec<usize> {
    let mut flows: BTreeMap<u16, (usize, Vec<u16>)> = BTreeMap::new();
    for (place, (flow, number)) in seen {
        let (at, numbers) = flows.entry(*flow).or_insert((*place, Vec::new()));
        assert_eq!(at, place, "flow {flow} came to two ports");
        numbers.push(*number);
    }
    let expected: Vec<u16> = (0..N_FRAMES_A_FLOW).collect();
    for (flow, (_, numbers)) in &flows {
        assert_eq!(*numbers, expected, "flow {flow}");
    }
    flows.into_values().map(|(place, _)| place).collect()
}

fn open_packet(name: &str, n_ports: usize) -> Vec<Box<dyn Port>> {
    let ports = AfPacketPort::open_shared(name, AfPacketConfig::default(), n_ports);
    let ports = ports.expect("an interface that is up and free").into_iter();
    ports.map(|port| Box::new(port) as Box<dyn Port>).collect()
}

/// Checks that each port can send a frame, and that no port receives a frame that another port sent.
fn what_they_send_comes_to_the_other_end_only(peer: &mut dyn Port, ports: &mut [Box<dyn Port>]) {
    for (flow, port) in (0..).zip(ports.iter_mut()) {
        let frame = datagram(flow, 7);
        port.transmit(0, frame.as_slice().into()).expect("queueing");
        port.flush().expect("sending");
    }
    let (mut flows, mut waiter) = (Vec::new(), Waiter::default());
    while flows.len() < ports.len() {
        waiter.wait(peer.poll_fd(), Some(TIMEOUT)).expect("waiting");
        let mut take = |frame: &[u8]| flows.push(usize::from(flow_and_number(frame).0));
        let n_frames = peer.receive(0, 64, &mut take).expect("receiving");
        assert!(n_frames > 0, "only {flows:?} came");
    }
    flows.sort_unstable();
    assert!(flows.into_iter().eq(0..ports.len()));
    for port in ports {
        let n_frames = port.receive(0, 64, &mut |_| ()).expect("receiving");
        assert_eq!(n_frames, 0, "a port received what another sent");
    }
}

#[test]
fn packet_sockets_share_an_interface_by_flow() {
    in_namespace(|| {
        veth_pair("veth0", "veth1");
        let mut sender = open_packet("veth0", 1).remove(0);
        let mut ports = open_packet("veth1", 2);
        let places = places(&send_and_receive(&mut *sender, &mut ports));
        for place in 0..ports.len() {
            assert!(places.contains(&place), "all flows on one port: {places:?}");
        }
        what_they_send_comes_to_the_other_end_only(&mut *sender, &mut ports);
        let again = AfPacketPort::open("veth1", AfPacketConfig::default());
        assert!(matches!(again.err(), Some(PortError::InUse { .. })));
        ports.pop();
        let again = AfPacketPort::open("veth1", AfPacketConfig::default());
        assert!(matches!(again.err(), Some(PortError::InUse { .. })));
        ports.clear();
        open_packet("veth1", 1);
    });
}

#[test]
fn xdp_sockets_share_an_interface_by_queue() {
    in_root_namespace(|| {
        veth_pair("veth0", "veth1");
        let few = AfXdpPort::open_shared("veth1", &AfXdpConfig::default(), 2);
        let said = few.err().expect("too few queues").to_string();
        assert!(said.contains("1 receive and 1 transmit"), "{said}");
        veth_pair_with_queues("v0", "v1", 3);
        let mut sender = open_packet("v0", 1).remove(0);
        let ports = AfXdpPort::open_shared("v1", &AfXdpConfig::default(), 2);
        let ports = ports.expect("three queues");
        let n_queues: Vec<usize> = ports.iter().map(|port| port.mode().n_queues).collect();
        assert_eq!(n_queues, [2, 1]);
        let boxed = ports
            .into_iter()
            .map(|port| Box::new(port) as Box<dyn Port>);
        let mut ports: Vec<Box<dyn Port>> = boxed.collect();
        // Here the core on which the sender runs decides which queue gets a frame.
        let mut seen = send_and_receive(&mut *sender, &mut ports);
        seen.sort_unstable_by_key(|(_, frame)| *frame);
        seen.dedup_by_key(|(_, frame)| *frame);
        assert_eq!(seen.len(), usize::from(N_FLOWS * N_FRAMES_A_FLOW));
        what_they_send_comes_to_the_other_end_only(&mut *sender, &mut ports);
    });
}
