//! Renders events as text: one block per packet, pass and part of the pipeline, with source positions in a column at
//! the right.
//!
//! Omits uninteresting events: assignments without a change, variables and tables that the compiler made, the parser of
//! later passes, and the queueing of a copy that the previous line reported.

use std::{fmt, sync::Arc};

use data_encoding::HEXLOWER;

use super::{Stage, TraceEvent, TraceHeader, TraceIndex, TraceKind, TraceValue};
use crate::{
    DropReason, Nanos, Stream, color, limits,
    program::{HIDDEN, is_generated_name},
};

/// Column of source positions, in characters.
const SOURCE_COLUMN: usize = 90;

/// Lists of fields are wrapped at this width, in characters.
const WIDTH: usize = 100;

/// BMv2's pseudo-header for metadata and variables.
const SCALARS: &str = "scalars.";

/// Renders events as lines of text.
#[derive(Debug, Default)]
pub struct TraceRenderer {
    /// Packet and pass of the last headline.
    headline: Option<(Arc<str>, u32)>,
    now: Option<Nanos>,
    stage: Option<Stage>,
    /// Whether the current statements belong to an action of a table, not to the control itself.
    is_in_action: bool,
    /// Whether the compiler made the next action.
    is_generated: bool,
    /// Whether the next action is run by the table that was reported last.
    follows_table: bool,
    /// Whether the last lookup missed, so that the next action is the default action.
    is_missed: bool,
    /// The copy reported last.
    copy: Option<Arc<str>>,
}

impl TraceRenderer {
    /// The lines of an event, after a headline if packet, pass or part of the pipeline changes; empty for an omitted
    /// event.
    pub fn render(&mut self, event: &TraceEvent) -> String {
        let mut out = self.headline(event);
        let Some(text) = self.text(event) else {
            return out;
        };
        let indent = self.indent(&event.kind);
        for (position, line) in text.lines().enumerate() {
            let mut line = " ".repeat(indent) + line;
            if let Some(source) = event.source.as_ref().filter(|_| position == 0) {
                let width = SOURCE_COLUMN - 1;
                line = format!("{line:width$} {}:{}", source.file, source.line);
            }
            out.push_str(&wrapped(&line, indent + 4));
            out.push('\n');
        }
        out
    }

    fn headline(&mut self, event: &TraceEvent) -> String {
        let is_copys = self.copy.as_ref() == Some(&event.packet) && is_queueing(event);
        if is_copys || self.is_folded(event) {
            return String::new();
        }
        let current = (event.packet.clone(), event.pass);
        let is_same = self.headline.as_ref() == Some(&current);
        let part = match &event.kind {
            TraceKind::Begin(stage) => {
                self.stage = Some(*stage);
                self.is_in_action = false;
                format!(", pass {}, {}", event.pass, stage.name())
            }
            TraceKind::Arrive {
                port,
                frame_len_bytes,
            } => format!(" arrives on port {port}, {frame_len_bytes} bytes"),
            _ if is_same => return String::new(),
            _ => format!(", pass {}", event.pass),
        };
        let blank = if is_same || self.headline.is_none() {
            ""
        } else {
            "\n"
        };
        let is_new_time = self.now.replace(event.now) != Some(event.now);
        let time = if is_new_time {
            format!(", at {} ms", millis(event.now))
        } else {
            String::new()
        };
        self.headline = Some(current);
        format!("{blank}packet {}{part}{time}\n", event.packet)
    }

    /// Whether the event is omitted.
    fn is_folded(&self, event: &TraceEvent) -> bool {
        match &event.kind {
            // Later passes parse the frame of the previous pass's deparser, whose fields the trace has already shown.
            TraceKind::Extract(_) | TraceKind::Transition { .. } => event.pass > 1,
            TraceKind::Assign { old, new } => {
                (old.value == *new && !old.is_secret) || is_temporary(&old.name)
            }
            TraceKind::Table { table, key, .. } => key.is_empty() && is_generated_name(table),
            // If an action event does not follow a table event, the compiler made the action.
            TraceKind::Action { .. } => self.is_generated || !self.follows_table,
            _ => false,
        }
    }

    fn text(&mut self, event: &TraceEvent) -> Option<String> {
        let is_folded = self.is_folded(event);
        match &event.kind {
            TraceKind::Table { key, entry, .. } => {
                self.is_in_action = false;
                self.is_generated = is_folded;
                self.follows_table = true;
                self.is_missed = entry.is_none() && !key.is_empty();
            }
            TraceKind::Action { .. } => {
                self.is_in_action = !is_folded;
                self.is_generated = false;
                self.follows_table = false;
            }
            TraceKind::Condition { .. } => self.is_in_action = false,
            TraceKind::Copy { packet, .. } => {
                self.copy = Some(packet.clone());
            }
            TraceKind::Begin(_) | TraceKind::Arrive { .. } => return None,
            _ if is_queueing(event) && self.copy.as_ref() == Some(&event.packet) => {
                self.copy = None;
                return None;
            }
            _ => {}
        }
        if is_folded {
            return None;
        }
        Some(match &event.kind {
            TraceKind::Action { action, args } => {
                let is_default = std::mem::take(&mut self.is_missed);
                let (_, name) = action.rsplit_once('.').unwrap_or(("", action));
                let default = if is_default { "default " } else { "" };
                format!("{default}action {name}({})", list(args))
            }
            kind => Line(kind).to_string(),
        })
    }

    fn indent(&self, kind: &TraceKind) -> usize {
        match kind {
            TraceKind::Assign { .. }
            | TraceKind::HeaderAdded(_)
            | TraceKind::HeaderRemoved(_)
            | TraceKind::RegisterRead { .. }
            | TraceKind::RegisterWrite { .. }
            | TraceKind::Count { .. }
            | TraceKind::Meter { .. }
            | TraceKind::ChangePayload { .. }
            | TraceKind::Log(_) => match self.stage {
                Some(Stage::Parser) => 4,
                _ if self.is_in_action => 6,
                _ => 2,
            },
            TraceKind::Extract(_) | TraceKind::Transition { .. } | TraceKind::Action { .. } => 4,
            _ => 2,
        }
    }
}

impl Stage {
    fn name(self) -> &'static str {
        match self {
            Stage::Parser => "parser",
            Stage::Ingress => "ingress",
            Stage::Egress => "egress",
            Stage::Deparser => "deparser",
        }
    }
}

fn is_queueing(event: &TraceEvent) -> bool {
    matches!(event.kind, TraceKind::Enqueue { .. })
}

/// Whether a variable was made by the compiler or belongs to a function. The name of such a variable contains no
/// control's name.
fn is_temporary(field: &str) -> bool {
    let name = field.strip_prefix(SCALARS);
    name.is_some_and(|name| !name.contains('.'))
}

fn millis(now: Nanos) -> String {
    format!("{}.{:06}", now / 1_000_000, now % 1_000_000)
}

/// Wraps a line at the commas of a list; continuation lines are indented by `indent`.
fn wrapped(line: &str, indent: usize) -> String {
    let lists = ["extract ", "emit ", "transition select("];
    let text = line.trim_start();
    if !lists.iter().any(|start| text.starts_with(start)) {
        return line.to_owned();
    }
    let mut out = String::new();
    let mut column = 0;
    for part in line.split_inclusive(", ") {
        if column > 0 && column + part.trim_end().len() > WIDTH {
            out.truncate(out.trim_end().len());
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            column = indent;
        }
        out.push_str(part);
        column += part.len();
    }
    out
}

fn list(values: &[TraceValue]) -> String {
    let texts: Vec<String> = values.iter().map(ToString::to_string).collect();
    texts.join(", ")
}

impl fmt::Display for TraceValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.strip_prefix(SCALARS).unwrap_or(&self.name);
        write!(f, "{name} = {}", text_of(self))
    }
}

impl fmt::Display for TraceHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = self.fields.iter();
        let fields: Vec<_> = fields
            .map(|field| format!("{} {}", field.name, text_of(field)))
            .collect();
        write!(f, "{}: {}", self.name, fields.join(", "))
    }
}

fn text_of(value: &TraceValue) -> String {
    if value.is_secret {
        return HIDDEN.to_owned();
    }
    format_value(&value.name, value.width_bits, &value.value)
}

/// Returns the words of a field's name, without the header's name: `src` and `addr` for `ipv4.src_addr`.
fn words(name: &str) -> impl Iterator<Item = &str> {
    let name = name.rsplit('.').next().unwrap_or(name);
    name.split(|c: char| !c.is_ascii_alphanumeric())
}

fn is_address(name: &str) -> bool {
    words(name).any(|word| {
        let word = word.to_ascii_lowercase();
        let whole = ["ip", "ips", "ipv4", "mac", "macs", "src", "dst", "address"];
        whole.contains(&word.as_str()) || word.ends_with("addr")
    })
}

/// Formats a value for people: addresses in their notation, codes in hexadecimal, quantities in decimal.
pub(crate) fn format_value(name: &str, width_bits: u32, value: &[u8]) -> String {
    match (width_bits, value) {
        (32, [a, b, c, d]) if is_address(name) => format!("{a}.{b}.{c}.{d}"),
        (48, mac) if mac.len() == 6 && is_address(name) => {
            let bytes: Vec<_> = mac.iter().map(|byte| format!("{byte:02x}")).collect();
            bytes.join(":")
        }
        _ => format_number(name, width_bits, value),
    }
}

fn format_number(name: &str, width_bits: u32, value: &[u8]) -> String {
    let digits = short_hex(value);
    let Ok(number) = u64::from_str_radix(&digits, 16) else {
        return format!("0x{digits}");
    };
    let codes = ["checksum", "type", "crc", "hash", "mask", "flags"];
    let is_code = words(name).last().is_some_and(|word| codes.contains(&word));
    let is_time = name.ends_with("timestamp");
    let n_digits = width_bits.div_ceil(4) as usize;
    match number {
        0..10 if !(is_code && width_bits == 16) => number.to_string(),
        _ if is_code => format!("0x{number:0n_digits$x}"),
        _ if name == "standard_metadata.egress_spec" && number == u64::from(limits::DROP_PORT) => {
            format!("{number} (drop)")
        }
        _ if width_bits <= 32 || is_time => number.to_string(),
        _ => format!("0x{digits}"),
    }
}

pub(crate) fn format_mask(name: &str, width_bits: u32, value: &[u8]) -> String {
    if is_address(name) {
        format_value(name, width_bits, value)
    } else {
        format!("0x{}", short_hex(value))
    }
}

/// Hexadecimal digits without leading zeros.
pub(super) fn short_hex(value: &[u8]) -> String {
    match HEXLOWER.encode(value).trim_start_matches('0') {
        "" => "0".to_owned(),
        significant => significant.to_owned(),
    }
}

impl fmt::Display for TraceIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceIndex::At(index) => write!(f, "{index}"),
            TraceIndex::OutOfRange => f.write_str("out of range"),
            TraceIndex::Secret => f.write_str(HIDDEN),
        }
    }
}

struct Line<'a>(&'a TraceKind);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            TraceKind::ParserState(state) => write!(f, "state {state}"),
            TraceKind::Extract(header) => write!(f, "extract {header}"),
            TraceKind::Transition { key, next } => {
                let next = next.as_deref().unwrap_or("accept");
                if key.is_empty() {
                    write!(f, "transition {next}")
                } else {
                    write!(f, "transition select({}): {next}", list(key))
                }
            }
            TraceKind::ParserError(error) => write!(f, "parser error {error}"),
            TraceKind::ChecksumVerified {
                field,
                is_right,
                values,
            } => match (values, is_right) {
                (Some((found, _)), true) => write!(f, "checksum {field} {found:#06x} is right"),
                (Some((found, computed)), false) => {
                    write!(
                        f,
                        "checksum {field} {found:#06x} is wrong, computed {computed:#06x}"
                    )
                }
                (None, true) => write!(f, "checksum {field} {HIDDEN} is right"),
                (None, false) => write!(f, "checksum {field} {HIDDEN} is wrong"),
            },
            TraceKind::ChecksumUpdated { field, computed } => match computed {
                Some(computed) => write!(f, "checksum {field} := {computed:#06x}"),
                None => write!(f, "checksum {field} := {HIDDEN}"),
            },
            TraceKind::Condition { text, holds } => write!(f, "if ({text}): {holds}"),
            TraceKind::Table { table, key, .. } if key.is_empty() => write!(f, "table {table}"),
            TraceKind::Table {
                table, key, entry, ..
            } => {
                write!(f, "table {table} ({}): ", list(key))?;
                match entry {
                    None => write!(f, "miss"),
                    Some(entry) if is_key(key, entry) => write!(f, "hit"),
                    Some(entry) => write!(f, "hit {entry}"),
                }
            }
            TraceKind::Assign { old, new } => fmt_assign(f, old, new),
            kind => fmt_state(f, kind),
        }
    }
}

/// Whether the text of an entry is the same as the text of the looked-up key, as it is for an exact match.
fn is_key(key: &[TraceValue], entry: &str) -> bool {
    let values: Vec<String> = key.iter().map(text_of).collect();
    entry == format!("({})", values.join(", "))
}

/// Writes an assignment and the previous value. Omits a previous value of 0, which mostly means unset.
fn fmt_assign(f: &mut fmt::Formatter<'_>, old: &TraceValue, new: &[u8]) -> fmt::Result {
    let name = old.name.strip_prefix(SCALARS).unwrap_or(&old.name);
    if old.is_secret {
        return write!(f, "{name} := {HIDDEN}");
    }
    let value = format_value(&old.name, old.width_bits, new);
    write!(f, "{name} := {value}")?;
    if old.value.iter().all(|byte| *byte == 0) {
        Ok(())
    } else {
        write!(f, " (was {})", text_of(old))
    }
}

fn fmt_state(f: &mut fmt::Formatter<'_>, kind: &TraceKind) -> fmt::Result {
    match kind {
        TraceKind::HeaderAdded(header) => write!(f, "{header} becomes valid"),
        TraceKind::HeaderRemoved(header) => write!(f, "{header} becomes invalid"),
        TraceKind::RegisterRead { cell, index } => {
            let (name, value) = (&cell.name, text_of(cell));
            write!(f, "register {name}[{index}] holds {value}")
        }
        TraceKind::RegisterWrite { cell, index } => {
            let (name, value) = (&cell.name, text_of(cell));
            write!(f, "register {name}[{index}] := {value}")
        }
        TraceKind::Count { counter, index } => {
            write!(f, "counter {counter}[{index}] counts")
        }
        TraceKind::Meter {
            meter,
            index,
            color,
        } => {
            let color = match (color, index) {
                (Some(color), _) => color_name(*color),
                (None, Some(TraceIndex::Secret)) => HIDDEN,
                (None, _) => "out of range",
            };
            match index {
                Some(TraceIndex::OutOfRange) | None => write!(f, "meter {meter} says {color}"),
                Some(index) => write!(f, "meter {meter}[{index}] says {color}"),
            }
        }
        TraceKind::ChangePayload { function, args } => {
            write!(f, "payload to be changed by {function}({})", list(args))
        }
        TraceKind::Digest(name) => write!(f, "digest {name}"),
        TraceKind::Log(message) => write!(f, "log: {message}"),
        kind => fmt_traffic(f, kind),
    }
}

fn color_name(color: u8) -> &'static str {
    match color {
        color::GREEN => "green",
        color::YELLOW => "yellow",
        _ => "red",
    }
}

fn fmt_traffic(f: &mut fmt::Formatter<'_>, kind: &TraceKind) -> fmt::Result {
    match kind {
        TraceKind::Copy {
            by,
            is_secret,
            packet,
            port,
            instance,
        } => {
            let shown = |number: &u32| {
                if *is_secret {
                    HIDDEN.to_owned()
                } else {
                    number.to_string()
                }
            };
            match by {
                Stream::CloneSession(session) => write!(f, "clone session {}", shown(session))?,
                Stream::MulticastGroup(group) => write!(f, "multicast group {}", shown(group))?,
                _ => {}
            }
            write!(f, ": copy {packet} to port {port}")?;
            match (by, instance) {
                (Stream::CloneSession(_), 0) => Ok(()),
                _ => write!(f, ", egress_rid {instance}"),
            }
        }
        TraceKind::Resubmit { pass } => write!(f, "resubmitted: as it came, to pass {pass}"),
        TraceKind::Recirculate { pass } => write!(f, "recirculated: as it is now, to pass {pass}"),
        TraceKind::Enqueue { port, queue, depth } => {
            write!(f, "to port {port}")?;
            match (queue, depth) {
                (Some(0), 0) => Ok(()),
                (Some(queue), _) => write!(f, ", queue {queue}, behind {depth} packets"),
                (None, _) => write!(f, ", queue {HIDDEN}, behind {depth} packets"),
            }
        }
        TraceKind::Deparse {
            headers,
            frame_len_bytes,
        } => {
            let mut header_bits = 0;
            for header in headers {
                writeln!(f, "emit {header}")?;
                let widths = header.fields.iter().map(|field| field.width_bits as usize);
                header_bits += widths.sum::<usize>();
            }
            let payload_bytes = frame_len_bytes.saturating_sub(header_bits / 8);
            write!(f, "emit payload: {payload_bytes} bytes")
        }
        TraceKind::Transmit {
            port,
            frame_len_bytes,
        } => write!(f, "leaves by port {port}, {frame_len_bytes} bytes"),
        TraceKind::PacketIn { frame_len_bytes } => {
            write!(f, "leaves to the control plane, {frame_len_bytes} bytes")
        }
        TraceKind::Drop(reason) => match reason {
            DropReason::CloneSessionUnknown
            | DropReason::CloneSessionEmpty
            | DropReason::CloneLimit => write!(f, "the clone is dropped: {reason}"),
            _ => write!(f, "dropped: {reason}"),
        },
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_a_person_writes_them() {
        for (name, width_bits, value, expected) in [
            ("ipv4.src_addr", 32, &[10, 0, 0, 1][..], "10.0.0.1"),
            ("eth.dstAddr", 48, &[2, 0, 0, 0, 0, 1], "02:00:00:00:00:01"),
            ("viewer_ips", 32, &[10, 0, 0, 1], "10.0.0.1"),
            ("meta.description", 32, &[0, 0, 1, 0], "256"),
            ("udp.length", 16, &[0, 100], "100"),
            ("ethernet.ether_type", 16, &[8, 0], "0x0800"),
            ("udp.checksum", 16, &[0, 0], "0x0000"),
            ("meta.flag", 1, &[1], "1"),
            ("meta.block", 64, &[0, 0, 0, 3, 0, 0, 0, 2], "0x300000002"),
            ("standard_metadata.egress_spec", 9, &[1, 255], "511 (drop)"),
        ] {
            assert_eq!(format_value(name, width_bits, value), expected, "{name}");
        }
        assert_eq!(format_mask("udp.length", 16, &[255, 0]), "0xff00");
    }

    #[test]
    fn long_lists_are_broken_at_their_commas() {
        let fields: Vec<String> = (0..20).map(|n| format!("field{n} {n}")).collect();
        let text = wrapped(&format!("    extract h: {}", fields.join(", ")), 8);
        assert!(text.lines().count() > 1);
        assert!(text.lines().all(|line| line.len() <= WIDTH), "{text}");
        assert!(
            text.lines()
                .skip(1)
                .all(|line| line.starts_with("        field")),
            "{text}"
        );
    }
}
