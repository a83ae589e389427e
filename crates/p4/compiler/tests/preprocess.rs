//! Tests what the preprocessor makes of macros and conditions. The expected outputs in
//! `testdata/compiler/preprocessor.txt` are those of GCC's preprocessor as p4c runs it (`cpp -undef -nostdinc -x
//! assembler-with-cpp`, version 12). The tests compare where there is white space, not how much.

use std::fs;

use p4_compiler::{Options, Output, Preprocessed, Severity, compile, preprocess};
use testkit::repository::root;
use testkit::text::assert_starts;

fn no_file(_: &str) -> Option<String> {
    None
}

fn preprocessed(text: &str) -> Preprocessed {
    preprocess("test.p4", text, &no_file, &Options::default())
}

/// Returns the text without line markers, with one space for each run of white space.
fn on_one_line(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with("# "));
    let words = lines.flat_map(str::split_whitespace);
    words.collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn check(before: &str, after: &str) {
    let found = preprocessed(before);
    let wrong = |d: &&p4_compiler::Diagnostic| d.severity == Severity::Error;
    let errors: Vec<_> = found.diagnostics.iter().filter(wrong).collect();
    assert!(errors.is_empty(), "{before}: {errors:?}");
    let after: Vec<_> = after.split_whitespace().collect();
    assert_eq!(on_one_line(&found.text), after.join(" "), "{before}");
}

#[track_caller]
fn codes(text: &str) -> Vec<String> {
    let found = preprocessed(text).diagnostics;
    found.into_iter().map(|d| d.code).collect()
}

#[test]
fn macros_and_conditions_become_what_c_makes_of_them() {
    let cases = fs::read_to_string(root().join("testdata/compiler/preprocessor.txt")).unwrap();
    let mut n_cases = 0;
    for case in cases.split("====\n").filter(|case| !case.is_empty()) {
        let (before, after) = case.split_once("----\n").unwrap();
        check(before, after);
        // Preprocessing the output again changes nothing.
        if !after.contains(" #") && !after.starts_with('#') {
            let text = preprocessed(before).text;
            let again = preprocessed(&text).text;
            assert_eq!(on_one_line(&again), on_one_line(&text), "{before}");
        }
        n_cases += 1;
    }
    assert!(n_cases > 40, "{n_cases}");
}

#[test]
fn a_line_with_a_hash_that_is_no_directive_is_a_comment() {
    check(
        "########\n## (another one\n# any comment\n#\n# it's \"one\n#!/bin/p4\n # let it\n#  12 bits\na\n",
        "a",
    );
}

#[test]
fn what_looks_like_a_slip_is_none() {
    assert_eq!(codes("#inclde <core.p4>\n"), ["E0114"]);
    assert_eq!(codes("#elsif 1\n"), ["E0114"]);
    assert_eq!(codes("# lines of text\n"), ["W0864"]);
    assert_eq!(codes("#region a\n"), ["W0864"]);
    assert!(codes("# region a\n").is_empty());
}

#[test]
fn lines_files_and_counters_are_known() {
    check(
        "#define HERE __FILE__:__LINE__\nHERE\n__LINE__ __COUNTER__ __COUNTER__ __INCLUDE_LEVEL__\n#line 70 \"b.p4\"\nHERE\n#if __COUNTER__ == 2\nyes\n#endif\n",
        "\"test.p4\":2 3 0 1 0 \"b.p4\":70 yes",
    );
    check("_Pragma(\"foo\") a _Pragma (\"b\") b", "a b");
}

#[test]
fn files_are_included_by_macros_once_and_across_arguments() {
    let load = |path: &str| {
        let text = match path {
            "a.p4" => "#define IN in\nbody __INCLUDE_LEVEL__ __LINE__",
            "once.p4" => "#pragma once\nonly",
            "open.p4" => "x F",
            _ => return None,
        };
        Some(text.to_owned())
    };
    let check = |before: &str, after: &str| {
        let found = preprocess("test.p4", before, &load, &Options::default());
        assert!(
            found.diagnostics.is_empty(),
            "{before}: {:?}",
            found.diagnostics
        );
        assert_eq!(on_one_line(&found.text), after, "{before}");
    };
    check("#define FILE \"a.p4\"\n#include FILE\nIN", "body 1 2 in");
    check("#include \"once.p4\"\n#include \"once.p4\"\nx", "only x");
    check("#import \"a.p4\"\n#import \"a.p4\"\nx", "body 1 2 x");
    // A macro's name at the end of an included file takes no arguments from the text after the `#include`.
    check("#define F(x) [x]\n#include \"open.p4\"\n(1)", "x F (1)");
    check(
        "#if __has_include(\"a.p4\") && !__has_include(\"b.p4\") && __has_include(<core.p4>)\nyes\n#endif",
        "yes",
    );
}

#[test]
fn strings_over_lines_keep_their_text() {
    let text = "@a(\"x\n    // no comment, it's text\n  # no directive\n\") F\n#define F 1\nF";
    check(text, text.replace("#define F 1\nF", "1").as_str());
    let found = preprocessed(text);
    assert!(
        found
            .text
            .contains("\"x\n    // no comment, it's text\n  # no directive\n\"")
    );
    assert!(found.text.ends_with("\n\n1\n"), "{}", found.text);
}

#[test]
fn groups_that_are_left_out_may_hold_anything() {
    check(
        "#if 0\ndon't \"stop\n#nothing known\n#if ((\n#elif\n#endif\n#include no file\n#elif 1\na\n#elif 1/0 ((\nb\n#else\nc\n#endif\n",
        "a",
    );
}

#[test]
fn mistakes_in_macros_are_reported() {
    for (text, code) in [
        ("#define F(x) x\nF(1", "E0120"),
        ("#define F(x, y) x\nF(1)", "E0120"),
        ("#define F() x\nF(1)", "E0120"),
        ("#define F(x, ...) x\n#define G(x, y, ...) x\nG(1)", "E0120"),
        ("#define F(x x", "E0112"),
        ("#define F(x, x) x", "E0112"),
        ("#define F(..., x) x", "E0112"),
        ("#define F(1) x", "E0112"),
        ("#define ## x", "E0112"),
        ("#define X ## x", "E0112"),
        ("#define defined x", "E0112"),
        ("#undef", "E0112"),
        ("#ifdef\n#endif", "E0112"),
        ("#if 1 +\n#endif", "E0116"),
        ("#if 8w1 == 1\n#endif", "E0116"),
        ("#if 1 / 0\n#endif", "E0116"),
        ("#if X(1)\n#endif", "E0116"),
        ("#if (1\n#endif", "E0116"),
        ("#if 1.5\n#endif", "E0116"),
        ("#if 089\n#endif", "E0116"),
        ("#if \"a\"\n#endif", "E0116"),
        ("#if defined\n#endif", "E0116"),
        ("#if 0\n#else\n#else\n#endif", "E0115"),
        ("#define F(x) x\nF(\n#include \"a\"\n)", "E0112"),
        ("#error it's \"this\n", "E0113"),
        ("#warning it's \"this\n", "W0863"),
        ("#define A 1\n#define A 2\n", "W0862"),
        ("#if true\n#endif", "W0865"),
        ("#ifdef A && B\n#endif", "W0866"),
        ("#if 0\n#else if 1\n#endif", "W0866"),
        ("// a \\\nb", "W0861"),
    ] {
        assert_eq!(codes(text), [code], "{text}");
    }
}

#[test]
fn macros_that_explode_or_nest_without_end_are_refused() {
    let doubling: String = (0..40)
        .map(|n| format!("#define A{} A{n} A{n}\n", n + 1))
        .collect();
    assert_eq!(codes(&format!("{doubling}A40")), ["E0119"]);
    let strings: String = (0..40)
        .map(|n| format!("#define A{}(x) A{n}(x ## x)\n", n + 1))
        .collect();
    assert_eq!(codes(&format!("{strings}A40(a)")), ["E0119"]);
    let nested = format!("#define F(x) x\n{}1{}", "F(".repeat(5000), ")".repeat(5000));
    assert_eq!(codes(&nested), ["E0119"]);
    let chain: String = (0..5000)
        .map(|n| format!("#define A{} A{n}\n", n + 1))
        .collect();
    check(&format!("{chain}A5000"), "A0");
}

fn compiled(statement: &str, macros: &str) -> Output {
    let text = format!(
        "#include <core.p4>\n#include <v1model.p4>\n{macros}\n\
         header h_t {{ bit<8> f; bit<8> g; bit<8> f00; }}\nstruct headers_t {{ h_t h; }}\n\
         struct metadata_t {{ }}\n\
         parser P(packet_in p, out headers_t hdr, inout metadata_t m, inout standard_metadata_t s) {{\n\
         state start {{ p.extract(hdr.h); transition accept; }} }}\n\
         control C(inout headers_t hdr, inout metadata_t m) {{ apply {{ }} }}\n\
         control I(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t s) {{\n\
         action set(bit<8> x) {{ hdr.h.f = x; }}\n\
         {statement}\n}}\n\
         control E(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t s) {{ apply {{ }} }}\n\
         control D(packet_out p, in headers_t hdr) {{ apply {{ p.emit(hdr.h); }} }}\n\
         V1Switch(P(), C(), I(), E(), C(), D()) main;\n"
    );
    compile("test.p4", &text, &no_file, &Options::default())
}

#[test]
fn operands_of_a_paste_are_not_expanded_so_the_field_that_is_written_is_the_one_that_is_named() {
    let written = |statement: &str, macros: &str| {
        let output = compiled(&format!("apply {{ {statement} }}"), macros);
        assert!(output.bmv2_json.is_some(), "{:?}", output.diagnostics);
        let json = serde_json::to_value(output.bmv2_json).unwrap();
        json["actions"][0]["primitives"][0]["parameters"].clone()
    };
    let output = compiled(
        "apply { PUT(hdr.h, f) = 1; }",
        "#define PUT(h, name) h.name ## 00\n#define f wrong",
    );
    assert!(output.bmv2_json.is_some(), "{:?}", output.diagnostics);
    let macros = "#define n g\n#define WRITE(name) hdr.h.name ## 00 = 1\n#define SET(name) hdr.h. name\n#define JOIN(a, b) a ## b";
    assert_eq!(written("WRITE(f);", macros), written("hdr.h.f00 = 1;", ""));
    let found = written("hdr.h.JOIN(n,) = 8w1;", macros);
    assert_eq!(found, written("hdr.h.g = 8w1;", ""));
    let found = written("SET(n) = JOIN(8w, 255);", macros);
    assert_eq!(found, written("hdr.h.g = 255;", ""));
}

#[test]
fn annotations_in_p4info_have_their_macros_expanded_and_p4cs_layout() {
    let output = compiled(
        "@oneshot() @role(NAME) @proto(N) @list(a,N ,JOIN(b,c)) table t { key = { hdr.h.f: exact @tag(N); } actions = { set; NoAction; } default_action = NoAction(); }\napply { t.apply(); }",
        "#define NAME \"sdn\"\n#define N 0x0F\n#define JOIN(a, b) a ## b",
    );
    let info = output
        .p4info
        .unwrap_or_else(|| panic!("{:?}", output.diagnostics));
    let text = p4_compiler::p4info_text(&info);
    let plain = |text: &str| text.replace('"', "\\\"");
    for wanted in [
        "@oneshot",
        "@role(\"sdn\")",
        "@proto(0x0F)",
        "@list(a , 0x0F , bc)",
        "@tag(0x0F)",
    ] {
        let line = format!("annotations: \"{}\"", plain(wanted));
        assert!(text.contains(&line), "{wanted} in {text}");
    }
}

#[test]
fn included_files_are_bounded_in_sum() {
    let half = " ".repeat(40 << 20);
    let load = |_: &str| Some(half.clone());
    let text = "#include \"a\"\n#include \"b\"\n#include \"c\"\n";
    let output = p4_compiler::compile("program.p4", text, &load, &p4_compiler::Options::default());
    let messages: Vec<String> = (output.diagnostics.iter())
        .map(|it| format!("{}:{} {}", it.line, it.code, it.message))
        .collect();
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert_starts(&messages[0], "2:E0119 the program and the files");
}
