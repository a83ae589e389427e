//! What is done to blocks between passes: blanked for the parser, copied for a replica or a clone,
//! kept in part. Which words it is about is known when a program is loaded.

use std::ops::Range;

use cranelift_codegen::ir::{BlockArg, InstBuilder, Value, condcodes::IntCC, types};
use dataplane::engine::ir::{FieldListId, Ir};

use crate::{
    compile::{Emit, Region},
    context::Requests,
    layout::{Layout, WORD_BYTES},
    metadata::FieldLists,
};

/// Words to be made blank, copied or kept at most for it to be code.
const WORDS_MAX: usize = 256;

/// Whether it may be code that does something to them, one by one.
pub(super) fn are_few(words: &[Range<usize>]) -> bool {
    n_words(words) <= WORDS_MAX
}

fn n_words(ranges: &[Range<usize>]) -> usize {
    ranges.iter().map(ExactSizeIterator::len).sum()
}

fn offset(word: usize) -> u32 {
    u32::try_from(word).expect("a packet has fewer than 2^32 words of variables") * WORD_BYTES
}

/// Makes blank what has to be before the parser.
pub(super) fn blank(e: &mut Emit<'_, '_, '_>) {
    let vector = e.vector;
    let zero = e.constant(0);
    let two_zeros = e.b.ins().splat(types::I64X2, zero);
    for range in e.layout().blank_words() {
        let blank = &e.layout().blank()[range.start * 8..range.end * 8];
        let (words, _) = blank.as_chunks::<8>();
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let mut place = 0;
        while place < words.len() {
            let offset = u32::try_from((range.start + place) * 8)
                .expect("a packet has fewer than 2^32 bytes of variables");
            let (value, n_words) = match words[place..] {
                [0, 0, ..] => (two_zeros, 2),
                [0, ..] => (zero, 1),
                [word, ..] => (e.constant(word), 1),
                [] => break,
            };
            e.store(Region::Vector, value, vector, offset);
            place += n_words;
        }
    }
}

/// Copies words from block to block.
fn copy(e: &mut Emit<'_, '_, '_>, words: Range<usize>, (from, to): (Value, Value)) {
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

/// The function's first parameter is the copy's block, its second the packet's.
pub(super) fn emit_copy(e: &mut Emit<'_, '_, '_>) {
    let blocks = (e.vector, e.pass);
    for words in e.layout().copied_words() {
        copy(e, words, blocks);
    }
}

/// The function's first parameter is the clone's block, its second the packet's.
pub(super) fn emit_clone(e: &mut Emit<'_, '_, '_>, lists: &KeptWords, list: Value) {
    let (from, to) = (e.vector, e.pass);
    let metadata = e.layout().metadata();
    let metadata = metadata.start / 8..metadata.end / 8;
    let [first, headers] = e.layout().copied_words();
    copy(e, first.start..metadata.start, (from, to));
    let zero = e.constant(0);
    let two_zeros = e.b.ins().splat(types::I64X2, zero);
    let mut place = metadata.start;
    while place < first.end {
        let (value, n_words) = match first.end - place {
            1 => (zero, 1),
            _ => (two_zeros, 2),
        };
        e.store(Region::Vector, value, to, offset(place));
        place += n_words;
    }
    copy(e, headers, (from, to));
    lists.keep(e, list, (from, to));
}

/// The words of each field list: what clones and recirculated packets keep.
pub(super) struct KeptWords(Vec<Vec<usize>>);

impl KeptWords {
    /// None where it cannot be code: there are too many, or a varbit field among them.
    pub(super) fn of(ir: &Ir, layout: &Layout) -> Option<Self> {
        let words = FieldLists::new(ir, layout).into_words()?;
        let n_words: usize = words.iter().map(Vec::len).sum();
        (n_words <= WORDS_MAX).then_some(Self(words))
    }

    /// Copies the words of the list with that code ([`Requests::list_code`]) from block to block.
    pub(super) fn keep(&self, e: &mut Emit<'_, '_, '_>, list: Value, (from, to): (Value, Value)) {
        let end = e.b.create_block();
        let lists = (0..).map(FieldListId).zip(&self.0);
        for (id, words) in lists.filter(|(_, words)| !words.is_empty()) {
            let (kept, next) = (e.b.create_block(), e.b.create_block());
            let code = Requests::list_code(Some(id));
            let is_it = e.b.ins().icmp_imm_u(IntCC::Equal, list, i64::from(code));
            e.branch(is_it, kept, next);
            e.begin_inner(kept);
            for word in words {
                // One by one: what a pass has just written comes slowly to a load across several writes.
                copy(e, *word..*word + 1, (from, to));
            }
            e.b.ins().jump(end, &[] as &[BlockArg]);
            e.begin(next);
        }
        e.jump(end);
        e.begin(end);
    }
}
