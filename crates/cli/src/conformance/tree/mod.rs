//! Strangers' programs: every P4_16 program below a folder, through the compiler, over P4Runtime into
//! a switch, and random packets through both engines.
//!
//! `find` lists the files that may be programs, `settings` how the tree itself compiles them, `source`
//! classifies a file and compiles it, `entries` fills its tables over P4Runtime, `run` runs one program from
//! end to end in a worker process, `report` counts.

mod entries;
mod find;
mod report;
mod run;
mod settings;
mod source;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Answer, Ended};

pub use find::programs;
pub use report::Report;
pub use run::Trees;

/// The settings for every program of a tree.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// The folder.
    pub root: PathBuf,
    /// Folders for `#include` before those that the tree names.
    pub include_dirs: Vec<PathBuf>,
    /// Macros besides those that the tree names.
    pub defines: Vec<(String, String)>,
    /// Compiled with `-O 1`.
    pub optimise: bool,
    /// Random packets.
    pub packets: usize,
    /// Where the random numbers begin.
    pub seed: u64,
}

/// A file that may be a program, as a worker is given it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Subject {
    /// Its path below the root.
    pub name: String,
    pub plan: Plan,
}

impl Subject {
    pub fn path(&self) -> PathBuf {
        self.plan.root.join(&self.name)
    }
}

/// The result of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Verdict {
    /// Not a program: it has no `main`, or another file includes it and it does not compile alone.
    Part,
    /// P4_14.
    P4_14,
    /// A program for another architecture than v1model: its file or its package.
    OtherArchitecture { architecture: String },
    /// An included file is nowhere in the tree.
    MissingInclude { message: String },
    /// The compiler refuses it; the reader must judge why.
    Refused { code: String, message: String },
    /// It calls an extern that simple_switch has not.
    OwnExtern { message: String },
    /// Loaded, filled and run, and nothing is wrong.
    Passed(Ran),
    /// The switch refuses the compiler's output.
    PairRefused { message: String },
    /// The switch refuses an entry that its P4Info allows.
    EntryRefused { message: String },
    /// Engines differ.
    Differs { message: String },
    /// The worker panicked, ended or ran out of memory.
    Crashed { message: String },
    /// Not done in time.
    Late { message: String },
}

/// The input of a program that runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ran {
    /// Tables with a key, and those that were given entries over P4Runtime.
    pub tables: usize,
    pub filled: usize,
    /// Entries that were written over P4Runtime.
    pub entries: usize,
    /// Random packets, and the frames that left.
    pub packets: u64,
    pub transmitted: u64,
    /// The parts that the native engine leaves to the interpreter, if that is the whole program.
    pub interpreted: Option<String>,
    /// Folders that were searched for included files, since nothing named them.
    pub searched: Vec<String>,
}

impl Verdict {
    /// The word in a line and in the totals.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Part => "part",
            Self::P4_14 => "P4_14",
            Self::OtherArchitecture { .. } => "other",
            Self::MissingInclude { .. } => "missing",
            Self::Refused { .. } => "refused",
            Self::OwnExtern { .. } => "extern",
            Self::Passed(_) => "pass",
            Self::PairRefused { .. } => "PAIR",
            Self::EntryRefused { .. } => "ENTRY",
            Self::Differs { .. } => "DIFFERS",
            Self::Crashed { .. } => "CRASHED",
            Self::Late { .. } => "LATE",
        }
    }

    /// Whether it is a fault of ours beyond doubt.
    pub fn is_fault(&self) -> bool {
        matches!(
            self,
            Self::PairRefused { .. }
                | Self::EntryRefused { .. }
                | Self::Differs { .. }
                | Self::Crashed { .. }
                | Self::Late { .. }
        )
    }
}

impl Answer for Verdict {
    fn of_ended(ended: Ended) -> Self {
        match ended {
            Ended::Late(message) => Self::Late { message },
            Ended::Crashed(message) => Self::Crashed { message },
        }
    }
}

/// A path below the root, with `/` between its parts.
fn below(root: &Path, path: &Path) -> String {
    let below = path.strip_prefix(root).unwrap_or(path);
    below.to_string_lossy().into_owned()
}
