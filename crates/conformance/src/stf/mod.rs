//! STF, the "simple test format": a program's tables, frames in, frames expected.
//!
//! One command a line, `#` begins a comment. What p4c's STF has is written the same way here:
//!
//! ```text
//! add TABLE [PRIORITY] KEY:VALUE ... ACTION(PARAM:VALUE, ...)    a higher priority wins
//! setdefault TABLE ACTION(PARAM:VALUE, ...)
//! packet PORT HEX                  expect PORT [HEX]             expect in the order of a port
//! no_packet                        wait
//! mc_mgrp_create GROUP             mc_node_create RID PORT ...
//! mc_node_associate GROUP NODE     mirroring_add SESSION PORT
//! mirroring_add_mc SESSION GROUP   register_write NAME INDEX VALUE
//! check_counter NAME INDEX packets|bytes == NUMBER
//! ```
//!
//! Beyond it: `register_check NAME INDEX VALUE`, `mc_group GROUP PORT:RID ...` (replicas in this
//! order), `VALUE/PREFIX`, `VALUE&&&MASK`, `LOW..HIGH`. In expected bytes `*` is any digit, and
//! `$` at the end says that nothing follows. Names may leave out leading parts where the rest is
//! unique.

mod parse;
mod run;

use std::path::Path;

pub use parse::{Command, parse};
pub use run::{Failure, run};

/// Loads the program beside a test: `.json`, or `.p4` by way of the compiler.
///
/// # Errors
/// What could not be read, compiled or loaded.
pub fn program_beside(stf: &Path) -> Result<dataplane::Program, String> {
    let read = |path: &Path| {
        std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let p4 = stf.with_extension("p4");
    let path = if p4.exists() {
        p4
    } else {
        stf.with_extension("json")
    };
    let text = read(&path)?;
    let json = if path.extension().is_some_and(|extension| extension == "p4") {
        crate::compile::bmv2_json(&path, &text)?
    } else {
        text
    };
    dataplane::Program::from_json_str(&json).map_err(|error| format!("{}: {error}", path.display()))
}
