//! Compiles P4_16 source to BMv2 JSON and P4Info. This library does no I/O.
//!
//! [`compile`] runs the passes in this order, each in its own module:
//!
//! `preprocess` (with `lex`) -> `syntax` (tree) -> `types` (checked program, `ir`) -> `lower` (to the constructs of
//! BMv2's JSON, with all calls inlined) -> `emit`, then [`optimise`] over the JSON. If the program compiles, `lint`
//! checks the output of `types`.
//!
//! Every pass reports all the errors that it finds. `types` also checks what `syntax` could read of a program with
//! errors; `lower` and `emit` run only if there is no error. The files that the source includes come from a
//! [`SourceProvider`]; `core.p4` and `v1model.p4` are built in.

mod diagnostic;
mod emit;
pub mod explain;
mod format;
mod ir;
mod lex;
pub mod limits;
mod lint;
mod lower;
pub mod optimise;
mod preprocess;
mod source;
mod spelling;
mod syntax;
mod types;

pub use bmv2_json;
pub use diagnostic::{Diagnostic, Note, Place, Severity, Suggestion};
pub use explain::explain;
pub use format::format;
pub use lint::control::{is_warning, name_of as warning_name};
pub use p4runtime_proto::P4RuntimeVersion;
pub use p4runtime_proto::p4::config::v1::P4Info;

/// Reads included files for the compiler, which does no I/O itself.
pub trait SourceProvider {
    /// Returns the text of the file, or `None` if there is no such file.
    fn load(&self, path: &str) -> Option<String>;

    /// Returns why an existing file cannot be used, for example because it is not UTF-8.
    fn unusable(&self, _path: &str) -> Option<String> {
        None
    }
}

impl<F: Fn(&str) -> Option<String>> SourceProvider for F {
    fn load(&self, path: &str) -> Option<String> {
        self(path)
    }
}

#[derive(Debug, Clone)]
pub struct Options {
    /// Folders that `#include <...>` searches; `#include "..."` first tries the including file's own folder.
    pub include_dirs: Vec<String>,
    /// Macros that `-D name=value` defines.
    pub defines: Vec<(String, String)>,
    /// Names of macros that `-U name` removes, after all `defines` and built-in macros are defined.
    pub undefines: Vec<String>,
    pub warnings_as_errors: bool,
    /// Warnings that fail the compilation, by code (`W0301`) or p4c's name (`unused`).
    pub denied_warnings: Vec<String>,
    pub all_warnings_disabled: bool,
    /// Warnings that are not shown, by code or p4c's name.
    pub disabled_warnings: Vec<String>,
    /// Writes extern functions and extern objects that v1model does not declare into the JSON, for a switch that has
    /// them.
    pub emit_externs: bool,
    /// Runs the passes of `optimise` over the JSON.
    pub optimise: bool,
    /// The version of P4Runtime for which P4Info is written: P4Info contains nothing that a later version added.
    pub p4runtime_version: P4RuntimeVersion,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            include_dirs: Vec::new(),
            defines: Vec::new(),
            undefines: Vec::new(),
            warnings_as_errors: false,
            denied_warnings: Vec::new(),
            all_warnings_disabled: false,
            disabled_warnings: Vec::new(),
            emit_externs: false,
            optimise: true,
            p4runtime_version: P4RuntimeVersion::default(),
        }
    }
}

impl Options {
    /// Parses the value of `-D` for `defines`. The value is `NAME` or `NAME=VALUE`.
    ///
    /// # Errors
    /// The text has neither form.
    pub fn parse_define(text: &str) -> Result<(String, String), String> {
        let (name, value) = text.split_once('=').unwrap_or((text, "1"));
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if starts_well && name.chars().all(is_word) {
            return Ok((name.to_owned(), value.to_owned()));
        }
        Err(format!(
            "-D {text}: expected NAME or NAME=VALUE; a macro with arguments goes into the source"
        ))
    }

    /// Parses the value of `-O`, for `optimise`.
    ///
    /// # Errors
    /// The text is neither 0 nor 1.
    pub fn parse_level(text: &str) -> Result<bool, String> {
        match text {
            "0" => Ok(false),
            "1" => Ok(true),
            _ => Err("expected 0 (no optimisation) or 1 (all optimisations)".to_owned()),
        }
    }
}

#[derive(Debug, Default)]
pub struct Output {
    /// The program for the switch; `None` if there was an error.
    pub bmv2_json: Option<bmv2_json::Program>,
    /// The program's objects for a controller; `None` if there was an error.
    pub p4info: Option<P4Info>,
    /// Errors and warnings in the order of the source.
    pub diagnostics: Vec<Diagnostic>,
}

/// Prints P4Info in protobuf's text format, the usual format of a P4Info file.
pub fn p4info_text(p4info: &P4Info) -> String {
    p4runtime_proto::text_format::print_p4info(p4info)
}

pub fn p4info_json(p4info: &P4Info) -> String {
    p4runtime_proto::json_format::print(p4info)
}

pub fn p4info_binary(p4info: &P4Info) -> Vec<u8> {
    prost::Message::encode_to_vec(p4info)
}

#[derive(Debug)]
pub struct Preprocessed {
    /// The program after includes, macros and conditionals, with line markers and without comments.
    pub text: String,
    pub diagnostics: Vec<Diagnostic>,
}

/// Runs only the preprocessor. `text` was read from `path`.
pub fn preprocess(
    path: &str,
    text: &str,
    provider: &dyn SourceProvider,
    options: &Options,
) -> Preprocessed {
    let mut sources = source::SourceMap::default();
    let mut sink = diagnostic::Sink::default();
    let tokens = preprocess::expanded((path, text), options, provider, &mut sources, &mut sink);
    Preprocessed {
        text: preprocess::print::print(&tokens, &sources),
        diagnostics: sink.finish(&sources),
    }
}

/// Compiles a program. `text` was read from `path`.
pub fn compile(path: &str, text: &str, provider: &dyn SourceProvider, options: &Options) -> Output {
    // The passes walk the program recursively, and the caller's thread may have a small stack.
    stacker::grow(limits::STACK_BYTES, || {
        compile_here(path, text, provider, options)
    })
}

fn compile_here(
    path: &str,
    text: &str,
    provider: &dyn SourceProvider,
    options: &Options,
) -> Output {
    let mut sources = source::SourceMap::default();
    let mut sink = diagnostic::Sink::default();
    let tokens = preprocess::preprocess((path, text), options, provider, &mut sources, &mut sink);
    let tree = syntax::parse(&tokens, &sources, &mut sink);
    if sink.is_cut_off() {
        return Output {
            diagnostics: sink.finish(&sources),
            ..Output::default()
        };
    }
    let program = types::declare::check(&tree, &sources, &mut sink);
    let mut output = Output::default();
    if !sink.has_errors()
        && let Some((mut json, resources)) =
            lower::lower(&program, &sources, path, options, &mut sink)
        && !sink.has_errors()
    {
        let mut p4info = emit::p4info::write(&program, &resources, &mut sink);
        if !sink.has_errors() {
            if options.optimise {
                optimise::optimise(&mut json, Some(&p4info), optimise::Pass::ALL);
            }
            options.p4runtime_version.restrict(&mut p4info);
            (output.bmv2_json, output.p4info) = (Some(json), Some(p4info));
        }
    }
    // A program that does not compile gets no warnings from `lint`.
    if !sink.has_errors() && !options.all_warnings_disabled {
        let subject = lint::Subject {
            tokens: &tokens,
            tree: &tree,
            program: &program,
            sources: &sources,
        };
        lint::check(&subject, &mut sink);
    }
    lint::control::apply(options, &tokens, &mut sink);
    if sink.has_errors() {
        (output.bmv2_json, output.p4info) = (None, None);
    }
    output.diagnostics = sink.finish(&sources);
    output
}
