use std::sync::mpsc::{Sender, channel};

use super::*;

/// Takes one line of the log for each message in `may_take`.
struct SlowReader {
    may_take: Receiver<()>,
    taken: Sender<Vec<u8>>,
}

impl Write for SlowReader {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // Fails when the sender has been dropped, after which no permission can come.
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
        lines
            .make_writer()
            .write_all(format!("{n}\n").as_bytes())
            .expect("queued or counted");
    }
    let n_left_out = lines.0.with(UNREAD, |it| it.n_left_out);
    let n_queued = QUEUE_LINES_OF_INFO as u64;
    assert!((100_000 - n_queued - 1..=100_000 - n_queued).contains(&n_left_out));
    for _ in 0..100_000 {
        permit.send(()).expect("the reader is there");
    }
    drop(log);
    let n_taken = lines_taken.try_iter().count() as u64;
    assert_eq!(n_taken + n_left_out, 100_000);
}

/// Returns the lines that are written while `work` runs.
fn written(work: impl FnOnce()) -> Vec<String> {
    let (permit, may_take) = channel();
    let (taken, lines_taken) = channel();
    (0..10_000).for_each(|_| permit.send(()).expect("the reader is there"));
    let (log, lines) = Log::to(SlowReader { may_take, taken }).expect("a thread");
    let layer = tracing_subscriber::fmt::layer().with_writer(lines.clone());
    let layer = layer.with_ansi(false).with_filter(Budgets(lines.clone()));
    let subscriber = tracing_subscriber::registry().with(layer);
    tracing::subscriber::with_default(subscriber, || {
        work();
        lines.report_left_out();
    });
    drop(log);
    let lines = lines_taken.try_iter().map(String::from_utf8);
    lines.map(|line| line.expect("text")).collect()
}

#[test]
fn an_event_that_comes_again_and_again_is_reported_as_a_count_and_crowds_no_other_out() {
    let lines = written(|| {
        for n in 0..3000 {
            tracing::info!(event = "primary_changed", "{n}");
            if n % 100 == 0 {
                tracing::warn!(event = "port_down", "down {n}");
            }
        }
    });
    let n_of = |word: &str| lines.iter().filter(|line| line.contains(word)).count();
    assert_eq!(n_of("event=\"port_down\""), 30);
    let n_written = n_of("event=\"primary_changed\"");
    // 200 lines at once, then five each second; on a loaded machine this takes some seconds.
    assert!((200..1000).contains(&n_written), "{n_written}");
    let count = lines
        .iter()
        .find(|line| line.contains("event=\"log_lines_left_out\""));
    let count = count.expect("what was left out");
    assert!(count.contains("of=\"primary_changed\""), "{count}");
    let n_left_out = 3000 - n_written;
    assert!(count.contains(&format!("lines={n_left_out}")), "{count}");
}

#[test]
fn a_warning_has_a_place_where_other_lines_have_none() {
    let (permit, may_take) = channel();
    let (taken, lines_taken) = channel();
    let (log, lines) = Log::to(SlowReader { may_take, taken }).expect("a thread");
    for _ in 0..2 * QUEUE_LINES {
        lines
            .make_writer()
            .write_all(b"x\n")
            .expect("queued or counted");
    }
    let mut warning = LineWriter {
        queue: &lines.0,
        is_warning: true,
    };
    warning.write_all(b"warning\n").expect("queued");
    (0..2 * QUEUE_LINES).for_each(|_| permit.send(()).expect("the reader is there"));
    drop(log);
    assert!(lines_taken.try_iter().any(|line| line == b"warning\n"));
}

#[test]
fn an_output_that_fails_does_not_stop_whoever_logs() {
    let (permit, may_take) = channel();
    let (taken, _) = channel();
    drop(permit);
    let (log, lines) = Log::to(SlowReader { may_take, taken }).expect("a thread");
    for _ in 0..10 {
        lines.make_writer().write_all(b"x\n").expect("queued");
    }
    drop(log);
    assert!(lines.0.take_left_out().is_empty());
}

/// `NAME` could be the name of a register, which a program's author chooses.
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
