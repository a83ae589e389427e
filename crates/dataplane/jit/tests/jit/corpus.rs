//! Checks the P4 programs of this repository: each must compile to native code, and the programs in `p4` must leave
//! nothing to the interpreter.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use crate::support::{load, programs};
use dataplane::{
    Program, Switch, SwitchConfig,
    engine::{Engine, EngineFactory, Interpreted, State},
    interpret::InterpreterFactory,
};
use dataplane_jit::{NativeFactory, NativeOptions, program::NativeProgram};

/// Compiles the program when a switch loads it, with the state that the switch has made. Records which constructs are
/// interpreted.
struct Probe(Arc<Mutex<Vec<Interpreted>>>);

impl EngineFactory for Probe {
    fn name(&self) -> &'static str {
        "probe"
    }

    fn load(&self, state: &mut State) -> Box<dyn Engine> {
        let native = NativeProgram::compile(state, NativeOptions::ALL).unwrap();
        self.0.lock().unwrap().extend_from_slice(native.explain());
        InterpreterFactory.load(state)
    }
}

fn interpreted(program: Program) -> Vec<Interpreted> {
    let found = Arc::new(Mutex::new(Vec::new()));
    let probe = Box::new(Probe(Arc::clone(&found)));
    Switch::with_engine(SwitchConfig::default(), probe).set_program(program);
    let mut found = found.lock().unwrap();
    std::mem::take(&mut *found)
}

#[test]
fn every_program_has_native_code_and_few_constructs_are_interpreted() {
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let mut n_programs = 0;
    for folder in ["p4", "testdata/realistic", "testdata/stf"] {
        for path in programs(folder) {
            let Some(program) = load(&path) else { continue };
            n_programs += 1;
            let left = interpreted(program);
            for Interpreted { place, reason } in &left {
                println!("{}: {place}: {reason}", path.display());
                *reasons.entry(reason.clone()).or_default() += 1;
            }
            let known = |it: &Interpreted| it.reason == "a register of more than 64 bits";
            let is_fine = match folder {
                "p4" => left.is_empty(),
                "testdata/realistic" => left.iter().all(known),
                _ => true,
            };
            assert!(is_fine, "{}: {left:?}", path.display());
        }
    }
    println!("{n_programs} programs, interpreted: {reasons:#?}");
    assert!(n_programs > 100, "found {n_programs} programs only");
}

/// Makes a native engine at each load, but returns the engine that it made at the load before. That engine belongs to
/// another switch's state.
struct Swapped(Arc<Mutex<Option<Box<dyn Engine>>>>);

impl EngineFactory for Swapped {
    fn name(&self) -> &'static str {
        "swapped"
    }

    fn load(&self, state: &mut State) -> Box<dyn Engine> {
        let own = NativeFactory {
            options: NativeOptions::ALL,
        };
        let own = own.load(state);
        let other = self.0.lock().unwrap().replace(own);
        other.unwrap_or_else(|| InterpreterFactory.load(state))
    }
}

#[test]
#[should_panic(expected = "another state than the one it was loaded for")]
fn an_engine_refuses_a_state_that_is_not_its_own() {
    let path = programs("p4").into_iter().find_map(|path| load(&path));
    let program = path.expect("a program");
    let factory = || Box::new(Swapped(Arc::default()));
    let shared = factory();
    let again = Box::new(Swapped(Arc::clone(&shared.0)));
    let mut first = Switch::with_engine(SwitchConfig::default(), shared);
    first.set_program(program.clone());
    let mut second = Switch::with_engine(SwitchConfig::default(), again);
    second.set_program(program);
    second.add_port(dataplane::PortId(1));
    second.handle_frame(0, dataplane::PortId(1), &[0; 60]);
    second.poll_transmit(0);
}
