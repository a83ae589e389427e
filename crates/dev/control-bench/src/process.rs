//! Runs the switch as a process: starts, observes and stops the switch, and reads its totals.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Result;
use crate::namespace::PAIRS;

/// The program name under which these programs run the switch.
const SWITCH: &str = "reprise-switch";
/// The P4Runtime and Thrift addresses of the first switch. The namespace contains no other programs, so the ports are
/// free.
const GRPC: ([u8; 4], u16) = ([127, 0, 0, 1], 9559);
const THRIFT: ([u8; 4], u16) = ([127, 0, 0, 1], 9090);
/// How long a switch may take to start. With a large state file a start takes some seconds.
const START_MAX: Duration = Duration::from_secs(120);
/// The interval between checks whether the switch serves.
const LOOK: Duration = Duration::from_millis(20);
/// Maximum number of lines of standard error that are kept.
const LINES_KEPT: usize = 1_000;

#[derive(Debug, Clone)]
pub enum Kind {
    /// This project's switch, from the same build.
    Reprise {
        /// The file for `--state`.
        state: Option<PathBuf>,
        options: Vec<String>,
    },
    /// The path of a `simple_switch_grpc`.
    Bmv2(PathBuf),
}

/// A running switch. Dropping the value kills the switch.
pub struct Process {
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
    readers: Vec<JoinHandle<String>>,
}

/// Runs the switch if the program was started under the switch's name.
pub fn as_switch() -> Option<ExitCode> {
    let name = std::env::args_os().next()?;
    let is_it = Path::new(&name).file_name()? == SWITCH;
    is_it.then(|| reprise_switch::main(&reprise_switch::Parts::default()))
}

/// The number of one of several switches that run at once. It is added to the numbers of the switch's P4Runtime and
/// Thrift ports. Only the first switch has the interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place(pub u16);

impl Place {
    pub const FIRST: Self = Self(0);

    pub fn grpc(self) -> SocketAddr {
        let (address, port) = GRPC;
        SocketAddr::from((address, port + self.0))
    }

    pub fn thrift(self) -> SocketAddr {
        let (address, port) = THRIFT;
        SocketAddr::from((address, port + self.0))
    }
}

fn command(kind: &Kind, place: Place) -> Result<Command> {
    let ports = PAIRS.iter().zip(1..).filter(|_| place == Place::FIRST);
    let interfaces = ports.flat_map(|((_, ours), n)| ["-i".to_owned(), format!("{n}@{ours}")]);
    let (grpc, port) = (place.grpc().to_string(), place.thrift().port().to_string());
    let command = match kind {
        Kind::Reprise { state, options } => {
            let mut command = Command::new(std::env::current_exe()?);
            command.arg0(SWITCH).args(interfaces);
            command.args(["--grpc", &grpc, "--thrift-port", &port, "--json"]);
            if let Some(state) = state {
                command.arg("--state").arg(state);
            }
            command.args(options);
            command
        }
        Kind::Bmv2(program) => {
            let mut command = Command::new(program);
            command
                .args(interfaces)
                .args(["--no-p4", "--device-id", "1"]);
            command.args(["--thrift-port", &port, "--", "--grpc-server-addr", &grpc]);
            command
        }
    };
    Ok(command)
}

impl Process {
    /// Starts a switch and waits until it serves.
    ///
    /// # Errors
    /// The switch does not start. The error contains the switch's output.
    pub fn start(kind: &Kind, place: Place) -> Result<Self> {
        let mut child = command(kind, place)?
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("the switch does not start: {error}"))?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let said = Arc::default();
        let mut readers = Vec::new();
        readers.extend(out.map(|out| thread::spawn(move || all_of(out))));
        let lines = Arc::clone(&said);
        readers.extend(err.map(|err| thread::spawn(move || lines_of(err, &lines))));
        let mut process = Self {
            child,
            said,
            readers,
        };
        let began = Instant::now();
        while TcpStream::connect(place.thrift()).is_err() {
            if !process.is_alive() || began.elapsed() > START_MAX {
                return Err(format!("the switch does not serve: {}", process.said()).into());
            }
            thread::sleep(LOOK);
        }
        Ok(process)
    }

    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    pub fn said(&self) -> String {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.join("\n")
    }

    /// Returns a handle for measurements while the switch runs.
    pub fn looked_at(&self) -> Looked {
        Looked(self.child.id())
    }

    /// Kills the switch with SIGKILL.
    ///
    /// # Errors
    /// The switch has already ended.
    pub fn kill(mut self) -> Result<()> {
        if !self.is_alive() {
            return Err(format!("the switch had ended: {}", self.said()).into());
        }
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Stops the switch. Returns the switch's totals, if the switch prints them as JSON.
    ///
    /// # Errors
    /// The exit code is not 0.
    pub fn stop(mut self) -> Result<Option<Value>> {
        let killed = Command::new("kill")
            .arg(self.child.id().to_string())
            .status()?;
        if !killed.success() {
            return Err(format!("the switch had ended: {}", self.said()).into());
        }
        let status = self.child.wait()?;
        let said = self.readers.drain(..).map(JoinHandle::join);
        let printed: Vec<String> = said.filter_map(std::result::Result::ok).collect();
        if !status.success() {
            return Err(format!("the switch ended with {status}: {}", self.said()).into());
        }
        let last = printed.first().and_then(|text| text.lines().last());
        Ok(last.and_then(|line| serde_json::from_str(line).ok()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails if the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn all_of(mut out: impl std::io::Read) -> String {
    let mut text = Vec::new();
    // Text that was read before an error is kept.
    let _ = out.read_to_end(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

fn lines_of(err: impl std::io::Read, kept: &Mutex<Vec<String>>) -> String {
    for line in BufReader::new(err)
        .lines()
        .map_while(std::result::Result::ok)
    {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= LINES_KEPT {
            kept.drain(..LINES_KEPT / 2);
        }
        kept.push(line);
    }
    String::new()
}

/// A process, observed through `/proc`.
#[derive(Debug, Clone, Copy)]
pub struct Looked(u32);

impl Looked {
    /// Returns the size of the resident memory, or 0 if the process has ended.
    pub fn memory_bytes(self) -> u64 {
        self.status("VmRSS:")
    }

    /// Returns the maximum size of the resident memory so far.
    pub fn memory_bytes_max(self) -> u64 {
        self.status("VmHWM:")
    }

    fn status(self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0)).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
        kib.unwrap_or(0) * 1024
    }

    /// Returns the number of open descriptors, or 0 if the process has ended.
    pub fn n_descriptors(self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.0)).map_or(0, Iterator::count)
    }

    /// Returns the number of threads, or 0 if the process has ended.
    pub fn n_threads(self) -> usize {
        fs::read_dir(format!("/proc/{}/task", self.0)).map_or(0, Iterator::count)
    }
}
