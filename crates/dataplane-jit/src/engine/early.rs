//! Frames whose ingress pass begins before their turn: parser and checksum verification, and the ingress
//! control's flow cache is asked for the packet's record ([`crate::flow`]). Nobody can see that, since
//! the parser neither leaves anything for the next packet nor finds anything but what control calls
//! set; where one of those has come in between, the pass begins again.

use super::{
    IngressInput, IngressOutcome, Nanos, Native, PacketHandle, State, taken_back,
    whole::plain_outcome,
};
use crate::{
    packets,
    passes::{GoOn, Halves, NOT_PLAIN, Plain},
};

/// Frames that have begun before their turn, at most: about as many as a record takes to come.
pub(super) const EARLY_PACKETS: usize = 4;

impl Native {
    /// The first half of [`Native::arrive`], before the packet's turn.
    #[inline]
    pub(super) fn begin_early(
        &mut self,
        state: &mut State,
        input: &IngressInput,
        (halves, arrived): (Halves, Nanos),
        handle: PacketHandle,
    ) {
        self.packets.current = handle;
        let context = &mut *self.context;
        let packet = self.packets.pool.packet_mut(handle);
        packet.ingress_bytes = input.ingress_bytes;
        packets::point(context, [&[], packet.payload()]);
        let block = packet.vector.as_mut_ptr();
        context.packets = (&raw mut *self.packets).cast();
        self.controls.attach(context, state);
        let port = input.ingress_port.0.into();
        // SAFETY: context and block are the packet's, the code is the program's.
        unsafe { (halves.begin_early)(&raw mut *self.context, block, port, arrived) };
        let context = &*self.context;
        let packet = self.packets.pool.packet_mut(handle);
        packet.consumed = usize::try_from(context.consumed).expect("a usize has 64 bits");
        packet.packet_length = context.packet_length;
        packet.begun = self.epoch;
    }

    /// The second half.
    #[inline]
    pub(super) fn go_on(
        &mut self,
        state: &mut State,
        go_on: GoOn,
        handle: PacketHandle,
    ) -> IngressOutcome {
        self.packets.current = handle;
        let context = &mut *self.context;
        let packet = self.packets.pool.packet_mut(handle);
        packet.begun = 0;
        packets::point(context, [&[], &packet.payload()[packet.consumed..]]);
        context.ingress_bytes = packet.ingress_bytes as u64;
        context.consumed = packet.consumed as u64;
        context.packet_length = packet.packet_length;
        context.failed = 0;
        let block = packet.vector.as_mut_ptr();
        context.packets = (&raw mut *self.packets).cast();
        self.controls.attach(context, state);
        // SAFETY: context and block are the packet's, the code is the program's.
        let came_to = unsafe { go_on(&raw mut *self.context, block) };
        let packet = self.packets.pool.packet_mut(handle);
        if came_to != NOT_PLAIN {
            packet.packet_length = self.context.packet_length;
            return plain_outcome(Plain(came_to));
        }
        let failed = taken_back(&self.context, packet);
        self.ingress_outcome(self.packets.pool.packet(handle), failed)
    }
}
