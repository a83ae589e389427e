//! Reduces the process's privileges once its ports, files and addresses are open. The process keeps the privileges that
//! are needed to open the port of a lost interface again, to load a new program, or to open files of other users again.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use privileges::Capabilities;

use crate::engine::EngineOption;
use crate::error::SwitchError;
use crate::options::{GrpcOption, Options, PortSource};

/// Gives up all privileges except those that are still needed, also for threads that are started later.
pub(crate) fn give_up(options: &Options) -> Result<(), SwitchError> {
    privileges::keep(needed(options)).map_err(|source| SwitchError::System {
        operation: "give up privileges",
        source,
    })
}

/// The capabilities needed for the rest of the process's life.
fn needed(options: &Options) -> Capabilities {
    let sources = || options.ports.iter().map(|port| &port.source);
    let has_packet = sources().any(|source| matches!(source, PortSource::Interface(_)));
    let has_xdp = sources().any(|source| matches!(source, PortSource::Xdp { .. }));
    let xdp = Capabilities::NET_RAW
        .and(Capabilities::NET_ADMIN)
        .and(Capabilities::BPF)
        .and(Capabilities::IPC_LOCK);
    Capabilities::NONE
        .and_if(has_packet, Capabilities::NET_RAW)
        .and_if(has_xdp, xdp)
        .and_if(
            options.engine == EngineOption::Kernel,
            Capabilities::PERFMON,
        )
        .and_if(opens_files_of_others(options), Capabilities::DAC_OVERRIDE)
}

/// Whether a file that the switch uses again later belongs to another user: the state file after a failure, renewed
/// certificates, the log's next file, sockets that are removed at the end.
fn opens_files_of_others(options: &Options) -> bool {
    let access = &options.grpc_access;
    let tls = [&access.tls_cert, &access.tls_key, &access.tls_client_ca];
    let log = options.bmv2.as_ref().and_then(|bmv2| bmv2.log_path());
    let files = tls
        .into_iter()
        .chain([&options.state, &options.thrift_socket]);
    let files = files.flatten().map(|path| path.as_path());
    let grpc = match &options.grpc {
        Some(GrpcOption::Socket(path)) => Some(path.as_path()),
        _ => None,
    };
    files
        .chain(log)
        .chain(grpc)
        .any(|path| is_of_another(path) || is_of_another(folder_of(path)))
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Whether a file belongs to another user. Returns false for a missing file, which will be made in its folder.
fn is_of_another(path: &Path) -> bool {
    let own = privileges::user();
    fs::metadata(path).is_ok_and(|file| file.uid() != own)
}
