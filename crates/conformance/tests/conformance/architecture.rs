//! Checks dependencies: ARCHITECTURE.md's table of crates against every `Cargo.toml`, and the layers of the data
//! plane, as counted by `scripts/structure`; and that no module is a file of another place.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Command,
};

use testkit::repository::root;

/// The crates of ARCHITECTURE.md's table, each with the workspace's crates that it may use.
fn allowed() -> BTreeMap<String, Vec<String>> {
    let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let rows = page
        .lines()
        .skip_while(|line| !line.starts_with("| crate |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let mut cells = row.split('|').map(str::trim);
        let name = cells.nth(1).unwrap().trim_matches('`').to_owned();
        let uses = cells.nth(1).unwrap().split(", ");
        let uses = uses.filter(|used| !used.is_empty()).map(str::to_owned);
        (name, uses.collect::<Vec<_>>())
    })
    .collect()
}

/// A package's folder in `crates`, by which the table names it.
fn folder(package: &str) -> &str {
    match package {
        "reprise" => "cli",
        other => other.strip_prefix("reprise-").unwrap_or(other),
    }
}

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
    let allowed = allowed();
    let Some(mine) = allowed.get(folder(name)) else {
        return vec![format!("crate \"{name}\" is not in the table")];
    };
    dependencies
        .iter()
        .map(|dependency| folder(dependency))
        .filter(|dependency| allowed.contains_key(*dependency))
        .filter(|dependency| !mine.iter().any(|used| used == dependency))
        .map(|dependency| format!("\"{name}\" may not depend on \"{dependency}\""))
        .collect()
}

#[test]
fn every_crate_depends_only_on_what_is_below_it() {
    let crates = root().join("crates");
    let mut wrong = Vec::new();
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(crates).unwrap() {
        let manifest = entry.unwrap().path().join("Cargo.toml");
        if let Ok(text) = std::fs::read_to_string(&manifest) {
            let (name, dependencies) = read(&text);
            wrong.extend(wrong_edges(&name, &dependencies));
            found.insert(folder(&name).to_owned());
        }
    }
    assert_eq!(found, allowed().into_keys().collect::<BTreeSet<_>>());
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
    let crates = root().join("crates");
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
    let folder = root().join("crates/dataplane");
    let script = root().join("scripts/structure");
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
    for line in text.lines().map(str::trim) {
        let is_module = line.starts_with("mod ") || line.starts_with("pub");
        let Some((_, name)) = line
            .strip_suffix(';')
            .filter(|_| is_module)
            .and_then(|line| line.rsplit_once("mod "))
        else {
            continue;
        };
        let own = folder.join(name);
        let mut usual = [own.with_extension("rs"), own.join("mod.rs")].into_iter();
        let found = usual.find(|path| path.exists()).unwrap();
        files.extend(with_modules(&found, &own));
    }
    files
}

/// The files below a folder with this end of their names.
fn below(folder: &Path, end: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => below(&path, end),
            false if path.to_str().unwrap().ends_with(end) => vec![path],
            false => Vec::new(),
        })
        .collect()
}

#[test]
fn a_target_without_tests_has_none_that_would_never_run() {
    let crates = root().join("crates");
    let mut n_targets = 0;
    for manifest in below(&crates, "Cargo.toml") {
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

#[test]
fn every_module_is_where_its_name_says() {
    let sources = below(&root().join("crates"), ".rs");
    assert!(sources.len() > 500, "{}", sources.len());
    let has_path = |source: &&PathBuf| {
        let text = std::fs::read_to_string(source).unwrap();
        let mut lines = text.lines();
        lines.any(|line| line.trim_start().starts_with("#[path"))
    };
    let wrong: Vec<&PathBuf> = sources.iter().filter(has_path).collect();
    assert!(
        wrong.is_empty(),
        "a module by #[path], expected one of its own folder or of crates/testkit: {wrong:#?}"
    );
}
