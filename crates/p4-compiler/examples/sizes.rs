//! How large the JSON is that p4c, this compiler without and this compiler with optimisation make
//! of the same programs, as a table of totals.
//!
//! `cargo run --release -p p4-compiler --example sizes -- SAMPLES P4C [-I DIR]...`: P4C is a folder
//! with the NAME.json that p4c made of SAMPLES/NAME.p4. Programs that do not compile are counted
//! apart.

use std::fs;
use std::path::{Path, PathBuf};

use p4_compiler::bmv2_json::{Pipeline, Program};
use p4_compiler::{Options, compile};
use serde_json::Value;

const ROWS: [&str; 8] = [
    "parser states",
    "parser operations",
    "tables, each a lookup",
    "direct action calls",
    "branches",
    "primitives",
    "operations in expressions",
    "fields",
];

type Sizes = [usize; ROWS.len()];

/// Operations in a part of the JSON, however deep.
fn operations(value: &Value) -> usize {
    match value {
        Value::Object(members) => {
            let has = |name| members.contains_key(name);
            let own = usize::from(has("op") && (has("left") || has("right")));
            own + members.values().map(operations).sum::<usize>()
        }
        Value::Array(items) => items.iter().map(operations).sum(),
        _ => 0,
    }
}

fn in_pipelines(program: &Program, count: fn(&Pipeline) -> usize) -> usize {
    program.pipelines.iter().map(count).sum()
}

fn sizes(program: &Program) -> serde_json::Result<Sizes> {
    let states = || program.parsers.iter().flat_map(|it| &it.parse_states);
    let conditions: Vec<_> = program
        .pipelines
        .iter()
        .flat_map(|pipeline| &pipeline.conditionals)
        .map(|conditional| &conditional.expression)
        .collect();
    let bodies: Vec<_> = program.actions.iter().map(|it| &it.primitives).collect();
    let code = serde_json::to_value((&program.parsers, conditions, &bodies))?;
    let n_fields = |header: &p4_compiler::bmv2_json::Header| {
        let mut types = program.header_types.iter();
        let own = types.find(|it| it.name == header.header_type);
        own.map_or(0, |it| it.fields.len())
    };
    Ok([
        states().count(),
        states().map(|state| state.parser_ops.len()).sum(),
        in_pipelines(program, |it| it.tables.len()),
        in_pipelines(program, |it| it.action_calls.len()),
        in_pipelines(program, |it| it.conditionals.len()),
        bodies.iter().map(|body| body.len()).sum(),
        operations(&code),
        program.headers.iter().map(n_fields).sum(),
    ])
}

fn compiled(path: &Path, options: &Options) -> Option<Sizes> {
    let text = fs::read_to_string(path).ok()?;
    let load = |path: &str| fs::read_to_string(path).ok();
    let output = compile(&path.display().to_string(), &text, &load, options);
    sizes(&output.bmv2_json?).ok()
}

fn p4c(path: &Path) -> Option<Sizes> {
    let program = serde_json::from_str(&fs::read_to_string(path).ok()?).ok()?;
    sizes(&program).ok()
}

fn main() {
    let mut optimised = Options::default();
    let mut folders = Vec::new();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        if word == "-I" {
            optimised.include_dirs.extend(words.next());
        } else {
            folders.push(PathBuf::from(word));
        }
    }
    let [samples, jsons] = folders.as_slice() else {
        eprintln!("usage: sizes SAMPLES P4C [-I DIR]...");
        std::process::exit(2);
    };
    let plain = Options {
        optimise: false,
        ..optimised.clone()
    };
    let mut totals = [[0; ROWS.len()]; 3];
    let (mut n_programs, mut n_missing) = (0, 0);
    for json in fs::read_dir(jsons).into_iter().flatten().flatten() {
        let json = json.path();
        if json.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let name = json.with_extension("p4");
        let source = samples.join(name.file_name().unwrap_or_default());
        let three = (
            p4c(&json),
            compiled(&source, &plain),
            compiled(&source, &optimised),
        );
        let (Some(theirs), Some(plain), Some(optimised)) = three else {
            println!("left out: {}", json.display());
            n_missing += 1;
            continue;
        };
        n_programs += 1;
        for (total, sizes) in totals.iter_mut().zip([theirs, plain, optimised]) {
            total.iter_mut().zip(sizes).for_each(|(sum, n)| *sum += n);
        }
    }
    println!("{n_programs} programs, {n_missing} left out");
    println!("| | p4c | `-O 0` | `-O 1` |\n|---|---|---|---|");
    for (row, name) in ROWS.iter().enumerate() {
        let [theirs, plain, optimised] = totals.map(|total| total[row]);
        println!("| {name} | {theirs} | {plain} | {optimised} |");
    }
}
