//! Checksums as code: the Internet checksum as a sum of shifted fields, without bytes, where every
//! header that it looks at is valid; anything else by the runtime.

use cranelift_codegen::ir::{BlockArg, InstBuilder, Value, condcodes::IntCC, types};
use dataplane::engine::ir::{
    Algorithm, Calculation, CalculationId, CalculationInput, Checksum, FieldId, HeaderId,
};

use super::{
    Emit,
    bits::{self, Part, iconst},
    parser::{cut_words, imm, trusted},
};
use crate::packets;

/// Fields of a sum that is unrolled, at most; also keeps the sum within a word.
const SUMMANDS_MAX: usize = 128;

/// A field of fixed width as it stands in the block.
pub(crate) fn field_part<'f>(e: &mut impl Emit<'f>, field: FieldId) -> Part {
    let slot = e.layout().field(field);
    let block = e.block();
    let b = e.b();
    let words = (0..slot.words)
        .map(|word| {
            let offset = slot.offset + word * 8;
            b.ins()
                .load(types::I64, trusted(), block, imm(offset as usize))
        })
        .collect();
    Part {
        words,
        bits: slot.bits,
        is_clean: !slot.signed,
    }
}

/// Verifies the checksums; 1 where all are right, else 0: a word.
pub(crate) fn emit_verification<'f>(e: &mut impl Emit<'f>) -> Value {
    let mut all_right = iconst(e.b(), 1);
    let ir = e.ir();
    for checksum in ir.checksums.iter().filter(|checksum| checksum.verify) {
        let header = ir.fields[checksum.target.index()].header;
        let (valid, block) = (e.layout().valid(header), e.block());
        let b = e.b();
        let is_valid = b
            .ins()
            .load(types::I8, trusted(), block, imm(valid as usize));
        let (verify, next) = (b.create_block(), b.create_block());
        let result = b.append_block_param(next, types::I64);
        let before = [BlockArg::Value(all_right)];
        b.ins()
            .brif(is_valid, verify, &[] as &[BlockArg], next, &before);
        b.switch_to_block(verify);
        guard(e, checksum, next, &before);
        let computed = calculate(e, checksum.calculation);
        let found = field_part(e, checksum.target).words[0];
        let b = e.b();
        let is_right = b.ins().icmp(IntCC::Equal, found, computed);
        let is_right = b.ins().uextend(types::I64, is_right);
        let both = b.ins().band(all_right, is_right);
        b.ins().jump(next, &[BlockArg::Value(both)]);
        b.switch_to_block(next);
        all_right = result;
    }
    all_right
}

/// Writes every checksum that is to be updated.
pub(crate) fn emit_update<'f>(e: &mut impl Emit<'f>) {
    let ir = e.ir();
    for checksum in ir.checksums.iter().filter(|checksum| checksum.update) {
        let next = e.b().create_block();
        guard(e, checksum, next, &[]);
        let computed = calculate(e, checksum.calculation);
        set(e, checksum.target, computed);
        let b = e.b();
        b.ins().jump(next, &[]);
        b.switch_to_block(next);
    }
}

/// Leaves to a block where the checksum's condition does not hold.
fn guard<'f>(
    e: &mut impl Emit<'f>,
    checksum: &Checksum,
    otherwise: cranelift_codegen::ir::Block,
    arguments: &[BlockArg],
) {
    let Some(condition) = &checksum.condition else {
        return;
    };
    let holds = e.condition(condition);
    let b = e.b();
    let wanted = b.create_block();
    b.ins()
        .brif(holds, wanted, &[] as &[BlockArg], otherwise, arguments);
    b.switch_to_block(wanted);
}

/// Writes a number into a field, cut to its width.
fn set<'f>(e: &mut impl Emit<'f>, field: FieldId, number: Value) {
    let slot = e.layout().field(field);
    let block = e.block();
    let b = e.b();
    let low = match slot.bits {
        0 => iconst(b, 0),
        bits @ 1..64 if slot.signed => bits::sign_extend(b, number, bits),
        bits => bits::low(b, number, bits),
    };
    b.ins()
        .store(trusted(), low, block, imm(slot.offset as usize));
    for word in 1..slot.words {
        let zero = iconst(b, 0);
        let offset = slot.offset + word * 8;
        b.ins().store(trusted(), zero, block, imm(offset as usize));
    }
}

/// The result of a calculation over the packet as it is now: a word.
pub(crate) fn calculate<'f>(e: &mut impl Emit<'f>, id: CalculationId) -> Value {
    let ir = e.ir();
    let calculation = &ir.calculations[id.index()];
    let Some((headers, inputs)) = unrolled(ir, calculation) else {
        return call(e, id);
    };
    let block = e.block();
    let valid: Vec<u32> = headers
        .iter()
        .map(|header| e.layout().valid(*header))
        .collect();
    let b = e.b();
    let (sum, other, next) = (b.create_block(), b.create_block(), b.create_block());
    let result = b.append_block_param(next, types::I64);
    b.set_cold_block(other);
    let mut all = b.ins().iconst(types::I8, 1);
    for offset in valid {
        let is_valid = b
            .ins()
            .load(types::I8, trusted(), block, imm(offset as usize));
        all = b.ins().band(all, is_valid);
    }
    b.ins().brif(all, sum, &[] as &[BlockArg], other, &[]);
    b.switch_to_block(other);
    let called = call(e, id);
    let b = e.b();
    b.ins().jump(next, &[BlockArg::Value(called)]);
    b.switch_to_block(sum);
    let summed = internet_checksum(e, &inputs);
    let b = e.b();
    b.ins().jump(next, &[BlockArg::Value(summed)]);
    b.switch_to_block(next);
    result
}

/// What a sum is over.
enum Input<'a> {
    Field(FieldId),
    Constant(&'a dataplane::engine::ir::Int, u32),
}

/// Headers that must be valid, and what the sum is over; none where it is no Internet checksum, or
/// one over a varbit field or the payload.
fn unrolled<'a>(
    ir: &'a dataplane::engine::ir::Ir,
    calculation: &'a Calculation,
) -> Option<(Vec<HeaderId>, Vec<Input<'a>>)> {
    if calculation.algorithm != Algorithm::Csum16 {
        return None;
    }
    let mut headers = Vec::new();
    let mut inputs = Vec::new();
    for input in &calculation.input {
        match input {
            CalculationInput::Field(field) => {
                headers.push(ir.fields[field.index()].header);
                inputs.push(Input::Field(*field));
            }
            CalculationInput::Header(header) => {
                headers.push(*header);
                inputs.extend(ir.headers[header.index()].field_ids().map(Input::Field));
            }
            CalculationInput::Constant { value, bits } => {
                inputs.push(Input::Constant(value, *bits));
            }
            CalculationInput::Payload => return None,
        }
    }
    let is_fixed = |input: &Input<'_>| match input {
        Input::Field(field) => {
            let field = &ir.fields[field.index()];
            !field.variable && field.bits <= 256
        }
        Input::Constant(_, bits) => *bits <= 256,
    };
    if inputs.len() > SUMMANDS_MAX || !inputs.iter().all(is_fixed) {
        return None;
    }
    headers.sort_unstable();
    headers.dedup();
    headers.retain(|header| !ir.headers[header.index()].metadata);
    Some((headers, inputs))
}

fn internet_checksum<'f>(e: &mut impl Emit<'f>, inputs: &[Input<'_>]) -> Value {
    let ir = e.ir();
    let bits_of = |input: &Input<'_>| match input {
        Input::Field(field) => ir.fields[field.index()].bits,
        Input::Constant(_, bits) => *bits,
    };
    let total: u32 = inputs.iter().map(bits_of).sum();
    // Zeros fill the last word.
    let mut behind = total.next_multiple_of(16);
    let mut sum = iconst(e.b(), 0);
    for input in inputs {
        let bits = bits_of(input);
        behind -= bits;
        if bits == 0 {
            continue;
        }
        let part = match input {
            Input::Field(field) => field_part(e, *field),
            Input::Constant(value, bits) => Part {
                words: cut_words(value, bits.div_ceil(64) as usize)
                    .into_iter()
                    .map(|word| iconst(e.b(), word))
                    .collect(),
                bits: *bits,
                is_clean: false,
            },
        };
        let b = e.b();
        for summand in bits::summand(b, &part, behind) {
            sum = b.ins().iadd(sum, summand);
        }
    }
    bits::fold(e.b(), sum)
}

fn call<'f>(e: &mut impl Emit<'f>, id: CalculationId) -> Value {
    let (context, block) = (e.context(), e.block());
    let number = iconst(e.b(), id.0.into());
    let arguments = [context, block, number];
    let result = e.call(packets::calculate as *const () as usize, &arguments, true);
    match result {
        Some(result) => result,
        None => iconst(e.b(), 0),
    }
}
