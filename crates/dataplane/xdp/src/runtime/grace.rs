//! Counts grace periods, so that the writer (the thread that writes the kernel's maps) does not overwrite what packets
//! may still see.
//!
//! There are two kinds of grace periods. A period of RCU takes 7 to 30 ms. A separate thread waits for it, so that the
//! writer blocks only where it must not write yet; the thread sleeps while nobody asks for a period. NAPI polls end
//! shorter periods ([`polls`]). Nothing announces such an end: callers find out by [`Graces::look`]. Periods of both
//! kinds run in parallel, and the first one to end counts.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

mod polls;

pub(crate) use polls::ReadPolls;
use polls::Running;

/// How much time polls get to end a wanted period before RCU is used.
const AHEAD: Duration = Duration::from_millis(1);

/// A moment in time at which something changed that packets may see. A moment is past once all packets that began
/// before it are done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

impl Moment {
    /// Before the first packet.
    pub(crate) const NEVER: Moment = Moment(0);
}

/// Waits for a grace period of RCU.
pub(crate) type Wait = fn() -> io::Result<()>;

/// A job that takes at least a grace period of RCU.
pub(crate) type Job = Box<dyn FnOnce() -> io::Result<()> + Send>;

/// Periods are numbered from 2, in the order in which they begin.
struct Counts {
    begun: u64,
    /// The highest number of an ended period.
    ended: u64,
    /// The lowest number of a period whose end satisfies all requests.
    wanted: u64,
    /// The highest number that `Graces::look` has reported as ended.
    reported: u64,
    /// The period that polls are to end.
    running: Option<Running>,
    /// Jobs that the thread does in place of waiting, since each takes a grace period.
    jobs: VecDeque<Job>,
    failure: Option<(io::ErrorKind, String)>,
    is_stopped: bool,
}

impl Counts {
    /// Records a period that polls have ended, and begins another period if one is wanted.
    fn look(&mut self, polls: &ReadPolls) {
        if let Some(running) = &mut self.running
            && running.look(polls)
        {
            self.ended = self.ended.max(running.number);
        }
        // A later period may have ended first, by RCU.
        let ended = self.ended;
        self.running.take_if(|running| running.number <= ended);
        if self.running.is_none() && self.wanted > self.ended {
            self.begun += 1;
            let mut running = Running::begin(self.begun, polls);
            if running.look(polls) {
                self.ended = self.begun;
            } else {
                self.running = Some(running);
            }
        }
    }

    /// Returns after what time `look` should be called again, or `None` if nothing changes without another event.
    fn again(&self) -> Option<Duration> {
        let running = self.running.as_ref();
        let running = running.filter(|_| self.wanted > self.ended);
        running.and_then(Running::again)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Looked {
    /// Whether a period has ended since the previous call of `Graces::look`.
    pub(crate) has_ended: bool,
    pub(crate) again: Option<Duration>,
}

/// Counts grace periods. A moment is the number of the last period that had begun. Every period with a higher number
/// began later, so when it ends, all packets from before the moment are done.
pub(crate) struct Graces {
    counts: Mutex<Counts>,
    changed: Condvar,
    wait: Wait,
    /// `None` if only RCU ends periods.
    polls: Option<ReadPolls>,
}

impl Graces {
    /// `wait` waits for RCU, except in tests.
    pub(crate) fn new(wait: Wait, polls: Option<ReadPolls>) -> Graces {
        Graces {
            wait,
            polls,
            counts: Mutex::new(Counts {
                begun: 1,
                ended: 1,
                wanted: 0,
                reported: 1,
                running: None,
                jobs: VecDeque::new(),
                failure: None,
                is_stopped: false,
            }),
            changed: Condvar::new(),
        }
    }

    /// Starts the thread, which calls `notify` after each period of RCU and when the thread ends.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub(crate) fn start(
        self: &Arc<Graces>,
        notify: impl Fn() + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        let graces = Arc::clone(self);
        let thread = thread::Builder::new().name("reprise-grace".into());
        thread.spawn(move || {
            while graces.wait_for_one() {
                notify();
            }
            notify();
        })
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn await_change<'a>(&self, counts: MutexGuard<'a, Counts>) -> MutexGuard<'a, Counts> {
        let waited = self.changed.wait(counts);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a request, then for a period. Returns false when stopped or failed.
    fn wait_for_one(&self) -> bool {
        let mut counts = self.counts();
        loop {
            if counts.is_stopped {
                return false;
            }
            if let Some(job) = counts.jobs.pop_front() {
                drop(counts);
                return self.during(job).is_ok();
            }
            let is_due;
            (counts, is_due) = if counts.wanted > counts.ended {
                self.leave_to_polls(counts)
            } else {
                (self.await_change(counts), false)
            };
            if is_due {
                break;
            }
        }
        drop(counts);
        self.during(self.wait).is_ok()
    }

    /// Waits up to [`AHEAD`] for polls to end the wanted period. Returns true if they have not.
    fn leave_to_polls<'a>(&self, counts: MutexGuard<'a, Counts>) -> (MutexGuard<'a, Counts>, bool) {
        if self.polls.is_none() {
            return (counts, true);
        }
        let wanted = counts.wanted;
        let is_waited_for = |counts: &mut Counts| {
            counts.ended < wanted && counts.jobs.is_empty() && !counts.is_stopped
        };
        let waited = self
            .changed
            .wait_timeout_while(counts, AHEAD, is_waited_for);
        let (counts, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        (counts, timeout.timed_out())
    }

    /// Runs an action that takes at least a grace period, and counts the action as a grace period.
    ///
    /// # Errors
    /// The action's error.
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

    /// Queues a job for the thread. The job takes at least a grace period.
    pub(crate) fn do_within(&self, job: Job) {
        self.counts().jobs.push_back(job);
        self.changed.notify_all();
    }

    pub(crate) fn now(&self) -> Moment {
        Moment(self.counts().begun)
    }

    /// Whether all packets from before the moment are done.
    pub(crate) fn is_past(&self, moment: Moment) -> bool {
        self.counts().ended > moment.0
    }

    /// Requests that a moment become past soon, by the end of a grace period that begins after the moment.
    pub(crate) fn ask(&self, moment: Moment) {
        let mut counts = self.counts();
        if counts.wanted > moment.0 {
            return;
        }
        counts.wanted = moment.0 + 1;
        self.look_at(&mut counts);
        if counts.ended <= moment.0 {
            drop(counts);
            self.changed.notify_all();
        }
    }

    /// Checks whether polls have ended the wanted period. Only one caller may use this function, and it calls the
    /// function again after the time in [`Looked::again`].
    pub(crate) fn look(&self) -> Looked {
        let mut counts = self.counts();
        self.look_at(&mut counts);
        let reported = counts.reported;
        counts.reported = counts.ended;
        let looked = Looked {
            has_ended: counts.ended > reported,
            again: counts.again(),
        };
        drop(counts);
        if looked.has_ended {
            self.changed.notify_all();
        }
        looked
    }

    fn look_at(&self, counts: &mut Counts) {
        if let Some(polls) = &self.polls {
            counts.look(polls);
        }
    }

    /// Waits until all packets from before the moment are done.
    ///
    /// # Errors
    /// The kernel's error, or the grace periods were stopped.
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
            counts = match counts.again() {
                Some(again) => {
                    let waited = self.changed.wait_timeout(counts, again);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.await_change(counts),
            };
            self.look_at(&mut counts);
        }
    }

    /// Fails if a wait for RCU has failed; the thread has then ended.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn check(&self) -> io::Result<()> {
        match &self.counts().failure {
            Some((kind, reason)) => Err(io::Error::new(*kind, reason.clone())),
            None => Ok(()),
        }
    }

    /// Whether polls can end periods.
    pub(crate) fn has_polls(&self) -> bool {
        self.polls.is_some()
    }

    /// Ends all waits, and the thread.
    pub(crate) fn stop(&self) {
        self.counts().is_stopped = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.counts().is_stopped
    }
}

#[cfg(test)]
mod in_kernel;
#[cfg(test)]
mod tests;
