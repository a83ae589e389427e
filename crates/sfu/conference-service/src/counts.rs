//! What the switch has counted, as the HTTP interface reports it. A leg is a participant's connection by one UDP
//! socket.

use std::collections::BTreeMap;

use conference_api::{Drops, LegCounts, LegTraffic, Name, PortCounts, SwitchCounts};
use conference_model::Model;

use crate::activity::{Activity, Flow, LegActivity, PortActivity};

/// Returns the counts of a leg; `None` before they were read.
#[must_use]
pub fn of_leg(model: &Model, activity: &Activity, leg: u16) -> Option<LegCounts> {
    let counted = activity.legs.get(&leg)?;
    let port = model.binding(leg).map(|it| it.port);
    Some(LegCounts {
        sent: sent(counted),
        received: received(counted),
        policed_packets: counted.policed.count.packets,
        port: port.and_then(|it| activity.ports.get(&it)).map(of_port),
    })
}

/// The counts of a switch as a whole.
#[must_use]
pub fn of_switch(switch: &Name, activity: &Activity) -> SwitchCounts {
    let verdicts = activity.verdicts.iter();
    let drops = verdicts.filter_map(|(name, flow)| Some((name.strip_prefix("drop_")?, flow)));
    let ports = activity.ports.iter();
    SwitchCounts {
        switch: switch.clone(),
        connected: activity.is_connected,
        drops: by_reason(drops),
        ports: ports.map(|(port, it)| (*port, of_port(it))).collect(),
    }
}

#[must_use]
pub fn sent(leg: &LegActivity) -> LegTraffic {
    traffic(&leg.sent, leg.last_media_ms)
}

#[must_use]
pub fn received(leg: &LegActivity) -> LegTraffic {
    traffic(&leg.received, leg.received.last_ms)
}

fn traffic(flow: &Flow, last_packet_ms: Option<u64>) -> LegTraffic {
    LegTraffic {
        packets: flow.count.packets,
        bytes: flow.count.bytes,
        packets_per_s: flow.packets_per_s,
        kbps: flow.bits_per_s / 1_000,
        last_packet_ms,
    }
}

fn of_port(port: &PortActivity) -> PortCounts {
    let drops = port.drops.iter();
    PortCounts {
        delay: port.delay,
        drops: by_reason(drops.map(|(reason, flow)| (reason.as_str(), flow))),
    }
}

fn by_reason<'f>(drops: impl Iterator<Item = (&'f str, &'f Flow)>) -> BTreeMap<String, Drops> {
    let occurred = drops.filter(|(_, flow)| flow.count.packets > 0);
    let drops = |flow: &Flow| Drops {
        packets: flow.count.packets,
        packets_per_s: flow.packets_per_s,
        last_ms: flow.last_ms,
    };
    occurred
        .map(|(reason, flow)| (reason.to_owned(), drops(flow)))
        .collect()
}
