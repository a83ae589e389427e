//! The workload L2L3-ACL, as in PISCES' measurement. There are two networks, each a VLAN at a separate port, and flows
//! between these networks in both directions. The table sizes are the sizes in PISCES' measurement (SIGCOMM 2016,
//! section 5). As in that measurement, there are 1,000 rules, and the last rule matches. This workload differs in two
//! points. First, a route leads to a single host (a prefix of 32 bits), because the published rules contain one network
//! twice, distinguished by the VLAN, and the table's key does not contain the VLAN. Second, the rules that do not match
//! are not the published rules. Each of them denies one service between two networks, in one of eight combinations of
//! prefix lengths and ports, as in most access lists.

use dataplane::{MatchField, PortId, Switch};

use super::{
    PORTS,
    entries::{Writer, exact, load},
    mac,
};
use crate::frames::{Ipv4Frame, TCP, UDP};

/// Number of rules in the access list.
pub(super) const RULES: usize = 1_000;
/// Number of hosts in each network. Each host has a route and an entry in the switch's tables.
const HOSTS: usize = 1_000;
/// Number of stations on each side that send through the router. The table `routable` has an entry for each of them,
/// and its size is 64.
const SENDERS: usize = 32;
/// Number of stations on each side that the switch knows, half of 4,000.
const STATIONS: usize = 2_000;
const VLANS: [[u8; 2]; 2] = [[0, 10], [0, 20]];
const NETWORKS: [u32; 2] = [0x0a00_0000, 0x0a01_0000];
/// The router's MAC address in each VLAN.
const ROUTERS: [[u8; 6]; 2] = [[2, 0, 9, 0, 0, 1], [2, 0, 9, 0, 0, 2]];
/// The first address of the range that no flow uses.
const ELSEWHERE: u32 = 0xac10_0000;

pub(super) fn set_up(switch: &mut Switch, rules: usize) -> Result<(), String> {
    load(switch, "p4/bench/l2l3_acl.p4");
    for side in 0..2 {
        set_up_side(switch, side)?;
    }
    set_up_rules(switch, rules)
}

fn set_up_side(switch: &mut Switch, side: usize) -> Result<(), String> {
    let (port, vlan) = (PORTS[side].0.to_be_bytes(), &VLANS[side]);
    let (role, other) = (side as u8, 1 - side);
    let key = vec![exact(&port), exact(&[0]), exact(&[0])];
    Writer::new(switch, "vlan_ingress", "add_tag")?.insert(key, 0, &[vlan])?;
    let mut sources = Writer::new(switch, "sources", "known")?;
    for station in 0..STATIONS {
        sources.insert(vec![exact(&mac(role, station))], 0, &[])?;
    }
    let mut routable = Writer::new(switch, "routable", "route")?;
    for sender in 0..SENDERS {
        let macs = [mac(role, sender), ROUTERS[side]];
        let key = vec![exact(&macs[0]), exact(&macs[1]), exact(vlan)];
        routable.insert(key, 0, &[])?;
    }
    let mut routes = Writer::new(switch, "routes", "set_next_hop")?;
    for host in 0..HOSTS {
        let key = MatchField::Lpm {
            value: address(other, host).to_be_bytes().to_vec(),
            prefix_len: 32,
        };
        let to = mac(other as u8, host);
        routes.insert(vec![key], 0, &[&ROUTERS[other], &to, &VLANS[other]])?;
    }
    let mut destinations = Writer::new(switch, "destinations", "forward")?;
    for station in 0..STATIONS {
        let key = vec![exact(&mac(role, station)), exact(vlan)];
        destinations.insert(key, 0, &[&port])?;
    }
    Writer::new(switch, "vlan_egress", "strip_tag")?.insert(vec![exact(&port)], 0, &[])?;
    let key = vec![exact(&port), exact(&port)];
    Writer::new(switch, "source_pruning", "prune")?.insert(key, 0, &[])
}

fn address(side: usize, host: usize) -> u32 {
    NETWORKS[side] + 1 + host as u32
}

fn prefix(value: u32, bits: u32) -> MatchField {
    let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
    MatchField::Ternary {
        value: (value & mask).to_be_bytes().to_vec(),
        mask: mask.to_be_bytes().to_vec(),
    }
}

fn port(number: Option<u16>) -> MatchField {
    MatchField::Ternary {
        value: number.unwrap_or(0).to_be_bytes().to_vec(),
        mask: number.map_or([0, 0], |_| [0xff, 0xff]).to_vec(),
    }
}

fn protocol(number: Option<u8>) -> MatchField {
    MatchField::Ternary {
        value: vec![number.unwrap_or(0)],
        mask: vec![number.map_or(0, |_| 0xff)],
    }
}

fn set_up_rules(switch: &mut Switch, rules: usize) -> Result<(), String> {
    let mut deny = Writer::new(switch, "acl", "deny")?;
    let last = i32::try_from(rules).map_err(|error| error.to_string())?;
    for rule in 0..last - 1 {
        let n = rule as u32;
        let (lengths, has_src_port) = match rule % 8 {
            0 => ([32, 32], false),
            1 => ([32, 24], false),
            2 => ([24, 32], false),
            3 => ([24, 24], false),
            4 => ([24, 24], true),
            5 => ([32, 32], true),
            6 => ([28, 24], false),
            _ => ([24, 28], false),
        };
        let service = 1 + u16::try_from(n % 1000).unwrap_or(0);
        let key = vec![
            prefix(ELSEWHERE + (n << 8), lengths[0]),
            prefix(NETWORKS[rule as usize % 2] + ((n % 4) << 8), lengths[1]),
            protocol(Some(if rule % 3 == 0 { UDP } else { TCP })),
            port(has_src_port.then_some(service)),
            port(Some(service)),
        ];
        // The rule with the numerically higher priority is tried first.
        deny.insert(key, last - rule, &[])?;
    }
    let any = vec![
        prefix(0, 0),
        prefix(0, 0),
        protocol(None),
        port(None),
        port(None),
    ];
    Writer::new(switch, "acl", "permit")?.insert(any, 1, &[])
}

/// Returns a flow's packet. The direction alternates from flow to flow, and each flow is between other hosts. After all
/// hosts have had a flow, the ports change.
pub(super) fn frame(flow: usize) -> (PortId, Ipv4Frame) {
    let (side, pair) = (flow % 2, flow / 2);
    let host = pair % HOSTS;
    let frame = Ipv4Frame {
        macs: [ROUTERS[side], mac(side as u8, host % SENDERS)],
        addresses: [address(side, host), address(1 - side, (host * 7) % HOSTS)],
        protocol: TCP,
        ports: [20_000 + (pair / HOSTS) as u16, 443],
    };
    (PORTS[side], frame)
}
