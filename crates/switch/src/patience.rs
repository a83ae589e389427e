//! Waiting for what a switch that is ending still holds: its interfaces, addresses and state file.
//!
//! The kernel takes time to close packet sockets, some 60 ms each, so a script that ends a switch and starts the
//! next at once would find them held. Nobody can see whether a holder is ending, so a start waits for one that is not,
//! too, and says what it always said after that.

use std::fmt::Display;
use std::thread;
use std::time::{Duration, Instant};

/// How long a start waits in all. A switch of 32 ports was gone after 2 s.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// How often it tries again.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// The time that a start has for everything that is held.
pub(crate) struct Patience {
    /// From the first refusal on.
    until: Option<Instant>,
}

impl Patience {
    pub(crate) fn new() -> Patience {
        Patience { until: None }
    }

    /// Tries until what is wanted is no longer held, or the time is over; other errors are not waited for.
    pub(crate) fn try_for<T, E: Display>(
        &mut self,
        is_held: impl Fn(&E) -> bool,
        mut attempt: impl FnMut() -> Result<T, E>,
    ) -> Result<T, E> {
        loop {
            let refused = match attempt() {
                Err(error) if is_held(&error) => error,
                result => return result,
            };
            let now = Instant::now();
            match self.until {
                None => {
                    self.until = Some(now + WAIT_MAX);
                    let (reason, seconds) = (refused.to_string(), WAIT_MAX.as_secs());
                    tracing::info!(
                        event = "start_waits",
                        reason,
                        seconds,
                        "waiting up to {seconds} s, since a switch may be ending: {reason}"
                    );
                }
                Some(until) if now >= until => return Err(refused),
                Some(_) => {}
            }
            thread::sleep(RETRY_INTERVAL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_tried_again_and_what_is_wrong_is_not() {
        let mut patience = Patience::new();
        let is_held = |error: &&str| *error == "held";
        let mut answers = vec![Ok(7), Err("held"), Err("held")];
        let got = patience.try_for(is_held, || answers.pop().expect("one more"));
        assert_eq!((got, answers.len()), (Ok(7), 0));
        let mut answers = vec![Ok(7), Err("wrong"), Err("held")];
        let got = patience.try_for(is_held, || answers.pop().expect("one more"));
        assert_eq!((got, answers.len()), (Err("wrong"), 1));
        patience.until = Some(Instant::now());
        let mut n_tries = 0;
        let got: Result<(), _> = patience.try_for(is_held, || {
            n_tries += 1;
            Err("held")
        });
        assert_eq!((got, n_tries), (Err("held"), 1), "the time is over");
    }
}
