//! Counts lines of code, and functions with many parameters.

use std::{collections::BTreeSet, path::Path, str::FromStr};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::visit::{self, Visit};

use crate::{ReadError, module::is_of_tests};

/// A function has many parameters if it has more than this number, including `self`.
const PARAMETERS_MAX: usize = 6;

/// The counts of some Rust files.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Number of all lines.
    pub lines: usize,
    /// Number of lines with code, without the code of tests.
    pub code: usize,
    /// Number of lines with code of tests.
    pub tests: usize,
    /// Number of `#[path]` attributes.
    pub paths: usize,
    /// Number of functions with more than six parameters.
    pub long_parameter_lists: usize,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.lines += other.lines;
        self.code += other.code;
        self.tests += other.tests;
        self.paths += other.paths;
        self.long_parameter_lists += other.long_parameter_lists;
    }
}

/// Returns the counts of all Rust files in a folder and in its subfolders.
///
/// # Errors
/// A file cannot be read, or is not valid Rust.
pub fn counts_of(folder: &Path) -> Result<Counts, ReadError> {
    let mut counts = Counts::default();
    let unreadable = |error: std::io::Error| ReadError::at(folder, &error);
    let entries = std::fs::read_dir(folder).map_err(unreadable)?;
    for entry in entries {
        let path = entry.map_err(unreadable)?.path();
        let is = |name: &str| path.file_name().is_some_and(|it| it == name);
        if path.is_dir() && !is("target") {
            counts += counts_of(&path)?;
        } else if path.extension().is_some_and(|it| it == "rs") {
            counts += counts_of_file(&path)?;
        }
    }
    Ok(counts)
}

/// Returns the counts of a file.
///
/// # Errors
/// The file cannot be read, or is not valid Rust.
pub fn counts_of_file(path: &Path) -> Result<Counts, ReadError> {
    let text = std::fs::read_to_string(path).map_err(|error| ReadError::at(path, &error))?;
    let file = syn::parse_file(&text).map_err(|error| ReadError::at(path, &error))?;
    let tokens = TokenStream::from_str(&text).map_err(|error| ReadError::at(path, &error))?;
    let mut lines = BTreeSet::new();
    add_lines(&tokens, &mut lines);
    let mut found = Found::default();
    found.visit_file(&file);
    let is_test = is_of_test_file(path);
    let in_tests =
        |line: &&usize| is_test || found.tests.iter().any(|(a, b)| (a..=b).contains(line));
    let tests = lines.iter().filter(in_tests).count();
    Ok(Counts {
        lines: text.lines().count(),
        code: lines.len() - tests,
        tests,
        paths: found.paths,
        long_parameter_lists: found.long_parameter_lists,
    })
}

/// Returns whether a whole file is for tests. Such a file is a test program, an example or a benchmark, or a module
/// `tests` in a file of its own.
fn is_of_test_file(path: &Path) -> bool {
    let names = ["tests", "tests.rs", "benches", "examples"];
    path.components()
        .any(|it| names.iter().any(|name| it.as_os_str() == *name))
}

/// Adds the lines that contain tokens. Comments, including documentation comments, do not count as tokens.
fn add_lines(tokens: &TokenStream, lines: &mut BTreeSet<usize>) {
    let mut tokens = tokens.clone().into_iter().peekable();
    while let Some(token) = tokens.next() {
        if is_hash(&token) {
            // In the tokens, `///` is `#[doc = ...]`, and `//!` is `#![doc = ...]`.
            let bang =
                tokens.next_if(|it| matches!(it, TokenTree::Punct(it) if it.as_char() == '!'));
            if tokens.next_if(is_documentation).is_some() {
                continue;
            }
            lines.extend(bang.map(|it| it.span().start().line));
        }
        let span = token.span();
        match token {
            TokenTree::Group(group) => {
                lines.extend([span.start().line, span.end().line]);
                add_lines(&group.stream(), lines);
            }
            _ => lines.extend(span.start().line..=span.end().line),
        }
    }
}

fn is_hash(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(it) if it.as_char() == '#')
}

fn is_documentation(token: &TokenTree) -> bool {
    let TokenTree::Group(group) = token else {
        return false;
    };
    let first = group.stream().into_iter().next();
    group.delimiter() == Delimiter::Bracket
        && matches!(first, Some(TokenTree::Ident(name)) if name == "doc")
}

#[derive(Default)]
struct Found {
    /// First and last lines of the items that are compiled only for tests.
    tests: Vec<(usize, usize)>,
    paths: usize,
    long_parameter_lists: usize,
}

impl<'ast> Visit<'ast> for Found {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if is_of_tests(item) {
            let span = syn::spanned::Spanned::span(item);
            self.tests.push((span.start().line, span.end().line));
        }
        visit::visit_item(self, item);
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        self.paths += usize::from(attribute.path().is_ident("path"));
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        self.long_parameter_lists += usize::from(signature.inputs.len() > PARAMETERS_MAX);
        visit::visit_signature(self, signature);
    }
}
