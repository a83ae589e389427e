//! Grace periods that NAPI polls end. Such a period ends once every poll that was running when the period began has
//! ended.
//!
//! A packet is handled within one run of a driver's poll, including its copies' egress and their hand-over to a device,
//! because a driver must flush redirected frames before its poll returns. RCU's grace periods rest on the same rule.
//! Each processor has a word that is odd during a poll with packets of the program ([`crate::image::Heap::polls`]). The
//! first packet of a poll makes the word odd. Only then does it read which version of the tables is valid, and then the
//! tables in that version. The program at tracepoint `napi_poll` makes the word even at the end of the poll. So a
//! period lasts as long as the polls that are running: some microseconds to milliseconds. A period of RCU takes 7 to 30
//! ms.
//!
//! *Order.* The writer stores the new data, issues a full barrier, then loads the words. The first packet of a poll
//! adds 1 to the word, which is a full barrier, then loads the data. So at least one of the two sees what the other has
//! stored, as in Dekker's algorithm. If the writer does not see a packet's addition, the packet has not begun to read,
//! and will read the new data. If the writer sees that a word has changed, or is even, then the addition at the poll's
//! end has happened, after all reads of that poll. This holds on x86, and on arm64, where an atomic operation with
//! acquire and release semantics orders as a barrier does.
//!
//! *When no poll ends.* Polls on one processor neither overlap nor interrupt each other, as softirqs are off during
//! each. So the tracepoint never fires within a running poll, except for netconsole's polls with budget 0, which the
//! tracepoint's program ignores. A program that runs outside of any poll, such as a tun device's, also has softirqs
//! off; it leaves the word odd until the next poll on that processor ends. (Before Linux 6.11 `BPF_PROG_TEST_RUN` has
//! softirqs on, but its frames go nowhere.) RCU is waited for in parallel ([`super::Graces`]) and may end the period
//! first. RCU ends it if the tracepoint's program was not run, a processor went offline, or a poll is long.
//!
//! *Whose word.* Each loaded program has its own words, because it has its own maps. This also holds for an earlier
//! program, and for a program that an earlier process has left running. On PREEMPT_RT softirqs may be interrupted, so
//! polls end no periods there.

use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// Reads the words of all processors.
pub(crate) type ReadPolls = Box<dyn Fn() -> Vec<u64> + Send + Sync>;

/// How often a running period is checked.
const EVERY: Duration = Duration::from_micros(100);

/// How long a running period is checked. If polls do not end the period by then, RCU will soon end it.
const AT_MOST: Duration = Duration::from_millis(5);

/// A period that has begun and not ended.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) number: u64,
    since: Instant,
    /// Processors that are still in the poll that was running when the period began, and their words.
    left: Vec<(usize, u64)>,
}

impl Running {
    /// Begins a period. The new data must have been stored before, by this thread or by a thread with which this thread
    /// has synchronised.
    pub(super) fn begin(number: u64, read: &ReadPolls) -> Running {
        fence(Ordering::SeqCst);
        let words = read().into_iter().enumerate();
        Running {
            number,
            since: Instant::now(),
            left: words.filter(|(_, word)| word % 2 == 1).collect(),
        }
    }

    /// Whether the period has ended.
    pub(super) fn look(&mut self, read: &ReadPolls) -> bool {
        if !self.left.is_empty() {
            let words = read();
            let is_same = |(processor, word): &(usize, u64)| {
                words.get(*processor).is_none_or(|now| now == word)
            };
            self.left.retain(is_same);
        }
        self.left.is_empty()
    }

    /// Returns when to look again, or `None` after [`AT_MOST`]: then RCU ends the period, and the thread that waits for
    /// RCU wakes all callers that wait for the period.
    pub(super) fn again(&self) -> Option<Duration> {
        (self.since.elapsed() < AT_MOST).then_some(EVERY)
    }
}
