//! The packets of an engine. Functions that generated code calls get the packets through the context.
#![expect(
    unsafe_code,
    reason = "generated code hands over pointers to the context"
)]

use dataplane::engine::{PacketHandle, State};

use crate::{
    context::PassContext,
    layout::Layout,
    packet::{Packet, Pool},
};

/// The packets of an engine, and the handle of the current packet.
pub(crate) struct Packets {
    pub pool: Pool,
    /// The packet whose bytes the context points to. The pass may run on the header vector of a copy outside the pool.
    pub current: PacketHandle,
    pub layout: Layout,
}

/// The context, the engine's packets and the switch's state.
///
/// # Safety
/// The context is that of a running pass: its pointers are valid and nobody else uses what they
/// point to.
pub(crate) unsafe fn world<'a>(
    context: *mut PassContext,
) -> (&'a mut PassContext, &'a mut Packets, &'a mut State) {
    // SAFETY: the engine sets the context's pointers before it runs generated code, and touches
    // nothing behind them until that returns.
    unsafe {
        let context = &mut *context;
        let packets = &mut *context.packets.cast::<Packets>();
        let state = &mut *context.state.cast::<State>();
        (context, packets, state)
    }
}

/// Points the context to the bytes that the parser did not consume. If they are contiguous, they become the second
/// piece.
#[inline]
pub(crate) fn point_to_rest(context: &mut PassContext, packet: &Packet) {
    let pieces = match packet.rest() {
        [head, []] => [&[][..], head],
        pieces => pieces,
    };
    point(context, pieces);
}

/// Points the context to two pieces: of a whole frame, or of the bytes that the parser did not consume.
#[inline]
pub(crate) fn point(context: &mut PassContext, [head, payload]: [&[u8]; 2]) {
    context.head = head.as_ptr();
    context.head_len = head.len() as u64;
    context.payload = payload.as_ptr();
    context.payload_len = payload.len() as u64;
}

/// The pieces that a context points to.
///
/// # Safety
/// The context's pointers and lengths describe bytes that live, and that nobody writes, while the pieces are used.
pub(crate) unsafe fn pieces<'a>(context: &PassContext) -> [&'a [u8]; 2] {
    let piece = |start: *const u8, len: u64| match len {
        0 => &[][..],
        len => {
            let len = usize::try_from(len).expect("a usize has 64 bits");
            // SAFETY: the engine lets the context point to the current packet's bytes.
            unsafe { std::slice::from_raw_parts(start, len) }
        }
    };
    [
        piece(context.head, context.head_len),
        piece(context.payload, context.payload_len),
    ]
}
