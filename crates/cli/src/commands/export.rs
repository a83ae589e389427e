//! `reprise export`: the state of a switch, or of a file, as a file.

use std::path::Path;

use conference::backend::{SfuProgram, Snapshot};
use conference::export;
use conference::model::Conference;
use p4runtime_proto::p4::v1::WriteRequest;
use p4runtime_proto::text_format;
use serde_json::json;

use super::{apply, program};
use crate::args::{ExportFormat, Global};
use crate::failure::Failure;
use crate::session::Session;
use crate::{files, output};

/// The state of the switch. Nothing is written there.
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
    write(global, &conference, &text, to)?;
    match foreign.as_slice() {
        [] => Ok(()),
        foreign => Err(Failure::new(format!(
            "written without what this controller did not write: {}",
            foreign.join("; ")
        ))),
    }
}

/// The state of a file, for a program; no switch is contacted.
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
    write(global, &conference, &text, to)
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

fn write(
    global: &Global,
    conference: &Conference,
    text: &str,
    to: Option<&Path>,
) -> Result<(), Failure> {
    let (n_groups, n_viewers) = (conference.groups().len(), conference.n_viewers());
    let Some(to) = to else {
        if global.json {
            output::json(&json!({ "groups": n_groups, "viewers": n_viewers, "text": text }));
        } else {
            output::text(text.trim_end());
        }
        return Ok(());
    };
    files::write(to, text.as_bytes())?;
    if global.json {
        let file = to.display().to_string();
        output::json(&json!({ "groups": n_groups, "viewers": n_viewers, "file": file }));
    } else {
        output::text(format!(
            "{n_groups} groups with {n_viewers} viewers written to {}",
            to.display()
        ));
    }
    Ok(())
}
