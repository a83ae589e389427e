//! A port with an observer of its frames in both directions, to record or to print them.

use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Frame, Nanos, Port, PortError, PortStatistics};

/// Looks at frames as they pass a port. Nothing that an observer does can make its port fail.
pub trait Observer: Send {
    fn received(&mut self, now: Nanos, frame: &[u8]);

    /// Called for a frame that the switch sends. The kernel may still refuse the frame afterwards.
    fn sent(&mut self, now: Nanos, frame: &[u8]);

    /// Called when no more frames pass for now.
    fn flush(&mut self);
}

/// An observer that outlives its port: the port may be lost and opened again.
pub type SharedObserver = Arc<Mutex<dyn Observer>>;

pub struct ObservedPort {
    port: Box<dyn Port>,
    observer: SharedObserver,
    /// Whether frames passed since the last flush.
    is_dirty: bool,
}

impl ObservedPort {
    pub fn new(port: Box<dyn Port>, observer: SharedObserver) -> ObservedPort {
        ObservedPort {
            port,
            observer,
            is_dirty: false,
        }
    }

    fn flush_observer(&mut self) {
        if std::mem::take(&mut self.is_dirty) {
            lock(&self.observer).flush();
        }
    }
}

fn lock(observer: &SharedObserver) -> MutexGuard<'_, dyn Observer + 'static> {
    observer.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Port for ObservedPort {
    fn name(&self) -> &str {
        self.port.name()
    }

    fn receive(
        &mut self,
        now: Nanos,
        max_frames: usize,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<usize, PortError> {
        let mut observer = lock(&self.observer);
        let n_frames = self.port.receive(now, max_frames, &mut |frame| {
            observer.received(now, frame);
            take(frame);
        })?;
        if n_frames > 0 {
            // A flush of the port also flushes the observer. But if the switch drops the frames, no flush of the port
            // follows, so the observer is flushed here.
            observer.flush();
        }
        Ok(n_frames)
    }

    fn drop_old(&mut self, before_ns: u64) -> Result<(), PortError> {
        self.port.drop_old(before_ns)
    }

    fn knows_ages(&self) -> bool {
        self.port.knows_ages()
    }

    fn transmit(&mut self, now: Nanos, frame: Frame<'_>) -> Result<(), PortError> {
        let whole = [frame.head, frame.payload].concat();
        self.port.transmit(now, frame)?;
        self.is_dirty = true;
        lock(&self.observer).sent(now, &whole);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), PortError> {
        let flushed = self.port.flush();
        self.flush_observer();
        flushed
    }

    fn has_unsent(&self) -> bool {
        self.port.has_unsent()
    }

    fn is_full(&self) -> bool {
        self.port.is_full()
    }

    fn close(&mut self) -> Result<(), PortError> {
        let closed = self.port.close();
        self.flush_observer();
        closed
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        self.port.poll_fd()
    }

    fn next_frame_at(&self) -> Option<Nanos> {
        self.port.next_frame_at()
    }

    fn interface_index(&self) -> Option<i32> {
        self.port.interface_index()
    }

    fn abandon(&mut self) -> PortStatistics {
        self.port.abandon()
    }

    fn statistics(&mut self) -> PortStatistics {
        self.port.statistics()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_pair;

    #[derive(Default)]
    struct Seen {
        frames: Vec<(char, Nanos, Vec<u8>)>,
        n_flushes: usize,
    }

    impl Observer for Seen {
        fn received(&mut self, now: Nanos, frame: &[u8]) {
            self.frames.push(('r', now, frame.to_vec()));
        }

        fn sent(&mut self, now: Nanos, frame: &[u8]) {
            self.frames.push(('s', now, frame.to_vec()));
        }

        fn flush(&mut self) {
            self.n_flushes += 1;
        }
    }

    #[test]
    fn frames_are_seen_both_ways_and_pass() {
        let (ours, mut theirs) = memory_pair("ours", "theirs").expect("a descriptor");
        let seen = Arc::new(Mutex::new(Seen::default()));
        let mut port = ObservedPort::new(Box::new(ours), seen.clone());
        let frame = |byte| [byte; 60];
        theirs
            .transmit(1, frame(1).as_slice().into())
            .expect("memory");
        theirs.flush().expect("memory");
        let mut taken = Vec::new();
        let received = port.receive(2, 8, &mut |frame| taken.push(frame.to_vec()));
        assert_eq!(received.expect("memory"), 1);
        port.transmit(3, frame(2).as_slice().into())
            .expect("memory");
        port.flush().expect("memory");
        let mut arrived = Vec::new();
        theirs
            .receive(4, 8, &mut |frame| arrived.push(frame.to_vec()))
            .expect("memory");
        assert_eq!(taken, [frame(1).to_vec()]);
        assert_eq!(arrived, [frame(2).to_vec()]);
        let seen = seen.lock().expect("not poisoned");
        let expected = [('r', 2, frame(1).to_vec()), ('s', 3, frame(2).to_vec())];
        assert_eq!(seen.frames, expected);
        assert_eq!(seen.n_flushes, 2);
    }
}
