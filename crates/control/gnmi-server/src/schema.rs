//! The nodes of the data tree: the leaves of an interface, and how to read them from a port.
//!
//! Source: openconfig-interfaces 3.5.0, openconfig-p4rt 0.4.0.

use std::sync::LazyLock;

use control::{LinkState, MulticastCounters, Port};

use crate::value::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Module {
    Interfaces,
    P4rt,
}

impl Module {
    pub(crate) const ALL: [Self; 2] = [Self::Interfaces, Self::P4rt];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Interfaces => "openconfig-interfaces",
            Self::P4rt => "openconfig-p4rt",
        }
    }

    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::Interfaces => "3.5.0",
            Self::P4rt => "0.4.0",
        }
    }
}

/// The kind of a leaf's data (gNMI specification, 3.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Configuration: readable and writable.
    Config,
    /// State that mirrors configuration.
    Applied,
    /// State that the switch determines.
    Operational,
}

pub(crate) struct Leaf {
    /// The path below `/interfaces/interface`.
    pub path: &'static [&'static str],
    pub module: Module,
    pub class: Class,
    /// Whether the leaf's value changes with packets.
    pub is_counter: bool,
    read: fn(&str, &Port) -> Option<Value>,
}

impl Leaf {
    /// The value for a port; `None` if it is unknown. `name` is the name of the gNMI interface that represents the
    /// port.
    pub(crate) fn read(&self, name: &str, port: &Port) -> Option<Value> {
        (self.read)(name, port)
    }
}

/// The only writable leaf.
pub(crate) const ENABLED: &[&str] = &["config", "enabled"];

/// The list whose entries are ports.
pub(crate) const INTERFACE: &[&str] = &["interfaces", "interface"];

/// The type of every port, whatever kind of interface is beneath: all frames are Ethernet frames.
const TYPE: &str = "iana-if-type:ethernetCsmacd";

/// Bytes before the payload in a frame. OpenConfig's MTU includes these bytes; the kernel's MTU does not.
const ETHERNET_HEADER_BYTES: u32 = 14;

const fn leaf(
    path: &'static [&'static str],
    class: Class,
    read: fn(&str, &Port) -> Option<Value>,
) -> Leaf {
    Leaf {
        path,
        module: Module::Interfaces,
        class,
        is_counter: false,
        read,
    }
}

const fn p4rt(leaf: Leaf) -> Leaf {
    Leaf {
        module: Module::P4rt,
        ..leaf
    }
}

const fn counter(path: &'static [&'static str], read: fn(&str, &Port) -> Option<Value>) -> Leaf {
    Leaf {
        is_counter: true,
        ..leaf(path, Class::Operational, read)
    }
}

fn name(name: &str, _: &Port) -> Option<Value> {
    Some(Value::Text(name.to_owned()))
}

fn r#type(_: &str, _: &Port) -> Option<Value> {
    text(TYPE)
}

fn enabled(_: &str, port: &Port) -> Option<Value> {
    Some(Value::Flag(!port.status.is_disabled))
}

fn id(_: &str, port: &Port) -> Option<Value> {
    Some(Value::Small(port.status.id.0.into()))
}

fn text(text: &str) -> Option<Value> {
    Some(Value::Text(text.to_owned()))
}

fn number(number: u64) -> Option<Value> {
    Some(Value::Number(number))
}

fn oper_status(port: &Port) -> &'static str {
    match port.status.reported_link() {
        LinkState::Up | LinkState::None => "UP",
        LinkState::Down => "DOWN",
        LinkState::Lost => "NOT_PRESENT",
    }
}

fn drops(port: &Port, reasons: &[&str]) -> u64 {
    let drops = port.status.drops.iter();
    let of_reasons = drops.filter(|(reason, _)| reasons.contains(reason));
    of_reasons.map(|(_, n_frames)| n_frames).sum()
}

/// The drop reasons that count as discards: there was no room, or the link was down. The frame itself had no error.
const RX_DISCARDS: &[&str] = &["rx_ring_full", "rx_no_buffer"];
const TX_DISCARDS: &[&str] = &["tx_no_room", "tx_link_down"];

fn discards(port: &Port, direction: &str, reasons: &[&str], disabled: u64) -> Option<Value> {
    // Drops without a reason count as discards: nothing shows an error in these frames.
    let has_reasons = port
        .status
        .drops
        .iter()
        .any(|(reason, _)| reason.starts_with(direction));
    let all = match direction {
        "rx_" => port.status.rx_dropped,
        _ => port.status.tx_dropped,
    };
    number(
        disabled
            + if has_reasons {
                drops(port, reasons)
            } else {
                all
            },
    )
}

fn errors(port: &Port, direction: &str, discards: &[&str]) -> Option<Value> {
    let drops = port.status.drops.iter();
    let errors =
        drops.filter(|(reason, _)| reason.starts_with(direction) && !discards.contains(reason));
    number(errors.map(|(_, n_frames)| n_frames).sum())
}

fn multicast_count(port: &Port, count: fn(&MulticastCounters) -> u64) -> Option<Value> {
    port.status
        .multicast
        .as_ref()
        .and_then(|counters| number(count(counters)))
}

/// A frame is unicast if it is neither multicast nor broadcast.
fn unicast(port: &Port, n_frames: u64, others: fn(&MulticastCounters) -> u64) -> Option<Value> {
    let counters = port.status.multicast.as_ref()?;
    number(n_frames.saturating_sub(others(counters)))
}

/// Every leaf, in the order of answers.
pub(crate) static LEAVES: [Leaf; 29] = {
    use Class::{Applied, Config, Operational};
    [
        leaf(&["name"], Config, name),
        leaf(&["config", "name"], Config, name),
        leaf(&["config", "type"], Config, r#type),
        leaf(ENABLED, Config, enabled),
        p4rt(leaf(&["config", "id"], Config, id)),
        leaf(&["state", "name"], Applied, name),
        leaf(&["state", "type"], Applied, r#type),
        leaf(&["state", "mtu"], Applied, |_, port| {
            let mtu = port.status.mtu?.checked_add(ETHERNET_HEADER_BYTES)?;
            // The model has 16 bits for the MTU.
            u16::try_from(mtu).ok().map(|mtu| Value::Small(mtu.into()))
        }),
        leaf(&["state", "enabled"], Applied, enabled),
        leaf(&["state", "ifindex"], Operational, id),
        p4rt(leaf(&["state", "id"], Applied, id)),
        leaf(&["state", "admin-status"], Operational, |_, port| {
            text(if port.status.is_disabled {
                "DOWN"
            } else {
                "UP"
            })
        }),
        leaf(&["state", "oper-status"], Operational, |_, port| {
            text(oper_status(port))
        }),
        leaf(&["state", "last-change"], Operational, |_, port| {
            (port.last_change_ns > 0).then_some(Value::Number(port.last_change_ns))
        }),
        counter(&["state", "counters", "in-octets"], |_, port| {
            number(port.counters.rx_bytes)
        }),
        counter(&["state", "counters", "in-pkts"], |_, port| {
            number(port.counters.rx_packets)
        }),
        counter(&["state", "counters", "in-unicast-pkts"], |_, port| {
            let n_frames = port.counters.rx_packets;
            unicast(port, n_frames, |counters| {
                counters.rx_multicast + counters.rx_broadcast
            })
        }),
        counter(&["state", "counters", "in-broadcast-pkts"], |_, port| {
            multicast_count(port, |counters| counters.rx_broadcast)
        }),
        counter(&["state", "counters", "in-multicast-pkts"], |_, port| {
            multicast_count(port, |counters| counters.rx_multicast)
        }),
        counter(&["state", "counters", "in-discards"], |_, port| {
            discards(port, "rx_", RX_DISCARDS, port.counters.rx_disabled)
        }),
        counter(&["state", "counters", "in-errors"], |_, port| {
            errors(port, "rx_", RX_DISCARDS)
        }),
        counter(&["state", "counters", "out-octets"], |_, port| {
            number(port.counters.tx_bytes)
        }),
        counter(&["state", "counters", "out-pkts"], |_, port| {
            number(port.counters.tx_packets)
        }),
        counter(&["state", "counters", "out-unicast-pkts"], |_, port| {
            let n_frames = port.counters.tx_packets;
            unicast(port, n_frames, |counters| {
                counters.tx_multicast + counters.tx_broadcast
            })
        }),
        counter(&["state", "counters", "out-broadcast-pkts"], |_, port| {
            multicast_count(port, |counters| counters.tx_broadcast)
        }),
        counter(&["state", "counters", "out-multicast-pkts"], |_, port| {
            multicast_count(port, |counters| counters.tx_multicast)
        }),
        counter(&["state", "counters", "out-discards"], |_, port| {
            discards(port, "tx_", TX_DISCARDS, port.counters.tx_disabled)
        }),
        counter(&["state", "counters", "out-errors"], |_, port| {
            errors(port, "tx_", TX_DISCARDS)
        }),
        // A port without a network interface has no carrier.
        leaf(
            &["state", "counters", "carrier-transitions"],
            Operational,
            |_, port| {
                let has_link = port.status.link_changed_ns > 0;
                has_link.then_some(Value::Number(port.status.link_transitions))
            },
        ),
    ]
};

/// Nodes that the models have but the switch does not implement. A request for such a node is not malformed.
const ABSENT: &[&[&str]] = &[
    &["hold-time"],
    &["penalty-based-aied"],
    &["subinterfaces"],
    &["ethernet"],
    &["aggregation"],
    &["routed-vlan"],
    &["tunnel"],
    &["rates"],
    &["config", "description"],
    &["config", "mtu"],
    &["config", "loopback-mode"],
    &["config", "hashing-policy"],
    &["config", "tpid"],
    &["state", "description"],
    &["state", "loopback-mode"],
    &["state", "hashing-policy"],
    &["state", "tpid"],
    &["state", "logical"],
    &["state", "management"],
    &["state", "cpu"],
    &["state", "hardware-port"],
    &["state", "physical-channel"],
    &["state", "transceiver"],
    &["state", "counters", "in-unknown-protos"],
    &["state", "counters", "in-fcs-errors"],
    &["state", "counters", "last-clear"],
    &["state", "counters", "resets"],
    &["state", "counters", "interface-transitions"],
    &["state", "counters", "link-transitions"],
];

/// A node: a container, the list's entry, or a leaf.
pub(crate) struct Node {
    /// The path from the root.
    pub path: Vec<&'static str>,
}

impl Node {
    /// The path below an interface. `None` for a node above the interfaces.
    pub(crate) fn below_interface(&self) -> Option<&[&'static str]> {
        self.path.strip_prefix(INTERFACE)
    }

    /// The leaf itself, or the leaves below the node.
    pub(crate) fn leaves(&self) -> impl Iterator<Item = &'static Leaf> {
        let from = self.below_interface().unwrap_or_default();
        LEAVES
            .iter()
            .filter(move |leaf| leaf.path.starts_with(from))
    }

    pub(crate) fn is_leaf(&self) -> bool {
        let below = self.below_interface();
        below.is_some_and(|below| LEAVES.iter().any(|leaf| leaf.path == below))
    }
}

/// Every node, ancestors first.
pub(crate) static NODES: LazyLock<Vec<Node>> = LazyLock::new(|| {
    let mut paths: Vec<Vec<&'static str>> = vec![vec![]];
    let absolute = |below: &[&'static str]| [INTERFACE, below].concat();
    for leaf in &LEAVES {
        let path = absolute(leaf.path);
        for n_elems in 1..=path.len() {
            let ancestor = path[..n_elems].to_vec();
            if !paths.contains(&ancestor) {
                paths.push(ancestor);
            }
        }
    }
    paths.into_iter().map(|path| Node { path }).collect()
});

/// Returns the paths, from the root, of the nodes that the switch does not implement.
pub(crate) fn absent() -> impl Iterator<Item = Vec<&'static str>> {
    ABSENT.iter().map(|below| [INTERFACE, below].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_told_apart_and_no_absent_one_is_there() {
        let paths: Vec<_> = NODES.iter().map(|node| node.path.join("/")).collect();
        assert_eq!(paths[..3], ["", "interfaces", "interfaces/interface"]);
        assert!(paths.contains(&"interfaces/interface/state/counters".to_owned()));
        assert_eq!(
            NODES.iter().filter(|node| node.is_leaf()).count(),
            LEAVES.len()
        );
        assert_eq!(NODES[0].leaves().count(), LEAVES.len());
        for path in absent() {
            let path = path.join("/");
            assert!(!paths.contains(&path), "{path} is there");
        }
    }

    #[test]
    fn drops_at_a_port_are_discards_or_errors_and_each_is_one() {
        let mut port = Port::default();
        port.status.drops = vec![
            ("rx_ring_full", 1),
            ("rx_too_short", 2),
            ("tx_no_room", 4),
            ("tx_refused", 8),
        ];
        port.counters.rx_disabled = 16;
        port.counters.tx_disabled = 32;
        let read = |name: &str| {
            let leaf = LEAVES.iter().find(|leaf| leaf.path.ends_with(&[name]));
            leaf.and_then(|leaf| leaf.read("veth1", &port))
        };
        let names = ["in-discards", "in-errors", "out-discards", "out-errors"];
        let expected = [17, 2, 36, 8].map(|number| Some(Value::Number(number)));
        assert_eq!(names.map(read), expected);
    }
}
