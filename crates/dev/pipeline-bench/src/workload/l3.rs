//! The workload of the router. Routes have prefixes of 24 bits and lead to 64 next hops, half of them at each port.

use dataplane::{MatchField, PortId, Switch};

use super::{
    PORTS,
    entries::{Writer, exact, load},
    mac,
};
use crate::frames::{Ipv4Frame, TCP};

/// Number of routes, the same as in the L2L3-ACL pipeline.
pub(super) const ROUTES: usize = 2_000;
const NEXT_HOPS: usize = 64;
const PREFIX_BITS: u32 = 24;
/// The address of the first network.
const NETWORKS: u32 = 0x0a00_0000;
/// The router's MAC address.
const ROUTER: [u8; 6] = [2, 0, 9, 0, 0, 1];

pub(super) fn set_up(switch: &mut Switch, routes: usize) -> Result<(), String> {
    load(switch, "p4/bench/l3.p4");
    let mut table = Writer::new(switch, "routes", "set_next_hop")?;
    for route in 0..routes {
        let key = MatchField::Lpm {
            value: network(route).to_be_bytes().to_vec(),
            prefix_len: PREFIX_BITS,
        };
        table.insert(vec![key], 0, &[&next_hop(route)])?;
    }
    let mut table = Writer::new(switch, "next_hops", "rewrite")?;
    for hop in 0..NEXT_HOPS {
        let port = PORTS[hop % 2].0.to_be_bytes();
        let args: [&[u8]; 3] = [&port, &ROUTER, &mac(1, hop)];
        table.insert(vec![exact(&next_hop(hop))], 0, &args)?;
    }
    Ok(())
}

fn network(route: usize) -> u32 {
    NETWORKS + ((route as u32) << (32 - PREFIX_BITS))
}

fn next_hop(route: usize) -> [u8; 2] {
    [0, (route % NEXT_HOPS) as u8]
}

/// Returns a flow's packet. Successive flows use routes in an order that a processor cannot predict. After every route
/// has had a flow, the host changes.
pub(super) fn frame(flow: usize, routes: usize) -> (PortId, Ipv4Frame) {
    // The factor is a prime, so that every route is used.
    let route = flow * 7_919 % routes;
    let host = 1 + (flow / routes) as u32 % 250;
    let frame = Ipv4Frame {
        macs: [ROUTER, mac(0, flow % 256)],
        addresses: [0xc0a8_0001 + flow as u32 % 1000, network(route) + host],
        protocol: TCP,
        ports: [4000, 80],
    };
    (PORTS[1 - route % 2], frame)
}
