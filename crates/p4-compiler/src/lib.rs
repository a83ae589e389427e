//! P4_16 source to BMv2 JSON and P4Info; a library without I/O.
//!
//! [`compile`] runs the passes in this order, each in its own module:
//!
//! `preprocess` (with `lex`) -> `syntax` (tree) -> `types` (checked program, `ir`) -> `lower`
//! (inlined, in BMv2's words) -> `emit`.
//!
//! Every pass reports all the errors it finds; the next one runs only on what was sound. The
//! files that the source includes come from a [`SourceProvider`]; `core.p4` and `v1model.p4` are
//! built in.

mod diagnostic;
mod emit;
pub mod explain;
mod ir;
mod lex;
mod limits;
mod lower;
mod preprocess;
mod source;
mod syntax;
mod types;

pub use diagnostic::{Diagnostic, Note, Place, Severity, Suggestion};
pub use explain::explain;
/// What a program offers to a controller.
pub use p4runtime_proto::p4::config::v1::P4Info;

/// Gives the text of an included file.
pub trait SourceProvider {
    /// The text of the file with this path, or none where there is no such file.
    fn load(&self, path: &str) -> Option<String>;
}

impl<F: Fn(&str) -> Option<String>> SourceProvider for F {
    fn load(&self, path: &str) -> Option<String> {
        self(path)
    }
}

/// What to compile and how.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Where `#include <...>` (and, after the including file's own folder, `#include "..."`) looks.
    pub include_dirs: Vec<String>,
    /// Macros, as by `-D name=value`.
    pub defines: Vec<(String, String)>,
}

/// What came out.
#[derive(Debug, Default)]
pub struct Output {
    /// The program for the switch; none where there was an error.
    pub bmv2_json: Option<bmv2_json::Program>,
    /// What it offers to a controller; none where there was an error.
    pub p4info: Option<P4Info>,
    /// Every error and warning, in the order of the source.
    pub diagnostics: Vec<Diagnostic>,
}

/// The P4Info in protobuf's text format, as a controller's file.
pub fn p4info_text(p4info: &P4Info) -> String {
    p4runtime_proto::text_format::print_p4info(p4info)
}

/// The P4Info in protobuf's binary format.
pub fn p4info_binary(p4info: &P4Info) -> Vec<u8> {
    prost::Message::encode_to_vec(p4info)
}

/// Compiles the program in `text`, which was read from `path`.
pub fn compile(path: &str, text: &str, provider: &dyn SourceProvider, options: &Options) -> Output {
    let mut sources = source::SourceMap::default();
    let mut sink = diagnostic::Sink::default();
    let tokens = preprocess::preprocess((path, text), options, provider, &mut sources, &mut sink);
    let tree = syntax::parse(&tokens, &mut sink);
    let program = types::declare::check(&tree, &sources, &mut sink);
    let mut output = Output::default();
    if !sink.has_errors()
        && let Some((json, resources)) = lower::lower(&program, &sources, path, &mut sink)
        && !sink.has_errors()
    {
        let p4info = emit::p4info::write(&program, &resources, &sources, &mut sink);
        if !sink.has_errors() {
            (output.bmv2_json, output.p4info) = (Some(json), Some(p4info));
        }
    }
    output.diagnostics = sink.finish(&sources);
    output
}
