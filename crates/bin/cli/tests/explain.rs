//! `reprise explain`, which needs neither a switch nor a file.

use std::process::{Command, Output};

use testkit::text::assert_has;

fn explain(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_reprise"))
        .arg("explain")
        .args(words)
        .output()
        .expect("the command runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_code_is_explained_with_a_wrong_and_a_right_example() {
    let output = explain(&["e0202"]);
    assert!(output.status.success());
    let out = text(&output.stdout);
    assert!(out.starts_with("E0202: a semicolon is missing\n"), "{out}");
    for part in ["Wrong:", "Right:", "    meta.x = 1;", "P4_16 1.2.5"] {
        assert!(out.contains(part), "{part} is not in {out}");
    }
}

#[test]
fn without_a_code_all_are_listed_and_an_unknown_one_is_refused() {
    let list = text(&explain(&[]).stdout);
    assert!(list.lines().count() > 90, "{list}");
    assert!(list.lines().all(|line| line.starts_with(['E', 'W'])));
    let output = explain(&["E9999"]);
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(error.contains("E9999 is not a code"), "{error}");
}

#[test]
fn what_the_examples_do_not_declare_is_reported() {
    let out = text(&explain(&["E0401"]).stdout);
    assert!(out.contains("meta.x         bit<32>\n"), "{out}");
    assert!(out.contains("meta.y         bit<16>\n"), "{out}");
    assert!(!out.contains("meta.flag"), "{out}");
    let out = text(&explain(&["E0101"]).stdout);
    assert!(!out.contains("Around the examples"), "{out}");
}

#[test]
fn a_code_is_found_as_it_is_pasted_and_a_name_leads_to_its_codes() {
    for code in ["E0301", "e0301", "301", "0301", "error[E0301]:"] {
        let out = text(&explain(&[code]).stdout);
        assert!(out.starts_with("E0301: "), "{code}: {out}");
    }
    let output = explain(&["shadow"]);
    let found = text(&output.stderr);
    assert_eq!(
        found,
        "reprise: shadow is the name of W0811: `reprise explain W0811`\n"
    );
    let list = text(&explain(&[]).stdout);
    assert_has(&list, "W0811  a name hides another (shadow)\n");
}

#[test]
fn the_list_is_json_where_json_is_asked_for() {
    let list = text(&explain(&["--json"]).stdout);
    let list: serde_json::Value = serde_json::from_str(&list).expect("one document");
    let codes = list["codes"].as_array().expect("a list");
    assert!(codes.len() > 90, "{list}");
    for found in codes {
        assert!(
            found["code"].is_string() && found["title"].is_string(),
            "{found}"
        );
    }
}
