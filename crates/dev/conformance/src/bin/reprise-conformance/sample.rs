//! Defines the jobs of a checkout and their verdicts. docs/conformance.md describes each check.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::golden::{Place, Places};
use crate::pool::{Answer, Ended};
use crate::tree;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Job {
    /// One of p4c's samples. The answer is a [`Verdict`].
    Sample(Sample),
    /// A program of a tree. The answer is a [`tree::Verdict`].
    Program(tree::Subject),
    /// Random input. The answer is a [`crate::fuzz::Tried`].
    Case { seed: u64, number: u64 },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sample {
    pub name: String,
    pub path: PathBuf,
    pub check: Check,
    pub emit_externs: bool,
    pub optimise: bool,
}

impl Sample {
    pub fn new(root: &Path, below_root: &str, check: Check) -> Self {
        let name = below_root.strip_prefix("testdata/").unwrap_or(below_root);
        Self {
            name: name.to_owned(),
            path: root.join(below_root),
            check,
            emit_externs: false,
            optimise: true,
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Check {
    /// The program compiles, and the switch accepts its JSON with its P4Info.
    Accepted,
    /// The program is refused at the place of p4c's error. `None` means that p4c's message is unknown.
    Refused { errors: Option<Vec<Places>> },
    /// The packet test passes on our switch with our compiler's output.
    Packets { program: PathBuf },
    /// The P4Info equals p4c's. If the program is not in p4c's lists, p4c's back end may never have compiled the
    /// program.
    P4Info { golden: PathBuf, is_listed: bool },
}

/// The checks, by the names that `--only` and the table of known failures use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lower")]
pub enum Kind {
    /// Programs that p4c's BMv2 back end accepts.
    Accepted,
    /// Programs that p4c refuses.
    Errors,
    /// Packet tests.
    Stf,
    /// The P4Info.
    P4Info,
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::Accepted, Self::Errors, Self::Stf, Self::P4Info];

    pub fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Errors => "errors",
            Self::Stf => "stf",
            Self::P4Info => "p4info",
        }
    }
}

impl Check {
    pub fn kind(&self) -> Kind {
        match self {
            Self::Accepted => Kind::Accepted,
            Self::Refused { .. } => Kind::Errors,
            Self::Packets { .. } => Kind::Stf,
            Self::P4Info { .. } => Kind::P4Info,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    Passed,
    /// The program is refused. `place` is the result of the comparison of our error's place with p4c's.
    Refused {
        place: Hit,
        ours: String,
        /// Whether the only fault is that the program is not for v1model.
        only_for_main: bool,
    },
    /// The sample does not behave as expected, for this reason.
    Failed(String),
    LeftOut(String),
}

impl Answer for Verdict {
    fn of_ended(ended: Ended) -> Self {
        let (Ended::Late(why) | Ended::Crashed(why)) = ended;
        Self::Failed(why)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hit {
    /// Our first error is at the first place of one of p4c's errors, or p4c's only error has no place.
    First,
    /// One of our errors is at the first place of one of p4c's errors, or our first error is at a further place of one
    /// of p4c's errors.
    Line,
    /// Neither the condition of `First` nor the condition of `Line` holds.
    Elsewhere,
    /// p4c's message is unknown.
    Unknown,
}

/// Compares the places of our errors, in order, with the places of p4c's errors.
pub fn hit(ours: &[Place], theirs: &[Places]) -> Hit {
    let begins = |place: &Place| theirs.iter().any(|error| error.first() == Some(place));
    let Some(first) = ours.first() else {
        return Hit::Elsewhere;
    };
    let has_no_place = theirs.iter().any(Vec::is_empty);
    if begins(first) || has_no_place && theirs.len() == 1 {
        Hit::First
    } else if ours.iter().any(begins) || theirs.iter().any(|error| error.contains(first)) {
        Hit::Line
    } else {
        Hit::Elsewhere
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(lines: &[u32]) -> Places {
        let place = |line: &u32| Place {
            file: "a.p4".into(),
            line: *line,
        };
        lines.iter().map(place).collect()
    }

    #[test]
    fn our_errors_are_held_against_the_places_of_theirs() {
        let theirs = [places(&[3, 1]), places(&[8])];
        assert_eq!(hit(&places(&[8, 9]), &theirs), Hit::First);
        assert_eq!(hit(&places(&[2, 3]), &theirs), Hit::Line);
        assert_eq!(hit(&places(&[1]), &theirs), Hit::Line);
        assert_eq!(hit(&places(&[2, 1]), &theirs), Hit::Elsewhere);
        assert_eq!(hit(&places(&[5]), &[places(&[])]), Hit::First);
        assert_eq!(hit(&[], &theirs), Hit::Elsewhere);
    }
}
