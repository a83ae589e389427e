//! `-M` and related options: write a rule for make, which lists the files that a program includes.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use p4_compiler::SourceProvider;
use stf::SourceFiles;

#[derive(Default)]
pub struct Recorder {
    read: RefCell<Vec<String>>,
}

impl SourceProvider for Recorder {
    fn load(&self, path: &str) -> Option<String> {
        let text = SourceFiles.load(path)?;
        let mut read = self.read.borrow_mut();
        if !read.iter().any(|known| known == path) {
            read.push(path.to_owned());
        }
        Some(text)
    }

    fn unusable(&self, path: &str) -> Option<String> {
        SourceFiles.unusable(path)
    }
}

#[derive(Default)]
pub struct Dependencies {
    /// `-M`: write the rule instead of the preprocessed program.
    pub in_place_of_output: bool,
    /// `-MD`: write the rule in addition to the usual output.
    pub beside_output: bool,
    /// `-MF`: the file to which the rule is written.
    pub file: Option<PathBuf>,
    /// `-MT`, `-MQ`: the targets of the rule.
    pub targets: Vec<String>,
    /// `-MP`: add an empty rule for each included file, so that make continues after such a file is
    /// deleted.
    pub phony: bool,
}

impl Dependencies {
    /// Returns the rule for make: `TARGET: PROGRAM INCLUDED...`.
    pub fn rule(&self, program: &Path, recorder: &Recorder) -> String {
        let default = program
            .file_stem()
            .map(|stem| format!("{}.o", quoted(&stem.to_string_lossy())));
        let targets = if self.targets.is_empty() {
            default.unwrap_or_default()
        } else {
            self.targets.join(" ")
        };
        let read = recorder.read.borrow();
        let mut rule = format!("{targets}: {}", quoted(&program.to_string_lossy()));
        for path in read.iter() {
            rule.push_str(" \\\n ");
            rule.push_str(&quoted(path));
        }
        rule.push('\n');
        if self.phony {
            read.iter()
                .for_each(|path| rule.push_str(&format!("{}:\n", quoted(path))));
        }
        rule
    }
}

pub fn quoted(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '$' => out.push('$'),
            ' ' | '#' => out.push('\\'),
            _ => {}
        }
        out.push(c);
    }
    out
}
