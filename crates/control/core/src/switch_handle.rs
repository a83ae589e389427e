//! How other threads access the switch: they submit work to the thread that owns it.
//!
//! The event loop of the crate `switch` implements [`SwitchHandle`]; tests implement it with a mutex.

use dataplane::{Digest, DrainToken, IdleTimeout, Nanos, PayloadSignature, PortId, Switch};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{oneshot, watch};

/// Code that runs on the thread that owns the switch.
pub type Work = Box<dyn FnOnce(&mut SwitchContext<'_>) + Send>;

/// Access to the threads that own the switches, one for each worker. A worker is a switch of its own with a part of the
/// traffic. A change that all workers must have is submitted to each worker.
pub trait SwitchHandle: Send + Sync + 'static {
    /// Number of workers; constant for the life of the handle.
    fn n_workers(&self) -> usize {
        1
    }

    /// Externs that programs may call in all workers ([`Switch::payload_signatures`]); constant for the life of the
    /// handle.
    fn payload_signatures(&self) -> Vec<PayloadSignature> {
        Vec::new()
    }

    /// Queues `work` for the worker with this number (counted from 0), and wakes the worker's event loop. The loop runs
    /// `work` soon, on the worker's thread, but never during a packet's pass through ingress and egress.
    ///
    /// A worker's work runs in the order of submission. P4Runtime's server relies on this order: a former primary's
    /// writes end before its successor's writes begin. Unfinished work ([`SwitchContext::rest`]) continues before any
    /// other work. After some hundred updates ([`SwitchContext::n_updates`]) the event loop lets frames pass. After the
    /// work, the loop transmits the frames that the switch has made, and calls [`DrainWaiters::notify`]. If the switch
    /// has stopped, `work` is dropped without being run. `submit` itself never blocks.
    fn submit(&self, worker: usize, work: Work);

    /// Subscribes a channel to all events of one kind in every worker, from now on.
    fn subscribe(&self, subscriber: Subscriber);
}

/// A subscriber's channel for one kind of events.
#[derive(Clone)]
pub enum Subscriber {
    /// Frames sent to the CPU port.
    PacketIns(PacketInSender),
    /// Entries that were not hit within their idle timeout.
    IdleTimeouts(IdleTimeoutSender),
    /// Digests that programs make.
    Digests(DigestSender),
    /// Changes of a port's link.
    Links(LinkSender),
}

/// A channel that notifies of link changes, after which the receiver reads the ports again. Several changes may cause
/// one notification.
#[derive(Clone, Default)]
pub struct LinkSender(watch::Sender<u64>);

impl LinkSender {
    /// Sends a notification to all followers; never waits.
    pub fn notify(&self) {
        self.0.send_modify(|n_notified| *n_notified += 1);
    }

    /// Returns a receiver of the notifications from now on.
    pub fn follow(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

/// Channel for the packet-ins of an event loop.
pub type PacketInSender = NoticeSender<PacketInFrame>;

/// Channel for the idle timeouts of an event loop.
pub type IdleTimeoutSender = NoticeSender<IdleTimeoutNotice>;

/// Channel for the digests of an event loop.
pub type DigestSender = NoticeSender<DigestNotice>;

/// A bounded channel for events of a switch, which counts the events that it has lost.
pub struct NoticeSender<T> {
    notices: Sender<T>,
    lost: Arc<AtomicU64>,
}

impl<T> Clone for NoticeSender<T> {
    fn clone(&self) -> Self {
        Self {
            notices: self.notices.clone(),
            lost: Arc::clone(&self.lost),
        }
    }
}

impl<T> NoticeSender<T> {
    /// Makes both ends of a channel in which at most `n_notices` notices wait for the receiver.
    pub fn channel(n_notices: usize) -> (Self, Receiver<T>) {
        let (notices, receiver) = channel(n_notices);
        let lost = Arc::default();
        (Self { notices, lost }, receiver)
    }

    /// Sends a notice and returns whether the receiver still exists. If the channel is full, the notice is lost and
    /// counted.
    pub fn send(&self, notice: T) -> bool {
        match self.notices.try_send(notice) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => {
                self.lost.fetch_add(1, Ordering::Relaxed);
                true
            }
            Err(TrySendError::Closed(_)) => false,
        }
    }

    /// Number of notices lost because the channel was full.
    pub fn n_lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// A frame sent to the CPU port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketInFrame {
    /// [`Switch::generation`] of the program that sent the frame.
    pub generation: u64,
    /// The whole frame, beginning with the packet-in header.
    pub frame: Vec<u8>,
}

/// An entry that was not hit within its idle timeout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleTimeoutNotice {
    /// [`Switch::generation`] of the program that has the entry.
    pub generation: u64,
    /// The entry and its table.
    pub idle: IdleTimeout,
}

/// A digest that a program made of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestNotice {
    /// [`Switch::generation`] of the program that made the digest.
    pub generation: u64,
    /// The digest's name and fields.
    pub digest: Digest,
}

/// What [`Work`] may use while it runs.
pub struct SwitchContext<'a> {
    /// The worker's switch.
    pub switch: &'a mut Switch,
    /// The time on the event loop's clock.
    pub now: Nanos,
    /// The ports of the event loop.
    pub ports: &'a [PortStatus],
    /// Callers of [`Device::drain`](crate::Device::drain), which wait until the packets that are now in the switch have
    /// left it. The event loop owns this list.
    pub drain_waiters: &'a mut DrainWaiters,
    /// Cost of the work in updates. The work itself adds its cost.
    pub n_updates: usize,
    /// The remaining work, if the work is too long for one event-loop iteration.
    pub rest: Option<Work>,
}

/// State of the interface beneath a port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LinkState {
    /// The port has no interface, or the switch has not read the interface's state yet.
    #[default]
    None,
    /// Frames can be received and sent.
    Up,
    /// The interface is down, or has no carrier.
    Down,
    /// The interface was removed. The port waits for a new interface of the same name.
    Lost,
}

impl LinkState {
    /// The state in one word; empty for `None`.
    pub fn name(self) -> &'static str {
        match self {
            LinkState::None => "",
            LinkState::Up => "up",
            LinkState::Down => "down",
            LinkState::Lost => "lost",
        }
    }
}

/// Multicast and broadcast frames of a port, by destination address.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MulticastCounters {
    /// Received multicast frames.
    pub rx_multicast: u64,
    /// Received broadcast frames.
    pub rx_broadcast: u64,
    /// Sent multicast frames.
    pub tx_multicast: u64,
    /// Sent broadcast frames.
    pub tx_broadcast: u64,
}

impl MulticastCounters {
    /// Adds another worker's counts of the same port.
    pub fn add(&mut self, other: &Self) {
        self.rx_multicast += other.rx_multicast;
        self.rx_broadcast += other.rx_broadcast;
        self.tx_multicast += other.tx_multicast;
        self.tx_broadcast += other.tx_broadcast;
    }
}

/// A port's state as the event loop knows it. The switch's counters of the port are not part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PortStatus {
    /// The port's number in the switch.
    pub id: PortId,
    /// The port's name on the command line, for example `veth1`.
    pub name: String,
    /// Received frames that the kernel or the driver dropped before the switch saw them.
    pub rx_dropped: u64,
    /// Frames that the kernel or the driver refused to send.
    pub tx_dropped: u64,
    /// The frames of `rx_dropped` and `tx_dropped` by reason, zeros included. Every port has the same reasons.
    pub drops: Vec<(&'static str, u64)>,
    /// State of the port's interface.
    pub link: LinkState,
    /// How often the interface went down.
    pub link_down_events: u64,
    /// How often the interface came up again.
    pub link_up_events: u64,
    /// How often the interface was removed.
    pub lost_events: u64,
    /// Number of the interface's receive queues that the port does not serve.
    pub unserved_queues: u32,
    /// The interface's current name.
    pub interface: String,
    /// Whether the offload forwards at the port now; `None` if no offload serves the port.
    pub is_offloaded: Option<bool>,
    /// Whether a control call has disabled the port ([`Switch::set_port_enabled`]).
    pub is_disabled: bool,
    /// When the link last went down or came up, or when the switch first read its state, in nanoseconds since the Unix
    /// epoch; 0 if the link is not watched.
    pub link_changed_ns: u64,
    /// How often the link has gone down or come up.
    pub link_transitions: u64,
    /// Longest packet in bytes, without the Ethernet header, that the interface takes; `None` if unknown.
    pub mtu: Option<u32>,
    /// Multicast and broadcast frames; `None` if the event loop does not see every frame, because an offload forwards
    /// or has forwarded at the port.
    pub multicast: Option<MulticastCounters>,
}

impl PortStatus {
    /// The link state that the servers report to clients: lost if the interface was removed; down while the port is
    /// disabled; in all other cases the interface's state.
    pub fn reported_link(&self) -> LinkState {
        match self.link {
            LinkState::Lost => LinkState::Lost,
            _ if self.is_disabled => LinkState::Down,
            link => link,
        }
    }

    /// Whether frames can be received and sent. A port without an interface is always up unless disabled.
    pub fn is_up(&self) -> bool {
        matches!(self.reported_link(), LinkState::Up | LinkState::None)
    }

    /// Adds another worker's counts of the same port. The interface's state is the same in both workers.
    pub fn add(&mut self, other: &Self) {
        self.rx_dropped += other.rx_dropped;
        self.tx_dropped += other.tx_dropped;
        if let (Some(ours), Some(theirs)) = (&mut self.multicast, &other.multicast) {
            ours.add(theirs);
        }
        for ((_, ours), (_, theirs)) in self.drops.iter_mut().zip(&other.drops) {
            *ours += theirs;
        }
    }
}

/// Callers that wait until all packets that were inside the switch at some moment have left it.
///
/// The event loop owns this value, passes it in every [`SwitchContext`], and calls [`Self::notify`] after it has run
/// the switch.
#[derive(Default)]
pub struct DrainWaiters {
    waiting: Vec<(DrainToken, oneshot::Sender<()>)>,
}

impl DrainWaiters {
    /// Adds a caller that waits. `done` is notified once, when all packets for which `token` waits have left the
    /// switch.
    pub fn push(&mut self, token: DrainToken, done: oneshot::Sender<()>) {
        self.waiting.push((token, done));
    }

    /// Notifies the callers whose packets have left, and removes callers that gave up. Costs nothing while nobody
    /// waits.
    pub fn notify(&mut self, switch: &Switch) {
        let is_over = |(token, done): &mut (DrainToken, oneshot::Sender<()>)| {
            done.is_closed() || switch.is_drained(*token)
        };
        for (_, done) in self.waiting.extract_if(.., is_over) {
            // A caller that gave up has dropped its receiver.
            let _ = done.send(());
        }
    }

    /// Whether no caller waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
