//! Counts multicast and broadcast frames, by destination address (IEEE 802, 8.2).

use control::MulticastCounters;
use packet_io::Frame;

const ADDRESS_BYTES: usize = 6;
const BROADCAST: [u8; ADDRESS_BYTES] = [0xff; ADDRESS_BYTES];

/// Counts a received frame, unless the port is disabled: the switch drops such frames.
#[inline]
pub(crate) fn count_received(multicast: &mut MulticastCounters, is_enabled: bool, frame: &[u8]) {
    if let Some(destination) = frame.first_chunk()
        && destination[0] & 1 == 1
        && is_enabled
    {
        count(
            &mut multicast.rx_multicast,
            &mut multicast.rx_broadcast,
            destination,
        );
    }
}

#[inline]
pub(crate) fn count_sent(multicast: &mut MulticastCounters, frame: &Frame<'_>) {
    let destination = match frame.head.first_chunk() {
        Some(destination) => Some(*destination),
        None => in_pieces(frame),
    };
    if let Some(destination) = destination
        && destination[0] & 1 == 1
    {
        count(
            &mut multicast.tx_multicast,
            &mut multicast.tx_broadcast,
            &destination,
        );
    }
}

/// Copies the address of a frame whose `head` is shorter than an address.
#[cold]
fn in_pieces(frame: &Frame<'_>) -> Option<[u8; ADDRESS_BYTES]> {
    let bytes = frame.head.iter().chain(frame.payload).copied();
    let bytes: Vec<u8> = bytes.take(ADDRESS_BYTES).collect();
    bytes.try_into().ok()
}

#[inline]
fn count(multicast: &mut u64, broadcast: &mut u64, destination: &[u8; ADDRESS_BYTES]) {
    if *destination == BROADCAST {
        *broadcast += 1;
    } else {
        *multicast += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TO_ONE: [u8; 8] = [2, 0, 0, 0, 0, 1, 0xff, 0xff];
    const TO_GROUP: [u8; 8] = [1, 0, 0x5e, 0, 0, 1, 0, 0];
    const TO_ALL: [u8; 8] = [0xff; 8];

    #[test]
    fn frames_are_told_apart_both_ways_however_they_are_cut() {
        let mut multicast = MulticastCounters::default();
        for frame in [TO_ONE, TO_GROUP, TO_ALL, TO_ALL] {
            count_received(&mut multicast, true, &frame);
            count_received(&mut multicast, false, &frame);
        }
        for frame in [TO_ONE, TO_GROUP, TO_GROUP, TO_ALL] {
            for n_head in [0, 3, 6, 8] {
                let (head, payload) = frame.split_at(n_head);
                let payload_id = 0;
                count_sent(
                    &mut multicast,
                    &Frame {
                        head,
                        payload,
                        payload_id,
                    },
                );
            }
        }
        // Frames that are too short for an address are not counted.
        count_received(&mut multicast, true, &TO_ALL[..5]);
        count_sent(&mut multicast, &TO_ALL[..5].into());
        let expected = MulticastCounters {
            rx_multicast: 1,
            rx_broadcast: 2,
            tx_multicast: 8,
            tx_broadcast: 4,
        };
        assert_eq!(multicast, expected);
    }
}
