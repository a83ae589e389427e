//! Runs one case: compiles and loads the program, starts every engine, and sends packets.

use dataplane::{
    PortId, Program, Switch, SwitchConfig, TableEntry, engine::EngineFactory,
    interpret::InterpreterFactory,
};
use dataplane_jit::{NativeFactory, NativeOptions};
use fastrand::Rng;
use p4_compiler::P4Info;

use super::{Corpus, Input};
use crate::controller;
use crate::engines::Writer;

const PACKETS: usize = 4;
/// Maximum number of frames that are taken from one program, since some programs multiply packets for a long time.
const FRAMES_OUT_MAX: usize = 2_000;
const ENTRIES_PER_TABLE: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    NotCompiled,
    NotLoaded,
    /// The loader refused the compiler's JSON, because of a limit of the switch or a bug.
    CompiledNotLoaded,
    Ran,
}

/// Runs a case. The caller must detect panics, hangs and exhausted memory.
pub fn run(corpus: &Corpus, input: &Input, seed: u64) -> Outcome {
    let (json, p4info) = match input {
        Input::Source(path, text) => match compile(corpus, path, text) {
            Some((json, p4info)) => (json, Some(p4info)),
            None => return Outcome::NotCompiled,
        },
        Input::Json(text) => (text.clone(), None),
    };
    let program = match Program::from_json_str(&json) {
        Ok(program) => program,
        Err(_) if p4info.is_some() => return Outcome::CompiledNotLoaded,
        Err(_) => return Outcome::NotLoaded,
    };
    if p4info.is_some_and(|p4info| controller::refusal(p4info, json).is_some()) {
        return Outcome::CompiledNotLoaded;
    }
    let native = NativeFactory {
        options: NativeOptions::ALL,
    };
    let engines: [Box<dyn EngineFactory>; 2] = [Box::new(InterpreterFactory), Box::new(native)];
    for engine in engines {
        packets(&program, engine, &mut Rng::with_seed(seed));
    }
    Outcome::Ran
}

/// Returns why the switch refuses the compiler's output for a source, or `None` if the switch accepts the output.
pub fn refusal(corpus: &Corpus, input: &Input) -> Option<String> {
    let Input::Source(path, text) = input else {
        return None;
    };
    let (json, p4info) = compile(corpus, path, text)?;
    match Program::from_json_str(&json) {
        Ok(_) => controller::refusal(p4info, json),
        Err(error) => Some(error.to_string()),
    }
}

/// Returns the program of a case, if the program compiles and loads.
pub fn program(corpus: &Corpus, input: &Input) -> Option<Program> {
    let json = match input {
        Input::Source(path, text) => compile(corpus, path, text)?.0,
        Input::Json(text) => text.clone(),
    };
    Program::from_json_str(&json).ok()
}

fn compile(corpus: &Corpus, path: &str, text: &str) -> Option<(String, P4Info)> {
    let provider = |path: &str| corpus.file(path);
    let options = p4_compiler::Options::default();
    let output = p4_compiler::compile(path, text, &provider, &options);
    for diagnostic in &output.diagnostics {
        std::hint::black_box(diagnostic.render());
    }
    let p4info = output.p4info?;
    std::hint::black_box(p4_compiler::p4info_text(&p4info));
    Some((output.bmv2_json?.to_json().ok()?, p4info))
}

fn packets(program: &Program, engine: Box<dyn EngineFactory>, rng: &mut Rng) {
    let mut switch = Switch::with_engine(SwitchConfig::default(), engine);
    (0..4).for_each(|port| switch.add_port(PortId(port)));
    switch.set_program(program.clone());
    let mut writer = Writer::new(program, rng);
    for (table, info) in program.tables() {
        for _ in 0..ENTRIES_PER_TABLE {
            let (key, priority) = writer.key(info);
            if let Some(call) = writer.call(info) {
                // A refused entry is not a finding.
                let _ = switch.insert_entry(table, TableEntry::new(key, priority, call));
            }
        }
    }
    let mut left = FRAMES_OUT_MAX;
    for now in 0..PACKETS as u64 {
        switch.handle_frame(now, PortId(rng.u16(..5)), &frame(rng));
        while left > 0 && switch.poll_transmit(now).is_some() {
            left -= 1;
        }
        while switch.poll_packet_in().is_some() {}
        while switch.poll_digest().is_some() {}
    }
}

/// Makes random bytes, often with values for which the corpus's parsers test.
fn frame(rng: &mut Rng) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..rng.usize(..120)).map(|_| rng.u8(..)).collect();
    let ether_types: [[u8; 2]; 3] = [[0x12, 0x34], [0x08, 0x00], [0x00, 0x01]];
    if let Some(place) = frame.get_mut(12..14)
        && rng.bool()
    {
        place.copy_from_slice(&ether_types[rng.usize(..3)]);
    }
    if let Some(version) = frame.get_mut(14)
        && rng.bool()
    {
        *version = 0x45;
    }
    frame
}
