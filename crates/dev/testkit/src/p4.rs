//! Compiles programs from P4 texts.

use dataplane::Program;
use p4_compiler::{Options, bmv2_json};

#[track_caller]
pub fn json_of(text: &str) -> bmv2_json::Program {
    let load = |path: &str| std::fs::read_to_string(path).ok();
    let output = p4_compiler::compile("test.p4", text, &load, &Options::default());
    let json = output.bmv2_json;
    json.unwrap_or_else(|| panic!("{:?}", output.diagnostics))
}

#[track_caller]
pub fn program_of(text: &str) -> Program {
    Program::from_json(&json_of(text)).unwrap()
}
