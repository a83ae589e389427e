//! The files of a recording, written by a thread of their own: a slow disk must not keep packets waiting in the sockets.
//!
//! Files grow by whole blocks and lines, at least once a second. After a kill or when the disk is full, they can be
//! read up to the last write.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use conference_api::Name;
use etherparse::PacketBuilder;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, Endianness};
use serde_json::Value;
use tokio::sync::mpsc;

use super::catalog::{Account, FORMAT, MediaFile, RecordedTrack, Recording};
use crate::failure::Failure;
use crate::files;

const CATALOG: &str = "recording.json";
const EVENTS: &str = "events.jsonl";
/// The longest recording.json that is read, in bytes: enough for some 10,000 tracks.
const CATALOG_MAX: u64 = 64 << 20;
/// The new blocks of a file are written once a second, or earlier if they are longer than this, in bytes.
const UNWRITTEN_MAX: usize = 256 << 10;
/// The time to live in the IP headers of recorded packets. A socket does not say which time to live a packet had, but
/// the header must have the field.
const TIME_TO_LIVE: u8 = 64;
/// Times in pcapng files are in nanoseconds: 10 to the power of -9 s.
const RESOLUTION: u8 = 9;

/// A message to the thread that writes files.
#[derive(Debug)]
pub enum Message {
    /// A track begins. The text is the track's session description.
    Open(Box<RecordedTrack>, String),
    Packet {
        track: u32,
        time_ns: u64,
        from: SocketAddr,
        to: SocketAddr,
        packet: Arc<[u8]>,
    },
    /// Packets of a track found no room on this machine: the track's number, and how many packets.
    Dropped(u32, u64),
    /// A file that ffmpeg writes: the track's number, the number of the file among the track's files, from 0 on, and
    /// what is known of the file.
    Media(u32, usize, MediaFile),
    /// A track has ended: the track's number, and the time now.
    Close(u32, u64),
    Event(Value),
    /// A second is over, so the files are to be written. The number is the time now, in milliseconds since 1970.
    Flush(u64),
    /// The recording ends: the time now, and why.
    End(u64, String),
}

/// A file that only grows.
struct Growing {
    path: PathBuf,
    file: File,
    /// Number of bytes that are written.
    len: u64,
}

impl Growing {
    fn new(path: PathBuf, file: File) -> Result<Growing, Failure> {
        let len = file
            .metadata()
            .map_err(|error| unwritable(&path, &error))?
            .len();
        Ok(Growing { path, file, len })
    }

    /// Appends all bytes or none of them.
    fn append(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if bytes.is_empty() {
            return Ok(());
        }
        let written = self.file.write_all(bytes);
        match written {
            Ok(()) => {
                self.len += bytes.len() as u64;
                Ok(())
            }
            Err(error) => {
                // Cut off the bytes that were written before the error: otherwise the file would end with half a block.
                let _ = self.file.set_len(self.len);
                let _ = self.file.seek(SeekFrom::Start(self.len));
                Err(unwritable(&self.path, &error))
            }
        }
    }
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::in_file(
        path,
        &format!(
            "cannot be written: {}; what was written before can be read, and `reprise record` with the same folder goes on",
            files::why(error)
        ),
    )
}

struct Track {
    account: Account,
    file: Growing,
    /// Blocks that are not written yet.
    blocks: PcapNgWriter<Vec<u8>>,
}

/// A folder with a recording.
pub struct Writer {
    folder: PathBuf,
    recording: Recording,
    /// The file of events, which is locked as long as this writer exists.
    events: Growing,
    lines: Vec<u8>,
    /// The tracks that are recorded now, by their numbers. Each has its index in the recording's list of tracks.
    tracks: BTreeMap<u32, (usize, Track)>,
}

impl Writer {
    /// Begins a recording in a folder, or continues the recording that the folder has.
    ///
    /// # Errors
    /// The folder cannot be used, another process records into it, or it has a recording of another conference.
    pub fn open(
        folder: &Path,
        (conference, participant): (&Name, &Name),
        now_ms: u64,
    ) -> Result<Writer, Failure> {
        files::make_folder(folder)?;
        let path = folder.join(EVENTS);
        let file = File::options()
            .read(true)
            .append(true)
            .create(true)
            .open(&path);
        let file = file.map_err(|error| unwritable(&path, &error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let why = "another `reprise record` writes to it: give another folder";
                return Err(Failure::in_file(folder, &why));
            }
            Err(TryLockError::Error(error)) => return Err(unwritable(&path, &error)),
        }
        let mut events = Growing::new(path, file)?;
        let lines = unfinished(&mut events)?;
        remove_leftovers(folder);
        let mut recording = Recording {
            format: FORMAT,
            conference: conference.clone(),
            participant: participant.clone(),
            began_ms: now_ms,
            written_ms: now_ms,
            ended: None,
            tracks: Vec::new(),
        };
        if let Some(earlier) = earlier(folder, conference)? {
            recording.began_ms = earlier.began_ms;
            recording.tracks = earlier.tracks;
            for track in &mut recording.tracks {
                // A track without an end was still recorded at `written_ms`, and the recorder was killed after that.
                track.until_ms.get_or_insert(earlier.written_ms);
            }
        }
        Ok(Writer {
            folder: folder.to_owned(),
            recording,
            events,
            lines,
            tracks: BTreeMap::new(),
        })
    }

    /// Returns the number after the highest number that a track of the recording or a file of the folder has.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn next_number(&self) -> Result<u32, Failure> {
        let mut last = self.recording.tracks.iter().map(|it| it.number).max();
        let unreadable = |error| Failure::in_file(&self.folder, &files::why(&error));
        for entry in fs::read_dir(&self.folder).map_err(unreadable)? {
            let name = entry.map_err(unreadable)?.file_name();
            let number = name.to_str().and_then(|name| name.split('.').next());
            let number = number.and_then(|number| number.parse().ok());
            last = last.max(number);
        }
        Ok(last.unwrap_or(0).saturating_add(1))
    }

    /// Writes what the messages contain, until there are no more messages.
    ///
    /// # Errors
    /// A file cannot be written. What was written before can be read.
    pub fn run(mut self, mut messages: mpsc::Receiver<Message>) -> Result<(), Failure> {
        let written = self.write_all(&mut messages);
        if let Err(failure) = &written {
            self.recording.ended = Some(failure.to_string());
            // Write as much as there is room for.
            let numbers: Vec<u32> = self.tracks.keys().copied().collect();
            for number in numbers {
                let _ = self.flush_track(number);
            }
            let _ = self.write_catalog();
        }
        written
    }

    fn write_all(&mut self, messages: &mut mpsc::Receiver<Message>) -> Result<(), Failure> {
        // Write the list of tracks at once, so that whoever looks into the folder sees that it is a recording.
        self.write_catalog()?;
        while let Some(message) = messages.blocking_recv() {
            match message {
                Message::Open(entry, sdp) => self.open_track(*entry, &sdp)?,
                Message::Packet {
                    track,
                    time_ns,
                    from,
                    to,
                    packet,
                } => self.packet(track, time_ns, (from, to), &packet)?,
                Message::Dropped(track, n) => {
                    self.account(track, |account| account.dropped_here(n));
                }
                Message::Media(track, part, file) => self.media(track, part, file),
                Message::Close(track, now_ms) => self.close_track(track, now_ms)?,
                Message::Event(event) => {
                    self.lines.extend(event.to_string().into_bytes());
                    self.lines.push(b'\n');
                }
                Message::Flush(now_ms) => {
                    self.recording.written_ms = now_ms;
                    self.flush()?;
                }
                Message::End(now_ms, why) => {
                    self.recording.written_ms = now_ms;
                    self.recording.ended = Some(why);
                    return self.flush();
                }
            }
        }
        self.flush()
    }

    fn account(&mut self, track: u32, change: impl FnOnce(&mut Account)) {
        if let Some((_, track)) = self.tracks.get_mut(&track) {
            change(&mut track.account);
        }
    }

    /// Keeps what is known of a file that ffmpeg writes, for recording.json. ffmpeg may complete this file after the
    /// track has ended.
    fn media(&mut self, number: u32, part: usize, file: MediaFile) {
        if let Some((_, track)) = self.tracks.get_mut(&number) {
            track.account.media(part, file);
            return;
        }
        let mut ended = self.recording.tracks.iter_mut();
        if let Some(entry) = ended.find(|it| it.number == number) {
            entry.set_media(part, file);
        }
    }

    fn open_track(&mut self, entry: RecordedTrack, sdp: &str) -> Result<(), Failure> {
        let path = self.folder.join(&entry.pcapng);
        let file = File::options().write(true).create_new(true).open(&path);
        let file = file.map_err(|error| unwritable(&path, &error))?;
        let track = Track {
            blocks: first_blocks(&entry)?,
            file: Growing::new(path, file)?,
            account: Account::new(entry.clone()),
        };
        if let Some(file) = &entry.sdp {
            files::write(&self.folder.join(file), sdp.as_bytes())?;
        }
        let number = entry.number;
        self.tracks
            .insert(number, (self.recording.tracks.len(), track));
        self.recording.tracks.push(entry);
        self.flush_track(number)
    }

    fn packet(
        &mut self,
        number: u32,
        time_ns: u64,
        (from, to): (SocketAddr, SocketAddr),
        packet: &[u8],
    ) -> Result<(), Failure> {
        let Some((_, track)) = self.tracks.get_mut(&number) else {
            return Ok(());
        };
        track.account.packet(time_ns, packet);
        let data = ip_packet(from, to, packet)?;
        let block = EnhancedPacketBlock {
            interface_id: 0,
            timestamp: std::time::Duration::from_nanos(time_ns),
            original_len: u32::try_from(data.len()).unwrap_or(u32::MAX),
            data: Cow::Owned(data),
            options: Vec::new(),
        };
        track.blocks.write_pcapng_block(block)?;
        if track.blocks.get_ref().len() > UNWRITTEN_MAX {
            self.flush_track(number)?;
        }
        Ok(())
    }

    fn flush_track(&mut self, number: u32) -> Result<(), Failure> {
        let Some((place, track)) = self.tracks.get_mut(&number) else {
            return Ok(());
        };
        self.recording.tracks[*place] = track.account.entry();
        track.file.append(track.blocks.get_ref())?;
        track.blocks.get_mut().clear();
        Ok(())
    }

    fn close_track(&mut self, number: u32, now_ms: u64) -> Result<(), Failure> {
        self.account(number, |account| account.ends(now_ms));
        self.flush_track(number)?;
        self.tracks.remove(&number);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Failure> {
        let numbers: Vec<u32> = self.tracks.keys().copied().collect();
        for number in numbers {
            self.flush_track(number)?;
        }
        self.events.append(&self.lines)?;
        self.lines.clear();
        self.write_catalog()
    }

    fn write_catalog(&self) -> Result<(), Failure> {
        let path = self.folder.join(CATALOG);
        let mut text = serde_json::to_string_pretty(&self.recording)?;
        text.push('\n');
        whole_file::write(&path, text.as_bytes()).map_err(|error| unwritable(&path, &error))
    }
}

/// Returns the bytes with which the file of events must continue: a newline if a recorder that was killed has left half
/// a line, so that this line ends.
fn unfinished(events: &mut Growing) -> Result<Vec<u8>, Failure> {
    let mut last = [b'\n'];
    if events.len > 0 {
        let read = events
            .file
            .seek(SeekFrom::End(-1))
            .and_then(|_| events.file.read_exact(&mut last));
        read.map_err(|error| unwritable(&events.path, &error))?;
    }
    Ok(if last == *b"\n" {
        Vec::new()
    } else {
        vec![b'\n']
    })
}

/// Removes the temporary files of recorders that were killed while they wrote recording.json. No other process writes
/// into the folder.
fn remove_leftovers(folder: &Path) {
    let prefix = format!(".{CATALOG}.");
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(&prefix) && name.ends_with(".part") {
            // If the file cannot be removed, it does no harm.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Reads the recording that a folder has already; `None` if it has none.
fn earlier(folder: &Path, conference: &Name) -> Result<Option<Recording>, Failure> {
    let path = folder.join(CATALOG);
    let text = match whole_file::read_regular(&path, CATALOG_MAX) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failure::in_file(&path, &files::why(&error))),
    };
    let earlier: Recording = serde_json::from_slice(&text).map_err(|error| {
        let why = format!("expected a recording's list of tracks ({error}): give another folder");
        Failure::in_file(&path, &why)
    })?;
    if earlier.format != FORMAT {
        let why = format!(
            "expected format {FORMAT}, found {}: give another folder",
            earlier.format
        );
        return Err(Failure::in_file(&path, &why));
    }
    if earlier.conference != *conference {
        let why = format!(
            "is of conference {}, expected {conference}: give another folder",
            earlier.conference
        );
        return Err(Failure::in_file(&path, &why));
    }
    Ok(Some(earlier))
}

/// Makes the blocks with which a track's pcapng file begins.
fn first_blocks(entry: &RecordedTrack) -> Result<PcapNgWriter<Vec<u8>>, Failure> {
    let program = concat!("reprise record ", env!("CARGO_PKG_VERSION"));
    let section = SectionHeaderBlock {
        endianness: Endianness::Little,
        options: vec![SectionHeaderOption::UserApplication(Cow::Borrowed(program))],
        ..SectionHeaderBlock::default()
    };
    let mut blocks = PcapNgWriter::with_section_header(Vec::new(), section)?;
    let name = format!("{}/{}", entry.path.participant, entry.path.track);
    blocks.write_pcapng_block(InterfaceDescriptionBlock {
        linktype: DataLink::RAW,
        snaplen: 0,
        options: vec![
            InterfaceDescriptionOption::IfName(Cow::Owned(name)),
            InterfaceDescriptionOption::IfDescription(Cow::Borrowed(&entry.display_name)),
            InterfaceDescriptionOption::IfTsResol(RESOLUTION),
        ],
    })?;
    Ok(blocks)
}

/// Builds an IP packet of a UDP datagram with this payload.
fn ip_packet(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Result<Vec<u8>, Failure> {
    let ip = match (from, to) {
        (SocketAddr::V4(from), SocketAddr::V4(to)) => {
            PacketBuilder::ipv4(from.ip().octets(), to.ip().octets(), TIME_TO_LIVE)
        }
        (SocketAddr::V6(from), SocketAddr::V6(to)) => {
            PacketBuilder::ipv6(from.ip().octets(), to.ip().octets(), TIME_TO_LIVE)
        }
        _ => {
            return Err(Failure::new(format!(
                "expected a packet between addresses of one kind, found one from {from} to {to}"
            )));
        }
    };
    let builder = ip.udp(from.port(), to.port());
    let mut packet = Vec::with_capacity(builder.size(payload.len()));
    builder.write(&mut packet, payload)?;
    Ok(packet)
}

#[cfg(test)]
mod tests {
    use super::*;
    use conference_api::{TrackKind, TrackPath, Transport};
    use pcap_file::pcapng::{Block, PcapNgReader};
    use std::time::Duration;

    fn name(text: &str) -> Name {
        Name::new(text).expect("a name")
    }

    fn open(folder: &Path, now_ms: u64) -> Result<Writer, Failure> {
        Writer::open(folder, (&name("c"), &name("rec")), now_ms)
    }

    fn why<T>(result: Result<T, Failure>) -> String {
        result.err().expect("a failure").to_string()
    }

    fn entry(number: u32) -> RecordedTrack {
        let path = TrackPath {
            participant: name("ann"),
            track: name("video"),
        };
        RecordedTrack {
            number,
            path,
            display_name: "Ann".to_owned(),
            kind: TrackKind::Video,
            transport: Transport::Rtp,
            pcapng: format!("{number:04}.ann.video.pcapng"),
            sdp: Some(format!("{number:04}.ann.video.sdp")),
            media: Vec::new(),
            since_ms: 1,
            until_ms: None,
            first_packet_ms: None,
            last_packet_ms: None,
            packets: 0,
            bytes: 0,
            rtcp_packets: 0,
            dropped_here: 0,
            packets_of_other_sources: 0,
            sources: Vec::new(),
        }
    }

    fn packet(number: u16, ipv6: bool) -> Message {
        let mut packet = vec![0x80, 96];
        packet.extend(number.to_be_bytes());
        packet.extend([0; 9]);
        let (from, to) = if ipv6 {
            ("[2001:db8::1]:5004", "[2001:db8::2]:40000")
        } else {
            ("192.0.2.1:5004", "192.0.2.2:40000")
        };
        Message::Packet {
            track: 1,
            time_ns: 1_795_836_063_010_000_001,
            from: from.parse().expect("an address"),
            to: to.parse().expect("an address"),
            packet: packet.into(),
        }
    }

    fn write(writer: Writer, messages: Vec<Message>) -> Result<(), Failure> {
        let (sender, receiver) = mpsc::channel(messages.len().max(1));
        for message in messages {
            sender.try_send(message).expect("room");
        }
        // The thread gets no message `End` before the channel closes, as if the recorder was killed.
        drop(sender);
        writer.run(receiver)
    }

    fn catalog(folder: &Path) -> Recording {
        let text = fs::read(folder.join(CATALOG)).expect("a list of tracks");
        serde_json::from_slice(&text).expect("JSON")
    }

    #[test]
    fn packets_are_in_the_file_with_their_addresses_and_times() {
        for ipv6 in [false, true] {
            let folder = tempfile::tempdir().expect("a folder");
            let writer = open(folder.path(), 5).expect("opened");
            let open = Message::Open(Box::new(entry(1)), "v=0\r\n".to_owned());
            let end = Message::End(9, "the end".to_owned());
            let media = MediaFile {
                file: None,
                problem: Some("it did not complete the file".to_owned()),
                left_out: 0,
            };
            let media = Message::Media(1, 0, media);
            let close = Message::Close(1, 8);
            let messages = vec![open, packet(7, ipv6), packet(8, ipv6), close, media, end];
            write(writer, messages).expect("written");
            let file = File::open(folder.path().join("0001.ann.video.pcapng")).expect("a file");
            let mut reader = PcapNgReader::new(file).expect("pcapng");
            let mut numbers = Vec::new();
            while let Some(block) = reader.next_block() {
                let Block::EnhancedPacket(block) = block.expect("a block") else {
                    continue;
                };
                assert_eq!(
                    block.timestamp,
                    Duration::from_nanos(1_795_836_063_010_000_001)
                );
                let sliced = etherparse::SlicedPacket::from_ip(&block.data).expect("IP");
                let Some(etherparse::TransportSlice::Udp(udp)) = &sliced.transport else {
                    panic!("expected UDP, found {sliced:?}");
                };
                assert_eq!((udp.source_port(), udp.destination_port()), (5_004, 40_000));
                numbers.push(u16::from_be_bytes([udp.payload()[2], udp.payload()[3]]));
            }
            assert_eq!(numbers, [7, 8]);
            let catalog = catalog(folder.path());
            assert_eq!(catalog.ended.as_deref(), Some("the end"));
            assert_eq!((catalog.began_ms, catalog.written_ms), (5, 9));
            let track = &catalog.tracks[0];
            assert_eq!((track.packets, track.until_ms), (2, Some(8)));
            assert!(track.media[0].problem.is_some());
            assert_eq!(
                (track.sources[0].first_sequence, track.sources[0].lost),
                (7, 0)
            );
            let sdp = fs::read(folder.path().join("0001.ann.video.sdp")).expect("a file");
            assert_eq!(sdp, b"v=0\r\n");
        }
    }

    #[test]
    fn a_recorder_that_was_killed_is_followed_by_one_that_goes_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let writer = open(folder.path(), 5).expect("opened");
        assert_eq!(writer.next_number().expect("a number"), 1);
        let open_track = Message::Open(Box::new(entry(1)), String::new());
        let event = Message::Event(serde_json::json!({ "event": "joined" }));
        write(
            writer,
            vec![open_track, packet(1, false), event, Message::Flush(7)],
        )
        .expect("written");
        // As if the recorder was killed in the middle of a line of events, and in the middle of recording.json.
        let events = folder.path().join(EVENTS);
        let mut file = File::options().append(true).open(&events).expect("a file");
        file.write_all(b"{\"event\"").expect("written");
        let leftover = folder.path().join(".recording.json.x.part");
        fs::write(&leftover, b"{").expect("written");
        fs::write(folder.path().join("0007.x.y.pcapng"), b"").expect("written");

        let writer = open(folder.path(), 20).expect("opened");
        assert!(!leftover.exists());
        assert_eq!(writer.next_number().expect("a number"), 8);
        let second = Message::Event(serde_json::json!({ "event": "left" }));
        let messages = vec![Message::Open(Box::new(entry(8)), String::new()), second];
        write(writer, messages).expect("written");
        let text = fs::read_to_string(&events).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "{\"event\":\"joined\"}",
                "{\"event\"",
                "{\"event\":\"left\"}"
            ]
        );
        let catalog = catalog(folder.path());
        assert_eq!(catalog.began_ms, 5);
        let numbers: Vec<u32> = catalog.tracks.iter().map(|it| it.number).collect();
        assert_eq!(numbers, [1, 8]);
        assert_eq!(catalog.tracks[0].until_ms, Some(7));
        assert_eq!(catalog.tracks[1].until_ms, None);
    }

    #[test]
    fn a_folder_is_one_recorders_and_one_conferences() {
        let folder = tempfile::tempdir().expect("a folder");
        let writer = open(folder.path(), 5).expect("opened");
        assert!(why(open(folder.path(), 6)).contains("another `reprise record`"));
        write(writer, Vec::new()).expect("written");
        let other = Writer::open(folder.path(), (&name("d"), &name("rec")), 7);
        assert!(why(other).contains("is of conference c, expected d"));
        fs::write(folder.path().join(CATALOG), b"[]").expect("written");
        assert!(why(open(folder.path(), 8)).contains("expected a recording's list of tracks"));
    }

    #[test]
    fn no_file_of_a_track_is_written_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let writer = open(folder.path(), 5).expect("opened");
        fs::write(folder.path().join("0001.ann.video.pcapng"), b"other").expect("written");
        let messages = vec![Message::Open(Box::new(entry(1)), String::new())];
        assert!(why(write(writer, messages)).contains("there is a file of this name"));
        let file = fs::read(folder.path().join("0001.ann.video.pcapng")).expect("a file");
        assert_eq!(file, b"other");
        assert!(catalog(folder.path()).ended.is_some());
    }
}
