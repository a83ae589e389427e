//! Sends a batch through a socket. If the kernel does not take a frame at once, tries again a little later; if the
//! kernel refuses the frame, counts the frame with the reason.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::PortStatistics;
use crate::batch::TxBatch;
use crate::limits::{MIN_FRAME_BYTES, TX_RETRIES_PER_FLUSH, TX_RETRY_WAIT_US};
use crate::{interface, socket};

/// Decides whether to wait until the kernel takes a frame. A link whose far end refuses frames, or only long frames
/// (because its MTU is smaller), looks like a link that has no room just now. Waiting for it in every flush would delay
/// all other ports.
#[derive(Debug)]
pub(crate) struct RetryPolicy {
    /// The shortest frame, in bytes, for which a wait was in vain. No frame of at least this length has left since.
    in_vain_from_bytes: usize,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            in_vain_from_bytes: usize::MAX,
        }
    }
}

impl RetryPolicy {
    fn may_wait_for(&self, frame_bytes: usize) -> bool {
        frame_bytes < self.in_vain_from_bytes
    }

    fn waited_in_vain(&mut self, frame_bytes: usize) {
        self.in_vain_from_bytes = self.in_vain_from_bytes.min(frame_bytes);
    }

    fn has_sent(&mut self, frame_bytes: usize) {
        if frame_bytes >= self.in_vain_from_bytes {
            *self = Self::default();
        }
    }
}

/// Frames that wait for a socket.
pub(crate) struct Waiting<'fd, Send, BytesOf, IsLinkDown> {
    pub(crate) fd: BorrowedFd<'fd>,
    pub(crate) n_frames: usize,
    /// Sends the frames from a position on; returns how many it sent, or an error about the first.
    pub(crate) send: Send,
    /// Returns the length of the frame at a position.
    pub(crate) bytes_of: BytesOf,
    /// Returns whether the link is down, so that a full queue will not drain.
    pub(crate) is_link_down: IsLinkDown,
}

/// Sends frames until all are sent or refused.
pub(crate) fn send_all(
    waiting: Waiting<
        '_,
        impl FnMut(usize) -> io::Result<usize>,
        impl Fn(usize) -> usize,
        impl Fn() -> bool,
    >,
    retry_policy: &mut RetryPolicy,
    statistics: &mut PortStatistics,
) {
    let Waiting {
        fd,
        n_frames,
        mut send,
        bytes_of,
        is_link_down,
    } = waiting;
    let mut first = 0;
    let mut retries_left = TX_RETRIES_PER_FLUSH;
    while first < n_frames {
        match send(first) {
            Ok(n_sent) => {
                statistics.tx_frames += n_sent as u64;
                for frame_bytes in (first..first + n_sent).map(&bytes_of) {
                    statistics.tx_bytes += frame_bytes as u64;
                    retry_policy.has_sent(frame_bytes);
                }
                first += n_sent;
            }
            // A link without a carrier refuses frames with the same error as a full queue. Waiting for this link would
            // delay all ports.
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) && is_link_down() => {
                statistics.tx_link_down += 1;
                first += 1;
            }
            Err(error) if is_no_room(&error) => {
                let frame_bytes = bytes_of(first);
                if retries_left > 0 && retry_policy.may_wait_for(frame_bytes) {
                    retries_left -= 1;
                    wait_for_room(fd, &error);
                } else {
                    retry_policy.waited_in_vain(frame_bytes);
                    count_refused(&error, frame_bytes, statistics);
                    first += 1;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                count_refused(&error, bytes_of(first), statistics);
                first += 1;
            }
        }
    }
}

/// Sends all frames of a batch by an interface, and empties the batch.
pub(crate) fn send_batch(
    fd: BorrowedFd<'_>,
    interface_index: i32,
    batch: &mut TxBatch,
    retry_policy: &mut RetryPolicy,
    statistics: &mut PortStatistics,
) {
    let waiting = Waiting {
        fd,
        n_frames: batch.len(),
        send: |first| socket::send_batch(fd, batch.iter_from(first)),
        bytes_of: |place| batch.bytes_of(place),
        is_link_down: || !interface::is_running(interface_index),
    };
    send_all(waiting, retry_policy, statistics);
    batch.clear();
}

/// Like [`send_batch`], but the first frame for which the socket has no room stays in the batch, with all frames after
/// it. If a queue after the socket, such as the queueing discipline, refuses a frame, the frame is dropped and counted.
pub(crate) fn send_in_order(
    fd: BorrowedFd<'_>,
    batch: &mut TxBatch,
    statistics: &mut PortStatistics,
) {
    let mut first = 0;
    while first < batch.len() {
        match socket::send_batch(fd, batch.iter_from(first)) {
            Ok(n_sent) => {
                statistics.tx_frames += n_sent as u64;
                let sent = first..first + n_sent;
                let bytes: usize = sent.map(|place| batch.bytes_of(place)).sum();
                statistics.tx_bytes += bytes as u64;
                first += n_sent;
            }
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                count_refused(&error, batch.bytes_of(first), statistics);
                first += 1;
            }
        }
    }
    batch.remove_first(first);
}

fn wait_for_room(fd: BorrowedFd<'_>, error: &io::Error) {
    let wait = Duration::from_micros(TX_RETRY_WAIT_US);
    if error.raw_os_error() == Some(libc::ENOBUFS) {
        // A queue between the socket and the wire is full. poll(2) does not report when such a queue has room.
        std::thread::sleep(wait);
    } else {
        socket::wait_for_room(fd, wait);
    }
}

fn count_refused(error: &io::Error, frame_bytes: usize, statistics: &mut PortStatistics) {
    let counter = match error.raw_os_error() {
        _ if frame_bytes < MIN_FRAME_BYTES => &mut statistics.tx_too_short,
        Some(libc::EMSGSIZE) => &mut statistics.tx_too_long,
        Some(libc::ENETUNREACH | libc::EHOSTUNREACH) => &mut statistics.tx_unreachable,
        Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => &mut statistics.tx_link_down,
        _ if is_no_room(error) => &mut statistics.tx_no_room,
        _ => &mut statistics.tx_refused,
    };
    *counter += 1;
}

fn is_no_room(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM)
    )
}
