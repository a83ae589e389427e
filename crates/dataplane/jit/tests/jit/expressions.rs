//! Compares native code with the interpreter: both run random primitives over fields of random widths.
#![expect(unsafe_code, reason = "machine code is called")]

use std::sync::{Arc, Mutex};

use dataplane::{
    Program, Switch, SwitchConfig,
    engine::{
        Engine, EngineFactory, State,
        ir::{AnyStack, FieldId, HeaderId, Int, Ir, Primitive, StackId},
    },
    interpret::{Carried, InterpreterFactory, Phv, Requests},
    limits,
};
use dataplane_jit::{
    NativeOptions,
    context::PassContext,
    layout::{Layout, Slot},
    program::NativeProgram,
};
use fastrand::Rng;
use serde_json::{Value, json};

const WIDTHS: [u32; 16] = [1, 3, 7, 8, 9, 16, 17, 31, 32, 33, 48, 63, 64, 65, 128, 200];
const REGISTER_CELLS: u32 = 5;
const ROUNDS: usize = 24;

/// Makes a program whose ingress runs one action of random primitives.
struct Maker {
    random: Rng,
    fields: Vec<(String, u32, bool)>,
}

impl Maker {
    fn new(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let fields = (0..10)
            .map(|number| {
                let bits = random.choice(WIDTHS).unwrap();
                (format!("f{number}"), bits, random.u8(0..4) == 0 && bits > 1)
            })
            .collect();
        Self { random, fields }
    }

    fn field(&mut self) -> Value {
        let header = ["m", "h", "s0", "s1", "s2"][self.random.usize(0..5)];
        let field = self.random.usize(0..self.fields.len());
        json!({"type": "field", "value": [header, self.fields[field].0]})
    }

    fn constant(&mut self) -> Value {
        let digits = self.random.usize(1..20);
        let sign = if self.random.u8(0..5) == 0 { "-" } else { "" };
        let digits: String = (0..digits)
            .map(|_| char::from_digit(self.random.u32(0..16), 16).unwrap())
            .collect();
        json!({"type": "hexstr", "value": format!("{sign}0x{digits}")})
    }

    fn small(&mut self, below: u32) -> Value {
        json!({"type": "hexstr", "value": format!("{:#x}", self.random.u32(0..below))})
    }

    fn index(&mut self) -> Value {
        if self.random.bool() {
            self.small(4)
        } else {
            self.op("&", self.fields_only(), 3)
        }
    }

    fn fields_only(&self) -> Value {
        json!({"type": "field", "value": ["m", self.fields[0].0]})
    }

    fn op(&self, op: &str, left: Value, right: u32) -> Value {
        let right = json!({"type": "hexstr", "value": format!("{right:#x}")});
        expression(json!({"op": op, "left": left, "right": right}))
    }

    fn number(&mut self, depth: u32) -> Value {
        if depth == 0 || self.random.u8(0..8) == 0 {
            return match self.random.u8(0..6) {
                0 => self.constant(),
                1 => {
                    let op = ["last_stack_index", "size_stack"][self.random.usize(0..2)];
                    expression(json!({"op": op, "left": null,
                        "right": {"type": "header_stack", "value": "s"}}))
                }
                _ => self.field(),
            };
        }
        let left = self.number(depth - 1);
        match self.random.u8(0..17) {
            kind @ 0..=7 => {
                let op = ["+", "-", "*", "&", "|", "^", "/", "%"][usize::from(kind)];
                let right = self.number(depth - 1);
                expression(json!({"op": op, "left": left, "right": right}))
            }
            8 => {
                let right = self.small(80);
                expression(json!({"op": "<<", "left": left, "right": right}))
            }
            9 => {
                let right = self.small(140);
                expression(json!({"op": ">>", "left": left, "right": right}))
            }
            10 => {
                let right = self.op("&", self.fields_only(), 127);
                let op = ["<<", ">>"][self.random.usize(0..2)];
                expression(json!({"op": op, "left": left, "right": right}))
            }
            11 => {
                let op = ["two_comp_mod", "usat_cast", "sat_cast"][self.random.usize(0..3)];
                let bits = self.random.choice(WIDTHS).unwrap();
                let right = json!({"type": "hexstr", "value": format!("{bits:#x}")});
                expression(json!({"op": op, "left": left, "right": right}))
            }
            12 => expression(json!({"op": "~", "left": null, "right": left})),
            13 => {
                let condition = self.truth(depth - 1);
                let right = self.number(depth - 1);
                expression(json!({"op": "?", "cond": condition, "left": left, "right": right}))
            }
            14 => {
                let truth = self.truth(depth - 1);
                expression(json!({"op": "b2d", "left": null, "right": truth}))
            }
            15 => {
                let bits = self.random.choice(WIDTHS).unwrap();
                let mask = format!("0x{}", "f".repeat((bits as usize).div_ceil(4)));
                expression(json!({"op": "&", "left": left,
                    "right": {"type": "hexstr", "value": mask}}))
            }
            _ => {
                let index = self.index();
                json!({"type": "expression", "value": {"op": "access_field",
                    "left": {"type": "expression", "value": {"op": "dereference_header_stack",
                        "left": {"type": "header_stack", "value": "s"}, "right": index}},
                    "right": self.random.usize(0..self.fields.len())}})
            }
        }
    }

    fn truth(&mut self, depth: u32) -> Value {
        if depth > 0 && self.random.u8(0..3) == 0 {
            let (left, right) = (self.truth(depth - 1), self.truth(depth - 1));
            let op = ["and", "or", "not"][self.random.usize(0..3)];
            let left = if op == "not" { Value::Null } else { left };
            return expression(json!({"op": op, "left": left, "right": right}));
        }
        match self.random.u8(0..8) {
            0 => {
                let header = ["h", "s1"][self.random.usize(0..2)];
                expression(json!({"op": "valid", "left": null,
                    "right": {"type": "header", "value": header}}))
            }
            1 => {
                let number = self.number(depth);
                expression(json!({"op": "d2b", "left": null, "right": number}))
            }
            2 => expression(json!({"op": "==",
                "left": {"type": "header", "value": "h"},
                "right": {"type": "header", "value": "s0"}})),
            _ => {
                let op = ["==", "!=", "<", "<=", ">", ">="][self.random.usize(0..6)];
                let (left, right) = (self.number(depth), self.number(depth));
                expression(json!({"op": op, "left": left, "right": right}))
            }
        }
    }

    fn primitive(&mut self) -> Value {
        let prim = |op: &str, parameters: Vec<Value>| json!({"op": op, "parameters": parameters});
        let header = |name: &str| json!({"type": "header", "value": name});
        let names = ["h", "s0", "s1", "s2"];
        let one = header(names[self.random.usize(0..4)]);
        let other = header(names[self.random.usize(0..4)]);
        let register = json!({"type": "register_array", "value": "r"});
        match self.random.u8(0..14) {
            0 => prim("add_header", vec![one]),
            1 => prim("remove_header", vec![one]),
            2 => prim("assign_header", vec![one, other]),
            3 => {
                let (to, index) = (self.field(), self.number(1));
                prim("register_read", vec![to, register, index])
            }
            4 => {
                let (index, value) = (self.index(), self.number(2));
                prim("register_write", vec![register, index, value])
            }
            5 => {
                let op = ["push", "pop"][self.random.usize(0..2)];
                let stack = json!({"type": "header_stack", "value": "s"});
                prim(op, vec![stack, self.small(4)])
            }
            6 => {
                let index = self.index();
                let counter = json!({"type": "counter_array", "value": "c"});
                prim("count", vec![counter, index])
            }
            7 => {
                let number = self.number(1);
                prim("truncate", vec![number])
            }
            _ => {
                let (to, from) = (self.field(), self.number(3));
                prim("assign", vec![to, from])
            }
        }
    }

    fn program(&mut self, n: usize) -> Program {
        let primitives: Vec<Value> = (0..n).map(|_| self.primitive()).collect();
        let mut fields: Vec<Value> = self
            .fields
            .iter()
            .map(|(name, bits, signed)| json!([name, bits, signed]))
            .collect();
        // A header must have a whole number of bytes.
        let total: u32 = self.fields.iter().map(|(_, bits, _)| bits).sum();
        if !total.is_multiple_of(8) {
            fields.push(json!(["pad", 8 - total % 8, false]));
        }
        let metadata: Vec<Value> = [
            ("ingress_port", 9),
            ("egress_spec", 9),
            ("egress_port", 9),
            ("instance_type", 32),
            ("packet_length", 32),
        ]
        .iter()
        .map(|(name, bits)| json!([name, bits, false]))
        .collect();
        let header = |name: &str, id: u32, kind: &str, metadata: bool| json!({"name": name, "id": id, "header_type": kind, "metadata": metadata});
        let json = json!({
            "header_types": [
                {"name": "t", "id": 0, "fields": fields},
                // Metadata has a type of its own, so that headers' fields may stay packed (as they are on the wire).
                {"name": "u", "id": 2, "fields": fields},
                {"name": "standard_metadata_t", "id": 1, "fields": metadata}],
            "headers": [
                header("h", 0, "t", false), header("s0", 1, "t", false),
                header("s1", 2, "t", false), header("s2", 3, "t", false),
                header("m", 4, "u", true),
                header("standard_metadata", 5, "standard_metadata_t", true)],
            "header_stacks": [{"name": "s", "id": 0, "size": 3, "header_type": "t",
                "header_ids": [1, 2, 3]}],
            "field_lists": [],
            "errors": [["NoError", 0], ["PacketTooShort", 1], ["NoMatch", 2],
                ["StackOutOfBounds", 3], ["HeaderTooShort", 4], ["ParserTimeout", 5],
                ["ParserInvalidArgument", 6]],
            "parsers": [{"name": "parser", "id": 0, "init_state": "start", "parse_states": [
                {"name": "start", "id": 0, "parser_ops": [], "transition_key": [],
                    "transitions": [{"type": "default", "value": null, "mask": null,
                        "next_state": null}]}]}],
            "deparsers": [{"name": "deparser", "id": 0, "order": ["h", "s0", "s1", "s2"]}],
            "calculations": [], "checksums": [], "learn_lists": [],
            "actions": [{"name": "a", "id": 1, "runtime_data": [], "primitives": primitives}],
            "register_arrays": [{"name": "r", "id": 0, "size": REGISTER_CELLS,
                "bitwidth": self.random.u32(1..65)}],
            "counter_arrays": [{"name": "c", "id": 0, "size": 3, "is_direct": false}],
            "meter_arrays": [],
            "pipelines": [
                {"name": "ingress", "id": 0, "init_table": "call", "tables": [],
                    "action_profiles": [], "conditionals": [], "action_calls": [
                    {"name": "call", "id": 9, "action_id": 1, "next_node": null}]},
                {"name": "egress", "id": 1, "init_table": null, "tables": [],
                    "action_profiles": [], "conditionals": [], "action_calls": []}],
            "__meta__": {"version": [2, 23]},
        });
        Program::from_json_str(&json.to_string()).unwrap_or_else(|error| panic!("{error}\n{json}"))
    }
}

fn expression(value: Value) -> Value {
    json!({"type": "expression", "value": value})
}

fn words(value: &Int, n: usize) -> Vec<u64> {
    let word = |it: usize| {
        let shifted: Int = value.clone() >> (64 * it);
        u64::try_from(&(shifted & Int::from(u64::MAX))).unwrap()
    };
    (0..n).map(word).collect()
}

fn random_value(random: &mut Rng, bits: u32) -> Int {
    let mut value = Int::ZERO;
    match random.u8(0..4) {
        0 => return Int::from(random.u8(0..3)),
        1 => return Int::ZERO - Int::ONE,
        _ => {}
    }
    for _ in 0..bits.div_ceil(64) {
        value = (value << 64usize) | Int::from(random.u64(..));
    }
    value
}

fn headers(ir: &Ir) -> impl Iterator<Item = HeaderId> {
    (0..u32::try_from(ir.headers.len()).unwrap()).map(HeaderId)
}

fn fields(ir: &Ir) -> impl Iterator<Item = FieldId> {
    (0..u32::try_from(ir.fields.len()).unwrap()).map(FieldId)
}

/// Each bit of a field, from the lowest on, and its place in the block (header vector), counted
/// from the lowest bit of the first byte. A field in words of its own also has the bits that extend
/// it to whole words.
fn bits_of(slot: Slot) -> impl Iterator<Item = (usize, usize)> {
    let n_bits = match slot.packed {
        Some(_) => slot.bits,
        None => slot.words * 64,
    };
    (0..n_bits as usize).map(move |bit| {
        let first = slot.offset as usize * 8;
        let Some(start) = slot.packed else {
            return (bit, first + bit);
        };
        // On the wire the highest bit of a byte comes first.
        let on_the_wire = (start + slot.bits) as usize - 1 - bit;
        (bit, first + on_the_wire / 8 * 8 + 7 - on_the_wire % 8)
    })
}

/// The words of a field in a block.
fn words_in(layout: &Layout, block: &[u64], field: FieldId) -> Vec<u64> {
    let slot = layout.field(field);
    let mut words = vec![0; slot.words as usize];
    for (at, place) in bits_of(slot) {
        words[at / 64] |= (block[place / 64] >> (place % 64) & 1) << (at % 64);
    }
    words
}

/// The interpreter's header vector as a block of the native engine ([`Layout`]).
fn to_block(ir: &Ir, layout: &Layout, phv: &Phv) -> Vec<u64> {
    let mut bytes = layout.blank().to_vec();
    for header in headers(ir) {
        bytes[layout.valid(header) as usize] = u8::from(phv.is_valid(header));
    }
    for field in fields(ir) {
        let slot = layout.field(field);
        let parts = words(phv.get(field), slot.words as usize);
        for (at, place) in bits_of(slot) {
            let bit = parts[at / 64] >> (at % 64) & 1;
            bytes[place / 8] |= u8::from(bit == 1) << (place % 8);
        }
    }
    let stack = AnyStack::Headers(StackId(0));
    let next = u32::try_from(phv.next_index(stack)).unwrap();
    let at = layout.next_index(stack) as usize;
    bytes[at..at + 4].copy_from_slice(&next.to_ne_bytes());
    bytes
        .chunks_exact(8)
        .map(|word| u64::from_ne_bytes(word.try_into().unwrap()))
        .collect()
}

/// Everything besides the block that a run of the ingress may have changed.
#[derive(Debug, PartialEq)]
struct Outside {
    registers: Vec<Option<Int>>,
    counters: Vec<(u64, u64)>,
    packet_length: i64,
    truncate_bytes: Option<usize>,
}

fn outside(state: &mut State, packet_length: i64, truncate_bytes: Option<usize>) -> Outside {
    let program = state.program().clone();
    let register = program.register("r").unwrap();
    let counter = program.counter("c").unwrap();
    let cells = state.counter_cells(counter).iter();
    let counters = cells.map(|cell| (cell.packets, cell.bytes)).collect();
    let cells = 0..REGISTER_CELLS as usize;
    let registers = cells.map(|index| state.register(register, index)).collect();
    Outside {
        registers,
        counters,
        packet_length,
        // A length that no frame exceeds truncates nothing.
        truncate_bytes: truncate_bytes.filter(|len| *len <= limits::FRAME_BYTES_MAX),
    }
}

fn prepare(state: &mut State, seed: u64) {
    let mut random = Rng::with_seed(seed);
    let program = state.program().clone();
    let register = program.register("r").unwrap();
    for index in 0..REGISTER_CELLS as usize {
        state.set_register(register, index, Int::from(random.u64(..)));
    }
    for cell in state.counter_cells(program.counter("c").unwrap()) {
        (cell.packets, cell.bytes) = (1, 2);
    }
}

/// How many primitives were run, and how many constructs in them the interpreter ran for the native engine.
#[derive(Default)]
struct Tally {
    primitives: usize,
    interpreted: usize,
}

fn compare(state: &mut State, seed: u64, options: NativeOptions) -> Tally {
    let mut random = Rng::with_seed(seed);
    let program = state.program().clone();
    let ir = program.ir();
    let mut native = NativeProgram::compile(state, options).unwrap();
    let layout = native.layout().clone();
    for round in 0..ROUNDS {
        let mut phv = Phv::new(ir);
        for header in headers(ir) {
            if !ir.headers[header.index()].metadata {
                phv.put_validity(header, random.bool());
            }
        }
        for field in fields(ir) {
            let value = random_value(&mut random, ir.fields[field.index()].bits);
            phv.set(ir, field, value);
        }
        phv.set_next_index(AnyStack::Headers(StackId(0)), random.usize(0..4));
        let mut block = to_block(ir, &layout, &phv);
        let (before, cells) = (phv.clone(), random.u64(..));

        prepare(state, cells);
        let (mut requests, mut packet_length) = (Requests::default(), 1_000);
        let mut pass = state.pass(Carried {
            phv: &mut phv,
            payload: &[],
            requests: &mut requests,
            packet_length: &mut packet_length,
            ingress_bytes: 77,
            args: Arc::default(),
        });
        for primitive in &ir.actions[0].primitives {
            pass.primitive(primitive);
        }
        let expected = outside(state, packet_length, requests.truncate_bytes);

        prepare(state, cells);
        let mut context = PassContext {
            packet_length: 1_000,
            ingress_bytes: 77,
            ..PassContext::EMPTY
        };
        // SAFETY: an empty context leads to no bytes and says so.
        unsafe { native.ingress(&mut context, state, &mut block) };
        let truncation = context.requests.truncation();
        let found = outside(state, context.packet_length, truncation);
        assert_eq!(found, expected, "seed {seed}, round {round}");
        let wanted = to_block(ir, &layout, &phv);
        if block != wanted {
            explain(ir, &layout, &before, &block, &wanted, (seed, round));
        }
    }
    Tally {
        primitives: ir.actions[0].primitives.len(),
        interpreted: native.explain().len(),
    }
}

fn explain(
    ir: &Ir,
    layout: &Layout,
    before: &Phv,
    found: &[u64],
    wanted: &[u64],
    (seed, round): (u64, usize),
) -> ! {
    for field in fields(ir) {
        let slot = layout.field(field);
        let [found, wanted] = [found, wanted].map(|block| words_in(layout, block, field));
        if found != wanted {
            println!(
                "{}: {} bits, signed {}, before {}: found {:x?}, wanted {:x?}",
                ir.fields[field.index()].name,
                slot.bits,
                slot.signed,
                before.get(field),
                found,
                wanted,
            );
        }
    }
    for field in fields(ir) {
        println!("{} = {}", ir.fields[field.index()].name, before.get(field));
    }
    for (position, primitive) in ir.actions[0].primitives.iter().enumerate() {
        if !matches!(primitive, Primitive::NoOp) {
            println!("{position}: {primitive:?}");
        }
    }
    panic!("seed {seed}, round {round}: native code and interpreter differ");
}

/// Runs the test when a switch loads a program, with the state that the switch has made for it.
struct Probe {
    seed: u64,
    options: NativeOptions,
    tally: Arc<Mutex<Tally>>,
}

impl EngineFactory for Probe {
    fn name(&self) -> &'static str {
        "probe"
    }

    fn load(&self, state: &mut State) -> Box<dyn Engine> {
        let tally = compare(state, self.seed, self.options);
        let mut total = self.tally.lock().unwrap();
        total.primitives += tally.primitives;
        total.interpreted += tally.interpreted;
        InterpreterFactory.load(state)
    }
}

fn run(seeds: std::ops::Range<u64>, options: NativeOptions) -> Tally {
    let tally = Arc::new(Mutex::new(Tally::default()));
    for seed in seeds {
        let program = Maker::new(seed).program(12);
        let probe = Probe {
            seed,
            options,
            tally: Arc::clone(&tally),
        };
        let mut switch = Switch::with_engine(SwitchConfig::default(), Box::new(probe));
        switch.set_program(program);
    }
    let mut total = tally.lock().unwrap();
    std::mem::take(&mut *total)
}

#[test]
fn random_primitives_do_what_the_interpreter_does() {
    for (seeds, options) in [
        (0..250, NativeOptions::ALL),
        (250..350, NativeOptions::NAIVE),
    ] {
        let tally = run(seeds, options);
        println!(
            "{} primitives, {} interpreted",
            tally.primitives, tally.interpreted
        );
        assert!(
            tally.interpreted * 2 < tally.primitives,
            "most primitives have native code"
        );
    }
}
