//! Starts the switch and looks at what it says.

// Each test binary uses a part of it.
#![allow(dead_code, reason = "shared by several test binaries")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};

/// A file of `tests/programs`.
pub fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(name)
}

/// The switch with the words of `arguments`.
pub fn switch(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reprise-switch"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs the switch to its end.
pub fn run(arguments: &[&str]) -> Output {
    switch(arguments).output().expect("the switch starts")
}

/// Runs the switch, which must end with `exit_code` and say one thing on standard error.
pub fn error(exit_code: i32, arguments: &[&str]) -> String {
    let output = run(arguments);
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!(
        output.status.code(),
        Some(exit_code),
        "{arguments:?}: {said}"
    );
    assert!(said.starts_with("error: "), "{arguments:?}: {said}");
    assert!(!said.contains("panicked"), "{arguments:?}: {said}");
    assert!(!said.contains("ready: "), "{arguments:?}: {said}");
    said
}

/// A switch that is up. Killed if the test ends before it was stopped.
pub struct Running {
    child: Child,
    stderr: BufReader<ChildStderr>,
    /// The line that said so.
    pub ready: String,
}

impl Running {
    pub fn start(arguments: &[&str]) -> Running {
        let mut command = switch(arguments);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the switch starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut ready = String::new();
        stderr.read_line(&mut ready).expect("text");
        assert!(ready.starts_with("ready: "), "{arguments:?}: {ready}");
        Running {
            child,
            stderr,
            ready: ready.trim_end().to_owned(),
        }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal and returns standard output; the exit code must be 0.
    pub fn stop(mut self, signal: &str) -> String {
        let killed = Command::new("kill")
            .arg(signal)
            .arg(self.id().to_string())
            .status();
        assert!(killed.expect("kill starts").success());
        let mut said = String::new();
        std::io::Read::read_to_string(&mut self.stderr, &mut said).expect("text");
        let mut stdout = self.child.stdout.take().expect("a pipe");
        let mut printed = String::new();
        std::io::Read::read_to_string(&mut stdout, &mut printed).expect("text");
        let status = self.child.wait().expect("it ends");
        assert_eq!(status.code(), Some(0), "{said}");
        assert_eq!(said, "");
        printed
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Already gone if it was stopped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder that is removed with the value.
pub struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    pub fn new(name: &str) -> TemporaryFolder {
        let path = std::env::temp_dir().join(format!("reprise-{}-{name}", std::process::id()));
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
