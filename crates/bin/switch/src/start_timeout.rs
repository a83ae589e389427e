//! Waits for resources that a stopping switch still holds: its interfaces, addresses and state file.
//!
//! The kernel takes some 60 ms to close each packet socket, so a script that stops a switch and starts the next at once
//! would find its interfaces held. A start cannot see whether the holder is stopping. So it waits for any holder, and
//! reports the usual error only after the timeout.

use std::fmt::Display;
use std::thread;
use std::time::{Duration, Instant};

/// Timeout of a start, for all resources together. A stopping switch with 32 ports held them for 2 s.
const WAIT_MAX: Duration = Duration::from_secs(5);

const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// The timeout of a start, shared by all resources.
pub(crate) struct StartTimeout {
    /// When the timeout ends; set at the first refusal.
    until: Option<Instant>,
}

impl StartTimeout {
    pub(crate) fn new() -> StartTimeout {
        StartTimeout { until: None }
    }

    /// Retries until the resource is no longer held or the timeout has passed. Returns any other error at once.
    pub(crate) fn retry_while<T, E: Display>(
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
        let mut timeout = StartTimeout::new();
        let is_held = |error: &&str| *error == "held";
        let mut answers = vec![Ok(7), Err("held"), Err("held")];
        let got = timeout.retry_while(is_held, || answers.pop().expect("one more"));
        assert_eq!((got, answers.len()), (Ok(7), 0));
        let mut answers = vec![Ok(7), Err("wrong"), Err("held")];
        let got = timeout.retry_while(is_held, || answers.pop().expect("one more"));
        assert_eq!((got, answers.len()), (Err("wrong"), 1));
        timeout.until = Some(Instant::now());
        let mut n_tries = 0;
        let got: Result<(), _> = timeout.retry_while(is_held, || {
            n_tries += 1;
            Err("held")
        });
        assert_eq!((got, n_tries), (Err("held"), 1), "the time is over");
    }
}
