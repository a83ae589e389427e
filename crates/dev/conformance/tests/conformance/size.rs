//! Tests large programs, like those that scripts and decision tree learning produce. The work of compiling, loading and
//! code generation grows linearly, not quadratically, with the length of the program. Too large programs are refused
//! with a reason, before they take time or memory. The switch accepts what the compiler accepts.

use std::fmt::Write as _;

use dataplane::{Program, Switch, SwitchConfig};
use dataplane_jit::{NativeFactory, NativeOptions};
use p4_compiler::{Options, Output, compile};

/// Maximum ratio of the work for a program of 4 times the length. Linear work gives 4, quadratic work 16.
const RATIO_MAX: f64 = 9.0;
/// Number of measurements. The smallest result counts, because the machine has other load.
const RUNS: usize = 2;

/// Returns a program whose ingress control has these declarations and statements.
fn program(members: &str, body: &str) -> String {
    format!(
        r#"
#include <core.p4>
#include <v1model.p4>
header h_t {{ bit<32> a; bit<32> b; bit<16> c; bit<16> d; }}
struct headers_t {{ h_t h; }}
struct metadata_t {{ bit<32> x; }}
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{
    state start {{ packet.extract(hdr.h); transition accept; }}
}}
control C(inout headers_t hdr, inout metadata_t meta) {{ apply {{ }} }}
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{
    action forward(bit<9> port) {{ sm.egress_spec = port; }}
    {members}
    apply {{ {body} sm.egress_spec = (bit<9>) meta.x; }}
}}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{ apply {{ }} }}
control D(packet_out packet, in headers_t hdr) {{ apply {{ packet.emit(hdr); }} }}
V1Switch(P(), C(), I(), E(), C(), D()) main;
"#
    )
}

fn repeated(n: usize, separator: &str, mut part: impl FnMut(usize) -> String) -> String {
    (0..n).map(&mut part).collect::<Vec<_>>().join(separator)
}

fn conditions(n: usize) -> String {
    let body = repeated(n, "\n", |at| {
        format!("if (hdr.h.a == {at}) {{ meta.x = {}; }}", at * 7)
    });
    program("", &body)
}

fn else_ifs(n: usize) -> String {
    let body = repeated(n, " else ", |at| {
        format!("if (hdr.h.a > {at}) {{ meta.x = {}; }}", at * 7)
    });
    program("", &body)
}

fn sum(n: usize) -> String {
    let terms = repeated(n, " + ", |at| format!("(hdr.h.a ^ {at})"));
    program("", &format!("meta.x = {terms};"))
}

fn exact_entries(n: usize) -> String {
    entries("hdr.h.a : exact;", n, |at| at.to_string())
}

fn ternary_entries(n: usize) -> String {
    let key = "hdr.h.a : ternary; hdr.h.c : range; hdr.h.b : lpm;";
    entries(key, n, |at| {
        let low = at % 60_000;
        format!(
            "({at} &&& 0xfffff, {low} .. {}, {} &&& 0xffffff00)",
            low + 4,
            at << 8
        )
    })
}

fn entries(key: &str, n: usize, set: impl Fn(usize) -> String) -> String {
    let list = repeated(n, "\n", |at| {
        format!("{} : forward({});", set(at), at % 511)
    });
    let table = format!(
        "table t {{ key = {{ {key} }} actions = {{ forward; NoAction; }} const entries = {{ {list} }} }}"
    );
    program(&table, "t.apply();")
}

fn compiled(text: &str) -> Output {
    compile("large.p4", text, &|_: &str| None, &Options::default())
}

/// Loads the program into a switch with the native engine.
fn load(output: &Output) {
    let json = output.bmv2_json.as_ref().expect("it compiles").to_json();
    let program = Program::from_json_str(&json.unwrap()).expect("it loads");
    let engine = Box::new(NativeFactory {
        options: NativeOptions::ALL,
    });
    let mut switch = Switch::with_engine(SwitchConfig::default(), engine);
    switch.set_program(program);
}

/// Returns the processor time of this thread in nanoseconds.
fn processor_ns() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split(' ').next().unwrap().parse().unwrap()
}

fn least_ns(text: &str) -> f64 {
    let runs = (0..RUNS).map(|_| {
        let before = processor_ns();
        let output = compiled(text);
        assert!(
            output.bmv2_json.is_some(),
            "{:?}",
            output
                .diagnostics
                .first()
                .map(p4_compiler::Diagnostic::render)
        );
        load(&output);
        processor_ns() - before
    });
    runs.fold(f64::INFINITY, f64::min)
}

#[test]
fn work_grows_with_the_length_of_a_program_and_not_with_its_square() {
    type Kind = (&'static str, fn(usize) -> String, usize);
    let kinds: [Kind; 5] = [
        ("conditions", conditions, 500),
        ("else ifs", else_ifs, 250),
        ("terms", sum, 500),
        ("exact entries", exact_entries, 2_000),
        ("ternary entries", ternary_entries, 1_000),
    ];
    let mut report = String::new();
    let mut worst: f64 = 0.0;
    for (name, make, n) in kinds {
        let (once, four_times) = (least_ns(&make(n)), least_ns(&make(4 * n)));
        let ratio = four_times / once;
        worst = worst.max(ratio);
        let _ = writeln!(
            report,
            "{name}: {n} {:.1} ms, {} {:.1} ms: {ratio:.1}",
            once / 1e6,
            4 * n,
            four_times / 1e6
        );
    }
    println!("{report}");
    assert!(worst < RATIO_MAX, "{report}");
}

#[test]
fn long_chains_are_taken_and_longer_ones_refused_with_a_reason() {
    for (text, n) in [(else_ifs(10_000), 10_000), (sum(10_000), 10_000)] {
        let output = compiled(&text);
        assert!(output.bmv2_json.is_some(), "{n}: {:?}", output.diagnostics);
        load(&output);
    }
    for (text, reason) in [
        (else_ifs(20_000), "`else if`s in a row"),
        (sum(70_000), "operators in a row"),
    ] {
        let output = compiled(&text);
        let messages = output.diagnostics.iter().map(|it| it.message.as_str());
        let messages: Vec<&str> = messages.collect();
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert!(messages[0].contains(reason), "{messages:?}");
    }
}

#[test]
fn programs_as_long_as_those_that_tools_write_are_taken() {
    for text in [conditions(20_000), exact_entries(100_000)] {
        let output = compiled(&text);
        assert!(output.bmv2_json.is_some(), "{:?}", output.diagnostics);
        load(&output);
    }
}

#[test]
fn a_struct_of_very_many_fields_is_refused() {
    let fields = repeated(131_072, " ", |at| format!("bit<8> f{at};"));
    let text = program("wide_t w;", "w.f0 = 1;").replace(
        "struct metadata_t",
        &format!("struct wide_t {{ {fields} }}\nstruct metadata_t"),
    );
    let output = compiled(&text);
    let error = output.diagnostics.first().expect("an error");
    assert_eq!(error.code, "E0618", "{error:?}");
    assert!(
        error.message.contains("more than 65536 fields"),
        "{error:?}"
    );
}

#[test]
fn what_the_compiler_takes_is_not_too_deep_for_the_switch() {
    let mut n_taken = 0;
    for n in [30, 60, 100, 127, 200, 255] {
        let saturating = repeated(n, " |+| ", |at| format!("(hdr.h.a ^ {at})"));
        let output = compiled(&program("", &format!("meta.x = {saturating};")));
        if output.bmv2_json.is_some() {
            n_taken += 1;
            load(&output);
        }
    }
    assert!(n_taken >= 3, "only {n_taken} were taken");
}

#[test]
fn arrays_are_bounded_in_sum_by_the_compiler_and_by_the_switch() {
    let registers =
        |n: usize| repeated(n, "\n", |at| format!("register<bit<64>>(0x1000000) r{at};"));
    let few = compiled(&program(&registers(2), "r0.write(0, 1); r1.write(0, 1);"));
    let few = few.bmv2_json.expect("256 MiB are there");
    let output = compiled(&program(&registers(200), "r0.write(0, 1);"));
    let error = output.diagnostics.first().expect("an error");
    assert_eq!(error.code, "E0618", "{error:?}");
    // Another compiler's file might contain more registers than this compiler allows.
    let mut many = few;
    let cells = many.register_arrays[0].clone();
    for at in 2..200 {
        let name = format!("r{at}");
        many.register_arrays
            .push(p4_compiler::bmv2_json::RegisterArray {
                name,
                id: at,
                ..cells.clone()
            });
    }
    let refused = Program::from_json(&many).expect_err("25 GiB are not there");
    assert!(refused.to_string().contains("MiB at most"), "{refused}");
}

#[test]
fn headers_of_another_compilers_file_are_bounded_in_sum() {
    let output = compiled(&program("", ""));
    let mut many = output.bmv2_json.expect("it compiles");
    for at in 0..3_000 {
        let of_type = many.headers[0].clone();
        many.headers.push(p4_compiler::bmv2_json::Header {
            name: format!("wide{at}"),
            id: 10_000 + at,
            header_type: "wide_t".to_owned(),
            ..of_type
        });
    }
    let has_fields = |it: &&p4_compiler::bmv2_json::HeaderType| !it.fields.is_empty();
    let mut wide = many
        .header_types
        .iter()
        .find(has_fields)
        .expect("h_t")
        .clone();
    wide.name = "wide_t".to_owned();
    wide.id = 10_000;
    wide.fields.truncate(1);
    wide.fields[0].width = p4_compiler::bmv2_json::FieldWidth::Fixed(65_536);
    many.header_types.push(wide);
    let refused = Program::from_json(&many).expect_err("24 MB for each packet are not there");
    assert!(
        refused
            .to_string()
            .contains("of each packet's memory, expected 4 MiB at most"),
        "{refused}"
    );
}
