//! What is told when drivers have done something: taken frames, or ended a turn.

use std::io;
use std::sync::Arc;

use dataplane::OffloadNotice;

use super::grace::ReadTurns;
use super::maps::Maps;
use super::transmit::{Transmit, TurnEnds};
use crate::image::{Heap, Image, MapRole};

/// The programs at the kernel's tracepoints, as long as it lives.
pub(super) struct Tracepoints {
    /// What devices take.
    pub(super) transmit: Transmit,
    /// When turns end, or why nobody sees it.
    turn_ends: io::Result<TurnEnds>,
    /// Turns may overlap on a processor, so their ends say nothing of other packets.
    is_realtime: bool,
    heap: Heap,
}

impl Tracepoints {
    /// # Errors
    /// The kernel's error; it does not say what devices take.
    pub(super) fn new(n_ports: usize, image: &Image, maps: &Maps) -> io::Result<Tracepoints> {
        let map = image.map(MapRole::Heap);
        let map = map.ok_or_else(|| io::Error::other("the image has no heap"))?;
        let fan_out = image.fan_out.as_ref();
        let turns = fan_out.map(|fan_out| maps.get(fan_out.turns));
        let turns = turns.transpose()?;
        let turn_ends = TurnEnds::new(maps.get(map)?, image.heap, turns);
        // Where turns do not end, a device that is full once would be full for ever.
        let turns = turns.filter(|_| turn_ends.is_ok());
        Ok(Tracepoints {
            transmit: Transmit::with_room(n_ports, turns)?,
            turn_ends,
            is_realtime: bpf::is_realtime(),
            heap: image.heap,
        })
    }

    /// What grace periods look at, where turns end some.
    pub(super) fn turns(&self, maps: &Arc<Maps>) -> Option<ReadTurns> {
        self.turn_ends.as_ref().ok().filter(|_| !self.is_realtime)?;
        let (maps, heap) = (Arc::clone(maps), self.heap);
        Some(Box::new(move || {
            // A word that cannot be read is one that stays odd.
            let word = |at| maps.load_u64(at).unwrap_or(u64::MAX);
            heap.turns().map(word).collect()
        }))
    }

    /// What is not there.
    pub(super) fn notice(&self) -> Option<OffloadNotice> {
        let (what, reason) = match &self.turn_ends {
            Err(error) => (
                "the ends of drivers' turns, so changes take longer to be seen, and copies are made for ports that are full",
                error.to_string(),
            ),
            Ok(_) if self.is_realtime => (
                "grace periods of drivers' turns, so changes take longer to be seen",
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
