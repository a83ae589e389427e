//! Generates code for hashes, and for checksums that are not sums of fields. The code assembles the input byte by byte
//! in the scratch memory. It leaves out fields of invalid headers, so the input's length is known only at run time.

use dataplane::engine::{
    Crc,
    ir::{Algorithm, Calculation, CalculationId, Expr, FieldId, HeaderId, Place},
};

use super::{
    checksum::{Part, SUM},
    emit::{Emit, Emitted, Kind, SCRATCH},
    expression::low_word,
    layout::Word,
};
use crate::asm::{Alu, Jump, Label, Reg, Size, reg::*};

/// The address to which the next bytes are written.
const TO: Reg = R4;
/// The number of zero bytes after the input.
const PADDING_BYTES: u32 = 8;

/// The CRCs that can be compiled. Each has at most 32 bits, the same bit order for input and output, and an initial
/// value that is the same in both bit orders.
pub(super) const CRCS: [Algorithm; 3] = [Algorithm::Crc16, Algorithm::CrcCcitt, Algorithm::Crc32];

/// Returns a CRC's remainder for each value of a byte, 4 bytes each, in host order.
pub(super) fn crc_table(crc: &Crc) -> Vec<u8> {
    let entries = (0..=u8::MAX).map(|byte| crc.remainder(byte) as u32);
    entries.flat_map(u32::to_ne_bytes).collect()
}

/// Fails for an algorithm that cannot be compiled.
pub(super) fn check(algorithm: Algorithm) -> Emitted<()> {
    match algorithm {
        Algorithm::Csum16
        | Algorithm::Xor16
        | Algorithm::Xor32
        | Algorithm::Crc16
        | Algorithm::CrcCcitt
        | Algorithm::Crc32
        | Algorithm::Identity => Ok(()),
        Algorithm::Crc8Custom
        | Algorithm::Crc16Custom
        | Algorithm::Crc32Custom
        | Algorithm::Crc64Custom => Err("a CRC whose parameters may be chosen".into()),
        Algorithm::Xxh64 | Algorithm::HashEx => Err(format!("a hash by {algorithm:?}")),
        Algorithm::Random => Err("a random number".into()),
    }
}

/// Parts of the input that belong to the same header and are present only if that header is valid. If there is no
/// header, the parts are always present.
type Run<'a> = (Option<HeaderId>, Vec<&'a Part>);

impl Emit<'_> {
    /// Assigns `base` + (the calculation's result modulo `size`) to `to`.
    pub(super) fn hash(
        &mut self,
        to: &Place,
        base: &Expr,
        calculation: CalculationId,
        size: &Expr,
    ) -> Emitted<()> {
        self.calculate(calculation)?;
        let kept = self.spill(SUM)?;
        let some = self.asm.label();
        self.word(size, 0, R1)?;
        self.asm.jump_if_imm(Jump::Ne, R1, 0, some);
        self.asm.mov_imm(R1, 1);
        self.asm.place(some);
        self.asm.load(Size::B8, R0, R10, kept);
        self.asm.alu(Alu::Mod, R0, R1);
        self.asm.store(Size::B8, R10, kept, R0);
        self.word(base, 0, R1)?;
        self.asm.load(Size::B8, R0, R10, kept);
        self.asm.alu(Alu::Add, R1, R0);
        self.asm.store(Size::B8, R10, kept, R1);
        self.assign_kept(to, kept)?;
        self.free_spill_slot();
        Ok(())
    }

    /// Assigns an unsigned 64-bit number from the eBPF stack.
    fn assign_kept(&mut self, to: &Place, kept: i16) -> Emitted<()> {
        let (header, offset) = match to {
            Place::Field(field) => return self.assign_kept_to(*field, kept),
            Place::RegisterCell { .. } => return Err("a register".into()),
            Place::Access { header, offset } => (header, *offset),
        };
        let found = self.header_of(header);
        let some = |emit: &mut Self, header: HeaderId| {
            let field = emit.ir.headers[header.index()].field_at(offset);
            emit.assign_kept_to(field, kept)
        };
        self.for_found(&found, R1, some, |_| {})
    }

    fn assign_kept_to(&mut self, field: FieldId, kept: i16) -> Emitted<()> {
        let declared = &self.ir.fields[field.index()];
        if declared.variable {
            return Err("a field of variable width".into());
        }
        if declared.bits == 0 || !self.needs.is_needed(field) {
            return Ok(());
        }
        self.asm.load(Size::B8, R1, R10, kept);
        self.store_field(field, R1, None);
        for word in 1..self.words(field) {
            let at = self.layout.field(field, word);
            self.asm.store_imm(Size::B8, SCRATCH, at, 0);
        }
        Ok(())
    }

    /// Computes a calculation over the packet's current state into [`SUM`].
    pub(super) fn calculate(&mut self, id: CalculationId) -> Emitted<()> {
        let ir = self.ir;
        let calculation = &ir.calculations[id.index()];
        check(calculation.algorithm)?;
        let is_sum = calculation.algorithm == Algorithm::Csum16;
        if is_sum && self.is_sum_of_fields(calculation)? {
            return self.internet_checksum(calculation);
        }
        let n_bytes = self.gather(calculation)?;
        match calculation.algorithm {
            Algorithm::Csum16 => {
                self.join_words(n_bytes, Size::B4, Alu::Add);
                self.fold();
            }
            Algorithm::Xor16 => self.join_words(n_bytes, Size::B2, Alu::Xor),
            Algorithm::Xor32 => self.join_words(n_bytes, Size::B4, Alu::Xor),
            Algorithm::Identity => self.first_bytes(),
            algorithm => self.crc(algorithm, n_bytes)?,
        }
        Ok(())
    }

    /// Assembles the input and stores its length in [`Word::Cursor`]. Returns the greatest length that the input can
    /// have.
    fn gather(&mut self, calculation: &Calculation) -> Emitted<u32> {
        let parts = self.runs(calculation)?;
        let mut runs: Vec<Run<'_>> = parts
            .iter()
            .map(|(header, parts)| (*header, parts.iter().collect()))
            .collect();
        let bits = |emit: &Self, run: &Run<'_>| {
            let bits = run.1.iter().map(|part| emit.part_bits(part));
            bits.sum::<u32>()
        };
        let n_whole = runs.len().saturating_sub(1);
        if runs[..n_whole].iter().any(|run| bits(self, run) % 8 != 0) {
            // The run of an invalid header is missing from the input. If that run does not fill whole bytes, later runs
            // are shifted by bits. So require that all headers are valid.
            self.all_valid(&runs)?;
            let all = runs.into_iter().flat_map(|(_, parts)| parts).collect();
            runs = vec![(None, all)];
        }
        let n_bytes: u32 = runs.iter().map(|run| bits(self, run).div_ceil(8)).sum();
        if n_bytes + PADDING_BYTES > self.layout.buffer_bytes() {
            return Err("a hash over too many bytes".into());
        }
        self.set_word(Word::Cursor, 0);
        for run in &runs {
            let absent = self.asm.label();
            if let Some(header) = run.0 {
                self.jump_if_valid(header, false, absent, R1);
            }
            let run_bytes = bits(self, run).div_ceil(8);
            self.buffer_end(n_bytes - run_bytes);
            self.pack(&run.1, TO, self.layout.buffer());
            self.load_word(R1, Word::Cursor);
            self.asm.alu_imm(Alu::Add, R1, run_bytes as i32);
            self.store_word(Word::Cursor, R1);
            self.asm.place(absent);
        }
        self.buffer_end(n_bytes);
        let buffer = self.layout.buffer();
        self.asm.store_imm(Size::B8, TO, buffer, 0);
        Ok(n_bytes)
    }

    /// Generates code that punts the packet if one of these headers is invalid, and records that such packets are left
    /// to the engine.
    fn all_valid(&mut self, runs: &[Run<'_>]) -> Emitted<()> {
        if self.kind == Kind::Copies {
            return Err("a hash over partial bytes of a header that may be invalid".into());
        }
        let info = self.action.and_then(|it| self.program.action_info(it));
        let place = info.map_or("a checksum".into(), |it| format!("action \"{}\"", it.name));
        let reason = "a hash over partial bytes, if one of its headers is invalid".into();
        self.leave(place, reason);
        for header in runs.iter().filter_map(|(header, _)| *header) {
            let punt = self.ends.punt;
            self.jump_if_valid(header, false, punt, R1);
        }
        Ok(())
    }

    /// Loads into [`TO`] the scratch memory's address plus the length of the input so far; the caller adds the buffer's
    /// offset. The code loads the length from memory, so the verifier knows no bound on the length until the code
    /// compares it.
    fn buffer_end(&mut self, n_bytes_max: u32) {
        let punt = self.ends.punt;
        self.load_word(TO, Word::Cursor);
        self.asm.jump_if_imm(Jump::Gt, TO, n_bytes_max as i32, punt);
        self.asm.alu(Alu::Add, TO, SCRATCH);
    }

    pub(super) fn part_bits(&self, part: &Part) -> u32 {
        match part {
            Part::Field(field) => self.ir.fields[field.index()].bits,
            Part::Constant(_, bits) => *bits,
        }
    }

    /// Writes parts one after the other, zero-padded to whole bytes. Overwrites all registers except the base, which
    /// must be `R4` or a register above `R5`.
    pub(super) fn pack(&mut self, parts: &[&Part], base: Reg, at: i16) {
        let total: u32 = parts.iter().map(|part| self.part_bits(part)).sum();
        for start in (0..total).step_by(64) {
            let end = (start + 64).min(total);
            let (mut begin, mut is_first) = (0, true);
            for part in parts {
                let bits = self.part_bits(part);
                let (from, to) = (start.max(begin), end.min(begin + bits));
                if from < to {
                    // `bits_of` counts bits from the part's last bit.
                    self.bits_of(part, begin + bits - to, to - from);
                    if is_first {
                        self.asm.mov(R1, R3);
                    } else {
                        self.asm.alu_imm(Alu::Lsh, R1, (to - from) as i32);
                        self.asm.alu(Alu::Or, R1, R3);
                    }
                    is_first = false;
                }
                begin += bits;
            }
            let n = end - start;
            let behind = n.next_multiple_of(8) - n;
            if behind > 0 {
                self.asm.alu_imm(Alu::Lsh, R1, behind as i32);
            }
            let place = (start / 8).wrapping_add_signed(at.into());
            self.store_bytes(base, place, n.div_ceil(8));
        }
    }

    /// Loads `n` bits of a part, at most 64, from bit `low` on into `R3`. Overwrites `R5`.
    fn bits_of(&mut self, part: &Part, low: u32, n: u32) {
        let (word, shift) = (low / 64, low % 64);
        self.part_word(part, word, R3);
        if shift > 0 {
            self.asm.alu_imm(Alu::Rsh, R3, shift as i32);
        }
        if shift + n > 64 {
            self.part_word(part, word + 1, R5);
            self.asm.alu_imm(Alu::Lsh, R5, 64 - shift as i32);
            self.asm.alu(Alu::Or, R3, R5);
        }
        self.wrap(R3, n, false);
    }

    fn part_word(&mut self, part: &Part, word: u32, to: Reg) {
        match part {
            Part::Field(field) => self.field_word(*field, word, to),
            Part::Constant(value, _) => self.asm.mov_imm(to, low_word(value, word)),
        }
    }

    /// Loops over the input in steps of `step` bytes. In `body`, `R3` is the position, and `R1` is the scratch memory's
    /// address plus `R3`.
    fn over_input(&mut self, n_bytes: u32, step: u32, body: impl FnOnce(&mut Self)) {
        let (again, done): (Label, Label) = (self.asm.label(), self.asm.label());
        self.load_word(R5, Word::Cursor);
        self.asm.mov_imm(R3, 0);
        self.asm.place(again);
        self.asm.jump_if(Jump::Ge, R3, R5, done);
        self.asm.jump_if_imm(Jump::Ge, R3, n_bytes as i32, done);
        self.asm.mov(R1, SCRATCH);
        self.asm.alu(Alu::Add, R1, R3);
        body(self);
        self.asm.alu_imm(Alu::Add, R3, step as i32);
        self.asm.jump(again);
        self.asm.place(done);
    }

    /// Joins the words of the input by `alu`. Bytes after the input are zero, so the last word may reach beyond the
    /// end.
    fn join_words(&mut self, n_bytes: u32, size: Size, alu: Alu) {
        let buffer = self.layout.buffer();
        self.asm.mov_imm(SUM, 0);
        self.over_input(n_bytes, size.bytes(), |emit| {
            emit.asm.load(size, R1, R1, buffer);
            emit.asm.to_be(R1, size);
            emit.asm.alu(alu, SUM, R1);
        });
    }

    /// Loads the input's first 8 bytes as a number, or all its bytes if it is shorter.
    fn first_bytes(&mut self) {
        let buffer = self.layout.buffer();
        let (whole, end) = (self.asm.label(), self.asm.label());
        self.asm.load(Size::B8, SUM, SCRATCH, buffer);
        self.asm.to_be(SUM, Size::B8);
        self.load_word(R1, Word::Cursor);
        self.asm.jump_if_imm(Jump::Ge, R1, 8, whole);
        let some = self.asm.label();
        self.asm.jump_if_imm(Jump::Ne, R1, 0, some);
        self.asm.mov_imm(SUM, 0);
        self.asm.jump(end);
        self.asm.place(some);
        self.asm.alu_imm(Alu::Lsh, R1, 3);
        self.asm.mov_imm(R3, 64);
        self.asm.alu(Alu::Sub, R3, R1);
        self.asm.alu_imm(Alu::And, R3, 63);
        self.asm.alu(Alu::Rsh, SUM, R3);
        self.asm.place(whole);
        self.asm.place(end);
    }

    fn crc(&mut self, algorithm: Algorithm, n_bytes: u32) -> Emitted<()> {
        let Crc {
            bits, parameters, ..
        } = algorithm.crc().ok_or("an unknown hash")?;
        let buffer = self.layout.buffer();
        let table = self.memory.crc_table(algorithm);
        self.heap(R4, table.ok_or("a CRC without its table")?);
        self.asm.mov_imm(SUM, parameters.initial);
        self.over_input(n_bytes, 1, |emit| {
            emit.asm.load(Size::B1, R1, R1, buffer);
            emit.asm.mov(R0, SUM);
            if !parameters.reflect_in {
                emit.asm.alu_imm(Alu::Rsh, R0, *bits as i32 - 8);
            }
            emit.asm.alu(Alu::Xor, R1, R0);
            emit.asm.alu_imm(Alu::And, R1, 0xff);
            emit.asm.alu_imm(Alu::Lsh, R1, 2);
            emit.asm.mov(R0, R4);
            emit.asm.alu(Alu::Add, R0, R1);
            emit.asm.load(Size::B4, R1, R0, 0);
            let towards = if parameters.reflect_in {
                Alu::Rsh
            } else {
                Alu::Lsh
            };
            emit.asm.alu_imm(towards, SUM, 8);
            emit.asm.alu(Alu::Xor, SUM, R1);
            if !parameters.reflect_in {
                emit.wrap(SUM, *bits, false);
            }
        });
        self.asm.mov_imm(R1, parameters.xor_out);
        self.asm.alu(Alu::Xor, SUM, R1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes a CRC as the generated code does.
    fn compute(algorithm: Algorithm, bytes: &[u8]) -> u64 {
        let crc = algorithm.crc().expect("a CRC");
        let table = crc_table(crc);
        let entry = |at: u64| {
            let word = &table.as_chunks::<4>().0[(at & 0xff) as usize];
            u64::from(u32::from_ne_bytes(*word))
        };
        let remainder = bytes
            .iter()
            .fold(crc.parameters.initial, |remainder, byte| {
                let byte = u64::from(*byte);
                if crc.parameters.reflect_in {
                    remainder >> 8 ^ entry(remainder ^ byte)
                } else {
                    let next = remainder << 8 ^ entry(remainder >> (crc.bits - 8) ^ byte);
                    next & (u64::MAX >> (64 - crc.bits))
                }
            });
        remainder ^ crc.parameters.xor_out
    }

    #[test]
    fn the_catalogue_s_check_values() {
        let checks = CRCS.map(|algorithm| compute(algorithm, b"123456789"));
        assert_eq!(checks, [0xbb3d, 0x29b1, 0xcbf4_3926]);
    }
}
