//! Tests a full port: frames for this port wait in the switch, until the port has room, while other frames are
//! forwarded. If the port is disabled, lost or replaced, the frames stop waiting.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use dataplane::DropReason;
use packet_io::LostPort;

use super::*;

/// A port that is full from its first frame until `is_free` is set.
struct FullPort {
    frames: Vec<Vec<u8>>,
    is_free: Arc<AtomicBool>,
    out: mpsc::Sender<Vec<Vec<u8>>>,
}

impl Port for FullPort {
    fn name(&self) -> &str {
        "full"
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
        Ok(())
    }

    /// Reports through `out` which frames were sent together.
    fn flush(&mut self) -> Result<(), PortError> {
        if self.is_free.load(Ordering::Relaxed) && !self.frames.is_empty() {
            let frames = std::mem::take(&mut self.frames);
            self.out.send(frames).expect("somebody waits");
        }
        Ok(())
    }

    fn has_unsent(&self) -> bool {
        !self.frames.is_empty()
    }

    fn is_full(&self) -> bool {
        !self.frames.is_empty()
    }

    fn statistics(&mut self) -> packet_io::PortStatistics {
        packet_io::PortStatistics::default()
    }
}

/// Number of frames that wait in the switch after the first frame has filled the port.
const N_WAITING: u8 = 3;

/// A running loop whose port 3 is full.
struct Full {
    handle: LoopHandle,
    one: MemoryPort,
    two: MemoryPort,
    is_free: Arc<AtomicBool>,
    sent: mpsc::Receiver<Vec<Vec<u8>>>,
    running: JoinHandle<()>,
}

impl Full {
    /// Frames from port 1 go to the full port, frames from port 2 to port 1.
    fn start() -> Self {
        let (mut event_loop, handle, one, two) = forwarder(&[(1, 3), (2, 1)]);
        let (out, sent) = mpsc::channel();
        let is_free = Arc::new(AtomicBool::new(false));
        let port = FullPort {
            frames: Vec::new(),
            is_free: Arc::clone(&is_free),
            out,
        };
        event_loop.add_port(given(PortId(3), Box::new(port)));
        let running = thread::spawn(move || {
            event_loop.run(AfterReplay::Serve).expect("no error");
        });
        Full {
            handle,
            one,
            two,
            is_free,
            sent,
            running,
        }
    }

    /// Starts a loop in which one frame has filled port 3, and more frames wait until that port has room.
    fn with_frames_that_wait() -> Self {
        let mut full = Self::start();
        (0..=N_WAITING).for_each(|number| full.cross(number));
        full
    }

    /// Sends a frame for the full port, and then one for port 1; the loop has processed both on return.
    fn cross(&mut self, number: u8) {
        self.one
            .transmit(0, [number; 60].as_slice().into())
            .expect("sending");
        self.one.flush().expect("sending");
        self.two
            .transmit(0, [100 + number; 60].as_slice().into())
            .expect("sending");
        self.two.flush().expect("sending");
        assert_eq!(receive(&mut self.one, 1), [[100 + number; 60]]);
    }

    fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut SwitchContext<'_>) -> T + Send + 'static,
    ) -> T {
        let (report, done) = mpsc::channel();
        let work = move |context: &mut SwitchContext<'_>| {
            report.send(work(context)).expect("somebody waits");
        };
        self.handle.submit(0, Box::new(work));
        done.recv_timeout(TIMEOUT).expect("an answer")
    }

    /// Polls until the condition holds, since the loop receives frames at any time.
    fn look_until(&self, is_so: fn(&Switch) -> bool) {
        let began = std::time::Instant::now();
        while !self.work(move |context| is_so(context.switch)) {
            assert!(began.elapsed() < TIMEOUT, "it is never so");
        }
    }

    fn drain(&self) -> tokio::sync::oneshot::Receiver<()> {
        let (done, is_done) = tokio::sync::oneshot::channel();
        self.work(move |context| {
            let token = context.switch.begin_drain();
            context.drain_waiters.push(token, done);
        });
        is_done
    }

    fn stop(self) {
        self.handle.stop();
        self.running.join().expect("the loop ends");
    }
}

fn waiting() -> Vec<Vec<u8>> {
    (1..=N_WAITING).map(|number| vec![number; 60]).collect()
}

#[test]
fn what_is_for_a_full_port_waits_in_the_switch_while_others_go_on() {
    let full = Full::with_frames_that_wait();
    full.is_free.store(true, Ordering::Relaxed);
    let first = full.sent.recv_timeout(TIMEOUT).expect("the frame leaves");
    assert_eq!(first, [[0; 60]], "the port was given no other");
    let rest = full.sent.recv_timeout(TIMEOUT).expect("the frames leave");
    assert_eq!(rest, waiting());
    full.stop();
}

#[test]
fn what_waits_for_a_full_port_is_dropped_when_the_port_is_disabled() {
    let full = Full::with_frames_that_wait();
    full.look_until(|switch| switch.counters().dropped_total() == 0);
    full.work(|context| context.switch.set_port_enabled(PortId(3), false));
    full.look_until(|switch| {
        switch.counters().dropped(DropReason::PortDisabled) == u64::from(N_WAITING)
    });
    full.stop();
}

#[test]
fn a_drain_waits_for_what_a_full_port_keeps_in_the_switch() {
    let mut full = Full::with_frames_that_wait();
    let mut is_done = full.drain();
    // Other frames go on meanwhile.
    (N_WAITING + 1..N_WAITING + 4).for_each(|number| full.cross(number));
    assert!(is_done.try_recv().is_err(), "frames are still inside");
    full.is_free.store(true, Ordering::Relaxed);
    is_done.blocking_recv().expect("notified");
    full.stop();
}

#[test]
fn what_waits_for_a_full_port_leaves_by_the_port_that_takes_its_place() {
    let full = Full::with_frames_that_wait();
    let is_done = full.drain();
    let (inner, mut outer) = memory_pair("inner 3", "outer 3").expect("a cable");
    let replaced = full.handle.replace_port(PortId(3), vec![Box::new(inner)]);
    assert_eq!(replaced.len(), 1);
    assert_eq!(receive(&mut outer, waiting().len()), waiting());
    is_done.blocking_recv().expect("notified");
    full.stop();
}

#[test]
fn what_waits_for_a_full_port_is_counted_as_lost_when_its_interface_goes() {
    let mut full = Full::with_frames_that_wait();
    let is_done = full.drain();
    let lost: Box<dyn Port> = Box::new(LostPort::new("three"));
    drop(full.handle.replace_port(PortId(3), vec![lost]));
    is_done.blocking_recv().expect("nothing waits any more");
    // Later frames do not wait any more.
    full.cross(N_WAITING + 1);
    let is_done = full.drain();
    is_done.blocking_recv().expect("nothing waits");
    let n_lost = full.work(|context| {
        let mut ports = context.ports.iter();
        ports.find(|it| it.id == PortId(3)).map(|it| it.tx_dropped)
    });
    assert_eq!(n_lost, Some(u64::from(N_WAITING) + 1));
    full.stop();
}
