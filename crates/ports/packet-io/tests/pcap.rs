//! Capture files as ports.

use std::fs;
use std::path::{Path, PathBuf};

use packet_io::{Observer, PcapPort, Port, PortError, Recorder, ReplayOrder};

/// A file that is removed on drop.
struct TemporaryFile(PathBuf);

impl TemporaryFile {
    fn new(name: &str, contents: &[u8]) -> TemporaryFile {
        let name = format!("packet-io-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, contents).expect("a temporary file");
        TemporaryFile(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Makes a classic pcap file, little endian, of version 2.4. A packet has seconds, fraction, captured bytes and
/// original length.
fn classic(magic: u32, link_type: u32, packets: &[(u32, u32, &[u8], u32)]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [magic, 0x0004_0002, 0, 0, 65535, link_type] {
        file.extend(word.to_le_bytes());
    }
    for (seconds, fraction, bytes, original_len) in packets {
        for word in [*seconds, *fraction, bytes.len() as u32, *original_len] {
            file.extend(word.to_le_bytes());
        }
        file.extend(*bytes);
    }
    file
}

const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let len = (body.len() + 12) as u32;
    [
        &kind.to_le_bytes()[..],
        &len.to_le_bytes(),
        body,
        &len.to_le_bytes(),
    ]
    .concat()
}

/// Makes a pcapng file with one interface and one packet at `ticks`.
fn next_generation(tsresol: Option<u8>, ticks: u64, bytes: &[u8]) -> Vec<u8> {
    let mut section = vec![0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0];
    section.extend([0xff; 8]);
    let mut interface = vec![1, 0, 0, 0, 0, 0, 0, 0];
    if let Some(tsresol) = tsresol {
        interface.extend([9, 0, 1, 0, tsresol, 0, 0, 0, 0, 0, 0, 0]);
    }
    let mut packet = vec![0; 4];
    packet.extend(((ticks >> 32) as u32).to_le_bytes());
    packet.extend((ticks as u32).to_le_bytes());
    packet.extend((bytes.len() as u32).to_le_bytes());
    packet.extend((bytes.len() as u32).to_le_bytes());
    packet.extend(bytes);
    packet.resize(packet.len().next_multiple_of(4), 0);
    [
        block(0x0a0d_0d0a, &section),
        block(1, &interface),
        block(6, &packet),
    ]
    .concat()
}

fn frames(port: &mut PcapPort, now: u64) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    port.receive(now, 100, &mut |frame| frames.push(frame.to_vec()))
        .expect("a sound capture");
    frames
}

fn open_error(path: &Path) -> String {
    PcapPort::open(Some(path), None)
        .err()
        .expect("a capture that is not sound")
        .to_string()
}

#[test]
fn frames_arrive_at_their_capture_times() {
    for (magic, fraction) in [(MICROSECONDS, 5), (NANOSECONDS, 5000)] {
        let file = TemporaryFile::new(
            &format!("times-{magic:x}.pcap"),
            &classic(
                magic,
                1,
                &[
                    (100, 0, &[1; 60], 60),
                    (100, fraction, &[2; 61], 61),
                    (99, 0, &[3; 62], 62),
                    (101, 0, &[4; 63], 63),
                ],
            ),
        );
        let mut port = PcapPort::open(Some(file.path()), None).expect("a sound capture");
        assert_eq!(port.first_timestamp_ns(), Some(100_000_000_000));
        assert_eq!(port.next_frame_at(), Some(0));
        assert_eq!(frames(&mut port, 4999), [vec![1; 60]]);
        assert_eq!(port.next_frame_at(), Some(5000));
        // The third frame has an earlier timestamp than the second frame, but still arrives after it.
        assert_eq!(frames(&mut port, 5000), [vec![2; 61], vec![3; 62]]);
        assert_eq!(port.next_frame_at(), Some(1_000_000_000));
        port.start(99_000_000_000);
        assert_eq!(port.next_frame_at(), Some(2_000_000_000));
        assert_eq!(frames(&mut port, u64::MAX), [vec![4; 63]]);
        assert_eq!(port.next_frame_at(), None);
        assert_eq!(port.statistics().rx_bytes, 60 + 61 + 62 + 63);
    }
}

#[test]
fn pcapng_timestamps_have_the_unit_of_their_interface() {
    // 3.5 s in microseconds (the default), milliseconds, nanoseconds, and 1/1024 s.
    for (tsresol, ticks) in [
        (None, 3_500_000),
        (Some(3), 3500),
        (Some(9), 3_500_000_000),
        (Some(0x8a), 3584),
    ] {
        let contents = next_generation(tsresol, ticks, &[7; 61]);
        let file = TemporaryFile::new(&format!("unit-{tsresol:?}.pcapng"), &contents);
        let mut port = PcapPort::open(Some(file.path()), None).expect("a sound capture");
        let found = port.first_timestamp_ns();
        assert_eq!(found, Some(3_500_000_000), "{tsresol:?}");
        assert_eq!(frames(&mut port, 0), [vec![7; 61]]);
    }
}

#[test]
fn what_is_sent_is_read_back_with_nanoseconds() {
    let input = TemporaryFile::new(
        "back-in.pcap",
        &classic(MICROSECONDS, 1, &[(9, 0, &[1; 60], 60)]),
    );
    let output = TemporaryFile::new("back-out.pcap", b"");
    let mut port = PcapPort::open(Some(input.path()), Some(output.path())).expect("two captures");
    port.transmit(1, [&[5; 60][..], &[5; 4]].into())
        .expect("sending");
    port.transmit(2, [&[6; 13][..], &[]].into())
        .expect("sending");
    port.transmit(1_234_567_890, [&[7; 9014][..], &[]].into())
        .expect("sending");
    port.close().expect("closing");
    assert_eq!(port.statistics().tx_frames, 2);
    assert_eq!(port.statistics().tx_too_short, 1);
    let mut back = PcapPort::open(Some(output.path()), None).expect("a sound capture");
    assert_eq!(back.first_timestamp_ns(), Some(9_000_000_001));
    assert_eq!(frames(&mut back, 0), [vec![5; 64]]);
    assert_eq!(back.next_frame_at(), Some(1_234_567_889));
    assert_eq!(frames(&mut back, u64::MAX), [vec![7; 9014]]);
}

#[test]
fn frames_that_the_capture_cut_or_that_are_none_are_counted() {
    let packets = [
        (1, 0, &[1; 60][..], 1400),
        (1, 0, &[2; 13], 13),
        (1, 0, &[3; 14], 14),
    ];
    let file = TemporaryFile::new("cut.pcap", &classic(NANOSECONDS, 1, &packets));
    let mut port = PcapPort::open(Some(file.path()), None).expect("a sound capture");
    assert_eq!(frames(&mut port, 0), [vec![3; 14]]);
    let statistics = port.statistics();
    assert_eq!((statistics.rx_truncated, statistics.rx_too_short), (1, 1));
}

#[test]
fn what_is_wrong_with_a_capture_is_said() {
    let file = TemporaryFile::new("text.pcap", b"this is no capture");
    assert!(open_error(file.path()).contains("expected the header of a pcap or pcapng file"));
    let empty = TemporaryFile::new("empty.pcap", b"");
    assert!(
        open_error(empty.path()).contains("found an empty file"),
        "{}",
        open_error(empty.path())
    );
    let cooked = TemporaryFile::new("cooked.pcap", &classic(NANOSECONDS, 113, &[]));
    assert!(open_error(cooked.path()).contains("link type 113, expected 1 (Ethernet)"));
    let missing = Path::new("/nonexistent/in.pcap");
    assert!(open_error(missing).contains("capture file /nonexistent/in.pcap: cannot open"));
    let mut contents = classic(
        NANOSECONDS,
        1,
        &[(1, 0, &[1; 60], 60), (1, 0, &[2; 60], 60)],
    );
    contents.truncate(contents.len() - 1);
    let cut = TemporaryFile::new("short.pcap", &contents);
    let mut port = PcapPort::open(Some(cut.path()), None).expect("its first packet is sound");
    let error = port
        .receive(0, 9, &mut |_| ())
        .expect_err("its second is not");
    assert!(
        error
            .to_string()
            .contains("packet 2: the file ends within it"),
        "{error}"
    );
}

#[test]
fn a_capture_is_not_overwritten_by_its_own_replay() {
    let contents = classic(NANOSECONDS, 1, &[(1, 0, &[1; 60], 60)]);
    let file = TemporaryFile::new("same.pcap", &contents);
    let result = PcapPort::open(Some(file.path()), Some(file.path()));
    assert!(matches!(result, Err(PortError::CaptureFormat { .. })));
    assert_eq!(fs::read(file.path()).expect("the file"), contents);
}

#[test]
fn captures_on_a_clock_that_goes_on_arrive_at_one_time_in_the_order_of_all_timestamps() {
    let late = (9, 0, &[2; 60][..], 60);
    let first = [(1, 0, &[1; 60][..], 60), late];
    let second = [(5, 0, &[3; 60][..], 60)];
    let first = TemporaryFile::new("order-a.pcap", &classic(MICROSECONDS, 1, &first));
    let second = TemporaryFile::new("order-b.pcap", &classic(MICROSECONDS, 1, &second));
    let output = TemporaryFile::new("order-out.pcap", &[]);
    let order = ReplayOrder::default();
    let open = |path: &Path, output: Option<&Path>| {
        let mut port = PcapPort::open(Some(path), output).expect("a capture");
        port.replay_at(1_000, 7_000_000_000, &order);
        port
    };
    let mut a = open(first.path(), Some(output.path()));
    let mut b = open(second.path(), None);
    assert_eq!(a.next_frame_at(), Some(1_000));
    assert!(frames(&mut a, 999).is_empty(), "it is not time yet");
    assert!(frames(&mut b, 1_000).is_empty(), "the other is next");
    assert_eq!(frames(&mut a, 1_000), [[1; 60]]);
    assert_eq!(frames(&mut b, 1_000), [[3; 60]]);
    assert_eq!(frames(&mut a, 1_000), [[2; 60]]);
    assert_eq!(a.next_frame_at(), None);

    a.transmit(2_000, [9; 60].as_slice().into())
        .expect("a file");
    a.flush().expect("a file");
    // The capture is complete before the port is closed.
    let written = PcapPort::open(Some(output.path()), None).expect("a capture");
    assert_eq!(written.first_timestamp_ns(), Some(7_000_002_000));
}

#[test]
fn a_recorder_writes_both_ways_into_captures_that_can_be_read_at_any_time() {
    let received = TemporaryFile::new("recorded-in.pcap", &[]);
    let sent = TemporaryFile::new("recorded-out.pcap", &[]);
    let mut recorder =
        Recorder::create(received.path(), sent.path(), 3_000_000_000).expect("two files");
    let open = |file: &TemporaryFile| PcapPort::open(Some(file.path()), None).expect("a capture");
    assert_eq!(open(&received).first_timestamp_ns(), None);

    recorder.received(5_000, &[1; 60]);
    recorder.sent(6_000, &[2; 61]);
    recorder.flush();
    assert!(recorder.take_end().is_none());
    let (mut received, mut sent) = (open(&received), open(&sent));
    assert_eq!(received.first_timestamp_ns(), Some(3_000_005_000));
    assert_eq!(sent.first_timestamp_ns(), Some(3_000_006_000));
    assert_eq!(frames(&mut received, 0), [[1; 60]]);
    assert_eq!(frames(&mut sent, 0), [[2; 61]]);
}
