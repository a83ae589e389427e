//! Asking the kernel what an interface's driver does for XDP: generic netlink, family "netdev"
//! (Linux 6.3, `Documentation/netlink/specs/netdev.yaml`). No privilege needed, nothing changed.

#![expect(
    unsafe_code,
    reason = "netlink sockets have no safe form in the standard library"
)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use crate::socket;

// `linux/netlink.h`, `linux/genetlink.h`, `linux/netdev.h`.
const NETLINK_GENERIC: libc::c_int = 16;
const NLM_F_REQUEST: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;

/// Bytes of `struct nlmsghdr` and `struct genlmsghdr`.
const HEADERS_BYTES: usize = 16 + 4;

/// Bytes of an answer at most; those asked for here have some hundreds.
const ANSWER_BYTES_MAX: usize = 8192;

/// The `NETDEV_XDP_ACT_*` bits of an interface.
///
/// # Errors
/// [`io::ErrorKind::NotFound`] on a kernel that cannot say.
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

/// Sends a request with one attribute; returns the answer's attributes.
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
    // Sequence number and sender: one question at a time, and the kernel knows whose.
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
        let code = answer.get(16..20).and_then(|code| code.try_into().ok());
        let code = i32::from_ne_bytes(code.unwrap_or_default());
        return Err(io::Error::from_raw_os_error(-code));
    }
    Ok(answer.split_off(HEADERS_BYTES.min(answer.len())))
}

/// The value of the first attribute of that kind.
fn attribute(mut attributes: &[u8], kind: u16) -> io::Result<&[u8]> {
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
    fn the_kernel_says_something_of_the_loopback_interface_or_why_not() {
        // Whatever the kernel, an interface that cannot be there is an error.
        assert!(xdp_features(i32::MAX).is_err());
    }
}
