//! Checks dependencies: ARCHITECTURE.md's arrows between crates against every `Cargo.toml`, and the layers of the data
//! plane, as counted by `scripts/structure`.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

/// Crates of the workspace, and which of the workspace's crates each may depend on.
const ALLOWED: &[(&str, &[&str])] = &[
    ("aom", &[]),
    ("aom-config", &["aom"]),
    ("aom-member", &["aom", "aom-config"]),
    ("aom-c", &["aom", "aom-member"]),
    (
        "aom-service",
        &[
            "aom",
            "aom-config",
            "p4-compiler",
            "p4runtime-client",
            "p4runtime-proto",
            "stream-socket",
        ],
    ),
    (
        "aom-bench",
        &[
            "aom",
            "conformance",
            "dataplane",
            "dataplane-jit",
            "packet-io",
            "reprise-signer",
        ],
    ),
    (
        "reprise-signer",
        &[
            "aom",
            "command-line",
            "packet-io",
            "printable",
            "privileges",
            "secret-memory",
        ],
    ),
    ("bmv2-json", &[]),
    ("p4runtime-proto", &[]),
    (
        "p4runtime-client",
        &[
            "names",
            "p4runtime-proto",
            "printable",
            "stream-socket",
            "tls",
        ],
    ),
    ("names", &[]),
    ("frame", &[]),
    ("tls", &[]),
    ("whole-file", &[]),
    ("command-line", &[]),
    ("secret-memory", &[]),
    ("printable", &[]),
    ("privileges", &[]),
    ("stream-socket", &[]),
    ("bpf", &[]),
    ("packet-io", &["bpf", "frame"]),
    ("p4-compiler", &["bmv2-json", "names", "p4runtime-proto"]),
    ("dataplane", &["bmv2-json", "frame", "printable"]),
    ("dataplane-jit", &["bmv2-json", "dataplane"]),
    ("dataplane-xdp", &["bpf", "dataplane", "packet-io"]),
    ("control", &["dataplane"]),
    ("state-store", &["control", "dataplane"]),
    (
        "p4runtime-server",
        &[
            "bmv2-json",
            "control",
            "dataplane",
            "p4runtime-proto",
            "stream-socket",
            "tls",
        ],
    ),
    ("bmv2-thrift", &[]),
    (
        "thrift-server",
        &["bmv2-thrift", "control", "dataplane", "stream-socket"],
    ),
    (
        "simple-switch-cli",
        &[
            "bmv2-json",
            "bmv2-thrift",
            "command-line",
            "printable",
            "whole-file",
        ],
    ),
    ("gnmi-proto", &[]),
    ("gnmi-server", &["control", "dataplane", "gnmi-proto"]),
    ("conference", &["p4runtime-client", "p4runtime-proto"]),
    (
        "reprise-switch",
        &[
            "bmv2-json",
            "command-line",
            "control",
            "dataplane",
            "dataplane-jit",
            "dataplane-xdp",
            "gnmi-server",
            "names",
            "p4-compiler",
            "p4runtime-proto",
            "p4runtime-server",
            "packet-io",
            "printable",
            "privileges",
            "state-store",
            "stream-socket",
            "thrift-server",
            "tls",
            "whole-file",
        ],
    ),
    ("stf", &["dataplane", "names", "p4-compiler", "whole-file"]),
    ("lockstep", &["dataplane", "dataplane-jit"]),
    (
        "reprise",
        &[
            "aom-config",
            "aom-service",
            "command-line",
            "conference",
            "control",
            "dataplane",
            "dataplane-jit",
            "lockstep",
            "names",
            "p4-compiler",
            "p4runtime-client",
            "p4runtime-proto",
            "p4runtime-server",
            "packet-io",
            "printable",
            "secret-memory",
            "stf",
            "whole-file",
        ],
    ),
    (
        "conformance",
        &[
            "aom",
            "bmv2-json",
            "conference",
            "control",
            "dataplane",
            "dataplane-jit",
            "lockstep",
            "p4-compiler",
            "p4runtime-client",
            "p4runtime-proto",
            "p4runtime-server",
            "stf",
        ],
    ),
    (
        "control-bench",
        &[
            "p4-compiler",
            "p4runtime-client",
            "p4runtime-proto",
            "packet-io",
            "reprise-switch",
            "bmv2-thrift",
        ],
    ),
    (
        "pipeline-bench",
        &["conference", "conformance", "dataplane", "dataplane-jit"],
    ),
];

/// A crate's name and its `[dependencies]`; development dependencies are free.
fn read(manifest: &str) -> (String, Vec<String>) {
    let mut section = "";
    let mut name = String::new();
    let mut dependencies = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
        } else if let Some((key, value)) = line.split_once('=') {
            match section {
                "[package]" if key.trim() == "name" => {
                    value.trim().trim_matches('"').clone_into(&mut name)
                }
                "[dependencies]" | "[build-dependencies]" => {
                    let key = key.trim().split('.').next().unwrap_or_default();
                    dependencies.push(key.to_owned());
                }
                _ => {}
            }
        }
    }
    (name, dependencies)
}

fn wrong_edges(name: &str, dependencies: &[String]) -> Vec<String> {
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    let Some(mine) = allowed.get(name) else {
        return vec![format!("crate \"{name}\" is not in the list")];
    };
    dependencies
        .iter()
        .filter(|dependency| allowed.contains_key(dependency.as_str()))
        .filter(|dependency| !mine.contains(&dependency.as_str()))
        .map(|dependency| format!("\"{name}\" may not depend on \"{dependency}\""))
        .collect()
}

#[test]
fn every_crate_depends_only_on_what_is_below_it() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut wrong = Vec::new();
    let mut n_crates = 0;
    for entry in std::fs::read_dir(crates).unwrap() {
        let manifest = entry.unwrap().path().join("Cargo.toml");
        if let Ok(text) = std::fs::read_to_string(&manifest) {
            let (name, dependencies) = read(&text);
            wrong.extend(wrong_edges(&name, &dependencies));
            n_crates += 1;
        }
    }
    assert!(n_crates >= 9, "found {n_crates} crates only");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Words that reveal a protocol, in the name of a crate or in a line of source.
const PROTOCOLS: [&str; 5] = ["p4runtime", "gnmi", "prost", "tonic", "grpc"];

fn speaks_of_a_protocol(text: &str) -> Option<&str> {
    let speaks = |line: &&str| {
        let line = line.to_lowercase();
        PROTOCOLS.iter().any(|protocol| line.contains(protocol))
    };
    text.lines().find(speaks)
}

#[test]
fn the_control_plane_and_the_event_loops_know_no_protocol() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (_, dependencies) =
        read(&std::fs::read_to_string(crates.join("control/Cargo.toml")).unwrap());
    assert_eq!(speaks_of_a_protocol(&dependencies.join("\n")), None);
    for file in ["event_loop.rs", "handle.rs", "workers.rs"] {
        let text = std::fs::read_to_string(crates.join("switch/src").join(file)).unwrap();
        assert_eq!(speaks_of_a_protocol(&text), None, "{file}");
    }
    let services = std::fs::read_to_string(crates.join("switch/src/services.rs")).unwrap();
    assert!(
        speaks_of_a_protocol(&services).is_some(),
        "it would be seen"
    );
}

#[test]
fn a_forbidden_edge_is_seen() {
    let manifest = "[package]\nname = \"packet-io\"\n[dependencies]\ndataplane.workspace = true\n\
        libc.workspace = true\n[dev-dependencies]\nconference.workspace = true\n";
    let (name, dependencies) = read(manifest);
    let wrong = wrong_edges(&name, &dependencies);
    assert_eq!(wrong, ["\"packet-io\" may not depend on \"dataplane\""]);
}

/// Maximum number of files in a dependency cycle.
const CIRCLE_FILES_MAX: usize = 3;

/// The output of `scripts/structure` for the data plane; the script defines the layers (`LAYERS`).
fn structure() -> serde_json::Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder: PathBuf = root.join("crates/dataplane");
    let script = root.join("scripts/structure");
    let done = Command::new(script)
        .arg("--json")
        .arg(folder)
        .output()
        .unwrap();
    let problem = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "scripts/structure: {problem}");
    let crates: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    crates[0].clone()
}

#[test]
fn in_the_data_plane_nothing_names_what_is_above_it() {
    let found = structure();
    assert!(found["arrows"].as_u64().unwrap() > 20, "{found}");
    let upward = found["upward_files"].as_array().unwrap();
    assert!(upward.is_empty(), "{upward:#?}");
}

#[test]
fn in_the_data_plane_no_circle_of_files_is_large() {
    let circles = structure()["circles"].clone();
    let largest = circles[0].as_array().map_or(0, Vec::len);
    assert!(largest > 0, "circles of two files are expected");
    assert!(largest <= CIRCLE_FILES_MAX, "{circles:#}");
}

/// The files of the targets, `[lib]` and `[[bin]]`, that a manifest declares as untested.
fn untested_targets(manifest: &Path) -> Vec<Vec<PathBuf>> {
    let text = std::fs::read_to_string(manifest).unwrap();
    let folder = manifest.parent().unwrap();
    let untested = text
        .split("\n[")
        .filter(|part| part.lines().any(|line| line == "test = false"));
    untested
        .map(|part| {
            let path = part.lines().find_map(|line| line.strip_prefix("path = "));
            let path = path.map_or("src/lib.rs", |path| path.trim_matches('"'));
            let root = folder.join(path);
            let beside = root.parent().unwrap();
            with_modules(&root, beside)
        })
        .collect()
}

/// A Rust file and the files of its modules, which are in `folder`.
fn with_modules(file: &Path, folder: &Path) -> Vec<PathBuf> {
    let text = std::fs::read_to_string(file).unwrap();
    let mut files = vec![file.to_owned()];
    let mut said_path = None;
    for line in text.lines().map(str::trim) {
        if let Some(path) = line.strip_prefix("#[path = \"") {
            said_path = path.strip_suffix("\"]");
        }
        let is_module = line.starts_with("mod ") || line.starts_with("pub");
        let Some((_, name)) = line
            .strip_suffix(';')
            .filter(|_| is_module)
            .and_then(|line| line.rsplit_once("mod "))
        else {
            continue;
        };
        let own = folder.join(name);
        let usual = [own.with_extension("rs"), own.join("mod.rs")];
        let found = match said_path.take() {
            Some(path) => file.with_file_name(path),
            None => usual.into_iter().find(|path| path.exists()).unwrap(),
        };
        files.extend(with_modules(&found, &own));
    }
    files
}

/// The manifests of all packages below a folder.
fn manifests(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let folders = entries.map(|entry| entry.unwrap().path());
    let below = folders.filter(|path| path.is_dir());
    let own = folder.join("Cargo.toml");
    let own = own.exists().then_some(own);
    own.into_iter()
        .chain(below.flat_map(|folder| manifests(&folder)))
        .collect()
}

#[test]
fn a_target_without_tests_has_none_that_would_never_run() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut n_targets = 0;
    for manifest in manifests(&crates) {
        for files in untested_targets(&manifest) {
            n_targets += 1;
            for file in files {
                let text = std::fs::read_to_string(&file).unwrap();
                let test = text.lines().find(|line| line.trim().ends_with("test]"));
                assert_eq!(
                    test,
                    None,
                    "{}: its target says test = false",
                    file.display()
                );
            }
        }
    }
    assert!(n_targets > 10, "{n_targets}");
}
