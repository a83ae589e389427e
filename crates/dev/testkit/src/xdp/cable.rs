//! Makes cables to a switch with the kernel engine. A cable is a veth pair whose far end accepts redirected frames.

use dataplane::PortId;
use dataplane_xdp::runtime::KernelPort;
use packet_io::{AfPacketConfig, AfPacketPort, AfXdpConfig, AfXdpPort};

use crate::namespace::{ethtool, veth_pair};

/// Makes a cable. Returns the switch's end (`in0` for port 0) and the far end (`out0`).
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

/// Returns the ports in the form that an offload needs.
pub fn served<'p>(ports: impl IntoIterator<Item = (u16, &'p AfXdpPort)>) -> Vec<KernelPort> {
    let ports = ports.into_iter().map(|(id, port)| KernelPort {
        id: PortId(id),
        interface: port.interface(),
    });
    ports.collect()
}
