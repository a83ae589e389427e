//! The deparser: valid headers to bytes, in the program's order.

use crate::{
    bits::BitWriter,
    checksum,
    control_flow::Pass,
    externs::hash,
    packet::Frame,
    trace::{self, TraceKind},
};

/// Updates the checksums and writes the headers in front of the payload.
pub(crate) fn deparse(pass: &mut Pass<'_>) -> Frame {
    checksum::update(pass);
    let ir = pass.ir;
    for primitive in &ir.deparser.primitives {
        pass.primitive(primitive);
    }
    let order = &ir.deparser.order;
    let phv = &*pass.phv;
    let valid = || order.iter().copied().filter(|header| phv.is_valid(*header));
    let len = valid().map(|header| phv.header_bytes(ir, header)).sum();
    let mut writer = BitWriter::with_capacity(len);
    for header in valid() {
        hash::push_header(&mut writer, ir, phv, header);
    }
    let frame = Frame {
        head: writer.finish(),
        payload: pass.payload.clone(),
    };
    pass.tracer.emit(|| TraceKind::Deparse {
        headers: valid()
            .map(|header| trace::header_values(ir, phv, header))
            .collect(),
        frame_len_bytes: frame.len(),
    });
    frame
}
