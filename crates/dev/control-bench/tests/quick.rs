//! Tests that the benchmark runs and loses no packet. Tests that the switch withstands abuse in runs of eight seconds
//! each; up to four runs follow each other until every kind of client has run. Tests that a switch that was killed
//! several times still has the effect of every call that it answered. CONTRIBUTING.md describes the long runs.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at what it did not expect"
)]

use std::process::Command;

use testkit::namespace::in_namespace;

/// Runs a program, which makes namespaces of its own, and returns its standard output.
fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn the_benchmark_accounts_for_every_packet_over_tls_and_with_a_state_file() {
    in_namespace(|| {
        let folder = folder();
        let path = folder.path().to_str().unwrap();
        let arguments = ["--quick", "--readers", "10", "--json", "--state-in", path];
        let text = run(env!("CARGO_BIN_EXE_reprise-control-bench"), &arguments);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let rows = json["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 3);
        for row in rows {
            let figure = |name: &str| {
                let median = row["figures"][name]["median"].as_f64();
                median.unwrap_or_else(|| panic!("no {name} in {row}"))
            };
            assert_eq!(figure("frames_unaccounted"), 0.0, "{row}");
            assert_eq!(figure("frames_lost"), 0.0, "{row}");
            assert_eq!(figure("frames_out_of_order"), 0.0, "{row}");
            assert!(figure("frames_sent") > 1_000.0, "{row}");
            assert_eq!(figure("entries"), 20_000.0, "{row}");
            for name in [
                "insert_writes_per_s",
                "steady_writes_per_s",
                "entry_reads",
                "table_reads_entries_per_s",
                "thrift_adds_per_s",
                "memory_after_mib",
            ] {
                assert!(figure(name) > 0.0, "{name} in {row}");
            }
            assert!(figure("steady_batch_p50_ms") <= figure("steady_batch_max_ms"));
        }
        assert!(rows[2]["figures"]["state_file_mib"].is_object());
        assert!(rows[2]["figures"]["restart_s"].is_object());
    });
}

#[test]
fn the_switch_withstands_abuse() {
    in_namespace(|| {
        let everybody = [
            "tokens Ok",
            "tokens PermissionDenied",
            "pipelines ",
            "messages Write",
            "messages StreamChannel",
            "Thrift calls answered",
            "oversize",
            "swept, given up",
            "connections slow",
            "TLS refused: Nothing",
            "TLS refused: Strangers",
            "TLS refused: Expired",
            "TLS refused: Early",
            "TLS given up: the switch's certificate",
            "TLS plaintext",
            "TLS half of a hello",
            "TLS a hello and no more",
        ];
        let mut said = String::new();
        let mut missing = everybody.to_vec();
        // On a loaded machine a run may end before every kind of client has run. In this case a run with the next seed
        // follows.
        for seed in ["3", "4", "5", "6"] {
            let arguments = ["--seconds", "8", "--connections", "300", "--seed", seed];
            let program = env!("CARGO_BIN_EXE_reprise-control-abuse");
            let text = run(program, &arguments);
            assert!(text.contains("nothing was found"), "{text}");
            missing.retain(|what| !text.contains(what));
            if missing.is_empty() {
                return;
            }
            eprintln!("seed {seed}: no {missing:?} yet");
            said.push_str(&text);
        }
        assert!(missing.is_empty(), "no {missing:?}: {said}");
    });
}

#[test]
fn a_switch_that_is_killed_has_everything_that_it_answered() {
    in_namespace(|| {
        let folder = folder();
        let path = folder.path().to_str().unwrap();
        let arguments = ["--kills", "20", "--seed", "5", "--state-in", path];
        let program = env!("CARGO_BIN_EXE_reprise-control-kills");
        let text = run(program, &arguments);
        assert!(text.starts_with("20 kills"), "{text}");
        assert!(!text.contains(" 0 calls answered"), "{text}");
    });
}
