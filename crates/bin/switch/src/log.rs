//! The log: one line for each event on standard error, as text or JSON.
//!
//! Code that logs never waits for the log's reader: lines go through a bounded queue to a thread that writes them.
//! Packets are not logged, but counted in totals and metrics. Every event has a name; `docs/switch.md` lists them with
//! their fields.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Metadata};
use tracing_subscriber::Registry;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::{FilterExt, Targets};
use tracing_subscriber::fmt::format::{self, Writer};
use tracing_subscriber::fmt::{FormatFields, MakeWriter};
use tracing_subscriber::layer::{Context, Filter, Layer, SubscriberExt};

use crate::error::SwitchError;

/// Lines that may wait for a slow reader; further lines are dropped and counted.
const QUEUE_LINES: usize = 1024;

/// With this many lines waiting, only warnings are still queued.
const QUEUE_LINES_OF_INFO: usize = QUEUE_LINES / 2;

/// How many lines of one event are written one after the other, however fast they come.
const BURST_LINES: f64 = 200.0;

/// How many lines of one event are written per second after a burst: some megabytes an hour if the event never stops.
/// Each event has its own budget, so that no event crowds out another.
const LINES_PER_SECOND: f64 = 5.0;

/// If a slow reader does not take a line, the line is counted under this event name.
const UNREAD: &str = "any";

/// How often dropped lines are reported.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Timeout for writing the last lines when the process ends.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

/// How lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// Time, level, a sentence, and the fields as name=value.
    Text,
    /// An object a line.
    Json,
}

/// The least severe level that is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogLevel {
    /// Nothing.
    Off,
    /// Failures that end the switch or a part of it.
    Error,
    /// Also conditions that need an operator, and their end: ports lost and restored, limits, drops.
    Warn,
    /// Also normal events: new pipelines, primary controllers.
    Info,
    /// Everything.
    Debug,
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> LevelFilter {
        match level {
            LogLevel::Off => LevelFilter::OFF,
            LogLevel::Error => LevelFilter::ERROR,
            LogLevel::Warn => LevelFilter::WARN,
            LogLevel::Info => LevelFilter::INFO,
            LogLevel::Debug => LevelFilter::DEBUG,
        }
    }
}

/// Writes lines while it lives; when dropped, it writes the remaining lines.
pub(crate) struct Log {
    lines: Lines,
    /// Receives a message when the writing thread has ended.
    ended: Receiver<()>,
}

/// Starts to log the events of this project's crates.
pub(crate) fn start(level: LogLevel, format: LogFormat) -> Result<Log, SwitchError> {
    let (log, lines) = Log::to(io::stderr()).map_err(|source| SwitchError::System {
        operation: "start the log's thread",
        source,
    })?;
    // Events of libraries describe their internals and are left out.
    let ours = Targets::new()
        .with_target("reprise_switch", level)
        .with_target("control", level)
        .with_target("p4runtime_server", level)
        .with_target("thrift_server", level);
    let budgets = Budgets(lines.clone());
    let layer = layer(format, lines).with_filter(ours.and(budgets));
    let subscriber = tracing_subscriber::registry().with(layer);
    tracing::subscriber::set_global_default(subscriber).map_err(|error| SwitchError::System {
        operation: "start the log",
        source: io::Error::other(error),
    })?;
    Ok(log)
}

fn layer(format: LogFormat, lines: Lines) -> Box<dyn Layer<Registry> + Send + Sync> {
    let layer = tracing_subscriber::fmt::layer().with_writer(lines);
    let layer = layer.with_target(false).with_ansi(false);
    match format {
        LogFormat::Text => layer.fmt_fields(text_fields()).boxed(),
        LogFormat::Json => {
            let layer = layer.json().flatten_event(true);
            let layer = layer.with_current_span(false).with_span_list(false);
            layer.boxed()
        }
    }
}

/// Formats fields like the library, but quotes every value that contains white space. An event stays one line, whatever
/// names others have chosen.
fn text_fields() -> impl for<'a> FormatFields<'a> + 'static {
    let show = |writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug| {
        let (name, shown) = (field.name(), format!("{value:?}"));
        let is_open = shown.contains(char::is_whitespace) && !shown.starts_with('"');
        match (name, is_open) {
            ("message", _) => writer.write_str(&printable::line(&shown)),
            (_, true) => write!(writer, "{name}={shown:?}"),
            (_, false) => write!(writer, "{name}={}", printable::line(&shown)),
        }
    };
    format::debug_fn(show).delimited(" ")
}

impl Log {
    fn to(output: impl Write + Send + 'static) -> io::Result<(Log, Lines)> {
        let (sender, queued) = mpsc::sync_channel(QUEUE_LINES);
        let lines = Lines(Arc::new(Queue {
            sender: Mutex::new(Some(sender)),
            n_waiting: AtomicUsize::new(0),
            events: Mutex::default(),
        }));
        let (has_ended, ended) = mpsc::channel();
        let queue = lines.clone();
        thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || {
                // This thread starts before the process gives up privileges, and needs none itself.
                let _ = privileges::keep_none();
                write_lines(output, &queued, &queue);
                // The receiver is gone if nobody waits.
                let _ = has_ended.send(());
            })?;
        let log = Log {
            lines: lines.clone(),
            ended,
        };
        Ok((log, lines))
    }
}

impl Log {
    /// Returns a function that waits until everything logged so far is written, for output that must come after it.
    pub(crate) fn flusher(&self) -> impl Fn() + Send + use<> {
        let lines = self.lines.clone();
        move || {
            let began = Instant::now();
            while lines.0.n_waiting.load(Ordering::Acquire) > 0 && began.elapsed() < FLUSH_TIMEOUT {
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        drop(self.lines.0.sender().take());
        // A reader that takes nothing must not keep the process from ending.
        let _ = self.ended.recv_timeout(FLUSH_TIMEOUT);
    }
}

thread_local! {
    /// Whether this thread writes the log. The thread that writes the log also reports dropped lines, and this report
    /// must not be dropped itself.
    static WRITES: Cell<bool> = const { Cell::new(false) };
}

fn write_lines(mut output: impl Write, queued: &Receiver<Vec<u8>>, lines: &Lines) {
    WRITES.set(true);
    let mut reported_at = Instant::now();
    loop {
        match queued.recv_timeout(REPORT_INTERVAL) {
            Ok(line) => {
                // If nobody reads the log, there is nobody to report it to.
                let _ = output.write_all(&line);
                lines.0.n_waiting.fetch_sub(1, Ordering::Release);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if reported_at.elapsed() >= REPORT_INTERVAL {
            reported_at = Instant::now();
            lines.report_left_out();
        }
    }
}

#[derive(Clone)]
struct Lines(Arc<Queue>);

struct Queue {
    /// `None` after the log has ended.
    sender: Mutex<Option<SyncSender<Vec<u8>>>>,
    /// Lines not written yet.
    n_waiting: AtomicUsize,
    /// The budgets by event name; the code has a few tens of names.
    events: Mutex<BTreeMap<String, Allowance>>,
}

/// The budget of an event: lines that may be written now, and lines dropped since the last report.
struct Allowance {
    lines: f64,
    since: Instant,
    n_left_out: u64,
}

impl Default for Allowance {
    fn default() -> Allowance {
        Allowance {
            lines: BURST_LINES,
            since: Instant::now(),
            n_left_out: 0,
        }
    }
}

impl Allowance {
    fn take(&mut self) -> bool {
        let grown = self.since.elapsed().as_secs_f64() * LINES_PER_SECOND;
        self.since = Instant::now();
        self.lines = (self.lines + grown).min(BURST_LINES);
        let has_one = self.lines >= 1.0;
        if has_one {
            self.lines -= 1.0;
        }
        has_one
    }
}

impl Queue {
    fn sender(&self) -> std::sync::MutexGuard<'_, Option<SyncSender<Vec<u8>>>> {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, line: &[u8], is_warning: bool) -> bool {
        let n_waiting = self.n_waiting.load(Ordering::Relaxed);
        if !is_warning && n_waiting >= QUEUE_LINES_OF_INFO {
            return false;
        }
        let sender = self.sender();
        let Some(sender) = &*sender else {
            // The process is ending.
            return true;
        };
        self.n_waiting.fetch_add(1, Ordering::Relaxed);
        let is_sent = sender.try_send(line.to_vec()).is_ok();
        if !is_sent {
            self.n_waiting.fetch_sub(1, Ordering::Relaxed);
        }
        is_sent
    }

    fn with<R>(&self, event: &str, act: impl FnOnce(&mut Allowance) -> R) -> R {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        act(events.entry(event.to_owned()).or_default())
    }

    /// Whether a line of this event may be written now; otherwise it is counted as dropped.
    fn may_write(&self, event: &str) -> bool {
        WRITES.get()
            || self.with(event, |allowance| {
                let may_write = allowance.take();
                allowance.n_left_out += u64::from(!may_write);
                may_write
            })
    }

    /// Returns how many lines of each event were dropped since the last call.
    fn take_left_out(&self) -> Vec<(String, u64)> {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = events.iter_mut().map(|(event, allowance)| {
            let n_left_out = std::mem::take(&mut allowance.n_left_out);
            (event.clone(), n_left_out)
        });
        counted.filter(|(_, n_left_out)| *n_left_out > 0).collect()
    }
}

impl Lines {
    fn report_left_out(&self) {
        for (of, lines) in self.0.take_left_out() {
            tracing::warn!(
                event = "log_lines_left_out",
                of,
                lines,
                "{lines} lines of the event {of} were left out: more came than are written or read"
            );
        }
    }
}

/// Drops lines of an event beyond its budget.
struct Budgets(Lines);

/// The value of the field `event`.
#[derive(Default)]
struct Name(String);

impl Visit for Name {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "event" {
            value.clone_into(&mut self.0);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

impl Name {
    fn of(event: &Event<'_>) -> String {
        let mut name = Name::default();
        event.record(&mut name);
        name.0
    }
}

impl<S> Filter<S> for Budgets {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        self.0.0.may_write(&Name::of(event))
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::TRACE)
    }
}

struct LineWriter<'a> {
    queue: &'a Queue,
    is_warning: bool,
}

impl Write for LineWriter<'_> {
    /// Takes a whole line.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        // JSON leaves some characters unescaped that a terminal interprets; the escapes have the same meaning for JSON
        // readers.
        let text = printable::lines(&text);
        if !self.queue.send(text.as_bytes(), self.is_warning) {
            // The reader is too slow.
            self.queue.with(UNREAD, |it| it.n_left_out += 1);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = LineWriter<'a>;

    fn make_writer(&'a self) -> LineWriter<'a> {
        LineWriter {
            queue: &self.0,
            is_warning: false,
        }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> LineWriter<'a> {
        LineWriter {
            queue: &self.0,
            is_warning: *metadata.level() <= Level::WARN,
        }
    }
}

#[cfg(test)]
mod tests;
