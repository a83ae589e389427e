//! Two ports in memory, for tests: each receives the frames that the other sends.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::limits::{MEMORY_PORT_FRAMES, MIN_FRAME_BYTES};
use crate::{Frame, Nanos, Port, PortError, PortStatistics, Waker};

/// One direction of the cable.
struct Wire {
    frames: Mutex<VecDeque<Vec<u8>>>,
    /// Holds a wake-up while there are frames.
    waker: Waker,
}

/// One end of a cable in memory.
pub struct MemoryPort {
    name: String,
    incoming: Arc<Wire>,
    outgoing: Arc<Wire>,
    statistics: PortStatistics,
}

/// Makes two ports. Each port receives the frames that the other port transmits, in order and at once.
///
/// # Errors
/// If the process has no descriptor left.
pub fn memory_pair(first_name: &str, second_name: &str) -> io::Result<(MemoryPort, MemoryPort)> {
    let (there, back) = (Wire::new()?, Wire::new()?);
    let end = |name: &str, incoming: &Arc<Wire>, outgoing: &Arc<Wire>| MemoryPort {
        name: name.to_owned(),
        incoming: Arc::clone(incoming),
        outgoing: Arc::clone(outgoing),
        statistics: PortStatistics::default(),
    };
    Ok((
        end(first_name, &back, &there),
        end(second_name, &there, &back),
    ))
}

impl Wire {
    fn new() -> io::Result<Arc<Wire>> {
        Ok(Arc::new(Wire {
            frames: Mutex::default(),
            waker: Waker::new()?,
        }))
    }

    /// Locks the queue of frames. If another thread has panicked, the queue is still valid, because it holds only whole
    /// frames.
    fn frames(&self) -> MutexGuard<'_, VecDeque<Vec<u8>>> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the oldest frame. Clears the wake-up if no frame is left.
    fn take(&self) -> Option<Vec<u8>> {
        let mut frames = self.frames();
        let frame = frames.pop_front();
        if frames.is_empty() {
            self.waker.clear();
        }
        frame
    }
}

impl Port for MemoryPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn receive(
        &mut self,
        _now: Nanos,
        max_frames: usize,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<usize, PortError> {
        let mut n_frames = 0;
        while n_frames < max_frames {
            // The lock is not held while the callback `take` runs, because the callback may transmit.
            let Some(frame) = self.incoming.take() else {
                break;
            };
            n_frames += 1;
            self.statistics.rx_frames += 1;
            self.statistics.rx_bytes += frame.len() as u64;
            take(&frame);
        }
        Ok(n_frames)
    }

    fn transmit(&mut self, _now: Nanos, frame: Frame<'_>) -> Result<(), PortError> {
        let frame = [frame.head, frame.payload].concat();
        let mut outgoing = self.outgoing.frames();
        if frame.len() < MIN_FRAME_BYTES {
            self.statistics.tx_too_short += 1;
        } else if outgoing.len() >= MEMORY_PORT_FRAMES {
            self.statistics.tx_no_room += 1;
        } else {
            self.statistics.tx_frames += 1;
            self.statistics.tx_bytes += frame.len() as u64;
            outgoing.push_back(frame);
            self.outgoing.waker.wake();
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.incoming.waker.as_fd())
    }

    fn statistics(&mut self) -> PortStatistics {
        self.statistics
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Waiter;

    #[test]
    fn frames_come_out_of_the_other_end_in_order() -> Result<(), PortError> {
        let (mut left, mut right) = memory_pair("left", "right").expect("two ends");
        for number in 0..3 {
            left.transmit(0, [&[number; 20][..], &[]].into())?;
        }
        right.transmit(0, [&[9; 14][..], &[9; 16]].into())?;
        let mut seen = Vec::new();
        let mut waiter = Waiter::default();
        let mut is_ready = |port: &MemoryPort| {
            waiter
                .wait(port.poll_fd(), Some(Duration::ZERO))
                .expect("waiting");
            waiter.is_ready(0)
        };
        assert!(is_ready(&right));
        assert_eq!(right.receive(0, 2, &mut |frame| seen.push(frame[0]))?, 2);
        assert!(is_ready(&right));
        assert_eq!(right.receive(0, 2, &mut |frame| seen.push(frame[0]))?, 1);
        assert!(!is_ready(&right));
        assert_eq!(left.receive(0, 2, &mut |frame| seen.push(frame[0]))?, 1);
        assert_eq!(seen, [0, 1, 2, 9]);
        assert_eq!(left.statistics().tx_bytes, 60);
        assert_eq!(right.statistics().rx_frames, 3);
        Ok(())
    }

    #[test]
    fn what_does_not_fit_is_counted() -> Result<(), PortError> {
        let (mut left, _right) = memory_pair("left", "right").expect("two ends");
        for _ in 0..=MEMORY_PORT_FRAMES {
            left.transmit(0, [&[0; 14][..], &[]].into())?;
        }
        left.transmit(0, [&[0; 13][..], &[]].into())?;
        assert_eq!(left.statistics().tx_no_room, 1);
        assert_eq!(left.statistics().tx_too_short, 1);
        Ok(())
    }
}
