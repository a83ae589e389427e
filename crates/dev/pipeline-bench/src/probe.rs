//! Measures which share of a packet's time each part of the switch takes.
//!
//! Some parts take no longer than reading the time stamp counter, so the parts are sampled. A wrapper around the engine
//! records which part runs, with one store at each change, and a second thread reads the record repeatedly. A part's
//! share of the samples is the part's share of the time. The time between two calls of the engine belongs to the
//! traffic manager. The parser cannot be separated from the ingress control inside [`Engine::ingress`]. Therefore the
//! parser additionally runs alone before each call of [`Engine::ingress`]. The parser's share is measured in this
//! additional run, and is subtracted from the share of the ingress control.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    thread::JoinHandle,
};

use dataplane::{
    Digest, DropReason, PortId,
    engine::{
        Change, CloneCopies, Clones, Copies, EgressInput, EgressOutcome, Engine, EngineFactory,
        Frame, IngressInput, IngressOutcome, InstanceType, Interpreted, Leave, LoneClone,
        LoneClones, PacketHandle, Rounds, RoundsInput, State,
    },
};

use crate::clock::{self, Stamp};

/// Nanoseconds between two samples.
const LOOK_EVERY_NS: f64 = 1_000.0;
/// Minimum number of samples for a result.
const LOOKS_MIN: u64 = 500;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Copying frames to the engine's memory, and making and freeing copies and clones.
    Buffers,
    /// Parser and checksum verification of a new packet. The same steps of a recirculated packet count as ingress.
    Parser,
    Ingress,
    Egress,
    /// Checksum update and deparser. If these steps run together with egress, they count as egress.
    Deparser,
    /// All parts above together, for a recirculating packet and its clones, if the engine runs them in one call.
    Rounds,
    /// Everything between the engine's calls: queues, replication, counters, latencies, and the loop.
    TrafficManager,
}

impl Part {
    /// All parts, in the order in which a packet passes through them.
    pub const ALL: [Self; 7] = [
        Self::Parser,
        Self::Ingress,
        Self::TrafficManager,
        Self::Egress,
        Self::Deparser,
        Self::Rounds,
        Self::Buffers,
    ];

    /// Returns the name in result files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Buffers => "buffers",
            Self::Parser => "parser",
            Self::Ingress => "ingress",
            Self::Egress => "egress",
            Self::Deparser => "deparser",
            Self::Rounds => "rounds",
            Self::TrafficManager => "traffic_manager",
        }
    }
}

/// The running part, on a separate cache line. The sampling thread reads this value.
#[derive(Debug)]
#[repr(align(128))]
struct Running(AtomicU8);

/// The record of which part one thread runs now. `look` starts a second thread that samples this record.
#[derive(Debug)]
pub struct Watch {
    running: Arc<Running>,
}

/// A sampling in progress.
pub struct Looking {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<[u64; Part::ALL.len()]>,
}

impl Watch {
    pub fn new() -> Self {
        let running = AtomicU8::new(Part::TrafficManager as u8);
        Self {
            running: Arc::new(Running(running)),
        }
    }

    /// Returns a factory of engines that record which part runs.
    pub fn probe(&self, factory: Box<dyn EngineFactory>) -> Box<dyn EngineFactory> {
        Box::new(ProbeFactory {
            factory,
            running: Arc::clone(&self.running),
        })
    }

    /// Starts the sampling thread, on one of these processors.
    pub fn look(&self, cpus: Vec<usize>) -> Looking {
        let is_over = Arc::new(AtomicBool::new(false));
        let (running, ends) = (Arc::clone(&self.running), Arc::clone(&is_over));
        let thread = std::thread::spawn(move || {
            if !cpus.is_empty() {
                // If the kernel refuses, the thread samples from any processor.
                let _ = clock::pin(cpus);
            }
            let mut looks = [0; Part::ALL.len()];
            while !ends.load(Ordering::Relaxed) {
                let part = usize::from(running.0.load(Ordering::Relaxed));
                if let Some(count) = looks.get_mut(part) {
                    *count += 1;
                }
                let last = Stamp::now();
                while last.elapsed().ns < LOOK_EVERY_NS {
                    std::hint::spin_loop();
                }
            }
            looks
        });
        Looking { is_over, thread }
    }
}

impl Looking {
    /// Ends the sampling. Returns each part's share, in the order of [`Part::ALL`], or `None` if there were too few
    /// samples.
    pub fn shares(self) -> Option<[f64; Part::ALL.len()]> {
        self.is_over.store(true, Ordering::Relaxed);
        let looks = self.thread.join().ok()?;
        let n_looks: u64 = looks.iter().sum();
        if n_looks < LOOKS_MIN {
            return None;
        }
        let mut shares = Part::ALL.map(|part| looks[part as usize] as f64 / n_looks as f64);
        // In `Part::ALL` the parser is the first part and the ingress control is the second part.
        shares[1] = (shares[1] - shares[0]).max(0.0);
        Some(shares)
    }
}

struct ProbeFactory {
    factory: Box<dyn EngineFactory>,
    running: Arc<Running>,
}

impl EngineFactory for ProbeFactory {
    fn name(&self) -> &'static str {
        self.factory.name()
    }

    fn load(&self, state: &mut State) -> Box<dyn Engine> {
        Box::new(Probe {
            engine: self.factory.load(state),
            running: Arc::clone(&self.running),
        })
    }
}

struct Probe {
    engine: Box<dyn Engine>,
    running: Arc<Running>,
}

impl Probe {
    fn begin(&self, part: Part) {
        self.running.0.store(part as u8, Ordering::Relaxed);
    }

    fn end(&self) {
        self.begin(Part::TrafficManager);
    }
}

/// The traffic manager, which an engine calls in the middle of a part to request copies and to pass copies on. The time
/// of such a call counts as time of the traffic manager.
struct Watched<'a, T: ?Sized>(&'a mut T, Part, &'a Running);

impl<T: ?Sized> Watched<'_, T> {
    fn outside<R>(&mut self, run: impl FnOnce(&mut T) -> R) -> R {
        let Self(manager, part, Running(running)) = self;
        running.store(Part::TrafficManager as u8, Ordering::Relaxed);
        let result = run(manager);
        running.store(*part as u8, Ordering::Relaxed);
        result
    }
}

impl<T: Leave + ?Sized> Leave for Watched<'_, T> {
    fn leave(&mut self, port: PortId, frame: Frame<'_>) {
        self.outside(|copies| copies.leave(port, frame));
    }

    fn fail(&mut self) {
        self.outside(Leave::fail);
    }
}

impl Copies for Watched<'_, dyn Copies + '_> {
    fn next_copy(&mut self) -> Option<EgressInput> {
        self.outside(Copies::next_copy)
    }
}

impl LoneClones for Watched<'_, dyn LoneClones + '_> {
    fn clone_of(&mut self, state: &State, session: u32) -> Option<LoneClone> {
        self.outside(|clones| clones.clone_of(state, session))
    }
}

macro_rules! in_part {
    ($($part:ident: fn $name:ident($($arg:ident: $ty:ty),*) $(-> $result:ty)?;)*) => {$(
        fn $name(&mut self, $($arg: $ty),*) $(-> $result)? {
            self.begin(Part::$part);
            let result = self.engine.$name($($arg),*);
            self.end();
            result
        }
    )*};
}

impl Engine for Probe {
    in_part! {
        Buffers: fn receive(frame: &[u8]) -> PacketHandle;
        Ingress: fn prefetch(state: &mut State, input: &IngressInput, packet: PacketHandle);
        Ingress: fn digest(state: &mut State, packet: PacketHandle) -> Digest;
        Buffers: fn clone_ingress(
            state: &mut State,
            input: &IngressInput,
            packet: PacketHandle,
            copies: CloneCopies
        ) -> Clones;
        Buffers: fn replicate(packet: PacketHandle, copies: u32);
        Buffers: fn resubmit(packet: PacketHandle);
        Egress: fn egress(state: &mut State, input: &EgressInput, packet: PacketHandle)
            -> EgressOutcome;
        Buffers: fn clone_egress(state: &mut State, packet: PacketHandle, copies: CloneCopies)
            -> Clones;
        Deparser: fn deparse(state: &mut State, packet: PacketHandle) -> Result<usize, DropReason>;
        Buffers: fn recirculate(packet: PacketHandle);
        Buffers: fn discard(packet: PacketHandle);
        TrafficManager: fn changed(state: &mut State, change: &Change<'_>);
    }

    fn ingress(
        &mut self,
        state: &mut State,
        input: &IngressInput,
        packet: PacketHandle,
    ) -> IngressOutcome {
        if input.instance_type == InstanceType::Normal {
            self.begin(Part::Parser);
            self.engine.parse(state, input, packet);
        }
        self.begin(Part::Ingress);
        let outcome = self.engine.ingress(state, input, packet);
        self.end();
        outcome
    }

    fn parse(&mut self, state: &mut State, input: &IngressInput, packet: PacketHandle) {
        self.engine.parse(state, input, packet);
    }

    fn fan_out(
        &mut self,
        state: &mut State,
        packet: PacketHandle,
        copies: &mut dyn Copies,
    ) -> Option<EgressOutcome> {
        let running = Arc::clone(&self.running);
        let mut watched = Watched(copies, Part::Egress, &running);
        self.begin(Part::Egress);
        let outcome = self.engine.fan_out(state, packet, &mut watched);
        self.end();
        outcome
    }

    fn rounds(
        &mut self,
        state: &mut State,
        input: &RoundsInput,
        packet: PacketHandle,
        clones: &mut dyn LoneClones,
    ) -> Rounds {
        let running = Arc::clone(&self.running);
        let mut watched = Watched(clones, Part::Rounds, &running);
        self.begin(Part::Rounds);
        let rounds = self.engine.rounds(state, input, packet, &mut watched);
        self.end();
        rounds
    }

    fn prefetch_depth(&self) -> usize {
        self.engine.prefetch_depth()
    }

    fn fuses_fanout(&self) -> bool {
        self.engine.fuses_fanout()
    }

    fn frame(&self, packet: PacketHandle) -> Frame<'_> {
        self.engine.frame(packet)
    }

    fn interpreted(&self) -> Vec<Interpreted> {
        self.engine.interpreted()
    }
}
