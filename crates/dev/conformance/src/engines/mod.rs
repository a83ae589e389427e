//! Runs engines in lockstep, over any program and over the repository's corpus: its packet tests, and
//! conferences of the real controller.

mod lockstep;
mod script;
mod stf_files;

use std::path::PathBuf;

use testkit::repository::{files, root};

pub use lockstep::*;
pub use script::{Script, conference};
pub use stf_files::{native_failures, stf_failures, stf_files};

/// The programs of the suite: the SFU programs and every program with a packet test.
///
/// # Panics
/// The repository's folders cannot be read.
pub fn programs() -> Vec<PathBuf> {
    let mut paths = vec![
        root().join("p4/sfu.p4"),
        root().join("p4/sfu_recirculation.p4"),
    ];
    for folder in ["testdata/stf", "testdata/realistic"] {
        paths.extend(files(folder, "p4"));
    }
    paths.sort();
    paths
}
