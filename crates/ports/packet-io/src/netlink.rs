//! Netlink's messages, and a query for an interface driver's XDP features: generic netlink, family "netdev" (Linux 6.3,
//! `Documentation/netlink/specs/netdev.yaml`). The query needs no privilege and changes nothing.

#![expect(
    unsafe_code,
    reason = "netlink sockets have no safe form in the standard library"
)]

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::socket::{self, check};

// `linux/netlink.h`, `linux/genetlink.h`, `linux/netdev.h`.
const NETLINK_GENERIC: libc::c_int = 16;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
const NLM_F_DUMP_INTR: u16 = 0x10;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// Bytes of `struct nlmsghdr`.
const MESSAGE_HEADER_BYTES: usize = 16;
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;

/// Bytes of `struct nlmsghdr` and `struct genlmsghdr`.
const HEADERS_BYTES: usize = MESSAGE_HEADER_BYTES + 4;

/// Maximum bytes of an answer; the answers requested here have some hundred bytes.
const ANSWER_BYTES_MAX: usize = 8192;

/// Bytes of a datagram of events, or of a part of a long answer; the kernel fills at most 32 KiB.
const EVENTS_BYTES_MAX: usize = 32 * 1024;

/// Returns the `NETDEV_XDP_ACT_*` bits of an interface.
///
/// # Errors
/// [`io::ErrorKind::NotFound`] on a kernel that does not report these bits.
pub(crate) fn xdp_features(interface_index: i32) -> io::Result<u64> {
    let socket = socket::open(libc::AF_NETLINK, libc::SOCK_RAW, NETLINK_GENERIC)?;
    let fd = socket.as_fd();
    let name = (CTRL_ATTR_FAMILY_NAME, &b"netdev\0"[..]);
    let family = ask(fd, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, name)?;
    let family = attribute(&family, CTRL_ATTR_FAMILY_ID)?;
    let family = u16::from_ne_bytes(family.try_into().map_err(io::Error::other)?);
    let index = interface_index.to_ne_bytes();
    let device = ask(
        fd,
        family,
        NETDEV_CMD_DEV_GET,
        (NETDEV_A_DEV_IFINDEX, &index),
    )?;
    let features = attribute(&device, NETDEV_A_DEV_XDP_FEATURES)?;
    Ok(u64::from_ne_bytes(
        features.try_into().map_err(io::Error::other)?,
    ))
}

/// Sends a request with one attribute. Returns the answer's attributes.
fn ask(
    fd: BorrowedFd<'_>,
    family: u16,
    command: u8,
    (kind, value): (u16, &[u8]),
) -> io::Result<Vec<u8>> {
    let attribute_bytes = 4 + value.len();
    let n_bytes = HEADERS_BYTES + attribute_bytes.next_multiple_of(4);
    let mut request = Vec::with_capacity(n_bytes);
    request.extend((n_bytes as u32).to_ne_bytes());
    request.extend(family.to_ne_bytes());
    request.extend(NLM_F_REQUEST.to_ne_bytes());
    // Sequence number and sender may be 0: this socket sends one request at a time, and the kernel knows the sender.
    request.extend([0; 8]);
    request.extend([command, 1, 0, 0]);
    request.extend((attribute_bytes as u16).to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend(value);
    request.resize(n_bytes, 0);
    let mut answer = vec![0; ANSWER_BYTES_MAX];
    // SAFETY: pointer and length describe `request`, then `answer`, which live through the calls.
    let n_bytes = unsafe {
        let sent = libc::send(fd.as_raw_fd(), request.as_ptr().cast(), request.len(), 0);
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        libc::recv(fd.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0)
    };
    let n_bytes = usize::try_from(n_bytes).map_err(|_| io::Error::last_os_error())?;
    answer.truncate(n_bytes);
    let [_, _, _, _, kind_0, kind_1, ..] = answer[..] else {
        return Err(io::ErrorKind::UnexpectedEof.into());
    };
    if u16::from_ne_bytes([kind_0, kind_1]) == NLMSG_ERROR {
        let body = answer.get(MESSAGE_HEADER_BYTES..);
        return Err(error_of(body.unwrap_or_default()));
    }
    Ok(answer.split_off(HEADERS_BYTES.min(answer.len())))
}

pub(crate) fn open_route() -> io::Result<OwnedFd> {
    socket::open(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)
}

/// Subscribes to events of these groups (`RTMGRP_*`).
pub(crate) fn join(fd: BorrowedFd<'_>, groups: u32) -> io::Result<()> {
    // SAFETY: `sockaddr_nl` is plain data; with all bytes zero it is a valid value.
    let mut address: libc::sockaddr_nl = unsafe { mem::zeroed() };
    address.nl_family = libc::AF_NETLINK as u16;
    address.nl_groups = groups;
    let len = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
    // SAFETY: pointer and length describe `address`, which lives through the call.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) })?;
    Ok(())
}

/// Returns one datagram of waiting messages; `None` if no message waits.
pub(crate) fn receive(fd: BorrowedFd<'_>) -> io::Result<Option<Vec<u8>>> {
    let mut answer = vec![0; EVENTS_BYTES_MAX];
    // SAFETY: pointer and length describe `answer`, which lives through the call.
    let n_bytes = unsafe {
        libc::recv(
            fd.as_raw_fd(),
            answer.as_mut_ptr().cast(),
            answer.len(),
            libc::MSG_DONTWAIT,
        )
    };
    let Ok(n_bytes) = usize::try_from(n_bytes) else {
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::WouldBlock => Ok(None),
            io::ErrorKind::Interrupted => receive(fd),
            _ => Err(error),
        };
    };
    answer.truncate(n_bytes);
    Ok(Some(answer))
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    flags: u16,
    pub(crate) body: &'a [u8],
}

pub(crate) fn messages(mut datagram: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let [
            len_0,
            len_1,
            len_2,
            len_3,
            kind_0,
            kind_1,
            flags_0,
            flags_1,
            ..,
        ] = *datagram
        else {
            return None;
        };
        let n_bytes = u32::from_ne_bytes([len_0, len_1, len_2, len_3]) as usize;
        let body = datagram.get(MESSAGE_HEADER_BYTES..n_bytes)?;
        datagram = datagram.get(n_bytes.next_multiple_of(4)..).unwrap_or(&[]);
        Some(Message {
            kind: u16::from_ne_bytes([kind_0, kind_1]),
            flags: u16::from_ne_bytes([flags_0, flags_1]),
            body,
        })
    })
}

/// Asks rtnetlink for all objects of a kind; a request of that kind has a header of `header_bytes`.
///
/// # Errors
/// [`io::ErrorKind::Interrupted`] if objects changed during the answer, so that objects may be missing.
pub(crate) fn dump(
    kind: u16,
    header_bytes: usize,
    take: &mut dyn FnMut(u16, &[u8]),
) -> io::Result<()> {
    let socket = open_route()?;
    let n_bytes = MESSAGE_HEADER_BYTES + header_bytes;
    let mut question = Vec::with_capacity(n_bytes);
    question.extend((n_bytes as u32).to_ne_bytes());
    question.extend(kind.to_ne_bytes());
    question.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    question.resize(n_bytes, 0);
    // SAFETY: pointer and length describe `question`, which lives through the call.
    let sent = unsafe {
        libc::send(
            socket.as_raw_fd(),
            question.as_ptr().cast(),
            question.len(),
            0,
        )
    };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    // While this loop takes one part of an answer, the kernel puts the next part into the socket.
    while let Some(datagram) = receive(socket.as_fd())? {
        if take_part(&datagram, take)? {
            return Ok(());
        }
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

/// Hands the messages of a part of an answer to `take`. Returns whether the part was the last.
fn take_part(datagram: &[u8], take: &mut dyn FnMut(u16, &[u8])) -> io::Result<bool> {
    for Message { kind, flags, body } in messages(datagram) {
        if flags & NLM_F_DUMP_INTR != 0 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        match kind {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => return Err(error_of(body)),
            _ => take(kind, body),
        }
    }
    Ok(false)
}

fn error_of(body: &[u8]) -> io::Error {
    let code = body
        .first_chunk()
        .map_or(0, |code| i32::from_ne_bytes(*code));
    io::Error::from_raw_os_error(-code)
}

/// Returns the value of the first attribute of this kind.
pub(crate) fn attribute(mut attributes: &[u8], kind: u16) -> io::Result<&[u8]> {
    while let [len_0, len_1, kind_0, kind_1, rest @ ..] = attributes {
        let n_bytes = usize::from(u16::from_ne_bytes([*len_0, *len_1]));
        let Some(value) = n_bytes.checked_sub(4).and_then(|n| rest.get(..n)) else {
            break;
        };
        if u16::from_ne_bytes([*kind_0, *kind_1]) == kind {
            return Ok(value);
        }
        attributes = attributes.get(n_bytes.next_multiple_of(4)..).unwrap_or(&[]);
    }
    Err(io::ErrorKind::NotFound.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_behind_others_and_bounded_by_the_message() {
        let attributes = [
            [5, 0, 7, 0, 1, 0, 0, 0],
            [6, 0, 9, 0, 2, 3, 0, 0],
            [99, 0, 8, 0, 4, 0, 0, 0],
        ]
        .concat();
        if cfg!(target_endian = "little") {
            assert_eq!(attribute(&attributes, 7).ok(), Some(&[1][..]));
            assert_eq!(attribute(&attributes, 9).ok(), Some(&[2, 3][..]));
            assert!(attribute(&attributes, 8).is_err());
            assert!(attribute(&[0, 0, 7, 0], 7).is_err());
        }
    }

    #[test]
    fn messages_are_found_one_after_another_and_bounded_by_the_datagram() {
        let datagram = [
            message(17, [1, 0], &[7, 0, 0, 0]),
            message(20, [2, 0], &[1, 2, 3, 4]),
        ];
        let datagram = datagram.concat();
        let found: Vec<_> = messages(&datagram).map(|it| (it.kind, it.body)).collect();
        assert_eq!(found, [(1, &[7][..]), (2, &[1, 2, 3, 4])]);
        assert_eq!(messages(&message(99, [1, 0], &[])).next(), None);
        assert_eq!(messages(&message(3, [1, 0], &[])).next(), None);
        assert_eq!(messages(&[1, 2]).next(), None);
    }

    /// Makes a message whose header claims the length `len`.
    fn message(len: u32, words: [u16; 2], body: &[u8]) -> Vec<u8> {
        let [kind, flags] = words.map(u16::to_ne_bytes);
        [&len.to_ne_bytes()[..], &kind, &flags, &[0; 8], body].concat()
    }

    #[test]
    fn an_answer_that_was_overtaken_by_a_change_is_none() {
        let mut taken = Vec::new();
        let mut take = |flags: u16, kind: u16| {
            let part = [message(16, [16, 0], &[]), message(16, [kind, flags], &[])].concat();
            taken.clear();
            let result = take_part(&part, &mut |kind, _| taken.push(kind));
            result.map_err(|error| error.kind())
        };
        assert_eq!(take(0, 16), Ok(false));
        assert_eq!(take(0, NLMSG_DONE), Ok(true));
        for kind in [16, NLMSG_DONE] {
            assert_eq!(take(NLM_F_DUMP_INTR, kind), Err(io::ErrorKind::Interrupted));
        }
    }

    #[test]
    fn the_kernel_says_something_of_the_loopback_interface_or_why_not() {
        // Every kernel reports an error for an interface that cannot exist.
        assert!(xdp_features(i32::MAX).is_err());
    }
}
