//! Meters: the two-rate three-colour marker of RFC 2698 with buckets that all processors share ([`MeterLayout`]).
//!
//! The code implements [`dataplane::offload::Bucket`] with a compare-and-exchange of the bucket's word. If every
//! attempt fails because other processors change the word first, the code adds the packet's tokens to the word without
//! a comparison. The packet then keeps the colour that follows from the last state that the code has read. After such
//! an addition the bucket may have given more tokens than it had. It then owes these tokens, so that over time it gives
//! no more than its rate.

use dataplane::{
    MeterId, MeterUnit,
    color::{GREEN, RED, YELLOW},
    engine::ir::{DirectMeter, Expr, FieldId, MeterKind, Place, range::Range},
};

use super::{
    emit::{BODY, Emit, Emitted, Kind, SCRATCH},
    layout::Word,
};
use crate::{
    asm::{Alu, Jump, Label, Reg, Size, reg::*},
    image::{ACTION_PUNT, Body, MeterLayout},
};

/// How often the code tries to exchange a bucket's word.
const ATTEMPTS: u32 = 4;

const MICROS_PER_SECOND: i32 = 1_000_000;

/// The register that holds the address of the meter cell's slot.
const CELL: Reg = R2;

/// The width of a colour in bits.
const COLOR_BITS: u32 = 2;

impl Emit<'_> {
    /// Generates the code of `execute_meter`. An index beyond the end of the array leaves the destination unchanged.
    pub(super) fn execute_meter(
        &mut self,
        to: &Place,
        meter: MeterId,
        index: &Expr,
    ) -> Emitted<()> {
        let Place::Field(field) = to else {
            return Err("a meter whose colour goes to an element of a stack".into());
        };
        let kind = self.ir.meters[meter.index()].kind;
        let memory = self.memory;
        let layout = memory.meters[meter.index()].as_ref();
        let layout = layout.ok_or("a meter with too many cells")?;
        let beyond = self.asm.label();
        self.index(index, R1)?;
        self.asm
            .jump_if_imm(Jump::Ge, R1, layout.cells.body.n.cast_signed(), beyond);
        self.meter(layout, kind)?;
        self.store_color(*field)?;
        self.asm.place(beyond);
        Ok(())
    }

    /// Runs the meter of the entry in [`BODY`], if the table was hit.
    pub(super) fn direct_meter(
        &mut self,
        layout: &MeterLayout,
        table: &DirectMeter,
    ) -> Emitted<()> {
        let missed = self.asm.label();
        self.asm.jump_if_imm(Jump::Eq, BODY, 0, missed);
        self.asm.mov(R1, BODY);
        self.meter(layout, table.kind)?;
        self.store_color(table.result)?;
        self.asm.place(missed);
        Ok(())
    }

    /// Stores the colour, which is in `R0`, into a field.
    fn store_color(&mut self, field: FieldId) -> Emitted<()> {
        let declared = &self.ir.fields[field.index()];
        if declared.variable || declared.bits > 64 {
            return Err("a meter whose colour goes to a wide field".into());
        }
        self.asm.mov(R1, R0);
        self.store_field(field, R1, Some(Range::field(COLOR_BITS, false)));
        Ok(())
    }

    /// Colours the packet by the cell whose number is in `R1`, and records in the journal that the colour is to be
    /// counted. The number must be below the number of cells. Puts the colour into `R0`.
    fn meter(&mut self, layout: &MeterLayout, kind: MeterKind) -> Emitted<()> {
        // With some rates a packet must be punted, and copies cannot be punted.
        if self.kind == Kind::Copies {
            return Err("a meter for copies".into());
        }
        let journal = self.journal_entry(layout.counters)?;
        let number = self.spill(R1)?;
        let [green, yellow, red, end] = [(); 4].map(|()| self.asm.label());
        let body = layout.cells.body;
        self.asm.alu_imm(Alu::Mul, R1, body.stride.cast_signed());
        self.heap(CELL, body.first);
        self.asm.alu(Alu::Add, CELL, R1);
        self.slot_that_holds(CELL, &body, green);
        self.asm.load(Size::B4, R1, CELL, Body::ACTION as i16);
        let (unset, punt) = (MeterLayout::GREEN, self.ends.punt);
        self.asm
            .jump32_if_imm(Jump::Eq, R1, unset.cast_signed(), green);
        self.asm
            .jump32_if_imm(Jump::Eq, R1, ACTION_PUNT.cast_signed(), punt);
        if kind.rates > 1 {
            self.pay(MeterLayout::PEAK, kind.unit, red);
        }
        self.pay(MeterLayout::COMMITTED, kind.unit, yellow);
        for (color, label) in [(GREEN, green), (YELLOW, yellow), (RED, red)] {
            self.asm.place(label);
            self.asm.mov_imm(R0, color.into());
            self.asm.jump(end);
        }
        self.asm.place(end);
        self.asm.load(Size::B8, R1, R10, number);
        self.free_spill_slot();
        self.asm
            .alu_imm(Alu::Mul, R1, MeterLayout::N_COLORS.cast_signed());
        self.asm.alu(Alu::Add, R1, R0);
        self.asm.alu_imm(Alu::Add, R1, 1);
        self.asm.store(Size::B4, SCRATCH, journal, R1);
        Ok(())
    }

    /// Takes the packet's tokens from the bucket at this offset of the slot in [`CELL`]. Jumps to `refused` if the
    /// bucket has too few tokens. Overwrites all other registers up to `R5`.
    fn pay(&mut self, bucket: u32, unit: MeterUnit, refused: Label) {
        let at = |word: u32| (bucket + word) as i16;
        let gone = at(MeterLayout::GONE);
        // `R3` becomes the number of tokens that the bucket's rate has yielded since the clock's start, and `R1` the
        // number at which the bucket overflows.
        self.load_word(R3, Word::Arrival);
        self.asm.alu_imm(Alu::Div, R3, 1_000);
        self.asm.mov(R4, R3);
        self.asm.alu_imm(Alu::Div, R3, MICROS_PER_SECOND);
        self.asm.alu_imm(Alu::Mod, R4, MICROS_PER_SECOND);
        self.asm.load(Size::B8, R1, CELL, at(MeterLayout::RATE));
        self.asm.alu(Alu::Mul, R3, R1);
        self.asm.alu(Alu::Mul, R4, R1);
        self.asm.alu_imm(Alu::Div, R4, MICROS_PER_SECOND);
        self.asm.alu(Alu::Add, R3, R4);
        self.asm.load(Size::B8, R4, CELL, at(MeterLayout::BURST));
        self.asm.mov(R1, R3);
        self.asm.alu(Alu::Sub, R1, R4);
        let paid = self.asm.label();
        for _ in 0..ATTEMPTS {
            let overflows = self.asm.label();
            self.asm.load(Size::B8, R0, CELL, gone);
            self.asm.mov(R4, R1);
            self.asm.alu(Alu::Sub, R4, R0);
            self.asm.jump_if_imm(Jump::Sgt, R4, 0, overflows);
            self.asm.mov_imm(R4, 0);
            self.asm.place(overflows);
            self.asm.alu(Alu::Add, R4, R0);
            self.cost(R5, unit);
            self.asm.alu(Alu::Add, R4, R5);
            self.asm.alu(Alu::Sub, R3, R4);
            self.asm.jump_if_imm(Jump::Slt, R3, 0, refused);
            self.asm.alu(Alu::Add, R3, R4);
            self.asm.mov(R5, R0);
            self.asm.compare_exchange(CELL, gone, R4);
            self.asm.jump_if(Jump::Eq, R0, R5, paid);
        }
        self.cost(R5, unit);
        self.asm.fetch_add(CELL, gone, R5);
        self.asm.place(paid);
    }

    /// Loads the tokens that the packet costs.
    fn cost(&mut self, to: Reg, unit: MeterUnit) {
        match unit {
            MeterUnit::Packets => self.asm.mov_imm(to, 1),
            MeterUnit::Bytes => self.load_word(to, Word::IngressBytes),
        }
    }
}
