//! Tests two loops on cables in memory, which work together as one switch.

use std::sync::mpsc;
use std::time::Duration;

use control::{SwitchContext, SwitchHandle};
use dataplane::{ActionCall, MatchField, PortId, Program, Switch, SwitchConfig, TableEntry};
use packet_io::{MemoryPort, Port, Waiter, memory_pair};

use super::*;
use crate::clock::Clock;
use crate::handle::mailboxes;
use crate::ports::given;

const TIMEOUT: Duration = Duration::from_secs(120);
const N_FRAMES: u8 = 200;

/// Returns one loop for each worker, with ports 1 and 2, and for each loop the ports at the other ends of its cables.
fn loops(n_workers: usize) -> (LoopHandle, Vec<EventLoop>, Vec<[MemoryPort; 2]>) {
    let (handle, mailboxes) = mailboxes(n_workers).expect("mailboxes");
    let (mut loops, mut cables) = (Vec::new(), Vec::new());
    for mailbox in mailboxes {
        let switch = Switch::new(SwitchConfig::default());
        let mut event_loop = EventLoop::new(switch, Clock::monotonic(), mailbox);
        let outer = [1, 2].map(|number| {
            let (inner, outer) = memory_pair("inner", "outer").expect("a cable");
            event_loop.add_port(given(PortId(number), Box::new(inner)));
            outer
        });
        loops.push(event_loop);
        cables.push(outer);
    }
    (handle, loops, cables)
}

fn forward(switch: &mut Switch) {
    let program = switch.program().expect("a program");
    let table = program.table("ingress.forward").expect("the table");
    let action = program.action_of(table, "ingress.send").expect("it");
    let args = vec![vec![2]];
    let key = vec![MatchField::Exact(vec![1])];
    let entry = TableEntry::new(key, 0, ActionCall { action, args });
    switch.insert_entry(table, entry).expect("a new entry");
}

fn receive(port: &mut MemoryPort, n_frames: usize) -> Vec<u8> {
    let (mut numbers, mut waiter) = (Vec::new(), Waiter::default());
    while numbers.len() < n_frames {
        waiter.wait(port.poll_fd(), Some(TIMEOUT)).expect("waiting");
        assert!(waiter.is_ready(0), "only {} of {n_frames}", numbers.len());
        let mut take = |frame: &[u8]| numbers.push(frame[0]);
        port.receive(0, n_frames, &mut take).expect("frames");
    }
    numbers
}

#[test]
fn each_forwards_its_part_in_order_and_the_totals_are_those_of_all() {
    let (handle, mut loops, mut cables) = loops(2);
    let program = Program::from_json_str(include_str!("../../tests/programs/forward.json"));
    let program = program.expect("a sound program");
    let first = loops.remove(0);
    let mut workers = Workers::start(first, loops, handle.clone()).expect("threads");
    for worker in 0..2 {
        let program = program.clone();
        let set = move |context: &mut SwitchContext<'_>| {
            context.switch.set_program(program);
            forward(context.switch);
        };
        handle.submit(worker, Box::new(set));
    }
    // The frames wait: nothing is forwarded before all workers begin.
    for [one, _] in &mut cables {
        for number in 0..N_FRAMES {
            one.transmit(0, [&[number; 60][..], &[]].into())
                .expect("sending");
        }
    }
    let (done, is_done) = mpsc::channel();
    let running = thread::spawn(move || {
        let result = workers.run(AfterReplay::Serve);
        let (mut loops, joined) = workers.join();
        let (totals, closed) = finish(&mut loops);
        result.and(joined).and(closed).expect("no error");
        done.send(totals.to_json()).expect("somebody waits");
    });
    let expected: Vec<u8> = (0..N_FRAMES).collect();
    for [_, two] in &mut cables {
        assert_eq!(receive(two, expected.len()), expected);
    }
    handle.stop();
    let totals = is_done.recv_timeout(TIMEOUT).expect("both end");
    running.join().expect("no panic");
    let n_frames = 2 * u32::from(N_FRAMES);
    for part in [
        format!("\"received\":{n_frames}"),
        format!("\"transmitted\":{n_frames}"),
        format!("\"hits\":{n_frames}"),
        "\"entries\":1".to_owned(),
    ] {
        assert!(totals.contains(&part), "no {part} in {totals}");
    }
}

#[test]
fn when_one_panics_all_end() {
    /// A port that breaks an invariant with the first frame.
    struct Broken(MemoryPort);

    impl Port for Broken {
        fn name(&self) -> &str {
            "broken"
        }

        fn receive(
            &mut self,
            _now: u64,
            _max_frames: usize,
            _take: &mut dyn FnMut(&[u8]),
        ) -> Result<usize, packet_io::PortError> {
            panic!("it broke")
        }

        fn transmit(
            &mut self,
            now: u64,
            frame: packet_io::Frame<'_>,
        ) -> Result<(), packet_io::PortError> {
            self.0.transmit(now, frame)
        }

        fn flush(&mut self) -> Result<(), packet_io::PortError> {
            Ok(())
        }

        fn poll_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
            self.0.poll_fd()
        }

        fn statistics(&mut self) -> packet_io::PortStatistics {
            self.0.statistics()
        }
    }

    let (handle, mut loops, _cables) = loops(2);
    let (inner, mut outer) = memory_pair("inner", "outer").expect("a cable");
    loops[1].add_port(given(PortId(3), Box::new(Broken(inner))));
    let first = loops.remove(0);
    let mut workers = Workers::start(first, loops, handle).expect("threads");
    outer
        .transmit(0, [&[1; 60][..], &[]].into())
        .expect("sending");
    workers.run(AfterReplay::Serve).expect("the first is sound");
    let joined = panic::catch_unwind(panic::AssertUnwindSafe(|| workers.join()));
    let cause = joined.err().expect("the panic goes on");
    assert_eq!(cause.downcast_ref::<&str>(), Some(&"it broke"));
}
