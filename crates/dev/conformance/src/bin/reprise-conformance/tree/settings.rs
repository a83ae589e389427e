//! Finds how a tree compiles its own programs (from `-I` and `-D` in its Makefiles, CMake lists and scripts), and where
//! the tree contains an included file.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use p4_compiler::Options;

use super::find;
use crate::failure::Failure;

/// Maximum size of a build script. A larger file is not read.
const SCRIPT_BYTES_MAX: u64 = 1 << 20;
const EXPANSIONS_MAX: usize = 16;
/// Words by which a command that compiles for BMv2 is recognised.
const BMV2: [&str; 5] = ["bmv2", "bm2", "BMV2", "v1model", "V1MODEL"];
/// Maximum number of macro sets to try for a program.
const DEFINES_MAX: usize = 6;

/// The compiler options in one command of a Makefile or script.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Flags {
    include_dirs: Vec<PathBuf>,
    defines: Vec<(String, String)>,
    /// Whether the command mentions BMv2. The macros of such a command are tried first.
    is_bmv2: bool,
}

pub struct Settings {
    root: PathBuf,
    /// Commands with flags, by the folder of the file that contains the command.
    flags: BTreeMap<PathBuf, Vec<Flags>>,
    folders: BTreeSet<PathBuf>,
    /// Files that other files include by a relative path.
    included: BTreeSet<PathBuf>,
}

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
            let variables = Variables::of(&text);
            let found = commands(&text).filter_map(|line| flags_of(folder, &line, &variables));
            flags.entry(folder.to_owned()).or_default().extend(found);
        }
        let sources = files.iter().filter(|path| find::is_p4(path));
        let included = sources.flat_map(|path| includes(path)).collect();
        let above = files.iter().flat_map(|path| path.ancestors().skip(1));
        let folders = above.filter(|folder| folder.starts_with(root));
        Ok(Self {
            root: root.to_owned(),
            flags,
            folders: folders.map(Path::to_owned).collect(),
            included,
        })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn is_included(&self, path: &Path) -> bool {
        self.included.contains(path)
    }

    /// Returns the commands in a program's folder and in the folders above, nearest first.
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

    /// Returns the include folders of Makefiles and scripts near a program, nearest first.
    pub fn include_dirs(&self, program: &Path) -> Vec<PathBuf> {
        let mut dirs: Vec<PathBuf> = Vec::new();
        for dir in self.near(program).flat_map(|flags| &flags.include_dirs) {
            if !dirs.contains(dir) {
                dirs.push(dir.clone());
            }
        }
        dirs
    }

    /// Returns the macro sets of commands near a program. The sets for BMv2 are first, and an empty set is last.
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

    /// Returns the folder in which a missing include would be found. Of several folders, the folder that shares the
    /// longest path with the program is chosen, then the folder nearest to the root.
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

/// Returns whether a file may contain commands that compile programs.
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

/// Returns the files that a file includes by a relative path.
fn includes(path: &Path) -> Vec<PathBuf> {
    let (Ok(bytes), Some(folder)) = (fs::read(path), path.parent()) else {
        return Vec::new();
    };
    let text = String::from_utf8_lossy(&bytes);
    let named = text.lines().filter_map(|line| {
        let directive = line.trim().strip_prefix('#')?.trim_start();
        let name = directive.strip_prefix("include")?.split('"').nth(1)?;
        Some(joined(folder, Path::new(name)))
    });
    named.filter(|included| included != path).collect()
}

/// Joins a path to a folder and resolves `.` and `..`.
fn joined(folder: &Path, path: &Path) -> PathBuf {
    let mut joined = folder.to_owned();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(joined.pop()),
            Component::Normal(name) => joined.push(name),
            _ => {}
        }
    }
    joined
}

/// Returns the lines of a text. A line that ends in a backslash is joined with the next line.
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

/// The assignments of a Makefile or script, with the last value of each name.
struct Variables(BTreeMap<String, String>);

impl Variables {
    fn of(text: &str) -> Self {
        let assigned = commands(text).filter_map(|line| {
            let line = line.trim().trim_start_matches("export ");
            let (name, value) = line.split_once('=')?;
            let name = name.trim_end_matches([' ', ':', '?', '+']);
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let is_name = !name.is_empty() && name.chars().all(is_word);
            let value = value.trim().trim_matches(['"', '\'']);
            is_name.then(|| (name.to_owned(), value.to_owned()))
        });
        let mut variables: BTreeMap<String, String> = assigned.collect();
        for here in ["CURDIR", "PWD", "CMAKE_CURRENT_SOURCE_DIR"] {
            variables.insert(here.to_owned(), ".".to_owned());
        }
        Self(variables)
    }

    /// Replaces `$NAME`, `${NAME}` and `$(NAME)`. Returns `None` if a value is unknown.
    fn expand(&self, word: &str) -> Option<String> {
        let mut word = word.to_owned();
        for _ in 0..EXPANSIONS_MAX {
            let Some(at) = word.find('$') else {
                return Some(word);
            };
            let rest = &word[at + 1..];
            let (name, len) = match rest.chars().next()? {
                '(' => (&rest[1..rest.find(')')?], rest.find(')')? + 1),
                '{' => (&rest[1..rest.find('}')?], rest.find('}')? + 1),
                _ => {
                    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
                    let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                    (&rest[..end], end)
                }
            };
            let value = self.0.get(name)?;
            word = format!("{}{value}{}", &word[..at], &rest[len..]);
        }
        None
    }
}

/// Returns the `-I` and `-D` of a command, or `None` if there are none. Values that only make or the shell knows are
/// left out, and so are folders that do not exist.
fn flags_of(folder: &Path, line: &str, variables: &Variables) -> Option<Flags> {
    let is_between = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | '[' | ']' | '=');
    let mut flags = Flags {
        include_dirs: Vec::new(),
        defines: Vec::new(),
        is_bmv2: BMV2.iter().any(|word| line.contains(word)),
    };
    let between = |at: &usize| line[..*at].ends_with(is_between);
    for (at, _) in line.match_indices("-I").filter(|(at, _)| between(at)) {
        let dir = word(&line[at + 2..]);
        let dir = variables.expand(dir).map(|dir| folder.join(dir));
        flags.include_dirs.extend(dir.filter(|dir| dir.is_dir()));
    }
    for (at, _) in line.match_indices("-D").filter(|(at, _)| between(at)) {
        let define = variables.expand(word(&line[at + 2..]));
        let define = define.and_then(|define| Options::parse_define(&define).ok());
        flags.defines.extend(define);
    }
    let is_empty = flags.include_dirs.is_empty() && flags.defines.is_empty();
    (!is_empty).then_some(flags)
}

/// Returns the value of an option, attached to the option or separated by a space.
fn word(rest: &str) -> &str {
    let is_between = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | ']' | ';');
    let rest = rest.trim_start_matches(is_between);
    rest.split(is_between).next().unwrap_or("")
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
                "M = 3\nall:\n\tp4c-bm2-ss -I inc \\\n\t -DTARGET_BMV2 -DN=$(M) -DX=$(UNKNOWN) a.p4\n",
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
