//! Protobuf's text format.

use p4runtime_proto::p4::config::v1::{
    MatchField, P4Info, P4StructTypeSpec, P4TypeInfo, Preamble, Table, match_field,
};
use p4runtime_proto::text_format::{
    parse_p4info, parse_write_request, print_p4info, print_write_request,
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

#[test]
fn text_that_is_nested_too_deep_is_refused_with_its_line() {
    let text = |depth: usize| {
        let before = "type_info { structs { key: \"a\" value { members { name: \"m\" type_spec {\n";
        let (open, close) = ("tuple { members {\n".repeat(depth), "} }\n".repeat(depth));
        format!("{before}{open}{close}}} }} }} }} }}\n")
    };
    parse_p4info(&text(40)).expect("85 deep");
    for depth in [50, 100_000] {
        let error = parse_p4info(&text(depth))
            .expect_err("too deep")
            .to_string();
        assert!(
            error.contains("line 49: messages are nested more than 100 deep"),
            "{error}"
        );
    }
    // Brackets in strings and comments do not nest anything.
    let text = format!(
        "# {0}\npkg_info {{ name: \"{0}\\\"{0}\" }}\n",
        "{".repeat(300)
    );
    parse_p4info(&text).expect("it is flat");
}
