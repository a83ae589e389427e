//! Reads from the kernel the digests that the control plane has not taken yet.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use bpf::RingBuffer;
use dataplane::Program;
use dataplane::offload::Accounts;

use super::maps::Maps;
use crate::image::{DigestRecord, Image, MapRole};

/// Reads digests. `ring` is `None` if the program sends no digests.
pub(super) struct Digests {
    ring: Option<RingBuffer>,
    program: Program,
}

impl Digests {
    /// # Errors
    /// The kernel's error.
    pub(super) fn new(program: &Program, image: &Image, maps: &Maps) -> io::Result<Digests> {
        let map = image.map(MapRole::Digests);
        let map = map.map(|map| maps.get(map)?.try_clone()).transpose()?;
        Ok(Digests {
            ring: map.map(RingBuffer::new).transpose()?,
            program: program.clone(),
        })
    }

    /// Passes at most `n_max` digests to `accounts` and returns how many.
    pub(super) fn take(&mut self, n_max: usize, accounts: &mut Accounts<'_>) -> usize {
        let Some(ring) = &mut self.ring else {
            return 0;
        };
        let ir = self.program.ir();
        ring.read(
            n_max,
            &mut |message| match DigestRecord::decode(ir, message) {
                Some(digest) => accounts.digest(digest),
                None => accounts.digests_lost(1),
            },
        )
    }

    /// Returns a descriptor that is readable while digests are waiting.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.ring.as_ref().map(AsFd::as_fd)
    }
}
