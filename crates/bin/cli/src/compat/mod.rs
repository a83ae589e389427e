//! The compiler under the names that makefiles call, `p4c-bm2-ss` and `p4c`, with the options of
//! p4c 1.2.5. The name of the executable selects the mode.
//!
//! An option that this compiler cannot support is refused with the reason ([`options`]). An option is accepted and then
//! ignored only if it has no effect on the output.

mod dependencies;
mod options;
mod request;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use p4_compiler::{Diagnostic, Options, Severity};

use crate::compiler::{self, MessageFormat, Program};
use crate::failure::{self, Failure};
use crate::files;
use crate::output;
use dependencies::Recorder;
use request::Request;

/// A name of the executable that selects p4c's command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// The compiler for BMv2's simple_switch. It reads P4 source and writes one file of JSON.
    BackEnd,
    /// The driver. It reads P4 source and writes NAME.p4i and NAME.json into a folder.
    Driver,
}

impl Name {
    pub fn of(started_as: &OsStr) -> Option<Name> {
        match Path::new(started_as).file_name()?.to_str()? {
            "p4c-bm2-ss" => Some(Name::BackEnd),
            "p4c" => Some(Name::Driver),
            _ => None,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Name::BackEnd => "p4c-bm2-ss",
            Name::Driver => "p4c",
        }
    }
}

pub fn run(name: Name, words: impl Iterator<Item = OsString>) -> ExitCode {
    failure::conclude(try_run(name, words), name.as_str(), false)
}

fn try_run(name: Name, words: impl Iterator<Item = OsString>) -> Result<(), Failure> {
    let text = |word: OsString| {
        let lossy = word.to_string_lossy().into_owned();
        word.into_string()
            .map_err(|_| Failure::new(format!("`{lossy}` is not UTF-8")))
    };
    let words = words.map(text).collect::<Result<Vec<_>, _>>()?;
    let Some(request) = Request::parse(name, words)? else {
        return Ok(());
    };
    match name {
        Name::BackEnd => back_end(&request),
        Name::Driver => driver(&request),
    }
}

fn back_end(request: &Request) -> Result<(), Failure> {
    let recorder = Recorder::default();
    if request.preprocess_only {
        let text = preprocess(request, &request.input, &recorder)?;
        let rule = request.dependencies.rule(&request.input, &recorder);
        if request.dependencies.in_place_of_output {
            return match &request.dependencies.file {
                Some(file) => write(request, file, rule.as_bytes()),
                None => {
                    output::text(rule.trim_end());
                    Ok(())
                }
            };
        }
        output::text(text.trim_end());
        return Ok(());
    }
    let program = compile(request, &request.input, &recorder)?;
    if let Some(to) = &request.output {
        write(request, to, &compiler::json_bytes(&program.json)?)?;
    }
    write_p4info(request, &program)?;
    let to = PathBuf::from(stem(&request.input)?).with_extension("d");
    write_dependencies(request, &recorder, &to)
}

/// Writes `DIR/NAME.p4i`, then `DIR/NAME.json`.
fn driver(request: &Request) -> Result<(), Failure> {
    let folder = request.output.clone().unwrap_or_else(|| ".".into());
    if !request.preprocess_only {
        if folder.is_file() {
            return Err(Failure::in_file(
                &folder,
                &"is a file, -o of `p4c` names a folder (that of `p4c-bm2-ss` a file)",
            ));
        }
        files::make_folder(&folder)?;
    }
    let stem = stem(&request.input)?;
    let to = |suffix: &str| folder.join(format!("{stem}.{suffix}"));
    let recorder = Recorder::default();
    if !request.skip_preprocessor {
        let text = preprocess(request, &request.input, &recorder)?;
        if request.dependencies.in_place_of_output {
            let rule = request.dependencies.rule(&request.input, &recorder);
            let file = request.dependencies.file.clone();
            return write(request, &file.unwrap_or(to("p4i")), rule.as_bytes());
        }
        write(request, &to("p4i"), text.as_bytes())?;
        write_dependencies(request, &recorder, &to("d"))?;
    }
    if request.preprocess_only {
        return Ok(());
    }
    let source = if request.skip_preprocessor {
        to("p4i")
    } else {
        request.input.clone()
    };
    let program = compile(request, &source, &recorder)?;
    write(request, &to("json"), &compiler::json_bytes(&program.json)?)?;
    write_p4info(request, &program)
}

fn stem(path: &Path) -> Result<String, Failure> {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy());
    stem.map(std::borrow::Cow::into_owned)
        .ok_or_else(|| Failure::in_file(path, &"is not a file"))
}

fn preprocess(request: &Request, path: &Path, recorder: &Recorder) -> Result<String, Failure> {
    let text = compiler::read_source(path)?;
    let name = compiler::source_name(path);
    let done = p4_compiler::preprocess(&name, &text, recorder, &request.options);
    let failed = done
        .diagnostics
        .iter()
        .any(|found| found.severity == Severity::Error);
    // If a compilation follows, it shows the same diagnostics.
    if failed || request.preprocess_only {
        show(request, &done.diagnostics);
    }
    if failed {
        return Err(compiler::refused(path, &done.diagnostics));
    }
    Ok(done.text)
}

fn compile(request: &Request, path: &Path, recorder: &Recorder) -> Result<Program, Failure> {
    let options: &Options = &request.options;
    let compiled = compiler::compile_with(path, options, recorder)?;
    show(request, &compiled.diagnostics);
    compiled
        .program
        .ok_or_else(|| compiler::refused(path, &compiled.diagnostics))
}

fn show(request: &Request, diagnostics: &[Diagnostic]) {
    let n = request.n_errors_max.min(diagnostics.len());
    compiler::show(&diagnostics[..n], MessageFormat::Human);
}

fn write(request: &Request, to: &Path, bytes: &[u8]) -> Result<(), Failure> {
    files::write(to, bytes)?;
    if request.verbose {
        output::error_line(format_args!("wrote {}", to.display()));
    }
    Ok(())
}

fn write_p4info(request: &Request, program: &Program) -> Result<(), Failure> {
    for (to, format) in &request.p4info {
        write(request, to, &format.encode(&program.p4info))?;
    }
    Ok(())
}

fn write_dependencies(request: &Request, recorder: &Recorder, to: &Path) -> Result<(), Failure> {
    let dependencies = &request.dependencies;
    if !dependencies.beside_output {
        return Ok(());
    }
    let to = dependencies.file.as_deref().unwrap_or(to);
    let rule = dependencies.rule(&request.input, recorder);
    write(request, to, rule.as_bytes())
}
