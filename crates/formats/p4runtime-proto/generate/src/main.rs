//! Writes `descriptor.bin` of `p4runtime-proto` or of `gnmi-proto` from `.proto` files.
//!
//! Usage: `p4runtime-proto-generate p4runtime|gnmi FILE INCLUDE_DIR...`; `regenerate.sh` finds the folders.
//! Pure Rust: `protox` reads the `.proto` files, so no `protoc` is needed.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message;

/// The `.proto` files to read. The files that they import are included.
const P4RUNTIME: &[&str] = &[
    "p4/v1/p4runtime.proto",
    "p4/config/v1/p4info.proto",
    "google/rpc/status.proto",
    "google/rpc/code.proto",
    "reprise/v1/switch.proto",
];

const GNMI: &[&str] = &["gnmi1/gnmi.proto"];

const USAGE: &str = "expected p4runtime|gnmi FILE INCLUDE_DIR...";

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args_os().skip(1);
    let name = args.next().ok_or(USAGE)?;
    let files = match name.to_str() {
        Some("p4runtime") => P4RUNTIME,
        Some("gnmi") => GNMI,
        _ => return Err(format!("{USAGE}, got {name:?} first").into()),
    };
    let mut args = args.map(PathBuf::from);
    let file = args.next().ok_or(USAGE)?;
    let descriptors = protox::Compiler::new(args)?
        .include_imports(true)
        .include_source_info(false)
        .open_files(files)?
        .file_descriptor_set();
    fs::write(file, descriptors.encode_to_vec())?;
    Ok(())
}
