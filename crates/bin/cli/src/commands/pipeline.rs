//! `reprise pipeline`: shows and sets the program in the switch.

use std::path::Path;

use conference::backend::{ProgramError, SfuProgram};
use p4runtime_client::Client;
use p4runtime_proto::p4::config::v1::{P4Info, Preamble};
use serde_json::{Value, json};

use super::program;
use crate::args::{Global, Pipeline};
use crate::failure::Failure;
use crate::output;
use crate::session::connect_primary;

/// The name of the kind of program that the conference service sets.
const CONFERENCE: &str = "conference";

pub async fn run(global: &Global, command: Pipeline) -> Result<(), Failure> {
    match command {
        Pipeline::Set { program, p4info } => set(global, &program, p4info.as_deref()).await,
        Pipeline::Show => show(global).await,
    }
}

async fn set(global: &Global, path: &Path, p4info: Option<&Path>) -> Result<(), Failure> {
    let loaded = program::load(path, p4info)?;
    let mut client = connect_primary(global).await?;
    let kind = kind(&loaded.p4info);
    client.set_pipeline(loaded.p4info, loaded.json).await?;
    if global.json {
        output::json(&json!({ "program": path.display().to_string(), "kind": kind }));
    } else {
        let has = match kind {
            CONFERENCE => "the conference service writes its entries",
            _ => "no own address and no groups",
        };
        output::text(format!("{} loaded: {kind}, {has}", path.display()));
    }
    Ok(())
}

async fn show(global: &Global) -> Result<(), Failure> {
    let mut client = Client::connect(&global.switch()?, global.device_id).await?;
    let p4info = client.p4info().await?;
    let objects = objects(&p4info);
    if global.json {
        let objects: Vec<Value> = objects
            .iter()
            .map(|(kind, name, size)| json!({ "kind": kind, "name": name, "size": size }))
            .collect();
        output::json(&json!({ "kind": kind(&p4info), "objects": objects }));
        return Ok(());
    }
    output::text(format!(
        "{}, {}",
        printable::line(name(&p4info)),
        kind(&p4info)
    ));
    let rows = objects.into_iter().map(|(kind, name, size)| {
        vec![
            kind.to_owned(),
            name.to_owned(),
            output::grouped(size.try_into().unwrap_or(0)),
        ]
    });
    output::table(&rows.collect::<Vec<_>>(), 2);
    Ok(())
}

fn name(p4info: &P4Info) -> &str {
    match p4info.pkg_info.as_ref().map(|info| info.name.as_str()) {
        None | Some("") => "a program without a name",
        Some(name) => name,
    }
}

fn kind(p4info: &P4Info) -> &'static str {
    match SfuProgram::detect(p4info) {
        Ok(program) => program.name(),
        Err(ProgramError::OfConferenceService) => CONFERENCE,
        Err(_) => "no SFU that this controller knows",
    }
}

fn objects(p4info: &P4Info) -> Vec<(&'static str, &str, i64)> {
    let mut objects = Vec::new();
    objects.extend(
        p4info
            .tables
            .iter()
            .map(|t| ("table", alias_of(t.preamble.as_ref()), t.size)),
    );
    objects.extend(
        p4info
            .registers
            .iter()
            .map(|r| ("register", alias_of(r.preamble.as_ref()), r.size.into())),
    );
    objects.extend(
        p4info
            .counters
            .iter()
            .map(|c| ("counter", alias_of(c.preamble.as_ref()), c.size)),
    );
    objects
}

fn alias_of(preamble: Option<&Preamble>) -> &str {
    preamble.map_or("", |p| p.alias.as_str())
}
