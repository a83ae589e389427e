//! The workload of the Ethernet switch. Each station is known at one of two ports, and pairs of stations exchange
//! packets.

use dataplane::{PortId, Switch};

use super::{
    PORTS,
    entries::{Writer, exact, load},
    mac,
};
use crate::frames::{Ipv4Frame, TCP};

/// Number of stations at both ports together.
pub(super) const STATIONS: usize = 8_192;

pub(super) fn set_up(switch: &mut Switch, stations: usize) -> Result<(), String> {
    load(switch, "p4/bench/l2.p4");
    for (side, port) in PORTS.into_iter().enumerate() {
        let port = port.0.to_be_bytes();
        let macs = || (0..stations.div_ceil(2)).map(|n| mac(side as u8, n));
        let mut sources = Writer::new(switch, "sources", "known")?;
        for mac in macs() {
            sources.insert(vec![exact(&mac), exact(&port)], 0, &[])?;
        }
        let mut destinations = Writer::new(switch, "destinations", "forward")?;
        for mac in macs() {
            destinations.insert(vec![exact(&mac)], 0, &[&port])?;
        }
    }
    Ok(())
}

/// Returns a flow's packet. The direction alternates from flow to flow.
pub(super) fn frame(flow: usize, stations: usize) -> (PortId, Ipv4Frame) {
    let (side, pair) = (flow % 2, flow / 2);
    let station = pair % stations.div_ceil(2);
    let peer = (pair + pair / stations.div_ceil(2)) % stations.div_ceil(2);
    let frame = Ipv4Frame {
        macs: [mac(1 - side as u8, peer), mac(side as u8, station)],
        addresses: [0x0a00_0001, 0x0a00_0002],
        protocol: TCP,
        ports: [4000, 80],
    };
    (PORTS[side], frame)
}
