//! P4 programs: `reprise compile`, `reprise check`, and how every other command gets one.

use std::fs;
use std::path::{Path, PathBuf};

use p4_compiler::{Diagnostic, Severity};
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::text_format;
use prost::Message;

use crate::args::Global;
use crate::failure::Failure;
use crate::output;

/// A compiled program.
pub struct Program {
    /// BMv2 JSON, what `SetForwardingPipelineConfig` calls the device config.
    pub json: Vec<u8>,
    pub p4info: P4Info,
}

/// Compiles P4 source, or reads BMv2 JSON and the P4Info that belongs to it.
pub fn load(path: &Path, p4info: Option<&Path>) -> Result<Program, Failure> {
    if path.extension().is_some_and(|ext| ext == "json") {
        let json = read(path)?;
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

pub fn compile(global: &Global, path: &Path, output: &Path) -> Result<(), Failure> {
    let program = compile_source(path)?;
    fs::create_dir_all(output).map_err(|error| Failure::in_file(output, &error))?;
    let stem = path
        .file_stem()
        .ok_or_else(|| Failure::in_file(path, &"not a file"))?;
    let to = |suffix: &str| output.join(format!("{}.{suffix}", stem.to_string_lossy()));
    let text = text_format::print_p4info(&program.p4info);
    let files = [
        (to("json"), program.json),
        (to("p4info.txtpb"), text.into_bytes()),
        (to("p4info.bin"), program.p4info.encode_to_vec()),
    ];
    for (to, bytes) in &files {
        fs::write(to, bytes).map_err(|error| Failure::in_file(to, &error))?;
    }
    let names: Vec<String> = files
        .iter()
        .map(|(to, _)| to.display().to_string())
        .collect();
    if global.json {
        output::json(&serde_json::json!({ "files": names }));
    } else {
        names.iter().for_each(output::text);
    }
    Ok(())
}

pub fn check(global: &Global, path: &Path) -> Result<(), Failure> {
    let (program, diagnostics) = compile_with_diagnostics(path)?;
    if global.json {
        output::json(&serde_json::json!({
            "program": path.display().to_string(),
            "ok": program.is_some(),
            "diagnostics": diagnostics,
        }));
    } else {
        show(&diagnostics);
    }
    if program.is_none() {
        return Err(refused(path, &diagnostics));
    }
    if !global.json {
        output::text(format!("{}: ok", path.display()));
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| Failure::in_file(path, &error))
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

fn read_p4info(path: &Path) -> Result<P4Info, Failure> {
    let bytes = read(path)?;
    if path
        .extension()
        .is_some_and(|ext| ext == "bin" || ext == "binpb" || ext == "pb")
    {
        return P4Info::decode(bytes.as_slice()).map_err(|error| Failure::in_file(path, &error));
    }
    let text = String::from_utf8(bytes).map_err(|error| Failure::in_file(path, &error))?;
    text_format::parse_p4info(&text).map_err(|error| Failure::in_file(path, &error))
}

/// Compiles and shows errors and warnings on standard error.
fn compile_source(path: &Path) -> Result<Program, Failure> {
    let (program, diagnostics) = compile_with_diagnostics(path)?;
    show(&diagnostics);
    program.ok_or_else(|| refused(path, &diagnostics))
}

fn compile_with_diagnostics(path: &Path) -> Result<(Option<Program>, Vec<Diagnostic>), Failure> {
    let text = fs::read_to_string(path).map_err(|error| Failure::in_file(path, &error))?;
    let source = |path: &str| fs::read_to_string(path).ok();
    let name = path.display().to_string();
    let output = p4_compiler::compile(&name, &text, &source, &p4_compiler::Options::default());
    let program = match (output.bmv2_json, output.p4info) {
        (Some(json), Some(p4info)) => Some(Program {
            json: serde_json::to_vec(&json)?,
            p4info,
        }),
        _ => None,
    };
    Ok((program, output.diagnostics))
}

fn show(diagnostics: &[Diagnostic]) {
    diagnostics
        .iter()
        .for_each(|diagnostic| eprint!("{}", diagnostic.render()));
}

fn refused(path: &Path, diagnostics: &[Diagnostic]) -> Failure {
    let n = diagnostics
        .iter()
        .filter(|d| d.severity == Severity::Error)
        .count();
    Failure::in_file(
        path,
        &format!(
            "not compiled, {n} {}",
            if n == 1 { "error" } else { "errors" }
        ),
    )
}
