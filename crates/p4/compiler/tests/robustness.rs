//! Checks with truncated, mutated and deeply nested sources that no input makes the compiler panic or run without end.

#![expect(clippy::unwrap_used, reason = "a test says what failed by panicking")]

use std::fs;

use p4_compiler::{Options, compile, limits};

const SEED: u64 = 0x5eed_2026;
const MUTATIONS_PER_PROGRAM: usize = 12;

/// An xorshift64 generator, which gives the same numbers in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }
}

fn folder() -> std::path::PathBuf {
    testkit::repository::root().join("testdata/compiler")
}

fn sources() -> Vec<String> {
    let mut paths: Vec<_> = ["ok", "err"]
        .iter()
        .flat_map(|kind| fs::read_dir(folder().join(kind)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "p4"))
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|path| fs::read_to_string(path).unwrap())
        .collect()
}

/// Compiles and ignores the result.
fn survives(text: &str) -> bool {
    let prelude = fs::read_to_string(folder().join("prelude.p4")).ok();
    let load = |path: &str| {
        if path.ends_with("prelude.p4") {
            prelude.clone()
        } else {
            None
        }
    };
    compile("test/test.p4", text, &load, &Options::default())
        .bmv2_json
        .is_some()
}

/// A program with the given headers and ingress.
fn one_header_program(headers: &str, ingress: &str) -> String {
    format!(
        "#include <core.p4>
        #include <v1model.p4>
        header h_t {{ bit<8> value; }}
        struct headers_t {{ {headers} }}
        struct metadata_t {{ }}
        bit<8> same(in bit<8> value) {{ return value; }}
        parser P(packet_in packet, out headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {{
            state start {{ packet.extract(hdr.h); transition accept; }}
        }}
        control C(inout headers_t hdr, inout metadata_t meta) {{ apply {{ }} }}
        control I(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {{
            apply {{ {ingress} }}
        }}
        control D(packet_out packet, in headers_t hdr) {{ apply {{ packet.emit(hdr.h); }} }}
        V1Switch(P(), C(), I(), I(), C(), D()) main;"
    )
}

fn error_codes(text: &str) -> Vec<String> {
    let errors = compile("program.p4", text, &|_: &str| None, &Options::default()).diagnostics;
    let errors = errors.into_iter();
    let errors = errors.filter(|it| it.severity == p4_compiler::Severity::Error);
    errors.map(|error| error.code.to_string()).collect()
}

#[test]
fn truncated_sources_do_not_panic() {
    let mut random = Random(SEED);
    for text in sources() {
        for _ in 0..MUTATIONS_PER_PROGRAM {
            let end = random.below(text.len());
            if let Some(part) = text.get(..end) {
                survives(part);
            }
        }
    }
}

#[test]
fn mutated_sources_do_not_panic() {
    let pieces = [
        "{",
        "}",
        "(",
        ")",
        ";",
        "<",
        ">",
        "=",
        "+",
        "0",
        "8w1",
        "hdr",
        "apply",
        "table",
        "1 << 99999",
        "@",
        "#",
        "\"",
        "exit;",
        "error",
        "[0]",
        ".next",
        "-1",
    ];
    let mut random = Random(SEED);
    let (mut whole, mut tried) = (0, 0);
    for text in sources() {
        let words: Vec<&str> = text.split_inclusive(' ').collect();
        for _ in 0..MUTATIONS_PER_PROGRAM {
            let mut mutated: Vec<&str> = words.clone();
            for _ in 0..=random.below(2) {
                if mutated.is_empty() {
                    break;
                }
                let at = random.below(mutated.len());
                match random.below(3) {
                    0 => drop(mutated.remove(at)),
                    1 => mutated.insert(at, pieces[random.below(pieces.len())]),
                    _ => {
                        let other = random.below(mutated.len());
                        mutated.swap(at, other);
                    }
                }
            }
            tried += 1;
            whole += usize::from(survives(&mutated.concat()));
        }
    }
    println!("{whole} of {tried} mutated programs still compiled (seed {SEED:#x})");
}

#[test]
fn what_is_nested_too_deep_is_one_error() {
    let deep = limits::NESTING + 1;
    let parentheses = format!("{}1{}", "(".repeat(deep), ")".repeat(deep));
    for body in [
        format!("hdr.h.value = {parentheses};"),
        format!("if (hdr.h.value == {parentheses}) {{ }}"),
        format!("{}{}", "{".repeat(deep), "}".repeat(deep)),
    ] {
        assert_eq!(error_codes(&one_header_program("h_t h;", &body)), ["E0204"]);
    }
}

/// The stack that nested blocks need and the stack that a deep expression inside the blocks needs add up. (A public
/// generated program has blocks nested 50 deep.)
#[test]
fn what_the_limits_allow_fits_a_stack_of_four_mebibytes() {
    // A statement in a block counts as two levels of nesting, and so does a `?:` in parentheses.
    let (calls, blocks) = (limits::NESTING - 8, limits::NESTING / 2 - 8);
    let operators = usize::from(limits::EXPRESSION_HEIGHT) - 8;
    let value = "hdr.h.value";
    let chain = format!(
        "{value} = {}{value};",
        format!("{value} + ").repeat(operators)
    );
    let nest = |open: &str, times: usize, inner: &str, close: &str| {
        format!("{}{inner}{}", open.repeat(times), close.repeat(times))
    };
    let counting = "for (bit<8> i = 0; i < hdr.h.value; i = i + 1) {";
    let choice = format!("({value} == 1 ? 2 : ");
    let bodies = [
        nest("switch (hdr.h.value) { 1: {", blocks, &chain, "} }"),
        nest("if (hdr.h.value == 3) {", blocks, &chain, "}"),
        nest(counting, 40, "", "}"),
        format!("{value} = {};", nest("(", calls, value, ")")),
        format!("{value} = {};", nest("same(", calls, value, ")")),
        format!("{value} = {};", nest(&choice, blocks, value, ")")),
    ];
    for body in bodies {
        let text = one_header_program("h_t h;", &body);
        let work = move || error_codes(&text);
        let thread = std::thread::Builder::new().stack_size(4 << 20);
        let codes = thread.spawn(work).unwrap().join().unwrap();
        assert!(codes.is_empty(), "{codes:?}");
    }
}

/// The limit is the size of a header stack in a public program, an attack detector.
#[test]
fn a_stack_of_thousands_of_headers_is_taken_and_one_beyond_the_limit_is_named() {
    let codes = |size: u32| {
        let text = one_header_program(&format!("h_t[{size}] h;"), "hdr.h.push_front(1);");
        error_codes(&text.replace("extract(hdr.h)", "extract(hdr.h.next)"))
    };
    assert!(codes(8_192).is_empty(), "{:?}", codes(8_192));
    assert_eq!(codes(8_193)[..1], ["E0503"]);
}

#[test]
fn deep_nesting_is_an_error_not_a_crash() {
    let deep = 100_000;
    let shapes = [
        format!("const int x = {}1{};", "(".repeat(deep), ")".repeat(deep)),
        format!("const int x = {}1;", "-".repeat(deep)),
        format!("const int x = {}1;", "1 + ".repeat(deep)),
        format!("const bool x = {}true;", "true ? true : ".repeat(deep)),
        format!("control c() {{ apply {{ {} }} }}", "{".repeat(deep)),
        format!(
            "control c() {{ apply {{ {} }} }}",
            "if (true) ".repeat(deep)
        ),
        format!(
            "control c() {{ apply {{ {} }} }}",
            "if (true) { } else ".repeat(deep)
        ),
        format!("{}bit<8>{} x;", "tuple<".repeat(deep), ">".repeat(deep)),
        format!("const bit<8> x = a{};", ".b".repeat(deep)),
        format!("const bit<8> x = {}1;", "(bit<8>) ".repeat(deep)),
        format!("#define A A A\n#define B {}\nB", "A ".repeat(deep)),
        format!("#if {}1\n#endif", "(".repeat(deep)),
    ];
    for shape in shapes {
        assert!(!survives(&shape));
    }
}
