//! Passes that are one call of generated code ([`crate::passes`]): what the context is told before it
//! and taken from it afterwards.

use super::{DropReason, EgressInput, IngressInput, Nanos, Native, PacketHandle, State, at_egress};
use crate::{
    packets,
    passes::{Arrive, Depart, NOT_WRITTEN},
};

impl Native {
    /// A frame as it came, from its metadata to the end of the ingress control; the reason why that
    /// gave up the packet, if it did.
    #[inline]
    pub(super) fn arrive(
        &mut self,
        state: &mut State,
        input: &IngressInput,
        (arrive, arrived): (Arrive, Nanos),
        handle: PacketHandle,
    ) -> Option<DropReason> {
        self.packets.current = handle;
        let context = &mut *self.context;
        let packet = self.packets.pool.packet_mut(handle);
        packet.ingress_bytes = input.ingress_bytes;
        context.ingress_bytes = input.ingress_bytes as u64;
        packets::point(context, [&[], packet.payload()]);
        context.packets = (&raw mut *self.packets).cast();
        self.controls.attach(context, state);
        let port = input.ingress_port.0.into();
        let block = self.packets.pool.packet_mut(handle).vector.as_mut_ptr();
        // SAFETY: context and block are the packet's, the code is the program's.
        unsafe { arrive(&raw mut *self.context, block, port, arrived) };
        let consumed = self.context.consumed;
        self.packets.pool.packet_mut(handle).consumed =
            usize::try_from(consumed).unwrap_or(usize::MAX);
        self.finish(handle)
    }

    /// A packet's way out, from the metadata of egress on: the length of its frame if that stands
    /// there now. Otherwise the egress control has run, and the rest is to be done.
    #[inline]
    pub(super) fn depart(
        &mut self,
        state: &mut State,
        input: &EgressInput,
        depart: Depart,
        handle: PacketHandle,
    ) -> Option<usize> {
        let packets = &mut *self.packets;
        packets.current = handle;
        let context = &mut *self.context;
        let mut out = std::ptr::null_mut();
        if input.is_deparsed && !self.slots.has_variable {
            out = packets.pool.deparse_into(handle, self.headers_len);
        }
        packets.point_to_rest(context, handle);
        let packet = packets.pool.packet_mut(handle);
        context.requests = at_egress(&packet.requests);
        context.packet_length = packet.packet_length;
        context.ingress_bytes = packet.ingress_bytes as u64;
        context.failed = 0;
        if let Some(instance) = input.instance {
            let egress_rid = &self.slots.egress_rid;
            egress_rid.set(&mut packet.vector, instance.into());
        }
        let block = packet.vector.as_mut_ptr();
        context.packets = (&raw mut *self.packets).cast();
        self.controls.attach(context, state);
        let instance_type = input.instance_type as u64;
        // SAFETY: context and block are the packet's, the code is the program's, and where `out` is
        // something it has room for every header and the slack.
        let written = unsafe { depart(&raw mut *self.context, block, input, instance_type, out) };
        if written == NOT_WRITTEN {
            return None;
        }
        let written = usize::try_from(written).unwrap_or(self.headers_len);
        let pool = &mut self.packets.pool;
        pool.deparsed(handle, written.min(self.headers_len));
        Some(pool.packet(handle).frame_len())
    }
}
