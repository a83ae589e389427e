//! Capture files as a port: reads frames from one file and writes frames to another, in the capture's own time.
//!
//! Reads classic pcap (micro- and nanoseconds, either byte order) and pcapng; writes classic pcap with nanoseconds.
//! Time is virtual: the port's time 0 is [`PcapPort::start`]'s argument, usually the first timestamp of all captures,
//! so that several files replay in step. If a frame's timestamp is earlier than the previous frame's, it counts as
//! equal to the previous frame's, so frames stay in the file's order.
//!
//! [`PcapPort::replay_at`] is for a clock that advances independently of the captures: all frames arrive at one time,
//! in the order of the timestamps of all captures, and a flush writes the sent frames to the file.

mod order;
mod reader;
mod recorder;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use pcap_file::pcap::PcapHeader;
use pcap_file::{DataLink, Endianness, PcapError, TsResolution};

use crate::limits::{MIN_FRAME_BYTES, PCAP_SNAPLEN_BYTES};
use crate::{Frame, Nanos, Port, PortError, PortStatistics};
pub use order::ReplayOrder;
use order::ReplayPlace;
use reader::{CapturedFrame, FrameReader};
pub use recorder::Recorder;

/// Bytes that are buffered before they are written to a capture.
const BUFFER_BYTES: usize = 64 * 1024;

/// Bytes of the header of a classic capture, and of the header in front of each frame.
const FILE_HEADER_BYTES: u64 = 24;
const FRAME_HEADER_BYTES: u64 = 16;

/// A port that receives the frames of one capture file and writes sent frames to another. Either file may be missing.
pub struct PcapPort {
    name: String,
    input: Option<FrameReader>,
    output: Option<Output>,
    next: Option<CapturedFrame>,
    start_ns: u64,
    /// In a replay ([`PcapPort::replay_at`]): the time at which all frames arrive, and this capture's place among the
    /// captures that are replayed together.
    replay: Option<(Nanos, ReplayPlace)>,
    /// Whether the output has failed. The port then counts further frames as refused.
    is_broken: bool,
    statistics: PortStatistics,
}

struct Output {
    path: PathBuf,
    writer: BufWriter<File>,
    resolution: TsResolution,
    tail: Tail,
}

/// The end of a capture that is being written; a part of it may still be buffered.
struct Tail {
    /// Bytes of the file once the buffer is written.
    end: u64,
    /// The last frames: where each begins and ends in the file, and its length.
    frames: VecDeque<(u64, u64, u64)>,
}

impl Tail {
    fn push(&mut self, frame_bytes: u64) {
        let begin = self.end;
        self.end += FRAME_HEADER_BYTES + frame_bytes;
        self.frames.push_back((begin, self.end, frame_bytes));
        let written = self.end.saturating_sub(BUFFER_BYTES as u64);
        while self
            .frames
            .front()
            .is_some_and(|(_, end, _)| *end < written)
        {
            self.frames.pop_front();
        }
    }

    /// Cuts the file after its last whole frame. Returns the lengths of the frames that the file lacks.
    fn cut_off(self, file: &File) -> impl Iterator<Item = u64> {
        let written = file.metadata().map_or(0, |file| file.len());
        let is_lost = move |(_, end, _): &(u64, u64, u64)| *end > written;
        let first = self.frames.iter().find(|frame| is_lost(frame));
        let begin = first.map_or(self.end, |(begin, ..)| *begin);
        if begin < written {
            // A reader reports a capture with half a frame at its end as broken. If cutting fails, the capture stays
            // broken.
            let _ = file.set_len(begin);
        }
        self.frames
            .into_iter()
            .filter(is_lost)
            .map(|(.., n_bytes)| n_bytes)
    }
}

impl PcapPort {
    /// Opens the capture to read and creates the capture to write. They must be different files.
    ///
    /// # Errors
    /// [`PortError::CaptureFile`] and [`PortError::CaptureFormat`].
    pub fn open(input: Option<&Path>, output: Option<&Path>) -> Result<PcapPort, PortError> {
        let mut reader = input.map(FrameReader::open).transpose()?;
        if let (Some(input), Some(output)) = (input, output)
            && is_same_file(input, output)
        {
            let message = "cannot be read and written at once: name another file for the output";
            return Err(PortError::CaptureFormat {
                path: output.to_owned(),
                message: message.to_owned(),
            });
        }
        let next = reader.as_mut().map_or(Ok(None), FrameReader::next_frame)?;
        let name = |path: Option<&Path>| path.map_or(String::new(), |p| p.display().to_string());
        Ok(PcapPort {
            name: match output {
                None => format!("pcap:{}", name(input)),
                Some(_) => format!("pcap:{},{}", name(input), name(output)),
            },
            start_ns: next.as_ref().map_or(0, |frame| frame.timestamp_ns),
            input: reader,
            output: output
                .map(|path| Output::create(path, TsResolution::NanoSecond))
                .transpose()?,
            next,
            replay: None,
            is_broken: false,
            statistics: PortStatistics::default(),
        })
    }

    /// Returns the first frame's timestamp in nanoseconds of the capture's clock, usually since 1970.
    pub fn first_timestamp_ns(&self) -> Option<u64> {
        self.next.as_ref().map(|frame| frame.timestamp_ns)
    }

    /// Sets the timestamp that is time 0 of [`Port::receive`] and [`Port::transmit`]. The default is the timestamp of
    /// the first frame.
    pub fn start(&mut self, timestamp_ns: u64) {
        self.start_ns = timestamp_ns;
    }

    /// Makes all frames arrive at the time `at` of the caller's clock. Time 0 of this clock is `epoch_ns` after 1970.
    /// The frames of all captures of `order` arrive in the order of their timestamps.
    pub fn replay_at(&mut self, at: Nanos, epoch_ns: u64, order: &ReplayOrder) {
        self.start_ns = epoch_ns;
        self.replay = Some((at, order.join(self.first_timestamp_ns())));
    }

    fn is_due(&self, now: Nanos) -> bool {
        match &self.replay {
            Some((at, place)) => *at <= now && place.is_next(),
            None => self.next_frame_at().is_some_and(|at| at <= now),
        }
    }

    /// Ends the output after its last whole frame, and counts the frames that the file lacks as refused.
    fn break_off(
        &mut self,
        (path, buffered, tail): (PathBuf, BufWriter<File>, Tail),
        operation: &'static str,
        source: io::Error,
    ) -> PortError {
        self.is_broken = true;
        // Dropping the buffer would write its remaining bytes after half a frame.
        let (file, _) = buffered.into_parts();
        for n_bytes in tail.cut_off(&file) {
            self.statistics.tx_frames = self.statistics.tx_frames.saturating_sub(1);
            self.statistics.tx_bytes = self.statistics.tx_bytes.saturating_sub(n_bytes);
            self.statistics.tx_refused += 1;
        }
        PortError::CaptureFile {
            path,
            operation,
            source,
        }
    }

    /// Writes the buffer to the file. The output stays open if `goes_on`, and ends otherwise.
    fn write_out(&mut self, operation: &'static str, goes_on: bool) -> Result<(), PortError> {
        let Some(mut output) = self.output.take() else {
            return Ok(());
        };
        if let Err(source) = output.flush() {
            return Err(self.break_off(output.into_parts(), operation, source));
        }
        self.output = goes_on.then_some(output);
        Ok(())
    }

    fn advance(&mut self) -> Result<(), PortError> {
        let Some(reader) = &mut self.input else {
            return Ok(());
        };
        let earliest_ns = self.next.as_ref().map_or(0, |frame| frame.timestamp_ns);
        self.next = None;
        self.next = reader.next_frame()?.map(|mut frame| {
            frame.timestamp_ns = frame.timestamp_ns.max(earliest_ns);
            frame
        });
        if let Some((_, place)) = &self.replay {
            place.set(self.first_timestamp_ns());
        }
        Ok(())
    }
}

impl Port for PcapPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn receive(
        &mut self,
        now: Nanos,
        max_frames: usize,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<usize, PortError> {
        let mut n_frames = 0;
        while n_frames < max_frames && self.is_due(now) {
            if let Some(frame) = &self.next {
                if frame.is_truncated {
                    self.statistics.rx_truncated += 1;
                } else if frame.bytes.len() < MIN_FRAME_BYTES {
                    self.statistics.rx_too_short += 1;
                } else {
                    self.statistics.rx_frames += 1;
                    self.statistics.rx_bytes += frame.bytes.len() as u64;
                    take(&frame.bytes);
                }
                n_frames += 1;
            }
            self.advance()?;
        }
        Ok(n_frames)
    }

    fn transmit(&mut self, now: Nanos, frame: Frame<'_>) -> Result<(), PortError> {
        let frame = match [frame.head, frame.payload] {
            [whole, []] => Cow::Borrowed(whole),
            pieces => Cow::Owned(pieces.concat()),
        };
        if frame.len() < MIN_FRAME_BYTES {
            self.statistics.tx_too_short += 1;
            return Ok(());
        }
        if frame.len() > PCAP_SNAPLEN_BYTES as usize {
            self.statistics.tx_too_long += 1;
            return Ok(());
        }
        if self.is_broken {
            self.statistics.tx_refused += 1;
            return Ok(());
        }
        let timestamp_ns = self.start_ns.saturating_add(now);
        if let Some(mut output) = self.output.take() {
            if let Err(source) = output.write(timestamp_ns, &frame) {
                self.statistics.tx_refused += 1;
                return Err(self.break_off(output.into_parts(), "write", source));
            }
            self.output = Some(output);
        }
        self.statistics.tx_frames += 1;
        self.statistics.tx_bytes += frame.len() as u64;
        Ok(())
    }

    /// Frames stay in the buffer until [`Port::close`], since no reader of a file waits for them. In a replay another
    /// program may read the file meanwhile, so a flush writes the buffer to the file.
    fn flush(&mut self) -> Result<(), PortError> {
        match self.replay {
            Some(_) => self.write_out("write", true),
            None => Ok(()),
        }
    }

    fn close(&mut self) -> Result<(), PortError> {
        self.write_out("finish writing", false)
    }

    fn next_frame_at(&self) -> Option<Nanos> {
        let frame = self.next.as_ref()?;
        if let Some((at, _)) = self.replay {
            return Some(at);
        }
        Some(frame.timestamp_ns.saturating_sub(self.start_ns))
    }

    fn statistics(&mut self) -> PortStatistics {
        self.statistics
    }
}

impl Output {
    fn create(path: &Path, ts_resolution: TsResolution) -> Result<Output, PortError> {
        let error = |operation| {
            move |source| PortError::CaptureFile {
                path: path.to_owned(),
                operation,
                source,
            }
        };
        let file = File::create(path).map_err(error("create"))?;
        let header = PcapHeader {
            snaplen: PCAP_SNAPLEN_BYTES,
            datalink: DataLink::ETHERNET,
            ts_resolution,
            endianness: Endianness::native(),
            ..PcapHeader::default()
        };
        let mut writer = BufWriter::with_capacity(BUFFER_BYTES, file);
        header
            .write_to(&mut writer)
            .map_err(|source| error("write")(of_system(source)))?;
        Ok(Output {
            path: path.to_owned(),
            writer,
            resolution: ts_resolution,
            tail: Tail {
                end: FILE_HEADER_BYTES,
                frames: VecDeque::new(),
            },
        })
    }

    fn write(&mut self, timestamp_ns: u64, frame: &[u8]) -> io::Result<()> {
        let unit_ns = match self.resolution {
            TsResolution::MicroSecond => 1_000,
            TsResolution::NanoSecond => 1,
        };
        // 32 bits of seconds last until the year 2106. Callers pass no frame longer than `PCAP_SNAPLEN_BYTES`.
        let seconds = (timestamp_ns / 1_000_000_000) as u32;
        let fraction = (timestamp_ns % 1_000_000_000 / unit_ns) as u32;
        for word in [seconds, fraction, frame.len() as u32, frame.len() as u32] {
            self.writer.write_all(&word.to_ne_bytes())?;
        }
        self.writer.write_all(frame)?;
        self.tail.push(frame.len() as u64);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }

    fn into_parts(self) -> (PathBuf, BufWriter<File>, Tail) {
        (self.path, self.writer, self.tail)
    }
}

/// Returns the system's own error if `error` contains one; otherwise wraps `error`.
fn of_system(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(source) => source,
        other => io::Error::other(other),
    }
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    match (fs::canonicalize(one), fs::canonicalize(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}
