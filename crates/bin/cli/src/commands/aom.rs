//! `reprise aom`: groups of authenticated ordered multicast. `serve` is the configuration service; the other commands
//! send requests to it over the socket in its folder.

use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use aom_service::authority::Authority;
use aom_service::listener;
use aom_service::operator::{Answer, GroupAdd, GroupState, GroupView, MemberAdd, Request, Variant};
use aom_service::operator_socket::{OperatorSocket, ask};
use aom_service::rejoins::RejoinLimits;
use aom_service::sequencer::{Sequencer, SequencerError};
use aom_service::service::{Clock, FirstBid, Options, RIVAL_FOR, Service};
use serde_json::json;

use super::program;
use crate::args::{Aom, AomEpoch, AomGroup, AomMember, AomVariant, Global, Serve};
use crate::failure::Failure;
use crate::files;
use crate::output;

pub async fn run(global: &Global, command: Aom) -> Result<(), Failure> {
    match command {
        Aom::Serve(options) => serve(global, options).await,
        Aom::Group { state, command } => group(global, &state.folder, command).await,
        Aom::Member { state, command } => member(global, &state.folder, command).await,
        Aom::Epoch { state, command } => {
            let AomEpoch::Advance { group } = command;
            change(global, &state.folder, Request::EpochAdvance { group }).await
        }
    }
}

async fn serve(global: &Global, serve: Serve) -> Result<(), Failure> {
    let Serve {
        program: path,
        state,
        listen,
        advertise,
        mac,
        ports,
        ack_deadline_ms,
        replace_program,
    } = serve;
    // Core dumps must be forbidden before keys are in memory.
    secret_memory::no_core_dumps()?;
    let loaded = program::load(&path, None)?;
    let sequencer = Sequencer::new(loaded.p4info, loaded.json, &mac, ports);
    let sequencer = sequencer.map_err(|error| match error {
        SequencerError::Mac(why) => Failure::new(format!("--mac: {why}")),
        SequencerError::Program(_) => Failure::in_file(&path, &error),
    })?;
    let advertised = advertised(listen, advertise)?;
    let options = Options {
        switch: global.switch()?,
        device_id: global.device_id,
        state: state.folder.clone(),
        sequencer,
        ack_deadline: Duration::from_millis(ack_deadline_ms),
        replaces_programs: replace_program,
        first_bid: FirstBid {
            wait: global.wait(RIVAL_FOR),
            takes_over: global.takeover,
        },
        rejoins: RejoinLimits::default(),
        clock: Clock::new(since_1970),
        stop_at: None,
    };
    // The service must own the folder before it changes anything there.
    let (folder, issuer) = (state.folder.clone(), advertised);
    let service = Service::open(options, move || {
        Ok(Box::new(Authority::open(&folder, issuer)?))
    })?;
    let tls = Authority::open(&state.folder, advertised)?.server_config()?;
    let bound = listener::bind(listen).await;
    let bound = bound.map_err(|error| {
        Failure::new(format!(
            "{listen}: members cannot connect there: {}",
            files::why(&error)
        ))
    })?;
    let address = bound.local_addr()?;
    let socket = OperatorSocket::bind(&state.folder)
        .map_err(|error| Failure::in_file(&state.folder, &files::why(&error)))?;
    let members = tokio::spawn(listener::serve(bound, tls, service.members()));
    let operators = tokio::spawn(socket.serve(service.operator()));
    output::log_to_standard_error("aom", output::Level::INFO);
    ready(global, &state.folder, address);
    let ended = service.run(stopped()).await;
    members.abort();
    operators.abort();
    // Wait until the aborted task has removed the socket, before another service can own the folder.
    let _ = operators.await;
    Ok(ended?)
}

/// Time since 1970; 0 if the clock is set to an earlier time.
fn since_1970() -> Duration {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default()
}

/// Returns the service's address for the member files; refuses an address to which no member could connect.
fn advertised(listen: SocketAddr, advertise: Option<SocketAddr>) -> Result<SocketAddr, Failure> {
    let address = advertise.unwrap_or(listen);
    if address.ip().is_unspecified() || address.port() == 0 {
        return Err(Failure::new(format!(
            "{address} is no address that a member could connect to, but would be in the member files: give another with --advertise"
        )));
    }
    Ok(address)
}

fn ready(global: &Global, folder: &Path, address: SocketAddr) {
    if global.json {
        let folder = folder.display().to_string();
        output::json(&json!({ "ready": true, "members": address.to_string(), "state": folder }));
    } else {
        output::text(format!(
            "ready: members connect to {address}; operators: reprise aom group show --state {}",
            folder.display()
        ));
    }
}

/// Waits for SIGINT or SIGTERM.
async fn stopped() {
    use tokio::signal::unix::{SignalKind, signal};
    let terminated = signal(SignalKind::terminate());
    match terminated {
        Ok(mut terminated) => tokio::select! {
            _ = terminated.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        },
        // Without a handler the signal ends the process, and the next service continues from the saved state.
        Err(_) => std::future::pending().await,
    }
}

async fn group(global: &Global, folder: &Path, command: AomGroup) -> Result<(), Failure> {
    match command {
        AomGroup::Show { group } => show(global, folder, group).await,
        AomGroup::Remove { group } => change(global, folder, Request::GroupRemove { group }).await,
        AomGroup::Add {
            group,
            id,
            address,
            variant,
            signer_port,
            signer_key,
            byzantine,
        } => {
            let variant = match (variant, signer_port, signer_key) {
                (AomVariant::Tagged, ..) => Variant::Tagged,
                (AomVariant::Signed, Some(signer_port), Some(public_key)) => Variant::Signed {
                    signer_port,
                    public_key,
                },
                (AomVariant::Signed, ..) => {
                    return Err(Failure::new(
                        "a signed group needs a signer: give its port of the switch with --signer-port and its public key with --signer-key (`reprise-signer key public`)",
                    ));
                }
            };
            let request = GroupAdd {
                group,
                number: id,
                address,
                variant,
                byzantine,
            };
            change(global, folder, Request::GroupAdd(request)).await
        }
    }
}

async fn member(global: &Global, folder: &Path, command: AomMember) -> Result<(), Failure> {
    match command {
        AomMember::Remove { group, member } => {
            change(global, folder, Request::MemberRemove { group, member }).await
        }
        AomMember::File {
            group,
            member,
            output,
        } => {
            let request = Request::MemberFile {
                group: group.clone(),
                member: member.clone(),
            };
            with_file(global, folder, request, &group, &member, &output).await
        }
        AomMember::Add {
            group,
            member,
            mac,
            ip,
            udp_port,
            port,
            output,
        } => {
            let who = (group.clone(), member.clone());
            let request = Request::MemberAdd(MemberAdd {
                group,
                member,
                mac: mac.to_string(),
                ip,
                udp_port,
                switch_port: port,
            });
            with_file(global, folder, request, &who.0, &who.1, &output).await
        }
    }
}

async fn answered(folder: &Path, request: &Request) -> Result<Answer, Failure> {
    match ask(folder, request).await? {
        Answer::Failed { error } => Err(Failure::new(error)),
        answer => Ok(answer),
    }
}

async fn change(global: &Global, folder: &Path, request: Request) -> Result<(), Failure> {
    if let Answer::Done { message, group, .. } = answered(folder, &request).await? {
        print_done(global, &message, group.as_deref(), None);
        print_epoch(global, group.as_deref());
    }
    Ok(())
}

/// Sends the request and writes the member's file. Creates the file first, so that no member is added whose keys cannot
/// be stored.
async fn with_file(
    global: &Global,
    folder: &Path,
    request: Request,
    group: &str,
    member: &str,
    path: &Path,
) -> Result<(), Failure> {
    let is_new_epoch = matches!(request, Request::MemberAdd(_));
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(|error| Failure::in_file(path, &why_not_new(&error)))?;
    let answer = answered(folder, &request).await;
    let Ok(Answer::Done {
        message,
        group: view,
        member_file: Some(text),
    }) = answer
    else {
        // Remove the empty file, so that a later command may use its name.
        let _ = std::fs::remove_file(path);
        return answer.map(drop);
    };
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all());
    written.map_err(|error| {
        let next = format!("{message}, but its file cannot be written ({}): make another file with `reprise aom member file {group} {member} --output FILE`", files::why(&error));
        Failure::in_file(path, &next)
    })?;
    print_done(global, &message, view.as_deref(), Some(path.to_owned()));
    // A Byzantine group's next epoch begins only when the member has connected.
    let view = view.filter(|group| is_new_epoch && !group.byzantine);
    print_epoch(global, view.as_deref());
    Ok(())
}

/// Says why a new file cannot be created, and what the user can do next.
fn why_not_new(error: &std::io::Error) -> String {
    let why = files::why(error);
    match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            format!(
                "{why}, and a member's key never overwrites a file: give another name, or move the file away"
            )
        }
        _ => why,
    }
}

fn print_done(global: &Global, message: &str, group: Option<&GroupView>, file: Option<PathBuf>) {
    let file = file.map(|file| file.display().to_string());
    if global.json {
        output::json(&json!({ "message": message, "group": group, "member_file": file }));
        return;
    }
    output::text(message);
    if let Some(file) = file {
        output::text(format!(
            "{file} is the member's secret: copy it to the host where the member runs"
        ));
    }
}

/// Prints for how long a change of epoch stopped the group, and which members have not been sent the epoch.
fn print_epoch(global: &Global, group: Option<&GroupView>) {
    let Some(group) = group.filter(|_| !global.json) else {
        return;
    };
    if let Some(gap) = group.last_gap_ms {
        output::text(format!("for {gap} ms no request got a sequence number"));
    }
    let away = group.members.iter().filter(|member| !member.is_connected);
    let names: Vec<&str> = away.map(|member| member.member.as_str()).collect();
    if !names.is_empty() {
        output::text(format!(
            "not connected, and sent the epoch when they connect: {}",
            names.join(", ")
        ));
    }
}

async fn show(global: &Global, folder: &Path, group: Option<String>) -> Result<(), Failure> {
    let Answer::Groups { groups } = answered(folder, &Request::GroupShow { group }).await? else {
        return Ok(());
    };
    if global.json {
        output::json(&json!({ "groups": groups }));
        return Ok(());
    }
    if groups.is_empty() {
        output::text("no groups: add one with `reprise aom group add`");
    }
    groups.iter().for_each(print);
    Ok(())
}

fn print(group: &GroupView) {
    let address = match group.address {
        Some(address) => format!("{address}, "),
        None => String::new(),
    };
    let variant = match &group.variant {
        Variant::Tagged => "tagged".to_owned(),
        Variant::Signed { signer_port, .. } => format!("signed at port {signer_port}"),
    };
    let byzantine = if group.byzantine { ", Byzantine" } else { "" };
    output::text(format!(
        "{}: {address}number {}, {variant}{byzantine}",
        group.group, group.number
    ));
    let state = match &group.state {
        GroupState::Active => "active".to_owned(),
        GroupState::Advancing => "advancing".to_owned(),
        GroupState::Inactive { because } => format!("inactive: {because}"),
    };
    let sequence = group
        .sequence
        .map_or("?".to_owned(), |it| output::grouped(it.into()));
    output::text(format!(
        "  epoch {}, {state}; last number {sequence}",
        group.epoch
    ));
    if let Some(liars_max) = group.liars_max {
        let n_receivers = group.members.iter().filter(|it| it.receiver.is_some());
        let n_receivers = n_receivers.count();
        output::text(match liars_max {
            0 => format!("  of its {n_receivers} receivers none may lie"),
            n => format!("  of its {n_receivers} receivers at most {n} may lie"),
        });
    }
    let heads = [
        "receiver",
        "member",
        "address",
        "MAC",
        "port",
        "connected",
        "epoch",
    ];
    let heads = heads.map(str::to_owned).to_vec();
    let rows = group.members.iter().map(|it| {
        vec![
            it.receiver.map_or("-".to_owned(), |it| it.to_string()),
            it.member.clone(),
            format!("{}:{}", it.ip, it.udp_port),
            it.mac.clone(),
            it.switch_port.to_string(),
            if it.is_connected { "yes" } else { "no" }.to_owned(),
            it.installed.map_or("-".to_owned(), |it| it.to_string()),
        ]
    });
    let rows: Vec<Vec<String>> = std::iter::once(heads).chain(rows).collect();
    if rows.len() > 1 {
        output::table(&rows, 4);
    }
    for member in &group.members {
        if let Some(waits) = &member.waits {
            output::text(format!("  {}: {waits}", member.member));
        }
    }
}
