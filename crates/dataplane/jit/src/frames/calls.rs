//! Functions that generated parsers, deparsers and calculations call to work on bytes of frames, and on headers that
//! generated code does not move itself. Every function gets the context of the current pass (a packet's way through
//! ingress or egress). A `block` parameter is the header vector ([`crate::layout`]) of the packet in this pass, or of
//! a copy of the packet.
#![expect(
    unsafe_code,
    reason = "generated code hands over pointers to the context and the packet's block"
)]

use cranelift_codegen::ir::types;
use dataplane::{
    engine::ir::{
        AnyStack, CalculationId, CalculationInput, HeaderId, Int, StackId, TransitionCase,
        UnionStackId,
    },
    interpret::{Cursor, Pass},
};

use super::sum;
use crate::{
    context::PassContext,
    fallback::Interpretable,
    packets::{pieces, point, point_to_rest, world},
    runtime::{Address, Function, World, functions, interpret},
    vector::{Vector, words_of},
    wire::{BitString, Block},
};

pub(crate) const FUNCTIONS: &[Function] = functions! {
    pull(I64, I64);
    leave_rest(I64);
    copy_words(I64, I64, I64);
    read_header(I64, I64, I64, I32);
    extract(I64, I64, I64, I64, I64, I64) -> I64;
    write_header(I64, I64, I32, I64) -> I64;
    is_member(I64, I64, I64, I64) -> I64;
    calculate(I64, I64, I32) -> I64;
    calculate_packed(I64, I32, I64, I64) -> I64;
    sum_payload(I64, I64) -> I64;
    interpret_number(I64, I64, I32, I64, I64, I64);
    interpret_operation(I64, I64, I32, I64) -> I64;
};

fn to_usize(number: u64) -> usize {
    usize::try_from(number).expect("a usize has 64 bits")
}

fn to_u32(number: u64) -> u32 {
    u32::try_from(number).expect("it was masked")
}

/// Encodes an error for generated code as a negative number: the complement of the error's number.
fn failed(code: u32) -> i64 {
    !i64::from(code)
}

/// Makes the first `end` bytes of the frame contiguous; the frame must have at least `end` bytes.
unsafe extern "C" fn pull(context: *mut PassContext, end: u64) {
    // SAFETY: called by generated code only, in a pass.
    let (context, packets, _) = unsafe { world(context) };
    packets.pool.pull(packets.current, to_usize(end));
    point(context, packets.pool.frame(packets.current));
}

/// Called at the end of the parser if the frame may be in two pieces: points the context to the bytes that the parser
/// did not consume.
unsafe extern "C" fn leave_rest(context: *mut PassContext) {
    // SAFETY: called by generated code only, in a pass.
    let (context, packets, _) = unsafe { world(context) };
    let packet = packets.pool.packet_mut(packets.current);
    packet.consumed = to_usize(context.consumed);
    point_to_rest(context, packet);
}

unsafe extern "C" fn copy_words(to: *mut u64, from: *const u64, n_words: u64) {
    // SAFETY: generated code gives places in two blocks of the layout, one of which may be the blank block.
    unsafe { std::ptr::copy_nonoverlapping(from, to, to_usize(n_words)) };
}

/// Reads a header without a varbit field from `bytes`. The frame has all bytes of the header.
unsafe extern "C" fn read_header(
    context: *mut PassContext,
    block: *mut u8,
    bytes: *const u8,
    header: u32,
) {
    // SAFETY: called by generated code only, in a pass; the block is that of the pass.
    let (world, vector) = unsafe { (World::new(context), Vector::new(block)) };
    let (header, ir) = (HeaderId(header), world.state.program().ir());
    let n_bytes = ir.headers[header.index()].fixed_bits / 8;
    // SAFETY: the generated code has checked that the frame has so many bytes in one piece.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, n_bytes as usize) };
    let layout = &world.runtime.layout;
    Block { vector, layout, ir }.read_header(header, 0, bytes);
}

/// Extracts a header that is chosen at run time. Returns the position after the header, or the complement of the
/// parser's error.
unsafe extern "C" fn extract(
    context: *mut PassContext,
    block: *mut u8,
    at: u64,
    target: u64,
    member: u64,
    variable_bits: i64,
) -> i64 {
    // SAFETY: called by generated code only, in a pass; the block is that of the pass.
    let ((context, packets, state), vector) = unsafe { (world(context), Vector::new(block)) };
    let ir = state.program().ir();
    let errors = ir.core_errors;
    let layout = &packets.layout;
    let mut block = Block { vector, layout, ir };
    let of = to_u32(target & u64::from(u32::MAX));
    let stack = match target >> 32 {
        0 => None,
        1 => Some(AnyStack::Headers(StackId(of))),
        _ => Some(AnyStack::Unions(UnionStackId(of))),
    };
    let next = stack.map_or(0, |stack| block.next_index(stack));
    let of_stack = |stack| ir.element(stack, to_u32(member), next as usize);
    let header = stack.map_or(Some(HeaderId(of)), of_stack);
    let Some(header) = header else {
        return failed(errors.stack_out_of_bounds);
    };
    let Ok(variable_bits) = u32::try_from(variable_bits) else {
        return failed(errors.parser_invalid_argument);
    };
    if !variable_bits.is_multiple_of(8) {
        return failed(errors.parser_invalid_argument);
    }
    let declared = &ir.headers[header.index()];
    let n_bytes = (u64::from(declared.fixed_bits) + u64::from(variable_bits)) / 8;
    let frame_len = context.head_len + context.payload_len;
    if frame_len - at < n_bytes {
        return failed(errors.packet_too_short);
    }
    let is_too_long = declared.max_bytes != 0 && n_bytes > u64::from(declared.max_bytes);
    if declared.variable_field.is_some() && is_too_long {
        return failed(errors.header_too_short);
    }
    let end = at + n_bytes;
    packets.pool.pull(packets.current, to_usize(end));
    point(context, packets.pool.frame(packets.current));
    let front = packets.pool.front(packets.current);
    block.read_header(header, variable_bits, &front[to_usize(at)..to_usize(end)]);
    if let Some(stack) = stack {
        block.set_next_index(stack, next + 1);
    }
    i64::try_from(end).expect("a frame is shorter than 2^63 bytes")
}

/// Writes a valid header to `out`. Returns its length.
unsafe extern "C" fn write_header(
    context: *mut PassContext,
    block: *mut u8,
    header: u32,
    out: *mut u8,
) -> u64 {
    // SAFETY: called by generated code only, in a pass; the block is that of the pass.
    let (world, vector) = unsafe { (World::new(context), Vector::new(block)) };
    let (header, ir) = (HeaderId(header), world.state.program().ir());
    let layout = &world.runtime.layout;
    let block = Block { vector, layout, ir };
    // SAFETY: the engine has made room for every header that is valid.
    let out = unsafe { std::slice::from_raw_parts_mut(out, block.header_bytes(header)) };
    block.write_header(header, out) as u64
}

/// The result of a calculation over the packet as it is now.
unsafe extern "C" fn calculate(context: *mut PassContext, block: *mut u8, calculation: u32) -> u64 {
    // SAFETY: called by generated code only, in a pass; the block is that of the pass,
    // the context's pieces are its bytes.
    let (world, vector, rest) =
        unsafe { (World::new(context), Vector::new(block), pieces(&*context)) };
    let calculation = CalculationId(calculation);
    let World { runtime, state, .. } = world;
    let ir = runtime.program.ir();
    let layout = &runtime.layout;
    let block = Block { vector, layout, ir };
    let input = &ir.calculations[calculation.index()].input;
    gather(&block, input, rest, &mut runtime.bits);
    state.calculate(calculation, runtime.bits.bytes())
}

/// The result of a calculation over bytes that generated code has packed.
unsafe extern "C" fn calculate_packed(
    context: *mut PassContext,
    calculation: u32,
    bytes: *const u8,
    len: u64,
) -> u64 {
    // SAFETY: called by generated code only, in a pass, with so many bytes on its stack.
    let (World { state, .. }, bytes) = unsafe {
        let bytes = std::slice::from_raw_parts(bytes, to_usize(len));
        (World::new(context), bytes)
    };
    state.calculate(CalculationId(calculation), bytes)
}

/// The one's complement sum of the bytes that follow the headers. With `begins_low`, the first byte is the low byte of
/// a 16-bit word.
unsafe extern "C" fn sum_payload(context: *mut PassContext, begins_low: u64) -> u64 {
    // SAFETY: called by generated code only, in a pass: the context's pieces are the bytes that the parser did not
    // consume.
    let rest = unsafe { pieces(&*context) };
    sum::of_pieces(rest, begins_low != 0).into()
}

/// Gathers the input of a calculation. Leaves out the fields of invalid headers. The payload begins on a byte boundary,
/// after everything else, whatever its position in `input`.
pub(crate) fn gather(
    block: &Block<'_>,
    input: &[CalculationInput],
    rest: [&[u8]; 2],
    bits: &mut BitString,
) {
    bits.clear();
    let mut with_payload = false;
    for part in input {
        match part {
            CalculationInput::Field(field) => {
                if block.is_valid(block.ir.fields[field.index()].header) {
                    block.push(*field, bits);
                }
            }
            CalculationInput::Header(header) => {
                if block.is_valid(*header) {
                    for field in block.ir.headers[header.index()].field_ids() {
                        block.push(field, bits);
                    }
                }
            }
            CalculationInput::Constant { value, bits: width } => {
                let words: Vec<u64> = words_of(value, width.div_ceil(64) as usize).collect();
                bits.push(&words, *width);
            }
            CalculationInput::Payload => with_payload = true,
        }
    }
    if with_payload {
        rest.iter().for_each(|piece| bits.push_bytes(piece));
    }
}

/// Whether the key of a parser state, given as the words of its parts, is in the value set of one of its transitions.
unsafe extern "C" fn is_member(
    context: *mut PassContext,
    key: *const u64,
    number: u64,
    arrow: u64,
) -> u64 {
    // SAFETY: called by generated code only, in a pass.
    let World { state, .. } = unsafe { World::new(context) };
    let parser_state = &state.program().ir().parser.states[to_usize(number)];
    let n_words: u32 = parser_state
        .key
        .iter()
        .map(|part| part.bits().div_ceil(64))
        .sum();
    // SAFETY: the generated code has written so many words.
    let key = unsafe { std::slice::from_raw_parts(key, n_words as usize) };
    let TransitionCase::ValueSet { set, mask } = &parser_state.transitions[to_usize(arrow)].case
    else {
        return 0;
    };
    let mut words = key.iter();
    let mut whole = Int::ZERO;
    for part in &parser_state.key {
        let n_words = part.bits().div_ceil(64) as usize;
        let number = words
            .by_ref()
            .take(n_words)
            .enumerate()
            .fold(Int::ZERO, |number, (n, word)| {
                number | Int::from(*word) << (64 * n)
            });
        whole = whole << part.bits() as usize | number;
    }
    let found = state.value_set(*set).any(|(value, of_member)| match mask {
        Some(mask) => &whole & of_member & mask == value & mask,
        None => &whole & of_member == *value,
    });
    u64::from(found)
}

/// Computes a numeric expression that has no native code, and writes the low words of the result to `out`.
unsafe extern "C" fn interpret_number(
    context: *mut PassContext,
    block: *mut u8,
    construct: u32,
    arguments: *const u64,
    out: *mut u64,
    n_words: u64,
) {
    // SAFETY: called by generated code only; `out` has so many words.
    let out = unsafe { std::slice::from_raw_parts_mut(out, to_usize(n_words)) };
    let run = |pass: &mut Pass<'_>, what: &Interpretable| {
        if let Interpretable::Number(expr) = what {
            let number = pass.number(expr);
            for (word, value) in out.iter_mut().zip(words_of(&number, to_usize(n_words))) {
                *word = value;
            }
        }
        0
    };
    // SAFETY: generated code gives the context, the block and the arguments of the pass it is in.
    unsafe { interpret(context, block, construct, arguments, run) };
}

/// Runs an operation of the parser that has no native code. Returns the position after it, or the complement of the
/// parser's error.
unsafe extern "C" fn interpret_operation(
    context: *mut PassContext,
    block: *mut u8,
    construct: u32,
    at: u64,
) -> i64 {
    // SAFETY: called by generated code only, in a pass; the context's pieces are the frame's.
    let frame = unsafe { pieces(&*context) };
    let run = |pass: &mut Pass<'_>, what: &Interpretable| {
        let Interpretable::Operation(operation) = what else {
            return 0;
        };
        let mut cursor = Cursor {
            frame,
            consumed: to_usize(at),
        };
        let done = pass.parser_operation(&mut cursor, operation);
        let position = match done {
            Ok(()) => i64::try_from(cursor.consumed).expect("a frame is shorter than 2^63 bytes"),
            Err(code) => failed(code),
        };
        position.cast_unsigned()
    };
    // SAFETY: generated code gives the context and the block of the pass it is in.
    let result = unsafe { interpret(context, block, construct, std::ptr::null(), run) };
    result.cast_signed()
}
