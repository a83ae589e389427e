//! Tests a port that receives frames without end (the flood): whatever these frames do to the switch, control calls,
//! timers, packet-ins and the other ports must be served, and the loop must stop on request.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use dataplane::{CloneSession, GeneratorConfig, MulticastGroup, Pace, Replica};
use dataplane::{engine::EngineFactory, interpret::InterpreterFactory};
use dataplane_jit::{NativeFactory, NativeOptions};
use packet_io::{PortStatistics, Waker};

use super::*;

const TO_THE_GROUP: u8 = 0;
const FOR_EVER: u8 = 1;
const TO_THE_CPU: u8 = 2;
const NOWHERE: u8 = 3;

/// Second byte of frames that do not belong to the flood.
const OTHER: u8 = 77;

/// The number of copies of each frame. It is so large that the switch is still busy after an iteration that received
/// less than a batch.
const N_VIEWERS: u16 = 100;
const N_CALLS: usize = 20;
/// Half of the calls must be answered within this time. The others may take longer: other tests may load the machine.
const ANSWER: Duration = Duration::from_millis(50);
const STOP: Duration = Duration::from_secs(1);

/// A port that receives frames of one kind without end, and discards what is sent to it.
struct Flood {
    frame: [u8; 60],
    n_frames: Arc<AtomicU64>,
    ready: Waker,
}

impl Port for Flood {
    fn name(&self) -> &str {
        "flood"
    }

    fn receive(
        &mut self,
        _now: Nanos,
        max_frames: usize,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<usize, PortError> {
        (0..max_frames).for_each(|_| take(&self.frame));
        self.n_frames
            .fetch_add(max_frames as u64, Ordering::Relaxed);
        Ok(max_frames)
    }

    fn transmit(&mut self, _now: Nanos, _frame: packet_io::Frame<'_>) -> Result<(), PortError> {
        Ok(())
    }

    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.ready.as_fd())
    }

    fn statistics(&mut self) -> PortStatistics {
        PortStatistics::default()
    }
}

fn program(gives_priorities: bool) -> Program {
    let text = include_str!("../../../tests/programs/overload.p4");
    let mut options = p4_compiler::Options::default();
    if gives_priorities {
        options.defines.push(("PRIORITIES".into(), String::new()));
    }
    let nothing = |_: &str| None;
    let output = p4_compiler::compile("overload.p4", text, &nothing, &options);
    let program = output.bmv2_json.expect("a program without errors");
    let json = program.to_json().expect("a program in JSON");
    Program::from_json_str(&json).expect("a sound program")
}

/// The kind and the conditions of a flood.
#[derive(Clone, Copy)]
struct Case {
    kind: u8,
    gives_priorities: bool,
    is_native: bool,
    wait: Wait,
}

struct Flooded {
    handle: LoopHandle,
    running: thread::JoinHandle<()>,
    n_frames: Arc<AtomicU64>,
    two: MemoryPort,
    packet_ins: tokio::sync::mpsc::Receiver<PacketInFrame>,
}

impl Case {
    fn switch(self) -> Switch {
        let factory: Box<dyn EngineFactory> = if self.is_native {
            Box::new(NativeFactory {
                options: NativeOptions::ALL,
            })
        } else {
            Box::new(InterpreterFactory)
        };
        let config = SwitchConfig {
            cpu_port: Some(PortId(u16::from(CPU_PORT))),
            ..SwitchConfig::default()
        };
        let mut switch = Switch::with_engine(config, factory);
        switch.set_program(program(self.gives_priorities));
        let replica = |instance| Replica {
            port: PortId(3),
            instance,
        };
        let replicas = (0..N_VIEWERS).map(replica).collect();
        let group = MulticastGroup {
            id: 1,
            replicas,
            backups: Vec::new(),
        };
        switch.insert_multicast_group(group).expect("a new group");
        let session = CloneSession {
            id: 1,
            replicas: vec![replica(0)],
            truncate_bytes: None,
            class_of_service: 0,
        };
        switch.insert_clone_session(session).expect("a new session");
        switch
    }

    fn start(self) -> Flooded {
        let (handle, mut mailboxes) = mailboxes(1).expect("a mailbox");
        let mut event_loop = EventLoop::new(self.switch(), Clock::monotonic(), mailboxes.remove(0));
        event_loop.set_wait(self.wait);
        let n_frames = Arc::new(AtomicU64::new(0));
        for port in [1, 3] {
            let ready = Waker::new().expect("a descriptor");
            if port == 1 {
                ready.wake();
            }
            let flood = Flood {
                frame: [self.kind; 60],
                n_frames: Arc::clone(&n_frames),
                ready,
            };
            event_loop.add_port(given(PortId(port), Box::new(flood)));
        }
        let (inner, two) = memory_pair("inner 2", "outer 2").expect("a cable");
        event_loop.add_port(given(PortId(2), Box::new(inner)));
        let (sender, packet_ins) = PacketInSender::channel(1_024);
        handle.subscribe(Subscriber::PacketIns(sender));
        let running = thread::spawn(move || {
            event_loop.run(AfterReplay::Serve).expect("no error");
        });
        Flooded {
            handle,
            running,
            n_frames,
            two,
            packet_ins,
        }
    }
}

impl Flooded {
    fn call<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut SwitchContext<'_>) -> R + Send + 'static,
    ) -> R {
        let (done, answer) = mpsc::channel();
        let work = move |context: &mut SwitchContext<'_>| {
            done.send(work(context)).expect("somebody waits");
        };
        self.handle.submit(0, Box::new(work));
        answer.recv_timeout(TIMEOUT).expect("the call is answered")
    }

    fn calls_are_answered(&self) {
        let mut times: Vec<_> = (0..N_CALLS)
            .map(|_| {
                let began = Instant::now();
                self.call(|context| context.switch.counters().received);
                began.elapsed()
            })
            .collect();
        times.sort();
        assert!(times[N_CALLS / 2] < ANSWER, "calls took {times:?}");
    }

    fn idle_entries_are_reported(&self) {
        self.call(|context| {
            let program = context.switch.program().expect("a program");
            let table = program.table("ingress.seen").expect("the table");
            let action = program.action_of(table, "ingress.note").expect("it");
            let call = ActionCall {
                action,
                args: Vec::new(),
            };
            let mut entry = TableEntry::new(vec![MatchField::Exact(vec![99])], 0, call);
            entry.idle_timeout_ns = 1_000_000;
            context
                .switch
                .insert_entry(table, entry)
                .expect("a new entry");
        });
        let began = Instant::now();
        while self.call(|context| context.switch.poll_idle_timeout().is_none()) {
            assert!(
                began.elapsed() < TIMEOUT,
                "nobody was notified of the idle entry"
            );
        }
    }

    fn other_ports_are_served(&mut self) {
        self.two
            .transmit(0, [&[TO_THE_CPU, OTHER][..], &[0; 58]].into())
            .expect("sending");
        let began = Instant::now();
        while self.call(|context| context.switch.counters().port(PortId(2)).rx_packets) == 0 {
            assert!(began.elapsed() < TIMEOUT, "port 2 is not served");
        }
    }

    fn packet_ins_are_served(&mut self) {
        let began = Instant::now();
        while !self
            .packet_ins
            .try_recv()
            .is_ok_and(|packet| packet.frame[1] == OTHER)
        {
            assert!(began.elapsed() < TIMEOUT, "no packet-in");
            thread::yield_now();
        }
    }

    fn generators_are_served(&self) {
        self.call(|context| {
            let inserted = context
                .switch
                .insert_generator(1, generator(1_000_000), true);
            inserted.expect("a new generator");
        });
        let n_made = |context: &mut SwitchContext<'_>| {
            let counters = context.switch.generators()[0].counters;
            counters.sent + counters.dropped
        };
        let began = Instant::now();
        while self.call(n_made) < 5 {
            assert!(began.elapsed() < TIMEOUT, "the generator is not served");
        }
    }

    fn stops(self) {
        let began = Instant::now();
        self.handle.stop();
        self.running.join().expect("no panic");
        assert!(began.elapsed() < STOP, "it took {:?}", began.elapsed());
        assert!(self.n_frames.load(Ordering::Relaxed) > 0, "no flood");
    }
}

/// Returns a generator that sends one frame to the multicast group every `period_ns` nanoseconds.
fn generator(period_ns: u64) -> GeneratorConfig {
    GeneratorConfig {
        name: "load".into(),
        port: PortId(9),
        frames: [vec![TO_THE_GROUP; 60].into_boxed_slice()].into(),
        pace: Pace::every(period_ns),
        count: None,
    }
}

fn holds_for(kind: u8, gives_priorities: bool) {
    for (is_native, wait) in [
        (true, Wait::Sleep),
        (true, Wait::Spin),
        (false, Wait::Sleep),
        (false, Wait::Spin),
    ] {
        let case = Case {
            kind,
            gives_priorities,
            is_native,
            wait,
        };
        let mut flooded = case.start();
        flooded.calls_are_answered();
        flooded.idle_entries_are_reported();
        if kind != FOR_EVER {
            flooded.generators_are_served();
        }
        // Frames that recirculate forever have precedence over new ones.
        if kind != FOR_EVER {
            flooded.other_ports_are_served();
        }
        // Packet-ins without end may displace another packet-in.
        if ![FOR_EVER, TO_THE_CPU].contains(&kind) {
            flooded.packet_ins_are_served();
        }
        flooded.stops();
    }
}

#[test]
fn copies_with_priorities_that_cannot_all_be_sent_hold_nobody_up() {
    holds_for(TO_THE_GROUP, true);
}

#[test]
fn copies_without_priorities_hold_nobody_up() {
    holds_for(TO_THE_GROUP, false);
}

#[test]
fn packets_that_recirculate_and_are_cloned_until_the_limit_hold_nobody_up() {
    holds_for(FOR_EVER, false);
}

#[test]
fn packets_that_are_dropped_hold_nobody_up() {
    holds_for(NOWHERE, true);
}

#[test]
fn packet_ins_hold_nobody_up() {
    holds_for(TO_THE_CPU, true);
}

#[test]
fn a_generator_that_is_faster_than_the_switch_holds_nobody_up() {
    for (is_native, wait) in [
        (true, Wait::Sleep),
        (true, Wait::Spin),
        (false, Wait::Sleep),
    ] {
        let case = Case {
            kind: TO_THE_GROUP,
            gives_priorities: false,
            is_native,
            wait,
        };
        let mut flooded = case.start();
        flooded.call(|context| {
            let inserted = context.switch.insert_generator(2, generator(1), true);
            inserted.expect("a new generator");
        });
        flooded.calls_are_answered();
        flooded.generators_are_served();
        flooded.other_ports_are_served();
        flooded.packet_ins_are_served();
        let late = flooded.call(|context| context.switch.generators()[1].counters.late);
        assert!(late > 0, "it is not faster than the switch");
        flooded.stops();
    }
}

#[test]
fn work_that_never_ends_lets_frames_pass() {
    /// Submits work that submits itself again.
    fn again(handle: LoopHandle, is_over: Arc<AtomicBool>) {
        let later = handle.clone();
        let work = move |_: &mut SwitchContext<'_>| {
            if !is_over.load(Ordering::Relaxed) {
                again(later, is_over);
            }
        };
        handle.submit(0, Box::new(work));
    }

    let (mut event_loop, handle, mut one, mut two) = forwarder(&[(1, 2)]);
    let is_over = Arc::new(AtomicBool::new(false));
    again(handle.clone(), Arc::clone(&is_over));
    let running = thread::spawn(move || event_loop.run(AfterReplay::Serve));
    for number in 0..10 {
        one.transmit(0, [&[number; 60][..], &[]].into())
            .expect("sending");
        assert_eq!(receive(&mut two, 1), [vec![number; 60]]);
    }
    is_over.store(true, Ordering::Relaxed);
    handle.stop();
    running.join().expect("no panic").expect("no error");
}

#[test]
fn a_busy_switch_leaves_frames_in_the_receive_rings() {
    let case = Case {
        kind: TO_THE_GROUP,
        gives_priorities: true,
        is_native: true,
        wait: Wait::Sleep,
    };
    let flooded = case.start();
    for _ in 0..N_CALLS {
        let n_inside = flooded.call(|context| context.switch.packets_inside());
        // At most the copies of one receive batch and of prefetched frames are inside; copies do not accumulate over
        // the iterations.
        assert!(n_inside <= 8_192 + 64, "{n_inside} packets inside");
        let refused = |context: &mut SwitchContext<'_>| {
            let counters = context.switch.counters();
            counters.dropped(dataplane::DropReason::IngressQueueFull)
        };
        assert_eq!(flooded.call(refused), 0);
    }
    flooded.stops();
}

#[test]
fn a_large_write_lets_frames_pass_between_its_pieces() {
    const N_PIECES: usize = 100;
    const UPDATES: usize = 64;
    const OTHER_WORK: u64 = u64::MAX;

    /// Returns the first piece of a write that has `n_left` more pieces; each piece reports how many frames have come.
    fn write(report: mpsc::Sender<u64>, n_left: usize) -> Work {
        Box::new(move |context| {
            context.n_updates += UPDATES;
            let received = context.switch.counters().received;
            report.send(received).expect("somebody waits");
            context.rest = n_left.checked_sub(1).map(|n_left| write(report, n_left));
        })
    }

    let case = Case {
        kind: NOWHERE,
        gives_priorities: false,
        is_native: true,
        wait: Wait::Sleep,
    };
    let flooded = case.start();
    let (report, seen) = mpsc::channel();
    flooded
        .handle
        .submit(0, write(report.clone(), N_PIECES - 1));
    let other = move |_: &mut SwitchContext<'_>| report.send(OTHER_WORK).expect("somebody waits");
    flooded.handle.submit(0, Box::new(other));
    let next = |_| seen.recv_timeout(TIMEOUT).expect("the piece runs");
    let mut received: Vec<_> = (0..=N_PIECES).map(next).collect();
    // Work that was submitted later runs later.
    assert_eq!(received.pop(), Some(OTHER_WORK));
    assert!(!received.contains(&OTHER_WORK));
    // Pieces without a frame in between belong to the same iteration.
    let iterations: Vec<_> = received.chunk_by(|one, other| one == other).collect();
    let longest = iterations.iter().map(|pieces| pieces.len()).max();
    let most = UPDATES_PER_ITERATION / UPDATES;
    assert!(longest <= Some(most), "{longest:?} pieces in an iteration");
    flooded.stops();
}
