//! Logs which drop counters have grown, by reason, at regular intervals.

use std::collections::BTreeMap;
use std::time::Duration;

use control::Counted;
use dataplane::DropReason;
use p4runtime_server::Server;

/// Reasons for which a program drops packets on purpose, or for which messages to controllers are dropped. They are
/// logged as information, not as warnings.
const DECIDED: [&str; 8] = [
    DropReason::IngressDrop.name(),
    DropReason::EgressDrop.name(),
    DropReason::MulticastGroupEmpty.name(),
    DropReason::CloneSessionEmpty.name(),
    "packet_in_no_primary",
    "idle_timeout_no_primary",
    "digest_no_primary",
    "digest_not_wanted",
];

/// Identifies a drop counter by the port's number, or `None` for a counter of the whole switch, and the reason.
type Counter = (Option<u16>, &'static str);

/// Checks the counters every `interval`, until the switch stops.
pub(crate) async fn log(server: Server, interval: Duration) {
    let mut before = BTreeMap::new();
    loop {
        tokio::time::sleep(interval).await;
        let Ok(counted) = server.device().counted().await else {
            return;
        };
        for growth in grown(&mut before, &counted, &server.controller_drops()) {
            growth.log(interval);
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Growth {
    reason: &'static str,
    /// The port's number and name.
    port: Option<(u16, String)>,
    packets: u64,
    total: u64,
}

impl Growth {
    fn log(&self, interval: Duration) {
        let Growth {
            reason,
            port,
            packets,
            total,
        } = self;
        let seconds = interval.as_secs();
        match port {
            Some((port, interface)) => tracing::warn!(
                event = "drops",
                reason,
                packets,
                total,
                seconds,
                port,
                interface,
                "port {port}@{interface} dropped {packets} packets in {seconds} s: {reason}"
            ),
            None if DECIDED.contains(reason) => tracing::info!(
                event = "drops",
                reason,
                packets,
                total,
                seconds,
                "{packets} packets dropped in {seconds} s: {reason}"
            ),
            None => tracing::warn!(
                event = "drops",
                reason,
                packets,
                total,
                seconds,
                "the switch dropped {packets} packets in {seconds} s: {reason}"
            ),
        }
    }
}

/// Returns the counters that have grown since the last call with this `before`.
fn grown(
    before: &mut BTreeMap<Counter, u64>,
    counted: &Counted,
    for_controllers: &[(&'static str, u64)],
) -> Vec<Growth> {
    let switch = counted.counters.drops();
    let switch = switch.map(|(reason, total)| (None, reason.name(), total));
    let for_controllers = for_controllers.iter();
    let for_controllers = for_controllers.map(|(reason, total)| (None, *reason, *total));
    let ports = counted.ports.iter().flat_map(|port| {
        let of_port = move |(reason, total): &(&'static str, u64)| (Some(port), *reason, *total);
        port.drops.iter().map(of_port)
    });
    let mut growths = Vec::new();
    for (port, reason, total) in switch.chain(for_controllers).chain(ports) {
        let counter = (port.map(|port| port.id.0), reason);
        let earlier = before.insert(counter, total).unwrap_or(0);
        // A new program resets the counters.
        let packets = total.checked_sub(earlier).unwrap_or(total);
        if packets > 0 {
            growths.push(Growth {
                reason,
                port: port.map(|port| (port.id.0, port.name.clone())),
                packets,
                total,
            });
        }
    }
    growths
}

#[cfg(test)]
mod tests {
    use control::{DrainWaiters, PortStatus, SwitchContext};
    use dataplane::{PortId, Switch, SwitchConfig};

    use super::*;

    fn counted(switch: &mut Switch, rx_ring_full: u64) -> Counted {
        let port = PortStatus {
            id: PortId(1),
            name: "veth1".into(),
            drops: vec![("rx_ring_full", rx_ring_full)],
            ..PortStatus::default()
        };
        Counted::of(&mut SwitchContext {
            switch,
            now: 0,
            ports: &[port],
            drain_waiters: &mut DrainWaiters::default(),
            n_updates: 0,
            rest: None,
        })
    }

    #[test]
    fn only_what_grew_since_the_last_look_is_reported() {
        let mut switch = Switch::new(SwitchConfig::default());
        let mut before = BTreeMap::new();
        switch.handle_frame(0, PortId(1), &[0; 60]);
        switch.transmit(0, 1, &mut |_| {});
        let lost = [("packet_in_stream_full", 2), ("packet_in_malformed", 0)];
        let first = grown(&mut before, &counted(&mut switch, 3), &lost);
        let logged: Vec<_> = first.iter().map(|it| (it.reason, it.packets)).collect();
        let expected = [
            ("port_unknown", 1),
            ("packet_in_stream_full", 2),
            ("rx_ring_full", 3),
        ];
        assert_eq!(logged, expected);
        let port = Some((1, "veth1".to_owned()));
        assert_eq!((&first[0].port, &first[2].port), (&None, &port));
        let nothing = grown(&mut before, &counted(&mut switch, 3), &lost);
        assert_eq!(nothing, []);
        let second = grown(&mut before, &counted(&mut switch, 5), &lost);
        let logged: Vec<_> = second.iter().map(|it| (it.packets, it.total)).collect();
        assert_eq!(logged, [(2, 5)]);
    }
}
