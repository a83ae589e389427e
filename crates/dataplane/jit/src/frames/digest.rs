//! The digest that a packet requested.

use std::sync::Arc;

use dataplane::{
    Digest,
    engine::{
        Interpreted, State,
        ir::{Expr, Int, Ir},
    },
    interpret::{Carried, Phv, Requests as Asked},
};

use crate::{
    layout::Layout,
    vector::{Vector, words_of},
    wire,
};

pub(crate) fn digest(
    state: &mut State,
    layout: &Layout,
    vector: Vector,
    requested: dataplane::engine::ir::DigestId,
) -> Digest {
    let program = state.program().clone();
    let ir = program.ir();
    let list = &ir.digests[requested.index()];
    let mut phv = None;
    let members = list.fields.iter().map(|(expr, bits)| match expr {
        Expr::Field(field) => member(&vector.get(layout, *field), *bits),
        Expr::Const(value) => member(value, *bits),
        other => {
            let phv = phv.get_or_insert_with(|| {
                let mut phv = Phv::new(ir);
                vector.give_phv(layout, ir, &mut phv);
                phv
            });
            let (mut asked, mut packet_length) = (Asked::default(), 0);
            let pass = state.pass(Carried {
                phv,
                payload: &[],
                requests: &mut asked,
                packet_length: &mut packet_length,
                ingress_bytes: 0,
                args: Arc::default(),
            });
            member(&pass.number(other), *bits)
        }
    });
    let members = members.collect();
    Digest {
        name: list.name.clone(),
        members,
    }
}

/// The digests with members that the interpreter computes.
pub(crate) fn interpreted(ir: &Ir) -> impl Iterator<Item = Interpreted> {
    let is_other = |expr: &Expr| !matches!(expr, Expr::Field(_) | Expr::Const(_));
    let digests = ir.digests.iter();
    let with_others =
        digests.filter(move |digest| digest.fields.iter().any(|(expr, _)| is_other(expr)));
    with_others.map(|digest| Interpreted {
        place: format!("digest \"{}\"", digest.name),
        reason: "a member that is neither a field nor a constant".to_owned(),
    })
}

/// The bit pattern of a number as P4Runtime writes it: no leading zero byte, at least one byte.
fn member(value: &Int, bits: u32) -> Vec<u8> {
    let mut words: Vec<u64> = words_of(value, bits.div_ceil(64) as usize).collect();
    wire::wrap(&mut words, bits, false);
    let bytes = words.iter().rev().flat_map(|word| word.to_be_bytes());
    let mut bytes: Vec<u8> = bytes.skip_while(|byte| *byte == 0).collect();
    if bytes.is_empty() {
        bytes.push(0);
    }
    bytes
}
