//! A packet's block as the interpreter's header vector, and back: for constructs that are
//! interpreted.

use dataplane::engine::{
    interpret::Phv,
    ir::{AnyStack, HeaderId, Int, Ir, StackId, UnionStackId},
};

use super::parser::cut_words;
use crate::wire::Block;

/// The number in a field's words.
fn number(words: &[u64], signed: bool) -> Int {
    match words {
        [word] if signed => Int::from(word.cast_signed()),
        [word] => Int::from(*word),
        words => {
            let above = words.iter().enumerate().skip(1);
            let low = words.first().copied().unwrap_or(0);
            let number = above.fold(Int::from(low), |number, (n, word)| match *word {
                0 => number,
                word => number | Int::from(word) << (64 * n),
            });
            let is_negative = signed && words.last().is_some_and(|top| top.cast_signed() < 0);
            match is_negative {
                true => number - (Int::ONE << (64 * words.len())),
                false => number,
            }
        }
    }
}

fn stacks(ir: &Ir) -> impl Iterator<Item = AnyStack> + use<> {
    let headers = (0..u32::try_from(ir.stacks.len()).unwrap_or(0)).map(StackId);
    let unions = (0..u32::try_from(ir.union_stacks.len()).unwrap_or(0)).map(UnionStackId);
    headers
        .map(AnyStack::Headers)
        .chain(unions.map(AnyStack::Unions))
}

fn headers(ir: &Ir) -> impl Iterator<Item = HeaderId> + use<> {
    (0..u32::try_from(ir.headers.len()).unwrap_or(0)).map(HeaderId)
}

/// Lays a block out as a header vector.
pub(crate) fn to_phv(block: &Block<'_>, phv: &mut Phv) {
    let ir = block.ir;
    for header in headers(ir) {
        phv.put_validity(header, block.is_valid(header));
        for field in ir.headers[header.index()].field_ids() {
            let declared = &ir.fields[field.index()];
            let value = number(block.field(field), declared.signed);
            match declared.variable {
                true => phv.set_variable(ir, field, value, block.variable_bits(header)),
                false => phv.set(ir, field, value),
            }
        }
    }
    for stack in stacks(ir) {
        phv.set_next_index(stack, block.next_index(stack) as usize);
    }
}

/// Takes a header vector back.
pub(crate) fn from_phv(phv: &Phv, block: &mut Block<'_>) {
    let ir = block.ir;
    for header in headers(ir) {
        block.put_validity(header, phv.is_valid(header));
        block.set_variable_bits(header, phv.variable_bits(header));
        for field in ir.headers[header.index()].field_ids() {
            let value = phv.get(field);
            let words = block.field_mut(field);
            let n_words = words.len();
            words.copy_from_slice(&cut_words(value, n_words));
        }
    }
    for stack in stacks(ir) {
        let next = u32::try_from(phv.next_index(stack)).unwrap_or(u32::MAX);
        block.set_next_index(stack, next);
    }
}
