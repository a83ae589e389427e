//! `reprise export`: writes the state of a switch, or the conference that a file describes, to a file.

use std::path::Path;

use conference::backend::{SfuProgram, Snapshot};
use conference::export;
use conference::model::Conference;
use p4runtime_proto::p4::v1::WriteRequest;
use p4runtime_proto::text_format;
use serde_json::{Value, json};

use super::{apply, program};
use crate::args::{ExportFormat, Global};
use crate::failure::Failure;
use crate::session::Session;
use crate::{files, output};

/// Exports the state of the switch, without changing it.
pub async fn of_switch(
    global: &Global,
    format: ExportFormat,
    to: Option<&Path>,
) -> Result<(), Failure> {
    let mut session = Session::open(global).await?;
    let Snapshot {
        conference,
        foreign,
        ..
    } = session.read_steady().await?;
    let text = text(global, &session.program, &conference, format)?;
    let document = write(global, &conference, &text, to)?;
    if foreign.is_empty() {
        print(global, &document);
        return Ok(());
    }
    Err(Failure::new(format!(
        "the file does not include state that this controller did not write: {}",
        foreign.join("; ")
    ))
    .with(document))
}

/// Exports the conference of a file, without a switch. The form depends on the given program.
pub fn of_file(
    global: &Global,
    (path, program): (&Path, &Path),
    format: ExportFormat,
    to: Option<&Path>,
) -> Result<(), Failure> {
    let file = apply::read_file(path)?;
    let loaded = program::load(program, None)?;
    let sfu = SfuProgram::detect(&loaded.p4info).map_err(|e| Failure::in_file(program, &e))?;
    let conference = apply::desired(path, &file, &sfu, &sfu.empty())?;
    let text = text(global, &sfu, &conference, format)?;
    let document = write(global, &conference, &text, to)?;
    print(global, &document);
    Ok(())
}

fn print(global: &Global, document: &Value) {
    if global.json {
        output::json(document);
    }
}

fn text(
    global: &Global,
    program: &SfuProgram,
    conference: &Conference,
    format: ExportFormat,
) -> Result<String, Failure> {
    if format == ExportFormat::Conference {
        return Ok(export::yaml(conference)?);
    }
    let plan = program.plan(&program.empty(), conference)?;
    let request = WriteRequest {
        device_id: global.device_id,
        updates: plan.into_updates_for_empty_switch(),
        ..WriteRequest::default()
    };
    Ok(text_format::print_write_request(&request))
}

/// Writes the file and prints a line; returns the document for `--json`.
fn write(
    global: &Global,
    conference: &Conference,
    text: &str,
    to: Option<&Path>,
) -> Result<Value, Failure> {
    let (n_groups, n_viewers) = (conference.groups().len(), conference.n_viewers());
    let Some(to) = to.filter(|to| !files::is_standard(to)) else {
        if !global.json {
            output::text(text.trim_end());
        }
        return Ok(json!({ "groups": n_groups, "viewers": n_viewers, "text": text }));
    };
    files::write(to, text.as_bytes())?;
    let file = to.display().to_string();
    if !global.json {
        let groups = output::count(n_groups, "group");
        let viewers = output::count(n_viewers, "viewer");
        output::text(format!("{groups} with {viewers} written to {file}"));
    }
    Ok(json!({ "groups": n_groups, "viewers": n_viewers, "file": file }))
}
