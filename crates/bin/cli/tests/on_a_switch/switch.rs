//! A switch with in-memory ports in this process, and the binary that runs against it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use serde_json::Value;
use testkit::memory_loop::MemoryLoop;
use testkit::p4runtime;

/// A program with tables of every kind, which sends everything to the port in `routes`.
pub const PROGRAM: &str = "\
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header ipv4_t { bit<96> before; bit<32> src; bit<32> dst; }
struct headers_t { ethernet_t ethernet; ipv4_t ipv4; }
struct metadata_t { bit<128> address; }

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.ipv4);
        transition accept;
    }
}
control Nothing(inout headers_t hdr, inout metadata_t meta) { apply { } }
control MyIngress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    action drop() { mark_to_drop(standard_metadata); }
    action forward(bit<48> dst, bit<9> port) {
        hdr.ethernet.dst = dst;
        standard_metadata.egress_spec = port;
    }
    action multicast(bit<16> group) { standard_metadata.mcast_grp = group; }
    table routes {
        key = { hdr.ipv4.dst: lpm; }
        actions = { forward; multicast; drop; @defaultonly NoAction; }
        default_action = NoAction();
        size = 4;
    }
    table hosts {
        key = { hdr.ethernet.src: exact; standard_metadata.ingress_port: exact; }
        actions = { drop; NoAction; }
        const default_action = NoAction();
        size = 8192;
    }
    table rules {
        key = {
            hdr.ipv4.src: ternary;
            hdr.ethernet.type: range;
            meta.address: optional;
        }
        actions = { drop; NoAction; }
    }
    table types {
        key = { hdr.ethernet.type: exact; }
        actions = { drop; NoAction; }
        const entries = { 0x86dd: drop(); }
    }
    apply { hosts.apply(); rules.apply(); types.apply(); routes.apply(); }
}
control MyEgress(inout headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {
    action set_source(bit<48> src) { hdr.ethernet.src = src; }
    table source { actions = { set_source; NoAction; } default_action = NoAction(); }
    apply { source.apply(); }
}
control MyDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}
V1Switch(MyParser(), Nothing(), MyIngress(), MyEgress(), Nothing(), MyDeparser()) main;
";

/// A runtime file with every possible part.
pub const RUNTIME: &str = r#"{
  "target": "bmv2",
  "p4info": "build/prog.p4info.txtpb",
  "bmv2_json": "build/prog.json",
  "table_entries": [
    {"table": "MyIngress.routes", "default_action": true, "action_name": "MyIngress.drop", "action_params": {}},
    {"table": "MyIngress.routes", "match": {"hdr.ipv4.dst": ["10.0.1.1", 32]},
     "action_name": "MyIngress.forward", "action_params": {"dst": "08:00:00:00:01:11", "port": 2}},
    {"table": "routes", "match": {"dst": ["224.0.0.22", 4]},
     "action_name": "multicast", "action_params": {"group": 1}},
    {"table": "hosts", "match": {"hdr.ethernet.src": "08:00:00:00:02:22", "standard_metadata.ingress_port": [3]},
     "action_name": "drop"},
    {"table": "rules", "match": {"hdr.ipv4.src": ["10.0.9.0", "255.255.255.0"], "hdr.ethernet.type": ["0x800", "0x8ff"], "meta.address": "2001:db8::1"},
     "priority": 10, "action_name": "drop"},
    {"table": "rules", "match": {}, "priority": 1, "action_name": "NoAction"},
    {"table": "MyEgress.source", "default_action": true, "action_name": "set_source", "action_params": {"src": "08:00:00:00:00:01"}}
  ],
  "multicast_group_entries": [
    {"multicast_group_id": 1, "replicas": [{"egress_port": 1, "instance": 1}, {"egress_port": 3, "instance": 1}]}
  ],
  "clone_session_entries": [
    {"clone_session_id": 5, "replicas": [{"egress_port": 1, "instance": 0}], "packet_length_bytes": 64}
  ]
}"#;

/// A P4Runtime server, and the loop that runs its data plane on in-memory ports. Both end when this value is dropped.
pub struct Switch {
    pub frames: Arc<MemoryLoop>,
    pub address: String,
    pub folder: tempfile::TempDir,
    _runtime: tokio::runtime::Runtime,
}

impl Switch {
    /// Starts a switch without a program. The folder has the compiled program and the runtime file.
    pub fn new() -> Switch {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let (frames, server) = p4runtime::server(5);
        let address = runtime.block_on(p4runtime::serve(server));
        let switch = Switch {
            frames,
            address,
            folder: tempfile::tempdir().expect("a folder"),
            _runtime: runtime,
        };
        switch.file("prog.p4", PROGRAM);
        switch.file("s1-runtime.json", RUNTIME);
        switch.ok("compile prog.p4 -o build");
        switch
    }

    /// Starts a switch with the program and no entries.
    pub fn with_program() -> Switch {
        let switch = Switch::new();
        switch.ok("pipeline set build/prog.json");
        switch
    }

    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).expect("written");
        path
    }

    pub fn run(&self, words: &str) -> Output {
        let output = command(&self.address, words, self.folder.path()).output();
        output.expect("the binary runs")
    }

    /// Runs a command that must succeed, and returns its standard output.
    pub fn ok(&self, words: &str) -> String {
        let output = self.run(words);
        let error = text(&output.stderr);
        assert!(output.status.success(), "{words}: {error}");
        text(&output.stdout)
    }

    pub fn json(&self, words: &str) -> Value {
        serde_json::from_str(&self.ok(&format!("{words} --json"))).expect("JSON")
    }

    /// Runs a command that must fail with exit code 1. Returns its one line on standard error, without the program's
    /// name.
    pub fn fails(&self, words: &str) -> String {
        let output = self.run(words);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words}: {error}");
        assert_eq!(error.lines().count(), 1, "{words}: {error}");
        let line = error.trim_end().strip_prefix("reprise: ");
        line.expect("the program's name first").to_owned()
    }
}

/// The command `reprise` with these words.
pub fn command(switch: &str, words: &str, folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reprise"));
    command
        .args(words.split_whitespace())
        .env("REPRISE_SWITCH", switch)
        .current_dir(folder);
    command
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}
