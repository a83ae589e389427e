//! Checks that the error tour, `testdata/compiler/tour.md`, shows the messages that the compiler gives today.
//!
//! `UPDATE_EXPECT=1 cargo test -p p4-compiler --test tour` writes the messages again; read the difference before you
//! commit it.

#![expect(clippy::unwrap_used, reason = "a test says what failed by panicking")]

mod support;

use std::fs;

use p4_compiler::{Options, Severity, compile};
use support::program;
use testkit::repository::root;

/// The compiler's messages about a part of a program, with positions in that part.
fn messages(part: &str, text: &str) -> String {
    let prelude = fs::read_to_string(root().join("testdata/compiler/prelude.p4")).unwrap();
    let load = |path: &str| match path {
        "prelude.p4" => Some(prelude.clone()),
        "mistake.p4" => Some(text.to_owned()),
        _ => None,
    };
    let whole = program(part, "#include \"mistake.p4\"\n");
    let output = compile("whole.p4", &whole, &load, &Options::default());
    let mut shown = Vec::new();
    for mut diagnostic in output.diagnostics {
        if diagnostic.severity == Severity::Error {
            // The tour does not show the notes that say where the part was included.
            diagnostic
                .notes
                .retain(|note| note.message != "included here");
            shown.push(diagnostic.render());
        }
    }
    shown.join("\n")
}

#[test]
fn the_error_tour_shows_todays_messages() {
    let path = root().join("testdata/compiler/tour.md");
    let tour = fs::read_to_string(&path).unwrap();
    let mut current = String::new();
    let mut program: Option<(String, String)> = None;
    let mut inside = "";
    let mut n_mistakes = 0;
    for line in tour.lines() {
        let fence = line.strip_prefix("```");
        match (inside, fence) {
            ("", Some(opened)) => {
                inside = if opened == "text" { "text" } else { "p4" };
                if let Some(part) = opened.strip_prefix("p4 ") {
                    program = Some((part.to_owned(), String::new()));
                }
            }
            ("text", Some(_)) => {
                let (part, text) = program.take().unwrap();
                let said = messages(&part, &text);
                assert!(!said.is_empty(), "no message for:\n{text}");
                current.push_str(&said);
                n_mistakes += 1;
                inside = "";
            }
            ("p4", Some(_)) => inside = "",
            ("p4", None) => {
                let (_, text) = program.as_mut().unwrap();
                text.push_str(line);
                text.push('\n');
            }
            ("text", None) => continue,
            _ => {}
        }
        current.push_str(line);
        current.push('\n');
    }
    assert!(n_mistakes >= 20, "{n_mistakes} mistakes are shown");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(path, current).unwrap();
        return;
    }
    assert!(
        tour == current,
        "testdata/compiler/tour.md is not current: UPDATE_EXPECT=1 cargo test -p p4-compiler --test tour"
    );
}
