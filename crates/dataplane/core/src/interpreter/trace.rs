//! Header and field values for traces.

use super::phv::Phv;
use crate::{
    program::ir::{FieldId, HeaderId, Ir},
    trace::{TraceHeader, TraceValue, named},
};

pub(crate) fn field_value(ir: &Ir, phv: &Phv, field: FieldId) -> TraceValue {
    named(
        &ir.fields[field.index()].name,
        phv.get(field),
        phv.bits(ir, field),
    )
    .hidden_if(ir.secrets.has_field(field))
}

/// Returns a header as a trace shows it, with the values of its fields if `wants_fields`.
pub(crate) fn header_values(
    ir: &Ir,
    phv: &Phv,
    header: HeaderId,
    wants_fields: bool,
) -> TraceHeader {
    let header = &ir.headers[header.index()];
    let widths = header.field_ids().map(|field| phv.bits(ir, field) as usize);
    let wanted = header.field_ids().filter(|_| wants_fields);
    let fields = wanted.map(|field| {
        let mut value = field_value(ir, phv, field);
        if let Some((_, own_name)) = value.name.rsplit_once('.') {
            value.name = own_name.into();
        }
        value
    });
    TraceHeader {
        name: header.name.as_str().into(),
        width_bits: widths.sum(),
        fields: fields.collect(),
    }
}
