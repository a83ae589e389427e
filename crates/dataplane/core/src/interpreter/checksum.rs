//! Checksums: verified after parsing, updated before deparsing.

use super::control_flow::Pass;
use crate::{
    program::ir::Checksum,
    trace::TraceKind,
    value::{self, Int},
};

fn is_wanted(pass: &Pass<'_>, checksum: &Checksum) -> bool {
    let condition = checksum.condition.as_ref();
    condition.is_none_or(|condition| pass.scope().truth(condition))
}

/// Whether every checksum to verify is right; a checksum in an invalid header counts as right.
pub(crate) fn verify(pass: &mut Pass<'_>) -> bool {
    let ir = pass.ir;
    let mut all_right = true;
    for checksum in ir.checksums.iter().filter(|checksum| checksum.verify) {
        let field = &ir.fields[checksum.target.index()];
        if !pass.phv.is_valid(field.header) || !is_wanted(pass, checksum) {
            continue;
        }
        let computed = pass.calculate(checksum.calculation);
        let found = value::low_u64(pass.phv.get(checksum.target));
        all_right &= found == computed;
        pass.tracer.emit(|| TraceKind::ChecksumVerified {
            field: field.name.as_str().into(),
            is_right: found == computed,
            values: (!ir.secrets.are_in_checksum(ir, checksum)).then_some((found, computed)),
        });
    }
    all_right
}

pub(crate) fn update(pass: &mut Pass<'_>) {
    let ir = pass.ir;
    for checksum in ir.checksums.iter().filter(|checksum| checksum.update) {
        if !is_wanted(pass, checksum) {
            continue;
        }
        let computed = pass.calculate(checksum.calculation);
        pass.phv.set(ir, checksum.target, Int::from(computed));
        pass.tracer.emit(|| TraceKind::ChecksumUpdated {
            field: ir.fields[checksum.target.index()].name.as_str().into(),
            computed: (!ir.secrets.are_in_checksum(ir, checksum)).then_some(computed),
        });
    }
}
