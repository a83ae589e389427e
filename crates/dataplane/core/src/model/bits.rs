//! Reads and writes bit fields in network order: the first field has the highest bits.

use crate::value::{self, Int};

#[derive(Debug, Default)]
pub(crate) struct BitWriter {
    bytes: Vec<u8>,
    /// Bits that do not fill a byte yet, right aligned.
    partial: u8,
    partial_bits: u32,
}

impl BitWriter {
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes),
            ..Self::default()
        }
    }

    /// Clears the vector and reuses its allocation.
    pub(crate) fn with_buffer(mut bytes: Vec<u8>) -> Self {
        bytes.clear();
        Self {
            bytes,
            ..Self::default()
        }
    }

    pub(crate) fn push(&mut self, value: &Int, bits: u32) {
        if self.partial_bits == 0 && bits.is_multiple_of(8) {
            value::push_be_bytes(&mut self.bytes, value, bits);
            return;
        }
        // The first byte of the value holds only its highest `first` bits, after padding zeros that
        // are not pushed.
        let first = match bits % 8 {
            0 => 8,
            rest => rest,
        };
        let mut width = first;
        for byte in value::to_be_bytes(value, bits) {
            self.push_small(byte, width);
            width = 8;
        }
    }

    fn push_small(&mut self, value: u8, bits: u32) {
        let joined = (u16::from(self.partial) << bits) | u16::from(value);
        let n_bits = self.partial_bits + bits;
        if n_bits >= 8 {
            self.partial_bits = n_bits - 8;
            let [_, byte] = (joined >> self.partial_bits).to_be_bytes();
            self.bytes.push(byte);
        } else {
            self.partial_bits = n_bits;
        }
        let [_, low] = joined.to_be_bytes();
        self.partial = low & low_mask(self.partial_bits);
    }

    /// Returns the bytes; the last byte is padded with zero bits.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        if self.partial_bits > 0 {
            self.bytes.push(self.partial << (8 - self.partial_bits));
        }
        self.bytes
    }
}

fn low_mask(bits: u32) -> u8 {
    let [_, mask] = ((1u16 << bits) - 1).to_be_bytes();
    mask
}

/// Reads `bits` bits at bit `offset`; `bytes` must be long enough.
pub(crate) fn read(bytes: &[u8], offset: usize, bits: u32) -> Int {
    let end = offset + bits as usize;
    let bytes = &bytes[offset / 8..end.div_ceil(8)];
    let surplus = (8 - end % 8) % 8;
    if bytes.len() <= 16 {
        let mut number = 0u128;
        for byte in bytes {
            number = (number << 8) | u128::from(*byte);
        }
        number >>= surplus;
        if bits < 128 {
            number &= (1 << bits) - 1;
        }
        return Int::from(number);
    }
    (value::from_be_bytes(bytes) >> surplus) & value::ones(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_any_width_come_back_from_where_they_were_put() {
        let widths = [4u32, 4, 6, 2, 16, 3, 13, 1, 127, 128, 129, 7, 33];
        let mut writer = BitWriter::default();
        for (i, bits) in widths.iter().enumerate() {
            writer.push(
                &(value::ones(*bits) - Int::from(u8::from(i % 2 == 0))),
                *bits,
            );
        }
        let bytes = writer.finish();
        let mut offset = 0;
        for (i, bits) in widths.iter().enumerate() {
            let expected = value::ones(*bits) - Int::from(u8::from(i % 2 == 0));
            assert_eq!(read(&bytes, offset, *bits), expected, "field {i}");
            offset += *bits as usize;
        }
        assert_eq!(bytes.len(), offset.div_ceil(8));
    }
}
