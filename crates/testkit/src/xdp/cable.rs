//! Cables to a switch with the kernel engine: veth pairs whose far end accepts redirected frames.

use std::process::Command;

use dataplane::PortId;
use dataplane_xdp::runtime::KernelPort;
use packet_io::{AfPacketConfig, AfPacketPort, AfXdpConfig, AfXdpPort};

use crate::namespace::veth_pair;

/// The switch's end, `in0` for port 0, and the far one, `out0`.
pub fn cable(port: u16) -> (AfXdpPort, AfPacketPort) {
    let (inner, outer) = (format!("in{port}"), format!("out{port}"));
    veth_pair(&inner, &outer);
    // Without GRO, the far end of a veth would lose redirected frames.
    ethtool(&format!("-K {outer} gro on"));
    (
        AfXdpPort::open(&inner, &AfXdpConfig::default()).unwrap(),
        AfPacketPort::open(&outer, AfPacketConfig::default()).unwrap(),
    )
}

/// The ports as an offload serves them.
pub fn served<'p>(ports: impl IntoIterator<Item = (u16, &'p AfXdpPort)>) -> Vec<KernelPort> {
    let ports = ports.into_iter().map(|(id, port)| KernelPort {
        id: PortId(id),
        interface: port.interface(),
    });
    ports.collect()
}

pub fn ethtool(arguments: &str) {
    let mut command = Command::new("ethtool");
    let output = command.args(arguments.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "ethtool {arguments}: {output:?}");
}

pub fn interface_index(name: &str) -> u32 {
    let mut ip = Command::new("ip");
    let shown = ip.args(["-oneline", "link", "show", name]).output();
    let shown = String::from_utf8(shown.unwrap().stdout).unwrap();
    shown.split(':').next().unwrap().parse().unwrap()
}
