//! What generated parsers, deparsers and checksums call: bytes, and the fields that are not
//! unrolled. Every function gets the context of the pass and the block of its packet.
#![expect(
    unsafe_code,
    reason = "generated code hands over pointers to the context and the packet's block"
)]

use dataplane::engine::{
    PacketHandle, State,
    interpret::Phv,
    ir::{
        AnyStack, CalculationId, CalculationInput, HeaderId, Int, StackId, TransitionCase,
        UnionStackId,
    },
};

use crate::{
    context::PassContext,
    layout::Layout,
    packet::Pool,
    wire::{BitString, Block},
};

/// The packets of an engine, and which one a pass is about.
pub(crate) struct Packets {
    pub pool: Pool,
    pub current: PacketHandle,
    pub layout: Layout,
    /// What a calculation looks at.
    pub bits: BitString,
    /// What the interpreter works on, where something is left to it.
    pub phv: Option<Phv>,
}

/// The engine's packets and the switch's state.
///
/// # Safety
/// The context is that of a running pass: its pointers are good and nobody else uses what they
/// point to.
pub(crate) unsafe fn world<'a>(
    context: *mut PassContext,
) -> (&'a mut PassContext, &'a mut Packets, &'a mut State) {
    // SAFETY: the engine sets the context's pointers before it runs generated code, and touches
    // nothing behind them until that returns.
    unsafe {
        let context = &mut *context;
        let packets = &mut *context.packets.cast::<Packets>();
        let state = &mut *context.state.cast::<State>();
        (context, packets, state)
    }
}

/// A packet's block as words.
///
/// # Safety
/// `block` points to a block of the layout, which nobody else uses meanwhile.
pub(crate) unsafe fn words<'a>(layout: &Layout, block: *mut u64) -> &'a mut [u64] {
    // SAFETY: a block has as many words as its layout says.
    unsafe { std::slice::from_raw_parts_mut(block, layout.size() / 8) }
}

/// Makes the first `end` bytes of the frame stand in one piece; it has as many.
pub(crate) unsafe extern "C" fn pull(context: *mut PassContext, end: u64) {
    // SAFETY: called by generated code only, in a pass.
    let (context, packets, _) = unsafe { world(context) };
    packets.pool.pull(packets.current, to_usize(end));
    point(context, packets.pool.frame(packets.current));
}

/// Lets the context point to the two pieces of a frame, or of its rest.
pub(crate) fn point(context: &mut PassContext, [head, payload]: [&[u8]; 2]) {
    context.head = head.as_ptr();
    context.head_len = head.len() as u64;
    context.payload = payload.as_ptr();
    context.payload_len = payload.len() as u64;
}

fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn to_u32(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// An error as the generated code takes it.
fn failed(code: u32) -> i64 {
    !i64::from(code)
}

/// Reads a header whose first byte is at `bytes`; the frame has all of them.
pub(crate) unsafe extern "C" fn read_header(
    context: *mut PassContext,
    block: *mut u64,
    bytes: *const u8,
    header: u64,
    variable_bits: u64,
) {
    // SAFETY: called by generated code only, in a pass.
    let (_, packets, state) = unsafe { world(context) };
    let header = HeaderId(to_u32(header));
    let fixed = state.program().ir().headers[header.index()].fixed_bits;
    let n_bytes = to_usize((u64::from(fixed) + variable_bits) / 8);
    // SAFETY: the generated code has looked whether the frame has so many bytes in one piece.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, n_bytes) };
    let mut block = Block {
        // SAFETY: the block is that of the current packet.
        words: unsafe { words(&packets.layout, block) },
        layout: &packets.layout,
        ir: state.program().ir(),
    };
    block.read_header(header, to_u32(variable_bits), bytes);
}

/// Extracts into a header that is found now. Gives the position behind it, or the complement of
/// the parser's error.
pub(crate) unsafe extern "C" fn extract(
    context: *mut PassContext,
    block: *mut u64,
    at: u64,
    target: u64,
    member: u64,
    variable_bits: i64,
) -> i64 {
    // SAFETY: called by generated code only, in a pass.
    let (context, packets, state) = unsafe { world(context) };
    let ir = state.program().ir();
    let errors = ir.core_errors;
    // SAFETY: the block is that of the current packet.
    let words = unsafe { words(&packets.layout, block) };
    let layout = &packets.layout;
    let mut block = Block { words, layout, ir };
    let of = to_u32(target & u64::from(u32::MAX));
    let stack = match target >> 32 {
        0 => None,
        1 => Some(AnyStack::Headers(StackId(of))),
        _ => Some(AnyStack::Unions(UnionStackId(of))),
    };
    let next = stack.map_or(0, |stack| block.next_index(stack));
    let header = match stack {
        None => Some(HeaderId(of)),
        Some(AnyStack::Headers(stack)) => {
            let elements = &ir.stacks[stack.index()].elements;
            elements.get(next as usize).copied()
        }
        Some(AnyStack::Unions(stack)) => {
            let union = ir.union_stacks[stack.index()].elements.get(next as usize);
            let members = union.map(|union| &ir.unions[union.index()].members);
            members.and_then(|members| members.get(to_usize(member)).copied())
        }
    };
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
    i64::try_from(end).unwrap_or(i64::MAX)
}

/// Writes a valid header to `out`; gives its length.
pub(crate) unsafe extern "C" fn write_header(
    context: *mut PassContext,
    block: *mut u64,
    header: u64,
    out: *mut u8,
) -> u64 {
    // SAFETY: called by generated code only, in a pass.
    let (_, packets, state) = unsafe { world(context) };
    let block = Block {
        // SAFETY: the block is that of the current packet.
        words: unsafe { words(&packets.layout, block) },
        layout: &packets.layout,
        ir: state.program().ir(),
    };
    let header = HeaderId(to_u32(header));
    // SAFETY: the engine has made room for every header that is valid.
    let out = unsafe { std::slice::from_raw_parts_mut(out, block.header_bytes(header)) };
    block.write_header(header, out) as u64
}

/// The result of a calculation over the packet as it is now.
pub(crate) unsafe extern "C" fn calculate(
    context: *mut PassContext,
    block: *mut u64,
    calculation: u64,
) -> u64 {
    // SAFETY: called by generated code only, in a pass.
    let (context, packets, state) = unsafe { world(context) };
    let calculation = CalculationId(to_u32(calculation));
    let program = state.program().clone();
    let block = Block {
        // SAFETY: the block is that of the current packet.
        words: unsafe { words(&packets.layout, block) },
        layout: &packets.layout,
        ir: program.ir(),
    };
    let input = &program.ir().calculations[calculation.index()].input;
    // SAFETY: the context's pieces are those of the current packet.
    let rest = unsafe { pieces(context) };
    gather(&block, input, rest, &mut packets.bits);
    state.calculate(calculation, packets.bits.bytes())
}

/// The pieces that a context points to.
///
/// # Safety
/// They are there.
pub(crate) unsafe fn pieces<'a>(context: &PassContext) -> [&'a [u8]; 2] {
    let piece = |start: *const u8, len: u64| match len {
        0 => &[][..],
        // SAFETY: the engine lets the context point to the current packet's bytes.
        len => unsafe { std::slice::from_raw_parts(start, to_usize(len)) },
    };
    [
        piece(context.head, context.head_len),
        piece(context.payload, context.payload_len),
    ]
}

/// What a calculation looks at. What belongs to an invalid header is left out; the payload begins
/// at a whole byte, behind everything else, wherever it is named.
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
                    bits.push(block.field(*field), block.bits(*field));
                }
            }
            CalculationInput::Header(header) => {
                if block.is_valid(*header) {
                    for field in block.ir.headers[header.index()].field_ids() {
                        bits.push(block.field(field), block.bits(field));
                    }
                }
            }
            CalculationInput::Constant { value, bits: width } => {
                let words = crate::frames::cut_words(value, width.div_ceil(64) as usize);
                bits.push(&words, *width);
            }
            CalculationInput::Payload => with_payload = true,
        }
    }
    if with_payload {
        rest.iter().for_each(|piece| bits.push_bytes(piece));
    }
}

/// Whether the key of a state, its parts' words one after the other, is in the value set of one of
/// its arrows.
pub(crate) unsafe extern "C" fn is_member(
    context: *mut PassContext,
    key: *const u64,
    number: u64,
    arrow: u64,
) -> u64 {
    // SAFETY: called by generated code only, in a pass.
    let (_, _, state) = unsafe { world(context) };
    let parser_state = &state.program().ir().parser.states[to_usize(number)];
    let n_words: u32 = parser_state
        .key
        .iter()
        .map(|part| part.bits().div_ceil(64))
        .sum();
    // SAFETY: the generated code has written so many.
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
