//! Checksum verification and update as code.

use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, Value, condcodes::IntCC, types};
use dataplane::engine::ir::{Checksum, FieldId, range::Range};

use super::{
    calculation::{self, Kept, calculate},
    incremental::Sums,
};
use crate::compile::Emit;

fn place(e: &mut Emit<'_, '_, '_>, checksum: &Checksum) {
    let name = &e.ir().fields[checksum.target.index()].name;
    e.place = format!("checksum of \"{name}\"");
}

/// Verifies the checksums. Returns a word: 1 if all checksums are right, else 0.
pub(crate) fn emit_verification(e: &mut Emit<'_, '_, '_>) -> Value {
    let mut all_right = e.constant(1);
    let ir = e.ir();
    let sums = Sums::of(ir, e.unit.options);
    for (position, checksum) in ir.checksums.iter().enumerate() {
        if !checksum.verify {
            continue;
        }
        place(e, checksum);
        let number = sums.kept_by(position);
        if let Some(number) = number {
            calculation::put_nothing(e, number);
        }
        let is_valid = e.valid(ir.fields[checksum.target.index()].header);
        let [verify, next] = e.blocks();
        let result = e.b.append_block_param(next, types::I64);
        let before = [BlockArg::Value(all_right)];
        e.b.ins()
            .brif(is_valid, verify, &[] as &[BlockArg], next, &before);
        e.begin_inner(verify);
        guard(e, checksum, next, &before);
        let changes = |field: FieldId| sums.is_changing(field);
        let kept = number.map_or(Kept::Nothing, |number| Kept::Put(number, &changes));
        let computed = calculate(e, checksum.calculation, kept);
        let found = e.field_word(checksum.target, 0);
        let is_right = e.b.ins().icmp(IntCC::Equal, found, computed);
        let is_right = e.b.ins().uextend(types::I64, is_right);
        let both = e.b.ins().band(all_right, is_right);
        e.b.ins().jump(next, &[BlockArg::Value(both)]);
        e.begin(next);
        all_right = result;
    }
    all_right
}

pub(crate) fn emit_update(e: &mut Emit<'_, '_, '_>) {
    let ir = e.ir();
    let sums = Sums::of(ir, e.unit.options);
    for (position, checksum) in ir.checksums.iter().enumerate() {
        if !checksum.update {
            continue;
        }
        place(e, checksum);
        let next = e.b.create_block();
        guard(e, checksum, next, &[]);
        let changes = |field: FieldId| sums.is_changing(field);
        let number = sums.used_by(position);
        let kept = number.map_or(Kept::Nothing, |number| Kept::Use(number, &changes));
        let computed = calculate(e, checksum.calculation, kept);
        e.put_field(checksum.target, vec![computed], &Range::field(64, false));
        e.jump(next);
        e.begin(next);
    }
}

/// Jumps to `otherwise` if the checksum's condition does not hold.
fn guard(e: &mut Emit<'_, '_, '_>, checksum: &Checksum, otherwise: Block, arguments: &[BlockArg]) {
    let Some(condition) = &checksum.condition else {
        return;
    };
    let holds = e.condition(condition);
    let wanted = e.b.create_block();
    e.b.ins()
        .brif(holds, wanted, &[] as &[BlockArg], otherwise, arguments);
    e.begin_inner(wanted);
}
