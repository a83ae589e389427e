//! Checks which warnings are shown, and which fail the compilation.

use p4_compiler::{Options, Output, Severity, compile};

/// A program with an unused constant and a comparison that is always false.
const PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>
const bit<8> SPARE = 1;
struct headers_t { }
struct metadata_t { bit<8> x; }
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta,
         inout standard_metadata_t standard_metadata) { state start { transition accept; } }
control C(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta,
          inout standard_metadata_t standard_metadata) {
    apply { if (meta.x < 0) { meta.x = 1; } }
}
control E(inout headers_t hdr, inout metadata_t meta,
          inout standard_metadata_t standard_metadata) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { } }
V1Switch(P(), C(), I(), E(), C(), D()) main;
"#;

fn with(options: &Options) -> Output {
    compile("program.p4", PROGRAM, &|_: &str| None, options)
}

fn codes(output: &Output, severity: Severity) -> Vec<&str> {
    output
        .diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.severity == severity)
        .map(|diagnostic| diagnostic.code.as_str())
        .collect()
}

#[test]
fn warnings_are_shown_and_do_not_fail() {
    let output = with(&Options::default());
    assert_eq!(codes(&output, Severity::Warning), ["W0807", "W0842"]);
    assert!(output.bmv2_json.is_some() && output.p4info.is_some());
}

#[test]
fn a_warning_is_disabled_by_code_or_by_p4cs_name() {
    for name in ["W0807", "w0807", "unused"] {
        let output = with(&Options {
            disabled_warnings: vec![name.to_owned()],
            ..Options::default()
        });
        assert_eq!(codes(&output, Severity::Warning), ["W0842"], "{name}");
    }
    let output = with(&Options {
        all_warnings_disabled: true,
        ..Options::default()
    });
    assert!(output.diagnostics.is_empty());
}

#[test]
fn denied_warnings_are_errors_and_nothing_comes_out() {
    let output = with(&Options {
        warnings_as_errors: true,
        ..Options::default()
    });
    assert_eq!(codes(&output, Severity::Error), ["W0807", "W0842"]);
    assert!(output.bmv2_json.is_none() && output.p4info.is_none());
    let output = with(&Options {
        denied_warnings: vec!["expr".to_owned()],
        ..Options::default()
    });
    assert_eq!(codes(&output, Severity::Error), ["W0842"]);
    assert_eq!(codes(&output, Severity::Warning), ["W0807"]);
    assert!(output.bmv2_json.is_none());
}

#[test]
fn a_disabled_warning_is_no_error_either() {
    let output = with(&Options {
        warnings_as_errors: true,
        disabled_warnings: vec!["unused".to_owned(), "W0842".to_owned()],
        ..Options::default()
    });
    assert!(output.diagnostics.is_empty() && output.bmv2_json.is_some());
}
