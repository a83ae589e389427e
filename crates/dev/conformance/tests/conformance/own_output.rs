//! Tests that a controller can load every program of this repository: the server accepts the compiler's P4Info and BMv2
//! JSON together.

use std::path::PathBuf;

use conformance::compile::pipeline;
use p4runtime_proto::p4::v1::ForwardingPipelineConfig;
use testkit::repository::files;

fn programs(folder: &str) -> Vec<PathBuf> {
    let mut programs = files(folder, "p4");
    // Included files have no `main`.
    programs.retain(|path| std::fs::read_to_string(path).unwrap().contains("main;"));
    programs
}

fn refused(folder: &str) -> Vec<String> {
    let programs = programs(folder);
    assert!(!programs.is_empty(), "no program in {folder}");
    let check = |path: &PathBuf| {
        let (p4info, p4_device_config) = pipeline(path);
        let config = ForwardingPipelineConfig {
            p4info: Some(p4info),
            p4_device_config,
            cookie: None,
        };
        let error = p4runtime_server::check_pipeline(config).err()?;
        Some(format!("{}: {error}", path.display()))
    };
    programs.iter().filter_map(check).collect()
}

#[test]
fn the_server_takes_what_the_compiler_writes() {
    let folders = [
        "p4",
        "p4/bench",
        "testdata/compiler/ok",
        "testdata/compiler/nowarn",
        "testdata/compiler/warn",
        "testdata/stf",
        "testdata/realistic",
    ];
    let refused: Vec<String> = folders.into_iter().flat_map(refused).collect();
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}
