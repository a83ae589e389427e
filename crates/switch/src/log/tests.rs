use std::sync::mpsc::{Sender, channel};

use super::*;

/// Takes lines when it is told to.
struct SlowReader {
    may_take: Receiver<()>,
    taken: Sender<Vec<u8>>,
}

impl Write for SlowReader {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // Without permission and without anybody who could give it, it is an output that fails.
        self.may_take.recv().map_err(io::Error::other)?;
        self.taken.send(line.to_vec()).map_err(io::Error::other)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_flood_of_events_is_bounded_and_nobody_waits_for_a_reader_that_does_not_read() {
    let (permit, may_take) = channel();
    let (taken, lines_taken) = channel();
    let (log, lines) = Log::to(SlowReader { may_take, taken }).expect("a thread");
    for n in 0..100_000 {
        (&lines)
            .write_all(format!("{n}\n").as_bytes())
            .expect("queued or counted");
    }
    let n_left_out = lines.0.left_out.load(Ordering::Relaxed);
    // A burst, and what a loaded machine adds to it in the time that this takes.
    assert!((90_000..=99_800).contains(&n_left_out), "{n_left_out}");
    for _ in 0..100_000 {
        permit.send(()).expect("the reader is there");
    }
    drop(log);
    let n_taken = lines_taken.try_iter().count() as u64;
    assert_eq!(n_taken + n_left_out, 100_000);
}

#[test]
fn an_output_that_fails_does_not_stop_whoever_tells() {
    let (permit, may_take) = channel();
    let (taken, _) = channel();
    drop(permit);
    let (log, lines) = Log::to(SlowReader { may_take, taken }).expect("a thread");
    for _ in 0..10 {
        (&lines).write_all(b"x\n").expect("queued");
    }
    drop(log);
    assert_eq!(lines.0.left_out.load(Ordering::Relaxed), 0);
}

/// What a program's author may call a register.
#[test]
fn a_name_that_others_chose_ends_no_line_and_commands_no_terminal() {
    const NAME: &str = "cells\n2026-11-27T00:00:00Z ERROR all is lost\x1b[2J\u{9b}31m\u{202e}";
    for format in [LogFormat::Text, LogFormat::Json] {
        let (permit, may_take) = channel();
        let (taken, lines_taken) = channel();
        let (log, lines) = Log::to(SlowReader { may_take, taken }).expect("a thread");
        permit.send(()).expect("the reader is there");
        let subscriber = tracing_subscriber::registry().with(layer(format, lines));
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(event = "p4info_lacks", name = NAME, %NAME, "no \"{NAME}\"");
        });
        let line = lines_taken.recv().expect("a line");
        drop(log);
        let line = String::from_utf8(line).expect("text");
        let (line, rest) = line.split_once('\n').expect("its end");
        assert_eq!(rest, "", "{format:?}");
        assert!(line.chars().all(printable::is_harmless), "{line:?}");
        assert!(line.contains("all is lost\\u001b[2J"), "{line}");
        if format == LogFormat::Json {
            let event: serde_json::Value = serde_json::from_str(line).expect("JSON");
            assert_eq!(event["name"], NAME);
        }
    }
}
