//! Generates code that looks up tables. The code first finds, for a key, the number of an entry's body ([`Body`]). A
//! body holds the entry's action in two slots, for two versions of the tables. The code then finds the slot that is
//! valid for the version that the packet sees.

use dataplane::{
    TableId,
    engine::ir::{Expr, KeySource},
};

use super::{
    emit::{BODY, Emit, Emitted, R_KEY, SLOT, STACK_KEY, STACK_VERSION},
    expression::low_word,
    memory::is_field,
};
use crate::{
    asm::{Alu, Jump, Label, Reg, Size, reg::*},
    image::{ACTION_MISS, Body, Index, KeyPart, MapRef, TableLayout},
};

/// The most prefixes that a lookup tries, longest first, until it finds a prefix that has an entry in the version that
/// the packet sees.
const LPM_ATTEMPTS: u32 = 4;

impl Emit<'_> {
    /// Looks up a table's key. Puts the number of the body that it finds into [`BODY`] (0 on a miss), and the address
    /// of the body's valid slot into [`SLOT`].
    pub(super) fn find_body(&mut self, table: TableId, layout: &TableLayout) -> Emitted<()> {
        let ir = self.ir;
        let key = &ir.table_nodes[table.index()].key;
        let attempts = match &layout.index {
            Index::Left => return Err("it is left to the engine".into()),
            Index::None => {
                self.asm.mov_imm(BODY, 0);
                1
            }
            Index::Direct { at, bits } => {
                self.look_up_direct(key, &layout.key_bits, *at, *bits)?;
                2
            }
            Index::Hash {
                map,
                parts,
                key_bytes,
            } => {
                self.host_key(key, parts, *key_bytes)?;
                self.look_up_body(*map);
                2
            }
            Index::Lpm {
                map,
                parts,
                key_bytes,
                ..
            } => {
                self.network_key(key, parts, *key_bytes)?;
                self.look_up_body(*map);
                LPM_ATTEMPTS
            }
            Index::Ternary { .. } => {
                self.look_up_masked(key, layout)?;
                2
            }
        };
        self.find_slot(&layout.body, attempts);
        Ok(())
    }

    /// Finds the slot of the multicast group whose number is in `R1`.
    pub(super) fn find_group(&mut self, layout: &TableLayout) -> Emitted<()> {
        let Index::Hash { map, .. } = &layout.index else {
            return Err("the table of groups has no hash index".into());
        };
        self.asm.store(Size::B4, R10, STACK_KEY, R1);
        self.look_up_body(*map);
        self.find_slot(&layout.body, 2);
        Ok(())
    }

    /// Loads the index of the body ([`crate::image::Body`]) that the map has for the key on the stack; 0 if the map
    /// does not have the key.
    fn look_up_body(&mut self, map: MapRef) {
        let missing = self.asm.label();
        self.look_up(map, STACK_KEY);
        self.asm.mov_imm(BODY, 0);
        self.asm.jump_if_imm(Jump::Eq, R0, 0, missing);
        self.asm.load(Size::B4, BODY, R0, 0);
        self.asm.place(missing);
    }

    /// Loads the value of a key's field; a field of an invalid header is zero.
    fn key_word(&mut self, source: &KeySource, word: u32, bits: u32, to: Reg) -> Emitted<()> {
        let mut is_cut = false;
        self.word(&source.value, word, to)?;
        if let (true, Expr::Field(field)) = (is_field(&source.value), &source.value) {
            let field = &self.ir.fields[field.index()];
            is_cut = field.bits <= bits && !field.signed;
            let header = field.header;
            if !self.ir.headers[header.index()].metadata {
                // Multiplies instead of jumping, so that the verifier sees one path for a key of many fields, not one
                // path for each combination of valid headers.
                self.valid_bit(header, R0);
                self.asm.alu(Alu::Mul, to, R0);
            }
        }
        if let Some(mask) = &source.mask {
            let mask = low_word(mask, word);
            match i32::try_from(mask.cast_signed()) {
                Ok(mask) => self.asm.alu_imm(Alu::And, to, mask),
                Err(_) => {
                    self.asm.mov_imm(R0, mask);
                    self.asm.alu(Alu::And, to, R0);
                }
            }
        }
        let above = 64 * word;
        if !is_cut && bits < above + 64 {
            let range = self.names().range(&source.value);
            let fits = range.is_some_and(|range| !range.signed && range.bits <= bits);
            if !fits {
                // Truncate to the key's width. The low bits of a negative number are its two's complement.
                let within = bits.saturating_sub(above);
                self.asm.mov_imm(R0, (1_u64 << within) - 1);
                self.asm.alu(Alu::And, to, R0);
            }
        }
        Ok(())
    }

    fn look_up_direct(
        &mut self,
        key: &[KeySource],
        widths: &[u32],
        at: u32,
        bits: u32,
    ) -> Emitted<()> {
        for (position, (source, width)) in key.iter().zip(widths).enumerate() {
            match position {
                0 => self.key_word(source, 0, *width, R_KEY)?,
                _ => {
                    self.key_word(source, 0, *width, R2)?;
                    self.asm.alu_imm(Alu::Lsh, R_KEY, *width as i32);
                    self.asm.alu(Alu::Or, R_KEY, R2);
                }
            }
        }
        // The mask gives the verifier a bound on the position.
        self.asm
            .alu_imm(Alu::And, R_KEY, ((1_u32 << bits) - 1).cast_signed());
        self.asm.alu_imm(Alu::Lsh, R_KEY, 2);
        self.heap(R2, at);
        self.asm.alu(Alu::Add, R2, R_KEY);
        self.asm.load(Size::B4, BODY, R2, 0);
        Ok(())
    }

    fn clear_key(&mut self, from: u32, key_bytes: u32) {
        for at in (from..key_bytes).step_by(4) {
            self.asm.store_imm(Size::B4, R10, STACK_KEY + at as i16, 0);
        }
    }

    /// Assembles a key in host order.
    fn host_key(&mut self, key: &[KeySource], parts: &[KeyPart], key_bytes: u32) -> Emitted<()> {
        let end = parts.iter().map(|part| part.at + part.bytes).max();
        let end = end.unwrap_or_default();
        if end < key_bytes || parts.iter().any(|part| part.bytes < 4) {
            self.clear_key(end / 4 * 4, key_bytes);
        }
        for (source, part) in key.iter().zip(parts) {
            for word in 0..part.bytes.div_ceil(8) {
                self.key_word(source, word, part.bits, R1)?;
                let size = match part.bytes {
                    1 => Size::B1,
                    2 => Size::B2,
                    4 => Size::B4,
                    _ => Size::B8,
                };
                let at = STACK_KEY + (part.at + 8 * word) as i16;
                self.asm.store(size, R10, at, R1);
            }
        }
        Ok(())
    }

    /// Assembles a trie's key, with the full prefix length.
    fn network_key(&mut self, key: &[KeySource], parts: &[KeyPart], key_bytes: u32) -> Emitted<()> {
        let bits = 8 * (key_bytes - 4);
        self.asm
            .store_imm(Size::B4, R10, STACK_KEY, bits.cast_signed());
        let prefix = parts.iter().map(|part| part.at).max();
        for (source, part) in key.iter().zip(parts) {
            // The prefix field is left-aligned, all other fields are right-aligned.
            let behind = if Some(part.at) == prefix {
                8 * part.bytes - part.bits
            } else {
                0
            };
            let n = part.bytes / 4;
            for quarter in 0..n {
                // 32 bits of the value, from bit `low` on.
                let low = (32 * (n - 1 - quarter)).checked_sub(behind);
                let word = low.unwrap_or_default() / 64;
                self.key_word(source, word, part.bits, R1)?;
                match low {
                    None => self.asm.alu_imm(Alu::Lsh, R1, behind as i32),
                    Some(low) => {
                        let shift = low % 64;
                        if shift > 0 {
                            self.asm.alu_imm(Alu::Rsh, R1, shift as i32);
                        }
                        if shift > 32 && 64 * (word + 1) < part.bits {
                            self.key_word(source, word + 1, part.bits, R2)?;
                            self.asm.alu_imm(Alu::Lsh, R2, 64 - shift as i32);
                            self.asm.alu(Alu::Or, R1, R2);
                        }
                    }
                }
                self.asm.to_be(R1, Size::B4);
                let at = STACK_KEY + (part.at + 4 * quarter) as i16;
                self.asm.store(Size::B4, R10, at, R1);
            }
        }
        Ok(())
    }

    /// Looks a key up under each mask, and takes the matching entry that has the greatest rank.
    fn look_up_masked(&mut self, key: &[KeySource], layout: &TableLayout) -> Emitted<()> {
        let Index::Ternary {
            map,
            parts,
            key_bytes,
            n_masks,
            masks,
            n_masks_max,
        } = &layout.index
        else {
            return Err("its key has no masks".into());
        };
        let (body, key_bytes) = (&layout.body, *key_bytes);
        self.clear_key(0, key_bytes);
        self.host_key(key, parts, key_bytes)?;
        let masked = STACK_KEY + key_bytes as i16;
        let best = self.spill_slot()?;
        let (again, done) = (self.asm.label(), self.asm.label());
        self.asm.mov_imm(BODY, 0);
        self.asm.store_imm(Size::B8, R10, best, 0);
        self.asm.mov_imm(SLOT, 0);
        self.asm.place(again);
        self.heap(R1, *n_masks);
        self.asm.load(Size::B4, R1, R1, 0);
        self.asm.jump_if(Jump::Ge, SLOT, R1, done);
        self.asm
            .jump_if_imm(Jump::Ge, SLOT, *n_masks_max as i32, done);
        self.asm.mov(R2, SLOT);
        self.asm.alu_imm(Alu::Mul, R2, key_bytes as i32);
        self.heap(R1, *masks);
        self.asm.alu(Alu::Add, R1, R2);
        for at in (8..key_bytes as i16).step_by(8) {
            self.asm.load(Size::B8, R2, R10, STACK_KEY + at);
            self.asm.load(Size::B8, R3, R1, at);
            self.asm.alu(Alu::And, R2, R3);
            self.asm.store(Size::B8, R10, masked + at, R2);
        }
        self.asm.store(Size::B4, R10, masked, SLOT);
        self.asm.store_imm(Size::B4, R10, masked + 4, 0);
        let next_mask = self.asm.label();
        self.look_up(*map, masked);
        self.asm.jump_if_imm(Jump::Eq, R0, 0, next_mask);
        self.asm.load(Size::B4, R5, R0, 0);
        self.asm.jump_if_imm(Jump::Ge, R5, body.n as i32, next_mask);
        self.asm.mov(R1, R5);
        self.asm.alu_imm(Alu::Mul, R1, body.stride as i32);
        self.heap(R0, body.first);
        self.asm.alu(Alu::Add, R0, R1);
        let rank = body.link.unwrap_or_default() as i16;
        self.asm.load(Size::B8, R1, R10, best);
        self.asm.load(Size::B8, R2, R0, rank);
        self.asm.jump_if(Jump::Le, R2, R1, next_mask);
        self.slot_that_holds(R0, body, next_mask);
        self.asm.load(Size::B4, R1, R0, Body::ACTION as i16);
        self.asm
            .jump32_if_imm(Jump::Eq, R1, ACTION_MISS.cast_signed(), next_mask);
        self.asm.mov(BODY, R5);
        self.asm.store(Size::B8, R10, best, R2);
        self.asm.place(next_mask);
        self.asm.alu_imm(Alu::Add, SLOT, 1);
        self.asm.jump(again);
        self.asm.place(done);
        self.free_spill_slot();
        Ok(())
    }

    /// Replaces a body's address in `at` by the address of the body's slot that is valid for the packet's version.
    /// Jumps to `none` if neither slot is valid. Overwrites `R1`, `R3` and `R4`.
    pub(super) fn slot_that_holds(&mut self, at: Reg, body: &Body, none: Label) {
        let (first, second, found) = (self.asm.label(), self.asm.label(), self.asm.label());
        self.asm.load(Size::B8, R1, R10, STACK_VERSION);
        self.asm.load(Size::B8, R3, at, 0);
        self.asm.load(Size::B8, R4, at, 8);
        self.asm.jump_if(Jump::Gt, R4, R1, first);
        self.asm.jump_if(Jump::Gt, R3, R1, second);
        self.asm.jump_if(Jump::Gt, R4, R3, second);
        self.asm.place(first);
        self.asm.jump_if(Jump::Gt, R3, R1, none);
        self.asm.alu_imm(Alu::Add, at, body.slots[0] as i32);
        self.asm.jump(found);
        self.asm.place(second);
        self.asm.alu_imm(Alu::Add, at, body.slots[1] as i32);
        self.asm.place(found);
    }

    fn body_address(&mut self, to: Reg, body: &Body) {
        self.asm.mov(R1, BODY);
        self.asm.alu_imm(Alu::Mul, R1, body.stride as i32);
        self.heap(to, body.first);
        self.asm.alu(Alu::Add, to, R1);
    }

    /// Searches the body whose number is in [`BODY`] for the slot that is valid for the packet's version, and puts the
    /// slot's address into [`SLOT`]. If the body has no valid slot, or the slot says that there is no entry, tries
    /// another body: in a trie the body of the next shorter prefix, in any other index body 0.
    fn find_slot(&mut self, body: &Body, attempts: u32) {
        let is_trie = attempts == LPM_ATTEMPTS;
        let punt = self.ends.punt;
        let holds = self.asm.label();
        for attempt in 1..=attempts {
            let none = self.asm.label();
            // The comparison gives the verifier a bound on the number.
            self.asm.jump_if_imm(Jump::Ge, BODY, body.n as i32, punt);
            self.body_address(SLOT, body);
            self.slot_that_holds(SLOT, body, none);
            self.asm.load(Size::B4, R1, SLOT, Body::ACTION as i16);
            self.asm
                .jump32_if_imm(Jump::Ne, R1, ACTION_MISS.cast_signed(), holds);
            self.asm.place(none);
            if attempt == attempts {
                break;
            }
            self.asm.jump_if_imm(Jump::Eq, BODY, 0, punt);
            match body.link.filter(|_| is_trie) {
                Some(link) => {
                    self.body_address(SLOT, body);
                    self.asm.load(Size::B4, BODY, SLOT, link as i16);
                }
                None => self.asm.mov_imm(BODY, 0),
            }
        }
        self.asm.jump(punt);
        self.asm.place(holds);
    }
}
