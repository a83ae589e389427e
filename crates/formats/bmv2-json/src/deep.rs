//! Reads JSON that is nested deeper than serde_json's limit, for example a long expression.

use std::fmt;

use serde::de::DeserializeOwned;

use crate::limits;

/// The deepest nesting that is read on the caller's stack: below serde_json's own limit of 128.
const USUAL_DEPTH: usize = 100;
/// Stack for reading a file that is nested deeper: a level takes up to 32 KiB. The operating system provides memory
/// only for the pages that are used.
const DEEP_STACK_BYTES: usize = 64 << 20;

/// Why a file is not read.
#[derive(Debug)]
pub enum ReadError {
    /// The text is not JSON, or not of the requested type.
    NoJson(serde_json::Error),
    /// The nesting depth found, more than [`limits::JSON_DEPTH_MAX`].
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

/// Deserialises JSON bytes.
///
/// # Errors
/// The bytes are no JSON, do not fit `T`, or are nested deeper than [`limits::JSON_DEPTH_MAX`].
pub fn from_slice<T: DeserializeOwned>(json: &[u8]) -> Result<T, ReadError> {
    let depth = depth(json);
    if depth > limits::JSON_DEPTH_MAX {
        return Err(ReadError::TooDeep(depth));
    }
    if depth <= USUAL_DEPTH {
        return serde_json::from_slice(json).map_err(ReadError::NoJson);
    }
    // Deserialisation is recursive, so deep nesting needs a larger stack.
    let read = stacker::grow(DEEP_STACK_BYTES, || {
        let mut reader = serde_json::Deserializer::from_slice(json);
        reader.disable_recursion_limit();
        let read = T::deserialize(&mut reader)?;
        reader.end()?;
        Ok(read)
    });
    read.map_err(ReadError::NoJson)
}

/// The deepest nesting of objects and lists, if the text is JSON.
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
