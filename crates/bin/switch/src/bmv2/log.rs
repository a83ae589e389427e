//! Writes a log in BMv2's format: `[HH:MM:SS.mmm] [bmv2] [D] [thread N] ...`, with the time in UTC.
//!
//! A thread of its own formats and writes the log. The entries about packets, and about the switch itself, come to this
//! thread through a queue. When the thread is idle and an entry comes, it first waits a millisecond for further
//! entries, since waking it for each packet would cost a third of what the packet costs. With `--log-flush` the thread
//! writes after each packet. The handling of a packet waits for the thread only if the queue is full. So no entry is
//! dropped, and the log is complete if the switch stops in order ([`Log::close`]).

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dataplane::{Bmv2Renderer, PortId, Severity, TraceEvent, TraceKind, TraceSink};

use super::{Bmv2, LogTo};
use crate::error::SwitchError;
use crate::{owners_file, say};

/// With this many entries in the queue, the handling of packets waits. A packet through a small program makes 40
/// entries of some hundred bytes each, so a full queue takes a few megabytes.
const ENTRIES_WAITING_MAX: usize = 16_384;

/// How long the thread, once woken, lets entries gather before it writes them.
const GATHERING: Duration = Duration::from_millis(1);

/// Approximate size of a write.
const WRITTEN_BYTES: usize = 64 * 1024;

/// The log of packets and of the switch itself. Clones share it.
#[derive(Clone)]
pub(crate) struct Log(Arc<Shared>);

struct Shared {
    queue: Arc<Queue>,
    /// `None` when the log is closed.
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// The queue to the writing thread.
#[derive(Default)]
struct Queue {
    gathered: Mutex<Gathered>,
    /// Notified when entries are ready, or when the log is closed.
    is_something: Condvar,
    /// Notified when the thread has taken the entries.
    is_room: Condvar,
    /// Whether writing has failed. The failure was reported, and nothing more is written.
    is_broken: AtomicBool,
}

#[derive(Default)]
struct Gathered {
    entries: Vec<Entry>,
    /// How many entries are ready to be written. The other entries belong to an unfinished packet.
    n_ready: usize,
    is_closed: bool,
}

enum Entry {
    /// The time of the entries that follow. The log does not begin a new file between these entries.
    Moment(SystemTime),
    Event(TraceEvent),
    Line {
        severity: Severity,
        text: String,
    },
}

impl Log {
    /// Opens the log that a command line asks for, if any; `cpu_port` is the port of P4Runtime's packet-ins.
    pub(crate) fn open(
        options: &Bmv2,
        cpu_port: Option<PortId>,
    ) -> Result<Option<Log>, SwitchError> {
        let (Some(to), Some(from)) = (&options.log, options.log_from) else {
            return Ok(None);
        };
        let out = match to {
            LogTo::Console => Out::Console(Vec::new()),
            LogTo::File {
                path,
                bytes_max,
                files_max,
            } => {
                let file = Rotating::open(path.clone(), *bytes_max, *files_max);
                Out::File(file.map_err(|source| SwitchError::File {
                    operation: "write the log to",
                    path: file_name(path, 0),
                    source,
                })?)
            }
        };
        let queue = Arc::new(Queue::default());
        let writer = Writer {
            out,
            from,
            thread: std::process::id(),
            flushes_each: options.flushes_log,
            renderer: Bmv2Renderer::new(cpu_port),
            text: String::new(),
            queue: Arc::clone(&queue),
        };
        let thread = thread::Builder::new().name("log".to_owned());
        let thread = thread.spawn(move || writer.run());
        let thread = thread.map_err(|source| SwitchError::System {
            operation: "start the thread that writes the log",
            source,
        })?;
        Ok(Some(Log(Arc::new(Shared {
            queue,
            writer: Mutex::new(Some(thread)),
        }))))
    }

    /// Logs a line of the switch itself at once, without waiting for the end of a packet.
    pub(crate) fn line(&self, severity: Severity, text: &str) {
        self.gather(severity, text);
        self.write();
    }

    /// Queues a line about a packet, which is written together with the packet's other lines.
    pub(crate) fn gather(&self, severity: Severity, text: &str) {
        let text = text.to_owned();
        self.add(Entry::Line { severity, text });
    }

    /// Makes the queued entries ready to be written.
    pub(crate) fn write(&self) {
        let queue = &self.0.queue;
        queue.hand_over(&mut lock(&queue.gathered));
    }

    /// Makes a sink for the events of packets.
    pub(crate) fn sink(&self) -> Box<dyn TraceSink> {
        Box::new(PacketLog { log: self.clone() })
    }

    /// Writes all entries and ends the log. Later entries are lost.
    pub(crate) fn close(&self) {
        self.0.close();
    }

    fn add(&self, entry: Entry) {
        if !self.0.queue.is_broken.load(Ordering::Relaxed) {
            self.0.queue.add(entry);
        }
    }
}

impl Shared {
    fn close(&self) {
        self.queue.close();
        if let Some(thread) = lock(&self.writer).take() {
            // A panic of the thread has been reported; the switch ends anyway.
            let _ = thread.join();
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.close();
    }
}

/// Locks also after another thread has panicked: the data stays valid.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Queue {
    /// Queues an entry; waits if the queue is full.
    fn add(&self, entry: Entry) {
        let mut gathered = lock(&self.gathered);
        if gathered.is_closed {
            return;
        }
        if gathered.n_ready == gathered.entries.len() {
            gathered.entries.push(Entry::Moment(SystemTime::now()));
        }
        gathered.entries.push(entry);
        if gathered.entries.len() < ENTRIES_WAITING_MAX {
            return;
        }
        self.hand_over(&mut gathered);
        let is_full = |it: &mut Gathered| it.n_ready >= ENTRIES_WAITING_MAX && !it.is_closed;
        // The returned guard is not needed.
        drop(self.is_room.wait_while(gathered, is_full));
    }

    fn hand_over(&self, gathered: &mut Gathered) {
        let were_ready = std::mem::replace(&mut gathered.n_ready, gathered.entries.len());
        if were_ready == 0 && gathered.n_ready > 0 {
            self.is_something.notify_one();
        }
    }

    fn close(&self) {
        let mut gathered = lock(&self.gathered);
        self.hand_over(&mut gathered);
        gathered.is_closed = true;
        self.is_something.notify_one();
        self.is_room.notify_all();
    }

    /// Moves the ready entries to `taken`, which is empty.
    fn take(&self, taken: &mut Vec<Entry>) {
        let mut gathered = lock(&self.gathered);
        let n_ready = std::mem::take(&mut gathered.n_ready);
        // Keeps the entries of the unfinished packet, and reuses the memory of `taken`.
        std::mem::swap(taken, &mut gathered.entries);
        gathered.entries.extend(taken.drain(n_ready..));
        if n_ready >= ENTRIES_WAITING_MAX {
            self.is_room.notify_all();
        }
    }

    /// Waits for ready entries; false if the log is closed and empty.
    fn wait(&self) -> bool {
        let is_nothing = |it: &mut Gathered| it.n_ready == 0 && !it.is_closed;
        let gathered = self
            .is_something
            .wait_while(lock(&self.gathered), is_nothing);
        gathered.unwrap_or_else(PoisonError::into_inner).n_ready > 0
    }
}

struct Writer {
    out: Out,
    from: Severity,
    /// The number after `thread` in every line: the process id, which is also the number of the main thread.
    thread: u32,
    flushes_each: bool,
    renderer: Bmv2Renderer,
    /// Lines with the same time.
    text: String,
    queue: Arc<Queue>,
}

enum Out {
    /// Bytes to be written to standard output.
    Console(Vec<u8>),
    File(Rotating),
}

impl Drop for Writer {
    /// Closes the queue also when the thread panics, so that no packet waits for a thread that has ended.
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl Writer {
    /// Writes until the log is closed.
    fn run(mut self) {
        let mut entries = Vec::new();
        loop {
            self.queue.take(&mut entries);
            if !entries.is_empty() {
                self.write(&mut entries);
                continue;
            }
            self.flush();
            if !self.queue.wait() {
                return;
            }
            if !self.flushes_each {
                thread::sleep(GATHERING);
            }
        }
    }

    fn write(&mut self, entries: &mut Vec<Entry>) {
        let mut shape = Shape::of(self.from, UNIX_EPOCH, self.thread);
        for entry in entries.drain(..) {
            match entry {
                Entry::Moment(at) => {
                    self.write_text();
                    shape.set_time(at, self.thread);
                }
                Entry::Event(event) => {
                    for line in self.renderer.render(&event) {
                        shape.push(&mut self.text, line.severity, line.text);
                    }
                }
                Entry::Line { severity, text } => shape.push(&mut self.text, severity, &text),
            }
        }
        self.write_text();
    }

    fn write_text(&mut self) {
        if !self.is_broken() && !self.text.is_empty() {
            let written = self.out.write(self.text.as_bytes());
            self.note(written);
            if self.flushes_each {
                self.flush();
            }
        }
        self.text.clear();
    }

    fn flush(&mut self) {
        if !self.is_broken() {
            let flushed = self.out.flush();
            self.note(flushed);
        }
    }

    fn is_broken(&self) -> bool {
        self.queue.is_broken.load(Ordering::Relaxed)
    }

    /// Ends the log at its first error, and reports the error. The switch goes on forwarding.
    fn note(&self, result: io::Result<()>) {
        if let Err(error) = result
            && !self.queue.is_broken.swap(true, Ordering::Relaxed)
        {
            say(&format!("warning: the log ends here: {error}"));
        }
    }
}

/// The common parts of all lines with the same time.
struct Shape {
    from: Severity,
    millis: u128,
    /// Text before and after the letter of the severity.
    around: [String; 2],
}

impl Shape {
    fn of(from: Severity, at: SystemTime, thread: u32) -> Shape {
        Shape {
            from,
            millis: millis_of(at),
            around: [
                format!("[{}] [bmv2] [", time_of_day(at)),
                format!("] [thread {thread}] "),
            ],
        }
    }

    /// Makes the common parts again only if `at` is in another millisecond than before, since many packets come in the
    /// same millisecond.
    fn set_time(&mut self, at: SystemTime, thread: u32) {
        if self.millis != millis_of(at) {
            *self = Shape::of(self.from, at, thread);
        }
    }

    /// Appends a line if it is severe enough.
    fn push(&self, out: &mut String, severity: Severity, text: &str) {
        if severity >= self.from {
            out.push_str(&self.around[0]);
            out.push(severity.letter());
            out.push_str(&self.around[1]);
            out.push_str(text);
            out.push('\n');
        }
    }
}

impl Out {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        match self {
            Out::Console(waiting) => {
                waiting.extend_from_slice(lines);
                if waiting.len() < WRITTEN_BYTES {
                    return Ok(());
                }
                self.flush()
            }
            Out::File(file) => file.write(lines),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Out::Console(waiting) => {
                let mut out = io::stdout().lock();
                let written = out.write_all(waiting);
                waiting.clear();
                written.and_then(|()| out.flush())
            }
            Out::File(file) => file.flush(),
        }
    }
}

fn millis_of(at: SystemTime) -> u128 {
    at.duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_millis()
}

/// Hours, minutes, seconds and milliseconds of UTC.
fn time_of_day(now: SystemTime) -> String {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, millis) = (now.as_secs(), now.subsec_millis());
    let (hours, minutes) = (seconds / 3_600 % 24, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}.{millis:03}", seconds % 60)
}

/// Queues the events of a packet, and makes them ready when the packet is done.
struct PacketLog {
    log: Log,
}

impl TraceSink for PacketLog {
    fn event(&mut self, event: &TraceEvent) {
        self.take(event.clone());
    }

    /// Returns false: the log's lines show only the names and lengths of headers, not their fields.
    fn wants_fields(&self) -> bool {
        false
    }

    fn take(&mut self, event: TraceEvent) {
        let ends = ends_packet(&event.kind);
        self.log.add(Entry::Event(event));
        if ends {
            self.log.write();
        }
    }
}

impl Drop for PacketLog {
    fn drop(&mut self) {
        self.log.write();
    }
}

fn ends_packet(kind: &TraceKind) -> bool {
    matches!(
        kind,
        TraceKind::Transmit { .. } | TraceKind::PacketIn { .. } | TraceKind::Drop(_)
    )
}

/// A log file that is rotated: the current file is `F.txt`, the file before it is `F.1.txt`, and so on.
struct Rotating {
    path: PathBuf,
    file: File,
    /// Buffered lines of this file.
    waiting: Vec<u8>,
    /// Bytes of the file, including `waiting`.
    n_bytes: u64,
    bytes_max: u64,
    files_max: usize,
}

/// The name of the current file (0) or of the n-th file before it.
fn file_name(path: &Path, n: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    match n {
        0 => name.push(".txt"),
        n => name.push(format!(".{n}.txt")),
    }
    name.into()
}

impl Rotating {
    /// Opens the current log file, and appends to it if it exists already.
    fn open(path: PathBuf, bytes_max: u64, files_max: usize) -> io::Result<Rotating> {
        let file = owners_file::continued(&file_name(&path, 0))?;
        let n_bytes = file.metadata()?.len();
        Ok(Rotating {
            path,
            file,
            waiting: Vec::new(),
            n_bytes,
            bytes_max,
            files_max,
        })
    }

    /// Writes all lines of a packet into one file. This is a new file if the lines do not fit into the current file.
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        let n_lines_bytes = lines.len() as u64;
        if self.n_bytes > 0 && self.n_bytes + n_lines_bytes > self.bytes_max {
            self.flush()?;
            self.rotate()?;
        }
        self.n_bytes += n_lines_bytes;
        self.waiting.extend_from_slice(lines);
        if self.waiting.len() < WRITTEN_BYTES {
            Ok(())
        } else {
            self.flush()
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let written = self.file.write_all(&self.waiting);
        self.waiting.clear();
        written
    }

    /// Renames each file to the next number, and begins a new current file. If the process stops between two renames,
    /// one number has no file; no file but the oldest is lost.
    fn rotate(&mut self) -> io::Result<()> {
        for n in (0..self.files_max).rev() {
            let (from, to) = (file_name(&self.path, n), file_name(&self.path, n + 1));
            if from.exists() {
                std::fs::rename(from, to)?;
            }
        }
        self.file = owners_file::continued(&file_name(&self.path, 0))?;
        self.file.set_len(0)?;
        self.n_bytes = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bmv2::Name;
    use std::time::{Duration, Instant};

    #[test]
    fn the_time_of_day_has_milliseconds() {
        let at = UNIX_EPOCH + Duration::from_millis(((3 * 24 + 4) * 60 + 25) * 60_000 + 1_007);
        assert_eq!(time_of_day(at), "04:25:01.007");
    }

    /// Opens a log to a new file. Returns the log and the file's path.
    fn log(name: &str, flushes_log: bool) -> (Log, PathBuf) {
        let name = format!("reprise-log-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let options = Bmv2 {
            name: Name::SimpleSwitch,
            log: Some(LogTo::File {
                path: path.clone(),
                bytes_max: u64::MAX,
                files_max: 0,
            }),
            log_from: Some(Severity::Info),
            flushes_log,
            dumped_bytes: 0,
            recordings: None,
            replay_at: Duration::ZERO,
            has_cpu_port: false,
            notifications: None,
        };
        let log = Log::open(&options, None).expect("a file").expect("a log");
        (log, file_name(&path, 0))
    }

    /// Reads a file's lines, without time and thread.
    fn lines(file: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(file).expect("a file");
        let behind = |line: &str| line.rsplit("] ").next().unwrap_or_default().to_owned();
        text.lines().map(behind).collect()
    }

    /// Waits until a file has this many lines. Fails the test if that takes too long.
    fn wait_for(file: &Path, n_lines: usize) {
        let deadline = Instant::now() + Duration::from_secs(120);
        while lines(file).len() < n_lines {
            assert!(Instant::now() < deadline, "{:?}", lines(file));
            thread::yield_now();
        }
    }

    #[test]
    fn a_log_that_is_closed_has_every_line_in_its_order() {
        // More lines than the queue holds, so that this thread waits for the thread that writes.
        const N_LINES: usize = 3 * ENTRIES_WAITING_MAX;
        for flushes in [false, true] {
            let (log, file) = log("closed", flushes);
            log.gather(Severity::Debug, "not severe enough");
            for number in 0..N_LINES {
                log.gather(Severity::Info, &number.to_string());
            }
            log.close();
            log.line(Severity::Error, "too late");
            let found = lines(&file);
            std::fs::remove_file(&file).expect("the file");
            let expected: Vec<_> = (0..N_LINES).map(|number| number.to_string()).collect();
            assert!(found == expected, "{} lines", found.len());
        }
    }

    #[test]
    fn packets_go_on_when_the_thread_that_writes_is_gone() {
        let queue = Arc::new(Queue::default());
        let line = || Entry::Line {
            severity: Severity::Info,
            text: String::new(),
        };
        let packets = Arc::clone(&queue);
        let packets = thread::spawn(move || {
            for _ in 0..2 * ENTRIES_WAITING_MAX {
                packets.add(line());
            }
        });
        while lock(&queue.gathered).n_ready < ENTRIES_WAITING_MAX {
            thread::yield_now();
        }
        let writer = Writer {
            out: Out::Console(Vec::new()),
            from: Severity::Info,
            thread: 1,
            flushes_each: false,
            renderer: Bmv2Renderer::new(None),
            text: String::new(),
            queue,
        };
        let died = thread::spawn(move || {
            let _writer = writer;
            std::panic::resume_unwind(Box::new("an error of ours"));
        });
        assert!(died.join().is_err());
        packets.join().expect("packets that wait for nobody");
    }

    #[test]
    fn a_packets_lines_are_there_while_nothing_else_happens() {
        let (log, file) = log("idle", false);
        for number in 1..=3 {
            log.gather(Severity::Info, "of a packet");
            log.write();
            wait_for(&file, number);
        }
        // Dropping a clone does not close the log; dropping the last one does.
        drop(log.clone());
        log.line(Severity::Warn, "of the switch");
        wait_for(&file, 4);
        drop(log);
        std::fs::remove_file(&file).expect("the file");
    }

    #[test]
    fn a_full_log_makes_room_and_the_oldest_file_goes() {
        let folder = std::env::temp_dir().join(format!("reprise-log-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        let path = folder.join("s1");
        let mut log = Rotating::open(path.clone(), 10, 2).expect("a file");
        for word in ["first--\n", "second-\n", "third--\n", "fourth-\n"] {
            log.write(word.as_bytes()).expect("a file");
        }
        log.flush().expect("a file");
        let read = |n| std::fs::read_to_string(file_name(&path, n)).ok();
        let found = [read(0), read(1), read(2), read(3)];
        std::fs::remove_dir_all(&folder).expect("the folder");
        let expected = [
            Some("fourth-\n"),
            Some("third--\n"),
            Some("second-\n"),
            None,
        ];
        assert_eq!(found, expected.map(|text| text.map(str::to_owned)));
    }
}
