//! Calculations over a packet: what they look at, in bytes.

use super::phv::Phv;
use crate::{
    bits::BitWriter,
    program::ir::{Calculation, CalculationInput, HeaderId, Ir},
};

/// What a calculation looks at. What belongs to an invalid header is left out; the payload begins
/// at a whole byte, behind everything else, wherever it is named.
pub(crate) fn input_bytes(
    ir: &Ir,
    phv: &Phv,
    payload: &[u8],
    calculation: &Calculation,
) -> Vec<u8> {
    let mut writer = BitWriter::with_capacity(64);
    let mut with_payload = false;
    for input in &calculation.input {
        match input {
            CalculationInput::Field(field) => {
                if phv.is_valid(ir.fields[field.index()].header) {
                    writer.push(phv.get(*field), phv.bits(ir, *field));
                }
            }
            CalculationInput::Header(header) => {
                if phv.is_valid(*header) {
                    push_header(&mut writer, ir, phv, *header);
                }
            }
            CalculationInput::Constant { value, bits } => writer.push(value, *bits),
            CalculationInput::Payload => with_payload = true,
        }
    }
    let mut bytes = writer.finish();
    if with_payload {
        bytes.extend_from_slice(payload);
    }
    bytes
}

/// Appends the fields of a header.
pub(crate) fn push_header(writer: &mut BitWriter, ir: &Ir, phv: &Phv, header: HeaderId) {
    for field in ir.headers[header.index()].field_ids() {
        let bits = phv.bits(ir, field);
        if bits > 0 {
            writer.push(phv.get(field), bits);
        }
    }
}
