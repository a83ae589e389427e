//! The system calls that sockets of every kind need, each behind a safe function.

#![expect(
    unsafe_code,
    reason = "socket calls have no safe form in the standard library"
)]

use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::limits::TX_BATCH_FRAMES;

pub(crate) fn open(
    domain: libc::c_int,
    kind: libc::c_int,
    protocol: libc::c_int,
) -> io::Result<OwnedFd> {
    let kind = kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no pointers; the result is checked before it is owned.
    let fd = check(unsafe { libc::socket(domain, kind, protocol) })?;
    // SAFETY: a descriptor that was just made and that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Requests socket buffers of that size. An unprivileged process may get less.
pub(crate) fn set_buffers(fd: BorrowedFd<'_>, bytes: i32) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes)
        .or_else(|_| set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes))?;
    set_receive_buffer(fd, bytes)
}

/// Requests a receive buffer of that size.
pub(crate) fn set_receive_buffer(fd: BorrowedFd<'_>, bytes: i32) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &bytes)
        .or_else(|_| set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &bytes))
}

pub(crate) fn set_option<T: Copy>(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    let value = std::ptr::from_ref(value).cast();
    // SAFETY: pointer and length describe `value`, which lives through the call.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, value, len) })?;
    Ok(())
}

/// Reads and clears the socket's pending error (`SO_ERROR`), if any.
pub(crate) fn take_error(fd: BorrowedFd<'_>) -> io::Result<Option<io::Error>> {
    let mut error: libc::c_int = 0;
    get_option(fd, libc::SOL_SOCKET, libc::SO_ERROR, &mut error)?;
    Ok((error != 0).then(|| io::Error::from_raw_os_error(error)))
}

/// Calls `getsockopt`. `T` must be an integer or consist of integers, so that any bytes are a value.
pub(crate) fn get_option<T: Copy>(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: &mut T,
) -> io::Result<()> {
    let mut len = size_of::<T>() as libc::socklen_t;
    let value = std::ptr::from_mut(value).cast();
    // SAFETY: pointer and length describe `value`, which lives through the call; every `T` in use is an integer or made
    // of integers, so any bytes are a value.
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), level, option, value, &raw mut len) })?;
    Ok(())
}

/// Since Linux 5.14, from `asm-generic/socket.h`.
const SO_NETNS_COOKIE: libc::c_int = 71;

/// Returns a number that no other network namespace has had since this machine booted.
pub(crate) fn namespace_cookie() -> io::Result<u64> {
    let socket = open(libc::AF_UNIX, libc::SOCK_DGRAM, 0)?;
    let mut cookie = 0_u64;
    get_option(
        socket.as_fd(),
        libc::SOL_SOCKET,
        SO_NETNS_COOKIE,
        &mut cookie,
    )?;
    Ok(cookie)
}

/// Sends up to [`TX_BATCH_FRAMES`] frames, in order, with one system call; returns the number sent. Each frame is given
/// in two pieces; the second may be empty. An error concerns the first frame, and means that no frame was sent.
pub(crate) fn send_batch<'frame>(
    fd: BorrowedFd<'_>,
    frames: impl Iterator<Item = [&'frame [u8]; 2]>,
) -> io::Result<usize> {
    let mut pieces = [const { MaybeUninit::<[libc::iovec; 2]>::uninit() }; TX_BATCH_FRAMES];
    let mut messages = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; TX_BATCH_FRAMES];
    let mut n_frames = 0;
    for ((frame, pieces), message) in frames.zip(&mut pieces).zip(&mut messages) {
        let pieces = pieces.write(pieces_of(frame));
        // SAFETY: `mmsghdr` is integers and pointers, of which all bytes zero is a value.
        let message = message.write(unsafe { mem::zeroed() });
        message.msg_hdr.msg_iovlen = n_pieces(pieces);
        message.msg_hdr.msg_iov = pieces.as_mut_ptr();
        n_frames += 1;
    }
    // SAFETY: the first `n_frames` messages are initialised; each points to initialised `iovec`s,
    // those to a frame's pieces, and all of them outlive the call, which keeps no pointer.
    let sent = check(unsafe {
        libc::sendmmsg(
            fd.as_raw_fd(),
            messages.as_mut_ptr().cast(),
            n_frames,
            libc::MSG_DONTWAIT,
        )
    })?;
    // `check` has turned a negative number into an error.
    Ok(sent as usize)
}

/// A frame's two pieces as the kernel expects them. The kernel only reads the pieces: `iovec` serves both directions
/// and has no const form.
pub(crate) fn pieces_of(frame: [&[u8]; 2]) -> [libc::iovec; 2] {
    frame.map(|piece| libc::iovec {
        iov_base: piece.as_ptr().cast_mut().cast(),
        iov_len: piece.len(),
    })
}

/// How many of a frame's pieces the kernel must look at: an empty second piece does not count.
pub(crate) fn n_pieces(pieces: &[libc::iovec; 2]) -> usize {
    if pieces[1].iov_len == 0 { 1 } else { 2 }
}

/// Waits until the socket's buffer has room, or for `at_most`.
pub(crate) fn wait_for_room(fd: BorrowedFd<'_>, at_most: Duration) {
    let mut poll = libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLOUT,
        revents: 0,
    };
    let timeout = libc::timespec {
        tv_sec: at_most.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(at_most.subsec_nanos() as i32),
    };
    // SAFETY: one `pollfd` and one `timespec`, both alive through the call; no signal mask.
    // Whatever comes back, the caller tries to send again.
    unsafe { libc::ppoll(&raw mut poll, 1, &raw const timeout, std::ptr::null()) };
}

/// Turns a negative result into the error of the call that returned it.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
