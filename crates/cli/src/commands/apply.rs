//! `reprise apply`: the state of a file, no more and no less.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use conference::address::Mac;
use conference::backend::{SfuProgram, Snapshot};
use conference::difference::difference;
use conference::file::File;
use conference::model::OwnAddress;
use p4runtime_proto::p4::v1::WriteRequest;
use p4runtime_proto::text_format;
use serde_json::json;

use super::program;
use crate::args::Global;
use crate::failure::Failure;
use crate::files;
use crate::output;
use crate::session::Session;

/// Stands for a MAC that is not looked up yet, while the file is checked.
const STAND_IN_MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);

pub async fn run(global: &Global, path: &Path, dry_run: bool) -> Result<(), Failure> {
    let file = read_file(path)?;
    if dry_run {
        return show_difference(global, path, &file).await;
    }
    let mut session = Session::open_primary(global).await?;
    let snapshot = session.read().await?;
    let unknown = file.unknown_macs(&snapshot.conference);
    // Everything that can be refused is refused before anything is written.
    let stand_ins = unknown.iter().map(|ip| (*ip, STAND_IN_MAC)).collect();
    let conference = |macs: &BTreeMap<Ipv4Addr, Mac>| {
        file.conference(session.program.capabilities(), &snapshot.conference, macs)
            .map_err(|error| Failure::in_file(path, &error))
    };
    let mut desired = conference(&stand_ins)?;
    session.expect_port(file.address().port).await?;
    let change = session.plan(&snapshot, &desired)?;
    if unknown.is_empty() {
        session.print(&change, false);
        return session.carry_out(change).await;
    }
    let looked_up = look_up(&mut session, &snapshot, file.address(), &unknown).await;
    let looked_up = looked_up.map_err(|error| Failure::in_file(path, &error))?;
    desired = file
        .conference(
            session.program.capabilities(),
            &snapshot.conference,
            &looked_up,
        )
        .map_err(|error| Failure::in_file(path, &error))?;
    let printed = session.plan(&snapshot, &desired)?;
    session.print(&printed, false);
    let snapshot = session.read().await?;
    let change = session.plan(&snapshot, &desired)?;
    session.carry_out(change).await
}

/// Asks from the own address in force. Where there is none on that port, the file's is put in
/// force for the question, since replies come to it, and taken back if nobody answers.
async fn look_up(
    session: &mut Session,
    snapshot: &Snapshot,
    own: OwnAddress,
    ips: &BTreeSet<Ipv4Addr>,
) -> Result<BTreeMap<Ipv4Addr, Mac>, Failure> {
    let in_force = snapshot.conference.address().copied();
    if let Some(in_force) = in_force.filter(|in_force| in_force.port == own.port) {
        return session.look_up(Some(&in_force), ips).await;
    }
    let mut with_address = snapshot.conference.clone();
    with_address.set_address(own)?;
    let change = session.plan(snapshot, &with_address)?;
    session.carry_out(change).await?;
    let looked_up = session.look_up(Some(&own), ips).await;
    if looked_up.is_err() {
        let now = session.read().await?;
        let back = session.plan(&now, &snapshot.conference)?;
        session.carry_out(back).await?;
    }
    looked_up
}

async fn show_difference(global: &Global, path: &Path, file: &File) -> Result<(), Failure> {
    let mut session = Session::open(global).await?;
    session.expect_port(file.address().port).await?;
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
    let text = files::text(path, "a conference.yaml")?;
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
