//! Generates the messages, clients and servers from their descriptors. The generated code has no comments. The `.proto`
//! files are the documentation, and the `.proto` files of P4Runtime belong to another project.

use std::error::Error;

use prost::Message;
use prost_types::FileDescriptorSet;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=descriptor.bin");
    let descriptors = FileDescriptorSet::decode(&*std::fs::read("descriptor.bin")?)?;
    let mut prost = tonic_prost_build::Config::new();
    prost.enable_type_names();
    prost.type_name_domain(["."], "type.googleapis.com");
    tonic_prost_build::configure()
        .codec_path("crate::wire::Codec")
        .disable_comments(["."])
        .compile_fds_with_config(descriptors, prost)?;
    Ok(())
}
