//! Tests the event loop with ports in memory.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use control::{
    Device, DigestSender, Exclusive, PacketInSender, Registers, Subscriber, SwitchHandle,
};
use dataplane::{
    ActionCall, GeneratorConfig, GeneratorState, MatchField, Pace, Program, SwitchConfig,
    TableEntry,
};
use packet_io::{MemoryPort, Port, UdpPort, memory_pair};

use super::*;
use crate::handle::{LoopHandle, mailboxes};
use crate::ports::given;

const TIMEOUT: Duration = Duration::from_secs(120);
const CPU_PORT: u8 = 254;

/// Returns a loop with ports 1 and 2 whose program forwards according to `routes`, the loop's handle, and the two ports
/// at the other ends of the cables.
fn forwarder(routes: &[(u8, u8)]) -> (EventLoop, LoopHandle, MemoryPort, MemoryPort) {
    let (handle, mut mailboxes) = mailboxes(1).expect("a mailbox");
    let mailbox = mailboxes.remove(0);
    let config = SwitchConfig {
        cpu_port: Some(PortId(u16::from(CPU_PORT))),
        ..SwitchConfig::default()
    };
    let mut switch = Switch::new(config);
    let program = Program::from_json_str(include_str!("../../tests/programs/forward.json"));
    switch.set_program(program.expect("a sound program"));
    routes
        .iter()
        .for_each(|(from, to)| add_route(&mut switch, *from, *to));
    let mut event_loop = EventLoop::new(switch, Clock::monotonic(), mailbox);
    let (inner_1, outer_1) = memory_pair("one", "outer 1").expect("a cable");
    let (inner_2, outer_2) = memory_pair("two", "outer 2").expect("a cable");
    event_loop.add_port(given(PortId(1), Box::new(inner_1)));
    event_loop.add_port(given(PortId(2), Box::new(inner_2)));
    (event_loop, handle, outer_1, outer_2)
}

fn add_route(switch: &mut Switch, from: u8, to: u8) {
    let program = switch.program().expect("a program");
    let table = program.table("ingress.forward").expect("the table");
    let action = program
        .action_of(table, "ingress.send")
        .expect("the action");
    let call = ActionCall {
        action,
        args: vec![vec![to]],
    };
    let entry = TableEntry::new(vec![MatchField::Exact(vec![from])], 0, call);
    switch.insert_entry(table, entry).expect("a new entry");
}

fn receive(port: &mut MemoryPort, n_frames: usize) -> Vec<Vec<u8>> {
    let (mut frames, mut waiter) = (Vec::new(), Waiter::default());
    while frames.len() < n_frames {
        waiter.wait(port.poll_fd(), Some(TIMEOUT)).expect("waiting");
        assert!(
            waiter.is_ready(0),
            "only {} of {n_frames} frames came",
            frames.len()
        );
        port.receive(0, n_frames, &mut |frame| frames.push(frame.to_vec()))
            .expect("frames");
    }
    frames
}

#[test]
fn frames_pass_between_the_ports_until_the_loop_is_stopped() {
    for wait in [Wait::Sleep, Wait::Spin] {
        frames_pass(wait);
    }
}

fn frames_pass(wait: Wait) {
    let (mut event_loop, handle, mut one, mut two) = forwarder(&[(1, 2), (2, 1)]);
    event_loop.set_wait(wait);
    let running = thread::spawn(move || {
        event_loop.run(AfterReplay::Serve).expect("no error");
        event_loop.totals().to_json()
    });
    // 256 frames are more than one batch.
    for number in 0..=255 {
        one.transmit(0, [&[number; 60][..], &[]].into())
            .expect("sending");
    }
    two.transmit(0, [&[7; 40][..], &[7; 60]].into())
        .expect("sending");
    let there: Vec<u8> = receive(&mut two, 256)
        .iter()
        .map(|frame| frame[0])
        .collect();
    assert_eq!(there, (0..=255).collect::<Vec<u8>>());
    assert_eq!(receive(&mut one, 1), [vec![7; 100]]);
    handle.stop();
    let totals = running.join().expect("the loop ends");
    assert!(totals.contains("\"transmitted\":257"), "{totals}");
}

/// A port whose kernel takes frames only at the third try.
struct ReluctantPort {
    frames: Vec<Vec<u8>>,
    tries_left: u32,
    out: mpsc::Sender<Vec<u8>>,
}

impl Port for ReluctantPort {
    fn name(&self) -> &str {
        "reluctant"
    }

    fn receive(
        &mut self,
        _now: Nanos,
        _max_frames: usize,
        _take: &mut dyn FnMut(&[u8]),
    ) -> Result<usize, PortError> {
        Ok(0)
    }

    fn transmit(&mut self, _now: Nanos, frame: packet_io::Frame<'_>) -> Result<(), PortError> {
        self.frames.push([frame.head, frame.payload].concat());
        self.tries_left = 3;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), PortError> {
        self.tries_left = self.tries_left.saturating_sub(1);
        if self.tries_left == 0 {
            let mut frames = self.frames.drain(..);
            frames
                .try_for_each(|frame| self.out.send(frame))
                .expect("somebody waits");
        }
        Ok(())
    }

    fn has_unsent(&self) -> bool {
        !self.frames.is_empty()
    }

    fn statistics(&mut self) -> packet_io::PortStatistics {
        packet_io::PortStatistics::default()
    }
}

#[test]
fn what_a_port_could_not_send_is_tried_again_without_another_event() {
    let (mut event_loop, handle, mut one, _two) = forwarder(&[(1, 3)]);
    let (out, sent) = mpsc::channel();
    let port = ReluctantPort {
        frames: Vec::new(),
        tries_left: 0,
        out,
    };
    event_loop.add_port(given(PortId(3), Box::new(port)));
    let running = thread::spawn(move || event_loop.run(AfterReplay::Serve));
    one.transmit(0, [&[9; 60][..], &[]].into())
        .expect("sending");
    let frame = sent.recv_timeout(TIMEOUT).expect("the frame leaves");
    assert_eq!(frame, [9; 60]);
    handle.stop();
    running.join().expect("the loop ends").expect("no error");
}

#[test]
fn work_runs_in_order_with_its_frames_between() {
    for wait in [Wait::Sleep, Wait::Spin] {
        work_runs_in_order(wait);
    }
}

fn work_runs_in_order(wait: Wait) {
    let (mut event_loop, handle, _one, mut two) = forwarder(&[]);
    event_loop.set_wait(wait);
    for number in 0..3 * WORK_BATCH as u8 {
        handle.submit(
            0,
            Box::new(move |context| {
                let (cpu_port, to) = (PortId(u16::from(CPU_PORT)), 2 - number % 2);
                add_route(context.switch, CPU_PORT, to);
                context
                    .switch
                    .handle_frame(context.now, cpu_port, &[number; 60]);
            }),
        );
        // This removes the route after the frame has used it.
        handle.submit(
            0,
            Box::new(|context| {
                let program = context.switch.program().expect("a program");
                let table = program.table("ingress.forward").expect("the table");
                let key = [MatchField::Exact(vec![CPU_PORT])];
                context
                    .switch
                    .delete_entry(table, &key, 0)
                    .expect("the entry");
            }),
        );
    }
    let stopper = handle.clone();
    handle.submit(0, Box::new(move |_| stopper.stop()));
    event_loop.run(AfterReplay::Serve).expect("no error");
    let came: Vec<u8> = receive(&mut two, WORK_BATCH * 3 / 2)
        .iter()
        .map(|f| f[0])
        .collect();
    let expected: Vec<u8> = (0..3 * WORK_BATCH as u8).filter(|n| n % 2 == 0).collect();
    assert_eq!(came, expected);
}

#[test]
fn a_drain_is_reported_when_its_frames_have_left() {
    let (mut event_loop, handle, _one, mut two) = forwarder(&[(1, 2)]);
    let (done, is_done) = tokio::sync::oneshot::channel();
    handle.submit(
        0,
        Box::new(move |context| {
            context
                .switch
                .handle_frame(context.now, PortId(1), &[5; 60]);
            let token = context.switch.begin_drain();
            context.drain_waiters.push(token, done);
        }),
    );
    let running = thread::spawn(move || event_loop.run(AfterReplay::Serve));
    is_done.blocking_recv().expect("notified");
    assert_eq!(receive(&mut two, 1), [vec![5; 60]]);
    handle.stop();
    running.join().expect("no panic").expect("no error");
}

#[test]
fn frames_to_the_cpu_port_go_to_those_who_subscribed() {
    let (mut event_loop, handle, mut one, _two) = forwarder(&[(1, CPU_PORT)]);
    let (sender, mut packet_ins) = PacketInSender::channel(1_024);
    handle.subscribe(Subscriber::PacketIns(sender));
    one.transmit(0, [&[3; 60][..], &[]].into())
        .expect("sending");
    let running = thread::spawn(move || event_loop.run(AfterReplay::Serve));
    assert_eq!(
        packet_ins.blocking_recv().expect("a packet-in").frame,
        [3; 60]
    );
    handle.stop();
    running.join().expect("the loop ends").expect("no error");
}

#[test]
fn digests_wait_in_the_switch_until_somebody_subscribes() {
    let (mut event_loop, handle, mut one, mut two) = forwarder(&[]);
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../testdata/stf/");
    let read = |file: &str| std::fs::read_to_string(format!("{folder}{file}")).ok();
    let text = read("digest_goes_on.p4").expect("the program");
    let options = p4_compiler::Options::default();
    let output = p4_compiler::compile("digest_goes_on.p4", &text, &read, &options);
    let json = output.bmv2_json.expect("a sound program");
    let program = Program::from_json(&json).expect("a sound program");
    event_loop.switch_mut().set_program_as(program, 7);
    one.transmit(0, [&[3; 60][..], &[]].into())
        .expect("sending");
    let running = thread::spawn(move || event_loop.run(AfterReplay::Serve));
    // The program sends to port 0, which does not exist; only its digest is observable.
    let (report, reported) = mpsc::channel();
    let deadline = std::time::Instant::now() + TIMEOUT;
    while std::time::Instant::now() < deadline {
        let report = report.clone();
        let look = move |context: &mut SwitchContext<'_>| {
            let n_digests = context.switch.counters().digests;
            report.send(n_digests).expect("somebody waits");
        };
        handle.submit(0, Box::new(look));
        if reported.recv().expect("the loop runs") == 1 {
            break;
        }
    }
    let (sender, mut digests) = DigestSender::channel(4);
    handle.subscribe(Subscriber::Digests(sender));
    two.transmit(0, [&[4; 60][..], &[]].into())
        .expect("sending");
    for (a, port) in [(3, 1), (4, 2)] {
        let notice = digests.blocking_recv().expect("a digest");
        assert_eq!((notice.generation, &*notice.digest.name), (7, "learn_t"));
        assert_eq!(notice.digest.members, [vec![a], vec![port]]);
    }
    handle.stop();
    running.join().expect("the loop ends").expect("no error");
}

#[test]
fn only_work_is_served_until_what_it_waits_for_is_there() {
    let (mut event_loop, handle, mut one, mut two) = forwarder(&[(1, 2)]);
    one.transmit(0, [&[1; 60][..], &[]].into())
        .expect("sending");
    let (done, is_done) = mpsc::channel();
    let waker = handle.clone();
    handle.submit(
        0,
        Box::new(move |context| {
            done.send(context.switch.counters().received)
                .expect("somebody waits");
            waker.wake();
        }),
    );
    let mut received = None;
    let is_over = || {
        received = is_done.try_recv().ok();
        received.is_some()
    };
    assert!(event_loop.serve_work_until(is_over).expect("no error"));
    assert_eq!(received, Some(0));
    assert_eq!(two.receive(0, 1, &mut |_| ()).expect("receiving"), 0);
    handle.stop();
    assert!(!event_loop.serve_work_until(|| false).expect("no error"));
}

#[test]
fn generators_begin_when_frames_may_come_and_wake_a_loop_that_sleeps() {
    for wait in [Wait::Sleep, Wait::Spin] {
        generators_begin(wait);
    }
}

fn generators_begin(wait: Wait) {
    let (mut event_loop, handle, _one, mut two) = forwarder(&[(1, 2)]);
    event_loop.set_wait(wait);
    let frames = [1, 2].map(|number| vec![number; 60].into_boxed_slice());
    let config = GeneratorConfig {
        name: "load".into(),
        port: PortId(1),
        frames: frames.into(),
        pace: Pace::every(1_000_000),
        count: Some(5),
    };
    let inserted = event_loop.switch_mut().insert_generator(1, config, true);
    inserted.expect("a new generator");
    let (done, is_done) = mpsc::channel();
    let waker = handle.clone();
    handle.submit(
        0,
        Box::new(move |context| {
            done.send(context.switch.counters().generated)
                .expect("somebody waits");
            waker.wake();
        }),
    );
    let mut generated = None;
    let is_over = || {
        generated = is_done.try_recv().ok();
        generated.is_some()
    };
    assert!(event_loop.serve_work_until(is_over).expect("no error"));
    assert_eq!(generated, Some(0));
    let running = thread::spawn(move || {
        event_loop.run(AfterReplay::Serve).expect("no error");
        event_loop.switch_mut().generators()
    });
    let came: Vec<u8> = receive(&mut two, 5).iter().map(|frame| frame[0]).collect();
    assert_eq!(came, [1, 2, 1, 2, 1]);
    handle.stop();
    let generators = running.join().expect("the loop ends");
    assert_eq!(generators[0].state, GeneratorState::Finished);
    assert_eq!(generators[0].counters.sent, 5);
}

#[test]
fn frames_that_are_inside_when_a_program_is_replaced_leave_by_the_program_before() {
    // More copies than fit in an iteration's share, so that some copies are inside when the work of the next iteration
    // begins.
    const N_COPIES: u16 = 4_096;
    let (event_loop, handle, _one, mut two) = forwarder(&[(1, 2)]);
    let device = Arc::new(Device::new(Arc::new(handle.clone()), Registers::default()));
    let running = thread::spawn(move || {
        let mut event_loop = event_loop;
        event_loop.run(AfterReplay::Serve).expect("no error");
        event_loop.totals().to_json()
    });
    let fill = |context: &mut SwitchContext<'_>| {
        for _ in 0..N_COPIES {
            let now = context.now;
            context.switch.handle_frame(now, PortId(1), &[5; 60]);
        }
    };
    let program = include_str!("../../tests/programs/forward.json");
    let program = Program::from_json_str(program).expect("a sound program");
    let checked = device.check(program, ()).expect("one worker");
    let runtime = tokio::runtime::Builder::new_multi_thread().build();
    let runtime = runtime.expect("a runtime");
    runtime.block_on(async {
        // The exchange of the program is the next piece of work after the piece that fills the switch.
        let filler = handle.clone();
        let call = |exclusive: Exclusive| async move {
            let ready = exclusive.ready(checked).await?;
            filler.submit(0, Box::new(fill));
            exclusive.commit(ready).done().await
        };
        let set = device.exclusively(call).await;
        set.and_then(|set| set).expect("the program is set");
        handle.stop();
    });
    let totals = running.join().expect("the loop ends");
    assert!(totals.contains("\"pipeline_changed\":0"), "{totals}");
    let found = receive(&mut two, usize::from(N_COPIES)).len();
    assert_eq!(found, usize::from(N_COPIES));
}

#[test]
fn a_long_control_call_drops_none_of_the_frames_that_a_udp_socket_has_got_meanwhile() {
    for wait in [Wait::Sleep, Wait::Spin] {
        a_long_control_call_drops_none(wait);
    }
}

fn a_long_control_call_drops_none(wait: Wait) {
    const N_FRAMES: u8 = 100;
    const AGE_MAX: Duration = Duration::from_millis(500);
    let (mut event_loop, handle, _one, mut two) = forwarder(&[(3, 2)]);
    let port = UdpPort::open("127.0.0.1:0".parse().expect("an address")).expect("a socket");
    let address = port.local_address();
    // The kernel does not report the age of this port's frames.
    assert!(!port.knows_ages());
    event_loop.add_port(given(PortId(3), Box::new(port)));
    event_loop.set_wait(wait);
    event_loop.set_age_max(Some(AGE_MAX.as_nanos() as Nanos));
    let running = thread::spawn(move || event_loop.run(AfterReplay::Serve));
    let sender = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    // The frames come during the call, right before its end.
    let call = move |_: &mut SwitchContext<'_>| {
        thread::sleep(2 * AGE_MAX);
        for number in 0..N_FRAMES {
            sender.send_to(&[number; 60], address).expect("sending");
        }
    };
    handle.submit(0, Box::new(call));
    let came = receive(&mut two, usize::from(N_FRAMES));
    let came = came.iter().filter_map(|frame| frame.last().copied());
    assert!(came.eq(0..N_FRAMES));
    handle.stop();
    running.join().expect("the loop ends").expect("no error");
}

/// Returns a loop with ports 1 and 2, the loop's handle, and the two ports at the other ends of the cables. The program
/// sends frames from port 1 to port 2, and puts a header before each frame that says how long the frame was in the
/// switch.
fn stamper() -> (EventLoop, LoopHandle, MemoryPort, MemoryPort) {
    let text = include_str!("../../../../../p4/latency_stamp.p4");
    let options = p4_compiler::Options::default();
    let output = p4_compiler::compile("latency_stamp.p4", text, &|_: &str| None, &options);
    let json = output.bmv2_json.expect("a program without errors");
    let (mut event_loop, handle, one, two) = forwarder(&[]);
    let switch = event_loop.switch_mut();
    switch.set_program(Program::from_json(&json).expect("a sound program"));
    let program = switch.program().expect("a program");
    let table = program.table("StampIngress.ways").expect("the table");
    let action = program.action_of(table, "StampIngress.send");
    let call = ActionCall {
        action: action.expect("the action"),
        args: vec![vec![2]],
    };
    let entry = TableEntry::new(vec![MatchField::Exact(vec![1])], 0, call);
    switch.insert_entry(table, entry).expect("a new entry");
    (event_loop, handle, one, two)
}

#[test]
fn a_program_reads_how_long_packets_were_inside_and_no_more() {
    let (mut event_loop, handle, mut one, mut two) = stamper();
    let running = thread::spawn(move || event_loop.run(AfterReplay::Serve));
    for number in 0..100 {
        let began = std::time::Instant::now();
        one.transmit(0, [&[number; 60][..], &[]].into())
            .expect("sending");
        let frame = receive(&mut two, 1).remove(0);
        let passed = began.elapsed().as_nanos();
        let inside = frame[..6]
            .iter()
            .fold(0, |ns, byte| ns << 8 | u128::from(*byte));
        assert!(inside > 0 && inside < passed, "{inside} of {passed}");
        assert_eq!(frame[6..], [number; 54]);
    }
    handle.stop();
    running.join().expect("no panic").expect("no error");
}

mod full;
mod offload;
mod overload;
