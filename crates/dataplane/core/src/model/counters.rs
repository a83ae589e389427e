//! Counters that the switch keeps whatever program is loaded.

use super::{DropReason, PortId, TableId};

/// Counters of one port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Frames received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Frames received while the port was disabled; not part of `rx_packets`.
    pub rx_disabled: u64,
    /// Frames dropped because their output port was disabled.
    pub tx_disabled: u64,
}

impl PortCounters {
    /// Adds another switch's counters of the same port.
    pub fn add(&mut self, other: &Self) {
        self.rx_packets += other.rx_packets;
        self.rx_bytes += other.rx_bytes;
        self.tx_packets += other.tx_packets;
        self.tx_bytes += other.tx_bytes;
        self.rx_disabled += other.rx_disabled;
        self.tx_disabled += other.tx_disabled;
    }
}

/// Counters of one table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TableCounters {
    /// Lookups that found an entry.
    pub hits: u64,
    /// Lookups that found no entry.
    pub misses: u64,
}

/// Counters that the switch keeps whatever program is loaded.
///
/// `received + created_by_clone + created_by_replication` always equals `transmitted + to_cpu +
/// dropped_total() +` [`crate::Switch::packets_inside`], apart from what an offload has counted
/// since the last [`crate::Switch::collect`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SwitchCounters {
    /// Frames that arrived, including those of packet generators.
    pub received: u64,
    /// Frames that packet generators made.
    pub generated: u64,
    /// Clones made.
    pub created_by_clone: u64,
    /// Replicas made, without the replica that the original packet becomes.
    pub created_by_replication: u64,
    /// Frames that left by a port.
    pub transmitted: u64,
    /// Packet-ins.
    pub to_cpu: u64,
    /// Digests made, including lost ones.
    pub digests: u64,
    /// Digests lost because the queue was full.
    pub digests_lost: u64,
    /// Idle timeouts lost because the queue was full.
    pub idle_timeouts_lost: u64,
    /// Indexed by port number; `None` if the port was not added.
    ports: Vec<Option<PortCounters>>,
    /// In the order of [`DropReason::ALL`].
    drops: Vec<u64>,
    pub(crate) tables: Vec<TableCounters>,
}

impl SwitchCounters {
    /// The counters of every port that was added.
    pub fn ports(&self) -> impl Iterator<Item = (PortId, PortCounters)> {
        let all = (0..).map(PortId).zip(&self.ports);
        all.filter_map(|(port, counters)| Some((port, (*counters)?)))
    }

    /// The counters of one port; zero if it was not added.
    pub fn port(&self, port: PortId) -> PortCounters {
        let counters = self.ports.get(usize::from(port.0)).copied();
        counters.flatten().unwrap_or_default()
    }

    pub(crate) fn has_port(&self, port: PortId) -> bool {
        matches!(self.ports.get(usize::from(port.0)), Some(Some(_)))
    }

    pub(crate) fn port_mut(&mut self, port: PortId) -> Option<&mut PortCounters> {
        self.ports.get_mut(usize::from(port.0))?.as_mut()
    }

    pub(crate) fn add_port(&mut self, port: PortId) {
        let place = usize::from(port.0);
        if place >= self.ports.len() {
            self.ports.resize(place + 1, None);
        }
        self.ports[place].get_or_insert_default();
    }

    /// Packets dropped for a reason.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops.get(reason as usize).copied().unwrap_or_default()
    }

    /// Every reason with its count, including zeros.
    pub fn drops(&self) -> impl Iterator<Item = (DropReason, u64)> {
        let reasons = DropReason::ALL.iter();
        reasons.map(|reason| (*reason, self.dropped(*reason)))
    }

    /// Packets dropped for any reason.
    pub fn dropped_total(&self) -> u64 {
        self.drops.iter().sum()
    }

    pub(crate) fn count_drop(&mut self, reason: DropReason) {
        self.count_drops(reason, 1);
    }

    pub(crate) fn count_drops(&mut self, reason: DropReason, n_packets: u64) {
        self.drops.resize(DropReason::ALL.len(), 0);
        if let Some(count) = self.drops.get_mut(reason as usize) {
            *count += n_packets;
        }
    }

    /// The counters of one table; zero if the table does not exist.
    pub fn table(&self, table: TableId) -> TableCounters {
        self.tables.get(table.index()).copied().unwrap_or_default()
    }

    /// Adds the counters of another switch with the same ports and program.
    pub fn add(&mut self, other: &Self) {
        self.received += other.received;
        self.generated += other.generated;
        self.created_by_clone += other.created_by_clone;
        self.created_by_replication += other.created_by_replication;
        self.transmitted += other.transmitted;
        self.to_cpu += other.to_cpu;
        self.digests += other.digests;
        self.digests_lost += other.digests_lost;
        self.idle_timeouts_lost += other.idle_timeouts_lost;
        for (port, theirs) in other.ports() {
            self.add_port(port);
            if let Some(ours) = self.port_mut(port) {
                ours.add(&theirs);
            }
        }
        self.drops.resize(DropReason::ALL.len(), 0);
        for (ours, theirs) in self.drops.iter_mut().zip(&other.drops) {
            *ours += theirs;
        }
        let n_tables = self.tables.len().max(other.tables.len());
        self.tables.resize(n_tables, TableCounters::default());
        for (ours, theirs) in self.tables.iter_mut().zip(&other.tables) {
            ours.hits += theirs.hits;
            ours.misses += theirs.misses;
        }
    }
}
