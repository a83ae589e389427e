//! A grace period that turns of drivers end: none is left that was there when it began.
//!
//! A turn is one run of a driver's poll. All of a packet is within one, its copies' egress and their hand-over to a
//! device included, for a driver has to flush what is redirected before its poll returns. RCU's grace periods rest on
//! the same. Each processor has a word that is odd within a turn with packets of the program
//! ([`crate::image::Heap::turns`]): the program of the ports makes it odd before a packet reads the version and what
//! it guards, and the program at the tracepoint `napi_poll` makes it even behind the turn. So a period takes as long
//! as the turns that are there, some microseconds to milliseconds, where RCU takes 7 to 30 ms.
//!
//! *Order.* Who writes stores what is new, then has a full barrier, then loads the words. A packet adds 1 to the
//! word, which is a full barrier, then loads what was written. One of both sees the other's (Dekker): a packet that
//! the writer does not see has not begun to read, and reads what is new. Where the writer sees that a word has
//! changed, or is even, the turn's last addition came before, and behind all that the turn has read. That holds on
//! x86 and on arm64, where an atomic operation with acquire and release semantics orders as a barrier does.
//!
//! *Where no turn ends.* No two turns overlap on a processor, and none is interrupted by another, as softirqs are off
//! in each. So what runs at the tracepoint never ends a turn that goes on. The exception is a poll of no packets by a
//! network console, which does not count. A program that runs outside of any poll, as a tun device's, has softirqs
//! off too, and leaves the word odd until some poll ends on that processor. (Before Linux 6.11 `BPF_PROG_TEST_RUN`
//! has them on, but nothing comes of its frames.) Until then, where the tracepoint's program was not run, and on a
//! processor that was taken offline, RCU ends the period: it waits beside ([`super::Graces`]). The same goes for a
//! turn that is long.
//!
//! *Whose word.* The words are an image's, as all that it guards: an earlier program, or one that an earlier process
//! has left, has its own. Where a kernel is PREEMPT_RT, softirqs may be interrupted, and there are no such periods.

use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// Reads all processors' words.
pub(crate) type ReadTurns = Box<dyn Fn() -> Vec<u64> + Send + Sync>;

/// How often it is looked at.
const EVERY: Duration = Duration::from_micros(100);

/// How long it is looked at by itself. RCU ends it soon, where turns do not.
const AT_MOST: Duration = Duration::from_millis(5);

/// A period that goes on.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) number: u64,
    since: Instant,
    /// Processors that were within a turn and still are in the same, and their words.
    left: Vec<(usize, u64)>,
}

impl Running {
    /// It begins. What packets are to see was stored before, or by a thread that this one has heard of since.
    pub(super) fn begin(number: u64, read: &ReadTurns) -> Running {
        fence(Ordering::SeqCst);
        let words = read().into_iter().enumerate();
        Running {
            number,
            since: Instant::now(),
            left: words.filter(|(_, word)| word % 2 == 1).collect(),
        }
    }

    /// Whether it is over.
    pub(super) fn look(&mut self, read: &ReadTurns) -> bool {
        if !self.left.is_empty() {
            let words = read();
            let is_same = |(processor, word): &(usize, u64)| {
                words.get(*processor).is_none_or(|now| now == word)
            };
            self.left.retain(is_same);
        }
        self.left.is_empty()
    }

    /// When to look at the period again; none once [`AT_MOST`] has passed: then RCU ends the period, and whoever waits
    /// is told of that.
    pub(super) fn again(&self) -> Option<Duration> {
        (self.since.elapsed() < AT_MOST).then_some(EVERY)
    }
}
