//! `reprise explain`, which needs neither a switch nor a file.

use std::process::{Command, Output};

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
