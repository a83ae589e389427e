//! What another program, which contains this switch as a library, adds to it in code: externs and an offload.

use dataplane::{ControlError, Offload, PayloadExtern, PortId, Switch};

/// The additions of the containing program; `reprise-switch` itself adds nothing.
#[derive(Default)]
pub struct Parts {
    /// Externs that change payloads, with the names by which programs call them. Each worker has externs of its own.
    pub payload_externs: Vec<(String, MadePayloadExtern)>,
    /// Makes the offload of a worker from the worker's number.
    pub offload: Option<Box<dyn Fn(u64) -> Offloaded>>,
}

/// Makes one worker's extern.
pub type MadePayloadExtern = Box<dyn Fn() -> Box<dyn PayloadExtern>>;

/// An offload beside the engine, and the ports that it serves.
pub struct Offloaded {
    /// Starts when the switch begins to forward.
    pub offload: Box<dyn Offload>,
    /// Ports whose frames the offload receives and sends; the frames that the offload punts arrive through these ports.
    pub ports: Vec<PortId>,
}

impl Parts {
    pub(crate) fn register_payload_externs(&self, switch: &mut Switch) -> Result<(), ControlError> {
        let mut externs = self.payload_externs.iter();
        externs.try_for_each(|(name, make)| switch.register_payload_extern(name, make()))
    }
}
