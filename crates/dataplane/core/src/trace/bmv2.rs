//! Renders events in the wording of BMv2's log, for scripts that search such logs.
//!
//! The wording is that of behavioral-model 1.15 (`bm_sim`, `simple_switch`). The caller adds time and thread to each
//! line. Information that events lack is left out: a condition's node, the source text of an assignment.

use std::{
    collections::VecDeque,
    fmt::{self, Display, Write},
    sync::Arc,
};

use data_encoding::HEXLOWER;

use super::{Stage, TraceEvent, TraceIndex, TraceKind, TraceValue, render::short_hex};
use crate::{
    DropReason, PortId, Stream, limits,
    program::{HIDDEN, ir::SourceLine},
};

/// Number of frames for which the renderer remembers the numbers of copies; copies of an older frame are numbered from
/// 1 again.
const FRAMES_WITH_COPIES_MAX: usize = 256;

/// Minimum width of field names in the key of a lookup, in characters.
const KEY_NAME_WIDTH: usize = 20;

/// Severity of a log line, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Steps of an action, and conditions.
    Trace,
    /// Parser states, tables, ports.
    Debug,
    /// Messages of `log_msg`.
    Info,
    /// No line about a packet has this severity.
    Warn,
    /// Parser errors and indices out of range.
    Error,
}

impl Severity {
    /// The letter in a log line.
    pub fn letter(self) -> char {
        match self {
            Severity::Trace => 'T',
            Severity::Debug => 'D',
            Severity::Info => 'I',
            Severity::Warn => 'W',
            Severity::Error => 'E',
        }
    }
}

/// A line of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bmv2Line<'a> {
    /// The level at which the caller logs the line.
    pub severity: Severity,
    /// The text that follows time and thread in the log.
    pub text: &'a str,
}

/// Renders events as BMv2 logs them.
#[derive(Debug)]
pub struct Bmv2Renderer {
    cpu_port: Option<PortId>,
    numbers: Numbers,
    /// The concatenated lines of the last event; kept to avoid allocations.
    text: String,
    /// Severity and end of each line in `text`.
    ends: Vec<(Severity, usize)>,
    /// The part of the pipeline that runs, and the text with which every line about its packet begins.
    open: Option<(Stage, String)>,
    /// The previous part of the pipeline.
    last: Option<Stage>,
    parser_state: String,
    parsed_bits: usize,
    /// Whether the next action is run by the table that was applied last.
    follows_table: bool,
    /// The copy that was reported last. The line about the copy names its output port, so its `Enqueue` event gets no
    /// line.
    copy: Option<Arc<str>>,
    /// The last packet for which a multicast was reported.
    multicast: Option<Arc<str>>,
}

impl Bmv2Renderer {
    /// `cpu_port` is logged as the output port of packet-ins.
    pub fn new(cpu_port: Option<PortId>) -> Self {
        Self {
            cpu_port,
            numbers: Numbers::default(),
            text: String::new(),
            ends: Vec::new(),
            open: None,
            last: None,
            parser_state: String::new(),
            parsed_bits: 0,
            follows_table: false,
            copy: None,
            multicast: None,
        }
    }

    /// The lines of an event, in order; empty if BMv2 logs nothing.
    pub fn render(&mut self, event: &TraceEvent) -> impl Iterator<Item = Bmv2Line<'_>> {
        self.write(event);
        let text = self.text.as_str();
        let mut start = 0;
        self.ends.iter().map(move |(severity, end)| Bmv2Line {
            severity: *severity,
            text: &text[std::mem::replace(&mut start, *end)..*end],
        })
    }

    fn write(&mut self, event: &TraceEvent) {
        self.text.clear();
        self.ends.clear();
        let (frame, copy) = self.numbers.of(&event.packet);
        let packet = format!("[{frame}.{copy}] [cxt 0] ");
        if ends_stage(&event.kind) {
            self.close();
        }
        let mut line = Lines {
            text: &mut self.text,
            ends: &mut self.ends,
            packet: &packet,
            source: Place(event.source.as_ref()),
        };
        match &event.kind {
            TraceKind::Arrive { port, .. } => {
                line.debug(format_args!("Processing packet received on port {port}"));
            }
            TraceKind::Begin(stage) => {
                line.debug(format_args!("{}: start", stage_name(*stage)));
                self.parsed_bits = 0;
                self.open = Some((*stage, packet));
            }
            TraceKind::ParserState(state) => {
                state.as_str().clone_into(&mut self.parser_state);
                line.debug(format_args!("Parser 'parser' entering state '{state}'"));
            }
            TraceKind::Extract(header) => {
                self.parsed_bits += header.width_bits;
                line.debug(format_args!("Extracting header '{}'", header.name));
            }
            TraceKind::Transition { key, .. } => {
                line.transition(&self.parser_state, key);
                line.trace(format_args!("Bytes parsed: {}", self.parsed_bits / 8));
            }
            TraceKind::Table {
                table,
                key,
                entry,
                handle,
            } => {
                self.follows_table = true;
                line.table(table, key, handle.map(|it| it.0).zip(entry.as_deref()));
            }
            TraceKind::Action { action, args } => {
                let is_of_table = std::mem::take(&mut self.follows_table);
                line.action(action, args, is_of_table);
            }
            TraceKind::Copy {
                by, packet, port, ..
            } => {
                self.copy = Some(Arc::clone(packet));
                let is_first = self.multicast.as_ref() != Some(&event.packet);
                if matches!(by, Stream::MulticastGroup(_)) {
                    self.multicast = Some(Arc::clone(&event.packet));
                }
                line.copy(*by, *port, is_first, self.last);
            }
            TraceKind::Enqueue { port, .. } if self.copy.as_ref() != Some(&event.packet) => {
                line.debug(format_args!("Egress port is {port}"));
            }
            TraceKind::PacketIn { frame_len_bytes } => {
                if let Some(port) = self.cpu_port {
                    line.transmit(*frame_len_bytes, port);
                }
            }
            kind => line.other(kind),
        }
        if matches!(event.kind, TraceKind::Deparse { .. }) {
            self.close();
        }
    }

    /// Logs the end of the part of the pipeline that runs.
    fn close(&mut self) {
        let Some((stage, packet)) = self.open.take() else {
            return;
        };
        self.last = Some(stage);
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{packet}{}: end", stage_name(stage));
        self.ends.push((Severity::Debug, self.text.len()));
    }
}

/// The source position, followed by a space; empty if unknown.
struct Place<'a>(Option<&'a SourceLine>);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(at) => write!(f, "{}({}) ", at.file, at.line),
            None => Ok(()),
        }
    }
}

/// Whether the running part of the pipeline ends before the event.
fn ends_stage(kind: &TraceKind) -> bool {
    matches!(
        kind,
        TraceKind::Arrive { .. }
            | TraceKind::Begin(_)
            | TraceKind::Copy { .. }
            | TraceKind::Digest(_)
            | TraceKind::Resubmit { .. }
            | TraceKind::Recirculate { .. }
            | TraceKind::Enqueue { .. }
            | TraceKind::Transmit { .. }
            | TraceKind::PacketIn { .. }
            | TraceKind::Drop(_)
    )
}

fn stage_name(stage: Stage) -> &'static str {
    match stage {
        Stage::Parser => "Parser 'parser'",
        Stage::Ingress => "Pipeline 'ingress'",
        Stage::Egress => "Pipeline 'egress'",
        Stage::Deparser => "Deparser 'deparser'",
    }
}

struct Lines<'a> {
    text: &'a mut String,
    ends: &'a mut Vec<(Severity, usize)>,
    packet: &'a str,
    source: Place<'a>,
}

impl Lines<'_> {
    fn push(&mut self, severity: Severity, text: impl Display) {
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{}{text}", self.packet);
        self.ends.push((severity, self.text.len()));
    }

    fn trace(&mut self, text: impl Display) {
        self.push(Severity::Trace, text);
    }

    fn trace_at_source(&mut self, text: impl Display) {
        let _ = write!(self.text, "{}{}{text}", self.packet, self.source);
        self.ends.push((Severity::Trace, self.text.len()));
    }

    fn debug(&mut self, text: impl Display) {
        self.push(Severity::Debug, text);
    }

    fn error(&mut self, text: impl Display) {
        self.push(Severity::Error, text);
    }

    fn transition(&mut self, state: &str, key: &[TraceValue]) {
        if key.is_empty() {
            return self.debug(format_args!(
                "Parser state '{state}' has no switch, going to default next state"
            ));
        }
        let key: String = key.iter().map(|part| shown(part, hexadecimal)).collect();
        self.debug(format_args!("Parser state '{state}': key is {key}"));
    }

    fn table(&mut self, table: &str, key: &[TraceValue], entry: Option<(u32, &str)>) {
        self.trace(format_args!("Applying table '{table}'"));
        self.debug(format_args!("Looking up key:\n{}", key_lines(key)));
        match entry {
            Some((handle, entry)) => {
                self.debug(format_args!("Table '{table}': hit with handle {handle}"));
                self.debug(format_args!("Dumping entry {handle}\nMatch key: {entry}\n"));
            }
            None => self.debug(format_args!("Table '{table}': miss")),
        }
    }

    fn action(&mut self, action: &str, args: &[TraceValue], is_of_table: bool) {
        if is_of_table {
            let args: String = args.iter().map(|arg| shown(arg, short_hex) + ",").collect();
            self.debug(format_args!("Action entry is {action} - {args}"));
        }
        self.trace_at_source(format_args!("Action {action}"));
    }

    fn copy(&mut self, by: Stream, port: PortId, is_first: bool, last: Option<Stage>) {
        if let Stream::CloneSession(_) = by {
            let at = if last == Some(Stage::Ingress) {
                "ingress"
            } else {
                "egress"
            };
            self.debug(format_args!("Cloning packet at {at}"));
            return self.debug(format_args!("Cloning packet to egress port {port}"));
        }
        if is_first {
            self.debug("Multicast requested for packet");
        }
        self.debug(format_args!("Replicating packet on port {port}"));
    }

    fn transmit(&mut self, frame_len_bytes: usize, port: PortId) {
        self.debug(format_args!(
            "Transmitting packet of size {frame_len_bytes} out of port {port}"
        ));
    }

    /// Writes the lines of events that need no state of the renderer.
    fn other(&mut self, kind: &TraceKind) {
        match kind {
            TraceKind::ParserError(error) => {
                self.error(format_args!("Exception while parsing: {error}"));
            }
            TraceKind::ChecksumVerified {
                field,
                is_right,
                values,
            } => {
                match values {
                    Some((found, computed)) => self.debug(format_args!(
                        "Checksum '{field}': computed 0x{computed:x} - actual 0x{found:x}"
                    )),
                    None => self.debug(format_args!(
                        "Checksum '{field}': computed {HIDDEN} - actual {HIDDEN}"
                    )),
                }
                let outcome = if *is_right { "passed" } else { "failed" };
                self.debug(format_args!("Verified checksum '{field}': {outcome}"));
            }
            TraceKind::ChecksumUpdated { field, .. } => {
                self.debug(format_args!("Updating checksum '{field}'"));
            }
            TraceKind::Condition { text, holds } => {
                self.trace_at_source(format_args!("Condition \"{text}\" is {holds}"));
            }
            TraceKind::Assign { old, new } => {
                let new = if old.is_secret {
                    HIDDEN.to_owned()
                } else {
                    format!("0x{}", short_hex(new))
                };
                self.trace_at_source(format_args!("Primitive {} = {new}", old.name));
            }
            TraceKind::HeaderAdded(header) => {
                self.trace_at_source(format_args!("Primitive {header}.setValid()"));
            }
            TraceKind::HeaderRemoved(header) => {
                self.trace_at_source(format_args!("Primitive {header}.setInvalid()"));
            }
            TraceKind::Log(message) => {
                self.text.push_str(message);
                self.ends.push((Severity::Info, self.text.len()));
            }
            kind => self.of_externs(kind),
        }
    }

    fn of_externs(&mut self, kind: &TraceKind) {
        match kind {
            TraceKind::RegisterRead { cell, index } => match index {
                TraceIndex::OutOfRange => self.out_of_range("read register", &cell.name),
                index => self.trace(format_args!(
                    "Read register '{}' at index {index} read value {}",
                    cell.name,
                    shown(cell, number)
                )),
            },
            TraceKind::RegisterWrite { cell, index } => match index {
                TraceIndex::OutOfRange => self.out_of_range("write register", &cell.name),
                index => self.trace(format_args!(
                    "Wrote register '{}' at index {index} with value {}",
                    cell.name,
                    shown(cell, number)
                )),
            },
            TraceKind::Count { counter, index } => match index {
                TraceIndex::OutOfRange => self.out_of_range("update counter", counter),
                index => {
                    self.trace(format_args!("Updated counter '{counter}' at index {index}"));
                }
            },
            TraceKind::Meter { meter, index, .. } => match index {
                Some(TraceIndex::OutOfRange) | None => {
                    self.debug(format_args!("Executing meter {meter}"));
                }
                Some(index) => self.debug(format_args!("Executing meter {meter}[{index}]")),
            },
            kind => self.traffic(kind),
        }
    }

    fn out_of_range(&mut self, what: &str, name: &str) {
        self.error(format_args!(
            "Attempted to {what} '{name}' at out-of-bounds index"
        ));
    }

    fn traffic(&mut self, kind: &TraceKind) {
        match kind {
            TraceKind::Digest(name) => {
                self.trace(format_args!("Learning sample for list '{name}'"))
            }
            TraceKind::Resubmit { .. } => self.debug("Resubmitting packet"),
            TraceKind::Recirculate { .. } => self.debug("Recirculating packet"),
            TraceKind::Deparse { headers, .. } => {
                for header in headers {
                    self.debug(format_args!("Deparsing header '{}'", header.name));
                }
            }
            TraceKind::Transmit {
                port,
                frame_len_bytes,
            } => self.transmit(*frame_len_bytes, *port),
            TraceKind::Drop(DropReason::IngressDrop) => {
                self.debug(format_args!("Egress port is {}", limits::DROP_PORT));
                self.debug("Dropping packet at the end of ingress");
            }
            TraceKind::Drop(DropReason::EgressDrop) => {
                self.debug("Dropping packet at the end of egress");
            }
            TraceKind::Drop(reason) => self.debug(format_args!("Dropping packet: {reason}")),
            // Payload externs do not exist in BMv2.
            _ => {}
        }
    }
}

fn key_lines(key: &[TraceValue]) -> String {
    let widest = key.iter().map(|field| field.name.len()).max();
    let width = widest.unwrap_or(0).max(KEY_NAME_WIDTH);
    let mut out = String::new();
    for field in key {
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "* {:width$}: {}",
            field.name,
            shown(field, hexadecimal)
        );
    }
    out
}

fn shown(value: &TraceValue, form: fn(&[u8]) -> String) -> String {
    if value.is_secret {
        HIDDEN.to_owned()
    } else {
        form(&value.value)
    }
}

fn hexadecimal(value: &[u8]) -> String {
    HEXLOWER.encode(value)
}

/// Formats a number: in decimal up to 128 bits, otherwise in hexadecimal.
fn number(value: &[u8]) -> String {
    let digits = short_hex(value);
    u128::from_str_radix(&digits, 16).map_or(format!("0x{digits}"), |number| number.to_string())
}

/// Assigns BMv2's packet numbers: the number of the frame, from 0, and the number of the copy, 0 for the original.
#[derive(Debug, Default)]
struct Numbers {
    /// Frames and their copies, the oldest frame first.
    frames: VecDeque<(u64, Vec<Arc<str>>)>,
}

impl Numbers {
    fn of(&mut self, label: &Arc<str>) -> (u64, usize) {
        let frame = label.split('.').next().unwrap_or_default();
        // The name "?", of a packet that arrived before the trace was on, counts as frame 0.
        let frame = frame.parse::<u64>().map_or(0, |n| n.saturating_sub(1));
        if label.contains('.') {
            (frame, self.copy(frame, label))
        } else {
            (frame, 0)
        }
    }

    fn copy(&mut self, frame: u64, label: &Arc<str>) -> usize {
        let known = self.frames.iter().rposition(|(number, _)| *number == frame);
        let place = known.unwrap_or_else(|| {
            if self.frames.len() == FRAMES_WITH_COPIES_MAX {
                self.frames.pop_front();
            }
            self.frames.push_back((frame, Vec::new()));
            self.frames.len() - 1
        });
        let copies = &mut self.frames[place].1;
        let position = copies.iter().position(|copy| copy == label);
        1 + position.unwrap_or_else(|| {
            copies.push(Arc::clone(label));
            copies.len() - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::TraceHeader;

    fn texts(renderer: &mut Bmv2Renderer, packet: &str, kinds: Vec<TraceKind>) -> Vec<String> {
        let mut out = Vec::new();
        for kind in kinds {
            let event = TraceEvent {
                now: 0,
                packet: packet.into(),
                pass: 1,
                source: None,
                kind,
            };
            let lines = renderer.render(&event);
            out.extend(lines.map(|line| format!("{} {}", line.severity.letter(), line.text)));
        }
        out
    }

    fn value(name: &str, value: &[u8]) -> TraceValue {
        TraceValue {
            name: name.into(),
            width_bits: 8 * value.len() as u32,
            value: value.into(),
            is_secret: false,
        }
    }

    #[test]
    fn of_a_secret_neither_index_nor_checksum_is_written() {
        let secret = |name: &str| value(name, &[7]).hidden_if(true);
        let sum = || "tag.sum".into();
        let kinds = vec![
            TraceKind::RegisterRead {
                cell: secret("I.cells"),
                index: TraceIndex::Secret,
            },
            TraceKind::RegisterWrite {
                cell: secret("I.cells"),
                index: TraceIndex::Secret,
            },
            TraceKind::Count {
                counter: "I.counts".into(),
                index: TraceIndex::Secret,
            },
            TraceKind::Meter {
                meter: "I.rates".into(),
                index: Some(TraceIndex::Secret),
                color: None,
            },
            TraceKind::ChecksumVerified {
                field: sum(),
                is_right: false,
                values: None,
            },
        ];
        let written = texts(&mut Bmv2Renderer::new(None), "1", kinds).join("\n");
        for expected in [
            "Read register 'I.cells' at index <secret> read value <secret>",
            "Wrote register 'I.cells' at index <secret> with value <secret>",
            "Updated counter 'I.counts' at index <secret>",
            "Executing meter I.rates[<secret>]",
            "Checksum 'tag.sum': computed <secret> - actual <secret>",
            "Verified checksum 'tag.sum': failed",
        ] {
            assert!(written.contains(expected), "{expected}: {written}");
        }
    }

    #[test]
    fn parser_table_and_action_are_reported_in_bmv2s_words() {
        let kinds = vec![
            TraceKind::Arrive {
                port: PortId(1),
                frame_len_bytes: 98,
            },
            TraceKind::Begin(Stage::Parser),
            TraceKind::ParserState("start".into()),
            TraceKind::Extract(TraceHeader {
                name: "ethernet".into(),
                width_bits: 112,
                fields: Vec::new(),
            }),
            TraceKind::Transition {
                key: vec![value("ethernet.etherType", &[8, 0])],
                next: None,
            },
            TraceKind::Begin(Stage::Ingress),
            TraceKind::Table {
                table: "MyIngress.ipv4_lpm".into(),
                key: vec![value("hdr.ipv4.dstAddr", &[10, 0, 2, 2])],
                entry: Some("(10.0.2.2/32)".into()),
                handle: Some(crate::EntryHandle(3)),
            },
            TraceKind::Action {
                action: "MyIngress.ipv4_forward".into(),
                args: vec![
                    value("dstAddr", &[8, 0, 0, 0, 2, 0x22]),
                    value("port", &[2]),
                ],
            },
            TraceKind::Log("TTL is 63".into()),
            TraceKind::Enqueue {
                port: PortId(2),
                queue: Some(0),
                depth: 0,
            },
            TraceKind::Transmit {
                port: PortId(2),
                frame_len_bytes: 98,
            },
        ];
        let found = texts(&mut Bmv2Renderer::new(None), "1", kinds);
        let expected = [
            "D [0.0] [cxt 0] Processing packet received on port 1",
            "D [0.0] [cxt 0] Parser 'parser': start",
            "D [0.0] [cxt 0] Parser 'parser' entering state 'start'",
            "D [0.0] [cxt 0] Extracting header 'ethernet'",
            "D [0.0] [cxt 0] Parser state 'start': key is 0800",
            "T [0.0] [cxt 0] Bytes parsed: 14",
            "D [0.0] [cxt 0] Parser 'parser': end",
            "D [0.0] [cxt 0] Pipeline 'ingress': start",
            "T [0.0] [cxt 0] Applying table 'MyIngress.ipv4_lpm'",
            "D [0.0] [cxt 0] Looking up key:\n* hdr.ipv4.dstAddr    : 0a000202\n",
            "D [0.0] [cxt 0] Table 'MyIngress.ipv4_lpm': hit with handle 3",
            "D [0.0] [cxt 0] Dumping entry 3\nMatch key: (10.0.2.2/32)\n",
            "D [0.0] [cxt 0] Action entry is MyIngress.ipv4_forward - 80000000222,2,",
            "T [0.0] [cxt 0] Action MyIngress.ipv4_forward",
            "I TTL is 63",
            "D [0.0] [cxt 0] Pipeline 'ingress': end",
            "D [0.0] [cxt 0] Egress port is 2",
            "D [0.0] [cxt 0] Transmitting packet of size 98 out of port 2",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_miss_and_a_drop_are_written() {
        let kinds = vec![
            TraceKind::Begin(Stage::Ingress),
            TraceKind::Table {
                table: "t".into(),
                key: Vec::new(),
                entry: None,
                handle: None,
            },
            TraceKind::Drop(DropReason::IngressDrop),
        ];
        let found = texts(&mut Bmv2Renderer::new(None), "5", kinds);
        assert!(found.contains(&"D [4.0] [cxt 0] Table 't': miss".into()));
        let tail = [
            "D [4.0] [cxt 0] Pipeline 'ingress': end",
            "D [4.0] [cxt 0] Egress port is 511",
            "D [4.0] [cxt 0] Dropping packet at the end of ingress",
        ];
        assert_eq!(found[found.len() - 3..], tail);
    }

    #[test]
    fn copies_are_numbered_from_1_and_their_port_is_said_once() {
        let mut renderer = Bmv2Renderer::new(None);
        let copy = |packet: &str, port| TraceKind::Copy {
            by: Stream::MulticastGroup(1),
            is_secret: false,
            packet: packet.into(),
            port: PortId(port),
            instance: 0,
        };
        let enqueue = || TraceKind::Enqueue {
            port: PortId(1),
            queue: Some(0),
            depth: 0,
        };
        let made = texts(&mut renderer, "1", vec![copy("1.r1", 1)]);
        let queued = texts(&mut renderer, "1.r1", vec![enqueue()]);
        let again = texts(&mut renderer, "1", vec![copy("1.r2", 2)]);
        let left = TraceKind::Transmit {
            port: PortId(2),
            frame_len_bytes: 60,
        };
        let left = texts(&mut renderer, "1.r2", vec![left]);
        assert_eq!(
            made,
            [
                "D [0.0] [cxt 0] Multicast requested for packet",
                "D [0.0] [cxt 0] Replicating packet on port 1",
            ]
        );
        assert!(queued.is_empty(), "{queued:?}");
        assert_eq!(again, ["D [0.0] [cxt 0] Replicating packet on port 2"]);
        assert_eq!(
            left,
            ["D [0.2] [cxt 0] Transmitting packet of size 60 out of port 2"]
        );
    }

    #[test]
    fn numbers_of_copies_need_bounded_memory() {
        let mut numbers = Numbers::default();
        for frame in 1..=2 * FRAMES_WITH_COPIES_MAX {
            assert_eq!(
                numbers.of(&format!("{frame}.c1").into()),
                (frame as u64 - 1, 1)
            );
        }
        assert_eq!(numbers.frames.len(), FRAMES_WITH_COPIES_MAX);
    }
}
