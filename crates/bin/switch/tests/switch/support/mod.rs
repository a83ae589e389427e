//! Starts the switch and reads its output.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use packet_io::{AfPacketConfig, AfPacketPort};
use serde_json::Value;

/// Timeout of a test for something that must happen.
pub const TIMEOUT: Duration = Duration::from_secs(120);

pub fn program(name: &str) -> String {
    format!("{}/tests/programs/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Options that load the program which forwards from port 1 to port 2.
pub const FORWARD: [&str; 5] = [
    "--p4info",
    concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/programs/forward.p4info.txtpb"
    ),
    "--entries",
    concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/programs/forward.entries.txtpb"
    ),
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/forward.json"),
];

/// The words of a command line.
pub fn words_of(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

pub fn switch(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reprise-switch"));
    command.args(arguments).stdin(Stdio::null());
    command
}

pub fn run(arguments: &[&str]) -> Output {
    switch(arguments).output().expect("the switch starts")
}

/// Runs the switch, which must end with exit code 0; returns standard output and standard error.
pub fn succeed(arguments: &[&str]) -> (String, String) {
    let output = run(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
    (String::from_utf8(output.stdout).expect("text"), said)
}

/// The totals that a switch prints with `--json`.
pub fn totals(printed: &str) -> Value {
    serde_json::from_str(printed.lines().last().expect("a line")).expect("JSON")
}

/// How many packets a port of the totals has dropped, for all reasons that begin with `prefix`.
pub fn drops(port: &Value, prefix: &str) -> u64 {
    let members = port.as_object().expect("an object").iter();
    let counts = members.filter(|(name, _)| name.starts_with(prefix));
    let counts = counts.filter(|(name, _)| !name.ends_with("_frames") && !name.ends_with("_bytes"));
    counts
        .map(|(_, count)| count.as_u64().expect("a count"))
        .sum()
}

/// Returns how many frames did not fit into a veth's ring. With XDP the ring has 256 slots, which a burst on a loaded
/// machine can fill.
pub fn lost_at_sender(interface: &str) -> u64 {
    let shown = testkit::namespace::run(&format!("ip -json -statistics link show {interface}"));
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    let dropped = &shown[0]["stats64"]["tx"]["dropped"];
    dropped.as_u64().expect("a count")
}

pub fn outside(interface: &str) -> AfPacketPort {
    AfPacketPort::open(interface, AfPacketConfig::default()).expect("an interface that is up")
}

/// Runs the switch, which must end with `exit_code` and one message on standard error.
pub fn error(exit_code: i32, arguments: &[&str]) -> String {
    let output = run(arguments);
    let said = String::from_utf8(output.stderr).expect("text");
    let found = output.status.code();
    assert_eq!(found, Some(exit_code), "{arguments:?}: {said}");
    assert!(said.starts_with("error: "), "{arguments:?}: {said}");
    assert!(!said.contains("panicked"), "{arguments:?}: {said}");
    assert!(!said.contains("ready: "), "{arguments:?}: {said}");
    said
}

/// A switch that is up. It is killed if the test ends without stopping it.
pub struct Running {
    child: Child,
    lines: Receiver<String>,
    /// The lines before the ready line.
    pub before: Vec<String>,
    pub ready: String,
}

impl Running {
    /// Starts a switch that must print nothing before the ready line.
    pub fn start(arguments: &[&str]) -> Running {
        let running = Running::start_that_logs(arguments);
        assert_eq!(running.before, [""; 0], "{arguments:?}");
        running
    }

    pub fn start_that_logs(arguments: &[&str]) -> Running {
        Running::of(switch(arguments))
    }

    pub fn of(mut command: Command) -> Running {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the switch starts");
        let lines = lines_of(child.stderr.take().expect("a pipe"));
        let mut before = Vec::new();
        let ready = loop {
            match lines.recv_timeout(TIMEOUT) {
                Ok(line) if line.starts_with("ready: ") => break line,
                Ok(line) => before.push(line),
                Err(error) => panic!("{command:?}: {error}: {before:?}"),
            }
        };
        Running {
            child,
            lines,
            before,
            ready,
        }
    }

    /// Reads the log until a line has all these words.
    pub fn wait_for_line(&self, words: &[&str]) -> String {
        let mut said = Vec::new();
        loop {
            match self.lines.recv_timeout(TIMEOUT) {
                Ok(line) if words.iter().all(|word| line.contains(word)) => return line,
                Ok(line) => said.push(line),
                Err(error) => panic!("no line with {words:?}: {error}: {said:?}"),
            }
        }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal and returns standard output; the exit code must be 0, and no unread line may be left.
    pub fn stop(self, signal: &str) -> String {
        let (printed, said) = self.stop_that_logs(signal);
        assert_eq!(said, "");
        printed
    }

    /// Sends a signal and returns standard output and the unread lines; the exit code must be 0.
    pub fn stop_that_logs(self, signal: &str) -> (String, String) {
        self.signal(signal);
        let (status, printed, said) = self.end();
        assert_eq!(status, Some(0), "{said}");
        (printed, said)
    }

    /// The address behind these words of the ready line.
    pub fn address(&self, words: &str) -> &str {
        let rest = self.ready.split_once(words).expect("an address").1;
        rest.split([',', ' ']).next().expect("an address")
    }

    /// The URL of P4Runtime.
    pub fn grpc(&self) -> String {
        format!("http://{}", self.address("P4Runtime on "))
    }

    pub fn signal(&self, signal: &str) {
        let killed = Command::new("kill")
            .arg(signal)
            .arg(self.id().to_string())
            .status();
        assert!(killed.expect("kill starts").success());
    }

    /// Waits for the end; returns exit code, standard output, and the unread lines.
    pub fn end(mut self) -> (Option<i32>, String, String) {
        let said: Vec<String> = self.lines.iter().collect();
        let mut stdout = self.child.stdout.take().expect("a pipe");
        let mut printed = String::new();
        stdout.read_to_string(&mut printed).expect("text");
        let status = self.child.wait().expect("it ends");
        (status.code(), printed, said.join("\n"))
    }
}

/// Gets a page from the switch's metrics address; returns status and body.
pub fn http_get(switch: &Running, path: &str) -> (u16, String) {
    http_get_from(switch.address("metrics on "), path)
}

pub fn http_get_from(address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("a server");
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
    let status = head.split(' ').nth(1).expect("a status");
    (status.parse().expect("a number"), body.to_owned())
}

/// Reads in a thread, so that waiting for a line can time out.
fn lines_of(stderr: ChildStderr) -> Receiver<String> {
    let (sender, lines) = channel();
    thread::spawn(move || {
        let read = BufReader::new(stderr).lines().map_while(Result::ok);
        read.map_while(|line| sender.send(line).ok()).for_each(drop);
    });
    lines
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails if the switch has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder that is removed with the value.
pub struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    pub fn new(name: &str) -> TemporaryFolder {
        let path = std::env::temp_dir().join(format!("reprise-{}-{name}", std::process::id()));
        // A killed test may have left the folder, in an earlier process with the same process id.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a temporary folder");
        TemporaryFolder(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::write(&path, contents).expect("a temporary file");
        path.display().to_string()
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
