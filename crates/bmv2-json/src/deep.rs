//! JSON that is nested deeper than serde_json reads by itself, as that of a long expression is.

use std::fmt;

use serde::de::DeserializeOwned;

use crate::limits;

/// How deep a file may be nested to be read on the caller's stack: serde_json's own limit.
const USUAL_DEPTH: usize = 100;
/// Bytes of stack for a deeper one, up to 32 KiB for each level, of which the system gives what is used.
const DEEP_STACK_BYTES: usize = 64 << 20;

/// Why a file is not read.
#[derive(Debug)]
pub enum ReadError {
    /// It is no JSON, or not of the type that was asked for.
    NoJson(serde_json::Error),
    /// How deep it is nested, more than [`limits::JSON_DEPTH_MAX`].
    TooDeep(usize),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoJson(error) => error.fmt(f),
            Self::TooDeep(depth) => write!(
                f,
                "objects and lists are nested {depth} deep, expected {} at most",
                limits::JSON_DEPTH_MAX
            ),
        }
    }
}

impl std::error::Error for ReadError {}

/// Reads a file's bytes.
///
/// # Errors
/// [`ReadError`].
pub fn from_slice<T: DeserializeOwned>(json: &[u8]) -> Result<T, ReadError> {
    let depth = depth(json);
    if depth > limits::JSON_DEPTH_MAX {
        return Err(ReadError::TooDeep(depth));
    }
    if depth <= USUAL_DEPTH {
        return serde_json::from_slice(json).map_err(ReadError::NoJson);
    }
    // Reading is recursive.
    let read = stacker::grow(DEEP_STACK_BYTES, || {
        let mut reader = serde_json::Deserializer::from_slice(json);
        reader.disable_recursion_limit();
        let read = T::deserialize(&mut reader)?;
        reader.end()?;
        Ok(read)
    });
    read.map_err(ReadError::NoJson)
}

/// How deep objects and lists are nested, in a text that is JSON.
fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest, mut is_string, mut is_escaped) = (0_usize, 0, false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_string => is_escaped = true,
            b'"' => is_string = !is_string,
            _ if is_string => {}
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}
