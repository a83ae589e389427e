//! Computes the Internet checksum (RFC 1071), and finishes a partial checksum.

/// Returns the Internet checksum of `data` added to `initial`, which may be any partial sum. Odd lengths are padded
/// with a zero byte.
pub fn internet_checksum(initial: u32, data: &[u8]) -> u16 {
    let mut sum = u64::from(initial);
    let mut words = data.chunks_exact(4);
    for word in &mut words {
        sum += u64::from(u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        sum += u64::from(u32::from_be_bytes(last));
    }
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    // The loop leaves 16 bits, so nothing is cut off.
    !(sum as u16)
}

/// Finishes a partial checksum: the field at `start + offset` holds the sum of the pseudo-header, and the sum from
/// `start` to the end of the frame is missing. A result of 0 is written as 0xffff, as UDP demands (RFC 768: 0 means
/// "none") and the kernel does. Returns false and changes nothing if the field is not inside the frame.
pub fn complete_checksum(frame: &mut [u8], start: usize, offset: usize) -> bool {
    let Some(field) = start.checked_add(offset) else {
        return false;
    };
    if frame.len() < field + 2 {
        return false;
    }
    let sum = match internet_checksum(0, &frame[start..]) {
        0 => 0xffff,
        sum => sum,
    };
    frame[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071_holds() {
        // RFC 1071, section 3: the words 0001 f203 f4f5 f6f7 sum to ddf2.
        let data = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(internet_checksum(0, &data), !0xddf2);
    }

    #[test]
    fn odd_lengths_are_padded_at_the_end() {
        for len in 0..9 {
            let data: Vec<u8> = (1..=len).collect();
            let mut padded = data.clone();
            padded.resize(usize::from(len).next_multiple_of(2), 0);
            let mut sum: u32 = padded
                .chunks(2)
                .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]))
                .sum();
            sum = (sum >> 16) + (sum & 0xffff);
            assert_eq!(internet_checksum(0, &data), !(sum as u16), "{len} bytes");
        }
    }

    #[test]
    fn a_partial_checksum_is_finished_over_the_rest_of_the_frame() {
        // The frame has two bytes before the transport header. The partial sum 0x1234 is at offset 2 in this header.
        let mut frame = vec![0xaa, 0xbb, 0x00, 0x01, 0x12, 0x34, 0x00, 0x02];
        assert!(complete_checksum(&mut frame, 2, 2));
        assert_eq!(frame[4..6], (!0x1237_u16).to_be_bytes());
    }

    #[test]
    fn a_sum_of_zero_is_sent_as_all_ones() {
        let mut frame = vec![0xff, 0xff, 0x00, 0x00];
        assert!(complete_checksum(&mut frame, 0, 2));
        assert_eq!(frame, [0xff, 0xff, 0xff, 0xff]);
    }

    #[test]
    fn a_field_beyond_the_frame_changes_nothing() {
        let mut frame = vec![1, 2, 3, 4];
        assert!(!complete_checksum(&mut frame, 2, 1));
        assert!(!complete_checksum(&mut frame, usize::MAX, 6));
        assert_eq!(frame, [1, 2, 3, 4]);
    }
}
