//! `reprise fmt`: formats P4 source.

use std::path::{Path, PathBuf};

use p4_compiler::Options;
use serde_json::json;

use crate::args::Global;
use crate::compiler::{self, MessageFormat, lossy};
use crate::failure::Failure;
use crate::files;
use crate::output;

/// Formats files in place, and standard input to standard output. With `check` it writes nothing,
/// and fails if a file is not formatted.
pub fn run(
    global: &Global,
    paths: &[PathBuf],
    include: &[PathBuf],
    check: bool,
) -> Result<(), Failure> {
    compiler::expect_folders(include)?;
    let options = Options {
        include_dirs: include.iter().map(|dir| lossy(dir)).collect(),
        ..Options::default()
    };
    let (mut found, mut changed, mut n_failed) = (Vec::new(), Vec::new(), 0);
    for path in paths {
        let name = compiler::source_name(path);
        match format(path, &options, check) {
            Ok(Formatted { line, text }) => {
                if let Some(text) = text.as_ref().filter(|_| !global.json) {
                    output::text(text.trim_end());
                }
                changed.extend(line.map(|line| (name.clone(), line)));
                let written = line.is_some() && !check && text.is_none();
                found.push(json!({ "file": name, "line": line, "written": written, "text": text }));
            }
            Err(failure) => {
                failure.report("reprise");
                n_failed += 1;
                found.push(json!({ "file": name, "error": failure.to_string() }));
            }
        }
    }
    if check && !global.json {
        for (name, line) in &changed {
            output::text(format!("{name}:{line}: not formatted"));
        }
    }
    let document = json!({ "files": found });
    let n_files = paths.len();
    let failure = match (n_failed, changed.len()) {
        (0, n) if check && n > 0 => {
            format!("{n} of {n_files} files not formatted: `reprise fmt` formats them")
        }
        (0, _) if global.json => {
            output::json(&document);
            return Ok(());
        }
        (0, _) => return Ok(()),
        (n, _) => format!("{n} of {n_files} files left as they are"),
    };
    Err(Failure::new(failure).with(document))
}

struct Formatted {
    line: Option<usize>,
    /// The formatted text of standard input.
    text: Option<String>,
}

fn format(path: &Path, options: &Options, check: bool) -> Result<Formatted, Failure> {
    let text = compiler::read_source(path)?;
    let name = compiler::source_name(path);
    let formatted =
        p4_compiler::format(&name, &text, &stf::SourceFiles, options).map_err(|found| {
            compiler::show(&found, MessageFormat::Human);
            Failure::new(format!("{name}: not formatted, it is not P4 as it stands"))
        })?;
    let is_input = files::is_standard(path);
    let line = (formatted != text).then(|| {
        let lines = text.lines().zip(formatted.lines());
        lines.take_while(|(a, b)| a == b).count() + 1
    });
    if line.is_some() && !check && !is_input {
        files::write(path, formatted.as_bytes())?;
    }
    Ok(Formatted {
        line,
        text: (is_input && !check).then_some(formatted),
    })
}
