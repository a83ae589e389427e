//! Checks whether several workers together can run a program as if they were one switch, and counts the workers that
//! have finished some work.
//!
//! A worker is a switch of its own with a part of the traffic. All workers have the same entries, groups and sessions,
//! though they may execute a write at different moments. Counts are summed over the workers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use dataplane::{ControlError, ControlErrorKind, Program};

use crate::device::lock;
use crate::error::OperationResult;

/// How several workers keep the registers and meters that packets write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Registers {
    /// The switch has one set of them. Several workers could not share this set, so with several workers a program with
    /// such registers or meters is refused.
    #[default]
    OfTheSwitch,
    /// Each worker has a set of its own. With several workers, a program with `@shared` registers is still refused.
    PerWorker,
}

/// Checks that this many workers together can run the program as if they were one switch.
///
/// # Errors
/// With this program, the values that a packet reads would depend on the worker that processes it.
pub(crate) fn expect_one_for_all(
    program: &Program,
    n_workers: usize,
    registers: Registers,
) -> OperationResult {
    if n_workers == 1 {
        return Ok(());
    }
    let shared = program.shared_between_packets();
    let kept = program.kept_between_packets();
    let message = match registers {
        _ if !shared.is_empty() => format!(
            "expected a program without @shared registers that packets write and read, since each of the {n_workers} workers would have its own, which the annotation forbids, found {}: run one worker",
            shared.join(", ")
        ),
        Registers::OfTheSwitch if !kept.is_empty() => format!(
            "expected a program whose packets read no register that packets write, and no meter, since each of the {n_workers} workers would have its own, found {}: run one worker, or accept it with --registers per-worker",
            kept.join(", ")
        ),
        Registers::OfTheSwitch | Registers::PerWorker => return Ok(()),
    };
    Err(ControlError::new(
        ControlErrorKind::FailedPrecondition,
        message,
    ))
}

/// Calls `done` when every worker has reported.
pub(crate) struct Countdown {
    n_left: AtomicUsize,
    done: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Countdown {
    pub(crate) fn new(n: usize, done: impl FnOnce() + Send + 'static) -> Arc<Self> {
        Arc::new(Self {
            n_left: AtomicUsize::new(n),
            done: Mutex::new(Some(Box::new(done))),
        })
    }

    pub(crate) fn count_down(&self) {
        if self.n_left.fetch_sub(1, Ordering::AcqRel) == 1
            && let Some(done) = lock(&self.done).take()
        {
            done();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_done_when_the_last_has_reported() {
        let n_done = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&n_done);
        let countdown = Countdown::new(3, move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        for n_expected in [0, 0, 1] {
            countdown.count_down();
            assert_eq!(n_done.load(Ordering::Relaxed), n_expected);
        }
    }
}
