//! Headers and fields as traces show them.

use super::phv::Phv;
use crate::{
    program::ir::{FieldId, HeaderId, Ir},
    trace::{TraceHeader, TraceValue, named},
};

/// A field's value.
pub(crate) fn field_value(ir: &Ir, phv: &Phv, field: FieldId) -> TraceValue {
    named(
        &ir.fields[field.index()].name,
        phv.get(field),
        phv.bits(ir, field),
    )
    .hidden_if(ir.secrets.has_field(field))
}

/// A header with its fields' values.
pub(crate) fn header_values(ir: &Ir, phv: &Phv, header: HeaderId) -> TraceHeader {
    let header = &ir.headers[header.index()];
    let fields = header.field_ids().map(|field| {
        let mut value = field_value(ir, phv, field);
        if let Some((_, own_name)) = value.name.rsplit_once('.') {
            value.name = own_name.to_owned();
        }
        value
    });
    TraceHeader {
        name: header.name.clone(),
        fields: fields.collect(),
    }
}
