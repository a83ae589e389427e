//! The replacement of a port whose interface is gone: no frame arrives, and each frame to send is counted.

use crate::{Frame, Nanos, Port, PortError, PortStatistics};

pub struct LostPort {
    name: String,
    statistics: PortStatistics,
}

impl LostPort {
    /// Replaces the port of that name.
    pub fn new(name: &str) -> LostPort {
        LostPort {
            name: name.to_owned(),
            statistics: PortStatistics::default(),
        }
    }
}

impl Port for LostPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn receive(
        &mut self,
        _now: Nanos,
        _max_frames: usize,
        _take: &mut dyn FnMut(&[u8]),
    ) -> Result<usize, PortError> {
        Ok(0)
    }

    fn transmit(&mut self, _now: Nanos, _frame: Frame<'_>) -> Result<(), PortError> {
        self.statistics.tx_link_down += 1;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    fn statistics(&mut self) -> PortStatistics {
        self.statistics
    }
}
