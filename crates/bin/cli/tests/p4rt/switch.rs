//! A switch in this process, and the shell that runs against it.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use p4runtime_client::{Client, SwitchAddress};
use p4runtime_proto::text_format;
use serde_json::Value;
use testkit::memory_loop::MemoryLoop;
use testkit::p4runtime;

const P4INFO: &str = include_str!("../../../../../testdata/compiler/ok/every_entity.p4info.txtpb");
const JSON: &str = include_str!("../../../../../testdata/compiler/ok/every_entity.json");

/// A P4Runtime server, and the loop that runs its data plane on in-memory ports. Both end when this value is dropped.
pub struct Switch {
    pub frames: Arc<MemoryLoop>,
    pub address: String,
    pub folder: tempfile::TempDir,
    pub runtime: tokio::runtime::Runtime,
}

enum Program {
    None,
    Whole,
    WithoutP4Info,
}

impl Switch {
    pub fn without_program() -> Switch {
        Switch::start(Program::None)
    }

    /// Starts a switch with the program that has every kind of entity.
    pub fn new() -> Switch {
        Switch::start(Program::Whole)
    }

    /// Starts a switch with only the program's BMv2 JSON, as BMv2's command line sets it.
    pub fn without_p4info() -> Switch {
        Switch::start(Program::WithoutP4Info)
    }

    fn start(program: Program) -> Switch {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let (frames, server) = p4runtime::server(5);
        match program {
            Program::None => {}
            Program::Whole => {
                let p4info = text_format::parse_p4info(P4INFO).expect("P4Info");
                let set = server.set_pipeline(p4info, JSON.into());
                runtime.block_on(set).expect("a pipeline");
            }
            Program::WithoutP4Info => {
                let device = server.device();
                let program = dataplane::Program::from_json_str(JSON).expect("a program");
                let checked = device.check(program, ()).expect("one worker");
                let set = device.set_pipeline(checked.with_json(JSON.as_bytes()));
                runtime.block_on(set).expect("a pipeline");
            }
        }
        let address = runtime.block_on(p4runtime::serve(server));
        Switch {
            frames,
            address,
            folder: tempfile::tempdir().expect("a folder"),
            runtime,
        }
    }

    /// Connects another controller, and makes it primary.
    pub fn other_primary(&self) -> Client {
        let primary = async {
            let mut client = Client::connect(&SwitchAddress::plain(self.address.clone()), 1)
                .await
                .expect("a server");
            client.become_primary().await.expect("primary");
            client
        };
        self.runtime.block_on(primary)
    }

    /// Lets the switch receive a frame with the addresses and the type that the program looks at.
    pub fn receive(&self, port: u16, dst: u64, src: u64, kind: u8) {
        let mut frame = dst.to_be_bytes()[2..].to_vec();
        frame.extend(&src.to_be_bytes()[2..]);
        frame.extend([0x08, 0, 0, 0, 0, kind]);
        frame.resize(64, 0);
        self.frames.receive(port, &frame);
    }

    pub fn command(&self, args: &[&str]) -> Command {
        command(&self.address, args, self.folder.path())
    }

    /// Runs the shell with this script on its standard input.
    pub fn script(&self, args: &[&str], script: &str) -> Output {
        run_script(self.command(args), script)
    }

    /// Runs a script that must succeed without a message, and returns its standard output.
    pub fn ok(&self, script: &str) -> String {
        let output = self.script(&[], script);
        let error = text(&output.stderr);
        assert!(output.status.success(), "{script}: {error}");
        assert_eq!(error, "", "{script}");
        text(&output.stdout)
    }

    /// Runs a script that must succeed, and returns the JSON documents that it prints.
    pub fn json(&self, script: &str) -> Vec<Value> {
        let output = self.script(&["--json"], script);
        let error = text(&output.stderr);
        assert!(output.status.success(), "{script}: {error}");
        documents(&output.stdout)
    }

    /// Runs a script that must fail with exit code 1, and returns its standard error.
    pub fn fails(&self, args: &[&str], script: &str) -> String {
        let output = self.script(args, script);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{script}: {error}");
        error
    }
}

/// The command `reprise p4rt`.
pub fn command(address: &str, args: &[&str], folder: &std::path::Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reprise"));
    command
        .arg("p4rt")
        .args(args)
        .env("REPRISE_SWITCH", address)
        .current_dir(folder);
    command
}

pub fn run_script(mut command: Command, script: &str) -> Output {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary runs");
    let mut input = child.stdin.take().expect("piped");
    // The shell may end before it has read everything.
    let _ = input.write_all(script.as_bytes());
    drop(input);
    child.wait_with_output().expect("its end")
}

pub fn documents(bytes: &[u8]) -> Vec<Value> {
    let text = text(bytes);
    let document = |line: &str| serde_json::from_str(line).expect(line);
    text.lines().map(document).collect()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}
