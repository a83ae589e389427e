//! Operations on blocks (header vectors, [`crate::layout`]) between passes: blanking for the parser, copying for a
//! replica or a clone, keeping a field list. The words that they touch are known when a program is loaded.

use std::ops::Range;

use cranelift_codegen::ir::{InstBuilder, Value, condcodes::IntCC, types};
use dataplane::engine::ir::FieldListId;

use crate::{
    compile::{Emit, Region},
    context::Requests,
    frames::bits,
    layout::WORD_BYTES,
};

/// Up to this many adjacent words are moved one by one; more are moved by a call.
const UNROLLED_WORDS_MAX: usize = 256;

fn offset(word: usize) -> u32 {
    u32::try_from(word).expect("a packet has fewer than 2^32 words of variables") * WORD_BYTES
}

pub(super) fn blank(e: &mut Emit<'_, '_, '_>) {
    for words in e.layout().blank_words() {
        let vector = e.vector;
        fill(e, words, vector);
    }
}

/// Sets words of a block to the words of a blank block.
fn fill(e: &mut Emit<'_, '_, '_>, words: Range<usize>, to: Value) {
    let blank = &e.layout().blank()[words.start * 8..words.end * 8];
    if words.len() > UNROLLED_WORDS_MAX {
        let from = e.address(blank.as_ptr(), "blank");
        return copy_call(e, words, (from, to));
    }
    let (blank, _) = blank.as_chunks::<8>();
    let zero = e.constant(0);
    let two_zeros = e.b.ins().splat(types::I64X2, zero);
    let mut place = 0;
    while place < blank.len() {
        let (value, n_words) = match blank[place..] {
            [first, second, ..] if [first, second] == [[0; 8]; 2] => (two_zeros, 2),
            [word, ..] => (e.constant(u64::from_le_bytes(word)), 1),
            [] => break,
        };
        e.store(Region::Vector, value, to, offset(words.start + place));
        place += n_words;
    }
}

fn copy(e: &mut Emit<'_, '_, '_>, words: Range<usize>, (from, to): (Value, Value)) {
    if words.len() > UNROLLED_WORDS_MAX {
        let start = offset(words.start);
        let from = bits::add_const(&mut e.b, from, start.into());
        return copy_call(e, words, (from, to));
    }
    let mut place = words.start;
    while place < words.end {
        let (ty, n_words) = match words.end - place {
            1 => (types::I64, 1),
            _ => (types::I64X2, 2),
        };
        let value = e.load(ty, Region::Vector, from, offset(place));
        e.store(Region::Vector, value, to, offset(place));
        place += n_words;
    }
}

/// Copies words by a call; `from` points to the first word, `to` to the destination's block.
fn copy_call(e: &mut Emit<'_, '_, '_>, words: Range<usize>, (from, to): (Value, Value)) {
    let to = bits::add_const(&mut e.b, to, offset(words.start).into());
    let n_words = e.constant(words.len() as u64);
    e.call_outside("copy_words", &[to, from, n_words]);
}

/// Writes a function whose first parameter is the copy's block, and whose second parameter is the packet's block.
pub(super) fn emit_copy(e: &mut Emit<'_, '_, '_>) {
    let blocks = (e.vector, e.pass);
    for words in e.layout().copied_words() {
        copy(e, words, blocks);
    }
}

/// Writes a function whose first parameter is the clone's block, and whose second parameter is the packet's block. The
/// clone gets the fields of a list. With `with_headers`, it also gets the headers; otherwise the clone already has
/// headers of its own.
pub(super) fn emit_clone(e: &mut Emit<'_, '_, '_>, list: Value, with_headers: bool) {
    let (from, to) = (e.vector, e.pass);
    let metadata = e.layout().metadata().start / 8;
    let [first, headers] = e.layout().copied_words();
    if with_headers {
        copy(e, first.start..metadata, (from, to));
        copy(e, headers, (from, to));
    }
    fill(e, metadata..first.end, to);
    keep(e, list, (from, to));
}

/// Copies the fields of the list with this code ([`Requests::list_code`]) from block to block. Varbit fields are not
/// copied. They belong to headers, and headers are at this point either blank or the same in both blocks.
pub(super) fn keep(e: &mut Emit<'_, '_, '_>, list: Value, (from, to): (Value, Value)) {
    let ir = e.ir();
    let end = e.b.create_block();
    let lists = (0..).map(FieldListId).zip(&ir.field_lists);
    for (id, fields) in lists.filter(|(_, list)| !list.fields.is_empty()) {
        let [kept, next] = e.blocks();
        let code = Requests::list_code(Some(id));
        let is_it = e.b.ins().icmp_imm_u(IntCC::Equal, list, i64::from(code));
        e.branch(is_it, kept, next);
        e.begin_inner(kept);
        for field in &fields.fields {
            let slot = e.layout().field(*field);
            let first = (slot.offset / WORD_BYTES) as usize;
            // Words are copied one by one, because a load across several recent stores stalls.
            for word in (first..first + slot.words as usize).filter(|_| !slot.variable) {
                copy(e, word..word + 1, (from, to));
            }
        }
        e.jump(end);
        e.begin(next);
    }
    e.jump(end);
    e.begin(end);
}
