//! Generates code that verifies checksums after parsing and updates them before deparsing. Verification and update
//! compute a checksum over the fields' values in the packet's state (`layout.rs`).

use dataplane::engine::ir::{
    Algorithm, Calculation, CalculationInput, Checksum, FieldId, HeaderId, Int, range::Range,
};

use super::{
    emit::{Emit, Emitted},
    expression::low_word,
    layout::Word,
};
use crate::asm::{Alu, Jump, Label, Reg, reg::*};

/// The register that holds the sum while it is computed, or the result of a calculation that is not a sum.
pub(super) const SUM: Reg = R2;

/// A field or a constant in the input of a calculation.
pub(super) enum Part {
    Field(FieldId),
    Constant(Int, u32),
}

impl Emit<'_> {
    /// Generates code that verifies the checksums, and sets [`Word::ChecksumError`] if a checksum is wrong.
    pub(super) fn verify_checksums(&mut self) -> Emitted<()> {
        let ir = self.ir;
        for checksum in ir.checksums.iter().filter(|checksum| checksum.verify) {
            let field = &ir.fields[checksum.target.index()];
            self.asm.note(format!("verify {}", field.name));
            let right = self.asm.label();
            self.jump_if_valid(field.header, false, right, R1);
            self.guarded(checksum, right, |emit| {
                emit.calculate(checksum.calculation)?;
                emit.field_word(checksum.target, 0, R1);
                emit.asm.jump_if(Jump::Eq, R1, SUM, right);
                emit.set_word(Word::ChecksumError, 1);
                Ok(())
            })?;
            self.asm.place(right);
        }
        Ok(())
    }

    pub(super) fn update_checksums(&mut self) -> Emitted<()> {
        let ir = self.ir;
        for checksum in ir.checksums.iter().filter(|checksum| checksum.update) {
            let field = &ir.fields[checksum.target.index()];
            self.asm.note(format!("update {}", field.name));
            let unwanted = self.asm.label();
            self.guarded(checksum, unwanted, |emit| {
                emit.calculate(checksum.calculation)?;
                emit.store_result(checksum)
            })?;
            self.asm.place(unwanted);
        }
        Ok(())
    }

    fn store_result(&mut self, checksum: &Checksum) -> Emitted<()> {
        let calculation = &self.ir.calculations[checksum.calculation.index()];
        let is_sum = calculation.algorithm == Algorithm::Csum16;
        if self.words(checksum.target) > 1 {
            return Err("a checksum of more than 64 bits".into());
        }
        let range = is_sum.then(|| Range::field(16, false));
        self.store_field(checksum.target, SUM, range);
        Ok(())
    }

    fn guarded(
        &mut self,
        checksum: &Checksum,
        unwanted: Label,
        emit: impl FnOnce(&mut Self) -> Emitted<()>,
    ) -> Emitted<()> {
        let field = &self.ir.fields[checksum.target.index()].name;
        let place = format!("checksum {field}");
        if let Some(condition) = &checksum.condition {
            self.try_or_punt(place.clone(), |emit| {
                emit.jump_if(condition, false, unwanted, R1)
            })?;
        }
        self.try_or_punt(place, emit)
    }

    /// Whether each field keeps its position within the 16-bit words of the input, whichever headers are valid.
    pub(super) fn is_sum_of_fields(&self, calculation: &Calculation) -> Emitted<bool> {
        let runs = self.runs(calculation)?;
        let mut whole = runs.iter().rev().skip(1);
        Ok(whole.all(|(_, parts)| {
            let bits = parts.iter().map(|part| self.part_bits(part));
            bits.sum::<u32>() % 16 == 0
        }))
    }

    /// Computes the checksum of RFC 1071 into [`SUM`], if the calculation is [a sum of fields](Self::is_sum_of_fields).
    ///
    /// Adding 16-bit words with end-around carry is addition modulo 2^16 - 1. So the code adds a field of any width at
    /// once, shifted left to where the field's last bit stands in a 16-bit word. The sum is 0 only if all words are 0,
    /// just as if the words were added one by one.
    pub(super) fn internet_checksum(&mut self, calculation: &Calculation) -> Emitted<()> {
        self.asm.mov_imm(SUM, 0);
        for (header, parts) in self.runs(calculation)? {
            let absent = self.asm.label();
            if let Some(header) = header {
                self.jump_if_valid(header, false, absent, R1);
            }
            let mut at = 0;
            for part in &parts {
                at += self.part_bits(part);
                self.add_part(part, at);
            }
            self.asm.place(absent);
        }
        self.fold();
        Ok(())
    }

    /// Returns the input as runs. A run consists of consecutive parts that belong to one header, or to none (constants
    /// and metadata). A run with a header belongs to the input only if that header is valid.
    pub(super) fn runs(
        &self,
        calculation: &Calculation,
    ) -> Emitted<Vec<(Option<HeaderId>, Vec<Part>)>> {
        let mut runs: Vec<(Option<HeaderId>, Vec<Part>)> = Vec::new();
        let mut add = |header: Option<HeaderId>, part: Part| match runs.last_mut() {
            Some((last, parts)) if *last == header => parts.push(part),
            _ => runs.push((header, vec![part])),
        };
        let in_frame = |header: HeaderId| {
            let metadata = self.ir.headers[header.index()].metadata;
            (!metadata).then_some(header)
        };
        for input in &calculation.input {
            match input {
                CalculationInput::Field(field) if self.ir.fields[field.index()].variable => {
                    return Err("a field of variable width".into());
                }
                CalculationInput::Field(field) => {
                    let header = self.ir.fields[field.index()].header;
                    add(in_frame(header), Part::Field(*field));
                }
                CalculationInput::Header(header) => {
                    if self.ir.headers[header.index()].variable_field.is_some() {
                        return Err("a field of variable width".into());
                    }
                    for (field, _) in self.wire_fields(*header) {
                        add(in_frame(*header), Part::Field(field));
                    }
                }
                CalculationInput::Constant { value, bits } => {
                    add(None, Part::Constant(value.clone(), *bits));
                }
                CalculationInput::Payload => return Err("a checksum over the payload".into()),
            }
        }
        Ok(runs)
    }

    /// Adds a part to the sum; `end` is the bit position after the part's last bit.
    fn add_part(&mut self, part: &Part, end: u32) {
        let shift = (16 - end % 16) % 16;
        match part {
            Part::Constant(value, bits) => {
                for word in 0..bits.div_ceil(64) {
                    let word = low_word(value, word);
                    let sum = (word >> 32) + (word & 0xffff_ffff);
                    self.asm.mov_imm(R1, sum << shift);
                    self.asm.alu(Alu::Add, SUM, R1);
                }
            }
            Part::Field(field) => {
                let declared = &self.ir.fields[field.index()];
                let (bits, signed) = (declared.bits, declared.signed);
                for word in 0..self.words(*field) {
                    self.field_word(*field, word, R1);
                    let n = (bits - 64 * word).min(64);
                    if signed {
                        self.wrap(R1, n, false);
                    }
                    if n > 32 {
                        self.asm.mov(R3, R1);
                        self.asm.alu_imm(Alu::Rsh, R3, 32);
                        self.asm.mov32(R1, R1);
                        self.asm.alu(Alu::Add, R1, R3);
                    }
                    if shift > 0 {
                        self.asm.alu_imm(Alu::Lsh, R1, shift as i32);
                    }
                    self.asm.alu(Alu::Add, SUM, R1);
                }
            }
        }
    }

    /// Folds a sum of up to 64 bits into the checksum.
    pub(super) fn fold(&mut self) {
        self.asm.mov(R1, SUM);
        self.asm.alu_imm(Alu::Rsh, R1, 32);
        self.asm.mov32(SUM, SUM);
        self.asm.alu(Alu::Add, SUM, R1);
        for _ in 0..3 {
            self.asm.mov(R1, SUM);
            self.asm.alu_imm(Alu::Rsh, R1, 16);
            self.asm.alu_imm(Alu::And, SUM, 0xffff);
            self.asm.alu(Alu::Add, SUM, R1);
        }
        self.asm.alu_imm(Alu::Xor, SUM, 0xffff);
    }
}
