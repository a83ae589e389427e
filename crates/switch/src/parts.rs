//! What is built into a switch beside what its command line chooses.

use dataplane::{ControlError, Offload, PayloadExtern, PortId, Switch};

/// What a switch has beside what its command line chooses; the stock one has nothing.
#[derive(Default)]
pub struct Parts {
    /// Externs that change payloads, by the names that programs call them by. Each worker has its own.
    pub payload_externs: Vec<(String, MadePayloadExtern)>,
    /// What forwards beside the engine of a worker, by the worker's number.
    pub offload: Option<Box<dyn Fn(u64) -> Offloaded>>,
}

/// Makes an extern for a worker.
pub type MadePayloadExtern = Box<dyn Fn() -> Box<dyn PayloadExtern>>;

/// What forwards beside the engine, and where.
pub struct Offloaded {
    /// It begins when frames may come.
    pub offload: Box<dyn Offload>,
    /// The ports that it serves: it takes their frames, of which those that it punts come by them, and
    /// sends by them.
    pub ports: Vec<PortId>,
}

impl Parts {
    pub(crate) fn register_payload_externs(&self, switch: &mut Switch) -> Result<(), ControlError> {
        let mut externs = self.payload_externs.iter();
        externs.try_for_each(|(name, make)| switch.register_payload_extern(name, make()))
    }
}
