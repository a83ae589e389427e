//! The member's thread: takes datagrams, timeouts and commands; produces events and confirm messages.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aom::certificate::Certificate;
use aom::confirm::{Confirming, RefusedConfirms};
use aom::event::Event;
use aom::membership::{Membership, MembershipError};
use aom::receiver::Receiver;
use aom::refused::Refused;
use aom::wire::ConfirmPacket;
use k256::ecdsa::SigningKey;
use tokio::sync::mpsc;

use crate::{Command, MemberError, SOCKET_BUFFER_BYTES, Shared, lock};

/// The size of the buffer for a datagram. It is larger than the largest UDP payload.
const DATAGRAM_BYTES: usize = 1 << 16;
/// The most datagrams that are read before commands and timeouts are checked again.
const DATAGRAMS_AT_ONCE: usize = 64;
/// The most datagrams that are read when a timeout is due, so that endless datagrams delay the timeout by milliseconds
/// only.
const DATAGRAMS_BEFORE_TIMEOUT: usize = 1024;

/// Counts a member's received and refused datagrams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Received datagrams, accepted or refused.
    pub datagrams: u64,
    /// Refused packets of the sequencer, by reason.
    pub refused: Refused,
    /// Refused confirm messages of other members, by reason.
    pub refused_confirms: RefusedConfirms,
    /// Confirm messages that the kernel refused to send, so that the other member lacks them.
    pub unsent_confirms: u64,
    /// Epoch and sequence number of the last message or drop that was queued for the application.
    pub queued: Option<(u64, u32)>,
}

enum Core {
    Trusting(Box<Receiver>),
    Confirming(Box<Confirming>),
}

pub(crate) struct Task {
    socket: UdpSocket,
    core: Core,
    peers: Vec<SocketAddr>,
    /// Confirm messages from an address that is not a peer's. They are refused before their signatures are verified.
    n_strange_confirms: u64,
    shared: Arc<Shared>,
    /// The instant at which the core's clock shows zero: at first the member's start. Whenever the thread handles a
    /// timeout late, the instant moves forward by the delay, so that the core's clock does not count the delay.
    began: Instant,
}

impl Task {
    pub(crate) fn new(
        socket: UdpSocket,
        membership: Membership,
        first: u32,
        confirms: Option<(SigningKey, Vec<SocketAddr>)>,
        shared: Arc<Shared>,
    ) -> Result<Task, MemberError> {
        socket.set_nonblocking(true)?;
        // The kernel grants at most the administrator's limit (`net.core.rmem_max`).
        socket2::SockRef::from(&socket).set_recv_buffer_size(SOCKET_BUFFER_BYTES)?;
        let (core, peers) = match confirms {
            None => (
                Core::Trusting(Box::new(Receiver::new(membership, first)?)),
                Vec::new(),
            ),
            Some((key, peers)) => {
                let core = Confirming::new(membership, first, key)?;
                (Core::Confirming(Box::new(core)), peers)
            }
        };
        Ok(Task {
            socket,
            core,
            peers,
            n_strange_confirms: 0,
            shared,
            began: Instant::now(),
        })
    }

    /// Runs until a command ends it or the socket fails, and closes the mailbox.
    pub(crate) async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        let because = match self.receive(&mut commands).await {
            Ok(because) => because,
            Err(error) => error.to_string(),
        };
        self.shared.mailbox.close(because);
    }

    /// Handles datagrams, timeouts and commands until the member ends, and returns the reason why it ends.
    async fn receive(
        &mut self,
        commands: &mut mpsc::UnboundedReceiver<Command>,
    ) -> io::Result<String> {
        let direct = self.socket.try_clone()?;
        let socket = tokio::net::UdpSocket::from_std(self.socket.try_clone()?)?;
        let mut buffer = vec![0; DATAGRAM_BYTES];
        loop {
            let due = self.core.poll_timeout();
            let due_at = due.map(|due| self.began + due);
            let shared = Arc::clone(&self.shared);
            tokio::select! {
                biased;
                command = commands.recv() => if let ControlFlow::Break(because) = self.obey(command) {
                    return Ok(because);
                },
                () = sleep_until(due_at) => self.time_out(&direct, due, &mut buffer)?,
                readable = readable(&socket, &shared) => {
                    readable?;
                    self.read(DATAGRAMS_AT_ONCE, due, &mut buffer, |buffer| socket.try_recv_from(buffer))?;
                }
            }
            self.deliver(&socket);
        }
    }

    /// Handles a due timeout. On a busy machine this thread may run late, and the packets that the core waits for may
    /// already be in the socket. So this function reads the socket first. The core's clock does not count the time by
    /// which the thread is late, so the delay shortens no wait of the core.
    fn time_out(
        &mut self,
        socket: &UdpSocket,
        due: Option<Duration>,
        buffer: &mut [u8],
    ) -> io::Result<()> {
        if let Some(due) = due {
            self.began += self.began.elapsed().saturating_sub(due);
        }
        if self.shared.mailbox.has_room() {
            // We do not read through tokio, which may not know yet that the socket is readable.
            self.read(DATAGRAMS_BEFORE_TIMEOUT, due, buffer, |buffer| {
                socket.recv_from(buffer)
            })?;
        }
        self.core.handle_timeout(self.began.elapsed());
        Ok(())
    }

    /// Reads datagrams until the socket is empty, at most `n_max`. Passes them to the core as if they had arrived
    /// before `due`, the core's next timeout, because only [`time_out`](Self::time_out) may decide that a packet is
    /// missing.
    fn read(
        &mut self,
        n_max: usize,
        due: Option<Duration>,
        buffer: &mut [u8],
        receive: impl Fn(&mut [u8]) -> io::Result<(usize, SocketAddr)>,
    ) -> io::Result<()> {
        let now = self.began.elapsed();
        let before = |due: Duration| due.saturating_sub(Duration::from_nanos(1));
        let now = due.map_or(now, |due| now.min(before(due)));
        let mut n_datagrams = 0;
        for _ in 0..n_max {
            let (n_bytes, from) = match receive(buffer) {
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // An ICMP error: nobody listens at the peer to which an earlier confirm was sent.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
                Err(error) => return Err(error),
            };
            n_datagrams += 1;
            let datagram = &buffer[..n_bytes];
            // Only confirm messages can be filtered by source address: a packet of the sequencer has the source address
            // of the request's sender.
            if ConfirmPacket::read(datagram).is_some() && !self.peers.contains(&from) {
                self.n_strange_confirms += 1;
                continue;
            }
            self.core.handle_datagram(now, datagram);
        }
        lock(&self.shared.counters).datagrams += n_datagrams;
        Ok(())
    }

    fn obey(&mut self, command: Option<Command>) -> ControlFlow<String> {
        let (membership, last, peers, done) = match command {
            Some(Command::Advance {
                membership,
                last,
                peers,
                done,
            }) => (membership, last, peers, done),
            Some(Command::Certificate {
                epoch,
                sequence,
                done,
            }) => {
                // Sending fails if the caller has stopped waiting.
                let _ = done.send(self.core.certificate(epoch, sequence));
                return ControlFlow::Continue(());
            }
            Some(Command::Leave { because }) => return ControlFlow::Break(because),
            None => return ControlFlow::Break("its member is gone".to_owned()),
        };
        let advanced = self
            .core
            .advance(self.began.elapsed(), (*membership).clone(), last);
        if advanced.is_ok() {
            self.peers = peers;
            let mut memberships = lock(&self.shared.memberships);
            let old = memberships.pop();
            *memberships = old.into_iter().chain([*membership]).collect();
        }
        // Sending fails if the caller has stopped waiting.
        let _ = done.send(advanced);
        ControlFlow::Continue(())
    }

    /// Queues all events for the application, and sends all confirm messages to the other members.
    fn deliver(&mut self, socket: &tokio::net::UdpSocket) {
        let mut last = None;
        while let Some(event) = self.core.poll_event() {
            last = number_of(&event).or(last);
            self.shared.mailbox.put(event);
        }
        let mut n_unsent = 0;
        while let Some(confirm) = self.core.poll_transmit() {
            for peer in &self.peers {
                n_unsent += u64::from(socket.try_send_to(&confirm, *peer).is_err());
            }
        }
        let mut counters = lock(&self.shared.counters);
        counters.unsent_confirms += n_unsent;
        counters.queued = counters.queued.max(last);
        (counters.refused, counters.refused_confirms) = self.core.refused();
        counters.refused_confirms.strangers += self.n_strange_confirms;
    }
}

fn number_of(event: &Event) -> Option<(u64, u32)> {
    match event {
        Event::Message(it) => Some((it.epoch, it.sequence)),
        Event::Drop(it) => Some((it.epoch, it.last)),
        Event::Evidence(_) => None,
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

/// Waits until the mailbox has room and the socket has a datagram.
async fn readable(socket: &tokio::net::UdpSocket, shared: &Shared) -> io::Result<()> {
    shared.mailbox.room().await;
    socket.readable().await
}

impl Core {
    fn handle_datagram(&mut self, now: Duration, datagram: &[u8]) {
        match self {
            Core::Trusting(core) => core.handle_datagram(now, datagram),
            Core::Confirming(core) => core.handle_datagram(now, datagram),
        }
    }

    fn handle_timeout(&mut self, now: Duration) {
        match self {
            Core::Trusting(core) => core.handle_timeout(now),
            Core::Confirming(core) => core.handle_timeout(now),
        }
    }

    fn poll_timeout(&self) -> Option<Duration> {
        match self {
            Core::Trusting(core) => core.poll_timeout(),
            Core::Confirming(core) => core.poll_timeout(),
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        match self {
            Core::Trusting(core) => core.poll_event(),
            Core::Confirming(core) => core.poll_event(),
        }
    }

    fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        match self {
            Core::Trusting(_) => None,
            Core::Confirming(core) => core.poll_transmit(),
        }
    }

    fn advance(
        &mut self,
        now: Duration,
        membership: Membership,
        last: Option<u32>,
    ) -> Result<(), MembershipError> {
        match self {
            Core::Trusting(core) => core.advance(membership, last),
            Core::Confirming(core) => core.advance(now, membership, last),
        }
    }

    fn certificate(&self, epoch: u64, sequence: u32) -> Option<Certificate> {
        match self {
            Core::Trusting(core) if core.membership().epoch == epoch => core.certificate(sequence),
            // In a Byzantine group every confirm message is verified before it enters a certificate, so there is no
            // better certificate than the one in the message's event.
            Core::Trusting(_) | Core::Confirming(_) => None,
        }
    }

    fn refused(&self) -> (Refused, RefusedConfirms) {
        match self {
            Core::Trusting(core) => (core.refused(), RefusedConfirms::default()),
            Core::Confirming(core) => (core.refused(), core.refused_confirms()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use aom::half_siphash::{Key, tag};
    use aom::limits::GAP_TIMEOUT;
    use aom::membership::Sequencer;
    use aom::wire::{Authenticator, Packet, Stamp, digest_of};

    use super::*;
    use crate::mailbox::Mailbox;

    const KEY: Key = Key { k0: 1, k1: 2 };
    /// Five receivers form two shards, so a message needs two packets.
    const N_RECEIVERS: u8 = 5;

    fn packet(sequence: u32, shard: u8) -> Vec<u8> {
        let message = b"message";
        let stamp = Stamp {
            epoch: 1,
            shard,
            group: 1,
            sequence,
            digest: digest_of(message),
        };
        Packet {
            stamp,
            authenticator: Authenticator::Tags([tag(KEY, &stamp); 4]),
            message,
        }
        .write()
    }

    /// Makes a member that has received the packet of its own shard (shard 0), and then did not run until its timeout
    /// was over.
    fn late_member() -> (Task, UdpSocket, Option<Duration>) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(socket.local_addr().unwrap()).unwrap();
        let membership = Membership {
            group: 1,
            epoch: 1,
            n_receivers: N_RECEIVERS,
            receiver: 0,
            sequencer: Sequencer::Tagging(KEY),
            confirm_keys: Vec::new(),
        };
        let shared = Arc::new(Shared {
            mailbox: Mailbox::new(16, 1 << 20),
            counters: Mutex::default(),
            memberships: Mutex::default(),
        });
        let mut task = Task::new(socket, membership, 1, None, shared).unwrap();
        task.core
            .handle_datagram(task.began.elapsed(), &packet(1, 0));
        let due = task.core.poll_timeout();
        std::thread::sleep(3 * GAP_TIMEOUT);
        (task, sender, due)
    }

    #[test]
    fn a_late_thread_reads_what_is_in_the_socket_before_it_drops_a_number() {
        let (mut task, sender, due) = late_member();
        sender.send(&packet(1, 1)).unwrap();
        let socket = task.socket.try_clone().unwrap();
        task.time_out(&socket, due, &mut [0; 2048]).unwrap();
        let event = task.core.poll_event();
        assert!(matches!(event, Some(Event::Message(_))), "{event:?}");
    }

    #[test]
    fn a_number_whose_packet_is_not_in_the_socket_is_dropped_in_time() {
        let (mut task, _sender, due) = late_member();
        let socket = task.socket.try_clone().unwrap();
        task.time_out(&socket, due, &mut [0; 2048]).unwrap();
        let event = task.core.poll_event();
        assert!(matches!(event, Some(Event::Drop(_))), "{event:?}");
    }

    #[test]
    fn a_number_that_is_proved_late_is_waited_for_as_any_other() {
        let (mut task, sender, due) = late_member();
        sender.send(&packet(2, 0)).unwrap();
        let socket = task.socket.try_clone().unwrap();
        task.time_out(&socket, due, &mut [0; 2048]).unwrap();
        let dropped = task.core.poll_event();
        assert!(
            matches!(&dropped, Some(Event::Drop(it)) if it.numbers() == (1..=1)),
            "{dropped:?}"
        );
        let next = task.core.poll_timeout().expect("number 2 is incomplete");
        assert!(next > task.began.elapsed(), "{next:?}");
    }
}
