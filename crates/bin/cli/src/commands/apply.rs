//! `reprise apply`: brings the switch to exactly the state of a file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use conference::address::Mac;
use conference::backend::{SfuProgram, Snapshot};
use conference::file::File;
use conference::model::OwnAddress;
use conference::neighbour::{Place, Question};
use conference::plan;

use crate::args::Global;
use crate::failure::Failure;
use crate::files;
use crate::session::Session;

/// Stands for a MAC that has not been looked up yet, while the file is checked.
const STAND_IN_MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);

pub async fn run(global: &Global, path: &Path, dry_run: bool) -> Result<(), Failure> {
    let file = read_file(path)?;
    if dry_run {
        return show_difference(global, path, &file).await;
    }
    let mut session = Session::open_primary(global).await?;
    let snapshot = session.settle().await?;
    let unknown = file.unknown_macs(&snapshot.conference);
    // Find errors in the file before anything in the switch is changed.
    let own = file
        .addresses()
        .map_err(|error| Failure::in_file(path, &error))?;
    let stand_in = |question: &Question| Place {
        port: question
            .port
            .or_else(|| own.keys().next().copied())
            .unwrap_or(0),
        mac: STAND_IN_MAC,
    };
    let stand_ins = unknown.iter().map(|q| (*q, stand_in(q))).collect();
    let desired = |session: &Session, macs: &BTreeMap<Question, Place>| {
        file.conference(session.program.capabilities(), &snapshot.conference, macs)
            .map_err(|error| Failure::in_file(path, &error))
    };
    let checked = desired(&session, &stand_ins)?;
    session.expect_ports(own.keys()).await?;
    let change = session.plan(&snapshot, &checked)?;
    if unknown.is_empty() {
        return session.carry_out(change).await;
    }
    let looked_up = look_up(&mut session, &snapshot, &own, &unknown).await;
    let looked_up = looked_up.map_err(|error| Failure::in_file(path, &error))?;
    let desired = desired(&session, &looked_up)?;
    // The switch may still have the address that `look_up` added. This address does not come from an interrupted
    // change, so it must not be reported as left over.
    let mut asked = session.read().await?;
    asked.left_over.clone_from(&snapshot.left_over);
    let change = session.plan(&asked, &desired)?;
    session.carry_out(change).await
}

/// Finds the hosts' MAC addresses by ARP requests, which come from the switch's own address on each port of the file.
/// If the switch has no own address on a port, it gets the address that the file gives for this port, so that it
/// receives the replies. If the lookup fails, the added address is deleted again.
async fn look_up(
    session: &mut Session,
    snapshot: &Snapshot,
    own: &BTreeMap<u16, OwnAddress>,
    questions: &BTreeSet<Question>,
) -> Result<BTreeMap<Question, Place>, Failure> {
    let in_force = snapshot.conference.addresses();
    let asks_from = |own: &OwnAddress| *in_force.get(&own.port).unwrap_or(own);
    let from: Vec<OwnAddress> = own.values().map(asks_from).collect();
    for own in &from {
        if !in_force.contains_key(&own.port) {
            let ask = session.program.ask_from(snapshot, own);
            plan::run(ask, &mut session.client, |_| {}).await?;
        }
    }
    let looked_up = session.look_up(&from, questions).await;
    if looked_up.is_err() {
        session.settle().await?;
    }
    looked_up
}

async fn show_difference(global: &Global, path: &Path, file: &File) -> Result<(), Failure> {
    let mut session = Session::open(global).await?;
    let own = file
        .addresses()
        .map_err(|error| Failure::in_file(path, &error))?;
    session.expect_ports(own.keys()).await?;
    let snapshot = session.read().await?;
    let unknown = file.unknown_macs(&snapshot.conference);
    if let Some(Question { ip, .. }) = unknown.first() {
        return Err(Failure::new(format!(
            "{}: the MAC address of {ip} ({} in all) is neither in the file nor in the switch, and a dry run sends no ARP request: add `mac:`, or leave --dry-run out",
            path.display(),
            unknown.len()
        )));
    }
    let desired = desired(path, file, &session.program, &snapshot)?;
    let change = session.plan(&snapshot, &desired)?;
    session.print_only(&change);
    Ok(())
}

pub(super) fn read_file(path: &Path) -> Result<File, Failure> {
    let text = files::text(path, "a conference.yaml")?;
    File::parse(&text).map_err(|error| Failure::in_file(path, &error))
}

pub(super) fn desired(
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
