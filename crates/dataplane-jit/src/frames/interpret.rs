//! Constructs without native code, run by the interpreter's own: the packet is laid out as the
//! interpreter wants it, the construct runs, the packet is taken back.
#![expect(
    unsafe_code,
    reason = "generated code hands over pointers to the context and the packet's block"
)]

use std::sync::Arc;

use dataplane::{
    Digest,
    engine::{
        State,
        interpret::{Carried, Cursor, Pass, Phv, Requests as Asked},
        ir::{BoolExpr, Expr, Int, ParserOp, Primitive},
    },
};

use super::{convert, parser::cut_words};
use crate::{
    context::{PassContext, Requests},
    layout::Layout,
    packet::Packet,
    packets::{self, words, world},
    wire::Block,
};

/// The interpreter's requests.
fn asked(requests: &Requests) -> Asked {
    Asked {
        clone: requests.clone_request(),
        resubmit: Requests::list_of(requests.resubmit),
        recirculate: Requests::list_of(requests.recirculate),
        digest: requests.digest_request(),
        truncate_bytes: requests.truncation(),
    }
}

/// Ours.
fn requests(asked: &Asked) -> Requests {
    Requests {
        clone: asked.clone.is_some().into(),
        clone_session: asked.clone.map_or(0, |(session, _)| session),
        clone_list: asked.clone.map_or(0, |(_, list)| Requests::list_code(list)),
        digest: asked.digest.map_or(0, |digest| digest.0 + 1),
        resubmit: Requests::list_code(asked.resubmit),
        recirculate: Requests::list_code(asked.recirculate),
        truncate_bytes: asked
            .truncate_bytes
            .map_or(Requests::WHOLE, |bytes| bytes as u64),
    }
}

/// Lays the packet out, runs something of the interpreter, and takes the packet back where it may
/// have changed.
///
/// # Safety
/// The context is that of a running pass, the block that of its packet.
unsafe fn interpret<R>(
    context: *mut PassContext,
    block: *mut u64,
    is_changed: bool,
    run: impl FnOnce(&mut State, Carried<'_>) -> R,
) -> R {
    // SAFETY: as the caller says.
    let (context, packets, state) = unsafe { world(context) };
    let program = state.program().clone();
    let layout = &packets.layout;
    let mut block = Block {
        // SAFETY: as the caller says.
        words: unsafe { words(layout, block) },
        layout,
        ir: program.ir(),
    };
    let phv = packets.phv.get_or_insert_with(|| Phv::new(program.ir()));
    convert::to_phv(&block, phv);
    // SAFETY: the engine lets the context point to the packet's bytes.
    let [head, rest] = unsafe { packets::pieces(context) };
    let joined;
    let payload = match head.is_empty() {
        true => rest,
        false => {
            joined = [head, rest].concat();
            &joined
        }
    };
    let mut asked = asked(&context.requests);
    let result = run(
        state,
        Carried {
            phv: &mut *phv,
            payload,
            requests: &mut asked,
            packet_length: &mut context.packet_length,
            ingress_bytes: usize::try_from(context.ingress_bytes).unwrap_or(usize::MAX),
            args: Arc::default(),
        },
    );
    if is_changed {
        convert::from_phv(phv, &mut block);
        context.requests = requests(&asked);
    }
    result
}

/// Runs a primitive outside of an action.
pub(crate) unsafe extern "C" fn primitive(
    context: *mut PassContext,
    block: *mut u64,
    primitive: *const Primitive,
) {
    // SAFETY: called by generated code only, in a pass; the program outlives the code.
    unsafe {
        let primitive = &*primitive;
        interpret(context, block, true, |state, carried| {
            state.pass(carried).primitive(primitive)
        });
    }
}

/// Whether a condition holds.
pub(crate) unsafe extern "C" fn condition(
    context: *mut PassContext,
    block: *mut u64,
    condition: *const BoolExpr,
) -> u64 {
    // SAFETY: called by generated code only, in a pass; the program outlives the code.
    unsafe {
        let condition = &*condition;
        let holds = |state: &mut State, carried: Carried<'_>| state.pass(carried).truth(condition);
        interpret(context, block, false, holds).into()
    }
}

/// The low words of a number.
pub(crate) unsafe extern "C" fn number(
    context: *mut PassContext,
    block: *mut u64,
    expression: *const Expr,
    out: *mut u64,
    n_words: u64,
) {
    // SAFETY: called by generated code only, in a pass; the program outlives the code, and `out`
    // has so many words.
    unsafe {
        let expression = &*expression;
        let number =
            |state: &mut State, carried: Carried<'_>| state.pass(carried).number(expression);
        let number = interpret(context, block, false, number);
        let n_words = usize::try_from(n_words).unwrap_or(0);
        let out = std::slice::from_raw_parts_mut(out, n_words);
        out.copy_from_slice(&cut_words(&number, n_words));
    }
}

/// A number of bits as a word: one that is beyond every frame becomes one that is, too, and as
/// much a number of bytes or not.
pub(crate) unsafe extern "C" fn length(
    context: *mut PassContext,
    block: *mut u64,
    expression: *const Expr,
) -> i64 {
    // SAFETY: called by generated code only, in a pass; the program outlives the code.
    let number = unsafe {
        let expression = &*expression;
        let number =
            |state: &mut State, carried: Carried<'_>| state.pass(carried).number(expression);
        interpret(context, block, false, number)
    };
    if let Ok(number) = i64::try_from(&number) {
        return number;
    }
    match u64::try_from(&number) {
        Ok(number) => i64::MAX & !7 | i64::from(number.to_le_bytes()[0] & 7),
        Err(_) => -1,
    }
}

/// Runs an operation of the parser. Gives the position behind it, or the complement of the
/// parser's error.
pub(crate) unsafe extern "C" fn parser_operation(
    context: *mut PassContext,
    block: *mut u64,
    at: u64,
    operation: *const ParserOp,
) -> i64 {
    let position = usize::try_from(at).unwrap_or(usize::MAX);
    // SAFETY: called by generated code only, in a pass; the program outlives the code, the
    // context's pieces are the frame's.
    let result = unsafe {
        let frame = packets::pieces(&*context);
        let operation = &*operation;
        interpret(context, block, true, |state, carried| {
            let mut cursor = Cursor {
                frame,
                consumed: position,
            };
            let done = state.pass(carried).parser_operation(&mut cursor, operation);
            done.map(|()| cursor.consumed)
        })
    };
    match result {
        Ok(consumed) => i64::try_from(consumed).unwrap_or(i64::MAX),
        Err(code) => !i64::from(code),
    }
}

/// The digest that a packet asked for.
pub(crate) fn digest(state: &mut State, layout: &Layout, packet: &mut Packet) -> Digest {
    let program = state.program().clone();
    let ir = program.ir();
    let id = packet.requests.digest_request().unwrap_or_default();
    let list = &ir.digests[id.index()];
    let mut phv = Phv::new(ir);
    let words = &mut packet.vector;
    convert::to_phv(&Block { words, layout, ir }, &mut phv);
    let (mut asked, mut packet_length) = (Asked::default(), 0);
    let pass: Pass<'_> = state.pass(Carried {
        phv: &mut phv,
        payload: &[],
        requests: &mut asked,
        packet_length: &mut packet_length,
        ingress_bytes: 0,
        args: Arc::default(),
    });
    let fields = list.fields.iter();
    let members = fields.map(|(field, bits)| canonical(&pass.number(field), *bits));
    Digest {
        name: list.name.clone(),
        members: members.collect(),
    }
}

/// The bit pattern of a number as P4Runtime writes it: no leading zero byte, at least one byte.
fn canonical(number: &Int, bits: u32) -> Vec<u8> {
    let mut words = cut_words(number, bits.div_ceil(64) as usize);
    crate::wire::wrap(&mut words, bits, false);
    let bytes = words.iter().rev().flat_map(|word| word.to_be_bytes());
    let mut bytes: Vec<u8> = bytes.skip_while(|byte| *byte == 0).collect();
    if bytes.is_empty() {
        bytes.push(0);
    }
    bytes
}
