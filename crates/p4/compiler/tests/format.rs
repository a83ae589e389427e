//! Tests the formatter: its output for small texts, and that it keeps every program's tokens.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what failed by panicking"
)]

use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use p4_compiler::{Diagnostic, Options, format, preprocess};
use testkit::repository::root;

/// Number of mutants made of each program.
const N_MUTANTS: u64 = 2;

fn formatted(path: &str, text: &str) -> Result<String, Vec<Diagnostic>> {
    let load = |path: &str| fs::read_to_string(root().join(path)).ok();
    format(path, text, &load, &Options::default())
}

/// Checks that formatting `before` gives `after`, and that formatting the result changes nothing.
fn check(before: &str, after: &str) {
    let once = formatted("test.p4", before).unwrap_or_else(|found| panic!("{before}: {found:?}"));
    assert_eq!(once, after);
    assert_eq!(formatted("test.p4", &once).unwrap(), once);
}

/// Like `check`, for a statement inside `control c() { apply { ... } }`.
fn check_statement(before: &str, after: &str) {
    let indented: String = after
        .lines()
        .map(|line| {
            if line.is_empty() {
                "\n".to_owned()
            } else {
                format!("        {line}\n")
            }
        })
        .collect();
    check(
        &format!("control c() {{ apply {{\n{before}\n}} }}"),
        &format!("control c() {{\n    apply {{\n{indented}    }}\n}}\n"),
    );
}

fn programs(folder: &Path, out: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            programs(&path, out);
        } else if path.extension().is_some_and(|extension| extension == "p4") {
            out.push(path);
        }
    }
}

fn without_whitespace(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// Calls `of_program` with every program, on all processors; returns how many were formatted and how many were refused.
/// A failure on another thread fails the test.
fn every_program(of_program: impl Fn(&str, &str) -> (usize, usize) + Sync) -> (usize, usize) {
    let mut paths = Vec::new();
    for folder in ["p4", "testdata"] {
        programs(&root().join(folder), &mut paths);
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let (mut n_formatted, mut n_refused) = (0, 0);
        while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
            let text = fs::read_to_string(path).unwrap();
            let name = path.strip_prefix(root()).unwrap().display().to_string();
            let (formatted, refused) = of_program(&name, &text);
            n_formatted += formatted;
            n_refused += refused;
        }
        (n_formatted, n_refused)
    };
    let n_threads = thread::available_parallelism().map_or(1, NonZero::get);
    let counts = thread::scope(|scope| {
        let threads: Vec<_> = (0..n_threads).map(|_| scope.spawn(work)).collect();
        let done = threads.into_iter().map(|thread| thread.join().unwrap());
        done.reduce(|one, other| (one.0 + other.0, one.1 + other.1))
    });
    counts.unwrap()
}

#[test]
fn every_program_keeps_its_tokens_and_comments_and_is_formatted_once_for_all() {
    let (n_formatted, n_refused) = every_program(|name, text| {
        let Ok(once) = formatted(name, text) else {
            assert!(
                name.contains("/err/") || name.contains("/warn/"),
                "{name} is refused"
            );
            return (0, 1);
        };
        assert_eq!(
            without_whitespace(&once),
            without_whitespace(text),
            "{name}"
        );
        let twice = formatted(name, &once).unwrap_or_else(|found| panic!("{name}: {found:?}"));
        assert_eq!(twice, once, "{name}");
        let ends_well = once.ends_with('\n') && !once.ends_with("\n\n");
        assert!(once.is_empty() || ends_well, "{name}");
        assert!(once.lines().all(|line| line == line.trim_end()), "{name}");
        (1, 0)
    });
    println!("{n_formatted} formatted, {n_refused} refused");
    assert!(
        n_formatted > 100 && n_refused > 2,
        "{n_formatted} {n_refused}"
    );
}

/// Preprocesses a text, and removes line markers and white space from the result.
fn preprocessed(path: &str, text: &str) -> String {
    let load = |path: &str| fs::read_to_string(root().join(path)).ok();
    let done = preprocess(path, text, &load, &Options::default());
    let lines = done.text.lines().filter(|line| !line.starts_with("# "));
    lines.map(without_whitespace).collect()
}

/// A xorshift generator, which gives the same mutations in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % bound
    }
}

/// Texts to insert between two characters of a program, where they may change everything after them.
const MUTATIONS: &[&str] = &[
    "\\\n",
    "\\\r\n",
    "\\  \n",
    "\n",
    "\n\n",
    "\r\n",
    "\t",
    " /* a */ ",
    "/* a\n   b */",
    "/**/",
    " // c\n",
    " // c \\\n",
    " // c \\\n\n",
    "\n#define SPARE 1 \\\n",
    "\n#define SPARE 1 \\\n\n",
    "\n#define SPARE(x) #x \\\n   + 2 // c\n",
    "\n# comment, don't \\\n",
    "\n#ifdef NEVER\n",
    "\n#else\n",
    "\n#endif\n",
    "\n#if 1 /* c\n */\n",
    "\n #  undef SPARE\n",
    "\n#define SHOW(x) #x\n",
    " SHOW(a+b) ",
    "\n#line 7\n",
    " __LINE__ ",
    "'",
    "\"",
    "(",
    ")",
    "{",
    "}",
    ";",
    ",",
    ">",
    "<",
    "@pragma x y\n",
    "@x(1 ,2)",
    " #",
    "##",
    "\n#if 0\ndon't do  this\n\tsay \"that   \n#endif\n",
    "\n#if 0\ncol1 col2   # comment { \\\n\n\n#else\n",
    "\n#ifdef NEVER\n  col1 # comment ' } ( \\\n x\n#endif\n",
    "\n#if 1\n#elif 1\n /* a */ x  = \"\n\n  #endif\n",
    "\n#if 0 /* c\n */\n#if X\n@ $ %\n#else\n {  } \n#endif\n/* d */ #endif\n",
    "\n#ifdef NEVER\nconst  bit<8> spare=1;\n#endif\n",
];

/// Texts to append to a program.
const ENDS: &[&str] = &["// eof \\", "\n#define SPARE 1 \\", "\n\\", "\\  "];

#[test]
fn mutated_programs_keep_their_tokens_and_are_formatted_once_for_all() {
    let n_mutants = std::env::var("MUTANTS").map_or(N_MUTANTS, |n| n.parse().unwrap());
    let (n_formatted, n_refused) = every_program(|name, text| {
        // A program's mutants do not depend on the other programs.
        let of_name = |seed: u64, byte: u8| seed.rotate_left(7) ^ u64::from(byte);
        let mut random = Random(name.bytes().fold(0x5eed_f0a7, of_name));
        let mut counts = (0, 0);
        for _ in 0..n_mutants {
            let mutant = mutant(text, &mut random);
            match formatted(name, &mutant) {
                Ok(once) => {
                    counts.0 += 1;
                    check_sameness(name, &mutant, &once);
                }
                Err(found) => {
                    counts.1 += 1;
                    let faults = found.iter().filter(|found| found.code == "E0121");
                    assert_eq!(faults.count(), 0, "{name}: {mutant}");
                }
            }
        }
        counts
    });
    println!("{n_formatted} mutants formatted, {n_refused} refused");
    assert!(n_formatted > 200 && n_refused > 100);
}

/// The program with one or two insertions.
fn mutant(text: &str, random: &mut Random) -> String {
    let mut mutant = text.to_owned();
    for _ in 0..=random.below(2) {
        let mut at = random.below(mutant.len() + 1);
        while !mutant.is_char_boundary(at) {
            at -= 1;
        }
        if random.below(2) == 0 {
            at = mutant[at..].find([' ', '\n']).map_or(at, |n| at + n);
        }
        mutant.insert_str(at, MUTATIONS[random.below(MUTATIONS.len())]);
    }
    if random.below(16) == 0 {
        mutant = mutant.replace('\n', "\r\n");
    }
    if random.below(16) == 0 {
        mutant.push_str(ENDS[random.below(ENDS.len())]);
    }
    mutant
}

fn check_sameness(name: &str, before: &str, once: &str) {
    // Formatting moves lines, so `__LINE__` becomes another number.
    if !before.contains("__LINE__") {
        let (was, is) = (preprocessed(name, before), preprocessed(name, once));
        let at = was.bytes().zip(is.bytes()).position(|(was, is)| was != is);
        let tail = |text: &str| text[at.unwrap_or(0)..].chars().take(40).collect::<String>();
        assert!(
            was == is,
            "{name}: {} became {}: {before}",
            tail(&was),
            tail(&is)
        );
    }
    let twice = formatted(name, once).unwrap_or_else(|found| panic!("{name}: {found:?}: {once}"));
    assert!(
        twice == *once,
        "{name}: formatted again it differs: {before}"
    );
}

#[test]
fn a_directive_that_ends_in_a_backslash_before_a_blank_line_takes_no_other_line() {
    check(
        "#define A 1 \\\n\nconst bit<8> x = A;\n",
        "#define A 1\nconst bit<8> x = A;\n",
    );
    check(
        "#define A 1 \\\n   \\  \n\t\nconst bit<8> x = A;\n",
        "#define A 1\nconst bit<8> x = A;\n",
    );
    check("#define A 1 \\\n", "#define A 1\n");
    check(
        "#define A 1 + \\\r\r\n  2\r\nconst bit<8> x = A;\n",
        "#define A 1 + \\\n  2\nconst bit<8> x = A;\n",
    );
    check(
        "// a comment \\\n\nconst bit<8> x = 1;\n",
        "// a comment\nconst bit<8> x = 1;\n",
    );
}

#[test]
fn comments_and_lines_are_joined_as_c_joins_them() {
    check(
        "const bit<8> x = 1; // a \\\n   b\nconst bit<8> y = \\\n 2;\n",
        "const bit<8> x = 1; // a \\\n   b\nconst bit<8> y = 2;\n",
    );
    check(
        "/* a */ #define A 1\nconst bit<8> x=A;\n",
        "/* a */\n#define A 1\nconst bit<8> x = A;\n",
    );
    let refused = formatted("test.p4", "const bit<8> ab\\\nc = 1;\n").unwrap_err();
    assert_eq!(
        refused[0].message,
        "a `\\` splits this token into two lines"
    );
}

#[test]
fn what_macros_make_strings_of_keeps_its_white_space() {
    check(
        "#define SHOW(x) #x\n#define TWICE(x)  SHOW(x)\n@a(SHOW( a+b )) @b(TWICE(c+d))  const bit<8> x = 1+2;\n",
        "#define SHOW(x) #x\n#define TWICE(x)  SHOW(x)\n@a(SHOW( a+b )) @b(TWICE(c+d)) const bit<8> x = 1 + 2;\n",
    );
}

#[test]
fn our_programs_are_formatted() {
    let mut paths = Vec::new();
    programs(&root().join("p4"), &mut paths);
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        assert!(
            formatted(&name, &text).unwrap() == text,
            "{name}: reprise fmt {name}"
        );
    }
}

#[test]
fn what_is_not_p4_is_refused() {
    for text in [
        "control c( {",
        "header h { bit<8> x }",
        "const int x = \"a;",
        "/* no end",
    ] {
        assert!(
            !formatted("test.p4", text).unwrap_err().is_empty(),
            "{text}"
        );
    }
}

#[test]
fn spaces_stand_around_operators_and_not_in_brackets() {
    check_statement(
        "x=a+b*-c;y  =  ( bit<8> )z [ 7 : 0 ] ++ 8w0;\nf ( x ,y ) . g ( ! a , ~b );",
        "x = a + b * -c;\ny = (bit<8>) z[7:0] ++ 8w0;\nf(x, y).g(!a, ~b);\n",
    );
    check_statement("x = a<b ? c>>2 : d<<3;", "x = a < b ? c >> 2 : d << 3;\n");
    check_statement("x >>= 2; x|+|=1;", "x >>= 2;\nx |+|= 1;\n");
    check_statement("return;exit ;", "return;\nexit;\n");
}

#[test]
fn type_arguments_are_told_from_comparisons() {
    check(
        "register < bit<32> , bit<(W+1)> >(16) r;\ntuple<bit<8>,bool> t(){return {1,true};}",
        "register<bit<32>, bit<(W + 1)>>(16) r;\ntuple<bit<8>, bool> t() { return { 1, true }; }\n",
    );
    check_statement(
        "f<bit<8>>(x); if (a < b && c > d) {}",
        "f<bit<8>>(x);\nif (a < b && c > d) { }\n",
    );
}

#[test]
fn blocks_have_a_line_for_each_statement() {
    check(
        "action a(){x=1;y=2;} action b() { x = 1; }\nparser p() { state start{transition accept;} }",
        "action a() {\n    x = 1;\n    y = 2;\n}\naction b() { x = 1; }\nparser p() {\n    state start \
         { transition accept; }\n}\n",
    );
}

#[test]
fn a_table_has_a_line_for_each_property() {
    check(
        "control c() { table t { key={h.a:exact@name(\"a\");h.b : lpm;} actions = {a;b;}\n size=16; \
         default_action=a ( ) ;\nconst entries={(1,_):a();(2&&&3,4..5):b(7);}} apply{} }",
        "control c() {\n    table t {\n        key = { h.a: exact @name(\"a\"); h.b: lpm; }\n        \
         actions = { a; b; }\n        size = 16;\n        default_action = a();\n        \
         const entries = { (1, _): a(); (2 &&& 3, 4..5): b(7); }\n    }\n    apply { }\n}\n",
    );
}

#[test]
fn cases_and_else_stand_where_they_belong() {
    check_statement(
        "switch (t.apply().action_run) { a: b: { x=1; } default : {} }\nif (a) { x=1; }\nelse if (b) \
         { x = 2;\n} else { }",
        "switch (t.apply().action_run) {\n    a:\n    b: { x = 1; }\n    default: { }\n}\nif (a) {\n    \
         x = 1;\n} else if (b) {\n    x = 2;\n} else { }\n",
    );
}

#[test]
fn a_long_list_has_a_line_for_each_element() {
    check(
        "control Ingress(inout headers_t headers, inout metadata_t metadata, inout standard_metadata_t standard) { apply { } }",
        "control Ingress(\n    inout headers_t headers,\n    inout metadata_t metadata,\n    inout \
         standard_metadata_t standard\n) {\n    apply { }\n}\n",
    );
    check(
        "V1Switch(\nP(), V()) main;",
        "V1Switch(\n    P(),\n    V()\n) main;\n",
    );
    check(
        "error{A,B}\nenum bit<8> e{X=1,Y=2}",
        "error {\n    A,\n    B\n}\nenum bit<8> e {\n    X = 1,\n    Y = 2\n}\n",
    );
}

#[test]
fn a_long_expression_is_broken_before_its_loosest_operators() {
    check_statement(
        "if (hdr.first.isValid() && hdr.second.isValid() && hdr.third.value == 17 && hdr.fourth.value != 4) { x = 1; }",
        "if (\n    hdr.first.isValid()\n    && hdr.second.isValid()\n    && hdr.third.value == 17\n    && \
         hdr.fourth.value != 4\n) {\n    x = 1;\n}\n",
    );
    check_statement(
        "value = first_long_name_of_a_value + second_long_name_of_a_value + third_long_name_of_a_value;",
        "value = first_long_name_of_a_value\n    + second_long_name_of_a_value\n    + third_long_name_of_a_value;\n",
    );
}

#[test]
fn comments_stay_where_they_are() {
    check(
        "// top\n\n\n\n/* a\n   * b */\nheader h {   // of a header\n  bit<8> x;// of x\n  // alone\n\n  bit<8> y; /* of y */\n}  // end\n// last",
        "// top\n\n/* a\n * b */\nheader h { // of a header\n    bit<8> x; // of x\n    // alone\n\n    bit<8> y; /* of y */\n} // end\n// last\n",
    );
    check_statement(
        "f(a, // first\n b /* second */);\nif (a) { x = 1; } // why\nelse { x = 2; }",
        "f(\n    a, // first\n    b /* second */\n);\nif (a) {\n    x = 1;\n} // why\nelse {\n    x = 2;\n}\n",
    );
}

#[test]
fn preprocessor_lines_stay_as_they_are() {
    check(
        "#include   <core.p4>\n  #define  F( x )   ((x)+1) \\\n     + 2\ncontrol c() {\n#ifdef A\nbit<8> x;\n  #else\nbit<9> x;\n#endif\napply{} }",
        "#include   <core.p4>\n#define  F( x )   ((x)+1) \\\n     + 2\ncontrol c() {\n#ifdef A\n    bit<8> x;\n#else\n    bit<9> x;\n#endif\n    apply { }\n}\n",
    );
}

#[test]
fn branches_that_open_brackets_are_left_as_they_are() {
    check(
        "#ifdef A\ncontrol c(in bit<8> x) {\n#else\ncontrol   c() {\n#endif\napply{}\n}",
        "#ifdef A\ncontrol c(in bit<8> x) {\n#else\ncontrol   c() {\n#endif\n    apply { }\n}\n",
    );
}

#[test]
fn an_annotation_keeps_its_line() {
    check(
        "@name(\"x\") @id(1)\nheader h { @a\nbit<8> x; @b bit<8> y; }",
        "@name(\"x\") @id(1)\nheader h {\n    @a\n    bit<8> x;\n    @b bit<8> y;\n}\n",
    );
}

#[test]
fn a_branch_that_is_never_taken_stays_byte_for_byte() {
    let skipped = "#if 0\ndon't do  this  \n\n\n\tsay \"this\n  a { \\\n b\n\n#endif\n";
    check(
        &format!("{skipped}const bit<8> y=2;\nconst bit<8>  z=2;"),
        &format!("{skipped}const bit<8> y = 2;\nconst bit<8> z = 2;\n"),
    );
    check(
        "#if 0\ncol1 col2   # comment\n#endif\nconst bit<8> y=2;",
        "#if 0\ncol1 col2   # comment\n#endif\nconst bit<8> y = 2;\n",
    );
    check(
        "control c() {\n#if 1\nbit<8>  x;\n#else\n  bit<8>   x;\n#endif\nbit<9>  y;\napply{} }",
        "control c() {\n#if 1\n    bit<8> x;\n#else\n  bit<8>   x;\n#endif\n    bit<9> y;\n    apply { }\n}\n",
    );
    check(
        "#if 0\ncontrol   c(bit<8>\n#else\ncontrol  c() {\n#endif\napply{} }",
        "#if 0\ncontrol   c(bit<8>\n#else\ncontrol c() {\n#endif\n    apply { }\n}\n",
    );
}

#[test]
fn a_branch_that_is_not_taken_is_formatted_where_it_is_p4() {
    check(
        "#ifdef X\n don't   do\n#elif defined(Y)\nconst bit<8>  x=1;\n#else\nconst bit<8>  x=2;\n#endif\nconst bit<8>  y=1;",
        "#ifdef X\n don't   do\n#elif defined(Y)\nconst bit<8> x = 1;\n#else\nconst bit<8> x = 2;\n#endif\nconst bit<8> y = 1;\n",
    );
    check(
        "#ifdef X\n#ifdef Y\n a  b\n#else\nconst bit<8>  x=2;\n#endif\n#endif\n",
        "#ifdef X\n#ifdef Y\n a  b\n#else\nconst bit<8> x = 2;\n#endif\n#endif\n",
    );
    check(
        "#ifdef X\nconst bit<8>  a\\\nb=2;\n#endif\nconst bit<8>  c=2;",
        "#ifdef X\nconst bit<8>  a\\\nb=2;\n#endif\nconst bit<8> c = 2;\n",
    );
}

#[test]
fn a_backslash_at_the_end_of_the_file_is_taken_away() {
    check(
        "const bit<8> x=1;\n// eof \\",
        "const bit<8> x = 1;\n// eof\n",
    );
    check("#define X 1 \\", "#define X 1\n");
    check("const bit<8> x=1; \\", "const bit<8> x = 1;\n");
}

#[test]
fn an_invalid_header_is_one_token() {
    check_statement(
        "h={#};x=(H){#};f({#},1);if(h=={#})y=1;",
        "h = {#};\nx = (H) {#};\nf({#}, 1);\nif (h == {#}) y = 1;\n",
    );
}
