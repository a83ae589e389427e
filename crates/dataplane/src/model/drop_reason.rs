//! Why a packet ended inside the switch: every end that is no transmission has a reason here.

use std::fmt;

macro_rules! drop_reasons {
    ($($(#[$doc:meta])* $variant:ident => $name:literal,)*) => {
        /// Why a packet was dropped.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum DropReason {
            $($(#[$doc])* $variant,)*
        }

        impl DropReason {
            /// Every reason, in the order of the counters.
            pub const ALL: &'static [DropReason] = &[$(DropReason::$variant,)*];

            /// The name that counters, traces and the control protocol use.
            pub const fn name(self) -> &'static str {
                match self {
                    $(DropReason::$variant => $name,)*
                }
            }
        }
    };
}

drop_reasons! {
    /// No program is loaded.
    NoPipeline => "no_pipeline",
    /// The frame came from a port that the switch does not have.
    PortUnknown => "port_unknown",
    /// The frame came by a port that is disabled, or was to leave by one.
    PortDisabled => "port_disabled",
    /// The program was replaced while the packet was inside.
    PipelineChanged => "pipeline_changed",
    /// Longer than [`crate::limits::FRAME_BYTES_MAX`].
    FrameTooLong => "frame_too_long",
    /// The ingress queue was full.
    IngressQueueFull => "ingress_queue_full",
    /// The queue of recirculated and resubmitted packets was full.
    RecirculationQueueFull => "recirculation_queue_full",
    /// The queue of the output port was full.
    EgressQueueFull => "egress_queue_full",
    /// The program gave the drop port as output port at the end of ingress.
    IngressDrop => "ingress_drop",
    /// The program gave the drop port as output port at the end of egress.
    EgressDrop => "egress_drop",
    /// The multicast group was never set up.
    MulticastGroupUnknown => "multicast_group_unknown",
    /// The multicast group has no replica.
    MulticastGroupEmpty => "multicast_group_empty",
    /// The clone session was never set up; the clone, not the packet, is dropped.
    CloneSessionUnknown => "clone_session_unknown",
    /// The clone session has no replica; the clone, not the packet, is dropped.
    CloneSessionEmpty => "clone_session_empty",
    /// The priority is beyond the port's queues.
    PriorityOutOfRange => "priority_out_of_range",
    /// Too many packet-ins wait for the control plane.
    PacketInQueueFull => "packet_in_queue_full",
    /// The packet leaves on a port that the switch does not have.
    EgressPortUnknown => "egress_port_unknown",
    /// Too many recirculations of one packet.
    RecirculationLimit => "recirculation_limit",
    /// Too many resubmissions of one packet.
    ResubmitLimit => "resubmit_limit",
    /// Too many generations of clones.
    CloneLimit => "clone_limit",
    /// Too many rounds of the loops of one action.
    LoopLimit => "loop_limit",
    /// An `assert` of the program did not hold.
    AssertionFailed => "assertion_failed",
    /// An `assume` of the program did not hold.
    AssumptionFailed => "assumption_failed",
    /// The offload was stopped while the packet was inside of it.
    OffloadStopped => "offload_stopped",
    /// The output port's device did not take the packet from the offload: its queue was full, or it was down.
    DeviceRefused => "device_refused",
    /// The extern that was to change the packet's payload could not, for example for want of a key.
    PayloadExternFailed => "payload_extern_failed",
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
