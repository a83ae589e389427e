//! Looking at frames before their turn, so that priorities count when the switch is overloaded.
//!
//! A frame's priority is known after its ingress pass only. Frames come to ingress in their order,
//! when every copy of those before them has left; under overload the receive ring overflows and loses
//! frames of every priority alike. So, where the program gives priorities, a frame is taken through
//! ingress now and then while copies wait. One of a high priority overtakes the copies. One of a low
//! priority waits, until its queue is full and refuses packets with all of their copies.
//!
//! The pass of a packet that is refused is work in vain. Egress passes pay for it: where an ingress
//! pass costs no more than an egress pass, the rate of copies stays above 95 % of what it would be
//! without looks, whatever is offered. Frames beyond that are lost in the receive ring without a look.

use crate::limits;

/// When to look, and whether that can be paid for.
#[derive(Debug, Default)]
pub(crate) struct LookAhead {
    /// The program gives priorities.
    is_on: bool,
    /// Egress passes since the last look.
    n_copies: u32,
    /// Egress passes that pay for looks in vain.
    credit: u32,
}

impl LookAhead {
    pub(crate) fn new(is_on: bool) -> Self {
        Self {
            is_on,
            ..Self::default()
        }
    }

    /// An egress pass ran.
    pub(crate) fn earn(&mut self) {
        self.earn_many(1);
    }

    /// So many did.
    pub(crate) fn earn_many(&mut self, n_passes: u32) {
        self.n_copies = self.n_copies.saturating_add(n_passes);
        let most = limits::LOOKS_IN_VAIN_BURST * limits::COPIES_PER_LOOK_IN_VAIN;
        self.credit = self.credit.saturating_add(n_passes).min(most);
    }

    /// Egress passes until a frame may be looked at.
    pub(crate) fn n_passes_left(&self) -> usize {
        let copies = limits::COPIES_PER_LOOK.saturating_sub(self.n_copies);
        let credit = limits::COPIES_PER_LOOK_IN_VAIN.saturating_sub(self.credit);
        match self.is_on {
            true => copies.max(credit) as usize,
            false => usize::MAX,
        }
    }

    /// Whether a frame may be looked at now.
    pub(crate) fn is_due(&self) -> bool {
        self.n_passes_left() == 0
    }

    fn can_pay(&self) -> bool {
        self.credit >= limits::COPIES_PER_LOOK_IN_VAIN
    }

    /// A frame was looked at; in vain, where packets were dropped.
    pub(crate) fn pay(&mut self, was_in_vain: bool) {
        self.n_copies = 0;
        if was_in_vain {
            self.credit -= limits::COPIES_PER_LOOK_IN_VAIN;
        }
    }

    /// Frames that are worth having at hand until somebody asks again.
    pub(crate) fn n_frames_wanted(&self) -> usize {
        match self.is_on && self.can_pay() {
            true => limits::LOOK_AHEAD_FRAMES,
            false => 0,
        }
    }
}
