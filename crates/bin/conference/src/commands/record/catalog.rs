//! The file `recording.json`, which describes what a recording contains. Also counts the packets of each track for this
//! file.

use std::collections::BTreeMap;

use conference_api::{Name, TrackKind, TrackPath, Transport};
use conference_client::relay::is_rtcp;
use conference_client::sequence::{Seen, Sequence, WINDOW, extended};
use serde::{Deserialize, Serialize};

/// The version of the file.
pub const FORMAT: u32 = 1;
/// Maximum number of sources (SSRCs) of a track whose packets are counted for each source: a sender of packets with
/// random sources must not fill the memory.
const SOURCES_MAX: usize = 64;
/// Maximum number of ranges of lost sequence numbers that are listed for a source.
const RANGES_MAX: usize = 1_000;

/// A recording.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Recording {
    pub format: u32,
    pub conference: Name,
    /// The participant that records.
    pub participant: Name,
    pub began_ms: u64,
    /// When the file `recording.json` was written.
    pub written_ms: u64,
    /// Why the recording has ended; null while it goes on, and also if the recorder was killed.
    pub ended: Option<String>,
    pub tracks: Vec<RecordedTrack>,
}

/// A recorded track. If a track was published several times, each time has an entry of its own.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RecordedTrack {
    pub number: u32,
    pub path: TrackPath,
    /// The publisher's name for people.
    pub display_name: String,
    pub kind: TrackKind,
    pub transport: Transport,
    pub pcapng: String,
    /// The file with the session description, if the track has one.
    pub sdp: Option<String>,
    /// Files that ffmpeg has written.
    pub media: Vec<MediaFile>,
    pub since_ms: u64,
    /// When the recording of the track ended; null while the track is recorded.
    pub until_ms: Option<u64>,
    pub first_packet_ms: Option<u64>,
    pub last_packet_ms: Option<u64>,
    pub packets: u64,
    pub bytes: u64,
    /// How many of the packets are RTCP.
    pub rtcp_packets: u64,
    /// Packets that came to this machine and found no room in a buffer here.
    pub dropped_here: u64,
    /// Packets of sources beyond those that are listed.
    pub packets_of_other_sources: u64,
    pub sources: Vec<Source>,
}

impl RecordedTrack {
    /// Sets what is known of the file with number `part` that ffmpeg writes. Replaces the file's entry, or adds one.
    pub fn set_media(&mut self, part: usize, file: MediaFile) {
        match self.media.get_mut(part) {
            Some(there) => *there = file,
            None => self.media.push(file),
        }
    }
}

/// A file that ffmpeg writes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MediaFile {
    pub file: Option<String>,
    /// What went wrong, if something did.
    pub problem: Option<String>,
    /// Packets that were left out, since ffmpeg did not take them in time. The pcapng file has them.
    pub left_out: u64,
}

/// A synchronisation source (RFC 3550) of a track.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Source {
    pub ssrc: u32,
    pub first_sequence: u16,
    pub last_sequence: u16,
    /// The number of packets, duplicates not counted.
    pub packets: u64,
    pub duplicated: u64,
    pub lost: u64,
    /// The first and the last sequence number of each gap; if there are more than `RANGES_MAX`, only the earliest ones.
    pub lost_sequences: Vec<(u16, u16)>,
    /// How often the source's sequence numbers have started anew.
    pub restarts: u64,
}

/// Counts the packets of a track while it is recorded.
#[derive(Debug)]
pub struct Account {
    entry: RecordedTrack,
    sources: Vec<SourceAccount>,
}

impl Account {
    pub fn new(entry: RecordedTrack) -> Account {
        Account {
            entry,
            sources: Vec::new(),
        }
    }

    /// Returns the track's entry for the file `recording.json`, with all counts so far.
    pub fn entry(&self) -> RecordedTrack {
        RecordedTrack {
            sources: self.sources.iter().map(SourceAccount::entry).collect(),
            ..self.entry.clone()
        }
    }

    pub fn ends(&mut self, until_ms: u64) {
        self.entry.until_ms = Some(until_ms);
    }

    pub fn dropped_here(&mut self, n: u64) {
        self.entry.dropped_here += n;
    }

    pub fn media(&mut self, part: usize, file: MediaFile) {
        self.entry.set_media(part, file);
    }

    pub fn packet(&mut self, time_ns: u64, packet: &[u8]) {
        let entry = &mut self.entry;
        let time_ms = time_ns / 1_000_000;
        entry.first_packet_ms.get_or_insert(time_ms);
        entry.last_packet_ms = Some(time_ms);
        entry.packets += 1;
        entry.bytes += packet.len() as u64;
        if entry.transport != Transport::Rtp {
            return;
        }
        if is_rtcp(packet) {
            entry.rtcp_packets += 1;
            return;
        }
        let Some((ssrc, number)) = rtp(packet) else {
            return;
        };
        let place = self.sources.iter().position(|it| it.ssrc == ssrc);
        match place {
            Some(place) => self.sources[place].take(number),
            None if self.sources.len() < SOURCES_MAX => {
                self.sources.push(SourceAccount::new(ssrc, number));
            }
            None => entry.packets_of_other_sources += 1,
        }
    }
}

/// Reads the source (SSRC) and the sequence number of an RTP packet (RFC 3550, section 5.1).
pub fn rtp(packet: &[u8]) -> Option<(u32, u16)> {
    let header = packet.get(..12)?;
    if header[0] >> 6 != 2 || is_rtcp(packet) {
        return None;
    }
    let ssrc = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
    Some((ssrc, u16::from_be_bytes([header[2], header[3]])))
}

#[derive(Debug)]
struct SourceAccount {
    ssrc: u32,
    first: u16,
    sequence: Sequence,
    /// The gaps to list: the first missing number of each gap, and the number after its last missing number.
    gaps: BTreeMap<u64, u64>,
    restarts: u64,
    /// Totals of the sequences before the last restart: packets, duplicates, lost packets.
    before: (u64, u64, u64),
}

impl SourceAccount {
    fn new(ssrc: u32, number: u16) -> SourceAccount {
        SourceAccount {
            ssrc,
            first: number,
            // The offset leaves room for packets with earlier numbers, which may still come.
            sequence: Sequence::starting_at(0x1_0000 + u64::from(number)),
            gaps: BTreeMap::new(),
            restarts: 0,
            before: (0, 0, 0),
        }
    }

    fn take(&mut self, number: u16) {
        let highest = self.sequence.highest();
        let number = extended(number, highest);
        if number + WINDOW <= highest {
            self.restart(number);
            return;
        }
        match self.sequence.take(number) {
            Seen::New { skipped } => {
                if !skipped.is_empty() && self.gaps.len() < RANGES_MAX {
                    self.gaps.insert(skipped.start, skipped.end);
                }
            }
            Seen::Late => self.fill(number),
            Seen::Again => {}
        }
        if self.restarts == 0 {
            self.first = low(self.sequence.first());
        }
    }

    /// Begins a new sequence, because the number is so far back that the sender must have begun its numbers anew. A
    /// number that is far ahead begins no new sequence: the numbers that it skips count as lost.
    fn restart(&mut self, number: u64) {
        let sequence = &self.sequence;
        self.before.0 += sequence.n_received();
        self.before.1 += sequence.n_again();
        self.before.2 += sequence.n_lost();
        self.restarts += 1;
        // The new sequence begins after all earlier extended numbers, so that its gaps are not mixed with earlier gaps.
        let base = ((sequence.highest() >> 16) + 2) << 16;
        self.sequence = Sequence::starting_at(base + u64::from(low(number)));
    }

    fn fill(&mut self, number: u64) {
        let Some((&start, &end)) = self.gaps.range(..=number).next_back() else {
            return;
        };
        if number >= end {
            return;
        }
        self.gaps.remove(&start);
        if start < number {
            self.gaps.insert(start, number);
        }
        if number + 1 < end {
            self.gaps.insert(number + 1, end);
        }
    }

    fn entry(&self) -> Source {
        let sequence = &self.sequence;
        let gaps = self.gaps.iter();
        Source {
            ssrc: self.ssrc,
            first_sequence: self.first,
            last_sequence: low(sequence.highest()),
            packets: self.before.0 + sequence.n_received(),
            duplicated: self.before.1 + sequence.n_again(),
            lost: self.before.2 + sequence.n_lost(),
            lost_sequences: gaps
                .map(|(&start, &end)| (low(start), low(end - 1)))
                .collect(),
            restarts: self.restarts,
        }
    }
}

/// The 16-bit sequence number that belongs to an extended sequence number.
fn low(number: u64) -> u16 {
    let bytes = number.to_be_bytes();
    u16::from_be_bytes([bytes[6], bytes[7]])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account() -> Account {
        let name = |text| Name::new(text).expect("a name");
        Account::new(RecordedTrack {
            number: 1,
            path: TrackPath {
                participant: name("ann"),
                track: name("video"),
            },
            display_name: "Ann".to_owned(),
            kind: TrackKind::Video,
            transport: Transport::Rtp,
            pcapng: "0001.ann.video.pcapng".to_owned(),
            sdp: None,
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
        })
    }

    fn packet(ssrc: u32, number: u16) -> Vec<u8> {
        let mut packet = vec![0x80, 96];
        packet.extend(number.to_be_bytes());
        packet.extend([0; 4]);
        packet.extend(ssrc.to_be_bytes());
        packet
    }

    fn source(numbers: &[u16]) -> Source {
        let mut account = account();
        for number in numbers {
            account.packet(5_000_000, &packet(7, *number));
        }
        account.entry().sources.remove(0)
    }

    #[test]
    fn gaps_are_listed_until_late_packets_fill_them() {
        let source_7 = source(&[65_533, 65_534, 1, 4, 3, 3]);
        assert_eq!((source_7.packets, source_7.duplicated), (5, 1));
        assert_eq!(source_7.lost, 3);
        assert_eq!(source_7.lost_sequences, [(65_535, 0), (2, 2)]);
        assert_eq!(
            (source_7.first_sequence, source_7.last_sequence),
            (65_533, 4)
        );
        let late = source(&[10, 12, 9, 11]);
        assert_eq!((late.lost, late.first_sequence), (0, 9));
        assert!(late.lost_sequences.is_empty());
    }

    #[test]
    fn numbers_far_back_begin_anew_and_numbers_far_ahead_are_lost() {
        let restarted = source(&[5_000, 5_002, 1_000, 1_001]);
        assert_eq!((restarted.restarts, restarted.lost), (1, 1));
        assert_eq!((restarted.packets, restarted.first_sequence), (4, 5_000));
        assert_eq!(
            (restarted.last_sequence, &restarted.lost_sequences[..]),
            (1_001, &[(5_001, 5_001)][..])
        );
        let ahead = source(&[1, 30_001]);
        assert_eq!((ahead.restarts, ahead.lost), (0, 29_999));
    }

    #[test]
    fn sources_without_number_are_counted_together() {
        let mut account = account();
        for ssrc in 0..1_000 {
            account.packet(1, &packet(ssrc, 1));
        }
        let entry = account.entry();
        assert_eq!(entry.sources.len(), SOURCES_MAX);
        assert_eq!(entry.packets_of_other_sources, 1_000 - SOURCES_MAX as u64);
        assert_eq!(entry.packets, 1_000);
    }

    #[test]
    fn rtcp_and_other_datagrams_are_no_packets_of_a_source() {
        let mut account = account();
        account.packet(1_999_999, &[0x80, 200, 0, 1, 0, 0, 0, 7, 0, 0, 0, 0]);
        account.packet(3_000_000, b"short");
        let entry = account.entry();
        assert_eq!((entry.packets, entry.rtcp_packets, entry.bytes), (2, 1, 17));
        assert_eq!(
            (entry.first_packet_ms, entry.last_packet_ms),
            (Some(1), Some(3))
        );
        assert!(entry.sources.is_empty());
    }

    #[test]
    fn a_recording_is_read_as_it_was_written() {
        let mut account = account();
        account.packet(1, &packet(7, 1));
        account.media(
            0,
            MediaFile {
                file: Some("0001.ann.video.mkv".to_owned()),
                problem: None,
                left_out: 0,
            },
        );
        account.ends(9);
        let recording = Recording {
            format: FORMAT,
            conference: Name::new("c").expect("a name"),
            participant: Name::new("rec").expect("a name"),
            began_ms: 1,
            written_ms: 2,
            ended: None,
            tracks: vec![account.entry()],
        };
        let text = serde_json::to_string(&recording).expect("JSON");
        assert_eq!(
            serde_json::from_str::<Recording>(&text).expect("read"),
            recording
        );
    }
}
