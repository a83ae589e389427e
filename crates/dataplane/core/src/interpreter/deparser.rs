//! The deparser: writes valid headers in the program's order.

use super::{calculation::push_header, checksum, control_flow::Pass, trace::header_values};
use crate::{bits::BitWriter, trace::TraceKind};

/// Updates checksums and returns the header bytes; reuses the buffer `head`.
pub(crate) fn deparse(pass: &mut Pass<'_>, head: Vec<u8>) -> Vec<u8> {
    checksum::update(pass);
    let ir = pass.ir;
    for primitive in &ir.deparser.primitives {
        pass.primitive(primitive);
    }
    let phv = &*pass.phv;
    let order = ir.deparser.order.iter().copied();
    let valid = order.filter(|header| phv.is_valid(*header));
    let mut writer = BitWriter::with_buffer(head);
    for header in valid.clone() {
        push_header(&mut writer, ir, phv, header);
    }
    let head = writer.finish();
    let wants_fields = pass.tracer.wants_fields();
    pass.tracer.emit(|| TraceKind::Deparse {
        headers: valid
            .map(|header| header_values(ir, phv, header, wants_fields))
            .collect(),
        frame_len_bytes: head.len() + pass.payload.len(),
    });
    head
}
