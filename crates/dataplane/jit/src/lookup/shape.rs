//! The places of a key's fields in the key's words.
//!
//! A key is packed into few 64-bit words. A field of up to 64 bits is never split between two words, so that reading or
//! writing it takes one shift and one mask. A wider field begins at the start of a word and takes several words, the
//! least significant first; narrow fields may use the free bits of the last word.

const WORD_BITS: u32 = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldPlace {
    /// The word of the field's least significant bit.
    pub word: usize,
    /// The position of that bit in the word; 0 if the field is wider than a word.
    pub shift: u32,
    pub bits: u32,
}

impl FieldPlace {
    pub fn words(&self) -> usize {
        self.bits.div_ceil(WORD_BITS).max(1) as usize
    }

    /// Mask of the field's bits in its `limb`-th word, not shifted.
    fn limb_mask(&self, limb: usize) -> u64 {
        let below = u32::try_from(limb).map_or(self.bits, |limb| limb.saturating_mul(WORD_BITS));
        low_ones(self.bits.saturating_sub(below).min(WORD_BITS))
    }

    /// The `limb`-th 64 bits of the field's value in a key.
    #[inline]
    pub fn limb(&self, key: &[u64], limb: usize) -> u64 {
        (key[self.word + limb] >> self.shift) & self.limb_mask(limb)
    }

    /// Writes a value to the field's bits, which must be zero before. The value is given in 64-bit words, the least
    /// significant first. Bits beyond the field's width are cut off; missing words count as zero.
    pub fn put(&self, value: &[u64], key: &mut [u64]) {
        for (limb, part) in value.iter().enumerate().take(self.words()) {
            key[self.word + limb] |= (part & self.limb_mask(limb)) << self.shift;
        }
    }
}

/// The number whose lowest `bits` bits are one.
pub fn low_ones(bits: u32) -> u64 {
    match bits {
        0 => 0,
        1..=63 => (1 << bits) - 1,
        _ => u64::MAX,
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyShape {
    fields: Vec<FieldPlace>,
    words: usize,
}

impl KeyShape {
    /// Places fields of these widths, the widest first, each into the first word that has room.
    pub fn new(widths: &[u32]) -> Self {
        Self::with_lowest(widths, None)
    }

    /// Places fields as [`KeyShape::new`] does, but puts the field `lowest`, if given, into the lowest bits: if the
    /// words are read as one number, the first word lowest, all other fields are above this field.
    pub fn with_lowest(widths: &[u32], lowest: Option<usize>) -> Self {
        let mut order: Vec<usize> = (0..widths.len()).collect();
        order.sort_by_key(|field| (Some(*field) != lowest, std::cmp::Reverse(widths[*field])));
        let mut used: Vec<u32> = Vec::new();
        let nowhere = FieldPlace {
            word: 0,
            shift: 0,
            bits: 0,
        };
        let mut fields = vec![nowhere; widths.len()];
        // A field without bits has no place, but a key with fields has at least one word.
        for index in order.into_iter().filter(|index| widths[*index] > 0) {
            let bits = widths[index];
            let room = used.iter().position(|used| used + bits <= WORD_BITS);
            let (word, shift) = match room {
                Some(word) => (word, used[word]),
                None => {
                    let first = used.len();
                    let whole = (bits / WORD_BITS) as usize;
                    used.resize(first + whole, WORD_BITS);
                    if !bits.is_multiple_of(WORD_BITS) {
                        used.push(0);
                    }
                    (first, 0)
                }
            };
            fields[index] = FieldPlace { word, shift, bits };
            if !bits.is_multiple_of(WORD_BITS) {
                let last = word + (bits / WORD_BITS) as usize;
                used[last] += bits % WORD_BITS;
            }
        }
        let words = used.len().max(usize::from(!widths.is_empty()));
        Self { fields, words }
    }

    /// The fields' places, in the order of the key.
    pub fn fields(&self) -> &[FieldPlace] {
        &self.fields
    }

    pub fn words(&self) -> usize {
        self.words
    }

    /// Packs these values into a key; each has its least significant 64 bits first.
    pub fn pack<'v>(&self, values: impl IntoIterator<Item = &'v [u64]>) -> Vec<u64> {
        let mut key = vec![0; self.words];
        for (place, value) in self.fields.iter().zip(values) {
            place.put(value, &mut key);
        }
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_five_tuple_fills_two_words() {
        let shape = KeyShape::new(&[32, 32, 8, 16, 16]);
        assert_eq!(shape.words(), 2);
        let values: [&[u64]; 5] = [&[0x0a00_0001], &[0x0a00_0002], &[17], &[5000], &[6000]];
        let key = shape.pack(values);
        for (place, value) in shape.fields().iter().zip(values) {
            assert_eq!(place.limb(&key, 0), value[0]);
        }
    }

    #[test]
    fn fields_of_any_widths_do_not_overlap() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..2_000 {
            let widths: Vec<u32> = (0..random.usize(1..8))
                .map(|_| random.u32(0..200))
                .collect();
            let shape = KeyShape::new(&widths);
            let mut seen = vec![0u64; shape.words()];
            for place in shape.fields() {
                let mut alone = vec![0u64; shape.words()];
                place.put(&vec![u64::MAX; place.words()], &mut alone);
                let ones: u32 = alone.iter().map(|word| word.count_ones()).sum();
                assert_eq!(ones, place.bits, "{widths:?}");
                for (seen, alone) in seen.iter_mut().zip(alone) {
                    assert_eq!(*seen & alone, 0, "{widths:?}");
                    *seen |= alone;
                }
            }
        }
    }
}
