//! Compiles and loads P4 programs of this repository.

use std::path::Path;

use testkit::repository::root;

/// Compiles a P4 source to BMv2 JSON.
///
/// # Errors
/// The compiler refuses the source. The error contains the diagnostics.
pub fn bmv2_json(path: &Path, text: &str) -> Result<String, String> {
    compile(path, text).map(|(_, json)| json)
}

fn compile(path: &Path, text: &str) -> Result<(p4_compiler::P4Info, String), String> {
    let provider = |path: &str| std::fs::read_to_string(path).ok();
    let options = p4_compiler::Options::default();
    let output = p4_compiler::compile(&path.display().to_string(), text, &provider, &options);
    let (Some(json), Some(p4info)) = (output.bmv2_json, output.p4info) else {
        return Err(output
            .diagnostics
            .iter()
            .map(p4_compiler::Diagnostic::render)
            .collect());
    };
    let json = json.to_json().map_err(|error| error.to_string())?;
    Ok((p4info, json))
}

/// Compiles a program, and returns P4Info and BMv2 JSON for P4Runtime.
///
/// # Panics
/// If the program cannot be read or compiled.
#[expect(clippy::panic, reason = "a test's set-up")]
pub fn pipeline(path: &Path) -> (p4_compiler::P4Info, Vec<u8>) {
    let compiled = std::fs::read_to_string(path)
        .map_err(|error| error.to_string())
        .and_then(|text| compile(path, &text));
    compiled
        .map(|(p4info, json)| (p4info, json.into_bytes()))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Compiles and loads a program; the path is relative to the repository's root.
///
/// # Panics
/// If the program cannot be read, compiled or loaded.
#[expect(clippy::panic, reason = "a test's set-up")]
pub fn program_at(path: &str) -> dataplane::Program {
    let path = root().join(path);
    let program = std::fs::read_to_string(&path)
        .map_err(|error| error.to_string())
        .and_then(|text| bmv2_json(&path, &text))
        .and_then(|json| dataplane::Program::from_json_str(&json).map_err(|e| e.to_string()));
    program.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
