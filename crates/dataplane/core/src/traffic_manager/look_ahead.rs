//! Look-ahead: runs ingress of frames early, so that priorities count under overload.
//!
//! The priority of a frame is known only after its ingress pass. Normally a frame runs ingress when all copies of
//! earlier frames have left. Under overload the receive ring then overflows and loses frames of every priority alike.
//! So, if the program sets priorities, a frame occasionally runs ingress while copies wait. A frame of high priority
//! overtakes the copies. A frame of low priority waits in its queue; a full queue refuses further packets with all of
//! their copies.
//!
//! The ingress pass of a refused packet is wasted. Each egress pass earns credit, and each wasted ingress pass costs
//! credit: if an ingress pass costs no more time than an egress pass, the rate of copies stays above 95 % of the rate
//! without look-ahead, whatever the load. Without credit there is no look-ahead, and further frames are lost in the
//! receive ring without a pass.

use crate::limits;

/// Decides when to look ahead, and accounts for the credit.
#[derive(Debug, Default)]
pub(crate) struct LookAhead {
    /// Whether the program sets priorities.
    is_on: bool,
    /// Egress passes since the last look-ahead.
    n_copies: u32,
    /// Egress passes whose credit is not yet spent on wasted look-aheads.
    credit: u32,
}

impl LookAhead {
    pub(crate) fn new(is_on: bool) -> Self {
        Self {
            is_on,
            ..Self::default()
        }
    }

    pub(crate) fn earn(&mut self) {
        self.earn_many(1);
    }

    pub(crate) fn earn_many(&mut self, n_passes: u32) {
        self.n_copies = self.n_copies.saturating_add(n_passes);
        let most = limits::LOOKS_IN_VAIN_BURST * limits::COPIES_PER_LOOK_IN_VAIN;
        self.credit = self.credit.saturating_add(n_passes).min(most);
    }

    /// Egress passes until the next look-ahead is allowed.
    pub(crate) fn n_passes_left(&self) -> usize {
        let copies = limits::COPIES_PER_LOOK.saturating_sub(self.n_copies);
        let credit = limits::COPIES_PER_LOOK_IN_VAIN.saturating_sub(self.credit);
        if self.is_on {
            copies.max(credit) as usize
        } else {
            usize::MAX
        }
    }

    pub(crate) fn is_due(&self) -> bool {
        self.n_passes_left() == 0
    }

    fn can_pay(&self) -> bool {
        self.credit >= limits::COPIES_PER_LOOK_IN_VAIN
    }

    /// Accounts for a look-ahead. If `was_in_vain`, the look-ahead dropped packets, and so it costs credit.
    pub(crate) fn pay(&mut self, was_in_vain: bool) {
        self.n_copies = 0;
        if was_in_vain {
            self.credit -= limits::COPIES_PER_LOOK_IN_VAIN;
        }
    }

    /// How many frames the caller should keep available in the ingress queue until it asks again.
    pub(crate) fn n_frames_wanted(&self) -> usize {
        if self.is_on && self.can_pay() {
            limits::LOOK_AHEAD_FRAMES
        } else {
            0
        }
    }
}
