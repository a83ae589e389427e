//! Writes the transitions of a state: code that compares the key with the cases in their order.

use cranelift_codegen::ir::{Block, InstBuilder, Value, condcodes::IntCC, types};
use cranelift_frontend::Switch;
use dataplane::engine::ir::{
    Expr, Int, KeyPart, State, StateId, Transition, TransitionCase, range::Range,
};

use super::{
    Writer,
    bits::{self, Bytes},
    iconst,
};
use crate::{fallback::Interpretable, vector::words_of};

/// From this many single-value transitions on, a search is faster than one comparison after the other.
const SWITCH_ARROWS: usize = 4;

/// A part of a key: its words, and its width.
type Part = (Vec<Value>, u32);

impl Writer<'_, '_, '_, '_> {
    pub(super) fn transitions(&mut self, number: usize, state: &State) {
        let mut key: Vec<Part> = Vec::new();
        for part in &state.key {
            key.push(match part {
                KeyPart::Value { value, bits, .. } => (self.value(value, *bits), *bits),
                KeyPart::Lookahead { offset, bits } => {
                    self.need(u64::from((offset + bits).div_ceil(8)));
                    let bytes = self.cursor();
                    let words = bits::load(&mut self.e.b, bytes, *offset, *bits);
                    (words, *bits)
                }
            });
        }
        let default = self.target(state.default);
        let mut arrows = state.transitions.as_slice();
        while let Some(first) = arrows.first() {
            let plain = arrows
                .iter()
                .take_while(|it| plain_value(it, &key).is_some());
            let n_plain = plain.count();
            if n_plain >= SWITCH_ARROWS {
                self.search(&key, &arrows[..n_plain]);
                arrows = &arrows[n_plain..];
                continue;
            }
            let position = state.transitions.len() - arrows.len();
            self.arrow(number, position, first, &key);
            arrows = &arrows[1..];
        }
        self.e.jump(default);
    }

    /// Writes code that computes the low `bits` bits of a number. In the words, all higher bits are zero.
    fn value(&mut self, expr: &Expr, bits: u32) -> Vec<Value> {
        let n_words = bits.div_ceil(64).max(1);
        match self.e.low(expr, n_words as usize) {
            Ok(words) => {
                let range = self.e.names().range(expr);
                if range.is_some_and(|range| range.is_within(&Range::field(bits, false))) {
                    words
                } else {
                    self.e.wrap(words, bits, false)
                }
            }
            Err(reason) => {
                let number = self.e.leave(Interpretable::Number(expr.clone()), reason);
                let out = self.e.room(n_words as usize);
                let n = iconst(&mut self.e.b, n_words.into());
                let none = self.e.args_pointer();
                self.e
                    .call_on_block("interpret_number", &[number, none, out, n]);
                let words = (0..n_words)
                    .map(|word| bits::load_word(&mut self.e.b, Bytes::foreign(out), 8 * word))
                    .collect();
                self.e.wrap(words, bits, false)
            }
        }
    }

    fn target(&self, state: Option<StateId>) -> Block {
        state.map_or(self.exit, |state| self.states[state.index()])
    }

    /// Writes code that searches several single-value transitions for the key's value, and takes the transition that it
    /// finds.
    fn search(&mut self, key: &[Part], arrows: &[Transition]) {
        let mut switch = Switch::new();
        let mut seen = std::collections::HashSet::new();
        for arrow in arrows {
            if let Some(value) = plain_value(arrow, key)
                && seen.insert(value)
            {
                switch.set_entry(value.into(), self.target(arrow.next));
            }
        }
        let next = self.e.b.create_block();
        if let Some(word) = key.first().and_then(|(words, _)| words.first()).copied() {
            switch.emit(&mut self.e.b, word, next);
        }
        self.e.begin_inner(next);
    }

    fn arrow(&mut self, state: usize, number: usize, arrow: &Transition, key: &[Part]) {
        let target = self.target(arrow.next);
        let holds = match &arrow.case {
            TransitionCase::Values(cases) => {
                let mut holds = self.e.truth_constant(true);
                for ((value, mask), (words, bits)) in cases.iter().zip(key) {
                    let equal = self.equal(words, *bits, value, mask.as_ref());
                    holds = self.e.b.ins().band(holds, equal);
                }
                holds
            }
            TransitionCase::ValueSet { .. } => self.is_member(state, number, key),
        };
        let next = self.e.b.create_block();
        self.e.branch(holds, target, next);
        self.e.begin_inner(next);
    }

    fn equal(&mut self, words: &[Value], bits: u32, value: &Int, mask: Option<&Int>) -> Value {
        let n_words = bits.div_ceil(64) as usize;
        let is_wider = value >> (64 * n_words) != Int::ZERO;
        if *value < Int::ZERO || is_wider {
            return self.e.truth_constant(false);
        }
        let value: Vec<u64> = words_of(value, n_words).collect();
        let mask = mask.map(|mask| words_of(mask, n_words).collect::<Vec<_>>());
        let mut holds = self.e.truth_constant(true);
        for (position, word) in words.iter().take(n_words).enumerate() {
            let b = &mut self.e.b;
            let mut word = *word;
            if let Some(mask) = &mask {
                let mask = iconst(b, mask[position]);
                word = b.ins().band(word, mask);
            }
            let wanted = iconst(b, value[position]);
            let equal = b.ins().icmp(IntCC::Equal, word, wanted);
            holds = b.ins().band(holds, equal);
        }
        holds
    }

    /// Writes code that asks the runtime whether the key is in a value set.
    fn is_member(&mut self, state: usize, arrow: usize, key: &[Part]) -> Value {
        let words = key
            .iter()
            .flat_map(|(words, bits)| words.iter().take(bits.div_ceil(64) as usize).copied())
            .collect();
        let address = self.e.on_stack(words);
        let b = &mut self.e.b;
        let state = iconst(b, state as u64);
        let arrow = iconst(b, arrow as u64);
        let pass = self.e.pass;
        let result = self
            .e
            .call_outside("is_member", &[pass, address, state, arrow]);
        match result {
            Some(result) => self.e.b.ins().ireduce(types::I8, result),
            None => self.e.truth_constant(false),
        }
    }
}

/// The value of a transition that compares a key of one word with one value. `None` for any other transition.
fn plain_value(arrow: &Transition, key: &[Part]) -> Option<u64> {
    let TransitionCase::Values(cases) = &arrow.case else {
        return None;
    };
    match (cases.as_slice(), key) {
        ([(value, None)], [(words, _)]) if words.len() == 1 => u64::try_from(value).ok(),
        _ => None,
    }
}
