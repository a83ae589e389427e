//! Programs at two tracepoints of the kernel, which run when a device has taken frames and when a NAPI poll has ended.

use std::io;
use std::sync::Arc;

use dataplane::OffloadNotice;

use super::grace::ReadPolls;
use super::maps::Maps;
use super::transmit::{PollEnds, Transmit};
use crate::image::{Heap, Image, MapRole};

/// The attached programs. They are detached when this is dropped.
pub(super) struct Tracepoints {
    pub(super) transmit: Transmit,
    /// Reports the ends of polls, or holds the reason why they cannot be reported.
    poll_ends: io::Result<PollEnds>,
    /// On PREEMPT_RT, polls on one processor may overlap, so their ends prove nothing about other packets.
    is_realtime: bool,
    heap: Heap,
}

impl Tracepoints {
    /// # Errors
    ///
    /// The kernel's error, or the kernel does not report which frames devices take.
    pub(super) fn new(n_ports: usize, image: &Image, maps: &Maps) -> io::Result<Tracepoints> {
        let map = image.map(MapRole::Heap);
        let map = map.ok_or_else(|| io::Error::other("the image has no heap"))?;
        let fan_out = image.fan_out.as_ref();
        let polls = fan_out.map(|fan_out| maps.get(fan_out.polls));
        let polls = polls.transpose()?;
        let poll_ends = PollEnds::new(maps.get(map)?, image.heap, polls);
        // Without ends of polls, a device that is full once would be considered full for ever.
        let polls = polls.filter(|_| poll_ends.is_ok());
        Ok(Tracepoints {
            transmit: Transmit::with_room(n_ports, polls)?,
            poll_ends,
            is_realtime: bpf::is_realtime(),
            heap: image.heap,
        })
    }

    /// Returns the function that reads each processor's word ([`Heap::polls`]: odd during a NAPI poll) for grace
    /// periods. `None` if polls cannot end grace periods.
    pub(super) fn polls(&self, maps: &Arc<Maps>) -> Option<ReadPolls> {
        self.poll_ends.as_ref().ok().filter(|_| !self.is_realtime)?;
        let (maps, heap) = (Arc::clone(maps), self.heap);
        Some(Box::new(move || {
            // A word that cannot be read counts as odd for ever.
            let word = |at| maps.load_u64(at).unwrap_or(u64::MAX);
            heap.polls().map(word).collect()
        }))
    }

    /// Returns a notice if the kernel does not report the ends of polls, or if these ends prove nothing about other
    /// packets.
    pub(super) fn notice(&self) -> Option<OffloadNotice> {
        let (what, reason) = match &self.poll_ends {
            Err(error) => (
                "the ends of NAPI polls, so packets see changes later, and copies are made in vain for full ports",
                error.to_string(),
            ),
            Ok(_) if self.is_realtime => (
                "grace periods of NAPI polls, so packets see changes later",
                "the kernel is PREEMPT_RT".to_owned(),
            ),
            Ok(_) => return None,
        };
        Some(OffloadNotice::DoesWithout {
            what: what.to_owned(),
            reason,
        })
    }
}
