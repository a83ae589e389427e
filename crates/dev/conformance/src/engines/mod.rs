//! Runs engines in lockstep, on any program and on the repository's corpus, which consists of packet tests and of
//! conferences with the real controller.

mod lockstep;
mod script;
mod stf_files;

use std::path::PathBuf;

use testkit::repository::{files, root};

pub use lockstep::*;
pub use script::{Script, conference};
pub use stf_files::{native_failures, stf_failures, stf_files};

/// Returns the programs of the suite: the SFU programs and every program with a packet test.
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
