//! Compares the code generated for small programs with the golden files beside the programs (`testdata/clif`). Each
//! program shows one feature. The golden files contain Cranelift's IR as the native engine writes it.
//!
//! `UPDATE_EXPECT=1 cargo test -p dataplane-jit --test jit listing` rewrites the golden files. The difference shows
//! what a change of an optimisation does. Read the difference before you commit it.

use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex},
};

use crate::support::{load, programs};
use dataplane::{
    Switch, SwitchConfig,
    engine::{Engine, EngineFactory, State},
    interpret::InterpreterFactory,
};
use dataplane_jit::{NativeOptions, program::NativeProgram};

/// For each program, the functions that show its feature.
const SHOWN: [(&str, &[&str]); 10] = [
    ("checksum_update", &["deparse"]),
    ("clone", &["arrive_again", "reparse", "clone"]),
    ("exact_table", &["ingress", "arrive"]),
    ("header_add_remove", &["ingress", "depart"]),
    ("lanes", &["ingress"]),
    ("lpm_table", &["parse", "ingress"]),
    ("register", &["ingress"]),
    ("select_parser", &["parse"]),
    ("ternary_table", &["ingress"]),
    ("varbit", &["parse", "deparse"]),
];

type Functions = Vec<(String, String)>;

/// Makes the listing of a program when a switch loads it, with the state that the switch has made.
struct Lister(NativeOptions, Arc<Mutex<Functions>>);

impl EngineFactory for Lister {
    fn name(&self) -> &'static str {
        "lister"
    }

    fn load(&self, state: &mut State) -> Box<dyn Engine> {
        *self.1.lock().unwrap() = NativeProgram::listing(state, self.0).unwrap();
        InterpreterFactory.load(state)
    }
}

fn listing(path: &Path) -> Functions {
    let program = load(path).unwrap_or_else(|| panic!("{} does not compile", path.display()));
    // Only this program shows a flow cache in front of a table.
    let has_cache = path.ends_with("ternary_table.p4");
    let options = NativeOptions {
        microflow_cache: has_cache,
        megaflow_cache: has_cache,
        ..NativeOptions::ALL
    };
    let functions = Arc::default();
    let lister = Box::new(Lister(options, Arc::clone(&functions)));
    Switch::with_engine(SwitchConfig::default(), lister).set_program(program);
    std::mem::take(&mut *functions.lock().unwrap())
}

#[test]
fn programs_become_their_golden_listings() {
    let paths = programs("testdata/clif");
    let stems = paths
        .iter()
        .map(|path| path.file_stem().unwrap().to_str().unwrap());
    assert!(stems.eq(SHOWN.map(|(stem, _)| stem)), "{paths:?}");
    for (path, (_, shown)) in paths.iter().zip(SHOWN) {
        let functions = listing(path);
        let text: Vec<&str> = shown
            .iter()
            .map(|name| {
                let function = functions.iter().find(|(other, _)| other == name);
                &*function.unwrap_or_else(|| panic!("no \"{name}\"")).1
            })
            .collect();
        let (text, golden) = (text.join("\n"), path.with_extension("clif"));
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(golden, text).unwrap();
        } else {
            let wanted = fs::read_to_string(&golden).unwrap_or_default();
            let place = golden.display();
            assert!(
                wanted == text,
                "{place} differs (UPDATE_EXPECT=1 writes it); it is:\n{text}"
            );
        }
    }
}

#[test]
fn a_listing_is_the_same_each_time() {
    // Two programs that are compiled at the same time have different addresses in their code.
    let path = &programs("testdata/clif")[0];
    let (first, second) = std::thread::scope(|scope| {
        let other = scope.spawn(|| listing(path));
        (listing(path), other.join().unwrap())
    });
    assert_eq!(first, second);
}
