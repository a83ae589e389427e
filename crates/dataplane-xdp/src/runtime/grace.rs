//! How many grace periods have ended, so that what packets may still see is not written over.
//!
//! A thread of its own waits for them, 7 to 30 ms each, so that the writer is held up only where it must not write
//! yet. It sleeps as long as nobody asks for one.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// A moment: when something was done last that packets may see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

impl Moment {
    /// Before any packet.
    pub(crate) const NEVER: Moment = Moment(0);
}

/// What takes a grace period.
pub(crate) type Job = Box<dyn FnOnce() -> io::Result<()> + Send>;

/// Periods are numbered from 2 on in the order in which they begin.
struct Counts {
    begun: u64,
    /// The highest number of those that have ended.
    ended: u64,
    /// The lowest number that will do for all who have asked.
    wanted: u64,
    /// What the thread is to do in place of waiting.
    jobs: VecDeque<Job>,
    failure: Option<(io::ErrorKind, String)>,
    is_stopped: bool,
}

/// Counts grace periods. A moment is the number of those that have begun by then: any that has a higher one has
/// begun after it, so no packet that came before is left when it has ended.
pub(crate) struct Graces {
    counts: Mutex<Counts>,
    changed: Condvar,
}

impl Graces {
    pub(crate) fn new() -> Graces {
        Graces {
            counts: Mutex::new(Counts {
                begun: 1,
                ended: 1,
                wanted: 0,
                jobs: VecDeque::new(),
                failure: None,
                is_stopped: false,
            }),
            changed: Condvar::new(),
        }
    }

    /// Starts the thread, which calls `tell` after each period, and when it ends.
    ///
    /// # Errors
    /// There can be no thread.
    pub(crate) fn start(
        self: &Arc<Graces>,
        tell: impl Fn() + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        let graces = Arc::clone(self);
        let thread = thread::Builder::new().name("reprise-grace".into());
        thread.spawn(move || {
            while graces.wait_for_one() {
                tell();
            }
            tell();
        })
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, counts: MutexGuard<'a, Counts>) -> MutexGuard<'a, Counts> {
        let waited = self.changed.wait(counts);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until somebody asks, then for a period; false when it is over.
    fn wait_for_one(&self) -> bool {
        let mut counts = self.counts();
        while counts.wanted <= counts.ended && counts.jobs.is_empty() && !counts.is_stopped {
            counts = self.wait(counts);
        }
        if counts.is_stopped {
            return false;
        }
        let job = counts.jobs.pop_front();
        drop(counts);
        match job {
            Some(job) => self.during(job).is_ok(),
            None => self.during(bpf::wait_for_programs).is_ok(),
        }
    }

    /// Does something that takes a grace period, and counts it.
    ///
    /// # Errors
    /// Its error.
    pub(crate) fn during(&self, action: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let number = {
            let mut counts = self.counts();
            counts.begun += 1;
            counts.begun
        };
        let result = action();
        let mut counts = self.counts();
        match &result {
            Ok(()) => counts.ended = counts.ended.max(number),
            Err(error) => counts.failure = Some((error.kind(), error.to_string())),
        }
        drop(counts);
        self.changed.notify_all();
        result
    }

    /// Has the thread do something soon that takes a grace period.
    pub(crate) fn do_within(&self, job: Job) {
        self.counts().jobs.push_back(job);
        self.changed.notify_all();
    }

    /// Now.
    pub(crate) fn now(&self) -> Moment {
        Moment(self.counts().begun)
    }

    /// Whether no packet is left that came before.
    pub(crate) fn is_past(&self, moment: Moment) -> bool {
        self.counts().ended > moment.0
    }

    /// A moment is to be past soon.
    pub(crate) fn ask(&self, moment: Moment) {
        let mut counts = self.counts();
        if counts.wanted <= moment.0 {
            counts.wanted = moment.0 + 1;
            drop(counts);
            self.changed.notify_all();
        }
    }

    /// Waits until no packet is left that came before.
    ///
    /// # Errors
    /// The kernel's error; it is stopped.
    pub(crate) fn wait_past(&self, moment: Moment) -> io::Result<()> {
        self.ask(moment);
        let mut counts = self.counts();
        loop {
            if counts.ended > moment.0 {
                return Ok(());
            }
            if let Some((kind, reason)) = &counts.failure {
                return Err(io::Error::new(*kind, reason.clone()));
            }
            if counts.is_stopped {
                return Err(io::ErrorKind::Interrupted.into());
            }
            counts = self.wait(counts);
        }
    }

    /// Why there will be no more, if the kernel has refused one.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn check(&self) -> io::Result<()> {
        match &self.counts().failure {
            Some((kind, reason)) => Err(io::Error::new(*kind, reason.clone())),
            None => Ok(()),
        }
    }

    /// Nobody waits from now on.
    pub(crate) fn stop(&self) {
        self.counts().is_stopped = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.counts().is_stopped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_counts_for_what_was_done_before_it_began() {
        let graces = Graces::new();
        assert!(graces.is_past(Moment::NEVER));
        let before = graces.now();
        let mut within = before;
        let ended = graces.during(|| {
            within = graces.now();
            Ok(())
        });
        ended.expect("a period");
        assert!(graces.is_past(before));
        assert!(!graces.is_past(within), "it had begun already");
        graces.during(|| Ok(())).expect("a period");
        assert!(graces.is_past(within));
    }

    #[test]
    fn who_waits_is_told_of_a_stop_and_of_a_failure() {
        let graces = Arc::new(Graces::new());
        let waiting = Arc::clone(&graces);
        let waiter = thread::spawn(move || waiting.wait_past(waiting.now()));
        let refused = graces.during(|| Err(io::ErrorKind::Unsupported.into()));
        assert!(refused.is_err());
        let error = waiter.join().expect("no panic").expect_err("a failure");
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        let graces = Graces::new();
        graces.stop();
        let error = graces.wait_past(graces.now()).expect_err("a stop");
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
    }
}
