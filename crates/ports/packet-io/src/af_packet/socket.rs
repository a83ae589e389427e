//! The system calls of a packet socket, each behind a safe function. See packet(7).

#![expect(
    unsafe_code,
    reason = "socket calls have no safe form in the standard library"
)]

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use crate::socket::{self, check, get_option, set_option};

/// Opens a raw packet socket, non-blocking, that receives nothing before it is bound.
pub(crate) fn open() -> io::Result<OwnedFd> {
    socket::open(libc::AF_PACKET, libc::SOCK_RAW, 0)
}

/// Binds a socket to an interface. With protocol 0 the socket receives no frame, with `ETH_P_ALL` every frame.
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

/// Makes the interface receive frames to other addresses too, as long as the socket is open.
pub(crate) fn set_promiscuous(fd: BorrowedFd<'_>, index: i32) -> io::Result<()> {
    let promiscuous = libc::packet_mreq {
        mr_ifindex: index,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_packet_option(fd, libc::PACKET_ADD_MEMBERSHIP, &promiscuous)
}

/// Filters out every frame.
pub(super) fn take_nothing(fd: BorrowedFd<'_>) -> io::Result<()> {
    set_filter(fd, &mut [instruction(RETURN, 0, 0, DROP)])
}

/// Filters out the frames that the host sends out by the interface. Unlike `PACKET_IGNORE_OUTGOING` this filter also
/// works for a socket of a fanout group.
pub(super) fn ignore_outgoing(fd: BorrowedFd<'_>) -> io::Result<()> {
    let mut not_outgoing = [
        instruction(LOAD_BYTE, 0, 0, PACKET_TYPE),
        instruction(JUMP_IF_EQUAL, 0, 1, u32::from(libc::PACKET_OUTGOING)),
        instruction(RETURN, 0, 0, DROP),
        instruction(RETURN, 0, 0, WHOLE),
    ];
    set_filter(fd, &mut not_outgoing)
}

/// Makes bound sockets share the frames of their interface: all frames of a flow come to the same socket. Also ends the
/// filter of [`take_nothing`].
pub(super) fn share_flows(fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut id = 0;
    for (place, fd) in fds.iter().enumerate() {
        // For the first socket the kernel chooses the number of a new fanout group, which is free in the namespace.
        let flag = if place == 0 {
            libc::PACKET_FANOUT_FLAG_UNIQUEID
        } else {
            0
        };
        let how = (libc::PACKET_FANOUT_HASH | flag) << 16;
        set_packet_option(*fd, libc::PACKET_FANOUT, &(how as libc::c_int | id))?;
        if place == 0 {
            get_option(*fd, libc::SOL_PACKET, libc::PACKET_FANOUT, &mut id)?;
            id &= 0xffff;
        }
    }
    let mut everything = [instruction(RETURN, 0, 0, WHOLE)];
    fds.iter()
        .try_for_each(|fd| set_filter(*fd, &mut everything))
}

// Classic BPF, `linux/filter.h`.
const LOAD_BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
const JUMP_IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
/// `SKF_AD_OFF + SKF_AD_PKTTYPE`: a load from this offset returns the packet's type (received, outgoing and others)
/// instead of a byte of the packet.
const PACKET_TYPE: u32 = 0xffff_f000 + 4;
const DROP: u32 = 0;
const WHOLE: u32 = u32::MAX;

fn instruction(code: u32, jump_true: u8, jump_false: u8, operand: u32) -> libc::sock_filter {
    libc::sock_filter {
        // Codes have 16 bits.
        code: code as u16,
        jt: jump_true,
        jf: jump_false,
        k: operand,
    }
}

/// Sets, or replaces, the filter that decides which frames come to the socket.
fn set_filter(fd: BorrowedFd<'_>, program: &mut [libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        // A program here has only a few instructions.
        len: program.len() as libc::c_ushort,
        filter: program.as_mut_ptr(),
    };
    set_option(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Returns how many frames the kernel has dropped since the last call of this function because no slot was free.
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

/// Checks that a descriptor from another process is a packet socket whose ring is of version TPACKET_V2.
pub(super) fn expect_packet_ring(fd: BorrowedFd<'_>) -> io::Result<()> {
    let (mut domain, mut version) = (0 as libc::c_int, 0 as libc::c_int);
    get_option(fd, libc::SOL_SOCKET, libc::SO_DOMAIN, &mut domain)?;
    if domain == libc::AF_PACKET {
        get_option(fd, libc::SOL_PACKET, libc::PACKET_VERSION, &mut version)?;
    }
    if domain == libc::AF_PACKET && version == libc::tpacket_versions::TPACKET_V2 as libc::c_int {
        Ok(())
    } else {
        Err(crate::handed::of_another_kind("an AF_PACKET port"))
    }
}

/// Takes a message from the socket's queue. Returns its full length, which can be more than the buffer's.
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
