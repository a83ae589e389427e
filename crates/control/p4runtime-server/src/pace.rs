//! Limits the rate of one connection's messages: calls, and messages of its streams. Messages above the rate wait
//! without an error, and meanwhile count against the limits of bytes held.

use std::num::NonZeroU32;
use std::time::Duration;

use tokio::time::Instant;

use crate::limits::RATE_BURST_S;

/// The most messages per second.
pub type PerSecond = NonZeroU32;

/// The rate limiter of one connection.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    next: Option<Instant>,
}

impl Pace {
    /// When a message that arrives now may be processed. After a pause a connection may send as many messages at once
    /// as fit into [`RATE_BURST_S`].
    pub(crate) fn admit_at(&mut self, now: Instant, rate: PerSecond) -> Instant {
        let burst = Duration::from_secs(RATE_BURST_S);
        let earliest = now.checked_sub(burst).unwrap_or(now);
        let at = self.next.map_or(earliest, |next| next.max(earliest));
        self.next = Some(at + Duration::from_secs(1) / rate.get());
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_as_many_messages_as_its_rate_after_the_first_ones() {
        const RATE: u32 = 100;
        let rate = PerSecond::new(RATE).unwrap();
        let (mut pace, began) = (Pace::default(), Instant::now());
        for n in 0..RATE {
            assert!(pace.admit_at(began, rate) <= began, "{n}");
        }
        for n in 0..3 * RATE {
            let at = pace.admit_at(began, rate);
            let expected = Duration::from_secs(1) * n / RATE;
            assert_eq!(at - began, expected, "{n}");
        }
        // After a long pause a connection may send no more than one burst at once.
        let later = began + Duration::from_secs(1_000);
        let n_at_once = (0..3 * RATE).filter(|_| pace.admit_at(later, rate) <= later);
        assert_eq!(n_at_once.count(), RATE as usize + 1);
    }
}
