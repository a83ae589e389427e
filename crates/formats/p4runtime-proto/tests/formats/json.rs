//! Protobuf's JSON format.

use p4runtime_proto::json_format::print;
use p4runtime_proto::p4::config::v1::{
    ActionRef, P4Info, P4StructTypeSpec, P4TypeInfo, Preamble, Table, TableActionCall, action_ref,
    table_action_call,
};

#[test]
fn bytes_are_written_in_base64_padded_to_groups_of_four() {
    let encoded = |value: &[u8]| {
        let argument = table_action_call::Argument {
            param_id: 1,
            value: value.to_vec(),
        };
        let text = print(&argument);
        let value = text.split_once("\"value\": ").map(|(_, value)| value);
        value
            .and_then(|value| value.lines().next())
            .map(str::to_owned)
    };
    assert_eq!(encoded(b""), None, "an unset field is left out");
    let padded = [
        ("f", "\"Zg==\""),
        ("fo", "\"Zm8=\""),
        ("foo", "\"Zm9v\""),
        ("foob", "\"Zm9vYg==\""),
    ];
    for (bytes, expected) in padded {
        assert_eq!(encoded(bytes.as_bytes()).as_deref(), Some(expected));
    }
    assert_eq!(encoded(&[0xff, 0xfe]).as_deref(), Some("\"//4=\""));
}

#[test]
fn a_message_is_written_by_protobufs_mapping() {
    let argument = table_action_call::Argument {
        param_id: 1,
        value: vec![0x0a, 0xff],
    };
    let info = P4Info {
        tables: vec![Table {
            preamble: Some(Preamble {
                id: 7,
                name: "a.\"b\"".into(),
                ..Default::default()
            }),
            action_refs: vec![ActionRef {
                id: 1,
                scope: action_ref::Scope::DefaultOnly as i32,
                ..Default::default()
            }],
            initial_default_action: Some(TableActionCall {
                action_id: 1,
                arguments: vec![argument],
            }),
            size: 1024,
            is_const_table: true,
            ..Default::default()
        }],
        type_info: Some(P4TypeInfo {
            structs: [("s".to_owned(), P4StructTypeSpec::default())].into(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let compact: String = print(&info)
        .chars()
        .filter(|c| !c.is_whitespace())
        .collect();
    assert_eq!(
        compact,
        "{\"tables\":[{\"preamble\":{\"id\":7,\"name\":\"a.\\\"b\\\"\"},\
         \"actionRefs\":[{\"id\":1,\"scope\":\"DEFAULT_ONLY\"}],\
         \"initialDefaultAction\":{\"actionId\":1,\"arguments\":[{\"paramId\":1,\
         \"value\":\"Cv8=\"}]},\"size\":\"1024\",\"isConstTable\":true}],\
         \"typeInfo\":{\"structs\":{\"s\":{}}}}"
    );
}
