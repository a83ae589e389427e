//! The interface of every kind of port.

use std::io;
use std::os::fd::BorrowedFd;

use frame::Frame;

use crate::limits::{DROPPED_AT_ONCE, WAITING_FRAMES_MAX};
use crate::{HandedPort, PortError, PortState, XdpInterface};

/// Nanoseconds of a monotonic clock that the caller keeps.
pub type Nanos = u64;

/// A place where Ethernet frames arrive and leave. Frames are whole, from the destination address
/// on, with their VLAN tags and finished checksums, without the frame check sequence.
pub trait Port: Send {
    /// The name to print: the name of an interface, an address or a capture.
    fn name(&self) -> &str;

    /// Hands up to `max_frames` frames that have arrived by `now` to `take`, in order of arrival, and returns their
    /// number. Never waits. Fewer than `max_frames` means that no frame is left for now.
    ///
    /// # Errors
    /// A capture file that cannot be read further. An interface that is down or gone is no error: nothing arrives.
    fn receive(
        &mut self,
        now: Nanos,
        max_frames: usize,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<usize, PortError>;

    /// Drops waiting frames that arrived before `before_ns`, in nanoseconds since 1970, while no process received. If
    /// the kernel does not report arrival times, drops all waiting frames. Does nothing on a port that is a capture
    /// file or in memory.
    ///
    /// # Errors
    /// As [`Port::receive`].
    fn drop_old(&mut self, before_ns: u64) -> Result<(), PortError> {
        let _ = before_ns;
        Ok(())
    }

    /// Whether the kernel reports arrival times, so that [`Port::drop_old`] keeps the frames that arrived later.
    fn knows_ages(&self) -> bool {
        false
    }

    /// Queues a frame for sending. Copies its pieces into the memory that the port sends from, except a payload that is
    /// already there. Sends the queue when it is long enough for a batch; the first frame after a flush is a batch of
    /// its own. [`Port::flush`] always sends the queue.
    ///
    /// # Errors
    /// A capture file that cannot be written.
    fn transmit(&mut self, now: Nanos, frame: Frame<'_>) -> Result<(), PortError>;

    /// Sends all queued frames, in the order of [`Port::transmit`]. Frames that the kernel does not take are counted as
    /// dropped, or kept for the next flush ([`Port::has_unsent`]).
    ///
    /// # Errors
    /// A capture file that cannot be written.
    fn flush(&mut self) -> Result<(), PortError>;

    /// Whether the last [`Port::flush`] kept frames that the kernel did not take yet: the caller should flush again
    /// soon.
    fn has_unsent(&self) -> bool {
        false
    }

    /// Whether the kernel has no room for further frames: the switch should hold them until a [`Port::flush`] has made
    /// progress.
    fn is_full(&self) -> bool {
        false
    }

    /// Flushes the port and finishes its output: a capture file is complete afterwards.
    ///
    /// # Errors
    /// As [`Port::flush`].
    fn close(&mut self) -> Result<(), PortError> {
        self.flush()
    }

    /// Returns a descriptor that is readable when frames wait. `None` if the kernel cannot wake a thread for this port;
    /// see [`Port::next_frame_at`].
    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Returns when the next frame arrives, if the port knows it beforehand (a capture file does).
    fn next_frame_at(&self) -> Option<Nanos> {
        None
    }

    /// Returns the index of the interface that the port stays bound to; `None` if there is no interface.
    fn interface_index(&self) -> Option<i32> {
        None
    }

    /// Returns the interface on which an XDP program other than the port's own may run; `None` if all frames must come
    /// to the port.
    fn xdp_interface(&self) -> Option<XdpInterface> {
        None
    }

    /// Returns the final counters of a port whose interface is gone and that will be closed. Frames that can no longer
    /// leave count as dropped.
    fn abandon(&mut self) -> PortStatistics {
        self.statistics()
    }

    /// Returns duplicates of the port's sockets and the port's state, for a process that takes the port over. `None` if
    /// no other process can take over this port. This process's port keeps working.
    ///
    /// # Errors
    /// The process has no descriptor left.
    fn hand_over(&self) -> io::Result<Option<HandedPort>> {
        Ok(None)
    }

    /// Continues at the state in which another process stopped using the port's sockets. The caller calls this before
    /// it receives the first frame.
    ///
    /// # Errors
    /// The state is of another port.
    fn go_on_from(&mut self, state: &PortState) -> io::Result<()> {
        let _ = state;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Tells the port that another process receives and sends by the port's sockets from now on. So this port no longer
    /// reads the kernel's counters, because each reading sets them to 0.
    fn leave(&mut self) {}

    /// Returns all counters since the port was opened. This asks the kernel, so do not call it for every packet.
    fn statistics(&mut self) -> PortStatistics;
}

/// Drops all waiting frames of a port whose kernel does not report arrival times.
pub(crate) fn receive_waiting(port: &mut dyn Port) -> Result<(), PortError> {
    let mut n_frames = 0;
    while n_frames < WAITING_FRAMES_MAX {
        let n = port.receive(0, DROPPED_AT_ONCE, &mut |_| ())?;
        n_frames += n;
        if n < DROPPED_AT_ONCE {
            break;
        }
    }
    Ok(())
}

/// A port's counters since it was opened. `rx_frames` and `tx_frames` count frames that passed whole; all other frame
/// counters are drop reasons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStatistics {
    /// Frames handed to the switch.
    pub rx_frames: u64,
    pub rx_bytes: u64,
    /// Dropped by the kernel because the receive ring was full.
    pub rx_ring_full: u64,
    /// Dropped by the kernel because no chunk was free, or because the frame did not fit a chunk (AF_XDP).
    pub rx_no_buffer: u64,
    /// Cut short: longer than a slot while the socket's buffer was full, or cut in the capture.
    pub rx_truncated: u64,
    /// Longer than any frame or super-frame that the port takes.
    pub rx_oversized: u64,
    /// Super-frames (TSO, USO, GRO) that could not be cut into frames: neither TCP nor UDP straight
    /// over IP.
    pub rx_unsegmentable: u64,
    /// Shorter than an Ethernet header.
    pub rx_too_short: u64,
    /// Dropped by [`Port::drop_old`]: waited too long, because the switch did not run.
    pub rx_too_old: u64,
    pub tx_frames: u64,
    pub tx_bytes: u64,
    /// Longer than the interface's MTU allows.
    pub tx_too_long: u64,
    /// Shorter than an Ethernet header.
    pub tx_too_short: u64,
    /// The kernel had no room (its queue, the peer's backlog), even after a short wait.
    pub tx_no_room: u64,
    /// The interface was down or gone.
    pub tx_link_down: u64,
    /// Refused by the kernel for another reason.
    pub tx_refused: u64,
    /// Not one whole UDP datagram over the socket's version of IP (UDP ports).
    pub tx_not_udp: u64,
    /// No route to the destination (UDP ports).
    pub tx_unreachable: u64,
}

impl PortStatistics {
    /// Adds the counters of another port of the same interface or address.
    pub fn add(&mut self, other: &PortStatistics) {
        self.rx_frames += other.rx_frames;
        self.rx_bytes += other.rx_bytes;
        self.rx_ring_full += other.rx_ring_full;
        self.rx_no_buffer += other.rx_no_buffer;
        self.rx_truncated += other.rx_truncated;
        self.rx_oversized += other.rx_oversized;
        self.rx_unsegmentable += other.rx_unsegmentable;
        self.rx_too_short += other.rx_too_short;
        self.rx_too_old += other.rx_too_old;
        self.tx_frames += other.tx_frames;
        self.tx_bytes += other.tx_bytes;
        self.tx_too_long += other.tx_too_long;
        self.tx_too_short += other.tx_too_short;
        self.tx_no_room += other.tx_no_room;
        self.tx_link_down += other.tx_link_down;
        self.tx_refused += other.tx_refused;
        self.tx_not_udp += other.tx_not_udp;
        self.tx_unreachable += other.tx_unreachable;
    }

    /// Counts the frames received since `before` as too old instead of received.
    pub(crate) fn drop_received_since(&mut self, before: PortStatistics) {
        self.rx_too_old += self.rx_frames - before.rx_frames;
        self.rx_frames = before.rx_frames;
        self.rx_bytes = before.rx_bytes;
    }

    /// Returns how many frames were lost before the switch saw them, for any reason.
    pub fn rx_dropped(&self) -> u64 {
        self.drops_from("rx_")
    }

    /// Returns how many frames the switch sent that did not leave, for any reason.
    pub fn tx_dropped(&self) -> u64 {
        self.drops_from("tx_")
    }

    fn drops_from(&self, direction: &str) -> u64 {
        let drops = self.drops().into_iter();
        let of_direction = drops.filter(|(reason, _)| reason.starts_with(direction));
        of_direction.map(|(_, count)| count).sum()
    }

    /// Returns every drop reason's name with its count, the reasons of receiving first.
    pub fn drops(&self) -> [(&'static str, u64); 14] {
        [
            ("rx_ring_full", self.rx_ring_full),
            ("rx_no_buffer", self.rx_no_buffer),
            ("rx_truncated", self.rx_truncated),
            ("rx_oversized", self.rx_oversized),
            ("rx_unsegmentable", self.rx_unsegmentable),
            ("rx_too_short", self.rx_too_short),
            ("rx_too_old", self.rx_too_old),
            ("tx_too_long", self.tx_too_long),
            ("tx_too_short", self.tx_too_short),
            ("tx_no_room", self.tx_no_room),
            ("tx_link_down", self.tx_link_down),
            ("tx_refused", self.tx_refused),
            ("tx_not_udp", self.tx_not_udp),
            ("tx_unreachable", self.tx_unreachable),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_summed_by_direction() {
        let statistics = PortStatistics {
            rx_ring_full: 1,
            rx_too_short: 2,
            tx_too_long: 10,
            tx_refused: 20,
            ..PortStatistics::default()
        };
        assert_eq!(statistics.rx_dropped(), 3);
        assert_eq!(statistics.tx_dropped(), 30);
    }
}
