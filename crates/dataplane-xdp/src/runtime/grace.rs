//! How many grace periods have ended, so that what packets may still see is not written over.

use std::io;

/// A moment: when something was done last that packets may see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

impl Moment {
    /// Before any packet.
    pub(crate) const NEVER: Moment = Moment(0);
}

/// Counts grace periods. One thread alone writes and waits, so a period that is counted after a
/// moment has begun after it.
#[derive(Debug)]
pub(crate) struct Graces {
    n_ended: u64,
}

impl Graces {
    pub(crate) fn new() -> Graces {
        Graces { n_ended: 1 }
    }

    /// Now.
    pub(crate) fn now(&self) -> Moment {
        Moment(self.n_ended)
    }

    /// Whether no packet is left that came before.
    pub(crate) fn is_past(&self, moment: Moment) -> bool {
        self.n_ended > moment.0
    }

    /// Waits until no packet is left that came before.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn wait_past(&mut self, moment: Moment) -> io::Result<()> {
        while !self.is_past(moment) {
            bpf::wait_for_programs()?;
            self.n_ended += 1;
        }
        Ok(())
    }
}
