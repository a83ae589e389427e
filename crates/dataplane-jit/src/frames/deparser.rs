//! The deparser as code: each header that is valid is put together in words of eight bytes and
//! stored behind the one before.

use cranelift_codegen::ir::{BlockArg, InstBuilder, Value, types};
use dataplane::engine::ir::HeaderId;

use super::{
    Emit,
    bits::{self, Part, iconst},
    parser::{UNROLLED_WORDS_MAX, imm, trusted},
};
use crate::packets;

/// Writes the deparser's body: the valid headers to `out`, which has room for all of them and the
/// pool's slack. Gives the number of bytes.
pub(crate) fn emit<'f>(e: &mut impl Emit<'f>, out: Value) -> Value {
    let ir = e.ir();
    for primitive in &ir.deparser.primitives {
        e.primitive(primitive);
    }
    let mut end = out;
    for header in &ir.deparser.order {
        end = header_at(e, *header, end);
    }
    e.b().ins().isub(end, out)
}

/// Writes a header if it is valid; gives where the next one goes.
fn header_at<'f>(e: &mut impl Emit<'f>, header: HeaderId, out: Value) -> Value {
    let (valid, block) = (e.layout().valid(header), e.block());
    let b = e.b();
    let is_valid = b
        .ins()
        .load(types::I8, trusted(), block, imm(valid as usize));
    let (write, next) = (b.create_block(), b.create_block());
    let end = b.append_block_param(next, types::I64);
    let unchanged = [BlockArg::Value(out)];
    b.ins()
        .brif(is_valid, write, &[] as &[BlockArg], next, &unchanged);
    b.switch_to_block(write);
    let after = fields(e, header, out);
    let b = e.b();
    b.ins().jump(next, &[BlockArg::Value(after)]);
    b.switch_to_block(next);
    end
}

fn fields<'f>(e: &mut impl Emit<'f>, header: HeaderId, out: Value) -> Value {
    let ir = e.ir();
    let declared = &ir.headers[header.index()];
    let area = e.layout().header(ir, header);
    if area.len() > (UNROLLED_WORDS_MAX * 8) as usize || declared.variable_field.is_some() {
        let (context, block) = (e.context(), e.block());
        let number = iconst(e.b(), header.0.into());
        let arguments = [context, block, number, out];
        let written = e.call(
            packets::write_header as *const () as usize,
            &arguments,
            true,
        );
        return match written {
            Some(bytes) => e.b().ins().iadd(out, bytes),
            None => out,
        };
    }
    let parts: Vec<Part> = declared
        .field_ids()
        .filter(|field| ir.fields[field.index()].bits > 0)
        .map(|field| super::checksum::field_part(e, field))
        .collect();
    let words = bits::join(e.b(), &parts);
    bits::store(e.b(), out, &words);
    bits::add_const(e.b(), out, u64::from(declared.fixed_bits / 8))
}
