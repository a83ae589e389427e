//! A workload consists of a program, the entries of its tables, and its packets.

mod entries;
mod l2;
mod l2l3_acl;
mod l3;
mod sfu;

use dataplane::{PortId, Switch, SwitchConfig, engine::EngineFactory};

use crate::frames::Frames;

/// The ports of the pipelines that forward between two ports.
const PORTS: [PortId; 2] = [PortId(1), PortId(2)];

/// Minimum number of packets before the frames repeat, so that one flow's packets are not all in the same cache lines.
const FRAMES_MIN: usize = 256;

/// A pipeline of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Pipeline {
    /// A learning Ethernet switch: `p4/bench/l2.p4`
    L2,
    /// An IPv4 router: `p4/bench/l3.p4`
    L3,
    /// A switch and router with an access list: `p4/bench/l2l3_acl.p4`
    L2l3Acl,
    /// An SFU whose copies are made by the replication engine: `p4/sfu.p4`
    Sfu,
    /// An SFU whose copies are made by recirculation: `p4/sfu_recirculation.p4`
    SfuRecirculation,
}

/// A pipeline, and the sizes of its workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workload {
    pub pipeline: Pipeline,
    /// Number of flows. Packets belong to the flows in turn.
    pub flows: usize,
    /// Length of a frame in bytes, without FCS.
    pub frame_bytes: usize,
    /// Number of entries in the table that grows: stations, routes, or rules. An SFU does not use this number.
    pub entries: usize,
    /// Number of groups of an SFU. A flow is a presenter's stream to one of the groups.
    pub groups: usize,
    /// Number of viewers of each group.
    pub viewers: usize,
}

impl Pipeline {
    pub const ALL: [Self; 5] = [
        Self::L2,
        Self::L3,
        Self::L2l3Acl,
        Self::Sfu,
        Self::SfuRecirculation,
    ];

    /// Returns the name in result files.
    pub fn name(self) -> &'static str {
        match self {
            Self::L2 => "l2",
            Self::L3 => "l3",
            Self::L2l3Acl => "l2l3_acl",
            Self::Sfu => "sfu",
            Self::SfuRecirculation => "sfu_recirculation",
        }
    }

    pub fn is_sfu(self) -> bool {
        matches!(self, Self::Sfu | Self::SfuRecirculation)
    }

    /// Returns the usual number of entries in the table that grows.
    pub fn default_entries(self) -> usize {
        match self {
            Self::L2 => l2::STATIONS,
            Self::L3 => l3::ROUTES,
            Self::L2l3Acl => l2l3_acl::RULES,
            Self::Sfu | Self::SfuRecirculation => 0,
        }
    }
}

impl Workload {
    /// Makes a switch with an engine, the program and its entries.
    ///
    /// # Errors
    /// The switch refuses an entry.
    pub fn switch(&self, factory: Box<dyn EngineFactory>) -> Result<Switch, String> {
        let mut switch = Switch::with_engine(SwitchConfig::default(), factory);
        PORTS.into_iter().for_each(|port| switch.add_port(port));
        match self.pipeline {
            Pipeline::L2 => l2::set_up(&mut switch, self.entries)?,
            Pipeline::L3 => l3::set_up(&mut switch, self.entries)?,
            Pipeline::L2l3Acl => l2l3_acl::set_up(&mut switch, self.entries)?,
            Pipeline::Sfu | Pipeline::SfuRecirculation => switch = sfu::set_up(switch, self)?,
        }
        Ok(switch)
    }

    /// Returns the packets of all flows in turn. Every flow has equally many packets, and there are at least
    /// `FRAMES_MIN` packets.
    pub fn frames(&self) -> Frames {
        let mut frames = Frames::new(self.frame_bytes);
        let flows = self.flows.max(1);
        for n in 0..flows.max(FRAMES_MIN).next_multiple_of(flows) {
            let flow = n % flows;
            let (port, frame) = match self.pipeline {
                Pipeline::L2 => l2::frame(flow, self.entries),
                Pipeline::L3 => l3::frame(flow, self.entries),
                Pipeline::L2l3Acl => l2l3_acl::frame(flow),
                Pipeline::Sfu | Pipeline::SfuRecirculation => sfu::frame(flow % self.groups.max(1)),
            };
            frames.push(port, &frame);
        }
        frames
    }
}

/// Returns a station's address, which contains the station's role and number.
fn mac(role: u8, number: usize) -> [u8; 6] {
    let [.., a, b, c] = number.to_be_bytes();
    [2, 0, role, a, b, c]
}
