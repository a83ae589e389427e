//! A fake switch, and the binary under test.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use p4runtime_proto::p4::config::v1::P4Info;
use serde_json::Value;
use testkit::sfu::fake::FakeSwitch;
use testkit::sfu::programs;
use testkit::sfu::service::Server;

/// The words of a command that sets the SFU's own address.
pub const ADDRESS: &str = "address set --port 1 --ip 10.0.1.100 --mac 02:00:00:00:01:64";

pub struct Bench {
    pub server: Server,
    pub folder: tempfile::TempDir,
}

impl Bench {
    pub fn new(p4info: Option<P4Info>) -> Bench {
        let server = Server::start(FakeSwitch::new(p4info));
        Bench {
            server,
            folder: tempfile::tempdir().expect("a folder"),
        }
    }

    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).expect("written");
        path
    }

    /// Runs `reprise` with these words, in the folder.
    pub fn run(&self, words: &str) -> Output {
        reprise(&self.server.address.to_string(), words, &self.folder)
    }

    /// The command `reprise` with these words, in the folder.
    pub fn command(&self, words: &str) -> Command {
        command(&self.server.address.to_string(), words, &self.folder)
    }

    /// Runs a command that must succeed without a message, and returns its standard output.
    pub fn ok(&self, words: &str) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words}: {}", text(&output.stderr));
        assert_eq!(text(&output.stderr), "", "{words}");
        text(&output.stdout)
    }

    pub fn json(&self, words: &str) -> Value {
        serde_json::from_str(&self.ok(&format!("{words} --json"))).expect("JSON")
    }

    /// Runs a command that must fail with exit code 1, and returns its one line on standard error.
    pub fn fails(&self, words: &str) -> String {
        let output = self.run(words);
        assert_eq!(
            output.status.code(),
            Some(1),
            "{words}: {}",
            text(&output.stdout)
        );
        assert_eq!(text(&output.stdout), "", "{words}");
        let error = text(&output.stderr);
        assert_eq!(error.lines().count(), 1, "{words}: {error}");
        error
            .trim_end()
            .strip_prefix("reprise: ")
            .expect("the program's name first")
            .to_owned()
    }
}

pub fn reprise(switch: &str, words: &str, folder: &tempfile::TempDir) -> Output {
    let output = command(switch, words, folder).output();
    output.expect("the binary runs")
}

fn command(switch: &str, words: &str, folder: &tempfile::TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reprise"));
    command
        .args(words.split_whitespace())
        .env("REPRISE_SWITCH", switch)
        .current_dir(folder.path());
    command
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

pub fn replication() -> Bench {
    Bench::new(Some(programs::replication(131_072)))
}

pub fn recirculation() -> Bench {
    Bench::new(Some(programs::recirculation(131_072, 65_536)))
}

pub const CONFERENCE: &str = "\
sfu: {port: 1, ip: 10.0.1.100, mac: '02:00:00:00:01:64'}
groups:
  - group: 4
    ip: 10.0.1.4
    viewers:
      - {ip: 10.0.1.5, mac: '02:00:00:00:00:05'}
      - {ip: 10.0.1.6, mac: '02:00:00:00:00:06'}
  - {group: 5, ip: 10.0.1.5, mac: '02:00:00:00:00:05'}
";
