//! The door: frames and control calls in, frames, packet-ins and digests out.

use std::collections::BTreeMap;

use crate::{
    ActionCall, CloneSession, ControlError, ControlErrorKind, CounterId, CounterValue, DropReason,
    MatchField, MulticastGroup, Nanos, PortId, Program, RegisterId, TableEntry, TableId, TraceSink,
    limits,
};

/// What is chosen when a switch is made.
#[derive(Debug, Clone)]
pub struct SwitchConfig {
    /// Frames waiting for ingress at most.
    pub ingress_queue_packets: usize,
    /// Recirculated and resubmitted packets waiting at most.
    pub recirculation_queue_packets: usize,
    /// Packets waiting at each output port at most.
    pub egress_queue_packets: usize,
    /// Packets a second through the recirculation path; none: as fast as it goes.
    pub recirculation_rate_pps: Option<u64>,
    /// Packets a second through each output port; none: as fast as it goes.
    pub egress_rate_pps: Option<u64>,
    /// The port of packet-in and packet-out.
    pub cpu_port: Option<PortId>,
    /// Seed of the generator behind `random`.
    pub random_seed: u64,
}

impl Default for SwitchConfig {
    fn default() -> Self {
        Self {
            ingress_queue_packets: limits::INGRESS_QUEUE_PACKETS,
            recirculation_queue_packets: limits::RECIRCULATION_QUEUE_PACKETS,
            egress_queue_packets: limits::EGRESS_QUEUE_PACKETS,
            recirculation_rate_pps: None,
            egress_rate_pps: None,
            cpu_port: Some(PortId(limits::CPU_PORT)),
            random_seed: 1,
        }
    }
}

/// A frame that leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transmit {
    /// On this port.
    pub port: PortId,
    /// The whole frame.
    pub frame: Vec<u8>,
}

/// A digest message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    /// Name of the digest (the struct) in the BMv2 JSON.
    pub name: String,
    /// One value a member, canonical.
    pub members: Vec<Vec<u8>>,
}

/// An epoch that began with [`Switch::begin_drain`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DrainToken(u64);

/// What one port has seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Frames in.
    pub rx_packets: u64,
    /// Bytes in.
    pub rx_bytes: u64,
    /// Frames out.
    pub tx_packets: u64,
    /// Bytes out.
    pub tx_bytes: u64,
}

/// What one table has seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TableCounters {
    /// Lookups that found an entry.
    pub hits: u64,
    /// Lookups that found none.
    pub misses: u64,
}

/// Everything the switch counts on its own.
///
/// `received + created_by_clone + created_by_replication` is always
/// `transmitted + to_cpu + dropped_total() +` [`Switch::packets_inside`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SwitchCounters {
    /// Frames given to `handle_frame`.
    pub received: u64,
    /// Clones made.
    pub created_by_clone: u64,
    /// Replicas made beyond the packet that was replicated.
    pub created_by_replication: u64,
    /// Frames given out by `poll_transmit`.
    pub transmitted: u64,
    /// Frames sent to the CPU port.
    pub to_cpu: u64,
    /// Digests made.
    pub digests: u64,
    /// Digests lost because nobody took them.
    pub digests_lost: u64,
    ports: BTreeMap<PortId, PortCounters>,
    drops: BTreeMap<DropReason, u64>,
    tables: Vec<TableCounters>,
}

impl SwitchCounters {
    /// Every port that was added, and what it has seen.
    pub fn ports(&self) -> impl Iterator<Item = (PortId, PortCounters)> {
        self.ports.iter().map(|(port, counters)| (*port, *counters))
    }

    /// One port.
    pub fn port(&self, port: PortId) -> PortCounters {
        self.ports.get(&port).copied().unwrap_or_default()
    }

    /// Packets dropped for a reason.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops.get(&reason).copied().unwrap_or_default()
    }

    /// Every reason with its count, zeros too.
    pub fn drops(&self) -> impl Iterator<Item = (DropReason, u64)> {
        DropReason::ALL
            .iter()
            .map(|reason| (*reason, self.dropped(*reason)))
    }

    /// Packets dropped for any reason.
    pub fn dropped_total(&self) -> u64 {
        self.drops.values().sum()
    }

    /// One table.
    pub fn table(&self, table: TableId) -> TableCounters {
        self.tables.get(table.index()).copied().unwrap_or_default()
    }
}

/// The switch.
pub struct Switch {
    config: SwitchConfig,
    program: Option<Program>,
    counters: SwitchCounters,
    trace: Option<Box<dyn TraceSink>>,
    epoch: u64,
}

type ControlResult<T = ()> = Result<T, ControlError>;

fn not_yet<T>() -> ControlResult<T> {
    Err(ControlError::new(
        ControlErrorKind::Unimplemented,
        "the interpreter is not there yet",
    ))
}

#[expect(
    clippy::missing_errors_doc,
    reason = "skeleton; the documentation comes with the bodies"
)]
#[expect(
    missing_docs,
    reason = "skeleton; the documentation comes with the bodies"
)]
impl Switch {
    pub fn new(config: SwitchConfig) -> Self {
        Self {
            config,
            program: None,
            counters: SwitchCounters::default(),
            trace: None,
            epoch: 0,
        }
    }
    pub fn config(&self) -> &SwitchConfig {
        &self.config
    }
    pub fn add_port(&mut self, port: PortId) {
        self.counters.ports.entry(port).or_default();
    }
    pub fn set_program(&mut self, program: Program) {
        self.program = Some(program);
    }
    pub fn program(&self) -> Option<&Program> {
        self.program.as_ref()
    }
    pub fn handle_frame(&mut self, _now: Nanos, _port: PortId, _frame: &[u8]) {
        self.counters.received += 1;
        *self
            .counters
            .drops
            .entry(DropReason::NoPipeline)
            .or_default() += 1;
    }
    pub fn poll_transmit(&mut self, _now: Nanos) -> Option<Transmit> {
        None
    }
    pub fn poll_packet_in(&mut self) -> Option<Vec<u8>> {
        None
    }
    pub fn poll_digest(&mut self) -> Option<Digest> {
        None
    }
    pub fn poll_timeout(&self) -> Option<Nanos> {
        None
    }
    pub fn handle_timeout(&mut self, _now: Nanos) {}
    pub fn begin_drain(&mut self) -> DrainToken {
        self.epoch += 1;
        DrainToken(self.epoch - 1)
    }
    pub fn is_drained(&self, token: DrainToken) -> bool {
        token.0 < self.epoch
    }
    pub fn packets_inside(&self) -> u64 {
        0
    }
    pub fn counters(&self) -> &SwitchCounters {
        &self.counters
    }
    pub fn set_trace(&mut self, sink: Option<Box<dyn TraceSink>>) {
        self.trace = sink;
    }
    pub fn insert_entry(&mut self, _table: TableId, _entry: TableEntry) -> ControlResult {
        not_yet()
    }
    pub fn modify_entry(&mut self, _table: TableId, _entry: TableEntry) -> ControlResult {
        not_yet()
    }
    pub fn delete_entry(
        &mut self,
        _table: TableId,
        _key: &[MatchField],
        _priority: i32,
    ) -> ControlResult {
        not_yet()
    }
    pub fn entries(&self, _table: TableId) -> Vec<TableEntry> {
        Vec::new()
    }
    pub fn entry_count(&self, _table: TableId) -> usize {
        0
    }
    pub fn entry(
        &self,
        _table: TableId,
        _key: &[MatchField],
        _priority: i32,
    ) -> Option<TableEntry> {
        None
    }
    pub fn set_default_action(
        &mut self,
        _table: TableId,
        _action: Option<ActionCall>,
    ) -> ControlResult {
        not_yet()
    }
    pub fn default_action(&self, _table: TableId) -> Option<ActionCall> {
        None
    }
    pub fn direct_counter(
        &self,
        _table: TableId,
        _key: &[MatchField],
        _priority: i32,
    ) -> ControlResult<CounterValue> {
        not_yet()
    }
    pub fn set_direct_counter(
        &mut self,
        _table: TableId,
        _key: &[MatchField],
        _priority: i32,
        _value: CounterValue,
    ) -> ControlResult {
        not_yet()
    }
    pub fn counter_cell(&self, _counter: CounterId, _index: u64) -> ControlResult<CounterValue> {
        not_yet()
    }
    pub fn set_counter_cell(
        &mut self,
        _counter: CounterId,
        _index: u64,
        _value: CounterValue,
    ) -> ControlResult {
        not_yet()
    }
    pub fn counter_size(&self, _counter: CounterId) -> u64 {
        0
    }
    pub fn register_cell(&self, _register: RegisterId, _index: u64) -> ControlResult<Vec<u8>> {
        not_yet()
    }
    pub fn set_register_cell(
        &mut self,
        _register: RegisterId,
        _index: u64,
        _value: &[u8],
    ) -> ControlResult {
        not_yet()
    }
    pub fn register_size(&self, _register: RegisterId) -> u64 {
        0
    }
    pub fn register_width_bits(&self, _register: RegisterId) -> u32 {
        0
    }
    pub fn insert_clone_session(&mut self, _session: CloneSession) -> ControlResult {
        not_yet()
    }
    pub fn modify_clone_session(&mut self, _session: CloneSession) -> ControlResult {
        not_yet()
    }
    pub fn delete_clone_session(&mut self, _id: u32) -> ControlResult {
        not_yet()
    }
    pub fn clone_sessions(&self) -> Vec<CloneSession> {
        Vec::new()
    }
    pub fn insert_multicast_group(&mut self, _group: MulticastGroup) -> ControlResult {
        not_yet()
    }
    pub fn modify_multicast_group(&mut self, _group: MulticastGroup) -> ControlResult {
        not_yet()
    }
    pub fn delete_multicast_group(&mut self, _id: u32) -> ControlResult {
        not_yet()
    }
    pub fn multicast_groups(&self) -> Vec<MulticastGroup> {
        Vec::new()
    }
}
