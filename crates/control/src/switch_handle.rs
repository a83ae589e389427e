//! How other threads reach the switch: work is handed to the thread that owns it.
//!
//! The event loop of the crate `switch` implements [`SwitchHandle`]; tests do it with a mutex.

use dataplane::{Digest, DrainToken, IdleTimeout, Nanos, PayloadSignature, PortId, Switch};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{oneshot, watch};

/// Something to be done on the thread that owns the switch.
pub type Work = Box<dyn FnOnce(&mut SwitchContext<'_>) + Send>;

/// The way to the threads that own the switch: one for each worker, a switch of its own with a
/// part of the traffic. What is to be the same in all is submitted to each.
pub trait SwitchHandle: Send + Sync + 'static {
    /// How many workers there are, as long as the handle lives.
    fn n_workers(&self) -> usize {
        1
    }

    /// The externs that programs of all workers may call ([`Switch::payload_signatures`]), as long as the
    /// handle lives.
    fn payload_signatures(&self) -> Vec<PayloadSignature> {
        Vec::new()
    }

    /// Runs `work` on the thread that owns the worker of this number, from 0, soon, between passes;
    /// wakes the loop.
    ///
    /// A worker's work runs in the order of submission (first in, first out): the server relies on
    /// it, so that a former primary's writes end before its successor's begin; work that is not done
    /// ([`SwitchContext::rest`]) goes on before any other. Frames have their turn when some hundred
    /// updates ([`SwitchContext::n_updates`]) were carried out. After the work, the
    /// loop transmits what the switch has, and calls [`DrainWaiters::notify`]. When the switch has
    /// stopped, `work` is dropped without being run. `submit` itself never blocks.
    fn submit(&self, worker: usize, work: Work);

    /// Registers a channel that is told from now on of everything of its kind, in every worker.
    fn subscribe(&self, subscriber: Subscriber);
}

/// Who is told of what happens in the switch.
#[derive(Clone)]
pub enum Subscriber {
    /// Of frames that go to the CPU port.
    PacketIns(PacketInSender),
    /// Of entries that are not hit.
    IdleTimeouts(IdleTimeoutSender),
    /// Of digests.
    Digests(DigestSender),
    /// That something about a port's link has changed.
    Links(LinkSender),
}

/// Tells that a link has changed; who is told looks at the ports again. Several changes may be told as one.
#[derive(Clone, Default)]
pub struct LinkSender(watch::Sender<u64>);

impl LinkSender {
    /// Tells that there is something new. Never waits.
    pub fn tell(&self) {
        self.0.send_modify(|n_told| *n_told += 1);
    }

    /// What is told from now on.
    pub fn follow(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

/// Where a loop's packet-ins go.
pub type PacketInSender = NoticeSender<PacketInFrame>;

/// Where a loop's idle timeouts go.
pub type IdleTimeoutSender = NoticeSender<IdleTimeoutNotice>;

/// Where a loop's digests go.
pub type DigestSender = NoticeSender<DigestNotice>;

/// Where a loop tells what has happened in the switch.
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
    /// Both ends; so many wait at most.
    pub fn channel(n_notices: usize) -> (Self, Receiver<T>) {
        let (notices, receiver) = channel(n_notices);
        let lost = Arc::default();
        (Self { notices, lost }, receiver)
    }

    /// Whether anybody is there still. One for which there is no room is lost and counted.
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

    /// How many were lost.
    pub fn n_lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// A frame that went to the CPU port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketInFrame {
    /// [`Switch::generation`] of the program that made it.
    pub generation: u64,
    /// Whole, the packet-in header in front.
    pub frame: Vec<u8>,
}

/// An entry that was not hit for as long as its idle timeout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleTimeoutNotice {
    /// [`Switch::generation`] of the program that has the entry.
    pub generation: u64,
    /// The entry.
    pub idle: IdleTimeout,
}

/// What a program tells its control plane of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestNotice {
    /// [`Switch::generation`] of the program that made it.
    pub generation: u64,
    /// What it tells.
    pub digest: Digest,
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
    /// Updates that were carried out, or what took as long: work adds what it did.
    pub n_updates: usize,
    /// What is left to do of this work, if it is too much for one go.
    pub rest: Option<Work>,
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

/// Frames of a port by whom they are for, as the destination address says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Casts {
    /// That came, for a group of hosts.
    pub rx_multicast: u64,
    /// That came, for every host.
    pub rx_broadcast: u64,
    /// That left, for a group of hosts.
    pub tx_multicast: u64,
    /// That left, for every host.
    pub tx_broadcast: u64,
}

impl Casts {
    /// Adds what another worker has counted at the same port.
    pub fn add(&mut self, other: &Self) {
        self.rx_multicast += other.rx_multicast;
        self.rx_broadcast += other.rx_broadcast;
        self.tx_multicast += other.tx_multicast;
        self.tx_broadcast += other.tx_broadcast;
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
    /// Its receive queues that the port does not serve.
    pub unserved_queues: u32,
    /// What it is called now.
    pub interface: String,
    /// Of a port that an offload serves, whether it forwards there now.
    pub is_offloaded: Option<bool>,
    /// A control call has disabled it ([`Switch::set_port_enabled`]).
    pub is_disabled: bool,
    /// Nanoseconds since 1970 at which its link went down or came up last, or was first looked at; 0 where nobody
    /// looks.
    pub link_changed_ns: u64,
    /// How often its link has gone down or come up.
    pub link_transitions: u64,
    /// Bytes of the longest packet behind the Ethernet header that the interface takes; none where it is not known.
    pub mtu: Option<u32>,
    /// Its frames by whom they are for; none where the loop does not see each frame.
    pub casts: Option<Casts>,
}

impl PortStatus {
    /// The link as whoever asks for it is told: down while the port is disabled.
    pub fn reported_link(&self) -> LinkState {
        match self.link {
            LinkState::Lost => LinkState::Lost,
            _ if self.is_disabled => LinkState::Down,
            link => link,
        }
    }

    /// Whether frames can come and leave. What is no interface of the machine's is always there.
    pub fn is_up(&self) -> bool {
        matches!(self.reported_link(), LinkState::Up | LinkState::None)
    }

    /// Adds what another worker knows of the same port; all know the same of its interface.
    pub fn add(&mut self, other: &Self) {
        self.rx_dropped += other.rx_dropped;
        self.tx_dropped += other.tx_dropped;
        if let (Some(ours), Some(theirs)) = (&mut self.casts, &other.casts) {
            ours.add(theirs);
        }
        for ((_, ours), (_, theirs)) in self.drops.iter_mut().zip(&other.drops) {
            *ours += theirs;
        }
    }
}

/// Who wants to be told when an epoch of packets has left the switch.
///
/// The loop owns one, lends it out in every [`SwitchContext`], and calls [`Self::notify`] whenever
/// it has run the switch.
#[derive(Default)]
pub struct DrainWaiters {
    waiting: Vec<(DrainToken, oneshot::Sender<()>)>,
}

impl DrainWaiters {
    /// `done` is told once, when `token` is drained.
    pub fn push(&mut self, token: DrainToken, done: oneshot::Sender<()>) {
        self.waiting.push((token, done));
    }

    /// Tells those whose epoch is drained, and forgets who has given up. Costs nothing while nobody
    /// waits.
    pub fn notify(&mut self, switch: &Switch) {
        let is_over = |(token, done): &mut (DrainToken, oneshot::Sender<()>)| {
            done.is_closed() || switch.is_drained(*token)
        };
        for (_, done) in self.waiting.extract_if(.., is_over) {
            // Who has given up is not told.
            let _ = done.send(());
        }
    }

    /// Whether anybody waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
