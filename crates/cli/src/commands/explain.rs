//! `reprise explain`: what a code of the compiler means.

use p4_compiler::explain::{explain, explanations};

use crate::args::Global;
use crate::failure::Failure;
use crate::output;

/// Prints one explanation, or the list of all codes.
pub fn run(global: &Global, code: Option<&str>) -> Result<(), Failure> {
    let Some(code) = code else {
        for found in explanations() {
            output::text(format!("{}  {}", found.code, found.title));
        }
        return Ok(());
    };
    let Some(found) = explain(code) else {
        return Err(Failure::new(format!(
            "{code} is not a code of the compiler: `reprise explain` lists them"
        )));
    };
    if global.json {
        output::json(&serde_json::json!({
            "code": found.code,
            "title": found.title,
            "text": found.text,
        }));
    } else {
        output::text(found.render().trim_end());
    }
    Ok(())
}
