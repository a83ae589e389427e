//! `reprise stf` as a user types it: commands beyond tables and packets, and mistakes in tests.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testkit::text::{assert_ends, assert_has, cases};

/// A program with one of each extern that a test can set or read.
const PROGRAM: &str = "\
#include <core.p4>
#include <v1model.p4>

header word_t { bit<16> a; }
struct headers_t { word_t word; }
struct meta_t { bit<2> color; bit<2> of_entry; bit<16> seen; }
struct seen_t { bit<16> a; bit<9> port; }

parser P(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.word);
        transition accept;
    }
}
control C(inout headers_t hdr, inout meta_t meta) { apply { } }
control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    meter(4, MeterType.packets) rate;
    direct_meter<bit<2>>(MeterType.packets) entry_rate;
    counter(4, CounterType.packets) packets;
    register<bit<16>>(4) last;
    action forward(bit<9> port) {
        sm.egress_spec = port;
        entry_rate.read(meta.of_entry);
    }
    table ports {
        key = { hdr.word.a : lpm; }
        actions = { forward; NoAction; }
        meters = entry_rate;
        default_action = forward(1);
    }
    apply {
        ports.apply();
        rate.execute_meter(2, meta.color);
        packets.count(3);
        last.write(0, hdr.word.a);
        meta.seen = hdr.word.a;
        digest<seen_t>(1, { meta.seen, sm.ingress_port });
        hdr.word.a = 7w0 ++ meta.of_entry ++ 5w0 ++ meta.color;
    }
}
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(P(), C(), I(), E(), C(), D()) main;
";

fn reprise(folder: &Path, words: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_reprise"))
        .args(words)
        .current_dir(folder)
        .output()
        .expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// Runs a test's text on `PROGRAM`. Returns the exit code, standard output and standard error.
fn stf(test: &str) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("prog.p4"), PROGRAM).expect("written");
    fs::write(folder.path().join("test.stf"), test).expect("written");
    reprise(folder.path(), &["stf", "prog.p4", "test.stf"])
}

fn passes(test: &str) {
    let (code, _, error) = stf(test);
    assert_eq!(code, Some(0), "{error}");
}

/// Runs a test that must fail, and returns its standard error.
fn fails(test: &str) -> String {
    let (code, out, error) = stf(test);
    assert_eq!(code, Some(1), "{out}");
    error
}

#[test]
fn meters_are_set_in_units_a_microsecond() {
    // One packet fits the committed bucket, and two fit the peak bucket. So the three packets are green, yellow and
    // red.
    passes(
        "meter_set_rates rate 2 0.000001:1 0.000002:2\n\
         meter_get_rates I.rate 2\n\
         packet 0 0000\nexpect 1 0000$\n\
         packet 0 0000\nexpect 1 0001$\n\
         packet 0 0000\nexpect 1 0002$\n\
         wait 1000\n\
         packet 0 0000\nexpect 1 0000$\n",
    );
    passes(
        "meter_array_set_rates rate 0.000001:1 0.000002:1\n\
         packet 0 0000\nexpect 1 0000$\n\
         packet 0 0000\nexpect 1 0002$\n",
    );
    // An entry's direct meter is named by the entry's ID.
    passes(
        "add ports hdr.word.a:0x1200/8 forward(port:5) = first\n\
         meter_set_rates entry_rate first 0.000001:1 0.000002:1\n\
         meter_get_rates entry_rate first\n\
         packet 0 1234\nexpect 5 0000$\n\
         packet 0 1234\nexpect 5 0100$\n",
    );
    let error = fails("meter_get_rates rate 4\n");
    assert_has(&error, "4");
    let error = fails("meter_set_rates raet 0 1:1 1:1\n");
    assert_has(&error, "no meter \"raet\", did you mean \"rate\"?");
}

#[test]
fn digests_are_expected_in_their_order() {
    let packets = "packet 3 0102\nexpect 1\npacket 4 0304\nexpect 1\n";
    passes(packets);
    passes(&format!(
        "{packets}expect_digest seen_t 0x0102 3\nexpect_digest seen_t\nno_digest\n"
    ));
    let error = fails(&format!(
        "{packets}expect_digest seen_t 0x0102 4\nno_digest\n"
    ));
    assert_has(
        &error,
        "test.stf:5: expected the digest seen_t 0x0102 0x04, found seen_t 0x0102 0x03",
    );
    assert_has(
        &error,
        "test.stf:6: expected no digest, found seen_t 0x0304 0x04",
    );
    let error = fails("expect_digest seen_t\n");
    assert_has(&error, "expected the digest seen_t, found none");
}

#[test]
fn state_is_named_in_short_and_every_check_that_fails_is_reported() {
    let packet = "packet 3 0102\nexpect 1\n";
    passes(&format!(
        "{packet}register_check last 0 0x102\ncheck_counter packets(3) packets == 1\n"
    ));
    let error = fails(&format!(
        "{packet}register_check last 0 0x103\ncheck_counter packets(3) packets == 2\n"
    ));
    assert_has(
        &error,
        "test.stf:3: register \"last\"[0]: expected 0x0103, found 0x0102",
    );
    assert_has(
        &error,
        "counter \"packets\"(3): expected packets == 2, found 1",
    );
    assert_ends(&error, "reprise: test.stf: 2 expectations failed\n");
    let error = fails("register_check lst 0 1\n");
    assert_has(&error, "did you mean \"last\"?");
    assert_ends(
        &error,
        "reprise: test.stf: line 1 cannot be done, the test ends there\n",
    );
}

#[test]
fn every_line_that_is_no_command_is_reported_with_what_was_meant() {
    assert_eq!(
        fails(
            "exepct 1 00\npacket 1 00\npacket 70000 00\nadd ports hdr.word.a:10.0.0.1 forward(port:1)\npacket 1 000\n"
        ),
        "\
test.stf:1: unknown command \"exepct\": did you mean \"expect\"?
  exepct 1 00
test.stf:3: a port: expected at most 65535, found 70000
  packet 70000 00
test.stf:4: expected a number, found the address 10.0.0.1: write 0x0a000001
  add ports hdr.word.a:10.0.0.1 forward(port:1)
test.stf:5: expected pairs of hexadecimal digits, found 3 digits
  packet 1 000
reprise: test.stf: not run, 4 lines are no commands
"
    );
}

#[test]
fn keys_and_arguments_that_do_not_fit_are_reported_in_the_tests_own_words() {
    let error = fails("add ports hdr.word.a:1..5 forward(port:1)\n");
    assert_has(
        &error,
        "key field \"hdr.word.a\" is lpm: expected VALUE/BITS or a mask of leading bits, found 0x01..0x05",
    );
    let error = fails("add ports hdr.word.a:1 forwrad(port:1)\n");
    assert_has(&error, "no action \"forwrad\", did you mean \"forward\"?");
    let error = fails("add ports hdr.word.a:1 forward(prt:1)\n");
    assert_has(
        &error,
        "action \"I.forward\": no parameter \"prt\", did you mean \"port\"?",
    );
    let error = fails("add ports hdr.word.a:1 forward()\n");
    assert_has(&error, "action \"I.forward\": no argument \"port\"");
}

/// Each command line and its message.
const WRONG_FILES: &str = "
stf prog.p4 none.stf
    none.stf: there is no such file, expected a packet test (.stf)
stf none.p4 test.stf
    none.p4: there is no such file, expected a P4 source file
stf prog test.stf
    prog: there is no such file; did you mean prog.p4?
stf none.json test.stf
    none.json: there is no such file, expected BMv2 JSON or a P4 program
stf prog.p4 .
    .: it is a folder, expected a packet test (.stf)
stf prog.p4 bytes.stf
    bytes.stf: line 2 is not UTF-8, expected text; `iconv -t UTF-8` converts it
stf test.stf prog.p4
    test.stf: the program comes first: `reprise stf prog.p4 test.stf`
";

#[test]
fn files_that_cannot_be_had_are_reported_without_the_systems_numbers() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, bytes: &[u8]| {
        fs::write(folder.path().join(name), bytes).expect("written");
    };
    write("prog.p4", PROGRAM.as_bytes());
    write("test.stf", b"wait\n");
    write("bytes.stf", b"wait\npacket 1 00 # \xff\n");
    write("torn.json", b"{\"a\": 1");
    for (words, expected) in cases(WRONG_FILES) {
        let words: Vec<&str> = words.split(' ').collect();
        let (code, _, error) = reprise(folder.path(), &words);
        assert_eq!(code, Some(1), "{words:?}");
        assert_eq!(error, format!("reprise: {expected}\n"), "{words:?}");
    }
    let (_, _, error) = reprise(folder.path(), &["stf", "torn.json", "test.stf"]);
    assert_has(&error, "torn.json: JSON: not well-formed");
}

#[test]
fn an_index_that_no_array_has_is_refused_up_to_the_last_number() {
    for command in [
        "register_write last 18446744073709551615 7",
        "counter_write packets 18446744073709551615 1 1",
    ] {
        let (code, _, error) = stf(command);
        assert_eq!(code, Some(1), "{command}");
        let expected = "expected an index below 4, found 18446744073709551615";
        assert!(error.contains(expected), "{command}: {error}");
    }
}

#[test]
fn a_byte_order_mark_in_front_of_a_test_is_no_command() {
    passes("\u{feff}packet 0 0000\nexpect 1 0000$\n");
}

/// A program that returns each packet with its first byte increased by `STEP`.
const STEPS: &str = "\
#include <core.p4>
#include <v1model.p4>
header first_t { bit<8> value; }
struct headers_t { first_t first; }
struct metadata_t {}
parser Read(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start { packet.extract(hdr.first); transition accept; }
}
control Nothing(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Count(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        hdr.first.value = hdr.first.value + STEP;
        standard.egress_spec = standard.ingress_port;
    }
}
control Idle(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) { apply {} }
control Write(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(Read(), Nothing(), Count(), Idle(), Nothing(), Write()) main;
";

#[test]
fn a_packet_test_shows_the_bytes_that_differ() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("prog.p4"), STEPS).expect("written");
    let stf = |test: &str, words: &[&str]| {
        fs::write(folder.path().join("test.stf"), test).expect("written");
        let all = [&["stf", "prog.p4", "test.stf"][..], words].concat();
        reprise(folder.path(), &all)
    };
    let test = "packet 1 07ff\nexpect 1 08ff $\npacket 2 01\nexpect 2 02\n";
    let (code, out, _) = stf(test, &["-DSTEP=1"]);
    assert_eq!(
        (code, out.as_str()),
        (Some(0), "test.stf: ok, packets 2, expected 2\n")
    );
    let (code, out, error) = stf(test, &["-DSTEP=2"]);
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert_eq!(
        error,
        "\
test.stf:2: port 1: the frame differs from the expected one
  expect 1 08ff $
  byte    0  expected  08 ff
                found  09 ff
                       ^^
test.stf:4: port 2: the frame differs from the expected one
  expect 2 02
  byte    0  expected  02
                found  03
                       ^^
reprise: test.stf: 2 expectations failed
"
    );
    let (code, out, _) = stf(test, &["-DSTEP=2", "--json"]);
    assert_eq!(code, Some(1));
    let report: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(report["ok"], false);
    assert_eq!(report["failures"][0]["difference"]["bytes"][0], 0);
    let (_, _, trace) = stf(test, &["-DSTEP=1", "--trace"]);
    assert_has(&trace, "prog.p4:12");
    let (code, _, error) = stf("fly 1\n", &["-DSTEP=1"]);
    assert_eq!(code, Some(1));
    assert_eq!(
        error,
        "test.stf:1: unknown command \"fly\": docs/conformance.md lists the commands\n  fly 1\n\
         reprise: test.stf: not run, 1 line is no command\n"
    );
    let (code, _, error) = stf(test, &[]);
    assert_eq!(code, Some(1));
    assert_ends(&error, "reprise: prog.p4: not compiled, 1 error\n");
}
