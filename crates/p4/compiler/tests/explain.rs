//! Checks that every error or warning code that the compiler uses has an explanation, that the explanation's wrong
//! example gives this code, and that its right example compiles.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what failed by panicking"
)]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use p4_compiler::explain::{Explanation, explanations};
use p4_compiler::{Options, Output, Severity, compile};
use support::program;
use testkit::repository::root;

/// Collects the codes in the compiler's source, for example `"E0301"`.
fn codes_in(folder: &Path, codes: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            codes_in(&path, codes);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let is_code = |word: &&str| {
                word.len() == 5
                    && word.starts_with(['E', 'W'])
                    && word[1..].bytes().all(|byte| byte.is_ascii_digit())
            };
            codes.extend(text.split('"').filter(is_code).map(str::to_owned));
        }
    }
}

/// Returns the fenced blocks of an explanation: for each block, the part of a program that it shows, and its text.
fn examples(explanation: &Explanation) -> Vec<(&'static str, String)> {
    let mut out: Vec<(&str, String)> = Vec::new();
    let mut inside = false;
    for line in explanation.text.lines() {
        if let Some(fence) = line.strip_prefix("```") {
            inside = !inside;
            if inside {
                let part = fence
                    .strip_prefix("p4 ")
                    .unwrap_or_else(|| panic!("{}: a fence needs `p4 PART`", explanation.code));
                out.push((part, String::new()));
            }
        } else if inside {
            let (_, text) = out.last_mut().unwrap();
            text.push_str(line);
            text.push('\n');
        }
    }
    out
}

fn run(text: &str) -> Output {
    let prelude = fs::read_to_string(root().join("testdata/compiler/prelude.p4")).unwrap();
    let load = |path: &str| match path {
        "prelude.p4" => Some(prelude.clone()),
        "example.p4" => Some(text.to_owned()),
        _ => None,
    };
    compile("example.p4", text, &load, &Options::default())
}

fn codes_of(output: &Output) -> Vec<&str> {
    let codes = output.diagnostics.iter().map(|found| &*found.code);
    codes.collect()
}

#[test]
fn every_code_is_explained_and_every_explained_code_is_used() {
    let mut used = BTreeSet::new();
    codes_in(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut used,
    );
    let explained: BTreeSet<String> = explanations().map(|found| found.code.to_owned()).collect();
    let missing: Vec<_> = used.difference(&explained).collect();
    assert!(
        missing.is_empty(),
        "without a text in src/explain/*.md: {missing:?}"
    );
    let stale: Vec<_> = explained.difference(&used).collect();
    assert!(stale.is_empty(), "explained, but used nowhere: {stale:?}");
    assert_eq!(explanations().count(), explained.len(), "explained twice");
}

#[test]
fn the_wrong_example_gives_the_code_and_the_right_one_compiles() {
    let mut problems = Vec::new();
    let mut without = Vec::new();
    for explanation in explanations() {
        let code = explanation.code;
        let found = examples(&explanation);
        if explanation.text.contains("No short program shows it.") {
            without.push(code);
            continue;
        }
        let [wrong, right] = found.as_slice() else {
            problems.push(format!("{code}: {} examples, not two", found.len()));
            continue;
        };
        let output = run(&program(wrong.0, &wrong.1));
        if !codes_of(&output).contains(&code) {
            problems.push(format!("{code}: wrong gives {:?}", codes_of(&output)));
        }
        let output = run(&program(right.0, &right.1));
        let errors: Vec<String> = output
            .diagnostics
            .iter()
            .filter(|found| found.severity == Severity::Error || found.code == code)
            .map(p4_compiler::Diagnostic::render)
            .collect();
        if !errors.is_empty() {
            problems.push(format!("{code}: right gives {}", errors.concat()));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    // These codes have no example: each reports that a limit is exceeded, and an example would have thousands of lines.
    assert_eq!(without, ["E0119", "E0121", "E0603"]);
}

#[test]
fn a_code_is_found_in_any_case_and_shown_without_fences() {
    let found = p4_compiler::explain(" e0202 ").unwrap();
    assert_eq!(found.code, "E0202");
    let text = found.render();
    assert!(text.starts_with("E0202: "), "{text}");
    assert!(text.contains("\n    meta.x = 1\n"), "{text}");
    assert!(!text.contains("```"), "{text}");
    assert!(p4_compiler::explain("E9999").is_none());
}
