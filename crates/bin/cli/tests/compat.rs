//! Runs the binary under the names of p4c's programs, as makefiles do.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Output};

use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::text_format;
use prost::Message as _;
use testkit::text::{assert_ends, assert_has};

/// A program with an include and a macro.
const PROGRAM: &str = r#"#include <core.p4>
#include <v1model.p4>
#include "types.p4"
#ifndef PORT
#define PORT 1
#endif
parser p(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { transition accept; }
}
control v(inout headers_t h, inout meta_t m) { apply { } }
control i(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action send() { s.egress_spec = PORT; }
    table t { key = { s.ingress_port : exact; } actions = { send; } const default_action = send(); }
    apply { t.apply(); }
}
control e(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control d(packet_out b, in headers_t h) { apply { } }
V1Switch(p(), v(), i(), e(), v(), d()) main;
"#;

struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        let bench = Bench {
            folder: tempfile::tempdir().expect("a folder"),
        };
        for name in ["p4c", "p4c-bm2-ss", "reprise"] {
            let to = bench.folder.path().join(name);
            symlink(env!("CARGO_BIN_EXE_reprise"), to).expect("a link");
        }
        bench.file("prog.p4", PROGRAM);
        bench.file("inc/types.p4", "struct headers_t { }\nstruct meta_t { }\n");
        bench
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, text).expect("written");
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| error.to_string())
    }

    fn run(&self, words: &str) -> Output {
        self.run_with(&[], words)
    }

    fn run_with(&self, variables: &[(&str, &str)], words: &str) -> Output {
        let mut words = words.split_whitespace();
        let program = self.path(words.next().expect("a program"));
        Command::new(program)
            .args(words)
            .current_dir(self.folder.path())
            .env_remove("P4C_16_INCLUDE_PATH")
            .env_remove("REPRISE_P4RUNTIME_VERSION")
            .envs(variables.iter().copied())
            .output()
            .expect("the binary runs")
    }

    fn ok(&self, words: &str) -> String {
        self.ok_with(&[], words)
    }

    fn ok_with(&self, variables: &[(&str, &str)], words: &str) -> String {
        let output = self.run_with(variables, words);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words}: {error}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    fn fails(&self, words: &str) -> String {
        let output = self.run(words);
        assert_eq!(output.status.code(), Some(1), "{words}");
        String::from_utf8(output.stderr).expect("UTF-8")
    }

    fn json(&self, name: &str) -> serde_json::Value {
        serde_json::from_str(&self.read(name)).expect(name)
    }

    fn p4info(&self, name: &str) -> P4Info {
        text_format::parse_p4info(&self.read(name)).expect("a P4Info")
    }
}

#[test]
fn the_tutorials_command_line_writes_both_files() {
    let bench = Bench::new();
    fs::create_dir(bench.path("build")).expect("made");
    bench.ok(
        "p4c-bm2-ss --p4v 16 --p4runtime-files build/prog.p4.p4info.txtpb -Iinc -o build/prog.json \
         prog.p4",
    );
    assert_eq!(
        bench.json("build/prog.json")["pipelines"][0]["name"],
        "ingress"
    );
    let p4info = bench.p4info("build/prog.p4.p4info.txtpb");
    assert_eq!(p4info.tables.len(), 1);
}

#[test]
fn p4info_has_the_format_that_each_files_name_says() {
    let bench = Bench::new();
    bench.ok("p4c-bm2-ss -I inc prog.p4 --p4runtime-files a.txt,a.txtpb,a.bin,a.json");
    let text = bench.p4info("a.txtpb");
    assert_eq!(bench.p4info("a.txt"), text);
    let binary = fs::read(bench.path("a.bin")).expect("written");
    assert_eq!(P4Info::decode(binary.as_slice()).expect("a P4Info"), text);
    let json = bench.json("a.json");
    let preamble = text.tables[0].preamble.as_ref().expect("a preamble");
    assert_eq!(json["tables"][0]["preamble"]["id"], preamble.id);
    assert_eq!(json["tables"][0]["size"], "1024");

    bench.ok("p4c-bm2-ss -I inc prog.p4 --p4runtime-file old --p4runtime-format text");
    assert_eq!(bench.p4info("old"), text);
    bench.ok("p4c-bm2-ss -I inc prog.p4 --p4runtime-file old");
    assert_eq!(fs::read(bench.path("old")).expect("written"), binary);
    let error = bench.fails("p4c-bm2-ss -I inc prog.p4 --p4runtime-files a.xml");
    assert_has(&error, "`a.xml`");
    assert_has(&error, ".txtpb");
}

#[test]
fn p4info_for_an_older_reader_has_nothing_that_it_does_not_know() {
    let bench = Bench::new();
    let newer = |file: &str| bench.read(file).contains("initial_default_action");
    bench.ok("p4c-bm2-ss -I inc prog.p4 --p4runtime-files new.txtpb");
    assert!(newer("new.txtpb"));
    bench.ok("p4c-bm2-ss -I inc prog.p4 --p4runtime-files old.txtpb --p4runtime-version 1.3");
    assert!(!newer("old.txtpb"));
    bench.ok("p4c -I inc prog.p4 --p4runtime-files p4c.txtpb --p4runtime-version=1.3.0");
    assert_eq!(bench.read("p4c.txtpb"), bench.read("old.txtpb"));
    let variable = [("REPRISE_P4RUNTIME_VERSION", "1.3")];
    bench.ok_with(
        &variable,
        "p4c-bm2-ss -I inc prog.p4 --p4runtime-files env.txtpb",
    );
    assert_eq!(bench.read("env.txtpb"), bench.read("old.txtpb"));
    // The option takes precedence over the environment variable.
    bench.ok_with(
        &variable,
        "p4c-bm2-ss -I inc prog.p4 --p4runtime-files last.txtpb --p4runtime-version 1.5",
    );
    assert_eq!(bench.read("last.txtpb"), bench.read("new.txtpb"));
    bench.ok_with(&variable, "reprise compile -I inc prog.p4 -o made");
    assert!(!newer("made/prog.p4info.txtpb"));
    let error = bench.fails("p4c-bm2-ss -I inc prog.p4 --p4runtime-version 2");
    assert_has(
        &error,
        "--p4runtime-version: expected a version of P4Runtime",
    );
}

#[test]
fn macros_come_from_the_command_line() {
    let bench = Bench::new();
    let sends_to = |words: &str| {
        bench.ok(&format!("p4c-bm2-ss -I inc prog.p4 -o out.json {words}"));
        bench.read("out.json").contains("0x0007")
    };
    assert!(!sends_to(""));
    assert!(sends_to("-DPORT=7"));
    assert!(!sends_to("-D PORT=7 -U PORT"));
}

#[test]
fn a_preprocessed_program_compiles_to_the_same() {
    let bench = Bench::new();
    bench.ok("p4c-bm2-ss -I inc prog.p4 -DPORT=9w7 -o whole.json --p4runtime-files whole.txtpb");
    let text = bench.ok("p4c-bm2-ss -I inc prog.p4 -DPORT=9w7 -E");
    assert_has(&text, "s.egress_spec = 9w7;");
    assert!(!text.contains("#include"), "{text}");
    bench.file("pre.p4", &text);
    bench.ok("p4c-bm2-ss --nocpp pre.p4 -o pre.json --p4runtime-files pre.txtpb");
    assert_eq!(bench.p4info("pre.txtpb"), bench.p4info("whole.txtpb"));
    let shape = |name: &str| {
        let json = bench.json(name);
        (
            json["actions"].as_array().map(Vec::len),
            json["header_types"].clone(),
        )
    };
    assert_eq!(shape("pre.json"), shape("whole.json"));
}

#[test]
fn the_driver_fills_a_folder() {
    let bench = Bench::new();
    bench.ok("p4c --target bmv2 --arch v1model --std p4-16 -I inc -o made/here prog.p4");
    assert!(bench.read("made/here/prog.p4i").contains("V1Switch"));
    assert!(bench.json("made/here/prog.json").is_object());

    bench.ok("p4c -b bmv2 -a v1model -I inc prog.p4 --p4runtime-files info.txtpb");
    assert!(bench.json("prog.json").is_object());
    assert_eq!(bench.p4info("info.txtpb").tables.len(), 1);

    fs::create_dir(bench.path("only")).expect("made");
    bench.ok("p4c -E -I inc -o only prog.p4");
    assert!(bench.path("only/prog.p4i").exists() && !bench.path("only/prog.json").exists());
    bench.ok("p4c -e -o only prog.p4");
    assert!(bench.json("only/prog.json").is_object());
}

#[test]
fn dependencies_are_written_for_make() {
    let bench = Bench::new();
    let rule = bench.ok("p4c-bm2-ss -I inc prog.p4 -M -MT out.json");
    assert_eq!(rule, "out.json: prog.p4 \\\n inc/types.p4\n");
    bench.ok("p4c-bm2-ss -I inc prog.p4 -MD -MF x.d -MP -o prog.json");
    let rule = bench.read("x.d");
    assert_eq!(rule, "prog.o: prog.p4 \\\n inc/types.p4\ninc/types.p4:\n");
}

#[test]
fn what_cannot_be_had_is_refused_with_a_reason() {
    let bench = Bench::new();
    let cases = [
        ("p4c-bm2-ss --p4v 14 prog.p4", "P4_16 only"),
        ("p4c -x p4-14 prog.p4", "P4_16 only"),
        ("p4c-bm2-ss --std 17 prog.p4", "no such language version"),
        (
            "p4c -b dpdk -a psa prog.p4",
            "this compiler is for bmv2 with v1model",
        ),
        (
            "p4c-bm2-ss --arch psa prog.p4",
            "this compiler is for bmv2 with v1model",
        ),
        (
            "p4c-bm2-ss --toJSON x.json prog.p4",
            "--toJSON is not supported",
        ),
        ("p4c-bm2-ss --pp x.p4 prog.p4", "--pp is not supported"),
        ("p4c-bm2-ss --dump x prog.p4", "--dump is not supported"),
        (
            "p4c-bm2-ss --frobnicate prog.p4",
            "unknown option `--frobnicate`",
        ),
        ("p4c -frobnicate prog.p4", "unknown option `-frobnicate`"),
        ("p4c-bm2-ss prog.p4 -o", "-o needs a value: FILE"),
        ("p4c-bm2-ss", "no program was named"),
        ("p4c a.p4 b.p4", "expected one program, 2 were named"),
        ("p4c-bm2-ss none.p4", "none.p4: there is no such file"),
        ("p4c-bm2-ss inc", "inc: it is a folder"),
        ("p4c-bm2-ss -D 1x prog.p4", "expected NAME or NAME=VALUE"),
        (
            "p4c-bm2-ss -I inc prog.p4 -o no/out.json",
            "there is no folder no",
        ),
    ];
    for (words, expected) in cases {
        let error = bench.fails(words);
        assert!(error.contains(expected), "{words}: {error}");
        let program = words.split_whitespace().next().expect("a program");
        let last = error.lines().last().unwrap_or_default();
        assert!(
            last.starts_with(&format!("{program}: ")),
            "{words}: {error}"
        );
    }
    assert!(!bench.path("prog.json").exists());
}

#[test]
fn a_mistake_leaves_no_output() {
    let bench = Bench::new();
    let error = bench.fails("p4c-bm2-ss prog.p4 -o out.json --p4runtime-files out.txtpb");
    assert_has(&error, "cannot find `types.p4`");
    assert_has(&error, "prog.p4:3:1");
    assert!(!bench.path("out.json").exists() && !bench.path("out.txtpb").exists());
}

#[test]
fn version_and_help_say_whose_they_are() {
    let bench = Bench::new();
    for name in ["p4c", "p4c-bm2-ss"] {
        assert!(
            bench
                .ok(&format!("{name} --version"))
                .starts_with(&format!("{name} of reprise"))
        );
        let help = bench.ok(&format!("{name} --help"));
        assert!(help.contains("--p4runtime-files FILE,..."));
        let refused = help.lines().filter(|line| line.ends_with("refused"));
        let refused: Vec<_> = refused.collect();
        assert!(!refused.is_empty(), "{help}");
        for line in refused {
            assert_ends(line, " refused");
        }
    }
}

#[test]
fn an_output_file_named_with_a_dash_is_standard_output() {
    let bench = Bench::new();
    bench.ok("p4c-bm2-ss -Iinc prog.p4 -o prog.json");
    let printed = bench.ok("p4c-bm2-ss -Iinc prog.p4 -o - --p4runtime-files prog.txtpb");
    assert_eq!(printed, bench.read("prog.json"));
    assert!(bench.path("prog.txtpb").is_file());
    assert!(!bench.path("-").exists());
}
