//! Waits for ports. Another thread can wake the waiting thread.

#![expect(
    unsafe_code,
    reason = "ppoll, epoll and eventfd have no safe form in the standard library"
)]

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::socket::check;

/// Wakes a thread that waits in a [`Waiter`]. All wake-ups before the thread runs count as one wake-up.
#[derive(Debug)]
pub struct Waker {
    event: File,
    /// Lets a caller that polls in a loop check for a wake-up without a system call.
    is_woken: AtomicBool,
}

impl Waker {
    /// Makes a waker without a pending wake-up.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub fn new() -> io::Result<Waker> {
        // SAFETY: no pointers; the result is checked before it is owned.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: a descriptor that was just made and that nobody else owns.
        let event = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Waker {
            event: File::from(event),
            is_woken: AtomicBool::new(false),
        })
    }

    /// Wakes the waiting thread, now or when it next waits.
    pub fn wake(&self) {
        self.is_woken.store(true, Ordering::Release);
        // Fails only if the counter is at its maximum, and then the thread wakes anyhow.
        let _ = (&self.event).write(&1_u64.to_ne_bytes());
    }

    /// Whether [`Waker::wake`] was called since the last [`Waker::clear`].
    pub fn is_woken(&self) -> bool {
        self.is_woken.load(Ordering::Acquire)
    }

    /// Clears all wake-ups so far. A thread calls this after it has woken, before it looks for work.
    pub fn clear(&self) {
        self.is_woken.store(false, Ordering::Release);
        // Fails only if there was no wake-up.
        let _ = (&self.event).read(&mut [0; 8]);
    }

    /// Returns a descriptor that is readable after a wake-up.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

/// Waits for ports. Keeps its list of descriptors, so that waiting allocates nothing.
#[derive(Default)]
pub struct Waiter {
    polls: Vec<libc::pollfd>,
}

impl Waiter {
    /// Waits until one of `descriptors` is readable or in error, or for `timeout` (`None`: for ever). If a signal ends
    /// the wait, no descriptor counts as ready.
    ///
    /// # Errors
    /// If the kernel refuses the list, because it has more descriptors than the process may open.
    pub fn wait<'fd>(
        &mut self,
        descriptors: impl IntoIterator<Item = BorrowedFd<'fd>>,
        timeout: Option<Duration>,
    ) -> io::Result<()> {
        self.polls.clear();
        let poll = |fd: BorrowedFd<'_>| libc::pollfd {
            fd: fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        self.polls.extend(descriptors.into_iter().map(poll));
        let timeout = timeout.map(|timeout| libc::timespec {
            tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::from(timeout.subsec_nanos() as i32),
        });
        let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
        let (polls, n_polls) = (self.polls.as_mut_ptr(), self.polls.len() as libc::nfds_t);
        // SAFETY: pointer and length describe `self.polls`, `timeout` is null or a `timespec`; both
        // live through the call; no signal mask.
        if unsafe { libc::ppoll(polls, n_polls, timeout, ptr::null()) } >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        self.polls.iter_mut().for_each(|poll| poll.revents = 0);
        match error.kind() {
            io::ErrorKind::Interrupted => Ok(()),
            _ => Err(error),
        }
    }

    /// Clears the last list, so that none of its descriptors counts as ready.
    pub fn forget(&mut self) {
        self.polls.clear();
    }

    /// Whether the descriptor at this position of the last list was ready.
    pub fn is_ready(&self, place: usize) -> bool {
        self.polls.get(place).is_some_and(|poll| poll.revents != 0)
    }
}

/// A set of descriptors (epoll) that itself has a descriptor, which is readable when any member is readable.
pub(crate) struct PollSet {
    epoll: OwnedFd,
}

impl PollSet {
    /// A descriptor stays in the set until it is closed.
    pub(crate) fn new<'fd>(
        descriptors: impl IntoIterator<Item = BorrowedFd<'fd>>,
    ) -> io::Result<PollSet> {
        // SAFETY: no pointers; the result is checked before it is owned.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: a descriptor that was just made and that nobody else owns.
        let epoll = unsafe { OwnedFd::from_raw_fd(fd) };
        for descriptor in descriptors {
            let mut event = libc::epoll_event {
                events: libc::EPOLLIN as u32,
                u64: 0,
            };
            let (set, member) = (epoll.as_raw_fd(), descriptor.as_raw_fd());
            // SAFETY: the event lives through the call, which copies it.
            check(unsafe { libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, member, &raw mut event) })?;
        }
        Ok(PollSet { epoll })
    }

    /// Returns a descriptor that is readable when any descriptor of the set is readable.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_readable_when_one_of_its_members_is() -> io::Result<()> {
        let (one, other) = (Waker::new()?, Waker::new()?);
        let set = PollSet::new([one.as_fd(), other.as_fd()])?;
        let is_readable = || {
            let mut waiter = Waiter::default();
            waiter.wait([set.as_fd()], Some(Duration::ZERO))?;
            io::Result::Ok(waiter.is_ready(0))
        };
        assert!(!is_readable()?);
        other.wake();
        assert!(is_readable()?);
        other.clear();
        assert!(!is_readable()?);
        Ok(())
    }

    #[test]
    fn a_wake_up_is_seen_once_however_often_it_came() -> io::Result<()> {
        let (quiet, woken) = (Waker::new()?, Waker::new()?);
        woken.wake();
        woken.wake();
        assert_eq!([&quiet, &woken].map(Waker::is_woken), [false, true]);
        let mut waiter = Waiter::default();
        waiter.wait([quiet.as_fd(), woken.as_fd()], None)?;
        assert_eq!(
            [0, 1, 2].map(|place| waiter.is_ready(place)),
            [false, true, false]
        );
        woken.clear();
        assert!(!woken.is_woken());
        waiter.wait([quiet.as_fd(), woken.as_fd()], Some(Duration::ZERO))?;
        assert_eq!([0, 1].map(|place| waiter.is_ready(place)), [false, false]);
        Ok(())
    }
}
