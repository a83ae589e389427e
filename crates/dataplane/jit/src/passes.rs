//! Generates the code of a pass (a packet's way through ingress or egress). There is one function for each way in which
//! a pass begins, and two that copy blocks:
//!
//! | function | what it does |
//! |---|---|
//! | `arrive` | a new frame: ingress metadata, parser, checksum verification, ingress control |
//! | `begin` and `go_on` | the same in two halves, so that the first can run ahead |
//! | `arrive_again` | a frame that was resubmitted or recirculated |
//! | `arrive_headers` | a recirculated packet whose headers are in a block (a header vector, [`crate::layout`]) |
//! | `depart` | egress metadata, egress control and, if the packet simply leaves by its port, the deparser |
//! | `copy`, `clone` | the part of a packet's block that a replica or a clone gets |
//!
//! [`start_ingress`] and [`start_egress`] write all of v1model's metadata. The metadata fields that a program reads are
//! known when the program is loaded, so each field costs one store or none. A rare outcome of a pass (a clone, a drop,
//! a multicast group) is in the context, where the engine reads it ([`crate::engine`]).
#![expect(unsafe_code, reason = "addresses of finished code become functions")]

mod blocks;

use std::mem::offset_of;

use cranelift_codegen::ir::{BlockArg, InstBuilder, Type, Value, condcodes::IntCC, types};
use cranelift_module::FuncId;
use dataplane::{
    engine::{
        EgressInput, InstanceType,
        ir::{FieldId, range::Range},
    },
    limits,
};

use crate::{
    CompileError,
    compile::{Code, Emit, Region, Unit},
    context::{PassContext, Requests},
    frames::{Frames, bits},
};

/// Takes the context, which points to the frame; the packet's block, with any contents; the port; the time of arrival
/// in nanoseconds. Returns [`Plain`] or [`NOT_PLAIN`].
pub(crate) type Arrive = unsafe extern "C" fn(*mut PassContext, *mut u64, u64, u64) -> u64;

/// The first half of [`Arrive`]: everything before the ingress control. If the ingress control's flow cache is to be
/// prefetched, prefetches the record of the packet's flow.
pub(crate) type Begin = unsafe extern "C" fn(*mut PassContext, *mut u64, u64, u64);

/// The second half of [`Arrive`]. Takes the context, which points to the bytes that the parser did not consume, and the
/// packet's block. Returns what [`Arrive`] returns.
pub(crate) type GoOn = unsafe extern "C" fn(*mut PassContext, *mut u64) -> u64;

/// Takes the context, which points to the frame; the packet's new block, with any contents; its old block; the length
/// of the frame; the code of the field list that the packet keeps ([`Requests::list_code`]); and its [`InstanceType`].
/// Returns what [`Arrive`] returns.
pub(crate) type ArriveAgain =
    unsafe extern "C" fn(*mut PassContext, *mut u64, *const u64, u64, u64, u64) -> u64;

/// The variant of [`ArriveAgain`] for a recirculated packet whose headers are in the old block. The context points to
/// the bytes that follow the headers. Takes no instance type. Returns what [`Arrive`] returns, or [`NOT_PARSED`].
pub(crate) type ArriveHeaders =
    unsafe extern "C" fn(*mut PassContext, *mut u64, *const u64, u64, u64) -> u64;

/// The usual result of a pass: the packet goes to one port, and there is nothing else to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plain(pub u64);

impl Plain {
    const PRIORITY_SHIFT: u32 = 16;

    pub(crate) fn port(self) -> u16 {
        (self.0 & u64::from(u16::MAX))
            .try_into()
            .expect("masked to 16 bits")
    }

    pub(crate) fn priority(self) -> u64 {
        self.0 >> Self::PRIORITY_SHIFT
    }
}

/// The result of an ingress pass whose outcome is not [`Plain`]. The outcome is then in the context and the block.
pub(crate) const NOT_PLAIN: u64 = u64::MAX;

/// The result of [`ArriveHeaders`] if the headers must become bytes first. Then only the new block and the context have
/// changed.
pub(crate) const NOT_PARSED: u64 = u64::MAX - 1;

/// Takes the context; the packet's block; the traffic manager's input; the input's instance type; the address to which
/// the headers are written, or null. Returns the length of the headers that it wrote, or [`NOT_WRITTEN`] if the packet
/// is dropped, cloned, truncated or recirculated, or if the address is null.
pub(crate) type Depart =
    unsafe extern "C" fn(*mut PassContext, *mut u64, *const EgressInput, u64, *mut u8) -> u64;

/// Takes the block of a packet's copy, and the packet's own block. Copies the words that a copy needs.
pub(crate) type CopyBlock = unsafe extern "C" fn(*mut u64, *const u64);

/// Takes the block of a packet's clone, the packet's own block, and the code of a field list
/// ([`Requests::clone_list`]). Copies the headers and the fields of the list. An ingress clone, whose headers are
/// parsed already, gets only the fields of the list.
pub(crate) type CloneBlock = unsafe extern "C" fn(*mut u64, *const u64, u64);

/// The result of [`Depart`] if the packet's headers are not written.
pub(crate) const NOT_WRITTEN: u64 = u64::MAX;

pub(crate) struct Parts {
    pub parse: FuncId,
    pub verify: Option<FuncId>,
    pub ingress: FuncId,
    /// The number of the ingress control's flow cache, if the cache's records are prefetched.
    pub prefetched: Option<usize>,
    pub egress: FuncId,
    pub deparse: FuncId,
    /// The parser that takes headers from a block.
    pub reparse: Option<FuncId>,
}

/// Whether a packet's parser and verification may run before another packet's controls, and the options ask for this.
pub(crate) fn may_prefetch(unit: &Unit<'_>, frames: &Frames) -> bool {
    let options = &unit.options;
    let is_asked = options.flow_prefetch && options.fanout_fusion && options.parser_specialisation;
    is_asked && frames.is_stateless
}

#[derive(Clone, Copy)]
pub(crate) struct PassCode {
    pub arrive: Arrive,
    pub begin: Begin,
    pub go_on: GoOn,
    pub arrive_again: ArriveAgain,
    pub arrive_headers: Option<ArriveHeaders>,
    pub depart: Depart,
    pub copy_block: CopyBlock,
    pub clone_block: CloneBlock,
    pub clone_metadata: CloneBlock,
}

/// The ids of the functions of [`PassCode`], before they have addresses.
pub(crate) struct Passes {
    arrive: FuncId,
    begin: FuncId,
    go_on: FuncId,
    arrive_again: FuncId,
    arrive_headers: Option<FuncId>,
    depart: FuncId,
    copy_block: FuncId,
    clone_block: FuncId,
    clone_metadata: FuncId,
}

impl Passes {
    pub(crate) fn define(unit: &mut Unit<'_>, parts: &Parts) -> Result<Self, CompileError> {
        let word = Some(types::I64);
        Ok(Self {
            arrive: unit.define_with("arrive", 2, word, |e, more| {
                begin_pass(e, parts, given(more));
                Some(ingress_control(e, parts))
            })?,
            begin: unit.define_with("begin", 2, None, |e, more| {
                begin_pass(e, parts, given(more));
                if let Some(flow) = parts.prefetched {
                    e.prefetch_flow(flow);
                }
                None
            })?,
            go_on: unit.define_with("go_on", 0, word, |e, _| {
                no_requests(e);
                Some(ingress_control(e, parts))
            })?,
            arrive_again: unit.define_with("arrive_again", 4, word, |e, more| {
                Some(emit_arrive_again(e, parts, given(more)))
            })?,
            arrive_headers: match parts.reparse {
                Some(reparse) => Some(unit.define_with("arrive_headers", 3, word, |e, more| {
                    Some(emit_arrive_headers(e, parts, reparse, given(more)))
                })?),
                None => None,
            },
            depart: unit.define_with("depart", 3, word, |e, more| {
                Some(emit_depart(e, parts, given(more)))
            })?,
            copy_block: unit.define("copy", blocks::emit_copy)?,
            clone_block: unit.define_with("clone", 1, None, |e, more| {
                let [list] = given(more);
                blocks::emit_clone(e, list, true);
                None
            })?,
            clone_metadata: unit.define_with("clone_metadata", 1, None, |e, more| {
                let [list] = given(more);
                blocks::emit_clone(e, list, false);
                None
            })?,
        })
    }

    pub(crate) fn code(&self, code: &Code) -> PassCode {
        // SAFETY: the functions were written with these parameters and results.
        unsafe {
            PassCode {
                arrive: code.function(self.arrive),
                begin: code.function(self.begin),
                go_on: code.function(self.go_on),
                arrive_again: code.function(self.arrive_again),
                arrive_headers: self.arrive_headers.map(|it| code.function(it)),
                depart: code.function(self.depart),
                copy_block: code.function(self.copy_block),
                clone_block: code.function(self.clone_block),
                clone_metadata: code.function(self.clone_metadata),
            }
        }
    }
}

/// The parameters of a function after context and block, as many as it was declared with.
fn given<const N: usize>(more: &[Value]) -> [Value; N] {
    more.try_into().expect("as many as were declared")
}

/// Writes the pass of a new frame up to the ingress control.
fn begin_pass(e: &mut Emit<'_, '_, '_>, parts: &Parts, [port, arrived]: [Value; 2]) {
    let metadata = &e.ir().metadata;
    let len = e.load_context(types::I64, offset_of!(PassContext, payload_len));
    start_ingress(e, len, |e| {
        put(e, Some(metadata.ingress_port), |_| port);
        put(e, metadata.ingress_global_timestamp, |e| micros(e, arrived));
    });
    e.call_inside(parts.parse, &[]);
    no_failure(e);
    let consumed = e.load_context(types::I64, offset_of!(PassContext, consumed));
    let payload = e.load_context(types::I64, offset_of!(PassContext, payload));
    let payload = e.b.ins().iadd(payload, consumed);
    let rest = e.b.ins().isub(len, consumed);
    e.store_context(payload, offset_of!(PassContext, payload));
    e.store_context(rest, offset_of!(PassContext, payload_len));
    say_what_was_parsed(e, parts);
}

/// Writes the metadata with which a packet starts ingress; `how` writes the metadata that depends on how the packet
/// came to ingress.
fn start_ingress(e: &mut Emit<'_, '_, '_>, len: Value, how: impl FnOnce(&mut Emit<'_, '_, '_>)) {
    blocks::blank(e);
    how(e);
    put(e, Some(e.ir().metadata.packet_length), |_| len);
    e.store_context(len, offset_of!(PassContext, packet_length));
    no_requests(e);
}

/// Clears `failed`: aborting in the parser has no effect, as in the interpreter.
fn no_failure(e: &mut Emit<'_, '_, '_>) {
    let none = e.constant32(0);
    e.store_context(none, offset_of!(PassContext, failed));
}

/// Writes the parser's error and the result of checksum verification.
fn say_what_was_parsed(e: &mut Emit<'_, '_, '_>, parts: &Parts) {
    let metadata = &e.ir().metadata;
    put(e, metadata.parser_error, |e| {
        let error = e.load_context(types::I32, offset_of!(PassContext, parser_error));
        e.b.ins().uextend(types::I64, error)
    });
    if let Some(verify) = parts.verify
        && let Some(is_right) = e.call_inside(verify, &[])
    {
        put(e, metadata.checksum_error, |e| {
            let one = e.constant(1);
            e.b.ins().isub(one, is_right)
        });
    }
}

/// Writes the call of the ingress control. Returns the result of the pass.
fn ingress_control(e: &mut Emit<'_, '_, '_>, parts: &Parts) -> Value {
    let metadata = &e.ir().metadata;
    e.call_inside(parts.ingress, &[]);
    let requests = offset_of!(PassContext, requests);
    let asked = [
        offset_of!(PassContext, failed),
        requests + offset_of!(Requests, clone),
        requests + offset_of!(Requests, digest),
        requests + offset_of!(Requests, resubmit),
        requests + offset_of!(Requests, recirculate),
    ];
    let mut is_asked = e.constant32(0);
    for offset in asked {
        let asked = e.load_context(types::I32, offset);
        is_asked = e.b.ins().bor(is_asked, asked);
    }
    let is_asked = e.b.ins().uextend(types::I64, is_asked);
    let is_cut = is_cut(e);
    let is_cut = e.b.ins().uextend(types::I64, is_cut);
    let port = read(e, Some(metadata.egress_spec));
    let group = read(e, metadata.mcast_grp);
    let priority = read(e, metadata.priority);
    let drop_port = e.constant(limits::DROP_PORT.into());
    let is_dropped = e.b.ins().icmp(IntCC::Equal, port, drop_port);
    let is_dropped = e.b.ins().uextend(types::I64, is_dropped);
    // A priority of more than 8 bits names no queue; the slow path handles it.
    let high = e.b.ins().ushr_imm_u(priority, 8);
    let wide = e.b.ins().ushr_imm_u(port, i64::from(Plain::PRIORITY_SHIFT));
    let parts = [is_cut, group, is_dropped, high, wide];
    let not_plain = parts
        .into_iter()
        .fold(is_asked, |all, part| e.b.ins().bor(all, part));
    let shifted = bits::shift_left(&mut e.b, priority, Plain::PRIORITY_SHIFT);
    let plain = e.b.ins().bor(port, shifted);
    let otherwise = e.constant(NOT_PLAIN);
    e.b.ins().select(not_plain, otherwise, plain)
}

/// Reads a metadata field. Gives 0 if the program lacks the field or nobody reads it.
fn read(e: &mut Emit<'_, '_, '_>, field: Option<FieldId>) -> Value {
    match field.filter(|field| e.layout().is_read(*field)) {
        Some(field) => e.field_word(field, 0),
        None => e.constant(0),
    }
}

/// Writes the pass of a frame that was resubmitted or recirculated. The packet's new block is blank, except for the
/// fields of the list that the packet keeps.
fn emit_arrive_again(
    e: &mut Emit<'_, '_, '_>,
    parts: &Parts,
    [old, len, list, instance_type]: [Value; 4],
) -> Value {
    start_again(e, [old, len, list], |_| instance_type);
    e.call_inside(parts.parse, &[]);
    no_failure(e);
    let pass = e.pass;
    e.call_outside("leave_rest", &[pass]);
    say_what_was_parsed(e, parts);
    ingress_control(e, parts)
}

/// Writes the pass of a recirculated packet whose headers are in the old block.
fn emit_arrive_headers(
    e: &mut Emit<'_, '_, '_>,
    parts: &Parts,
    reparse: FuncId,
    [old, len, list]: [Value; 3],
) -> Value {
    start_again(e, [old, len, list], |e| {
        e.constant(InstanceType::Recirculated as u64)
    });
    let [parsed, end] = e.blocks();
    let outcome = e.b.append_block_param(end, types::I64);
    let is_parsed = e.call_inside(reparse, &[old]).expect("it gives a value");
    no_failure(e);
    let otherwise = [BlockArg::Value(e.constant(NOT_PARSED))];
    e.b.ins()
        .brif(is_parsed, parsed, &[] as &[BlockArg], end, &otherwise);
    e.begin_inner(parsed);
    say_what_was_parsed(e, parts);
    let came_to = ingress_control(e, parts);
    e.b.ins().jump(end, &[BlockArg::Value(came_to)]);
    e.begin(end);
    outcome
}

fn start_again(
    e: &mut Emit<'_, '_, '_>,
    [old, len, list]: [Value; 3],
    instance_type: impl FnOnce(&mut Emit<'_, '_, '_>) -> Value,
) {
    start_ingress(e, len, |e| {
        blocks::keep(e, list, (old, e.vector));
        put(e, Some(e.ir().metadata.instance_type), instance_type);
    });
}

fn put(
    e: &mut Emit<'_, '_, '_>,
    field: Option<FieldId>,
    value: impl FnOnce(&mut Emit<'_, '_, '_>) -> Value,
) {
    if let Some(field) = field.filter(|field| e.layout().is_read(*field)) {
        let value = value(e);
        e.put_field(field, vec![value], &Range::field(64, false));
    }
}

fn no_requests(e: &mut Emit<'_, '_, '_>) {
    let at = offset_of!(PassContext, requests);
    let none = e.constant32(0);
    for offset in [
        offset_of!(Requests, clone),
        offset_of!(Requests, clone_session),
        offset_of!(Requests, clone_list),
        offset_of!(Requests, digest),
        offset_of!(Requests, resubmit),
        offset_of!(Requests, recirculate),
    ] {
        e.store_context(none, at + offset);
    }
    let whole = e.constant(Requests::WHOLE);
    e.store_context(whole, at + offset_of!(Requests, truncate_bytes));
}

fn emit_depart(
    e: &mut Emit<'_, '_, '_>,
    parts: &Parts,
    [input, instance_type, out]: [Value; 3],
) -> Value {
    start_egress(e, input, instance_type);
    e.call_inside(parts.egress, &[]);
    let [write, end] = e.blocks();
    let written = e.b.append_block_param(end, types::I64);
    let not_written = e.constant(NOT_WRITTEN);
    let is_written = is_written(e, out);
    let none = [BlockArg::Value(not_written)];
    e.b.ins()
        .brif(is_written, write, &[] as &[BlockArg], end, &none);
    e.begin_inner(write);
    let bytes = e
        .call_inside(parts.deparse, &[out])
        .expect("it gives a value");
    e.b.ins().jump(end, &[BlockArg::Value(bytes)]);
    e.begin(end);
    written
}

/// Writes the metadata with which a packet starts egress, except `egress_rid`.
fn start_egress(e: &mut Emit<'_, '_, '_>, input: Value, instance_type: Value) {
    let metadata = &e.ir().metadata;
    let load = |e: &mut Emit<'_, '_, '_>, ty: Type, offset: usize| {
        let offset = u32::try_from(offset).expect("an offset in a block of memory");
        let value = e.load(ty, Region::Entry, input, offset);
        if ty == types::I64 {
            value
        } else {
            e.b.ins().uextend(types::I64, value)
        }
    };
    let now = |e: &mut Emit<'_, '_, '_>| {
        let now = e.load_context(types::I64, offset_of!(PassContext, now));
        micros(e, now)
    };
    let enqueued = |e: &mut Emit<'_, '_, '_>| {
        let enqueued = load(e, types::I64, offset_of!(EgressInput, enqueued));
        micros(e, enqueued)
    };
    put(e, Some(metadata.instance_type), |_| instance_type);
    put(e, metadata.egress_global_timestamp, now);
    put(e, metadata.nanoseconds_inside, |e| {
        let now = e.load_context(types::I64, offset_of!(PassContext, now));
        let arrived = load(e, types::I64, offset_of!(EgressInput, arrived));
        since(e, now, arrived)
    });
    if let Some(queueing) = metadata.queueing() {
        put(e, Some(queueing.enq_timestamp), enqueued);
        put(e, Some(queueing.enq_qdepth), |e| {
            load(e, types::I64, offset_of!(EgressInput, enq_depth))
        });
        put(e, Some(queueing.deq_timedelta), |e| {
            let (now, enqueued) = (now(e), enqueued(e));
            since(e, now, enqueued)
        });
        put(e, Some(queueing.deq_qdepth), |e| {
            load(e, types::I64, offset_of!(EgressInput, deq_depth))
        });
        // BMv2 writes `qid` together with the queueing metadata.
        put(e, metadata.qid, |e| {
            load(e, types::I64, offset_of!(EgressInput, queue))
        });
    }
    put(e, Some(metadata.egress_port), |e| {
        load(e, types::I16, offset_of!(EgressInput, port))
    });
    // Any value but the drop port will do. BMv2's simple_switch writes 512, whose low 9 bits are 0.
    put(e, Some(metadata.egress_spec), |e| {
        e.constant(u64::from(limits::DROP_PORT) + 1)
    });
    put(e, Some(metadata.packet_length), |e| {
        e.load_context(types::I64, offset_of!(PassContext, packet_length))
    });
}

/// Whether the packet is only transmitted: its pass did not abort, it is not dropped, recirculated, truncated or
/// cloned, and `out` has room for its headers.
fn is_written(e: &mut Emit<'_, '_, '_>, out: Value) -> Value {
    let requests = offset_of!(PassContext, requests);
    let asked = [
        offset_of!(PassContext, failed),
        requests + offset_of!(Requests, clone),
        requests + offset_of!(Requests, recirculate),
    ];
    let [failed, clone, recirculate] = asked.map(|offset| e.load_context(types::I32, offset));
    let asked = e.b.ins().bor(failed, clone);
    let asked = e.b.ins().bor(asked, recirculate);
    let none = e.constant32(0);
    let is_asked = e.b.ins().icmp(IntCC::NotEqual, asked, none);
    let is_cut = is_cut(e);
    let port = e.field_word(e.ir().metadata.egress_spec, 0);
    let drop_port = e.constant(limits::DROP_PORT.into());
    let is_dropped = e.b.ins().icmp(IntCC::Equal, port, drop_port);
    let null = e.constant(0);
    let has_no_room = e.b.ins().icmp(IntCC::Equal, out, null);
    let either = e.b.ins().bor(is_asked, is_cut);
    let or = e.b.ins().bor(is_dropped, has_no_room);
    let is_kept = e.b.ins().bor(either, or);
    let no = e.b.ins().iconst(types::I8, 0);
    e.b.ins().icmp(IntCC::Equal, is_kept, no)
}

fn is_cut(e: &mut Emit<'_, '_, '_>) -> Value {
    let whole = e.constant(Requests::WHOLE);
    let requests = offset_of!(PassContext, requests);
    let truncated = requests + offset_of!(Requests, truncate_bytes);
    let truncated = e.load_context(types::I64, truncated);
    e.b.ins().icmp(IntCC::NotEqual, truncated, whole)
}

/// The time from `then` to `now`; 0 if `then` is later.
fn since(e: &mut Emit<'_, '_, '_>, now: Value, then: Value) -> Value {
    let passed = e.b.ins().isub(now, then);
    let zero = e.constant(0);
    let is_later = e.b.ins().icmp(IntCC::UnsignedGreaterThan, now, then);
    e.b.ins().select(is_later, passed, zero)
}

/// Converts a time from nanoseconds to microseconds, the unit of v1model's timestamps.
fn micros(e: &mut Emit<'_, '_, '_>, time: Value) -> Value {
    let thousand = e.constant(1_000);
    e.b.ins().udiv(time, thousand)
}
