//! Reads frames from a capture file of either format.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use pcap_file::pcap::{PcapReader, RawPcapPacket};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{Block, PcapNgReader};
use pcap_file::{DataLink, PcapError, TsResolution};

use crate::PortError;

/// The block type that a pcapng file begins with; the same in both byte orders.
const PCAPNG_MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

const NS_PER_S: u128 = 1_000_000_000;

pub(super) struct CapturedFrame {
    pub(super) timestamp_ns: u64,
    /// Whether the capture has only the frame's beginning.
    pub(super) is_truncated: bool,
    pub(super) bytes: Vec<u8>,
}

/// Reads frames in the file's order.
pub(super) struct FrameReader {
    path: PathBuf,
    format: Format,
    n_packets: u64,
}

enum Format {
    Classic(PcapReader<File>),
    // Boxed, since it is several times larger than the other variant.
    Next(Box<PcapNgReader<File>>),
}

impl FrameReader {
    pub(super) fn open(path: &Path) -> Result<FrameReader, PortError> {
        let failed = |operation| {
            move |source| PortError::CaptureFile {
                path: path.to_owned(),
                operation,
                source,
            }
        };
        let mut file = File::open(path).map_err(failed("open"))?;
        let mut magic = [0; 4];
        let n_read = file.read(&mut magic).map_err(failed("read"))?;
        file.seek(SeekFrom::Start(0)).map_err(failed("read"))?;
        let format = if magic == PCAPNG_MAGIC {
            PcapNgReader::new(file).map(|reader| Format::Next(Box::new(reader)))
        } else {
            PcapReader::new(file).map(Format::Classic)
        };
        let format = format.map_err(|_| PortError::CaptureFormat {
            path: path.to_owned(),
            message: match n_read {
                0 => "expected the header of a pcap or pcapng file, found an empty file".to_owned(),
                _ => format!(
                    "expected the header of a pcap or pcapng file, found {:02x?}",
                    &magic[..n_read]
                ),
            },
        })?;
        let reader = FrameReader {
            path: path.to_owned(),
            format,
            n_packets: 0,
        };
        if let Format::Classic(classic) = &reader.format {
            reader.check_link_type(classic.header().datalink)?;
        }
        Ok(reader)
    }

    /// Returns the next frame; `None` at the end of the file.
    pub(super) fn next_frame(&mut self) -> Result<Option<CapturedFrame>, PortError> {
        let frame = match &mut self.format {
            Format::Classic(reader) => {
                let resolution = reader.header().ts_resolution;
                reader
                    .next_raw_packet()
                    .map(|packet| packet.map(|packet| (classic_frame(packet, resolution), None)))
            }
            Format::Next(reader) => next_generation_frame(reader),
        };
        match frame {
            None => Ok(None),
            Some(Ok((frame, link_type))) => {
                self.n_packets += 1;
                if let Some(link_type) = link_type {
                    self.check_link_type(link_type)?;
                }
                Ok(Some(frame))
            }
            Some(Err(error)) => Err(self.broken(&error)),
        }
    }

    fn check_link_type(&self, link_type: DataLink) -> Result<(), PortError> {
        if link_type == DataLink::ETHERNET {
            return Ok(());
        }
        Err(PortError::CaptureFormat {
            path: self.path.clone(),
            message: format!(
                "packets have link type {}, expected {} (Ethernet)",
                u32::from(link_type),
                u32::from(DataLink::ETHERNET)
            ),
        })
    }

    fn broken(&self, error: &PcapError) -> PortError {
        let reason = match error {
            PcapError::IoError(source) if source.kind() == io::ErrorKind::UnexpectedEof => {
                "the file ends within it".to_owned()
            }
            PcapError::IoError(source) => source.to_string(),
            other => other.to_string(),
        };
        PortError::CaptureFormat {
            path: self.path.clone(),
            message: format!("packet {}: {reason}", self.n_packets + 1),
        }
    }
}

fn classic_frame(packet: RawPcapPacket<'_>, resolution: TsResolution) -> CapturedFrame {
    let fraction_ns = match resolution {
        TsResolution::MicroSecond => u64::from(packet.ts_frac) * 1000,
        TsResolution::NanoSecond => u64::from(packet.ts_frac),
    };
    CapturedFrame {
        timestamp_ns: u64::from(packet.ts_sec) * NS_PER_S as u64 + fraction_ns,
        is_truncated: packet.incl_len < packet.orig_len,
        bytes: packet.data.into_owned(),
    }
}

/// Returns the next packet block and its interface's link type; skips other blocks.
fn next_generation_frame(
    reader: &mut PcapNgReader<File>,
) -> Option<Result<(CapturedFrame, Option<DataLink>), PcapError>> {
    loop {
        let (interface_id, ticks, original_bytes, bytes) = match reader.next_block()? {
            // The library calls the ticks nanoseconds, whatever unit the interface declares.
            Ok(Block::EnhancedPacket(packet)) => (
                packet.interface_id,
                packet.timestamp.as_nanos(),
                packet.original_len,
                packet.data.into_owned(),
            ),
            Ok(Block::Packet(packet)) => (
                u32::from(packet.interface_id),
                u128::from(packet.timestamp),
                packet.original_len,
                packet.data.into_owned(),
            ),
            // A simple packet block has no timestamp: its frame counts as captured at the same time as the previous
            // frame.
            Ok(Block::SimplePacket(packet)) => {
                (0, 0, packet.original_len, packet.data.into_owned())
            }
            Ok(_) => continue,
            Err(error) => return Some(Err(error)),
        };
        let Some(interface) = reader.interfaces().get(interface_id as usize) else {
            return Some(Err(PcapError::InvalidInterfaceId(interface_id)));
        };
        return Some(Ok((
            numbered_frame(interface, ticks, original_bytes, bytes),
            Some(interface.linktype),
        )));
    }
}

fn numbered_frame(
    interface: &InterfaceDescriptionBlock<'_>,
    ticks: u128,
    original_bytes: u32,
    mut bytes: Vec<u8>,
) -> CapturedFrame {
    let captured_bytes = match interface.snaplen {
        0 => original_bytes,
        snaplen => original_bytes.min(snaplen),
    };
    // A simple packet block's data comes with its padding.
    bytes.truncate(captured_bytes as usize);
    CapturedFrame {
        timestamp_ns: nanoseconds(interface, ticks),
        is_truncated: bytes.len() < original_bytes as usize,
        bytes,
    }
}

/// Converts ticks to nanoseconds, by the interface's `if_tsresol` (draft-ietf-opsawg-pcapng, section 4.2). This option
/// gives the unit as a negative power of 10, or of 2 if the top bit is set; if the option is missing, ticks are
/// microseconds.
fn nanoseconds(interface: &InterfaceDescriptionBlock<'_>, ticks: u128) -> u64 {
    let resolution = interface.options.iter().find_map(|option| match option {
        InterfaceDescriptionOption::IfTsResol(resolution) => Some(*resolution),
        _ => None,
    });
    let offset_s = interface.options.iter().find_map(|option| match option {
        InterfaceDescriptionOption::IfTsOffset(offset) => Some(u128::from(*offset)),
        _ => None,
    });
    let resolution = resolution.unwrap_or(6);
    let exponent = u32::from(resolution & 0x7f);
    let base: u128 = if resolution & 0x80 == 0 { 10 } else { 2 };
    let ns = base
        .checked_pow(exponent)
        .and_then(|ticks_per_s| Some(ticks.checked_mul(NS_PER_S)? / ticks_per_s))
        .unwrap_or(0);
    u64::try_from(ns + offset_s.unwrap_or(0) * NS_PER_S).unwrap_or(u64::MAX)
}
