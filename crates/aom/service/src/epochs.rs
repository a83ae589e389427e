//! Epoch numbers. If a number repeated, an old packet would belong to the new epoch. So a number must not repeat even
//! if the service's folder is lost, if an older copy of the folder is restored, or if two services have copies of the
//! same folder. For this reason a number is the time at which its epoch begins. An epoch that begins later has a higher
//! number, whatever the saved state is, as long as the host's clock is not set back.

use std::time::Duration;

/// How many epoch numbers there are per second. With one number per second, adding 64 members, each in an epoch of its
/// own, would take a minute.
const PER_S: u64 = 8;
/// 1 January 2026, the time of number 0. No release of this program is older, so a clock that shows an earlier time is
/// wrong.
const FIRST: Duration = Duration::from_secs(1_767_225_600);
/// The last epoch number, since packets carry the number in 32 bits. The clock reaches it in 2043.
const LAST: u64 = u32::MAX as u64;

fn number_at(since_1970: Duration) -> u64 {
    let since = since_1970.saturating_sub(FIRST);
    let units = since.as_nanos() * u128::from(PER_S) / 1_000_000_000;
    u64::try_from(units).unwrap_or(u64::MAX)
}

/// Returns how long to wait before the next epoch begins, so that its number is not ahead of the clock. Returns zero if
/// the clock was set back, since the wait could then be long.
pub(crate) fn wait_after(last: u64, since_1970: Duration) -> Duration {
    if number_at(since_1970) != last {
        return Duration::ZERO;
    }
    let next = u128::from(last + 1) * 1_000_000_000;
    let next = next.div_ceil(u128::from(PER_S));
    let since = since_1970.saturating_sub(FIRST);
    let left = next.saturating_sub(since.as_nanos());
    Duration::from_nanos(u64::try_from(left).unwrap_or(u64::MAX))
}

/// Returns the number of the next epoch. It is above `last`, the number of the latest epoch.
///
/// # Errors
/// If the clock was never set, since numbers could then repeat after a loss of the state; or if no number is left.
pub(crate) fn next(last: u64, since_1970: Duration) -> Result<u64, String> {
    if since_1970 < FIRST {
        return Err(format!(
            "this host's clock says {} s since 1970, which is before 2026; epoch numbers come from the clock so that none repeats: set the clock",
            since_1970.as_secs()
        ));
    }
    let number = number_at(since_1970).max(last + 1);
    if number <= LAST {
        Ok(number)
    } else {
        Err(format!(
            "its next epoch would be {number}, and packets have 32 bits of it: look at this host's clock, remove the group and add it with another number"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_millis(1_800_000_000_060);

    #[test]
    fn numbers_are_the_time_and_never_come_again() {
        let first = next(0, NOW).expect("a number");
        assert_eq!(first, 262_195_200);
        // `last` is 0 if the state was lost. The other values stand for an older state that was restored.
        for last in [0, 5, first - 100] {
            let later = next(last, NOW + Duration::from_millis(125));
            assert_eq!(later.expect("a number"), first + 1);
        }
        // The clock was set back.
        let earlier = next(first, NOW - Duration::from_secs(3600));
        assert_eq!(earlier.expect("a number"), first + 1);
    }

    #[test]
    fn no_number_is_ahead_of_the_clock_unless_that_was_set_back() {
        let last = next(0, NOW).expect("a number");
        let wait = wait_after(last, NOW);
        assert_eq!(wait, Duration::from_millis(65));
        assert_eq!(wait_after(last, NOW + wait), Duration::ZERO);
        assert_eq!(next(last, NOW + wait).expect("a number"), last + 1);
        assert_eq!(
            wait_after(last, NOW - Duration::from_secs(3600)),
            Duration::ZERO
        );
        assert_eq!(wait_after(0, NOW), Duration::ZERO);
    }

    #[test]
    fn a_number_that_packets_have_no_bits_for_is_not_given() {
        assert_eq!(next(LAST - 1, NOW), Ok(LAST));
        assert!(next(LAST, NOW).is_err());
        assert!(next(0, Duration::from_secs(2_400_000_000)).is_err());
    }

    #[test]
    fn a_clock_that_was_never_set_gives_no_number() {
        let error = next(0, Duration::from_secs(5)).expect_err("no number");
        assert!(error.contains("set the clock"), "{error}");
    }
}
