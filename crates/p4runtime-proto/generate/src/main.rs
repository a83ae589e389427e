//! Writes the Rust code and the descriptor set of `p4runtime-proto` from `.proto` files.
//!
//! Usage: `p4runtime-proto-generate OUT_DIR INCLUDE_DIR...`; `regenerate.sh` finds the folders.
//! Pure Rust: `protox` reads the `.proto` files, so no `protoc` is needed.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message;
use prost_types::FileDescriptorSet;

/// Entry points; what they import comes along.
const PROTO_FILES: [&str; 5] = [
    "p4/v1/p4runtime.proto",
    "p4/config/v1/p4info.proto",
    "google/rpc/status.proto",
    "google/rpc/code.proto",
    "reprise/v1/switch.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args_os().skip(1).map(PathBuf::from);
    let out_dir = args
        .next()
        .ok_or("expected OUT_DIR INCLUDE_DIR..., got no argument")?;
    let include_dirs: Vec<PathBuf> = args.collect();
    if include_dirs.is_empty() {
        return Err("expected at least one INCLUDE_DIR after OUT_DIR, got none".into());
    }

    let descriptors = protox::Compiler::new(include_dirs)?
        .include_imports(true)
        .include_source_info(false)
        .open_files(PROTO_FILES)?
        .file_descriptor_set();

    fs::create_dir_all(&out_dir)?;
    fs::write(out_dir.join("descriptor.bin"), descriptors.encode_to_vec())?;
    generate_code(descriptors, out_dir)
}

/// Code without comments: the `.proto` files are the documentation, and theirs are not ours.
fn generate_code(descriptors: FileDescriptorSet, out_dir: PathBuf) -> Result<(), Box<dyn Error>> {
    let mut prost = tonic_prost_build::Config::new();
    prost.enable_type_names();
    prost.type_name_domain(["."], "type.googleapis.com");
    tonic_prost_build::configure()
        .build_client(true)
        .build_server(true)
        .disable_comments(["."])
        .out_dir(out_dir)
        .compile_fds_with_config(descriptors, prost)?;
    Ok(())
}
