//! Runs third-party programs. Every P4_16 program below a folder is compiled and loaded over P4Runtime into a switch,
//! and the interpreter and the native engine get random packets.
//!
//! `find` lists the files that may be programs, `settings` finds how the tree itself compiles its programs, `source`
//! classifies and compiles a file, `entries` fills the tables over P4Runtime, `run` runs one program from end to end in
//! a worker process, and `report` counts the results.

mod entries;
mod find;
mod report;
mod run;
mod settings;
mod source;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::pool::{Answer, Ended};

pub use find::programs;
pub use report::Report;
pub use run::Trees;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    pub root: PathBuf,
    /// Folders for `#include`, searched before the folders in the tree's Makefiles and scripts.
    pub include_dirs: Vec<PathBuf>,
    /// Macros in addition to the macros that the tree defines.
    pub defines: Vec<(String, String)>,
    pub optimise: bool,
    pub packets: usize,
    pub seed: u64,
}

/// A file that may be a program. Each file is a job for a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Subject {
    pub name: String,
    pub plan: Plan,
}

impl Subject {
    pub fn path(&self) -> PathBuf {
        self.plan.root.join(&self.name)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Verdict {
    /// The file is not a program: the file has no `main`, or another file includes it and it does not compile alone.
    Part,
    P4_14,
    /// The program is for another architecture than v1model. Its include or its package names the architecture.
    OtherArchitecture {
        architecture: String,
    },
    MissingInclude {
        message: String,
    },
    /// The compiler refuses the program. A person must judge the reason.
    Refused {
        code: String,
        message: String,
    },
    OwnExtern {
        message: String,
    },
    /// The program was loaded, its tables were filled, and it ran without a fault.
    Passed(Ran),
    PairRefused {
        message: String,
    },
    EntryRefused {
        message: String,
    },
    Differs {
        message: String,
    },
    Crashed {
        message: String,
    },
    Late {
        message: String,
    },
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ran {
    /// Number of tables with a key. The field `filled` is the number of these tables that were filled over P4Runtime.
    pub tables: usize,
    pub filled: usize,
    pub entries: usize,
    pub packets: u64,
    pub transmitted: u64,
    /// The reason why the interpreter runs the whole program in place of the native engine. `None` if the native engine
    /// runs it.
    pub interpreted: Option<String>,
    /// Folders that were searched for included files although the tree does not list these folders.
    pub searched: Vec<String>,
}

impl Verdict {
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

    /// Returns whether the verdict is certainly a fault of this project.
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

fn below(root: &Path, path: &Path) -> String {
    let below = path.strip_prefix(root).unwrap_or(path);
    below.to_string_lossy().into_owned()
}
