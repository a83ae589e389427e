//! Writes the Rust code of `p4runtime-proto`, with its descriptor set, or of `gnmi-proto` from `.proto` files.
//!
//! Usage: `p4runtime-proto-generate p4runtime|gnmi OUT_DIR INCLUDE_DIR...`; `regenerate.sh` finds the folders.
//! Pure Rust: `protox` reads the `.proto` files, so no `protoc` is needed.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message;
use prost_types::FileDescriptorSet;

/// What a crate is generated from.
struct Protocol {
    /// Entry points; what they import comes along.
    files: &'static [&'static str],
    /// Whether text and JSON are made of its messages, for which their descriptors are needed.
    is_described: bool,
    /// How messages are written and read, where not by `tonic-prost`.
    codec: Option<&'static str>,
}

const P4RUNTIME: Protocol = Protocol {
    files: &[
        "p4/v1/p4runtime.proto",
        "p4/config/v1/p4info.proto",
        "google/rpc/status.proto",
        "google/rpc/code.proto",
        "reprise/v1/switch.proto",
    ],
    is_described: true,
    codec: Some("crate::wire::Codec"),
};

const GNMI: Protocol = Protocol {
    files: &["gnmi1/gnmi.proto"],
    is_described: false,
    codec: None,
};

const USAGE: &str = "expected p4runtime|gnmi OUT_DIR INCLUDE_DIR...";

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args_os().skip(1);
    let name = args.next().ok_or(USAGE)?;
    let protocol = match name.to_str() {
        Some("p4runtime") => P4RUNTIME,
        Some("gnmi") => GNMI,
        _ => return Err(format!("{USAGE}, got {name:?} first").into()),
    };
    let mut args = args.map(PathBuf::from);
    let out_dir = args.next().ok_or(USAGE)?;
    let include_dirs: Vec<PathBuf> = args.collect();
    if include_dirs.is_empty() {
        return Err(format!("{USAGE}, got no INCLUDE_DIR").into());
    }

    let descriptors = protox::Compiler::new(include_dirs)?
        .include_imports(true)
        .include_source_info(false)
        .open_files(protocol.files)?
        .file_descriptor_set();

    fs::create_dir_all(&out_dir)?;
    if protocol.is_described {
        fs::write(out_dir.join("descriptor.bin"), descriptors.encode_to_vec())?;
    }
    generate_code(descriptors, protocol.codec, out_dir)
}

/// Code without comments: the `.proto` files are the documentation, and theirs are not ours.
fn generate_code(
    descriptors: FileDescriptorSet,
    codec: Option<&str>,
    out_dir: PathBuf,
) -> Result<(), Box<dyn Error>> {
    let mut prost = tonic_prost_build::Config::new();
    prost.enable_type_names();
    prost.type_name_domain(["."], "type.googleapis.com");
    let mut tonic = tonic_prost_build::configure();
    if let Some(codec) = codec {
        tonic = tonic.codec_path(codec);
    }
    tonic
        .build_client(true)
        .build_server(true)
        .disable_comments(["."])
        .out_dir(out_dir)
        .compile_fds_with_config(descriptors, prost)?;
    Ok(())
}
