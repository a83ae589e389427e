//! Programs, and the verifier's reports about them.

#![expect(unsafe_code, reason = "instructions go to bpf(2) as addresses")]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use crate::Instruction;
use crate::pin;
use crate::sys::{ProgramLoad, call_for_descriptor, object_name};

const BPF_F_XDP_HAS_FRAGS: u32 = 1 << 5;

/// Size of the verifier's log, in bytes. Since Linux 6.4 the kernel keeps the end of a longer log.
const VERIFIER_LOG_BYTES: usize = 1 << 20;

/// How many of the log's last lines an error message contains.
const VERIFIER_LOG_LINES: usize = 40;

/// `BPF_LOG_LEVEL1` and `BPF_LOG_STATS`.
const LOG_STEPS: u32 = 1;
const LOG_STATISTICS: u32 = 4;

/// Where a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramKind {
    /// On frames that an interface receives.
    Xdp,
    /// On frames that leave through an entry of a map of devices.
    XdpDeviceMap,
    /// At a tracepoint of the kernel. The program gets the tracepoint's arguments as numbers.
    RawTracepoint,
}

impl ProgramKind {
    /// Values of `enum bpf_prog_type` and `enum bpf_attach_type`.
    fn numbers(self) -> (u32, u32) {
        match self {
            ProgramKind::Xdp => (6, 37),
            ProgramKind::XdpDeviceMap => (6, 33),
            ProgramKind::RawTracepoint => (17, 0),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct ProgramConfig<'a> {
    /// `bpftool` shows the first 15 characters.
    pub name: &'a str,
    pub kind: ProgramKind,
    /// Whether the program accepts frames in several buffers.
    pub has_fragments: bool,
    /// The instructions refer to maps by descriptor.
    pub instructions: &'a [Instruction],
}

/// A loaded program. The kernel keeps it as long as a descriptor or an attachment refers to it.
#[derive(Debug)]
pub struct Program {
    fd: OwnedFd,
    n_verified: u64,
}

impl Program {
    /// Loads a program.
    ///
    /// # Errors
    /// The kernel's error, with the last lines of the verifier's log.
    pub fn load(config: &ProgramConfig<'_>) -> io::Result<Program> {
        let mut log = vec![0; 4096];
        match load(config, LOG_STATISTICS, &mut log) {
            Ok(fd) => Ok(Program {
                fd,
                n_verified: n_verified(&text(&log)),
            }),
            Err(error) => Err(explained(config, error)),
        }
    }

    /// Returns how many instructions the verifier has processed, over all paths; 0 if the kernel does not report it.
    pub fn n_verified(&self) -> u64 {
        self.n_verified
    }

    /// Pins the program: gives it a name in the BPF file system, so that it outlives the process.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn pin(&self, path: &Path) -> io::Result<()> {
        pin::pin(self.fd.as_fd(), path)
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Adds the verifier's log to the error, if the verifier wrote one.
fn explained(config: &ProgramConfig<'_>, error: io::Error) -> io::Error {
    let is_verifiers = matches!(
        error.raw_os_error(),
        Some(libc::EACCES | libc::EINVAL | libc::E2BIG | libc::ENOSPC)
    );
    if !is_verifiers {
        return error;
    }
    let mut log = vec![0; VERIFIER_LOG_BYTES];
    // The second load is only for its longer log: even if it succeeds, the first error is returned.
    let _ = load(config, LOG_STEPS | LOG_STATISTICS, &mut log);
    let log = text(&log);
    let lines: Vec<&str> = log.lines().collect();
    let last = &lines[lines.len().saturating_sub(VERIFIER_LOG_LINES)..];
    match last {
        [] => error,
        last => io::Error::new(
            error.kind(),
            format!("{error}; the verifier says: {}", last.join("\n")),
        ),
    }
}

fn load(config: &ProgramConfig<'_>, log_level: u32, log: &mut [u8]) -> io::Result<OwnedFd> {
    let (program_type, attach_type) = config.kind.numbers();
    let mut attributes = ProgramLoad {
        program_type,
        n_instructions: u32::try_from(config.instructions.len()).map_err(io::Error::other)?,
        instructions: config.instructions.as_ptr() as u64,
        license: c"Apache-2.0".as_ptr() as u64,
        log_level,
        log_bytes: u32::try_from(log.len()).map_err(io::Error::other)?,
        log: log.as_mut_ptr() as u64,
        flags: if config.has_fragments {
            BPF_F_XDP_HAS_FRAGS
        } else {
            0
        },
        name: object_name(config.name),
        attach_type,
        ..ProgramLoad::default()
    };
    // SAFETY: instructions, license and log live through the call and are as long as said; the kernel
    // writes the log only.
    unsafe { call_for_descriptor(&mut attributes) }
}

/// Returns the log up to its terminating zero.
fn text(log: &[u8]) -> String {
    let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
    String::from_utf8_lossy(&log[..end]).trim().to_owned()
}

/// Returns `N` of the log's line `processed N insns (limit …)`, or 0 if there is no such line.
fn n_verified(log: &str) -> u64 {
    let mut lines = log.lines();
    let number = lines.find_map(|line| line.strip_prefix("processed ")?.split(' ').next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}
