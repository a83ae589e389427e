//! The door: frames and control calls in, frames, packet-ins and digests out.

use std::collections::{BTreeMap, VecDeque};

use crate::{
    Digest, DropReason, IdleTimeout, Nanos, PortId, Program, TableId, TraceSink,
    externs::Externs,
    limits,
    match_action::Tables,
    packet::{Common, Frame, IngressPacket, InstanceType},
    phv::Phv,
    trace::{TraceKind, Tracer},
    traffic_manager::TrafficManager,
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
    /// Idle timeouts lost because nobody took them.
    pub idle_timeouts_lost: u64,
    pub(crate) ports: BTreeMap<PortId, PortCounters>,
    /// In the order of [`DropReason::ALL`].
    drops: Vec<u64>,
    pub(crate) tables: Vec<TableCounters>,
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
        self.drops.get(reason as usize).copied().unwrap_or_default()
    }

    /// Every reason with its count, zeros too.
    pub fn drops(&self) -> impl Iterator<Item = (DropReason, u64)> {
        DropReason::ALL
            .iter()
            .map(|reason| (*reason, self.dropped(*reason)))
    }

    /// Packets dropped for any reason.
    pub fn dropped_total(&self) -> u64 {
        self.drops.iter().sum()
    }

    pub(crate) fn count_drop(&mut self, reason: DropReason) {
        self.drops.resize(DropReason::ALL.len(), 0);
        if let Some(count) = self.drops.get_mut(reason as usize) {
            *count += 1;
        }
    }

    /// One table.
    pub fn table(&self, table: TableId) -> TableCounters {
        self.tables.get(table.index()).copied().unwrap_or_default()
    }
}

/// A program with its state.
pub(crate) struct Loaded {
    pub program: Program,
    pub tables: Tables,
    pub externs: Externs,
    /// Header vectors that no packet uses now.
    spare: Vec<Phv>,
}

impl Loaded {
    fn new(program: Program, config: &SwitchConfig, now: Nanos) -> Self {
        let tables = Tables::new(&program, now);
        let externs = Externs::new(&program.ir, config.random_seed, now);
        Self {
            program,
            tables,
            externs,
            spare: Vec::new(),
        }
    }

    /// A header vector with whatever in it.
    pub(crate) fn spare_phv(&mut self) -> Phv {
        self.spare
            .pop()
            .unwrap_or_else(|| Phv::new(&self.program.ir))
    }

    /// A header vector with nothing in it.
    pub(crate) fn blank_phv(&mut self) -> Phv {
        match self.spare.pop() {
            Some(mut phv) => {
                phv.reset(&self.program.ir);
                phv
            }
            None => Phv::new(&self.program.ir),
        }
    }

    pub(crate) fn give_back(&mut self, phv: Phv) {
        if self.spare.len() < limits::SPARE_HEADER_VECTORS_MAX {
            self.spare.push(phv);
        }
    }
}

/// The switch: a pure state machine, (program, state, time, frame) to frames.
///
/// Scheduling is part of the semantics: egress work first, then recirculated and resubmitted
/// packets, then new frames. So one packet's passes run back to back unless a rate holds a queue.
pub struct Switch {
    config: SwitchConfig,
    pub(crate) loaded: Option<Box<Loaded>>,
    pub(crate) traffic: TrafficManager,
    pub(crate) counters: SwitchCounters,
    pub(crate) tracer: Tracer,
    pub(crate) transmits: VecDeque<Transmit>,
    pub(crate) packet_ins: VecDeque<Vec<u8>>,
    pub(crate) digests: VecDeque<Digest>,
    pub(crate) idle_timeouts: VecDeque<IdleTimeout>,
    /// The latest time that anyone has given.
    pub(crate) now: Nanos,
    epoch: u64,
    n_frames: u64,
}

impl Switch {
    /// A switch without ports and without a program: every frame is dropped.
    pub fn new(config: SwitchConfig) -> Self {
        Self {
            traffic: TrafficManager::new(&config),
            config,
            loaded: None,
            counters: SwitchCounters::default(),
            tracer: Tracer::default(),
            transmits: VecDeque::new(),
            packet_ins: VecDeque::new(),
            digests: VecDeque::new(),
            idle_timeouts: VecDeque::new(),
            now: 0,
            epoch: 0,
            n_frames: 0,
        }
    }

    /// What the switch was made with.
    pub fn config(&self) -> &SwitchConfig {
        &self.config
    }

    /// Adds a port. Frames from a port that was not added are dropped and counted, and so are
    /// those to one; the CPU port needs no adding.
    pub fn add_port(&mut self, port: PortId) {
        self.counters.ports.entry(port).or_default();
    }

    /// Replaces the program. All state is cleared: tables, registers, counters, groups, sessions,
    /// digests; the packets inside are dropped and counted. The switch's own counters of ports
    /// and drops go on.
    pub fn set_program(&mut self, program: Program) {
        let waiting = std::mem::take(&mut self.traffic.ingress);
        let commons = waiting
            .into_iter()
            .chain(self.traffic.recirculation.drain())
            .map(|packet| packet.common)
            .chain(self.traffic.egress.drain().map(|packet| packet.common));
        for common in commons.collect::<Vec<Common>>() {
            self.tracer
                .set_packet(0, common.label.as_ref(), common.pass());
            self.count_drop(DropReason::PipelineChanged);
            self.traffic.inside.leave(common.epoch);
        }
        self.traffic = TrafficManager::new(&self.config);
        self.digests.clear();
        self.idle_timeouts.clear();
        self.counters.tables = vec![TableCounters::default(); program.tables.len()];
        self.loaded = Some(Box::new(Loaded::new(program, &self.config, self.now)));
    }

    /// The loaded program.
    pub fn program(&self) -> Option<&Program> {
        self.loaded.as_ref().map(|loaded| &loaded.program)
    }

    /// Takes a frame in. Cheap: the work is done by [`Switch::poll_transmit`], to be called
    /// afterwards until it gives none. A packet-out is a frame from the CPU port.
    pub fn handle_frame(&mut self, now: Nanos, port: PortId, frame: &[u8]) {
        self.now = self.now.max(now);
        self.n_frames += 1;
        self.counters.received += 1;
        let label = self
            .tracer
            .is_on()
            .then(|| self.n_frames.to_string().into());
        self.tracer.set_packet(now, label.as_ref(), 1);
        self.tracer.emit(|| TraceKind::Arrive {
            port,
            frame_len_bytes: frame.len(),
        });
        if let Some(counters) = self.counters.ports.get_mut(&port) {
            counters.rx_packets += 1;
            counters.rx_bytes += frame.len() as u64;
        } else if self.config.cpu_port != Some(port) {
            return self.count_drop(DropReason::PortUnknown);
        }
        if self.loaded.is_none() {
            return self.count_drop(DropReason::NoPipeline);
        }
        if frame.len() > limits::FRAME_BYTES_MAX {
            return self.count_drop(DropReason::FrameTooLong);
        }
        if self.traffic.ingress.len() >= self.traffic.ingress_capacity {
            return self.count_drop(DropReason::IngressQueueFull);
        }
        self.traffic.inside.enter(self.epoch);
        self.traffic.ingress.push_back(IngressPacket {
            common: Common {
                epoch: self.epoch,
                label,
                n_clones: 0,
                n_replicas: 0,
                ingress_port: port,
                ingress_bytes: frame.len(),
                recirculations: 0,
                resubmits: 0,
                clone_generation: 0,
            },
            frame: Frame::from_bytes(frame),
            instance_type: InstanceType::Normal,
            kept: Vec::new(),
            arrived: Some(now),
        });
    }

    /// Runs passes until a frame leaves, or nothing can run at `now`. To be called until it gives
    /// none, after every `handle_frame` and `handle_timeout`.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Transmit> {
        self.now = self.now.max(now);
        loop {
            if let Some(transmit) = self.transmits.pop_front() {
                return Some(transmit);
            }
            if !self.step(now) {
                return None;
            }
        }
    }

    /// Runs one pass; false if none can run now.
    fn step(&mut self, now: Nanos) -> bool {
        // The program's state is moved out for the time of the pass, which borrows the rest.
        let Some(mut loaded) = self.loaded.take() else {
            return false;
        };
        let ran = if let Some(departure) = self.traffic.egress.pop(now) {
            self.egress_pass(&mut loaded, now, departure);
            true
        } else {
            let recirculated = self.traffic.recirculation.pop(now);
            match recirculated.or_else(|| self.traffic.ingress.pop_front()) {
                Some(packet) => {
                    self.ingress_pass(&mut loaded, now, packet);
                    true
                }
                None => false,
            }
        };
        self.loaded = Some(loaded);
        ran
    }

    /// A frame that went to the CPU port, with the packet-in header in front.
    pub fn poll_packet_in(&mut self) -> Option<Vec<u8>> {
        self.packet_ins.pop_front()
    }

    /// A digest for the control plane.
    pub fn poll_digest(&mut self) -> Option<Digest> {
        self.digests.pop_front()
    }

    /// When to call [`Switch::handle_timeout`] and [`Switch::poll_transmit`] again though no frame
    /// comes: the time at which a queue may let its next packet go, or an entry may be idle.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        let departures = [
            self.traffic.egress.next_departure(),
            self.traffic.recirculation.next_departure(),
        ];
        let loaded = self.loaded.as_ref();
        let idle = loaded.and_then(|loaded| loaded.tables.next_idle());
        departures.into_iter().flatten().chain(idle).min()
    }

    /// Tells that time has come to what [`Switch::poll_timeout`] said: looks for idle entries. The
    /// queues look at the time given to [`Switch::poll_transmit`].
    pub fn handle_timeout(&mut self, now: Nanos) {
        self.now = self.now.max(now);
        self.sweep_idle_entries();
    }

    /// Starts a new epoch. Every packet carries the epoch in which its root frame arrived;
    /// clones, replicas and recirculated packets inherit it.
    pub fn begin_drain(&mut self) -> DrainToken {
        self.epoch += 1;
        DrainToken(self.epoch - 1)
    }

    /// Whether every packet that was inside at [`Switch::begin_drain`] has left or was counted as
    /// dropped.
    pub fn is_drained(&self, token: DrainToken) -> bool {
        self.traffic.inside.is_clear(token.0)
    }

    /// Packets inside: waiting in a queue.
    pub fn packets_inside(&self) -> u64 {
        self.traffic.inside.total()
    }

    /// Everything the switch counts on its own.
    pub fn counters(&self) -> &SwitchCounters {
        &self.counters
    }

    /// Sets or takes away who listens to what happens.
    pub fn set_trace(&mut self, sink: Option<Box<dyn TraceSink>>) {
        self.tracer.set_sink(sink);
    }
}
