//! The event loop's clock: the machine's monotonic clock, or a virtual clock when captures are replayed.

use std::time::{Duration, Instant};

use dataplane::Nanos;

/// Counts nanoseconds since the event loop was made.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Clock {
    Monotonic {
        start: Instant,
    },
    /// Stands still until it is set forward to the next event.
    Virtual {
        now: Nanos,
    },
}

impl Clock {
    pub(crate) fn monotonic() -> Clock {
        Clock::Monotonic {
            start: Instant::now(),
        }
    }

    pub(crate) fn now(&self) -> Nanos {
        match self {
            // 64 bits of nanoseconds are 584 years.
            Clock::Monotonic { start } => start.elapsed().as_nanos() as Nanos,
            Clock::Virtual { now } => *now,
        }
    }

    /// Returns how long to wait until `at`. A virtual clock is set forward to `at` instead, and the wait is zero.
    pub(crate) fn until(&mut self, at: Nanos) -> Duration {
        match self {
            Clock::Monotonic { .. } => Duration::from_nanos(at.saturating_sub(self.now())),
            Clock::Virtual { now } => {
                *now = at.max(*now);
                Duration::ZERO
            }
        }
    }

    pub(crate) fn is_virtual(&self) -> bool {
        matches!(self, Clock::Virtual { .. })
    }
}
