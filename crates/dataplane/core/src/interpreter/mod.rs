//! The reference interpreter: an engine written to be easy to read. It defines the semantics; every faster engine must
//! agree with it, packet for packet.
//!
//! This file stores the packets, and sets the values of v1model's metadata at the start of each control. Each part of
//! the pipeline has its own file.

pub(crate) mod calculation;
mod checksum;
pub(crate) mod control_flow;
mod deparser;
mod digest;
pub(crate) mod expression;
pub(crate) mod packet;
pub(crate) mod parser;
pub mod parts;
pub(crate) mod phv;
mod trace;

use std::sync::Arc;

use self::{
    packet::{Asked, Packet, Payload, Requests},
    phv::Phv,
};
use crate::{
    Digest, DropReason, Nanos, PortId, Program,
    engine::{
        self, CloneCopies, Clones, EgressInput, EgressOutcome, EgressVerdict, Engine,
        EngineFactory, IngressInput, IngressOutcome, IngressVerdict, PacketHandle, PayloadCall,
        PayloadIds, State,
    },
    interpreter::parts::Carried,
    limits,
    program::ir::{FieldId, FieldListId, Ir, Meaning, Moment, Verdict, When},
    trace::{Stage, TraceKind},
    value::{self, Int},
};

/// Makes reference interpreters.
#[derive(Debug, Clone, Copy, Default)]
pub struct InterpreterFactory;

impl EngineFactory for InterpreterFactory {
    fn name(&self) -> &'static str {
        "interpreter"
    }

    fn traces(&self) -> bool {
        true
    }

    fn load(&self, state: &mut State) -> Box<dyn Engine> {
        Box::new(Interpreter {
            program: state.program.clone(),
            packets: Vec::new(),
            free: Vec::new(),
            spare_vectors: Vec::new(),
            spare_buffers: Vec::new(),
            payload_ids: PayloadIds::new(),
        })
    }
}

struct Interpreter {
    program: Program,
    /// Indexed by handle.
    packets: Vec<Packet>,
    free: Vec<u32>,
    /// Unused header vectors with stale contents.
    spare_vectors: Vec<Phv>,
    spare_buffers: Vec<Arc<Vec<u8>>>,
    payload_ids: PayloadIds,
}

/// Writes the metadata fields whose values the architecture defines at this moment; skips fields without a value.
fn write_metadata(ir: &Ir, phv: &mut Phv, moment: Moment, value: impl Fn(Meaning) -> Option<Int>) {
    for (meaning, field) in ir.metadata.written_at(moment) {
        if let Some(value) = value(*meaning) {
            phv.set(ir, *field, value);
        }
    }
}

/// Converts a time to the architecture's timestamp units.
fn timestamp(ir: &Ir, time: Nanos) -> u64 {
    time / ir.architecture.timestamp_ns
}

/// Converts a frame length to a metadata value; frames are far below the limit of the type.
fn length(bytes: usize) -> i64 {
    i64::try_from(bytes).expect("a frame is shorter than 2^63 bytes")
}

/// Reads the values that a field list preserves.
fn keep<'a>(
    ir: &'a Ir,
    phv: &'a Phv,
    list: Option<FieldListId>,
) -> impl Iterator<Item = (FieldId, Int)> + 'a {
    let list = list.map(|list| ir.field_lists[list.index()].fields.as_slice());
    let fields = list.unwrap_or_default().iter();
    fields.map(move |field| (*field, phv.get(*field).clone()))
}

fn port_of(phv: &Phv, field: FieldId) -> PortId {
    PortId(u16::try_from(phv.get(field)).unwrap_or(u16::MAX))
}

fn priority(ir: &Ir, phv: &Phv) -> u64 {
    let field = ir.metadata.priority;
    field.map_or(0, |field| value::low_u64(phv.get(field)))
}

fn carried(packet: &mut Packet) -> Carried<'_> {
    Carried {
        phv: &mut packet.phv,
        payload: packet.payload.as_slice(),
        requests: &mut packet.requests,
        packet_length: &mut packet.packet_length,
        ingress_bytes: packet.ingress_bytes,
        args: Arc::default(),
    }
}

/// Parses the frame; returns the error number.
fn run_parser(state: &mut State, packet: &mut Packet) -> u32 {
    // The frame is moved out, because the pass borrows the rest of the packet.
    let frame = std::mem::take(&mut packet.frame);
    let outcome = {
        let mut pass = state.pass(carried(packet));
        pass.tracer.emit(|| TraceKind::Begin(Stage::Parser));
        parser::parse(&mut pass, frame.pieces())
    };
    packet.payload = frame.rest(outcome.consumed);
    packet.frame = frame;
    outcome.error
}

fn parse_and_verify(ir: &Ir, state: &mut State, packet: &mut Packet) {
    let error = run_parser(state, packet);
    let right = checksum::verify(&mut state.pass(carried(packet)));
    let value = |meaning| match meaning {
        Meaning::ParserError => Some(Int::from(error)),
        Meaning::ChecksumError => Some(Int::from(u8::from(!right))),
        _ => None,
    };
    write_metadata(ir, &mut packet.phv, Moment::Parsed, value);
}

/// Runs a control. If the control ended the packet, returns the reason.
fn run_control(state: &mut State, packet: &mut Packet, stage: Stage) -> Option<DropReason> {
    let (program, tables, mut pass) = state.split(carried(packet));
    let start = match stage {
        Stage::Ingress => program.ir.ingress,
        _ => program.ir.egress,
    };
    pass.tracer.emit(|| TraceKind::Begin(stage));
    control_flow::run(program, tables, &mut pass, start);
    pass.tracer.set_line(|| None);
    pass.failed
}

fn start_ingress(ir: &Ir, packet: &mut Packet, input: &IngressInput) {
    let phv = &mut packet.phv;
    for (field, value) in packet.kept.drain(..) {
        phv.set(ir, field, value);
    }
    if let Some(arrived) = input.arrived {
        write_metadata(ir, phv, Moment::Arrival, |meaning| match meaning {
            Meaning::IngressPort => Some(Int::from(input.ingress_port.0)),
            Meaning::IngressTimestamp => Some(Int::from(timestamp(ir, arrived))),
            _ => None,
        });
    }
    let len = packet.frame.len();
    write_metadata(ir, phv, Moment::Parser, |meaning| match meaning {
        Meaning::InstanceType => Some(Int::from(input.instance_type as u8)),
        Meaning::PacketLength => Some(Int::from(len)),
        _ => None,
    });
    packet.payload = packet.frame.payload.clone();
    packet.requests = Requests::default();
    packet.packet_length = length(len);
    packet.ingress_bytes = input.ingress_bytes;
}

fn start_egress(ir: &Ir, now: Nanos, packet: &mut Packet, input: &EgressInput) {
    let (egress, enqueued) = (timestamp(ir, now), timestamp(ir, input.enqueued));
    let packet_length = packet.packet_length;
    write_metadata(ir, &mut packet.phv, Moment::Egress, |meaning| {
        Some(match meaning {
            Meaning::Instance => Int::from(input.instance?),
            Meaning::InstanceType => Int::from(input.instance_type as u8),
            Meaning::EgressTimestamp => Int::from(egress),
            Meaning::TimeInside => Int::from(now.saturating_sub(input.arrived)),
            Meaning::EnqTimestamp => Int::from(enqueued),
            Meaning::EnqDepth => Int::from(input.enq_depth),
            Meaning::DeqTimedelta => Int::from(egress.saturating_sub(enqueued)),
            Meaning::DeqDepth => Int::from(input.deq_depth),
            Meaning::Queue => Int::from(input.queue),
            Meaning::EgressPort => Int::from(input.port.0),
            // Any value but the drop port will do. simple_switch writes 512, whose low 9 bits are 0.
            Meaning::EgressSpec => Int::from(u32::from(ir.architecture.drop_port) + 1),
            Meaning::PacketLength => Int::from(packet_length),
            _ => return None,
        })
    });
}

/// Applies the architecture's rules for the end of a control.
fn verdict(ir: &Ir, phv: &Phv, rules: &[(When, Verdict)], is_asked: bool) -> Verdict {
    let value = |meaning| ir.metadata.get(meaning).map(|field| phv.get(field));
    let holds = |when: When| match when {
        When::Asked => is_asked,
        When::Is(meaning, wanted) => value(meaning) == Some(&Int::from(wanted)),
        When::IsNot0(meaning) => value(meaning).is_some_and(|value| *value != Int::ZERO),
        When::Otherwise => true,
    };
    let mut rules = rules.iter();
    let rule = rules.find(|(when, _)| holds(*when));
    rule.map_or(Verdict::Drop, |(_, verdict)| *verdict)
}

fn ingress_verdict(ir: &Ir, phv: &Phv, is_asked: bool) -> IngressVerdict {
    let rules = ir.architecture.ingress_verdicts;
    match verdict(ir, phv, rules, is_asked) {
        Verdict::Send => IngressVerdict::Unicast(port_of(phv, ir.metadata.egress_spec)),
        Verdict::Multicast => {
            let group = ir.metadata.mcast_grp;
            let group = group.map_or(0, |field| value::low_u64(phv.get(field)));
            IngressVerdict::Multicast(u32::try_from(group).unwrap_or(u32::MAX))
        }
        Verdict::Again => IngressVerdict::Resubmit,
        Verdict::Drop => IngressVerdict::Drop(DropReason::IngressDrop),
    }
}

fn egress_verdict(ir: &Ir, phv: &Phv, is_asked: bool) -> EgressVerdict {
    let rules = ir.architecture.egress_verdicts;
    match verdict(ir, phv, rules, is_asked) {
        Verdict::Again => EgressVerdict::Recirculate,
        Verdict::Drop => EgressVerdict::Drop(DropReason::EgressDrop),
        Verdict::Send | Verdict::Multicast => EgressVerdict::Transmit,
    }
}

impl Interpreter {
    fn packet(&mut self, packet: PacketHandle) -> &mut Packet {
        &mut self.packets[packet.0 as usize]
    }

    fn insert(&mut self, packet: Packet) -> PacketHandle {
        if let Some(place) = self.free.pop() {
            self.packets[place as usize] = packet;
            return PacketHandle(place);
        }
        let place = u32::try_from(self.packets.len()).expect("queues hold fewer than 2^32 packets");
        self.packets.push(packet);
        PacketHandle(place)
    }

    fn begin_ingress(
        &mut self,
        state: &mut State,
        input: &IngressInput,
        packet: PacketHandle,
    ) -> (&Ir, &mut Packet) {
        let phv = self.blank_vector();
        let ir = &self.program.ir;
        let packet = &mut self.packets[packet.0 as usize];
        packet.phv = phv;
        start_ingress(ir, packet, input);
        parse_and_verify(ir, state, packet);
        (ir, packet)
    }

    /// Returns an unused header vector, which may have stale contents, or makes one.
    fn spare_vector(&mut self) -> Phv {
        let spare = self.spare_vectors.pop();
        spare.unwrap_or_else(|| Phv::new(&self.program.ir))
    }

    /// Returns an unused header vector after clearing it, or makes one.
    fn blank_vector(&mut self) -> Phv {
        let mut phv = self.spare_vector();
        phv.reset(&self.program.ir);
        phv
    }

    fn give_back_vector(&mut self, phv: Phv) {
        let n_bytes = phv.n_bytes().max(1);
        let room = limits::SPARE_PACKETS_MAX.min(limits::SPARE_VECTOR_BYTES_MAX / n_bytes);
        if !phv.is_without_fields() && self.spare_vectors.len() < room {
            self.spare_vectors.push(phv);
        }
    }

    fn give_back_payload(&mut self, payload: Payload) {
        let Some(mut bytes) = payload.bytes else {
            return;
        };
        let own = Arc::get_mut(&mut bytes);
        let fits = own.is_some_and(|own| own.capacity() <= limits::SPARE_BUFFER_BYTES_MAX);
        if fits && self.spare_buffers.len() < limits::SPARE_PACKETS_MAX {
            self.spare_buffers.push(bytes);
        }
    }

    fn buffer_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Arc<Vec<u8>> {
        let mut bytes = self.spare_buffers.pop().unwrap_or_default();
        let room = Arc::make_mut(&mut bytes);
        room.clear();
        write(room);
        bytes
    }

    fn change_payload(
        &mut self,
        state: &mut State,
        call: &PayloadCall,
        handle: PacketHandle,
    ) -> Result<(), DropReason> {
        let mut frame = std::mem::take(&mut self.packet(handle).frame);
        let old = frame.payload.as_slice();
        let n_room = state.payload_room_bytes(old.len());
        let mut changed = Ok(0);
        let bytes = self.buffer_with(|room| {
            room.resize(n_room, 0);
            changed = state.change_payload(call, [&mut frame.head, room], old);
        });
        let mut payload = Payload::new(bytes, self.payload_ids.next_id());
        payload.truncate(changed.unwrap_or_default());
        self.give_back_payload(std::mem::replace(&mut frame.payload, payload));
        self.packet(handle).frame = frame;
        changed.map(|_| ())
    }

    /// Returns the given handle. If it stands for several packets, copies one of them and returns the copy's handle.
    fn own(&mut self, packet: PacketHandle) -> PacketHandle {
        let original = self.packet(packet);
        if original.references == 1 {
            return packet;
        }
        original.references -= 1;
        let copy = self.copy(packet);
        self.insert(copy)
    }

    /// Makes a copy of a packet; both share the payload.
    fn copy(&mut self, packet: PacketHandle) -> Packet {
        let mut phv = self.spare_vector();
        let original = &self.packets[packet.0 as usize];
        phv.copy_from(&original.phv);
        Packet {
            references: 1,
            phv,
            payload: original.payload.clone(),
            requests: original.requests.clone(),
            packet_length: original.packet_length,
            ingress_bytes: original.ingress_bytes,
            ..Packet::default()
        }
    }

    /// Stores a clone. Of the original's metadata, the clone keeps only the fields of the clone's field list.
    fn insert_clone(&mut self, of: PacketHandle, mut clone: Packet, copies: CloneCopies) -> Clones {
        let ir = &self.program.ir;
        let original = &self.packets[of.0 as usize];
        clone.phv.reset_metadata(ir);
        for (field, value) in keep(ir, &original.phv, original.asked.clone_list) {
            clone.phv.set(ir, field, value);
        }
        clone.references = copies.copies;
        clone.requests = Requests {
            truncate_bytes: copies.truncate_bytes,
            ..Requests::default()
        };
        let priority = priority(ir, &clone.phv);
        let packet = self.insert(clone);
        Clones { packet, priority }
    }

    /// Preserves the metadata of the field list for the packet's return to ingress.
    fn keep_back_list(&mut self, packet: PacketHandle) {
        let ir = &self.program.ir;
        let packet = &mut self.packets[packet.0 as usize];
        packet.kept.clear();
        let kept = keep(ir, &packet.phv, packet.asked.back_list);
        packet.kept.extend(kept);
        let phv = std::mem::take(&mut packet.phv);
        self.give_back_vector(phv);
    }
}

impl Engine for Interpreter {
    fn receive(&mut self, frame: &[u8]) -> PacketHandle {
        let bytes = self.buffer_with(|room| room.extend_from_slice(frame));
        let mut packet = Packet {
            references: 1,
            ..Packet::default()
        };
        packet.frame.payload = Payload::new(bytes, self.payload_ids.next_id());
        self.insert(packet)
    }

    fn ingress(
        &mut self,
        state: &mut State,
        input: &IngressInput,
        packet: PacketHandle,
    ) -> IngressOutcome {
        let (ir, packet) = self.begin_ingress(state, input, packet);
        if let Some(reason) = run_control(state, packet, Stage::Ingress) {
            return IngressOutcome {
                verdict: IngressVerdict::Drop(reason),
                clone_session: None,
                has_digest: false,
                priority: 0,
            };
        }
        let clone = packet.requests.clone.take();
        packet.asked = Asked {
            clone_list: clone.and_then(|(_, list)| list),
            digest: packet.requests.digest.take(),
            back_list: packet.requests.resubmit.take(),
        };
        IngressOutcome {
            verdict: ingress_verdict(ir, &packet.phv, packet.asked.back_list.is_some()),
            clone_session: clone.map(|(session, _)| session),
            has_digest: packet.asked.digest.is_some(),
            priority: priority(ir, &packet.phv),
        }
    }

    fn parse(&mut self, state: &mut State, input: &IngressInput, packet: PacketHandle) {
        let (_, packet) = self.begin_ingress(state, input, packet);
        let phv = std::mem::take(&mut packet.phv);
        self.give_back_vector(phv);
    }

    fn digest(&mut self, state: &mut State, packet: PacketHandle) -> Digest {
        let packet = self.packet(packet);
        let asked = packet.asked.digest;
        let pass = state.pass(carried(packet));
        digest::take(&pass, asked.expect("the pass asked for a digest"))
    }

    fn clone_ingress(
        &mut self,
        state: &mut State,
        input: &IngressInput,
        packet: PacketHandle,
        copies: CloneCopies,
    ) -> Clones {
        let mut phv = self.blank_vector();
        let ir = &self.program.ir;
        // Parsers may branch on the ingress port, so the clone needs the ingress port of the original.
        let ingress_port = Int::from(input.ingress_port.0);
        phv.set(ir, ir.metadata.ingress_port, ingress_port);
        let original = &self.packets[packet.0 as usize];
        let frame = original.frame.clone();
        let mut clone = Packet {
            phv,
            payload: frame.payload.clone(),
            frame,
            packet_length: length(original.frame.len()),
            ingress_bytes: input.ingress_bytes,
            ..Packet::default()
        };
        run_parser(state, &mut clone);
        clone.frame.payload = Payload::default();
        self.insert_clone(packet, clone, copies)
    }

    fn replicate(&mut self, packet: PacketHandle, copies: u32) {
        let packet = self.packet(packet);
        packet.requests = Requests::default();
        packet.references = copies;
    }

    fn resubmit(&mut self, packet: PacketHandle) {
        self.keep_back_list(packet);
    }

    fn egress(
        &mut self,
        state: &mut State,
        input: &EgressInput,
        packet: PacketHandle,
    ) -> EgressOutcome {
        let handle = self.own(packet);
        let ir = &self.program.ir;
        let packet = &mut self.packets[handle.0 as usize];
        start_egress(ir, state.now, packet, input);
        let failed = run_control(state, packet, Stage::Egress);
        let clone = packet.requests.clone.take();
        let clone = clone.filter(|_| failed.is_none());
        packet.asked = Asked {
            clone_list: clone.and_then(|(_, list)| list),
            digest: None,
            back_list: packet.requests.recirculate.take(),
        };
        EgressOutcome {
            packet: handle,
            verdict: match failed {
                Some(reason) => EgressVerdict::Drop(reason),
                None => egress_verdict(ir, &packet.phv, packet.asked.back_list.is_some()),
            },
            clone_session: clone.map(|(session, _)| session),
            frame_len_bytes: None,
        }
    }

    fn clone_egress(
        &mut self,
        _state: &mut State,
        packet: PacketHandle,
        copies: CloneCopies,
    ) -> Clones {
        let clone = self.copy(packet);
        self.insert_clone(packet, clone, copies)
    }

    fn deparse(&mut self, state: &mut State, handle: PacketHandle) -> Result<usize, DropReason> {
        let packet = self.packet(handle);
        let head = std::mem::take(&mut packet.frame.head);
        let mut pass = state.pass(carried(packet));
        pass.tracer.emit(|| TraceKind::Begin(Stage::Deparser));
        packet.frame.head = deparser::deparse(&mut pass, head);
        packet.frame.payload = std::mem::take(&mut packet.payload);
        if let Some(call) = packet.requests.payload.take() {
            self.change_payload(state, &call, handle)?;
        }
        let packet = self.packet(handle);
        // A recirculated packet is not truncated, as in BMv2.
        if packet.asked.back_list.is_none() {
            packet.frame.truncate(packet.requests.truncate_bytes);
        }
        Ok(packet.frame.len())
    }

    fn recirculate(&mut self, packet: PacketHandle) {
        self.keep_back_list(packet);
    }

    fn frame(&self, packet: PacketHandle) -> engine::Frame<'_> {
        let frame = &self.packets[packet.0 as usize].frame;
        let [head, payload] = frame.pieces();
        engine::Frame {
            head,
            payload,
            payload_id: frame.payload.id,
        }
    }

    fn discard(&mut self, packet: PacketHandle) {
        let place = packet.0;
        let packet = self.packet(packet);
        packet.references -= 1;
        if packet.references > 0 {
            return;
        }
        let packet = std::mem::take(packet);
        self.free.push(place);
        self.give_back_vector(packet.phv);
        self.give_back_payload(packet.payload);
        self.give_back_payload(packet.frame.payload);
    }
}
