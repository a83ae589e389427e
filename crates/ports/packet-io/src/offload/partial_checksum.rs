//! Recognises, without a flag from the kernel, a partial checksum that the sender's kernel left to a card to finish.

use super::{ETHER_TYPE_VLAN_OUTER, complete_checksum, internet_checksum};

/// Finishes the checksum of a frame with UDP or TCP directly over IPv4 or IPv6, if the checksum is partial. Returns
/// whether the checksum was partial.
///
/// A sender's kernel that leaves the checksum to a card writes the pseudo-header's sum into the field. A finished field
/// holds this sum in two cases only. If the sum happens to be the right checksum, this function writes the same
/// checksum again. If the frame is damaged, the field may hold the sum by chance: this function would take one in
/// 65,536 damaged frames for partial. So this function is for frames that cannot be damaged, from a sender on the same
/// machine.
pub fn complete_partial_checksum(frame: &mut [u8]) -> bool {
    let Some(transport) = Transport::find(frame) else {
        return false;
    };
    let Transport {
        start,
        end,
        field,
        pseudo_header_sum,
    } = transport;
    let found = u16::from_be_bytes([frame[start + field], frame[start + field + 1]]);
    found == pseudo_header_sum && complete_checksum(&mut frame[..end], start, field)
}

/// Where a transport segment is in its frame.
struct Transport {
    start: usize,
    end: usize,
    /// Offset of the checksum from `start`; inside the segment.
    field: usize,
    /// The partial checksum: over addresses, length and protocol.
    pseudo_header_sum: u16,
}

impl Transport {
    fn find(frame: &[u8]) -> Option<Transport> {
        let mut network = 14;
        let mut ether_type = word(frame, 12)?;
        while matches!(ether_type, 0x8100 | ETHER_TYPE_VLAN_OUTER) {
            ether_type = word(frame, network + 2)?;
            network += super::VLAN_TAG_BYTES;
        }
        let (header_bytes, n_bytes, protocol, addresses) = match ether_type {
            0x0800 => {
                let header_bytes = usize::from(*frame.get(network)? & 0x0f) * 4;
                let total_bytes = usize::from(word(frame, network + 2)?);
                let is_fragment = word(frame, network + 6)? & 0x3fff != 0;
                if header_bytes < 20 || is_fragment {
                    return None;
                }
                let protocol = *frame.get(network + 9)?;
                let n_bytes = total_bytes.checked_sub(header_bytes)?;
                (header_bytes, n_bytes, protocol, network + 12..network + 20)
            }
            0x86dd => {
                let n_bytes = usize::from(word(frame, network + 4)?);
                let protocol = *frame.get(network + 6)?;
                (40, n_bytes, protocol, network + 8..network + 40)
            }
            _ => return None,
        };
        let field = match protocol {
            6 => 16,
            17 => 6,
            _ => return None,
        };
        let start = network + header_bytes;
        if start + n_bytes > frame.len() || n_bytes < field + 2 {
            return None;
        }
        // The length fits 16 bits, because it came from a field of that width.
        let length_and_protocol = u32::from(protocol) + n_bytes as u32;
        Some(Transport {
            start,
            end: start + n_bytes,
            field,
            pseudo_header_sum: !internet_checksum(length_and_protocol, &frame[addresses]),
        })
    }
}

fn word(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]))
}

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;

    use super::*;

    /// Makes frames with right checksums, each with the offset of its checksum field.
    fn frames(payload: &[u8]) -> [(Vec<u8>, usize); 4] {
        let ethernet = || PacketBuilder::ethernet2([2; 6], [4; 6]);
        let build = |builder: etherparse::PacketBuilderStep<etherparse::UdpHeader>, at| {
            let mut frame = Vec::new();
            builder.write(&mut frame, payload).expect("a frame");
            (frame, at)
        };
        let mut tcp = Vec::new();
        let builder = ethernet().ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
        let builder = builder.tcp(1, 2, 3, 4);
        builder.write(&mut tcp, payload).expect("a frame");
        let v4 = ethernet().ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).udp(1, 2);
        let tagged = ethernet()
            .single_vlan(5_u16.try_into().expect("an id"))
            .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
            .udp(1, 2);
        let v6 = ethernet().ipv6([0xfd; 16], [0xfe; 16], 64).udp(1, 2);
        [build(v4, 40), build(tagged, 44), build(v6, 60), (tcp, 50)]
    }

    /// Returns the sum over the pseudo-header, computed the simple way.
    fn partial(frame: &[u8], field: usize) -> [u8; 2] {
        let network = if frame[12] == 0x81 { 18 } else { 14 };
        let (addresses, start) = match frame[network] >> 4 {
            4 => (network + 12..network + 20, network + 20),
            _ => (network + 8..network + 40, network + 40),
        };
        let protocol = if field - start == 6 { 17 } else { 6 };
        let pairs = frame[addresses].chunks(2);
        let mut sum = pairs
            .map(|pair| u32::from(pair[0]) * 256 + u32::from(pair[1]))
            .sum::<u32>();
        sum += protocol + (frame.len() - start) as u32;
        while sum > 0xffff {
            sum = sum % 0x1_0000 + sum / 0x1_0000;
        }
        (sum as u16).to_be_bytes()
    }

    #[test]
    fn a_partial_checksum_is_finished_also_in_front_of_padding() {
        for payload in [&b"even"[..], b"odd", b"", &[0xff; 1400]] {
            for (frame, field) in frames(payload) {
                let mut unfinished = frame.clone();
                unfinished[field..field + 2].copy_from_slice(&partial(&frame, field));
                unfinished.extend([0xaa; 7]);
                assert!(complete_partial_checksum(&mut unfinished));
                assert_eq!(unfinished[..frame.len()], frame);
                assert_eq!(unfinished[frame.len()..], [0xaa; 7]);
            }
        }
    }

    #[test]
    fn finished_and_wrong_checksums_stay() {
        for (frame, field) in frames(b"payload") {
            for change in [0, 1, 0x80] {
                let mut other = frame.clone();
                other[field] ^= change;
                let before = other.clone();
                assert!(!complete_partial_checksum(&mut other));
                assert_eq!(other, before);
            }
        }
    }

    #[test]
    fn what_is_cut_short_or_a_fragment_is_left_alone() {
        for (frame, field) in frames(b"payload") {
            let mut unfinished = frame.clone();
            unfinished[field..field + 2].copy_from_slice(&partial(&frame, field));
            for n_bytes in 0..unfinished.len() {
                assert!(!complete_partial_checksum(
                    &mut unfinished.clone()[..n_bytes]
                ));
            }
            if frame[12..14] == [0x08, 0x00] {
                unfinished[20] |= 0x20;
                assert!(!complete_partial_checksum(&mut unfinished));
            }
        }
    }
}
