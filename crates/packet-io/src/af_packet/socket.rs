//! The system calls of a packet socket, each behind a safe function. See packet(7).

#![expect(
    unsafe_code,
    reason = "socket calls have no safe form in the standard library"
)]

use std::ffi::CString;
use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::limits::TX_BATCH_FRAMES;

/// What the kernel knows of an interface.
pub(super) struct Interface {
    pub(super) index: i32,
    pub(super) is_up: bool,
    pub(super) mtu_bytes: usize,
    pub(super) hardware_type: u16,
}

/// The number of the interface of that name, in this thread's network namespace.
pub(super) fn interface_index(name: &str) -> io::Result<i32> {
    let name = CString::new(name)?;
    // SAFETY: `name` is a string that ends in NUL and lives through the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => i32::try_from(index).map_err(io::Error::other),
    }
}

/// Asks for state, MTU and kind of an interface; `fd` is any socket.
pub(super) fn interface(fd: BorrowedFd<'_>, name: &str, index: i32) -> io::Result<Interface> {
    let flags = interface_request(fd, name, libc::SIOCGIFFLAGS)?;
    let mtu = interface_request(fd, name, libc::SIOCGIFMTU)?;
    let address = interface_request(fd, name, libc::SIOCGIFHWADDR)?;
    // SAFETY: each request has filled the member of the union that is its answer, see netdevice(7).
    let (flags, mtu, hardware_type) = unsafe {
        (
            flags.ifr_ifru.ifru_flags,
            mtu.ifr_ifru.ifru_mtu,
            address.ifr_ifru.ifru_hwaddr.sa_family,
        )
    };
    Ok(Interface {
        index,
        is_up: libc::c_int::from(flags) & libc::IFF_UP != 0,
        mtu_bytes: usize::try_from(mtu).map_err(io::Error::other)?,
        hardware_type,
    })
}

fn interface_request(
    fd: BorrowedFd<'_>,
    name: &str,
    request: libc::c_ulong,
) -> io::Result<libc::ifreq> {
    if name.len() >= libc::IFNAMSIZ {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: `ifreq` is plain data, of which all bytes zero is a value.
    let mut ifreq: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in ifreq.ifr_name.iter_mut().zip(name.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    // SAFETY: the three requests used read the name, which ends in NUL as the length was checked,
    // and write into the `ifreq`, which lives through the call.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), request as _, &raw mut ifreq) })?;
    Ok(ifreq)
}

/// A raw packet socket, non-blocking, that receives nothing before it is bound.
pub(super) fn open() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no pointers; the result is checked before it is owned.
    let fd = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
    // SAFETY: a descriptor that was just made and that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Binds to an interface. Protocol 0 receives nothing, `ETH_P_ALL` everything.
pub(super) fn bind(fd: BorrowedFd<'_>, protocol: u16, index: i32) -> io::Result<()> {
    // SAFETY: `sockaddr_ll` is plain data, of which all bytes zero is a value.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index;
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: pointer and length describe `address`, which lives through the call.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) })?;
    Ok(())
}

/// `setsockopt` at level `SOL_PACKET`.
pub(super) fn set_packet_option<T: Copy>(
    fd: BorrowedFd<'_>,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    set_option(fd, libc::SOL_PACKET, option, value)
}

/// Asks for socket buffers of that size; takes what an unprivileged process may have if it must.
pub(super) fn set_buffers(fd: BorrowedFd<'_>, bytes: i32) -> io::Result<()> {
    for (forced, plain) in [
        (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
        (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
    ] {
        set_option(fd, libc::SOL_SOCKET, forced, &bytes)
            .or_else(|_| set_option(fd, libc::SOL_SOCKET, plain, &bytes))?;
    }
    Ok(())
}

fn set_option<T: Copy>(
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

/// Frames that the kernel dropped for want of a slot since the last call of this function.
pub(super) fn take_kernel_drops(fd: BorrowedFd<'_>) -> io::Result<u64> {
    let mut statistics = libc::tpacket_stats {
        tp_packets: 0,
        tp_drops: 0,
    };
    get_option(
        fd,
        libc::SOL_PACKET,
        libc::PACKET_STATISTICS,
        &mut statistics,
    )?;
    Ok(u64::from(statistics.tp_drops))
}

/// The error that waits on the socket, if any; it is cleared.
pub(super) fn take_error(fd: BorrowedFd<'_>) -> io::Result<Option<io::Error>> {
    let mut error: libc::c_int = 0;
    get_option(fd, libc::SOL_SOCKET, libc::SO_ERROR, &mut error)?;
    Ok((error != 0).then(|| io::Error::from_raw_os_error(error)))
}

fn get_option<T: Copy>(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: &mut T,
) -> io::Result<()> {
    let mut len = size_of::<T>() as libc::socklen_t;
    let value = std::ptr::from_mut(value).cast();
    // SAFETY: pointer and length describe `value`, which lives through the call; both `T`s in use
    // are integers or made of them, so any bytes are a value.
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), level, option, value, &raw mut len) })?;
    Ok(())
}

/// Takes a message from the socket's queue; returns its full length, which can be more than the
/// buffer's.
pub(super) fn receive_message(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    // SAFETY: pointer and length describe `buffer`, which lives through the call.
    let len = unsafe {
        libc::recv(
            fd.as_raw_fd(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            flags,
        )
    };
    usize::try_from(len).map_err(|_| io::Error::last_os_error())
}

/// Sends up to [`TX_BATCH_FRAMES`] frames, in order, with one system call; returns how many went.
/// An error is about the first frame, and none went.
pub(super) fn send_batch<'frame>(
    fd: BorrowedFd<'_>,
    frames: impl Iterator<Item = &'frame [u8]>,
) -> io::Result<usize> {
    let mut pieces = [const { MaybeUninit::<libc::iovec>::uninit() }; TX_BATCH_FRAMES];
    let mut messages = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; TX_BATCH_FRAMES];
    let mut n_frames = 0;
    for ((frame, piece), message) in frames.zip(&mut pieces).zip(&mut messages) {
        let piece = piece.write(libc::iovec {
            // `sendmmsg` only reads; `iovec` serves both directions and has no const form.
            iov_base: frame.as_ptr().cast_mut().cast(),
            iov_len: frame.len(),
        });
        // SAFETY: `mmsghdr` is integers and pointers, of which all bytes zero is a value.
        let message = message.write(unsafe { mem::zeroed() });
        message.msg_hdr.msg_iov = piece;
        message.msg_hdr.msg_iovlen = 1;
        n_frames += 1;
    }
    // SAFETY: the first `n_frames` messages are initialised; each points to one initialised
    // `iovec`, that one to a frame, and all three outlive the call, which keeps no pointer.
    let sent = check(unsafe {
        libc::sendmmsg(
            fd.as_raw_fd(),
            messages.as_mut_ptr().cast(),
            n_frames,
            libc::MSG_DONTWAIT,
        )
    })?;
    // `check` has let no negative number through.
    Ok(sent as usize)
}

/// Waits until the socket's buffer has room, or for `at_most`.
pub(super) fn wait_for_room(fd: BorrowedFd<'_>, at_most: Duration) {
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

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
