//! How fast messages of one connection are taken: calls, and messages of its streams. Those that come faster wait
//! their turn, and no client sees an error for it; they count in the bounds of bytes meanwhile.

use std::num::NonZeroU32;
use std::time::Duration;

use tokio::time::Instant;

use crate::limits::RATE_BURST_S;

/// Messages a second at most.
pub type PerSecond = NonZeroU32;

/// When the next message of a connection has its turn.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    next: Option<Instant>,
}

impl Pace {
    /// When a message that comes now has its turn. Whoever was silent may send as many at once as in
    /// [`RATE_BURST_S`].
    pub(crate) fn turn(&mut self, now: Instant, rate: PerSecond) -> Instant {
        let burst = Duration::from_secs(RATE_BURST_S);
        let earliest = now.checked_sub(burst).unwrap_or(now);
        let turn = self.next.map_or(earliest, |next| next.max(earliest));
        self.next = Some(turn + Duration::from_secs(1) / rate.get());
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_as_many_turns_as_its_rate_after_the_first_ones() {
        const RATE: u32 = 100;
        let rate = PerSecond::new(RATE).unwrap();
        let (mut pace, began) = (Pace::default(), Instant::now());
        for n in 0..RATE {
            assert!(pace.turn(began, rate) <= began, "{n}");
        }
        for n in 0..3 * RATE {
            let turn = pace.turn(began, rate);
            let expected = Duration::from_secs(1) * n / RATE;
            assert_eq!(turn - began, expected, "{n}");
        }
        // What was not used is not saved up without end.
        let later = began + Duration::from_secs(1_000);
        let n_at_once = (0..3 * RATE).filter(|_| pace.turn(later, rate) <= later);
        assert_eq!(n_at_once.count(), RATE as usize + 1);
    }
}
