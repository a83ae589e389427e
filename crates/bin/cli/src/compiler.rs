//! What the commands need of the compiler: options, input and output files, diagnostics.

use std::path::{Path, PathBuf};

use p4_compiler::{Diagnostic, Options, Severity, SourceProvider};
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::{P4RUNTIME_VERSION_VARIABLE, P4RuntimeVersion};
use stf::{P4_SOURCE, SourceFiles};

use crate::failure::Failure;
use crate::files;
use crate::output;

pub struct Program {
    pub json: p4_compiler::bmv2_json::Program,
    pub p4info: P4Info,
}

/// How diagnostics are shown on standard error.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageFormat {
    /// Several lines for each, with the source underlined.
    Human,
    /// One JSON object a line.
    Json,
}

/// The options of `reprise compile` and `reprise check`.
#[derive(clap::Args, Clone, Debug)]
pub struct CompilerArgs {
    /// Look for included files here too, after the including file's own folder; several in the order given.
    #[arg(short = 'I', value_name = "DIR")]
    include: Vec<PathBuf>,
    /// Define a macro; without a value it is 1.
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    define: Vec<String>,
    /// Undefine a macro, after all -D.
    #[arg(short = 'U', value_name = "NAME")]
    undefine: Vec<String>,
    /// `-Werror`: every warning fails the compilation; `-Werror=NAME`: this warning does.
    #[arg(short = 'W', value_name = "error[=NAME]", value_parser = warning_flag)]
    warnings: Vec<Denied>,
    /// Do not show this warning (its code or its name); without a name: no warning at all.
    #[arg(
        long = "Wdisable",
        value_name = "NAME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = ""
    )]
    disabled_warnings: Vec<String>,
    /// 1: make the JSON smaller and faster; 0: leave it as the program is written.
    #[arg(short = 'O', value_name = "LEVEL", default_value = "1", value_parser = Options::parse_level, action = clap::ArgAction::Set)]
    optimise: bool,
    /// Write extern functions and objects that v1model lacks into the JSON, for a switch that
    /// implements them.
    #[arg(long)]
    emit_externs: bool,
    /// Write P4Info for readers of this version of P4Runtime, from 1.2 on: they refuse P4Info text with newer fields.
    #[arg(long, value_name = "VERSION", env = P4RUNTIME_VERSION_VARIABLE, default_value_t)]
    p4runtime_version: P4RuntimeVersion,
    /// How errors and warnings are shown on standard error.
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "human")]
    message_format: MessageFormat,
}

#[derive(Clone, Debug)]
enum Denied {
    All,
    One(String),
}

fn warning_flag(text: &str) -> Result<Denied, String> {
    match text.split_once('=') {
        Some(("error", name)) if !name.is_empty() => Ok(Denied::One(name.to_owned())),
        None if text == "error" => Ok(Denied::All),
        _ => Err("expected -Werror or -Werror=NAME; --Wdisable hides warnings".to_owned()),
    }
}

fn known_warning(option: &str, name: &str) -> Result<String, Failure> {
    if p4_compiler::is_warning(name) {
        return Ok(name.to_owned());
    }
    Err(Failure::new(format!(
        "{option}={name}: there is no warning of this code or name: `reprise explain` lists them"
    )))
}

impl CompilerArgs {
    pub fn message_format(&self) -> MessageFormat {
        self.message_format
    }

    pub fn options(&self) -> Result<Options, Failure> {
        expect_folders(&self.include)?;
        let defines = self.define.iter();
        let defines = defines.map(|text| Options::parse_define(text).map_err(Failure::new));
        let denied = self.warnings.iter().filter_map(|denied| match denied {
            Denied::All => None,
            Denied::One(name) => Some(known_warning("-Werror", name)),
        });
        let disabled = self
            .disabled_warnings
            .iter()
            .filter(|name| !name.is_empty())
            .map(|name| known_warning("--Wdisable", name));
        Ok(Options {
            include_dirs: self.include.iter().map(|dir| lossy(dir)).collect(),
            defines: defines.collect::<Result<_, _>>()?,
            undefines: self.undefine.clone(),
            warnings_as_errors: self.warnings.iter().any(|flag| matches!(flag, Denied::All)),
            denied_warnings: denied.collect::<Result<_, _>>()?,
            all_warnings_disabled: self.disabled_warnings.iter().any(String::is_empty),
            disabled_warnings: disabled.collect::<Result<_, _>>()?,
            emit_externs: self.emit_externs,
            optimise: self.optimise,
            p4runtime_version: self.p4runtime_version,
        })
    }
}

/// Refuses a missing include folder: after a typo `#include` would find another file or none. If this program is called
/// as `p4c` or `p4c-bm2-ss`, it accepts a missing folder, like p4c itself.
pub fn expect_folders(include: &[PathBuf]) -> Result<(), Failure> {
    match include.iter().find(|folder| !folder.is_dir()) {
        Some(folder) => Err(Failure::new(format!(
            "-I {}: expected a folder, found none",
            folder.display()
        ))),
        None => Ok(()),
    }
}

pub fn lossy(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Reads the text of a program; `-` is standard input.
pub fn read_source(path: &Path) -> Result<String, Failure> {
    if path
        .extension()
        .is_some_and(|extension| extension == "json")
        && path.is_file()
    {
        return Err(Failure::in_file(
            path,
            &"is compiled already, expected P4 source; `reprise stf` and `reprise pipeline set` take JSON",
        ));
    }
    files::text(path, P4_SOURCE)
}

pub fn source_name(path: &Path) -> String {
    if files::is_standard(path) {
        "standard input".to_owned()
    } else {
        lossy(path)
    }
}

pub struct Compiled {
    pub program: Option<Program>,
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads and compiles a program; compile errors are in the diagnostics.
pub fn compile(path: &Path, options: &Options) -> Result<Compiled, Failure> {
    compile_with(path, options, &SourceFiles)
}

/// Like `compile`, but loads included files from `files`.
pub fn compile_with(
    path: &Path,
    options: &Options,
    files: &dyn SourceProvider,
) -> Result<Compiled, Failure> {
    let text = read_source(path)?;
    let output = p4_compiler::compile(&source_name(path), &text, files, options);
    let program = match (output.bmv2_json, output.p4info) {
        (Some(json), Some(p4info)) => Some(Program { json, p4info }),
        _ => None,
    };
    Ok(Compiled {
        program,
        diagnostics: output.diagnostics,
    })
}

pub fn show(diagnostics: &[Diagnostic], format: MessageFormat) {
    for diagnostic in diagnostics {
        match format {
            // An empty line separates diagnostics.
            MessageFormat::Human => {
                output::error_text(format_args!("{}\n", diagnostic.render()));
            }
            MessageFormat::Json => output::error_line(diagnostic.json_line()),
        }
    }
}

/// Makes the failure for a program that did not compile. Its message is the last line of the output about the program.
pub fn refused(path: &Path, diagnostics: &[Diagnostic]) -> Failure {
    let is_error = |diagnostic: &&Diagnostic| diagnostic.severity == Severity::Error;
    let n = diagnostics.iter().filter(is_error).count();
    let errors = if n == 1 { "error" } else { "errors" };
    Failure::new(format!("{}: not compiled, {n} {errors}", source_name(path)))
}

/// Returns the program's JSON as text, indented and with a final newline.
pub fn json_bytes(program: &p4_compiler::bmv2_json::Program) -> Result<Vec<u8>, Failure> {
    let mut text = program.to_json_pretty()?;
    text.push('\n');
    Ok(text.into_bytes())
}
