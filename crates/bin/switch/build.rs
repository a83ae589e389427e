//! Finds the commit that the switch is built from, for `--version` and `reprise_build_info`.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let commit = commit().unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=REPRISE_COMMIT={commit}");
}

/// Returns the abbreviated commit. `None` outside a repository of these sources, as in a tarball, or without git.
fn commit() -> Option<String> {
    let folder = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR")?);
    let root = folder.join("../../..").canonicalize().ok()?;
    // A tarball may be unpacked inside another repository, whose commit means nothing here.
    if Path::new(&git(&["rev-parse", "--show-toplevel"])?)
        .canonicalize()
        .ok()?
        != root
    {
        return None;
    }
    // At least one of these files changes with every commit and checkout. Naming a missing file would rerun this script
    // in every build.
    for file in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--path-format=absolute", "--git-path", file])?;
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

/// Runs git, and returns its output without the line end.
fn git(words: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    let output = command.args(words).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| said.trim_end().to_owned())
}
