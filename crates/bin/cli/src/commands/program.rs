//! `reprise compile`, `reprise check`, and how all other commands compile a program.

use std::path::{Path, PathBuf};

use p4_compiler::{Diagnostic, Options, Severity};
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::text_format;
use prost::Message;
use serde_json::json;

use crate::args::Global;
use crate::compiler::{self, CompilerArgs, MessageFormat};
use crate::failure::Failure;
use crate::files;
use crate::output;

pub struct Program {
    /// BMv2 JSON, the device config of `SetForwardingPipelineConfig`.
    pub json: Vec<u8>,
    pub p4info: P4Info,
}

/// Compiles P4 source, or reads BMv2 JSON and its P4Info.
pub fn load(path: &Path, p4info: Option<&Path>) -> Result<Program, Failure> {
    if path.extension().is_some_and(|ext| ext == "json") {
        let json = files::bytes(path, "a compiled program (.json)")?;
        let p4info = match p4info {
            Some(p4info) => read_p4info(p4info)?,
            None => read_p4info(&p4info_beside(path)?)?,
        };
        return Ok(Program { json, p4info });
    }
    if p4info.is_some() {
        return Err(Failure::new(
            "--p4info belongs to a compiled program (NAME.json): P4 source has its own",
        ));
    }
    compile_source(path)
}

pub fn compile(
    global: &Global,
    path: &Path,
    output: &Path,
    args: &CompilerArgs,
) -> Result<(), Failure> {
    expect_folder(output)?;
    let compiled = compiler::compile(path, &args.options()?)?;
    compiler::show(&compiled.diagnostics, args.message_format());
    let Some(program) = compiled.program else {
        return Err(last_line(path, &compiled.diagnostics, args));
    };
    files::make_folder(output)?;
    let stem = if files::is_standard(path) {
        "stdin".into()
    } else {
        let stem = path.file_stem().map(|stem| stem.to_string_lossy());
        stem.ok_or_else(|| Failure::in_file(path, &"not a file"))?
    };
    let to = |suffix: &str| output.join(format!("{stem}.{suffix}"));
    let text = text_format::print_p4info(&program.p4info);
    let outputs = [
        (to("json"), compiler::json_bytes(&program.json)?),
        (to("p4info.txtpb"), text.into_bytes()),
        (to("p4info.bin"), program.p4info.encode_to_vec()),
    ];
    files::write_all(&outputs)?;
    let names: Vec<String> = outputs
        .iter()
        .map(|(to, _)| to.display().to_string())
        .collect();
    if global.json {
        output::json(&json!({ "files": names, "diagnostics": compiled.diagnostics }));
    } else {
        names.iter().for_each(output::text);
    }
    Ok(())
}

/// Checks that `-o` names a folder; the files in it are named after the program.
fn expect_folder(output: &Path) -> Result<(), Failure> {
    if files::is_standard(output) {
        return Err(Failure::new(
            "-o names a folder, NAME.json and NAME.p4info.* are written into it: `-`, standard output, takes one file (`./-` is a folder of that name)",
        ));
    }
    let looks_like_a_file = output.extension().is_some_and(|ext| ext == "json");
    if output.is_file() || (looks_like_a_file && !output.exists()) {
        let why = if output.is_file() {
            "is a file"
        } else {
            "looks like a file"
        };
        return Err(Failure::in_file(
            output,
            &format!("{why}, -o names a folder: NAME.json and NAME.p4info.* are written into it"),
        ));
    }
    Ok(())
}

pub fn preprocess(global: &Global, path: &Path, args: &CompilerArgs) -> Result<(), Failure> {
    let text = compiler::read_source(path)?;
    let name = compiler::source_name(path);
    let done = p4_compiler::preprocess(&name, &text, &stf::SourceFiles, &args.options()?);
    compiler::show(&done.diagnostics, args.message_format());
    if done
        .diagnostics
        .iter()
        .any(|found| found.severity == Severity::Error)
    {
        return Err(last_line(path, &done.diagnostics, args));
    }
    if global.json {
        output::json(&json!({ "diagnostics": done.diagnostics, "text": done.text }));
    } else {
        output::text(done.text.trim_end());
    }
    Ok(())
}

pub fn check(global: &Global, paths: &[PathBuf], args: &CompilerArgs) -> Result<(), Failure> {
    let options = args.options()?;
    let (mut programs, mut failures) = (Vec::new(), Vec::new());
    for path in paths {
        let checked = check_one(global, path, args, &options);
        let mut program = match &checked {
            Ok(diagnostics) => json!({ "diagnostics": diagnostics }),
            Err(failure) => failure.to_json(),
        };
        program["program"] = compiler::source_name(path).into();
        program["ok"] = checked.is_ok().into();
        programs.push(program);
        failures.extend(checked.err());
    }
    let document = json!({ "programs": programs });
    match failures.pop() {
        Some(last) => {
            let others = failures.iter();
            others.for_each(|failure| failure.report("reprise"));
            return Err(last.with(document));
        }
        None if global.json => output::json(&document),
        None => {}
    }
    Ok(())
}

fn check_one(
    global: &Global,
    path: &Path,
    args: &CompilerArgs,
    options: &Options,
) -> Result<Vec<Diagnostic>, Failure> {
    let compiled = compiler::compile(path, options)?;
    if !global.json {
        compiler::show(&compiled.diagnostics, args.message_format());
    }
    if compiled.program.is_none() {
        return Err(last_line(path, &compiled.diagnostics, args));
    }
    if !global.json {
        output::text(format!("{}: ok", compiler::source_name(path)));
    }
    Ok(compiled.diagnostics)
}

/// Makes the failure of a program that did not compile.
fn last_line(path: &Path, diagnostics: &[Diagnostic], args: &CompilerArgs) -> Failure {
    let found = json!({ "diagnostics": diagnostics });
    let refused = compiler::refused(path, diagnostics).with(found);
    match args.message_format() {
        MessageFormat::Human => refused,
        MessageFormat::Json => refused.reported(),
    }
}

fn p4info_beside(json: &Path) -> Result<PathBuf, Failure> {
    let candidates = ["p4info.txtpb", "p4info.bin"].map(|suffix| json.with_extension(suffix));
    let found = candidates.iter().find(|path| path.exists()).cloned();
    found.ok_or_else(|| {
        let [text, binary] = candidates.each_ref().map(|path| path.display());
        Failure::new(format!(
            "no P4Info for {}: neither {text} nor {binary} is there, name it with --p4info",
            json.display()
        ))
    })
}

pub fn read_p4info(path: &Path) -> Result<P4Info, Failure> {
    let bytes = files::bytes(path, "P4Info")?;
    let is_binary = path
        .extension()
        .is_some_and(|ext| ext == "bin" || ext == "binpb" || ext == "pb");
    if is_binary {
        return P4Info::decode(bytes.as_slice()).map_err(|error| {
            let expected = "expected P4Info as binary protobuf, as its name says";
            Failure::in_file(path, &format!("{expected}: {error}"))
        });
    }
    let expected =
        "expected P4Info as protobuf text, or as binary in a file named .bin, .binpb or .pb";
    let Ok(text) = String::from_utf8(bytes) else {
        return Err(Failure::in_file(
            path,
            &format!("{expected}, found no text"),
        ));
    };
    text_format::parse_p4info(&text)
        .map_err(|error| Failure::in_file(path, &format!("{expected}: {error}")))
}

/// Compiles a program; shows errors and warnings on standard error.
fn compile_source(path: &Path) -> Result<Program, Failure> {
    let compiled = compiler::compile(path, &Options::default())?;
    compiler::show(&compiled.diagnostics, MessageFormat::Human);
    let program = compiled
        .program
        .ok_or_else(|| compiler::refused(path, &compiled.diagnostics))?;
    Ok(Program {
        json: compiler::json_bytes(&program.json)?,
        p4info: program.p4info,
    })
}
