//! The input bytes of calculations over a packet.

use super::phv::Phv;
use crate::{
    bits::BitWriter,
    program::ir::{Calculation, CalculationInput, HeaderId, Ir},
};

/// Collects a calculation's input. Skips fields and headers that are invalid. The payload starts at
/// a whole byte after all fields, whatever its position in the list.
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

pub(crate) fn push_header(writer: &mut BitWriter, ir: &Ir, phv: &Phv, header: HeaderId) {
    for field in ir.headers[header.index()].field_ids() {
        let bits = phv.bits(ir, field);
        if bits > 0 {
            writer.push(phv.get(field), bits);
        }
    }
}
