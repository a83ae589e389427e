//! The benchmark runs, every variant's output equals the interpreter's, and the files that the benchmark writes are
//! complete.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at what it did not expect"
)]

use std::{collections::BTreeMap, path::Path, process::Command};

use dataplane_jit::NativeOptions;

const PROGRAM: &str = env!("CARGO_BIN_EXE_reprise-pipeline-bench");

type Row = BTreeMap<String, String>;

fn run(arguments: &[&str]) -> (bool, String) {
    let output = Command::new(PROGRAM).args(arguments).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8(text).unwrap();
    (output.status.success(), text)
}

fn rows(path: &Path) -> Vec<Row> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned));
    let columns: Vec<String> = lines.next().unwrap().collect();
    lines
        .map(|line| {
            let cells: Vec<String> = line.collect();
            assert_eq!(cells.len(), columns.len(), "{cells:?}");
            columns.iter().cloned().zip(cells).collect()
        })
        .collect()
}

fn number(row: &Row, column: &str) -> f64 {
    row[column].parse().unwrap()
}

#[test]
fn the_parts_of_every_pipeline_are_measured_and_every_variant_agrees() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let (is_done, text) = run(&["parts", "--quick", "--viewers", "3", "--output", path]);
    assert!(is_done, "{text}");
    let rows = rows(&folder.path().join("pipeline.csv"));
    let whole: Vec<&Row> = rows.iter().filter(|row| row["part"] == "whole").collect();
    for program in ["l2", "l3", "l2l3_acl", "sfu", "sfu_recirculation"] {
        let of = |optimisations: &str| {
            let is_it = |row: &&&Row| {
                let is_native = row["engine"] == "native";
                row["program"] == program && is_native && row["optimisations"] == optimisations
            };
            whole.iter().find(is_it).unwrap_or_else(|| panic!("{text}"))
        };
        let all = of("all");
        assert_eq!(of("none")["checksum"], all["checksum"]);
        assert!(number(all, "ns_per_packet") > 0.0);
        assert!(number(all, "ns_per_packet_min") <= number(all, "ns_per_packet_max"));
        let copies = if program.starts_with("sfu") { 3.0 } else { 1.0 };
        assert_eq!(number(all, "copies_per_packet"), copies, "{program}");
        if NativeOptions::NAMES.len() > 1 {
            for name in NativeOptions::NAMES {
                assert_eq!(of(name)["checksum"], all["checksum"]);
            }
        }
    }
    let json = std::fs::read_to_string(folder.path().join("pipeline.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["rows"].as_array().unwrap().len(), rows.len());
    #[cfg(target_arch = "x86_64")]
    assert!(json["tsc_hz"].as_f64().unwrap() > 1e8, "{}", json["tsc_hz"]);
}

#[test]
fn growth_is_measured_at_every_point() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let (is_done, text) = run(&["growth", "--quick", "--output", path]);
    assert!(is_done, "{text}");
    let rows = rows(&folder.path().join("growth.csv"));
    for grows in ["entries", "groups", "viewers", "packet_size_bytes"] {
        let mut values: Vec<f64> = rows
            .iter()
            .filter(|row| row["grows"] == grows)
            .map(|row| number(row, "value"))
            .collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        assert!(values.len() > 1, "{grows}: {values:?}");
    }
}

#[test]
fn what_it_cannot_do_is_reported() {
    let (is_done, text) = run(&["parts", "--quick", "--pipelines", "l2", "--cpu", "9999"]);
    assert!(!is_done);
    assert!(text.contains("cannot run on processors [9999]"), "{text}");
    let (is_done, text) = run(&["parts", "--pipelines", "l7"]);
    assert!(!is_done);
    assert!(text.contains("l2l3-acl"), "{text}");
}
