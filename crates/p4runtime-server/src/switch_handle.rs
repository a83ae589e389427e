//! How other threads reach the switch: work is handed to the thread that owns it.
//!
//! The event loop of the crate `switch` implements [`SwitchHandle`]; tests do it with a mutex.

use dataplane::{DrainToken, Nanos, PortId, Switch};
use tokio::sync::mpsc::UnboundedSender;

/// Something to be done on the thread that owns the switch.
pub type Work = Box<dyn FnOnce(&mut SwitchContext<'_>) + Send>;

/// The way to the threads that own the switch: one for each worker, a switch of its own with a
/// part of the traffic. What is to be the same in all is submitted to each.
pub trait SwitchHandle: Send + Sync + 'static {
    /// How many workers there are, as long as the handle lives.
    fn n_workers(&self) -> usize {
        1
    }

    /// Runs `work` on the thread that owns the worker of this number, from 0, soon, between passes;
    /// wakes the loop.
    ///
    /// A worker's work runs in the order of submission (first in, first out): the server relies on
    /// it, so that a former primary's writes end before its successor's begin. After the work, the
    /// loop transmits what the switch has, and calls [`DrainWaiters::notify`]. When the switch has
    /// stopped, `work` is dropped without being run. `submit` itself never blocks.
    fn submit(&self, worker: usize, work: Work);

    /// Registers a channel that receives every packet-in frame of every worker from now on.
    fn subscribe_packet_in(&self, sender: UnboundedSender<Vec<u8>>);
}

/// What a piece of [`Work`] may use while it runs.
pub struct SwitchContext<'a> {
    /// The switch.
    pub switch: &'a mut Switch,
    /// The loop's clock.
    pub now: Nanos,
    /// The ports that the loop serves.
    pub ports: &'a [PortStatus],
    /// Who waits for a drain; the loop owns it.
    pub drain_waiters: &'a mut DrainWaiters,
}

/// How the interface beneath a port is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LinkState {
    /// There is none, or nobody has looked yet.
    #[default]
    None,
    /// Frames can come and leave.
    Up,
    /// It is down, or has no carrier.
    Down,
    /// It was removed: the port waits for one of its name.
    Lost,
}

impl LinkState {
    /// In one word; empty where there is none.
    pub fn name(self) -> &'static str {
        match self {
            LinkState::None => "",
            LinkState::Up => "up",
            LinkState::Down => "down",
            LinkState::Lost => "lost",
        }
    }
}

/// A port as the loop knows it, beside what the switch counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PortStatus {
    /// Number in the switch.
    pub id: PortId,
    /// How the port was named when the switch was started, for example `veth1`.
    pub name: String,
    /// Frames that the kernel or the driver dropped before the switch saw them.
    pub rx_dropped: u64,
    /// Frames that the kernel or the driver refused to send.
    pub tx_dropped: u64,
    /// Both by reason, zeros too; the same reasons for every port.
    pub drops: Vec<(&'static str, u64)>,
    /// How the interface is.
    pub link: LinkState,
    /// How often it went down.
    pub link_down_events: u64,
    /// How often it came up again.
    pub link_up_events: u64,
    /// How often it was removed.
    pub lost_events: u64,
}

impl PortStatus {
    /// Adds what another worker knows of the same port; all know the same of its interface.
    pub fn add(&mut self, other: &Self) {
        self.rx_dropped += other.rx_dropped;
        self.tx_dropped += other.tx_dropped;
        for ((_, ours), (_, theirs)) in self.drops.iter_mut().zip(&other.drops) {
            *ours += theirs;
        }
    }
}

/// Who wants to be told when an epoch of packets has left the switch.
///
/// The loop owns one, lends it out in every [`SwitchContext`], and calls [`Self::notify`] whenever
/// it has run the switch until nothing more could run.
#[derive(Default)]
pub struct DrainWaiters {
    waiting: Vec<(DrainToken, Box<dyn FnOnce() + Send>)>,
}

impl DrainWaiters {
    /// `done` is called once, on the loop's thread, when `token` is drained; it must not block.
    pub fn push(&mut self, token: DrainToken, done: Box<dyn FnOnce() + Send>) {
        self.waiting.push((token, done));
    }

    /// Tells those whose epoch is drained. Costs nothing while nobody waits.
    pub fn notify(&mut self, switch: &Switch) {
        if self.waiting.is_empty() {
            return;
        }
        for (token, done) in std::mem::take(&mut self.waiting) {
            if switch.is_drained(token) {
                done();
            } else {
                self.waiting.push((token, done));
            }
        }
    }

    /// Whether anybody waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
