//! The system calls of a UDP socket in batches, each behind a safe function. See udp(7), ip(7) and
//! ipv6(7).

#![expect(
    unsafe_code,
    reason = "socket calls have no safe form in the standard library"
)]

use std::io;
use std::mem::{self, MaybeUninit};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::headers::HEADROOM_BYTES;
use crate::limits::{SOCKET_BUFFER_BYTES, TX_BATCH_FRAMES, UDP_SLOT_BYTES};
use crate::socket::{self, check, get_option, set_option};

/// `linux/sock_diag.h`: words of `SO_MEMINFO`'s answer, and the index of the drop counter.
const MEMINFO_WORDS: usize = 9;
const MEMINFO_DROPS: usize = 8;

/// Room for one control message with an IPv6 address and an interface, aligned as the kernel expects it.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; 64]);

/// Whether other sockets may have the same address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    No,
    Yes,
}

/// Opens a socket and binds it to `address`. If `address` is the unspecified address, the socket reports the
/// destination address of each datagram. Several sockets of one user that all permit sharing may have the same address;
/// all datagrams of a flow then come to one of these sockets.
pub(super) fn open(address: SocketAddr, sharing: Sharing) -> io::Result<OwnedFd> {
    let domain = match address {
        SocketAddr::V4(_) => libc::AF_INET,
        SocketAddr::V6(_) => libc::AF_INET6,
    };
    let socket = socket::open(domain, libc::SOCK_DGRAM, 0)?;
    let (fd, on) = (socket.as_fd(), 1 as libc::c_int);
    if address.is_ipv6() {
        set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, &on)?;
    }
    if address.ip().is_unspecified() {
        match address {
            SocketAddr::V4(_) => set_option(fd, libc::IPPROTO_IP, libc::IP_PKTINFO, &on)?,
            SocketAddr::V6(_) => {
                set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, &on)?;
            }
        }
    }
    if sharing == Sharing::Yes {
        set_option(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, &on)?;
    }
    socket::set_buffers(fd, SOCKET_BUFFER_BYTES)?;
    let (name, len) = name_of(address);
    // SAFETY: pointer and length describe `name`, which lives through the call.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const name).cast(), len) })?;
    Ok(socket)
}

pub(super) fn local_address(fd: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    let mut name = no_name();
    let mut len = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
    // SAFETY: pointer and length describe `name`, which lives through the call.
    check(unsafe { libc::getsockname(fd.as_raw_fd(), (&raw mut name).cast(), &raw mut len) })?;
    address_of(&name).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Returns how many datagrams the kernel has dropped because the socket had no room, modulo 2^32.
pub(super) fn n_overflows(fd: BorrowedFd<'_>) -> io::Result<u32> {
    let mut words = [0_u32; MEMINFO_WORDS];
    get_option(fd, libc::SOL_SOCKET, libc::SO_MEMINFO, &mut words)?;
    Ok(words[MEMINFO_DROPS])
}

pub(super) struct Received<'a> {
    pub(super) source: SocketAddr,
    /// The local address to which the datagram came, if the socket reports this address.
    pub(super) local_address: Option<IpAddr>,
    /// [`HEADROOM_BYTES`] of room, then the payload.
    pub(super) buffer: &'a mut [u8],
    pub(super) is_truncated: bool,
}

/// Buffers for a batch of datagrams, and a list of these buffers for the kernel. Both are made once.
pub(super) struct RxBatch {
    messages: Vec<libc::mmsghdr>,
    _pieces: Vec<libc::iovec>,
    names: Vec<libc::sockaddr_in6>,
    controls: Vec<Control>,
    bytes: Vec<u8>,
}

// SAFETY: the pointers in `messages` and `_pieces` lead into the other vectors' memory, which is
// never reallocated and goes where this value goes.
unsafe impl Send for RxBatch {}

impl RxBatch {
    /// Maximum datagrams of one system call.
    pub(super) const LEN: usize = TX_BATCH_FRAMES;

    pub(super) fn new() -> RxBatch {
        let mut bytes = vec![0; Self::LEN * UDP_SLOT_BYTES];
        let mut names = vec![no_name(); Self::LEN];
        let mut controls = vec![Control([0; 64]); Self::LEN];
        let mut pieces: Vec<libc::iovec> = bytes
            .chunks_exact_mut(UDP_SLOT_BYTES)
            .map(|slot| libc::iovec {
                iov_base: slot[HEADROOM_BYTES..].as_mut_ptr().cast(),
                iov_len: UDP_SLOT_BYTES - HEADROOM_BYTES,
            })
            .collect();
        let places = pieces.iter_mut().zip(&mut names).zip(&mut controls);
        let messages = places.map(|((piece, name), control)| {
            // SAFETY: `mmsghdr` is integers and pointers, of which all bytes zero is a value.
            let mut message: libc::mmsghdr = unsafe { mem::zeroed() };
            message.msg_hdr.msg_iov = piece;
            message.msg_hdr.msg_iovlen = 1;
            message.msg_hdr.msg_name = std::ptr::from_mut(name).cast();
            message.msg_hdr.msg_control = std::ptr::from_mut(control).cast();
            message
        });
        RxBatch {
            messages: messages.collect(),
            _pieces: pieces,
            names,
            controls,
            bytes,
        }
    }

    /// Takes up to `max` datagrams, [`RxBatch::LEN`] at most, without waiting. Returns their number.
    pub(super) fn receive(
        &mut self,
        fd: BorrowedFd<'_>,
        max: usize,
        take: &mut dyn FnMut(Received<'_>),
    ) -> usize {
        let max = max.min(Self::LEN);
        for message in &mut self.messages[..max] {
            message.msg_hdr.msg_namelen = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
            message.msg_hdr.msg_controllen = size_of::<Control>();
        }
        // SAFETY: the first `max` messages point to buffers, names and control buffers of the
        // lengths given, which belong to `self` and outlive the call; no timeout.
        let n_received = unsafe {
            libc::recvmmsg(
                fd.as_raw_fd(),
                self.messages.as_mut_ptr(),
                max as libc::c_uint,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        // A negative result means that no datagram waits, or that an error has occurred. An error that matters occurs
        // again in the next call.
        let n_received = usize::try_from(n_received).unwrap_or(0);
        for place in 0..n_received {
            let header = &self.messages[place].msg_hdr;
            let n_bytes = self.messages[place].msg_len as usize;
            let Some(source) = address_of(&self.names[place]) else {
                continue;
            };
            let local_address = local_of(&self.controls[place], header.msg_controllen);
            let is_truncated = header.msg_flags & libc::MSG_TRUNC != 0;
            let start = place * UDP_SLOT_BYTES;
            let end = start + HEADROOM_BYTES + n_bytes;
            take(Received {
                source,
                local_address,
                buffer: &mut self.bytes[start..end],
                is_truncated,
            });
        }
        n_received
    }
}

/// Returns the address in a control message `IP_PKTINFO` or `IPV6_PKTINFO`. The socket enables no other control
/// messages.
fn local_of(control: &Control, n_bytes: usize) -> Option<IpAddr> {
    // `struct cmsghdr`: length (header included), level, type; then the data. The alignment is that of 64-bit Linux.
    // For these structures, 32-bit Linux has the same alignment.
    const HEADER_BYTES: usize = size_of::<libc::cmsghdr>();
    let bytes = control.0.get(..n_bytes)?;
    let header_word = |at: usize| -> Option<libc::c_int> {
        let word = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(libc::c_int::from_ne_bytes(word))
    };
    let kind = (
        header_word(HEADER_BYTES - 8)?,
        header_word(HEADER_BYTES - 4)?,
    );
    match kind {
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
            // `struct in_pktinfo`: interface, local address, destination address of the header.
            let octets: [u8; 4] = bytes
                .get(HEADER_BYTES + 8..HEADER_BYTES + 12)?
                .try_into()
                .ok()?;
            Some(IpAddr::from(octets))
        }
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
            let octets: [u8; 16] = bytes
                .get(HEADER_BYTES..HEADER_BYTES + 16)?
                .try_into()
                .ok()?;
            Some(IpAddr::from(octets))
        }
        _ => None,
    }
}

/// A datagram's destination in the kernel's form.
pub(super) struct Target {
    name: libc::sockaddr_in6,
    name_bytes: libc::socklen_t,
    control: Option<(Control, usize)>,
}

impl Target {
    /// `source` is the address to send from; `None` if the kernel chooses the address.
    pub(super) fn new(destination: SocketAddr, source: Option<IpAddr>) -> Target {
        let (name, name_bytes) = name_of(destination);
        Target {
            name,
            name_bytes,
            control: source.map(control_of),
        }
    }
}

/// Returns a control message that sets the source address, and the message's length.
fn control_of(source: IpAddr) -> (Control, usize) {
    const HEADER_BYTES: usize = size_of::<libc::cmsghdr>();
    let (level, kind, data_bytes) = match source {
        IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_PKTINFO, 12),
        IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, 20),
    };
    let n_bytes = HEADER_BYTES + data_bytes;
    let mut control = Control([0; 64]);
    let mut put = |at: usize, bytes: &[u8]| control.0[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &n_bytes.to_ne_bytes());
    put(HEADER_BYTES - 8, &level.to_ne_bytes());
    put(HEADER_BYTES - 4, &kind.to_ne_bytes());
    match source {
        // The interface stays 0: the kernel chooses the interface.
        IpAddr::V4(address) => put(HEADER_BYTES + 4, &address.octets()),
        IpAddr::V6(address) => put(HEADER_BYTES, &address.octets()),
    }
    (control, n_bytes.next_multiple_of(size_of::<usize>()))
}

/// Sends up to [`TX_BATCH_FRAMES`] datagrams, in order, with one system call; returns the number sent. A payload is
/// given in two pieces; the second may be empty. An error concerns the first datagram, and means that no datagram was
/// sent.
pub(super) fn send_batch<'batch>(
    fd: BorrowedFd<'_>,
    datagrams: impl Iterator<Item = ([&'batch [u8]; 2], &'batch Target)>,
) -> io::Result<usize> {
    let mut pieces = [const { MaybeUninit::<[libc::iovec; 2]>::uninit() }; TX_BATCH_FRAMES];
    let mut messages = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; TX_BATCH_FRAMES];
    let mut n_datagrams = 0;
    for (((payload, target), pieces), message) in datagrams.zip(&mut pieces).zip(&mut messages) {
        let pieces = pieces.write(socket::pieces_of(payload));
        // SAFETY: `mmsghdr` is integers and pointers, of which all bytes zero is a value.
        let message = message.write(unsafe { mem::zeroed() });
        message.msg_hdr.msg_iovlen = socket::n_pieces(pieces);
        message.msg_hdr.msg_iov = pieces.as_mut_ptr();
        // `sendmmsg` only reads; its structures serve both directions and have no const form.
        message.msg_hdr.msg_name = (&raw const target.name).cast_mut().cast();
        message.msg_hdr.msg_namelen = target.name_bytes;
        if let Some((control, n_bytes)) = &target.control {
            message.msg_hdr.msg_control = (&raw const *control).cast_mut().cast();
            message.msg_hdr.msg_controllen = *n_bytes;
        }
        n_datagrams += 1;
    }
    // SAFETY: the first `n_datagrams` messages are initialised; what they point to is initialised,
    // of the lengths given, and outlives the call, which keeps no pointer.
    let sent = check(unsafe {
        libc::sendmmsg(
            fd.as_raw_fd(),
            messages.as_mut_ptr().cast(),
            n_datagrams,
            libc::MSG_DONTWAIT,
        )
    })?;
    // `check` has turned a negative number into an error.
    Ok(sent as usize)
}

/// Converts an address to the kernel's form: `sockaddr_in6`, of which `sockaddr_in` is the beginning.
fn name_of(address: SocketAddr) -> (libc::sockaddr_in6, libc::socklen_t) {
    let mut name = no_name();
    match address {
        SocketAddr::V4(address) => {
            name.sin6_family = libc::AF_INET as libc::sa_family_t;
            name.sin6_port = address.port().to_be();
            // `sin_addr` of `sockaddr_in` is at the place of the flow label of `sockaddr_in6`.
            name.sin6_flowinfo = u32::from_ne_bytes(address.ip().octets());
            (name, size_of::<libc::sockaddr_in>() as libc::socklen_t)
        }
        SocketAddr::V6(address) => {
            name.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            name.sin6_port = address.port().to_be();
            name.sin6_addr.s6_addr = address.ip().octets();
            name.sin6_scope_id = address.scope_id();
            (name, size_of::<libc::sockaddr_in6>() as libc::socklen_t)
        }
    }
}

fn address_of(name: &libc::sockaddr_in6) -> Option<SocketAddr> {
    let port = u16::from_be(name.sin6_port);
    match libc::c_int::from(name.sin6_family) {
        libc::AF_INET => {
            let ip = Ipv4Addr::from(name.sin6_flowinfo.to_ne_bytes());
            Some(SocketAddrV4::new(ip, port).into())
        }
        libc::AF_INET6 => {
            let ip = Ipv6Addr::from(name.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(ip, port, 0, name.sin6_scope_id).into())
        }
        _ => None,
    }
}

fn no_name() -> libc::sockaddr_in6 {
    // SAFETY: `sockaddr_in6` is plain data, of which all bytes zero is a value.
    unsafe { mem::zeroed() }
}
