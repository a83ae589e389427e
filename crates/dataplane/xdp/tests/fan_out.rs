//! Tests the kernel behaviour on which the compiled program relies when it makes copies of a packet. Hand-written
//! programs make copies through a device map, over real veth pairs. The kernel lets only root outside any user
//! namespace load programs.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at what it did not expect"
)]

use bpf::{Map, MapKind, Program, ProgramConfig, ProgramKind};
use dataplane::CounterValue;
use dataplane_xdp::runtime::transmit::Transmit;
use packet_io::{AfPacketConfig, AfPacketPort, AfXdpConfig, AfXdpPort, XdpInterface};
use testkit::frames::{numbered, receive, send};
use testkit::namespace::{ethtool, in_root_namespace, veth_pair};
use testkit::xdp::by_hand::{PLACE, egress, ingress, map};

/// Two ports, and a program that sends frames received by the first port to a list of ports.
struct FanOut {
    outside: [AfPacketPort; 2],
    ports: [AfXdpPort; 2],
    interfaces: [XdpInterface; 2],
    groups: Map,
    transmit: Transmit,
    egress: Program,
    _ingress: Program,
}

impl FanOut {
    fn new() -> FanOut {
        veth_pair("v0", "v1");
        veth_pair("v2", "v3");
        let outside =
            ["v0", "v2"].map(|name| AfPacketPort::open(name, AfPacketConfig::default()).unwrap());
        let ports =
            ["v1", "v3"].map(|name| AfXdpPort::open(name, &AfXdpConfig::default()).unwrap());
        let interfaces = [0, 1].map(|port: usize| ports[port].interface());
        let transmit = Transmit::new(interfaces.each_ref().map(XdpInterface::index)).unwrap();
        let places = map(MapKind::PerCpuArray, 8, 256, None);
        let egress = transmit
            .load_egress("test", Some(&egress(&places)))
            .unwrap();
        let template = map(MapKind::DeviceMap, 8, 1, None);
        let groups = map(MapKind::ArrayOfMaps, 4, 1, Some(&template));
        let serials = map(MapKind::PerCpuArray, 4, 1, None);
        let ingress = Program::load(&ProgramConfig {
            name: "test",
            kind: ProgramKind::Xdp,
            has_fragments: false,
            instructions: &ingress(&serials, &groups),
        })
        .unwrap();
        interfaces[0].run(&ingress).unwrap();
        FanOut {
            outside,
            ports,
            interfaces,
            groups,
            transmit,
            egress,
            _ingress: ingress,
        }
    }

    /// Sets the ports that a frame is sent to.
    fn set(&self, ports: &[usize]) {
        let group = map(MapKind::DeviceMap, 8, ports.len() as u32, None);
        for (place, port) in (0..).zip(ports) {
            let interface = self.interfaces[*port].index();
            group
                .set_device(place, interface, Some(&self.egress))
                .unwrap();
        }
        self.groups.set_map(0, &group).unwrap();
    }

    /// Receives frames that left by a port, and returns the byte of each frame at [`PLACE`], which is the copy's
    /// number.
    fn places(&mut self, port: usize, n: usize) -> Vec<u8> {
        let frames = receive(&mut self.outside[port], n);
        frames.iter().map(|frame| frame[PLACE]).collect()
    }
}

fn counted(packets: u64) -> CounterValue {
    CounterValue {
        packets,
        bytes: 60 * packets,
    }
}

#[test]
fn each_copy_knows_which_of_its_port_s_it_is_and_is_counted() {
    in_root_namespace(|| {
        let mut fan_out = FanOut::new();
        for peer in ["v0", "v2"] {
            ethtool(&format!("-K {peer} gro on"));
        }
        for interface in &fan_out.interfaces {
            assert_eq!(interface.takes_redirected(), Some(true));
        }
        fan_out.set(&[0, 1, 0, 0]);
        send(&mut fan_out.outside[0], (0..20).map(|n| numbered(n, 60)));
        let expected: Vec<u8> = [0, 1, 2].repeat(20);
        assert_eq!(fan_out.places(0, 60), expected);
        assert_eq!(fan_out.places(1, 20), [0; 20]);
        // Now make more copies than a device's queue holds.
        let ports: Vec<usize> = (0..100).map(|place| place % 2).collect();
        fan_out.set(&ports);
        send(&mut fan_out.outside[0], [numbered(1, 60)]);
        let expected: Vec<u8> = (0..50).collect();
        assert_eq!(fan_out.places(0, 50), expected);
        assert_eq!(fan_out.places(1, 50), expected);
        for (interface, n) in fan_out.interfaces.iter().zip([110, 70]) {
            let count = fan_out.transmit.count(interface.index()).unwrap();
            assert_eq!((count.sent, count.refused), (counted(n), counted(0)));
        }
        // With the port's own program again, the port receives frames.
        fan_out.interfaces[0].run_own().unwrap();
        send(&mut fan_out.outside[0], [numbered(7, 60)]);
        assert_eq!(receive(&mut fan_out.ports[0], 1), [numbered(7, 60)]);
    });
}

#[test]
fn what_a_device_does_not_take_is_counted_too() {
    in_root_namespace(|| {
        let mut fan_out = FanOut::new();
        ethtool("-K v0 gro on");
        ethtool("-K v2 gro on");
        // A veth's queue has 256 places, and nobody empties it while one processor makes copies.
        let ports = vec![1; 1000];
        fan_out.set(&ports);
        send(&mut fan_out.outside[0], [numbered(1, 60)]);
        let n_received = fan_out.places(1, 200).len();
        assert!(n_received >= 200);
        let interface = fan_out.interfaces[1].index();
        let mut count = fan_out.transmit.count(interface).unwrap();
        while count.sent.packets + count.refused.packets < 1000 {
            count = fan_out.transmit.count(interface).unwrap();
        }
        assert!(count.refused.packets > 0, "{count:?}");
        assert_eq!(count.refused, counted(count.refused.packets));
        assert_eq!(count.sent, counted(1000 - count.refused.packets));
        let mut n_more = 0;
        while n_received as u64 + n_more < count.sent.packets {
            n_more += receive(&mut fan_out.outside[1], 1).len() as u64;
        }
    });
}

#[test]
fn a_port_whose_peer_takes_no_redirected_frames_is_known() {
    in_root_namespace(|| {
        let fan_out = FanOut::new();
        ethtool("-K v2 gro off");
        assert_eq!(fan_out.interfaces[1].takes_redirected(), Some(false));
        ethtool("-K v2 gro on");
        assert_eq!(fan_out.interfaces[1].takes_redirected(), Some(true));
    });
}
