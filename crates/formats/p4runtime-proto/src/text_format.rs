//! The protobuf text format of this crate's messages, e.g. P4Info files and files of table entries.
//!
//! [`parse`] and [`print`] work on any message of this crate; the other functions are for the two messages that
//! compiler, switch and controller exchange as files. Source: Protocol Buffers text format language specification.

mod print;

use std::sync::LazyLock;

use miette::Diagnostic;
use prost::{Message, Name};
use prost_reflect::text_format::ParseError;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};

use crate::FILE_DESCRIPTOR_SET;
use crate::p4::config::v1::P4Info;
use crate::p4::v1::WriteRequest;

/// Why a text could not be read as a message of this type.
#[derive(Debug, thiserror::Error)]
#[error("not a {message} in protobuf text format: {reason}")]
pub struct TextFormatError {
    message: String,
    reason: String,
}

static DESCRIPTORS: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(FILE_DESCRIPTOR_SET).expect("the generated descriptor set is valid")
});

/// Reads a P4Info file.
///
/// # Errors
/// The text is not a `p4.config.v1.P4Info`; the error has line and column.
pub fn parse_p4info(text: &str) -> Result<P4Info, TextFormatError> {
    parse(text)
}

/// Writes a P4Info file.
pub fn print_p4info(p4info: &P4Info) -> String {
    print(p4info)
}

/// Reads a `p4.v1.WriteRequest`, e.g. a file of table entries.
///
/// # Errors
/// The text is not a `p4.v1.WriteRequest`; the error has line and column.
pub fn parse_write_request(text: &str) -> Result<WriteRequest, TextFormatError> {
    parse(text)
}

/// Writes a `p4.v1.WriteRequest` as text.
pub fn print_write_request(request: &WriteRequest) -> String {
    print(request)
}

/// Reads any message of this crate.
///
/// # Errors
/// The text is not an `M`; the error has line and column.
pub fn parse<M: Message + Name + Default>(text: &str) -> Result<M, TextFormatError> {
    let error = |reason: String| TextFormatError {
        message: M::full_name(),
        reason,
    };
    if let Some(line) = too_deep(text) {
        return Err(error(format!(
            "line {line}: messages are nested more than {DEPTH_MAX} deep"
        )));
    }
    DynamicMessage::parse_text_format(descriptor::<M>(), text)
        .map_err(|e| error(describe(&e, text)))?
        .transcode_to()
        .map_err(|e| error(e.to_string()))
}

/// How deeply messages and lists may nest: the limit of Google's protobuf libraries. prost-reflect, which reads nested
/// messages recursively, has no limit of its own.
const DEPTH_MAX: usize = 100;

/// The line where the nesting becomes too deep; `None` if it does not.
fn too_deep(text: &str) -> Option<usize> {
    let (mut depth, mut quote, mut is_escaped, mut is_comment) = (0_usize, None, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match (byte, quote) {
            (b'\n', _) => (quote, is_escaped, is_comment) = (None, false, false),
            _ if is_comment => {}
            _ if is_escaped => is_escaped = false,
            (b'\\', Some(_)) => is_escaped = true,
            (byte, Some(open)) if byte == open => quote = None,
            (_, Some(_)) => {}
            (b'"' | b'\'', None) => quote = Some(byte),
            (b'#', None) => is_comment = true,
            (b'{' | b'<' | b'[', None) => {
                depth += 1;
                if depth > DEPTH_MAX {
                    return Some(text.as_bytes()[..at].split(|byte| *byte == b'\n').count());
                }
            }
            (b'}' | b'>' | b']', None) => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

/// Writes any message of this crate, one field a line, two spaces of indent, unset fields left out.
pub fn print<M: Message + Name>(message: &M) -> String {
    let mut text = String::new();
    print::print_fields(&mut text, 0, &dynamic(message));
    text
}

/// Converts a message to a dynamic message, which knows the names and numbers of its fields.
pub(crate) fn dynamic<M: Message + Name>(message: &M) -> DynamicMessage {
    let mut dynamic = DynamicMessage::new(descriptor::<M>());
    dynamic
        .transcode_from(message)
        .expect("code and descriptors are generated from the same files");
    dynamic
}

fn descriptor<M: Name>() -> MessageDescriptor {
    DESCRIPTORS
        .get_message_by_name(&M::full_name())
        .expect("every message of this crate is in the descriptor set")
}

/// Puts line and column in front of the library's error, whose own message has neither.
fn describe(error: &ParseError, text: &str) -> String {
    let place = error.labels().and_then(|mut labels| labels.next());
    let Some(before) = place.and_then(|place| text.get(..place.offset())) else {
        return error.to_string();
    };
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    format!("line {line}, column {column}: {error}")
}
