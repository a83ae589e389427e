//! `reprise fmt`: P4 source in one layout.

use std::path::{Path, PathBuf};

use p4_compiler::Options;
use serde_json::json;

use crate::args::Global;
use crate::compiler::{self, MessageFormat, lossy};
use crate::failure::Failure;
use crate::files;
use crate::output;

/// Formats files in place, standard input to standard output; with `check` writes nothing and
/// fails where a file is not formatted.
pub fn run(
    global: &Global,
    paths: &[PathBuf],
    include: &[PathBuf],
    check: bool,
) -> Result<(), Failure> {
    let options = Options {
        include_dirs: include.iter().map(|dir| lossy(dir)).collect(),
        ..Options::default()
    };
    let mut n_failed = 0;
    let mut changed = Vec::new();
    for path in paths {
        match format(path, &options, check) {
            Ok(None) => {}
            Ok(Some(line)) => changed.push((path, line)),
            Err(failure) => {
                failure.report("reprise");
                n_failed += 1;
            }
        }
    }
    for (path, line) in &changed {
        let name = compiler::source_name(path);
        if global.json {
            output::json(&json!({ "file": name, "line": line, "written": !check }));
        } else if check {
            output::text(format!("{name}:{line}: not formatted"));
        }
    }
    match (n_failed, changed.len()) {
        (0, n) if check && n > 0 => Err(Failure::new(format!(
            "{n} of {} files not formatted: `reprise fmt` formats them",
            paths.len()
        ))),
        (0, _) => Ok(()),
        (n, _) => Err(Failure::new(format!(
            "{n} of {} files left as they are",
            paths.len()
        ))),
    }
}

/// The first line that changes, where one does.
fn format(path: &Path, options: &Options, check: bool) -> Result<Option<usize>, Failure> {
    let text = compiler::read_source(path)?;
    let name = compiler::source_name(path);
    let formatted =
        p4_compiler::format(&name, &text, &compiler::Files, options).map_err(|found| {
            compiler::show(&found, MessageFormat::Human);
            Failure::new(format!("{name}: not formatted, it is not P4 as it stands"))
        })?;
    let is_input = path == Path::new("-");
    if is_input && !check {
        output::text(formatted.trim_end());
        return Ok(None);
    }
    if formatted == text {
        return Ok(None);
    }
    if !check {
        files::write(path, formatted.as_bytes())?;
    }
    let same = text
        .lines()
        .zip(formatted.lines())
        .take_while(|(a, b)| a == b);
    Ok(Some(same.count() + 1))
}
