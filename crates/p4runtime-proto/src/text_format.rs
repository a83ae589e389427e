//! Protobuf text format of the messages here, e.g. P4Info files and files of table entries.
//!
//! [`parse`] and [`print`] work on any message of this crate; the named functions are the two
//! that compiler, switch and controller exchange files of.
//! Source: Protocol Buffers text format language specification.

mod print;

use std::sync::LazyLock;

use miette::Diagnostic;
use prost::{Message, Name};
use prost_reflect::text_format::ParseError;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};

use crate::FILE_DESCRIPTOR_SET;
use crate::p4::config::v1::P4Info;
use crate::p4::v1::WriteRequest;

/// Why a text is not the message it was read as.
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
    DynamicMessage::parse_text_format(descriptor::<M>(), text)
        .map_err(|e| error(describe(&e, text)))?
        .transcode_to()
        .map_err(|e| error(e.to_string()))
}

/// Writes any message of this crate, one field a line, two spaces of indent, unset fields left out.
pub fn print<M: Message + Name>(message: &M) -> String {
    let mut text = String::new();
    print::print_fields(&mut text, 0, &dynamic(message));
    text
}

/// The message with names and numbers of its fields.
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

/// The library keeps the place out of its message and in bytes; people count lines.
fn describe(error: &ParseError, text: &str) -> String {
    let place = error.labels().and_then(|mut labels| labels.next());
    let Some(before) = place.and_then(|place| text.get(..place.offset())) else {
        return error.to_string();
    };
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    format!("line {line}, column {column}: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::p4::config::v1::{
        MatchField, P4StructTypeSpec, P4TypeInfo, Preamble, Table, match_field,
    };

    fn p4info() -> P4Info {
        P4Info {
            tables: vec![Table {
                preamble: Some(Preamble {
                    id: 0x0200_0001,
                    name: "ingress.own_addresses".into(),
                    alias: "own_addresses".into(),
                    ..Default::default()
                }),
                match_fields: vec![MatchField {
                    id: 1,
                    name: "address".into(),
                    bitwidth: 32,
                    r#match: Some(match_field::Match::MatchType(
                        match_field::MatchType::Exact as i32,
                    )),
                    ..Default::default()
                }],
                size: 512,
                ..Default::default()
            }],
            ..Default::default()
        }
    }

    #[test]
    fn p4info_survives_printing_and_parsing() {
        let text = print_p4info(&p4info());
        assert!(text.contains("match_type: EXACT"), "{text}");
        assert!(text.ends_with("}\n"), "{text:?}");
        assert_eq!(parse_p4info(&text).unwrap(), p4info());
    }

    #[test]
    fn the_text_looks_as_other_p4info_files_do() {
        let text = print_p4info(&P4Info {
            tables: vec![
                Table::default(),
                Table {
                    size: 1,
                    ..Default::default()
                },
            ],
            type_info: Some(P4TypeInfo {
                structs: ["b", "a"]
                    .map(|name| (name.to_owned(), P4StructTypeSpec::default()))
                    .into(),
                ..Default::default()
            }),
            ..Default::default()
        });
        assert_eq!(
            text,
            "tables {\n}\ntables {\n  size: 1\n}\ntype_info {\n\
             \x20 structs {\n    key: \"a\"\n    value {\n    }\n  }\n\
             \x20 structs {\n    key: \"b\"\n    value {\n    }\n  }\n}\n"
        );
        assert_eq!(print_p4info(&parse_p4info(&text).unwrap()), text);
    }

    #[test]
    fn strings_and_bytes_are_escaped_so_that_they_come_back() {
        let mut info = p4info();
        let preamble = info.tables[0].preamble.as_mut().unwrap();
        preamble.annotations = vec!["@brief(\"a\\b\n\tµ \u{7f}\")".into()];
        assert_eq!(parse_p4info(&print_p4info(&info)).unwrap(), info);

        let request = parse_write_request(
            r#"device_id: 1 updates { type: INSERT entity { register_entry {
                 register_id: 369098753 index { index: 7 } data { bitstring: "\000\xffA\"" } } } }"#,
        )
        .unwrap();
        let printed = print_write_request(&request);
        assert!(printed.contains(r#"bitstring: "\000\377A\"""#), "{printed}");
        assert_eq!(parse_write_request(&printed).unwrap(), request);
    }

    #[test]
    fn an_unknown_field_is_an_error_with_its_line() {
        let error = parse_p4info("tables {\n  prambel { id: 1 }\n}\n").unwrap_err();
        assert!(error.to_string().contains("prambel"), "{error}");
        assert!(error.to_string().contains("line 2"), "{error}");
    }
}
