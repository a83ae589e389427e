//! Messages and descriptors on the takeover's connection.
//!
//! A message is a header, then [`Message`] in postcard's encoding, then one byte for each [`DESCRIPTORS_AT_ONCE`]
//! descriptors, which the kernel passes with that byte (`SCM_RIGHTS`, unix(7)). The header begins with the format of
//! messages and the format of the state, so that two versions that differ find that out with the first message.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use super::Message;

/// The format of [`Message`] and of everything in it except the state file's contents. This number is incremented
/// whenever the format changes.
const FORMAT: u32 = 1;

const MAGIC: [u8; 8] = *b"takeover";

/// Magic, two formats, length of the message, number of descriptors.
const HEADER_BYTES: usize = 8 + 4 + 4 + 8 + 4;

/// Maximum bytes of a message: as much as a state file with millions of entries needs.
const MESSAGE_BYTES_MAX: u64 = 1 << 30;

/// Maximum descriptors of a message: 511 ports with three sockets in each of two workers, and listeners.
const DESCRIPTORS_MAX: usize = 4096;

/// Descriptors that pass with one byte; the kernel passes 253 at most (`SCM_MAX_FD`).
const DESCRIPTORS_AT_ONCE: usize = 128;

/// Why a message could not be sent or received.
#[derive(Debug, thiserror::Error)]
pub(super) enum WireError {
    #[error("the other process has ended or closed the connection")]
    Closed,
    #[error("the other process did not answer in time")]
    Late,
    #[error(
        "expected takeover format {FORMAT} with state format {}, found {found} with {found_state}: the two versions cannot take over from each other; stop the running switch, then start the new one without --takeover",
        state_store::FORMAT
    )]
    Format { found: u32, found_state: u32 },
    #[error("expected a message of a takeover, found {0}")]
    Foreign(&'static str),
    #[error(transparent)]
    System(io::Error),
}

impl From<io::Error> for WireError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => WireError::Late,
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset => WireError::Closed,
            _ => WireError::System(error),
        }
    }
}

/// One end of the connection.
pub(super) struct Connection {
    stream: UnixStream,
    /// When the current step must be over.
    deadline: Instant,
}

impl Connection {
    /// Makes `stream` blocking. The first step must be over after `timeout`.
    pub(super) fn new(stream: UnixStream, timeout: Duration) -> io::Result<Connection> {
        stream.set_nonblocking(false)?;
        Ok(Connection {
            stream,
            deadline: Instant::now() + timeout,
        })
    }

    /// Begins a step, which must be over after `timeout`.
    pub(super) fn begin_step(&mut self, timeout: Duration) {
        self.deadline = Instant::now() + timeout;
    }

    /// Sends a message with descriptors.
    pub(super) fn send(
        &mut self,
        message: &Message,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), WireError> {
        let message = postcard::to_stdvec(message)
            .map_err(|_| WireError::Foreign("one that cannot be encoded"))?;
        if message.len() as u64 > MESSAGE_BYTES_MAX || descriptors.len() > DESCRIPTORS_MAX {
            return Err(WireError::Foreign("one that is too long"));
        }
        // Header and message are one buffer, so that the kernel takes a short message completely or not at all.
        let mut bytes = Vec::with_capacity(HEADER_BYTES + message.len());
        bytes.extend(MAGIC);
        bytes.extend(FORMAT.to_be_bytes());
        bytes.extend(state_store::FORMAT.to_be_bytes());
        bytes.extend((message.len() as u64).to_be_bytes());
        bytes.extend((descriptors.len() as u32).to_be_bytes());
        bytes.extend(message);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            self.stream.set_write_timeout(Some(self.time_left()?))?;
            match self.stream.write(rest) {
                Ok(n_bytes) => rest = &rest[n_bytes..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        for descriptors in descriptors.chunks(DESCRIPTORS_AT_ONCE) {
            self.stream.set_write_timeout(Some(self.time_left()?))?;
            send_descriptors(self.stream.as_fd(), descriptors)?;
        }
        Ok(())
    }

    /// Waits for a message.
    pub(super) fn receive(&mut self) -> Result<(Message, Vec<OwnedFd>), WireError> {
        let mut header = [0; HEADER_BYTES];
        self.read_exact(&mut header)?;
        let (magic, rest) = header.split_at(8);
        if magic != MAGIC {
            return Err(WireError::Foreign("something else"));
        }
        let word = |at: usize| {
            let mut word = [0; 4];
            word.copy_from_slice(&rest[at..at + 4]);
            u32::from_be_bytes(word)
        };
        let (found, found_state) = (word(0), word(4));
        if (found, found_state) != (FORMAT, state_store::FORMAT) {
            return Err(WireError::Format { found, found_state });
        }
        let n_bytes = u64::from(word(8)) << 32 | u64::from(word(12));
        let n_descriptors = word(16) as usize;
        if n_bytes > MESSAGE_BYTES_MAX || n_descriptors > DESCRIPTORS_MAX {
            return Err(WireError::Foreign("one that is too long"));
        }
        let message = self.read(n_bytes)?;
        let message = postcard::from_bytes(&message)
            .map_err(|_| WireError::Foreign("one that cannot be decoded"))?;
        let mut descriptors = Vec::new();
        while descriptors.len() < n_descriptors {
            self.stream.set_read_timeout(Some(self.time_left()?))?;
            let before = descriptors.len();
            receive_descriptors(self.stream.as_fd(), &mut descriptors)?;
            if descriptors.len() == before {
                return Err(WireError::Foreign("one without its descriptors"));
            }
        }
        Ok((message, descriptors))
    }

    /// Waits for [`Message::Taken`] until the step is over. Returns true if the other process has sent this message.
    /// Once this function has returned false, the other process can no longer send the message: its send fails because
    /// the receiving end is shut, and a message that the kernel had taken before that has been read.
    pub(super) fn is_taken(&mut self) -> bool {
        let is_taken = |received: Result<(Message, Vec<OwnedFd>), WireError>| {
            matches!(received, Ok((Message::Taken, _)))
        };
        if is_taken(self.receive()) {
            return true;
        }
        // Fails only if the other end is closed, which has the same effect.
        let _ = self.stream.shutdown(Shutdown::Read);
        // The message is in the kernel already, or never comes: this does not wait.
        self.begin_step(Duration::from_millis(10));
        is_taken(self.receive())
    }

    /// The other process's user and process number, as the kernel knows them.
    pub(super) fn peer(&self) -> io::Result<(u32, u32)> {
        let peer = rustix::net::sockopt::socket_peercred(&self.stream)?;
        let process = u32::try_from(peer.pid.as_raw_nonzero().get()).unwrap_or(0);
        Ok((peer.uid.as_raw(), process))
    }

    /// Reads in portions, so that a wrong length does not make this process allocate much memory.
    fn read(&mut self, n_bytes: u64) -> Result<Vec<u8>, WireError> {
        const PORTION: u64 = 1 << 16;
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < n_bytes {
            let from = bytes.len();
            let portion = (n_bytes - from as u64).min(PORTION) as usize;
            bytes.resize(from + portion, 0);
            self.read_exact(&mut bytes[from..])?;
        }
        Ok(bytes)
    }

    fn read_exact(&mut self, mut buffer: &mut [u8]) -> Result<(), WireError> {
        while !buffer.is_empty() {
            self.stream.set_read_timeout(Some(self.time_left()?))?;
            match self.stream.read(buffer) {
                Ok(0) => return Err(WireError::Closed),
                Ok(n_bytes) => buffer = &mut buffer[n_bytes..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The time until the deadline. It is never zero, because a timeout of zero would mean that there is no timeout.
    fn time_left(&self) -> Result<Duration, WireError> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left < Duration::from_micros(1) {
            return Err(WireError::Late);
        }
        Ok(left)
    }
}

fn send_descriptors(to: BorrowedFd<'_>, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_AT_ONCE))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let n_bytes = sendmsg(to, &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL)?;
    if n_bytes == 1 {
        Ok(())
    } else {
        Err(io::ErrorKind::WriteZero.into())
    }
}

fn receive_descriptors(from: BorrowedFd<'_>, descriptors: &mut Vec<OwnedFd>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_AT_ONCE))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut pieces = [IoSliceMut::new(&mut byte)];
    let received = recvmsg(from, &mut pieces, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    if received.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(passed) = message {
            descriptors.extend(passed);
        }
    }
    Ok(())
}
