use super::*;
use testkit::namespace::{in_namespace, ip, veth_pair};

#[test]
fn an_interface_that_goes_while_it_is_opened_is_said_to_be_missing() {
    in_namespace(|| {
        veth_pair("v0", "v1");
        let interface = Interface::find("v1").expect("it is there");
        ip("link del v0");
        // A new interface of that name does not help: it has another index.
        veth_pair("v0", "v1");
        let opened = AfPacketPort::open_one(&interface, AfPacketConfig::default(), None);
        let error = opened.err().expect("an error");
        assert!(
            matches!(error, PortError::InterfaceMissing { .. }),
            "{error}"
        );
    });
}

/// Passes a frame with this virtio header and tag to a [`Taker`]. Returns the resulting frames and
/// counters.
fn taken(
    frame: &[u8],
    header: [u8; VIRTIO_HEADER_BYTES],
    tag: Option<(u16, u16)>,
) -> (Vec<Vec<u8>>, PortStatistics) {
    let mut buffer = [&[0; VLAN_TAG_BYTES], frame].concat();
    let (mut frames, mut statistics) = (Vec::new(), PortStatistics::default());
    let mut take = |frame: &[u8]| frames.push(frame.to_vec());
    let mut taker = Taker {
        statistics: &mut statistics,
        take: &mut take,
    };
    taker.take_buffer(&mut buffer, &VirtioHeader::parse(&header), tag);
    (frames, statistics)
}

fn virtio_header(flags: u8, gso_type: u8, words: [u16; 4]) -> [u8; VIRTIO_HEADER_BYTES] {
    let mut header = [flags, gso_type, 0, 0, 0, 0, 0, 0, 0, 0];
    for (to, word) in header[2..].chunks_mut(2).zip(words) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    header
}

#[test]
fn a_checksum_is_finished_before_the_tag_moves_it() {
    let mut frame = vec![0xee; 14];
    frame.extend([0x00, 0x01, 0x12, 0x34, 0x00, 0x02]);
    let (frames, statistics) = taken(
        &frame,
        virtio_header(1, 0, [0, 0, 14, 2]),
        Some((0x8100, 5)),
    );
    let mut expected = vec![0xee; 12];
    expected.extend([0x81, 0x00, 0x00, 0x05, 0xee, 0xee, 0x00, 0x01]);
    expected.extend((!0x1237_u16).to_be_bytes());
    expected.extend([0x00, 0x02]);
    assert_eq!(frames, [expected]);
    assert_eq!((statistics.rx_frames, statistics.rx_bytes), (1, 24));
}

#[test]
fn a_super_frame_of_an_unknown_kind_is_counted() {
    for gso_type in [1, 2, 3, 4, 5] {
        let header = virtio_header(1, gso_type, [14, 100, 14, 6]);
        let (frames, statistics) = taken(&[0xee; 2000], header, None);
        assert!(frames.is_empty());
        assert_eq!((statistics.rx_unsegmentable, statistics.rx_frames), (1, 0));
    }
}

#[test]
fn less_than_an_ethernet_header_is_counted() {
    let (frames, statistics) = taken(&[1; 13], [0; VIRTIO_HEADER_BYTES], Some((0x8100, 5)));
    assert!(frames.is_empty());
    assert_eq!(statistics.rx_too_short, 1);
}
