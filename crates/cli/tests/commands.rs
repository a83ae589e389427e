//! The binary as an operator types it, against a P4Runtime server on loopback: what it prints,
//! how it exits, and what the switch holds afterwards.

#[path = "../../conference/tests/support/mod.rs"]
mod support;

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Command, Output};

use conference::address::Mac;
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::text_format;
use serde_json::{Value, json};
use support::fake::FakeSwitch;
use support::programs;
use support::service::Server;

const ADDRESS: &str = "address set --port 1 --ip 10.0.1.100 --mac 02:00:00:00:01:64";

/// A switch and a folder of files.
struct Bench {
    server: Server,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new(p4info: Option<P4Info>) -> Bench {
        let server = Server::start(FakeSwitch::new(p4info));
        Bench {
            server,
            folder: tempfile::tempdir().expect("a folder"),
        }
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).expect("written");
        path
    }

    /// Runs `reprise` with these words, in the folder.
    fn run(&self, words: &str) -> Output {
        reprise(&self.server.address.to_string(), words, &self.folder)
    }

    /// Standard output of a command that must succeed.
    fn ok(&self, words: &str) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words}: {}", text(&output.stderr));
        assert_eq!(text(&output.stderr), "", "{words}");
        text(&output.stdout)
    }

    fn json(&self, words: &str) -> Value {
        serde_json::from_str(&self.ok(&format!("{words} --json"))).expect("JSON")
    }

    /// The one line on standard error of a command that must fail with exit code 1.
    fn fails(&self, words: &str) -> String {
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

fn reprise(switch: &str, words: &str, folder: &tempfile::TempDir) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reprise"));
    command
        .args(words.split_whitespace())
        .env("REPRISE_SWITCH", switch);
    command
        .current_dir(folder.path())
        .output()
        .expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn replication() -> Bench {
    Bench::new(Some(programs::replication(131_072)))
}

fn recirculation() -> Bench {
    Bench::new(Some(programs::recirculation(131_072, 65_536)))
}

fn order(value: &Value) -> Vec<&str> {
    let viewers = value["groups"][0]["viewers"].as_array().expect("viewers");
    viewers
        .iter()
        .map(|viewer| viewer["ip"].as_str().expect("an IP"))
        .collect()
}

#[test]
fn a_conference_is_built_changed_and_taken_down() {
    for bench in [replication(), recirculation()] {
        bench.ok(ADDRESS);
        assert_eq!(
            bench.ok("address show"),
            "10.0.1.100 02:00:00:00:01:64 on port 1\n"
        );
        bench.ok("group add --group 4 --ip 10.0.1.4 --mac 02:00:00:00:00:04");
        for host in 5..8 {
            bench.ok(&format!(
                "viewer add --group 4 --ip 10.0.1.{host} --mac 02:00:00:00:00:0{host}"
            ));
        }
        let removed = bench.ok("viewer remove --group 4 --ip 10.0.1.6");
        assert!(
            removed.starts_with("- group 4: viewer 10.0.1.6"),
            "{removed}"
        );
        let shown = bench.json("show");
        assert_eq!(order(&shown), ["10.0.1.5", "10.0.1.7"]);
        assert_eq!(shown["groups"][0]["mac"], "02:00:00:00:00:04");
        assert_eq!(bench.server.switch().violations, [""; 0]);

        bench.ok("group delete --group 4");
        assert_eq!(bench.json("show")["groups"], json!([]));
        assert_eq!(bench.server.switch().n_entries("viewers"), 0);
        let refused = bench.fails("viewer add --group 4 --ip 10.0.1.5 --mac 02:00:00:00:00:05");
        assert_eq!(refused, "there is no group 4");
    }
}

#[test]
fn the_own_address_also_makes_the_clone_session_of_the_recirculation_program() {
    let bench = recirculation();
    bench.ok(ADDRESS);
    let switch = bench.server.switch();
    assert_eq!(switch.sessions.keys().collect::<Vec<_>>(), [&100]);
    assert_eq!(
        conference::entities::replica_port(&switch.sessions[&100].replicas[0]),
        Some(1)
    );
}

#[test]
fn refusals_name_what_and_leave_the_switch_as_it_was() {
    let bench = recirculation();
    let viewer = "viewer add --group 4 --ip 10.0.1.5 --mac 02:00:00:00:00:05";
    bench.ok("group add --group 4 --ip 10.0.1.4");
    let error = bench.fails(viewer);
    assert!(
        error.contains("no own address yet") && error.contains("reprise address set"),
        "{error}"
    );
    let error = bench.fails("viewer add --group 4 --ip 10.0.1.5");
    assert!(
        error.contains("no own address to ask from: give --mac"),
        "{error}"
    );
    bench.ok(ADDRESS);
    bench.ok(viewer);
    let n = bench.server.switch().log.len();
    for (words, message) in [
        (viewer, "10.0.1.5 is a viewer of group 4 already"),
        (
            "group add --group 4 --ip 10.0.1.9",
            "group 4 exists already, its presenter is 10.0.1.4",
        ),
        (
            "group add --group 5 --ip 10.0.1.4",
            "10.0.1.4 is the presenter of group 4 already",
        ),
        ("group delete --group 5", "there is no group 5"),
        (
            "viewer remove --group 4 --ip 10.0.1.9",
            "group 4 has no viewer 10.0.1.9",
        ),
        (
            "address set --port 0 --ip 10.0.1.1 --mac 02:00:00:00:00:01",
            "port 0 is out of range, expected 1 to 509",
        ),
        (
            "viewer add --group 4 --ip 10.0.1.100 --mac 02:00:00:00:00:01",
            "10.0.1.100 is the SFU's own address",
        ),
    ] {
        assert_eq!(bench.fails(words), message);
    }
    let error =
        bench.fails("viewer add --group 4 --ip 10.0.1.6 --mac 02:00:00:00:00:06 --udp-port 6000");
    assert!(
        error.starts_with("this program has no place for UDP ports"),
        "{error}"
    );
    assert_eq!(bench.server.switch().log.len(), n, "nothing was written");
}

#[test]
fn words_that_are_no_command_exit_with_2_and_say_what_was_expected() {
    let bench = replication();
    for (words, expected) in [
        ("viewer add --group 4", "--ip"),
        ("viewer add --group 4 --ip 10.0.1", "invalid value '10.0.1'"),
        (
            "viewer add --group 70000 --ip 10.0.1.5",
            "70000 is not in 0..=65535",
        ),
        (
            "viewer add --group 4 --ip 10.0.1.5 --mac 2:0",
            "expected an Ethernet address like 02:00:00:00:00:05",
        ),
        ("apply x.yaml --export y", "--program"),
        ("nonsense", "unrecognized subcommand"),
    ] {
        let output = bench.run(words);
        assert_eq!(output.status.code(), Some(2), "{words}");
        assert!(
            text(&output.stderr).contains(expected),
            "{words}: {}",
            text(&output.stderr)
        );
    }
}

#[test]
fn a_switch_that_is_not_there_has_no_pipeline_or_is_another_device_is_told_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let free = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let nobody = free.local_addr().expect("an address").to_string();
    drop(free);
    let output = reprise(&nobody, "show", &folder);
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(
        error.starts_with(&format!(
            "reprise: no switch answers at {nobody} (Connection refused"
        )),
        "{error}"
    );
    assert!(error.contains("reprise-switch --help"), "{error}");

    let bench = Bench::new(None);
    let expected = "the switch has no pipeline yet: load one with `reprise pipeline set p4/sfu.p4`";
    for words in [
        "show",
        "address show",
        "pipeline show",
        "group delete --group 1",
    ] {
        assert_eq!(bench.fails(words), expected);
    }
    let bench = replication();
    let error = bench.fails("show --device-id 7");
    assert!(
        error.contains("not device 7") && error.contains("--device-id"),
        "{error}"
    );
    let error = bench.fails("group delete --group 1 --device-id 7");
    assert!(error.contains("not device 7"), "{error}");
    let error = bench.fails("show --switch nowhere");
    assert_eq!(
        error,
        "\"nowhere\" is no address of a switch, expected HOST:PORT, e.g. 127.0.0.1:9559"
    );
    let bench = Bench::new(Some(programs::other()));
    assert!(
        bench
            .fails("show")
            .contains("is no SFU that this controller knows")
    );
}

#[test]
fn every_changing_command_takes_the_next_election_id_and_reading_ones_none() {
    let bench = replication();
    bench.ok("address show");
    assert_eq!(bench.server.highest_election_id(), None);
    bench.ok(ADDRESS);
    assert_eq!(bench.server.highest_election_id(), Some(1));
    bench.server.take_over(41);
    bench.ok("group add --group 4 --ip 10.0.1.4");
    assert_eq!(bench.server.highest_election_id(), Some(42));
}

#[test]
fn a_mac_left_out_is_looked_up_by_arp() {
    let bench = replication();
    bench
        .server
        .switch()
        .hosts
        .insert(Ipv4Addr::new(10, 0, 1, 5), Mac([2, 0, 0, 0, 0, 5]));
    bench.ok(ADDRESS);
    bench.ok("group add --group 4 --ip 10.0.1.4 --udp-port 6000");
    let line = bench.ok("viewer add --group 4 --ip 10.0.1.5");
    assert_eq!(line, "+ group 4: viewer 10.0.1.5:6000 02:00:00:00:00:05\n");
    let error = bench.fails("viewer add --group 4 --ip 10.0.1.6");
    assert!(
        error.starts_with("nobody answers to ARP for 10.0.1.6 on port 1"),
        "{error}"
    );
    assert!(error.contains("--mac"), "{error}");
}

const CONFERENCE: &str = "\
sfu: {port: 1, ip: 10.0.1.100, mac: '02:00:00:00:01:64'}
groups:
  - group: 4
    ip: 10.0.1.4
    viewers:
      - {ip: 10.0.1.5, mac: '02:00:00:00:00:05'}
      - {ip: 10.0.1.6, mac: '02:00:00:00:00:06'}
  - {group: 5, ip: 10.0.1.5, mac: '02:00:00:00:00:05'}
";

#[test]
fn apply_brings_the_switch_to_the_file_and_a_second_time_changes_nothing() {
    for bench in [replication(), recirculation()] {
        bench.file("c.yaml", CONFERENCE);
        let dry = bench.ok("apply c.yaml --dry-run");
        assert_eq!(
            bench.server.switch().log.len(),
            0,
            "a dry run writes nothing"
        );
        let lines = bench.ok("apply c.yaml");
        assert_eq!(lines, dry);
        let signs: Vec<&str> = lines.lines().map(|line| &line[..1]).collect();
        assert_eq!(signs, ["+"; 5], "{lines}");
        let n = bench.server.switch().log.len();
        assert_eq!(bench.ok("apply c.yaml"), "no change\n");
        assert_eq!(bench.json("apply c.yaml")["changed"], false);
        assert_eq!(bench.server.switch().log.len(), n, "nothing was written");

        let text = CONFERENCE.replace("      - {ip: 10.0.1.5, mac: '02:00:00:00:00:05'}\n", "");
        bench.file("c.yaml", &text.replace("00:06", "00:16"));
        let change = bench.json("apply c.yaml");
        assert_eq!(change["changed"], true);
        let signs: Vec<&Value> = change["changes"]
            .as_array()
            .expect("lines")
            .iter()
            .map(|line| &line["sign"])
            .collect();
        assert_eq!(signs, ["removed", "changed"]);
        assert_eq!(bench.server.switch().violations, [""; 0]);
    }
}

#[test]
fn an_apply_that_fails_leaves_the_own_address_as_it_was() {
    let bench = recirculation();
    let unanswered = CONFERENCE.replace("ip: 10.0.1.6, mac: '02:00:00:00:00:06'", "ip: 10.0.1.6");
    // Refused for what the file says: nothing was written, not even for a moment.
    bench.file(
        "ports.yaml",
        &unanswered.replace("10.0.1.6}", "10.0.1.6, udp_port: 7000}"),
    );
    let error = bench.fails("apply ports.yaml");
    assert!(error.contains("no place for UDP ports"), "{error}");
    assert_eq!(bench.server.switch().log.len(), 0);
    // Nobody answers: the address that was put in force for the question is taken back.
    bench.file("c.yaml", &unanswered);
    let error = bench.fails("apply c.yaml");
    assert!(
        error.starts_with("c.yaml: nobody answers to ARP for 10.0.1.6"),
        "{error}"
    );
    assert_eq!(bench.json("address show")["address"], Value::Null);
    // With one in force, the question comes from it, and a live conference is not disturbed.
    bench.ok(ADDRESS);
    bench.file("c.yaml", &unanswered.replace("10.0.1.100", "10.0.1.200"));
    let n = bench.server.switch().log.len();
    bench.fails("apply c.yaml");
    assert_eq!(bench.server.switch().log.len(), n, "nothing was written");
    assert_eq!(bench.json("address show")["address"]["ip"], "10.0.1.100");
}

#[test]
fn an_own_address_on_a_port_that_the_switch_lacks_is_refused() {
    let bench = replication();
    let error = bench.fails("address set --port 7 --ip 10.0.1.100 --mac 02:00:00:00:01:64");
    assert!(
        error.starts_with("the switch has no port 7, it has 1:"),
        "{error}"
    );
    bench.file("c.yaml", &CONFERENCE.replace("port: 1", "port: 7"));
    for words in ["apply c.yaml", "apply c.yaml --dry-run"] {
        assert!(bench.fails(words).contains("no port 7"), "{words}");
    }
    assert_eq!(bench.server.switch().log.len(), 0);
}

#[test]
fn a_listener_that_never_answers_is_given_up() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address").to_string();
    let output = reprise(&address, "show", &tempfile::tempdir().expect("a folder"));
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(error.contains("an answer in P4Runtime"), "{error}");
}

#[test]
fn apply_looks_macs_up_and_takes_them_from_the_switch_the_next_time() {
    let bench = replication();
    bench.file(
        "c.yaml",
        &CONFERENCE.replace("ip: 10.0.1.6, mac: '02:00:00:00:00:06'", "ip: 10.0.1.6"),
    );
    let error = bench.fails("apply c.yaml --dry-run");
    assert!(
        error.contains("10.0.1.6") && error.contains("a dry run sends no ARP request"),
        "{error}"
    );
    bench
        .server
        .switch()
        .hosts
        .insert(Ipv4Addr::new(10, 0, 1, 6), Mac([2, 0, 0, 0, 0, 6]));
    let lines = bench.ok("apply c.yaml");
    assert!(lines.contains("+ own address 10.0.1.100"), "{lines}");
    assert!(
        lines.contains("+ group 4: viewer 10.0.1.6:5004 02:00:00:00:00:06"),
        "{lines}"
    );
    bench.server.switch().hosts.clear();
    assert_eq!(bench.ok("apply c.yaml"), "no change\n");
    assert_eq!(bench.ok("apply c.yaml --dry-run"), "no change\n");
}

#[test]
fn a_file_with_a_mistake_is_refused_with_file_line_and_key() {
    let bench = replication();
    bench.file(
        "c.yaml",
        &CONFERENCE.replace("    ip: 10.0.1.4", "    ipv4: 10.0.1.4"),
    );
    let error = bench.fails("apply c.yaml");
    assert!(
        error.starts_with("c.yaml: ") && error.contains("ipv4") && error.contains("line 4"),
        "{error}"
    );
    bench.file("c.yaml", &CONFERENCE.replace("10.0.1.6", "10.0.1.5"));
    assert_eq!(
        bench.fails("apply c.yaml"),
        "c.yaml: 10.0.1.5:5004 is a viewer of group 4 already"
    );
    assert!(
        bench
            .fails("apply d.yaml")
            .starts_with("d.yaml: there is no such file")
    );
    assert_eq!(bench.server.switch().log.len(), 0);
}

#[test]
fn export_writes_the_entries_for_an_empty_switch_without_one() {
    for p4info in [
        programs::replication(131_072),
        programs::recirculation(131_072, 65_536),
    ] {
        let bench = Bench::new(Some(p4info.clone()));
        bench.file("sfu.json", "{}");
        bench.file("sfu.p4info.txtpb", &text_format::print_p4info(&p4info));
        bench.file("c.yaml", CONFERENCE);
        bench.ok("apply c.yaml --program sfu.json --export entries.txtpb --switch 127.0.0.1:1");
        let text = fs::read_to_string(bench.folder.path().join("entries.txtpb")).expect("written");
        let request = text_format::parse_write_request(&text).expect("a WriteRequest");
        {
            let mut switch = bench.server.switch();
            for update in &request.updates {
                switch
                    .update(update)
                    .expect("an empty switch takes every update in order");
            }
        }
        assert_eq!(bench.ok("apply c.yaml"), "no change\n");

        bench.file(
            "c.yaml",
            &CONFERENCE.replace(", mac: '02:00:00:00:00:06'", ""),
        );
        let error = bench.fails("apply c.yaml --program sfu.json --export entries.txtpb");
        assert!(
            error.contains("viewer 10.0.1.6 of group 4 has no `mac:`"),
            "{error}"
        );
    }
}

/// The trace that docs/trace.md shows begins with these; `UPDATE_EXPECT=1` writes them anew.
#[test]
fn the_exported_conferences_of_the_traces_are_current() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    for name in ["sfu", "sfu_recirculation"] {
        let golden = format!("{root}/testdata/trace/{name}.txtpb");
        let words = format!(
            "apply {root}/testdata/trace/{name}.yaml --program {root}/p4/{name}.p4 --export new.txtpb"
        );
        let output = reprise("127.0.0.1:1", &words, &folder);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let exported = fs::read_to_string(folder.path().join("new.txtpb")).expect("written");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(&golden, &exported).expect("written");
        }
        let current = fs::read_to_string(&golden).expect("the golden file");
        assert_eq!(current, exported, "{golden}: UPDATE_EXPECT=1 refreshes it");
    }
}

#[test]
fn a_compiled_program_is_loaded_with_the_p4info_beside_it() {
    let bench = Bench::new(None);
    bench.file("sfu.json", "{\"program\": 1}");
    let error = bench.fails("pipeline set sfu.json");
    assert!(
        error.contains("sfu.p4info.txtpb") && error.contains("--p4info"),
        "{error}"
    );
    bench.file(
        "sfu.p4info.txtpb",
        &text_format::print_p4info(&programs::replication(64)),
    );
    let line = bench.ok("pipeline set sfu.json");
    assert_eq!(
        line,
        "sfu.json loaded: replication, no own address and no groups\n"
    );
    assert_eq!(bench.server.switch().device_config, b"{\"program\": 1}");
    let shown = bench.json("pipeline show");
    assert_eq!(shown["kind"], "replication");
    let names: Vec<&str> = shown["objects"]
        .as_array()
        .expect("objects")
        .iter()
        .filter_map(|o| o["name"].as_str())
        .collect();
    assert!(
        names.contains(&"streams") && names.contains(&"viewers"),
        "{names:?}"
    );
    bench.file("bad.txtpb", "tables { nonsense: 1 }");
    let error = bench.fails("pipeline set sfu.json --p4info bad.txtpb");
    assert!(error.starts_with("bad.txtpb: "), "{error}");
}

#[test]
fn show_has_totals_rates_verdicts_ports_and_drops() {
    for bench in [replication(), recirculation()] {
        bench.file("c.yaml", CONFERENCE);
        bench.ok("apply c.yaml");
        {
            let mut switch = bench.server.switch();
            switch.count_in_table("viewers", 1500);
            switch.count_everywhere(1500);
        }
        let shown = bench.json("show");
        assert_eq!(shown["interval_s"], 1.0);
        let viewer = &shown["groups"][0]["viewers"][0];
        assert_eq!(
            (&viewer["packets"], &viewer["bytes"]),
            (&json!(1500), &json!(150_000))
        );
        assert_eq!(viewer["rate"]["packets_per_s"], 0.0);
        assert_eq!(
            shown["verdicts"][0],
            json!({"verdict": "serve", "packets": 5, "bytes": 500})
        );
        assert_eq!(shown["verdicts"][1]["verdict"], "drop_unknown_sender");
        // The third reading: `address set` has looked at the ports, and rates take two.
        assert_eq!(shown["ports"][0]["rx_packets"], 30);
        assert_eq!(
            shown["drops"],
            json!([{"reason": "egress_queue_full", "packets": 3}])
        );

        let table = bench.ok("show");
        println!("{table}");
        for part in [
            "own address 10.0.1.100",
            "from 10.0.1.4",
            "to 10.0.1.6",
            "1,500",
            "serve",
            "veth1",
            "10.0",
            "egress_queue_full",
        ] {
            assert!(table.contains(part), "{part} is missing in\n{table}");
        }
    }
}

#[test]
fn help_teaches_with_examples() {
    let bench = replication();
    let help = bench.ok("--help");
    for part in [
        "reprise pipeline set p4/sfu.p4",
        "reprise apply conference.yaml --dry-run",
        "REPRISE_SWITCH",
        "Exit code",
    ] {
        assert!(help.contains(part), "{part} is missing in\n{help}");
    }
    for words in [
        "apply",
        "show",
        "viewer add",
        "group add",
        "address set",
        "pipeline set",
        "compile",
        "check",
    ] {
        let help = bench.ok(&format!("{words} --help"));
        assert!(help.contains("Example"), "{words}: {help}");
    }
}

#[test]
fn p4_source_is_compiled_checked_and_loaded() {
    let bench = Bench::new(None);
    for (name, kind) in [
        ("sfu", "replication"),
        ("sfu_recirculation", "recirculation"),
    ] {
        let source = format!("{}/../../p4/{name}.p4", env!("CARGO_MANIFEST_DIR"));
        let files = bench.json(&format!("compile {source} -o out"));
        assert_eq!(files["files"].as_array().expect("files").len(), 3);
        bench.ok(&format!("check {source}"));
        bench.ok(&format!("pipeline set {source}"));
        assert_eq!(bench.json("pipeline show")["kind"], kind);
        let from_source = bench.server.switch().device_config.clone();
        bench.ok(&format!("pipeline set out/{name}.json"));
        assert_eq!(bench.server.switch().device_config, from_source);
    }
}

#[test]
fn p4_source_with_a_mistake_is_refused_with_its_place() {
    let bench = Bench::new(None);
    bench.file("bad.p4", "parser x( {");
    for words in ["check bad.p4", "compile bad.p4", "pipeline set bad.p4"] {
        let output = bench.run(words);
        assert_eq!(output.status.code(), Some(1), "{words}");
        let error = text(&output.stderr);
        assert!(error.contains("bad.p4:1:11"), "{words}: {error}");
        assert!(
            error.ends_with("reprise: bad.p4: not compiled, 1 error\n"),
            "{words}: {error}"
        );
    }
    assert!(
        bench
            .fails("check none.p4")
            .starts_with("none.p4: there is no such file")
    );
}

#[test]
fn watch_shows_rates_and_drops_whatever_the_program() {
    let bench = Bench::new(None);
    let shown = bench.ok("watch --times 1");
    assert!(shown.contains("veth1"), "{shown}");
    assert!(shown.contains("egress_queue_full"), "{shown}");
    assert!(
        shown.lines().all(|line| line.chars().count() <= 80),
        "{shown}"
    );
    let watched = bench.json("watch --times 1");
    assert_eq!(watched["interval_s"], 1.0);
    assert_eq!(watched["ports"][0]["rx_packets_per_s"], 10.0);
    let drop = json!({
        "at": "switch", "reason": "egress_queue_full", "packets": 3, "packets_per_s": 0.0,
    });
    assert_eq!(watched["drops"], json!([drop]));
}
