//! The rounds of a packet that recirculates and leaves a clone each time, in one call
//! ([`Engine::rounds`]): what the context points to is the same in all of them, and a clone that is
//! only transmitted goes by the scratch packet ([`super::fan_out`]).
//!
//! [`Engine::rounds`]: dataplane::engine::Engine::rounds

use std::{mem, ptr};

use dataplane::{
    Nanos,
    engine::{Engine, InstanceType, LoneClone, LoneClones, Rounds, RoundsEnd, RoundsInput},
    limits,
};

use super::{
    EgressInput, Frame, IngressInput, IngressOutcome, Native, PacketHandle, PayloadCall, PortId,
    State,
};
use crate::{
    context::Requests,
    frames::ReparseCode,
    packets,
    passes::{HEADERS, NOT_PARSED, Plain},
};

/// What a packet that recirculates has besides the headers in its block.
#[derive(Clone, Copy)]
struct Kept {
    /// The time of all rounds.
    now: Nanos,
    /// When the root frame came.
    arrived: Nanos,
    /// The code of the field list that it keeps.
    list: u32,
    /// The length of the frame that it would be.
    frame_len: usize,
}

/// What is known of a clone that comes to egress behind the packet's own pass.
#[inline(always)]
fn way_of_clone(way: EgressInput, lone: LoneClone, queue: usize) -> EgressInput {
    EgressInput {
        port: lone.to.port,
        queue,
        instance_type: InstanceType::EgressClone,
        instance: Some(lone.to.instance),
        ..way
    }
}

impl Native {
    /// The code for it, if a packet can go rounds without its bytes.
    pub(super) fn may_go_rounds(&self, handle: PacketHandle) -> Option<ReparseCode> {
        let packet = self.packets.pool.packet(handle);
        let is_long = self.headers_len + packet.rest_len() > limits::FRAME_BYTES_MAX;
        let may = packet.unwritten.is_some() && !is_long && self.may_use_scratch(packet);
        self.frames.reparse.filter(|_| may)
    }

    /// The rounds of a packet that can go some.
    pub(super) fn go_rounds(
        &mut self,
        state: &mut State,
        input: &RoundsInput,
        (handle, reparse): (PacketHandle, ReparseCode),
        clones: &mut dyn LoneClones,
    ) -> Rounds {
        let mut rounds = Rounds::none(input);
        let mut ingress = input.ingress;
        let now = state.now();
        self.attach(state, handle, true);
        let depart = self.program.passes.depart;
        let packet = self.packets.pool.packet(handle);
        let rest_len = packet.rest_len();
        let mut kept = Kept {
            now,
            arrived: input.arrived,
            list: packet.kept_list,
            frame_len: packet.unwritten.unwrap_or_default(),
        };
        // SAFETY: the context points to the packet's rest, which stays where it is in all rounds.
        let [_, payload] = unsafe { packets::pieces(&self.context) };
        let shared = Frame {
            head: &[],
            payload,
            payload_id: self.packets.pool.payload_id(handle),
        };
        let changes_payloads = self.changes_payloads;
        while rounds.n_rounds < input.n_rounds_max {
            let way = match self.go_in(state, &ingress, handle, kept) {
                Ok(way) => way,
                Err(outcome) => {
                    state.depart_held(shared, clones);
                    rounds.end = RoundsEnd::Ingress(outcome);
                    return rounds;
                }
            };
            if changes_payloads {
                self.context.payload_call = PayloadCall::NONE;
            }
            let block = self.packets.pool.packet_mut(handle).vector.as_mut_ptr();
            let context = &raw mut *self.context;
            let (instance_type, nowhere) = (way.instance_type as u64, ptr::null_mut());
            // SAFETY: context and block are the packet's, the code is the program's, and nothing is
            // written where there is no room.
            unsafe { depart(context, block, &way, instance_type, nowhere) };
            let lone = self.lone_clone(state, handle, clones);
            let Some((lone, queue)) = lone else {
                state.depart_held(shared, clones);
                let outcome = self.after_egress(state, &way, handle);
                rounds.end = RoundsEnd::Egress(way.port, outcome);
                return rounds;
            };
            kept.list = self.context.requests.recirculate;
            // SAFETY: context and block are the packet's, the code is the program's.
            let headers = unsafe { (reparse.measure)(&raw mut *self.context, block) };
            kept.frame_len = usize::try_from(headers).expect("a usize has 64 bits") + rest_len;
            ingress.ingress_bytes = kept.frame_len;
            rounds.ingress_bytes = kept.frame_len;
            self.context.requests = Requests::NONE;
            let way = way_of_clone(way, lone, queue);
            if let Some(written) = self.depart_scratch(&way) {
                let frame = self.scratch_frame(written, shared.payload_id);
                match changes_payloads {
                    true => state.depart(&self.context.payload_call, way.port, frame, clones),
                    false => clones.leave(way.port, frame),
                }
                rounds.n_rounds += 1;
            } else {
                state.depart_held(shared, clones);
                let clone = self.become_packet(handle);
                let outcome = self.after_egress(state, &way, clone);
                rounds.end = RoundsEnd::Clone(outcome);
                break;
            }
        }
        state.depart_held(shared, clones);
        let packet = self.packets.pool.packet_mut(handle);
        packet.unwritten = Some(kept.frame_len);
        packet.kept_list = kept.list;
        rounds
    }

    /// The ingress pass of a round: the packet's way to egress, or what else it came to.
    #[inline]
    fn go_in(
        &mut self,
        state: &mut State,
        input: &IngressInput,
        handle: PacketHandle,
        kept: Kept,
    ) -> Result<EgressInput, IngressOutcome> {
        let Kept {
            now,
            arrived,
            list,
            frame_len,
        } = kept;
        self.context.ingress_bytes = input.ingress_bytes as u64;
        let packet = self.packets.pool.packet_mut(handle);
        packet.ingress_bytes = input.ingress_bytes;
        packet.unwritten = Some(frame_len);
        packet.kept_list = list;
        mem::swap(&mut packet.vector, &mut self.spare);
        let (block, old) = (packet.vector.as_mut_ptr(), self.spare.as_ptr());
        let context = &raw mut *self.context;
        let arrive_again = self.program.passes.arrive_again;
        // SAFETY: context and new block are the packet's, the old block is one of the same layout, the
        // code is the program's.
        let came_to =
            unsafe { arrive_again(context, block, old, frame_len as u64, list.into(), HEADERS) };
        let plain = Plain(came_to);
        let queue = usize::try_from(plain.priority()).unwrap_or(usize::MAX);
        // What is not plain has no such queue either.
        if queue < limits::EGRESS_QUEUES_PER_PORT {
            return Ok(EgressInput {
                port: PortId(plain.port()),
                queue,
                instance_type: InstanceType::Normal,
                instance: None,
                arrived,
                enqueued: now,
                enq_depth: 0,
                deq_depth: 0,
                is_deparsed: true,
            });
        }
        if came_to == NOT_PARSED {
            self.become_frame(state, handle);
            return Err(self.ingress(state, input, handle));
        }
        Err(self.ingress_outcome(state, handle, came_to))
    }

    /// The clone that a packet leaves which recirculates, and its queue. Its block is as it is to be.
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
        // SAFETY: both are blocks of the layout that the code is for.
        unsafe { clone_block(block.as_mut_ptr(), packet.vector.as_ptr(), list) };
        let queue = match lone.queue {
            0 => self.slots.priority.get(block),
            queue => queue.into(),
        };
        let queue = usize::try_from(queue).ok()?;
        (queue < limits::EGRESS_QUEUES_PER_PORT).then_some((lone, queue))
    }
}
