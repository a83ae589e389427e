//! Checks that crates depend only on crates in the rooms (groups of crates) that ARCHITECTURE.md's table of crates
//! allows. Files of the data plane may depend only on files of their own layer and of lower layers. Also checks that no
//! target with `test = false` contains tests, and that no module is included by `#[path]`.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use structure::{Crate, Layers, circles};
use testkit::repository::root;

/// The rooms (groups of crates) in ARCHITECTURE.md's table of crates, in the order of the table, and the folders of the
/// crates below `crates/`.
struct Table {
    rooms: Vec<String>,
    folders: BTreeSet<String>,
}

impl Table {
    fn read() -> Self {
        let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
        let rows = page
            .lines()
            .skip_while(|line| !line.starts_with("| `crates/` |"))
            .skip(2)
            .take_while(|line| line.starts_with('|'));
        let firsts: Vec<&str> = rows.filter_map(|row| row.split('|').nth(1)).collect();
        let within = |mark: &str| -> Vec<String> {
            let names = firsts.iter().filter_map(|cell| {
                let name = cell.trim().strip_prefix(mark)?.strip_suffix(mark)?;
                Some(name.to_owned())
            });
            names.collect()
        };
        Self {
            rooms: within("**"),
            folders: within("`").into_iter().collect(),
        }
    }

    fn level(&self, room: &str) -> usize {
        let found = self.rooms.iter().position(|it| it == room);
        found.unwrap_or_else(|| panic!("the room \"{room}\" is not in the table"))
    }
}

/// A crate: the name of its package, its folder below `crates/`, and its dependencies except dev-dependencies.
struct Member {
    name: String,
    folder: String,
    dependencies: Vec<String>,
}

impl Member {
    fn room(&self) -> &str {
        self.folder.split('/').next().unwrap()
    }
}

fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.is_dir()).collect()
}

fn members() -> Vec<Member> {
    let top = root().join("crates");
    let folders = folders_in(&top).into_iter().flat_map(|it| folders_in(&it));
    let read_one = |folder: PathBuf| {
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).ok()?;
        let (name, dependencies) = read(&manifest);
        let folder = folder.strip_prefix(&top).unwrap();
        Some(Member {
            name,
            folder: folder.display().to_string(),
            dependencies,
        })
    };
    folders.filter_map(read_one).collect()
}

/// Returns a crate's name, its `[dependencies]` and its `[build-dependencies]`. Dev-dependencies are not restricted.
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

/// For some crates, the rooms that the crate may not use although the order of the table's rooms would allow it.
const APART: [(&str, &[&str]); 7] = [
    // The compiler and the data plane have only the format BMv2 JSON in common.
    ("p4-compiler", &["dataplane", "ports"]),
    // Controllers know a switch only by P4Runtime.
    ("p4runtime-client", &["p4", "dataplane", "ports"]),
    ("conference", &["p4", "dataplane", "ports"]),
    ("aom-service", &["sfu", "p4", "dataplane", "ports"]),
    // Other people's programs link these crates to become members of an ordered group.
    ("aom", &["sfu", "control", "p4", "dataplane", "ports"]),
    (
        "aom-config",
        &["sfu", "control", "p4", "dataplane", "ports"],
    ),
    (
        "aom-member",
        &["sfu", "control", "p4", "dataplane", "ports"],
    ),
];

/// Returns a line for each dependency that a crate has and may not have.
fn wrong_edges(of: &Member, table: &Table, all: &[Member]) -> Vec<String> {
    let level = table.level(of.room());
    let apart = APART.iter().find(|(name, _)| *name == of.name);
    let apart = apart.map_or(&[][..], |(_, rooms)| rooms);
    let used = of.dependencies.iter();
    used.filter_map(|name| all.iter().find(|it| it.name == *name))
        .filter(|used| table.level(used.room()) > level || apart.contains(&used.room()))
        .map(|used| format!("{} may not use {}", of.folder, used.folder))
        .collect()
}

#[test]
fn every_crate_uses_only_rooms_above_its_own() {
    let (table, all) = (Table::read(), members());
    let found: BTreeSet<String> = all.iter().map(|it| it.folder.clone()).collect();
    assert_eq!(found, table.folders);
    let rooms: BTreeSet<&str> = all.iter().map(Member::room).collect();
    assert_eq!(rooms, table.rooms.iter().map(String::as_str).collect());
    let wrong: Vec<String> = all
        .iter()
        .flat_map(|it| wrong_edges(it, &table, &all))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (name, _) in APART {
        assert!(all.iter().any(|it| it.name == name), "{name}");
    }
}

#[test]
fn a_crate_has_the_name_of_its_folder() {
    for one in members() {
        let (room, folder) = one.folder.split_once('/').unwrap();
        let allowed = match folder {
            "core" => vec![room.to_owned()],
            "cli" => vec!["reprise".to_owned()],
            _ => vec![
                folder.to_owned(),
                format!("{room}-{folder}"),
                format!("reprise-{folder}"),
            ],
        };
        assert!(allowed.contains(&one.name), "{}: {}", one.folder, one.name);
    }
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
        read(&std::fs::read_to_string(crates.join("control/core/Cargo.toml")).unwrap());
    assert_eq!(speaks_of_a_protocol(&dependencies.join("\n")), None);
    for file in ["event_loop.rs", "handle.rs", "workers.rs"] {
        let text = std::fs::read_to_string(crates.join("bin/switch/src").join(file)).unwrap();
        assert_eq!(speaks_of_a_protocol(&text), None, "{file}");
    }
    let services = std::fs::read_to_string(crates.join("bin/switch/src/services.rs")).unwrap();
    assert!(
        speaks_of_a_protocol(&services).is_some(),
        "it would be seen"
    );
}

#[test]
fn a_forbidden_edge_is_seen() {
    let manifest = "[package]\nname = \"packet-io\"\n[dependencies]\nbpf.workspace = true\ndataplane.workspace = true\n\
        libc.workspace = true\n[dev-dependencies]\nconference.workspace = true\n";
    let (name, dependencies) = read(manifest);
    let mut packet_io = Member {
        name,
        folder: "ports/packet-io".to_owned(),
        dependencies,
    };
    let (table, all) = (Table::read(), members());
    let wrong = wrong_edges(&packet_io, &table, &all);
    assert_eq!(wrong, ["ports/packet-io may not use dataplane/core"]);
    // Both dependencies are in rooms above `sfu`, but `APART` forbids these rooms to `conference`.
    packet_io.name = "conference".to_owned();
    packet_io.folder = "sfu/conference".to_owned();
    assert_eq!(wrong_edges(&packet_io, &table, &all).len(), 2);
}

/// Maximum number of files in a dependency cycle.
const CIRCLE_FILES_MAX: usize = 3;

#[test]
fn in_the_data_plane_nothing_names_what_is_above_it() {
    let folder = root().join("crates/dataplane/core");
    let of = Crate::read(&folder).unwrap();
    let arrows = of.arrows();
    assert!(arrows.len() > 100, "{}", arrows.len());
    let upward = Layers::read(&folder, &of).unwrap().upward(&arrows);
    assert!(upward.is_empty(), "{upward:#?}");
}

#[test]
fn in_the_data_plane_no_circle_of_files_is_large() {
    let of = Crate::read(&root().join("crates/dataplane/core")).unwrap();
    let arrows = of.arrows();
    let circles = circles(&arrows);
    let largest = circles.first().map_or(0, BTreeSet::len);
    assert!(largest > 0, "circles of two files are expected");
    assert!(largest <= CIRCLE_FILES_MAX, "{circles:#?}");
}

/// Returns the files of each `[lib]` or `[[bin]]` target for which a manifest says `test = false`.
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

/// Returns a Rust file and the files of all modules below it. The file's own modules are in `folder`.
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

/// Returns the files below a folder whose names end with `end`.
fn below(folder: &Path, end: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| {
            if path.is_dir() {
                below(&path, end)
            } else if path.to_str().unwrap().ends_with(end) {
                vec![path]
            } else {
                Vec::new()
            }
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
        "a module by #[path], expected one of its own folder or of crates/dev/testkit: {wrong:#?}"
    );
}
