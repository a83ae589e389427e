//! Escapes the program's names and messages in events, so that they cannot forge a line or send commands to a terminal.

use std::borrow::Cow;

use super::{TraceHeader, TraceKind, TraceValue};

fn text<T: AsRef<str> + From<String>>(text: &mut T) {
    if let Cow::Owned(escaped) = printable::line(text.as_ref()) {
        *text = escaped.into();
    }
}

fn value(value: &mut TraceValue) {
    text(&mut value.name);
}

fn header(header: &mut TraceHeader) {
    text(&mut header.name);
    header.fields.iter_mut().for_each(value);
}

impl TraceKind {
    /// Escapes all text that comes from the program.
    pub(super) fn make_printable(&mut self) {
        match self {
            TraceKind::ParserState(name)
            | TraceKind::ParserError(name)
            | TraceKind::ChecksumVerified { field: name, .. }
            | TraceKind::ChecksumUpdated { field: name, .. }
            | TraceKind::Condition { text: name, .. }
            | TraceKind::HeaderAdded(name)
            | TraceKind::HeaderRemoved(name)
            | TraceKind::Count { counter: name, .. }
            | TraceKind::Meter { meter: name, .. }
            | TraceKind::Digest(name) => text(name),
            TraceKind::Log(message) => text(message),
            TraceKind::Extract(of) => header(of),
            TraceKind::Transition { key, next } => {
                key.iter_mut().for_each(value);
                next.iter_mut().for_each(text);
            }
            TraceKind::Table {
                table, key, entry, ..
            } => {
                text(table);
                key.iter_mut().for_each(value);
                entry.iter_mut().for_each(text);
            }
            TraceKind::Action { action: name, args }
            | TraceKind::ChangePayload {
                function: name,
                args,
            } => {
                text(name);
                args.iter_mut().for_each(value);
            }
            TraceKind::Assign { old: of, .. }
            | TraceKind::RegisterRead { cell: of, .. }
            | TraceKind::RegisterWrite { cell: of, .. } => value(of),
            TraceKind::Deparse { headers, .. } => headers.iter_mut().for_each(header),
            TraceKind::Arrive { .. }
            | TraceKind::Begin(_)
            | TraceKind::Copy { .. }
            | TraceKind::Resubmit { .. }
            | TraceKind::Recirculate { .. }
            | TraceKind::Enqueue { .. }
            | TraceKind::Transmit { .. }
            | TraceKind::PacketIn { .. }
            | TraceKind::Drop(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Bmv2Renderer, TraceEvent, TraceIndex, TraceRenderer};
    use super::*;

    fn event(mut kind: TraceKind) -> TraceEvent {
        kind.make_printable();
        TraceEvent {
            now: 0,
            packet: "1".into(),
            pass: 1,
            source: None,
            kind,
        }
    }

    #[test]
    fn a_name_or_a_message_of_the_program_is_one_line_of_a_trace() {
        let name = "forged\npacket 2 arrives\x1b[2J";
        let cell = TraceValue {
            name: name.into(),
            width_bits: 8,
            value: [7].as_slice().into(),
            is_secret: false,
        };
        let read = TraceKind::RegisterRead {
            cell,
            index: TraceIndex::At(0),
        };
        for kind in [TraceKind::Log(name.to_owned()), read] {
            let event = event(kind);
            let text = TraceRenderer::default().render(&event);
            // A headline, and the event's own line.
            assert_eq!(text.lines().count(), 2, "{text}");
            assert!(!text.contains('\x1b'), "{text}");
            let mut renderer = Bmv2Renderer::new(None);
            let mut lines = renderer.render(&event);
            assert!(lines.all(|line| !line.text.contains(['\n', '\x1b'])));
        }
    }
}
