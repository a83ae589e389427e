//! Everything that happens to a packet, as events for a person or a test.
//!
//! Costs nothing where no sink is set: events are only made for a sink. Events are complete;
//! [`TraceRenderer`] leaves out what nobody reads.

mod bmv2;
mod names;
mod printable;
mod render;

use std::sync::Arc;

pub use bmv2::{Bmv2Line, Bmv2Renderer, Severity};
pub(crate) use names::NameId;
pub use render::TraceRenderer;
pub(crate) use render::{format_mask, format_value};
use smallvec::SmallVec;
use smol_str::SmolStr;

use crate::{
    DropReason, EntryHandle, Nanos, PortId, Stream,
    program::ir::SourceLine,
    value::{self, Int},
};

/// Bytes of a value. As names do, most fit into the event: memory that one thread asks for and another gives back costs
/// a log more than all the rest.
pub type TraceBytes = SmallVec<[u8; 16]>;

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceEvent {
    /// When, in the caller's nanoseconds.
    pub now: Nanos,
    /// Which packet: `1`, its first clone `1.c1`, its second replica `1.r2`; `?` where nobody
    /// traced when it came.
    pub packet: Arc<str>,
    /// The how-manieth way through the pipeline, from 1: recirculation and resubmission begin the
    /// next. A copy is in the pass in which it was made.
    pub pass: u32,
    /// Where in the P4 source, for what a control does.
    pub source: Option<SourceLine>,
    /// What happened.
    pub kind: TraceKind,
}

/// A header with its fields' values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceHeader {
    /// Name of the instance.
    pub name: SmolStr,
    /// Bits of all its fields.
    pub width_bits: usize,
    /// Its fields, under their own names; none for a sink that has no use for them.
    pub fields: Vec<TraceValue>,
}

/// A named value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceValue {
    /// Name as in the P4 program.
    pub name: SmolStr,
    /// Width in bits.
    pub width_bits: u32,
    /// Big endian, padded to whole bytes; none of a secret.
    pub value: TraceBytes,
    /// It is of a secret, and not shown.
    pub is_secret: bool,
}

impl TraceValue {
    /// Without the value, if that is secret.
    pub(crate) fn hidden_if(mut self, is_secret: bool) -> Self {
        if is_secret {
            self.value.clear();
            self.is_secret = true;
        }
        self
    }
}

/// Where in an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceIndex {
    /// This cell.
    At(usize),
    /// No cell of the array.
    OutOfRange,
    /// It is of a secret, and not shown.
    Secret,
}

impl TraceIndex {
    /// None is no cell.
    pub(crate) fn of(cell: Option<usize>, is_secret: bool) -> Self {
        match cell {
            _ if is_secret => Self::Secret,
            Some(cell) => Self::At(cell),
            None => Self::OutOfRange,
        }
    }
}

/// Parts of the pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Parser and checksum verification.
    Parser,
    /// The ingress control.
    Ingress,
    /// The egress control.
    Egress,
    /// Checksum update and deparser.
    Deparser,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceKind {
    /// A frame came in.
    Arrive {
        /// Port.
        port: PortId,
        /// Length.
        frame_len_bytes: usize,
    },
    /// A part of the pipeline begins.
    Begin(Stage),
    /// The parser enters a state.
    ParserState(SmolStr),
    /// The parser extracted a header.
    Extract(TraceHeader),
    /// The parser chooses the next state.
    Transition {
        /// What it looked at.
        key: Vec<TraceValue>,
        /// The next state; none ends the parser.
        next: Option<SmolStr>,
    },
    /// The parser stopped with an error; ingress runs nevertheless.
    ParserError(SmolStr),
    /// A checksum was compared.
    ChecksumVerified {
        /// The field.
        field: SmolStr,
        /// It is what was computed.
        is_right: bool,
        /// What the field holds, and what was computed; none of a secret.
        values: Option<(u64, u64)>,
    },
    /// A checksum was computed.
    ChecksumUpdated {
        /// The field.
        field: SmolStr,
        /// What was computed; none of a secret.
        computed: Option<u64>,
    },
    /// A condition was looked at.
    Condition {
        /// Its text in the source, or its node's name.
        text: SmolStr,
        /// The outcome.
        holds: bool,
    },
    /// A table was applied.
    Table {
        /// Table.
        table: SmolStr,
        /// The key's values.
        key: Vec<TraceValue>,
        /// The entry that was hit; none is a miss.
        entry: Option<String>,
        /// BMv2's number of the entry.
        handle: Option<EntryHandle>,
    },
    /// An action runs.
    Action {
        /// Action.
        action: SmolStr,
        /// Its arguments.
        args: Vec<TraceValue>,
    },
    /// A field was written.
    Assign {
        /// The value before.
        old: TraceValue,
        /// The value after, big endian; none of a secret.
        new: TraceBytes,
    },
    /// A header became valid.
    HeaderAdded(SmolStr),
    /// A header became invalid.
    HeaderRemoved(SmolStr),
    /// A register cell was read.
    RegisterRead {
        /// Register and value.
        cell: TraceValue,
        /// Index.
        index: TraceIndex,
    },
    /// A register cell was written.
    RegisterWrite {
        /// Register and value.
        cell: TraceValue,
        /// Index.
        index: TraceIndex,
    },
    /// A counter cell counted.
    Count {
        /// Counter.
        counter: SmolStr,
        /// Index.
        index: TraceIndex,
    },
    /// A meter marked the packet.
    Meter {
        /// Meter.
        meter: SmolStr,
        /// Index; none where the meter is an entry's.
        index: Option<TraceIndex>,
        /// 0 green, 1 yellow, 2 red; none where there is no such cell, or its index is secret.
        color: Option<u8>,
    },
    /// A copy was made.
    Copy {
        /// The clone session or multicast group.
        by: Stream,
        /// Its number is of a secret, and not shown.
        is_secret: bool,
        /// The copy.
        packet: Arc<str>,
        /// Where it goes.
        port: PortId,
        /// Its `egress_rid`.
        instance: u16,
    },
    /// An extern was asked to change the payload.
    ChangePayload {
        /// The extern.
        function: SmolStr,
        /// Its arguments.
        args: Vec<TraceValue>,
    },
    /// A digest went to the control plane.
    Digest(SmolStr),
    /// The packet goes back to ingress as it came.
    Resubmit {
        /// The pass that begins.
        pass: u32,
    },
    /// The packet goes back to ingress as it would have left.
    Recirculate {
        /// The pass that begins.
        pass: u32,
    },
    /// The packet waits at an output port.
    Enqueue {
        /// Port.
        port: PortId,
        /// Queue of the port; none of a secret.
        queue: Option<usize>,
        /// Packets there before it.
        depth: usize,
    },
    /// The deparser wrote the frame.
    Deparse {
        /// The headers in their order.
        headers: Vec<TraceHeader>,
        /// Length of the frame.
        frame_len_bytes: usize,
    },
    /// The frame left.
    Transmit {
        /// Port.
        port: PortId,
        /// Length.
        frame_len_bytes: usize,
    },
    /// The frame went to the control plane.
    PacketIn {
        /// Length.
        frame_len_bytes: usize,
    },
    /// The packet ended.
    Drop(DropReason),
    /// The program says something.
    Log(String),
}

/// Takes the events.
pub trait TraceSink: Send {
    /// One event, in the order of happening.
    fn event(&mut self, event: &TraceEvent);

    /// The same, for a sink that keeps events to look at them later.
    fn take(&mut self, event: TraceEvent) {
        self.event(&event);
    }

    /// Whether headers come with their fields, which are most of what an event costs.
    fn wants_fields(&self) -> bool {
        true
    }
}

/// Where the interpreter sends events.
#[derive(Default)]
pub(crate) struct Tracer {
    sink: Option<Box<dyn TraceSink>>,
    names: names::Names,
    now: Nanos,
    packet: NameId,
    pass: u32,
    source: Option<SourceLine>,
}

impl Tracer {
    pub(crate) fn set_sink(&mut self, sink: Option<Box<dyn TraceSink>>) {
        self.sink = sink;
    }

    /// Whether headers of events are to have their fields.
    pub(crate) fn wants_fields(&self) -> bool {
        self.sink.as_ref().is_some_and(|sink| sink.wants_fields())
    }

    pub(crate) fn is_on(&self) -> bool {
        self.sink.is_some()
    }

    /// The name of the n-th frame that came in; none where nobody listens.
    pub(crate) fn name_frame(&mut self, n: u64) -> NameId {
        match self.is_on() {
            true => self.names.add(n.to_string()),
            false => NameId::NONE,
        }
    }

    /// Names a copy of a packet.
    pub(crate) fn name_copy(&mut self, of: NameId, by: Stream) -> NameId {
        self.names.add_copy(of, by)
    }

    /// A packet is no longer inside.
    #[inline]
    pub(crate) fn forget(&mut self, name: NameId) {
        if name != NameId::NONE {
            self.names.remove(name);
        }
    }

    /// The packet that the next events are about.
    #[inline]
    pub(crate) fn set_packet(&mut self, now: Nanos, packet: NameId, pass: u32) {
        self.now = now;
        if self.sink.is_some() {
            self.packet = packet;
            self.pass = pass;
            self.source = None;
        }
    }

    /// The line of the source that the next events are about.
    pub(crate) fn set_line(&mut self, line: impl FnOnce() -> Option<SourceLine>) {
        if self.sink.is_some() {
            self.source = line();
        }
    }

    /// Makes and sends an event, if anyone listens.
    #[inline]
    pub(crate) fn emit(&mut self, kind: impl FnOnce() -> TraceKind) {
        if self.sink.is_some() {
            self.send(kind());
        }
    }

    /// The same of an event that says what a copy is called.
    #[inline]
    pub(crate) fn emit_of(&mut self, copy: NameId, kind: impl FnOnce(Arc<str>) -> TraceKind) {
        if self.sink.is_some() {
            let kind = kind(self.label(copy));
            self.send(kind);
        }
    }

    fn label(&self, name: NameId) -> Arc<str> {
        let label = self.names.label(name).cloned();
        label.unwrap_or_else(|| Arc::from("?"))
    }

    #[cold]
    fn send(&mut self, mut kind: TraceKind) {
        kind.make_printable();
        let packet = self.label(self.packet);
        if let Some(sink) = &mut self.sink {
            sink.take(TraceEvent {
                now: self.now,
                packet,
                pass: self.pass,
                source: self.source.clone(),
                kind,
            });
        }
    }
}

/// A value under a name.
pub(crate) fn named(name: &str, value: &Int, width_bits: u32) -> TraceValue {
    TraceValue {
        name: name.into(),
        width_bits,
        value: TraceBytes::from_slice(&value::to_be_bytes(value, width_bits)),
        is_secret: false,
    }
}
