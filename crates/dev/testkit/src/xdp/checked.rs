//! Compares the interpreter with the kernel program. Both get each frame. If the kernel program does not punt the
//! frame, verdict, bytes, and counters are compared.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use dataplane::engine::{
    Change, CloneCopies, Clones, EgressInput, EgressOutcome, EgressVerdict, Engine, EngineFactory,
    Frame, IngressInput, IngressOutcome, IngressVerdict, InstanceType, PacketHandle, State,
};
use dataplane::{CounterValue, Digest, DropReason, PortId, Switch, SwitchConfig, TableCounters};

use dataplane::interpret::InterpreterFactory;
use dataplane_xdp::image::Room;

use super::kernel::{End, Kernel, Run, little_room};

/// The results of comparisons.
#[derive(Debug, Default, Clone)]
pub struct Report {
    pub n_frames: usize,
    /// Number of compared frames and copies, which the kernel program did not punt.
    pub n_kernel: usize,
    pub n_copies: usize,
    /// Number of digests that the kernel program has sent. They must be the interpreter's digests.
    pub n_digests: usize,
    /// The reason why the program cannot run in the kernel.
    pub refused: Option<String>,
    /// Places in the program at which packets are punted, with reasons.
    pub left: Vec<dataplane::engine::Interpreted>,
    pub differences: Vec<String>,
    /// The number of times that each frame is run to measure its time. 0 means no measurement.
    pub repeat: u32,
    /// The time of each frame and of each copy, in nanoseconds.
    pub times_ns: Vec<u128>,
    /// Number of instructions of the ingress program and the egress program together. `n_verified` is the number of
    /// instructions that the verifier has processed.
    pub n_instructions: usize,
    pub n_verified: u64,
}

/// Makes interpreters that are compared with the kernel program.
pub struct CheckedFactory {
    pub report: Arc<Mutex<Report>>,
    room: Room,
}

/// Makes a switch whose interpreter is compared with the kernel program.
pub fn checked_switch(config: SwitchConfig) -> (Switch, Arc<Mutex<Report>>) {
    checked_switch_with(config, little_room())
}

/// Makes a switch like [`checked_switch`], with this room for state in the program that the kernel runs.
pub fn checked_switch_with(config: SwitchConfig, room: Room) -> (Switch, Arc<Mutex<Report>>) {
    let factory = CheckedFactory {
        report: Arc::default(),
        room,
    };
    let report = factory.report.clone();
    (Switch::with_engine(config, Box::new(factory)), report)
}

impl EngineFactory for CheckedFactory {
    fn name(&self) -> &'static str {
        "checked"
    }

    fn traces(&self) -> bool {
        true
    }

    fn load(&self, state: &mut State) -> Box<dyn Engine> {
        let inner = InterpreterFactory.load(state);
        let kernel = match Kernel::with(state.program(), &self.room) {
            Ok(kernel) => {
                (0..511).for_each(|port| kernel.forward_to(PortId(port), true));
                let mut report = self.report.lock().unwrap();
                report.left = kernel.image.left.clone();
                let copies = kernel.image.egress.as_ref();
                report.n_instructions = kernel.image.ingress.instructions.len()
                    + copies.map_or(0, |code| code.instructions.len());
                report.n_verified = kernel.n_verified;
                Some(kernel)
            }
            Err(reason) => {
                self.report.lock().unwrap().refused = Some(reason);
                None
            }
        };
        Box::new(Checked {
            inner,
            kernel,
            is_stale: true,
            frames: HashMap::new(),
            pending: HashMap::new(),
            report: self.report.clone(),
        })
    }
}

/// The comparison that remains for a packet that the kernel program has handled.
#[derive(Debug, Clone)]
enum Pending {
    /// The kernel program's run for a packet to one port, and the counters that the interpreter has counted so far.
    One(Run, Vec<u32>),
    /// The packet is copied, and its copies must be compared. The bytes are the metadata and then the frame.
    Copies(Vec<u8>),
    /// The frame that leaves.
    Frame(Vec<u8>),
}

struct Checked {
    inner: Box<dyn Engine>,
    kernel: Option<Kernel>,
    is_stale: bool,
    frames: HashMap<u32, Vec<u8>>,
    pending: HashMap<u32, Pending>,
    report: Arc<Mutex<Report>>,
}

/// The values of all counters at one time.
struct Snapshot {
    tables: Vec<TableCounters>,
    accounts: Vec<Vec<CounterValue>>,
    cells: Vec<Vec<CounterValue>>,
}

fn snapshot(state: &mut State) -> Snapshot {
    let program = state.program().clone();
    let tables: Vec<_> = program.tables().map(|(table, _)| table).collect();
    let counters: Vec<_> = program.counters().map(|(counter, _)| counter).collect();
    Snapshot {
        tables: state.table_counters().to_vec(),
        accounts: tables
            .iter()
            .map(|table| {
                let accounts = state.accounts(*table).iter();
                accounts.map(|account| account.counter).collect()
            })
            .collect(),
        cells: counters
            .iter()
            .map(|counter| state.counter_cells(*counter).to_vec())
            .collect(),
    }
}

impl Checked {
    /// Returns the counters that have counted a packet between two snapshots.
    fn counted(&self, state: &State, before: &Snapshot, after: &Snapshot) -> Vec<u32> {
        let Some(kernel) = &self.kernel else {
            return Vec::new();
        };
        let mut counted = Vec::new();
        for (table, _) in state.program().tables() {
            let at = table.index();
            let misses = after.tables[at].misses - before.tables[at].misses;
            counted.extend((0..misses).map(|_| kernel.image.counters.body(table, 0)));
            for (entry, value) in after.accounts[at].iter().enumerate() {
                let n = value.packets - before.accounts[at][entry].packets;
                let body = (1..).take(after.accounts[at].len() + 64);
                let mut body = body.filter(|body| {
                    kernel
                        .entry(table, *body)
                        .is_some_and(|it| it.index() == entry)
                });
                if n > 0 {
                    let body = body.next().unwrap_or(u32::MAX - 1_000_000);
                    let number = kernel.image.counters.body(table, 0) + body;
                    counted.extend((0..n).map(|_| number));
                }
            }
        }
        for (counter, cells) in after.cells.iter().enumerate() {
            let first = kernel.image.counters.cells[counter];
            for (cell, value) in cells.iter().enumerate() {
                let n = value.packets - before.cells[counter][cell].packets;
                counted.extend((0..n).map(|_| first.unwrap_or(u32::MAX / 2) + cell as u32));
            }
        }
        counted.sort_unstable();
        counted
    }

    fn differ(&self, what: &str, frame: &[u8], expected: String, found: String) {
        let frame: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
        let message =
            format!("{what}\n  frame    {frame}\n  expected {expected}\n  found    {found}");
        self.report.lock().unwrap().differences.push(message);
    }

    fn compare<T: PartialEq + std::fmt::Debug>(
        &self,
        what: &str,
        frame: &[u8],
        expected: T,
        found: T,
    ) {
        if expected != found {
            self.differ(
                what,
                frame,
                format!("{expected:02x?}"),
                format!("{found:02x?}"),
            );
        }
    }

    /// Runs the kernel program after the interpreter's ingress, and makes the comparisons that are already possible.
    fn compare_ingress(
        &mut self,
        input: &IngressInput,
        packet: PacketHandle,
        outcome: &IngressOutcome,
        counted: Vec<u32>,
        digests: Vec<Digest>,
    ) {
        let Some(frame) = self.frames.remove(&packet.0) else {
            return;
        };
        let Some(kernel) = &mut self.kernel else {
            return;
        };
        if frame.len() < 14 || input.ingress_port.0 > 510 {
            return;
        }
        self.report.lock().unwrap().n_frames += 1;
        if let IngressVerdict::Multicast(group) = outcome.verdict {
            kernel.set_group(group, 2);
        }
        let run = kernel.run(input.ingress_port, &frame);
        let repeat = self.report.lock().unwrap().repeat;
        if repeat > 0 {
            let time = kernel.time(input.ingress_port, &frame, repeat);
            self.report.lock().unwrap().times_ns.push(time);
        }
        if run.end == End::Punt {
            self.compare("digests of a punted frame", &frame, vec![], run.digests);
            return;
        }
        let mut report = self.report.lock().unwrap();
        report.n_kernel += 1;
        report.n_digests += run.digests.len();
        drop(report);
        if outcome.clone_session.is_some() {
            self.differ("ingress", &frame, "a clone".into(), format!("{run:02x?}"));
        }
        self.compare("digests", &frame, digests, run.digests.clone());
        match (&run.end, outcome.verdict) {
            (End::Drop(found), IngressVerdict::Drop(expected)) => {
                self.compare("drop reason", &frame, expected, *found);
                self.compare("counted", &frame, counted, run.counted);
            }
            (End::Drop(_), IngressVerdict::Unicast(_)) => {
                self.pending.insert(packet.0, Pending::One(run, counted));
            }
            (End::Send(found, _), IngressVerdict::Unicast(expected)) => {
                self.compare("port", &frame, expected, *found);
                self.pending.insert(packet.0, Pending::One(run, counted));
            }
            (End::FanOut(copied), IngressVerdict::Multicast(_)) => {
                self.compare(
                    "counted by a packet of a group",
                    &frame,
                    counted,
                    run.counted.clone(),
                );
                self.pending
                    .insert(packet.0, Pending::Copies(copied.clone()));
            }
            (_, verdict) => {
                self.differ(
                    "verdict",
                    &frame,
                    format!("{verdict:?}"),
                    format!("{run:02x?}"),
                );
            }
        }
    }

    fn compare_egress(
        &mut self,
        input: &EgressInput,
        packet: PacketHandle,
        outcome: &EgressOutcome,
        counted: Vec<u32>,
    ) {
        let pending = match self.pending.get(&packet.0).cloned() {
            Some(Pending::Copies(frame)) => {
                if packet != outcome.packet {
                    self.pending.remove(&outcome.packet.0);
                }
                let Some(kernel) = &self.kernel else {
                    return;
                };
                self.report.lock().unwrap().n_copies += 1;
                let instance = input.instance.unwrap_or_default();
                let run = kernel.run_copy(&frame, input.port, instance);
                self.compare("digests of a copy", &frame, &vec![], &run.digests);
                let repeat = self.report.lock().unwrap().repeat;
                if repeat > 0 {
                    let time = kernel.time_copy(&frame, instance, repeat);
                    self.report.lock().unwrap().times_ns.push(time);
                }
                Pending::One(run, Vec::new())
            }
            Some(pending) => pending,
            None => {
                self.pending.remove(&outcome.packet.0);
                return;
            }
        };
        let Pending::One(run, before) = pending else {
            return;
        };
        let all: Vec<u32> = {
            let mut all = [before, counted].concat();
            all.sort_unstable();
            all
        };
        if outcome.clone_session.is_some() {
            self.differ("egress", &[], "a clone".into(), format!("{run:02x?}"));
        }
        match (run.end, outcome.verdict) {
            (End::Drop(found), EgressVerdict::Drop(expected)) => {
                self.compare("drop reason", &[], expected, found);
                self.compare("counted", &[], all, run.counted);
                if outcome.packet != packet || input.instance_type != InstanceType::Replicated {
                    self.pending.remove(&outcome.packet.0);
                }
            }
            (End::Send(port, frame), EgressVerdict::Transmit) => {
                self.compare("port", &[], input.port, port);
                self.compare("counted", &[], all, run.counted);
                self.pending.insert(outcome.packet.0, Pending::Frame(frame));
            }
            (found, expected) => {
                self.differ(
                    "egress",
                    &[],
                    format!("{expected:?}"),
                    format!("{found:02x?}"),
                );
            }
        }
    }
}

impl Engine for Checked {
    fn receive(&mut self, frame: &[u8]) -> PacketHandle {
        let packet = self.inner.receive(frame);
        self.frames.insert(packet.0, frame.to_vec());
        self.pending.remove(&packet.0);
        packet
    }

    fn ingress(
        &mut self,
        state: &mut State,
        input: &IngressInput,
        packet: PacketHandle,
    ) -> IngressOutcome {
        if std::mem::take(&mut self.is_stale)
            && let Some(kernel) = &mut self.kernel
        {
            kernel.sync(state);
        }
        let before = snapshot(state);
        let outcome = self.inner.ingress(state, input, packet);
        let after = snapshot(state);
        let counted = self.counted(state, &before, &after);
        if input.instance_type == InstanceType::Normal {
            let digest = outcome.has_digest.then(|| self.inner.digest(state, packet));
            let digests = digest.into_iter().collect();
            self.compare_ingress(input, packet, &outcome, counted, digests);
        }
        outcome
    }

    fn digest(&mut self, state: &mut State, packet: PacketHandle) -> Digest {
        self.inner.digest(state, packet)
    }

    fn clone_ingress(
        &mut self,
        state: &mut State,
        input: &IngressInput,
        packet: PacketHandle,
        copies: CloneCopies,
    ) -> Clones {
        let clones = self.inner.clone_ingress(state, input, packet, copies);
        self.pending.remove(&clones.packet.0);
        clones
    }

    fn replicate(&mut self, packet: PacketHandle, copies: u32) {
        self.inner.replicate(packet, copies);
    }

    fn resubmit(&mut self, packet: PacketHandle) {
        self.inner.resubmit(packet);
    }

    fn egress(
        &mut self,
        state: &mut State,
        input: &EgressInput,
        packet: PacketHandle,
    ) -> EgressOutcome {
        // The kernel has no queues. So the interpreter gets empty queues too, for packets that the kernel program has
        // handled.
        let mut input = *input;
        if self.pending.contains_key(&packet.0) {
            (input.enq_depth, input.deq_depth) = (0, 0);
        }
        let input = &input;
        let before = snapshot(state);
        let outcome = self.inner.egress(state, input, packet);
        let after = snapshot(state);
        let counted = self.counted(state, &before, &after);
        self.compare_egress(input, packet, &outcome, counted);
        outcome
    }

    fn clone_egress(
        &mut self,
        state: &mut State,
        packet: PacketHandle,
        copies: CloneCopies,
    ) -> Clones {
        let clones = self.inner.clone_egress(state, packet, copies);
        self.pending.remove(&clones.packet.0);
        clones
    }

    fn deparse(&mut self, state: &mut State, packet: PacketHandle) -> Result<usize, DropReason> {
        let len = self.inner.deparse(state, packet);
        if let Some(Pending::Frame(found)) = self.pending.remove(&packet.0) {
            let frame = self.inner.frame(packet);
            let expected = [frame.head, frame.payload].concat();
            self.compare("frame", &[], expected, found);
        }
        len
    }

    fn recirculate(&mut self, packet: PacketHandle) {
        self.inner.recirculate(packet);
    }

    fn frame(&self, packet: PacketHandle) -> Frame<'_> {
        self.inner.frame(packet)
    }

    fn discard(&mut self, packet: PacketHandle) {
        self.inner.discard(packet);
    }

    fn changed(&mut self, state: &mut State, change: &Change<'_>) {
        self.is_stale = true;
        self.inner.changed(state, change);
    }
}
