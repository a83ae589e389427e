//! `reprise explain`: explains a code (such as `E0301`) that the compiler prints with an error or a warning.

use p4_compiler::explain::{explain, explanations};
use p4_compiler::warning_name;
use serde_json::json;

use crate::args::Global;
use crate::failure::Failure;
use crate::output;

pub fn run(global: &Global, code: Option<&str>) -> Result<(), Failure> {
    let Some(code) = code else {
        list(global);
        return Ok(());
    };
    // Users also type `301`, or paste `error[E0301]:`.
    let digits: String = code.chars().filter(char::is_ascii_digit).collect();
    let meant = |letter: &str| explain(&format!("{letter}{digits:0>4}"));
    let is_bare = code.len() == digits.len() || code.contains('[');
    let by_digits = || {
        let found = is_bare.then(|| meant("E").or_else(|| meant("W")));
        found.flatten()
    };
    let Some(found) = explain(code).or_else(by_digits) else {
        return Err(unknown(code));
    };
    if global.json {
        output::json(&json!({
            "code": found.code,
            "title": found.title,
            "name": warning_name(found.code),
            "text": found.text.trim(),
        }));
    } else {
        output::text(found.render().trim_end());
    }
    Ok(())
}

/// Lists all codes, and for each warning also the name that `--Wdisable` takes.
fn list(global: &Global) {
    let named = explanations().map(|found| {
        let name = warning_name(found.code);
        (found, name)
    });
    if global.json {
        let codes = named
            .map(|(found, name)| json!({ "code": found.code, "title": found.title, "name": name }));
        output::json(&json!({ "codes": codes.collect::<Vec<_>>() }));
        return;
    }
    for (found, name) in named {
        let name = name.map_or_else(String::new, |name| format!(" ({name})"));
        output::text(format!("{}  {}{name}", found.code, found.title));
    }
}

/// Makes the failure for a text that is not a code. The text may be the name of a warning; several codes may share such
/// a name.
fn unknown(word: &str) -> Failure {
    let codes: Vec<&str> = explanations()
        .map(|found| found.code)
        .filter(|code| warning_name(code) == Some(word.replace('_', "-").as_str()))
        .collect();
    Failure::new(if codes.is_empty() {
        format!("{word} is not a code of the compiler: `reprise explain` lists them")
    } else {
        format!(
            "{word} is the name of {}: `reprise explain {}`",
            codes.join(", "),
            codes[0]
        )
    })
}
