//! JSON of a program, which may be nested deeper than serde_json reads by itself: as deep as a long sum.

use std::fmt;
use std::thread;

use serde::Deserialize as _;
use serde_json::Value;

use crate::limits::{JSON_DEPTH_MAX, JSON_STACK_BYTES};

/// Why it is not read.
#[derive(Debug)]
pub enum Error {
    /// The place and the reason.
    NoJson(String),
    /// How deep it is nested.
    TooDeep(usize),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoJson(why) => f.write_str(why),
            Self::TooDeep(depth) => write!(
                f,
                "objects and lists are nested {depth} deep, expected {JSON_DEPTH_MAX} at most"
            ),
        }
    }
}

/// # Errors
/// It is no JSON, or nested deeper than [`JSON_DEPTH_MAX`].
pub fn value(json: &[u8]) -> Result<Value, Error> {
    let depth = depth(json);
    if depth > JSON_DEPTH_MAX {
        return Err(Error::TooDeep(depth));
    }
    let read = || {
        let mut reader = serde_json::Deserializer::from_slice(json);
        reader.disable_recursion_limit();
        let value = Value::deserialize(&mut reader)?;
        reader.end()?;
        Ok(value)
    };
    let no_json = |error: serde_json::Error| Error::NoJson(error.to_string());
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(JSON_STACK_BYTES);
        let reader = thread.spawn_scoped(scope, read);
        let reader = reader.map_err(|error| Error::NoJson(error.to_string()))?;
        let read = reader
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        read.map_err(no_json)
    })
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
