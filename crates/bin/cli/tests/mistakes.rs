//! Messages for mistyped options, files and folders.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use testkit::text::{assert_has, cases};

const PROGRAM: &str = "\
#include <core.p4>
#include <v1model.p4>
struct none_t { }
parser P(packet_in packet, out none_t hdr, inout none_t meta, inout standard_metadata_t sm) {
    state start { transition accept; }
}
control C(inout none_t hdr, inout none_t meta) { apply { } }
control I(inout none_t hdr, inout none_t meta, inout standard_metadata_t sm) {
    table ports {
        key = { sm.ingress_port : exact; }
        actions = { NoAction; }
    }
    apply { }
}
control E(inout none_t hdr, inout none_t meta, inout standard_metadata_t sm) { apply { } }
control D(packet_out packet, in none_t hdr) { apply { } }
V1Switch(P(), C(), I(), E(), C(), D()) main;
";

struct Bench(tempfile::TempDir);

impl Bench {
    fn new() -> Self {
        let bench = Self(tempfile::tempdir().expect("a folder"));
        fs::write(bench.path().join("prog.p4"), PROGRAM).expect("written");
        bench
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn run(&self, words: &str, input: &str) -> Output {
        let mut child = Command::new(env!("CARGO_BIN_EXE_reprise"))
            .args(words.split_whitespace())
            .current_dir(self.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        let mut stdin = child.stdin.take().expect("a pipe");
        // A command that reads nothing may already have ended.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        child.wait_with_output().expect("it ends")
    }

    fn ok(&self, words: &str) -> String {
        let output = self.run(words, "");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words}: {error}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs a command that must exit with this code, and returns its standard error.
    fn fails(&self, code: i32, words: &str) -> String {
        let output = self.run(words, "");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{words}: {error}");
        error
    }
}

#[test]
fn a_warning_that_does_not_exist_is_refused_by_its_option() {
    let bench = Bench::new();
    for option in ["--Wdisable=unusd", "-Werror=unusd"] {
        assert_eq!(
            bench.fails(1, &format!("check {option} prog.p4")),
            format!(
                "reprise: {option}: there is no warning of this code or name: `reprise explain` lists them\n"
            )
        );
    }
    for name in ["unused", "W0805", "w0805"] {
        let output = bench.run(&format!("check --Wdisable={name} prog.p4"), "");
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{name}"
        );
        bench.fails(1, &format!("check -Werror={name} prog.p4"));
    }
}

#[test]
fn a_level_of_optimisation_is_0_or_1() {
    let bench = Bench::new();
    bench.ok("compile -O0 prog.p4 --Wdisable");
    bench.ok("compile -O 1 prog.p4 --Wdisable");
    let error = bench.fails(2, "compile -O2 prog.p4");
    assert_has(&error, "expected 0 (no optimisation) or 1");
}

#[test]
fn what_is_compiled_already_is_no_source() {
    let bench = Bench::new();
    bench.ok("compile prog.p4 --Wdisable");
    let error = bench.fails(1, "check prog.json");
    assert!(error.contains("prog.json: is compiled already"), "{error}");
}

#[test]
fn standard_input_is_compiled_to_files_of_its_name() {
    let bench = Bench::new();
    let output = bench.run("compile - -o out --Wdisable", PROGRAM);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "out/stdin.json\nout/stdin.p4info.txtpb\nout/stdin.p4info.bin\n"
    );
    assert!(bench.path().join("out/stdin.json").is_file());
}

/// Each command line and its message.
const NOT_THERE: &str = "
check prog
    prog: there is no such file; did you mean prog.p4?
check none.p4
    none.p4: there is no such file, expected a P4 source file
check .
    .: it is a folder, expected a P4 source file
compile --Wdisable prog.p4 -o file/below
    file/below: the folder cannot be made: part of the path is a file, not a folder
apply none.yaml
    none.yaml: there is no such file, expected a conference.yaml
";

#[test]
fn files_and_folders_that_cannot_be_had_are_reported_in_words() {
    let bench = Bench::new();
    fs::write(bench.path().join("file"), "").expect("written");
    for (words, expected) in cases(NOT_THERE) {
        assert_eq!(bench.fails(1, words), format!("reprise: {expected}\n"));
    }
}

#[test]
fn messages_for_people_stand_a_line_apart() {
    let bench = Bench::new();
    let wrong = PROGRAM.replace(
        "apply { }\n}\ncontrol E",
        "apply { a(); b(); }\n}\ncontrol E",
    );
    fs::write(bench.path().join("wrong.p4"), wrong).expect("written");
    let error = bench.fails(1, "check wrong.p4");
    let parts: Vec<&str> = error.split("\n\n").collect();
    assert_eq!(parts.len(), 3, "{error}");
    assert!(parts[1].starts_with("error[E0301]"), "{error}");
    assert_eq!(parts[2], "reprise: wrong.p4: not compiled, 2 errors\n");
}

/// Each command line and its message.
const TLS_OPTIONS: &str = "
show --tls-cert me.pem
    --tls-cert: expected --tls-key FILE beside it, found none
show --tls-ca ca.pem --tls-key me.key
    --tls-key: expected --tls-cert FILE beside it, found none
--tls-cert me.pem show --tls-key me.key
    --tls-cert: expected --tls-ca FILE beside it for a TLS connection, found none
watch --tls-server-name switch.example
    --tls-server-name: expected --tls-ca FILE beside it
show --tls-ca ca.pem
    TLS: certificate authorities ca.pem: there is no such file
pipeline show --tls-ca text.pem
    TLS: certificate authorities text.pem: expected PEM
";

#[test]
fn options_of_tls_that_lack_another_or_a_file_say_which() {
    let bench = Bench::new();
    fs::write(bench.path().join("text.pem"), "no PEM").expect("written");
    for (words, said) in cases(TLS_OPTIONS) {
        let error = bench.fails(1, words);
        assert!(error.contains(said), "{words}: {error}");
        assert_eq!(error.lines().count(), 1, "{words}: {error}");
    }
}
