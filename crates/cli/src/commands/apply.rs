//! `reprise apply`: the state of a file, no more and no less.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use conference::backend::{SfuProgram, Snapshot};
use conference::difference::difference;
use conference::file::File;
use p4runtime_proto::p4::v1::WriteRequest;
use p4runtime_proto::text_format;
use serde_json::json;

use super::program;
use crate::args::Global;
use crate::failure::Failure;
use crate::output;
use crate::session::Session;

pub async fn run(global: &Global, path: &Path, dry_run: bool) -> Result<(), Failure> {
    let file = read_file(path)?;
    if dry_run {
        return show_difference(global, path, &file).await;
    }
    let mut session = Session::open_primary(global).await?;
    let snapshot = session.read().await?;
    let unknown = file.unknown_macs(&snapshot.conference);
    let mut looked_up = BTreeMap::new();
    if !unknown.is_empty() {
        let own = file.address();
        if snapshot.conference.address() != Some(&own) {
            // Replies come to the own address, so it must be in force before the question.
            let mut with_address = snapshot.conference.clone();
            with_address
                .set_address(own)
                .map_err(|e| Failure::in_file(path, &e))?;
            let change = session.plan(&snapshot, &with_address)?;
            session.carry_out(change).await?;
        }
        looked_up = session.look_up(Some(&own), &unknown).await?;
    }
    let desired = file.conference(
        session.program.capabilities(),
        &snapshot.conference,
        &looked_up,
    );
    let desired = desired.map_err(|error| Failure::in_file(path, &error))?;
    let printed = session.plan(&snapshot, &desired)?;
    session.print(&printed, false);
    if looked_up.is_empty() {
        return session.carry_out(printed).await;
    }
    let snapshot = session.read().await?;
    let change = session.plan(&snapshot, &desired)?;
    session.carry_out(change).await
}

async fn show_difference(global: &Global, path: &Path, file: &File) -> Result<(), Failure> {
    let mut session = Session::open(global).await?;
    let snapshot = session.read().await?;
    let unknown = file.unknown_macs(&snapshot.conference);
    if let Some(ip) = unknown.first() {
        return Err(Failure::new(format!(
            "{}: the MAC address of {ip} ({} in all) is neither in the file nor in the switch, and a dry run sends no ARP request: add `mac:`, or leave --dry-run out",
            path.display(),
            unknown.len()
        )));
    }
    let desired = desired(path, file, &session.program, &snapshot)?;
    let change = session.plan(&snapshot, &desired)?;
    session.print(&change, true);
    Ok(())
}

/// Writes the entries for an empty switch, without any switch.
pub fn export(global: &Global, path: &Path, program: &Path, to: &Path) -> Result<(), Failure> {
    let file = read_file(path)?;
    let loaded = program::load(program, None)?;
    let sfu = SfuProgram::detect(&loaded.p4info).map_err(|e| Failure::in_file(program, &e))?;
    let empty = sfu.empty();
    let desired = desired(path, &file, &sfu, &empty)?;
    let plan = sfu.plan(&empty, &desired)?;
    let lines = difference(&empty.conference, &desired);
    let request = WriteRequest {
        device_id: global.device_id,
        updates: plan.into_updates_for_empty_switch(),
        ..WriteRequest::default()
    };
    fs::write(to, text_format::print_write_request(&request))
        .map_err(|error| Failure::in_file(to, &error))?;
    if global.json {
        output::json(&json!({
            "file": to.display().to_string(),
            "changes": lines,
            "updates": request.updates.len(),
        }));
    } else {
        lines.iter().for_each(output::text);
        output::text(format!(
            "{} updates written to {}",
            request.updates.len(),
            to.display()
        ));
    }
    Ok(())
}

fn read_file(path: &Path) -> Result<File, Failure> {
    let text = fs::read_to_string(path).map_err(|error| Failure::in_file(path, &error))?;
    File::parse(&text).map_err(|error| Failure::in_file(path, &error))
}

fn desired(
    path: &Path,
    file: &File,
    program: &SfuProgram,
    snapshot: &Snapshot,
) -> Result<conference::model::Conference, Failure> {
    file.conference(
        program.capabilities(),
        &snapshot.conference,
        &BTreeMap::new(),
    )
    .map_err(|error| Failure::in_file(path, &error))
}
