//! Everything that happens to a packet, as events for a person or a test.
//!
//! Costs nothing where no sink is set: events are only made for a sink.

use std::{fmt, sync::Arc};

use crate::{
    DropReason, Nanos, PortId,
    program::ir::{FieldId, Ir},
    value::{self, Int},
};

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceEvent {
    /// When, in the caller's nanoseconds.
    pub now: Nanos,
    /// Which packet: `1`, its first clone `1.c1`, its second replica `1.r2`; `?` where nobody
    /// traced when it came.
    pub packet: Arc<str>,
    /// The how-manieth pass through ingress or egress of the packet and its ancestors, from 1.
    pub pass: u32,
    /// What happened.
    pub kind: TraceKind,
}

/// A named value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceValue {
    /// Name as in the P4 program.
    pub name: String,
    /// Width in bits.
    pub width_bits: u32,
    /// Big endian, padded to whole bytes.
    pub value: Vec<u8>,
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
    ParserState(String),
    /// The parser extracted a header.
    Extract {
        /// Header instance.
        header: String,
        /// Its fields.
        fields: Vec<TraceValue>,
    },
    /// The parser chooses the next state.
    Transition {
        /// What it looked at.
        key: Vec<TraceValue>,
        /// The next state; none ends the parser.
        next: Option<String>,
    },
    /// The parser stopped with an error; ingress runs nevertheless.
    ParserError(String),
    /// A checksum was compared.
    ChecksumVerified {
        /// The field.
        field: String,
        /// What the field holds.
        found: u64,
        /// What was computed.
        computed: u64,
    },
    /// A checksum was computed.
    ChecksumUpdated {
        /// The field.
        field: String,
        /// What was computed.
        computed: u64,
    },
    /// A condition was looked at.
    Condition {
        /// Its text in the source, or its node's name.
        text: String,
        /// The outcome.
        holds: bool,
    },
    /// A table was applied.
    Table {
        /// Table.
        table: String,
        /// The key's values.
        key: Vec<TraceValue>,
        /// The entry that was hit; none is a miss.
        entry: Option<String>,
    },
    /// An action runs.
    Action {
        /// Action.
        action: String,
        /// Its arguments.
        args: Vec<TraceValue>,
    },
    /// A field was written.
    Assign {
        /// The value before.
        old: TraceValue,
        /// The value after, big endian.
        new: Vec<u8>,
    },
    /// A header became valid.
    HeaderAdded(String),
    /// A header became invalid.
    HeaderRemoved(String),
    /// A register cell was read.
    RegisterRead {
        /// Register and value.
        cell: TraceValue,
        /// Index; none where it is no index.
        index: Option<usize>,
    },
    /// A register cell was written.
    RegisterWrite {
        /// Register and value.
        cell: TraceValue,
        /// Index; none where it is no index.
        index: Option<usize>,
    },
    /// A counter cell counted.
    Count {
        /// Counter.
        counter: String,
        /// Index; none where it is no index.
        index: Option<usize>,
    },
    /// A copy was made by a clone session.
    Clone {
        /// The session.
        session: u32,
        /// The copy.
        packet: Arc<str>,
        /// Where it goes.
        port: PortId,
        /// Its `egress_rid`.
        instance: u16,
    },
    /// A copy was made by a multicast group.
    Replicate {
        /// The group.
        group: u32,
        /// The copy.
        packet: Arc<str>,
        /// Where it goes.
        port: PortId,
        /// Its `egress_rid`.
        instance: u16,
    },
    /// A digest went to the control plane.
    Digest(String),
    /// The packet goes back to ingress as it came.
    Resubmit,
    /// The packet goes back to ingress as it would have left.
    Recirculate {
        /// How often by now.
        times: u32,
    },
    /// The packet waits at an output port.
    Enqueue {
        /// Port.
        port: PortId,
        /// Queue of the port.
        queue: usize,
        /// Packets there before it.
        depth: usize,
    },
    /// The deparser wrote the frame.
    Deparse {
        /// The headers in their order.
        headers: Vec<String>,
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
}

/// Where the interpreter sends events.
#[derive(Default)]
pub(crate) struct Tracer {
    sink: Option<Box<dyn TraceSink>>,
    now: Nanos,
    packet: Option<Arc<str>>,
    pass: u32,
}

impl Tracer {
    pub(crate) fn set_sink(&mut self, sink: Option<Box<dyn TraceSink>>) {
        self.sink = sink;
    }

    pub(crate) fn is_on(&self) -> bool {
        self.sink.is_some()
    }

    /// The packet that the next events are about.
    pub(crate) fn set_packet(&mut self, now: Nanos, packet: Option<&Arc<str>>, pass: u32) {
        self.now = now;
        if self.sink.is_some() {
            self.packet = packet.cloned();
            self.pass = pass;
        }
    }

    /// Makes and sends an event, if anyone listens.
    pub(crate) fn emit(&mut self, kind: impl FnOnce() -> TraceKind) {
        if let Some(sink) = &mut self.sink {
            let packet = self.packet.clone().unwrap_or_else(|| Arc::from("?"));
            sink.event(&TraceEvent { now: self.now, packet, pass: self.pass, kind: kind() });
        }
    }
}

/// A value under a name.
pub(crate) fn named(name: impl Into<String>, value: &Int, width_bits: u32) -> TraceValue {
    TraceValue { name: name.into(), width_bits, value: value::to_be_bytes(value, width_bits) }
}

/// A field's value.
pub(crate) fn field_value(ir: &Ir, phv: &crate::phv::Phv, field: FieldId) -> TraceValue {
    named(&ir.fields[field.index()].name, phv.get(field), phv.bits(ir, field))
}

/// Renders events as lines of text: one packet's passes as indented blocks.
#[derive(Debug, Default)]
pub struct TraceRenderer {
    last: Option<(Arc<str>, u32)>,
}

impl TraceRenderer {
    /// The lines of an event, with a headline where another packet or pass begins.
    pub fn render(&mut self, event: &TraceEvent) -> String {
        let mut out = String::new();
        let current = (event.packet.clone(), event.pass);
        if self.last.as_ref() != Some(&current) {
            out.push_str(&format!(
                "packet {}, pass {}, at {}.{:06} ms\n",
                event.packet,
                event.pass,
                event.now / 1_000_000,
                event.now % 1_000_000
            ));
            self.last = Some(current);
        }
        let text = event.kind.to_string();
        let indent = indent(&event.kind);
        for line in text.lines() {
            out.push_str(&" ".repeat(indent));
            out.push_str(line);
            out.push('\n');
        }
        out
    }
}

fn indent(kind: &TraceKind) -> usize {
    match kind {
        TraceKind::Assign { .. }
        | TraceKind::HeaderAdded(_)
        | TraceKind::HeaderRemoved(_)
        | TraceKind::RegisterRead { .. }
        | TraceKind::RegisterWrite { .. }
        | TraceKind::Count { .. }
        | TraceKind::Log(_) => 8,
        TraceKind::Extract { .. }
        | TraceKind::Transition { .. }
        | TraceKind::Action { .. } => 6,
        TraceKind::ParserState(_)
        | TraceKind::ParserError(_)
        | TraceKind::ChecksumVerified { .. }
        | TraceKind::ChecksumUpdated { .. }
        | TraceKind::Condition { .. }
        | TraceKind::Table { .. }
        | TraceKind::Deparse { .. } => 4,
        _ => 2,
    }
}

impl fmt::Display for TraceValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.name, format_value(&self.name, self.width_bits, &self.value))
    }
}

/// A value as a person writes it: addresses by width and name, otherwise hexadecimal, and decimal
/// beside it where that is shorter to read.
pub(crate) fn format_value(name: &str, width_bits: u32, value: &[u8]) -> String {
    let field = name.rsplit('.').next().unwrap_or(name).to_ascii_lowercase();
    let is_address =
        ["addr", "ip", "mac", "src", "dst"].iter().any(|word| field.contains(word));
    match (width_bits, value) {
        (32, [a, b, c, d]) if is_address => format!("{a}.{b}.{c}.{d}"),
        (48, mac) if is_address && mac.len() == 6 => {
            mac.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
        }
        _ => {
            let digits: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
            let digits = digits.trim_start_matches('0');
            let digits = if digits.is_empty() { "0" } else { digits };
            match u64::from_str_radix(digits, 16) {
                Ok(number) if number < 10 => number.to_string(),
                Ok(number) if width_bits <= 32 => format!("0x{digits} ({number})"),
                _ => format!("0x{digits}"),
            }
        }
    }
}

fn list(values: &[TraceValue]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn at(index: Option<usize>) -> String {
    index.map_or_else(|| "out of range".into(), |index| index.to_string())
}

impl fmt::Display for TraceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Arrive { port, frame_len_bytes } => {
                write!(f, "arrives on port {port}, {frame_len_bytes} bytes")
            }
            Self::Begin(stage) => write!(f, "{}", format!("{stage:?}").to_lowercase()),
            Self::ParserState(state) => write!(f, "state {state}"),
            Self::Extract { header, fields } => {
                write!(f, "extract {header}")?;
                fields.iter().try_for_each(|field| write!(f, "\n  {field}"))
            }
            Self::Transition { key, next } => {
                let next = next.as_deref().unwrap_or("accept");
                if key.is_empty() {
                    write!(f, "transition {next}")
                } else {
                    write!(f, "select ({}): transition {next}", list(key))
                }
            }
            Self::ParserError(error) => write!(f, "parser error {error}"),
            Self::ChecksumVerified { field, found, computed } if found == computed => {
                write!(f, "checksum {field} = {found:#x} is right")
            }
            Self::ChecksumVerified { field, found, computed } => {
                write!(f, "checksum {field} = {found:#x} is wrong, computed {computed:#x}")
            }
            Self::ChecksumUpdated { field, computed } => {
                write!(f, "checksum {field} := {computed:#x}")
            }
            Self::Condition { text, holds } => write!(f, "if ({text}): {holds}"),
            Self::Table { table, key, entry } => {
                write!(f, "table {table}")?;
                if !key.is_empty() {
                    write!(f, " ({})", list(key))?;
                }
                match entry {
                    Some(entry) => write!(f, ": hit {entry}"),
                    None => write!(f, ": miss"),
                }
            }
            Self::Action { action, args } => write!(f, "action {action}({})", list(args)),
            Self::Assign { old, new } => {
                let new = format_value(&old.name, old.width_bits, new);
                let was = format_value(&old.name, old.width_bits, &old.value);
                write!(f, "{} := {new} (was {was})", old.name)
            }
            other => other.fmt_traffic(f),
        }
    }
}

impl TraceKind {
    fn fmt_traffic(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HeaderAdded(header) => write!(f, "{header} becomes valid"),
            Self::HeaderRemoved(header) => write!(f, "{header} becomes invalid"),
            Self::RegisterRead { cell, index } => {
                let value = format_value(&cell.name, cell.width_bits, &cell.value);
                write!(f, "register {}[{}] is {value}", cell.name, at(*index))
            }
            Self::RegisterWrite { cell, index } => {
                let value = format_value(&cell.name, cell.width_bits, &cell.value);
                write!(f, "register {}[{}] := {value}", cell.name, at(*index))
            }
            Self::Count { counter, index } => write!(f, "counter {counter}[{}]", at(*index)),
            Self::Clone { session, packet, port, instance } => {
                write!(f, "clone session {session}: packet {packet} to port {port}")?;
                if *instance != 0 { write!(f, ", rid {instance}") } else { Ok(()) }
            }
            Self::Replicate { group, packet, port, instance } => {
                write!(f, "multicast group {group}: packet {packet} to port {port}, rid {instance}")
            }
            Self::Digest(name) => write!(f, "digest {name}"),
            Self::Resubmit => write!(f, "resubmitted"),
            Self::Recirculate { times } => write!(f, "recirculates, time {times}"),
            Self::Enqueue { port, queue, depth } => {
                write!(f, "waits at port {port}, queue {queue}, behind {depth}")
            }
            Self::Deparse { headers, frame_len_bytes } => {
                write!(f, "deparse {}: {frame_len_bytes} bytes", headers.join(", "))
            }
            Self::Transmit { port, frame_len_bytes } => {
                write!(f, "transmitted on port {port}, {frame_len_bytes} bytes")
            }
            Self::PacketIn { frame_len_bytes } => {
                write!(f, "to the control plane, {frame_len_bytes} bytes")
            }
            Self::Drop(reason) => write!(f, "dropped: {reason}"),
            Self::Log(message) => write!(f, "log: {message}"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_addresses() {
        assert_eq!(format_value("ipv4.src_addr", 32, &[10, 0, 0, 1]), "10.0.0.1");
        assert_eq!(format_value("eth.dstAddr", 48, &[2, 0, 0, 0, 0, 1]), "02:00:00:00:00:01");
        assert_eq!(format_value("udp.length", 16, &[0, 100]), "0x64 (100)");
        assert_eq!(format_value("meta.flag", 1, &[1]), "1");
    }
}
