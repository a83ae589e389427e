//! Capture files as a port: frames in from one, frames out to another, in the capture's own time.
//!
//! Reads classic pcap (micro- and nanoseconds, either byte order) and pcapng; writes classic pcap
//! with nanoseconds. Time is virtual: the port's zero is [`PcapPort::start`]'s argument, usually the
//! first timestamp of all captures, so that several files replay in step. A timestamp earlier than
//! the one before it counts as equal to it: frames stay in the file's order.

mod reader;

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{DataLink, Endianness, TsResolution};

use crate::limits::{MIN_FRAME_BYTES, PCAP_SNAPLEN_BYTES};
use crate::{Frame, Nanos, Port, PortError, PortStatistics};
use reader::{CapturedFrame, FrameReader};

/// A port whose frames come from a capture file and go to another. Either may be missing.
pub struct PcapPort {
    name: String,
    input: Option<FrameReader>,
    output: Option<Output>,
    next: Option<CapturedFrame>,
    start_ns: u64,
    statistics: PortStatistics,
}

struct Output {
    path: PathBuf,
    writer: PcapWriter<BufWriter<File>>,
}

impl PcapPort {
    /// Opens the capture to read and makes the one to write, which must be another file.
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
            output: output.map(Output::create).transpose()?,
            next,
            statistics: PortStatistics::default(),
        })
    }

    /// The first frame's timestamp in nanoseconds of the capture's clock, usually since 1970.
    pub fn first_timestamp_ns(&self) -> Option<u64> {
        self.next.as_ref().map(|frame| frame.timestamp_ns)
    }

    /// Says which timestamp is the time 0 of [`Port::receive`] and [`Port::transmit`].
    /// Without, it is the first frame's.
    pub fn start(&mut self, timestamp_ns: u64) {
        self.start_ns = timestamp_ns;
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
        while n_frames < max_frames && self.next_frame_at().is_some_and(|at| at <= now) {
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
        if let Some(output) = &mut self.output {
            output.write(self.start_ns.saturating_add(now), &frame)?;
        }
        self.statistics.tx_frames += 1;
        self.statistics.tx_bytes += frame.len() as u64;
        Ok(())
    }

    /// Frames stay in a buffer until [`Port::close`]: a file has no reader that waits.
    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    fn close(&mut self) -> Result<(), PortError> {
        let Some(Output { path, writer }) = self.output.take() else {
            return Ok(());
        };
        let finish = |source| PortError::CaptureFile {
            path,
            operation: "finish writing",
            source,
        };
        writer.into_writer().flush().map_err(finish)
    }

    fn next_frame_at(&self) -> Option<Nanos> {
        let frame = self.next.as_ref()?;
        Some(frame.timestamp_ns.saturating_sub(self.start_ns))
    }

    fn statistics(&mut self) -> PortStatistics {
        self.statistics
    }
}

impl Output {
    fn create(path: &Path) -> Result<Output, PortError> {
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
            ts_resolution: TsResolution::NanoSecond,
            endianness: Endianness::native(),
            ..PcapHeader::default()
        };
        let writer = PcapWriter::with_header(BufWriter::new(file), header)
            .map_err(|source| error("write")(io::Error::other(source)))?;
        Ok(Output {
            path: path.to_owned(),
            writer,
        })
    }

    fn write(&mut self, timestamp_ns: u64, frame: &[u8]) -> Result<(), PortError> {
        // Longer frames were counted and left out before.
        let len = frame.len() as u32;
        let packet = PcapPacket::new(Duration::from_nanos(timestamp_ns), len, frame);
        self.writer
            .write_packet(&packet)
            .map_err(|source| PortError::CaptureFile {
                path: self.path.clone(),
                operation: "write",
                source: io::Error::other(source),
            })?;
        Ok(())
    }
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    match (fs::canonicalize(one), fs::canonicalize(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}
