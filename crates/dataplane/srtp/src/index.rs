//! Packet indices: which index a sequence number means, and which indices a stream has used.

use crate::limits::WINDOW;

/// Why a packet index cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Used {
    /// The stream has had a packet with this index.
    #[error("the stream has had a packet with this index")]
    Before,
    /// The index is so far below the highest one that the stream does not know whether it has been used.
    #[error("the packet is too old")]
    TooOld,
}

/// The indices that a stream has used: the highest one, and those of the [`WINDOW`] below it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    highest: u64,
    /// Bit `n` stands for the index `highest - n`.
    used: u128,
}

impl Window {
    /// Begins with the first index that the stream uses.
    pub fn begin(index: u64) -> Window {
        Window {
            highest: index,
            used: 1,
        }
    }

    pub fn highest(&self) -> u64 {
        self.highest
    }

    /// Checks that an index is new.
    pub fn check(&self, index: u64) -> Result<(), Used> {
        match self.highest.checked_sub(index) {
            None => Ok(()),
            Some(below) if below >= WINDOW => Err(Used::TooOld),
            Some(below) if self.used >> below & 1 == 1 => Err(Used::Before),
            Some(_) => Ok(()),
        }
    }

    /// Marks an index that [`Window::check`] has allowed as used.
    pub fn mark(&mut self, index: u64) {
        match index.checked_sub(self.highest) {
            Some(above) => {
                let shift = u32::try_from(above).unwrap_or(u32::MAX);
                self.used = self.used.checked_shl(shift).unwrap_or(0) | 1;
                self.highest = index;
            }
            None => self.used |= 1 << (self.highest - index),
        }
    }
}

/// Returns the index that a sequence number most likely means, given the highest index of the stream (RFC 3711, section
/// 3.3.1 and appendix A): the index nearest to the highest one. `None`: the nearest is below 0, from before the stream's
/// first packet.
pub fn nearest(highest: u64, sequence: u16) -> Option<u64> {
    let (roll_over, last) = (highest >> 16, (highest & 0xffff) as u16);
    let roll_over = if last < 0x8000 && sequence.wrapping_sub(last) > 0x8000 && sequence > last {
        roll_over.checked_sub(1)?
    } else if last >= 0x8000 && sequence < last - 0x8000 {
        roll_over + 1
    } else {
        roll_over
    };
    Some(roll_over << 16 | u64::from(sequence))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_number_means_the_nearest_index() {
        for (highest, sequence, expected) in [
            (5, 6, Some(6)),
            (5, 3, Some(3)),
            (5, 0x8005, Some(0x8005)),
            (5, 0x8006, None),
            (5, 0xffff, None),
            (0x1_0005, 0xffff, Some(0xffff)),
            (0xffff, 0, Some(0x1_0000)),
            (0xffff, 0x7ffe, Some(0x1_7ffe)),
            (0xffff, 0x7fff, Some(0x7fff)),
            (0x9000, 0x1000, Some(0x1000)),
            (0x9000, 0x0fff, Some(0x1_0fff)),
        ] {
            assert_eq!(
                nearest(highest, sequence),
                expected,
                "{highest:x} {sequence:x}"
            );
        }
    }

    #[test]
    fn an_index_can_be_used_once() {
        let mut random = fastrand::Rng::with_seed(3);
        let first = 1_000;
        let (mut window, mut used) = (Window::begin(first), vec![first]);
        for _ in 0..20_000 {
            let highest = window.highest();
            let index = highest.saturating_sub(150) + random.u64(0..160);
            let expected = if highest.saturating_sub(index) >= WINDOW {
                Err(Used::TooOld)
            } else if used.contains(&index) {
                Err(Used::Before)
            } else {
                Ok(())
            };
            assert_eq!(window.check(index), expected, "{index} of {highest}");
            if expected.is_ok() {
                window.mark(index);
                used.push(index);
                let n = used.len().saturating_sub(400);
                used.drain(..n);
            }
        }
    }
}
