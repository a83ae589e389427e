//! Runs several rounds of a packet in one call ([`Engine::rounds`]). In each round, the packet goes through ingress and
//! egress, requests a clone and recirculates. The context points to the same bytes after the headers in all rounds, and
//! a clone that is only transmitted uses the scratch packet ([`super::fan_out`]).
//!
//! [`Engine::rounds`]: dataplane::engine::Engine::rounds

use std::ptr;

use dataplane::{
    engine::{Engine, InstanceType, LoneClone, LoneClones, Rounds, RoundsEnd, RoundsInput},
    limits,
};

use super::{EgressInput, Frame, IngressInput, Native, PacketHandle, PayloadCall, PortId, State};
use crate::{
    context::Requests,
    frames::Measure,
    packets,
    passes::{ArriveHeaders, NOT_PARSED, Plain},
};

#[derive(Clone, Copy)]
pub(super) struct RoundCode {
    arrive_headers: ArriveHeaders,
    measure: Measure,
}

/// The pass, through ingress or egress, after which the rounds stopped.
enum Stopped {
    /// The last pass of the last round that the caller allows.
    Enough,
    /// Ingress, with its result.
    Ingress(u64),
    Egress(EgressInput),
    /// Egress of the packet's clone.
    Clone(EgressInput),
}

impl Native {
    /// The code of a round, if the packet can run rounds while its headers stay in its block (header vector).
    pub(super) fn may_go_rounds(&self, handle: PacketHandle) -> Option<RoundCode> {
        let packet = self.packets.pool.packet(handle);
        let is_long = self.headers_len + packet.rest_len() > limits::FRAME_BYTES_MAX;
        let may = packet.unwritten.is_some() && !is_long && self.may_use_scratch(packet);
        Some(RoundCode {
            arrive_headers: self.program.passes.arrive_headers.filter(|_| may)?,
            measure: self.frames.reparse?.measure,
        })
    }

    /// Runs the rounds of a packet for which [`Native::may_go_rounds`] returned the code.
    pub(super) fn go_rounds(
        &mut self,
        state: &mut State,
        input: &RoundsInput,
        handle: PacketHandle,
        code: RoundCode,
        clones: &mut dyn LoneClones,
    ) -> Rounds {
        let mut rounds = Rounds::none(input);
        let mut ingress = input.ingress;
        let now = state.now();
        // The loop makes the inputs in place. A move would load several fields with one instruction, and this load
        // would stall until the stores of all these fields have reached the cache.
        let way = |port, queue, instance_type, instance| EgressInput {
            port,
            queue,
            instance_type,
            instance,
            arrived: input.arrived,
            enqueued: now,
            enq_depth: 0,
            deq_depth: 0,
            is_deparsed: true,
        };
        self.attach(state, handle, true);
        let depart = self.program.passes.depart;
        let rest_len = self.packets.pool.packet(handle).rest_len();
        // SAFETY: the context points to the bytes that the parser did not consume, which stay where they are in all
        // rounds.
        let [_, payload] = unsafe { packets::pieces(&self.context) };
        let shared = Frame {
            head: &[],
            payload,
            payload_id: self.packets.pool.payload_id(handle),
        };
        let changes_payloads = self.changes_payloads;
        let stopped = loop {
            if rounds.n_rounds >= input.n_rounds_max {
                break Stopped::Enough;
            }
            let came_to = self.arrive_headers(code.arrive_headers, &ingress, handle);
            let plain = Plain(came_to);
            // `NOT_PLAIN` and `NOT_PARSED` also end the rounds here: their bits, read as a priority, name no queue.
            let Some(queue) = queue_of(plain.priority()) else {
                break Stopped::Ingress(came_to);
            };
            if changes_payloads {
                self.context.payload_call = PayloadCall::NONE;
            }
            let own = way(PortId(plain.port()), queue, InstanceType::Normal, None);
            let block = self.packets.pool.same_mut(handle).vector.as_mut_ptr();
            let context = &raw mut *self.context;
            let (instance_type, nowhere) = (own.instance_type as u64, ptr::null_mut());
            // SAFETY: context and block are the packet's, the code is the program's. As the output
            // pointer is null, no headers are written.
            unsafe { depart(context, block, &own, instance_type, nowhere) };
            let Some((lone, queue)) = self.lone_clone(state, handle, clones) else {
                break Stopped::Egress(own);
            };
            // SAFETY: context and block are the packet's, the code is the program's.
            let headers = unsafe { (code.measure)(&raw mut *self.context, block) };
            let frame_len = usize::try_from(headers).expect("a usize has 64 bits") + rest_len;
            ingress.ingress_bytes = frame_len;
            rounds.ingress_bytes = frame_len;
            self.keep_headers(handle, frame_len);
            let LoneClone { to, .. } = lone;
            let own = way(to.port, queue, InstanceType::EgressClone, Some(to.instance));
            let Some(written) = self.depart_scratch(&own) else {
                break Stopped::Clone(own);
            };
            let frame = self.scratch_frame(written, shared.payload_id);
            if changes_payloads {
                state.depart(&self.context.payload_call, to.port, frame, clones)
            } else {
                clones.leave(to.port, frame)
            }
            rounds.n_rounds += 1;
        };
        state.depart_held(shared, clones);
        rounds.end = self.end_rounds(state, &ingress, handle, stopped);
        rounds
    }

    /// Recirculates the packet with its headers in the block; `frame_len` is the length that its frame would have.
    #[inline]
    fn keep_headers(&mut self, handle: PacketHandle, frame_len: usize) {
        let packet = self.packets.pool.same_mut(handle);
        packet.unwritten = Some(frame_len);
        packet.kept_list = self.context.requests.recirculate;
        self.context.requests = Requests::NONE;
    }

    /// Completes the pass at which the rounds stopped, and returns its outcome.
    fn end_rounds(
        &mut self,
        state: &mut State,
        ingress: &IngressInput,
        handle: PacketHandle,
        stopped: Stopped,
    ) -> RoundsEnd {
        match stopped {
            Stopped::Enough => RoundsEnd::Waits,
            Stopped::Ingress(NOT_PARSED) => {
                self.become_frame(state, handle);
                RoundsEnd::Ingress(self.ingress(state, ingress, handle))
            }
            Stopped::Ingress(came_to) => {
                RoundsEnd::Ingress(self.ingress_outcome(state, handle, came_to))
            }
            Stopped::Egress(way) => {
                RoundsEnd::Egress(way.port, self.after_egress(state, &way, handle))
            }
            Stopped::Clone(way) => {
                let clone = self.become_packet(handle);
                RoundsEnd::Clone(self.after_egress(state, &way, clone))
            }
        }
    }

    /// Returns the packet's clone and the clone's queue, if the packet requested a clone and a recirculation and
    /// nothing else. Writes the clone's block.
    #[inline]
    fn lone_clone(
        &mut self,
        state: &State,
        handle: PacketHandle,
        clones: &mut dyn LoneClones,
    ) -> Option<(LoneClone, usize)> {
        let requests = &self.context.requests;
        let packet = self.packets.pool.packet(handle);
        let is_usual = requests.clone != 0
            && requests.recirculate != 0
            && requests.truncate_bytes == Requests::WHOLE
            && !self.context.payload_call.is_some()
            && self.context.failed == 0
            && self.egress_port(packet).0 != limits::DROP_PORT;
        if !is_usual {
            return None;
        }
        let lone = clones.clone_of(state, requests.clone_session)?;
        let (block, list) = (&mut self.scratch.block, requests.clone_list.into());
        let clone_block = self.program.passes.clone_block;
        // SAFETY: both arguments are blocks of the layout that the code is for.
        unsafe { clone_block(block.as_mut_ptr(), packet.vector.as_ptr(), list) };
        let queue = match lone.queue {
            0 => self.slots.priority.get(block),
            queue => queue.into(),
        };
        Some((lone, queue_of(queue)?))
    }
}

fn queue_of(number: u64) -> Option<usize> {
    let queue = usize::try_from(number).ok()?;
    (queue < limits::EGRESS_QUEUES_PER_PORT).then_some(queue)
}
