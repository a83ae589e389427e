//! Lists the files of a tree.

use std::fs;
use std::path::{Path, PathBuf};

use super::below;
use crate::failure::Failure;
use crate::files;

const EXTENSIONS: [&str; 3] = ["p4", "p4_16", "p416"];

/// Returns all P4 files below a folder, as sorted paths relative to the folder.
///
/// # Errors
/// The folder cannot be read.
pub fn programs(root: &Path) -> Result<Vec<String>, Failure> {
    let all = files(root)?;
    let programs = all.iter().filter(|path| is_p4(path));
    Ok(programs.map(|path| below(root, path)).collect())
}

pub fn is_p4(path: &Path) -> bool {
    let extension = path.extension().and_then(|it| it.to_str());
    extension.is_some_and(|it| EXTENSIONS.contains(&it))
}

/// Returns all files below a folder, sorted, except the files in `.git`. Links to folders are not followed, so loops of
/// links are harmless.
pub fn files(root: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(|error| {
            Failure::in_file(&folder, &format!("cannot be read: {}", files::why(&error)))
        })?;
        for entry in entries {
            let entry = entry?;
            if entry.file_name() == ".git" {
                continue;
            }
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else if path.is_file() {
                // The path may also be a link to an existing file.
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
