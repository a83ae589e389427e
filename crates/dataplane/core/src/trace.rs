//! Traces: every step of a packet as an event, for people and tests.
//!
//! Tracing costs nothing while no sink is set: events are made only for a sink. A sink gets every event;
//! [`TraceRenderer`] omits uninteresting events.

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

/// The bytes of a value. Most values are short, and the event itself holds the bytes of a short value: memory allocated
/// in one thread and freed in another would cost more than the rest of the trace.
pub type TraceBytes = SmallVec<[u8; 16]>;

/// A step of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceEvent {
    /// Time in nanoseconds of the caller's clock.
    pub now: Nanos,
    /// The packet's name, for example `1` for a frame, `1.c1` for its first clone, `1.r2` for its second replica. The
    /// name is `?` if no trace was on when the packet arrived.
    pub packet: Arc<str>,
    /// The number of the pass, from 1: recirculation and resubmission start the next pass. A copy belongs to the pass
    /// that made the copy.
    pub pass: u32,
    /// The P4 source line, for steps of a control; `None` for other steps or if unknown.
    pub source: Option<SourceLine>,
    /// What happened in the step.
    pub kind: TraceKind,
}

/// A header and its fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceHeader {
    /// Name of the header instance.
    pub name: SmolStr,
    /// Total width of its fields.
    pub width_bits: usize,
    /// Its fields, without the header's name; empty if [`TraceSink::wants_fields`] is false.
    pub fields: Vec<TraceValue>,
}

/// A name with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceValue {
    /// Name in the P4 program.
    pub name: SmolStr,
    /// Width in bits.
    pub width_bits: u32,
    /// Big endian, padded to whole bytes; empty for a secret.
    pub value: TraceBytes,
    /// Whether the value is declared `@secret` or derives from such a value, so that it is hidden.
    pub is_secret: bool,
}

impl TraceValue {
    pub(crate) fn hidden_if(mut self, is_secret: bool) -> Self {
        if is_secret {
            self.value.clear();
            self.is_secret = true;
        }
        self
    }
}

/// The index of an array access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceIndex {
    /// A cell of the array.
    At(usize),
    /// Beyond the end of the array.
    OutOfRange,
    /// The index was derived from a secret, and is hidden.
    Secret,
}

impl TraceIndex {
    /// Makes the index from the cell that it selects; `cell` is `None` for an index beyond the end of the array.
    pub(crate) fn of(cell: Option<usize>, is_secret: bool) -> Self {
        match cell {
            _ if is_secret => Self::Secret,
            Some(cell) => Self::At(cell),
            None => Self::OutOfRange,
        }
    }
}

/// A part of the pipeline.
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

/// What an event reports.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceKind {
    /// A frame arrived.
    Arrive {
        /// Ingress port.
        port: PortId,
        /// Length of the frame.
        frame_len_bytes: usize,
    },
    /// A part of the pipeline starts.
    Begin(Stage),
    /// The parser enters a state.
    ParserState(SmolStr),
    /// The parser extracted a header.
    Extract(TraceHeader),
    /// The parser selects the next state.
    Transition {
        /// The values of the `select` key.
        key: Vec<TraceValue>,
        /// The next state; `None` ends the parser.
        next: Option<SmolStr>,
    },
    /// The parser stopped with an error; ingress still runs.
    ParserError(SmolStr),
    /// A checksum was verified.
    ChecksumVerified {
        /// The field with the checksum.
        field: SmolStr,
        /// Whether found and computed checksum are equal.
        is_right: bool,
        /// Found and computed checksum; `None` if secret.
        values: Option<(u64, u64)>,
    },
    /// A checksum was updated.
    ChecksumUpdated {
        /// The field with the checksum.
        field: SmolStr,
        /// The computed checksum; `None` if secret.
        computed: Option<u64>,
    },
    /// A condition was evaluated.
    Condition {
        /// The condition's source text, or its node's name.
        text: SmolStr,
        /// The result.
        holds: bool,
    },
    /// A table was applied.
    Table {
        /// Name of the table.
        table: SmolStr,
        /// The key that was looked up.
        key: Vec<TraceValue>,
        /// The key of the entry that was hit; `None` is a miss.
        entry: Option<String>,
        /// BMv2's handle of the entry.
        handle: Option<EntryHandle>,
    },
    /// An action runs.
    Action {
        /// Name of the action.
        action: SmolStr,
        /// Its arguments.
        args: Vec<TraceValue>,
    },
    /// A field was written.
    Assign {
        /// Field and previous value.
        old: TraceValue,
        /// New value, big endian; empty if secret.
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
        /// Index of the cell.
        index: TraceIndex,
    },
    /// A register cell was written.
    RegisterWrite {
        /// Register and value.
        cell: TraceValue,
        /// Index of the cell.
        index: TraceIndex,
    },
    /// A counter cell was incremented.
    Count {
        /// Name of the counter.
        counter: SmolStr,
        /// Index of the cell.
        index: TraceIndex,
    },
    /// A meter ran.
    Meter {
        /// Name of the meter.
        meter: SmolStr,
        /// Index of the cell; `None` for a direct meter.
        index: Option<TraceIndex>,
        /// 0 green, 1 yellow, 2 red; `None` if the cell does not exist or its index is secret.
        color: Option<u8>,
    },
    /// A clone or replica was made.
    Copy {
        /// The clone session or multicast group.
        by: Stream,
        /// Whether the number in `by` is secret and hidden.
        is_secret: bool,
        /// The name of the copy.
        packet: Arc<str>,
        /// Output port of the copy.
        port: PortId,
        /// The copy's `egress_rid`.
        instance: u16,
    },
    /// The program called a payload extern.
    ChangePayload {
        /// Name of the extern.
        function: SmolStr,
        /// Its arguments.
        args: Vec<TraceValue>,
    },
    /// A digest was made.
    Digest(SmolStr),
    /// The packet returns to ingress as it arrived.
    Resubmit {
        /// The number of the next pass.
        pass: u32,
    },
    /// The packet returns to ingress as the deparsed frame.
    Recirculate {
        /// The number of the next pass.
        pass: u32,
    },
    /// The packet was queued at an output port.
    Enqueue {
        /// Output port.
        port: PortId,
        /// Queue of the port; `None` if secret.
        queue: Option<usize>,
        /// Packets that were in the queue before this packet.
        depth: usize,
    },
    /// The deparser wrote the frame.
    Deparse {
        /// The headers, in order.
        headers: Vec<TraceHeader>,
        /// Length of the frame.
        frame_len_bytes: usize,
    },
    /// The frame left.
    Transmit {
        /// Output port.
        port: PortId,
        /// Length of the frame.
        frame_len_bytes: usize,
    },
    /// The frame went to the control plane.
    PacketIn {
        /// Length of the frame.
        frame_len_bytes: usize,
    },
    /// The packet or a clone was dropped.
    Drop(DropReason),
    /// The text of a `log_msg`.
    Log(String),
}

/// Receives events.
pub trait TraceSink: Send {
    /// Receives the next event, in order.
    fn event(&mut self, event: &TraceEvent);

    /// Receives the next event by value. The switch calls only this method; a sink that stores events overrides it.
    fn take(&mut self, event: TraceEvent) {
        self.event(&event);
    }

    /// Whether the sink needs the fields of headers, which make up most of an event's cost.
    fn wants_fields(&self) -> bool {
        true
    }
}

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

    pub(crate) fn wants_fields(&self) -> bool {
        self.sink.as_ref().is_some_and(|sink| sink.wants_fields())
    }

    pub(crate) fn is_on(&self) -> bool {
        self.sink.is_some()
    }

    /// Names the n-th received frame; returns [`NameId::NONE`] if no sink is set.
    pub(crate) fn name_frame(&mut self, n: u64) -> NameId {
        if self.is_on() {
            self.names.add(n.to_string())
        } else {
            NameId::NONE
        }
    }

    pub(crate) fn name_copy(&mut self, of: NameId, by: Stream) -> NameId {
        self.names.add_copy(of, by)
    }

    /// Frees the name of a packet that left the switch.
    #[inline]
    pub(crate) fn forget(&mut self, name: NameId) {
        if name != NameId::NONE {
            self.names.remove(name);
        }
    }

    #[inline]
    pub(crate) fn set_packet(&mut self, now: Nanos, packet: NameId, pass: u32) {
        self.now = now;
        if self.sink.is_some() {
            self.packet = packet;
            self.pass = pass;
            self.source = None;
        }
    }

    pub(crate) fn set_line(&mut self, line: impl FnOnce() -> Option<SourceLine>) {
        if self.sink.is_some() {
            self.source = line();
        }
    }

    #[inline]
    pub(crate) fn emit(&mut self, kind: impl FnOnce() -> TraceKind) {
        if self.sink.is_some() {
            self.send(kind());
        }
    }

    /// Sends an event that contains the name of a copy.
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

pub(crate) fn named(name: &str, value: &Int, width_bits: u32) -> TraceValue {
    TraceValue {
        name: name.into(),
        width_bits,
        value: TraceBytes::from_slice(&value::to_be_bytes(value, width_bits)),
        is_secret: false,
    }
}
