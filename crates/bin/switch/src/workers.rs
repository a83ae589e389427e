//! Workers: event loops side by side, each with a switch and ports of its own and a part of the traffic.
//!
//! Workers share nothing on a packet's path: the worker is chosen before the packet is received (by queue or by flow),
//! and processes the packet with all its copies. All workers have the same entries, groups and sessions, since every
//! control call reaches each of them (`control`). The first worker runs on the thread that made the workers.

use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crate::error::SwitchError;
use crate::event_loop::{AfterReplay, EventLoop, LoopError};
use crate::handle::LoopHandle;
use crate::totals::Totals;

type Ended = (EventLoop, Result<(), LoopError>);

/// The first worker, and the threads of the others.
pub(crate) struct Workers {
    first: EventLoop,
    others: Vec<JoinHandle<Ended>>,
    handle: LoopHandle,
    /// Set when frames may come; until then the loops run submitted work only.
    has_begun: Arc<AtomicBool>,
}

impl Workers {
    /// Starts the threads of `others`. `handle` reaches `first` and `others`, in this order.
    pub(crate) fn start(
        first: EventLoop,
        others: Vec<EventLoop>,
        handle: LoopHandle,
    ) -> Result<Workers, SwitchError> {
        let mut workers = Workers {
            first,
            others: Vec::new(),
            handle,
            has_begun: Arc::default(),
        };
        for (number, event_loop) in (1..).zip(others) {
            let handle = workers.handle.clone();
            let has_begun = Arc::clone(&workers.has_begun);
            let thread = thread::Builder::new().name(format!("worker {number}"));
            let started = thread.spawn(move || run_other(event_loop, &handle, &has_begun));
            workers
                .others
                .push(started.map_err(|source| SwitchError::System {
                    operation: "start a worker's thread",
                    source,
                })?);
        }
        Ok(workers)
    }

    pub(crate) fn first_mut(&mut self) -> &mut EventLoop {
        &mut self.first
    }

    /// Forwards until stopped, or until a worker fails.
    pub(crate) fn run(&mut self, after: AfterReplay) -> Result<(), LoopError> {
        self.has_begun.store(true, Ordering::Release);
        self.handle.wake();
        self.first.run(after)
    }

    /// Ends the threads. Returns the loops, the first one first, and the first error of the others.
    pub(crate) fn join(self) -> (Vec<EventLoop>, Result<(), LoopError>) {
        self.handle.stop();
        let (mut loops, mut result) = (vec![self.first], Ok(()));
        for thread in self.others {
            match thread.join() {
                Ok((event_loop, ended)) => {
                    loops.push(event_loop);
                    result = result.and(ended);
                }
                Err(cause) => panic::resume_unwind(cause),
            }
        }
        (loops, result)
    }
}

/// Closes the ports, and returns the summed totals.
pub(crate) fn finish(loops: &mut [EventLoop]) -> (Totals, Result<(), LoopError>) {
    let (mut totals, mut result) = (Totals::default(), Ok(()));
    for event_loop in loops {
        result = result.and(event_loop.close());
        // Writes the buffered trace before the totals.
        event_loop.switch_mut().set_trace(None);
        totals.add(event_loop.totals());
    }
    (totals, result)
}

/// Stops all workers when one panics, since otherwise that worker's part of the traffic would be lost silently.
struct StopsAll<'a>(&'a LoopHandle);

impl Drop for StopsAll<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop();
        }
    }
}

fn run_other(mut event_loop: EventLoop, handle: &LoopHandle, has_begun: &AtomicBool) -> Ended {
    let _stops_all = StopsAll(handle);
    let begun = event_loop.serve_work_until(|| has_begun.load(Ordering::Acquire));
    let result = match begun {
        Ok(true) => event_loop.run(AfterReplay::Serve),
        Ok(false) => Ok(()),
        Err(error) => Err(error),
    };
    if result.is_err() {
        handle.stop();
    }
    (event_loop, result)
}

#[cfg(test)]
mod tests;
