//! How a tree compiles its own programs: `-I` and `-D` in its Makefiles, CMake lists and scripts, and
//! where in it an included file is.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::find;
use crate::failure::Failure;

/// Larger files are no Makefiles.
const SCRIPT_BYTES_MAX: u64 = 1 << 20;
/// Sets of macros that are tried for one program.
const DEFINES_MAX: usize = 6;

/// What one command of a Makefile or script gives its compiler.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Flags {
    include_dirs: Vec<PathBuf>,
    defines: Vec<(String, String)>,
    /// The line speaks of BMv2, so its macros are tried first.
    is_bmv2: bool,
}

/// A tree, read once.
pub struct Settings {
    root: PathBuf,
    /// Commands with flags, by the folder of the file that has them.
    flags: BTreeMap<PathBuf, Vec<Flags>>,
    /// Every folder.
    folders: BTreeSet<PathBuf>,
}

/// A set of macros.
pub type Defines = Vec<(String, String)>;

impl Settings {
    /// # Errors
    /// A folder cannot be read.
    pub fn read(root: &Path) -> Result<Self, Failure> {
        let files = find::files(root)?;
        let mut flags: BTreeMap<PathBuf, Vec<Flags>> = BTreeMap::new();
        for path in files.iter().filter(|path| is_script(path)) {
            let is_small = fs::metadata(path).is_ok_and(|it| it.len() <= SCRIPT_BYTES_MAX);
            let (true, Some(folder), Ok(bytes)) = (is_small, path.parent(), fs::read(path)) else {
                continue;
            };
            let text = String::from_utf8_lossy(&bytes);
            let found = commands(&text).filter_map(|line| flags_of(folder, &line));
            flags.entry(folder.to_owned()).or_default().extend(found);
        }
        let above = files.iter().flat_map(|path| path.ancestors().skip(1));
        let folders = above.filter(|folder| folder.starts_with(root));
        Ok(Self {
            root: root.to_owned(),
            flags,
            folders: folders.map(Path::to_owned).collect(),
        })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Commands beside a program and above it, the nearest first.
    fn near(&self, program: &Path) -> impl Iterator<Item = &Flags> {
        let root = self.root.clone();
        let above = program.ancestors().skip(1).map(Path::to_owned);
        let inside = above.take_while(move |folder| folder.starts_with(&root));
        let inside: Vec<PathBuf> = inside.collect();
        inside
            .into_iter()
            .filter_map(|folder| self.flags.get(&folder))
            .flatten()
    }

    /// The folders that Makefiles and scripts beside and above a program name, the nearest first.
    pub fn include_dirs(&self, program: &Path) -> Vec<PathBuf> {
        let mut dirs: Vec<PathBuf> = Vec::new();
        for dir in self.near(program).flat_map(|flags| &flags.include_dirs) {
            if !dirs.contains(dir) {
                dirs.push(dir.clone());
            }
        }
        dirs
    }

    /// The sets of macros that commands beside and above a program give, those for BMv2 first, and
    /// at the end none.
    pub fn defines(&self, program: &Path) -> Vec<Defines> {
        let mut sets: Vec<(bool, Defines)> = Vec::new();
        for flags in self.near(program).filter(|it| !it.defines.is_empty()) {
            if !sets.iter().any(|(_, set)| *set == flags.defines) {
                sets.push((flags.is_bmv2, flags.defines.clone()));
            }
        }
        sets.sort_by_key(|(is_bmv2, _)| !is_bmv2);
        sets.truncate(DEFINES_MAX);
        let sets = sets.into_iter().map(|(_, set)| set);
        sets.chain([Vec::new()]).collect()
    }

    /// The folder of the tree from which a missing file would be found: of several the one that has
    /// most folders in common with the program, then the one nearest to the root.
    pub fn folder_with(&self, program: &Path, include: &str) -> Option<PathBuf> {
        let common = |folder: &Path| {
            let pairs = folder.components().zip(program.components());
            pairs.take_while(|(ours, theirs)| ours == theirs).count()
        };
        let holds = self
            .folders
            .iter()
            .filter(|dir| dir.join(include).is_file());
        let best = holds.max_by_key(|folder| {
            let depth = folder.components().count();
            (common(folder), Reverse(depth))
        });
        best.cloned()
    }
}

/// Whether a file may say how programs are compiled.
fn is_script(path: &Path) -> bool {
    let name = path.file_name().and_then(|it| it.to_str()).unwrap_or("");
    let extension = path.extension().and_then(|it| it.to_str()).unwrap_or("");
    name.to_ascii_lowercase().contains("makefile")
        || matches!(
            name,
            "CMakeLists.txt" | "p4app.json" | "BUILD" | "BUILD.bazel"
        )
        || matches!(extension, "mk" | "sh" | "cmake" | "py" | "bzl")
}

/// Lines, those that end in a backslash joined with the next.
fn commands(text: &str) -> impl Iterator<Item = String> {
    let mut lines = text.lines();
    std::iter::from_fn(move || {
        let mut command = lines.next()?.to_owned();
        while let Some(begun) = command.strip_suffix('\\') {
            command = begun.to_owned() + " " + lines.next().unwrap_or("");
        }
        Some(command)
    })
}

/// The `-I` and `-D` of a command; none where it has none.
fn flags_of(folder: &Path, line: &str) -> Option<Flags> {
    if !line.contains("-I") && !line.contains("-D") {
        return None;
    }
    let is_between = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | '[' | ']');
    let mut words = line.split(is_between).filter(|word| !word.is_empty());
    let mut flags = Flags {
        include_dirs: Vec::new(),
        defines: Vec::new(),
        is_bmv2: ["bmv2", "bm2", "BMV2", "v1model", "V1MODEL"]
            .iter()
            .any(|word| line.contains(word)),
    };
    while let Some(word) = words.next() {
        // The value stands behind the letter or is the next word.
        let mut value = |letter: &str| {
            let rest = word.strip_prefix(letter)?;
            (!rest.is_empty()).then_some(rest).or_else(|| words.next())
        };
        if let Some(dir) = value("-I") {
            flags.include_dirs.extend(folder_named(folder, dir));
        } else if let Some(define) = value("-D") {
            flags
                .defines
                .extend(crate::compiler::parse_define(define).ok());
        }
    }
    let is_empty = flags.include_dirs.is_empty() && flags.defines.is_empty();
    (!is_empty).then_some(flags)
}

/// A folder as a Makefile writes it; none where it has a variable that only make knows, or where it
/// is not there.
fn folder_named(folder: &Path, written: &str) -> Option<PathBuf> {
    let mut written = written.to_owned();
    for here in [
        "$(CURDIR)",
        "${CURDIR}",
        "$(PWD)",
        "${PWD}",
        "$PWD",
        "${CMAKE_CURRENT_SOURCE_DIR}",
    ] {
        written = written.replace(here, ".");
    }
    let dir = folder.join(written);
    dir.is_dir().then_some(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        }
        root
    }

    #[test]
    fn folders_and_macros_are_those_of_commands_beside_and_above() {
        let root = tree(&[
            (
                "Makefile",
                "all:\n\tp4c-bm2-ss -I inc \\\n\t -DTARGET_BMV2 -DN=3 a.p4\n",
            ),
            ("p4/build.sh", "p4c -I$PWD/own -I missing -D OTHER x.p4"),
            ("elsewhere/Makefile", "p4c -I. -DELSEWHERE"),
            ("inc/x.p4", ""),
            ("p4/own/y.p4", ""),
        ]);
        let settings = Settings::read(root.path()).expect("read");
        let program = root.path().join("p4/a.p4");
        let dirs = settings.include_dirs(&program);
        let dirs: Vec<_> = dirs
            .iter()
            .map(|dir| super::super::below(root.path(), dir))
            .collect();
        assert_eq!(dirs, ["p4/./own", "inc"]);
        let defines = |pairs: &[(&str, &str)]| -> Defines {
            let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            pairs.iter().map(own).collect()
        };
        assert_eq!(
            settings.defines(&program),
            [
                defines(&[("TARGET_BMV2", "1"), ("N", "3")]),
                defines(&[("OTHER", "1")]),
                defines(&[])
            ]
        );
    }

    #[test]
    fn a_missing_file_is_found_in_the_folder_nearest_to_the_program() {
        let root = tree(&[
            ("a/include/headers.p4", ""),
            ("b/include/headers.p4", ""),
            ("b/p4/main.p4", ""),
        ]);
        let settings = Settings::read(root.path()).expect("read");
        let program = root.path().join("b/p4/main.p4");
        let folder = settings.folder_with(&program, "include/headers.p4");
        assert_eq!(folder, Some(root.path().join("b")));
        let folder = settings.folder_with(&program, "../include/headers.p4");
        assert_eq!(folder, Some(root.path().join("b/p4")));
        assert_eq!(settings.folder_with(&program, "nowhere.p4"), None);
    }
}
