//! Passes that are one call of generated code ([`crate::passes`]): what the context is told before it
//! and taken from it afterwards.

use super::{
    EgressInput, IngressInput, IngressOutcome, IngressVerdict, Nanos, Native, PacketHandle, PortId,
    State, at_egress, taken_back,
};
use crate::{
    packets::{self, Packets},
    passes::{Arrive, Depart, NOT_PLAIN, NOT_WRITTEN, Plain},
};

/// The packet goes to one port, and has asked for nothing: its requests are as they were.
#[inline]
pub(super) fn plain_outcome(plain: Plain) -> IngressOutcome {
    IngressOutcome {
        verdict: IngressVerdict::Unicast(PortId(plain.port())),
        clone_session: None,
        has_digest: false,
        priority: plain.priority(),
    }
}

impl Native {
    /// A frame as it came, from its metadata to the end of the ingress control.
    #[inline]
    pub(super) fn arrive(
        &mut self,
        state: &mut State,
        input: &IngressInput,
        (arrive, arrived): (Arrive, Nanos),
        handle: PacketHandle,
    ) -> IngressOutcome {
        self.packets.current = handle;
        let context = &mut *self.context;
        let packet = self.packets.pool.packet_mut(handle);
        packet.ingress_bytes = input.ingress_bytes;
        context.ingress_bytes = input.ingress_bytes as u64;
        packets::point(context, [&[], packet.payload()]);
        let block = packet.vector.as_mut_ptr();
        context.packets = (&raw mut *self.packets).cast();
        self.controls.attach(context, state);
        let port = input.ingress_port.0.into();
        // SAFETY: context and block are the packet's, the code is the program's.
        let came_to = unsafe { arrive(&raw mut *self.context, block, port, arrived) };
        let context = &*self.context;
        let packet = self.packets.pool.packet_mut(handle);
        packet.consumed = usize::try_from(context.consumed).expect("a usize has 64 bits");
        if came_to != NOT_PLAIN {
            packet.packet_length = context.packet_length;
            return plain_outcome(Plain(came_to));
        }
        let failed = taken_back(context, packet);
        self.ingress_outcome(self.packets.pool.packet(handle), failed)
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
        let Packets { pool, current, .. } = &mut *self.packets;
        *current = handle;
        let context = &mut *self.context;
        let (packet, scratch) = pool.with_scratch(handle);
        let mut out = std::ptr::null_mut();
        if input.is_deparsed && !self.slots.has_variable {
            out = packet.deparse_into(scratch, self.headers_len);
        }
        packets::point_to_rest(context, packet);
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
        let written = usize::try_from(written).expect("a length");
        assert!(
            written <= self.headers_len,
            "the deparser wrote {written} bytes"
        );
        let (packet, scratch) = self.packets.pool.with_scratch(handle);
        packet.deparsed(scratch, written);
        Some(packet.frame_len())
    }
}
