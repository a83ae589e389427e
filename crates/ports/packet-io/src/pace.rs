//! The number of frames that are sent at once: few at first, then more.
//!
//! A send costs a system call, however many frames it has. If a packet has many copies, the first copy should not wait
//! until the last copy is made. If copies follow each other at once, most of them should share a call. So the first
//! copy after a pause leaves alone, then four copies leave together, and so on.

use crate::limits::{TX_BATCH_GROWTH, TX_FIRST_BATCH_FRAMES};

/// The size of the next batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TxPace {
    n_frames: usize,
    n_frames_max: usize,
}

impl TxPace {
    pub(crate) fn new(n_frames_max: usize) -> TxPace {
        TxPace {
            n_frames: TX_FIRST_BATCH_FRAMES.min(n_frames_max),
            n_frames_max,
        }
    }

    /// Whether this many waiting frames are enough to send.
    pub(crate) fn is_enough(&self, n_waiting: usize) -> bool {
        n_waiting >= self.n_frames
    }

    /// Makes the next batch larger. Called after a batch, when more frames may follow at once.
    pub(crate) fn grow(&mut self) {
        self.n_frames = (self.n_frames * TX_BATCH_GROWTH).min(self.n_frames_max);
    }

    /// Starts again with the smallest batch. Called when no frame follows for now.
    pub(crate) fn rest(&mut self) {
        *self = TxPace::new(self.n_frames_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_grow_up_to_the_largest_and_begin_anew_after_a_rest() {
        let mut pace = TxPace::new(20);
        let mut sizes = || {
            let mut sizes = Vec::new();
            let mut n_waiting = 0;
            for _ in 0..61 {
                n_waiting += 1;
                if pace.is_enough(n_waiting) {
                    sizes.push(n_waiting);
                    n_waiting = 0;
                    pace.grow();
                }
            }
            pace.rest();
            sizes
        };
        assert_eq!(sizes(), [1, 4, 16, 20, 20]);
        assert_eq!(sizes(), [1, 4, 16, 20, 20]);
    }
}
