//! Sends frames through the switch at a known rate. Each frame contains a number and the time of sending, so that every
//! frame is accounted for and the longest interruption of forwarding is measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use packet_io::{AfPacketConfig, AfPacketPort, Port, Waiter};

use crate::Result;
use crate::namespace::PAIRS;

/// The EtherType for local experiments (IEEE 802).
const ETHER_TYPE: [u8; 2] = [0x88, 0xb5];
const FRAME_BYTES: usize = 64;
/// The offset of the frame's number, behind the bytes that a program may change. The time of sending follows the
/// number.
const NUMBER: usize = 18;
const SENT: usize = 26;
/// Maximum number of frames that the sender sends at once when it is late.
const BURST: u64 = 64;
/// How long the sender sleeps between two readings of the clock.
const PAUSE: Duration = Duration::from_micros(500);
/// Maximum time to wait for the last frames.
const REST_MAX: Duration = Duration::from_secs(5);
/// Number of receive ring slots. The number is large, so that the measurement itself does not lose frames.
const RING_SLOTS: usize = 65_536;
/// The longest delay that is recorded: one minute. Delays are recorded with two significant digits.
const DELAY_MAX_NS: u64 = 60_000_000_000;

/// Returns the destination address of a flow: 06:00:00:00 and the flow's number.
pub fn address(flow: u16) -> [u8; 6] {
    let [high, low] = flow.to_be_bytes();
    [6, 0, 0, 0, high, low]
}

/// The direction through the switch.
#[derive(Debug, Clone, Copy)]
pub enum Way {
    /// Frames enter the switch at port 1.
    FirstToSecond,
    /// Frames enter the switch at port 2.
    SecondToFirst,
}

pub struct Traffic {
    stops: Arc<AtomicBool>,
    n_arrived: Arc<AtomicU64>,
    sender: JoinHandle<Result<u64>>,
    receiver: JoinHandle<Result<Arrived>>,
}

#[derive(Debug, Clone)]
pub struct Passed {
    /// Number of frames that the kernel accepted from the sender.
    pub n_sent: u64,
    pub arrived: Arrived,
    /// How long frames were sent.
    pub seconds: f64,
}

#[derive(Debug, Clone)]
pub struct Arrived {
    pub n_frames: u64,
    /// Number of frames whose number was not higher than the previous frame's number.
    pub n_out_of_order: u64,
    /// Delays, from just before sending to the arrival.
    pub delays_ns: Histogram<u64>,
}

impl Passed {
    pub fn n_lost(&self) -> u64 {
        self.n_sent.saturating_sub(self.arrived.n_frames)
    }
}

impl Traffic {
    /// Starts sending `frames_per_s` frames per second through the switch, in the given direction, to each of `n_flows`
    /// addresses in turn.
    ///
    /// # Errors
    /// The interfaces do not exist.
    pub fn start(frames_per_s: u64, n_flows: u16, way: Way) -> Result<Self> {
        let config = AfPacketConfig {
            rx_ring_slots: RING_SLOTS,
            ..AfPacketConfig::default()
        };
        let [(first, _), (second, _)] = PAIRS;
        let (sends, takes) = match way {
            Way::FirstToSecond => (first, second),
            Way::SecondToFirst => (second, first),
        };
        let from = AfPacketPort::open(sends, AfPacketConfig::default())?;
        let to = AfPacketPort::open(takes, config)?;
        let (stops, n_arrived): (Arc<AtomicBool>, Arc<AtomicU64>) = Default::default();
        let (began, n_sent) = (Instant::now(), Arc::new(AtomicU64::new(u64::MAX)));
        let pace = Pace {
            began,
            frames_per_s,
            n_flows,
        };
        let (stop, sent) = (Arc::clone(&stops), Arc::clone(&n_sent));
        let sender = thread::spawn(move || pace.send(from, &stop, &sent));
        let arrived = Arc::clone(&n_arrived);
        let receiver = thread::spawn(move || receive(to, began, &arrived, &n_sent));
        Ok(Self {
            stops,
            n_arrived,
            sender,
            receiver,
        })
    }

    pub fn n_arrived(&self) -> u64 {
        self.n_arrived.load(Ordering::Relaxed)
    }

    /// Stops the sender and waits for the last frames.
    ///
    /// # Errors
    /// An interface no longer exists.
    pub fn end(self, began: Instant) -> Result<Passed> {
        self.stops.store(true, Ordering::Relaxed);
        let seconds = began.elapsed().as_secs_f64();
        let panicked = |_| "a thread of the traffic has panicked";
        let n_sent = self.sender.join().map_err(panicked)??;
        let arrived = self.receiver.join().map_err(panicked)??;
        Ok(Passed {
            n_sent,
            arrived,
            seconds,
        })
    }
}

#[derive(Clone, Copy)]
struct Pace {
    began: Instant,
    frames_per_s: u64,
    n_flows: u16,
}

impl Pace {
    fn send(self, mut port: AfPacketPort, stops: &AtomicBool, sent: &AtomicU64) -> Result<u64> {
        let mut frame = [0; FRAME_BYTES];
        frame[6] = 2;
        frame[12..14].copy_from_slice(&ETHER_TYPE);
        let mut number: u64 = 0;
        while !stops.load(Ordering::Relaxed) {
            let elapsed = self.began.elapsed();
            let due = elapsed.as_nanos() * u128::from(self.frames_per_s) / 1_000_000_000;
            let due = u64::try_from(due)?;
            for _ in 0..due.saturating_sub(number).min(BURST) {
                let flow = u16::try_from(number % u64::from(self.n_flows))?;
                frame[..6].copy_from_slice(&address(flow));
                frame[NUMBER..NUMBER + 8].copy_from_slice(&number.to_be_bytes());
                frame[SENT..SENT + 8].copy_from_slice(&nanos(self.began).to_be_bytes());
                port.transmit(0, (&frame[..]).into())?;
                number += 1;
            }
            port.flush()?;
            if due.saturating_sub(number) == 0 {
                thread::sleep(PAUSE);
            }
        }
        while port.has_unsent() {
            port.flush()?;
        }
        let n_frames = port.statistics().tx_frames;
        sent.store(n_frames, Ordering::Release);
        Ok(n_frames)
    }
}

fn nanos(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Receives frames until all sent frames have arrived or no more come.
fn receive(
    mut port: AfPacketPort,
    began: Instant,
    n_arrived: &AtomicU64,
    n_sent: &AtomicU64,
) -> Result<Arrived> {
    let mut arrived = Arrived {
        n_frames: 0,
        n_out_of_order: 0,
        delays_ns: Histogram::new_with_max(DELAY_MAX_NS, 2)?,
    };
    let (mut waiter, mut last) = (Waiter::default(), None);
    let mut idle_since = Instant::now();
    loop {
        let mut take = |frame: &[u8]| {
            if frame.get(12..14) != Some(&ETHER_TYPE) {
                return;
            }
            let (Some(number), Some(sent)) = (u64_at(frame, NUMBER), u64_at(frame, SENT)) else {
                return;
            };
            arrived.n_frames += 1;
            arrived.n_out_of_order += u64::from(last.is_some_and(|last| number <= last));
            last = Some(number);
            arrived
                .delays_ns
                .saturating_record(nanos(began).saturating_sub(sent));
        };
        let n_frames = port.receive(0, usize::try_from(BURST)?, &mut take)?;
        if n_frames > 0 {
            n_arrived.store(arrived.n_frames, Ordering::Relaxed);
            idle_since = Instant::now();
            continue;
        }
        let sent = n_sent.load(Ordering::Acquire);
        let is_over = sent != u64::MAX && idle_since.elapsed() > REST_MAX;
        if arrived.n_frames >= sent || is_over {
            return Ok(arrived);
        }
        waiter.wait(port.poll_fd(), Some(Duration::from_millis(50)))?;
    }
}

fn u64_at(frame: &[u8], place: usize) -> Option<u64> {
    let bytes = frame.get(place..place + 8)?;
    Some(u64::from_be_bytes(bytes.try_into().ok()?))
}
