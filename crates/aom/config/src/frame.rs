//! Frames messages in a stream of bytes: four bytes of length, big endian, then that many bytes of JSON.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::limits::MESSAGE_BYTES_MAX;

const LENGTH_BYTES: usize = 4;

/// Why a message cannot be framed or read. The error does not quote the bytes, since they may contain a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("expected a message of 1 to {MESSAGE_BYTES_MAX} bytes, found a length of {0}")]
    Length(u32),
    #[error(
        "expected one of the protocol's messages in JSON, found something else at byte {0} of it"
    )]
    NoMessage(usize),
}

/// Serializes a message with its length.
///
/// # Errors
///
/// If the message is longer than [`MESSAGE_BYTES_MAX`].
pub fn frame(message: &impl Serialize) -> Result<Vec<u8>, FrameError> {
    let json =
        serde_json::to_vec(message).map_err(|error| FrameError::NoMessage(error.column()))?;
    let length = u32::try_from(json.len()).unwrap_or(u32::MAX);
    check_length(length)?;
    let mut bytes = length.to_be_bytes().to_vec();
    bytes.extend(json);
    Ok(bytes)
}

/// Assembles messages from pieces of any length. Holds at most one message and the last pushed piece.
#[derive(Default)]
pub struct Frames {
    bytes: Vec<u8>,
}

impl std::fmt::Debug for Frames {
    /// Hides the bytes, which may contain keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Frames({} bytes)", self.bytes.len())
    }
}

impl Frames {
    /// Appends bytes from the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next complete message, or `None` if more bytes are needed. After each push, call this method until
    /// it returns `None`.
    ///
    /// # Errors
    ///
    /// If the bytes are not a message; the rest of the stream then cannot be read.
    pub fn poll<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FrameError> {
        let Some((length, rest)) = self.bytes.split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*length);
        check_length(length)?;
        let Some(json) = rest.get(..length as usize) else {
            return Ok(None);
        };
        let message = serde_json::from_slice(json);
        let message = message.map_err(|error| FrameError::NoMessage(error.column()))?;
        self.bytes.drain(..LENGTH_BYTES + length as usize);
        Ok(Some(message))
    }
}

fn check_length(length: u32) -> Result<(), FrameError> {
    match length as usize {
        1..=MESSAGE_BYTES_MAX => Ok(()),
        _ => Err(FrameError::Length(length)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::ToMember;

    #[test]
    fn messages_come_out_however_they_are_cut() {
        let messages = [
            ToMember::Alive,
            ToMember::Refused {
                reason: "\u{e4}".repeat(300),
            },
            ToMember::Alive,
        ];
        let stream: Vec<u8> = messages
            .iter()
            .flat_map(|it| frame(it).expect("short"))
            .collect();
        for n_bytes in [1, 2, 3, 7, 100, stream.len()] {
            let mut frames = Frames::default();
            let mut found = Vec::new();
            for piece in stream.chunks(n_bytes) {
                frames.push(piece);
                while let Some(message) = frames.poll::<ToMember>().expect("messages") {
                    found.push(message);
                }
            }
            assert_eq!(found, messages, "pieces of {n_bytes}");
        }
    }

    #[test]
    fn what_is_no_message_is_refused_before_it_is_held() {
        for length in [0, MESSAGE_BYTES_MAX as u32 + 1, u32::MAX] {
            let mut frames = Frames::default();
            frames.push(&length.to_be_bytes());
            assert_eq!(frames.poll::<ToMember>(), Err(FrameError::Length(length)));
        }
        let longest = ToMember::Refused {
            reason: "x".repeat(MESSAGE_BYTES_MAX),
        };
        assert!(matches!(frame(&longest), Err(FrameError::Length(_))));
    }

    #[test]
    fn an_error_does_not_say_what_was_there() {
        let mut frames = Frames::default();
        let json = br#"{"type":"membership","epoch":"0011223344556677"}"#;
        frames.push(&(json.len() as u32).to_be_bytes());
        frames.push(json);
        let error = frames.poll::<ToMember>().expect_err("no membership");
        assert!(
            !format!("{error} {error:?} {frames:?}").contains("0011"),
            "{error}"
        );
    }
}
