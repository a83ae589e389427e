//! BMv2's log: `[HH:MM:SS.mmm] [bmv2] [D] [thread N] ...`, the time in UTC.
//!
//! Lines are gathered until a packet is done and written then, so that a reader sees whole packets and each as
//! soon as it is over.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use dataplane::{Bmv2Renderer, PortId, Severity, TraceEvent, TraceKind, TraceSink};

use super::{Bmv2, LogTo};
use crate::error::SwitchError;
use crate::say;

/// Bytes that are gathered at most.
const GATHERED_BYTES_MAX: usize = 64 * 1024;

/// A log that packets and the switch itself write to. Clones share it.
#[derive(Clone)]
pub(crate) struct Log(Arc<Mutex<Inner>>);

struct Inner {
    out: Out,
    from: Severity,
    gathered: String,
    /// Nothing can be written further, as was said.
    is_broken: bool,
}

enum Out {
    Console,
    File(Rotating),
}

impl Log {
    /// The log that a command line asks for, if any.
    pub(crate) fn open(options: &Bmv2) -> Result<Option<Log>, SwitchError> {
        let (Some(to), Some(from)) = (&options.log, options.log_from) else {
            return Ok(None);
        };
        let out = match to {
            LogTo::Console => Out::Console,
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
        Ok(Some(Log(Arc::new(Mutex::new(Inner {
            out,
            from,
            gathered: String::new(),
            is_broken: false,
        })))))
    }

    /// A line of the switch's own, written at once.
    pub(crate) fn tell(&self, severity: Severity, text: &str) {
        let mut log = self.lock();
        log.line(severity, text);
        log.write();
    }

    /// A line that is written with the packet it is of.
    pub(crate) fn gather(&self, severity: Severity, text: &str) {
        self.lock().line(severity, text);
    }

    /// Writes what was gathered.
    pub(crate) fn write(&self) {
        self.lock().write();
    }

    /// Takes the events of packets.
    pub(crate) fn sink(&self, cpu_port: Option<PortId>) -> Box<dyn TraceSink> {
        Box::new(PacketLog {
            log: self.clone(),
            renderer: Bmv2Renderer::new(cpu_port),
        })
    }

    /// Lines stay whole if another thread panics.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn line(&mut self, severity: Severity, text: &str) {
        if severity < self.from || self.is_broken {
            return;
        }
        let line = format!(
            "[{}] [bmv2] [{}] [thread {}] {text}\n",
            time_of_day(SystemTime::now()),
            severity.letter(),
            // Packets are the first thread's, whose number is the process'.
            std::process::id(),
        );
        self.gathered.push_str(&line);
        if self.gathered.len() > GATHERED_BYTES_MAX {
            self.write();
        }
    }

    /// Packets go on without a log; it is said once.
    fn write(&mut self) {
        let gathered = std::mem::take(&mut self.gathered);
        if gathered.is_empty() || self.is_broken {
            return;
        }
        let result = match &mut self.out {
            Out::Console => {
                let mut out = io::stdout().lock();
                let written = out.write_all(gathered.as_bytes());
                written.and_then(|()| out.flush())
            }
            Out::File(file) => file.write(gathered.as_bytes()),
        };
        if let Err(error) = result {
            self.is_broken = true;
            say(&format!("warning: the log ends here: {error}"));
        }
    }
}

/// Hours, minutes, seconds and milliseconds of UTC.
fn time_of_day(now: SystemTime) -> String {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, millis) = (now.as_secs(), now.subsec_millis());
    let (hours, minutes) = (seconds / 3_600 % 24, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}.{millis:03}", seconds % 60)
}

/// The events of packets, as lines.
struct PacketLog {
    log: Log,
    renderer: Bmv2Renderer,
}

impl TraceSink for PacketLog {
    fn event(&mut self, event: &TraceEvent) {
        let mut log = self.log.lock();
        for line in self.renderer.render(event) {
            log.line(line.severity, &line.text);
        }
        if ends_packet(&event.kind) {
            log.write();
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

/// A file that makes room: `F.txt`, before it `F.1.txt`, and so on.
struct Rotating {
    path: PathBuf,
    file: File,
    n_bytes: u64,
    bytes_max: u64,
    files_max: usize,
}

/// The name of the log, or of the n-th before it.
fn file_name(path: &Path, n: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    match n {
        0 => name.push(".txt"),
        n => name.push(format!(".{n}.txt")),
    }
    name.into()
}

impl Rotating {
    /// Goes on behind what is in the file.
    fn open(path: PathBuf, bytes_max: u64, files_max: usize) -> io::Result<Rotating> {
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true);
        let file = file.open(file_name(&path, 0))?;
        let n_bytes = file.metadata()?.len();
        Ok(Rotating {
            path,
            file,
            n_bytes,
            bytes_max,
            files_max,
        })
    }

    /// Lines of one packet stay in one file.
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        let n_lines_bytes = lines.len() as u64;
        if self.n_bytes > 0 && self.n_bytes + n_lines_bytes > self.bytes_max {
            self.rotate()?;
        }
        self.n_bytes += n_lines_bytes;
        self.file.write_all(lines)
    }

    /// Stopped between two steps, a file is missing in the row, and none is lost but the oldest.
    fn rotate(&mut self) -> io::Result<()> {
        for n in (0..self.files_max).rev() {
            let (from, to) = (file_name(&self.path, n), file_name(&self.path, n + 1));
            if from.exists() {
                std::fs::rename(from, to)?;
            }
        }
        self.file = File::create(file_name(&self.path, 0))?;
        self.n_bytes = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_time_of_day_has_milliseconds() {
        let at = UNIX_EPOCH + Duration::from_millis(((3 * 24 + 4) * 60 + 25) * 60_000 + 1_007);
        assert_eq!(time_of_day(at), "04:25:01.007");
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
